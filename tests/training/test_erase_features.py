"""Algorithm 1 in feature space: (1 - m) acts on the features of stride 16, and only f's tail learns."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from casmap.data.scenes import Scenes
from casmap.errors import UserError
from casmap.models.classifier import Classifier
from casmap.models.files import load_classifier, load_mapping
from casmap.models.split import Tail
from casmap.training.algorithm import TrainingState, casm, run_clean_pass, step_classifier, step_mapping
from casmap.training.budget import choose, time_step
from casmap.training.checkpoints import read_log
from casmap.training.lambda_r import paper_lambda_r
from casmap.training.loop import set_up, train_mapping
from casmap.training.options_of_0_1_0 import names_of_0_1_0
from casmap.training.recipes import PAPER, QUICK, Recipe
from casmap.training.run import Run
from casmap.training.samples import megabytes
from casmap.training.score import mask_in, mask_out, score, softness
from casmap.training.scores.activation import activation

RECIPE = Recipe(
    backbone="test_resnet", pretrained=False, size=64, encoder="first", erase="features", score="activation",
    lambda_r=1.0, classifier_lr=0.05, period=1, batch=8, epoch_share=1.0, device="cpu", threads=1,
)  # fmt: skip


def _state(**changes) -> TrainingState:
    torch.manual_seed(0)
    classifier = Classifier("test_resnet", 3)
    with torch.no_grad():
        for parameter in classifier.parameters():  # no weight is 0, as some are in a new ResNet
            parameter += 0.1 * torch.randn_like(parameter)
        for _ in range(5):
            classifier.train()(torch.randn(8, 3, 64, 64))
    return set_up(classifier.eval(), RECIPE.replace(**changes))


def _batch(seed: int = 0, count: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, 64, 64, generator=generator), torch.randint(3, (count,), generator=generator)


def _moved(module: torch.nn.Module, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, tensor in module.state_dict().items() if not torch.equal(tensor, before[name])}


def test_a_mask_is_averaged_to_the_grid_of_the_features() -> None:
    masks = torch.tensor([[[[0.0, 0.5, 1.0, 1.0], [0.5, 1.0, 1.0, 1.0]]]])  # means 0.5 and 1 of its halves
    features = torch.full((1, 7, 1, 2), 4.0)
    assert mask_out(features, masks)[0, 3].tolist() == [[2.0, 0.0]]
    assert torch.equal(mask_in(features, masks) + mask_out(features, masks), features)


def test_a_mask_of_zeros_gives_the_clean_logits_and_one_of_ones_those_of_zero_features() -> None:
    state = _state(thinning="F")
    images, _ = _batch()
    clean = run_clean_pass(state, images)
    assert torch.equal(clean.logits, state.encoder(images))  # f is f(0)'s tail
    f, ones = state.classifier, torch.ones_like(clean.masks)
    assert torch.equal(f(mask_out(clean.features, 0 * ones)), clean.logits)
    assert torch.equal(f(mask_out(clean.features, ones)), f(torch.zeros_like(clean.features)))
    assert torch.equal(f(mask_in(clean.features, ones)), clean.logits)


def test_the_activation_score_by_hand() -> None:
    clean = torch.tensor([[5.0, 0.0], [5.0, 0.0], [0.0, 5.0]])  # right, right, wrong
    after, before = torch.tensor([1.0, 3.0, 9.0]), torch.tensor([4.0, 4.0, 1.0])
    masks = torch.tensor([0.5, 0.25, 1.0]).view(3, 1, 1, 1).expand(3, 1, 2, 2)
    masked = clean  # f' is not confused: the paper's R would count nothing
    found = score(masked, clean, torch.tensor([0, 0, 0]), masks, 2.0, "activation", (after, before))
    assert float(found) == pytest.approx(((-1 / 4 - 2 * 0.5) + (-3 / 4 - 2 * 0.25)) / 3)


def test_where_there_was_no_activation_before_there_is_nothing_to_gain() -> None:
    after = torch.tensor([2.0, 0.0, 1.0], requires_grad=True)
    gains = activation(after, torch.tensor([0.0, 0.0, 2.0]))
    gains.sum().backward()
    assert gains.tolist() == [0.0, 0.0, -0.5]
    assert after.grad.tolist() == [0.0, 0.0, -0.5]


def test_the_softness_of_masks_by_hand_counts_photos_that_f_classifies_correctly() -> None:
    masks = torch.tensor([[0.5, 0.0], [0.25, 0.75]]).view(2, 1, 1, 2).requires_grad_()
    clean, labels = torch.tensor([[5.0, 0.0], [0.0, 5.0]]), torch.tensor([0, 0])
    found = softness(masks, clean, labels)
    assert found.item() == pytest.approx((0.25 / 2) / 2)  # the second photo is classified wrongly
    (2 * found).backward()
    assert masks.grad.flatten().tolist() == [0.0, 0.5, 0.0, 0.0]  # 2 * (1 - 2 m) / pixels / photos


@pytest.mark.parametrize("which", ["activation", "entropy"])
def test_the_gradient_of_the_score_with_respect_to_a_mask_is_that_of_finite_differences(which) -> None:
    state = _state(thinning="F", score=which, lambda_r=2.0, sharpness=0.5)
    f, trunk = copy.deepcopy(state.classifier).double().eval(), state.trunk
    features = trunk(_batch(count=2)[0])[0].double()
    with torch.no_grad():
        clean = f(features)
    labels = clean.argmax(1)

    def value(masks: torch.Tensor) -> torch.Tensor:
        masked, after = f.forward_activation(mask_out(features, masks), labels)
        pair = (after, f.forward_activation(features, labels)[1].detach()) if which == "activation" else None
        return score(masked, clean, labels, masks, 2.0, which, pair) - 0.5 * softness(masks, clean, labels)

    masks = torch.rand(2, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 0.5
    (gradient,) = torch.autograd.grad(value(masks.requires_grad_()), masks)
    for place in [(0, 0, 0, 0), (0, 0, 3, 5), (1, 0, 7, 7), (1, 0, 4, 2)]:
        step = torch.zeros_like(masks)
        step[place] = 1e-6
        with torch.no_grad():
            slope = (value(masks + step) - value(masks - step)) / 2e-6
        assert float(gradient[place]) == pytest.approx(float(slope), rel=1e-4, abs=1e-8)
    assert gradient.abs().min() > 0  # a mask's every pixel is part of a feature


def test_the_mappings_step_follows_the_gradient_of_what_it_maximises() -> None:
    state = _state(thinning="F", masked_in=0.5, sharpness=0.3, clip=1e9, lambda_r=2.0)
    images, _ = _batch()
    state.classifier.layers.fc.weight.data.abs_()  # every label has an activation
    clean = run_clean_pass(state, images)
    labels = clean.logits.argmax(1)
    twin, f = copy.deepcopy(state.mapping), state.classifier
    masks = twin(images, state.trunk(images)[1])
    after = f.forward_activation(mask_out(clean.features, masks), labels)[1]
    before = f.forward_activation(clean.features, labels)[1].detach()
    kept = torch.nn.functional.cross_entropy(f(mask_in(clean.features, masks)), labels)
    wanted = (-after / before).mean() - 2.0 * masks.mean() - 0.5 * kept - 0.3 * (masks * (1 - masks)).mean()
    gradients = torch.autograd.grad(-wanted, list(twin.parameters()))
    found, _ = step_mapping(state, clean, f, images, labels)
    torch.testing.assert_close(found, wanted.detach())
    for parameter, gradient in zip(state.mapping.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-6)
    assert all(parameter.grad is None for parameter in f.parameters())


def test_only_the_tail_learns_from_what_is_erased() -> None:
    state = _state(thinning="L")
    trunk, tail, mapping = (
        copy.deepcopy(part.state_dict()) for part in (state.encoder, state.classifier, state.mapping)
    )
    images, labels = _batch()
    clean = run_clean_pass(state, images)
    step_classifier(state, clean, images, labels)
    assert _moved(state.classifier, tail) >= {name for name, _ in state.classifier.named_parameters()}
    assert not _moved(state.mapping, mapping) & {name for name, _ in state.mapping.named_parameters()}
    step_mapping(state, clean, state.classifier, images, clean.logits.argmax(1))
    assert _moved(state.mapping, mapping) >= {name for name, _ in state.mapping.named_parameters()}
    assert not _moved(state.encoder, trunk)  # weights and batch norms


@pytest.mark.parametrize("thinning", ["F", "L", "FL", "L100"])
@pytest.mark.parametrize("which", ["activation", "entropy", "doubt", "loss"])
def test_every_thinning_runs_with_every_score(thinning, which) -> None:
    state = _state(thinning=thinning, score=which, masked_in=0.5, sharpness=0.3)
    tail, decoder = copy.deepcopy(state.classifier.state_dict()), copy.deepcopy(state.mapping.state_dict())
    measured = list(casm(state, [_batch(seed) for seed in range(4)]))
    assert all(torch.isfinite(measures.score) for measures in measured)
    assert bool(_moved(state.classifier, tail)) is (thinning != "F")
    assert _moved(state.mapping, decoder)
    assert measured[-1].samples == {"F": 1, "L": 1, "FL": 2, "L100": 6}[thinning]


def test_the_sample_set_holds_tails_and_f0_is_in_memory_once() -> None:
    torch.manual_seed(0)
    first = Classifier("test_resnet", 3)
    state = set_up(first, RECIPE)
    list(casm(state, [_batch(seed) for seed in range(3)]))
    assert state.encoder is first
    names = set(state.classifier.state_dict())
    assert all(set(kept) == names for kept in state.samples.kept)
    assert not any("layer3" in name or name == "conv1.weight" for name in names)
    assert isinstance(state.samples.drawn, Tail)
    assert state.mapping.encoder is None  # nor is f(0) in the mapping, and so not in checkpoints
    whole, tail = (megabytes(f, state.samples.thinning, 30) for f in (first, state.classifier))
    share = sum(t.numel() for t in state.classifier.state_dict().values()) / sum(
        t.numel() for t in first.state_dict().values()
    )
    assert tail / whole == pytest.approx(share, rel=0.01)


def _train(folder: Path, photos: Scenes, **changes):
    return train_mapping(photos, Run(folder, RECIPE.replace(steps=4, first_steps=2, **changes)))


def test_the_mapping_file_is_a_decoder_on_f0_and_a_second_stage_may_follow(tmp_path) -> None:
    photos = Scenes(classes=4, photos=16, size=64)
    result = _train(tmp_path / "run", photos, second_stage_steps=3, cam_size=64)
    classifier, _ = load_classifier(tmp_path / "run" / "classifier.safetensors")
    for name in ("casm.safetensors", "mapping.safetensors"):
        network, about = load_mapping(tmp_path / "run" / name)
        assert network.predicts
        assert about["recipe"]["erase"] == "features"
        for key, tensor in network.encoder.state_dict().items():
            assert torch.equal(tensor, classifier.state_dict()[key]), key
    assert load_mapping(result.mapping)[0].decoder.with_cam
    assert len(read_log(tmp_path / "run" / "taught-log.csv")) == 3


def test_the_area_can_be_controlled(tmp_path) -> None:
    state = _state(area=0.4, lambda_r=None)
    list(casm(state, [_batch(seed) for seed in range(2)]))
    assert state.lambda_r.target == 0.4
    assert state.lambda_r.area is not None


def test_a_ratio_has_the_same_price_for_any_number_of_classes() -> None:
    assert paper_lambda_r("activation", "F", 37) == paper_lambda_r("activation", "L100", 1000) == 3.5


def test_erasing_features_implies_the_encoder_first() -> None:
    assert PAPER.replace(erase="features").encoder == "first"
    with pytest.raises(UserError, match=r"Erasing features needs encoder='first', not shared"):
        PAPER.replace(erase="features", encoder="shared")
    with pytest.raises(UserError, match=r"reuse_masked needs erase='pixels'"):
        PAPER.replace(erase="features", reuse_masked=True)


def test_studies_of_0_1_0_find_their_folders_as_long_as_pixels_are_erased() -> None:
    assert not {"erase", "sharpness"} & set(names_of_0_1_0(QUICK.options()))
    changed = names_of_0_1_0(QUICK.replace(erase="features", sharpness=0.3).options())
    assert (changed["erase"], changed["sharpness"]) == ("features", 0.3)


def test_pixels_have_no_activation() -> None:
    with pytest.raises(UserError, match=r"The score activation needs erase='features', not pixels"):
        set_up(Classifier("test_resnet", 3), PAPER.replace(score="activation"))


def test_an_activation_needs_a_linear_head_and_other_scores_do_not() -> None:
    recipe = RECIPE.replace(backbone="test_convnext")
    with pytest.raises(UserError, match="needs a head of average pooling and a linear layer, unlike test_convnext"):
        set_up(Classifier("test_convnext", 3), recipe)
    state = set_up(Classifier("test_convnext", 3), recipe.replace(score="entropy"))
    assert next(casm(state, [_batch()])).samples == 3  # f(0), a copy of f(1), and f(1)


def test_a_backbone_that_cannot_be_split_is_refused_before_anything_is_trained(tmp_path) -> None:
    out = tmp_path / "run"
    command = ["train", "scenes:classes=4,photos=16,size=64", "--recipe=quick", "--erase=features", f"--out={out}"]
    done = subprocess.run(
        [sys.executable, "-m", "casmap", *command, "--backbone=test_vit", "--device=cpu"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "test_vit cannot be split after its features of stride 16" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(out.glob("*.safetensors"))


def test_steps_are_timed_and_chosen_with_features_erased(tmp_path) -> None:
    recipe, _, _ = choose(Scenes(classes=4, photos=16, size=64), {"erase": "features", "device": "cpu"})
    assert (recipe.erase, recipe.encoder) == ("features", "first")
    times = time_step(RECIPE.replace(second_stage_steps=1, cam_size=64), 3)
    assert min(times.algorithm, times.first, times.second_stage_step, times.pseudo_masks) > 0
    assert json.loads(json.dumps(recipe.options()))["erase"] == "features"
