"""SaliencyMapper: photos in, saliency maps out; no class asked for, one forward pass."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import cv2
import numpy as np
import numpy.typing as npt
import PIL.Image

from casmap.data.resizing import resize
from casmap.images import Image, open_image
from casmap.saliency_map import Mask, SaliencyMap

if TYPE_CHECKING:
    from casmap.model.network import SaliencyNetwork

Source = str | Path | bytes | PIL.Image.Image | npt.NDArray[Any]


class SaliencyMapper:
    """A trained mapping, ready to use.

    mapper = SaliencyMapper.load("mapping.safetensors")
    mapper("cat.jpg").box()              # one photo: a SaliencyMap, its mask in the photo's own size
    for found in mapper.stream(paths):   # many, in batches
        found.save("maps")
    """

    def __init__(
        self, network: "SaliencyNetwork", size: int, device: str = "cpu", about: dict[str, Any] | None = None
    ) -> None:
        self.network, self.size, self.device, self.about = network.to(device).eval(), size, device, about or {}
        self.classes = network.classes

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> "SaliencyMapper":
        """Read a mapping file."""
        from casmap.model.device import find_device  # torch is loaded only when a torch mapping is
        from casmap.model.files import load_mapping

        network, about = load_mapping(path)
        return cls(network, about["size"], str(find_device(device)), about)

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
                yield SaliencyMap(image, fit(mask, image), name_of(source, number))

    def masks(self, images: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Masks (N, H, W) and logits (N, classes) of pictures (N, H, W, 3) at the network's own size."""
        import torch

        encoder = self.network.encoder
        mean, std = (np.array(numbers, np.float32) * 255 for numbers in (encoder.mean, encoder.std))
        tensor = torch.from_numpy((images - mean) / std).permute(0, 3, 1, 2).to(self.device)
        with torch.inference_mode():
            masks, logits = self.network(tensor)
        return masks[:, 0].cpu().numpy(), logits.cpu().numpy()

    def __repr__(self) -> str:
        backbone = self.about.get("backbone", "?")
        return f"SaliencyMapper({backbone}, {self.size} px, {len(self.classes)} classes)"


def fit(mask: Mask, photo: Image) -> Mask:
    """Bring a mask to its photo's size."""
    height, width = photo.shape[:2]
    return np.asarray(cv2.resize(mask, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)


def name_of(source: Source, number: int) -> str:
    """What a map's files are called: the photo's own name without its ending; a number where it has none."""
    if isinstance(source, str | Path):
        return Path(source).stem
    return "photo" if number == 1 else f"photo-{number}"
