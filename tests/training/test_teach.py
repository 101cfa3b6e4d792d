"""The second stage: what is taught, by hand; that it moves with the photo; that it is learned."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.data.batches import Batches
from casmap.data.scenes import Scenes
from casmap.errors import UserError
from casmap.model.classifier import Classifier
from casmap.model.decoder import Decoder
from casmap.model.network import SaliencyNetwork
from casmap.training.log import read_log
from casmap.training.recipes import QUICK
from casmap.training.run import Run
from casmap.training.teach import PhotosWithMasks, check_teachable, teach
from casmap.training.teacher import GRID, agreement, make_masks, open_masks

SIZE = 64
RECIPE = QUICK.replace(
    size=SIZE, batch=16, taught_steps=60, taught_lr=0.01, teacher_size=96, smallest_crop=0.5, device="cpu"
)


def test_agreement_by_hand() -> None:
    mask = torch.tensor([1.0, 0.36, 0.0, 0.0]).repeat_interleave(16).expand(64, 64)[None, None]
    activation = torch.tensor([2.0, 2.0, 2.0, -7.0]).repeat_interleave(16).expand(64, 64)[None, None]
    taught = agreement(mask, activation)[0, 30]
    # sqrt((m + .05)(a + .05)): 1.05, sqrt(.41 * 1.05), sqrt(.05 * 1.05), .05; then stretched to 0..1, / 0.3, - 0.5.
    both = np.array([1.05, np.sqrt(0.41 * 1.05), np.sqrt(0.05 * 1.05), 0.05])
    wanted = np.clip((both - 0.05) / 1.0 / 0.3 - 0.5, 0, 1)
    np.testing.assert_allclose(taught[8::16], wanted, atol=1e-5)
    assert wanted[0] == wanted[1] == 1
    assert 0 < wanted[2] < 1
    assert wanted[3] == 0


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.1, 50))
def test_agreement_asks_how_much_more_not_how_much(seed: int, scale: float) -> None:
    rng = torch.Generator().manual_seed(seed)
    mask, activation = torch.rand(2, 1, 32, 32, generator=rng), torch.randn(2, 1, 3, 3, generator=rng)
    taught = agreement(mask, activation)
    assert taught.shape == (2, GRID, GRID)
    assert taught.min() >= 0
    assert taught.max() <= 1
    assert (taught.amax(dim=(1, 2)) == 1).all()
    torch.testing.assert_close(agreement(mask, scale * activation), taught, atol=1e-3, rtol=0)


class Pairs(Scenes):
    """Photos of which each shows, in its red channel, the mask that goes with it."""

    def image(self, index: int) -> np.ndarray:
        red = np.random.default_rng(index).integers(0, 2, (4, 4)).astype(np.uint8) * 255
        return np.dstack([red.repeat(16, 0).repeat(24, 1), *[np.zeros((64, 96), np.uint8)] * 2])


def test_photo_and_mask_stay_together_through_crops_and_mirrors() -> None:
    photos = Pairs(classes=4, photos=20, size=32)
    masks = np.stack([photos.image(i)[::16, ::24, 0].repeat(16, 0).repeat(16, 1) for i in range(20)])
    batches = Batches(PhotosWithMasks(photos, masks), 48, 20, (0.0,) * 4, (1.0,) * 4, smallest_crop=0.3)
    (pictures, labels), *_ = batches.between(0, 1)
    assert pictures.shape == (20, 4, 48, 48)
    np.testing.assert_array_equal(labels, photos.labels[batches.indices(0)])
    assert (pictures[:, 0] - pictures[:, 3]).abs().mean() < 0.05  # they differ in how they were resized
    assert (pictures[:, 0].flip(2) - pictures[:, 3]).abs().mean() > 0.2


@pytest.fixture(scope="module")
def network() -> SaliencyNetwork:
    torch.manual_seed(0)
    encoder = Classifier("test_resnet", 4)
    return SaliencyNetwork(encoder, Decoder(encoder.stage_channels), [f"class-0{i}" for i in range(4)], True).eval()


def test_what_is_taught_is_learned_and_the_encoder_stays(network, tmp_path) -> None:
    photos = Scenes(classes=4, photos=32, size=SIZE)
    before = {name: tensor.clone() for name, tensor in network.encoder.state_dict().items()}
    run = Run(tmp_path, RECIPE)
    taught, area = teach(network, photos, RECIPE, run)
    losses = [row["loss"] for row in read_log(tmp_path / "taught-log.csv")]
    masks = np.load(tmp_path / "teacher.npy") / 255
    baseline = -(masks.mean() * np.log(masks.mean()) + (1 - masks.mean()) * np.log(1 - masks.mean()))
    assert np.mean(losses[-10:]) < 0.9 * baseline < np.mean(losses[:3])  # better than the best constant
    assert area == pytest.approx(masks.mean(), abs=0.1)
    assert all(torch.equal(tensor, before[name]) for name, tensor in taught.encoder.state_dict().items())
    assert taught.decoder.believes
    assert taught.classes == network.classes


def test_the_teacher_is_told_the_label(network, tmp_path) -> None:
    """The same photos with other labels: other class activation maps, other masks."""
    photos, others = Scenes(classes=4, photos=16, size=SIZE), Scenes(classes=4, photos=16, size=SIZE)
    others.labels = (photos.labels + 1) % 4
    masks = [open_masks(tmp_path / name, 16) for name in ("one.npy", "other.npy")]
    for mine, told in zip(masks, (photos, others), strict=True):
        make_masks(mine, np.array([0, 3, 5]), told, network, RECIPE, Run(tmp_path, RECIPE))
    assert np.flatnonzero(masks[0].any(axis=(1, 2))).tolist() == [0, 3, 5]  # the others are not wanted
    assert np.abs(masks[0].astype(float) - masks[1])[[0, 3, 5]].mean() > 5


@pytest.mark.parametrize("backbone", ["test_vit", "torchvision/mobilenet_v2"])
def test_a_backbone_without_class_activation_maps_is_refused_before_the_hour(backbone) -> None:
    with pytest.raises(UserError, match=backbone):
        check_teachable(Classifier(backbone, 3))


@pytest.mark.parametrize("content", [b"not an array", b""])
def test_a_damaged_file_of_the_teacher_is_named(tmp_path, content) -> None:
    (tmp_path / "teacher.npy").write_bytes(content)
    with pytest.raises(UserError, match=r"teacher\.npy"):
        open_masks(tmp_path / "teacher.npy", 4)
