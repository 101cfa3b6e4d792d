"""Snapshots: a run that is continued again and again has the mappings of one that was not."""

import pytest

from casmap.data.scenes import Scenes
from casmap.errors import Stopped, UserError
from casmap.inference.mapper import SaliencyMapper
from casmap.models.classifier import Classifier
from casmap.models.files import load_mapping, save_classifier
from casmap.training.checkpoints import Log, read_log
from casmap.training.held_out import SO_FAR
from casmap.training.loop import train_mapping
from casmap.training.recipes import QUICK
from casmap.training.run import Run
from casmap.training.snapshots import NO_END, snapshot_file, train_snapshot, without_end

SMALL = QUICK.replace(size=32, batch=4, first_steps=4, period=1, checkpoint_every=3, threads=1)
PHOTOS = Scenes(classes=4, photos=24, size=32)


@pytest.fixture(scope="module")
def f0(tmp_path_factory):
    path = tmp_path_factory.mktemp("f0") / "classifier.safetensors"
    save_classifier(path, Classifier("test_resnet", 4), list(PHOTOS.classes), {"origin": "Untrained."})
    return str(path)


def snapshots(folder, f0, *steps, recipe=SMALL):
    for number in steps:
        train_snapshot(PHOTOS, Run(folder, without_end(recipe), resume=True), f0, number)
    return {number: load_mapping(snapshot_file(folder, number)) for number in steps}


def weights(network):
    return {name: tensor.numpy().tobytes() for name, tensor in network.state_dict().items()}


@pytest.mark.parametrize("thinning", ["F", "L", "L100"])
def test_a_snapshot_is_the_same_whether_the_run_paused_before_it_or_not(tmp_path, f0, thinning) -> None:
    recipe = SMALL.replace(thinning=thinning)
    paused = snapshots(tmp_path / "paused", f0, 2, 4, 7, recipe=recipe)
    whole = snapshots(tmp_path / "whole", f0, 7, recipe=recipe)
    assert weights(paused[7][0]) == weights(whole[7][0])
    assert weights(paused[4][0]) != weights(whole[7][0])
    logs = [read_log(tmp_path / name / "log.csv") for name in ("paused", "whole")]
    assert logs[0] == logs[1]
    assert [row["step"] for row in logs[0]] == [1, 2, 3, 4, 5, 6, 7]


def test_a_snapshot_is_the_mapping_of_a_run_of_so_many_steps_without_a_drop_of_the_rates(tmp_path, f0) -> None:
    (network, about) = snapshots(tmp_path / "snapshots", f0, 5)[5]
    recipe = SMALL.replace(steps=5, drop_every=1.0)
    whole, of_whole = load_mapping(train_mapping(PHOTOS, Run(tmp_path / "whole", recipe), f0).mapping)
    assert weights(network) == weights(whole)
    assert about["training"] == of_whole["training"]
    assert about["training"]["steps"] == 5
    assert about["recipe"]["steps"] == NO_END


def test_a_snapshot_that_is_there_is_kept_and_an_earlier_one_is_refused(tmp_path, f0) -> None:
    snapshots(tmp_path, f0, 2, 4)
    before = snapshot_file(tmp_path, 2).stat().st_mtime_ns
    snapshots(tmp_path, f0, 2)
    assert snapshot_file(tmp_path, 2).stat().st_mtime_ns == before
    with pytest.raises(UserError, match=r"is at step 4 and has no snapshot of step 3: leave out that snapshot"):
        snapshots(tmp_path, f0, 3)


def test_a_stopped_snapshot_continues_from_its_checkpoint(tmp_path, f0, monkeypatch) -> None:
    add = Log.add

    def stopping_add(self, step, **values):
        add(self, step, **values)
        if step == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Log, "add", stopping_add)
    with pytest.raises(Stopped):
        snapshots(tmp_path / "stopped", f0, 6)
    monkeypatch.undo()
    assert SaliencyMapper.load(tmp_path / "stopped" / SO_FAR).about["stopped"] == 5
    stopped, whole = (snapshots(tmp_path / name, f0, 6)[6][0] for name in ("stopped", "whole"))
    assert weights(stopped) == weights(whole)
    assert not (tmp_path / "stopped" / SO_FAR).exists()
