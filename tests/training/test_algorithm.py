"""Algorithm 1: its five lines in order, and which step changes which network."""

import copy

import pytest
import torch
from torch.nn.functional import log_softmax

from casmap.models.classifier import Classifier
from casmap.training import algorithm
from casmap.training.algorithm import TrainingState, casm, run_clean_pass, step_classifier, step_mapping
from casmap.training.loop import set_up
from casmap.training.recipes import Recipe
from casmap.training.samples import Samples
from casmap.training.score import mask_out, score

LR, MOMENTUM, DECAY = 0.05, 0.9, 0.01


def _state(**changes) -> TrainingState:
    recipe = Recipe(
        backbone="test_resnet", pretrained=False, size=32, thinning="L100", lambda_r=1.0, classifier_lr=LR,
        momentum=MOMENTUM, classifier_decay=DECAY,
    ).replace(**changes)  # fmt: skip
    torch.manual_seed(0)
    classifier = Classifier("test_resnet", 3)
    with torch.no_grad():
        for parameter in classifier.parameters():  # no weight is 0, as some are in a new ResNet
            parameter += 0.1 * torch.randn_like(parameter)
        for _ in range(5):  # running statistics of such images as come below
            classifier.train()(torch.randn(8, 3, 32, 32))
    return set_up(classifier.eval(), recipe)


def _batch(seed: int = 0, count: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, 32, 32, generator=generator), torch.randint(3, (count,), generator=generator)


def _copy(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def _changed(module: torch.nn.Module, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, tensor in module.state_dict().items() if not torch.equal(tensor, before[name])}


def _weights(module: torch.nn.Module) -> set[str]:
    return {name for name, _ in module.named_parameters()}


def _spy(monkeypatch, owner, name: str, calls: list) -> None:
    """Note each call, and let it through."""
    real = getattr(owner, name)

    def noted(*arguments, **options):
        result = real(*arguments, **options)
        calls.append((name, arguments, result))
        return result

    monkeypatch.setattr(owner, name, noted)


def test_each_iteration_is_the_papers_five_lines_in_order(monkeypatch) -> None:
    calls: list = []
    for name in ("run_clean_pass", "step_classifier", "step_mapping"):
        _spy(monkeypatch, algorithm, name, calls)
    for name in ("add", "draw", "thin"):
        _spy(monkeypatch, Samples, name, calls)
    state = _state()
    measured = list(casm(state, [_batch(0), _batch(1)]))
    assert [name for name, _, _ in calls] == [
        "run_clean_pass",
        "step_classifier",
        "add",
        "draw",
        "step_mapping",
        "thin",
    ] * 2
    assert len(measured) == 2
    for iteration in (calls[:6], calls[6:]):
        clean_pass, stepped, added, drawn, mapped, _ = iteration
        clean, sampled = clean_pass[2], drawn[2]
        assert stepped[1][1] is clean
        assert added[1][1] is state.classifier  # f(k): after its step
        assert mapped[1][1] is clean  # m(k - 1): the mapping does not run again
        assert mapped[1][2] is sampled


def test_a_new_sample_is_the_stepped_classifier_and_thinning_comes_last(monkeypatch) -> None:
    state = _state(thinning="L100", period=1)
    before = _copy(state.classifier)
    seen: list[set[str]] = []
    real = Samples.add

    def add(self, classifier) -> None:
        seen.append(_changed(classifier, before) & _weights(classifier))
        real(self, classifier)

    monkeypatch.setattr(Samples, "add", add)
    list(casm(state, [_batch()]))
    assert seen == [_weights(state.classifier)]  # every weight had moved already
    first, newest = state.samples.kept
    assert all(torch.equal(first[name], before[name]) for name in before)
    assert all(torch.equal(newest[name], state.classifier.state_dict()[name]) for name in _weights(state.classifier))


def _one_by_hand(classifier: Classifier, images, masks, labels, loss: str) -> list[torch.Tensor]:
    """The gradients of L, with cross-entropy written out."""

    def cross_entropy(logits: torch.Tensor) -> torch.Tensor:
        return -sum(row[label] for row, label in zip(log_softmax(logits, 1), labels, strict=True)) / len(labels)

    clean = cross_entropy(classifier(images))
    masked = cross_entropy(classifier(images - masks * images))
    value = masked if loss == "masked" else 0.5 * masked + 0.5 * clean
    wanted = torch.autograd.grad(value, list(classifier.parameters()))
    return [value.detach(), *wanted]


@pytest.mark.parametrize("loss", ["mixed", "masked"])
def test_the_classifiers_step_is_sgd_on_its_loss_written_by_hand(loss) -> None:
    state = _state(loss=loss)
    twin = copy.deepcopy(state.classifier).train()
    speed = [torch.zeros_like(parameter) for parameter in twin.parameters()]
    for step in range(2):
        images, labels = _batch(step)
        clean = run_clean_pass(state, images)
        found = step_classifier(state, clean, images, labels)
        value, *gradients = _one_by_hand(twin, images, clean.masks.detach(), labels, loss)
        with torch.no_grad():
            for parameter, v, gradient in zip(twin.parameters(), speed, gradients, strict=True):
                v.mul_(MOMENTUM).add_(gradient + DECAY * parameter)
                parameter -= LR * v
        torch.testing.assert_close(found, value)
        for (name, ours), theirs in zip(state.classifier.named_parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, msg=name)


def test_the_mappings_step_is_adam_up_the_score_written_by_hand() -> None:
    state = _state(mapping_decay=0.0, clip=1e6, thinning="F")
    images, labels = _batch()
    clean = run_clean_pass(state, images)
    labels = clean.logits.argmax(1)  # all right
    twin = copy.deepcopy(state.mapping)
    masks = twin(images, state.classifier.forward_stages(images)[1])
    masked = state.classifier(mask_out(images, masks))
    value = score(masked, clean.logits, labels, masks, 1.0)
    gradients = torch.autograd.grad(value, list(twin.parameters()))
    found, logits = step_mapping(state, clean, state.classifier, images, labels)
    torch.testing.assert_close(found, value.detach())
    torch.testing.assert_close(logits, masked.detach())
    for ours, old, gradient in zip(state.mapping.parameters(), twin.parameters(), gradients, strict=True):
        upward = old + 0.001 * gradient / (gradient.abs() + 1e-8)  # Adam's first step: the rate times the sign, and up
        torch.testing.assert_close(ours, upward, rtol=1e-4, atol=2e-5)


def test_with_masked_in_the_step_also_keeps_what_tells_the_class() -> None:
    state = _state(mapping_decay=0.0, clip=1e6, thinning="F", masked_in=0.5)
    images, labels = _batch()
    clean = run_clean_pass(state, images)
    labels = clean.logits.argmax(1)  # all right
    twin = copy.deepcopy(state.mapping)
    masks = twin(images, state.classifier.forward_stages(images)[1])
    value = score(state.classifier(mask_out(images, masks)), clean.logits, labels, masks, 1.0)
    kept = log_softmax(state.classifier(masks * images), 1)
    value = value + 0.5 * sum(row[label] for row, label in zip(kept, labels, strict=True)) / len(labels)
    gradients = torch.autograd.grad(value, list(twin.parameters()))
    found, _ = step_mapping(state, clean, state.classifier, images, labels)
    torch.testing.assert_close(found, value.detach())
    for ours, old, gradient in zip(state.mapping.parameters(), twin.parameters(), gradients, strict=True):
        torch.testing.assert_close(ours, old + 0.001 * gradient / (gradient.abs() + 1e-8), rtol=1e-4, atol=2e-5)


def test_the_mappings_gradient_is_clipped() -> None:
    state = _state(clip=1e-3)
    images, _ = _batch()
    clean = run_clean_pass(state, images)
    step_mapping(state, clean, state.classifier, images, clean.logits.argmax(1))
    norm = torch.stack([p.grad.norm() for p in state.mapping.parameters()]).norm()
    assert norm.item() == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("encoder", ["shared", "separate", "first"])
def test_the_mapping_step_changes_no_weight_of_the_classifier_and_gives_it_no_gradient(encoder) -> None:
    state = _state(encoder=encoder)
    images, _ = _batch()
    clean = run_clean_pass(state, images)
    before, mapping_before = _copy(state.classifier), _copy(state.mapping)
    step_mapping(state, clean, state.classifier, images, clean.logits.argmax(1))
    assert not _changed(state.classifier, before) & _weights(state.classifier)
    assert all(parameter.grad is None for parameter in state.classifier.parameters())
    assert all(parameter.requires_grad for parameter in state.classifier.parameters())  # ready for its next step
    assert _changed(state.mapping.decoder, {k.removeprefix("decoder."): v for k, v in mapping_before.items()})


def test_after_a_step_of_its_own_the_classifiers_gradient_is_left_alone_too() -> None:
    state = _state()
    images, labels = _batch()
    clean = run_clean_pass(state, images)
    step_classifier(state, clean, images, labels)
    before = [parameter.grad.clone() for parameter in state.classifier.parameters()]
    step_mapping(state, clean, state.classifier, images, clean.logits.argmax(1))
    for parameter, gradient in zip(state.classifier.parameters(), before, strict=True):
        assert torch.equal(parameter.grad, gradient)


@pytest.mark.parametrize("encoder", ["shared", "separate", "first"])
def test_the_classifier_step_changes_nothing_of_the_mapping_and_gives_it_no_gradient(encoder) -> None:
    state = _state(encoder=encoder)
    images, labels = _batch()
    clean = run_clean_pass(state, images)
    before, classifier_before = _copy(state.mapping), _copy(state.classifier)
    step_classifier(state, clean, images, labels)
    assert not _changed(state.mapping, before)
    assert all(parameter.grad is None for parameter in state.mapping.parameters())
    assert _changed(state.classifier, classifier_before) >= _weights(state.classifier)


def test_with_thinning_f_nothing_of_the_classifier_ever_changes() -> None:
    state = _state(thinning="F")
    assert state.classifier_optimizer is None
    before = _copy(state.classifier)  # weights and buffers
    mapping_before = _copy(state.mapping)
    list(casm(state, [_batch(seed) for seed in range(4)]))
    assert not _changed(state.classifier, before)
    assert _changed(state.mapping, mapping_before) >= _weights(state.mapping)


def test_frozen_batch_norms_keep_f0s_statistics_while_weights_move() -> None:
    for freeze in (True, False):
        state = _state(freeze_batch_norm=freeze)
        before = _copy(state.classifier)
        list(casm(state, [_batch(seed) for seed in range(2)]))
        changed = _changed(state.classifier, before)
        assert changed >= _weights(state.classifier)
        assert bool(changed - _weights(state.classifier)) is not freeze


def _moved(module: torch.nn.Module, before: dict[str, torch.Tensor]) -> set[str]:
    return _changed(module, before) & _weights(module)


def test_a_separate_encoder_begins_as_f0_and_is_trained_by_the_score_alone() -> None:
    state = _state(encoder="separate")
    encoder = state.mapping.encoder
    before = _copy(encoder)
    assert not _changed(state.classifier, before)
    images, labels = _batch()
    clean = run_clean_pass(state, images)
    step_classifier(state, clean, images, labels)
    assert not _moved(encoder, before)
    step_mapping(state, clean, state.samples.draw(), images, clean.logits.argmax(1))
    head = {name for name in _weights(encoder) if name.startswith("network.fc")}
    assert _moved(encoder, before) == _weights(encoder) - head


def test_the_first_encoder_stays_f0_while_classifier_and_decoder_move() -> None:
    state = _state(encoder="first")
    encoder, images = state.mapping.encoder, _batch()[0]
    before, decoder_before = _copy(encoder), _copy(state.mapping.decoder)
    assert not _changed(state.classifier, before)
    wanted = state.mapping.decoder(encoder.eval().forward_stages(images)[1], images.shape[-2:])
    torch.testing.assert_close(run_clean_pass(state, images).masks, wanted)
    list(casm(state, [_batch(seed) for seed in range(2)]))
    assert not _changed(encoder, before)  # weights and batch norms
    assert _changed(state.classifier, before) >= _weights(state.classifier)
    assert _moved(state.mapping.decoder, decoder_before)


def test_with_a_shared_encoder_the_mapping_holds_the_decoder_alone() -> None:
    state = _state()
    shared = {id(parameter) for parameter in state.classifier.parameters()}
    trained = [p for group in state.mapping_optimizer.param_groups for p in group["params"]]
    assert trained
    assert not any(id(parameter) in shared for parameter in trained)
    images, _ = _batch()
    state.classifier.requires_grad_(True)
    clean = run_clean_pass(state, images)
    clean.masks.mean().backward()
    assert all(parameter.grad is None for parameter in state.classifier.parameters())


def test_an_old_classifier_scores_in_eval_mode_and_the_live_one_in_train_mode() -> None:
    state = _state(thinning="FL")
    modes = set()
    real = state.samples.draw

    def draw() -> Classifier:
        drawn = real()
        modes.add((drawn is state.classifier, drawn.training))
        return drawn

    state.samples.draw = draw
    list(casm(state, [_batch(seed, 4) for seed in range(8)]))
    assert modes == {(True, True), (False, False)}


@pytest.mark.parametrize("which", ["entropy", "loss", "doubt"])
def test_the_score_rises_on_a_batch_when_the_classifier_is_fixed(which) -> None:
    state = _state(thinning="F", score=which, mapping_lr=3e-4, lambda_r=0.5)  # small steps: none too far
    images, _ = _batch()
    with torch.no_grad():
        state.classifier.network.get_classifier().weight *= 3  # sure of itself: there is entropy to gain
        labels = state.classifier(images).argmax(1)  # and right
    scores = [float(measures.score) for measures in casm(state, [(images, labels)] * 8)]
    assert scores[-1] > scores[0] + 0.2


def test_what_the_log_is_told_is_what_happened() -> None:
    state = _state(thinning="L100", period=1)
    images, labels = _batch()
    with torch.no_grad():
        twin = copy.deepcopy(state.classifier).train()
        clean, stages = twin.forward_stages(images)
        masks = copy.deepcopy(state.mapping).train()(images, stages)
    (measures,) = casm(state, [(images, labels)])
    assert float(measures.area) == pytest.approx(float(masks.mean()), rel=1e-4)
    assert float(measures.accuracy) == pytest.approx(float((clean.argmax(1) == labels).float().mean()))
    assert 0 <= float(measures.masked_accuracy) <= 1
    assert measures.lambda_r == 1.0
    assert measures.samples == 3  # f(0), a copy of f(1), and f(1)


def test_a_reused_pass_gives_the_mapping_the_gradient_of_s_before_the_classifiers_step(monkeypatch) -> None:
    state = _state(thinning="L", reuse_masked=True, clip=1e9)
    images, labels = _batch()
    clean = run_clean_pass(state, images)
    twin = copy.deepcopy(state.classifier)  # f(k - 1), in training as f is
    value = score(twin(mask_out(images, clean.masks)), clean.logits.detach(), labels, clean.masks, 1.0)
    wanted = torch.autograd.grad(-value, list(state.mapping.parameters()), retain_graph=True)
    step_classifier(state, clean, images, labels)
    state.samples.add(state.classifier)

    def no_pass(*_):
        raise AssertionError("f runs again")

    monkeypatch.setattr(Classifier, "forward", no_pass)
    found, _ = step_mapping(state, clean, state.samples.draw(), images, labels)
    torch.testing.assert_close(found, value.detach())
    for parameter, gradient in zip(state.mapping.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-6)


def test_reusing_a_pass_leaves_the_classifiers_step_as_it_is() -> None:
    exact, reused = _state(thinning="L"), _state(thinning="L", reuse_masked=True)
    images, labels = _batch()
    losses = [step_classifier(state, run_clean_pass(state, images), images, labels) for state in (exact, reused)]
    torch.testing.assert_close(*losses)
    for one, other in zip(exact.classifier.parameters(), reused.classifier.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_an_older_classifier_is_asked_in_any_case() -> None:
    state = _state(thinning="L100", period=1, reuse_masked=True)
    for step in range(12):
        images, labels = _batch(step)
        clean = run_clean_pass(state, images)
        step_classifier(state, clean, images, labels)
        state.samples.add(state.classifier)
        assert (clean.reused is not None) == (state.samples.draw() is state.classifier)
        state.samples.thin()
