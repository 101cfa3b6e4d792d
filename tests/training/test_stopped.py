"""Ctrl-C leaves a mapping of what was learned so far, and `resume` ends as if it had never come."""

import pytest
import torch

from casmap.errors import Stopped
from casmap.inference.mapper import SaliencyMapper
from casmap.models.files import load_mapping
from casmap.training.checkpoints import Log
from casmap.training.held_out import SO_FAR, read_verdict
from casmap.training.start import train

SCENES = "scenes:classes=4,photos=32,size=32"
OPTIONS = {
    "recipe": "quick", "size": 32, "batch": 8, "first_steps": 4, "steps": 8, "second_stage_steps": 6, "cam_size": 64,
    "checkpoint_every": 2, "device": "cpu", "threads": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The mapping of a run that was never stopped."""
    return train(SCENES, out=tmp_path_factory.mktemp("whole") / "run", **OPTIONS).mapping.read_bytes()


@pytest.fixture
def stopped(monkeypatch):
    """Stop a run at a step of one of its logs."""

    def stop(log: str, step: int, **changes) -> str:
        add = Log.add

        def stopping_add(self, number, **values):
            add(self, number, **values)
            if (self.path.stem, number) == (log, step):
                raise KeyboardInterrupt

        monkeypatch.setattr(Log, "add", stopping_add)
        with pytest.raises(KeyboardInterrupt) as caught:
            train(SCENES, **OPTIONS | changes)
        monkeypatch.undo()
        return str(caught.value) if isinstance(caught.value, Stopped) else "no mapping"

    return stop


@pytest.mark.parametrize(("log", "step", "size"), [("log", 5, 32), ("taught-log", 3, 32)])
def test_a_stopped_run_leaves_a_mapping_and_continues(tmp_path, stopped, whole, log, step, size) -> None:
    run = tmp_path / "run"
    sentence = stopped(log, step, out=run)
    assert sentence.startswith(f"Stopped. The mapping so far is {run / SO_FAR} (verdict: ")
    assert sentence.endswith("run the same command with resume=True.")
    about = load_mapping(run / SO_FAR)[1]
    assert (about["size"], about["stopped"]) == (size, step)
    assert "The run was stopped before its end." in read_verdict(about).reasons
    mapper = SaliencyMapper.load(run / SO_FAR)
    assert mapper.caution is not None
    assert mapper(torch.zeros(3, 40, 50)).mask.shape == (40, 50)
    done = train(SCENES, out=run, resume=True)
    assert done.mapping.read_bytes() == whole
    assert not (run / SO_FAR).exists()


def test_before_a_checkpoint_of_the_stage_nothing_is_promised(tmp_path, stopped, whole) -> None:
    sentence = stopped("log", 1, out=tmp_path / "run")
    assert sentence.endswith("There is no checkpoint yet: with resume=True this stage starts again at step 1.")
    assert train(SCENES, out=tmp_path / "run", resume=True).mapping.read_bytes() == whole


def test_a_run_stopped_before_anything_is_trained_can_be_started_again(tmp_path, stopped, whole) -> None:
    assert stopped("classifier-log", 1, out=tmp_path / "run") == "no mapping"
    assert not list((tmp_path / "run").glob("*"))
    assert train(SCENES, out=tmp_path / "run", **OPTIONS).mapping.read_bytes() == whole


def test_a_run_stopped_in_f0_has_no_mapping(tmp_path, stopped) -> None:
    assert stopped("classifier-log", 2, out=tmp_path / "run") == "no mapping"
    assert not (tmp_path / "run" / SO_FAR).exists()


def test_without_held_out_photos_nothing_is_measured(tmp_path, stopped) -> None:
    assert "(verdict: not measured)" in stopped("log", 3, out=tmp_path / "run", held_out=0.0)
    assert read_verdict(load_mapping(tmp_path / "run" / SO_FAR)[1]) is None
