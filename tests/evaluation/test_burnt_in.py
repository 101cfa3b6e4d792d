"""Letters and calipers that are burnt into grey images."""

import cv2
import numpy as np
import pytest

from casmap.evaluation.burnt_in import ENOUGH, STROKES, burnt_in_warnings, strokes

SIDE = 64


def tissue(rng: np.random.Generator) -> np.ndarray:
    """Grey speckle in layers that lie across the image, as in ultrasound scans."""
    noise = cv2.GaussianBlur(rng.normal(0, 1, (SIDE, SIDE)), (0, 0), sigmaX=6, sigmaY=1)
    grey = np.clip(110 + 45 * noise / noise.std(), 0, 255).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)


def with_calipers(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two crosses somewhere."""
    marked = image.copy()
    for column, row in rng.integers(8, SIDE - 8, (2, 2)):
        cv2.drawMarker(marked, (int(column), int(row)), (255, 255, 255), cv2.MARKER_CROSS, 11, 1)
    return marked


def counts(shares: dict[str, float], each: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels of strokes and labels of `each` images of a class, of which a share has calipers."""
    rng, pixels = np.random.default_rng(0), []
    for share in shares.values():
        for number in range(each):
            image = tissue(rng)
            image = with_calipers(image, rng) if number < share * each else image
            pixels.append(int(strokes(image).sum()))
    return np.array(pixels), np.repeat(np.arange(len(shares)), each)


def test_an_upright_stroke_counts_and_a_layer_and_a_disc_do_not() -> None:
    image = np.zeros((32, 32, 3), np.uint8)
    image[4:12, 6] = 255
    assert np.argwhere(strokes(image)).tolist() == [[row, 6] for row in range(4, 12)]
    image[:] = 0
    image[20, :] = 255
    cv2.circle(image, (10, 8), 6, (255, 255, 255), -1)
    assert strokes(image)[:, 2:-2].sum() <= 4  # the tips of the disc


def test_an_image_with_colours_has_none() -> None:
    image = np.zeros((32, 32, 3), np.uint8)
    image[4:12, 6] = 255
    image[30, 30, 0] = 60
    assert not strokes(image).any()


def test_calipers_are_found_at_any_place_and_tissue_is_not() -> None:
    rng = np.random.default_rng(1)
    images = [tissue(rng) for _ in range(20)]
    assert max(strokes(image).sum() for image in images) < STROKES
    assert min(strokes(with_calipers(image, rng)).sum() for image in images) >= STROKES


def test_the_classes_with_most_and_fewest_calipers_are_named() -> None:
    (told,) = burnt_in_warnings(
        *counts({"benign": 0.4, "malignant": 0.6, "normal": 0.1}, 30), ["benign", "malignant", "normal"]
    )
    assert told.startswith(
        "Thin bright strokes are in 60 % of the photos of malignant and in 10 % of those of normal: "
    )


@pytest.mark.parametrize(
    ("shares", "each"),
    [
        ({"ill": 0.5, "well": 0.5}, 30),
        ({"ill": 0.5, "well": 0.35}, 100),
        ({"ill": 1.0, "well": 0.0}, ENOUGH - 1),
        ({"ill": 0.4, "well": 0.1}, 10),
    ],
    ids=["alike", "nearly alike", "few", "maybe by chance"],
)
def test_no_certain_difference_is_no_warning(shares, each) -> None:
    assert burnt_in_warnings(*counts(shares, each), list(shares)) == []


def test_labels_that_have_nothing_to_do_with_strokes_are_rarely_warned_of() -> None:
    rng = np.random.default_rng(0)
    pixels = np.where(rng.random(60) < 0.4, 30, 0)
    told = [burnt_in_warnings(pixels, rng.permutation(np.repeat([0, 1, 2], 20)), ["a", "b", "c"]) for _ in range(100)]
    assert sum(map(len, told)) <= 4
