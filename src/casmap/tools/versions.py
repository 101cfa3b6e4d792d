"""A photo as classifiers are asked about it: whole, masked in, masked out, and masked out and inpainted."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from casmap.data.batches import normalised
from casmap.inference.saliency_map import SaliencyMap

WHOLE = "whole"
VERSIONS = ("masked-in", "masked-out", "inpainted")  # beside the whole one

Pictures = npt.NDArray[np.uint8]
Binaries = npt.NDArray[np.bool_]


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
    return {
        WHOLE: whole,
        "masked-in": b * whole,
        "masked-out": (1 - b) * whole,
        "inpainted": normalised(filled, mean, std),
    }
