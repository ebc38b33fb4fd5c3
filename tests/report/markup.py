"""A reader of pages that notes what makes one sound: nesting, ids, headings, tables, figures."""

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br"}
ADDRESSES = ("href", "src", "xlink:href", "action", "data", "srcset", "poster")


class Page(HTMLParser):
    """What is wrong with a page, in words; ``faults`` is empty for a sound one."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.used, self.headings = [], [], set(), []
        self.faults, self.tags, self.words = [], [], []
        self.size = len(text.encode())
        self.feed(text)
        self.close()
        self._conclude(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag not in VOID:
            self.open.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        self.used |= set(given.get("aria-labelledby", "").split())
        self._addresses(given)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "th" and "scope" not in given:
            self.faults.append("th without scope")
        if tag == "svg" and given.get("role") == "img" and "aria-labelledby" not in given:
            self.faults.append("picture without a label")
        if tag in ("script", "iframe", "object", "embed", "form") or any(
            n[:2] == "on" for n in given
        ):
            self.faults.append(f"active content: {tag} {given}")

    def _addresses(self, given):
        for name in ADDRESSES:
            where = given.get(name, "#")
            if where.startswith("#"):
                self.used |= {where[1:]} - {""}
            elif where != "data:,":
                self.faults.append(f"address: {where}")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes nothing")

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        """What can be read, in one line."""
        return " ".join(" ".join(self.words).split())

    def _conclude(self, text):
        self.used |= set(re.findall(r"url\(#([^)]+)\)", text))
        if self.open:
            self.faults.append(f"left open: {self.open}")
        if len(set(self.ids)) < len(self.ids):
            self.faults.append(
                f"ids used twice: {sorted({i for i in self.ids if self.ids.count(i) > 1})}"
            )
        if self.used - set(self.ids):
            self.faults.append(f"ids that are not there: {sorted(self.used - set(self.ids))}")
        steps = [b - a for a, b in zip([0, *self.headings], self.headings, strict=False)]
        if self.headings.count(1) != 1 or max(steps) > 1:
            self.faults.append(f"headings: {self.headings}")
        if re.search(r"url\(\s*['\"]?(?!#)", text) or "@import" in text:
            self.faults.append("a style that fetches")
