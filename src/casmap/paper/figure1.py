"""Figure 1: the architecture, drawn from the model itself."""

from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import Tensor, nn

from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.paper.outcome import Cell, Outcome
from casmap.paper.plots import BLUE, GREY, ORANGE, png
from casmap.paper.study import Study

TRAINING = "training only"


@dataclass(frozen=True)
class Layer:
    """A layer of the networks: its name, its part, its output (channels, height, width) and its parameters."""

    name: str
    part: str
    shape: tuple[int, ...]
    parameters: int

    @property
    def size(self) -> str:
        """The shape as text, such as 3 x 224 x 224."""
        return " x ".join(map(str, self.shape))


def _layers(classifier: Classifier, decoder: Decoder, size: int) -> list[Layer]:
    """The layers that one blank image passes in encoder and decoder, and in the classifier of training."""
    outputs: dict[nn.Module, tuple[int, ...]] = {}

    def record(layer: nn.Module, _: object, output: Tensor) -> None:
        outputs[layer] = tuple(output.shape[1:])

    hooks = [layer.register_forward_hook(record) for layer in (*decoder.lateral, decoder.mask)]
    with torch.no_grad():
        logits, stages = classifier.eval().forward_stages(torch.zeros(1, 3, size, size))
        mask = decoder.eval()(stages, (size, size))
    for hook in hooks:
        hook.remove()
    names = [f"stage {number}" for number in range(1, len(stages) + 1)]
    whole, hidden = _parameters(classifier), (decoder.mask.in_channels, *outputs[decoder.mask][1:])
    found = [Layer("photo x", "input", (3, size, size), 0)]
    found += [Layer(name, "encoder", tuple(stage.shape[1:]), 0) for name, stage in zip(names, stages, strict=True)]
    found.append(Layer("logits f(x)", "encoder", tuple(logits.shape[1:]), whole))
    for name, lateral in zip(names, decoder.lateral, strict=True):
        label = f"{name}: 1x1 convolution, batch norm, ReLU, rescaled"
        found.append(Layer(label, "decoder", (outputs[lateral][0], *hidden[1:]), _parameters(lateral)))
    found.append(Layer("H, all of them concatenated", "decoder", hidden, 0))
    found.append(Layer("3x3 convolution, sigmoid", "decoder", outputs[decoder.mask], _parameters(decoder.mask)))
    found.append(Layer("mask m(x), upscaled", "decoder", tuple(mask.shape[1:]), 0))
    found.append(Layer("masked-out photo (1 - m(x)) x", TRAINING, (3, size, size), 0))
    found.append(Layer("f'((1 - m(x)) x), a classifier drawn from F", TRAINING, tuple(logits.shape[1:]), whole))
    return found


def run_figure1(*, backbone: str = "resnet50", classes: int = 1000, size: int = 224, out: Path) -> Outcome:
    """The architecture of a backbone's mapping: a figure, and a table of its layers."""
    classifier = Classifier(backbone, classes)
    Study(out / "figure1", {"backbone": backbone, "classes": classes, "size": size})
    found = _layers(classifier, Decoder(classifier.stage_channels), size)
    head = ["layer", "part", "output", "parameters"]
    texts = [(each.name, each.part, each.size, f"{each.parameters:,}" if each.parameters else "") for each in found]
    records = [dict(zip(head, (each.name, each.part, each.size, each.parameters), strict=True)) for each in found]
    return Outcome(
        "figure1", f"Figure 1: the architecture, with {backbone}",
        f"Drawn from the model: {backbone} with {classes} classes, images of {size} pixels. Encoder and decoder form "
        "the mapping: extraction takes one pass. The second pass, of a classifier on the masked-out photo, is for "
        "training only. A shared encoder is the classifier itself.",
        head, [[*map(Cell, row)] for row in texts], records, {"": draw(found, backbone)},
    )  # fmt: skip


def draw(found: list[Layer], backbone: str) -> bytes:
    """The layers as boxes, as high as their feature maps: the mapping on grey, the parts for training only below it."""
    encoder = [layer for layer in found if layer.part in ("input", "encoder") and len(layer.shape) == 3]
    *laterals, hidden, convolved, mask = [layer for layer in found if layer.part == "decoder"]
    masked, drawn = [layer for layer in found if layer.part == TRAINING]
    side = encoder[0].shape[1]
    figure = Figure(figsize=(13, 6.8), layout="constrained")
    axes = figure.subplots()
    end, top, low, training = len(encoder), 1.4, -0.35, -2.1  # x of the last stage's end; y of the three rows
    axes.add_patch(Rectangle((-0.6, -1.15), end + 4.3, 3.35, color="#8882", linewidth=0))
    axes.text(-0.5, 2.25, "the mapping m: one pass, which is all that extraction needs", fontsize=10, va="bottom")
    for place, layer in enumerate(encoder):
        _box(axes, place, top, layer, side, GREY if place == 0 else BLUE)
        _arrow(axes, (place + 0.28, top), (place + 0.72, top))
    logits = next(layer for layer in found if layer.name == "logits f(x)")
    beside = f"f(x): {logits.size} logits\n{logits.parameters / 1e6:.1f} million parameters"
    axes.text(end - 0.2, top, beside, fontsize=9, va="center")
    for place, layer in enumerate(laterals, 1):
        beneath = top - (_half(encoder[place], side) if place < end else 0) - 0.2
        _arrow(axes, (place, beneath), (place, low + _half(layer, side) + 0.32))
        _box(axes, place, low, layer, side, ORANGE, "1×1, batch\nnorm, ReLU")
        axes.plot([place, place], [low - _half(layer, side) - 0.2, -0.95], color=GREY, linewidth=1)
    axes.plot([1, end + 0.5], [-0.95, -0.95], color=GREY, linewidth=1)
    _arrow(axes, (end + 0.5, -0.95), (end + 0.5, low - _half(hidden, side) - 0.17))
    labels = ("H, all\nconcatenated", "3×3,\nsigmoid", "mask m(x)")
    for place, (layer, label) in enumerate(zip((hidden, convolved, mask), labels, strict=True)):
        x = end + 0.5 + 1.3 * place
        _box(axes, x, low, layer, side, ORANGE, label)
        if place:
            _arrow(axes, (x - 0.95, low), (x - 0.3, low))
    right = end + 0.5 + 2.6
    axes.text(-0.5, -1.4, "training only", fontsize=10, color=GREY, va="top")
    _box(axes, right, training, masked, side, GREY, "(1 - m(x)) x", dashed=True)
    _arrow(axes, (right, -1.18), (right, training + _half(masked, side) + 0.22), dashed=True)
    axes.add_patch(Rectangle((end - 3.2, training - 0.3), 3.4, 0.6, fill=False, edgecolor=BLUE, linestyle="--"))
    axes.text(end - 1.5, training, f"f', drawn from F: {backbone}", fontsize=9, ha="center", va="center")
    _arrow(axes, (right - 0.42, training), (end + 0.25, training), dashed=True)
    score = f"{drawn.size} logits,\ntheir entropy: the score S"
    axes.text(end - 3.4, training, score, fontsize=9, ha="right", va="center", color=GREY)
    axes.set_xlim(-0.7, end + 3.8)
    axes.set_ylim(-2.8, 2.6)
    axes.axis("off")
    return png(figure)


def _box(
    axes: Axes, x: float, y: float, layer: Layer, side: int, colour: str, label: str = "", dashed: bool = False
) -> None:
    half, style, face = _half(layer, side), "--" if dashed else "-", f"{colour}55"
    box = Rectangle((x - 0.16, y - half), 0.32, 2 * half, facecolor=face, edgecolor=colour, linestyle=style)
    axes.add_patch(box)
    axes.text(x, y - half - 0.04, layer.size.replace(" x ", "×"), fontsize=7, ha="center", va="top")
    axes.text(x, y + half + 0.04, label or layer.name, fontsize=8, ha="center", va="bottom")


def _half(layer: Layer, side: int) -> float:
    """Half the height of a layer's box: in proportion to its maps, with a visible minimum."""
    return 0.07 + 0.4 * float(layer.shape[1]) / side


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], dashed: bool = False) -> None:
    style = "--" if dashed else "-"
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=9, color=GREY, linestyle=style))


def _parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
