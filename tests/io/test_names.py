"""Names of files: any bytes as text and back, and output names that fit."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from casmap.annotations.types import Names
from casmap.io.atomic import temporary_name, write_whole
from casmap.io.names import LONGEST, escaped, file_name, read_name, unique_names, written

ODD = st.sampled_from([b"\\", b"x", b"e9", b"\\xe9", b"\\x5c", b"\xe9", b"\xc3", b"\xc2\x85", b"\n", b"\x1b]0;", b"a"])
BYTES = st.one_of(
    st.binary(min_size=1, max_size=40).map(lambda raw: raw.replace(b"\0", b"").replace(b"/", b"") or b"a"),
    st.lists(ODD, min_size=1, max_size=8).map(b"".join),
)


@given(BYTES)
def test_every_name_is_text_and_is_read_back(raw):
    name = os.fsdecode(raw)
    text = written(name)
    assert text.encode().decode() == text
    assert not any(character < " " or "\x7f" <= character <= "\x9f" for character in text)
    assert read_name(text) == name


@given(BYTES, BYTES)
def test_two_names_are_never_written_alike(one, other):
    assert (written(os.fsdecode(one)) == written(os.fsdecode(other))) == (one == other)


def test_ordinary_names_are_unchanged():
    for name in ("cat 1.jpg", "Größe.png", "猫.jpg", "family 👨\u200d👩\u200d👧.jpg", "C:\\cats\\1.jpg", "100%.jpg"):
        assert written(name) == name == read_name(name) == escaped(name)


@given(BYTES, st.integers(0, 300))
def test_output_names_fit_and_stay_in_their_folder(raw, length):
    name = file_name(os.fsdecode(raw) + "ä" * length)
    assert len(name.encode()) <= LONGEST
    assert not set("/\\:") & set(name)
    assert file_name(name) == name
    assert len(os.fsencode(temporary_name(Path(name + "-masked-out.png")).name)) <= 255


def test_long_names_that_differ_at_their_end_stay_apart(tmp_path):
    paths = [tmp_path / ("x" * 250 + end) for end in ("1.png", "2.png")]
    paths += [tmp_path / ("f" * 255) / path.name for path in paths]
    names = unique_names(paths)
    assert len(set(names.values())) == 4
    assert all(len(name.encode()) <= LONGEST for name in names.values())


def test_a_file_with_the_longest_name_can_be_written(tmp_path):
    for name in ("x" * 255, "ä" * 125 + ".jpg", "y" * 20 + "." + "z" * 230):
        write_whole(tmp_path / name, "text")
        assert (tmp_path / name).read_text() == "text"
    assert len(list(tmp_path.iterdir())) == 3


def test_a_photo_is_found_by_its_written_name():
    byte, literal = "cat/" + os.fsdecode(b"caf\xe9.jpg"), "cat/caf\\xe9.jpg"
    both = Names([byte, literal])
    assert both.find(written(byte)) == byte
    assert both.find(written(literal)) == literal
    assert Names([literal]).find(literal) == literal
    assert Names(["cat/xe9.jpg"]).find("cat\\xe9.jpg") == "cat/xe9.jpg"  # a path of Windows
    assert Names([byte]).find("caf-xe9") == byte  # a copy in the folder of YOLO or VOC
