"""The second stage, a deviation from the paper: train a decoder that also sees a class activation map on pseudo-masks.

A mapping of Algorithm 1 marks whole objects, but also much around small ones, and its masks end beside the edges. The
pseudo-masks (`pseudo_masks.py`) are better than the masks that they are made from: docs/experiments.md. They may use
each photo's label; the trained mapping does not need it.

With encoder_lr > 0 the encoder learns, too: features of classes become features of outlines. The Kullback-Leibler
divergence from the probabilities of the fixed encoder keeps it a classifier, and so its class activation map useful.
With start_share > 0 the weights are averaged with those before the stage: what they learned on these photos, and what
they knew of others (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models").

With second_stage_rounds > 1 the stage repeats, self-training: the mask of the decoder just trained replaces m(x). With
masks_from, the masks of another mapping replace those of Algorithm 1.
"""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, kl_div, log_softmax
from torch.optim import Optimizer

from casmap.data.batches import Batches
from casmap.data.photos import PhotoSet
from casmap.errors import UserError, option
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.models.class_activation import last_features, linear_head
from casmap.models.classifier import Classifier, to_device
from casmap.models.decoder import Decoder
from casmap.models.network import SaliencyNetwork
from casmap.models.onnx_decoder import Start, load_start
from casmap.training.checkpoints import Resumable, Row, left_if_stopped
from casmap.training.first_classifier import one_cycle
from casmap.training.pseudo_masks import PseudoMasks
from casmap.training.recipes import Recipe
from casmap.training.run import Run
from casmap.training.score import mask_out

Indices = npt.NDArray[np.int64]

# The names of files and folders are those of 0.1.0, so that its runs can be resumed.
CHECKPOINT, LOG, MASKS = "taught-checkpoint", "taught-log", "teacher-masks"
KEEP_CLASSES = 0.2  # weight of the divergence from the fixed encoder's probabilities
AREA_BATCHES = 40  # batches over which the final mask area is computed


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


def starting_network(encoder: Classifier, classes: list[str], recipe: Recipe) -> SaliencyNetwork:
    """The encoder with the decoder that the second stage starts from, and the head of that decoder's map."""
    start = check_start(recipe)
    if start is None:
        return SaliencyNetwork(encoder, Decoder(encoder.stage_channels), classes, predicts=True)
    # With the shipped mapping's classes, its head is that of the encoder.
    return SaliencyNetwork(encoder, start.decoder, classes, True, None if classes == start.classes else start.cam_head)


def check_start(recipe: Recipe) -> Start | None:
    """The shipped decoder, unless the recipe starts from scratch; UserError if it belongs to another backbone."""
    if recipe.from_scratch:
        return None
    start = load_start(SHIPPED)
    if start.backbone != recipe.backbone or start.cam_head is None:
        raise UserError(
            f"The shipped mapping is a {start.backbone}, not a {recipe.backbone}: set {option('from_scratch', True)}."
        )
    return start


def train_second_stage(
    network: SaliencyNetwork, teacher: SaliencyMapper, photos: PhotoSet, run: Run, number: int = 1
) -> tuple[SaliencyNetwork, dict[str, float]]:
    """Train a new decoder on the network's fixed encoder: AdamW, a warm-up and a cosine decay.

    With from_scratch=False, the network's own decoder goes on learning; its batch norms keep their statistics. With
    encoder_lr > 0 a copy of the encoder learns; its batch norms keep theirs.

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
    if recipe.from_scratch:
        decoder = Decoder(network.encoder.stage_channels, with_cam=True).train()
    else:
        decoder = copy.deepcopy(network.decoder).eval().requires_grad_(True)
    decoder = to_device(decoder, run.device)
    encoder = network.encoder
    rates: list[tuple[nn.Module, float]] = [(decoder, recipe.second_stage_lr)]
    if recipe.encoder_lr:
        encoder = copy.deepcopy(encoder).requires_grad_(True)
        rates.append((encoder, recipe.encoder_lr))
    trained = SaliencyNetwork(encoder, decoder, network.classes, network.predicts, network.cam_head)
    groups = [{"params": [*module.parameters()], "lr": rate} for module, rate in rates]
    optimizer = torch.optim.AdamW(groups, weight_decay=recipe.mapping_decay)
    learning: dict[str, Any] = {"decoder": decoder, "optimizer": optimizer}
    if recipe.encoder_lr:
        learning["encoder"] = encoder
    stage = Resumable(run, CHECKPOINT + suffix, LOG + suffix, steps, option("second_stage_lr"), **learning)

    def take_steps() -> Iterator[Row]:
        for step, (images, _) in enumerate(batches.between(stage.start, steps, run.device), stage.start):
            for group, (_, rate) in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * one_cycle(step / steps)
            if recipe.encoder_lr:
                loss = step_both(trained, network.encoder, optimizer, images[:, :3], images[:, 3:])
            else:
                loss = step_decoder(trained, optimizer, images[:, :3], images[:, 3:])
            yield {"loss": loss}

    def averaged() -> SaliencyNetwork:
        if not recipe.start_share:
            return trained
        so_far = copy.deepcopy(trained)  # a stopped run goes on with its own weights
        average(so_far, network, recipe.start_share)
        return so_far

    with left_if_stopped(stage, averaged, recipe.size):
        stage.run_steps(f"Second stage{suffix}", batches, take_steps(), lambda row: f"loss {row['loss']:.3f}")
    decoder.eval()
    encoder.requires_grad_(False)
    found = averaged()
    return found, _measure(found, batches.between(0, min(AREA_BATCHES, steps), run.device))


@torch.no_grad()
def average(network: SaliencyNetwork, start: SaliencyNetwork, start_share: float) -> None:
    """Replace each weight w of a network by (1 - start_share) w + start_share w₀, with the weight w₀ of `start`."""
    for weight, before in zip(network.parameters(), start.parameters(), strict=True):
        weight.lerp_(before, start_share)


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


def step_both(
    network: SaliencyNetwork, fixed: Classifier, optimizer: Optimizer, images: Tensor, masks: Tensor
) -> float:
    """Take one step of decoder and encoder; returns the cross-entropy of the masks (N, 1, H, W).

    fixed: the encoder before training, whose probabilities the encoder keeps.
    """
    images = images.contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        before = log_softmax(fixed(images), dim=1)
    found, logits = network(images)
    loss = binary_cross_entropy(found, masks)
    divergence = kl_div(log_softmax(logits, dim=1), before, log_target=True, reduction="batchmean")
    optimizer.zero_grad()
    (loss + KEEP_CLASSES * divergence).backward()  # type: ignore[no-untyped-call]
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
