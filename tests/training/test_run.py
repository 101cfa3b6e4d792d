"""A run's folder: never overwritten, resumed only with the same options and photos, removed after an early error."""

import json

import pytest
import torch

from casmap.data.scenes import Scenes
from casmap.errors import UserError
from casmap.training.recipes import QUICK
from casmap.training.run import Run

PHOTOS = Scenes(classes=3, photos=6, size=32)


def _start(folder) -> None:
    with Run(folder, QUICK).started(PHOTOS):
        pass


def test_a_folder_that_holds_a_run_is_not_used_again(tmp_path) -> None:
    _start(tmp_path / "run")
    with pytest.raises(
        UserError,
        match=r"already holds a run: continue it with resume=True, or choose another folder \(out\)",
    ):
        Run(tmp_path / "run", QUICK.replace(seed=1))


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"steps": 9}, r"with steps = 450, not 9"),
        ({"thinning": "F"}, r"with thinning = 'L100', not 'F'"),
        ({"lambda_r": 2.0}, r"with area = 0.25, not None"),
        ({"seed": 1}, r"with seed = 0, not 1"),
    ],
)
def test_a_run_is_resumed_only_with_its_own_recipe(tmp_path, change, difference) -> None:
    _start(tmp_path / "run")
    with pytest.raises(UserError, match=difference):
        Run(tmp_path / "run", QUICK.replace(**change), resume=True)


@pytest.mark.parametrize(
    "change",
    [{"classes": 2}, {"photos": 7}, {"seed": 1}, {"first_class": 1}, {"size": 64}, {"variant": "twins"}],
)
def test_a_run_is_resumed_only_with_its_own_photos(tmp_path, change) -> None:
    _start(tmp_path / "run")
    others = Scenes(**{"classes": 3, "photos": 6, "size": 32, **change})
    resumed = Run(tmp_path / "run", QUICK, resume=True)
    with pytest.raises(UserError, match="was started with other photos"), resumed.started(others):
        pass
    with resumed.started(PHOTOS):
        pass


def test_what_changes_nothing_of_the_result_may_change(tmp_path) -> None:
    _start(tmp_path / "run")
    assert Run(tmp_path / "run", QUICK, resume=True).resumed
    assert Run(tmp_path / "run", QUICK.replace(checkpoint_every=7), resume=True).resumed


@pytest.mark.parametrize(
    "left", [".log~0a1b2c3d.csv", ".checkpoint-next~0a1b2c3d.safetensors", ".photos~00000000.json"]
)
def test_what_a_killed_run_was_writing_is_gone_when_it_is_resumed(tmp_path, left) -> None:
    _start(tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    (tmp_path / "run" / left).write_text("half of i")
    with Run(tmp_path / "run", QUICK, resume=True).started(PHOTOS):
        assert {path.name for path in (tmp_path / "run").iterdir()} == names | {".casmap.lock"}


def test_resuming_without_a_run_starts_one(tmp_path) -> None:
    run = Run(tmp_path / "run", QUICK, resume=True)
    assert not run.resumed
    with run.started(PHOTOS):
        assert (tmp_path / "run" / "recipe.json").read_text() == json.dumps(QUICK.options(), indent=2)


def _slip(folder, trained: bytes | None = None) -> None:
    """A run that ends with a UserError, maybe after hours of training."""
    with Run(folder, QUICK).started(PHOTOS):
        if trained:
            (folder / "classifier.safetensors").write_bytes(trained)
        raise UserError("a slip")


def test_a_mistake_found_at_once_leaves_no_folder(tmp_path) -> None:
    with pytest.raises(UserError, match="a slip"):
        _slip(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_mistake_never_takes_what_was_there_before_or_what_was_trained(tmp_path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear diary")
    with pytest.raises(UserError, match="a slip"):
        _slip(tmp_path / "mine")
    assert (tmp_path / "mine" / "diary.txt").read_text() == "dear diary"
    with pytest.raises(UserError, match="a slip"):
        _slip(tmp_path / "late", b"hours of work")
    assert (tmp_path / "late" / "classifier.safetensors").read_bytes() == b"hours of work"


def test_starting_a_run_deletes_no_file_of_the_users(tmp_path) -> None:
    (tmp_path / ".my-settings.json").write_text("{}")
    _start(tmp_path)
    assert (tmp_path / ".my-settings.json").exists()


def test_messages_of_a_run_are_written_to_its_log(tmp_path) -> None:
    run = Run(tmp_path / "run", QUICK)
    with run.started(PHOTOS):
        run.message("f(0) is here.")
        run.message("So is m.")
    assert (tmp_path / "run" / "run.log").read_text() == "f(0) is here.\nSo is m.\n"


def test_chance_inside_a_step_follows_from_seed_and_step_alone(tmp_path) -> None:
    def chance(seed: int, step: int) -> list[float]:
        Run(tmp_path / "run", QUICK.replace(seed=seed)).seed(step)
        return torch.rand(3).tolist()

    wanted = chance(3, 5)
    torch.rand(100)
    assert chance(3, 5) == wanted
    assert wanted not in (chance(3, 6), chance(4, 5))
