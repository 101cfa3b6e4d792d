"""Open classifiers by name, and run them on photos: whole, masked in, masked out, and inpainted.

A name is a file that casmap wrote, a backbone with ImageNet-1k weights, or BACKBONE=FILE.
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
from casmap.evaluation.fidelity import Judge
from casmap.evaluation.trust import inpainted
from casmap.evaluation.verdict import WHOLE
from casmap.inference.mapper import Network
from casmap.models.backbones import WHEELS, source_of, weights_reachable
from casmap.models.classifier import Classifier
from casmap.models.files import load_classifier
from casmap.training.first_classifier import check_weights, load_backbone

VERSIONS = ("masked-in", "masked-out", "inpainted")  # in addition to the whole photo
JUDGED = 16  # images that a judge classifies at a time

Images = npt.NDArray[np.uint8]
BinaryMasks = npt.NDArray[np.bool_]


def open_classifier(name: str, photos: PhotoSet) -> tuple[Classifier, bool]:
    """A classifier in evaluation mode, and whether its classes are exactly the photos' classes."""
    classifier, classes = open_with_classes(name)
    return classifier, classes == list(photos.classes)


def open_judge(name: str) -> Judge:
    """A classifier that judges maps which it took no part in making, by the names of `open_with_classes`."""
    f, classes = open_with_classes(name)

    def classify(inputs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        with torch.inference_mode():
            parts = (torch.from_numpy(inputs[at : at + JUDGED]) for at in range(0, len(inputs), JUDGED))
            return np.concatenate([f(part.contiguous(memory_format=torch.channels_last)).numpy() for part in parts])

    return Judge(next(iter(short_names([name]))), classes, f.mean, f.std, classify, f.backbone, fingerprint(f))


def open_with_classes(name: str) -> tuple[Classifier, list[str]]:
    """A classifier in evaluation mode, and its classes.

    name: FILE.safetensors of casmap; a backbone with available ImageNet-1k weights; or BACKBONE=FILE, ImageNet-1k
    weights in a safetensors file.
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
                raise UserError(f"The weights in {file} do not fit {backbone} with ImageNet's classes: {missing[0]}.")
        else:
            source = source_of(name)
            source.check_name(name)
            if (known := source.pretrained_classes(name)) != len(classes):
                raise UserError(
                    f"The weights of {name} have {known} classes, not the {len(classes)} of ImageNet-1k: name another "
                    "classifier."
                )
            if name in WHEELS:
                check_weights(name)
            elif not weights_reachable(name):
                raise UserError(
                    f"The ImageNet weights of {name} are not available: give them as a file, {name}=FILE, or name "
                    "another classifier."
                )
            classifier = Classifier(name, len(classes), pretrained=True)
    # Channels last is faster on a CPU (experiment 30).
    return classifier.eval().requires_grad_(False).to(memory_format=torch.channels_last), classes


def open_matching_classifier(place: str, photos: PhotoSet) -> Classifier:
    """A classifier whose classes are exactly the photos' classes; an error for any other."""
    f, matches = open_classifier(place, photos)
    if not matches:
        raise UserError(
            f"The classifier {place} does not have exactly the {len(photos.classes)} classes of the photos: name one "
            "that was trained on these classes."
        )
    return f


def fingerprint(classifier: torch.nn.Module) -> str:
    """A hash of the weights, independent of the file they came from."""
    digest = hashlib.sha256()
    for name, tensor in sorted(classifier.state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Classifiers by a short name for each, or by the full name if two short names are the same.

    >>> list(short_names(["lite0", "lite0=a.safetensors", "c-1/classifier.safetensors"]))
    ['lite0', 'lite0=a.safetensors', 'c-1']
    """
    counts = Counter(map(_short_name, names))
    return {name if counts[_short_name(name)] > 1 else _short_name(name): name for name in names}


def _short_name(name: str) -> str:
    """The name of a classifier in a table."""
    backbone, _, file = name.partition("=")
    if file or not name.endswith(".safetensors"):
        return backbone.rpartition("/")[2]
    path = Path(name)
    return path.resolve().parent.name if path.stem == "classifier" else path.stem


def versions(
    images: Images, masks: BinaryMasks, filled: Images, mean: tuple[float, ...], std: tuple[float, ...]
) -> dict[str, Tensor]:
    """Images (n, S, S, 3), normalised (n, 3, S, S): whole, b x, (1 - b) x, and inpainted; masks b (n, S, S).

    Masked pixels are 0 after normalisation: the mean colour. filled (n, S, S, 3): the inpainted images.

    >>> white, mask = np.full((1, 2, 2, 3), 255, np.uint8), np.eye(2, dtype=bool)[None]
    >>> versions(white, mask, white, (0.5,) * 3, (0.5,) * 3)["masked-in"][0, 0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    whole = normalised(images, mean, std)
    b = torch.from_numpy(masks)[:, None].to(whole.dtype)
    found = (whole, b * whole, (1 - b) * whole, normalised(filled, mean, std))
    return dict(zip((WHOLE, *VERSIONS), found, strict=True))


def logits_of_versions(
    classifiers: Mapping[str, Network | Classifier], images: Images, masks: BinaryMasks
) -> Iterator[tuple[str, str, npt.NDArray[np.float32]]]:
    """Run classifiers, or the classifiers of mappings, on each version: the name, the version, and logits (n, C)."""
    filled = inpainted(images, masks)
    for name, network in classifiers.items():
        for version, tensors in versions(images, masks, filled, network.mean, network.std).items():
            if isinstance(network, Classifier):
                with torch.inference_mode():
                    yield name, version, np.asarray(network(tensors).numpy())
            else:
                yield name, version, network.run(np.ascontiguousarray(tensors.numpy()))[1]
