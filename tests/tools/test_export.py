"""A mapping as an ONNX file: the same masks as torch's, for any batch and size, with no torch imported."""

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from casmap.errors import UserError
from casmap.inference.mapper import SaliencyMapper
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import save_mapping
from casmap.models.network import SaliencyNetwork
from casmap.models.onnx_network import KEY, load_onnx
from casmap.reporting import Reporter
from casmap.tools.export import classifier_alone, export, export_onnx, halve

CLASSES = ["ant", "bee", "cow"]


@pytest.fixture(scope="module", params=["test_resnet", "tf_efficientnet_lite0"])  # the latter pads by its size
def network(request) -> SaliencyNetwork:
    torch.manual_seed(0)
    encoder = Classifier(request.param, 3)
    decoder = Decoder(encoder.stage_channels, with_cam=True)  # all that a mapping can have
    return SaliencyNetwork(encoder, decoder, CLASSES, True).eval()


@pytest.fixture(scope="module")
def exported(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "mapping.onnx"
    export_onnx(network, {"size": 64, "note": "näh"}, path)
    return path


def _images(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(1, 3, 64, 64), (5, 3, 64, 64), (2, 3, 96, 128), (1, 3, 75, 101)])
def test_masks_and_logits_are_torchs(network, exported, shape) -> None:
    images = _images(*shape)
    for ours, theirs in zip(load_onnx(exported).run(images), network.run(images), strict=True):
        assert ours.shape == theirs.shape
        assert ours.std() > 0
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_no_operator_but_the_convolution_pads(exported) -> None:
    kinds = [node.op_type for node in onnx.load(exported).graph.node]
    assert "Conv" in kinds
    assert "Pad" not in kinds


def test_the_classifier_alone_gives_the_same_logits_and_makes_no_mask(exported) -> None:
    alone, images = onnxruntime.InferenceSession(classifier_alone(exported)), _images(2, 3, 64, 64)
    assert [output.name for output in alone.get_outputs()] == ["logits"]
    np.testing.assert_allclose(alone.run(None, {"images": images})[0], load_onnx(exported).run(images)[1], atol=1e-5)
    graph = onnx.load_from_string(classifier_alone(exported)).graph
    names = [node.name for node in graph.node]
    assert names
    assert not any("decoder" in name for name in names)
    asked_for = {name for node in graph.node for name in node.input}
    assert {tensor.name for tensor in graph.initializer} <= asked_for  # the runtime warns of each that is not


def test_a_mapper_does_not_show_which_runtime_it_has(network, exported) -> None:
    photo = np.random.default_rng(1).integers(0, 256, (70, 90, 3), dtype=np.uint8)
    one, other = SaliencyMapper.load(exported), SaliencyMapper(network, 64)
    np.testing.assert_allclose(one(photo).mask, other(photo).mask, atol=1e-5)
    assert (one.size, one.classes, one.network.predicts) == (64, CLASSES, True)
    assert one.about["note"] == "näh"
    assert repr(one) == f"SaliencyMapper({network.encoder.backbone}, 64 px, 3 classes)"


def test_half_precision_halves_the_file_and_hardly_moves_the_masks(network, exported, tmp_path) -> None:
    model = onnx.load(exported)
    halve(model)
    onnx.checker.check_model(model)
    onnx.save(model, tmp_path / "half.onnx")
    assert (tmp_path / "half.onnx").stat().st_size < 0.65 * exported.stat().st_size
    images = _images(3, 3, 64, 64)
    masks, logits = load_onnx(tmp_path / "half.onnx").run(images)
    np.testing.assert_allclose(masks, network.run(images)[0], atol=5e-3)
    np.testing.assert_allclose(logits, network.run(images)[1], atol=5e-2)


def test_extraction_with_an_onnx_mapping_imports_no_torch(exported) -> None:
    code = (
        "import sys, numpy; from casmap import SaliencyMapper; "
        f"SaliencyMapper.load({str(exported)!r})(numpy.zeros((40, 50, 3), numpy.uint8)).box(); "
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('torch', 'timm', 'onnx')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _with_metadata(exported, path, change) -> str:
    model = onnx.load(exported)
    about = json.loads(next(entry.value for entry in model.metadata_props if entry.key == KEY))
    onnx.helper.set_model_props(model, {KEY: json.dumps(change(about))})
    onnx.save(model, path)
    return str(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda about: {key: value for key, value in about.items() if key != "mean"},
        lambda about: {**about, "std": [0, 0, 0]},
        lambda about: {**about, "mean": [float("nan")] * 3},
        lambda about: {**about, "size": 10**6},
        lambda about: {**about, "size": "64"},
        lambda about: {**about, "classes": "abc"},
        lambda about: {**about, "titles": ["ant"]},
        lambda about: {**about, "titles": [1, 2, 3]},
        lambda about: [],
    ],
)
def test_an_onnx_file_that_says_nonsense_is_refused(exported, tmp_path, change) -> None:
    with pytest.raises(UserError, match="is an ONNX file, but not a mapping that casmap wrote"):
        load_onnx(_with_metadata(exported, tmp_path / "x.onnx", change))


def test_what_is_no_onnx_file_is_refused(exported, tmp_path) -> None:
    (tmp_path / "x.onnx").write_bytes(exported.read_bytes()[:5000])
    with pytest.raises(UserError, match="not a readable ONNX file"):
        load_onnx(tmp_path / "x.onnx")
    with pytest.raises(UserError, match="There is no file"):
        load_onnx(tmp_path / "missing.onnx")
    with pytest.raises(UserError, match="no device 'toaster'"):
        load_onnx(exported, "toaster")


def test_what_the_runtime_cannot_even_complain_of_is_refused_in_silence(exported, tmp_path, capfd) -> None:
    """An operator whose name is no text: ONNX Runtime would print four lines and try again."""
    (tmp_path / "broken.onnx").write_bytes(exported.read_bytes().replace(b"Conv", b"Con\xb1"))
    with pytest.raises(UserError, match="not a readable ONNX file"):
        load_onnx(tmp_path / "broken.onnx")
    assert capfd.readouterr().out == ""


class Heard(Reporter):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    torch.manual_seed(0)
    encoder, path = Classifier("test_resnet", 2), tmp_path_factory.mktemp("kept") / "mapping.safetensors"
    network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels), ["class-00", "class-01"], True)
    save_mapping(path, network, {"size": 64})
    return path


def test_the_result_tells_the_file_its_size_and_without_photos_no_loss(kept) -> None:
    heard = Heard()
    result = export(str(kept), reporter=heard)
    assert (result.path, result.bytes) == (kept.with_suffix(".onnx"), kept.with_suffix(".onnx").stat().st_size)
    assert result.loss is None
    assert heard.lines == [f"{result.path}: {result.bytes / 1e6:.1f} MB"]


def test_the_loss_of_half_the_bits_is_small_but_there(kept, tmp_path) -> None:
    heard = Heard()
    result = export(kept, out=tmp_path / "half.onnx", half=True, data="scenes:photos=6,size=64", reporter=heard)
    assert result.loss is not None
    assert result.loss.photos == 6
    assert 0 < result.loss.pixel < 5e-3
    assert result.loss.difference.low <= result.loss.difference.value <= result.loss.difference.high
    assert result.loss.difference.value == pytest.approx(result.loss.after.value - result.loss.before.value)
    assert heard.lines[1:] == [str(result.loss)]


@pytest.mark.parametrize("wrong", [{"out": "mapping.pt"}, {"data": "no such photos"}])
def test_what_is_asked_wrongly_is_refused_before_anything_is_written(kept, tmp_path, monkeypatch, wrong) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=next(iter(wrong.values()))):
        export(kept, **({"out": "mapping.onnx"} | wrong))
    assert list(tmp_path.iterdir()) == []
