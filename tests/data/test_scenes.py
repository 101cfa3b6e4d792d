"""Scenes: the same again whenever asked, and everything that is known of them is true."""

from collections import Counter

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.data.scenes import DESIGNS, MAX_CLASSES, PARTS, Scenes
from casmap.errors import UserError

SIZE = 32
VARIANTS = ("plain", "twins", "split-twins")
LAW = settings(max_examples=30, deadline=None)


def of_class(kind, **options):
    """Scenes that are all of one class: number i differs from another class's number i in its class only."""
    return Scenes(classes=1, first_class=kind, size=SIZE, **options)


def same(a, b):
    """Whether two scenes are equal to the last bit."""
    pairs = zip(vars(a).values(), vars(b).values(), strict=True)
    return all(np.array_equal(one, other) for one, other in pairs)


def near(region, reach=4):
    """A region and the pixels around it that blur can reach."""
    return cv2.dilate(region.astype(np.uint8), np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)) > 0


def tightest(mask):
    rows, columns = np.nonzero(mask)
    return [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


# ---------------------------------------------------------------------------------------------- the same again


@LAW
@given(
    st.integers(0, 2_000_000),
    st.integers(0, 30),
    st.lists(st.integers(0, 30), max_size=4),
    st.sampled_from(VARIANTS),
    st.sampled_from([None, "left", "right"]),
)
def test_a_scene_depends_on_seed_and_number_alone(seed, index, before, variant, destroyed):
    options = {"photos": 31, "size": SIZE, "seed": seed, "variant": variant}
    if variant != "plain":
        options["destroyed"] = destroyed
    fresh, used = Scenes(**options), Scenes(**options)
    for other in before:
        used.scene(other)
    assert same(fresh.scene(index), used.scene(index))


def test_more_photos_leave_the_first_ones_as_they_are():
    few, many = Scenes(photos=5, size=SIZE, seed=3), Scenes(photos=500, size=SIZE, seed=3)
    assert few.names == many.names[:5]
    assert same(few.scene(4), many.scene(4))


def test_a_scene_is_cached():
    scenes = Scenes(photos=3, size=SIZE)
    first = scenes.image(1).copy()
    scenes.image(2)
    np.testing.assert_array_equal(scenes.image(1), first)


@LAW
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 40))
def test_other_seeds_and_other_numbers_give_other_images(seed, other, index):
    image = Scenes(photos=200, size=SIZE, seed=seed).image(index)
    if other != seed:
        assert not np.array_equal(image, Scenes(photos=200, size=SIZE, seed=other).image(index))
    same_class_later = index + 40
    assert not np.array_equal(image, Scenes(photos=200, size=SIZE, seed=seed).image(same_class_later))


def test_neighbouring_seeds_share_no_image():
    images = [Scenes(photos=12, size=SIZE, seed=seed).image(i).tobytes() for seed in range(4) for i in range(12)]
    assert len(set(images)) == len(images)


# ---------------------------------------------------------------------------------------------- classes


def test_there_are_at_least_forty_classes_by_default():
    scenes = Scenes()
    assert len(scenes.classes) >= 40
    assert len(set(scenes.classes)) == len(scenes.classes)


@settings(deadline=None)
@given(st.integers(1, MAX_CLASSES), st.integers(1, 500))
def test_classes_are_balanced(classes, photos):
    scenes = Scenes(classes=classes, photos=photos)
    assert len(scenes) == len(scenes.names) == len(scenes.labels) == photos
    counts = np.bincount(scenes.labels, minlength=classes)
    assert len(counts) == classes
    assert counts.max() - counts.min() <= 1


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(1, 20))
def test_names_are_distinct_and_begin_with_the_class(first, classes):
    scenes = Scenes(classes=classes, photos=60, first_class=first)
    assert len(set(scenes.names)) == 60
    for name, label in zip(scenes.names, scenes.labels, strict=True):
        assert name.split("/")[0] == scenes.classes[label]


@pytest.mark.parametrize("part", range(len(PARTS)))
def test_form_and_hue_of_each_part_belong_to_one_class_only(part):
    assert len(set(DESIGNS[part])) == MAX_CLASSES


@pytest.mark.parametrize("part", range(len(PARTS)))
def test_the_designs_of_two_kinds_of_parts_are_not_the_same_list(part):
    assert DESIGNS[part] != DESIGNS[(part + 1) % len(PARTS)]


@pytest.mark.parametrize("part", range(len(PARTS)))
def test_any_one_part_distinguishes_all_classes(part):
    seen = set()
    for kind in range(MAX_CLASSES):
        scene = of_class(kind, photos=1, seed=11).scene(0)
        seen.add(scene.parts[part].tobytes() + scene.image[scene.parts[part]].tobytes())
    assert len(seen) == MAX_CLASSES


def test_only_the_parts_depend_on_the_class():
    """The same image drawn for two classes differs at the parts and where they are blurred, nowhere else."""
    for index in range(8):
        a, b = (of_class(kind, photos=8, seed=2).scene(index) for kind in (7, 23))
        parts = near(a.parts.any(axis=0) | b.parts.any(axis=0))
        assert (a.image[parts] != b.image[parts]).any()
        np.testing.assert_array_equal(a.image[~parts], b.image[~parts])


def test_first_class_gives_classes_that_the_default_set_never_shows():
    usual, unseen = Scenes(photos=40, size=SIZE), Scenes(classes=20, first_class=40, photos=40, size=SIZE)
    assert not set(usual.classes) & set(unseen.classes)
    assert same(unseen.scene(3), of_class(43, photos=40).scene(3))


def test_every_class_of_every_set_can_be_drawn():
    scenes = Scenes(classes=MAX_CLASSES, photos=MAX_CLASSES, size=SIZE)
    assert all(scenes.image(index).shape == (SIZE, SIZE, 3) for index in range(MAX_CLASSES))


# ---------------------------------------------------------------------------------------------- what is known


@LAW
@given(st.integers(0, 10**6), st.integers(0, 59), st.sampled_from([32, 46, 64]), st.sampled_from(VARIANTS))
def test_parts_mask_and_boxes_fit_together(seed, index, size, variant):
    scenes = Scenes(classes=60, photos=60, size=size, seed=seed, variant=variant)
    known = scenes.annotation(index)
    assert scenes.image(index).shape == (size, size, 3)
    assert scenes.image(index).dtype == np.uint8
    assert known.mask.shape == (size, size)
    assert known.parts.shape[1:] == (size, size)
    assert set(np.unique(known.mask)) == {0, 255}
    assert known.parts.sum(axis=0).max() <= 1, "parts overlap"
    assert (known.mask[known.parts.any(axis=0)] == 255).all(), "a part leaves the object"
    assert known.parts.any(), "no part is visible"
    halves = [(0, size)] if variant == "plain" else [(0, size // 2), (size // 2, size)]
    assert len(known.boxes) == len(halves)
    for (left, right), box in zip(halves, known.boxes, strict=True):
        half = np.zeros_like(known.mask)
        half[:, left:right] = known.mask[:, left:right]
        assert box.tolist() == tightest(half)


def test_the_body_shows_between_its_parts():
    scenes = Scenes(photos=20, size=SIZE, seed=4)
    known = [scenes.annotation(index) for index in range(20)]
    assert np.mean([((a.mask == 255) & ~a.parts.any(axis=0)).any() for a in known]) > 0.9


@pytest.mark.parametrize(("variant", "parts"), [("plain", 3), ("twins", 6), ("split-twins", 2)])
def test_nearly_all_parts_are_visible(variant, parts):
    scenes = Scenes(photos=80, size=SIZE, seed=8, variant=variant)
    sizes = np.stack([scenes.annotation(i).parts.sum(axis=(1, 2)) for i in range(80)])
    assert sizes.shape == (80, parts)
    assert (sizes > 0).any(axis=1).all()
    assert (sizes > 0).mean() > 0.98


def test_parts_are_where_the_image_is_painted():
    """A part's pixels differ from those of the same image drawn for a class of another hue."""
    differs = []
    for index in range(10):
        a, b = (of_class(kind, photos=10, seed=6).scene(index) for kind in (0, 1))
        common = a.parts & b.parts
        differs.append((a.image != b.image).any(axis=-1)[common.any(axis=0)].mean())
    assert np.mean(differs) > 0.8


# ---------------------------------------------------------------------------------------------- twins


def test_twins_are_the_same_image_twice():
    scenes = Scenes(photos=10, size=SIZE, variant="twins", seed=1)
    for index in range(10):
        scene = scenes.scene(index)
        np.testing.assert_array_equal(scene.image[:, : SIZE // 2], scene.image[:, SIZE // 2 :])
        np.testing.assert_array_equal(scene.mask[:, : SIZE // 2], scene.mask[:, SIZE // 2 :])
        np.testing.assert_array_equal(scene.boxes[1], scene.boxes[0] + [SIZE // 2, 0, SIZE // 2, 0])
        left, right = scene.parts[:3], scene.parts[3:]
        np.testing.assert_array_equal(np.roll(left, SIZE // 2, axis=2), right)
        assert not left[:, :, SIZE // 2 :].any()


def test_split_twins_have_one_part_in_each_half():
    scenes = Scenes(photos=10, size=SIZE, variant="split-twins", seed=1)
    for index in range(10):
        left, right = scenes.annotation(index).parts
        assert left.any()
        assert right.any()
        assert not left[:, SIZE // 2 :].any()
        assert not right[:, : SIZE // 2].any()


def test_split_twins_differ_in_their_parts_only():
    scene = Scenes(photos=1, size=64, variant="split-twins", seed=1).scene(0)
    left, right = scene.image[:, :32], scene.image[:, 32:]
    parts = near(scene.parts[0][:, :32] | scene.parts[1][:, 32:])
    assert (left != right).any()
    np.testing.assert_array_equal(left[~parts], right[~parts])


@pytest.mark.parametrize("variant", ["twins", "split-twins"])
@pytest.mark.parametrize("destroyed", ["left", "right"])
def test_the_other_half_of_a_destroyed_image_is_intact(variant, destroyed):
    intact = Scenes(photos=10, size=SIZE, variant=variant, seed=5)
    broken = Scenes(photos=10, size=SIZE, variant=variant, seed=5, destroyed=destroyed)
    kept = slice(SIZE // 2, None) if destroyed == "left" else slice(SIZE // 2)
    changed = 0
    for index in range(10):
        np.testing.assert_array_equal(broken.image(index)[:, kept], intact.image(index)[:, kept])
        changed += not np.array_equal(broken.image(index), intact.image(index))
    assert changed > 7  # one in forty shows the right class by chance
    np.testing.assert_array_equal(broken.labels, intact.labels)


def test_a_destroyed_cue_shows_each_class_as_often_whatever_the_label():
    """Which class the right half shows is found by comparing it with the same image drawn for every class."""
    classes, photos = 4, 120
    options = {"photos": photos, "size": SIZE, "seed": 9, "variant": "split-twins"}
    broken = Scenes(classes=classes, destroyed="right", **options)
    candidates = [Scenes(classes=1, first_class=kind, **options) for kind in range(classes)]
    shown = []
    for index in range(photos):
        right = broken.image(index)[:, SIZE // 2 :]
        fits = [k for k, c in enumerate(candidates) if np.array_equal(c.image(index)[:, SIZE // 2 :], right)]
        assert len(fits) == 1
        shown += fits
    deviation = np.sqrt(photos * 1 / 4 * 3 / 4)
    for count in Counter(shown).values():
        assert abs(count - photos / classes) < 3.5 * deviation
    assert abs((np.array(shown) == broken.labels).sum() - photos / classes) < 3.5 * deviation


@pytest.mark.parametrize("options", [{"variant": "twins", "size": 33}, {"variant": "plain", "destroyed": "left"}])
def test_what_cannot_be_drawn_is_refused(options):
    with pytest.raises(UserError):
        Scenes(**options)
