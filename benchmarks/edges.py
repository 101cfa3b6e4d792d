"""Edges and thresholds side by side: masks and boxes of the same network outputs, by which the defaults were chosen.

python benchmarks/edges.py --data DATA [--mapping FILE] [--photos N]

DATA has pets/dev with pets/dev_masks, and imagenet-small and birds with dev and dev_boxes.csv. Whole photos, measured
in their own pixels. nearest: the decoder's values, each repeated 4 x 4 times, as the paper has it. sharp: the filter's
coefficients are computed at the decoder's size, a quarter of the network's; sharp x 2 and sharp x 4: at twice and four
times this size. --photos: evenly spaced ones of each set (default: all).
"""

import argparse
from pathlib import Path

import cv2
import numpy as np

import casmap
from casmap.data.folders import PhotoFolder
from casmap.data.resizing import resize
from casmap.evaluation.localization import iou, mask_iou
from casmap.evaluation.numbers import mean_of, paired_difference, percent, points
from casmap.inference.components import PAPER, Threshold, largest_box
from casmap.inference.edges import STEP, fit_mask, guided

RULES = {"alpha 1": PAPER, "threshold 0.5": Threshold(fixed=0.5)}
LARGER = {"sharp x 2": 2, "sharp x 4": 4}
EDGES = ("nearest", "smooth", "sharp", *LARGER)
MEASURES = ("mask IoU", "boxes above IoU 0.75", "LE")
DEFAULT = ("sharp", "threshold 0.5")
Values = dict[tuple[str, str], dict[str, list[float]]]


def main() -> None:
    """A table for each set, and how far the default is from every other choice, paired."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--mapping", type=Path)
    parser.add_argument("--photos", type=int)
    given = parser.parse_args()
    mapper = casmap.load(given.mapping)
    pets = given.data / "pets"
    sets = {"pets": PhotoFolder(pets / "dev", masks=pets / "dev_masks")}
    for name in ("imagenet-small", "birds"):
        sets[name] = PhotoFolder(given.data / name / "dev", given.data / name / "dev_boxes.csv")
    for name, photos in sets.items():
        show(f"{name}/dev", measure(mapper, photos, given.photos))


def measure(mapper: casmap.SaliencyMapper, photos: PhotoFolder, most: int | None) -> Values:
    """The measures of each photo, by edges and rule."""
    values: Values = {(edges, rule): {} for edges in EDGES for rule in RULES}
    annotated = [index for index in range(len(photos)) if photos.annotation(index) is not None]
    for index in annotated[:: max(1, len(annotated) // (most or len(annotated)))][:most]:
        truth, photo = photos.annotation(index), photos.image(index)
        assert truth is not None
        for edges, mask in fitted(mapper, photo).items():
            for rule, threshold in RULES.items():
                binary = threshold.binary(mask)
                box = largest_box(binary)
                best = 0.0 if box is None else float(iou(box, truth.boxes).max(initial=0.0))
                found = {"LE": float(not best > 0.5), "boxes above IoU 0.75": float(best > 0.75)}
                if truth.mask is not None:
                    found["mask IoU"] = mask_iou(binary, truth.mask)
                for key, value in found.items():
                    values[edges, rule].setdefault(key, []).append(value)
    return values


def fitted(mapper: casmap.SaliencyMapper, photo: np.ndarray) -> dict[str, np.ndarray]:
    """One output of the network at the photo's size, by edges."""
    square = resize(photo, mapper.size, "squash")
    mask = mapper.masks(square[None])[0][0]
    found = {"nearest": cv2.resize(mask, photo.shape[1::-1])}
    found |= {edges: fit_mask(mask, square, photo, edges) for edges in ("smooth", "sharp")}
    values = np.ascontiguousarray(mask[::STEP, ::STEP])
    for name, times in LARGER.items():
        side = (times * len(values),) * 2
        reduced = cv2.resize(square, side, interpolation=cv2.INTER_AREA)
        found[name] = guided(cv2.resize(values, side), reduced, photo)
    return found


def show(name: str, values: Values) -> None:
    """Print a table."""
    measures = [key for key in MEASURES if key in values[DEFAULT]]
    apart = f"in parentheses: {', '.join(DEFAULT)} minus the row, paired"
    print(f"\n{name}, {len(values[DEFAULT]['LE'])} photos, percent with 95 % intervals; {apart}\n")
    print(f"| edges | rule | {' | '.join(measures)} |\n|---|---|{'---|' * len(measures)}")
    for (edges, rule), row in values.items():
        cells = [percent(mean_of(row[key])) for key in measures]
        if (edges, rule) != DEFAULT:
            differences = [points(paired_difference(values[DEFAULT][key], row[key])) for key in measures]
            cells = [f"{cell} ({difference})" for cell, difference in zip(cells, differences, strict=True)]
        print(f"| {edges} | {rule} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
