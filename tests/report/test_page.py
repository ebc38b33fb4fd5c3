import xml.etree.ElementTree as ET

from dpassay.report.page import Section, compact, image, inline, page, table

SVG = (
    '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" aria-labelledby="title desc">'
    '<title id="title">t</title><desc id="desc">d</desc><defs><g id="a"/></defs>'
    '<use href="#a"/><rect clip-path="url(#a)"/></svg>'
)


def test_text_is_escaped_and_pictures_are_not():
    text = page("a < b", "x & y\n\nz", [Section("<t>", "c < d", image("f.svg", 'say "f"'))])
    assert "<h1>a &lt; b</h1>" in text
    assert "<p>x &amp; y</p>\n<p>z</p>" in text
    assert "<h2>&lt;t&gt;</h2>" in text
    assert '<img src="f.svg" alt="say &quot;f&quot;">' in text
    assert "<figcaption>c &lt; d</figcaption>" in text
    assert "<script" not in text


def test_inline_makes_every_id_its_own():
    root = ET.fromstring(inline(SVG, "one"))
    ids = [part.get("id") for part in root.iter() if part.get("id")]
    assert ids == ["one-title", "one-desc", "one-a"]
    assert root.get("aria-labelledby") == "one-title one-desc"
    use, rect = root[-2:]
    assert use.get("href") == "#one-a"
    assert rect.get("clip-path") == "url(#one-a)"


def test_a_smaller_picture_keeps_its_text():
    """Places are shortened, numbers that are read are not: a rounded bound may be none."""
    svg = (
        "<svg><metadata>who</metadata><style>* {a: b}</style><!-- c -->\n\n  "
        '<desc>at least 1.23456</desc><path d="M 1.23456 7.0001"/><text x="7">2.71828</text></svg>'
    )
    assert compact(svg) == (
        '<svg>\n<desc>at least 1.23456</desc><path d="M 1.23 7"/><text x="7">2.71828</text></svg>'
    )


def test_tables_have_headers_and_no_markup_of_others():
    text = table([("a<b", "1 & 2")], head=("", "c"), caption="d", kind="facts")
    assert '<table class="facts">\n<caption>d</caption>' in text
    assert '<thead><tr><td></td><th scope="col">c</th></tr></thead>' in text
    assert '<tr><th scope="row">a&lt;b</th><td>1 &amp; 2</td></tr>' in text
