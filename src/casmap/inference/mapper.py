"""SaliencyMapper: photos in, saliency maps out; no class asked for, one forward pass."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, overload

import cv2
import numpy as np
import numpy.typing as npt
import PIL.Image

from casmap.data.resizing import resize
from casmap.errors import UserError
from casmap.inference.saliency_map import Mask, SaliencyMap
from casmap.io.images import open_image

SHIPPED = Path(__file__).parents[1] / "weights" / "casmap.onnx"  # the mapping that comes with the package

Source = str | Path | bytes | PIL.Image.Image | npt.NDArray[Any]


class Network(Protocol):
    """What runs a mapping: torch or ONNX Runtime."""

    classes: list[str]
    predicts: bool
    concurrent: bool  # whether threads gain by running it at the same time

    @property
    def mean(self) -> tuple[float, ...]:
        """Of the pixels, from 0 to 1."""
        ...

    @property
    def std(self) -> tuple[float, ...]:
        """Of the pixels, from 0 to 1."""
        ...

    def run(self, images: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Normalised images (N, 3, H, W) -> masks (N, H, W) and logits (N, classes)."""
        ...


class SaliencyMapper:
    """A trained mapping, ready to use.

    mapper = SaliencyMapper.load("mapping.safetensors")  # or .onnx; with no name, the one that comes with casmap
    mapper("cat.jpg").box()              # one photo: a SaliencyMap, its mask in the photo's own size
    for found in mapper.stream(paths):   # many, in batches
        found.save("maps")
    """

    def __init__(self, network: Network, size: int, about: dict[str, Any] | None = None) -> None:
        self.network, self.size, self.about = network, size, about or {}
        self.classes = network.classes
        self.titles: list[str] = self.about.get("titles", self.classes)  # as people call the classes

    @classmethod
    def load(cls, path: str | Path | None = None, device: str = "cpu", threads: int | None = None) -> "SaliencyMapper":
        """Read a mapping file, .onnx or .safetensors; with no name, the mapping that comes with casmap.

        threads: that ONNX Runtime may use for one call on a CPU; all cores where nothing is said.
        """
        if path is None or Path(path).suffix == ".onnx":
            from casmap.models.onnx_network import load_onnx

            if path is None and not Path(SHIPPED).exists():
                raise UserError("The mapping that comes with casmap is missing: install casmap again, or name one.")
            onnx = load_onnx(path or SHIPPED, device, threads)
            return cls(onnx, onnx.about["size"], onnx.about)
        if Path(path).is_file() and Path(path).suffix != ".safetensors":
            raise UserError(f"{path} is no mapping: casmap writes them as .safetensors and .onnx files.")
        from casmap.models.class_names import titles_of
        from casmap.models.device import find_device  # torch is loaded only when a torch mapping is
        from casmap.models.files import load_mapping

        network, about = load_mapping(path)
        about["titles"] = titles_of(network.classes)
        return cls(network.to(find_device(device)), about["size"], about)

    @overload
    def __call__(self, photo: Source) -> SaliencyMap: ...
    @overload
    def __call__(self, photo: list[Source]) -> list[SaliencyMap]: ...
    def __call__(self, photo: Source | list[Source]) -> SaliencyMap | list[SaliencyMap]:
        """The map of a photo (path, bytes, PIL image, array), or the maps of a list of photos."""
        return list(self.stream(photo)) if isinstance(photo, list) else next(self.stream([photo]))

    def stream(self, photos: Iterable[Source], batch: int = 16) -> Iterator[SaliencyMap]:
        """The maps of any number of photos, in their order, holding one batch of them at a time."""
        waiting = enumerate(photos, 1)
        while numbered := list(islice(waiting, batch)):
            images = [open_image(source) for _, source in numbered]
            masks, _ = self.masks(np.stack([resize(image, self.size, "squash") for image in images]))
            for (number, source), image, mask in zip(numbered, images, masks, strict=True):
                yield SaliencyMap(image, fit(mask, *image.shape[1::-1]), name_of(source, number))

    def masks(self, images: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Masks (N, H, W) and logits (N, classes) of pictures (N, H, W, 3) at the network's own size."""
        mean, std = (np.array(numbers, np.float32) * 255 for numbers in (self.network.mean, self.network.std))
        levels = ((np.arange(256, dtype=np.float32)[:, None] - mean) / std)[None]  # a table is a tenth of the work
        normalised = np.empty((len(images), 3, *images.shape[1:3]), np.float32)
        for image, to in zip(images, normalised, strict=True):
            to[:] = cv2.LUT(image, levels).transpose(2, 0, 1)
        return self.network.run(normalised)

    def __repr__(self) -> str:
        backbone = self.about.get("backbone", "?")
        return f"SaliencyMapper({backbone}, {self.size} px, {len(self.classes)} classes)"


def fit(mask: Mask, width: int, height: int) -> Mask:
    """Bring a mask to its photo's size."""
    return np.asarray(cv2.resize(mask, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)


def name_of(source: Source, number: int) -> str:
    """What a map's files are called: the photo's own name without its ending; a number where it has none."""
    if isinstance(source, str | Path):
        return Path(source).stem
    return "photo" if number == 1 else f"photo-{number}"


def names_of(mappings: list[Path]) -> list[str]:
    """A short name for each mapping file: its folder's, or the whole path where two are the same."""
    for path in mappings:
        if not path.exists():
            raise UserError(f"There is no file {path}.")
    short = [path.resolve().parent.name if path.stem == "mapping" else path.stem for path in mappings]
    return [str(path) if Counter(short)[name] > 1 else name for path, name in zip(mappings, short, strict=True)]
