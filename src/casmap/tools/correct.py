"""Train the decoder of a mapping on photos with corrected boxes or outlines, to improve its masks on all photos."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from casmap.data.batches import Batches
from casmap.data.photos import PhotoSet, Subset
from casmap.data.sources import open_photos
from casmap.errors import UserError, option
from casmap.evaluation.evaluate import annotated_indices
from casmap.evaluation.localization import mask_iou
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.io.lock import locked
from casmap.models.files import load_mapping, save_mapping
from casmap.models.onnx_training import load_trainable
from casmap.reporting import SILENT, Reporter
from casmap.training.first_classifier import one_cycle
from casmap.training.second_stage import step_decoder

STEPS, BATCH, RATE, DECAY, SEED = 150, 8, 3e-4, 1e-4, 0
SMALLEST_CROP = 0.5
ENOUGH = 5  # corrected photos that training needs at least


@dataclass(frozen=True)
class CorrectionResult:
    """The agreement of a mapping with the corrections; after training also the new file and its agreement."""

    before: "Agreement"
    after: "Agreement | None" = None
    mapping: Path | None = None


def correct(
    data: str | os.PathLike[str], *, mapping: str | os.PathLike[str] | None = None, boxes: Path | None = None,
    masks: Path | None = None, split: str | None = None, out: Path = Path("runs/corrected"), steps: int = STEPS,
    reporter: Reporter = SILENT,
) -> CorrectionResult:  # fmt: skip
    """Measure a mapping on corrected photos, train its decoder on them, and measure again.

    mapping: a mapping file (default: the shipped mapping). steps: 0 only measures.
    """
    photos = open_photos(os.fspath(data), boxes=boxes, masks=masks, split=split)
    before = agreement(SaliencyMapper.load(mapping), photos)
    if not steps:
        return CorrectionResult(before)
    path = train_on_corrections(Path(mapping or SHIPPED), photos, out=out, steps=steps, reporter=reporter)
    return CorrectionResult(before, agreement(SaliencyMapper.load(path), photos), path)


class Corrected(Subset):
    """Photos with a correction; the mask is the fourth channel, so that crops and flips apply to both."""

    def __init__(self, photos: PhotoSet) -> None:
        super().__init__(photos, np.array(annotated_indices(photos), np.int64))

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Photo number `index` of the corrected ones with its mask: (H, W, 4), at the photo's own size."""
        image = super().image(index)
        return np.dstack([image, corrected_mask(self, index, image.shape)])


def corrected_mask(photos: Corrected, index: int, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """The corrected mask (H, W), 128 where it is uncertain: from outlines, or from boxes without outlines."""
    annotation = photos.annotation(index)
    assert annotation is not None
    if annotation.mask is not None:
        return annotation.mask
    filled = np.zeros(shape[:2], np.uint8)
    for x0, y0, x1, y1 in np.rint(annotation.boxes).astype(int):
        filled[max(0, y0) : y1, max(0, x0) : x1] = 255
    return filled


@dataclass(frozen=True)
class Agreement:
    """The IoU of the binary mask and the corrected mask of each photo."""

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
        image = photos.image(int(chosen))
        ious.append(mask_iou(mapper(image).binary(), corrected_mask(corrected, index, image.shape)))
    classes = [corrected.classes[label] for label in corrected.labels]
    return Agreement(corrected.names, classes, np.array(ious))


def train_on_corrections(
    mapping: Path, photos: PhotoSet, *, out: Path, steps: int = STEPS, reporter: Reporter = SILENT
) -> Path:
    """Train the decoder of a mapping on corrected photos; the encoder stays unchanged. Returns the new file."""
    with locked(out, reporter):
        return _train(mapping, photos, out, steps, reporter)


def _train(mapping: Path, photos: PhotoSet, out: Path, steps: int, reporter: Reporter) -> Path:
    path = out / "mapping.safetensors"
    if path.exists():
        raise UserError(f"{path} exists already: choose another folder ({option('out')}).")
    network, about = load_trainable(mapping) if mapping.suffix == ".onnx" else load_mapping(mapping)
    corrected = Corrected(photos)
    if len(corrected) < ENOUGH:
        raise UserError(f"Only {len(corrected)} photos have a correction: correct at least {ENOUGH}.")
    batches = Batches(
        corrected, about["size"], min(BATCH, len(corrected)), (*network.mean, 0.0), (*network.std, 1.0),
        seed=SEED, smallest_crop=SMALLEST_CROP,
    )  # fmt: skip
    # Batch norms keep the statistics of the mapping: a few photos are not enough to estimate them.
    network.eval().requires_grad_(False)
    network.decoder.requires_grad_(True)
    optimizer = torch.optim.AdamW(network.decoder.parameters(), RATE, weight_decay=DECAY)
    with reporter.progress("correcting", steps) as advance:
        for step, (batch, _) in enumerate(batches.between(0, steps)):
            optimizer.param_groups[0]["lr"] = RATE * one_cycle(step / steps)
            step_decoder(network, optimizer, batch[:, :3], batch[:, 3:].clamp(0, 1))
            advance()
    kept: dict[str, Any] = {key: about[key] for key in ("size", "recipe", "training") if key in about}
    save_mapping(path, network, kept | {"corrected": {"photos": len(corrected), "steps": steps}})
    return path
