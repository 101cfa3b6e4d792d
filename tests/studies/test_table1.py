"""Table 1 from end to end on a few scenes in files, each of its numbers against the parts it is made of."""

import io
import json
from dataclasses import asdict

import cv2
import numpy as np
import PIL.Image
import pytest
import torch
from rich.console import Console

from casmap.data.folders import PhotoFolder
from casmap.data.resizing import resize, resize_annotation
from casmap.data.scenes import Scenes
from casmap.data.write import write_photos
from casmap.errors import UserError
from casmap.evaluation.evaluate import Mapped, Number, own_alpha_errors
from casmap.evaluation.intervals import bootstrap_interval, paired_interval
from casmap.evaluation.localization import localization_error, predicted_box
from casmap.evaluation.report import system_of
from casmap.mapper import SaliencyMapper
from casmap.model.classifier import Classifier
from casmap.model.decoder import Decoder
from casmap.model.files import load_classifier, save_classifier, save_mapping
from casmap.model.network import SaliencyNetwork
from casmap.peers.cam import cam
from casmap.peers.grad_cam import grad_cam
from casmap.peers.peer import unit
from casmap.studies.table1 import Line, differences, run_table1

SIZE = 64
CLASSES = ["class-00", "class-01", "class-02"]
RIVALS = [
    "CAM, true class",
    "CAM, predicted class",
    "Grad-CAM, true class",
    "Grad-CAM, predicted class",
    "centre box",
    "whole picture",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Scenes in files, two mappings and a classifier, all with random weights."""
    folder = tmp_path_factory.mktemp("table1")
    write_photos(Scenes(classes=3, photos=15, size=SIZE, seed=5), folder / "scenes")
    for seed, name in enumerate(["mine", "yours"]):
        torch.manual_seed(seed)
        encoder = Classifier("test_resnet", 3)
        network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels), CLASSES, predicts=seed == 0)
        torch.nn.init.normal_(network.decoder.mask.weight)
        save_mapping(folder / name / "mapping.safetensors", network, {"size": SIZE})
    save(folder / "classifier.safetensors", CLASSES)
    return folder


def save(path, classes):
    """A classifier that does not see the same class everywhere: its logits are about the same in the mean."""
    torch.manual_seed(2)
    classifier = Classifier("test_resnet", len(classes)).eval()
    photos = Scenes(classes=3, photos=15, size=SIZE, seed=5)
    with torch.no_grad():
        logits = classifier(torch.cat([normalised(classifier, photos.image(i)) for i in range(len(photos))]))
        classifier.network.get_classifier().bias -= logits.mean(dim=0)
    save_classifier(path, classifier, classes, {"origin": "Nobody trained it."})


def normalised(classifier, picture):
    """(H, W, 3) -> (1, 3, H, W)."""
    mean, std = (torch.tensor(numbers) for numbers in (classifier.mean, classifier.std))
    return ((torch.tensor(picture) / 255 - mean) / std).permute(2, 0, 1)[None]


def run(folder, mappings=("mine", "yours"), masks=True, **options):
    return run_table1(
        str(folder / "scenes" / "photos"),
        [folder / name / "mapping.safetensors" for name in mappings],
        str(folder / "classifier.safetensors"),
        **({"masks": folder / "scenes" / "masks"} if masks else {"boxes": folder / "scenes" / "boxes.csv"}),
        size=SIZE,
        **options,
    )


@pytest.fixture(scope="module")
def table(folder):
    """The rows, the JSON and what was printed."""
    text = io.StringIO()
    console = Console(file=text, width=250)
    lines = run(folder, out=folder / "out" / "table1.json", console=console)
    return lines, json.loads((folder / "out" / "table1.json").read_text()), text.getvalue()


def photos_of(folder):
    return PhotoFolder(folder / "scenes" / "photos", masks=folder / "scenes" / "masks")


def slow_masks(folder, name):
    """The masks of one row, photo by photo, and the class that is told or None."""
    photos = photos_of(folder)
    classifier, _ = load_classifier(folder / "classifier.safetensors")
    for index, label in enumerate(photos.labels.tolist()):
        picture = resize(photos.image(index), SIZE, "crop")
        if name in ("mine", "yours"):
            masks, logits = SaliencyMapper.load(folder / name / "mapping.safetensors").masks(picture[None])
            yield masks[0], int(logits.argmax()) if name == "mine" else None
        elif name == "whole picture":
            yield np.ones((SIZE, SIZE), np.float32), None
        else:
            method, words = name.split(", ")
            image = normalised(classifier, picture)
            with torch.no_grad():
                seen = int(classifier(image).argmax())
            peer = {"CAM": cam, "Grad-CAM": grad_cam}[method]
            told = torch.tensor([label if words == "true class" else seen])
            coarse = unit(peer(classifier, image, told))
            fine = torch.nn.functional.interpolate(coarse[None], (SIZE, SIZE), mode="bilinear", align_corners=False)
            yield fine[0, 0].numpy(), seen


# ---------------------------------------------------------------------------------------------- rows


def test_there_is_a_row_for_each_mapping_each_peer_and_each_constant(table):
    lines, numbers, _ = table
    assert [line.name for line in lines] == ["mine", "yours", *RIVALS]
    assert list(numbers["rows"]) == ["mine", "yours", *RIVALS]
    for line in lines:
        assert len(line.errors) == len(line.own_errors) == 15
        assert {"LE", "LE at own alpha", "F1", "PxAP", "mask IoU", "area"} <= set(line.numbers)
        # A separate encoder tells no class, nor do a box or the whole.
        assert ("OM" in line.numbers) == (line.name not in ("yours", "centre box", "whole picture"))


@pytest.mark.parametrize("name", ["mine", "yours", *RIVALS[:4], "whole picture"])
def test_a_row_is_what_its_masks_say(folder, table, name):
    photos = photos_of(folder)
    line = next(line for line in table[0] if line.name == name)
    masks, told = zip(*slow_masks(folder, name), strict=True)
    truths = [resize_annotation(photos.annotation(i), SIZE, SIZE, SIZE, "crop") for i in range(len(photos))]
    boxes = [truth.boxes for truth in truths]
    errors = localization_error([predicted_box(mask) for mask in masks], boxes)
    np.testing.assert_array_equal(line.errors, errors)
    assert line.numbers["LE"] == Number(errors.mean(), *bootstrap_interval(errors))
    assert line.numbers["area"].value == pytest.approx(np.mean(masks), abs=1e-5)
    if told[0] is not None:
        missed = [error or seen != label for error, seen, label in zip(errors, told, photos.labels, strict=True)]
        assert line.numbers["OM"].value == pytest.approx(np.mean(missed))
    own, alphas = own_alpha_errors(Mapped(photos.names, np.stack(masks), np.full(15, np.nan), truths))
    np.testing.assert_array_equal(line.own_errors, own)
    assert line.alphas == alphas
    assert line.numbers["LE at own alpha"] == Number(own.mean(), *bootstrap_interval(own))


def test_no_two_peers_are_the_same_row(table):
    """Else a row that repeats another would pass for it."""
    areas = {line.name: round(line.numbers["area"].value, 6) for line in table[0]}
    assert len(set(areas.values())) == len(areas)


def test_json_holds_the_returned_numbers(table):
    lines, numbers, _ = table
    assert set(numbers) == {"rows", "paired LE differences"}
    for line in lines:
        row = dict(numbers["rows"][line.name])
        assert row.pop("own alphas") == list(line.alphas)
        assert row == {key: asdict(number) for key, number in line.numbers.items()}


def test_with_boxes_only_there_is_nothing_of_masks_and_the_errors_are_the_same(folder, table):
    lines = run(folder, masks=False)
    shown = {"LE", "LE at own alpha", "F1"}
    for line, known in zip(lines, table[0], strict=True):
        assert shown <= set(line.numbers)
        assert not {"PxAP", "mask IoU"} & set(line.numbers)
        np.testing.assert_array_equal(line.errors, known.errors)


# ---------------------------------------------------------------------------------------------- differences


def test_differences_are_those_of_the_errors_photo_by_photo(table):
    lines, numbers, _ = table
    paired = numbers["paired LE differences"]
    assert {ours: list(rivals) for ours, rivals in paired.items()} == {
        "mine": ["yours", *RIVALS],
        "yours": ["mine", *RIVALS],
    }
    by_name = {line.name: line for line in lines}
    for ours, rivals in paired.items():
        for theirs, number in rivals.items():
            rival = by_name[theirs]
            stronger = rival.own_errors if rival.own_errors.sum() < rival.errors.sum() else rival.errors
            apart = [a - b for a, b in zip(by_name[ours].errors, stronger, strict=True)]
            assert number["value"] == pytest.approx(sum(apart) / 15)
            assert (number["low"], number["high"]) == paired_interval(by_name[ours].errors, stronger)
            assert number["low"] <= number["value"] <= number["high"]


def line_of(name, errors, own):
    return Line(name, {}, (1.0, 1.0), np.array(errors, np.float64), np.array(own, np.float64))


def test_a_mapping_is_compared_with_the_stronger_alpha_of_a_rival_and_has_none_of_its_own():
    """By hand: 1/4 of the mapping at alpha 1, whatever its own alpha would give."""
    ours = line_of("ours", [1, 0, 0, 0], [0, 0, 0, 0])
    better_at_own = line_of("own", [1, 1, 1, 1], [0, 1, 1, 0])
    better_at_one = line_of("one", [0, 0, 0, 0], [1, 1, 1, 1])
    found = differences([ours, better_at_own, better_at_one], 1)
    assert list(found) == ["ours"]
    assert {name: number.value for name, number in found["ours"].items()} == {"own": -0.25, "one": 0.25}
    low, high = paired_interval(np.array([1.0, 0, 0, 0]), np.array([0.0, 1, 1, 0]))
    assert (found["ours"]["own"].low, found["ours"]["own"].high) == (low, high)


# ---------------------------------------------------------------------------------------------- printed


def test_the_table_is_printed_with_its_differences(table):
    lines, numbers, text = table
    assert "15 photos" in text
    for title in ("LE ↓", "LE at its own alpha ↓", "OM ↓", "F1 ↑", "PxAP ↑", "mask IoU ↑", "mask area"):
        assert title in text
    for line in lines:
        row = next(printed for printed in text.splitlines() if printed.startswith(f"│ {line.name} "))
        cells = [cell.strip() for cell in row.strip("│").split("│")]
        assert cells[1] == f"{100 * line.numbers['LE'].value:.1f}"
        assert cells[2] == f"{100 * line.numbers['LE at own alpha'].value:.1f}"
        assert cells[3] == (f"{100 * line.numbers['OM'].value:.1f}" if "OM" in line.numbers else "-")
    for ours, rivals in numbers["paired LE differences"].items():
        for theirs, number in rivals.items():
            value, low, high = (100 * number[key] for key in ("value", "low", "high"))
            assert (
                f"{ours} at alpha 1 - {theirs} at its stronger alpha: LE {value:+.1f} [{low:+.1f}, {high:+.1f}]" in text
            )


# ---------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    "classes",
    [
        ["ant", "bee", "cat"],
        CLASSES[:2],
        [*CLASSES, "class-03"],
        CLASSES[::-1],  # the labels would be others
    ],
)
def test_a_classifier_that_knows_other_classes_is_refused(folder, tmp_path, classes):
    path = tmp_path / "other.safetensors"
    save(path, classes)
    arguments = [str(folder / "scenes" / "photos"), [folder / "mine" / "mapping.safetensors"], str(path)]
    with pytest.raises(UserError, match="does not know exactly the 3 classes") as refused:
        run_table1(*arguments, masks=folder / "scenes" / "masks", size=SIZE, out=tmp_path / "all.json")
    assert str(path) in str(refused.value)
    assert not (tmp_path / "all.json").exists()


def test_an_unseen_classifier_explains_the_class_that_it_sees_and_has_no_om(folder, table, tmp_path):
    """The same classifier under other names: the same maps, but nothing is said of the true class."""
    renamed, about = load_classifier(folder / "classifier.safetensors")
    save_classifier(tmp_path / "renamed.safetensors", renamed, ["ant", "bee", "cat"], {"origin": about["origin"]})
    mapping = folder / "mine" / "mapping.safetensors"
    arguments = [str(folder / "scenes" / "photos"), [mapping], str(tmp_path / "renamed.safetensors")]
    lines = {
        line.name: line for line in run_table1(*arguments, masks=folder / "scenes" / "masks", size=SIZE, unseen=True)
    }
    assert [name for name in lines if "class" in name] == ["CAM, predicted class", "Grad-CAM, predicted class"]
    known = {line.name: line for line in table[0]}
    for name in ("CAM, predicted class", "Grad-CAM, predicted class"):
        np.testing.assert_array_equal(lines[name].errors, known[name].errors)
        assert "OM" in known[name].numbers
        assert "OM" not in lines[name].numbers


def test_a_mapping_sees_pictures_at_its_own_size(folder, table):
    """Measured at twice its size, its masks are those of its own size, enlarged."""
    mapping = folder / "mine" / "mapping.safetensors"
    photos, mapper = photos_of(folder), SaliencyMapper.load(mapping)
    pictures = np.stack([resize(photos.image(index), 2 * SIZE, "crop") for index in range(3)])
    masks, classes = system_of(mapper, photos)(pictures)
    small = np.stack([resize(picture, SIZE, "crop") for picture in pictures])
    for mask, own in zip(masks, mapper.masks(small)[0], strict=True):
        np.testing.assert_allclose(mask, cv2.resize(own, (2 * SIZE, 2 * SIZE)), atol=1e-6)
    np.testing.assert_array_equal(classes, system_of(mapper, photos)(small)[1])


@pytest.mark.parametrize(
    ("classifier", "word"),
    [
        ("nowhere.safetensors", "nowhere.safetensors"),
        ("resnet5000", "resnet5000"),
        ("lite0", "lite0 does not know exactly the 3 classes"),
    ],
)
def test_what_is_no_classifier_of_these_photos_is_refused(folder, classifier, word):
    with pytest.raises(UserError, match=word):
        run_table1(
            str(folder / "scenes" / "photos"), [folder / "mine" / "mapping.safetensors"], classifier,
            masks=folder / "scenes" / "masks", size=SIZE,
        )  # fmt: skip


def test_a_mapping_is_no_classifier(folder):
    mapping = folder / "mine" / "mapping.safetensors"
    with pytest.raises(UserError, match="not a casmap classifier"):
        run_table1(str(folder / "scenes" / "photos"), [mapping], str(mapping), masks=folder / "scenes" / "masks")


def test_photos_without_annotations_are_refused(folder, tmp_path):
    for number in range(6):
        path = tmp_path / "photos" / CLASSES[number % 3] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.new("RGB", (SIZE, SIZE)).save(path)
    with pytest.raises(UserError, match="nothing to evaluate"):
        run_table1(
            str(tmp_path / "photos"),
            [folder / "mine" / "mapping.safetensors"],
            str(folder / "classifier.safetensors"),
            size=SIZE,
        )
