"""XML files as VOC, ILSVRC and LabelImg write them, and damaged ones."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casmap.annotations.formats.voc import parse_xml, read_xml
from casmap.annotations.types import Kind, Names


def xml(*objects, size=(40, 30), database=""):
    """objects: name, x0, y0, x1, y1, and further tags."""
    objects = "".join(
        f"<object><name>{name}</name>{''.join(more)}<bndbox><xmin>{x0}</xmin><ymin>{y0}</ymin>"
        f"<xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox></object>"
        for name, x0, y0, x1, y1, *more in objects
    )
    head = f"<source><database>{database}</database></source><size><width>{size[0]}</width><height>{size[1]}</height>"
    return f"<annotation>{head}<depth>3</depth></size>{objects}</annotation>"


@pytest.fixture
def parsed(tmp_path):
    def parse(text, **options):
        path = tmp_path / "a.xml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return parse_xml(path, **options)

    return parse


def test_boxes_of_ilsvrc_are_edges_as_they_are(parsed):
    known = parsed(xml(("n01440764", 0, 5, 40, 30), database="ILSVRC_2012"))
    assert [(one.name, one.box) for one in known.objects] == [("n01440764", (0, 5, 40, 30))]
    assert known.size == (40, 30)
    assert known.problems == []


@pytest.mark.parametrize("options", [{"voc": True}, {"voc": False}])
def test_boxes_of_voc_count_from_one_and_include_their_last_pixel(parsed, options):
    text = xml(("cat", 1, 1, 40, 30), ("dog", 7, 7, 7, 7), database="The VOC2012 Database")
    assert [one.box for one in parsed(text, **options).objects] == [(0, 0, 40, 30), (6, 6, 7, 7)]


def test_the_boxes_of_an_objects_parts_are_not_its_box(parsed):
    part = "<part><name>head</name><bndbox><xmin>2</xmin><ymin>2</ymin><xmax>3</xmax><ymax>3</ymax></bndbox></part>"
    assert [one.box for one in parsed(xml(("person", 1, 1, 9, 9, part))).objects] == [(1, 1, 9, 9)]


def test_difficult_objects_are_marked(parsed):
    known = parsed(
        xml(("cat", 1, 1, 9, 9, "<difficult>1</difficult>"), ("cat", 1, 1, 8, 8, "<difficult>0</difficult>"))
    )
    assert [one.difficult for one in known.objects] == [True, False]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 15), st.integers(20, 40), st.integers(15, 30)), max_size=4)
)
def test_boxes_are_read_as_they_were_written(parsed, pixels):
    """First and last pixels, counted from one: the edges enclose as many pixels as there are."""
    known = parsed(xml(*(("cat", *box) for box in pixels)), voc=True)
    for (x0, y0, x1, y1), one in zip(pixels, known.objects, strict=True):
        assert one.area == len(range(x0, x1 + 1)) * len(range(y0, y1 + 1))
        assert one.box == (x0 - 1, y0 - 1, x1, y1)


@pytest.mark.parametrize("voc", [True, False])
@pytest.mark.parametrize("box", [("x", 1, 9, 9), ("", 1, 9, 9), (9, 1, 5, 9), ("nan", 1, 9, 9), (1, 1, "1e999", 9)])
def test_a_bad_box_is_left_out_and_the_others_stay(parsed, box, voc):
    known = parsed(xml(("cat", *box), ("dog", 2, 2, 5, 5)), voc=voc)
    assert [one.name for one in known.objects] == ["dog"]
    assert [problem.kind for problem in known.problems] == [Kind.BOX_SKIPPED]
    assert known.problems[0].what.startswith("a.xml: ")


def test_an_object_without_a_box_is_left_out(parsed):
    known = parsed("<annotation><object><name>cat</name></object></annotation>")
    assert known.objects == []
    assert [problem.kind for problem in known.problems] == [Kind.BOX_SKIPPED]


@pytest.mark.parametrize("size", [(0, 0), ("", 3), ("many", 3), (-4, 3), ("9" * 50, 3)])
def test_a_size_that_is_none_is_not_known(parsed, size):
    assert parsed(xml(size=size)).size is None


BOMB = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;&b;">]><annotation>&c;</annotation>'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<annotation>",
        "<annotation><object></annotation>",
        "Dear Kevin",
        b"\x89PNG\r\n\x1a\n\0\0",
        BOMB,
        '<!DOCTYPE a SYSTEM "file:///etc/hostname"><annotation/>',
        BOMB.encode("utf-16"),
        b"<?xml version='1.0' encoding='cp037'?>" + BOMB.encode("cp037"),
    ],
)
def test_a_malformed_or_dangerous_file_is_left_out(parsed, text):
    known = parsed(text)
    assert not known.objects
    assert [problem.kind for problem in known.problems] == [Kind.MALFORMED]
    assert "&" not in known.problems[0].what


def test_a_huge_file_is_left_out(parsed):
    assert [p.kind for p in parsed("<annotation>" + " " * 11_000_000 + "</annotation>").problems] == [Kind.MALFORMED]


def test_files_are_found_by_the_photos_names(tmp_path):
    for name in ("cat/a", "b", "cat/gone", ".hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.xml").write_text(xml((name.replace("/", "-"), 1, 1, 5, 5)))
    source = read_xml(tmp_path, Names(["cat/a.jpg", "dog/b.jpg", "dog/c.jpg"]))
    assert [one.name for one in source.of("cat/a.jpg").objects] == ["cat-a"]
    assert [one.name for one in source.of("dog/b.jpg").objects] == ["b"]
    assert not source.of("dog/c.jpg").objects
    assert [(problem.kind, problem.what) for problem in source.problems] == [(Kind.NO_PHOTO, "cat/gone.xml")]
