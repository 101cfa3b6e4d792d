"""Export: a mapping as an ONNX file, which runs without torch."""

import contextlib
import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from casmap.atomic import whole_file
from casmap.model.network import SaliencyNetwork
from casmap.model.onnx_network import KEY, LARGEST, SMALLEST

MANY = 4096  # photos in a batch, at most
WORTH_HALVING = 1024  # numbers in a tensor


def export_onnx(network: SaliencyNetwork, about: dict[str, Any], path: str | Path, half: bool = False) -> None:
    """Write a mapping as one ONNX file, for any batch and any size of picture.

    half: keep the weights as 16-bit floats, for a file of half the size; they are widened when it is loaded.
    """
    sides = {
        2: torch.export.Dim("height", min=SMALLEST, max=LARGEST),
        3: torch.export.Dim("width", min=SMALLEST, max=LARGEST),
    }
    dynamic = {0: torch.export.Dim("batch", min=1, max=MANY), **sides}
    example = torch.zeros(2, 3, about["size"], about["size"])
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):  # it talks
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            network.cpu().eval(), (example,), dynamo=True, dynamic_shapes=(dynamic,),
            input_names=["images"], output_names=["masks", "logits"],
        )  # fmt: skip
    assert program is not None  # it is only where a file is written at once
    model = program.model_proto
    helper.set_model_props(model, {KEY: json.dumps({**network.about(), **about})})
    if half:
        halve(model)
    onnx.checker.check_model(model)
    with whole_file(path) as aside:
        aside.write_bytes(model.SerializeToString())


def halve(model: onnx.ModelProto) -> None:
    """Keep large tensors as 16-bit floats, each followed by a cast to 32 bits, in place; runtimes fold the casts."""
    casts = []
    for tensor in model.graph.initializer:
        weights = numpy_helper.to_array(tensor)
        if weights.dtype == np.float32 and weights.size >= WORTH_HALVING:
            name = tensor.name
            tensor.CopyFrom(numpy_helper.from_array(weights.astype(np.float16), f"{name}_half"))
            casts.append(helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
