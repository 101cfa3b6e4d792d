"""Is 0.5 the right threshold? Measures of the shipped mapping at other ones, by each protocol.

    python benchmarks/thresholds.py PHOTOS BOXES-OR-MASKS [MAPPING]

In percent, without intervals: all columns are of the same photos. Small: the true box covers 0.1 to 0.33 of the crop.
The last rows: LE as extracted of the fifth of the photos with the smallest mean mask, of the next fifth, and so on.
"""

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from casmap import SaliencyMapper
from casmap.data.folders import PhotoFolder
from casmap.data.resizing import resize, resize_annotation
from casmap.evaluation.box_fit import best_ious
from casmap.evaluation.by_size import SIZES, UNION, object_share
from casmap.evaluation.field_protocol import gt_known
from casmap.evaluation.localization import mask_iou

THRESHOLDS = np.arange(0.4, 0.76, 0.05).round(2)
FIFTHS = 5


def main() -> None:
    """Print a table with a column for each threshold."""
    truth = "masks" if Path(sys.argv[2]).is_dir() else "boxes"
    photos = PhotoFolder(sys.argv[1], **{truth: sys.argv[2]})
    mapper = SaliencyMapper.load(sys.argv[3] if len(sys.argv) > 3 else None, threads=1)
    rows: dict[str, list[list[float]]] = defaultdict(list)
    means = []
    for index in range(len(photos)):
        if (true := photos.annotation(index)) is None:
            continue
        photo = photos.image(index)
        found = mapper(photo)
        means.append(found.area)
        ious = ious_at(found.mask, true.boxes)
        rows["LE, as extracted"].append(ious <= 0.5)
        rows["boxes above IoU 0.75, as extracted"].append(ious > 0.75)
        if true.mask is not None:
            rows["mask IoU, as extracted"].append([mask_iou(found.mask >= one, true.mask) for one in THRESHOLDS])
        for policy in ("crop", "squash and crop"):
            boxes = resize_annotation(true, *photo.shape[:2], mapper.size, policy).boxes
            ious = ious_at(mapper.masks(resize(photo, mapper.size, policy)[None])[0][0], boxes)
            if policy == "squash and crop":
                rows["GT-known, field's protocol"].append(gt_known(ious))
                continue
            rows["LE, paper's protocol"].append(ious <= 0.5)
            if SIZES[UNION][0] <= object_share(boxes, mapper.size) < SIZES[UNION][1]:
                rows["LE, paper's protocol, small"].append(ious <= 0.5)
    print(f"| {len(means)} photos | " + " | ".join(f"{one:g}" for one in THRESHOLDS) + " |")
    print("|---" * (1 + len(THRESHOLDS)) + "|")
    table = {name: np.array(values, float) for name, values in rows.items()}
    order = np.array_split(np.argsort(means), FIFTHS)
    table |= {f"LE, fifth {number}": table["LE, as extracted"][chosen] for number, chosen in enumerate(order, 1)}
    for name, values in table.items():
        print(f"| {name} | " + " | ".join(f"{100 * value:.1f}" for value in values.mean(axis=0)) + " |")


def ious_at(mask: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """The best IoU of a mask's box (H, W) with the true boxes (n, 4), at each threshold."""
    return np.array([best_ious((mask >= one)[None], [boxes])[0] for one in THRESHOLDS])


if __name__ == "__main__":
    main()
