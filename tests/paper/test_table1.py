"""Table 1 from end to end on a few scenes in files, each of its numbers against the parts it is made of."""

import csv
import io
import json
import shutil
from dataclasses import asdict, replace

import cv2
import numpy as np
import PIL.Image
import pytest
import torch
from rich.console import Console

from casmap.baselines import adversarial, real_time
from casmap.baselines.baseline import unit
from casmap.baselines.cam import cam
from casmap.baselines.grad_cam import grad_cam
from casmap.baselines.gradient import gradient
from casmap.baselines.rivals import RIVALS as ALL_RIVALS
from casmap.data.folders import PhotoFolder
from casmap.data.resizing import resize, resize_annotation
from casmap.data.scenes import Scenes
from casmap.data.write import write_photos
from casmap.errors import UserError
from casmap.evaluation.evaluate import Mapped, Number, own_alpha_errors
from casmap.evaluation.intervals import bootstrap_interval, paired_interval
from casmap.evaluation.localization import localization_error, predicted_box
from casmap.evaluation.table import system_of
from casmap.evaluation.wsol_metrics import is_tuning
from casmap.inference.mapper import SaliencyMapper
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import load_classifier, save_classifier, save_mapping
from casmap.models.network import SaliencyNetwork
from casmap.paper import fallback, table1
from casmap.paper.table1 import ALPHA_ONE, OWN_ALPHA, OWN_RULE, Line, Table1, difference, run_table1
from casmap.paper.table1_files import cells, write_table1

SIZE = 64
CLASSES = ["class-00", "class-01", "class-02"]
ASKED = ["CAM", "grad-cam", "gradient"]
RIVALS = [
    *(f"{name}, the {told} class" for name in ("CAM", "Grad-CAM", "gradient") for told in ("true", "predicted")),
    "centre box",
    "whole picture",
]
PEERS = {"CAM": cam, "Grad-CAM": grad_cam, "gradient": gradient}


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


def run(folder, mappings=("mine", "yours"), masks=True, only=ASKED, out="out", **options):
    return run_table1(
        str(folder / "scenes" / "photos"),
        [folder / name / "mapping.safetensors" for name in mappings],
        str(folder / "classifier.safetensors"),
        folder / out,
        **({"masks": folder / "scenes" / "masks"} if masks else {"boxes": folder / "scenes" / "boxes.csv"}),
        size=SIZE,
        only=only,
        **options,
    )


@pytest.fixture(scope="module")
def made(folder):
    """The table, the crops, and what was printed."""
    text = io.StringIO()
    console = Console(file=text, width=300)
    table, crops = run(folder, console=console)
    write_table1(table, crops, folder / "out", console)
    return table, crops, text.getvalue()


@pytest.fixture(scope="module")
def table(made) -> Table1:
    return made[0]


@pytest.fixture(scope="module")
def numbers(folder, made):
    return json.loads((folder / "out" / "table1.json").read_text())


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
            told = torch.tensor([label if words == "the true class" else seen])
            coarse = unit(PEERS[method](classifier, image, told)).half().float()  # as it is kept
            fine = torch.nn.functional.interpolate(coarse[None], (SIZE, SIZE), mode="bilinear", align_corners=False)
            yield fine[0, 0].numpy(), seen


# ---------------------------------------------------------------------------------------------- rows


def test_there_is_a_row_for_each_mapping_each_peer_and_each_constant(table, numbers):
    assert [line.name for line in table.lines] == ["mine", "yours", *RIVALS]
    assert list(numbers["rows"]) == [line.name for line in table.ranked]
    for line in table.lines:
        assert len(line.errors[ALPHA_ONE]) == len(line.errors[OWN_ALPHA]) == len(line.chosen) == 15
        assert {"LE, alpha 1", "LE, own alpha", "F1", "PxAP", "mask IoU", "area"} <= set(line.numbers)
        # A separate encoder tells no class, nor do a box or the whole.
        assert ("OM" in line.numbers) == (line.name not in ("yours", "centre box", "whole picture"))
        assert (OWN_RULE in line.errors) == line.name.startswith(("CAM", "Grad-CAM", "gradient"))
        assert line.milliseconds > 0


def test_rows_are_ranked_by_their_errors(table):
    errors = [line.numbers["LE, alpha 1"].value for line in table.ranked]
    assert errors == sorted(errors)
    assert len(errors) == len(table.lines)


@pytest.mark.parametrize("name", ["mine", "yours", *RIVALS[:6], "whole picture"])
def test_a_row_is_what_its_masks_say(folder, table, name):
    photos = photos_of(folder)
    line = next(line for line in table.lines if line.name == name)
    masks, told = zip(*slow_masks(folder, name), strict=True)
    truths = [resize_annotation(photos.annotation(i), SIZE, SIZE, SIZE, "crop") for i in range(len(photos))]
    boxes = [truth.boxes for truth in truths]
    errors = localization_error([predicted_box(mask) for mask in masks], boxes)
    np.testing.assert_array_equal(line.errors[ALPHA_ONE], errors)
    assert line.numbers["LE, alpha 1"] == Number(errors.mean(), *bootstrap_interval(errors))
    assert line.numbers["area"].value == pytest.approx(np.mean(masks), abs=1e-5)
    if told[0] is not None:
        missed = [error or seen != label for error, seen, label in zip(errors, told, photos.labels, strict=True)]
        assert line.numbers["OM"].value == pytest.approx(np.mean(missed))
    own, alphas = own_alpha_errors(Mapped(photos.names, np.stack(masks), np.full(15, np.nan), truths))
    np.testing.assert_array_equal(line.errors[OWN_ALPHA], own)
    assert line.alphas == alphas
    assert line.numbers["LE, own alpha"] == Number(own.mean(), *bootstrap_interval(own))
    if OWN_RULE in line.errors:
        rule = next(rival.rule for rival in ALL_RIVALS if rival.name == name.split(",")[0])
        pictures = [resize(photos.image(index), SIZE, "crop") for index in range(len(photos))]
        found = [rule.box(mask, picture) for mask, picture in zip(masks, pictures, strict=True)]
        np.testing.assert_array_equal(line.errors[OWN_RULE], localization_error(found, boxes))


def test_no_two_peers_are_the_same_row(table):
    """Else a row that repeats another would pass for it."""
    areas = {line.name: round(line.numbers["area"].value, 6) for line in table.lines}
    assert len(set(areas.values())) == len(areas)


def test_json_holds_the_returned_numbers(table, numbers):
    assert set(numbers) == {"classifier alone, milliseconds", "rows", "paired LE differences"}
    for line in table.lines:
        row = dict(numbers["rows"][line.name])
        assert row.pop("own alphas") == list(line.alphas)
        assert row.pop("photos") == 15
        assert row.pop("milliseconds") == line.milliseconds
        assert row.pop("is told") == line.told
        assert row.pop("paper") == line.paper
        assert row.pop("its best way") == min(line.errors, key=lambda way: line.errors[way].sum())
        assert row.pop("authors' rule") == line.rule
        assert row == {key: asdict(number) for key, number in line.numbers.items()}


def test_csv_and_markdown_hold_them_too(folder, table):
    rows = list(csv.DictReader((folder / "out" / "table1.csv").read_text().splitlines()))
    assert [row["row"] for row in rows] == [line.name for line in table.ranked]
    for row, line in zip(rows, table.ranked, strict=True):
        number = line.numbers["LE, alpha 1"]
        found = [float(row[f"LE, alpha 1{end}"]) for end in ("", " low", " high")]
        assert found == pytest.approx([number.value, number.low, number.high], abs=1e-6)
        assert (row["OM"] == "") == ("OM" not in line.numbers)
        if line is not table.lines[0]:
            assert float(row["LE difference"]) == pytest.approx(difference(table.lines[0], line).value, abs=1e-6)
            assert row["it is"] in ("better", "worse", "tie")
    text = (folder / "out" / "table1.md").read_text()
    head, printed = cells(table)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(table.lines)
    assert all(line.count("|") == len(head) + 1 for line in lines)
    for line, row in zip(lines[2:], printed, strict=True):
        assert line.split("|")[1].strip() == row[0].replace("\n", " ")


def test_the_page_shows_every_row_on_the_same_photos(folder, table):
    page = (folder / "out" / "table1.html").read_text()
    assert page.count("data:image/png;base64,") == 1 + len(table.lines)
    assert 1 <= len(table.shown) <= 7
    for line in table.lines:
        assert f"{line.name}: LE" in page
    assert "http://" not in page
    assert "https://" not in page


def test_with_boxes_only_there_is_nothing_of_masks_and_the_errors_are_the_same(folder, table):
    lines = run(folder, masks=False)[0].lines
    for line, known in zip(lines, table.lines, strict=True):
        assert {"LE, alpha 1", "LE, own alpha", "F1"} <= set(line.numbers)
        assert not {"PxAP", "mask IoU"} & set(line.numbers)
        for way in known.errors:
            np.testing.assert_array_equal(line.errors[way], known.errors[way])


# ---------------------------------------------------------------------------------------------- a second start


def test_maps_that_are_there_are_not_made_again(folder, table, monkeypatch):
    """All three rivals are asked again only for the time that they take; a map that is lost is made again."""
    (kept,) = (folder / "out" / "maps").glob("CAM-*")
    maps = sorted(kept.iterdir())
    right = sum(label == seen for label, seen in zip(photos_of(folder).labels, seen_classes(folder), strict=True))
    assert len(maps) == 15 + (15 - right)  # the predicted class, where it is the true one, is not made twice
    before = {path: path.stat().st_mtime_ns for path in maps}
    lost = maps[3]
    content, made = lost.read_bytes(), np.load(lost)["map"]
    lost.write_bytes(content[: len(content) // 2])
    again = run(folder)[0]
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
    photos, mapping = str(folder / "scenes" / "photos"), [folder / "mine" / "mapping.safetensors"]
    rest = {"masks": folder / "scenes" / "masks", "only": ["CAM"]}
    with pytest.raises(UserError, match="maps of another classifier"):
        run_table1(photos, mapping, str(other), tmp_path / "out", size=SIZE, **rest)
    with pytest.raises(UserError, match="maps of another size"):
        run_table1(photos, mapping, str(folder / "classifier.safetensors"), tmp_path / "out", size=2 * SIZE, **rest)


# ---------------------------------------------------------------------------------------------- rivals that learn


@pytest.fixture
def short_lessons(monkeypatch):
    monkeypatch.setattr(adversarial, "RECIPE", adversarial.RECIPE.replace(steps=2, batch=4, size=SIZE, device="cpu"))
    monkeypatch.setattr(real_time, "STEPS", 2)
    monkeypatch.setattr(real_time, "BATCH", 4)


def test_rivals_that_learn_learn_from_the_photos_given_and_once(folder, tmp_path, short_lessons):
    learning = ["real-time saliency", "adversarial localization", "box regression"]
    lines = run(folder, only=learning, out=str(tmp_path / "out"), train="scenes:classes=3,photos=8,size=64")[0].lines
    names = ["real-time saliency, the true class", "real-time saliency, the predicted class", *learning[1:]]
    assert [line.name for line in lines[2:-2]] == names
    assert [line.told for line in lines[4:6]] == ["nothing", "boxes, in training"]
    # What was shown the boxes of some photos is measured on the others, and compared on those.
    boxed = lines[5]
    assert 0 < len(boxed.chosen) < 15
    apart = difference(lines[0], boxed)
    mine = lines[0].errors[ALPHA_ONE][boxed.chosen]
    assert apart.value == pytest.approx((mine - boxed.errors[boxed.strongest]).mean())
    (learned,) = (tmp_path / "out").glob("learned-*")
    kept = {path: path.read_bytes() for path in learned.glob("*.safetensors")}
    assert {path.name for path in kept} == {"real-time.safetensors"}
    again = run(folder, only=learning, out=str(tmp_path / "out"), train="scenes:classes=3,photos=8,size=64")[0].lines
    assert [line.numbers for line in again] == [line.numbers for line in lines]
    assert {path: path.read_bytes() for path in kept} == kept
    run(folder, only=learning, out=str(tmp_path / "out"), train="scenes:classes=3,photos=9,size=64")
    others = next(path for path in (tmp_path / "out").glob("learned-*") if path != learned)  # of other photos, anew
    assert (others / "real-time.safetensors").read_bytes() != kept[learned / "real-time.safetensors"]


def test_slow_rivals_get_few_photos_of_both_halves_and_are_compared_on_those(folder, tmp_path, monkeypatch):
    slow = [replace(rival, slow=1) for rival in ALL_RIVALS if rival.name == "CAM"]
    monkeypatch.setattr(table1, "RIVALS", slow)
    found, crops = run(folder, only=None, out=str(tmp_path / "out"), few=9)
    ours, _, rival, *_ = found.lines
    assert len(rival.chosen) == 9
    assert {is_tuning(crops.names[i], 0.5) for i in rival.chosen} == {True, False}
    mine = ours.errors[ALPHA_ONE][rival.chosen]
    assert difference(ours, rival).value == pytest.approx((mine - rival.errors[rival.strongest]).mean())
    assert len(found.shown) == 7
    assert found.shown == [int(i) for i in crops.drawn if i in rival.chosen][:7]


@pytest.mark.parametrize("rival", ["deconvnet", "DeSaliNet", "feedback"])
def test_a_rival_about_relus_does_not_explain_a_backbone_without_any(folder, tmp_path, rival):
    """It would be the gradient under another name."""
    smooth = tmp_path / "smooth.safetensors"
    save_classifier(smooth, Classifier("test_efficientnet", 3), CLASSES, {"origin": "Nobody trained it."})
    photos, mapping = str(folder / "scenes" / "photos"), [folder / "mine" / "mapping.safetensors"]
    with pytest.raises(UserError, match=f"{rival} cannot explain a test_efficientnet"):
        run_table1(
            photos, mapping, str(smooth), tmp_path / "out",
            masks=folder / "scenes" / "masks", size=SIZE, only=[rival],
        )  # fmt: skip


@pytest.mark.parametrize("count", [1, 2])
def test_a_photo_or_two_are_enough_for_all_but_box_regression(folder, tmp_path, count):
    """One photo is in one half only: nothing is left to fit to, or to measure."""
    write_photos(Scenes(classes=3, photos=count, size=SIZE, seed=5), tmp_path / "scenes")
    for label in CLASSES:
        (tmp_path / "scenes" / "photos" / label).mkdir(exist_ok=True)
    text = io.StringIO()
    photos, classifier = str(tmp_path / "scenes" / "photos"), str(folder / "classifier.safetensors")
    options = {"masks": tmp_path / "scenes" / "masks", "size": SIZE, "console": Console(file=text, width=300)}
    mapping = [folder / "mine" / "mapping.safetensors"]
    found, crops = run_table1(photos, mapping, classifier, tmp_path / "out", unseen=True, only=["CAM"], **options)
    write_table1(found, crops, tmp_path / "out", Console(file=text))
    assert len(found.shown) == count
    if count == 1:
        with pytest.raises(UserError, match=r"Not possible, .* box regression \(more photos\)"):
            run_table1(photos, mapping, classifier, tmp_path / "out", unseen=True, only=["box regression"], **options)


def test_a_rival_that_a_backbone_does_not_suit_explains_a_resnet18_and_says_so(folder, tmp_path, monkeypatch):
    """A vision transformer has no feature maps before its head, as CAM needs them."""
    monkeypatch.setattr(fallback, "RECIPE", fallback.RECIPE.replace(first_steps=1, batch=4, size=SIZE, device="cpu"))
    torch.manual_seed(0)
    vit = tmp_path / "vit.safetensors"
    save_classifier(vit, Classifier("test_vit", 3), CLASSES, {"origin": "Nobody trained it."})
    photos, mapping = str(folder / "scenes" / "photos"), [folder / "mine" / "mapping.safetensors"]
    rest = {"masks": folder / "scenes" / "masks", "size": 160, "only": ["CAM", "gradient"]}
    with pytest.raises(UserError, match="CAM cannot explain a test_vit: with --train PHOTOS it explains a resnet18"):
        run_table1(photos, mapping, str(vit), tmp_path / "out", **rest)
    lessons = "scenes:classes=3,photos=8,size=64"
    text = io.StringIO()
    console = Console(file=text, width=300)
    found, _ = run_table1(photos, mapping, str(vit), tmp_path / "out", train=lessons, console=console, **rest)
    assert "CAM cannot explain a test_vit, and explains a resnet18 instead" in text.getvalue()
    methods = [line.method for line in found.lines]
    assert methods == ["mine", *["CAM (of a resnet18)"] * 2, *["gradient"] * 2, "centre box", "whole picture"]
    (learned,) = (tmp_path / "out").glob("learned-*")
    assert (learned / "resnet18" / "classifier.safetensors").exists()


def test_what_is_missing_is_named_and_left_out_or_refused_where_it_was_asked_for(folder, tmp_path, monkeypatch):
    fast = [rival for rival in ALL_RIVALS if rival.name in ("CAM", "RISE", "real-time saliency")]
    monkeypatch.setattr(table1, "RIVALS", fast)
    monkeypatch.setattr(table1, "find_spec", lambda name: None)
    text = io.StringIO()
    table, _ = run(folder, only=None, out=str(tmp_path / "out"), console=Console(file=text, width=300))
    assert [line.name for line in table.lines[2:-2]] == RIVALS[:2]
    without = "RISE (pip install 'casmap[torchray]'), real-time saliency (--train PHOTOS of the same classes)"
    assert f"Left out, for want of what is in brackets: {without}." in text.getvalue()
    with pytest.raises(UserError, match=r"Not possible, for want of what is in brackets: RISE \(pip install"):
        run(folder, only=["CAM", "RISE"], out=str(tmp_path / "out"))


def test_a_rival_named_twice_has_its_rows_once(folder, tmp_path):
    table, _ = run(folder, only=["CAM", "cam"], out=str(tmp_path / "out"))
    assert [line.name for line in table.lines[2:-2]] == RIVALS[:2]


def test_photos_to_learn_from_must_be_of_the_same_classes(folder, tmp_path):
    with pytest.raises(UserError, match="other classes"):
        run(folder, out=str(tmp_path / "out"), train="scenes:classes=4,photos=8,size=64")


def test_an_unknown_rival_is_named_beside_those_there_are(folder, tmp_path):
    with pytest.raises(UserError, match=r"no rival 'CAMEL': LRP, occlusion, .*CAM"):
        run(folder, only=["CAMEL"], out=str(tmp_path / "out"))


# ---------------------------------------------------------------------------------------------- differences


def test_differences_are_those_of_the_errors_photo_by_photo(table, numbers):
    paired = numbers["paired LE differences"]
    by_name = {line.name: line for line in table.lines}
    assert {ours: set(rivals) for ours, rivals in paired.items()} == {
        "mine": {"yours", *RIVALS},
        "yours": {"mine", *RIVALS},
    }
    for ours, rivals in paired.items():
        for theirs, number in rivals.items():
            ways = by_name[theirs].errors
            strongest = min(ways.values(), key=lambda errors: errors.sum())
            mine = by_name[ours].errors[ALPHA_ONE]
            assert number["value"] == pytest.approx(np.mean([a - b for a, b in zip(mine, strongest, strict=True)]))
            assert (number["low"], number["high"]) == paired_interval(mine, strongest)
            assert number["low"] <= number["value"] <= number["high"]


def line_of(name, chosen, **errors):
    ways = {"one": ALPHA_ONE, "own": OWN_ALPHA, "rule": OWN_RULE}
    found = {ways[way]: np.array(values, np.float64) for way, values in errors.items()}
    return Line(name, name, "", "nothing", np.array(chosen), {}, found, (1.0, 1.0), None, 1.0, np.zeros((0, 4, 4)))


def test_a_mapping_at_alpha_1_is_compared_with_a_rival_in_its_strongest_way_on_the_photos_of_both():
    """By hand: the mapping has 1/4 at alpha 1, whatever its own alpha would give."""
    ours = line_of("ours", range(4), one=[1, 0, 0, 0], own=[0, 0, 0, 0])
    better_at_own = line_of("own", range(4), one=[1, 1, 1, 1], own=[0, 1, 1, 0])
    better_at_one = line_of("one", range(4), one=[0, 0, 0, 0], own=[1, 1, 1, 1])
    better_by_rule = line_of("rule", range(4), one=[1, 1, 1, 1], own=[1, 1, 1, 1], rule=[1, 1, 1, 0])
    few = line_of("few", [0, 3], one=[0, 1], own=[1, 1])
    rivals = (better_at_own, better_at_one, better_by_rule, few)
    assert [difference(ours, rival).value for rival in rivals] == [-0.25, 0.25, -0.5, 0.0]
    low, high = paired_interval(np.array([1.0, 0, 0, 0]), np.array([0.0, 1, 1, 0]))
    assert (difference(ours, better_at_own).low, difference(ours, better_at_own).high) == (low, high)


# ---------------------------------------------------------------------------------------------- printed


def test_the_table_is_printed_with_its_differences(made):
    table, _, text = made
    assert "15 photos" in text
    for title in ("LE ↓", "LE, authors' rule ↓", "LE, own alpha ↓", "OM ↓", "F1 ↑", "PxAP ↑", "mask IoU ↑", "ms"):
        assert title in text
    printed = [line for line in text.splitlines() if line.startswith("│ ")]
    firsts = [line for line in printed if line.strip("│").split("│")[1].strip()]  # what is told takes one line
    assert len(firsts) == len(table.lines)
    for first, line in zip(firsts, table.ranked, strict=True):
        found = [cell.strip() for cell in first.strip("│").split("│")]
        assert found[:2] == [line.method, line.told]
        assert found[2] == f"{100 * line.numbers['LE, alpha 1'].value:.1f}"
        if line is not table.lines[0]:
            assert found[3].startswith(f"{100 * difference(table.lines[0], line).value:+.1f} [")
    assert "CAM: m >= 0.2 max m; Grad-CAM: m >= 0.15 max m; gradient: graph cut of colours" in text
    assert "With all columns" not in text
    ratio = table.lines[0].milliseconds / table.bare
    assert f"mine {ratio:.2f} times that" in text


def test_in_a_narrow_terminal_there_are_fewer_columns_and_none_is_cut(made, tmp_path):
    table, crops, _ = made
    text = io.StringIO()
    write_table1(table, crops, tmp_path, Console(file=text, width=80))
    assert "…" not in text.getvalue()
    lines = text.getvalue().splitlines()
    values = [line for line in lines if line.split()[-1:] in (["worse"], ["tie"], ["better"])]
    assert len(values) == len(table.lines) - 1
    for line in table.lines[1:]:
        le, told = f"{100 * line.numbers['LE, alpha 1'].value:.1f}", line.name.split()[0]
        assert any(le in value and told in value for value in values)
    assert "rule: LE by the authors' rule. With all columns and intervals:" in text.getvalue()


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
        run_table1(*arguments, masks=folder / "scenes" / "masks", size=SIZE, out=tmp_path / "out")
    assert str(path) in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_an_unseen_classifier_explains_the_class_that_it_sees_and_has_no_om(folder, table, tmp_path):
    """The same classifier under other names: the same maps, but nothing is said of the true class."""
    renamed, about = load_classifier(folder / "classifier.safetensors")
    save_classifier(tmp_path / "renamed.safetensors", renamed, ["ant", "bee", "cat"], {"origin": about["origin"]})
    mapping = folder / "mine" / "mapping.safetensors"
    found, _ = run_table1(
        str(folder / "scenes" / "photos"), [mapping], str(tmp_path / "renamed.safetensors"), tmp_path / "out",
        masks=folder / "scenes" / "masks", size=SIZE, unseen=True, only=ASKED,
    )  # fmt: skip
    lines, known = ({line.name: line for line in of.lines} for of in (found, table))
    predicted = [name for name in RIVALS if "predicted" in name]
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
        ("lite0", "lite0 does not know exactly the 3 classes"),
    ],
)
def test_what_is_no_classifier_of_these_photos_is_refused(folder, tmp_path, classifier, word):
    with pytest.raises(UserError, match=word):
        run_table1(
            str(folder / "scenes" / "photos"), [folder / "mine" / "mapping.safetensors"], classifier, tmp_path / "out",
            masks=folder / "scenes" / "masks", size=SIZE,
        )  # fmt: skip


def test_a_mapping_is_no_classifier(folder, tmp_path):
    mapping, photos = folder / "mine" / "mapping.safetensors", folder / "scenes" / "photos"
    with pytest.raises(UserError, match="not a casmap classifier"):
        run_table1(str(photos), [mapping], str(mapping), tmp_path / "out", masks=folder / "scenes" / "masks")


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
            tmp_path / "out",
            size=SIZE,
        )
