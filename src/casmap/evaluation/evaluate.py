"""Evaluate: photos with boxes in, one row for each system out, every number with its interval."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from casmap.data.photos import Annotation, PhotoSet
from casmap.data.resizing import Policy, resize, resize_annotation
from casmap.errors import UserError
from casmap.evaluation.evidence import alpha_for_area, evidence_precision, evidence_recall
from casmap.evaluation.localization import center_mask, continuous_f1, localization_error, mask_iou, official_metric
from casmap.evaluation.mask_statistics import mask_entropy, mean_mask, spread, total_variation
from casmap.evaluation.numbers import Number as Number
from casmap.evaluation.numbers import bootstrap_of_sums, bootstrap_statistic, mean_of
from casmap.evaluation.wsol_metrics import average_precision, is_tuning, max_box_acc_v2, pixel_histograms
from casmap.inference.components import binary_mask, largest_box, tight_box

Floats = npt.NDArray[np.floating]
BATCH = 32
ALPHAS = tuple(round(0.1 * step, 1) for step in range(1, 31))
TOLERANCE = 0.03  # masks whose mean areas differ by more are not compared by what they recall


class System(Protocol):
    """Anything that marks pixels."""

    def __call__(self, pictures: npt.NDArray[np.uint8]) -> tuple[Floats, npt.NDArray[np.int64] | None]:
        """Pictures (N, S, S, 3) -> masks (N, S, S) and class indices (N,), or None where it tells no class."""


@dataclass(frozen=True)
class Row:
    """One system's numbers, and its per-photo values for paired comparisons."""

    name: str
    numbers: dict[str, Number]
    values: dict[str, Floats] = field(repr=False)


def center_system(pictures: npt.NDArray[np.uint8]) -> tuple[Floats, None]:
    """The centre box: a box over half of the picture, whatever is in it."""
    return np.broadcast_to(center_mask(*pictures.shape[1:3]), pictures.shape[:3]).astype(np.float32), None


def whole_system(pictures: npt.NDArray[np.uint8]) -> tuple[Floats, None]:
    """The whole picture."""
    return np.ones(pictures.shape[:3], np.float32), None


FIXED: dict[str, System] = {"centre box": center_system, "whole picture": whole_system}  # they look at no photo


def annotated(photos: PhotoSet) -> list[int]:
    """Which photos have something to be measured against."""
    found = [index for index in range(len(photos)) if photos.annotation(index) is not None]
    if not found:
        raise UserError("None of these photos has a box or a mask, so there is nothing to evaluate against.")
    return found


@dataclass(frozen=True)
class Mapped:
    """What a system marks in every annotated photo, beside the truth, both at the same size."""

    names: list[str]
    masks: Floats  # (N, S, S)
    right: Floats  # (N,) 1 where the class is right, 0 where not, nan where none is told
    truths: list[Annotation]


def map_photos(
    system: System, photos: PhotoSet, size: int, policy: Policy, progress: Callable[[], None] = lambda: None
) -> Mapped:
    """Run a system over all annotated photos, resized to (size, size) by one of the supplement's two policies."""
    indices = annotated(photos)
    all_masks, right, truths = [], [], []
    for at in range(0, len(indices), BATCH):
        batch = indices[at : at + BATCH]
        images = [photos.image(index) for index in batch]
        masks, classes = system(np.stack([resize(image, size, policy) for image in images]))
        all_masks.append(masks)
        right.append(np.full(len(batch), np.nan) if classes is None else classes == photos.labels[batch])
        for index, image in zip(batch, images, strict=True):
            truths.append(truth_of(photos, index, image.shape, size, policy))
            progress()
    return Mapped([photos.names[i] for i in indices], np.concatenate(all_masks), np.concatenate(right), truths)


def localization_errors(mapped: Mapped, alpha: float = 1.0, whole: bool = False) -> npt.NDArray[np.float64]:
    """LE of each photo: 1 where the box of the binary mask misses, 0 where it hits.

    The box goes around the largest component, as in the paper, or around the whole binary mask.
    """
    box = tight_box if whole else largest_box
    boxes = [box(binary_mask(mask, alpha)) for mask in mapped.masks]
    return localization_error(boxes, [truth.boxes for truth in mapped.truths])


def own_alpha_errors(
    mapped: Mapped, alphas: tuple[float, ...] = ALPHAS, whole: bool = False
) -> tuple[npt.NDArray[np.float64], tuple[float, float]]:
    """LE of each photo at the system's own best alpha, chosen on the other half of the photos; and the two alphas.

    Which half a photo belongs to follows from its name. The alpha that leaves fewest errors on one half, the smallest
    of equals, is used on the other. Where all photos are in one half there is nothing to choose on: alpha is 1.
    """
    half = np.array([is_tuning(name, 0.5) for name in mapped.names])
    if half.all() or not half.any():
        return localization_errors(mapped, whole=whole), (1.0, 1.0)
    with ThreadPoolExecutor() as pool:  # OpenCV, which finds the components, lets other threads work
        errors = np.array(list(pool.map(lambda alpha: localization_errors(mapped, alpha, whole), alphas)))
    best = [int(errors[:, ~part].mean(axis=1).argmin()) for part in (half, ~half)]
    return np.where(half, errors[best[0]], errors[best[1]]), (alphas[best[0]], alphas[best[1]])


def measure_masks(name: str, mapped: Mapped, area: float | None = None) -> Row:
    """Measure what a system marked.

    area: measure evidence, and LE a second time, at this mean area of the binary masks, by one alpha for all photos;
    a system whose masks cannot have it (a fixed box) has no such numbers.
    """
    masks, truths = mapped.masks, mapped.truths
    values = dict(_values(mapped, area))
    numbers = {key: mean_of(value) for key, value in values.items()}
    numbers["spread"] = Number(spread(values["area"]), *bootstrap_statistic(values["area"], spread))
    tuning = np.array([is_tuning(photo) for photo in mapped.names])
    if 0 < tuning.sum() < len(tuning):
        values["MaxBoxAccV2"], _ = max_box_acc_v2(masks, [truth.boxes for truth in truths], tuning)
        numbers["MaxBoxAccV2"] = mean_of(values["MaxBoxAccV2"])
    if all(truth.mask is not None for truth in truths):
        pairs = zip(masks, (truth.mask for truth in truths), strict=True)
        histograms = np.stack([pixel_histograms(mask, truth) for mask, truth in pairs if truth is not None])
        if histograms[:, 1].any():
            # 0 where a bootstrap has chosen no photo that shows an object
            interval = bootstrap_of_sums(histograms, lambda total: average_precision(total) if total[1].any() else 0.0)
            numbers["PxAP"] = Number(average_precision(histograms.sum(axis=0)), *interval)
    return Row(name, numbers, values)


def _values(mapped: Mapped, area: float | None) -> Iterator[tuple[str, Floats]]:
    """Every measure that is a mean over photos, photo by photo."""
    masks, truths = mapped.masks, mapped.truths
    alpha = 1.0 if area is None else alpha_for_area(masks, area)
    errors = localization_errors(mapped)
    if not np.isnan(mapped.right).any():
        yield "OM", official_metric(errors, mapped.right.astype(bool))
    yield "LE", errors
    binary = binary_mask(masks, alpha)
    comparable = area is None or abs(float(binary.mean()) - area) <= TOLERANCE
    if area is not None and comparable:
        yield "LE at area", localization_errors(mapped, alpha)
    yield "F1", np.array([continuous_f1(mask, truth.boxes) for mask, truth in zip(masks, truths, strict=True)])
    if all(truth.mask is not None for truth in truths):
        pairs = zip(binary_mask(masks), (truth.mask for truth in truths), strict=True)
        yield "mask IoU", np.array([mask_iou(mask, truth) for mask, truth in pairs if truth is not None])
    yield "area", mean_mask(masks)
    yield "total variation", total_variation(masks)
    yield "mask entropy", mask_entropy(masks)
    if comparable and all(truth.parts is not None for truth in truths):
        parts = [truth.parts for truth in truths if truth.parts is not None]
        yield "binary area", mean_mask(binary.astype(np.float32))
        yield "evidence recall", np.array([evidence_recall(b, p) for b, p in zip(binary, parts, strict=True)])
        yield "evidence precision", np.array([evidence_precision(b, p) for b, p in zip(binary, parts, strict=True)])


def truth_of(photos: PhotoSet, index: int, shape: tuple[int, ...], size: int, policy: Policy) -> Annotation:
    """What is known of an annotated photo of this shape, at the size and by the policy of its pictures."""
    annotation = photos.annotation(index)
    assert annotation is not None  # only annotated photos come here
    if annotation.mask is not None and annotation.mask.shape != shape[:2]:
        raise UserError(f"The mask of {photos.names[index]} has another size than the photo.")
    return resize_annotation(annotation, shape[0], shape[1], size, policy)
