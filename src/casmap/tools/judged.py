"""The fidelity of mappings' masks to a classifier that took no part in training, beside maps that know nothing."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from casmap.data.photos import PhotoSet
from casmap.data.resizing import resize
from casmap.data.sources import open_photos
from casmap.evaluation.blind import GAUSSIAN, RANDOM, gaussian_system, random_system
from casmap.evaluation.evaluate import Row, System, resized_truth
from casmap.evaluation.fidelity import MOST, Judge, measure_fidelity
from casmap.evaluation.table import system_of
from casmap.evaluation.trust import spread
from casmap.inference.components import Threshold
from casmap.inference.mapper import SHIPPED, SaliencyMapper, load_mappers
from casmap.reporting import SILENT, Reporter
from casmap.tools.classifiers import open_judge

SIDE, BATCH = 224, 16


def judge_masks(
    data: str, mappings: Sequence[Path], judge: str, *, boxes: Path | None = None, masks: Path | None = None,
    split: str | None = None, reporter: Reporter = SILENT,
) -> list[Row]:  # fmt: skip
    """`measure_judged` of photos, mappings (default: the shipped one) and a judge named as on the command line."""
    photos = open_photos(data, held_out=True, boxes=boxes, masks=masks, split=split)
    return measure_judged(photos, load_mappers(mappings or [SHIPPED]), open_judge(judge), reporter=reporter)


def measure_judged(
    photos: PhotoSet, mappers: Mapping[str, SaliencyMapper], judge: Judge, *,
    size: int = SIDE, most: int = MOST, reporter: Reporter = SILENT,
) -> list[Row]:  # fmt: skip
    """The fidelity of each mapper's masks, as extracted, of the centre Gaussian and of random blobs.

    At most `most` photos are measured, evenly spread over those with a box or mask, or, if none has any, over all; then
    there are no pointing games. Photos are resized to (size, size) as a whole.
    """
    known = [index for index in range(len(photos)) if photos.annotation(index) is not None]
    pool = np.array(known or range(len(photos)))
    chosen = pool[spread(len(pool), most)].tolist()
    whole = [photos.image(index) for index in reporter.track(chosen, "reading")]
    images = np.stack([resize(image, size, "squash") for image in whole])
    targets = judge.targets(images, [photos.classes[photos.labels[index]] for index in chosen])
    boxes = None
    if known:
        truths = zip(chosen, whole, strict=True)
        boxes = [resized_truth(photos, index, image.shape, size, "squash").boxes for index, image in truths]
    systems: dict[str, System] = {name: system_of(mapper, photos, mapper.edges) for name, mapper in mappers.items()}
    systems |= {GAUSSIAN: gaussian_system, RANDOM: random_system}
    rows = []
    with reporter.progress(f"judging by {judge.name}", len(systems) * len(images)) as advance:
        for name, system in systems.items():
            starts = range(0, len(images), BATCH)
            masks = np.concatenate([system(images[start : start + BATCH])[0] for start in starts])
            rows.append(measure_fidelity(name, masks, images, targets, judge, boxes, Threshold(), advance))
    return rows
