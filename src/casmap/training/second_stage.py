"""The second stage: a decoder that also sees the classifier's belief learns to do in one pass what a teacher does.

The teacher: what Algorithm 1's masks and the label's class activation maps agree on, photo by photo.
t = sqrt(m(x) M_y(x)), each of the two and then their mean stretched to 0..1; a pixel counts from a cut on, softly.
The cut is chosen so that the pseudo-masks mark as much of the photos as Algorithm 1's do.

A mapping of Algorithm 1 marks whole objects, but much around small ones; a class activation map of a large picture,
told the label, knows where the object is, but marks its most telling part. They err on different photos:
docs/experiments.md. The teacher was told each photo's label; the mapping is not.
"""

import io
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy, interpolate, relu
from torch.optim import Optimizer

from casmap.data.batches import Batches, normalised, whole_photos
from casmap.data.photos import PhotoSet
from casmap.errors import UserError
from casmap.io.atomic import write_whole
from casmap.models.class_activation import class_activation, last_features, linear_head, min_max
from casmap.models.classifier import Classifier, place
from casmap.models.decoder import Decoder
from casmap.models.network import SaliencyNetwork
from casmap.training.checkpoints import Resumable, Row
from casmap.training.first_classifier import one_cycle
from casmap.training.recipes import Recipe
from casmap.training.run import Run

CHECKPOINT, MASKS = "taught-checkpoint", "teacher-masks"
GRID = 64  # a pseudo-mask has so many rows and columns, whatever the photo's shape
BATCH = 16  # photos that the networks see at a time
FILE = 256  # masks in a file: what a killed run loses at most
FLOOR = 0.05  # of each factor: where one of the two says nothing at all, the other still counts
CUT_ON = 256  # photos on which the cut is chosen
MEASURED = 40  # batches over which the masks' area is taken at the end


class PseudoMasks:
    """The pseudo-masks (64, 64) uint8 of photos wanted, (n,) numbers that rise, by these; on disk, not in memory."""

    def __init__(self, folder: Path, wanted: npt.NDArray[np.int64]) -> None:
        self.folder, self.wanted = folder, wanted
        self._files: list[npt.NDArray[np.uint8]] = []

    def __getitem__(self, photo: int) -> npt.NDArray[np.uint8]:
        file, place = divmod(int(np.searchsorted(self.wanted, photo)), FILE)
        mask: npt.NDArray[np.uint8] = self._files[file][place]
        return mask

    def make(self, photos: PhotoSet, network: SaliencyNetwork, recipe: Recipe, run: Run) -> "PseudoMasks":
        """Make the masks of whole photos, or of a resumed run those that are not there yet."""
        agreed = partial(_agreed, photos=photos, network=network, recipe=recipe, device=run.device)
        starts = range(0, len(self.wanted), FILE)
        with run.reporter.progress("The teacher's masks", len(starts), lasting=True) as advance:
            cut: float | None = None
            for start in starts:
                path = self.folder / f"{start // FILE:06}.npy"
                if not (run.resumed and path.exists()):
                    if cut is None:
                        sample, areas = agreed(self.wanted[:: math.ceil(len(self.wanted) / CUT_ON)])
                        cut = fitting_cut(sample, float(areas.mean()))
                    masks = cut_out(agreed(self.wanted[start : start + FILE])[0], cut)
                    content = io.BytesIO()
                    np.save(content, (255 * masks).round().byte().cpu().numpy())
                    write_whole(path, content.getvalue())
                try:
                    self._files.append(np.load(path, mmap_mode="r"))
                except (OSError, ValueError) as error:
                    raise UserError(f"{path} is damaged; without it, its masks are made anew.") from error
                advance(note="" if cut is None else f"cut at {cut:.2f}")
        return self


def _agreed(
    chosen: npt.NDArray[np.int64], photos: PhotoSet, network: SaliencyNetwork, recipe: Recipe, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Agreements (n, 64, 64) on the photos chosen and the areas (n,) of Algorithm 1's masks."""
    agreements, areas = [], []
    with torch.no_grad():
        for labels, pictures in whole_photos(photos, chosen, (recipe.algorithm_side, recipe.cam_size), BATCH):
            small, large = (normalised(squares, network.mean, network.std).to(device) for squares in pictures)
            masks = network(small)[0]
            activations = class_activation(network.encoder, large, labels.to(device))[:, None]
            agreements.append(agreement(masks, activations))
            areas.append(masks.mean(dim=(1, 2, 3)))
    return torch.cat(agreements), torch.cat(areas)


def agreement(mask: Tensor, activation: Tensor) -> Tensor:
    """Masks (N, 1, H, W) in 0..1 and class activation maps (N, 1, h, w) -> agreements (N, 64, 64), stretched to 0..1.

    >>> half = torch.tensor([[[[0.0, 1.0]]]])
    >>> agreement(half, 3 * half)[0, 0, [0, -1]]
    tensor([0., 1.])
    """
    m = interpolate(mask, (GRID, GRID), mode="bilinear", antialias=True)
    cam = relu(interpolate(activation, (GRID, GRID), mode="bilinear"))
    both = ((min_max(m) + FLOOR) * (min_max(cam) + FLOOR)).sqrt()
    return min_max(both)[:, 0]


def cut_out(agreed: Tensor, cut: float) -> Tensor:
    """Taught masks, of the same shape: half at the cut, all from one and a half times the cut on.

    >>> cut_out(torch.tensor([0.1, 0.2, 0.3, 0.9]), 0.2)
    tensor([0.0000, 0.5000, 1.0000, 1.0000])
    """
    return (agreed / cut - 0.5).clamp(0, 1)


def fitting_cut(agreed: Tensor, area: float) -> float:
    """The cut at which the pseudo-masks have this area in the mean, as near as 0.01 to 1 allow.

    >>> round(fitting_cut(torch.linspace(0, 1, 1001), 0.7), 3)
    0.3
    """
    low, high = 0.01, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if float(cut_out(agreed, middle).mean()) > area else (low, middle)
    return (low + high) / 2


class PhotosWithMasks(PhotoSet):
    """Photos whose fourth channel is the pseudo-mask, so that a crop, a resize or a mirror moves both alike."""

    def __init__(self, photos: PhotoSet, masks: PseudoMasks) -> None:
        self.photos, self.masks = photos, masks
        self.classes, self.names, self.labels = photos.classes, photos.names, photos.labels
        self.shards = getattr(photos, "shards", None)

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Photo number `index` and its mask: (H, W, 4)."""
        picture = self.photos.image(index, least)
        mask = cv2.resize(self.masks[index], picture.shape[1::-1], interpolation=cv2.INTER_LINEAR)
        return np.dstack([picture, mask])


def train_second_stage(
    network: SaliencyNetwork, photos: PhotoSet, recipe: Recipe, run: Run
) -> tuple[SaliencyNetwork, float]:
    """The taught mapping, on the same encoder, and the mean area of its masks over training photos.

    AdamW, a warm-up and a cosine. The encoder stays as it is.
    """
    place(network, run.device).eval().requires_grad_(False)
    steps = recipe.second_stage_steps
    drawn, plain = np.zeros(len(photos), bool), _batches(network, photos, recipe)
    for step in range(steps):
        drawn[plain.indices(step)] = True
    masks = PseudoMasks(run.folder / MASKS, np.flatnonzero(drawn))
    batches = _batches(network, PhotosWithMasks(photos, masks.make(photos, network, recipe, run)), recipe)
    torch.manual_seed(recipe.seed)
    decoder = place(Decoder(network.encoder.stage_channels, with_cam=True), run.device)
    optimizer = torch.optim.AdamW(decoder.parameters(), recipe.second_stage_lr, weight_decay=recipe.mapping_decay)
    training = Resumable(run, CHECKPOINT, "taught-log", steps, decoder=decoder, optimizer=optimizer)

    def learn() -> Iterator[Row]:
        for step, (pictures, _) in enumerate(batches.between(training.start, steps, run.device), training.start):
            for group in optimizer.param_groups:
                group["lr"] = recipe.second_stage_lr * one_cycle(step / steps)
            yield {"loss": step_second_stage(network.encoder, decoder, optimizer, pictures[:, :3], pictures[:, 3:])}

    training.follow("The second stage", batches, learn(), note=lambda row: f"loss {row['loss']:.3f}")
    taught = SaliencyNetwork(network.encoder, decoder.eval(), network.classes, network.predicts)
    with torch.no_grad():
        seen = batches.between(0, min(MEASURED, steps), run.device)
        areas = [float(taught(pictures[:, :3])[0].mean()) for pictures, _ in seen]
    return taught, sum(areas) / len(areas)


def step_second_stage(
    encoder: Classifier, decoder: Decoder, optimizer: Optimizer, images: Tensor, masks: Tensor
) -> float:
    """One step on the cross-entropy between the decoder's masks and the taught ones (N, 1, H, W); returns it."""
    with torch.no_grad():
        _, stages = encoder.forward_stages_with_cam(images)
    loss = binary_cross_entropy(decoder.train()(stages, images.shape[-2:]), masks)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return float(loss.detach())


def _batches(network: SaliencyNetwork, photos: PhotoSet, recipe: Recipe) -> Batches:
    """Crops with a fourth channel, which stays from 0 to 1."""
    return Batches(
        photos, recipe.size, recipe.batch, (*network.mean, 0.0), (*network.std, 1.0),
        seed=recipe.seed + 2, smallest_crop=recipe.smallest_crop, flip=recipe.flip,
    )  # fmt: skip


def check_has_cam(backbone: str) -> None:
    """Say before anything is trained that a backbone has no class activation maps, as the second stage needs them.

    The head is asked with random weights: one with a norm in it would be as good as linear on those it begins with.
    """
    classifier = Classifier(backbone, 2).eval()
    chance = torch.Generator().manual_seed(0)
    with torch.no_grad():
        try:
            features, _ = last_features(classifier, torch.zeros(1, 3, classifier.side, classifier.side))
            features = torch.rand(features.shape, generator=chance)
            for tensor in classifier.state_dict().values():
                if tensor.is_floating_point():
                    tensor.add_(0.1 * torch.rand(tensor.shape, generator=chance))  # a variance stays above 0
            linear_head(classifier, features, classifier.network.forward_head(features))
        except UserError as error:
            raise UserError(f"{error} Say --second-stage-steps 0 to do without the second stage.") from error


def has_cam(backbone: str) -> bool:
    """Whether a backbone can be taught.

    >>> has_cam("test_resnet"), has_cam("test_vit"), has_cam("test_convnext")
    (True, False, False)
    """
    try:
        check_has_cam(backbone)
    except UserError:
        return False
    return True
