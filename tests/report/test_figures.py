import json
import xml.etree.ElementTree as ET

import pytest

from dpassay.errors import InvalidArgument
from dpassay.report.figures import Picture, house_style, panels, save, save_all, svg_of


def _picture(name="line", caption="goes up & on"):
    with house_style():
        figure, (left, right) = panels(2)
        left.plot([0, 1], [0, 1], label="ε")
        right.fill_between([0, 1], [0, 1])
        left.legend()
    return Picture(name, "A line < a curve", caption, figure, {"slope": 1.0}, {"x": [0, 1]})


def test_svg_is_the_same_every_time_and_described():
    one, other = svg_of(_picture()), svg_of(_picture())
    assert one == other
    root = ET.fromstring(one)
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text == "A line < a curve"
    assert root.find(f"{space}desc").text == "goes up & on"
    assert "<dc:date>" not in one
    assert "ε" in "".join(root.itertext())  # text stays text


def test_the_style_is_put_back():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    _picture()
    assert dict(mpl.rcParams) == before


def test_save_all(tmp_path):
    files = save_all(
        [_picture()], tmp_path / "new", title="T", introduction="I", image_format="png"
    )
    assert [path.name for path in files] == ["line.png", "numbers.json", "index.html"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    numbers = json.loads(files[1].read_text())
    assert numbers["line"]["facts"] == {"slope": 1.0}
    page = files[2].read_text(encoding="utf-8")
    assert 'src="line.png"' in page
    assert "goes up &amp; on" in page


def test_png_is_the_same_every_time(tmp_path):
    one = save(_picture("one"), tmp_path, "png").read_bytes()
    assert one == save(_picture("other"), tmp_path, "png").read_bytes()


def test_an_unknown_format_is_named(tmp_path):
    with pytest.raises(InvalidArgument, match="image_format='pdf'"):
        save_all([], tmp_path, title="T", introduction="I", image_format="pdf")
