"""The second stage, a deviation from the paper: train a decoder that also sees a class activation map on pseudo-masks.

A pseudo-mask combines the mask of Algorithm 1 with the class activation map (CAM) of the photo's label:
t = sqrt(m(x) M_y(x)), where both factors and then t are rescaled to 0..1. A soft threshold, the cut, turns t into the
pseudo-mask; it is chosen so that pseudo-masks have the same mean area as the masks of Algorithm 1.

A mapping of Algorithm 1 marks whole objects, but also much around small ones. The CAM of a large image, computed for
the true label, locates the object but marks only its most discriminative part. The two fail on different photos:
docs/experiments.md. Pseudo-masks use each photo's label; the trained mapping does not need it.

A large image shows the parts of a large object, a small one the whole: with cam_scales > 1, M_y is the mean over sizes.
With second_stage_rounds > 1 the stage repeats, self-training: the mask of the decoder just trained replaces m(x). With
masks_from, the masks of another mapping replace those of Algorithm 1.
"""

import io
import math
from collections.abc import Iterable, Iterator, Sequence
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
from casmap.errors import UserError, option
from casmap.inference.mapper import SaliencyMapper
from casmap.io.atomic import write_whole
from casmap.io.reading import reading
from casmap.models.class_activation import class_activation, last_features, linear_head, min_max
from casmap.models.classifier import Classifier, to_device
from casmap.models.decoder import Decoder
from casmap.models.network import SaliencyNetwork
from casmap.training.checkpoints import Resumable, Row
from casmap.training.first_classifier import one_cycle
from casmap.training.recipes import Recipe
from casmap.training.run import Run
from casmap.training.score import mask_out

Indices = npt.NDArray[np.int64]

# The names of files and folders are those of 0.1.0, so that its runs can be resumed.
CHECKPOINT, LOG, MASKS = "taught-checkpoint", "taught-log", "teacher-masks"
GRID = 64  # rows and columns of a pseudo-mask, whatever the photo's shape
BATCH = 16  # photos in a forward pass
FILE = 256  # masks in a file; a killed run loses at most this many
FLOOR = 0.05  # added to each factor, so that a factor of 0 does not hide the other
CUT_PHOTOS = 256  # photos on which the cut is chosen
AREA_BATCHES = 40  # batches over which the final mask area is computed
SIZE_MULTIPLE = 32  # the sides of images for CAMs are multiples of the stride of the last features


class PseudoMasks:
    """The pseudo-masks (64, 64) uint8 of some photos, in files that are memory-mapped.

    wanted: the indices of the photos (n,), ascending. Index with the index of a photo.
    """

    def __init__(self, folder: Path, wanted: Indices) -> None:
        self.folder, self.wanted = folder, wanted
        self._files: list[npt.NDArray[np.uint8]] = []

    def __getitem__(self, photo: int) -> npt.NDArray[np.uint8]:
        file, row = divmod(int(np.searchsorted(self.wanted, photo)), FILE)
        mask: npt.NDArray[np.uint8] = self._files[file][row]
        return mask

    def make(self, photos: PhotoSet, encoder: Classifier, teacher: SaliencyMapper, run: Run) -> "PseudoMasks":
        """Make the masks of whole photos; a resumed run makes only the files that are missing."""
        agreements_of = partial(_agreements, photos=photos, encoder=encoder, teacher=teacher, run=run)
        starts = range(0, len(self.wanted), FILE)
        with run.reporter.progress("Making pseudo-masks", len(starts), lasting=True) as advance:
            cut: float | None = None
            for start in starts:
                path = self.folder / f"{start // FILE:06}.npy"
                if not (run.resumed and path.exists()):
                    if cut is None:
                        sample, areas = agreements_of(self.wanted[:: math.ceil(len(self.wanted) / CUT_PHOTOS)])
                        cut = _cut_for_area(sample, float(areas.mean()))
                    masks = _apply_cut(agreements_of(self.wanted[start : start + FILE])[0], cut)
                    content = io.BytesIO()
                    np.save(content, (255 * masks).round().byte().cpu().numpy())
                    write_whole(path, content.getvalue())
                with reading(path, f"{path} is damaged: delete it, and its masks are made again."):
                    masks = np.load(path, mmap_mode="r")
                    if masks.dtype != np.uint8 or masks.shape != (len(self.wanted[start : start + FILE]), GRID, GRID):
                        raise ValueError("other masks")
                self._files.append(masks)
                advance(note="" if cut is None else f"cut {cut:.2f}")
        return self


def _agreements(
    chosen: Indices, photos: PhotoSet, encoder: Classifier, teacher: SaliencyMapper, run: Run
) -> tuple[Tensor, Tensor]:
    """The agreements (n, 64, 64) of the chosen photos and the areas (n,) of the teacher's masks."""
    agreements, areas, sizes = [], [], (teacher.size, *cam_sizes(run.recipe))
    with torch.no_grad():
        for labels, (small, *others) in whole_photos(photos, chosen, sizes, BATCH):
            masks = torch.from_numpy(teacher.masks(small)[0])[:, None].to(run.device)
            images = (normalised(each, encoder.mean, encoder.std).to(run.device) for each in others)
            cams = [class_activation(encoder, each, labels.to(run.device))[:, None] for each in images]
            agreements.append(agreement(masks, cams))
            areas.append(masks.mean(dim=(1, 2, 3)))
    return torch.cat(agreements), torch.cat(areas)


def cam_sizes(recipe: Recipe) -> list[int]:
    """The sides of the images for the CAMs: cam_size, and each next one smaller by the square root of two.

    >>> cam_sizes(Recipe(cam_size=448, cam_scales=3))
    [448, 320, 224]
    """
    smaller = (recipe.cam_size / math.sqrt(2) ** number for number in range(1, recipe.cam_scales))
    return [recipe.cam_size, *(max(1, round(side / SIZE_MULTIPLE)) * SIZE_MULTIPLE for side in smaller)]


def agreement(mask: Tensor, cams: Sequence[Tensor]) -> Tensor:
    """Compute t = sqrt(m M): masks (N, 1, H, W) in 0..1, CAMs (N, 1, h_i, w_i) of several sizes -> t (N, 64, 64).

    M is the mean of the CAMs, each without its negative values and rescaled to 0..1.

    >>> half = torch.tensor([[[[0.0, 1.0]]]])
    >>> agreement(half, [3 * half])[0, 0, [0, -1]]
    tensor([0., 1.])
    """
    m = interpolate(mask, (GRID, GRID), mode="bilinear", antialias=True)
    cam = torch.stack([min_max(relu(interpolate(each, (GRID, GRID), mode="bilinear"))) for each in cams]).mean(dim=0)
    product = ((min_max(m) + FLOOR) * (cam + FLOOR)).sqrt()
    return min_max(product)[:, 0]


def _apply_cut(agreements: Tensor, cut: float) -> Tensor:
    """Pseudo-masks of the same shape: 0 below cut / 2, 0.5 at the cut, 1 from 1.5 * cut on, linear in between."""
    return (agreements / cut - 0.5).clamp(0, 1)


def _cut_for_area(agreements: Tensor, area: float) -> float:
    """The cut in 0.01..1 at which the mean area of the pseudo-masks is closest to `area`, by bisection."""
    low, high = 0.01, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if float(_apply_cut(agreements, middle).mean()) > area else (low, middle)
    return (low + high) / 2


class PhotosWithMasks(PhotoSet):
    """Photos with the pseudo-mask as fourth channel, so that a crop, a resize or a flip changes both alike."""

    def __init__(self, photos: PhotoSet, masks: PseudoMasks) -> None:
        self.photos, self.masks = photos, masks
        self.classes, self.names, self.labels = photos.classes, photos.names, photos.labels
        self.shards = getattr(photos, "shards", None)

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Photo number `index` and its mask: (H, W, 4)."""
        image = self.photos.image(index, least)
        mask = cv2.resize(self.masks[index], image.shape[1::-1], interpolation=cv2.INTER_LINEAR)
        return np.dstack([image, mask])


def train_second_stage(
    network: SaliencyNetwork, teacher: SaliencyMapper, photos: PhotoSet, run: Run, number: int = 1
) -> tuple[SaliencyNetwork, dict[str, float]]:
    """Train a new decoder on the network's fixed encoder: AdamW, a warm-up and a cosine decay.

    teacher: gives the masks m(x) for the pseudo-masks. number: of the round, from 1.
    Returns the mapping, and its mean mask area and accuracies over training crops.
    """
    to_device(network, run.device).eval().requires_grad_(False)
    recipe, steps, suffix = run.recipe, run.recipe.second_stage_steps, suffix_of(number)
    seed = recipe.seed + 1 + number
    used, without_masks = np.zeros(len(photos), bool), _batches(network, photos, recipe, seed)
    for step in range(steps):
        used[without_masks.indices(step)] = True
    masks = PseudoMasks(run.folder / (MASKS + suffix), np.flatnonzero(used)).make(photos, network.encoder, teacher, run)
    batches = _batches(network, PhotosWithMasks(photos, masks), recipe, seed)
    torch.manual_seed(recipe.seed)
    decoder = to_device(Decoder(network.encoder.stage_channels, with_cam=True), run.device).train()
    trained = SaliencyNetwork(network.encoder, decoder, network.classes, network.predicts)
    optimizer = torch.optim.AdamW(decoder.parameters(), recipe.second_stage_lr, weight_decay=recipe.mapping_decay)
    stage = Resumable(
        run, CHECKPOINT + suffix, LOG + suffix, steps, option("second_stage_lr"), decoder=decoder, optimizer=optimizer
    )

    def take_steps() -> Iterator[Row]:
        for step, (images, _) in enumerate(batches.between(stage.start, steps, run.device), stage.start):
            for group in optimizer.param_groups:
                group["lr"] = recipe.second_stage_lr * one_cycle(step / steps)
            yield {"loss": step_decoder(trained, optimizer, images[:, :3], images[:, 3:])}

    stage.run_steps(f"Second stage{suffix}", batches, take_steps(), lambda row: f"loss {row['loss']:.3f}")
    decoder.eval()
    return trained, _measure(trained, batches.between(0, min(AREA_BATCHES, steps), run.device))


def _measure(network: SaliencyNetwork, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Mean mask area, and the accuracy of the encoder on clean and on masked-out images (N, 4, H, W)."""
    rows = []
    with torch.no_grad():
        for images, labels in batches:
            masks, logits = network(images[:, :3])
            masked = network.encoder(mask_out(images[:, :3], masks))
            right = [(each.argmax(dim=1) == labels).float().mean() for each in (logits, masked)]
            rows.append(torch.stack([masks.mean(), *right]))
    means = torch.stack(rows).mean(dim=0).tolist()
    return dict(zip(("area", "accuracy", "masked_accuracy"), means, strict=True))


def suffix_of(number: int) -> str:
    """What the names of a round's files end with: nothing for the first round, as in 0.1.0.

    >>> suffix_of(1), suffix_of(2)
    ('', '-2')
    """
    return "" if number == 1 else f"-{number}"


def step_decoder(network: SaliencyNetwork, optimizer: Optimizer, images: Tensor, masks: Tensor) -> float:
    """Take one step on the cross-entropy between the decoder's masks and the given ones (N, 1, H, W); returns it."""
    with torch.no_grad():
        _, stages = network.encode(images)
    loss = binary_cross_entropy(network.decoder(stages, images.shape[-2:]), masks)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return float(loss.detach())


def _batches(network: SaliencyNetwork, photos: PhotoSet, recipe: Recipe, seed: int) -> Batches:
    """Random crops; a fourth channel is not normalised and stays in 0..1."""
    return Batches(
        photos, recipe.size, recipe.batch, (*network.mean, 0.0), (*network.std, 1.0),
        seed=seed, smallest_crop=recipe.smallest_crop, flip=recipe.flip,
    )  # fmt: skip


def check_has_cam(backbone: str) -> None:
    """Raise UserError, before anything is trained, if a backbone has no class activation maps.

    The head is checked with random weights: with initial weights, a norm inside it would act like the identity.
    """
    classifier = Classifier(backbone, 2).eval()
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        try:
            features, _ = last_features(classifier, torch.zeros(1, 3, classifier.side, classifier.side))
            features = torch.rand(features.shape, generator=rng)
            for tensor in classifier.state_dict().values():
                if tensor.is_floating_point():
                    tensor.add_(0.1 * torch.rand(tensor.shape, generator=rng))  # positive, as variances must be
            linear_head(classifier, features, classifier.network.forward_head(features))
        except UserError as error:
            raise UserError(f"{error} To skip the second stage, set {option('second_stage_steps', 0)}.") from error


def has_cam(backbone: str) -> bool:
    """Whether a backbone has class activation maps, which the second stage needs.

    >>> has_cam("test_resnet"), has_cam("test_vit"), has_cam("test_convnext")
    (True, False, False)
    """
    try:
        check_has_cam(backbone)
    except UserError:
        return False
    return True
