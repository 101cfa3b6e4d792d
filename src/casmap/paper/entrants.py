"""Who enters Table 1: mappings, rivals with the true and with the predicted class, centre box and whole picture."""

import hashlib
import inspect
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from onnxruntime import InferenceSession
from torch.nn.functional import interpolate

from casmap.baselines import baseline as protocol
from casmap.baselines import black_box, blurring, relevance
from casmap.baselines.baseline import Peer, unit
from casmap.baselines.rivals import Rival
from casmap.data.batches import normalised
from casmap.data.photos import PhotoSet
from casmap.data.resizing import resize
from casmap.evaluation.evaluate import Floats, System, center_system, whole_system
from casmap.evaluation.rules import Rule
from casmap.evaluation.table import system_of
from casmap.inference.mapper import SaliencyMapper
from casmap.models import folding
from casmap.models.classifier import Classifier
from casmap.models.network import SaliencyNetwork
from casmap.paper.crops import Crops, Indices
from casmap.paper.maps import Kept, Maps
from casmap.paper.timing import Work
from casmap.tools.export import classifier_alone

BATCH = 8  # photos that a network sees at a time; their maps are then kept
SHARED = (relevance, blurring, black_box, protocol, folding)  # programs that rivals work with, beside their own
folded_once = lru_cache(maxsize=2)(folding.folded)  # a copy for all rivals, and one of a ResNet-18


@dataclass(frozen=True)
class Entrant:
    """One row to be: who marks pixels, and in which photos.

    method: rows of one method take the same time. paper: whose it is. told: what it is told beside the photo. chosen:
    numbers of photos. masks: numbers of photos (n,) -> masks (n, S, S). work: the same, made anew each time. sees: the
    class (N,) that it tells, if it does. rule: its authors' way to an object. batch: photos to ask it for at a time.
    seconds: of the masks made before, for a photo, where making them anew would take minutes.
    """

    method: str
    told: str
    chosen: Indices
    masks: Callable[[Indices], Floats]
    work: Callable[[Indices], object]
    sees: Indices | None = None
    rule: Rule | None = None
    batch: int = BATCH
    paper: str = ""
    seconds: Callable[[Indices], float] | None = None

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


def mapping_enters(name: str, mapper: SaliencyMapper, photos: PhotoSet, crops: Crops) -> Entrant:
    """A mapping: told nothing, in all photos."""
    system = system_of(mapper, photos)
    parts = [system(crops.pictures[start : start + BATCH]) for start in range(0, len(crops), BATCH)]
    found = np.concatenate([masks for masks, _ in parts])
    classes = [seen for _, seen in parts if seen is not None]
    return Entrant(
        name,
        "nothing",
        np.arange(len(crops)),
        lambda chosen: found[chosen],
        lambda chosen: system(crops.pictures[chosen]),
        np.concatenate(classes) if classes else None,
    )


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


def constants_enter(crops: Crops) -> Iterator[Entrant]:
    """What needs no network."""

    def masks(system: System, chosen: Indices) -> Floats:
        return system(crops.pictures[chosen])[0]

    for name, system in (("centre box", center_system), ("whole picture", whole_system)):
        of = partial(masks, system)
        yield Entrant(name, "nothing", np.arange(len(crops)), of, of)


class Explainer:
    """A rival at work: makes the maps of photos, and keeps them in a store.

    What is kept goes by the program and the weights of the rival and of the classifier, too: maps of another state of
    any of them are not taken.
    """

    def __init__(self, rival: Rival, peer: Peer, classifier: Classifier, crops: Crops, store: Maps) -> None:
        self.rival, self.peer, self.classifier, self.crops, self.store = rival, peer, classifier, crops, store
        self.quick = folded_once(classifier)
        self.kept_as = f"{rival.name} {_fingerprint(rival, peer, classifier)}"

    def enters(self, seen: Indices, knows: bool, shown_boxes: npt.NDArray[np.bool_], few: int) -> Iterator[Entrant]:
        """A row for each class that it is told; in few photos if it is slow, in those not shown if it was shown boxes.

        seen: the classes (N,) that the classifier sees. knows: its classes are the photos'.
        """
        if self.rival.told == "class":
            told = {"the true class": self.crops.labels} if knows else {}
            told["the predicted class"] = seen
        else:
            told = {"nothing" if self.rival.told == "nothing" else "boxes, in training": np.zeros_like(seen)}
        rival, sees, work = self.rival, seen if knows else None, partial(self.explain, seen)
        given = max(1, few // rival.slow) if rival.slow else None
        chosen = np.flatnonzero(~shown_boxes) if rival.told == "boxes" else self.crops.few(given)
        for what, classes in told.items():
            seconds = partial(self.seconds, classes) if rival.slow else None
            masks = partial(self.masks, classes)
            yield Entrant(
                rival.name, what, chosen, masks, work, sees, rival.rule, rival.batch, rival.paper, seconds
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
                self.store.keep(self.kept_as, self.crops.names[i], classes[i], Kept(each, seconds))
            kept = [self._find(i, classes) for i in chosen]
        side = self.crops.size
        small = [torch.from_numpy(found.map)[None, None] for found in kept if found is not None]
        full = [interpolate(each, (side, side), mode="bilinear", align_corners=False) for each in small]
        return torch.cat(full)[:, 0].numpy()

    def seconds(self, classes: Indices, chosen: Indices) -> float:
        """What a map of the chosen photos took when it was made; the median."""
        kept = [self._find(i, classes) for i in chosen]
        return float(np.median([found.seconds for found in kept if found is not None]))

    def explain(self, classes: Indices, chosen: Indices) -> torch.Tensor:
        """Maps (n, h, w) from 0 to 1 of the chosen photos for their classes (N,), made anew."""
        f = self.quick
        images = normalised(self.crops.pictures[chosen], f.mean, f.std)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of libraries are to their authors
            maps = self.peer(f, images, torch.from_numpy(classes[chosen]))
        return maps if self.rival.masks else unit(maps)

    def _find(self, number: int, classes: Indices) -> Kept | None:
        return self.store.find(self.kept_as, self.crops.names[number], classes[number])


def _fingerprint(rival: Rival, peer: Peer, classifier: Classifier) -> str:
    """Of the program of a method, of what it has learned, and of what it explains."""
    kind = peer if inspect.isfunction(peer) else type(peer)
    programs = (inspect.getmodule(kind) or kind, *SHARED)
    digest = hashlib.sha256(f"{rival.masks} ".encode() + "".join(map(inspect.getsource, programs)).encode())
    for network in (classifier, getattr(peer, "network", None)):
        for name, tensor in sorted(network.state_dict().items() if isinstance(network, torch.nn.Module) else ()):
            digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()[:8]
