"""From a folder of photos to a run: errors, messages and results."""

import dataclasses
import json

import pytest
import torch

from casmap.errors import UserError
from casmap.training import budget
from casmap.training import first_classifier as first
from casmap.training.held_out import verdict_on
from casmap.training.start import train, train_classifier

CPU = {"device": "cpu"}
TINY = {
    **CPU, "backbone": "test_resnet", "pretrained": False, "size": 32, "batch": 8, "steps": 2, "first_steps": 2,
    "epoch_share": 1.0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _offline(monkeypatch) -> None:
    """No test contacts the network to look for weights."""
    for module in (budget, first):
        monkeypatch.setattr(module, "weights_reachable", lambda backbone: False)


def test_photos_of_kinds_that_are_not_opened_are_counted_before_training(tmp_path, make_folder, recorder) -> None:
    pets = make_folder(tmp_path / "pets")
    for name in ("1.CR3", "2.cr3"):
        (pets / "cat" / name).write_bytes(b"raw")
    options = {"backbone": "test_resnet", "pretrained": False, "first_steps": 1, "steps": 1, **CPU}
    trained = train(pets, out=tmp_path / "run", recipe="quick", reporter=recorder, **options)
    assert recorder.warnings[0].startswith("Skipping 2 photos, the first: cat/1.CR3")
    assert f"casmap data check {pets}" in recorder.warnings[0]
    assert trained.warnings[0] == recorder.warnings[0]


@pytest.mark.parametrize("backbone", ["test_vit", "test_convnext", "torchvision/mobilenet_v2"])
def test_a_backbone_without_class_activation_maps_is_refused_before_anything_is_trained(
    tmp_path, make_folder, backbone
) -> None:
    photos = make_folder(tmp_path / "photos")
    options = {**CPU, "backbone": backbone, "pretrained": False, "second_stage_steps": 5}
    with pytest.raises(UserError, match="set second_stage_steps=0"):
        train(photos, out=tmp_path / "run", recipe="quick", **options)
    assert not (tmp_path / "run").exists()


def test_a_chosen_backbone_without_weights_is_a_warning_and_a_doubt(tmp_path, make_folder, recorder) -> None:
    photos = make_folder(tmp_path / "photos", each=4)
    options = {**CPU, "backbone": "test_resnet", "size": 32, "batch": 4, "steps": 1, "first_steps": 1}
    trained = train(photos, out=tmp_path / "run", reporter=recorder, second_stage_steps=0, **options)
    text = "test_resnet starts from random weights: pretrained ones cannot be downloaded"
    assert sum(text in warning for warning in recorder.warnings) == 1
    assert any(text in reason for reason in trained.reasons)
    assert trained.verdict != "good"
    train(photos, out=tmp_path / "b", reporter=recorder, second_stage_steps=0, pretrained=False, **options)
    assert sum(text in warning for warning in recorder.warnings) == 1


def test_one_class_only_is_refused(tmp_path, make_folder) -> None:
    make_folder(tmp_path / "photos", classes=("ant",))
    with pytest.raises(UserError, match="of one class, 'ant', and training needs two or more: add a folder of photos"):
        train(str(tmp_path / "photos"), out=tmp_path / "run", **CPU)
    assert not (tmp_path / "run").exists()


def test_unavailable_weights_are_reported_before_training(tmp_path, make_folder) -> None:
    make_folder(tmp_path / "photos", each=1)
    with pytest.raises(UserError, match="cannot be downloaded"):
        train(tmp_path / "photos", out=tmp_path / "run", recipe="paper", **CPU)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aera": 0.4}, r"no option 'aera'; did you mean area\?"),
        ({"area": 4.0}, "area must be between"),
        ({"backbone": 3}, "backbone must be text, not 3"),
        ({"backbone": "lite9"}, "no backbone 'lite9': choose another, such as lite2, lite1, lite0"),
        ({"backbone": "lite9", "recipe": "photos"}, "no backbone 'lite9'"),
        ({"backbone": "torchvision/resnet19"}, "torchvision has no classifier 'resnet19': choose another"),
        ({"masks_from": "gone.safetensors"}, "gone.safetensors"),
        ({"masks_from": "gone.onnx", "recipe": "photos"}, "gone.onnx"),
        ({"compile": True}, "The option compile was removed in casmap 0.2.0"),
    ],
)
def test_a_slip_in_an_option_is_reported_before_photos_are_opened(options, message) -> None:
    with pytest.raises(UserError, match=message):
        train("no/such/folder", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"from_scratch": False},
        {"masks_from": "shipped", "from_scratch": True},
        {"start_share": 0.5},
        {"start_share": 0.5, "encoder_lr": 1e-4},
    ],
)
def test_options_of_the_second_stage_need_no_recipe(tmp_path, options) -> None:
    """The options are accepted; what is missing is the photos."""
    with pytest.raises(UserError, match="There is no"):
        train(tmp_path / "photos", out=tmp_path / "run", **options)


def test_a_share_of_a_start_needs_a_start(tmp_path) -> None:
    with pytest.raises(UserError, match="start_share needs from_scratch=False"):
        train(tmp_path / "photos", out=tmp_path / "run", start_share=0.5, from_scratch=True)


def test_another_backbone_cannot_start_from_the_shipped_decoder(tmp_path, make_folder) -> None:
    make_folder(tmp_path / "photos")
    options = {"second_stage_steps": 2, "from_scratch": False, **CPU}
    with pytest.raises(UserError, match="shipped mapping is a lite0, not a test_resnet"):
        train(tmp_path / "photos", recipe="quick", out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("recipe", ["seeds", "photos", None])
def test_masks_of_another_mapping_fit_recipes_with_a_second_stage(tmp_path, recipe) -> None:
    """The options are accepted; what is missing is the photos."""
    with pytest.raises(UserError, match="There is no"):
        train(tmp_path / "photos", recipe=recipe, masks_from="shipped", out=tmp_path / "run")
    with pytest.raises(UserError, match="needs a second stage"):
        train(tmp_path / "photos", recipe="quick", masks_from="shipped", out=tmp_path / "run")


def test_a_folder_becomes_a_mapping_with_all_messages(tmp_path, make_folder, recorder) -> None:
    make_folder(tmp_path / "photos")
    threads = torch.get_num_threads()
    trained = train(
        str(tmp_path / "photos"),
        out=tmp_path / "run",
        **{**CPU, "size": 32, "batch": 8, "steps": 2, "first_steps": 2, "epoch_share": 1.0, "threads": 1},
        reporter=recorder,
    )
    torch.set_num_threads(threads)
    assert trained.mapping.exists()
    assert (trained.steps, trained.origin.split(",")[0]) == (2, "f(0) is test_resnet with random weights")
    text = recorder.text
    assert "Found 12 photos of 3 classes." in text
    assert "To change them: casmap train" in text
    assert "--steps 2 --second-stage-steps 0 --area 0.5" in text
    assert text.count("Estimated time: about") == 1
    assert trained.origin in text
    assert "Earlier classifiers kept in memory (thinning L100): up to" in text
    assert trained.origin in (tmp_path / "run" / "run.log").read_text()


def test_all_warnings_are_in_the_result_and_in_that_of_a_finished_run_that_is_resumed(
    tmp_path, make_folder, recorder
) -> None:
    photos = make_folder(tmp_path / "photos", each=8)
    (photos / "bee" / "3.png").write_bytes((photos / "bee" / "3.png").read_bytes()[:60])
    run = tmp_path / "run"
    options = TINY | {"batch": 24, "steps": 1, "area": 0.02, "unreadable": 0.2, "smallest_crop": 1.0}
    trained = train(photos, out=run, recipe="quick", reporter=recorder, **options)
    signs = (
        "f(0) has an accuracy of only",
        "The masks cover",
        "1 of 24 photos could not be read: bee/3.png.",
    )
    for warning, sign in zip(trained.warnings, signs, strict=True):
        assert sign in warning
    assert trained.warnings == tuple(recorder.warnings)
    assert (trained.verdict, trained.mapping) == ("failed", run / "mapping.safetensors")  # after one step
    log = (run / "run.log").read_text()
    assert all(f"{warning}\n" in log for warning in trained.warnings)
    again = train(photos, out=run, resume=True)
    assert again == dataclasses.replace(trained, seconds=0.0)


def test_warnings_of_a_killed_run_are_reported_once(tmp_path, make_folder, recorder) -> None:
    photos, run = make_folder(tmp_path / "photos"), tmp_path / "run"
    trained = train(photos, out=run, recipe="quick", **TINY)
    assert trained.warnings
    (run / "mapping.safetensors").unlink()  # as if it had been killed before its last file
    again = train(photos, out=run, resume=True, reporter=recorder)
    assert again.warnings == trained.warnings
    assert recorder.warnings == [one for one in trained.warnings if "The masks cover" in one]  # f(0) is there already


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


def test_a_classifier_alone_is_a_file_with_an_origin(tmp_path, make_folder, recorder) -> None:
    trained = train_classifier(
        make_folder(tmp_path / "photos"), out=tmp_path / "run", recipe="quick", reporter=recorder, **TINY
    )
    assert trained.classifier == tmp_path / "run" / "classifier.safetensors"
    assert trained.classifier.exists()
    assert recorder.messages[-1] == f"Initial classifier: {trained.origin}"
    assert trained.warnings == tuple(recorder.warnings)


@pytest.fixture
def unsorted_photos(tmp_path, make_folder):
    """A folder of photos without class folders, and a CSV file that gives their classes."""
    sorted_photos, photos = make_folder(tmp_path / "sorted"), tmp_path / "photos"
    photos.mkdir()
    rows = ["file,xmin,ymin,xmax,ymax,class"]
    for path in sorted(sorted_photos.rglob("*.png")):
        path.rename(photos / f"{path.parent.name}{path.name}")
        rows.append(f"photos/{path.parent.name}{path.name},1,1,20,20,{path.parent.name}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    return photos, tmp_path / "labels.csv"


@pytest.mark.parametrize("name", ["labels", "boxes"])  # boxes: the name in 0.1.0
@pytest.mark.parametrize("function", [train, train_classifier])
def test_labels_give_the_classes_of_photos_in_no_class_folder(
    tmp_path, unsorted_photos, recorder, function, name
) -> None:
    photos, labels = unsorted_photos
    function(photos, out=tmp_path / "run", recipe="quick", reporter=recorder, **{name: labels}, **TINY)
    assert "Found 12 photos of 3 classes." in recorder.messages
    assert json.loads((tmp_path / "run" / "photos.json").read_text())["classes"] == ["ant", "bee", "cat"]


def test_messages_say_what_happens_before_the_first_step(tmp_path, make_folder, recorder) -> None:
    photos = make_folder(tmp_path / "photos")
    options = {**CPU, "size": 32, "batch": 8, "steps": 2, "first_steps": 2, "threads": 1}
    train(photos, out=tmp_path / "run", reporter=recorder, **options)
    assert recorder.messages[:6] == [
        f"Reading photos: {photos}",
        "Found 12 photos of 3 classes.",
        "Too few photos (12) to hold some out: the verdict will be measured on training photos.",
        "steps is an option of Algorithm 1: this run does not start from the shipped mapping.",
        "Timing a training step on this machine.",
        "Options chosen for these photos and this machine:",
    ]
    options = [message for message in recorder.messages if message.startswith("  ")]
    assert [option.split()[0] for option in options] == ["backbone", "size", "first_steps", "steps", "thinning", "area"]
    (estimate,) = [message for message in recorder.messages if "Estimated time" in message]
    assert recorder.messages[6:].index(estimate) == len(options) + 2  # after the command to change them
    assert not any("30 minutes" in message for message in recorder.messages)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"minutes": 5, "recipe": "quick"}, "minutes chooses a recipe: leave out recipe"),
        ({"minutes": 0}, "minutes must be above 0, not 0"),
        ({"minutes": float("nan")}, "minutes must be above 0, not nan"),
    ],
)
def test_minutes_that_cannot_be_kept_are_one_sentence(tmp_path, make_folder, options, message) -> None:
    with pytest.raises(UserError, match=message):
        train(make_folder(tmp_path / "photos"), out=tmp_path / "run", **CPU, **options)
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").iterdir())


def test_steps_that_are_few_are_said_before_the_training(tmp_path, make_folder, recorder) -> None:
    train(make_folder(tmp_path / "photos"), out=tmp_path / "run", recipe="quick", reporter=recorder, **TINY)
    assert any("is short: masks settle after about 150 steps" in message for message in recorder.messages)
