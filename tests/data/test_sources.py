"""What DATA means on the command line."""

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.data.folders import PhotoFolder
from casmap.data.scenes import MAX_CLASSES, Scenes
from casmap.data.sources import HELD_OUT, open_photos
from casmap.errors import UserError


def refusal(data, **options):
    """Return the one-sentence error for a source."""
    with pytest.raises(UserError) as caught:
        open_photos(data, **options)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def test_scenes_alone_are_the_default_scenes():
    photos, scenes = open_photos("scenes"), Scenes()
    assert isinstance(photos, Scenes)
    assert photos.names == scenes.names
    np.testing.assert_array_equal(photos.image(7), scenes.image(7))


def test_all_options_of_scenes_can_be_given():
    photos = open_photos("scenes:classes=6,photos=12,size=40,seed=3,first_class=50,variant=split-twins,destroyed=right")
    expected = Scenes(6, 12, 40, 3, "split-twins", 50, "right")
    assert photos.classes == expected.classes
    assert photos.names == expected.names
    np.testing.assert_array_equal(photos.image(5), expected.image(5))


def test_an_empty_list_of_options_is_no_option():
    assert open_photos("scenes:").names == open_photos("scenes").names


@pytest.mark.parametrize(
    "spec",
    [
        "scenes:classes=1",
        "scenes:classes=61",
        "scenes:classes=",
        "scenes:photos=0",
        "scenes:photos",
        "scenes:photos=-3",
        "scenes:photos=1.5",
        "scenes:photos=many",
        "scenes:size=8",
        "scenes:size=4096",
        "scenes:seed=-1",
        "scenes:seed=0x10",
        "scenes:first_class=59",
    ],
)
def test_a_bad_number_is_refused_with_its_range(spec):
    sentence = refusal(spec)
    assert spec.partition(":")[2] in sentence
    assert "whole number" in sentence


@pytest.mark.parametrize(
    "spec", ["scenes:colour=red", "scenes:variant=triplets", "scenes:destroyed=both", "scenes:twins", "scenes:seed=1;"]
)
def test_an_unknown_option_is_refused_with_those_there_are(spec):
    sentence = refusal(spec)
    assert spec.partition(":")[2] in sentence
    if "seed" not in spec:
        assert "split-twins" in sentence


@pytest.mark.parametrize("spec", ["scenes:first_class=40", "scenes:first_class=58,classes=3", "scenes:first_class=21"])
def test_classes_past_the_last_one_are_refused(spec):
    assert str(MAX_CLASSES) in refusal(spec)


def test_the_last_classes_exist():
    assert open_photos("scenes:first_class=58,classes=2,photos=2").classes == ["class-58", "class-59"]


@settings(deadline=None)
@given(st.integers(0, 10**5), st.integers(1, 80))
def test_held_out_scenes_are_those_of_a_seed_far_away(seed, photos):
    spec = f"scenes:seed={seed},photos={photos}"
    held_out, expected = open_photos(spec, held_out=True), Scenes(photos=photos, seed=seed + HELD_OUT)
    assert held_out.names == expected.names
    assert not set(held_out.names) & set(open_photos(spec).names)
    np.testing.assert_array_equal(held_out.labels, open_photos(spec).labels)


@pytest.mark.parametrize("variant", ["plain", "twins", "split-twins"])
def test_held_out_images_are_not_in_the_training_set(variant):
    spec = f"scenes:size=32,classes=4,photos=30,variant={variant}"
    trained, held_out = open_photos(spec), open_photos(spec, held_out=True)
    images = [{photos.image(i).tobytes() for i in range(30)} for photos in (trained, held_out)]
    assert len(images[0]) == len(images[1]) == 30
    assert not images[0] & images[1]


def test_no_seed_that_can_be_trained_on_is_one_that_is_held_out():
    """The highest seed a user may give must stay below the held-out seeds."""
    with pytest.raises(UserError, match="seed"):
        open_photos(f"scenes:seed={HELD_OUT}")


def test_fewer_scenes_are_held_out_than_trained_on_by_default():
    assert len(open_photos("scenes", held_out=True)) < len(open_photos("scenes"))
    assert len(open_photos("scenes:photos=7", held_out=True)) == 7


def test_a_folder_is_opened_with_its_boxes_and_masks(tmp_path):
    for name in ("photos/cat/a.png", "masks/cat/a.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        PIL.Image.new("L", (8, 6), 255).save(tmp_path / name)
    table = tmp_path / "boxes.csv"
    table.write_text("file,xmin,ymin,xmax,ymax\nphotos/cat/a.png,1,2,3,4\n")
    photos = open_photos(str(tmp_path / "photos"), held_out=True, boxes=table, masks=tmp_path / "masks")
    assert isinstance(photos, PhotoFolder)
    assert photos.annotation(0).boxes.tolist() == [[1, 2, 3, 4]]
    assert photos.annotation(0).mask.shape == (6, 8)


def test_a_folder_named_scenes_takes_precedence(tmp_path, monkeypatch):
    (tmp_path / "scenes" / "cat").mkdir(parents=True)
    PIL.Image.new("L", (8, 6)).save(tmp_path / "scenes" / "cat" / "a.png")
    monkeypatch.chdir(tmp_path)
    assert isinstance(open_photos("scenes"), PhotoFolder)
    assert isinstance(open_photos("scenes:photos=2"), Scenes)


def test_a_missing_folder_is_refused(tmp_path):
    assert "scenery" in refusal("scenery:photos=3")
    assert "nowhere" in refusal(str(tmp_path / "nowhere"))
