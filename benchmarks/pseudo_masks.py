"""How good are the pseudo-masks of the second stage? Measured on photos with boxes or masks that training never sees.

python benchmarks/pseudo_masks.py PHOTOS BOXES-OR-MASKS [MAPPING] [EVERY]

One row for each kind of pseudo-mask, made from the masks of a mapping (default: the shipped one) at its own size, for
every EVERY-th photo (default: all); the first row is the masks themselves, fitted to edges. Whole photos, threshold
0.5, 95 % intervals. The class activation maps of "cam" are those of the label, if the encoder knows it.
"""

import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np

from casmap.data.folders import PhotoFolder
from casmap.data.resizing import resize
from casmap.evaluation.box_fit import best_ious
from casmap.evaluation.localization import mask_iou
from casmap.evaluation.numbers import mean_of, percent
from casmap.inference.edges import fit_mask
from casmap.inference.mapper import SaliencyMapper
from casmap.models.classifier import Classifier
from casmap.training.pseudo_masks import PseudoMasks
from casmap.training.recipes import SEEDS
from casmap.training.run import Run

IMAGENET = 1000  # classes: with another number the label's CAM is unknown, and the row "cam" is left out


def main() -> None:
    """Print a table in Markdown."""
    folder, truth = Path(sys.argv[1]), Path(sys.argv[2])
    photos = PhotoFolder(folder, **({"masks": truth} if truth.is_dir() else {"boxes": truth}))
    mapper = SaliencyMapper.load(sys.argv[3] if len(sys.argv) > 3 else None, threads=1)
    every = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    chosen = np.array([i for i in range(0, len(photos), every) if photos.annotation(i) is not None])
    encoder = Classifier("lite0", IMAGENET, pretrained=True).eval()
    print("| pseudo-masks | LE ↓ | boxes above IoU 0.75 ↑ | mask IoU ↑ |\n|---|---|---|---|")
    row("the masks, as extracted", photos, chosen, lambda index, photo: extracted(mapper, photo))
    for kind in ("edges", "seeds", *(["cam"] if len(photos.classes) == IMAGENET else [])):
        with tempfile.TemporaryDirectory() as scratch:
            run = Run(scratch, SEEDS.replace(pseudo_masks=kind, threads=1))
            made = PseudoMasks(Path(scratch) / "masks", chosen).make(photos, encoder, mapper, run)
            row(kind, photos, chosen, lambda index, photo, made=made: enlarged(made[index], photo))


def row(name, photos, chosen, mask_of) -> None:
    """Measure one kind of mask on the chosen photos, and print it."""
    ious, overlaps = [], []
    for index in map(int, chosen):
        photo, true = photos.image(index), photos.annotation(index)
        binary = mask_of(index, photo) >= 0.5
        ious.append(best_ious(binary[None], [true.boxes])[0])
        overlaps += [] if true.mask is None else [mask_iou(binary, true.mask)]
    values = [np.array(ious) <= 0.5, np.array(ious) > 0.75, overlaps]
    cells = [percent(mean_of(np.array(each, np.float64))) if len(each) else "" for each in values]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def extracted(mapper: SaliencyMapper, photo: np.ndarray) -> np.ndarray:
    """The mask of a photo as `casmap extract` gives it."""
    square = resize(photo, mapper.size, "squash")
    return fit_mask(mapper.masks(square[None])[0][0], square, photo)


def enlarged(small: np.ndarray, photo: np.ndarray) -> np.ndarray:
    """A pseudo-mask (96, 96) at the size of the photo, by interpolation."""
    return cv2.resize(small, photo.shape[1::-1], interpolation=cv2.INTER_LINEAR) / 255


if __name__ == "__main__":
    main()
