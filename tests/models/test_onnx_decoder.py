"""The decoder of the shipped mapping as a torch module."""

import numpy as np
import pytest
import torch

from casmap.data.free_photos import free_photos
from casmap.errors import UserError
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import load_mapping, read_tree, save_mapping, write_tree
from casmap.models.network import SaliencyNetwork
from casmap.models.onnx_decoder import load_start
from casmap.models.onnx_training import load_trainable
from casmap.tools.export import export_onnx


@pytest.fixture(scope="module")
def shipped():
    return SaliencyMapper.load(threads=1)


@pytest.fixture(scope="module")
def start():
    return load_start(SHIPPED)


@pytest.fixture(scope="module")
def network(start):
    """Three new classes on the shipped mapping's encoder."""
    torch.manual_seed(0)
    encoder = Classifier(start.backbone, 3)
    shipped = load_trainable(SHIPPED)[0].encoder.state_dict()
    encoder.load_state_dict({name: w for name, w in shipped.items() if "classifier" not in name}, strict=False)
    return SaliencyNetwork(encoder.eval(), start.decoder, ["a", "b", "c"], True, start.cam_head).eval()


def test_the_masks_are_those_of_the_file(shipped, network, start) -> None:
    photos = shipped(free_photos()[:3])
    ours = SaliencyMapper(network, start.size)(free_photos()[:3])
    assert start.size == shipped.size
    for one, other in zip(photos, ours, strict=True):
        assert one.mask.std() > 0.1
        assert np.abs(one.mask - other.mask).mean() < 2e-3
        assert (one.binary() == other.binary()).mean() > 0.998


def test_new_classes_change_no_mask(network) -> None:
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    before, logits = network(images)
    assert logits.shape == (2, 3)
    with torch.no_grad():
        network.encoder.network.get_classifier().weight.mul_(5)
        after, others = network(images)
    assert torch.equal(before, after)
    assert not torch.equal(logits, others)


def test_a_mapping_with_two_heads_is_saved_exported_and_started_from(network, tmp_path) -> None:
    save_mapping(tmp_path / "mapping.safetensors", network, {"size": 64})
    loaded, about = load_mapping(tmp_path / "mapping.safetensors")
    assert about["cam_classes"] == 1000
    images = np.random.default_rng(0).standard_normal((2, 3, 64, 64)).astype(np.float32)
    masks, logits = network.run(images)
    for one, other in zip(loaded.run(images), (masks, logits), strict=True):
        np.testing.assert_array_equal(one, other)
    export_onnx(loaded, about, tmp_path / "mapping.onnx")
    exported = SaliencyMapper.load(tmp_path / "mapping.onnx", threads=1).network.run(images)
    np.testing.assert_allclose(exported[0], masks, atol=1e-3)
    np.testing.assert_allclose(exported[1], logits, rtol=1e-3, atol=1e-3)
    again = load_start(tmp_path / "mapping.onnx")  # the head of the map, not of the new classes
    torch.testing.assert_close(again.cam_head.weight, network.cam_head.weight)
    stages = network.encode(torch.from_numpy(images))[1]
    torch.testing.assert_close(again.decoder(stages, (64, 64)), network.decoder(stages, (64, 64)), atol=1e-5, rtol=0)


def test_a_mapping_without_a_map_has_no_head(tmp_path) -> None:
    encoder = Classifier("test_resnet", 2)
    network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels), ["a", "b"], True).eval()
    torch.nn.init.normal_(network.decoder.mask.weight)
    export_onnx(network, {"size": 64}, tmp_path / "mapping.onnx")
    start = load_start(tmp_path / "mapping.onnx")
    assert start.cam_head is None
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    stages = network.encode(images)[1]
    torch.testing.assert_close(start.decoder(stages, (64, 64)), network.decoder(stages, (64, 64)), atol=1e-5, rtol=0)


@pytest.mark.parametrize("classes", [0, -3, 10**9, "1000", None])
def test_an_impossible_number_of_classes_is_one_sentence(network, tmp_path, classes) -> None:
    path = tmp_path / "mapping.safetensors"
    save_mapping(path, network, {"size": 64})
    tree = read_tree(path)
    tree["about"]["cam_classes"] = classes
    write_tree(path, tree)
    with pytest.raises(UserError, match="class activation map is impossible"):
        load_mapping(path)
