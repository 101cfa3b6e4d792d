"""Draw docs/figures/gallery-*.jpg: maps of free photos by the shipped mapping, good ones and bad ones.

python benchmarks/gallery.py

The photos come with scikit-image (CC0 or public domain), scikit-learn (CC BY 2.0) and Matplotlib (public domain).
Which maps are good was judged by eye. Each caption says what is right or wrong.
"""

import importlib.util
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from casmap import SaliencyMap, SaliencyMapper

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
SKIMAGE, SKLEARN, MATPLOTLIB = "skimage/data", "sklearn/datasets/images", "matplotlib/mpl-data/sample_data"
GOOD = {
    f"{SKIMAGE}/chelsea.png": "Cat: the whole face",
    f"{SKIMAGE}/rocket.jpg": "Rocket: without the towers",
    f"{SKIMAGE}/motorcycle_left.png": "Motorcycle: all of it, little clutter",
    f"{SKLEARN}/china.jpg": "Pagoda: without the trees beside it",
    f"{SKLEARN}/flower.jpg": "Flower: one of two, with its outline",
    f"{SKIMAGE}/astronaut.png": "Astronaut: with her helmet, without flag",
    f"{MATPLOTLIB}/grace_hopper.jpg": "Officer: face and cap, without the flag",
    f"{SKIMAGE}/grass.png": "Grass: no object, hence no box",
}
BAD = {
    f"{SKIMAGE}/coffee.png": "Coffee: the saucer is cut",
    f"{SKIMAGE}/camera.png": "Cameraman: grass is marked, his back is not",
    f"{SKIMAGE}/coins.png": "Coins: 24 objects, one mask and one box",
    f"{SKIMAGE}/hubble_deep_field.jpg": "Galaxies: objects too small, box far too large",
    f"{SKIMAGE}/text.png": "Handwriting: no ImageNet class, all of it is marked",
    f"{SKIMAGE}/retina.jpg": "Retina: medical image, out of scope",
}
COLUMNS = 2


def main() -> None:
    """Two figures of photos beside their overlays."""
    mapper = SaliencyMapper.load()
    FIGURES.mkdir(exist_ok=True)
    for name, photos in (("good", GOOD), ("bad", BAD)):
        maps = mapper([located(path) for path in photos])
        figure = draw(list(zip(maps, photos.values(), strict=True)))
        figure.savefig(FIGURES / f"gallery-{name}.jpg", dpi=140, pil_kwargs={"quality": 82, "optimize": True})


def located(path: str) -> Path:
    """A file inside an installed package."""
    package, _, inside = path.partition("/")
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"The gallery needs {package}.")
    return Path(found.submodule_search_locations[0]) / inside


def draw(shown: list[tuple[SaliencyMap, str]]) -> Figure:
    """Pairs of photo and overlay, two in a row, each below its caption."""
    rows = -(-len(shown) // COLUMNS)
    figure = Figure(figsize=(8.4, 1.9 * rows), layout="constrained")
    for part, (found, caption) in zip(figure.subfigures(rows, COLUMNS, squeeze=False).flat, shown, strict=True):
        part.suptitle(caption, fontsize=11)
        for axes, image in zip(part.subplots(1, 2), (found.photo, found.overlay()), strict=True):
            axes.imshow(padded(image))
            axes.set_axis_off()
    return figure


def padded(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The image on a white canvas of 4 to 3, so that all have one shape."""
    height, width = image.shape[:2]
    canvas = np.full((max(height, width * 3 // 4), max(width, height * 4 // 3), 3), 255, np.uint8)
    top, left = (canvas.shape[0] - height) // 2, (canvas.shape[1] - width) // 2
    canvas[top : top + height, left : left + width] = image
    return canvas


if __name__ == "__main__":
    main()
