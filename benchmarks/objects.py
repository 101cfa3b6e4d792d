"""Are the parts of a mask the objects of a photo? Recall and precision of `--objects all` with one and several boxes.

python benchmarks/objects.py PHOTOS BOXES [MAPPING]

A true box is found if an object's box has an IoU of at least 0.5 with it; each object finds at most one box, the one
with the highest score first. The last column keeps only objects above a score: the highest recall at which at least
half of them are right. Intervals: bootstrap over photos, 95 %.
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
    scored: dict[bool, list[tuple[float, bool]]] = {False: [], True: []}
    for index in range(len(photos)):
        if (truth := photos.annotation(index)) is not None:
            objects = sorted(mapper(photos.image(index)).objects("all"), key=lambda one: -one.score)
            found = matches([one.box for one in objects], truth.boxes)
            several = len(truth.boxes) > 1
            counts[several].append((sum(found), len(objects), len(truth.boxes)))
            scored[several] += [(one.score, hit) for one, hit in zip(objects, found, strict=True)]
    head = ("photos with", "photos", "boxes per photo", "objects per photo", "recall", "precision")
    print(f"| {' | '.join(head)} | recall at precision 50 % |\n|{'---|' * (len(head) + 1)}")
    for several, rows in counts.items():
        found, objects, true = np.array(rows, np.float64).T
        cells = [share(found, true), share(found, objects), recall_at_half(scored[several], int(true.sum()))]
        print(
            f"| {'several boxes' if several else 'one box'} | {len(rows)} | {true.mean():.2f} | {objects.mean():.2f} | "
            f"{' | '.join(cells)} |"
        )


def matches(boxes: list[tuple[int, int, int, int]], true: np.ndarray) -> list[bool]:
    """Whether each box finds one of the true boxes (n, 4) that no box before it has found."""
    free, found = list(range(len(true))), []
    for box in boxes:
        overlaps = iou(box, true[free]) if free else np.zeros(1)
        found.append(bool(overlaps.max() >= 0.5))
        if found[-1]:
            del free[int(overlaps.argmax())]
    return found


def recall_at_half(scored: list[tuple[float, bool]], true: int) -> str:
    """The highest recall, in percent, of objects (score, whether right) above a score of which half are right."""
    right = np.cumsum([hit for _, hit in sorted(scored, key=lambda one: -one[0])])
    precise = right[right / np.arange(1, len(right) + 1) >= 0.5]
    return f"{100 * precise.max() / true:.1f}" if len(precise) else "never"


def share(part: np.ndarray, whole: np.ndarray) -> str:
    """The sum of one over the sum of the other, in percent, with its interval."""
    low, high = bootstrap_of_sums(np.stack([part, whole], axis=1), lambda sums: float(sums[0] / sums[1]))
    return f"{100 * part.sum() / whole.sum():.1f} [{100 * low:.1f}, {100 * high:.1f}]"


if __name__ == "__main__":
    main()
