"""Corrected photos teach the decoder."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from casmap.annotations.format import FORMATS, WriteOptions
from casmap.annotations.labelled import Labelled, labels_of
from casmap.annotations.regions import open_mask
from casmap.annotations.types import Kind
from casmap.data.folders import PhotoFolder
from casmap.data.photos import Subset
from casmap.data.scenes import Scenes
from casmap.data.validate import check
from casmap.data.write import write_photos
from casmap.errors import UserError
from casmap.evaluation.localization import iou, mask_iou
from casmap.evaluation.numbers import paired_difference
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.inference.objects import objects_of
from casmap.models.files import load_mapping
from casmap.reporting import Reporter
from casmap.tools.correct import Agreement, Corrected, agreement, bounded_mask, correct, train_on_corrections
from casmap.training.loop import train_mapping
from casmap.training.recipes import QUICK
from casmap.training.run import Run


@pytest.fixture
def trained(tmp_path):
    """A mapping that has hardly learned anything."""
    recipe = QUICK.replace(size=64, batch=4, steps=4, first_steps=4, checkpoint_every=2, threads=1)
    return train_mapping(Scenes(classes=4, photos=40, size=64), Run(tmp_path / "run", recipe)).mapping


def test_photos_that_were_not_corrected_gain_and_the_encoder_stays(trained, tmp_path) -> None:
    photos = Scenes(classes=4, photos=120, size=64, seed=5)
    few, others = Subset(photos, np.arange(24)), Subset(photos, np.arange(24, 120))
    path = train_on_corrections(trained, few, out=tmp_path / "out", steps=60)
    before, after = (agreement(SaliencyMapper.load(file), others).ious for file in (trained, path))
    assert paired_difference(after, before).low > 0.01
    (old, _), (new, about) = load_mapping(trained), load_mapping(path)
    for a, b in zip(old.encoder.state_dict().values(), new.encoder.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert about["corrected"] == {"photos": 24, "steps": 60}
    assert about["size"] == 64


def test_the_same_corrections_give_the_same_mapping(trained, tmp_path) -> None:
    photos = Scenes(classes=4, photos=12, size=64, seed=5)
    files = [train_on_corrections(trained, photos, out=tmp_path / name, steps=3) for name in ("a", "b")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_correction_tells_how_far_it_agreed_before_and_after(trained, tmp_path) -> None:
    scenes = "scenes:classes=4,photos=12,size=64"
    only = correct(scenes, mapping=trained, steps=0, out=tmp_path / "out")
    assert (only.after, only.mapping) == (None, None)
    assert not (tmp_path / "out").exists()
    found = correct(scenes, mapping=trained, steps=3, out=tmp_path / "out")
    assert found.mapping == tmp_path / "out" / "mapping.safetensors"
    np.testing.assert_array_equal(found.before.ious, only.before.ious)
    again = agreement(SaliencyMapper.load(found.mapping), Scenes(classes=4, photos=12, size=64))
    np.testing.assert_array_equal(found.after.ious, again.ious)


def test_agreement_is_the_iou_of_the_binary_mask(trained) -> None:
    photos = Scenes(classes=4, photos=6, size=64, seed=5)
    mapper = SaliencyMapper.load(trained)
    found = agreement(mapper, photos)
    wanted = [mask_iou(mapper(photos.image(i)).binary(), photos.annotation(i).mask) for i in range(6)]
    assert found.ious.tolist() == pytest.approx(wanted)
    assert found.classes == [photos.classes[label] for label in photos.labels]


def test_classes_are_told_worst_first() -> None:
    found = Agreement(["a", "b", "c"], ["cat", "dog", "cat"], np.array([0.2, 0.1, 0.4]))
    assert list(found.by_class()) == ["dog", "cat"]
    count, mean = found.by_class()["cat"]
    assert (count, round(mean, 3)) == (2, 0.3)


class Collecting(Reporter):
    """Keeps all messages."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


class Boxed:
    """Scenes of which only boxes are known, and of every second one nothing."""

    def __init__(self, scenes: Scenes) -> None:
        self.scenes = scenes
        self.classes, self.names, self.labels = scenes.classes, scenes.names, scenes.labels

    def __len__(self) -> int:
        return len(self.scenes)

    def image(self, index: int, least=None):
        return self.scenes.image(index)

    def annotation(self, index: int):
        return None if index % 2 else replace(self.scenes.annotation(index), mask=None)


def test_boxes_bound_the_masks_of_the_mapping_and_only_corrected_photos_count(trained) -> None:
    scenes, mapper = Scenes(classes=2, photos=6, size=64), SaliencyMapper.load(trained)
    corrected = Corrected(Boxed(scenes), mapper)
    assert corrected.names == scenes.names[::2]
    x0, y0, x1, y1 = np.rint(scenes.annotation(2).boxes[0]).astype(int)
    picture = corrected.image(1)
    np.testing.assert_array_equal(picture[..., :3], scenes.image(2))
    own = mapper.masks(scenes.image(2)[None])[0][0]
    np.testing.assert_array_equal(picture[y0:y1, x0:x1, 3], np.rint(255 * own)[y0:y1, x0:x1])
    picture[y0:y1, x0:x1, 3] = 0
    assert not picture[..., 3].any()


def test_a_mask_that_misses_the_box_is_replaced_by_it() -> None:
    mask, box = np.zeros((8, 8), np.float32), np.array([[2.0, 1.0, 6.0, 5.0]])
    mask[:, 7] = 1
    found = bounded_mask(mask, box)
    assert (found[1:5, 2:6] == 255).all()
    assert (found == 255).sum() == 16


def test_boxes_do_not_turn_masks_into_rectangles(tmp_path) -> None:
    """Corrected boxes of a mapping that fits: its masks must stay as good as they are."""
    photos = Scenes(classes=4, photos=60, size=64, seed=5)
    recipe = QUICK.replace(size=64, batch=8, steps=4, first_steps=4, checkpoint_every=2, threads=1)
    begun = train_mapping(Scenes(classes=4, photos=40, size=64), Run(tmp_path / "run", recipe)).mapping
    fitting = train_on_corrections(begun, photos, out=tmp_path / "fitting", steps=120)
    every = Boxed(photos)
    every.annotation = lambda index: replace(photos.annotation(index), mask=None)
    said = Collecting()
    path = train_on_corrections(fitting, every, out=tmp_path / "boxes", steps=60, reporter=said)
    before, after = (agreement(SaliencyMapper.load(file), photos).ious.mean() for file in (fitting, path))
    assert before > 0.4
    assert after > before - 0.02
    assert any("Boxes without outlines: 60 of 60 corrections" in line for line in said.lines)


def test_what_cannot_learn_is_one_sentence(trained, tmp_path) -> None:
    photos = Scenes(classes=2, photos=8, size=64)
    with pytest.raises(UserError, match="Training needs at least 5"):
        train_on_corrections(trained, Subset(photos, np.arange(4)), out=tmp_path / "b")
    train_on_corrections(trained, photos, out=tmp_path / "c", steps=1)
    with pytest.raises(UserError, match="exists already"):
        train_on_corrections(trained, photos, out=tmp_path / "c", steps=1)


def test_what_cannot_be_trained_is_refused_before_anything_is_measured(trained, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("casmap.tools.correct.agreement", lambda *_: pytest.fail("the photos were measured"))
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "mapping.safetensors").touch()
    with pytest.raises(UserError, match="exists already"):
        correct("scenes:classes=2,photos=8,size=64", mapping=trained, out=tmp_path / "old", steps=1)
    with pytest.raises(UserError, match="needs at least 5"):
        correct("scenes:classes=2,photos=4,size=64", mapping=trained, out=tmp_path / "new", steps=1)
    with pytest.raises(UserError, match="steps must be at least 0, not -1"):
        correct("scenes:classes=2,photos=8,size=64", mapping=trained, out=tmp_path / "new", steps=-1)


def test_the_command_measures_before_and_after(casmap, mapping, tmp_path) -> None:
    write_photos(Scenes(classes=4, photos=12, size=64), tmp_path / "scenes")
    data = ["scenes/photos", "--masks", "scenes/masks"]
    done = casmap("correct", mapping, *data, "--steps", "2", "--out", "new")
    assert done.code == 0, done.complained
    for word in ("class-00", "before", "after", "all"):
        assert word in done.said
    assert (tmp_path / "new" / "mapping.safetensors").exists()
    done = casmap("correct", mapping, *data, "--steps", "0", "--out", "other")
    assert done.code == 0
    assert "after" not in done.said
    assert not (tmp_path / "other").exists()
    nothing = casmap("correct", mapping, "scenes/photos", "--out", "x").sentence()
    assert "There is nothing to correct with: add --boxes or --masks." in nothing


def test_the_shipped_mapping_is_the_default_and_learns(casmap, tmp_path) -> None:
    write_photos(Scenes(classes=2, photos=12, size=64), tmp_path / "scenes")
    data = ["scenes/photos", "--masks", "scenes/masks"]
    done = casmap("correct", *data, "--steps", "0")
    assert done.code == 0, done.complained
    assert "before" in done.said
    for name, mapping in (("new", []), ("same", ["--mapping", SHIPPED])):
        done = casmap("correct", *data, *mapping, "--steps", "3", "--out", name)
        assert done.code == 0, done.complained
    new, same = (tmp_path / name / "mapping.safetensors" for name in ("new", "same"))
    assert new.read_bytes() == same.read_bytes()
    photos = Scenes(classes=2, photos=12, size=64)
    before, after = (agreement(SaliencyMapper.load(file), photos).ious.mean() for file in (None, new))
    assert after > before


def test_the_mapping_is_an_option_and_the_arguments_of_0_1_0_are_still_understood(casmap, mapping, tmp_path) -> None:
    write_photos(Scenes(classes=4, photos=12, size=64), tmp_path / "scenes")
    data = ["scenes/photos", "--masks", "scenes/masks", "--steps", "1"]
    assert casmap("correct", *data, "--mapping", mapping, "--out", "new").code == 0
    assert casmap("correct", mapping, *data, "--out", "old").code == 0
    new, old = ((tmp_path / name / "mapping.safetensors").read_bytes() for name in ("new", "old"))
    assert new == old


@pytest.fixture
def labelled(tmp_path):
    """The folder of six scenes, and their largest objects as `casmap annotate` writes them."""
    folder = write_photos(Scenes(classes=2, photos=6, size=64), tmp_path / "scenes").photos
    photos = []
    for name in PhotoFolder(folder).names:
        mask = open_mask((folder.parent / "masks" / name).with_suffix(".png"), folder.parent) / 255
        found = tuple(objects_of(mask.astype(np.float32), name.partition("/")[0]))
        photos.append(Labelled(folder / name, name, 64, 64, found))
    return folder, photos


def write_labels(kind, photos, out):
    return FORMATS[kind].write(photos, labels_of(photos), out, WriteOptions(folder="photos"))


def test_an_edited_box_wins_over_its_old_outline(trained, labelled, tmp_path) -> None:
    folder, photos = labelled
    for rle in (False, True):
        out = tmp_path / f"rle-{rle}"
        path = FORMATS["coco"].write(photos, labels_of(photos), out, WriteOptions(rle=rle))
        content = json.loads(path.read_text())
        for one in content["annotations"][:3]:
            one["bbox"] = [1, 2, 11, 12]
        path.write_text(json.dumps(content))
        said = Collecting()
        found = correct(folder, mapping=trained, boxes=path, steps=0, reporter=said)
        assert "3 boxes do not match their outlines: the boxes are used." in said.lines
        assert "All 6 photos count as corrected: keep only those that somebody reviewed." in said.lines
        opened = PhotoFolder(folder, boxes=path)
        corrected = Corrected(opened)
        assert [corrected.correction(index).mask is None for index in range(6)] == [True] * 3 + [False] * 3
        box = SaliencyMapper.load(trained)(opened.image(0)).box()
        wanted = 0.0 if box is None else iou(box, np.array([[1.0, 2, 12, 14]])).max()
        assert found.before.ious[0] == pytest.approx(wanted)
        assert check(opened).notes[Kind.BOX_EDITED] == corrected.names[:3]


@pytest.mark.parametrize(("region", "masks"), [("rectanglelabels", [False]), ("polygonlabels", [True])])
def test_what_was_edited_in_label_studio_wins(labelled, tmp_path, region, masks) -> None:
    folder, photos = labelled
    path = write_labels("label-studio", photos[:1], tmp_path / "out")
    task = json.loads(path.read_text())[0]
    result = task.pop("predictions")[0]["result"]
    for one in result:
        one["origin"] = "prediction-changed" if one["type"] == region else "prediction"
        if one["type"] != region:
            continue
        if region == "polygonlabels":
            one["value"]["points"] = [[10, 10], [30, 10], [30, 40]]
        else:
            one["value"] |= {"x": 10, "y": 10, "width": 20, "height": 30}
    path.write_text(json.dumps([task | {"annotations": [{"result": result}]}]))
    opened = PhotoFolder(folder, boxes=path)
    corrected = Corrected(opened)
    assert [corrected.correction(index).mask is not None for index in range(len(corrected))] == masks
    assert opened.annotation(int(corrected.chosen[0])).boxes.tolist() == [pytest.approx([6.4, 6.4, 19.2, 25.6])]


def test_an_unedited_export_matches_its_own_outlines(labelled, tmp_path) -> None:
    folder, photos = labelled
    for kind in ("coco", "label-studio", "cvat", "geojson", "yolo-seg"):
        opened = PhotoFolder(folder, boxes=write_labels(kind, photos, tmp_path / kind))
        assert [opened.annotation(index).edited for index in range(6)] == [0] * 6, kind
        assert all(opened.annotation(index).mask is not None for index in range(6)), kind


def test_a_box_that_was_moved_in_cvat_wins(labelled, tmp_path) -> None:
    folder, photos = labelled
    path = write_labels("cvat", photos, tmp_path / "out")
    tree = ElementTree.parse(path)
    first, second = tree.findall("image")[:2]
    first.find("box").attrib.update(xtl="1", ytl="1", xbr="9", ybr="9", source="semi-auto")
    second.find("polygon").attrib.update(points="1,1;30,1;30,30", source="semi-auto")
    tree.write(path)
    opened = PhotoFolder(folder, boxes=path)
    edited = {name: opened.annotation(index).edited for index, name in enumerate(opened.names)}
    assert [edited[image.get("name")] for image in (first, second)] == [1, 0]
    assert sum(edited.values()) == 1


def test_masks_and_boxes_together_are_said(trained, labelled, tmp_path) -> None:
    folder, photos = labelled
    path, said = write_labels("coco", photos, tmp_path / "out"), Collecting()
    (tmp_path / "none").mkdir()
    correct(folder, mapping=trained, boxes=path, masks=tmp_path / "none", steps=0, reporter=said)
    assert "0 masks of masks match a photo: only boxes is used." in said.lines
    correct(folder, mapping=trained, boxes=path, masks=folder.parent / "masks", steps=0, reporter=said)
    assert "6 masks of masks match a photo: a mask replaces what boxes says of its photo." in said.lines
