"""The architecture, drawn from the model itself."""

import cv2
import numpy as np
import pytest
import torch

from casmap.errors import UserError
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.paper.figure1 import TRAINING, _layers, run_figure1


@pytest.mark.parametrize("backbone", ["test_resnet", "test_convnext", "test_vit", "torchvision/resnet18"])
def test_layers_are_the_models(backbone) -> None:
    f = Classifier(backbone, classes=5)
    decoder = Decoder(f.stage_channels)
    found = _layers(f, decoder, 96)
    with torch.no_grad():
        _, stages = f.eval().forward_stages(torch.zeros(1, 3, 96, 96))
    shown = [layer.shape for layer in found if layer.name.startswith("stage") and layer.part == "encoder"]
    assert shown == [tuple(stage.shape[1:]) for stage in stages]
    parts = {part: sum(layer.parameters for layer in found if layer.part == part) for part in ("encoder", "decoder")}
    assert parts["encoder"] == sum(parameter.numel() for parameter in f.parameters())
    assert parts["decoder"] == sum(parameter.numel() for parameter in decoder.parameters())
    assert [layer.size for layer in found if layer.name.startswith("mask m(x)")] == ["1 x 96 x 96"]
    laterals = [layer.shape for layer in found if layer.part == "decoder" and layer.name.startswith("stage")]
    assert laterals == [(64, 24, 24)] * len(stages)  # the supplement: 64 filters, a quarter of the picture
    assert [layer.shape for layer in found if layer.name.startswith("H,")] == [(64 * len(stages), 24, 24)]


def test_what_is_for_training_only_is_said(tmp_path) -> None:
    outcome = run_figure1(backbone="test_resnet", classes=7, size=64, out=tmp_path)
    training = [record for record in outcome.records if record["part"] == TRAINING]
    assert [record["output"] for record in training] == ["3 x 64 x 64", "7"]
    picture = cv2.imdecode(np.frombuffer(outcome.figures[""], np.uint8), cv2.IMREAD_COLOR)
    assert picture.shape[1] > 1000
    assert picture.std() > 5  # something is drawn


def test_another_drawing_in_the_same_folder_is_refused(tmp_path) -> None:
    run_figure1(backbone="test_resnet", classes=7, size=64, out=tmp_path)
    with pytest.raises(UserError, match="was started with classes = 7, not 8"):
        run_figure1(backbone="test_resnet", classes=8, size=64, out=tmp_path)


def test_a_size_that_patches_do_not_fit_is_one_sentence(tmp_path) -> None:
    with pytest.raises(UserError, match="test_vit does not support images of this size"):
        run_figure1(backbone="test_vit", classes=5, size=100, out=tmp_path)
