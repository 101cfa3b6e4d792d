"""Export a mapping to an ONNX file, which runs without torch, and measure what the export changes."""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from casmap.data.photos import PhotoSet
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.evaluation.evaluate import Number, localization_errors, map_photos
from casmap.evaluation.numbers import mean_of, paired_difference, percent, points
from casmap.evaluation.table import system_of
from casmap.inference.mapper import SaliencyMapper
from casmap.io.atomic import whole_file
from casmap.models.class_names import titles_of
from casmap.models.files import load_mapping
from casmap.models.network import SaliencyNetwork
from casmap.models.onnx_network import KEY
from casmap.reporting import SILENT, Reporter, counted

WORTH_HALVING = 1024  # numbers in a tensor


@dataclass(frozen=True)
class Loss:
    """LE of a mapping and of its export, the paired difference, and the largest change of a mask pixel."""

    before: Number
    after: Number
    difference: Number
    pixel: float
    photos: int

    def __str__(self) -> str:
        return (
            f"LE on {counted(self.photos, 'photo')}: {percent(self.before)} before, {percent(self.after)} after, "
            f"difference {points(self.difference)}; the largest change of a mask pixel is {self.pixel:.1e}."
        )


@dataclass(frozen=True)
class ExportResult:
    """The ONNX file, its size in bytes, and the loss, if photos were given to measure it on."""

    path: Path
    bytes: int
    loss: Loss | None


def export(
    mapping: str | Path, *, out: str | Path | None = None, half: bool = False, data: str | None = None,
    boxes: str | Path | None = None, masks: str | Path | None = None, split: str | None = None,
    reporter: Reporter = SILENT,
) -> ExportResult:  # fmt: skip
    """Write a mapping that `casmap train` wrote as an ONNX file, next to it or to `out`.

    half: 16-bit weights. data, with its boxes or masks: photos to measure the loss on.
    """
    path = Path(out or Path(mapping).with_suffix(".onnx"))
    if path.suffix != ".onnx":
        raise UserError(f"The name of an ONNX file must end in .onnx, not {path.name!r}.")
    if Path(mapping).suffix == ".onnx":
        raise UserError(f"{mapping} is an ONNX file already: give the .safetensors file that casmap train wrote.")
    photos = open_photos(data, held_out=True, boxes=boxes, masks=masks, split=split) if data else None
    export_onnx(*load_mapping(mapping), path, half)
    size = path.stat().st_size
    reporter.message(f"{path}: {size / 1e6:.1f} MB")
    loss = loss_of(mapping, path, photos) if photos else None
    if loss:
        reporter.message(str(loss))
    return ExportResult(path, size, loss)


def loss_of(mapping: str | Path, exported: str | Path, photos: PhotoSet) -> Loss:
    """Measure both on all annotated photos, with the paper's central crop, at alpha 1."""
    mappers = [SaliencyMapper.load(path) for path in (mapping, exported)]
    before, after = (map_photos(system_of(m, photos), photos, m.size, "crop") for m in mappers)
    a, b = localization_errors(before), localization_errors(after)
    largest = float(np.abs(before.masks - after.masks).max())
    return Loss(mean_of(a), mean_of(b), paired_difference(b, a), largest, len(a))


def export_onnx(network: SaliencyNetwork, about: dict[str, Any], path: str | Path, half: bool = False) -> None:
    """Write a mapping as one ONNX file, for any batch size and, unless the backbone has a fixed grid, any image size.

    half: store the weights as 16-bit floats, for a file of half the size; they are converted to 32 bits on loading.
    """
    any_size = {0: "batch", 2: "height", 3: "width"}
    with whole_file(path) as aside:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The newer exporter treats sizes as symbols: 8 minutes for lite0, whose padding depends on them,
            # while tracing one example takes a second.
            torch.onnx.export(
                network.cpu().eval(), (torch.zeros(2, 3, about["size"], about["size"]),), aside, dynamo=False,
                input_names=["images"], output_names=["masks", "logits"], opset_version=18,
                dynamic_axes={"images": any_size, "masks": any_size, "logits": {0: "batch"}},
            )  # fmt: skip
        model = onnx.load(aside)
        content = network.about() | about | {"titles": titles_of(network.classes)}
        helper.set_model_props(model, {KEY: json.dumps(content)})
        pad_by_attribute(model)
        if half:
            halve(model)
        onnx.checker.check_model(model)
        onnx.save(model, aside)


def pad_by_attribute(model: onnx.ModelProto) -> None:
    """Replace explicit padding before convolutions by their auto_pad attribute, in place.

    Backbones with TensorFlow's "same" padding compute it from the input size. Traced, that is ten operators and a copy
    of the feature maps before each convolution: a tenth of the total time.
    """
    graph = model.graph
    fixed = {tensor.name for tensor in graph.initializer} | {n.output[0] for n in graph.node if n.op_type == "Constant"}
    pads = {n.output[0]: n for n in graph.node if n.op_type == "Pad" and n.input[1] not in fixed}
    for node in graph.node:
        if node.op_type == "Conv" and node.input[0] in pads:
            node.input[0] = pads[node.input[0]].input[0]
            others = [attribute for attribute in node.attribute if attribute.name != "pads"]
            del node.attribute[:]
            node.attribute.extend([*others, helper.make_attribute("auto_pad", "SAME_UPPER")])
    _drop_unused(graph)


def classifier_alone(path: str | Path) -> bytes:
    """The ONNX model of a mapping's classifier alone, without masks: the reference for the cost of a mask."""
    model = onnx.load(path)
    logits = [output for output in model.graph.output if output.name == "logits"]
    del model.graph.output[:]
    model.graph.output.extend(logits)
    _drop_unused(model.graph)
    return bytes(model.SerializeToString())


def _drop_unused(graph: onnx.GraphProto) -> None:
    """Drop nodes and weights that no output needs."""
    needed, kept = {output.name for output in graph.output}, []
    for node in reversed(graph.node):
        if needed & set(node.output):
            needed |= set(node.input)
            kept.append(node)
    weights = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(reversed(kept))
    graph.initializer.extend(weights)


def halve(model: onnx.ModelProto) -> None:
    """Store large tensors as 16-bit floats, each followed by a cast to 32 bits, in place; runtimes fold the casts."""
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
