"""Train the decoder of a mapping on photos with corrected boxes or outlines, to improve its masks on all photos."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch

from casmap.data.batches import Batches
from casmap.data.folders import PhotoFolder
from casmap.data.photos import Annotation, PhotoSet, Subset
from casmap.data.resizing import resize
from casmap.data.sources import open_photos
from casmap.errors import UserError, option
from casmap.evaluation.evaluate import annotated_indices
from casmap.evaluation.localization import iou, mask_iou
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.io.lock import locked
from casmap.models.files import load_mapping, save_mapping
from casmap.models.onnx_training import load_trainable
from casmap.reporting import SILENT, Reporter, counted
from casmap.training.first_classifier import one_cycle
from casmap.training.second_stage import step_decoder

STEPS, BATCH, RATE, DECAY, SEED = 150, 8, 3e-4, 1e-4, 0
SMALLEST_CROP = 0.5
FILE = "mapping.safetensors"
ENOUGH = 5  # corrected photos that training needs at least
NEARLY_ALL = 0.9  # share of the photos: people seldom correct as many, but an export may contain them
LEAST_IN_BOX = 0.1  # mean of a mask in corrected boxes below which it is of no use there


Source = str | os.PathLike[str]


@dataclass(frozen=True)
class CorrectionResult:
    """The agreement of a mapping with the corrections, before and after training.

    before, after: `ious`, the IoU of each corrected photo, beside `names` and `classes`; `by_class()`, the number of
    photos and the mean IoU of each class. mapping: the new file. after and mapping are None if nothing was trained.
    """

    before: "Agreement"
    after: "Agreement | None" = None
    mapping: Path | None = None


def correct(
    data: Source, *, mapping: Source | None = None, boxes: Source | None = None, masks: Source | None = None,
    split: str | None = None, out: Source = "runs/corrected", steps: int = STEPS, reporter: Reporter = SILENT,
) -> CorrectionResult:  # fmt: skip
    """Measure a mapping on photos with corrected annotations, fine-tune its decoder on them, and measure again.

    data: photos in any supported layout. mapping: the file to train (default: the shipped mapping). boxes: corrected
    boxes or outlines, a file in any annotation format. masks: a folder of corrected masks. split: the split to use if
    data has several. out: the folder for the new mapping. steps: of training; 0 only measures. `after` is measured on
    the photos of the training: keep some corrections aside for how good the mapping is on other photos.
    """
    if steps < 0:
        raise UserError(f"{option('steps')} must be at least 0, not {steps}.")
    photos = open_photos(os.fspath(data), boxes=boxes, masks=masks, split=split)
    corrections = _corrections(photos, boxes, masks, reporter)
    if steps:  # before the photos are measured, which takes minutes
        _check(corrections, Path(out) / FILE)
    before = agreement(SaliencyMapper.load(mapping), photos)
    if not steps:
        return CorrectionResult(before)
    path = train_on_corrections(Path(mapping or SHIPPED), photos, out=Path(out), steps=steps, reporter=reporter)
    return CorrectionResult(before, agreement(SaliencyMapper.load(path), photos), path)


def _corrections(photos: PhotoSet, boxes: Source | None, masks: Source | None, reporter: Reporter) -> int:
    """The number of corrected photos; reports what of them is used."""
    try:
        found = annotated_indices(photos)
    except UserError as error:
        if boxes is None and masks is None:
            raise UserError(f"There is nothing to correct with: add {option('boxes')} or {option('masks')}.") from error
        raise
    if boxes is not None and masks is not None and isinstance(photos, PhotoFolder):
        many, only = photos.mask_files(), f"only {option('boxes')} is used"
        rest = f"a mask replaces what {option('boxes')} says of its photo" if many else only
        reporter.message(
            f"{counted(many, 'mask')} of {option('masks')} {'match' if many != 1 else 'matches'} a photo: {rest}."
        )
    if edited := sum(annotation.edited for index in found if (annotation := photos.annotation(index))):
        text = "do not match their outlines: the boxes are used"
        text = "does not match its outline: the box is used" if edited == 1 else text
        reporter.message(f"{counted(edited, 'box')} {text}.")
    if (boxes or masks) and len(found) >= NEARLY_ALL * len(photos):
        every = f"All {len(photos)}" if len(found) == len(photos) else f"{len(found)} of {len(photos)}"
        reporter.message(f"{every} photos count as corrected: keep only those that somebody reviewed.")
    return len(found)


class Corrected(Subset):
    """Photos with a correction; the mask is the fourth channel, so that crops and flips apply to both.

    mapper: its masks, inside the boxes, are those of photos that have boxes without outlines (default: filled boxes).
    """

    def __init__(self, photos: PhotoSet, mapper: SaliencyMapper | None = None) -> None:
        super().__init__(photos, np.array(annotated_indices(photos), np.int64))
        self.own: dict[int, npt.NDArray[np.float32]] = {}  # by index, at the mapping's size
        if mapper is not None:
            for index in range(len(self)):
                if self.correction(index).mask is None:
                    small = resize(super().image(index), mapper.size, "squash")
                    self.own[index] = mapper.masks(small[None])[0][0]

    def correction(self, index: int) -> Annotation:
        """What people corrected in photo number `index` of the corrected ones; the boxes alone, if they were edited."""
        annotation = self.annotation(index)
        assert annotation is not None
        return replace(annotation, mask=None) if annotation.edited else annotation

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Photo number `index` of the corrected ones with its mask: (H, W, 4), at the photo's own size."""
        image, annotation = super().image(index), self.correction(index)
        mask = annotation.mask
        if mask is None:
            own = self.own.get(index, np.zeros((1, 1), np.float32))
            mask = bounded_mask(np.asarray(cv2.resize(own, image.shape[1::-1]), np.float32), annotation.boxes)
        return np.dstack([image, mask])


def bounded_mask(mask: npt.NDArray[np.float32], boxes: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """A mask (H, W) from 0 to 1 with nothing outside the boxes, as 0..255; the boxes, if it is nearly empty in them.

    A box does not say which of its pixels are the object. So it only removes what lies outside: trained on filled
    boxes, masks would become rectangles.

    >>> bounded_mask(np.full((1, 4), 0.6, np.float32), np.array([[1, 0, 3, 1]]))
    array([[  0, 153, 153,   0]], dtype=uint8)
    """
    inside = np.zeros(mask.shape, np.float32)
    for x0, y0, x1, y1 in np.rint(boxes).astype(int):
        inside[max(0, y0) : y1, max(0, x0) : x1] = 1
    found = mask * inside
    if found.sum() < LEAST_IN_BOX * inside.sum():
        found = inside
    return np.asarray(np.rint(255 * found), np.uint8)


@dataclass(frozen=True)
class Agreement:
    """The IoU of the binary mask and the corrected mask of each photo; of both boxes, if only boxes were corrected."""

    names: list[str]
    classes: list[str]
    ious: npt.NDArray[np.float64]

    def by_class(self) -> dict[str, tuple[int, float]]:
        """Number of photos and mean IoU of each class, the worst class first."""
        classes = np.array(self.classes)
        found = {name: self.ious[classes == name] for name in dict.fromkeys(self.classes)}
        means = {name: (len(ious), float(ious.mean())) for name, ious in found.items()}
        return dict(sorted(means.items(), key=lambda item: item[1][1]))


def agreement(mapper: SaliencyMapper, photos: PhotoSet) -> Agreement:
    """Measure a mapping's masks against the corrections."""
    corrected, ious = Corrected(photos), []
    for index, chosen in enumerate(corrected.chosen):
        found, annotation = mapper(photos.image(int(chosen))), corrected.correction(index)
        if annotation.mask is not None:
            ious.append(mask_iou(found.binary(), annotation.mask))
        else:
            ious.append(0.0 if (box := found.box()) is None else float(iou(box, annotation.boxes).max()))
    classes = [corrected.classes[label] for label in corrected.labels]
    return Agreement(corrected.names, classes, np.array(ious))


def train_on_corrections(
    mapping: Path, photos: PhotoSet, *, out: Path, steps: int = STEPS, reporter: Reporter = SILENT
) -> Path:
    """Train the decoder of a mapping on corrected photos; the encoder stays unchanged. Returns the new file."""
    with locked(out, reporter):
        return _train(mapping, photos, out, steps, reporter)


def _check(corrections: int, path: Path) -> None:
    """An error if there are too few corrections to train on, or if the new file exists."""
    if path.exists():
        raise UserError(f"{path} exists already: choose another folder ({option('out')}).")
    if corrections < ENOUGH:
        raise UserError(f"Corrected photos: {corrections}. Training needs at least {ENOUGH}: correct more.")


def _train(mapping: Path, photos: PhotoSet, out: Path, steps: int, reporter: Reporter) -> Path:
    path = out / FILE
    _check(len(annotated_indices(photos)), path)
    network, about = load_trainable(mapping) if mapping.suffix == ".onnx" else load_mapping(mapping)
    corrected = Corrected(photos, SaliencyMapper(network, about["size"]))
    if corrected.own:
        reporter.message(
            f"Boxes without outlines: {len(corrected.own)} of {counted(len(corrected), 'correction')}. A box shows "
            "only what lies outside the object; an outline or a mask teaches more."
        )
    batches = Batches(
        corrected, about["size"], min(BATCH, len(corrected)), (*network.mean, 0.0), (*network.std, 1.0),
        seed=SEED, smallest_crop=SMALLEST_CROP,
    )  # fmt: skip
    # Batch norms keep the statistics of the mapping: a few photos are not enough to estimate them.
    network.eval().requires_grad_(False)
    network.decoder.requires_grad_(True)
    optimizer = torch.optim.AdamW(network.decoder.parameters(), RATE, weight_decay=DECAY)
    with reporter.progress("Training on the corrections", steps) as advance:
        for step, (batch, _) in enumerate(batches.between(0, steps)):
            optimizer.param_groups[0]["lr"] = RATE * one_cycle(step / steps)
            step_decoder(network, optimizer, batch[:, :3], batch[:, 3:].clamp(0, 1))
            advance()
    kept: dict[str, Any] = {key: about[key] for key in ("size", "recipe", "training", "stopped") if key in about}
    save_mapping(path, network, kept | {"corrected": {"photos": len(corrected), "steps": steps}})
    return path
