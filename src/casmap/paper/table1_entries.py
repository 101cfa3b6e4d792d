"""Who enters Table 1: mappings, baselines told the true or the predicted class, centre box and whole picture."""

import hashlib
import inspect
import io
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
from casmap.data.resizing import resize
from casmap.errors import UnsupportedBackbone, UserError
from casmap.evaluation.evaluate import Floats, System, center_system, whole_system
from casmap.evaluation.rules import Rule
from casmap.evaluation.table import system_of
from casmap.inference.mapper import SaliencyMapper
from casmap.io.atomic import write_whole
from casmap.models import class_activation, folding
from casmap.models.class_activation import min_max
from casmap.models.classifier import Classifier
from casmap.models.network import SaliencyNetwork
from casmap.paper.crops import Crops, Indices
from casmap.tools.classifiers import fingerprint
from casmap.tools.export import classifier_alone
from casmap.training.first_classifier import first_classifier
from casmap.training.recipes import QUICK
from casmap.training.run import Run

BATCH = 8  # photos that a network sees at a time; their maps are then kept
# Programs that baselines work with, beside their own.
SHARED = (relevance, blurring, black_box, class_activation, folding)
folded_once = lru_cache(maxsize=2)(folding.folded)  # a copy for all baselines, and one of a ResNet-18
PAPER = {"CASM": 36.1, "Baseline": 53.5}  # LE of the paper's own two, in percent
# A ResNet-18 for the baselines that a backbone does not suit: no ReLU, no linear head, no feature maps. It learns at
# 128 px, for time's sake, whatever the size of the pictures that it is then shown.
FALLBACK = QUICK.replace(backbone="resnet18", size=128, first_epochs=30, first_steps=None)
FAILURES = (RuntimeError, NotImplementedError, AttributeError, IndexError)  # of libraries, in what they do not know

Work = Callable[[Indices], object]


@dataclass(frozen=True)
class Entry:
    """One row to be: who marks pixels, and in which photos.

    method: rows of one method take the same time. paper: whose it is. told: what it is told beside the photo. chosen:
    numbers of photos. masks: numbers of photos (n,) -> masks (n, S, S). work: the same, made anew each time. sees: the
    class (N,) that it tells, if it does. rule: its authors' way to an object. batch: photos to ask it for at a time.
    seconds: of the masks made before, for a photo, where making them anew would take minutes. paper_le: its LE in the
    paper's Table 1, in percent.
    """

    method: str
    told: str
    chosen: Indices
    masks: Callable[[Indices], Floats]
    work: Work
    sees: Indices | None = None
    rule: Rule | None = None
    batch: int = BATCH
    paper: str = ""
    seconds: Callable[[Indices], float] | None = None
    paper_le: float | None = None

    @property
    def name(self) -> str:
        """As the row is called."""
        return f"{self.method}, {self.told}" if "class" in self.told else self.method


def see(classifier: Classifier, pictures: npt.NDArray[np.uint8]) -> Indices:
    """The classes (N,) that a classifier sees in pictures (N, S, S, 3)."""
    parts = [pictures[start : start + BATCH] for start in range(0, len(pictures), BATCH)]
    with torch.no_grad():
        logits = [classifier(normalised(part, classifier.mean, classifier.std)) for part in parts]
    return np.concatenate([part.argmax(dim=1).numpy() for part in logits])


def mapping_entry(name: str, mapper: SaliencyMapper, photos: PhotoSet, crops: Crops) -> Entry:
    """A mapping: told nothing, in all photos."""
    system = system_of(mapper, photos)
    parts = [system(crops.pictures[start : start + BATCH]) for start in range(0, len(crops), BATCH)]
    found = np.concatenate([masks for masks, _ in parts])
    classes = [seen for _, seen in parts if seen is not None]
    return Entry(
        name, "nothing", np.arange(len(crops)), lambda chosen: found[chosen],
        lambda chosen: system(crops.pictures[chosen]), np.concatenate(classes) if classes else None,
        paper_le=PAPER.get(name),
    )  # fmt: skip


def bare(path: Path, mapper: SaliencyMapper, crops: Crops) -> Work:
    """The pass of a mapping's own classifier alone, in the same engine, from pictures to logits."""
    network = mapper.network
    session = None if isinstance(network, SaliencyNetwork) else InferenceSession(classifier_alone(path))

    def work(chosen: Indices) -> object:
        pictures = crops.pictures[chosen]
        if crops.size != mapper.size:
            pictures = np.stack([resize(picture, mapper.size, "crop") for picture in pictures])
        images = normalised(pictures, network.mean, network.std)
        if session is not None:
            return session.run(["logits"], {"images": images.contiguous().numpy()})
        assert isinstance(network, SaliencyNetwork)
        with torch.inference_mode():
            return network.encoder(images.to(memory_format=torch.channels_last))  # as `run` has them

    return work


def constant_entries(crops: Crops) -> Iterator[Entry]:
    """What needs no network."""

    def masks(system: System, chosen: Indices) -> Floats:
        return system(crops.pictures[chosen])[0]

    for name, system in (("centre box", center_system), ("whole picture", whole_system)):
        of = partial(masks, system)
        yield Entry(name, "nothing", np.arange(len(crops)), of, of)


class BaselineMaps:
    """A baseline at work: makes the maps of photos once, and keeps them in a folder, a file for each photo and class.

    The folder's name goes by the program and the weights of the method and of the classifier, too: maps of another
    state of any of them are not taken. The predicted class, where it is the true one, is not asked twice.
    """

    def __init__(self, baseline: Baseline, method: Method, classifier: Classifier, crops: Crops, folder: Path) -> None:
        self.baseline, self.method, self.classifier, self.crops = baseline, method, classifier, crops
        self.quick = folded_once(classifier)
        kind = method if inspect.isfunction(method) else type(method)
        programs = "".join(map(inspect.getsource, (inspect.getmodule(kind) or kind, *SHARED)))
        learned = getattr(method, "network", None)
        weights = [fingerprint(f) for f in (classifier, learned) if isinstance(f, torch.nn.Module)]
        state = hashlib.sha256(" ".join([str(baseline.masks), programs, *weights]).encode()).hexdigest()[:8]
        self.folder = folder / f"{baseline.name} {state}".replace(" ", "-")

    def entries(self, seen: Indices, knows: bool, shown_boxes: npt.NDArray[np.bool_], few: int) -> Iterator[Entry]:
        """A row for each class that it is told; in few photos if it is slow, in those not shown if it was shown boxes.

        seen: the classes (N,) that the classifier sees. knows: its classes are the photos'.
        """
        baseline, sees, work = self.baseline, seen if knows else None, partial(self.explain, seen)
        if baseline.told == "class":
            told = {"the true class": self.crops.labels} if knows else {}
            told["the predicted class"] = seen
        else:
            told = {"nothing" if baseline.told == "nothing" else "boxes, in training": np.zeros_like(seen)}
        given = max(1, few // baseline.slow) if baseline.slow else None
        chosen = np.flatnonzero(~shown_boxes) if baseline.told == "boxes" else self.crops.few(given)
        for what, classes in told.items():
            yield Entry(
                baseline.name, what, chosen, partial(self.masks, classes), work, sees, baseline.rule, baseline.batch,
                baseline.paper, partial(self.seconds, classes) if baseline.slow else None, baseline.paper_le,
            )  # fmt: skip

    def masks(self, classes: Indices, chosen: Indices) -> Floats:
        """Masks (n, S, S) of the chosen photos for their classes, each made only if it is not kept."""
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
        """What a map of the chosen photos took when it was made; the median."""
        return float(np.median([found[1] for i in chosen if (found := self._find(i, classes)) is not None]))

    def explain(self, classes: Indices, chosen: Indices) -> torch.Tensor:
        """Maps (n, h, w) from 0 to 1 of the chosen photos for their classes (N,), made anew."""
        f = self.quick
        images = normalised(self.crops.pictures[chosen], f.mean, f.std)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of libraries are to their authors
            maps = self.method(f, images, torch.from_numpy(classes[chosen]))
        return maps if self.baseline.masks else min_max(maps, torch.finfo(maps.dtype).tiny)

    def _find(self, number: int, classes: Indices) -> tuple[npt.NDArray[np.float32], float] | None:
        """A map (h, w) and the seconds that it took, if it was made; a damaged file counts as none."""
        try:
            with np.load(self._path(number, classes)) as file:
                return file["map"].astype(np.float32), float(file["seconds"])
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            return None

    def _path(self, number: int, classes: Indices) -> Path:
        name = hashlib.sha256(self.crops.names[number].encode()).hexdigest()[:20]
        return self.folder / f"{name}-{classes[number]}.npz"


def maps_of(baseline: Baseline, data: TrainingData, crops: Crops, seen: Indices, folder: Path) -> BaselineMaps:
    """A baseline at work on the classifier of the data, which sees the classes (N,), or on a ResNet-18 instead.

    Whether it suits a classifier shows when it is asked for one map, which is kept.
    """
    try:
        maps = BaselineMaps(baseline, baseline.ready(data), data.classifier, crops, folder)
        try:
            maps.masks(seen, crops.drawn[:1])
        except FAILURES as error:
            raise UnsupportedBackbone(str(error)) from error
        return maps
    except UnsupportedBackbone as error:
        name, without = FALLBACK.backbone, f"{baseline.name} cannot explain a {data.classifier.backbone}"
        if data.photos is None:
            raise UserError(
                f"{without}: with --train PHOTOS it explains a {name} trained on them; or name others with --only."
            ) from error
        data.reporter.message(f"{without}, and explains a {name} instead: {error}")
    learned = data.folder / name
    run = Run(learned, FALLBACK, resume=True, reporter=data.reporter)
    with run.started(data.photos):
        trained, _ = first_classifier(data.photos, FALLBACK, run)
    classifier = trained.cpu().eval().requires_grad_(False)
    instead = replace(data, classifier=classifier, file=learned / "classifier.safetensors", folder=learned)
    renamed = replace(baseline, name=f"{baseline.name} (of a {name})", paper_le=None)
    return BaselineMaps(renamed, renamed.ready(instead), classifier, crops, folder)
