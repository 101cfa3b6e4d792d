"""Classifiers by name, and what they see of photos: whole, masked in, masked out, and masked out and inpainted.

A name is a file that casmap wrote, a backbone with ImageNet weights, or a backbone and its weights.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from timm.data.imagenet_info import ImageNetInfo
from torch import Tensor

from casmap.data.batches import normalised
from casmap.data.photos import PhotoSet
from casmap.errors import UserError
from casmap.inference.mapper import Network
from casmap.inference.saliency_map import SaliencyMap
from casmap.models.classifier import Classifier
from casmap.models.files import load_classifier
from casmap.training.first_classifier import check_weights, load_backbone

WHOLE = "whole"
VERSIONS = ("masked-in", "masked-out", "inpainted")  # beside the whole one

Pictures = npt.NDArray[np.uint8]
Binaries = npt.NDArray[np.bool_]


def open_classifier(name: str, photos: PhotoSet) -> tuple[Classifier, bool]:
    """A classifier, ready to look and never to learn, and whether its classes are exactly the photos'.

    name: FILE.safetensors of casmap; a backbone whose ImageNet weights can be had; or BACKBONE=FILE, ImageNet weights
    in a safetensors file.
    """
    backbone, _, file = name.partition("=")
    if not file and name.endswith(".safetensors"):
        classifier, about = load_classifier(name)
        classes = list(about["classes"])
    else:
        classes = list(ImageNetInfo("imagenet-1k").label_names())  # type: ignore[no-untyped-call]
        if file:
            classifier = Classifier(backbone, len(classes))
            if missing := load_backbone(classifier, file):
                raise UserError(f"The weights in {file} do not fit {backbone} for ImageNet's classes: {missing[0]}.")
        else:
            check_weights(name)
            classifier = Classifier(name, len(classes), pretrained=True)
    # The colours of a pixel side by side are faster (experiment 30).
    laid = classifier.eval().requires_grad_(False).to(memory_format=torch.channels_last)
    return laid, classes == list(photos.classes)


def opened(place: str, photos: PhotoSet) -> Classifier:
    """A classifier of exactly the photos' classes."""
    f, knows = open_classifier(place, photos)
    if not knows:
        raise UserError(
            f"The classifier {place} does not know exactly the {len(photos.classes)} classes of the photos."
        )
    return f


def fingerprint(classifier: torch.nn.Module) -> str:
    """Of its weights, whatever file they came from."""
    digest = hashlib.sha256()
    for name, tensor in sorted(classifier.state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def named(names: Sequence[str]) -> dict[str, str]:
    """Classifiers by a short name for each, or the whole where two would be the same.

    >>> list(named(["lite0", "lite0=a.safetensors", "c-1/classifier.safetensors"]))
    ['lite0', 'lite0=a.safetensors', 'c-1']
    """
    counts = Counter(map(short_name, names))
    return {name if counts[short_name(name)] > 1 else short_name(name): name for name in names}


def short_name(name: str) -> str:
    """What a classifier is called in a table.

    >>> short_name("torchvision/mobilenet_v2=weights/m.safetensors"), short_name("runs/c-3/classifier.safetensors")
    ('mobilenet_v2', 'c-3')
    """
    backbone, _, file = name.partition("=")
    if file or not name.endswith(".safetensors"):
        return backbone.rpartition("/")[2]
    path = Path(name)
    return path.resolve().parent.name if path.stem == "classifier" else path.stem


def inpainted(pictures: Pictures, masks: Binaries) -> Pictures:
    """Pictures (n, S, S, 3) with what masks (n, S, S) mark painted over."""
    return np.stack([SaliencyMap(x, m.astype(np.float32)).inpainted() for x, m in zip(pictures, masks, strict=True)])


def versions(
    pictures: Pictures, masks: Binaries, filled: Pictures, mean: tuple[float, ...], std: tuple[float, ...]
) -> dict[str, Tensor]:
    """Pictures (n, S, S, 3) normalised (n, 3, S, S): whole, b x, (1 - b) x, and inpainted; masks b (n, S, S).

    What is masked is 0 after normalisation: the mean colour. filled (n, S, S, 3): the inpainted pictures.

    >>> white, mask = np.full((1, 2, 2, 3), 255, np.uint8), np.eye(2, dtype=bool)[None]
    >>> versions(white, mask, white, (0.5,) * 3, (0.5,) * 3)["masked-in"][0, 0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    whole = normalised(pictures, mean, std)
    b = torch.from_numpy(masks)[:, None].to(whole.dtype)
    found = (whole, b * whole, (1 - b) * whole, normalised(filled, mean, std))
    return dict(zip((WHOLE, *VERSIONS), found, strict=True))


def answers(
    asked: Mapping[str, Network | Classifier], pictures: Pictures, masks: Binaries
) -> Iterator[tuple[str, str, npt.NDArray[np.float32]]]:
    """What classifiers, or those in mappings, see in each version: the name, the version, and logits (n, C)."""
    filled = inpainted(pictures, masks)
    for name, network in asked.items():
        for version, images in versions(pictures, masks, filled, network.mean, network.std).items():
            if isinstance(network, Classifier):
                with torch.inference_mode():
                    yield name, version, np.asarray(network(images).numpy())
            else:
                yield name, version, network.run(np.ascontiguousarray(images.numpy()))[1]
