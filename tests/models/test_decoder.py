"""The decoder of the paper's supplement, layer for layer."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import interpolate

from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder, Mapping
from casmap.models.network import SaliencyNetwork

CHANNELS = [64, 256, 512, 1024, 2048]  # of ResNet-50


def _stages(channels: list[int], height: int, width: int, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = [(-(-height // 2**i), -(-width // 2**i)) for i in range(1, len(channels) + 1)]
    return [torch.randn(2, c, *size, generator=generator) for c, size in zip(channels, sizes, strict=True)]


def test_each_stage_has_64_filters_of_1x1_batch_norm_and_relu() -> None:
    decoder = Decoder(CHANNELS)
    assert len(decoder.lateral) == 5
    for channels, (convolution, norm, activation) in zip(CHANNELS, decoder.lateral, strict=True):
        assert isinstance(convolution, nn.Conv2d)
        assert (convolution.in_channels, convolution.out_channels) == (channels, 64)
        assert (convolution.kernel_size, convolution.stride, convolution.padding) == ((1, 1), (1, 1), (0, 0))
        assert isinstance(norm, nn.BatchNorm2d)
        assert norm.num_features == 64
        assert isinstance(activation, nn.ReLU)


def test_one_filter_of_3x3_reads_all_stages_together() -> None:
    filters = Decoder(CHANNELS).mask
    assert (filters.in_channels, filters.out_channels) == (5 * 64, 1)
    assert (filters.kernel_size, filters.stride, filters.padding) == ((3, 3), (1, 1), (1, 1))


def test_there_is_nothing_else_to_learn_in_it() -> None:
    # 1x1 without a bias (the batch norm has one), 64 scales and 64 shifts a stage, 3x3 over 320 channels with a bias.
    by_hand = 64 * sum(CHANNELS) + 5 * (64 + 64) + (5 * 64 * 9 + 1)
    assert sum(parameter.numel() for parameter in Decoder(CHANNELS).parameters()) == by_hand


@torch.no_grad()
def test_the_mask_by_hand() -> None:
    torch.manual_seed(0)
    decoder = Decoder([6, 10]).eval()
    for _, norm, _ in decoder.lateral:  # statistics as after some training
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    stages = _stages([6, 10], 32, 48)
    hidden = []
    for stage, (convolution, norm, _) in zip(stages, decoder.lateral, strict=True):
        x = torch.einsum("nchw,oc->nohw", stage, convolution.weight[:, :, 0, 0])
        scale = norm.weight / (norm.running_var + norm.eps).sqrt()
        x = (x - norm.running_mean[:, None, None]) * scale[:, None, None] + norm.bias[:, None, None]
        hidden.append(interpolate(x.clamp(min=0), (8, 12), mode="bilinear", align_corners=False))
    patches = nn.functional.unfold(torch.cat(hidden, 1), 3, padding=1)  # (N, 128 * 9, 96)
    logits = (patches * decoder.mask.weight.reshape(1, -1, 1)).sum(1) + decoder.mask.bias
    quarter = (1 / (1 + (-logits).exp())).reshape(2, 1, 8, 12)
    wanted = quarter.repeat_interleave(4, dim=2).repeat_interleave(4, dim=3)
    torch.testing.assert_close(decoder(stages, (32, 48)), wanted)


@settings(deadline=None, max_examples=15)
@given(st.integers(8, 20), st.integers(8, 20), st.integers(0, 99))
@torch.no_grad()
def test_each_4x4_block_is_constant_where_the_size_is_a_multiple_of_4(rows, columns, seed) -> None:
    torch.manual_seed(seed)
    mask = Decoder([4, 8])(_stages([4, 8], 4 * rows, 4 * columns, seed), (4 * rows, 4 * columns))
    blocks = mask.reshape(2, rows, 4, columns, 4)
    assert torch.equal(blocks.amax(dim=(2, 4)), blocks.amin(dim=(2, 4)))
    assert mask.unique().numel() > 2 * rows  # and the blocks differ


@settings(deadline=None, max_examples=15)
@given(st.integers(17, 70), st.integers(17, 70), st.integers(0, 99))
@torch.no_grad()
def test_any_size_comes_back_with_values_in_0_to_1(height, width, seed) -> None:
    torch.manual_seed(seed)
    mask = Decoder([4, 8, 8])(_stages([4, 8, 8], height, width, seed), (height, width))
    assert mask.shape == (2, 1, height, width)
    assert 0 <= mask.min() < mask.max() <= 1


def test_as_many_stages_as_were_promised_or_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        Decoder([4, 8])(_stages([4, 8, 8], 32, 32), (32, 32))


def _gradients(module: nn.Module) -> int:
    return sum(parameter.grad is not None and bool(parameter.grad.any()) for parameter in module.parameters())


def test_a_shared_encoder_gets_no_gradient_from_the_masks_and_a_separate_one_does() -> None:
    torch.manual_seed(0)
    shared, own = Classifier("test_resnet", 3), Classifier("test_resnet", 3)
    images = torch.randn(2, 3, 64, 64)
    for encoder in (None, own):
        mapping = Mapping(shared.stage_channels, encoder)
        mapping(images, shared.forward_stages(images)[1]).mean().backward()
        assert _gradients(mapping.decoder) > 5
        assert _gradients(shared) == 0
    assert _gradients(own) > 20
    assert _gradients(own.network.get_classifier()) == 0  # no mask depends on the head


@torch.no_grad()
def test_a_separate_encoder_is_asked_instead_of_the_classifier() -> None:
    torch.manual_seed(0)
    shared, own = Classifier("test_resnet", 3).eval(), Classifier("test_resnet", 3).eval()
    images = torch.randn(2, 3, 64, 64)
    separate, sharing = Mapping(shared.stage_channels, own).eval(), Mapping(shared.stage_channels).eval()
    sharing.decoder.load_state_dict(separate.decoder.state_dict())
    mine, yours = own.forward_stages(images)[1], shared.forward_stages(images)[1]
    torch.testing.assert_close(separate(images, yours), sharing(images, mine))
    assert not torch.allclose(separate(images, yours), sharing(images, yours))


@torch.no_grad()
def test_the_network_of_a_file_gives_the_mappings_masks_and_the_encoders_logits() -> None:
    torch.manual_seed(0)
    encoder = Classifier("test_resnet", 3).eval()
    mapping = Mapping(encoder.stage_channels).eval()
    images = torch.randn(2, 3, 64, 48)
    masks, logits = SaliencyNetwork(encoder, mapping.decoder, ["a", "b", "c"], predicts=True).eval()(images)
    assert torch.equal(masks, mapping(images, encoder.forward_stages(images)[1]))
    assert torch.equal(logits, encoder(images))
