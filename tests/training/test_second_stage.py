"""The second stage: pseudo-masks computed by hand, their alignment with photos, and training on them."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.data.batches import Batches
from casmap.data.resizing import resize
from casmap.data.scenes import Scenes
from casmap.errors import UserError
from casmap.inference.mapper import SaliencyMapper
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import load_mapping, save_mapping
from casmap.models.network import SaliencyNetwork
from casmap.training import pseudo_masks
from casmap.training.checkpoints import Log, StoppedStage, read_log
from casmap.training.loop import train_mapping
from casmap.training.pseudo_masks import GRIDS, PseudoMasks, _apply_cut, _cut_for_area, agreement
from casmap.training.recipes import QUICK
from casmap.training.run import Run
from casmap.training.second_stage import PhotosWithMasks, train_second_stage

SIZE = 64
GRID = GRIDS["cam"]
RECIPE = QUICK.replace(
    size=SIZE, batch=16, second_stage_steps=60, second_stage_lr=0.01, cam_size=96, smallest_crop=0.5, device="cpu"
)


def test_agreement_by_hand() -> None:
    mask = torch.tensor([1.0, 0.36, 0.0, 0.0]).repeat_interleave(16).expand(64, 64)[None, None]
    activation = torch.tensor([2.0, 2.0, 2.0, -7.0]).repeat_interleave(16).expand(64, 64)[None, None]
    # sqrt((m + .05)(a + .05)): 1.05, sqrt(.41 * 1.05), sqrt(.05 * 1.05), .05; then stretched to 0..1.
    both = np.array([1.05, np.sqrt(0.41 * 1.05), np.sqrt(0.05 * 1.05), 0.05])
    np.testing.assert_allclose(agreement(mask, [activation])[0, 30, 8::16], both - 0.05, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), area=st.floats(0.1, 0.8))
def test_the_cut_gives_the_area_that_was_opened_for(seed: int, area: float) -> None:
    agreed = torch.rand(3, GRID, GRID, generator=torch.Generator().manual_seed(seed)) ** 2
    cut = _cut_for_area(agreed, area)
    assert float(_apply_cut(agreed, cut).mean()) == pytest.approx(area, abs=0.002)


def test_an_area_out_of_reach_has_the_nearest_cut() -> None:
    agreed = torch.tensor([0.0, 0.0, 0.5, 1.0])
    assert _cut_for_area(agreed, 0.9) == pytest.approx(0.01, abs=1e-4)  # two of four can never be marked
    assert _cut_for_area(agreed, 0.0) == pytest.approx(1.0, abs=1e-4)


def test_taught_masks_mark_as_much_as_algorithm_1(network, tmp_path) -> None:
    photos = Scenes(classes=4, photos=40, size=SIZE)
    torch.nn.init.normal_(network.decoder.mask.weight, std=0.5)
    wanted = np.arange(0, 40, 2)
    masks = PseudoMasks(tmp_path / "masks", wanted).make(
        photos, network.encoder, SaliencyMapper(network, SIZE), Run(tmp_path / "run", RECIPE)
    )
    images = np.stack([resize(photos.image(int(i)), RECIPE.algorithm_side, "squash") for i in wanted])
    marked = SaliencyMapper(network, SIZE).masks(images)[0]
    assert marked.std() > 0.05
    assert np.mean([masks[int(i)].mean() / 255 for i in wanted]) == pytest.approx(marked.mean(), abs=0.01)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.1, 50))
def test_agreement_does_not_depend_on_the_scale_of_the_activation(seed: int, scale: float) -> None:
    rng = torch.Generator().manual_seed(seed)
    mask, activation = torch.rand(2, 1, 32, 32, generator=rng), torch.randn(2, 1, 3, 3, generator=rng)
    agreed = agreement(mask, [activation])
    assert agreed.shape == (2, GRID, GRID)
    assert agreed.min() >= 0
    assert agreed.max() <= 1
    assert (agreed.amax(dim=(1, 2)) == 1).all()
    torch.testing.assert_close(agreement(mask, [scale * activation]), agreed, atol=1e-3, rtol=0)


class Pairs(Scenes):
    """Photos of which each shows, in its red channel, the mask that goes with it."""

    def image(self, index: int, least=None) -> np.ndarray:
        red = np.random.default_rng(index).integers(0, 2, (4, 4)).astype(np.uint8) * 255
        return np.dstack([red.repeat(16, 0).repeat(24, 1), *[np.zeros((64, 96), np.uint8)] * 2])


def test_photo_and_mask_stay_together_through_crops_and_mirrors() -> None:
    photos = Pairs(classes=4, photos=20, size=32)
    masks = np.stack([photos.image(i)[::16, ::24, 0].repeat(16, 0).repeat(16, 1) for i in range(20)])
    batches = Batches(PhotosWithMasks(photos, masks), 48, 20, (0.0,) * 4, (1.0,) * 4, smallest_crop=0.3)
    (images, labels), *_ = batches.between(0, 1)
    assert images.shape == (20, 4, 48, 48)
    np.testing.assert_array_equal(labels, photos.labels[batches.indices(0)])
    assert (images[:, 0] - images[:, 3]).abs().mean() < 0.05  # they differ in how they were resized
    assert (images[:, 0].flip(2) - images[:, 3]).abs().mean() > 0.2


@pytest.fixture(scope="module")
def network() -> SaliencyNetwork:
    torch.manual_seed(0)
    encoder = Classifier("test_resnet", 4)
    return SaliencyNetwork(encoder, Decoder(encoder.stage_channels), [f"class-0{i}" for i in range(4)], True).eval()


def test_the_decoder_learns_the_pseudo_masks_and_the_encoder_does_not_change(network, tmp_path) -> None:
    photos = Scenes(classes=4, photos=32, size=SIZE)
    before = {name: tensor.clone() for name, tensor in network.encoder.state_dict().items()}
    run = Run(tmp_path, RECIPE)
    trained, measured = train_second_stage(network, SaliencyMapper(network, SIZE), photos, run)
    losses = [row["loss"] for row in read_log(tmp_path / "taught-log.csv")]
    masks = np.concatenate([np.load(file) for file in (tmp_path / "teacher-masks").iterdir()]) / 255
    baseline = -(masks.mean() * np.log(masks.mean()) + (1 - masks.mean()) * np.log(1 - masks.mean()))
    assert np.mean(losses[-10:]) < 0.9 * baseline < np.mean(losses[:3])  # better than the best constant
    assert measured["area"] == pytest.approx(masks.mean(), abs=0.15)
    assert all(torch.equal(tensor, before[name]) for name, tensor in trained.encoder.state_dict().items())
    assert trained.decoder.with_cam
    assert trained.classes == network.classes


def test_the_encoder_learns_on_request_keeps_its_classes_and_resumes(network, tmp_path) -> None:
    photos, teacher = Scenes(classes=4, photos=32, size=SIZE), SaliencyMapper(network, SIZE)
    recipe = RECIPE.replace(encoder_lr=1e-3, second_stage_steps=12, checkpoint_every=5)
    before = {name: tensor.clone() for name, tensor in network.encoder.state_dict().items()}
    trained, _ = train_second_stage(network, teacher, photos, Run(tmp_path / "run", recipe))
    images = torch.randn(8, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        old, new = network.encoder(images).softmax(dim=1), trained.encoder(images).softmax(dim=1)
    assert 0 < (old - new).abs().max() < 0.2
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.encoder.state_dict().items())
    for name, tensor in trained.encoder.state_dict().items():
        changed = not torch.equal(tensor, before[name])
        assert changed != ("running" in name or "tracked" in name), name  # the batch norms keep their statistics
    # The last checkpoint is that of step 10: two steps are repeated.
    again, _ = train_second_stage(network, teacher, photos, Run(tmp_path / "run", recipe, resume=True))
    for one, other in zip(trained.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_the_weights_are_averaged_with_those_before_the_stage(network, tmp_path) -> None:
    photos, teacher = Scenes(classes=4, photos=16, size=SIZE), SaliencyMapper(network, SIZE)
    start = SaliencyNetwork(
        network.encoder, Decoder(network.encoder.stage_channels, with_cam=True), network.classes, True
    ).eval()
    recipe = RECIPE.replace(from_scratch=False, encoder_lr=1e-3, second_stage_steps=4)
    after, half, none = (
        train_second_stage(start, teacher, photos, Run(tmp_path / str(share), recipe.replace(start_share=share)))[0]
        for share in (0.0, 0.5, 1.0)
    )
    weights = zip(start.parameters(), half.parameters(), after.parameters(), none.parameters(), strict=True)
    for before, mean, end, same in weights:
        torch.testing.assert_close(mean, (before + end) / 2)
        torch.testing.assert_close(same, before)
    assert any(not torch.equal(one, other) for one, other in zip(start.parameters(), after.parameters(), strict=True))


def test_a_stopped_second_stage_leaves_averaged_weights(network, tmp_path, monkeypatch) -> None:
    photos, teacher = Scenes(classes=4, photos=16, size=SIZE), SaliencyMapper(network, SIZE)
    start = SaliencyNetwork(
        network.encoder, Decoder(network.encoder.stage_channels, with_cam=True), network.classes, True
    ).eval()
    add = Log.add

    def stopping_add(self, number, **values):
        add(self, number, **values)
        if number == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Log, "add", stopping_add)
    left = []
    for share in (0.0, 0.5):
        recipe = RECIPE.replace(from_scratch=False, encoder_lr=1e-3, second_stage_steps=6, start_share=share)
        with pytest.raises(StoppedStage) as stop:
            train_second_stage(start, teacher, photos, Run(tmp_path / str(share), recipe))
        left.append(stop.value.network)
    for before, end, mean in zip(start.parameters(), *(of.parameters() for of in left), strict=True):
        torch.testing.assert_close(mean, (before + end) / 2)


def test_a_share_of_a_random_start_is_refused() -> None:
    with pytest.raises(UserError, match="start_share needs from_scratch=False"):
        RECIPE.replace(start_share=0.5)


def test_pseudo_masks_depend_on_the_label(network, tmp_path) -> None:
    """The same photos with other labels: other class activation maps, other masks."""
    photos, others = Scenes(classes=4, photos=16, size=SIZE), Scenes(classes=4, photos=16, size=SIZE)
    others.labels = (photos.labels + 1) % 4
    one, other = (
        PseudoMasks(tmp_path / name, np.array([0, 3, 5])).make(
            one_set, network.encoder, SaliencyMapper(network, SIZE), Run(tmp_path, RECIPE)
        )
        for name, one_set in (("one", photos), ("other", others))
    )
    for photo in (0, 3, 5):
        assert np.abs(one[photo].astype(float) - other[photo]).mean() > 1


def test_a_damaged_file_of_pseudo_masks_is_named(network, tmp_path) -> None:
    photos, run = Scenes(classes=4, photos=4, size=SIZE), Run(tmp_path, RECIPE)
    PseudoMasks(tmp_path / "masks", np.arange(4)).make(photos, network.encoder, SaliencyMapper(network, SIZE), run)
    (file,) = (tmp_path / "masks").iterdir()
    file.write_bytes(file.read_bytes()[:100])
    run.resumed = True
    with pytest.raises(UserError, match=r"000000\.npy is damaged"):
        PseudoMasks(tmp_path / "masks", np.arange(4)).make(photos, network.encoder, SaliencyMapper(network, SIZE), run)


def test_existing_masks_are_not_made_again_unless_the_run_is_new(network, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(pseudo_masks, "FILE", 8)
    photos, run = Scenes(classes=4, photos=20, size=SIZE), Run(tmp_path, RECIPE)
    wanted = np.array([1, 2, 3, 5, 7, 8, 9, 11, 12, 13, 19])
    first = PseudoMasks(tmp_path / "masks", wanted).make(photos, network.encoder, SaliencyMapper(network, SIZE), run)
    files = sorted((tmp_path / "masks").iterdir())
    assert [np.load(file).shape for file in files] == [(8, GRID, GRID), (3, GRID, GRID)]
    kept = [np.array(first[photo]) for photo in wanted]
    files[1].unlink()
    opened = []
    real = photos.image
    monkeypatch.setattr(photos, "image", lambda index, least=None: opened.append(index) or real(index, least))
    for resumed, again in ((True, [12, 13, 19]), (False, wanted.tolist())):
        run.resumed = resumed
        opened.clear()
        masks = PseudoMasks(tmp_path / "masks", wanted).make(
            photos, network.encoder, SaliencyMapper(network, SIZE), run
        )
        assert sorted(opened) == sorted([*again, *wanted])  # the cut is chosen on all of them
        assert all(np.array_equal(masks[photo], mask) for photo, mask in zip(wanted, kept, strict=True))


def test_all_of_it_is_on_the_runs_device(network, tmp_path) -> None:
    """A device on which nothing is computed, but on which all must be."""
    run = Run(tmp_path, RECIPE)
    run.device = torch.device("meta")
    with pytest.raises(RuntimeError, match=r"item\(\) cannot be called on meta tensors"):  # nothing fails before
        train_second_stage(
            copy.deepcopy(network), SaliencyMapper(network, SIZE), Scenes(classes=4, photos=16, size=SIZE), run
        )


def test_cams_of_several_sizes_are_averaged_after_rescaling() -> None:
    """Two maps of opposite halves, one a hundred times the other: the mean is flat, so the mask alone decides."""
    mask = torch.tensor([1.0, 0.25]).repeat_interleave(32).expand(64, 64)[None, None]
    left, right = torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[[[0.0, 100.0]]]])
    both = agreement(mask, [left.repeat_interleave(32, -1), right.repeat_interleave(32, -1)])[0, 0]
    assert both[0] == both[31] == 1
    assert both[32] == both[63] == 0


def test_rounds_train_on_the_masks_of_the_round_before_and_resume(tmp_path) -> None:
    """Two rounds from the masks of a given mapping, without Algorithm 1; a run without its last round continues."""
    photos = Scenes(classes=4, photos=16, size=SIZE)
    encoder = Classifier("test_resnet", 4)
    teacher = SaliencyNetwork(encoder, Decoder(encoder.stage_channels), list(photos.classes), True)
    torch.nn.init.normal_(teacher.decoder.mask.weight, std=0.5)
    save_mapping(tmp_path / "teacher.safetensors", teacher, {"size": 32})
    recipe = RECIPE.replace(
        masks_from=str(tmp_path / "teacher.safetensors"), second_stage_rounds=2, second_stage_steps=4, first_steps=2,
        cam_scales=2, batch=8,
    )  # fmt: skip
    result = train_mapping(photos, Run(tmp_path / "run", recipe))
    first, last = (load_mapping(tmp_path / "run" / name) for name in ("round-1.safetensors", "mapping.safetensors"))
    assert not (tmp_path / "run" / "casm.safetensors").exists()
    assert result.steps == 0
    assert 0 <= result.masked_accuracy <= 1
    assert last[1]["training"]["area"] == result.area
    assert last[1]["recipe"]["masks_from"] == "teacher.safetensors"  # without its folder
    weights = [network.decoder.state_dict() for network, _ in (first, last)]
    assert not torch.equal(*(each["mask.weight"] for each in weights))
    (tmp_path / "run" / "mapping.safetensors").unlink()
    (tmp_path / "run" / "taught-log-2.csv").unlink()
    resumed = train_mapping(photos, Run(tmp_path / "run", recipe, resume=True))
    again = load_mapping(resumed.mapping)[0].decoder.state_dict()
    assert all(torch.equal(tensor, again[name]) for name, tensor in weights[1].items())


def test_masks_from_needs_a_second_stage() -> None:
    with pytest.raises(UserError, match="needs a second stage"):
        QUICK.replace(masks_from="shipped")


def test_fitted_pseudo_masks_end_at_the_edges_of_the_photo(tmp_path) -> None:
    """The teacher's mask of each photo ends 8 pixels beside the edge of a square; the pseudo-mask ends at the edge."""

    class Squares(Scenes):
        def image(self, index: int, least=None) -> np.ndarray:
            image = np.full((96, 96, 3), 40, np.uint8)
            image[24:72, 24:72] = (200, 180, 60)
            return image

    class Beside:
        mean, std, predicts, classes, concurrent = (0.5,) * 3, (0.5,) * 3, False, ["a"], False

        def run(self, images):
            masks = np.zeros((len(images), 96, 96), np.float32)
            masks[:, 16:80, 16:80] = 0.7
            masks[:, 36:60, 36:60] = 1
            return masks, np.zeros((len(images), 1), np.float32)

    run = Run(tmp_path, RECIPE.replace(pseudo_masks="edges"))
    photos, teacher = Squares(classes=4, photos=3, size=SIZE), SaliencyMapper(Beside(), 96)
    made = PseudoMasks(tmp_path / "masks", np.arange(3)).make(photos, Classifier("test_resnet", 4), teacher, run)
    true = np.zeros((96, 96), bool)
    true[24:72, 24:72] = True
    before, after = (teacher.masks(photos.image(0)[None])[0][0] >= 0.5, made[2] >= 128)
    overlaps = [(mask & true).sum() / (mask | true).sum() for mask in (before, after)]
    assert overlaps[0] == pytest.approx((48 / 64) ** 2)
    assert overlaps[1] > 0.95
