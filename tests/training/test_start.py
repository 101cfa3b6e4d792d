"""From a folder of photos to a run: what is refused, said, and returned."""

import dataclasses

import pytest
import torch

from casmap.errors import UserError
from casmap.training import budget
from casmap.training import first_classifier as first
from casmap.training.loop import verdict_on
from casmap.training.start import train, train_classifier

CPU = {"device": "cpu"}
TINY = {
    **CPU, "backbone": "test_resnet", "pretrained": False, "size": 32, "batch": 8, "steps": 2, "first_steps": 2,
    "epoch_share": 1.0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _offline(monkeypatch) -> None:
    """No test asks the network whether weights can be had."""
    for module in (budget, first):
        monkeypatch.setattr(module, "weights_reachable", lambda backbone: False)


def test_photos_of_kinds_that_are_not_opened_are_counted_before_training(tmp_path, make_folder, heard) -> None:
    pets = make_folder(tmp_path / "pets")
    for name in ("1.CR3", "2.cr3"):
        (pets / "cat" / name).write_bytes(b"raw")
    options = {"backbone": "test_resnet", "pretrained": False, "first_steps": 1, "steps": 1, **CPU}
    trained = train(pets, out=tmp_path / "run", recipe="quick", reporter=heard, **options)
    assert heard.warnings[0].startswith("Photos left out: 2, the first cat/1.CR3: unsupported file format. ")
    assert f"casmap data check {pets}" in heard.warnings[0]
    assert trained.warnings[0] == heard.warnings[0]


@pytest.mark.parametrize("backbone", ["test_vit", "test_convnext", "torchvision/mobilenet_v2"])
def test_a_backbone_without_class_activation_maps_is_refused_before_anything_is_trained(
    tmp_path, make_folder, backbone
) -> None:
    photos = make_folder(tmp_path / "photos")
    said = {**CPU, "backbone": backbone, "pretrained": False, "second_stage_steps": 5}
    with pytest.raises(UserError, match="--second-stage-steps 0"):
        train(photos, out=tmp_path / "run", recipe="quick", **said)
    assert not (tmp_path / "run").exists()


def test_one_class_only_is_refused(tmp_path, make_folder) -> None:
    make_folder(tmp_path / "photos", classes=("ant",))
    with pytest.raises(UserError, match="of one class, 'ant': a classifier needs at least two"):
        train(str(tmp_path / "photos"), out=tmp_path / "run", **CPU)
    assert not (tmp_path / "run").exists()


def test_weights_out_of_reach_are_said_before_anything_is_done(tmp_path, make_folder) -> None:
    make_folder(tmp_path / "photos", each=1)
    with pytest.raises(UserError, match="cannot be fetched from here"):
        train(tmp_path / "photos", out=tmp_path / "run", recipe="paper", **CPU)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"aera": 0.4}, r"no option 'aera'; did you mean area\?"),
        ({"area": 4.0}, "area must lie between"),
        ({"backbone": 3}, "The option backbone cannot be 3"),
        ({"compile": True}, "The option compile is gone since casmap 0.2.0"),
    ],
)
def test_a_slip_in_an_option_is_told_before_photos_are_opened(options, says) -> None:
    with pytest.raises(UserError, match=says):
        train("no/such/folder", **options)


def test_a_folder_becomes_a_mapping_and_all_is_said(tmp_path, make_folder, heard) -> None:
    make_folder(tmp_path / "photos")
    threads = torch.get_num_threads()
    trained = train(
        str(tmp_path / "photos"),
        out=tmp_path / "run",
        **{**CPU, "size": 32, "batch": 8, "steps": 2, "first_steps": 2, "epoch_share": 1.0, "threads": 1},
        reporter=heard,
    )
    torch.set_num_threads(threads)
    assert trained.mapping.exists()
    assert (trained.steps, trained.origin.split(",")[0]) == (2, "f(0) is test_resnet with random weights")
    said = heard.said
    assert "12 photos of 3 classes. Chosen:" in said
    assert "To change it: casmap train" in said
    assert "--steps 2 --second-stage-steps 0 --area 0.5" in said
    assert "This will take about" in said
    assert trained.origin in said
    assert "Thinning L100: the sample set takes at most" in said
    assert trained.origin in (tmp_path / "run" / "run.log").read_text()


def test_all_warnings_are_in_the_result_and_in_that_of_a_finished_run_that_is_resumed(
    tmp_path, make_folder, heard
) -> None:
    photos = make_folder(tmp_path / "photos", each=8)
    (photos / "bee" / "3.png").write_bytes((photos / "bee" / "3.png").read_bytes()[:60])
    run = tmp_path / "run"
    options = TINY | {"batch": 24, "steps": 1, "area": 0.02, "unreadable": 0.2, "smallest_crop": 1.0}
    trained = train(photos, out=run, recipe="quick", reporter=heard, **options)
    signs = ("f(0) gets only", "the masks cover", "1 of 24 photos could not be read and are left out: bee/3.png.")
    for warning, sign in zip(trained.warnings, signs, strict=True):
        assert sign in warning
    assert trained.warnings == tuple(heard.warnings)
    assert (trained.verdict, trained.mapping) == ("doubtful", run / "mapping.safetensors")
    log = (run / "run.log").read_text()
    assert all(f"{warning}\n" in log for warning in trained.warnings)
    again = train(photos, out=run, resume=True)
    assert again == dataclasses.replace(trained, seconds=0.0)


def test_what_a_killed_run_had_warned_of_is_told_once(tmp_path, make_folder, heard) -> None:
    photos, run = make_folder(tmp_path / "photos"), tmp_path / "run"
    trained = train(photos, out=run, recipe="quick", **TINY)
    assert trained.warnings
    (run / "mapping.safetensors").unlink()  # as if it had been killed before its last file
    again = train(photos, out=run, resume=True, reporter=heard)
    assert again.warnings == trained.warnings
    assert heard.warnings == [one for one in trained.warnings if "the masks cover" in one]  # f(0) is there already


@pytest.mark.parametrize(
    ("area", "warnings", "verdict"),
    [
        (0.4, (), "good"),
        (0.4, ("f(0) is weak.",), "doubtful"),
        (0.02, (), "good"),
        (0.019, (), "failed"),
        (0.95, (), "good"),
        (0.951, ("the masks are large.",), "failed"),
        (float("nan"), (), "failed"),
    ],
)
def test_the_verdict_by_its_rule(area, warnings, verdict) -> None:
    assert verdict_on(area, warnings) == verdict


def test_a_classifier_alone_is_a_file_with_an_origin(tmp_path, make_folder, heard) -> None:
    trained = train_classifier(
        make_folder(tmp_path / "photos"), out=tmp_path / "run", recipe="quick", reporter=heard, **TINY
    )
    assert trained.classifier == tmp_path / "run" / "classifier.safetensors"
    assert trained.classifier.exists()
    assert trained.origin == heard.messages[-1]
    assert trained.warnings == tuple(heard.warnings)
