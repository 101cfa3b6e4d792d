"""Two checkpoints are kept, and one of them is always whole."""

import math

import pytest
import torch

from casmap.data.scenes import Scenes
from casmap.errors import UserError
from casmap.training.checkpoints import Checkpoints
from casmap.training.loop import train_mapping
from casmap.training.recipes import QUICK
from casmap.training.run import Run


def tree(step: int, value: float = 1.0) -> dict:
    return {"step": step, "kept": [{"weights": torch.full((3,), value)}]}


@pytest.fixture
def kept(tmp_path) -> Checkpoints:
    checkpoints = Checkpoints(tmp_path, "checkpoint")
    for step in (1, 2):
        checkpoints.write(tree(step))
    return checkpoints


def test_nothing_kept_is_nothing_read(tmp_path) -> None:
    assert Checkpoints(tmp_path, "checkpoint").read() is None


@pytest.mark.parametrize("damage", [b"", b"no tensors", None])
def test_a_damaged_one_is_told_of_and_the_one_before_it_is_taken(kept, damage) -> None:
    kept.newest.write_bytes(kept.newest.read_bytes()[:-5] if damage is None else damage)
    messages: list[str] = []
    assert kept.read(messages.append)["step"] == 1
    assert messages == [
        f"{kept.newest} is damaged: continuing from checkpoint-before.safetensors, the checkpoint before it."
    ]


def test_two_damaged_ones_are_one_sentence(kept) -> None:
    for path in (kept.newest, kept.before):
        path.write_bytes(b"")
    with pytest.raises(
        UserError, match=r"checkpoint\.safetensors is damaged: delete it and checkpoint-before\.safetensors"
    ):
        kept.read()


@pytest.mark.parametrize("when", ["while writing", "after the first rename"])
def test_whenever_it_is_killed_one_can_be_read(kept, monkeypatch, when) -> None:
    class Killed(BaseException):
        pass

    def no_file(*_):
        raise Killed

    if when == "while writing":
        monkeypatch.setattr("casmap.models.files.save_file", no_file)
    else:
        real = __import__("os").replace

        def once(source, to):
            if to == kept.newest:
                raise Killed
            real(source, to)

        monkeypatch.setattr("casmap.training.checkpoints.os.replace", once)
    with pytest.raises(Killed):
        kept.write(tree(3))
    assert kept.read()["step"] == 2


def test_a_full_disk_leaves_the_last_one_as_it_was(kept, monkeypatch) -> None:
    def full(path):
        raise UserError(f"Cannot write {path}: No space left on device.")

    before = kept.newest.read_bytes()
    monkeypatch.setattr("casmap.models.files.whole_file", full)
    with pytest.raises(UserError, match="No space left on device"):
        kept.write(tree(3))
    assert kept.newest.read_bytes() == before


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_with_nan_or_inf_are_never_kept(kept, value) -> None:
    with pytest.raises(
        UserError,
        match=r"^Training diverged at step 3: the weights contain NaN or Inf\. Start a new run and lower .*safetensors",
    ):
        kept.write(tree(3, value))
    assert kept.read()["step"] == 2


def test_a_loss_that_is_not_finite_stops_the_run_and_names_step_batch_and_checkpoint(tmp_path) -> None:
    photos = Scenes(classes=2, photos=8, size=32)
    recipe = QUICK.replace(
        size=32, batch=4, steps=60, first_steps=2, checkpoint_every=1, classifier_lr=100.0, mapping_lr=100.0, threads=1
    )  # fmt: skip
    with pytest.raises(UserError) as caught:
        train_mapping(photos, Run(tmp_path / "run", recipe))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("Training diverged at step ")
    assert "the weights contain NaN or Inf" in message or ("the loss is" in message and "class-0" in message)
    assert "lower classifier_lr and mapping_lr." in message
    assert "checkpoint" in message
    read = Checkpoints(tmp_path / "run", "checkpoint").read()
    assert read is None or all(torch.isfinite(weights).all() for weights in read["classifier"].values())
