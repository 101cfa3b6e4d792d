"""The sanity check of Adebayo et al. 2018 with random weights, for the shipped mapping, CAM, Grad-CAM and the gradient.

    python benchmarks/sanity.py PHOTOS FIGURE.png [COUNT]

From the output to the input, the layers of the mapping (its decoder first, then its encoder) and of lite0 get random
weights, one after the other. At each depth the maps are compared with those of the trained network: a method whose maps
stay the same does not depend on what the network learned. The class to explain is the one that lite0 predicts.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import interpolate

from casmap.baselines import find_baseline
from casmap.baselines.gradient import plain_gradient
from casmap.data.batches import normalised
from casmap.data.resizing import resize
from casmap.data.sources import open_photos
from casmap.evaluation.numbers import mean_of
from casmap.evaluation.similarity import rank_correlation, ssim
from casmap.evaluation.trust import spread
from casmap.inference.mapper import SHIPPED
from casmap.models.cascade import layers_from_output, randomised
from casmap.models.onnx_training import load_trainable
from casmap.paper.plots import depths
from casmap.tools.classifiers import open_with_classes

SIDE, SMALL = 224, 56  # maps are compared at 56 x 56


def main(source: str, figure: str, count: str = "16") -> None:
    """Print a table and draw the figure."""
    torch.set_grad_enabled(True)
    photos = open_photos(source)
    squares = [resize(photos.image(int(i)), SIDE, "squash") for i in spread(len(photos), int(count))]
    (mapping, _), (lite0, _) = load_trainable(SHIPPED), open_with_classes("lite0")
    lite0 = lite0.to(memory_format=torch.contiguous_format)
    images = normalised(np.stack(squares), lite0.mean, lite0.std)
    with torch.no_grad():
        classes = lite0(images).argmax(dim=1)

    def of_mapping(network: torch.nn.Module, images: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return network(images)[0]

    methods = {
        "shipped mapping": (mapping, of_mapping),
        "CAM": (lite0, find_baseline("CAM").explain),
        "Grad-CAM": (lite0, find_baseline("grad-cam").explain),
        "gradient": (lite0, plain_gradient),
    }
    found: dict[str, dict[str, list[tuple[float, object]]]] = {"rank correlation": {}, "SSIM": {}}
    for name, (network, method) in methods.items():
        layers = layers_of(network)
        trained = maps(method, network, images, classes)
        for depth in range(len(layers) + 1):
            changed = maps(method, randomised(network, layers[:depth]).eval(), images, classes)
            for title, measure in (("rank correlation", rank_correlation), ("SSIM", ssim)):
                number = mean_of([measure(*pair) for pair in zip(trained, changed, strict=True)])
                found[title].setdefault(name, []).append((depth / len(layers), number))
                layer = layers[depth - 1] if depth else "none"
                shown = f"{number.value:.2f} [{number.low:.2f}, {number.high:.2f}]"
                print(f"{name} | {depth} of {len(layers)} | {layer} | {title} | {shown}", flush=True)
    Path(figure).write_bytes(depths(found, "share of the layers with random weights, from the output"))


def layers_of(network: torch.nn.Module) -> list[str]:
    """The layers in the order in which they get random weights: those of the decoder, then those of the encoder."""
    parts = [name for name in ("decoder", "encoder.network", "network") if has(network, name)]
    return [f"{part}.{layer}" for part in parts for layer in layers_from_output(network.get_submodule(part))]


def has(network: torch.nn.Module, name: str) -> bool:
    """Whether the network has a part of this name."""
    return name in dict(network.named_modules())


def maps(method, network, images, classes) -> list[np.ndarray]:
    """The maps (56, 56) of all images, in batches."""
    parts = [method(network, images[at : at + 8], classes[at : at + 8]).detach() for at in range(0, len(images), 8)]
    small = [interpolate(p.reshape(len(p), 1, *p.shape[-2:]), (SMALL, SMALL), mode="bilinear") for p in parts]
    return list(torch.cat(small)[:, 0].numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
