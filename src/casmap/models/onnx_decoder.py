"""The decoder of a mapping in an ONNX file as a torch module, so that training can start from it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import Tensor, nn

from casmap.io.reading import reading
from casmap.models.decoder import Decoder
from casmap.models.onnx_network import load_onnx

# The names that `casmap export` gives to convolutions and heads.
LATERAL, MASK, CAM_HEAD = "/decoder/lateral.", "/decoder/mask/Conv", "/cam_head"
NORM_EPS = nn.BatchNorm2d(1).eps


@dataclass(frozen=True)
class Start:
    """What training takes over from a mapping: its decoder, the head of its class activation map, and its size."""

    backbone: str
    classes: list[str]
    decoder: Decoder
    cam_head: nn.Linear | None
    size: int


def load_start(path: str | Path) -> Start:
    """The decoder and the head of a mapping that `casmap export` wrote; in evaluation mode their masks are the file's.

    An export folds each batch norm into the convolution before it. In the decoder returned, the folded weights are
    those of the convolution, and the batch norm only adds the folded bias: its statistics are mean 0 and variance 1.
    They are not the statistics of any photos, so keep the batch norms in evaluation mode while you train it.
    """
    about = load_onnx(path).about  # checks the file
    with reading(path, f"The mapping {path} is damaged: it has no decoder that casmap knows."):
        found = _weights(Path(path))
        with_cam = about.get("with_cam") is True
        channels = [int(weight.shape[1]) for weight, _ in found.laterals]
        decoder = Decoder(channels[:-1] if with_cam else channels, with_cam).eval()
        # MaskFilter reads its weight as (stages, 64, 9); a tap is (9, 64, 1, 1).
        taps = torch.stack([tap[:, :, 0, 0].T for tap in found.taps]).reshape(1, -1, 3, 3)
        state = {"mask.weight": taps, "mask.bias": found.bias}
        for number, (weight, bias) in enumerate(found.laterals):
            one = torch.ones_like(bias)
            norm = {"weight": one, "bias": bias, "running_mean": 0 * one, "running_var": (1 - NORM_EPS) * one}
            state |= {f"lateral.{number}.0.weight": weight}
            state |= {f"lateral.{number}.1.{name}": tensor for name, tensor in norm.items()}
            state |= {f"lateral.{number}.1.num_batches_tracked": torch.tensor(0)}
        decoder.load_state_dict(state)
        cam_head = None
        if with_cam:
            weight, bias = found.head
            cam_head = nn.Linear(weight.shape[1], weight.shape[0])
            cam_head.load_state_dict({"weight": weight, "bias": bias})
    return Start(about["backbone"], about["classes"], decoder, cam_head, about["size"])


@dataclass(frozen=True)
class _Weights:
    """Weight and bias of the 1x1 convolution of each stage, the taps and the bias of the mask filter, and the head."""

    laterals: list[tuple[Tensor, Tensor]]
    taps: list[Tensor]
    bias: Tensor
    head: tuple[Tensor, Tensor]


def _weights(path: Path) -> _Weights:
    """Read the weights of the decoder and its head from an ONNX file."""
    model = onnx.load(path)
    nodes = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm")]
    laterals = [node for node in nodes if node.name.startswith(LATERAL)]
    *taps, last = [node for node in nodes if node.name.startswith(MASK)]  # the last one only adds shifted channels
    heads = [node for node in nodes if node.op_type == "Gemm"]
    head = next((node for node in heads if node.name.startswith(CAM_HEAD)), heads[0])
    found = read_values(model, [name for node in (*laterals, *taps, last, head) for name in node.input[1:]])
    pairs = [(found[node.input[1]], found[node.input[2]]) for node in (*laterals, head)]
    return _Weights(pairs[:-1], [found[tap.input[1]] for tap in taps], found[last.input[2]], pairs[-1])


def read_values(model: onnx.ModelProto, names: Iterable[str]) -> dict[str, Tensor]:
    """The values of constants of a model, by their names.

    ONNX Runtime computes them, because a file may store them as 16-bit floats or in another order of axes.
    """
    wanted, asked = list(dict.fromkeys(names)), onnx.ModelProto()
    asked.CopyFrom(model)
    del asked.graph.output[:]
    asked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    session = onnxruntime.InferenceSession(asked.SerializeToString(), providers=["CPUExecutionProvider"])
    values = session.run(wanted, {"images": np.zeros((1, 3, 64, 64), np.float32)})
    return {name: torch.from_numpy(np.array(value, np.float32)) for name, value in zip(wanted, values, strict=True)}
