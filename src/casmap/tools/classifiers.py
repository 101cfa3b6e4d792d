"""Classifiers by name: a file that casmap wrote, a backbone with ImageNet weights, a backbone and its weights."""

import hashlib
from collections import Counter
from pathlib import Path

import torch
from timm.data.imagenet_info import ImageNetInfo

from casmap.data.photos import PhotoSet
from casmap.errors import UserError
from casmap.models.classifier import Classifier
from casmap.models.files import load_classifier
from casmap.training.first_classifier import check_weights, load_backbone

THOUSAND = "imagenet-1k"


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
        classes = list(ImageNetInfo(THOUSAND).label_names())  # type: ignore[no-untyped-call]
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


def fingerprint(classifier: Classifier) -> str:
    """Of its weights, whatever file they came from."""
    digest = hashlib.sha256()
    for name, tensor in sorted(classifier.state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def short_names(names: list[str]) -> list[str]:
    """A short name for each, or the whole where two would be the same.

    >>> short_names(["lite0", "lite0=a.safetensors", "c-1/classifier.safetensors"])
    ['lite0', 'lite0=a.safetensors', 'c-1']
    """
    short = [short_name(name) for name in names]
    return [name if Counter(short)[brief] > 1 else brief for name, brief in zip(names, short, strict=True)]


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
