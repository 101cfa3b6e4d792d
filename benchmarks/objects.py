"""Are the parts of a mask the objects of a photo? Recall and precision of `--objects all` with one and several boxes.

python benchmarks/objects.py PHOTOS BOXES [MAPPING]

A true box is found if an object's box has an IoU of at least 0.5 with it; each object finds at most one box. Intervals:
bootstrap over photos, 95 %.
"""

import sys
from pathlib import Path

import numpy as np

import casmap
from casmap.data.folders import PhotoFolder
from casmap.evaluation.localization import iou
from casmap.evaluation.numbers import bootstrap_of_sums


def main() -> None:
    """One row for photos with one box, one for photos with several."""
    photos = PhotoFolder(Path(sys.argv[1]), boxes=Path(sys.argv[2]))
    mapper = casmap.load(sys.argv[3] if len(sys.argv) > 3 else None)
    counts: dict[bool, list[tuple[int, int, int]]] = {False: [], True: []}
    for index in range(len(photos)):
        if (truth := photos.annotation(index)) is not None:
            boxes = [one.box for one in mapper(photos.image(index)).objects("all")]
            counts[len(truth.boxes) > 1].append((matches(boxes, truth.boxes), len(boxes), len(truth.boxes)))
    print(
        "| photos with | photos | boxes per photo | objects per photo | recall | precision |\n|---|---|---|---|---|---|"
    )
    for several, rows in counts.items():
        found, objects, true = np.array(rows, np.float64).T
        cells = [share(found, true), share(found, objects)]
        print(
            f"| {'several boxes' if several else 'one box'} | {len(rows)} | {true.mean():.2f} | {objects.mean():.2f} | "
            f"{' | '.join(cells)} |"
        )


def matches(boxes: list[tuple[int, int, int, int]], true: np.ndarray) -> int:
    """The number of true boxes (n, 4) that are found, each by another box; the largest objects choose first."""
    free = list(range(len(true)))
    for box in boxes:
        if free and (overlaps := iou(box, true[free])).max() >= 0.5:
            del free[int(overlaps.argmax())]
    return len(true) - len(free)


def share(part: np.ndarray, whole: np.ndarray) -> str:
    """The sum of one over the sum of the other, in percent, with its interval."""
    low, high = bootstrap_of_sums(np.stack([part, whole], axis=1), lambda sums: float(sums[0] / sums[1]))
    return f"{100 * part.sum() / whole.sum():.1f} [{100 * low:.1f}, {100 * high:.1f}]"


if __name__ == "__main__":
    main()
