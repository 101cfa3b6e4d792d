"""Export: a mapping as an ONNX file, which runs without torch."""

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
from casmap.model.onnx_network import KEY

WORTH_HALVING = 1024  # numbers in a tensor


def export_onnx(network: SaliencyNetwork, about: dict[str, Any], path: str | Path, half: bool = False) -> None:
    """Write a mapping as one ONNX file, for any batch and, where the backbone has no fixed grid, any size of picture.

    half: keep the weights as 16-bit floats, for a file of half the size; they are widened when it is loaded.
    """
    any_size = {0: "batch", 2: "height", 3: "width"}
    with whole_file(path) as aside:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The newer exporter reasons about sizes as symbols: 8 minutes for lite0, whose padding depends on them,
            # where tracing one example takes a second.
            torch.onnx.export(
                network.cpu().eval(), (torch.zeros(2, 3, about["size"], about["size"]),), aside, dynamo=False,
                input_names=["images"], output_names=["masks", "logits"], opset_version=18,
                dynamic_axes={"images": any_size, "masks": any_size, "logits": {0: "batch"}},
            )  # fmt: skip
        model = onnx.load(aside)
        helper.set_model_props(model, {KEY: json.dumps({**network.about(), **about})})
        if half:
            halve(model)
        onnx.checker.check_model(model)
        onnx.save(model, aside)


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
