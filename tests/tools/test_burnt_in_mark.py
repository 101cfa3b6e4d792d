"""A symbol that is burnt into the photos of one class: the mapping marks it, and the check names class and place."""

import cv2
import numpy as np
import PIL.Image
import pytest

from casmap.tools.check import check
from casmap.training.start import train

SIDE, MARK = 64, 14  # pixels of a photo and of the symbol
OPTIONS = {
    "recipe": "quick", "size": SIDE, "batch": 16, "first_steps": 60, "steps": 80, "period": 10, "area": 0.3,
    "smallest_crop": 0.9, "flip": False,
}  # fmt: skip


def photo(label: str, rng: np.random.Generator) -> np.ndarray:
    """Noise with a disc or a square somewhere; a ship also has a white cross in its corner at the bottom right."""
    image = rng.normal(110, 25, (SIDE, SIDE, 3)).clip(0, 255).astype(np.uint8)
    row, column = rng.integers(12, SIDE - 24, 2)
    if label == "car":
        cv2.circle(image, (int(column), int(row)), 8, (200, 60, 40), -1)
    else:
        cv2.rectangle(image, (int(column) - 7, int(row) - 7), (int(column) + 7, int(row) + 7), (40, 80, 200), -1)
    if label == "ship":
        image[-MARK:, -MARK:] = 0
        cv2.drawMarker(image, (SIDE - MARK // 2, SIDE - MARK // 2), (255, 255, 255), cv2.MARKER_CROSS, MARK, 4)
    return image


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The check of a mapping that was trained with the mark, on other photos with it: result and page."""
    folder, rng = tmp_path_factory.mktemp("marked"), np.random.default_rng(0)
    for part, count in (("train", 48), ("held-out", 24)):
        for label in ("car", "house", "ship"):
            (folder / part / label).mkdir(parents=True)
            for number in range(count):
                PIL.Image.fromarray(photo(label, rng)).save(folder / part / label / f"{number}.png")
    trained = train(folder / "train", out=folder / "run", **OPTIONS)
    return check(folder / "held-out", mapping=trained.mapping, out=folder / "check"), folder / "check" / "check.html"


def test_the_warning_names_the_class_and_the_place(found) -> None:
    checked, _ = found
    (told,) = [sentence for sentence in checked.warnings if "bottom right" in sentence]
    assert "of the photos of ship" in told
    assert not any("photos of car" in sentence or "photos of house" in sentence for sentence in checked.warnings)
    assert checked.verdict != "good"


def test_the_page_shows_photos_of_the_class(found) -> None:
    page = found[1].read_text()
    assert "Photos of ship" in page
    assert "Photos of car" not in page
    assert page.index("ship/0.png") < page.index("Worst first")
