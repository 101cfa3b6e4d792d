"""Correct: a few photos whose outlines people have corrected teach the decoder; all others gain."""

import copy
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import binary_cross_entropy

from casmap.data.batches import Batches
from casmap.data.photos import PhotoSet, Subset
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.evaluation.evaluate import annotated
from casmap.evaluation.localization import mask_iou
from casmap.inference.mapper import SaliencyMapper
from casmap.models.files import load_mapping, save_mapping
from casmap.models.network import SaliencyNetwork
from casmap.reporting import SILENT, Reporter
from casmap.training.first_classifier import one_cycle

STEPS, BATCH, RATE, DECAY, SEED = 150, 8, 3e-4, 1e-4, 0
SMALLEST_CROP = 0.5
ENOUGH = 5  # corrected photos, below which nothing is learned


@dataclass(frozen=True)
class CorrectionResult:
    """How far a mapping agrees with people; where it was taught, the new file, and how far that one does."""

    before: "Agreement"
    after: "Agreement | None" = None
    mapping: Path | None = None


def correct(
    mapping: Path, data: str, *, boxes: Path | None = None, masks: Path | None = None, split: str | None = None,
    out: Path = Path("runs/corrected"), steps: int = STEPS, reporter: Reporter = SILENT,
) -> CorrectionResult:  # fmt: skip
    """Measure a mapping on corrected photos, train its decoder on them, and measure again; steps 0: only measure."""
    photos = open_photos(data, boxes=boxes, masks=masks, split=split)
    before = agreement(SaliencyMapper.load(mapping), photos)
    if not steps:
        return CorrectionResult(before)
    path = train_on_corrections(mapping, photos, out=out, steps=steps, reporter=reporter)
    return CorrectionResult(before, agreement(SaliencyMapper.load(path), photos), path)


class Corrected(Subset):
    """Photos with a correction; the fourth channel is what they say, so that a crop or a mirror moves both alike."""

    def __init__(self, photos: PhotoSet) -> None:
        super().__init__(photos, np.array(annotated(photos), np.int64))

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Photo number `index` of those corrected, and its mask: (H, W, 4), at the size at which people saw it."""
        picture = super().image(index)
        return np.dstack([picture, truth(self, index, picture.shape)])


def truth(photos: Corrected, index: int, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """The mask that was said to be right (H, W), 128 where nobody is sure: outlines, or boxes where there are none."""
    said = photos.annotation(index)
    assert said is not None
    if said.mask is not None:
        return said.mask
    filled = np.zeros(shape[:2], np.uint8)
    for x0, y0, x1, y1 in np.rint(said.boxes).astype(int):
        filled[max(0, y0) : y1, max(0, x0) : x1] = 255
    return filled


@dataclass(frozen=True)
class Agreement:
    """How far maps agree with people: IoU of the binary mask, photo by photo."""

    names: list[str]
    classes: list[str]
    overlaps: npt.NDArray[np.float64]

    def by_class(self) -> dict[str, tuple[int, float]]:
        """Photos and mean IoU of each class, the worst first."""
        found: dict[str, list[float]] = defaultdict(list)
        for name, overlap in zip(self.classes, self.overlaps, strict=True):
            found[name].append(float(overlap))
        means = {name: (len(values), float(np.mean(values))) for name, values in found.items()}
        return dict(sorted(means.items(), key=lambda item: item[1][1]))


def agreement(mapper: SaliencyMapper, photos: PhotoSet) -> Agreement:
    """Measure maps against what people said."""
    corrected, overlaps = Corrected(photos), []
    for index, chosen in enumerate(corrected.chosen):
        image = photos.image(int(chosen))
        overlaps.append(mask_iou(mapper(image).binary(), truth(corrected, index, image.shape)))
    classes = [corrected.classes[label] for label in corrected.labels]
    return Agreement(corrected.names, classes, np.array(overlaps))


def train_on_corrections(
    mapping: Path, photos: PhotoSet, *, out: Path, steps: int = STEPS, reporter: Reporter = SILENT
) -> Path:
    """Train the decoder of a mapping on corrected photos, from where it is; the encoder stays. Returns the new file."""
    if mapping.suffix == ".onnx":
        raise UserError(f"{mapping} cannot learn any more: name the .safetensors file that casmap train wrote.")
    path = out / "mapping.safetensors"
    if path.exists():
        raise UserError(f"{out} already holds a mapping: choose another --out.")
    network, about = load_mapping(mapping)
    corrected = Corrected(photos)
    if len(corrected) < ENOUGH:
        raise UserError(f"Only {len(corrected)} photos are corrected: correct {ENOUGH} or more.")
    batches = Batches(
        corrected, about["size"], min(BATCH, len(corrected)), (*network.mean, 0.0), (*network.std, 1.0),
        seed=SEED, smallest_crop=SMALLEST_CROP,
    )  # fmt: skip
    network.eval().requires_grad_(False)
    decoder = copy.deepcopy(network.decoder).requires_grad_(True)
    forward = network.encoder.forward_stages_with_cam if decoder.with_cam else network.encoder.forward_stages
    optimizer = torch.optim.AdamW(decoder.parameters(), RATE, weight_decay=DECAY)
    with reporter.progress("correcting", steps) as advance:
        for step, (pictures, _) in enumerate(batches.between(0, steps)):
            optimizer.param_groups[0]["lr"] = RATE * one_cycle(step / steps)
            images, masks = pictures[:, :3], pictures[:, 3:]
            with torch.no_grad():
                _, stages = forward(images)
            # Batch norms stay as the mapping learned them: a few photos tell little of their statistics.
            loss = binary_cross_entropy(decoder.eval()(stages, images.shape[-2:]), masks.clamp(0, 1))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            advance()
    learned = SaliencyNetwork(network.encoder, decoder.eval(), network.classes, network.predicts)
    kept: dict[str, Any] = {key: about[key] for key in ("size", "recipe", "training") if key in about}
    save_mapping(path, learned, kept | {"corrected": {"photos": len(corrected), "steps": steps}})
    return path
