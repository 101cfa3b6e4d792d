"""SaliencyMapper: a mapping with its network; one forward pass gives the saliency maps of photos, without a class."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, overload

import cv2
import numpy as np
import numpy.typing as npt

from casmap.data.resizing import resize
from casmap.errors import UnreadableImage, UserError
from casmap.inference.components import Mask
from casmap.inference.edges import Edges, check_edges, fit_mask
from casmap.inference.saliency_map import SaliencyMap
from casmap.io.arrays import Window, as_array, is_batch, is_tensor
from casmap.io.images import Image, Opened, Source, open_photo, path_of, unusable
from casmap.reporting import counted

SHIPPED = Path(__file__).parents[1] / "weights" / "casmap.onnx"  # the shipped mapping
OnError = Literal["raise", "skip"]


class Network(Protocol):
    """The network of a mapping, run by torch or by ONNX Runtime."""

    classes: list[str]
    predicts: bool  # whether it predicts the class of a photo
    concurrent: bool  # whether several threads should run it at the same time

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean of the pixels per channel, on a scale of 0 to 1."""

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviation of the pixels per channel, on the same scale."""

    def run(self, images: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Map normalised images (N, 3, H, W) to masks (N, H, W) and logits (N, classes)."""


class PhotoOpener(Protocol):
    """A way to open a photo: `open_photo`, or `casmap.io.opener.Opener`, which does it in another process."""

    def __call__(self, source: Source, *, window: Window | None, least: int | None) -> Opened:
        """Open a photo, or raise UnreadableImage."""


@dataclass(frozen=True, eq=False)
class Mapped:
    """A photo and the output of the network for it.

    photo: (H, W, 3), at its full size (width, height) or smaller. square: the network's input, (S, S, 3). mask: its
    output, (S, S). edges: how the mask is fitted to the photo.
    """

    source: Source
    photo: Image = field(repr=False)
    width: int
    height: int
    square: Image = field(repr=False)
    mask: Mask = field(repr=False)
    edges: Edges = "sharp"
    label: str | None = None
    confidence: float | None = None

    @cached_property
    def fitted_mask(self) -> Mask:
        """The mask at the size of `photo`."""
        return fit_mask(self.mask, self.square, self.photo, self.edges)

    def full_mask(self) -> Mask:
        """The mask at the photo's full size."""
        if self.photo.shape[:2] == (self.height, self.width):
            return self.fitted_mask
        return np.asarray(cv2.resize(self.fitted_mask, (self.width, self.height)), np.float32)

    def saliency_map(self, name: str = "photo") -> SaliencyMap:
        """The saliency map at the size of `photo`."""
        return SaliencyMap(self.photo, self.fitted_mask, name, self.label, self.confidence, path_of(self.source))


class SaliencyMapper:
    """A trained mapping that maps photos to saliency maps.

    ```python
    mapper = casmap.load("mapping.safetensors")  # or .onnx; without a path, the shipped mapping
    mapper("cat.jpg").box()              # one photo: a SaliencyMap with a mask of the photo's size
    for found in mapper.stream(paths):   # many photos, in batches
        found.save("maps")
    ```
    """

    def __init__(
        self, network: Network, size: int, about: dict[str, Any] | None = None, edges: Edges = "sharp"
    ) -> None:
        self.network, self.size, self.about, self.edges = network, size, about or {}, check_edges(edges)
        self.classes = network.classes
        self.titles: list[str] = self.about.get("titles", self.classes)  # readable names of the classes

    @classmethod
    def load(
        cls, path: str | os.PathLike[str] | None = None, device: str = "cpu", threads: int | None = None,
        edges: Edges = "sharp",
    ) -> "SaliencyMapper":  # fmt: skip
        """Load a mapping file, .onnx or .safetensors; without a path, the shipped mapping.

        threads: how many ONNX Runtime uses for one call on a CPU (default: all cores). edges: "sharp", masks that
        follow the photo's edges, or "smooth", masks that are only interpolated.
        """
        if path is None or Path(path).suffix == ".onnx":
            from casmap.models.onnx_network import load_onnx

            if path is None and not Path(SHIPPED).exists():
                raise UserError("The shipped mapping is missing: reinstall casmap, or give a mapping.")
            onnx = load_onnx(Path(path or SHIPPED), device, threads)
            return cls(onnx, onnx.about["size"], onnx.about, edges)
        if Path(path).is_file() and Path(path).suffix != ".safetensors":
            raise UserError(f"{path} is not a mapping: give a .safetensors or .onnx file.")
        from casmap.models.class_names import titles_of
        from casmap.models.classifier import find_device  # imports torch
        from casmap.models.files import load_mapping

        network, about = load_mapping(Path(path))
        about["titles"] = titles_of(network.classes)
        return cls(network.to(find_device(device)), about["size"], about, edges)

    @overload
    def __call__(self, photo: Source, *, on_error: OnError = "raise") -> SaliencyMap: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, photo: Iterable[Source], *, on_error: OnError = "raise") -> list[SaliencyMap]: ...
    def __call__(
        self, photo: Source | Iterable[Source], *, on_error: OnError = "raise"
    ) -> SaliencyMap | list[SaliencyMap]:
        """The saliency map of a photo, or a list of them for several: an iterable or an array (N, H, W, 3).

        A photo is a path, the bytes of a file, an open binary file, a Pillow image, an array (H, W) or (H, W, 3), or a
        torch tensor (3, H, W). on_error="skip" skips unreadable photos if several are given; `source` of each result
        is its path.
        """
        if is_batch(photo):
            return list(self.stream(as_array(photo), on_error=on_error))
        one = isinstance(photo, str | bytes | bytearray | memoryview | os.PathLike | np.ndarray) or is_tensor(photo)
        if one or hasattr(photo, "read") or not hasattr(photo, "__iter__"):
            return next(self.stream([photo]))  # type: ignore[list-item]
        return list(self.stream(photo, on_error=on_error))  # type: ignore[arg-type]

    def stream(
        self, photos: Iterable[Source], batch: int = 16, *, on_error: OnError = "raise"
    ) -> Iterator[SaliencyMap]:
        """Yield the saliency maps of any number of photos, in order, with one batch in memory at a time.

        A map has the name of its file without the suffix; without a file it is photo, photo-2 and so on.
        """
        if on_error not in get_args(OnError):
            raise UserError(f"on_error must be 'raise' or 'skip', not {on_error!r}.")
        if batch < 1:
            raise UserError(f"batch must be at least 1, not {batch}.")
        photos = [photos] if isinstance(photos, str | bytes | os.PathLike) else photos
        waiting = enumerate(photos, 1)
        while numbered := list(islice(waiting, batch)):
            found = self.map([source for _, source in numbered])
            for (number, source), one in zip(numbered, found, strict=True):
                if isinstance(one, Mapped):
                    unnamed = "photo" if number == 1 else f"photo-{number}"
                    yield one.saliency_map(Path(path_of(source)).stem or unnamed)
                elif on_error == "raise":
                    raise one

    def map(
        self, sources: Sequence[Source], *, window: Window | None = None, least: int | None = None,
        turn: AbstractContextManager[Any] | None = None, opener: PhotoOpener | None = None,
    ) -> list[Mapped | UnreadableImage]:  # fmt: skip
        """Open and resize photos and run the network. The result for an unreadable photo is its error.

        window: centre and width for DICOM. least: open the photo at a reduced size with at least this shorter side, in
        pixels. turn: a lock to hold while the network runs. opener: how a photo is opened (default: in this process).
        """
        opener, squares = opener or open_photo, []
        opened: list[Opened | UnreadableImage] = []
        for source in sources:
            try:
                one = opener(source, window=window, least=least)
                squares.append(resize(one.image, self.size, "squash"))
                opened.append(one)
            except UnreadableImage as error:
                opened.append(error)
            except UserError:
                raise
            except Exception as error:  # MemoryError, or OpenCV's
                opened.append(unusable(source, error))
        with turn or nullcontext():
            passed = iter(zip(squares, *self.masks(np.stack(squares)), strict=True) if squares else ())
        found: list[Mapped | UnreadableImage] = []
        for source, each in zip(sources, opened, strict=True):
            if isinstance(each, UnreadableImage):
                found.append(each)
                continue
            square, mask, logits = next(passed)
            label = confidence = None
            if self.network.predicts:
                best = int(logits.argmax())
                label, confidence = self.titles[best], float(1 / np.exp(logits.astype(np.float64) - logits[best]).sum())
            size = each.width, each.height
            found.append(Mapped(source, each.image, *size, square, mask, self.edges, label, confidence))
        return found

    def masks(self, images: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Masks (N, H, W) and logits (N, classes) of images (N, H, W, 3) at the network's size."""
        return self.network.run(self.normalised(images))

    def normalised(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """The network's input (N, 3, H, W) for images (N, H, W, 3); 0 is the mean colour."""
        mean, std = (np.array(numbers, np.float32) * 255 for numbers in (self.network.mean, self.network.std))
        levels = ((np.arange(256, dtype=np.float32)[:, None] - mean) / std)[None]  # a table takes a tenth of the time
        normalised = np.empty((len(images), 3, *images.shape[1:3]), np.float32)
        for image, to in zip(images, normalised, strict=True):
            to[:] = cv2.LUT(image, levels).transpose(2, 0, 1)
        return normalised

    @property
    def caution(self) -> str | None:
        """A sentence if the mapping was judged doubtful or failed when it was trained; None if not, or if unknown."""
        judged = self.about.get("verdict")
        if not isinstance(judged, dict) or judged.get("verdict") not in ("doubtful", "failed"):
            return None
        reasons = judged.get("reasons")
        first = f": {reasons[0]}" if isinstance(reasons, list) and reasons else "."
        return f"This mapping has the verdict {judged['verdict']}{first}"

    def __repr__(self) -> str:
        backbone = self.about.get("backbone", "?")
        return f"SaliencyMapper({backbone}, {self.size} px, {counted(len(self.classes), 'class')})"


def load(
    path: str | os.PathLike[str] | None = None, *, device: str = "cpu", threads: int | None = None,
    edges: Edges = "sharp",
) -> SaliencyMapper:  # fmt: skip
    """Load the shipped mapping, or a mapping file written by `casmap train` or `casmap export`.

    device: "cpu", or "cuda" or "mps" if the runtime of the mapping supports it. threads: how many ONNX Runtime uses for
    one call on a CPU (default: all cores). edges: "sharp", masks that follow the photo's edges, or "smooth", masks that
    are only interpolated.

    >>> load()
    SaliencyMapper(lite0, 288 px, 1000 classes)
    """
    return SaliencyMapper.load(path, device, threads, edges)


def as_mapper(
    mapping: str | os.PathLike[str] | SaliencyMapper | None, device: str = "cpu", threads: int | None = None,
    edges: Edges | None = None,
) -> SaliencyMapper:  # fmt: skip
    """Load a mapping, unless it is loaded already: then it has its own device, threads and edges."""
    if not isinstance(mapping, SaliencyMapper):
        return SaliencyMapper.load(mapping, device, threads, edges or "sharp")
    if edges is not None:
        raise UserError(f"edges={edges!r} cannot change a loaded mapping: give it to casmap.load instead.")
    return mapping


def load_mappers(mappings: Sequence[Path]) -> dict[str, SaliencyMapper]:
    """Load mappings, by the names that `names_of` gives them."""
    return {name: SaliencyMapper.load(path) for name, path in zip(names_of(mappings), mappings, strict=True)}


def names_of(mappings: Sequence[Path]) -> list[str]:
    """A name for each mapping file: its stem, its folder for mapping.*, or its path where two names are equal."""
    for path in mappings:
        if not path.exists():
            raise UserError(f"There is no file {path}.")
    short = [path.resolve().parent.name if path.stem == "mapping" else path.stem for path in mappings]
    return [str(path) if Counter(short)[name] > 1 else name for path, name in zip(mappings, short, strict=True)]
