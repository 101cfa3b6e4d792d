"""Atomic writes: a file is complete or absent."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.errors import UserError
from casmap.io.atomic import append, own_folder, remove_temporary_files, whole_file, write_whole


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


def refusal(path, content="text"):
    """Return the one-sentence error for a path."""
    with pytest.raises(UserError) as caught:
        write_whole(path, content)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def write_half(path, error):
    """Start to write, then raise an error."""
    with whole_file(path) as temporary:
        temporary.write_text("half")
        raise error


@settings(deadline=None)
@given(st.binary())
def test_bytes_are_written(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "a"
    write_whole(path, content)
    assert path.read_bytes() == content


@settings(deadline=None)
@given(st.text())
def test_text_is_written_as_utf8(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("text") / "a.txt"
    write_whole(path, content)
    assert path.read_bytes().decode() == content


def test_parent_folders_are_created(tmp_path):
    write_whole(str(tmp_path / "a" / "b" / "c.txt"), "deep")
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "deep"
    assert names(tmp_path) == ["a", "b", "c.txt"]


def test_nothing_is_at_the_path_until_the_block_has_ended(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as temporary:
        assert temporary.parent == path.parent  # a rename between file systems would not be one act
        assert temporary.suffix == path.suffix
        temporary.write_text("half")
        assert not path.exists()
    assert path.read_text() == "half"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), UserError("A mistake."), SystemExit(3)])
def test_an_error_in_the_block_leaves_no_file_and_is_raised(tmp_path, error):
    with pytest.raises(type(error)) as caught:
        write_half(tmp_path / "a.txt", error)
    assert caught.value is error
    assert names(tmp_path) == []


def test_an_error_in_the_block_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        write_half(path, ZeroDivisionError())
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_full_disk_gives_a_one_sentence_error_and_no_file(tmp_path):
    with pytest.raises(UserError, match=r"Cannot write .*a\.txt: No space left on device\.") as caught:
        write_half(tmp_path / "a.txt", OSError(28, "No space left on device"))
    assert isinstance(caught.value.__cause__, OSError)
    assert names(tmp_path) == []


def test_an_old_file_is_replaced(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a long old text")
    write_whole(path, "new")
    assert path.read_text() == "new"


def test_a_reader_of_the_old_file_keeps_its_content(tmp_path):
    """The file is replaced, not written over: a reader never sees half of each."""
    path = tmp_path / "a.txt"
    path.write_text("old")
    with open(path) as reader:
        write_whole(path, "new")
        assert reader.read() == "old"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_follow_the_umask(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "a.txt", "text")
        assert os.umask(umask) == umask  # unchanged by the writing
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("below", ["b.txt", "folder/b.txt"])
def test_a_path_below_a_file_is_refused(tmp_path, below):
    """Not even root can write there."""
    (tmp_path / "a.txt").write_text("mine")
    assert "a.txt" in refusal(tmp_path / "a.txt" / below)
    assert (tmp_path / "a.txt").read_text() == "mine"
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    (tmp_path / "a" / "inside").mkdir(parents=True)
    assert "Cannot write" in refusal(tmp_path / "a")
    assert names(tmp_path) == ["a", "inside"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    try:
        assert "Permission denied" in refusal(tmp_path / "a.txt")
    finally:
        tmp_path.chmod(0o700)
    assert names(tmp_path) == []


@pytest.mark.parametrize("target", ["mine.txt", "missing.txt"])
def test_a_link_is_replaced_and_not_followed(tmp_path, target):
    (tmp_path / "mine.txt").write_text("mine")
    for number, write in enumerate((append, write_whole)):
        link = tmp_path / f"{number}.log"
        link.symlink_to(tmp_path / target)
        write(link, "text")
        assert not link.is_symlink()
        assert link.read_text() == "text"
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert not (tmp_path / "missing.txt").exists()


def test_appending_to_a_pipe_does_not_wait(tmp_path):
    os.mkfifo(tmp_path / "run.log")
    with pytest.raises(UserError, match=r"Cannot write .*run\.log"):
        append(tmp_path / "run.log", "text")


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "parts").symlink_to(tmp_path / "mine")
    with pytest.raises(UserError, match="is a link"):
        own_folder(tmp_path / "out" / "parts")


def test_only_temporary_files_are_removed(tmp_path):
    (tmp_path / ".x~0123abcd").mkdir()
    for name in (".a~0123abcd.png", ".notes~0123abcdef.md", ".b~0123abcd.backup.tar"):
        (tmp_path / name).touch()
    remove_temporary_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".b~0123abcd.backup.tar", ".notes~0123abcdef.md", ".x~0123abcd"
    ]  # fmt: skip
