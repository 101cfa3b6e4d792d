"""The entries of Table 1: mappings, baselines with the true or the predicted class, centre box and whole photo."""

import hashlib
import inspect
import io
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from onnxruntime import InferenceSession
from torch.nn.functional import interpolate

from casmap.baselines import Baseline, Method, TrainingData
from casmap.baselines.support import black_box, blurring, relevance
from casmap.data.batches import normalised
from casmap.data.photos import PhotoSet
from casmap.data.resizing import Policy, resize
from casmap.errors import UnsupportedBackbone, UserError
from casmap.evaluation.blind import BLIND, SQUARE, with_centre_squares
from casmap.evaluation.evaluate import Floats, System
from casmap.evaluation.rules import Rule
from casmap.evaluation.table import system_of
from casmap.inference.mapper import SaliencyMapper
from casmap.io.atomic import write_whole
from casmap.models import class_activation, folding
from casmap.models.class_activation import min_max
from casmap.models.classifier import Classifier
from casmap.models.network import SaliencyNetwork
from casmap.paper.crops import Crops, Indices
from casmap.paper.variant import variant
from casmap.tools.classifiers import fingerprint
from casmap.tools.export import classifier_alone
from casmap.training.first_classifier import first_classifier
from casmap.training.recipes import QUICK
from casmap.training.run import Run

BATCH = 8  # photos that a network processes at a time; their maps are then saved
# Modules that baselines use, besides their own.
SHARED = (relevance, blurring, black_box, class_activation, folding)
folded_once = lru_cache(maxsize=2)(folding.folded)  # one copy for all baselines, and one of a ResNet-18
GIVEN = {"nothing": "nothing", "boxes": "boxes, in training", "masks": "supervised by drawn masks"}
PAPER = {"CASM": 36.1, "Baseline": 53.5}  # LE of the paper's own two methods, in percent
# A ResNet-18 for baselines that cannot explain the backbone: no ReLU, no linear head, no feature maps. It is trained
# at 128 px to save time, whatever the size of the images that it explains.
FALLBACK = QUICK.replace(backbone="resnet18", size=128, first_epochs=30, first_steps=None)
FAILURES = (RuntimeError, NotImplementedError, AttributeError, IndexError)  # raised by libraries for unknown layers

Work = Callable[[Indices], object]
Squares = Mapping[Policy, Crops]  # the photos made square by policies other than the paper's


@dataclass(frozen=True)
class Entry:
    """One row before it is measured: who makes the masks, and for which photos.

    method: rows of one method take the same time. given: the input besides the photo. chosen: indices of photos. masks:
    indices of photos (n,) -> masks (n, S, S). work: the same, computed anew each time. predicted: the class (N,) that
    it predicts, if it does. rule: its authors' way to a box. batch: photos at a time. paper: its reference, or the
    variant of a mapping. seconds: the time of saved masks for a photo, if computing them anew would take minutes.
    paper_le: its LE in the paper's Table 1, in percent. others: like masks, of the photos made square by other
    policies; none for slow methods.
    """

    method: str
    given: str
    chosen: Indices
    masks: Callable[[Indices], Floats]
    work: Work
    predicted: Indices | None = None
    rule: Rule | None = None
    batch: int = BATCH
    paper: str = ""
    seconds: Callable[[Indices], float] | None = None
    paper_le: float | None = None
    others: Mapping[Policy, Callable[[Indices], Floats]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the row."""
        tells = "class" in self.given or self.given == GIVEN["masks"]
        return f"{self.method}, {self.given}" if tells else self.method


def predict_classes(classifier: Classifier, images: npt.NDArray[np.uint8]) -> Indices:
    """The predicted classes (N,) of images (N, S, S, 3)."""
    parts = [images[start : start + BATCH] for start in range(0, len(images), BATCH)]
    with torch.no_grad():
        logits = [classifier(normalised(part, classifier.mean, classifier.std)) for part in parts]
    return np.concatenate([part.argmax(dim=1).numpy() for part in logits])


def mapping_entry(name: str, mapper: SaliencyMapper, photos: PhotoSet, crops: Crops, squares: Squares) -> Entry:
    """A mapping: it is given nothing but the photo, and is measured on all photos."""
    system = system_of(mapper, photos)
    parts = [system(crops.images[start : start + BATCH]) for start in range(0, len(crops), BATCH)]
    found = np.concatenate([masks for masks, _ in parts])
    classes = [predicted for _, predicted in parts if predicted is not None]
    return Entry(
        name, "nothing", np.arange(len(crops)), lambda chosen: found[chosen],
        lambda chosen: system(crops.images[chosen]), np.concatenate(classes) if classes else None,
        paper=variant(mapper.about), paper_le=PAPER.get(name),
        others={policy: of_system(system, other) for policy, other in squares.items()},
    )  # fmt: skip


def classifier_pass(path: Path, mapper: SaliencyMapper, crops: Crops) -> Work:
    """The forward pass of a mapping's own classifier alone, in the same runtime, from images to logits."""
    network = mapper.network
    session = None if isinstance(network, SaliencyNetwork) else InferenceSession(classifier_alone(path))

    def work(chosen: Indices) -> object:
        images = crops.images[chosen]
        if crops.size != mapper.size:
            images = np.stack([resize(image, mapper.size, "crop") for image in images])
        tensors = normalised(images, network.mean, network.std)
        if session is not None:
            return session.run(["logits"], {"images": tensors.contiguous().numpy()})
        assert isinstance(network, SaliencyNetwork)
        with torch.inference_mode():
            return network.encoder(tensors.to(memory_format=torch.channels_last))  # the layout of `run`

    return work


def constant_entries(crops: Crops, squares: Squares) -> Iterator[Entry]:
    """The centre box and others that look at no photo and need no network."""
    for name, system in BLIND.items():
        of = centred if name == SQUARE else partial(of_system, system)
        others = {policy: of(other) for policy, other in squares.items()}
        yield Entry(name, "nothing", np.arange(len(crops)), of(crops), of(crops), others=others)


def of_system(system: System, crops: Crops) -> Callable[[Indices], Floats]:
    """The masks of a system as a function of the indices of photos."""
    return lambda chosen: system(crops.images[chosen])[0]


def centred(crops: Crops) -> Callable[[Indices], Floats]:
    """The centre squares, whose size the other half of the photos chooses."""
    empty = np.zeros((len(crops), crops.size, crops.size), bool)
    masks = with_centre_squares(crops.predictions(np.arange(len(crops)), empty, None)).masks
    return lambda chosen: masks[chosen].astype(np.float32)


class BaselineMaps:
    """The maps of a baseline, computed once and saved in a folder, one file for each photo and class.

    The folder's name depends on the source code and the weights of the method and of the classifier: maps of another
    version are not reused. If the predicted class is the true one, the map is computed once.
    """

    def __init__(self, baseline: Baseline, method: Method, classifier: Classifier, crops: Crops, folder: Path) -> None:
        self.baseline, self.method, self.classifier, self.crops = baseline, method, classifier, crops
        self.quick = folded_once(classifier)
        kind = method if inspect.isfunction(method) else type(method)
        programs = "".join(map(inspect.getsource, (inspect.getmodule(kind) or kind, *SHARED)))
        trained = getattr(method, "network", None)
        weights = [fingerprint(f) for f in (classifier, trained) if isinstance(f, torch.nn.Module)]
        weights += [method.key] if hasattr(method, "key") else []  # of weights that are not in a torch module
        state = hashlib.sha256(" ".join([str(baseline.masks), programs, *weights]).encode()).hexdigest()[:8]
        self.folder = folder / f"{baseline.name} {state}".replace(" ", "-")

    def on(self, crops: Crops, folder: Path) -> "BaselineMaps":
        """The maps of the same method for the same photos, made square in another way and saved elsewhere."""
        return BaselineMaps(self.baseline, self.method, self.classifier, crops, folder)

    def entries(
        self, predicted: Indices, matches: bool, trained_on: npt.NDArray[np.bool_], few: int,
        others: "Mapping[Policy, tuple[BaselineMaps, Indices]]",
    ) -> Iterator[Entry]:  # fmt: skip
        """One row for each class that the baseline is given, on `few` photos or less if it is slow.

        predicted: the classifier's classes (N,). matches: whether its classes are the photos'. trained_on: photos (N,)
        whose boxes a baseline that uses boxes was trained on; it is measured on the others. others: the maps, and the
        classes (N,) that the classifier predicts, for photos made square by other policies; slow baselines use none.
        """
        baseline, shown, work = self.baseline, predicted if matches else None, partial(self.explain, predicted)
        given = self._given(predicted, matches)
        elsewhere: dict[str, dict[Policy, Callable[[Indices], Floats]]] = {what: {} for what in given}
        for policy, (maps, classes) in ({} if baseline.slow else others).items():
            for what, of in maps._given(classes, matches).items():
                elsewhere[what][policy] = partial(maps.masks, of)
        count = max(1, few // baseline.slow) if baseline.slow else None
        chosen = np.flatnonzero(~trained_on) if baseline.uses == "boxes" else self.crops.few(count)
        for what, classes in given.items():
            yield Entry(
                baseline.name, what, chosen, partial(self.masks, classes), work, shown, baseline.rule, baseline.batch,
                baseline.paper, partial(self.seconds, classes) if baseline.slow else None, baseline.paper_le,
                elsewhere[what],
            )  # fmt: skip

    def _given(self, predicted: Indices, matches: bool) -> dict[str, Indices]:
        """What the baseline is given besides the photo, and the classes (N,) that it explains then."""
        if self.baseline.uses != "class":
            return {GIVEN[self.baseline.uses]: np.zeros_like(predicted)}
        return ({"the true class": self.crops.labels} if matches else {}) | {"the predicted class": predicted}

    def masks(self, classes: Indices, chosen: Indices) -> Floats:
        """Masks (n, S, S) of the chosen photos for their classes, computed unless they are saved."""
        kept = [self._find(i, classes) for i in chosen]
        absent = chosen[[found is None for found in kept]]
        if len(absent):
            began = time.perf_counter()
            made = self.explain(classes, absent).numpy()
            seconds = (time.perf_counter() - began) / len(absent)
            for i, each in zip(absent, made, strict=True):
                content = io.BytesIO()
                np.savez(content, map=each.astype(np.float16), seconds=seconds)
                write_whole(self._path(i, classes), content.getvalue())
            kept = [self._find(i, classes) for i in chosen]
        side = self.crops.size
        small = [torch.from_numpy(found[0])[None, None] for found in kept if found is not None]
        full = [interpolate(each, (side, side), mode="bilinear", align_corners=False) for each in small]
        return torch.cat(full)[:, 0].numpy()

    def seconds(self, classes: Indices, chosen: Indices) -> float:
        """The median time of a map of the chosen photos when it was computed."""
        return float(np.median([found[1] for i in chosen if (found := self._find(i, classes)) is not None]))

    def explain(self, classes: Indices, chosen: Indices) -> torch.Tensor:
        """Maps (n, h, w) from 0 to 1 of the chosen photos for their classes (N,), computed anew."""
        f = self.quick
        images = normalised(self.crops.images[chosen], f.mean, f.std)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecation warnings of the libraries
            maps = self.method(f, images, torch.from_numpy(classes[chosen]))
        return maps if self.baseline.masks else min_max(maps, torch.finfo(maps.dtype).tiny)

    def _find(self, number: int, classes: Indices) -> tuple[npt.NDArray[np.float32], float] | None:
        """A saved map (h, w) and the seconds that it took; None if there is none or its file is damaged."""
        try:
            with np.load(self._path(number, classes)) as file:
                return file["map"].astype(np.float32), float(file["seconds"])
        except Exception:  # numpy raises anything for a damaged file
            return None

    def _path(self, number: int, classes: Indices) -> Path:
        name = hashlib.sha256(os.fsencode(self.crops.names[number])).hexdigest()[:20]
        return self.folder / f"{name}-{classes[number]}.npz"


def maps_of(baseline: Baseline, data: TrainingData, crops: Crops, predicted: Indices, folder: Path) -> BaselineMaps:
    """The maps of a baseline for the classifier of `data`, which predicts the classes (N,), or for a ResNet-18.

    Whether the baseline suits the classifier is tested by computing one map, which is saved.
    """
    try:
        maps = BaselineMaps(baseline, baseline.ready(data), data.classifier, crops, folder)
        try:
            maps.masks(predicted, crops.shuffled[:1])
        except FAILURES as error:
            raise UnsupportedBackbone(str(error)) from error
        return maps
    except UnsupportedBackbone as error:
        name, without = FALLBACK.backbone, f"{baseline.name} cannot explain a {data.classifier.backbone}"
        if data.photos is None:
            raise UserError(
                f"{without}: add --train PHOTOS to explain a {name} trained on them, or name baselines with --only."
            ) from error
        data.reporter.message(f"{without} and explains a {name} instead: {error}")
    trained_in = data.folder / name
    run = Run(trained_in, FALLBACK, resume=True, reporter=data.reporter)
    with run.started(data.photos):
        trained, _ = first_classifier(data.photos, run)
    classifier = trained.cpu().eval().requires_grad_(False)
    instead = replace(data, classifier=classifier, file=trained_in / "classifier.safetensors", folder=trained_in)
    renamed = replace(baseline, name=f"{baseline.name} (of a {name})", paper_le=None)
    return BaselineMaps(renamed, renamed.ready(instead), classifier, crops, folder)
