"""The second stage: a decoder that also sees the classifier's belief learns to do in one pass what the teacher does.

The teacher was told each photo's label; the mapping is not.
"""

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy
from torch.optim import Optimizer

from casmap.data.batches import Batches
from casmap.data.photos import Annotation, PhotoSet
from casmap.errors import UserError
from casmap.models.class_activation import last_features, linear_head
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.device import place
from casmap.models.network import SaliencyNetwork
from casmap.training.checkpoints import Checkpoints, check_finite
from casmap.training.first_classifier import one_cycle
from casmap.training.log import Log
from casmap.training.recipes import Recipe
from casmap.training.run import Run, undamaged
from casmap.training.teacher import TaughtMasks

MEASURED = 40  # batches over which the masks' area is taken at the end


class PhotosWithMasks:
    """Photos whose fourth channel is the taught mask, so that a crop, a resize or a mirror moves both alike."""

    def __init__(self, photos: PhotoSet, masks: TaughtMasks) -> None:
        self.photos, self.masks = photos, masks
        self.classes, self.names, self.labels = photos.classes, photos.names, photos.labels
        self.shards = getattr(photos, "shards", None)

    def __len__(self) -> int:
        return len(self.photos)

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Photo number `index` and its mask: (H, W, 4)."""
        picture = self.photos.image(index, least)
        mask = cv2.resize(self.masks[index], picture.shape[1::-1], interpolation=cv2.INTER_LINEAR)
        return np.dstack([picture, mask])

    def annotation(self, index: int) -> Annotation | None:
        """What is known of photo number `index`, or None."""
        return self.photos.annotation(index)


def teach(network: SaliencyNetwork, photos: PhotoSet, recipe: Recipe, run: Run) -> tuple[SaliencyNetwork, float]:
    """The taught mapping, on the same encoder, and the mean area of its masks over training photos.

    AdamW, a warm-up and a cosine. The encoder stays as it is.
    """
    place(network, run.device).eval().requires_grad_(False)
    steps = recipe.taught_steps
    masks = TaughtMasks(run.folder / "teacher-masks", _drawn(_batches(network, photos, recipe), steps))
    batches = _batches(network, PhotosWithMasks(photos, masks.make(photos, network, recipe, run)), recipe)
    torch.manual_seed(recipe.seed)
    decoder = place(Decoder(network.encoder.stage_channels, believes=True), run.device)
    optimizer = torch.optim.AdamW(decoder.parameters(), recipe.taught_lr, weight_decay=recipe.mapping_decay)
    checkpoints, start = Checkpoints(run.folder, "taught-checkpoint"), 0
    if run.resumed and (state := checkpoints.read(run.say)):
        with undamaged(checkpoints.newest):
            start = state["step"]
            decoder.load_state_dict(state["decoder"])
            optimizer.load_state_dict(state["optimizer"])
    log = Log(run.folder, "taught-log", start)
    with run.progress("The second stage", start, steps) as advance:
        for step, (pictures, _) in enumerate(batches.between(start, steps, run.device), start):
            for group in optimizer.param_groups:
                group["lr"] = recipe.taught_lr * one_cycle(step / steps)
            loss = step_taught(network.encoder, decoder, optimizer, pictures[:, :3], pictures[:, 3:])
            check_finite(loss, step + 1, batches, checkpoints)
            log.add(step + 1, loss=loss)
            advance(f"loss {loss:.3f}")
            if (step + 1) % recipe.checkpoint_every == 0 and step + 1 < steps:
                log.flush()
                tree = {"step": step + 1, "decoder": decoder.state_dict(), "optimizer": optimizer.state_dict()}
                checkpoints.write(tree)
    log.close()
    taught = SaliencyNetwork(network.encoder, decoder.eval(), network.classes, network.predicts)
    with torch.no_grad():
        seen = batches.between(0, min(MEASURED, steps), run.device)
        areas = [float(taught(pictures[:, :3])[0].mean()) for pictures, _ in seen]
    return taught, sum(areas) / len(areas)


def step_taught(encoder: Classifier, decoder: Decoder, optimizer: Optimizer, images: Tensor, masks: Tensor) -> float:
    """One step on the cross-entropy between the decoder's masks and the taught ones (N, 1, H, W); returns it."""
    with torch.no_grad():
        _, stages = encoder.look_believing(images)
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


def _drawn(batches: Batches, steps: int) -> npt.NDArray[np.int64]:
    """The numbers of all photos that are in a batch before `steps`, rising."""
    drawn = np.zeros(len(batches.photos), bool)
    for step in range(steps):
        drawn[batches.indices(step)] = True
    return np.flatnonzero(drawn)


def check_teachable(backbone: str) -> None:
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
            raise UserError(f"{error} Say --taught-steps 0 to do without the second stage.") from error


def is_teachable(backbone: str) -> bool:
    """Whether a backbone can be taught.

    >>> is_teachable("test_resnet"), is_teachable("test_vit"), is_teachable("test_convnext")
    (True, False, False)
    """
    try:
        check_teachable(backbone)
    except UserError:
        return False
    return True
