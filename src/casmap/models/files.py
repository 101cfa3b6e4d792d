"""Files of tensors: safetensors with JSON metadata, written atomically, read without unpickling."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from casmap.errors import UserError
from casmap.io.atomic import whole_file
from casmap.io.reading import reading, shown
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.metadata import check_classifier, check_mapping
from casmap.models.network import SaliencyNetwork

MAPPING_FORMAT = "casmap-mapping-1"
CLASSIFIER_FORMAT = "casmap-classifier-1"

_CREATE = (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn)

Network = TypeVar("Network", bound=nn.Module)


def write_tree(path: str | Path, tree: Any) -> None:
    """Write nested dicts and lists of tensors, numbers and strings."""
    tensors: dict[str, Tensor] = {}
    skeleton = _take_tensors(tree, "", tensors)
    with whole_file(path) as temporary:
        try:
            save_file(tensors, str(temporary), {"tree": json.dumps(skeleton)})
        except SafetensorError as error:  # raised instead of OSError, e.g. if the disk is full
            raise UserError(f"Cannot write {path}: {error}.") from error


def read_tree(path: str | Path) -> Any:
    """Read what `write_tree` wrote."""
    tensors, metadata = read_tensors(path)
    with reading(path, f"{path} is not a file that casmap wrote."):
        return _put_tensors(json.loads(metadata["tree"]), tensors)


def save_classifier(path: str | Path, classifier: Classifier, classes: list[str], about: dict[str, Any]) -> None:
    """Write a classifier with its class names."""
    metadata = {"backbone": classifier.backbone, "classes": classes, "mean": classifier.mean, "std": classifier.std}
    about, weights = metadata | about, dict(classifier.state_dict())
    write_tree(path, {"format": CLASSIFIER_FORMAT, "about": about, "classifier": weights})


def load_classifier(path: str | Path) -> tuple[Classifier, dict[str, Any]]:
    """Read what `save_classifier` wrote."""
    return _load(path, CLASSIFIER_FORMAT, "classifier", check_classifier, _classifier)


def save_mapping(path: str | Path, network: SaliencyNetwork, about: dict[str, Any]) -> None:
    """Write a mapping: encoder, decoder, and the metadata that is needed to use them."""
    about = network.about() | about
    write_tree(path, {"format": MAPPING_FORMAT, "about": about, "network": dict(network.state_dict())})


def load_mapping(path: str | Path) -> tuple[SaliencyNetwork, dict[str, Any]]:
    """Read a mapping and its metadata."""
    return _load(path, MAPPING_FORMAT, "network", check_mapping, _mapping)


def _load(
    path: str | Path, kind: str, weights: str, check: Callable[[Any], None], build: Callable[[Any], Network]
) -> tuple[Network, dict[str, Any]]:
    """Read a file of one format: build the network that its metadata describe, then load its weights."""
    tree, name = read_tree(path), kind.split("-")[1]
    if not isinstance(tree, dict) or tree.get("format") != kind:
        raise UserError(f"{path} is not a casmap {name}.")
    about: Any = tree.get("about")
    try:
        check(about)
    except ValueError as error:
        raise UserError(f"The {name} {path} is damaged: {error}.") from error
    state = tree.get(weights)
    if not isinstance(state, dict) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
        raise UserError(f"The {name} {path} is damaged: it has no weights.")
    with _Budget(f"The {name} {path} is damaged: its weights are not those of {shown(about['backbone'])}.", state):
        network = build(about)
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise UserError(f"The {name} {path} is damaged: {str(error).splitlines()[0].rstrip('.'):.200}.") from error
    return network.eval(), about


class _Budget(TorchFunctionMode):
    """Stops building a network that is far larger than its weights, before its memory is allocated.

    A file of a kilobyte can name a backbone of a billion parameters.
    """

    def __init__(self, refusal: str, state: dict[str, Tensor]) -> None:
        super().__init__()
        self.refusal, self.left = refusal, 10**7 + 2 * sum(tensor.numel() for tensor in state.values())

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _CREATE:
            size = args[0] if args and not isinstance(args[0], int) else args
            self.left -= math.prod(size or (kwargs or {}).get("size", ()))
            if self.left < 0:
                raise UserError(self.refusal)
        return func(*args, **(kwargs or {}))


def _classifier(about: Any) -> Classifier:
    classifier = Classifier(about["backbone"], len(about["classes"]))
    classifier.mean, classifier.std = tuple(about["mean"]), tuple(about["std"])
    return classifier


def _mapping(about: Any) -> SaliencyNetwork:
    encoder = _classifier(about)
    with_cam = (about.get("with_cam") or about.get("believes")) is True  # "believes" in files of 0.1.0
    decoder = Decoder(encoder.stage_channels, with_cam)
    cam_head = nn.Linear(encoder.network.num_features, about["cam_classes"]) if "cam_classes" in about else None
    return SaliencyNetwork(encoder, decoder, about["classes"], about["predicts"], cam_head)


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of any safetensors file, and its metadata."""
    if Path(path).is_dir():
        raise UserError(f"{path} is a folder: give a file in it, such as {Path(path) / 'mapping.safetensors'}.")
    damaged = f"{path} is not a readable safetensors file: give one that casmap train wrote, or weights in this format."
    with reading(path, damaged), safe_open(str(path), framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118


def _take_tensors(tree: Any, at: str, tensors: dict[str, Tensor]) -> Any:
    """Move the tensors of a tree to `tensors` and leave references to them in their place."""
    if isinstance(tree, Tensor):
        tensors[at] = tree.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"$tensor": at}
    if isinstance(tree, dict):
        # Optimizers number their parameters; these keys are read back as ints.
        numbered = bool(tree) and all(isinstance(key, int) for key in tree)
        items = {str(key): _take_tensors(value, f"{at}/{key}", tensors) for key, value in tree.items()}
        return {"$numbered": items} if numbered else items
    if isinstance(tree, list | tuple):
        return [_take_tensors(value, f"{at}/{i}", tensors) for i, value in enumerate(tree)]
    return tree


def _put_tensors(tree: Any, tensors: dict[str, Tensor]) -> Any:
    """Replace the references of `_take_tensors` by the tensors."""
    if isinstance(tree, dict):
        if "$tensor" in tree:
            return tensors[tree["$tensor"]]
        if "$numbered" in tree:
            return {int(key): _put_tensors(value, tensors) for key, value in tree["$numbered"].items()}
        return {key: _put_tensors(value, tensors) for key, value in tree.items()}
    return [_put_tensors(value, tensors) for value in tree] if isinstance(tree, list) else tree
