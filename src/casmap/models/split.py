"""f in two parts: the trunk, up to the last stage of stride 16, and the tail, the layers after it.

To erase features instead of pixels, only the tail runs again: a fraction of the time and of the weights.
"""

import copy
from typing import Any

import torch
from torch import Tensor, fx, nn

from casmap.errors import UnsupportedBackbone, option
from casmap.models.classifier import Classifier

STRIDE = 16
CLOSE = 1e-3  # maximum difference of two outputs that are the same up to rounding, relative to the largest value


class Trunk:
    """f(0), fixed, in eval mode and without gradients; stage: the index of its last stage of stride 16.

    call: images (N, 3, H, W) -> features (N, K, H / 16, W / 16), and all stages of f(0), for the decoder.
    """

    def __init__(self, classifier: Classifier, stage: int) -> None:
        self.classifier, self.stage = classifier, stage

    @torch.no_grad()
    def __call__(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The features and the stages of images."""
        _, stages = self.classifier.eval().forward_stages(images)
        return stages[self.stage], stages


class Tail(nn.Module):
    """The layers of a classifier after its trunk, with weights of their own.

    layers: the trunk's features (N, K, h, w) -> logits (N, classes) and last features (N, J, h', w').
    head: the name of the linear layer that follows average pooling of the last features; None: the head is another.

    forward: the trunk's features -> logits.
    """

    def __init__(self, layers: fx.GraphModule, head: str | None) -> None:
        super().__init__()
        self.layers, self.head = layers, head

    def forward(self, features: Tensor) -> Tensor:
        """The logits (N, classes) of the trunk's features (N, K, h, w)."""
        logits: Tensor = self.layers(features)[0]
        return logits

    def forward_activation(self, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The logits, and the label's activation: the mean over positions of relu(w_y . A), of shape (N,).

        A: the last features; w_y: the weights of class y in the head.

        >>> _, tail = split(Classifier("test_resnet", classes=5))
        >>> [part.shape for part in tail.forward_activation(torch.rand(2, 192, 4, 4), torch.tensor([0, 4]))]
        [torch.Size([2, 5]), torch.Size([2])]
        """
        assert self.head is not None
        logits, last = self.layers(features)
        weight: Any = self.layers.get_submodule(self.head).weight
        return logits, torch.einsum("nkhw,nk->nhw", last, weight[labels]).relu().mean(dim=(1, 2))


Learner = Classifier | Tail  # what Algorithm 1 trains as f


def split(classifier: Classifier) -> tuple[Trunk, Tail]:
    """The trunk and the tail of a classifier; the trunk is the classifier itself, the tail a copy of its last layers.

    The layers are found in the traced forward pass, so that backbones of any source can be split. Raises
    UnsupportedBackbone if the trace fails, no layer returns the stage, or a later layer uses an earlier one.

    >>> trunk, tail = split(Classifier("test_resnet", classes=5))
    >>> features, _ = trunk(torch.zeros(2, 3, 64, 64))
    >>> features.shape, tail(features).shape
    (torch.Size([2, 192, 4, 4]), torch.Size([2, 5]))
    """
    network, device = classifier.eval().network, next(classifier.parameters()).device
    noise = torch.randn(2, 3, classifier.side, classifier.side, generator=torch.Generator().manual_seed(0)).to(device)
    with torch.no_grad():
        logits, stages = classifier.forward_stages(noise)
        indices = [i for i, stage in enumerate(stages) if round(classifier.side / stage.shape[-1]) == STRIDE]
        try:
            graph = _BlocksTracer().trace(network)
            values = _record(network, graph, noise)
            layers, last = _cut(network, graph, values, stages[indices[-1]])
            found = layers(stages[indices[-1]])[0]
        except Exception as error:  # whatever an architecture raises when it is traced
            raise _unsupported(classifier) from error
        if not _close(found, logits):
            raise _unsupported(classifier)
        return Trunk(classifier, indices[-1]), Tail(layers, _linear_head(layers, values[last], logits))


def last_layers(classifier: Classifier) -> list[nn.Parameter]:
    """The weights of the layers after the trunk, the classifier's own; all its weights if it cannot be split.

    >>> f = Classifier("test_resnet", classes=5)
    >>> len(last_layers(f)), len(list(f.parameters()))
    (11, 47)
    """
    own = dict(classifier.network.named_parameters())
    try:
        _, tail = split(classifier)
    except UnsupportedBackbone:
        return list(own.values())
    return [own[name] for name, _ in tail.layers.named_parameters()]


def _unsupported(classifier: Classifier) -> UnsupportedBackbone:
    return UnsupportedBackbone(
        f"{classifier.backbone} cannot be split after its features of stride {STRIDE}: choose another backbone, such "
        f"as resnet50, or set {option('erase', 'pixels')}."
    )


class _BlocksTracer(fx.Tracer):
    """Traces a network as a graph of blocks: only the network itself and nn.Sequential are opened."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a module is one node of the graph."""
        return type(m) is not nn.Sequential


def _record(network: nn.Module, graph: fx.Graph, images: Tensor) -> dict[fx.Node, Any]:
    """The output of each node of the graph for these images, in order."""
    values: dict[fx.Node, Any] = {}

    class Recorder(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            values[n] = super().run_node(n)
            return values[n]

    Recorder(fx.GraphModule(network, graph)).run(images)
    return values


def _cut(
    network: nn.Module, graph: fx.Graph, values: dict[fx.Node, Any], stage: Tensor
) -> tuple[fx.GraphModule, fx.Node]:
    """The layers after the last node that returns the stage, copied, and the node of the last feature maps."""
    start = [node for node, value in values.items() if isinstance(value, Tensor) and _close(value, stage)][-1]
    result: Any = list(values)[-1].args[0]
    end: fx.Node = list(result.values())[-1] if isinstance(result, dict) else result  # the logits come last
    needed = {end}
    for node in reversed(graph.nodes):
        if node in needed and node is not start:
            needed.update(node.all_input_nodes)
    tail = fx.Graph()
    copied = {start: tail.placeholder("features")}
    for node in graph.nodes:
        if node in needed and node is not start:
            if node.op == "placeholder":
                raise ValueError("a layer of the tail uses the image or a layer of the trunk")
            copied[node] = tail.node_copy(node, copied.__getitem__)
    maps = [node for node in copied if getattr(value := values[node], "ndim", 0) == 4 and value.shape[-1] > 1]
    tail.output((copied[end], copied[maps[-1]]))
    return copy.deepcopy(fx.GraphModule(network, tail)), maps[-1]


def _close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=CLOSE * float(other.abs().max()))


def _linear_head(layers: nn.Module, last: Tensor, logits: Tensor) -> str | None:
    """The name of the linear layer whose output for the pooled last features is the logits; None if there is none."""
    linear = {name: part for name, part in layers.named_modules() if isinstance(part, nn.Linear)}
    name = next(reversed(linear), None)
    if name is None or linear[name].in_features != last.shape[1]:
        return None
    return name if _close(linear[name](last.mean(dim=(2, 3))), logits) else None
