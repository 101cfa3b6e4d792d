"""Files of tensors: what goes in comes out, nothing else gets in, and no half of a file is ever left."""

import copy
import io
import json
import pickle
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from casmap.errors import UserError
from casmap.models import files
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import load_classifier, load_mapping, read_tree, save_classifier, save_mapping, write_tree
from casmap.models.network import SaliencyNetwork


def _same(one: object, other: object) -> bool:
    """Equal to the last bit, tensors by type and shape too; tuples come back as lists."""
    if isinstance(one, torch.Tensor):
        bits = isinstance(other, torch.Tensor) and one.dtype == other.dtype and one.shape == other.shape
        return bits and one.contiguous().numpy().tobytes() == other.contiguous().numpy().tobytes()
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(_same(a, b) for a, b in zip(one, other, strict=True))
        )
    return type(one) is type(other) and one == other


def _tensor(kind: str) -> torch.Tensor:
    return {
        "picture": torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        "slice": torch.arange(20).reshape(4, 5)[:, 1:3],
        "number": torch.tensor(7.0),
        "count": torch.tensor(3),
        "none": torch.zeros(0, 4),
        "odd": torch.tensor([float("nan"), float("inf"), -0.0]),
        "flags": torch.tensor([True, False]),
        "half": torch.randn(3, dtype=torch.float16),
    }[kind]


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from(["picture", "slice", "number", "count", "none", "odd", "flags", "half"]).map(_tensor),
)
NAMES = st.text("abc.XYZ_019 é", max_size=6)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(NAMES, inner, max_size=3),
        st.dictionaries(st.integers(-3, 99), inner, max_size=3),
    ),
    max_leaves=10,
)


@settings(deadline=None, max_examples=60)
@given(TREES)
def test_any_tree_comes_back(tmp_path_factory, tree) -> None:
    path = tmp_path_factory.mktemp("trees") / "tree.safetensors"
    write_tree(path, tree)
    assert _same(tree, read_tree(path))


def _step(network: torch.nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    torch.manual_seed(seed)
    optimizer.zero_grad()
    network(torch.randn(4, 3, 32, 32)).square().mean().backward()
    optimizer.step()


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-4),
        lambda p: torch.optim.Adam(p, 0.01, weight_decay=1e-4),
        lambda p: torch.optim.AdamW(p, 0.01),
    ],
    ids=["SGD", "Adam", "AdamW"],
)
def test_an_optimiser_goes_on_from_its_file_as_if_nothing_had_been(tmp_path, make) -> None:
    torch.manual_seed(0)
    network = Classifier("test_resnet", 3).to(memory_format=torch.channels_last)
    optimizer = make(network.parameters())
    for seed in range(2):
        _step(network, optimizer, seed)
    path = tmp_path / "state.safetensors"
    write_tree(path, {"network": network.state_dict(), "optimizer": optimizer.state_dict()})
    kept = read_tree(path)
    assert all(isinstance(key, int) for key in kept["optimizer"]["state"])
    twin = Classifier("test_resnet", 3).to(memory_format=torch.channels_last)
    twin.load_state_dict(kept["network"])
    twin_optimizer = make(twin.parameters())
    twin_optimizer.load_state_dict(kept["optimizer"])
    for seed in range(2, 4):
        _step(network, optimizer, seed)
        _step(twin, twin_optimizer, seed)
    assert _same(dict(network.state_dict()), dict(twin.state_dict()))


def test_a_tree_keeps_what_its_tensors_were_when_it_was_written(tmp_path) -> None:
    tensor = torch.ones(3)
    write_tree(tmp_path / "a.safetensors", {"live": tensor, "again": tensor})
    tensor += 1
    assert read_tree(tmp_path / "a.safetensors")["live"].tolist() == [1, 1, 1]


def _network(seed: int = 0) -> SaliencyNetwork:
    torch.manual_seed(seed)
    encoder = Classifier("test_resnet", 3)
    network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels), ["ant", "bee", "čmelák"], predicts=True)
    for _ in range(3):  # so that running statistics are not those of a new network
        network.train()(torch.randn(4, 3, 64, 64))
    return network.eval()


@torch.no_grad()
def test_a_mapping_comes_back_with_bit_identical_masks(tmp_path) -> None:
    network = _network()
    save_mapping(tmp_path / "mapping.safetensors", network, {"size": 64, "note": "mine"})
    loaded, about = load_mapping(tmp_path / "mapping.safetensors")
    images = torch.randn(2, 3, 75, 64)
    for ours, theirs in zip(network(images), loaded(images), strict=True):
        assert torch.equal(ours, theirs)
    assert not loaded.training
    assert loaded.classes == ["ant", "bee", "čmelák"]
    assert loaded.predicts is True
    assert (loaded.encoder.mean, loaded.encoder.std) == (network.encoder.mean, network.encoder.std)
    assert (about["size"], about["note"], about["backbone"]) == (64, "mine", "test_resnet")


def test_what_is_done_to_a_mapping_after_saving_is_not_in_its_file(tmp_path) -> None:
    network = _network()
    before = copy.deepcopy(network.state_dict())
    save_mapping(tmp_path / "m.safetensors", network, {"size": 64})
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 1
    assert _same(dict(before), dict(load_mapping(tmp_path / "m.safetensors")[0].state_dict()))


@torch.no_grad()
def test_a_classifier_comes_back_with_its_classes_and_its_normalisation(tmp_path) -> None:
    torch.manual_seed(0)
    classifier = Classifier("test_resnet", 2).eval()
    classifier.mean, classifier.std = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    save_classifier(tmp_path / "c.safetensors", classifier, ["ant", "bee"], {"origin": "a test"})
    loaded, about = load_classifier(tmp_path / "c.safetensors")
    images = torch.randn(2, 3, 64, 64)
    assert torch.equal(classifier(images), loaded(images))
    assert (loaded.mean, loaded.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    assert (about["classes"], about["origin"]) == (["ant", "bee"], "a test")
    assert not loaded.training


class Bomb:
    """Unpickled, it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def _bad_files(folder: Path) -> dict[str, Path]:
    save_mapping(folder / "whole.safetensors", _network(), {"size": 64})
    whole = (folder / "whole.safetensors").read_bytes()
    contents = {
        "empty": b"",
        "garbage": bytes(range(256)) * 40,
        "text": b"not a file of weights\n",
        "huge header": b"\xff" * 8 + b"{}",
        "header only": whole[: 8 + int.from_bytes(whole[:8], "little")],
        "half": whole[: len(whole) // 2],
        "all but a byte": whole[:-1],
        "a byte too many": whole + b"\0",
    }
    paths = {}
    for name, content in contents.items():
        paths[name] = folder / f"{name}.safetensors"
        paths[name].write_bytes(content)
    paths["folder"] = folder / "folder.safetensors"
    paths["folder"].mkdir()
    paths["foreign"] = folder / "foreign.safetensors"
    save_file({"weight": torch.ones(2)}, paths["foreign"])
    paths["foreign tree"] = folder / "foreign tree.safetensors"
    save_file({"weight": torch.ones(2)}, paths["foreign tree"], {"tree": "{not JSON"})
    paths["a tensor is missing"] = folder / "missing.safetensors"
    save_file({}, paths["a tensor is missing"], {"tree": json.dumps({"a": {"$tensor": "/a"}})})
    return paths


@pytest.mark.parametrize("read", [read_tree, load_mapping, load_classifier])
def test_what_is_no_file_of_ours_is_one_sentence_with_its_name(tmp_path, read) -> None:
    for name, path in _bad_files(tmp_path).items():
        with pytest.raises(UserError) as caught:
            read(path)
        assert str(path) in str(caught.value), name
        assert "\n" not in str(caught.value), name


def test_a_file_that_is_not_there_is_said_so(tmp_path) -> None:
    with pytest.raises(UserError, match=r"There is no file .*nowhere\.safetensors\.$"):
        load_mapping(tmp_path / "nowhere.safetensors")


@pytest.mark.parametrize("read", [read_tree, load_mapping, load_classifier])
@pytest.mark.parametrize("write", [torch.save, lambda thing, path: path.write_bytes(pickle.dumps(thing))])
def test_a_pickle_is_refused_and_never_run(tmp_path, read, write) -> None:
    path, harm = tmp_path / "mapping.safetensors", tmp_path / "harm"
    write({"format": files.MAPPING_FORMAT, "network": Bomb(harm)}, path)
    with pytest.raises(UserError, match="is not a readable safetensors file"):
        read(path)
    assert not harm.exists()
    if write is torch.save:  # the bomb is real
        torch.load(io.BytesIO(path.read_bytes()), weights_only=False)
    else:
        pickle.loads(path.read_bytes())
    assert harm.exists()


def test_each_kind_of_file_is_refused_where_another_is_wanted(tmp_path) -> None:
    mapping, classifier, tree = (tmp_path / f"{kind}.safetensors" for kind in ("mapping", "classifier", "tree"))
    save_mapping(mapping, _network(), {"size": 64})
    save_classifier(classifier, Classifier("test_resnet", 2), ["a", "b"], {})
    write_tree(tree, [1, 2])
    for path in (classifier, tree):
        with pytest.raises(UserError, match="is not a casmap mapping"):
            load_mapping(path)
    for path in (mapping, tree):
        with pytest.raises(UserError, match="is not a casmap classifier"):
            load_classifier(path)


def _spoil(tree: dict, how: str) -> dict:
    match how:
        case "another backbone":
            tree["about"]["backbone"] = "resnet18"
        case "a backbone of the future":
            tree["about"]["backbone"] = "resnet_of_2090"
        case "another number of classes":
            tree["about"]["classes"] = ["a", "b"]
        case "no backbone":
            del tree["about"]["backbone"]
        case "a weight less":
            del tree["network"]["encoder.network.conv1.0.weight"]
        case "no weights":
            del tree["network"]
    return tree


@pytest.mark.parametrize(
    "how",
    [
        "another backbone",
        "a backbone of the future",
        "another number of classes",
        "no backbone",
        "a weight less",
        "no weights",
    ],
)
def test_a_mapping_whose_parts_do_not_fit_is_one_sentence(tmp_path, how) -> None:
    path = tmp_path / "mapping.safetensors"
    save_mapping(path, _network(), {"size": 64})
    write_tree(path, _spoil(read_tree(path), how))
    with pytest.raises(UserError) as caught:
        load_mapping(path)
    assert "\n" not in str(caught.value)


def test_anyone_can_read_the_tensors_with_safetensors_alone(tmp_path) -> None:
    network = _network()
    save_mapping(tmp_path / "m.safetensors", network, {"size": 64})
    with safe_open(tmp_path / "m.safetensors", "pt") as file:
        kept = {name.removeprefix("/network/"): file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert set(kept) == set(network.state_dict())


@contextmanager
def _full_disk(free: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: the write that reaches them fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("before", [None, b"the run of yesterday"])
def test_a_disk_that_fills_up_leaves_no_half_of_a_file(tmp_path, before) -> None:
    path = tmp_path / "mapping.safetensors"
    if before:
        path.write_bytes(before)
    with pytest.raises(UserError, match=r"Cannot write .*mapping\.safetensors"), _full_disk(100_000):
        write_tree(path, {"weights": torch.zeros(100_000)})
    assert [found.name for found in tmp_path.iterdir()] == (["mapping.safetensors"] if before else [])
    if before:
        assert path.read_bytes() == before


@pytest.mark.parametrize("read", [load_mapping, load_classifier])
def test_a_file_without_its_description_is_one_sentence(tmp_path, read) -> None:
    kind = files.MAPPING_FORMAT if read is load_mapping else files.CLASSIFIER_FORMAT
    write_tree(tmp_path / "bare.safetensors", {"format": kind})
    with pytest.raises(UserError):
        read(tmp_path / "bare.safetensors")


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("bug")])
def test_a_failure_in_the_middle_of_writing_leaves_nothing(tmp_path, monkeypatch, failure) -> None:
    def half(tensors, path, metadata) -> None:
        Path(path).write_bytes(b"half")
        raise failure

    monkeypatch.setattr(files, "save_file", half)
    wanted = UserError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(wanted):
        write_tree(tmp_path / "new" / "mapping.safetensors", {"a": torch.ones(2)})
    assert list((tmp_path / "new").iterdir()) == []


def test_a_file_of_tensors_is_as_private_as_any_other(tmp_path) -> None:
    (tmp_path / "any.txt").touch()
    write_tree(tmp_path / "tree.safetensors", {"x": torch.zeros(3)})
    assert (tmp_path / "tree.safetensors").stat().st_mode == (tmp_path / "any.txt").stat().st_mode
