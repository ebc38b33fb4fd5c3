import xml.etree.ElementTree as ET

from dpassay.report.page import Section, image, inline, page

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
