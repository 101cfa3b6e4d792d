"""The fidelity of the shipped mapping's masks and of other maps to a classifier that made none of them.

    python benchmarks/fidelity.py PHOTOS --boxes BOXES --out FOLDER

The baselines explain lite0, from whose weights the mapping's encoder was trained further, and are told the true class;
the judge is lite1. Each method sees the photos, squashed, at its own size; the judge sees them at --size. Finished rows
are kept in FOLDER, and a second run continues; one with other photos, options or weights is refused.
"""

import argparse
import hashlib
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import torch

from casmap.baselines import find_baseline
from casmap.data.batches import normalised
from casmap.data.resizing import resize
from casmap.data.sources import open_photos
from casmap.evaluation.blind import GAUSSIAN, RANDOM, gaussian_system, random_system
from casmap.evaluation.evaluate import Row, annotated_indices, resized_truth
from casmap.evaluation.fidelity import fidelity_table, measure_fidelity
from casmap.evaluation.numbers import mean_of, paired_difference
from casmap.evaluation.trust import spread
from casmap.inference.components import PAPER
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.models.class_activation import min_max
from casmap.paper.study import Study
from casmap.tools.classifiers import open_classifier, open_judge

BASELINE_SIZE, BATCH = 224, 8
MAPPING, BASELINES = "casmap, shipped mapping", ("grad-cam", "CAM", "gradient")


def main() -> None:
    """Print a table, and the paired differences of the mapping from each row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("photos")
    parser.add_argument("--boxes", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--judge", default="lite1")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--size", type=int, default=128)
    options = parser.parse_args()
    photos = open_photos(options.photos, boxes=options.boxes)
    pool = np.array(annotated_indices(photos))
    chosen = pool[spread(len(pool), options.count)].tolist()
    whole = [photos.image(index) for index in chosen]
    labels = photos.labels[chosen]
    judge, mapper = open_judge(options.judge), SaliencyMapper.load()
    explained, matches = open_classifier("lite0", photos)
    assert matches, "the photos need ImageNet's classes"

    def at(size: int) -> np.ndarray:
        return np.stack([resize(image, size, "squash") for image in whole])

    def of_mapping() -> np.ndarray:
        images = at(mapper.size)
        return np.concatenate([mapper.masks(images[k : k + BATCH])[0] for k in range(0, len(images), BATCH)])

    def of_baseline(name: str) -> np.ndarray:
        images, method, found = at(BASELINE_SIZE), find_baseline(name).explain, []
        for k in range(0, len(images), BATCH):
            inputs = normalised(images[k : k + BATCH], explained.mean, explained.std)
            found.append(min_max(method(explained, inputs, torch.from_numpy(labels[k : k + BATCH]))).numpy())
        return np.concatenate(found)

    methods = {
        MAPPING: of_mapping,
        **{f"{find_baseline(name).name} of lite0": partial(of_baseline, name) for name in BASELINES},
        GAUSSIAN: lambda: gaussian_system(at(options.size))[0],
        RANDOM: lambda: random_system(at(options.size))[0],
    }
    images = at(options.size)
    targets = judge.targets(images, [photos.classes[label] for label in labels])
    truths = [
        resized_truth(photos, index, image.shape, options.size, "squash")
        for index, image in zip(chosen, whole, strict=True)
    ]
    right = [
        judge.log_probabilities(judge.normalised(one[None]))[0].argmax() == t
        for one, t in zip(images, targets, strict=True)
    ]
    boxes = [truth.boxes for truth in truths]
    study = Study(options.out, {
        "size": options.size, "count": options.count, "judge": judge.key[:8],
        "mapping": hashlib.sha256(SHIPPED.read_bytes()).hexdigest()[:8], "photos": key_of(images, labels, *boxes),
    })  # fmt: skip

    def measured(name: str) -> dict[str, list[float]]:
        masks = [cv2.resize(mask, (options.size,) * 2, interpolation=cv2.INTER_AREA) for mask in methods[name]()]
        row = measure_fidelity(name, np.stack(masks), images, targets, judge, boxes, PAPER)
        return {key: values.tolist() for key, values in row.values.items()}

    rows = []
    for name in methods:
        values = {key: np.array(of) for key, of in study.part(name, partial(measured, name)).items()}
        rows.append(Row(name, {key: mean_of(of) for key, of in values.items()}, values))
        print(f"{name}: done", flush=True)
    print(f"{len(chosen)} photos at {options.size} px; {options.judge} is right about {np.mean(right):.1%} of them")
    head, lines = fidelity_table(rows)
    for line in (head, *lines):
        print("| " + " | ".join(cell.replace("\n", " ") for cell in line) + " |")
    print("The mapping minus each other, paired:")
    for row in rows[1:]:
        gaps = {key: paired_difference(rows[0].values[key], of) for key, of in row.values.items()}
        print(row.name, {key: f"{gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]" for key, gap in gaps.items()})


def key_of(*arrays: np.ndarray) -> str:
    """What identifies arrays."""
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:8]


if __name__ == "__main__":
    main()
