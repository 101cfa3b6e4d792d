"""The probability-weighted class activation map: computed by hand, and its invariances."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from casmap.models.class_activation import CAM_CHANNELS, class_activation, min_max, probability_weighted_cam
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import load_mapping, save_mapping
from casmap.models.network import SaliencyNetwork


def _head(weights: list[list[float]]) -> nn.Linear:
    head = nn.Linear(len(weights[0]), len(weights))
    head.weight.data = torch.tensor(weights)
    return head


def test_the_probability_weighted_cam_by_hand() -> None:
    # Two features at two places; two classes of which the first has probability 3/4.
    features = torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]]]])
    logits = torch.tensor([[3.0, 1.0]]).log()
    head = _head([[4.0, -4.0], [0.0, 4.0]])
    # p w = (3/4 * 4, 3/4 * -4 + 1/4 * 4) = (3, -2): the maps are 3 and -2.
    maps = probability_weighted_cam(3 * features, features, logits, head)[0]
    activation_share, activation_standard, norm_share, norm_standard = maps
    torch.testing.assert_close(activation_share, torch.tensor([[1.0, 0.0]]))
    torch.testing.assert_close(activation_standard, torch.tensor([[1.0, -1.0]]), atol=1e-3, rtol=0)
    torch.testing.assert_close(norm_share, torch.tensor([[1.0, 1.0]]))  # 3 at both places
    torch.testing.assert_close(norm_standard, torch.tensor([[0.0, 0.0]]))


@settings(max_examples=30, deadline=None)
@given(scale=st.floats(0.5, 100), seed=st.integers(0, 1000))
def test_it_does_not_depend_on_the_scale_of_stage_or_head(scale: float, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    stage, features, logits = (
        torch.rand(2, n, *side, generator=rng) for n, side in ((6, (3, 4)), (8, (3, 4)), (5, ()))
    )
    head, scaled = nn.Linear(8, 5), nn.Linear(8, 5)
    head.weight.data = torch.randn(5, 8, generator=rng)
    scaled.weight.data = scale * head.weight.data
    one = probability_weighted_cam(stage, features, logits, head)
    other = probability_weighted_cam(scale * stage, features, logits, scaled)
    assert one.shape == (2, CAM_CHANNELS, 3, 4)
    torch.testing.assert_close(one, other, atol=0.02, rtol=0.02)  # up to the constants that prevent 0 / 0


def test_with_one_certain_class_it_is_the_activation_map_of_that_class() -> None:
    torch.manual_seed(0)
    classifier = Classifier("test_resnet", 3).eval()
    classifier.network.get_classifier().bias.data = torch.tensor([0.0, 1000.0, 0.0])
    images = torch.randn(2, 3, 64, 96)
    with torch.no_grad():
        logits, stages = classifier.forward_stages_with_cam(images)
        plain, without = classifier.forward_stages(images)
    torch.testing.assert_close(logits, plain)
    assert len(stages) == len(without) + 1
    wanted = class_activation(classifier, images, torch.tensor([1, 1])).clamp_min(0)
    torch.testing.assert_close(stages[-1][:, 0], wanted / wanted.amax(dim=(1, 2), keepdim=True))


def test_a_mapping_with_cam_comes_back_from_its_file(tmp_path) -> None:
    torch.manual_seed(0)
    encoder = Classifier("test_resnet", 3)
    network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels, with_cam=True), ["a", "b", "c"], True).eval()
    save_mapping(tmp_path / "m.safetensors", network, {"size": 64})
    again, about = load_mapping(tmp_path / "m.safetensors")
    assert about["with_cam"] is True
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(again(images), network(images), atol=0, rtol=0)


@settings(max_examples=30, deadline=None)
@given(scale=st.floats(0.01, 100), shift=st.floats(-10, 10), seed=st.integers(0, 1000))
def test_a_stretched_map_goes_from_0_to_1_whatever_its_scale(scale: float, shift: float, seed: int) -> None:
    maps = torch.rand(2, 1, 3, 4, generator=torch.Generator().manual_seed(seed))
    stretched = min_max(scale * maps + shift)
    assert stretched.amin(dim=(-2, -1)).tolist() == [[0], [0]]
    assert stretched.amax(dim=(-2, -1)).tolist() == [[1], [1]]
    torch.testing.assert_close(stretched, min_max(maps), atol=5e-3, rtol=0)  # 32 bits: a shift costs digits


def test_a_flat_map_is_0_and_passes_a_finite_gradient() -> None:
    maps = torch.full((2, 3, 3), 7.0, requires_grad=True)
    stretched = min_max(maps)
    stretched.square().sum().backward()
    assert stretched.tolist() == torch.zeros(2, 3, 3).tolist()
    assert maps.grad is not None
    assert maps.grad.isfinite().all()


def test_noise_below_the_least_range_is_not_blown_up() -> None:
    assert min_max(torch.tensor([[[0.0, 1e-9]]])).max() < 0.01
    assert min_max(torch.tensor([[[0.0, 1e-9]]]), least=1e-12).max() == 1
