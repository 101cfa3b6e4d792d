"""rembg's u2net by its protocol: what the network is given, and what becomes of its answer, with a network by hand."""

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from casmap.baselines import TrainingData, find_baseline
from casmap.baselines.u2net import SIDE, SalientObject
from casmap.data.batches import normalised
from casmap.errors import UserError
from casmap.models.classifier import Classifier


def write_network(path, channels=3):
    """A network that gives relu of the red channel, and a second answer that nobody asks for."""
    weight = np.zeros((1, channels, 1, 1), np.float32)
    weight[0, 0] = 1
    nodes = [
        helper.make_node("Conv", ["input.1", "w"], ["red"]),
        helper.make_node("Relu", ["red"], ["d0"]),
        helper.make_node("Neg", ["red"], ["d1"]),
    ]
    shape = [1, channels, SIDE, SIDE]
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("input.1", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, SIDE, SIDE]) for name in ("d0", "d1")],
        [helper.make_tensor("w", TensorProto.FLOAT, weight.shape, weight.ravel())],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def thirds(height=SIDE, width=SIDE):
    """A photo of three stripes whose red is 0, 100 and 200; nothing in it is brighter, unless it is resized."""
    photo = np.zeros((height, width, 3), np.uint8)
    photo[:, width // 3 :, 0], photo[:, 2 * width // 3 :, 0] = 100, 200
    return photo


def test_the_mask_by_hand(tmp_path):
    """Red / 200 is 0, 1/2 and 1; minus 0.485, by 0.229: below 0, 0.0655, 2.2489; stretched: 0, 0.0291, 1."""
    mask = SalientObject(write_network(tmp_path / "u2net.onnx")).mask(thirds())
    np.testing.assert_allclose(mask[7, [10, 160, 310]], [0, 0.015 / 0.515, 1], rtol=1e-5)


def test_the_mask_has_the_size_of_the_photo(tmp_path):
    mask = SalientObject(write_network(tmp_path / "u2net.onnx")).mask(thirds(40, 60))
    assert (mask.shape, mask.dtype) == ((40, 60), np.float32)
    assert mask[:, :15].max() == 0
    assert mask[:, 45:].min() > 0.8
    assert mask.max() <= 1


def test_a_photo_without_anything_has_an_empty_mask(tmp_path):
    network = SalientObject(write_network(tmp_path / "u2net.onnx"))
    assert network.mask(np.zeros((20, 20, 3), np.uint8)).max() == 0


def test_the_method_undoes_the_classifiers_normalisation(tmp_path):
    classifier = Classifier("test_resnet", 3)
    photos = np.stack([thirds(60, 60), thirds(60, 60).swapaxes(0, 1)])
    method = SalientObject(write_network(tmp_path / "u2net.onnx"))
    maps = method(classifier, normalised(photos, classifier.mean, classifier.std), torch.tensor([0, 2]))
    np.testing.assert_array_equal(maps.numpy(), np.stack([method.mask(photo) for photo in photos]))
    np.testing.assert_allclose(maps[0], maps[1].T, atol=1e-5)


def test_it_reads_the_file_in_the_users_folder(tmp_path):
    for name in ("u2net", "u2netp"):
        baseline = find_baseline(name)
        data = TrainingData(None, None, None, None, None, tmp_path, weights=tmp_path)
        assert (baseline.file, baseline.uses, baseline.masks) == (f"{name}.onnx", "masks", True)
        with pytest.raises(UserError, match=rf"There is no file .*{name}\.onnx: "):
            baseline.ready(data)
        write_network(tmp_path / f"{name}.onnx")
        assert baseline.ready(data).mask(thirds()).max() == 1


def test_another_file_has_another_key(tmp_path):
    keys = [SalientObject(write_network(tmp_path / f"{n}.onnx", n)).key for n in (3, 4, 3)]
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize("content", [b"", b"not a network"])
def test_a_broken_file_is_one_sentence(tmp_path, content):
    (tmp_path / "u2net.onnx").write_bytes(content)
    with pytest.raises(UserError, match=r"u2net\.onnx is not a readable ONNX file\.$"):
        SalientObject(tmp_path / "u2net.onnx")


def test_another_network_is_one_sentence(tmp_path):
    network = SalientObject(write_network(tmp_path / "u2net.onnx", channels=4))
    with pytest.raises(UserError, match=r"u2net\.onnx is not a network of rembg: .*\.$"):
        network.mask(thirds())
