"""Files of tensors: safetensors with JSON beside them, written whole, read without ever unpickling."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from casmap.errors import UserError
from casmap.io.atomic import whole_file
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.network import SaliencyNetwork

MAPPING_FORMAT = "casmap-mapping-1"
CLASSIFIER_FORMAT = "casmap-classifier-1"

Network = TypeVar("Network", bound=nn.Module)


def write_tree(path: str | Path, tree: Any) -> None:
    """Write nested dicts and lists of tensors, numbers and strings."""
    tensors: dict[str, Tensor] = {}
    skeleton = _take_tensors(tree, "", tensors)
    with whole_file(path) as aside:
        try:
            save_file(tensors, str(aside), {"tree": json.dumps(skeleton)})
        except SafetensorError as error:  # its own kind of OSError: a full disk, say
            raise UserError(f"Cannot write {path}: {error}.") from error


def read_tree(path: str | Path) -> Any:
    """Read what `write_tree` wrote."""
    tensors, metadata = read_tensors(path)
    try:
        return _put_tensors(json.loads(metadata["tree"]), tensors)
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path} is not a file that casmap wrote.") from error


def save_classifier(path: str | Path, classifier: Classifier, classes: list[str], about: dict[str, Any]) -> None:
    """Write a classifier with its class names."""
    said = {"backbone": classifier.backbone, "classes": classes, "mean": classifier.mean, "std": classifier.std}
    write_tree(path, {"format": CLASSIFIER_FORMAT, "about": said | about, "classifier": dict(classifier.state_dict())})


def load_classifier(path: str | Path) -> tuple[Classifier, dict[str, Any]]:
    """Read what `save_classifier` wrote."""
    return _load(path, CLASSIFIER_FORMAT, "classifier", _classifier)


def save_mapping(path: str | Path, network: SaliencyNetwork, about: dict[str, Any]) -> None:
    """Write a mapping: encoder, decoder, and all that is needed to use them."""
    about = network.about() | about
    write_tree(path, {"format": MAPPING_FORMAT, "about": about, "network": dict(network.state_dict())})


def load_mapping(path: str | Path) -> tuple[SaliencyNetwork, dict[str, Any]]:
    """Read a mapping and what is said about it."""
    return _load(path, MAPPING_FORMAT, "network", _mapping)


def _load(path: str | Path, kind: str, weights: str, build: Callable[[Any], Network]) -> tuple[Network, dict[str, Any]]:
    """Read a file of one format: build the network that it describes, then put in the weights."""
    tree, name = read_tree(path), kind.split("-")[1]
    if not isinstance(tree, dict) or tree.get("format") != kind:
        raise UserError(f"{path} is not a casmap {name}.")
    try:
        about = tree["about"]
        network = build(about)
        network.load_state_dict(tree[weights])
    except (KeyError, TypeError, RuntimeError) as error:
        raise UserError(f"{path} is a damaged {name}: {str(error).splitlines()[0]}") from error
    return network.eval(), about


def _classifier(about: Any) -> Classifier:
    if not (isinstance(about["backbone"], str) and isinstance(about["classes"], list)):
        raise TypeError("its description is not one that casmap writes")
    classifier = Classifier(about["backbone"], len(about["classes"]))
    classifier.mean, classifier.std = tuple(about["mean"]), tuple(about["std"])
    return classifier


def _mapping(about: Any) -> SaliencyNetwork:
    if not (isinstance(about["size"], int) and about["size"] >= 32):
        raise TypeError("it does not say for which size it is")
    encoder = _classifier(about)
    decoder = Decoder(encoder.stage_channels, (about.get("with_cam") or about.get("believes")) is True)
    return SaliencyNetwork(encoder, decoder, about["classes"], about["predicts"])


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of any safetensors file, and its metadata."""
    if Path(path).is_dir():
        raise UserError(f"{path} is a folder: name the file in it, such as {Path(path) / 'mapping.safetensors'}.")
    try:
        with safe_open(str(path), framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path} is not a safetensors file that can be read.") from error


def _take_tensors(tree: Any, at: str, tensors: dict[str, Tensor]) -> Any:
    """Replace each tensor by a note of its name."""
    if isinstance(tree, Tensor):
        tensors[at] = tree.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"$tensor": at}
    if isinstance(tree, dict):
        # Optimisers number their parameters: such keys come back as whole numbers.
        numbered = bool(tree) and all(isinstance(key, int) for key in tree)
        items = {str(key): _take_tensors(value, f"{at}/{key}", tensors) for key, value in tree.items()}
        return {"$numbered": items} if numbered else items
    if isinstance(tree, list | tuple):
        return [_take_tensors(value, f"{at}/{i}", tensors) for i, value in enumerate(tree)]
    return tree


def _put_tensors(tree: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(tree, dict):
        if "$tensor" in tree:
            return tensors[tree["$tensor"]]
        if "$numbered" in tree:
            return {int(key): _put_tensors(value, tensors) for key, value in tree["$numbered"].items()}
        return {key: _put_tensors(value, tensors) for key, value in tree.items()}
    return [_put_tensors(value, tensors) for value in tree] if isinstance(tree, list) else tree
