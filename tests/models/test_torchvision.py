"""torchvision's classifiers: its own names for the weights, its own logits, and the layers before each downscaling."""

import pytest
import torch
import torchvision
from safetensors.torch import save_file

from casmap.errors import UserError
from casmap.models.classifier import Classifier
from casmap.models.decoder import Mapping
from casmap.training.first_classifier import load_backbone

# By hand from the architectures: channels of the last layer of each resolution.
CHANNELS = {
    "resnet18": [64, 64, 128, 256, 512],
    "mobilenet_v2": [16, 24, 32, 96, 1280],
    "vgg11_bn": [64, 128, 256, 512, 512, 512],
    "densenet121": [64, 256, 512, 1024, 1024],
    "regnet_x_400mf": [32, 32, 64, 160, 400],
    "efficientnet_b0": [16, 24, 40, 112, 1280],
    "mobilenet_v3_small": [16, 16, 24, 48, 576],
}


@pytest.mark.parametrize("name", CHANNELS)
def test_weights_from_a_file_give_torchvisions_own_logits_and_a_mask(name, tmp_path) -> None:
    torch.manual_seed(1)
    theirs = torchvision.models.get_model(name, weights=None, num_classes=3).eval()
    save_file(theirs.state_dict(), tmp_path / "weights.safetensors")
    ours = Classifier(f"torchvision/{name}", 3)
    assert load_backbone(ours, str(tmp_path / "weights.safetensors")) == []
    ours.eval()
    images = torch.randn(2, 3, 96, 96)
    with torch.no_grad():
        logits, stages = ours.forward_stages(images)
        torch.testing.assert_close(logits, theirs(images))
        torch.testing.assert_close(ours(images), theirs(images))
        assert ours.stage_channels == [stage.shape[1] for stage in stages] == CHANNELS[name]
        assert Mapping(ours.stage_channels)(images, stages).shape == (2, 1, 96, 96)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("resnet19", "torchvision knows no classifier named 'resnet19'; among those it knows: .*resnet18"),
        ("vit_b_16", "torchvision's vit_b_16 does not show layers of several sizes"),
        ("fasterrcnn_resnet50_fpn", "knows no classifier"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(name, sentence) -> None:
    with pytest.raises(UserError, match=sentence):
        Classifier(f"torchvision/{name}", 3)
