"""Measure systems on annotated photos: one row for each system, every number with its interval."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from casmap.data.photos import Annotation, PhotoSet
from casmap.data.resizing import Policy, resize, resize_annotation
from casmap.data.validate import annotation_warnings
from casmap.errors import UserError, option
from casmap.evaluation.box_fit import best_ious, by_rule, fit_values, rules_of
from casmap.evaluation.by_size import SizeGroup, group_by_size, object_share
from casmap.evaluation.evidence import alpha_for_area, evidence_precision, evidence_recall
from casmap.evaluation.localization import center_mask, continuous_f1, localization_error, mask_iou, official_metric
from casmap.evaluation.mask_statistics import mask_entropy, mean_mask, spread, total_variation
from casmap.evaluation.numbers import Number as Number
from casmap.evaluation.numbers import bootstrap_statistic, mean_of
from casmap.evaluation.wsol_metrics import is_tuning
from casmap.inference.components import PAPER, Threshold, largest_box, tight_box

Floats = npt.NDArray[np.floating]
Errors = npt.NDArray[np.float64]
BATCH = 32
ALPHAS = tuple(round(0.1 * step, 1) for step in range(1, 31))
TOLERANCE = 0.03  # masks whose mean area is further than this from the requested one are not compared at equal area


class System(Protocol):
    """Anything that turns images into masks: a mapping, a baseline, a fixed box."""

    def __call__(self, images: npt.NDArray[np.uint8]) -> tuple[Floats, npt.NDArray[np.int64] | None]:
        """Images (N, S, S, 3) -> masks (N, S, S) and class indices (N,), or None if it predicts no class."""


@dataclass(frozen=True)
class Row:
    """The numbers of one system, and its values for each photo, for paired comparisons.

    by_size: LE of the photos with small, medium and large objects (`casmap.evaluation.by_size.SIZES`).
    """

    name: str
    numbers: dict[str, Number]
    values: dict[str, Floats] = field(repr=False)
    by_size: dict[str, SizeGroup] = field(default_factory=dict, repr=False)


def center_system(images: npt.NDArray[np.uint8]) -> tuple[Floats, None]:
    """The centre box: a box in the middle that covers half of the image, whatever the image shows."""
    return np.broadcast_to(center_mask(*images.shape[1:3]), images.shape[:3]).astype(np.float32), None


def whole_system(images: npt.NDArray[np.uint8]) -> tuple[Floats, None]:
    """The whole photo: a mask of ones."""
    return np.ones(images.shape[:3], np.float32), None


FIXED: dict[str, System] = {"centre box": center_system, "whole photo": whole_system}  # the same for every photo


def annotated_indices(photos: PhotoSet) -> list[int]:
    """The indices of the photos that have a box or a mask; an error if there is none."""
    found = [index for index in range(len(photos)) if photos.annotation(index) is not None]
    if not found:
        if sources := getattr(photos, "sources", ()):  # of a folder: annotations and masks that were given
            why = annotation_warnings(photos) or ["Compare the file names with casmap data check."]
            raise UserError(
                f"No photo has a box or a mask in what was given ({', '.join(sources)}), so there is nothing to "
                f"evaluate against. {' '.join(why)}"
            )
        raise UserError(
            "None of these photos has a box or a mask, so there is nothing to evaluate against: add "
            f"{option('boxes')} or {option('masks')}."
        )
    return found


@dataclass(frozen=True)
class Predictions:
    """The masks of a system for every annotated photo, with the ground truth at the same size."""

    names: list[str]
    masks: Floats  # (N, S, S)
    class_correct: Floats  # (N,) 1 where the predicted class is correct, 0 where it is not, nan without a prediction
    truths: list[Annotation]
    threshold: Threshold = PAPER  # of the binary masks


def map_photos(
    system: System, photos: PhotoSet, size: int, policy: Policy, progress: Callable[[], None] = lambda: None,
    threshold: Threshold = PAPER,
) -> Predictions:  # fmt: skip
    """Run a system on all annotated photos, resized to (size, size) by one of the supplement's two policies."""
    indices = annotated_indices(photos)
    all_masks, class_correct, truths = [], [], []
    for at in range(0, len(indices), BATCH):
        batch = indices[at : at + BATCH]
        images = [photos.image(index) for index in batch]
        masks, classes = system(np.stack([resize(image, size, policy) for image in images]))
        all_masks.append(masks)
        class_correct.append(np.full(len(batch), np.nan) if classes is None else classes == photos.labels[batch])
        for index, image in zip(batch, images, strict=True):
            truths.append(resized_truth(photos, index, image.shape, size, policy))
            progress()
    names = [photos.names[index] for index in indices]
    return Predictions(names, np.concatenate(all_masks), np.concatenate(class_correct), truths, threshold)


def localization_errors(predictions: Predictions, alpha: float | None = None, all_components: bool = False) -> Errors:
    """LE of each photo: 1 if the box of the binary mask misses the object, 0 if it hits.

    alpha: instead of the threshold of the predictions. The box encloses the largest component, as in the paper, or
    (all_components) the whole binary mask.
    """
    box = tight_box if all_components else largest_box
    threshold = predictions.threshold if alpha is None else Threshold(alpha)
    boxes = [box(threshold.binary(mask)) for mask in predictions.masks]
    return localization_error(boxes, [truth.boxes for truth in predictions.truths])


def own_alpha_errors(
    predictions: Predictions, alphas: tuple[float, ...] = ALPHAS, all_components: bool = False
) -> tuple[Errors, tuple[float, float]]:
    """LE of each photo at the system's own best alpha, chosen on the other half of the photos; and both alphas.

    The photo's name decides its half. The alpha with the fewest errors on one half (the smallest in a tie) is used on
    the other half. If all photos fall into one half, alpha is 1.
    """
    half = np.array([is_tuning(name, 0.5) for name in predictions.names])
    if half.all() or not half.any():
        return localization_errors(predictions, all_components=all_components), (1.0, 1.0)
    with ThreadPoolExecutor() as pool:  # OpenCV releases the GIL while it finds the components
        each = pool.map(lambda alpha: localization_errors(predictions, alpha, all_components), alphas)
        errors = np.array(list(each))
    best = [int(errors[:, ~part].mean(axis=1).argmin()) for part in (half, ~half)]
    return np.where(half, errors[best[0]], errors[best[1]]), (alphas[best[0]], alphas[best[1]])


def measure_masks(name: str, predictions: Predictions, area: float | None = None) -> Row:
    """Compute all measures of a system's masks.

    area: measure evidence, and LE a second time, at this mean area of the binary masks, with one alpha for all photos.
    A system whose masks cannot reach the area (a fixed box) has no such numbers.
    """
    values = dict(_values(predictions, area))
    numbers = {key: mean_of(value) for key, value in values.items()}
    numbers["spread"] = Number(spread(values["area"]), *bootstrap_statistic(values["area"], spread))
    shares = [object_share(truth.boxes, predictions.masks.shape[-1]) for truth in predictions.truths]
    rules = rules_of(predictions.threshold)
    errors = {key: values[key] for key in (by_rule("LE", rule, rules) for rule in rules)}
    return Row(name, numbers, values, group_by_size(shares, errors))


def _values(predictions: Predictions, area: float | None) -> Iterator[tuple[str, Floats]]:
    """Every measure that is a mean over photos, as its values for each photo."""
    masks, truths = predictions.masks, predictions.truths
    at_area = predictions.threshold if area is None else Threshold(alpha_for_area(masks, area))
    fits = dict(_fits(predictions))
    if not np.isnan(predictions.class_correct).any():
        yield "OM", official_metric(fits["LE"], predictions.class_correct.astype(bool))
    yield from fits.items()
    binary = at_area.binary(masks)
    comparable = area is None or abs(float(binary.mean()) - area) <= TOLERANCE
    if area is not None and comparable:
        yield "LE at area", localization_errors(predictions, at_area.alpha)
    yield "F1", np.array([continuous_f1(mask, truth.boxes) for mask, truth in zip(masks, truths, strict=True)])
    yield "area", mean_mask(masks)
    yield "total variation", total_variation(masks)
    yield "mask entropy", mask_entropy(masks)
    if comparable and all(truth.parts is not None for truth in truths):
        parts = [truth.parts for truth in truths if truth.parts is not None]
        yield "binary area", mean_mask(binary.astype(np.float32))
        yield "evidence recall", np.array([evidence_recall(b, p) for b, p in zip(binary, parts, strict=True)])
        yield "evidence precision", np.array([evidence_precision(b, p) for b, p in zip(binary, parts, strict=True)])


def _fits(predictions: Predictions) -> Iterator[tuple[str, Errors]]:
    """How well boxes and binary masks fit, by each rule that goes with the threshold of the predictions."""
    rules = rules_of(predictions.threshold)
    boxes, truths = [truth.boxes for truth in predictions.truths], [truth.mask for truth in predictions.truths]
    for rule, threshold in rules.items():
        binary = threshold.binary(predictions.masks)
        for key, values in fit_values(best_ious(binary, boxes)):
            yield by_rule(key, rule, rules), values
        if all(truth is not None for truth in truths):
            pairs = zip(binary, truths, strict=True)
            ious = np.array([mask_iou(b, truth) for b, truth in pairs if truth is not None])
            yield by_rule("mask IoU", rule, rules), ious


def resized_truth(photos: PhotoSet, index: int, shape: tuple[int, ...], size: int, policy: Policy) -> Annotation:
    """The annotation of a photo of this shape, moved to where the policy moves the photo's pixels."""
    annotation = photos.annotation(index)
    assert annotation is not None  # callers pass annotated photos only
    if annotation.mask is not None and annotation.mask.shape != shape[:2]:
        height, width = annotation.mask.shape
        raise UserError(
            f"The mask of {photos.names[index]} has {width} x {height} pixels, the photo {shape[1]} x {shape[0]}: "
            "give a mask of the photo's size."
        )
    return resize_annotation(annotation, shape[0], shape[1], size, policy)
