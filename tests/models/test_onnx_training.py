"""The network of an ONNX mapping as a torch module."""

import numpy as np
import onnx
import pytest
import torch

from casmap.errors import UserError
from casmap.inference.mapper import SHIPPED
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.network import SaliencyNetwork
from casmap.models.onnx_network import load_onnx
from casmap.models.onnx_training import load_trainable
from casmap.tools.export import export_onnx


def a_network(backbone: str, with_cam: bool) -> SaliencyNetwork:
    """Random weights and random batch-norm statistics."""
    torch.manual_seed(0)
    encoder = Classifier(backbone, 3)
    network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels, with_cam), ["a", "b", "c"], True)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                tensor.data.uniform_(0.5, 1.5)
    return network.eval()


@pytest.mark.parametrize(("backbone", "with_cam"), [("test_resnet", False), ("resnet18", True), ("lite0", True)])
def test_an_export_is_loaded_with_the_same_outputs(backbone, with_cam, tmp_path) -> None:
    network = a_network(backbone, with_cam)
    export_onnx(network, {"size": 64}, tmp_path / "mapping.onnx")
    loaded, about = load_trainable(tmp_path / "mapping.onnx")
    assert about["size"] == 64
    assert loaded.classes == ["a", "b", "c"]
    images = np.random.default_rng(1).standard_normal((2, 3, 64, 64)).astype(np.float32)
    for one, other in zip(loaded.run(images), network.run(images), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_the_shipped_mapping_is_loaded_with_its_masks_and_its_classes() -> None:
    network, about = load_trainable(SHIPPED)
    assert network.classes == about["classes"]
    images = np.random.default_rng(1).standard_normal((1, 3, 96, 96)).astype(np.float32)
    (ours, our_logits), (theirs, their_logits) = network.run(images), load_onnx(SHIPPED).run(images)
    np.testing.assert_allclose(ours, theirs, atol=1e-3)
    np.testing.assert_allclose(our_logits, their_logits, atol=1e-2)


def test_a_file_with_another_network_is_refused(tmp_path) -> None:
    export_onnx(a_network("test_resnet", False), {"size": 64}, tmp_path / "mapping.onnx")
    model = onnx.load(tmp_path / "mapping.onnx")
    entry = model.metadata_props[0]
    entry.value = entry.value.replace("test_resnet", "resnet18")
    onnx.save(model, tmp_path / "other.onnx")
    with pytest.raises(UserError, match="cannot be trained"):
        load_trainable(tmp_path / "other.onnx")
