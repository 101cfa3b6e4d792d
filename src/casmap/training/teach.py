"""The second stage: a decoder that also sees the classifier's belief learns to do in one pass what the teacher does.

The teacher was told each photo's label; the mapping is not.
"""

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import binary_cross_entropy

from casmap.data.batches import Batches
from casmap.data.photos import Annotation, PhotoSet
from casmap.errors import UserError
from casmap.model.activation import last_features, linear_head
from casmap.model.classifier import Classifier
from casmap.model.decoder import Decoder
from casmap.model.device import place
from casmap.model.files import read_tree, write_tree
from casmap.model.network import SaliencyNetwork
from casmap.training.first import one_cycle
from casmap.training.log import Log
from casmap.training.recipes import Recipe
from casmap.training.run import Run
from casmap.training.teacher import Masks, make_masks, open_masks


class PhotosWithMasks:
    """Photos whose fourth channel is the taught mask, so that a crop, a resize or a mirror moves both alike."""

    def __init__(self, photos: PhotoSet, masks: Masks) -> None:
        self.photos, self.masks = photos, masks
        self.classes, self.names, self.labels = photos.classes, photos.names, photos.labels

    def __len__(self) -> int:
        return len(self.photos)

    def image(self, index: int) -> npt.NDArray[np.uint8]:
        """Photo number `index` and its mask: (H, W, 4)."""
        picture = self.photos.image(index)
        mask = cv2.resize(self.masks[index], picture.shape[1::-1], interpolation=cv2.INTER_LINEAR)
        return np.dstack([picture, mask])

    def annotation(self, index: int) -> Annotation | None:
        """What is known of photo number `index`, or None."""
        return self.photos.annotation(index)


def check_teachable(classifier: Classifier) -> None:
    """Say before Algorithm 1 has run for an hour that its mapping cannot be taught."""
    blank = torch.zeros(1, 3, classifier.side, classifier.side, device=next(classifier.parameters()).device)
    with torch.no_grad():
        linear_head(classifier.eval(), *last_features(classifier, blank))


def is_teachable(backbone: str) -> bool:
    """Whether a backbone has class activation maps.

    >>> is_teachable("test_resnet"), is_teachable("test_vit")
    (True, False)
    """
    try:
        check_teachable(Classifier(backbone, 2))
    except UserError:
        return False
    return True


def teach(network: SaliencyNetwork, photos: PhotoSet, recipe: Recipe, run: Run) -> tuple[SaliencyNetwork, float]:
    """The taught mapping, on the same encoder, and the mean area of its masks at the end.

    Cross-entropy between mask and taught mask, AdamW, a warm-up and a cosine. The encoder stays as it is.
    """
    encoder = place(network.encoder, run.device).eval().requires_grad_(False)
    torch.manual_seed(recipe.seed)
    decoder = place(Decoder(encoder.stage_channels, believes=True), run.device)
    masks = open_masks(run.folder / "teacher.npy", len(photos))
    mean, std = (*encoder.mean, 0.0), (*encoder.std, 1.0)  # a mask stays from 0 to 1
    batches = Batches(
        PhotosWithMasks(photos, masks), recipe.taught_size or recipe.size, recipe.batch, mean, std,
        seed=recipe.seed + 2, smallest_crop=recipe.smallest_crop, flip=recipe.flip,
    )  # fmt: skip
    wanted = np.unique(np.concatenate([batches.indices(step) for step in range(recipe.taught_steps)]))
    make_masks(masks, wanted, photos, network, recipe, run)
    optimizer = torch.optim.AdamW(decoder.parameters(), recipe.taught_lr, weight_decay=recipe.mapping_decay)
    checkpoint, start, steps = run.folder / "taught-checkpoint.safetensors", 0, recipe.taught_steps
    if run.resumed and checkpoint.exists():
        state = read_tree(checkpoint)
        start = state["step"]
        decoder.load_state_dict(state["decoder"])
        optimizer.load_state_dict(state["optimizer"])
    log = Log(run.folder, "taught-log", start)
    with run.progress("The second stage", start, steps) as advance:
        for step, (pictures, _) in enumerate(batches.between(start, steps, run.device), start):
            images, taught = pictures[:, :3], pictures[:, 3:]
            for group in optimizer.param_groups:
                group["lr"] = recipe.taught_lr * one_cycle(step / steps)
            with torch.no_grad():
                _, stages = encoder.look_believing(images)
            seen = decoder.train()(stages, images.shape[-2:])
            loss = binary_cross_entropy(seen, taught)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            log.add(step + 1, loss=float(loss.detach()), area=float(seen.detach().mean()))
            advance(f"loss {float(loss.detach()):.3f}")
            if (step + 1) % recipe.checkpoint_every == 0 and step + 1 < steps:
                log.flush()
                tree = {"step": step + 1, "decoder": decoder.state_dict(), "optimizer": optimizer.state_dict()}
                write_tree(checkpoint, tree)
    log.close()
    checkpoint.unlink(missing_ok=True)
    last = log.rows[-max(1, steps // 10) :]
    taught_network = SaliencyNetwork(encoder, decoder.eval(), network.classes, network.predicts)
    return taught_network, sum(row["area"] for row in last) / len(last)
