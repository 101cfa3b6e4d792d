"""Sources of backbones: found by name; a source of another package works like casmap's own."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest
import torch

from casmap.errors import UnsupportedBackbone
from casmap.models.backbones import BACKBONE_SOURCES, source_of, weights_reachable
from casmap.models.class_activation import class_activation
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import load_mapping, save_mapping
from casmap.models.network import SaliencyNetwork

TOY = """
from torch import nn
from casmap.models.backbones import Backbone, BackboneSource

class Toy(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.early, self.late = nn.Conv2d(3, width, 3, 2, 1), nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, images):
        early = self.early(images).relu()
        late = self.late(early).relu()
        return {"early": early, "late": late, "logits": self.head(late.mean(dim=(2, 3)))}

def build(name, classes, pretrained):
    return Backbone(Toy(int(name.removeprefix("toy/")), classes), (0.5,) * 3, (0.25,) * 3, 32)

SOURCE = BackboneSource(owns=lambda name: name.startswith("toy/"), build=build)
"""


@pytest.fixture(params=["registered", "installed"])
def toy(request, tmp_path, monkeypatch) -> None:
    """A source from outside: registered by the program itself, or the entry point of an installed package."""
    (tmp_path / "toy_source.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "toy_source", raising=False)
    monkeypatch.setattr(BACKBONE_SOURCES, "_registered", {name: BACKBONE_SOURCES[name] for name in BACKBONE_SOURCES})
    if request.param == "registered":
        import toy_source

        BACKBONE_SOURCES.register("toy")(toy_source.SOURCE)
    else:
        package = tmp_path / "toy-1.0.dist-info"
        package.mkdir()
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
        (package / "entry_points.txt").write_text("[casmap.backbones]\ntoy = toy_source:SOURCE\n")
        monkeypatch.delitem(vars(BACKBONE_SOURCES), "_entry_points")  # which it has found once
        monkeypatch.setattr("casmap.registry._installed", entry_points)  # which are read once for all registries


def test_a_source_from_outside_makes_classifiers_decoders_and_files(toy, tmp_path) -> None:
    assert "toy" in BACKBONE_SOURCES.names
    classifier = Classifier("toy/6", 3)
    assert (classifier.stage_channels, classifier.side) == ([6, 12], 32)
    assert (classifier.mean, classifier.std) == ((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    assert set(classifier.state_dict()) >= {"network.early.weight", "network.head.bias"}
    network = SaliencyNetwork(classifier, Decoder(classifier.stage_channels), ["a", "b", "c"], True).eval()
    images = torch.randn(2, 3, 40, 48)
    with torch.no_grad():
        masks, logits = network(images)
    assert masks.shape == (2, 1, 40, 48)
    assert logits.shape == (2, 3)
    save_mapping(tmp_path / "m.safetensors", network, {"size": 32})
    again, about = load_mapping(tmp_path / "m.safetensors")
    assert about["backbone"] == "toy/6"
    with torch.no_grad():
        torch.testing.assert_close(again(images), (masks, logits), atol=0, rtol=0)


def test_a_source_without_weights_has_defaults(toy) -> None:
    assert not weights_reachable("toy/6")
    assert "pretrained=False" in source_of("toy/6").missing_weights("toy/6")
    with pytest.raises(UnsupportedBackbone, match="not toy/6"):
        class_activation(Classifier("toy/6", 3).eval(), torch.zeros(1, 3, 32, 32), torch.tensor([0]))
    assert source_of("resnet18") is BACKBONE_SOURCES["timm"]  # which still owns all other names


def test_a_source_from_outside_leaves_no_trace() -> None:
    assert BACKBONE_SOURCES.names == ["timm", "torchvision", "wheels"]


@pytest.mark.parametrize(
    ("backbone", "source"),
    [
        ("lite0", "wheels"),
        ("lite2", "wheels"),
        ("lite3", "timm"),
        ("tf_efficientnet_lite0", "timm"),
        ("torchvision/resnet18", "torchvision"),
        ("torchvision/nothing", "torchvision"),
        ("torchvision", "timm"),
        ("", "timm"),
    ],
)
def test_a_name_belongs_to_one_source(backbone, source) -> None:
    assert source_of(backbone) is BACKBONE_SOURCES[source]


def test_torchvisions_own_weights_are_pickles_and_never_fetched() -> None:
    assert not weights_reachable("torchvision/resnet18")


def test_the_names_of_sources_are_known_without_torch() -> None:
    code = (
        "import sys; from casmap.models.backbones import BACKBONE_SOURCES; print(BACKBONE_SOURCES.names); "
        "print([name for name in ('torch', 'timm', 'torchvision') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['timm', 'torchvision', 'wheels']", "[]"]
