"""The saliency metric of Dabkowski & Gal, against values worked out by hand."""

import numpy as np
import pytest

from casmap.evaluation.saliency_metric import enlarged_crop, saliency_metric


@pytest.mark.parametrize(
    ("box", "probability", "expected"),
    [
        ((0, 0, 10, 10), 1.0, 0.0),  # all of the image, which is certain
        ((0, 0, 10, 5), 0.25, np.log(0.5 / 0.25)),
        ((2, 2, 4, 4), 0.5, np.log(0.05 / 0.5)),  # 4 of 100 pixels count as 5
        (None, 0.1, np.log(10)),  # no box: the whole image
    ],
)
def test_by_hand(box: tuple[int, int, int, int] | None, probability: float, expected: float) -> None:
    assert saliency_metric(box, 10, float(np.log(probability))) == pytest.approx(expected)


def test_the_crop_is_enlarged_to_the_image() -> None:
    image = np.zeros((8, 8, 3), np.uint8)
    image[2:6, 4:8] = 200
    assert (enlarged_crop(image, (4, 2, 8, 6)) == 200).all()
    np.testing.assert_array_equal(enlarged_crop(image, None), image)
