"""The fidelity of mappings' masks to a classifier that took no part in training, beside maps that know nothing."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from casmap.data.photos import PhotoSet, Subset
from casmap.data.resizing import resize
from casmap.data.sources import open_photos
from casmap.evaluation.blind import GAUSSIAN, RANDOM, gaussian_system, random_system
from casmap.evaluation.evaluate import Floats, Row, annotated_indices, resized_truth
from casmap.evaluation.fidelity import MOST, Judge, measure_fidelity
from casmap.evaluation.trust import spread
from casmap.inference.components import Threshold
from casmap.inference.edges import fit_mask
from casmap.inference.mapper import SHIPPED, SaliencyMapper, load_mappers
from casmap.io.images import Image
from casmap.reporting import SILENT, Reporter

SIDE, BATCH = 224, 16


def judge_masks(
    data: str, mappings: Sequence[Path], judge: Judge, *, boxes: Path | None = None, masks: Path | None = None,
    split: str | None = None, size: int | None = None, reporter: Reporter = SILENT,
) -> list[Row]:  # fmt: skip
    """`measure_judged` of the photos with a box or mask, mappings (default: the shipped one) and a judge."""
    photos = open_photos(data, held_out=True, boxes=boxes, masks=masks, split=split)
    measured = Subset(photos, np.array(annotated_indices(photos), np.int64))
    return measure_judged(measured, load_mappers(mappings or [SHIPPED]), judge, size=size or SIDE, reporter=reporter)


def warn_of_own_judge(judge: Judge, backbones: Mapping[str, str | None], reporter: Reporter) -> None:
    """Warn if maps were made with a classifier of the judge's architecture.

    backbones: the backbone of the classifier with which maps were made, by the name of these maps.
    """
    if own := [name for name, backbone in backbones.items() if backbone and backbone == judge.backbone]:
        reporter.warning(
            f"The judge {judge.name} is a {judge.backbone}, as is the classifier of {', '.join(own)}: maps may have "
            "been made for it. Name a classifier of another architecture that took no part in training."
        )


def measure_judged(
    photos: PhotoSet, mappers: Mapping[str, SaliencyMapper], judge: Judge, *,
    size: int = SIDE, most: int = MOST, reporter: Reporter = SILENT,
) -> list[Row]:  # fmt: skip
    """The fidelity of each mapper's masks, as extracted, of the centre Gaussian and of random blobs.

    At most `most` photos are measured, evenly spread. There are no pointing games unless each of them has a box or
    mask. Photos are resized to (size, size) as a whole.
    """
    warn_of_own_judge(judge, {name: mapper.about.get("backbone") for name, mapper in mappers.items()}, reporter)
    chosen = spread(len(photos), most).tolist()
    known = all(photos.annotation(index) is not None for index in chosen)
    squares: dict[int, list[Image]] = {side: [] for side in (size, *(mapper.size for mapper in mappers.values()))}
    boxes: list[Floats] = []
    for index in reporter.track(chosen, "Reading photos"):
        photo = photos.image(index)
        for side, of in squares.items():
            of.append(resize(photo, side, "squash"))
        if known:
            boxes.append(resized_truth(photos, index, photo.shape, size, "squash").boxes)
    images = np.stack(squares[size])
    targets = judge.targets(images, [photos.classes[photos.labels[index]] for index in chosen])

    def extracted(mapper: SaliencyMapper) -> Floats:
        given = squares[mapper.size]
        starts = range(0, len(given), BATCH)
        masks = np.concatenate([mapper.masks(np.stack(given[at : at + BATCH]))[0] for at in starts])
        return np.stack([fit_mask(*one, mapper.edges) for one in zip(masks, given, images, strict=True)])

    systems: dict[str, Callable[[], Floats]] = {name: partial(extracted, mapper) for name, mapper in mappers.items()}
    systems |= {GAUSSIAN: lambda: gaussian_system(images)[0], RANDOM: lambda: random_system(images)[0]}
    rows = []
    with reporter.progress(f"Judging masks by {judge.name}", len(systems) * len(images)) as advance:
        for name, system in systems.items():
            masks = system()
            rows.append(measure_fidelity(name, masks, images, targets, judge, boxes or None, Threshold(), advance))
    return rows
