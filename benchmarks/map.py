"""The cost of a saliency map, compared with its classifier's forward pass and with pytorch-grad-cam.

python benchmarks/map.py
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from bench import Ratio, in_turns, ratio, report
from onnxruntime import InferenceSession, SessionOptions
from pytorch_grad_cam import GradCAM
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
from torch import Tensor, nn

from casmap.inference.edges import fit_mask
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.io.memory import reuse_memory
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.network import SaliencyNetwork
from casmap.models.onnx_network import load_onnx
from casmap.tools.export import classifier_alone, export_onnx

SIDE, CLASSES = 224, 1000
BARS = {"resnet50": "<= 1.10", "lite0": "<= 1.20"}
SHARP_BAR = "<= 1.25"


def main() -> None:
    """Time random weights, which take as long as trained ones."""
    reuse_memory()
    torch.manual_seed(0)
    found: list[Ratio] = [shipped(edges) for edges in (False, True)]
    for backbone, bar in BARS.items():
        encoder = Classifier(backbone, CLASSES)
        network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels), list(map(str, range(CLASSES))), True)
        network.eval().requires_grad_(False).to(memory_format=torch.channels_last)
        found += [in_torch(network, batch, bar) for batch in (8, 32)]
        found += [in_onnx(network, 8), beside_grad_cam(network, 8)]
    report(found)


def random_images(batch: int) -> Tensor:
    """Noise in the memory layout of `SaliencyNetwork.run`."""
    return torch.rand(batch, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last)


def in_torch(network: SaliencyNetwork, batch: int, bar: str) -> Ratio:
    """Images to masks, compared with images to logits."""
    images = random_images(batch)
    with torch.inference_mode():
        seconds = in_turns({"map": lambda: network(images), "bare": lambda: network.encoder(images)})
    what = f"map / bare forward pass, {network.encoder.backbone}, torch, {batch} photos"
    return ratio(what, seconds["map"], seconds["bare"], bar, batch)


def in_onnx(network: SaliencyNetwork, batch: int) -> Ratio:
    """The same in ONNX Runtime."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mapping.onnx"
        export_onnx(network, {"size": SIDE}, path)
        mapping, alone = load_onnx(path).session, InferenceSession(classifier_alone(path))
        feed = {"images": random_images(batch).contiguous().numpy()}
        seconds = in_turns(
            {
                "map": lambda: mapping.run(["masks", "logits"], feed),
                "bare": lambda: alone.run(["logits"], feed),
            }
        )
    what = f"map / bare forward pass, {network.encoder.backbone}, ONNX Runtime, {batch} photos"
    return ratio(what, seconds["map"], seconds["bare"], "", batch)


def shipped(edges: bool, batch: int = 8) -> Ratio:
    """Maps by the shipped mapping, with sharp edges or as the decoder gives them, and its classifier alone.

    One thread and CPU time, for the filter and the network use threads differently.
    """
    mapper, options = SaliencyMapper.load(threads=1), SessionOptions()
    options.intra_op_num_threads = 1
    alone = InferenceSession(classifier_alone(SHIPPED), options)
    squares = (255 * torch.rand(batch, mapper.size, mapper.size, 3)).byte().numpy()
    images = np.ascontiguousarray(squares.transpose(0, 3, 1, 2), np.float32) / 255

    def maps() -> None:
        masks, _ = mapper.network.run(images)
        if edges:
            for mask, square in zip(masks, squares, strict=True):
                fit_mask(mask, square, square)

    seconds = in_turns(
        {"map": maps, "bare": lambda: alone.run(["logits"], {"images": images})}, clock=time.process_time
    )
    what = f"map{' with sharp edges' * edges} / bare forward pass, shipped mapping, ONNX Runtime, {batch} photos"
    return ratio(what, seconds["map"], seconds["bare"], SHARP_BAR if edges else "", batch)


def beside_grad_cam(network: SaliencyNetwork, batch: int) -> Ratio:
    """Grad-CAM with given classes, compared with a map, which needs none; both in torch."""
    images, backbone = random_images(batch), network.encoder.backbone
    model: nn.Module = network.encoder.network
    layer = model.layer4[-1] if backbone == "resnet50" else model.bn2
    targets = [ClassifierOutputTarget(number) for number in range(batch)]
    for weights in model.parameters():
        weights.requires_grad_(True)  # the default of a classifier
    with GradCAM(model=model, target_layers=[layer]) as explain:
        seconds = in_turns(
            {"Grad-CAM": lambda: explain(input_tensor=images, targets=targets), "map": lambda: mapped(network, images)}
        )
    what = f"pytorch-grad-cam / map, {backbone}, {batch} photos"
    return ratio(what, seconds["Grad-CAM"], seconds["map"], ">= 1.8", batch)


@torch.inference_mode()
def mapped(network: SaliencyNetwork, images: Tensor) -> Tensor:
    """Masks alone."""
    return network(images)[0]


if __name__ == "__main__":
    main()
