"""Table 1 from end to end on a few scenes in files, each of its numbers against the parts it is made of."""

import csv
import hashlib
import json
import shutil
from dataclasses import replace

import cv2
import numpy as np
import onnx
import PIL.Image
import pytest
import torch
from onnx import TensorProto, helper

from casmap.baselines import BASELINES, adversarial_localization, find_baseline, real_time_saliency
from casmap.baselines.cam import cam
from casmap.baselines.grad_cam import grad_cam
from casmap.baselines.gradient import gradient
from casmap.baselines.u2net import SIDE, SalientObject
from casmap.data.folders import PhotoFolder
from casmap.data.resizing import resize, resize_annotation
from casmap.data.scenes import Scenes
from casmap.data.sources import open_photos
from casmap.data.write import write_photos
from casmap.errors import UserError
from casmap.evaluation.evaluate import Number, Predictions, own_alpha_errors
from casmap.evaluation.fidelity import FIDELITY_MEASURES, measure_fidelity
from casmap.evaluation.localization import iou, localization_error
from casmap.evaluation.numbers import bootstrap_interval
from casmap.evaluation.table import system_of
from casmap.evaluation.wsol_metrics import is_tuning
from casmap.evaluation.wsol_protocol import WSOL_MEASURES, measure_wsol
from casmap.inference.components import PAPER, binary_mask, largest_box
from casmap.inference.mapper import SaliencyMapper
from casmap.install_hint import install_hint
from casmap.models.class_activation import min_max
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import load_classifier, save_classifier, save_mapping
from casmap.models.network import SaliencyNetwork
from casmap.paper import table1_entries, table1_rows
from casmap.paper.outcome import FAILS, HOLDS, TIE, read_outcome, write_outcome
from casmap.paper.study import Study
from casmap.paper.table1 import run_table1, table1
from casmap.paper.table1_entries import Entry
from casmap.paper.table1_rows import ALPHA_ONE, OWN_ALPHA, OWN_RULE, Line, Table1, difference, judged, measure_table1
from casmap.registry import Registry
from casmap.reporting import Reporter
from casmap.tools.classifiers import fingerprint, open_judge

SIZE = 64
CLASSES = ["class-00", "class-01", "class-02"]
ASKED = ["CAM", "grad-cam", "gradient"]
CONSTANTS = ["centre box", "whole photo", "centre square", "centre Gaussian"]
ROWS = [
    *(f"{name}, the {told} class" for name in ("CAM", "Grad-CAM", "gradient") for told in ("true", "predicted")),
    *CONSTANTS,
]
METHODS = {"CAM": cam, "Grad-CAM": grad_cam, "gradient": gradient}


def write_network(path):
    """A network of u2net's input and output: the sum of the colours."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [1, 3, 1, 1], [1.0, 1.0, 1.0])
    shapes = {"input.1": [1, 3, SIDE, SIDE], "d0": [1, 1, SIDE, SIDE]}
    given, found = (helper.make_tensor_value_info(name, TensorProto.FLOAT, of) for name, of in shapes.items())
    nodes = [helper.make_node("Conv", ["input.1", "w"], ["d0"])]
    graph = helper.make_graph(nodes, "small", [given], [found], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


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


class Heard(Reporter):
    """What was said."""

    def __init__(self):
        self.messages = []

    def message(self, text):
        self.messages.append(text)


def run(folder, mappings=("mine", "yours"), masks=True, only=ASKED, out="out", train=None, **options) -> Table1:
    truth = {"masks": folder / "scenes" / "masks"} if masks else {"boxes": folder / "scenes" / "boxes.csv"}
    return measure_table1(
        open_photos(str(folder / "scenes" / "photos"), held_out=True, **truth),
        mappings=[folder / name / "mapping.safetensors" for name in mappings],
        classifier=str(folder / "classifier.safetensors"),
        out=folder / out,
        size=SIZE,
        train_photos=None if train is None else open_photos(train),
        only=only or (),
        **options,
    )


@pytest.fixture(scope="module")
def table(folder) -> Table1:
    return run(folder)


@pytest.fixture(scope="module")
def written(folder, table) -> None:
    """The files are in `out`."""
    write_outcome(table1(table), folder / "out")


@pytest.fixture(scope="module")
def records(folder, written):
    return {row["row"]: row for row in json.loads((folder / "out" / "table1.json").read_text())["records"]}


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
        elif name == "whole photo":
            yield np.ones((SIZE, SIZE), np.float32), None
        else:
            method, words = name.split(", ")
            image = normalised(classifier, picture)
            with torch.no_grad():
                seen = int(classifier(image).argmax())
            told = torch.tensor([label if words == "the true class" else seen])
            coarse = min_max(METHODS[method](classifier, image, told)).half().float()  # as it is kept
            fine = torch.nn.functional.interpolate(coarse[None], (SIZE, SIZE), mode="bilinear", align_corners=False)
            yield fine[0, 0].numpy(), seen


# ---------------------------------------------------------------------------------------------- rows


def test_there_is_a_row_for_each_mapping_each_baseline_and_each_constant(table, records):
    assert [line.name for line in table.lines] == ["mine", "yours", *ROWS]
    assert list(records) == [line.name for line in table.ranked]
    for line in table.lines:
        assert len(line.errors[ALPHA_ONE]) == len(line.errors[OWN_ALPHA]) == len(line.entry.chosen) == 15
        assert {"LE, alpha 1", "LE, own alpha", "F1", "mask IoU", "area", *WSOL_MEASURES} <= set(line.numbers)
        # A separate encoder tells no class, nor do a box or the whole.
        assert ("OM" in line.numbers) == (line.name not in ("yours", *CONSTANTS))
        assert (OWN_RULE in line.errors) == line.name.startswith(("CAM", "Grad-CAM", "gradient"))
        assert line.milliseconds > 0


def test_rows_are_ranked_by_their_errors(table):
    errors = [line.numbers["LE, alpha 1"].value for line in table.ranked]
    assert errors == sorted(errors)
    assert len(errors) == len(table.lines)


@pytest.mark.parametrize("name", ["mine", "yours", *ROWS[:6], "whole photo"])
def test_a_row_is_what_its_masks_say(folder, table, name):
    photos = photos_of(folder)
    line = next(line for line in table.lines if line.name == name)
    masks, told = zip(*slow_masks(folder, name), strict=True)
    truths = [resize_annotation(photos.annotation(i), SIZE, SIZE, SIZE, "crop") for i in range(len(photos))]
    boxes = [truth.boxes for truth in truths]
    errors = localization_error([largest_box(binary_mask(mask)) for mask in masks], boxes)
    np.testing.assert_array_equal(line.errors[ALPHA_ONE], errors)
    assert line.numbers["LE, alpha 1"] == Number(errors.mean(), *bootstrap_interval(errors))
    assert line.numbers["area"].value == pytest.approx(np.mean(masks), abs=1e-5)
    if told[0] is not None:
        missed = [error or seen != label for error, seen, label in zip(errors, told, photos.labels, strict=True)]
        assert line.numbers["OM"].value == pytest.approx(np.mean(missed))
    own, alphas = own_alpha_errors(Predictions(photos.names, np.stack(masks), np.full(15, np.nan), truths))
    np.testing.assert_array_equal(line.errors[OWN_ALPHA], own)
    assert line.alphas == alphas
    assert line.numbers["LE, own alpha"] == Number(own.mean(), *bootstrap_interval(own))
    if OWN_RULE in line.errors:
        rule = find_baseline(name.split(",")[0]).rule
        pictures = [resize(photos.image(index), SIZE, "crop") for index in range(len(photos))]
        found = [rule.box(mask, picture) for mask, picture in zip(masks, pictures, strict=True)]
        np.testing.assert_array_equal(line.errors[OWN_RULE], localization_error(found, boxes))


def test_no_two_baselines_are_the_same_row(table):
    """Else a row that repeats another would pass for it."""
    areas = {line.name: round(line.numbers["area"].value, 6) for line in table.lines}
    assert len(set(areas.values())) == len(areas)


def three(record, key):
    return Number(*(record.pop(f"{key}{end}") for end in ("", " low", " high")))


def test_json_holds_the_returned_numbers(table, records):
    for line in table.lines:
        row = dict(records[line.name])
        assert row.pop("row") == line.name
        assert row.pop("own alphas") == list(line.alphas)
        assert row.pop("photos") == 15
        assert row.pop("milliseconds") == line.milliseconds
        assert row.pop("given") == line.entry.given
        assert row.pop("paper") == line.entry.paper
        assert row.pop("best box rule") == min(line.errors, key=lambda way: line.errors[way].sum())
        assert row.pop("rule") == (line.entry.rule.description if line.entry.rule else None)
        papers = {"mine": 36.1, "CAM": 48.1, "Grad-CAM": 47.5, "gradient": 41.7}
        assert row.pop("paper LE") == papers.get(line.entry.method)
        if line is table.lines[0]:
            assert row.pop("classifier alone, milliseconds") == table.classifier_milliseconds
        else:
            assert row.pop("verdict") in ("better", "worse", "tie")
            assert three(row, "LE difference") == difference(table.lines[0], line)
        if line is not table.lines[1]:
            assert three(row, "LE difference of yours") == difference(table.lines[1], line)
        assert {key: three(row, key) for key in line.numbers} == line.numbers
        for size, group in line.by_size.items():
            assert row.pop(f"photos, object {size}") == group.photos
            assert {key: three(row, f"{key}, object {size}") for key in group.numbers} == group.numbers
        assert row == {}


def test_csv_and_markdown_hold_them_too(folder, table, written):
    rows = list(csv.DictReader((folder / "out" / "table1.csv").read_text().splitlines()))
    assert [row["row"] for row in rows] == [line.name for line in table.ranked]
    for row, line in zip(rows, table.ranked, strict=True):
        number = line.numbers["LE, alpha 1"]
        found = [float(row[f"LE, alpha 1{end}"]) for end in ("", " low", " high")]
        assert found == [number.value, number.low, number.high]
        assert (row["OM"] == "") == ("OM" not in line.numbers)
        if line is not table.lines[0]:
            assert float(row["LE difference"]) == difference(table.lines[0], line).value
            assert row["verdict"] in ("better", "worse", "tie")
    outcome = table1(table)
    lines = [line for line in (folder / "out" / "table1.md").read_text().splitlines() if line.startswith("|")]
    lines = lines[: 2 + len(table.lines)]  # then those of the claims
    assert all(line.count("|") == len(outcome.head) + 1 for line in lines)
    for line, row in zip(lines[2:], outcome.rows, strict=True):
        assert line.split("|")[1].strip() == row[0].replace("\n", "<br>")


def test_the_page_shows_every_row_on_the_same_photos(folder, table, written):
    page = (folder / "out" / "table1.html").read_text()
    assert page.count("data:image/png;base64,") == 1 + len(table.lines)
    assert 1 <= len(table.shown) <= 7
    for line in table.lines:
        assert f"maps of {line.name}" in page
        strip = cv2.imread(str(folder / "out" / f"table1-maps of {line.name}.png"))
        assert strip.shape == (120, 124 * len(table.shown), 3)
    assert "http://" not in page
    assert "https://" not in page


def test_it_is_read_back_as_any_study_is(folder, table, written):
    again = read_outcome(folder / "out" / "table1.json")
    assert again == replace(table1(table), summary=None)


def test_with_boxes_only_there_is_nothing_of_masks_and_the_errors_are_the_same(folder, table):
    lines = run(folder, masks=False).lines
    for line, known in zip(lines, table.lines, strict=True):
        assert {"LE, alpha 1", "LE, own alpha", "F1"} <= set(line.numbers)
        assert not {"PxAP", "mask IoU"} & set(line.numbers)
        for way in known.errors:
            np.testing.assert_array_equal(line.errors[way], known.errors[way])


# ---------------------------------------------------------------------------------------------- a second start


def test_maps_that_are_there_are_not_made_again(folder, table, monkeypatch):
    """All three baselines are asked again only for the time that they take; a map that is lost is made again."""
    (kept,) = (folder / "out" / "maps").glob("CAM-*")
    maps = sorted(kept.iterdir())
    right = sum(label == seen for label, seen in zip(photos_of(folder).labels, seen_classes(folder), strict=True))
    assert len(maps) == 15 + (15 - right)  # the predicted class, where it is the true one, is not made twice
    before = {path: path.stat().st_mtime_ns for path in maps}
    lost = maps[3]
    content, made = lost.read_bytes(), np.load(lost)["map"]
    lost.write_bytes(content[: len(content) // 2])
    again = run(folder)
    assert {path for path in maps if path.stat().st_mtime_ns != before[path]} == {lost}
    np.testing.assert_array_equal(np.load(lost)["map"], made)
    for line, known in zip(again.lines, table.lines, strict=True):
        assert line.numbers == known.numbers


def seen_classes(folder):
    photos = photos_of(folder)
    classifier, _ = load_classifier(folder / "classifier.safetensors")
    with torch.no_grad():
        images = [normalised(classifier, resize(photos.image(i), SIZE, "crop")) for i in range(len(photos))]
        return [int(classifier(image).argmax()) for image in images]


def test_maps_of_another_classifier_or_other_photos_are_not_taken(folder, table, tmp_path):
    shutil.copytree(folder / "out", tmp_path / "out")
    other = tmp_path / "other.safetensors"
    save_classifier(other, Classifier("test_resnet", 3), CLASSES, {"origin": "Another."})
    rest = {"mappings": [folder / "mine" / "mapping.safetensors"], "out": tmp_path / "out", "only": ["CAM"]}
    photos, same = str(folder / "scenes" / "photos"), str(folder / "classifier.safetensors")
    masks = folder / "scenes" / "masks"
    with pytest.raises(
        UserError, match=r"out was started with classifier = '\w{8}', not '\w{8}': .* another folder \(out\)"
    ):
        run_table1(photos, classifier=str(other), masks=masks, size=SIZE, **rest)
    with pytest.raises(UserError, match="was started with size = 64, not 128"):
        run_table1(photos, classifier=same, masks=masks, size=2 * SIZE, **rest)
    with pytest.raises(UserError, match="was started with photos = "):
        run_table1("scenes:classes=3,photos=8,size=64", classifier=same, size=SIZE, **rest)


def test_a_folder_of_0_1_0_goes_on_if_its_setting_is_the_same(folder, table, tmp_path):
    shutil.copytree(folder / "out" / "maps", tmp_path / "out" / "maps")
    crops = table.crops
    setting = {
        "classifier": fingerprint(load_classifier(folder / "classifier.safetensors")[0]),
        "photos": hashlib.sha256("\n".join(crops.names).encode() + crops.images.tobytes()).hexdigest(),
        "size": SIZE,
    }
    (tmp_path / "out" / "setting.json").write_text(json.dumps(setting))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "maps").rglob("*.npz")}
    assert [line.numbers for line in run(folder, out=tmp_path / "out").lines] == [line.numbers for line in table.lines]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "maps").rglob("*.npz")} == before
    (tmp_path / "out" / "options.json").unlink()
    (tmp_path / "out" / "setting.json").write_text(json.dumps(setting | {"size": 32}))
    with pytest.raises(UserError, match="was started with size = 32, not 64"):
        run(folder, out=tmp_path / "out")


# ---------------------------------------------------------------------------------------------- baselines that learn


@pytest.fixture
def short_training(monkeypatch):
    recipe = adversarial_localization.RECIPE.replace(steps=2, batch=4, size=SIZE, device="cpu")
    monkeypatch.setattr(adversarial_localization, "RECIPE", recipe)
    monkeypatch.setattr(real_time_saliency, "STEPS", 2)
    monkeypatch.setattr(real_time_saliency, "BATCH", 4)


def test_baselines_that_learn_learn_from_the_photos_given_and_once(folder, tmp_path, short_training):
    learning = ["real-time saliency", "adversarial localization", "box regression"]
    lines = run(folder, only=learning, out=str(tmp_path / "out"), train="scenes:classes=3,photos=8,size=64").lines
    names = ["real-time saliency, the true class", "real-time saliency, the predicted class", *learning[1:]]
    assert [line.name for line in lines[2:-4]] == names
    assert [line.entry.given for line in lines[4:6]] == ["nothing", "boxes, in training"]
    # What was shown the boxes of some photos is measured on the others, and compared on those.
    object_from_box = lines[5]
    assert 0 < len(object_from_box.entry.chosen) < 15
    apart = difference(lines[0], object_from_box)
    mine = lines[0].errors[ALPHA_ONE][object_from_box.entry.chosen]
    assert apart.value == pytest.approx((mine - object_from_box.errors[object_from_box.strongest]).mean())
    (learned,) = (tmp_path / "out").glob("learned-*")
    kept = {path: path.read_bytes() for path in learned.glob("*.safetensors")}
    assert {path.name for path in kept} == {"real-time.safetensors"}
    again = run(folder, only=learning, out=str(tmp_path / "out"), train="scenes:classes=3,photos=8,size=64").lines
    assert [line.numbers for line in again] == [line.numbers for line in lines]
    assert {path: path.read_bytes() for path in kept} == kept
    run(folder, only=learning, out=str(tmp_path / "out"), train="scenes:classes=3,photos=9,size=64")
    others = next(path for path in (tmp_path / "out").glob("learned-*") if path != learned)  # of other photos, anew
    assert (others / "real-time.safetensors").read_bytes() != kept[learned / "real-time.safetensors"]


def only_some(*baselines):
    """A registry of these."""
    registry = Registry("baseline", plugins="casmap.nobody's")
    for baseline in baselines:
        registry.register(baseline.name)(baseline)
    return registry


def test_slow_baselines_get_few_photos_of_both_halves_and_are_compared_on_those(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(table1_rows, "BASELINES", only_some(replace(find_baseline("CAM"), slow=1)))
    found = run(folder, only=None, out=str(tmp_path / "out"), few=9)
    ours, _, slow, *_ = found.lines
    chosen, crops = slow.entry.chosen, found.crops
    assert len(chosen) == 9
    assert {is_tuning(crops.names[i], 0.5) for i in chosen} == {True, False}
    mine = ours.errors[ALPHA_ONE][chosen]
    assert difference(ours, slow).value == pytest.approx((mine - slow.errors[slow.strongest]).mean())
    assert len(found.shown) == 7
    assert found.shown == [int(i) for i in crops.shuffled if i in chosen][:7]


@pytest.mark.parametrize("name", ["deconvnet", "DeSaliNet", "feedback"])
def test_a_baseline_about_relus_does_not_explain_a_backbone_without_any(folder, tmp_path, name):
    """It would be the gradient under another name."""
    smooth = tmp_path / "smooth.safetensors"
    save_classifier(smooth, Classifier("test_efficientnet", 3), CLASSES, {"origin": "Nobody trained it."})
    photos, mapping = str(folder / "scenes" / "photos"), [folder / "mine" / "mapping.safetensors"]
    with pytest.raises(UserError, match=f"{name} cannot explain a test_efficientnet"):
        run_table1(
            photos, mappings=mapping, classifier=str(smooth), out=tmp_path / "out",
            masks=folder / "scenes" / "masks", size=SIZE, only=[name],
        )  # fmt: skip


@pytest.mark.parametrize("count", [1, 2])
def test_a_photo_or_two_are_enough_for_all_but_box_regression(folder, tmp_path, count):
    """One photo is in one half only: nothing is left to fit to, or to measure."""
    write_photos(Scenes(classes=3, photos=count, size=SIZE, seed=5), tmp_path / "scenes")
    for label in CLASSES:
        (tmp_path / "scenes" / "photos" / label).mkdir(exist_ok=True)
    photos = str(tmp_path / "scenes" / "photos")
    options = {
        "mappings": [folder / "mine" / "mapping.safetensors"], "classifier": str(folder / "classifier.safetensors"),
        "masks": tmp_path / "scenes" / "masks", "out": tmp_path / "out", "size": SIZE, "unseen": True,
    }  # fmt: skip
    outcome = run_table1(photos, only=["CAM"], **options)
    write_outcome(outcome, tmp_path / "out")
    strip = cv2.imdecode(np.frombuffer(outcome.figures["-the photos"], np.uint8), cv2.IMREAD_COLOR)
    assert strip.shape[1] == 124 * count
    if count == 1:
        with pytest.raises(UserError, match=r"Not possible .* box regression \(more photos\)"):
            run_table1(photos, only=["box regression"], **options)


def test_a_baseline_that_a_backbone_does_not_suit_explains_a_resnet18_and_says_so(folder, tmp_path, monkeypatch):
    """A vision transformer has no feature maps before its head, as CAM needs them."""
    short = table1_entries.FALLBACK.replace(first_steps=1, batch=4, size=SIZE, device="cpu")
    monkeypatch.setattr(table1_entries, "FALLBACK", short)
    torch.manual_seed(0)
    vit = tmp_path / "vit.safetensors"
    save_classifier(vit, Classifier("test_vit", 3), CLASSES, {"origin": "Nobody trained it."})
    photos, mapping = photos_of(folder), [folder / "mine" / "mapping.safetensors"]
    rest = {
        "mappings": mapping, "classifier": str(vit), "out": tmp_path / "out", "size": 160, "only": ["CAM", "gradient"],
    }  # fmt: skip
    with pytest.raises(UserError, match="CAM cannot explain a test_vit: add --train PHOTOS to explain a resnet18"):
        measure_table1(photos, **rest)
    heard, train_photos = Heard(), open_photos("scenes:classes=3,photos=8,size=64")
    found = measure_table1(photos, train_photos=train_photos, reporter=heard, **rest)
    assert any("CAM cannot explain a test_vit and explains a resnet18 instead" in told for told in heard.messages)
    assert len(table1(found).claims) == 1  # gradient, not CAM of another classifier
    methods = [line.entry.method for line in found.lines]
    assert methods == ["mine", *["CAM (of a resnet18)"] * 2, *["gradient"] * 2, *CONSTANTS]
    (learned,) = (tmp_path / "out").glob("learned-*")
    assert (learned / "resnet18" / "classifier.safetensors").exists()


def test_what_is_missing_is_named_and_left_out_or_refused_where_it_was_asked_for(folder, tmp_path, monkeypatch):
    some = only_some(*map(find_baseline, ("CAM", "RISE", "real-time saliency")))
    monkeypatch.setattr(table1_rows, "BASELINES", some)
    monkeypatch.setattr(table1_rows, "find_spec", lambda name: None)
    heard = Heard()
    table = run(folder, only=None, out=str(tmp_path / "out"), reporter=heard)
    assert [line.name for line in table.lines[2:-4]] == ROWS[:2]
    without = f"RISE ({install_hint('torchray')}), real-time saliency (--train PHOTOS of the same classes)"
    assert heard.messages == [f"Skipped (missing requirement in parentheses): {without}."]
    with pytest.raises(UserError, match=r"Not possible \(missing requirement in parentheses\): RISE \(pip install"):
        run(folder, only=["CAM", "RISE"], out=str(tmp_path / "out"))


def test_a_baseline_named_twice_has_its_rows_once(folder, tmp_path):
    table = run(folder, only=["CAM", "cam"], out=str(tmp_path / "out"))
    assert [line.name for line in table.lines[2:-4]] == ROWS[:2]


def test_without_names_it_is_all_of_them_in_the_papers_order(folder, tmp_path):
    """Those that learn last; newer ones after the paper's."""
    both = np.array([True, False])
    for name in ("u2net.onnx", "u2netp.onnx"):
        (tmp_path / name).touch()
    chosen = table1_rows.choose_baselines((), photos_of(folder), photos_of(folder), both, Reporter(), tmp_path)
    assert [baseline.name for baseline in chosen] == [
        "LRP", "deconvnet", "occlusion", "CAM", "Grad-CAM", "meaningful perturbation", "DeSaliNet", "gradient",
        "feedback", "excitation backprop", "guided feature inversion", "extremal perturbation", "RISE", "Score-CAM",
        "adversarial localization", "real-time saliency", "box regression", "u2net", "u2netp",
    ]  # fmt: skip
    assert len(chosen) == len(BASELINES.names)


def test_photos_to_learn_from_must_be_of_the_same_classes(folder, tmp_path):
    with pytest.raises(UserError, match="other classes"):
        run(folder, out=str(tmp_path / "out"), train="scenes:classes=4,photos=8,size=64")


def test_an_unknown_baseline_is_named_beside_those_there_are(folder, tmp_path):
    with pytest.raises(UserError, match=r"no baseline 'camel': choose from adversarial-localization, .*, cam, "):
        run(folder, only=["CAMEL"], out=str(tmp_path / "out"))


# ---------------------------------------------------------------------------------------------- differences


def test_differences_are_those_of_the_errors_photo_by_photo(table, records):
    by_name = {line.name: line for line in table.lines}
    for ours, key in (("mine", "LE difference"), ("yours", "LE difference of yours")):
        assert {name for name, row in records.items() if key in row} == set(by_name) - {ours}
        for theirs in set(by_name) - {ours}:
            ways = by_name[theirs].errors
            strongest = min(ways.values(), key=lambda errors: errors.sum())
            mine = by_name[ours].errors[ALPHA_ONE]
            value, low, high = (records[theirs][f"{key}{end}"] for end in ("", " low", " high"))
            assert value == pytest.approx(np.mean([a - b for a, b in zip(mine, strongest, strict=True)]))
            assert (low, high) == bootstrap_interval(mine - strongest)
            assert low <= value <= high


def line_of(name, chosen, given="nothing", paper_le=None, **errors):
    ways = {"one": ALPHA_ONE, "own": OWN_ALPHA, "rule": OWN_RULE}
    found = {ways[way]: np.array(values, np.float64) for way, values in errors.items()}
    entry = Entry(name, given, np.array(chosen), None, None, paper_le=paper_le)
    numbers = {f"LE, {way}": Number(values.mean(), 0.0, 1.0) for way, values in found.items()}
    return Line(entry, numbers, found, (1.0, 1.0), 1.0, np.zeros((0, 4, 4)))


@pytest.mark.parametrize(
    ("ours", "cam", "boxes", "verdicts"),
    [
        ([0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0], [HOLDS, HOLDS]),  # the paper has CAM worse, box regression better
        ([0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1], [HOLDS, FAILS]),
        ([1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0], [FAILS, HOLDS]),
        ([0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [TIE, TIE]),
    ],
)
@pytest.mark.parametrize("name", ["CASM", "mine"])
def test_the_papers_order_is_claimed_once_of_each_method(ours, cam, boxes, verdicts, name):
    """Ten times the same four photos; the first mapping stands for CASM where none has the name."""
    photos = range(40)
    lines = [
        line_of(name, photos, one=10 * ours, own=[0] * 40),
        line_of("CAM", photos, "the true class", 48.1, one=[1] * 40, own=10 * cam),
        line_of("CAM", photos, "the predicted class", 48.1, one=[1] * 40, own=10 * cam),
        line_of("box regression", photos, "boxes, in training", 34.3, one=[1] * 40, own=10 * boxes),
        line_of("whole photo", photos, one=[1] * 40),
    ]
    outcome = table1(Table1(lines, 1, 1.0, None, []))
    found = {claim.statement: claim for claim in outcome.claims}
    says = ["CAM has a higher LE than CASM", "box regression has a lower LE than CASM"]
    assert [claim.statement for claim in outcome.claims] == says
    assert [found[each].verdict for each in says] == verdicts
    assert [found[each].paper for each in says] == ["48.1 and 36.1", "34.3 and 36.1"]
    assert found[says[0]].here.startswith(f"CASM - row {100 * np.mean(np.subtract(ours, cam)):+.1f} [")
    papers = {row[0]: row[-1] for row in outcome.rows}
    assert papers == {name: "36.1", "CAM": "48.1", "box regression": "34.3", "whole photo": "-"}


def test_among_several_mappings_the_one_called_casm_is_the_papers():
    lines = [line_of(name, range(2), paper_le=le, one=[0, 1]) for name, le in (("Baseline", 53.5), ("CASM", 36.1))]
    (claim,) = table1(Table1(lines, 2, 1.0, None, [])).claims
    assert (claim.statement, claim.paper) == ("Baseline has a higher LE than CASM", "53.5 and 36.1")


def test_a_mapping_at_alpha_1_is_compared_with_a_row_in_its_strongest_way_on_the_photos_of_both():
    """By hand: the mapping has 1/4 at alpha 1, whatever its own alpha would give."""
    ours = line_of("ours", range(4), one=[1, 0, 0, 0], own=[0, 0, 0, 0])
    better_at_own = line_of("own", range(4), one=[1, 1, 1, 1], own=[0, 1, 1, 0])
    better_at_one = line_of("one", range(4), one=[0, 0, 0, 0], own=[1, 1, 1, 1])
    better_by_rule = line_of("rule", range(4), one=[1, 1, 1, 1], own=[1, 1, 1, 1], rule=[1, 1, 1, 0])
    few = line_of("few", [0, 3], one=[0, 1], own=[1, 1])
    others = (better_at_own, better_at_one, better_by_rule, few)
    assert [difference(ours, other).value for other in others] == [-0.25, 0.25, -0.5, 0.0]
    low, high = bootstrap_interval(np.array([1.0, -1, -1, 0]))
    assert (difference(ours, better_at_own).low, difference(ours, better_at_own).high) == (low, high)


# ---------------------------------------------------------------------------------------------- printed


def test_the_table_has_numbers_and_differences(table):
    outcome = table1(table)
    titles = ("LE ↓", "LE, authors' rule ↓", "LE, own alpha ↓", "OM ↓", "F1 ↑", "mask IoU ↑", "ms", "photos")
    assert set(outcome.head) == {"", "given", "mine - row", "paper's LE", *titles}
    assert len(outcome.rows) == len(table.lines)
    for row, line in zip(outcome.rows, table.ranked, strict=True):
        assert row[:2] == [
            line.entry.method + (f"\n({line.entry.paper})" if line.entry.paper else ""),
            line.entry.given,
        ]
        number = line.numbers["LE, alpha 1"]
        assert row[2] == f"{100 * number.value:.1f}\n[{100 * number.low:.1f}, {100 * number.high:.1f}]"
        if line is table.lines[0]:
            assert row[3] == ""
        else:
            assert row[3].startswith(f"{100 * difference(table.lines[0], line).value:+.1f} [")


def test_further_tables_have_the_field_protocol_the_fit_and_the_sizes(table):
    field, wsol, fit, half, by_size = table1(table).further
    assert wsol.head == ["", *WSOL_MEASURES.values()]
    assert field.head == ["", "GT-known ↑", "GT-known, threshold 0.5 ↑"]
    assert all(word in field.text for word in ("ImageNet", "72.0", "71.9", "birds", "92.4", "98.5", "BAS", "SAT"))
    assert not any(one.text for one in (wsol, fit, half, by_size))
    assert fit.head == ["", "LE at IoU 0.3 ↓", "LE at IoU 0.7 ↓", "mean LE ↓", "boxes above IoU 0.75 ↑"]
    assert half.head == ["", "LE ↓", "mean LE ↓", "boxes above IoU 0.75 ↑", "mask IoU ↑"]
    assert by_size.head == ["", *table.lines[0].by_size]
    for one, key in ((field, "GT-known"), (wsol, "MaxBoxAccV2"), (fit, "LE at IoU 0.3"), (half, "LE, threshold 0.5")):
        for row, line in zip(one.rows, table.ranked, strict=True):
            number = line.numbers[key]
            assert row[0] == line.name.replace(", the ", ", ")
            assert row[1] == f"{100 * number.value:.1f}\n[{100 * number.low:.1f}, {100 * number.high:.1f}]"
    for row, line in zip(by_size.rows, table.ranked, strict=True):
        first = next(iter(line.by_size.values()))
        assert row[1].startswith(f"{100 * first.numbers['LE'].value:.1f}\n[")
        assert row[1].endswith(f"\n{first.photos} photos")
        sizes = {size: group.photos for size, group in line.by_size.items()}
        assert sum(sizes.values()) - sizes.get("0.1-0.33", 0) == 15


@pytest.mark.parametrize("name", ["mine", "CAM, the true class", "gradient, the predicted class", "whole photo"])
def test_gt_known_is_measured_on_photos_squashed_and_cropped(folder, table, name):
    photos = photos_of(folder)
    classifier, _ = load_classifier(folder / "classifier.safetensors")
    right = []
    for index, label in enumerate(photos.labels.tolist()):
        picture = resize(photos.image(index), SIZE, "squash and crop")
        truth = resize_annotation(photos.annotation(index), SIZE, SIZE, SIZE, "squash and crop")
        if name == "mine":
            mask = SaliencyMapper.load(folder / "mine" / "mapping.safetensors").masks(picture[None])[0][0]
        elif name == "whole photo":
            mask = np.ones((SIZE, SIZE), np.float32)
        else:
            method, words = name.split(", ")
            image = normalised(classifier, picture)
            with torch.no_grad():
                seen = int(classifier(image).argmax())
            told = torch.tensor([label if words == "the true class" else seen])
            coarse = min_max(METHODS[method](classifier, image, told)).half().float()
            fine = torch.nn.functional.interpolate(coarse[None], (SIZE, SIZE), mode="bilinear", align_corners=False)
            mask = fine[0, 0].numpy()
        right.append(iou(largest_box(binary_mask(mask)), truth.boxes).max() >= 0.5)
    line = next(line for line in table.lines if line.name == name)
    assert line.numbers["GT-known"].value == pytest.approx(np.mean(right))


@pytest.mark.parametrize("name", ["mine", "CAM, the true class", "whole photo", "centre square"])
def test_wsolevaluation_measures_squashed_photos(folder, table, name):
    """The scenes are square, so their central crop is all of them."""
    line = next(line for line in table.lines if line.name == name)
    masks = np.concatenate([line.entry.masks(np.array([i])) for i in range(15)])
    expected = measure_wsol(name, table.crops.predictions(np.arange(15), masks, None)).numbers
    assert {key: line.numbers[key] for key in expected} == expected
    assert expected["LE squashed, alpha 1"] == line.numbers["LE, alpha 1"]


def test_with_a_judge_every_row_has_its_fidelity(folder, tmp_path):
    warnings, reporter, judge = [], Reporter(), open_judge(str(folder / "classifier.safetensors"))
    reporter.warning = warnings.append
    table = run(folder, only=["CAM"], out=str(tmp_path / "out"), judge=judge, reporter=reporter)
    (warning,) = (text for text in warnings if "The judge" in text)
    assert "is a test_resnet, as is the classifier of the baselines, mine, yours" in warning
    line = next(line for line in table.lines if line.name == "CAM, the true class")
    crops, everything = table.crops, np.arange(15)
    boxes = [truth.boxes for truth in crops.truths]
    expected = measure_fidelity(
        "CAM", line.entry.masks(everything), crops.images, crops.labels, judge, boxes, PAPER
    ).numbers
    assert {key: line.numbers[key] for key in FIDELITY_MEASURES} == expected
    outcome = table1(table)
    (fidelity,) = (one for one in outcome.further if one.title == f"Fidelity to {folder.name}")
    assert fidelity.head == ["", *FIDELITY_MEASURES.values()]
    assert len(fidelity.rows) == len(table.lines)
    assert f"Fidelity to {folder.name}, on at most 200 photos" in outcome.text


def test_fidelity_is_stored_for_the_masks_the_boxes_and_the_weights_of_the_judge(folder, table, tmp_path, monkeypatch):
    judge, measured = open_judge(str(folder / "classifier.safetensors")), []

    def measure(name, *arguments):
        measured.append(name)
        return measure_fidelity(name, *arguments)

    monkeypatch.setattr(table1_rows, "measure_fidelity", measure)
    entry, crops, study = replace(table.lines[0].entry, chosen=np.arange(2)), table.crops, Study(tmp_path, {})
    masks, half = entry.masks(entry.chosen), [replace(truth, boxes=truth.boxes / 2) for truth in crops.truths]
    for changes, again in [({}, 1), ({}, 0), ({"judge": "x"}, 1), ({"masks": 1 - masks}, 1), ({"truths": half}, 1)]:
        measured.clear()
        given = replace(judge, key=changes.get("judge", judge.key))
        seen = replace(crops, truths=changes.get("truths", crops.truths))
        row = judged(entry, changes.get("masks", masks), seen, CLASSES, given, study, Reporter())
        assert len(measured) == again
        assert row.values.keys() == row.numbers.keys() == FIDELITY_MEASURES.keys()


def test_slow_baselines_are_not_measured_by_the_field_protocol(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(table1_rows, "BASELINES", only_some(replace(find_baseline("CAM"), slow=1)))
    found = run(folder, only=None, out=str(tmp_path / "out"), few=3)
    assert [line.name for line in found.lines if "GT-known" not in line.numbers] == ROWS[:2]
    assert {row[1] for row in table1(found).further[0].rows if row[0].startswith("CAM")} == {"-"}


def test_u2net_is_measured_from_the_users_file_and_its_maps_are_kept(folder, tmp_path):
    write_network(tmp_path / "u2netp.onnx")
    table = run(folder, only=["u2netp"], out=str(tmp_path / "out"), weights=tmp_path)
    (line,) = table.lines[2:-4]
    assert (line.name, len(line.entry.chosen)) == ("u2netp, supervised by drawn masks", 15)
    assert line.entry.given == "supervised by drawn masks"
    assert {"LE, alpha 1", "GT-known", "mask IoU"} <= set(line.numbers)
    own = SalientObject(tmp_path / "u2netp.onnx").mask(table.crops.images[3])
    np.testing.assert_allclose(line.entry.masks(np.array([3]))[0], own, atol=0.02)  # saved as 16 bits
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.npz")}
    assert len(kept) == 45  # three protocols
    run(folder, only=["u2netp"], out=str(tmp_path / "out"), weights=tmp_path)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.npz")} == kept


def test_without_its_file_u2net_is_skipped_with_the_reason_or_refused(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(table1_rows, "BASELINES", only_some(*map(find_baseline, ("CAM", "u2net", "u2netp"))))
    write_network(tmp_path / "u2netp.onnx")
    heard = Heard()
    table = run(folder, only=None, out=str(tmp_path / "out"), weights=tmp_path, reporter=heard)
    assert [line.name for line in table.lines[2:-4]] == [*ROWS[:2], "u2netp, supervised by drawn masks"]
    assert heard.messages == [
        "Skipped (missing requirement in parentheses): u2net (--weights FOLDER with u2net.onnx)."
    ]  # fmt: skip
    with pytest.raises(UserError, match=r"Not possible .*: u2netp \(--weights FOLDER with u2netp\.onnx\)\.$"):
        run(folder, only=["u2netp"], out=str(tmp_path / "out"))


def test_the_text_says_what_the_columns_mean(table):
    text = table1(table).text
    assert text.startswith("15 photos, central crop")
    assert "CAM: m >= 0.2 max m; Grad-CAM: m >= 0.15 max m; gradient: graph cut by colour" in text
    assert f"mine {table.lines[0].milliseconds / table.classifier_milliseconds:.2f} times that" in text


def test_for_a_narrow_terminal_there_are_fewer_columns(table):
    head, rows = table1(table).summary
    assert head == ["", "LE ↓", "rule ↓", "OM ↓", "F1 ↑", "MaxBoxAccV2 ↑", "ms", "row is"]
    assert len(rows) == len(table.lines)
    for row, line in zip(rows, table.ranked, strict=True):
        assert row[0] == line.name.replace(", the ", ", ")
        assert row[1] == f"{100 * line.numbers['LE, alpha 1'].value:.1f}"
        assert (row[-1] in ("worse", "tie", "better")) == (line is not table.lines[0])


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
    mapping = folder / "mine" / "mapping.safetensors"
    with pytest.raises(UserError, match="does not have exactly the 3 classes") as refused:
        run_table1(
            str(folder / "scenes" / "photos"), mappings=[mapping], classifier=str(path),
            masks=folder / "scenes" / "masks", size=SIZE, out=tmp_path / "out",
        )  # fmt: skip
    assert str(path) in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_an_unseen_classifier_explains_the_class_that_it_sees_and_has_no_om(folder, table, tmp_path):
    """The same classifier under other names: the same maps, but nothing is said of the true class."""
    renamed, about = load_classifier(folder / "classifier.safetensors")
    save_classifier(tmp_path / "renamed.safetensors", renamed, ["ant", "bee", "cat"], {"origin": about["origin"]})
    mapping = folder / "mine" / "mapping.safetensors"
    found = measure_table1(
        photos_of(folder), mappings=[mapping], classifier=str(tmp_path / "renamed.safetensors"), out=tmp_path / "out",
        size=SIZE, unseen=True, only=ASKED,
    )  # fmt: skip
    lines, known = ({line.name: line for line in of.lines} for of in (found, table))
    predicted = [name for name in ROWS if "predicted" in name]
    assert [name for name in lines if "class" in name] == predicted
    for name in predicted:
        np.testing.assert_array_equal(lines[name].errors[ALPHA_ONE], known[name].errors[ALPHA_ONE])
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
        ("lite0", "lite0 does not have exactly the 3 classes"),
    ],
)
def test_what_is_no_classifier_of_these_photos_is_refused(folder, tmp_path, classifier, word):
    with pytest.raises(UserError, match=word):
        run_table1(
            str(folder / "scenes" / "photos"), mappings=[folder / "mine" / "mapping.safetensors"],
            classifier=classifier, out=tmp_path / "out", masks=folder / "scenes" / "masks", size=SIZE,
        )  # fmt: skip


def test_a_mapping_is_no_classifier(folder, tmp_path):
    mapping, photos = folder / "mine" / "mapping.safetensors", folder / "scenes" / "photos"
    with pytest.raises(UserError, match="not a casmap classifier"):
        run_table1(
            str(photos), mappings=[mapping], classifier=str(mapping), out=tmp_path / "out",
            masks=folder / "scenes" / "masks",
        )  # fmt: skip


def test_photos_without_annotations_are_refused(folder, tmp_path):
    for number in range(6):
        path = tmp_path / "photos" / CLASSES[number % 3] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.new("RGB", (SIZE, SIZE)).save(path)
    with pytest.raises(UserError, match="nothing to evaluate"):
        run_table1(
            str(tmp_path / "photos"),
            mappings=[folder / "mine" / "mapping.safetensors"],
            classifier=str(folder / "classifier.safetensors"),
            out=tmp_path / "out",
            size=SIZE,
        )


def test_a_missing_library_is_named_with_its_extra_before_any_photo_is_read(fresh, tmp_path):
    start = """
import sys

class Missing:
    def find_spec(name, path=None, target=None):
        if name == "captum":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing)
from casmap.cli.main import main
main()
"""
    sentence = fresh("study", "table1", "no-such-folder", start=start, cwd=tmp_path).sentence()
    assert "captum" in sentence
    assert install_hint("peers") in sentence
