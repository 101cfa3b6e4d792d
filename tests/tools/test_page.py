"""One page that needs nothing but itself."""

import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from casmap.errors import UserError
from casmap.io.images import encode_png, open_image
from casmap.tools.page import Curve, Section, curve, write_page


class Elements(HTMLParser):
    """All tags with their attributes, and all text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)


def picture(value=7):
    return np.full((4, 6, 3), value, np.uint8)


@pytest.fixture
def page(tmp_path):
    """A page with something of each kind on it."""
    path = tmp_path / "page.html"
    logs = {"CASM": [{"step": step, "area": 1 / step} for step in range(1, 41)]}
    sections = [
        Section("Results", "All of them.", ["", "CASM"], [["LE ↓", "36.1 [35.0, 37.2]"]]),
        Section("Maps", images=[("CASM's maps", encode_png(picture()))]),
        Section("Training", curves=[curve("mean mask area", "area", logs)]),
    ]
    write_page(path, "A title", "What this is.", sections)
    return path


def test_the_page_asks_for_nothing_outside_itself(page):
    text = page.read_text()
    addresses = [
        value
        for _, attributes in Elements(text).tags
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "data", "action", "poster", "xlink:href")
    ]
    assert addresses
    assert all(address.startswith("data:") for address in addresses)
    assert not re.search(r"https?:|//[a-z]|@import|url\(", re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]*", "", text))
    assert not {"script", "link", "iframe"} & {tag for tag, _ in Elements(text).tags}


def test_the_page_shows_all_that_it_was_given(page):
    found = Elements(page.read_text())
    text = " ".join(found.texts)
    for part in ("A title", "What this is.", "Results", "All of them.", "LE ↓", "36.1 [35.0, 37.2]", "CASM's maps"):
        assert part in text
    assert "mean mask area" in text
    assert [tag for tag, _ in found.tags].count("polyline") == 1


def test_names_are_text_and_never_markup(tmp_path):
    evil = '<script>alert("x")</script> & "quoted"'
    path = tmp_path / "page.html"
    lines = Curve(evil, {evil: [(1.0, 2.0), (2.0, 1.0)]})
    section = Section(evil, evil, [evil], [[evil]], [(evil, encode_png(picture()))], [lines])
    write_page(path, evil, evil, [section])
    found = Elements(path.read_text())
    tags = [tag for tag, _ in found.tags]
    assert "script" not in tags
    assert found.texts.count(evil) >= 5
    image = next(attributes for tag, attributes in found.tags if tag == "img")
    assert image["alt"] == evil
    assert set(image) == {"src", "alt"}


def test_the_page_is_written_whole_or_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file"):
        write_page(tmp_path / "file" / "page.html", "A title", "", [])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_picture_comes_back_from_its_address(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    write_page(tmp_path / "page.html", "A title", "", [Section("Maps", images=[("a map", encode_png(image))])])
    tags = Elements((tmp_path / "page.html").read_text()).tags
    head, _, content = next(attributes for tag, attributes in tags if tag == "img")["src"].partition(",")
    assert head == "data:image/png;base64"
    np.testing.assert_array_equal(open_image(base64.b64decode(content)), image)


# ---------------------------------------------------------------------------------------------- curves


def test_a_curve_is_the_mean_of_a_few_steps_each():
    log = [{"step": step, "area": float(step)} for step in range(1, 26)]
    drawn = curve("area", "area", {"CASM": log}, smooth=10)
    assert drawn.title == "area"
    assert drawn.lines == {"CASM": [(10, 5.5), (20, 15.5), (25, 23.0)]}


def test_points_fill_the_drawing_from_the_lower_left_to_the_highest_value():
    drawn = Curve("area", {"a": [(0.0, 0.0), (5.0, 1.0)], "b": [(10.0, 2.0)]})
    assert drawn.top == 2.0
    assert drawn.paths() == [
        ("a", f"0.0,{Curve.HEIGHT:.1f} {Curve.WIDTH / 2:.1f},{Curve.HEIGHT / 2:.1f}"),
        ("b", f"{Curve.WIDTH:.1f},0.0"),
    ]


def test_a_curve_of_zeros_can_be_drawn():
    assert Curve("area", {"a": [(1.0, 0.0), (2.0, 0.0)]}).paths()[0][1].endswith(f",{Curve.HEIGHT:.1f}")
