"""Can masks be trusted, told without boxes."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from casmap.data.scenes import Scenes
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.reporting import SILENT
from casmap.tools.check import OWN, CheckResult, check, check_photos, write_check


class Painter:
    """Stands for a network whose class is the brightest corner, and whose mask marks a corner of our choice."""

    def __init__(self, corner: int) -> None:
        self.classes, self.predicts, self.concurrent = ["left", "right"], True, False
        self.mean, self.std = (0.5,) * 3, (0.5,) * 3
        self.corner = corner

    def run(self, images):
        side = images.shape[-1] // 4
        bright = [images[:, :, :side, :side].mean((1, 2, 3)), images[:, :, :side, -side:].mean((1, 2, 3))]
        masks = np.zeros((len(images), *images.shape[-2:]), np.float32)
        masks[:, : side + 4, : side + 4] = 1 - self.corner
        masks[:, : side + 4, -side - 4 :] = np.maximum(masks[:, : side + 4, -side - 4 :], self.corner)
        return masks, np.stack([bright[0] - 0.01, bright[1]], axis=1) * 20  # where both are alike, right


class Corners:
    """Grey photos with one white corner that tells the class."""

    classes = ["left", "right"]  # noqa: RUF012
    names = [f"{number}.png" for number in range(24)]  # noqa: RUF012
    labels = np.zeros(24, np.int64)  # all are bright at the left

    def __len__(self) -> int:
        return 24

    def image(self, index: int, least=None):
        picture = np.full((64, 64, 3), 100, np.uint8)
        picture[:16, :16] = 255
        return picture

    def annotation(self, index: int):
        return None


class Calipers(Corners):
    """Photos of two classes; those of `right` have three thin white strokes, each at another place."""

    labels = np.arange(24) % 2

    def image(self, index: int, least=None):
        picture = super().image(index)
        for number in range(3 * (index % 2)):
            column = 20 + (7 * index + 13 * number) % 40
            picture[30 + index : 36 + index, column] = 255
        return picture


def test_burnt_in_strokes_are_named_and_shown(tmp_path) -> None:
    mapper, photos = SaliencyMapper(Painter(0), 64), Calipers()
    found = check_photos(mapper, photos, {}, SILENT)
    (told,) = found.burnt_in
    assert told in found.warnings
    assert "100 % of the photos of right and in 0 % of those of left" in told
    write_check(found, photos, mapper, tmp_path)
    page = (tmp_path / "check.html").read_text()
    assert page.index(told) < page.index("1.png") < page.index("Worst first")
    assert check_photos(mapper, Corners(), {}, SILENT).burnt_in == []


def checked(corner: int) -> CheckResult:
    return check_photos(SaliencyMapper(Painter(corner), 64), Corners(), {}, SILENT)


def test_a_mask_on_the_evidence_keeps_it_and_leaves_nothing() -> None:
    found = checked(0)
    means = {version: float(values.mean()) for version, values in found.correct[OWN].items()}
    assert (means["whole"], means["masked-in"]) == (1.0, 1.0)
    assert found.confidence["masked-in"].min() > 0.9
    assert found.confidence["inpainted"].max() < 0.7
    assert "at the top left" in " ".join(found.warnings)  # the evidence is the same corner in all
    assert found.verdict == "failed"  # so any other photo's mask is as good


def test_a_mask_beside_the_evidence_is_complained_of() -> None:
    found = checked(1)
    assert found.confidence["inpainted"].min() > 0.9
    told = " ".join(found.warnings)
    assert "still recognises 100% of the photos" in told
    assert "at the top right" in told


def test_the_worst_come_first() -> None:
    sure = {"masked-in": np.array([0.9, 0.1, 0.5]), "inpainted": np.array([0.1, 0.9, 0.5])}
    found = CheckResult(["a", "b", "c"], np.zeros(3, np.int64), ["x"], {}, sure, np.zeros((3, 4, 4), np.float32), True)
    assert found.worst.tolist() == [1, 2, 0]


def test_a_check_writes_a_sheet_and_all_numbers(casmap, mapping, knowing, tmp_path) -> None:
    scenes = "scenes:classes=4,photos=20,size=64"
    done = casmap("check", mapping, scenes, "--classifier", knowing, "--out", "sheet")
    assert done.code == 0, done.complained
    content = json.loads((tmp_path / "sheet" / "check.json").read_text())
    assert content["photos"] == 20
    assert content["verdict"] in done.said
    assert content["judgement"]["gain"].keys() == {"centred", "random", "another photo's"}
    assert content["judgement"]["agreement with the shipped mapping"]["photos"] == 20
    assert "Agreement with the shipped mapping" in (tmp_path / "sheet" / "check.html").read_text()
    assert content["known"]
    assert len(content["right"]) == 2
    rows = list(csv.DictReader((tmp_path / "sheet" / "check.csv").open()))
    assert sorted(int(row["worst"]) for row in rows) == list(range(1, 21))
    worst = min(rows, key=lambda row: float(row["confidence, masked-in"]) - float(row["confidence, inpainted"]))
    assert worst["worst"] == "1"
    page = (tmp_path / "sheet" / "check.html").read_text()
    assert page.count("data:image/png") == 3  # twenty photos, eight in a row
    assert "Against control masks" in page
    assert page.index(worst["photo"]) < page.index(next(row["photo"] for row in rows if row["worst"] == "20"))


def test_photos_of_other_classes_are_compared_with_the_first_opinion(tmp_path) -> None:
    found = check("scenes:classes=2,photos=6,size=64", out=tmp_path)
    assert not found.known
    assert found.correct[OWN]["whole"].tolist() == [1.0] * 6


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["nowhere.onnx", "scenes"], "nowhere.onnx"), (["MAPPING", "nowhere"], "nowhere")],
)
def test_what_cannot_be_checked_is_one_sentence(casmap, mapping, arguments, word) -> None:
    assert word in casmap("check", *(mapping if word == "MAPPING" else word for word in arguments)).sentence()


def test_a_classifier_of_other_classes_is_refused(casmap, mapping, classifier) -> None:
    done = casmap("check", mapping, "scenes:classes=4,photos=8,size=64", "--classifier", classifier)
    assert "does not have exactly the 4 classes" in done.sentence()


@pytest.mark.parametrize(
    ("classifier", "sentence"),
    [
        ("resnet18", "give them as a file, resnet18=FILE, or name another classifier."),
        ("lite9", "There is no backbone 'lite9': choose another, such as lite2"),
        ("gone.safetensors", "gone.safetensors"),
    ],
)
def test_a_classifier_without_weights_is_refused_with_what_check_can_do(casmap, mapping, classifier, sentence) -> None:
    done = casmap("check", "scenes:classes=4,photos=8,size=64", "--mapping", mapping, "--classifier", classifier)
    assert sentence in done.sentence()
    assert "--weights" not in done.sentence()


def test_scenes_are_held_out(tmp_path, mapping) -> None:
    found = check("scenes:classes=4,photos=8,size=64", mapping=mapping, out=tmp_path)
    assert not set(found.names) & set(Scenes(classes=4, photos=8, size=64).names)


def test_a_check_needs_no_matplotlib(fresh, mapping, tmp_path) -> None:
    """Which is of the extra `studies`; whoever installed `train` alone can check."""
    blocked = "import sys; sys.modules['matplotlib'] = None; from casmap.cli.main import main; main()"
    asked = ["check", mapping, "scenes:classes=4,photos=8,size=64", "--out", "sheet"]
    done = fresh(*asked, start=blocked, cwd=tmp_path)
    assert done.code == 0, done.complained
    assert (tmp_path / "sheet" / "check.html").exists()


def flat(value: float) -> CheckResult:
    """A check of masks that have one value everywhere, by a classifier that is always correct without its mask."""
    right = {"whole": 1.0, "masked-in": 1.0, "masked-out": 0.0, "inpainted": 0.0}
    values = {version: np.full(4, share) for version, share in right.items()}
    masks = np.full((4, 56, 56), value, np.float32)
    return CheckResult(list("abcd"), np.zeros(4, np.int64), ["x"], {OWN: values}, values, masks, True)


@pytest.mark.parametrize(
    ("value", "words"),
    [(1.0, "cover 100% of the photos"), (0.95, "single out no object"), (0.5, "cover 100%"), (0.0, "almost nothing")],
)
def test_masks_that_cover_everything_or_nothing_are_a_warning(value, words, tmp_path) -> None:
    """Masked in, such photos are whole, and masked out nothing is left: the classifier alone finds no fault."""
    (sentence,) = flat(value).warnings
    assert words in sentence
    assert flat(value).verdict == "failed"


def test_a_small_mask_and_a_large_one_are_no_warning() -> None:
    for side, warned in ((12, False), (50, False), (6, True), (55, True)):
        masks = np.zeros((4, 56, 56), np.float32)
        masks[:, 28 - side // 2 : 28 - side // 2 + side, 28 - side // 2 : 28 - side // 2 + side] = 1
        assert bool(replace(flat(1.0), masks=masks).warnings) == warned, side


def test_the_shipped_mapping_is_the_default(casmap, tmp_path) -> None:
    scenes = "scenes:classes=2,photos=6,size=64"
    assert casmap("check", scenes, "--out", "new").code == 0
    assert casmap("check", "casmap", scenes, "--out", "old").code == 0
    assert casmap("check", scenes, "--mapping", SHIPPED, "--out", "named").code == 0
    new, old, named = ((tmp_path / name / "check.csv").read_text() for name in ("new", "old", "named"))
    assert new == old == named


def test_the_arguments_of_0_1_0_are_still_understood(casmap, mapping, tmp_path) -> None:
    scenes = "scenes:classes=4,photos=8,size=64"
    assert casmap("check", mapping, scenes, "--out", "old").code == 0
    assert casmap("check", scenes, "--mapping", mapping, "--out", "new").code == 0
    assert (tmp_path / "old" / "check.csv").read_text() == (tmp_path / "new" / "check.csv").read_text()
    done = casmap("check", mapping, scenes, "--mapping", mapping)
    assert "Two mappings were given" in done.sentence()
    assert "takes one folder of photos; 2 were given" in casmap("check", scenes, scenes).sentence()


def test_a_folder_called_casmap_is_photos(casmap, tmp_path) -> None:
    (tmp_path / "casmap").mkdir()
    assert "takes one folder of photos; 2 were given" in casmap("check", "casmap", "scenes").sentence()
