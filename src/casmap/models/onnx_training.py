"""The network of a mapping in an ONNX file as a torch module, so that its decoder can be trained further."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from casmap.errors import UserError
from casmap.io.reading import reading
from casmap.models.classifier import Classifier
from casmap.models.network import SaliencyNetwork
from casmap.models.onnx_decoder import CAM_HEAD, load_start, read_values
from casmap.models.onnx_network import load_onnx

TOLERANCE = 1e-2  # greatest difference of a mask pixel


def load_trainable(path: str | Path) -> tuple[SaliencyNetwork, dict[str, Any]]:
    """The network of a mapping that `casmap export` wrote, in evaluation mode, and its metadata.

    Its masks are those of the file. Keep the batch norms in evaluation mode: the export folded their statistics into
    the convolutions.
    """
    start, original = load_start(path), load_onnx(path)
    about = original.about
    encoder = Classifier(start.backbone, len(original.classes)).eval()
    with reading(path, f"The mapping {path} cannot be trained: its network is not that of {start.backbone}."):
        _fill(encoder, Path(path))
    cam_head = start.cam_head if "cam_classes" in about else None
    network = SaliencyNetwork(encoder, start.decoder, original.classes, original.predicts, cam_head).eval()
    images = np.random.default_rng(0).standard_normal((1, 3, about["size"], about["size"])).astype(np.float32)
    if np.abs(network.run(images)[0] - original.run(images)[0]).max() > TOLERANCE:
        raise UserError(f"The mapping {path} cannot be trained: give the .safetensors file that it was exported from.")
    return network, about


@torch.no_grad()
def _fill(encoder: Classifier, path: Path) -> None:
    """Copy the weights of the file's convolutions and heads to the layers that run in the same order."""
    model = onnx.load(path)
    nodes = [
        node for node in model.graph.node
        if node.op_type in ("Conv", "Gemm") and not node.name.startswith(("/decoder", CAM_HEAD))
    ]  # fmt: skip
    values = read_values(model, [name for node in nodes for name in node.input[1:]])
    for (layer, norm), node in zip(_layers(encoder), nodes, strict=True):
        weight, *bias = (values[name] for name in node.input[1:])
        if weight.shape != layer.weight.shape:
            raise ValueError("other layers")
        layer.weight.copy_(weight)
        _set_bias(layer, norm, bias[0] if bias else torch.zeros(len(weight)))


def _set_bias(layer: nn.Conv2d | nn.Linear, norm: nn.BatchNorm2d | None, bias: Tensor) -> None:
    """Add `bias` after a layer: in its batch norm, which otherwise becomes the identity, or in the layer itself."""
    if norm is not None:
        assert norm.running_mean is not None
        assert norm.running_var is not None
        norm.weight.fill_(1)
        norm.bias.copy_(bias)
        norm.running_mean.zero_()
        norm.running_var.fill_(1 - norm.eps)
        bias = torch.zeros_like(bias)
    if layer.bias is not None:
        layer.bias.copy_(bias)
    elif bias.any():
        raise ValueError("a bias that the layer does not have")


def _layers(encoder: Classifier) -> list[tuple[nn.Conv2d | nn.Linear, nn.BatchNorm2d | None]]:
    """The convolutions and linear layers in the order in which they run, each with the batch norm that follows it."""
    ran: list[nn.Module] = []
    kinds = (nn.Conv2d, nn.Linear, nn.BatchNorm2d)
    chosen = [module for module in encoder.modules() if isinstance(module, kinds)]
    hooks = [module.register_forward_hook(lambda module, *_: ran.append(module)) for module in chosen]
    encoder(torch.zeros(1, 3, encoder.side, encoder.side))
    for hook in hooks:
        hook.remove()
    pairs = zip(ran, [*ran[1:], None], strict=True)
    return [
        (layer, after if isinstance(after, nn.BatchNorm2d) else None)
        for layer, after in pairs if isinstance(layer, (nn.Conv2d, nn.Linear))
    ]  # fmt: skip
