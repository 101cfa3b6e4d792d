"""What looks at no photo: the square whose size other photos choose, and the Gaussian."""

from dataclasses import replace

import numpy as np
import pytest

from casmap.data.photos import Annotation
from casmap.evaluation.blind import gaussian_system, with_centre_squares
from casmap.evaluation.evaluate import Predictions, localization_errors
from casmap.evaluation.wsol_metrics import is_tuning
from casmap.inference.components import Threshold, largest_box

NAMES = [f"{number}.png" for number in range(20)]
HALF = np.array([is_tuning(name, 0.5) for name in NAMES])


def predictions(sides, names=NAMES):
    """Photos of 100 x 100 with a centred square each."""
    boxes = [np.array([[50 - side / 2, 50 - side / 2, 50 + side / 2, 50 + side / 2]]) for side in sides]
    masks = np.random.default_rng(0).random((len(names), 100, 100)).astype(np.float32)
    return Predictions(names, masks, np.full(len(names), np.nan), [Annotation(box) for box in boxes])


def sides_of(found):
    return [box[2] - box[0] for box in (largest_box(mask > 0.5) for mask in found.masks)]


def test_the_side_is_chosen_on_the_other_half():
    found = with_centre_squares(predictions(np.where(HALF, 40, 80)))
    assert sides_of(found) == [80 if own else 40 for own in HALF]
    assert localization_errors(found).mean() == 1.0


def test_a_photo_does_not_choose_for_itself():
    sides = np.where(HALF, 40, 80)
    before = sides_of(with_centre_squares(predictions(sides)))
    first = int(np.flatnonzero(HALF)[0])
    sides[first] = 100
    assert sides_of(with_centre_squares(predictions(sides)))[first] == before[first]


def test_where_all_objects_are_alike_it_finds_them():
    assert localization_errors(with_centre_squares(predictions([60] * 20))).sum() == 0


def test_one_photo_is_enough():
    assert sides_of(with_centre_squares(predictions([40], NAMES[:1]))) == [40]


def test_where_no_square_finds_an_object_the_one_that_overlaps_most_is_taken():
    boxes = [np.array([[60, 60, 80, 80]])] * 20
    given = replace(predictions([40] * 20), truths=[Annotation(box) for box in boxes])
    assert sides_of(with_centre_squares(given)) == [60] * 20


def test_everything_but_the_masks_stays():
    given = predictions([40] * 20)
    found = with_centre_squares(given)
    assert found.names == given.names
    assert found.truths == given.truths
    assert found.masks.shape == given.masks.shape


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_the_level_sets_of_the_gaussian_are_centred_discs(level):
    mask = gaussian_system(np.zeros((2, 64, 64, 3), np.uint8))[0][0]
    radius = np.hypot(*(np.mgrid[:64, :64] + 0.5 - 32)) / 64
    kept = Threshold(fixed=level).binary(mask)
    assert np.abs(kept.sum() - (radius <= 0.25 * np.sqrt(-2 * np.log(level))).sum()) <= 8
    np.testing.assert_array_equal(kept, kept[::-1, ::-1])
    assert radius[kept].max() <= radius[~kept].min() + 1e-6
