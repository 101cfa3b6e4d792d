"""Does the verdict tell outlines that people drew from masks that know nothing? As judged by a mapping's classifier.

    python benchmarks/outline_verdicts.py PHOTOS MASKS MAPPING

PHOTOS has class folders and MASKS the outlines, such as scans/dev and scans/dev_masks; a photo without an outline has
an empty mask. Judged are the mapping's masks, the outlines, and what must fail: the outlines of other photos, boxes in
the centre, random masks, and masks of all ones and all zeros. Without classes: the verdict if the gains in single
classes did not count. At most 200 photos are judged, spread over the folder, as in `casmap check`.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import torch

from casmap import SaliencyMapper
from casmap.data.folders import PhotoFolder
from casmap.data.photos import PhotoSet, Subset
from casmap.evaluation.control_masks import BinaryMasks, centred_masks, random_masks
from casmap.evaluation.numbers import signed
from casmap.evaluation.trust import MOST, measure, spread
from casmap.evaluation.verdict import judge
from casmap.io.memory import reuse_memory


class Given:
    """A mapper with the given masks (N, S, S), one after another, and the classifier of another mapper."""

    def __init__(self, mapper: SaliencyMapper, masks: BinaryMasks) -> None:
        self.network, self.size, self.classes = mapper.network, mapper.size, mapper.classes
        self.normalised, self.edges, self.left = mapper.normalised, "smooth", iter(masks.astype(np.float32))

    def masks(self, images: np.ndarray) -> tuple[np.ndarray, None]:
        """The next masks, one for each image."""
        return np.stack([next(self.left) for _ in images]), None


def outlines(photos: PhotoSet, size: int) -> BinaryMasks:
    """What people drew, at the size of the network."""
    found = np.zeros((len(photos), size, size), bool)
    for index in range(len(photos)):
        if (drawn := photos.annotation(index)) is not None and drawn.mask is not None:
            lesion = (drawn.mask == 255).astype(np.float32)
            found[index] = cv2.resize(lesion, (size, size), interpolation=cv2.INTER_AREA) >= 0.5
    return found


def main() -> None:
    """Print a table: the verdict on each kind of mask, its gains, and those in each class."""
    reuse_memory()
    torch.set_num_threads(1)
    folder = PhotoFolder(Path(sys.argv[1]), masks=Path(sys.argv[2]))
    photos = Subset(folder, spread(len(folder), MOST))
    mapper = SaliencyMapper.load(sys.argv[3])
    drawn = outlines(photos, mapper.size)
    changed: dict[str, Callable[[], BinaryMasks]] = {
        "the outlines": lambda: drawn,
        "the next photo's outlines": lambda: np.roll(drawn, 1, axis=0),
        "boxes in the centre": lambda: centred_masks(drawn),
        "random masks": lambda: random_masks(drawn, seed=9),
        "all ones": lambda: np.ones_like(drawn),
        "all zeros": lambda: np.zeros_like(drawn),
    }
    print("| masks | verdict | without classes | " + " | ".join(("all", *photos.classes)) + " |")
    print("|" + "---|" * (4 + len(photos.classes)))
    for name, make in {"the mapping's": None, **changed}.items():
        found = measure(mapper if make is None else Given(mapper, make()), photos, most=len(photos))
        plain = judge(found.masks, found.labels, found.classes, found.correct["own"], found.gains, len(found.masks))
        by_class = [found.class_gains.get(one, {}) for one in photos.classes]
        cells = ["; ".join(signed(gain) for gain in of.values()) for of in (found.gains, *by_class)]
        print(f"| {name} | {found.judge().verdict} | {plain.verdict} | " + " | ".join(cells) + " |", flush=True)
    print(f"In each cell the gains over: {', '.join(found.gains)}.")


if __name__ == "__main__":
    main()
