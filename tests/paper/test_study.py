"""The folder of a study."""

import json

import pytest

from casmap.errors import UserError
from casmap.paper.study import Study


def test_a_part_is_made_once_and_read_after_that(tmp_path) -> None:
    made = []
    for _ in range(2):
        found = Study(tmp_path, {"seed": 0}).part("(a) E/Y", lambda: made.append(1) or {"LE": [0.0, 1.0]})
        assert found == {"LE": [0.0, 1.0]}
    assert made == [1]
    (path,) = (tmp_path / "parts").iterdir()
    assert path.name.startswith("-a-E-Y-")


def test_parts_of_names_that_look_alike_are_kept_apart(tmp_path) -> None:
    study = Study(tmp_path, {})
    names = ["casm_1", "casm-1", "casm 1", "cäsm-1", "x" * 300, "x" * 301]
    for number, name in enumerate(names):
        study.part(name, lambda number=number: {"number": number})
    assert [study.part(name, dict)["number"] for name in names] == list(range(len(names)))


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({"seed": 1, "data": "scenes"}, "seed = 0, not 1"),
        ({"seed": 0, "data": "pets"}, "data = 'scenes', not 'pets'"),
        ({"seed": 0}, "data = 'scenes', not None"),
        ({"seed": 0, "data": "scenes", "few": 3}, "few = None, not 3"),
    ],
)
def test_other_options_are_refused_and_the_difference_is_named(tmp_path, now, told) -> None:
    Study(tmp_path, {"seed": 0, "data": "scenes"})
    before = (tmp_path / "options.json").read_bytes()
    with pytest.raises(UserError, match=f"was started with {told}: use the same options"):
        Study(tmp_path, now)
    assert (tmp_path / "options.json").read_bytes() == before


def test_options_are_compared_as_json_has_them(tmp_path) -> None:
    Study(tmp_path, {"areas": (0.1, 0.2)})
    Study(tmp_path, {"areas": [0.1, 0.2]})


def test_what_is_interrupted_leaves_no_part(tmp_path) -> None:
    def stopped() -> dict[str, float]:
        raise KeyboardInterrupt

    study = Study(tmp_path, {})
    with pytest.raises(KeyboardInterrupt):
        study.part("a", stopped)
    assert not list(tmp_path.glob("parts/*"))
    assert study.part("a", lambda: {"LE": 0.5}) == {"LE": 0.5}


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"LE": '])
def test_a_damaged_part_is_named(tmp_path, content) -> None:
    study = Study(tmp_path, {})
    study.part("a", lambda: {"LE": 0.5})
    (path,) = (tmp_path / "parts").iterdir()
    path.write_text(content)
    with pytest.raises(UserError, match=rf"{path.name} is damaged: delete it"):
        study.part("a", lambda: {"LE": 0.5})


def test_a_part_is_whole_json(tmp_path) -> None:
    Study(tmp_path, {}).part("a", lambda: {"LE": [0.1] * 1000})
    (path,) = (tmp_path / "parts").iterdir()
    assert json.loads(path.read_text()) == {"LE": [0.1] * 1000}
