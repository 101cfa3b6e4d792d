"""Evaluate: systems whose numbers are known beforehand, and numbers against the measures called one by one."""

import numpy as np
import PIL.Image
import pytest

from casmap.data.folders import PhotoFolder
from casmap.data.photos import Annotation
from casmap.data.resizing import resize, resize_annotation
from casmap.errors import UserError
from casmap.evaluation.evaluate import (
    ALPHAS,
    BATCH,
    Predictions,
    annotated_indices,
    center_system,
    localization_errors,
    map_photos,
    measure_masks,
    own_alpha_errors,
    whole_system,
)
from casmap.evaluation.evidence import alpha_for_area, evidence_precision, evidence_recall
from casmap.evaluation.localization import (
    center_mask,
    continuous_f1,
    iou,
    localization_error,
    mask_iou,
    official_metric,
)
from casmap.evaluation.mask_statistics import mask_entropy, mean_mask, spread, total_variation
from casmap.evaluation.numbers import bootstrap_interval
from casmap.evaluation.wsol_metrics import is_tuning
from casmap.inference.components import binary_mask, largest_box

SIZE = 16


def predicted_box(mask, alpha=1.0):
    """The tightest box around the largest component of the binary mask (H, W); None where that is empty."""
    return largest_box(binary_mask(mask, alpha))


class Rectangles:
    """Dark photos, every other one upright, with a bright rectangle whose edges both policies move to whole pixels.

    Two thirds of the rectangle are parts. The background's red is the photo's number, its blue ten times the label.
    """

    classes = ("ant", "bee", "cat")

    def __init__(self, photos=12, masks=True, parts=True, unknown=()):
        self.labels = np.arange(photos) % 3
        self.names = [f"{self.classes[label]}/{i}.png" for i, label in enumerate(self.labels)]
        self.masks, self.parts, self.unknown = masks, parts, unknown

    def __len__(self):
        return len(self.labels)

    def image(self, index, least=None):
        image = np.zeros((32, 48, 3), np.uint8)
        image[..., 0] = index
        image[..., 2] = 10 * self.labels[index]
        image[6:24, 18:30] = 255
        return self._turned(image, index)

    def annotation(self, index):
        if index in self.unknown:
            return None
        mask = np.zeros((32, 48), np.uint8)
        mask[6:24, 18:30] = 255
        parts = np.zeros((2, 32, 48), bool)
        parts[0, 6:12, 18:30] = parts[1, 18:24, 18:30] = True
        box = [6.0, 18, 24, 30] if index % 2 else [18.0, 6, 30, 24]
        return Annotation(
            np.array([box]),
            self._turned(mask, index) if self.masks else None,
            np.stack([self._turned(part, index) for part in parts]) if self.parts else None,
        )

    def _turned(self, picture, index):
        return picture.swapaxes(0, 1) if index % 2 else picture


def perfect(pictures):
    return (pictures[..., 0] > 127).astype(np.float32), pictures[:, 0, 0, 2].astype(np.int64) // 10


def inverted(pictures):
    masks, classes = perfect(pictures)
    return 1 - masks, classes


def guessing(pictures):
    """Masks and classes that depend on the picture but are no good: the object moved by chance, in noise."""
    rngs = [np.random.default_rng(number) for number in pictures[:, 0, 0, 0]]
    moved = [np.roll(mask, rng.integers(5), axis=1) for mask, rng in zip(perfect(pictures)[0], rngs, strict=True)]
    noise = np.stack([rng.random((SIZE, SIZE)) for rng in rngs])
    return (0.4 * noise + 0.6 * np.stack(moved)).astype(np.float32), np.array([rng.integers(3) for rng in rngs])


def moved(photos, policy):
    """What is known of each photo, resized."""
    return [
        resize_annotation(photos.annotation(i), *photos.image(i).shape[:2], SIZE, policy) for i in range(len(photos))
    ]


def measured(system, photos, size=SIZE, policy="crop", area=None):
    return measure_masks("mine", map_photos(system, photos, size, policy), area)


def value(row, key):
    return row.numbers[key].value


# ---------------------------------------------------------------------------------------------- mapping


@pytest.mark.parametrize("policy", ["crop", "squash"])
def test_masks_and_truths_are_in_the_order_of_the_photos(policy):
    photos = Rectangles(photos=BATCH + 9, unknown={2, BATCH})
    mapped = map_photos(guessing, photos, SIZE, policy)
    kept = [i for i in range(len(photos)) if i not in photos.unknown]
    masks, classes = guessing(np.stack([resize(photos.image(i), SIZE, policy) for i in kept]))
    assert mapped.names == [photos.names[i] for i in kept]
    np.testing.assert_array_equal(mapped.masks, masks)
    np.testing.assert_array_equal(mapped.class_correct, classes == photos.labels[kept])
    for index, truth in zip(kept, mapped.truths, strict=True):
        expected = resize_annotation(photos.annotation(index), *photos.image(index).shape[:2], SIZE, policy)
        np.testing.assert_array_equal(truth.boxes, expected.boxes)
        np.testing.assert_array_equal(truth.mask, expected.mask)
        np.testing.assert_array_equal(truth.parts, expected.parts)


def test_a_system_that_tells_no_class_is_right_nowhere():
    assert np.isnan(map_photos(whole_system, Rectangles(), SIZE, "crop").class_correct).all()


@pytest.mark.parametrize("alpha", [0.0, 1.0, 1.5])
def test_localization_errors_are_those_of_the_boxes_at_that_level(alpha):
    mapped = map_photos(guessing, Rectangles(photos=20), SIZE, "crop")
    boxes = [predicted_box(mask, alpha) for mask in mapped.masks]
    expected = localization_error(boxes, [truth.boxes for truth in mapped.truths])
    np.testing.assert_array_equal(localization_errors(mapped, alpha), expected)


# ---------------------------------------------------------------------------------------------- known answers


@pytest.mark.parametrize("policy", ["crop", "squash"])
def test_a_perfect_system_is_measured_as_perfect(policy):
    row = measured(perfect, Rectangles(), SIZE, policy)
    assert row.name == "mine"
    assert value(row, "OM") == 0
    assert value(row, "LE") == 0
    assert value(row, "F1") == pytest.approx(1)
    assert value(row, "evidence recall") == 1
    assert value(row, "evidence precision") == pytest.approx(2 / 3)
    assert value(row, "mask entropy") == pytest.approx(0, abs=1e-6)
    object_area = {"crop": 6 * 9, "squash": 4 * 9}[policy] / SIZE**2
    assert value(row, "area") == value(row, "binary area") == pytest.approx(object_area)


@pytest.mark.parametrize("policy", ["crop", "squash"])
def test_a_system_that_marks_all_but_the_object_is_measured_as_useless(policy):
    row = measured(inverted, Rectangles(), SIZE, policy)
    assert value(row, "LE") == 1
    assert value(row, "OM") == 1
    assert value(row, "F1") == 0
    assert value(row, "evidence recall") == 0
    assert value(row, "evidence precision") == 0


def test_a_wrong_class_counts_in_om_only():
    def system(pictures):
        masks, classes = perfect(pictures)
        return masks, np.where(classes == 0, 1, classes)

    row = measured(system, Rectangles(), SIZE)
    assert value(row, "LE") == 0
    assert value(row, "OM") == pytest.approx(1 / 3)


def test_a_system_that_tells_no_class_has_no_om():
    row = measured(lambda pictures: (perfect(pictures)[0], None), Rectangles(), SIZE)
    assert "OM" not in row.numbers
    assert "OM" not in row.values
    assert value(row, "LE") == 0


def test_the_whole_picture_recalls_all_and_localizes_large_objects_only():
    row = measured(whole_system, Rectangles(), SIZE)
    assert value(row, "area") == 1
    assert value(row, "evidence recall") == 1
    assert value(row, "evidence precision") == pytest.approx(2 / 3 * 54 / 256)
    assert value(row, "LE") == 1  # 54 of 256 pixels: an IOU of 0.2


def test_the_centre_box_covers_half_and_does_not_look():
    masks, classes = center_system(np.zeros((3, 20, 20, 3), np.uint8))
    assert classes is None
    assert masks.shape == (3, 20, 20)
    np.testing.assert_allclose(masks, np.broadcast_to(center_mask(20, 20), (3, 20, 20)), atol=1e-6)
    assert value(measured(center_system, Rectangles(), SIZE), "area") == pytest.approx(0.5, abs=1e-6)


# ---------------------------------------------------------------------------------------------- one by one


@pytest.mark.parametrize("policy", ["crop", "squash"])
def test_every_number_is_that_of_its_measure(policy):
    photos = Rectangles(photos=BATCH + 9)
    row = measured(guessing, photos, SIZE, policy, area=0.3)
    pictures = np.stack([resize(photos.image(i), SIZE, policy) for i in range(len(photos))])
    masks, classes = guessing(pictures)
    truths = moved(photos, policy)
    boxes = [truth.boxes for truth in truths]
    errors = localization_error([predicted_box(mask) for mask in masks], boxes)
    alpha = alpha_for_area(masks, 0.3)
    binary = binary_mask(masks, alpha)
    expected = {
        "LE": errors,
        "OM": official_metric(errors, classes == photos.labels),
        "LE at area": localization_error([predicted_box(mask, alpha) for mask in masks], boxes),
        "F1": [continuous_f1(mask, box) for mask, box in zip(masks, boxes, strict=True)],
        "mask IoU": [mask_iou(b, t.mask) for b, t in zip(binary_mask(masks), truths, strict=True)],
        "area": mean_mask(masks),
        "total variation": total_variation(masks),
        "mask entropy": mask_entropy(masks),
        "binary area": mean_mask(binary.astype(np.float32)),
        "evidence recall": [evidence_recall(b, t.parts) for b, t in zip(binary, truths, strict=True)],
        "evidence precision": [evidence_precision(b, t.parts) for b, t in zip(binary, truths, strict=True)],
    }
    for end, level in (("", None), (", threshold 0.5", 0.5)):
        marked = binary_mask(masks) if level is None else masks >= level
        found = zip(map(largest_box, marked), boxes, strict=True)
        best = np.array([0.0 if one is None else iou(one, box).max() for one, box in found])
        expected |= {
            f"LE{end}": best <= 0.5, f"LE at IoU 0.3{end}": best <= 0.3, f"LE at IoU 0.7{end}": best <= 0.7,
            f"mean LE{end}": ((best <= 0.3) * 1.0 + (best <= 0.5) + (best <= 0.7)) / 3,
            f"boxes above IoU 0.75{end}": best > 0.75,
            f"mask IoU{end}": [mask_iou(b, t.mask) for b, t in zip(marked, truths, strict=True)],
        }  # fmt: skip
    assert set(row.values) == set(expected)
    assert set(row.numbers) == {*expected, "spread"}
    for key, values in expected.items():
        np.testing.assert_allclose(row.values[key], values, err_msg=key)
        assert value(row, key) == pytest.approx(np.mean(values)), key
        interval = bootstrap_interval(np.asarray(values, np.float64))
        assert (row.numbers[key].low, row.numbers[key].high) == pytest.approx(interval), key
    assert value(row, "spread") == pytest.approx(spread(mean_mask(masks)))
    assert 0 < value(row, "LE") < 1  # or the comparison would say little
    assert value(row, "binary area") == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("policy", ["crop", "squash"])
def test_le_by_size_is_that_of_the_photos_of_each_size(policy):
    """Rectangles all have one size, which depends on the policy: 54 and 36 of 256 pixels."""
    row = measured(guessing, Rectangles(photos=20), SIZE, policy)
    sizes = {"crop": ["0.2-0.33", "0.1-0.33"], "squash": ["0.1-0.2", "0.1-0.33"]}[policy]
    assert list(row.by_size) == sizes
    for group in row.by_size.values():
        assert group.photos == 20
        assert group.numbers == {key: row.numbers[key] for key in ("LE", "LE, threshold 0.5")}


@pytest.mark.parametrize("system", [whole_system, center_system])
def test_a_system_that_cannot_have_the_area_is_not_compared_at_it(system):
    row = measured(system, Rectangles(), area=0.2)
    assert not {"LE at area", "binary area", "evidence recall", "evidence precision"} & set(row.numbers)
    assert {"LE", "F1"} <= set(row.numbers)
    assert "evidence recall" in measured(system, Rectangles()).numbers


def test_without_an_area_evidence_is_measured_at_the_papers_alpha():
    row = measured(guessing, Rectangles(), SIZE)
    truths = moved(Rectangles(), "crop")
    binary = binary_mask(map_photos(guessing, Rectangles(), SIZE, "crop").masks)
    assert "LE at area" not in row.numbers
    np.testing.assert_allclose(
        row.values["evidence recall"], [evidence_recall(b, t.parts) for b, t in zip(binary, truths, strict=True)]
    )


@pytest.mark.parametrize("key", ["LE", "F1", "spread", "evidence recall"])
def test_every_number_lies_in_its_interval(key):
    number = measured(guessing, Rectangles(photos=30), SIZE).numbers[key]
    assert number.low <= number.value <= number.high
    assert number.low < number.high


def test_a_second_evaluation_gives_the_same_numbers():
    rows = [measured(guessing, Rectangles(), SIZE, area=0.3) for _ in range(2)]
    assert rows[0].numbers == rows[1].numbers


# ---------------------------------------------------------------------------------------------- what is not known


def test_photos_of_which_nothing_is_known_are_passed_over():
    photos = Rectangles(unknown={0, 4, 5})
    assert annotated_indices(photos) == [1, 2, 3, 6, 7, 8, 9, 10, 11]
    row = measured(perfect, photos, SIZE)
    assert len(row.values["LE"]) == 9
    assert value(row, "OM") == 0  # labels stay with their photos


def test_where_nothing_is_known_at_all_there_is_nothing_to_evaluate():
    with pytest.raises(UserError, match="nothing to evaluate"):
        measured(perfect, Rectangles(photos=3, unknown={0, 1, 2}), SIZE)


def test_without_masks_there_is_no_mask_iou():
    row = measured(perfect, Rectangles(masks=False), SIZE)
    assert "mask IoU" not in row.numbers
    assert value(row, "LE") == 0


def test_without_parts_there_is_no_evidence():
    row = measured(perfect, Rectangles(parts=False), SIZE, area=0.2)
    assert not {"evidence recall", "evidence precision", "binary area"} & set(row.numbers)
    assert {"LE", "LE at area", "mask IoU"} <= set(row.numbers)


def test_one_photo_is_enough():
    row = measured(perfect, Rectangles(photos=1), SIZE)
    assert value(row, "LE") == row.numbers["LE"].low == row.numbers["LE"].high == 0


def test_progress_is_told_of_every_photo():
    seen = []
    map_photos(perfect, Rectangles(photos=BATCH + 1, unknown={3}), SIZE, "crop", lambda: seen.append(1))
    assert len(seen) == BATCH


# ---------------------------------------------------------------------------------------------- files


def written(folder, height, width, box, mask_shape=None):
    """A folder of four photos, each with a mask of an object in `box`."""
    x0, y0, x1, y1 = box
    for number in range(4):
        for kind, shape in (("photos", (height, width)), ("masks", mask_shape or (height, width))):
            picture = np.zeros(shape, np.uint8)
            picture[y0:y1, x0:x1] = 255
            path = folder / kind / "ab"[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            PIL.Image.fromarray(picture).save(path)
    return PhotoFolder(folder / "photos", masks=folder / "masks")


def test_a_folder_with_masks_is_measured_by_their_boxes(tmp_path):
    photos = written(tmp_path, 32, 48, (18, 6, 30, 24))
    row = measured(perfect, photos, SIZE)
    assert value(row, "LE") == 0


def test_an_object_that_the_crop_cuts_off_is_not_found(tmp_path):
    """A panorama with the object at its end: the central crop holds nothing of it."""
    photos = written(tmp_path, 32, 96, (0, 4, 20, 28))
    row = measured(whole_system, photos, SIZE, "crop")
    assert value(row, "LE") == 1


@pytest.mark.parametrize("mask_shape", [(16, 24), (64, 96)])
def test_a_mask_of_another_size_than_its_photo_is_a_users_mistake(tmp_path, mask_shape):
    photos = written(tmp_path, 32, 48, (2, 2, 10, 12), mask_shape)
    with pytest.raises(UserError):
        measured(perfect, photos, SIZE)


# ---------------------------------------------------------------------------------------------- photo by photo


@pytest.mark.parametrize("policy", ["crop", "squash"])
def test_each_picture_comes_once_beside_its_own_class(policy):
    """The background says which photo it is and of which class; photos that nobody annotated never come."""
    photos = Rectangles(photos=2 * BATCH + 5, unknown={0, 2, BATCH - 1, BATCH, BATCH + 7})
    rng = np.random.default_rng(5)
    photos.labels = rng.integers(3, size=len(photos))  # no pattern that a shift would leave as it is
    numbers, sizes = [], []

    def system(pictures):
        labels = pictures[:, 0, 0, 2].astype(np.int64) // 10
        numbers.extend(pictures[:, 0, 0, 0].tolist())
        sizes.append(len(pictures))
        return guessing(pictures)[0], np.where(pictures[:, 0, 0, 0] % 4 == 1, (labels + 1) % 3, labels)

    mapped = map_photos(system, photos, SIZE, policy)
    kept = [i for i in range(len(photos)) if i not in photos.unknown]
    assert numbers == kept
    assert sizes == [BATCH, BATCH]
    assert mapped.names == [photos.names[i] for i in kept]
    assert mapped.class_correct.tolist() == [i % 4 != 1 for i in kept]
    pictures = np.stack([resize(photos.image(i), SIZE, policy) for i in kept])
    np.testing.assert_array_equal(mapped.masks, guessing(pictures)[0])


# ---------------------------------------------------------------------------------------------- own alpha


CORE, HALO = [3.0, 3, 7, 7], [1.0, 1, 9, 9]


def named(tunes, count):
    """Names of one of the two halves."""
    return [name for name in (f"{i}.png" for i in range(100)) if is_tuning(name, 0.5) == tunes][:count]


def haloed(photos):
    """A bright core in a faint halo, mean 0.28: the box is the halo's up to alpha 0.8, the core's from 0.9 to 3.

    photos: (name, true box) of each.
    """
    mask = np.zeros((10, 10), np.float32)
    mask[1:9, 1:9] = 0.25
    mask[3:7, 3:7] = 1.0
    names, boxes = zip(*photos, strict=True)
    truths = [Annotation(np.array([box])) for box in boxes]
    return Predictions(list(names), np.stack([mask] * len(names)), np.full(len(names), np.nan), truths)


def test_the_halo_and_the_core_are_what_they_are_said_to_be():
    mapped = haloed([("a", CORE), ("b", HALO)])
    for alpha in ALPHAS:
        assert localization_errors(mapped, alpha).tolist() == ([1, 0] if alpha < 0.85 else [0, 1])


def test_alphas_go_from_a_tenth_to_three():
    assert len(ALPHAS) == 30
    np.testing.assert_allclose(ALPHAS, np.linspace(0.1, 3.0, 30))


def test_alpha_is_chosen_on_the_other_half():
    """Each half's own best alpha is the other's worst, so all is wrong; chosen on themselves all would be right."""
    ours, others = named(True, 3), named(False, 4)
    photos = [(name, HALO) for name in ours] + [(name, CORE) for name in others]
    errors, alphas = own_alpha_errors(haloed(photos))
    assert errors.tolist() == [1] * 7
    assert alphas == (0.9, 0.1)
    turned = [(name, CORE if box == HALO else HALO) for name, box in photos]
    errors, alphas = own_alpha_errors(haloed(turned))
    assert errors.tolist() == [1] * 7
    assert alphas == (0.1, 0.9)


def test_errors_stay_with_their_photos_at_the_alpha_of_most_of_the_other_half():
    """Photos of both halves by turns: in one most are cores, in the other most are halos."""
    ours, others = named(True, 3), named(False, 3)
    photos = [
        (ours[0], HALO), (others[0], CORE), (ours[1], CORE), (others[1], HALO), (ours[2], HALO), (others[2], CORE),
    ]  # fmt: skip
    errors, alphas = own_alpha_errors(haloed(photos))
    assert alphas == (0.9, 0.1)
    assert errors.tolist() == [1, 1, 0, 0, 1, 1]


def test_where_both_halves_want_the_same_alpha_both_have_it():
    photos = [(name, CORE) for name in named(True, 4) + named(False, 2)]
    errors, alphas = own_alpha_errors(haloed(photos))
    assert alphas == (0.9, 0.9)
    assert errors.tolist() == [0] * 6


def test_where_alpha_changes_nothing_errors_are_the_plain_ones():
    """Masks of 0 and 1 with an area below a third have the same box at every alpha."""

    def shifted(pictures):
        masks, classes = perfect(pictures)
        steps = pictures[:, 0, 0, 0] % 6
        return np.stack([np.roll(mask, step, axis=1) for mask, step in zip(masks, steps, strict=True)]), classes

    mapped = map_photos(shifted, Rectangles(photos=20), SIZE, "crop")
    errors, alphas = own_alpha_errors(mapped)
    assert alphas == (0.1, 0.1)
    for alpha in (0.1, 1.0, 3.0):
        np.testing.assert_array_equal(errors, localization_errors(mapped, alpha))
    assert 0 < errors.mean() < 1  # or the comparison would say little


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("tunes", [True, False])
def test_where_all_photos_are_in_one_half_nothing_is_averaged_over_none(tunes):
    mapped = haloed([(name, CORE) for name in named(tunes, 2)])
    errors, alphas = own_alpha_errors(mapped)
    assert alphas == (1.0, 1.0)
    assert errors.tolist() == localization_errors(mapped).tolist()


# ---------------------------------------------------------------------------------------------- mask IoU


def test_mask_iou_is_that_of_the_binary_mask_with_the_object():
    """The object has 54 of 256 pixels; a system that marks it faintly in one corner too adds that corner."""

    def cornered(pictures):
        masks, classes = perfect(pictures)
        masks[:, :3, :2] = 0.9  # far from the object
        masks[:, -1, -1] = 0.01  # below the mean
        return masks, classes

    expected = {perfect: 1, inverted: 0, whole_system: 54 / 256, cornered: 54 / 60}
    for system, known in expected.items():
        row = measured(system, Rectangles())
        np.testing.assert_allclose(row.values["mask IoU"], np.full(12, known))
        assert value(row, "mask IoU") == pytest.approx(known)


def test_mask_iou_is_at_alpha_1_whatever_the_area():
    photos = Rectangles(photos=10)
    rows = [measured(guessing, photos, area=area) for area in (None, 0.2, 0.5)]
    for row in rows[1:]:
        np.testing.assert_array_equal(row.values["mask IoU"], rows[0].values["mask IoU"])
    assert 0 < value(rows[0], "mask IoU") < 1


def test_without_a_mask_of_every_photo_there_is_no_mask_iou():
    class Some(Rectangles):
        def annotation(self, index):
            found = super().annotation(index)
            return Annotation(found.boxes) if index == 5 else found

    for photos in (Rectangles(masks=False), Some(parts=False)):
        row = measured(perfect, photos)
        assert "mask IoU" not in row.numbers
        assert "mask IoU" not in row.values
        assert value(row, "LE") == 0
    assert "mask IoU" in measured(perfect, Rectangles()).numbers
