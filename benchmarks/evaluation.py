"""OM, LE, F1 and the basic statistics of masks, compared with a loop over images in NumPy and SciPy.

python benchmarks/evaluation.py
"""

import cv2
import numpy as np
import numpy.typing as npt
from bench import in_turns, ratio, report
from scipy import ndimage

from casmap.data.photos import Annotation
from casmap.evaluation.evaluate import Predictions, localization_errors
from casmap.evaluation.localization import continuous_f1, official_metric
from casmap.evaluation.mask_statistics import mask_entropy, mean_mask, spread, total_variation

MASKS, SIDE, ROUNDS = 1000, 224, 5

Numbers = dict[str, float]


def main() -> None:
    """Check that both give the same numbers, then time them."""
    mapped = make()
    mine, theirs = ours(mapped), by_image(mapped)
    for key in theirs:
        assert np.isclose(mine[key], theirs[key], rtol=1e-4), (key, mine[key], theirs[key])
    seconds = in_turns({"by image": lambda: by_image(mapped), "ours": lambda: ours(mapped)}, ROUNDS)
    report(
        [ratio(f"evaluation image by image / ours, {MASKS} masks", seconds["by image"], seconds["ours"], ">= 2", MASKS)]
    )


def make() -> Predictions:
    """Smooth masks of several blobs, one or two boxes each."""
    random = np.random.default_rng(0)
    masks = np.stack([cv2.resize(random.random((7, 7), dtype=np.float32) ** 3, (SIDE, SIDE)) for _ in range(MASKS)])
    corners = random.uniform(0, SIDE, (MASKS, 2, 2, 2))
    truths = [Annotation(np.concatenate([pair.min(axis=1), pair.max(axis=1)], axis=1)) for pair in corners]
    return Predictions([str(number) for number in range(MASKS)], masks, random.integers(0, 2, MASKS), truths)


def ours(mapped: Predictions) -> Numbers:
    """The implementation of `casmap evaluate`."""
    errors = localization_errors(mapped)
    f1 = [continuous_f1(mask, truth.boxes) for mask, truth in zip(mapped.masks, mapped.truths, strict=True)]
    return {
        "OM": float(official_metric(errors, mapped.class_correct.astype(bool)).mean()),
        "LE": float(errors.mean()),
        "F1": float(np.mean(f1)),
        "total variation": float(total_variation(mapped.masks).mean()),
        "entropy": float(mask_entropy(mapped.masks).mean()),
        "spread": spread(mean_mask(mapped.masks)),
    }


def by_image(mapped: Predictions) -> Numbers:
    """The formulas written down for one image, in a loop."""
    found: dict[str, list[float]] = {key: [] for key in ("OM", "LE", "F1", "total variation", "entropy", "volume")}
    for mask, correct, truth in zip(mapped.masks, mapped.class_correct, mapped.truths, strict=True):
        labels, count = ndimage.label(mask >= mask.mean(dtype=np.float64), structure=np.ones((3, 3)))
        sizes = ndimage.sum_labels(np.ones_like(mask), labels, np.arange(1, count + 1))
        rows, columns = ndimage.find_objects(labels)[int(np.argmax(sizes))]
        box = np.array([columns.start, rows.start, columns.stop, rows.stop], float)
        error = float(max(overlap(box, true) for true in truth.boxes) <= 0.5)
        found["LE"].append(error)
        found["OM"].append(error if correct else 1.0)
        found["F1"].append(max(f1(mask, true) for true in truth.boxes))
        found["total variation"].append(
            float(np.abs(np.diff(mask, axis=0)).sum(dtype=float) + np.abs(np.diff(mask, axis=1)).sum(dtype=float))
        )
        some = mask[mask > 0]
        found["entropy"].append(float(-(some * np.log2(some)).sum(dtype=float) / mask.size))
        found["volume"].append(float(mask.mean(dtype=float)))
    volumes = found.pop("volume")
    return {key: float(np.mean(values)) for key, values in found.items()} | {"spread": float(np.std(volumes))}


def overlap(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    """Intersection over union of two boxes."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    inside = float(np.prod(np.maximum(sides, 0)))
    return inside / (float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - inside)


def f1(mask: npt.NDArray[np.float32], box: npt.NDArray[np.float64]) -> float:
    """2 PR / (P + R), each pixel weighted by the share of it that lies in the box."""
    x0, y0, x1, y1 = box
    pixels = np.arange(SIDE)
    across = np.clip(np.minimum(x1, pixels + 1) - np.maximum(x0, pixels), 0, None)
    down = np.clip(np.minimum(y1, pixels + 1) - np.maximum(y0, pixels), 0, None)
    inside = float((mask * np.outer(down, across)).sum())
    precision, recall = inside / float(mask.sum(dtype=float)), inside / ((x1 - x0) * (y1 - y0))
    return 2 * precision * recall / (precision + recall) if inside else 0.0


if __name__ == "__main__":
    main()
