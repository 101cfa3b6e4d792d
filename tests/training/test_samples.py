"""F: which classifiers of the past stay, and how f' is drawn from them."""

from collections import Counter
from math import sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.models.classifier import Classifier
from casmap.models.files import read_tree, write_tree
from casmap.training.samples import Samples, megabytes
from casmap.training.thinning import find_thinning


def _classifier() -> Classifier:
    torch.manual_seed(0)
    return Classifier("test_resnet", 3)


@torch.no_grad()
def _mark(classifier: Classifier, k: int) -> None:
    """Make it f(k) for all to see: every weight is k."""
    for parameter in classifier.parameters():
        parameter.fill_(k)


def _number(state) -> int:
    """Which f(k) a state or a classifier is; all of its weights must agree."""
    named = state.state_dict() if isinstance(state, Classifier) else state
    weights = [tensor for name, tensor in named.items() if name.endswith("weight")]
    numbers = {float(number) for tensor in weights for number in (tensor.min(), tensor.max())}
    assert len(numbers) == 1
    return int(numbers.pop())


def _run(samples: Samples, classifier: Classifier, steps: int, start: int = 0) -> list[int]:
    """Steps of Algorithm 1 without the learning; returns which f(k) was drawn in each."""
    drawn = []
    for k in range(start + 1, start + steps + 1):
        if samples.thinning.keeps_last:
            _mark(classifier, k)
        samples.add(classifier)
        drawn.append(_number(samples.draw()))
        samples.thin()
    return drawn


def _begin(name: str, period: int | None = None, limit: int = 30, seed: int = 0) -> tuple[Samples, Classifier]:
    classifier = _classifier()
    _mark(classifier, 0)
    return Samples(classifier, find_thinning(name, period), limit, seed), classifier


def _kept(samples: Samples) -> list[int]:
    return [_number(state) for state in samples.kept]


def test_f_keeps_the_first_and_draws_nothing_else() -> None:
    samples, classifier = _begin("F")
    assert _run(samples, classifier, 20) == [0] * 20
    assert samples.draw() is classifier
    assert len(samples) == 1


def test_l_keeps_the_last_and_draws_nothing_else() -> None:
    samples, classifier = _begin("L")
    assert _run(samples, classifier, 20) == list(range(1, 21))
    assert len(samples) == 1


def test_fl_keeps_the_first_and_the_last() -> None:
    samples, classifier = _begin("FL")
    drawn = _run(samples, classifier, 30)
    assert {k for step, k in enumerate(drawn, 1) if k != step} == {0}
    assert 5 < sum(k == 0 for k in drawn) < 25
    assert _kept(samples) == [0]
    assert len(samples) == 2


@pytest.mark.parametrize(
    ("name", "period", "steps", "kept"),
    [
        ("L100", None, 99, [0]),
        ("L100", None, 250, [0, 100, 200]),
        ("L1000", None, 999, [0]),
        ("L1000", None, 1000, [0, 1000]),
        ("L100", 3, 10, [0, 3, 6, 9]),
        ("L4", None, 9, [0, 4, 8]),
        ("L1", None, 3, [0, 1, 2, 3]),
    ],
)
def test_one_of_every_period_stays(name, period, steps, kept) -> None:
    samples, classifier = _begin(name, period)
    for k in range(1, steps + 1):
        _mark(classifier, k) if not k % (period or int(name[1:])) else None
        samples.add(classifier)
        samples.thin()
    assert _kept(samples) == kept


@settings(deadline=None, max_examples=15)
@given(st.integers(2, 6), st.integers(1, 3), st.integers(0, 99))
def test_a_full_set_evicts_by_removing_one_at_random(limit, period, seed) -> None:
    samples, classifier = _begin("L100", period, limit, seed)
    before = _kept(samples)
    for k in range(1, 25):
        _run(samples, classifier, 1, start=k - 1)
        assert len(samples) <= limit  # the newest counts as one
        now = _kept(samples)
        if k % period:
            assert now == before
        else:
            assert now[-1] == k
            gone = set(before) - set(now)
            assert len(gone) == (1 if len(before) == limit - 1 else 0)
            assert [old for old in before if old not in gone] == now[:-1]  # the others stay as they were
        before = now
    assert len(samples) == limit


def test_who_must_go_is_not_always_the_same() -> None:
    samples, classifier = _begin("L100", period=1, limit=5)
    places = Counter()
    for k in range(1, 120):
        before = _kept(samples)
        _run(samples, classifier, 1, start=k - 1)
        places.update(place for place, old in enumerate(before) if old not in _kept(samples))
    assert sum(places.values()) == 116  # 119 came, 3 found a place free
    # 116 draws of 4 places: 29 each, give or take 5 sd = 5 * sqrt(116 * 1/4 * 3/4) = 23
    assert sorted(places) == [0, 1, 2, 3]
    assert max(abs(count - 29) for count in places.values()) <= 23


def test_what_is_kept_are_copies_and_no_live_weights() -> None:
    classifier = _classifier()
    samples = Samples(classifier, find_thinning("L100", 1))
    optimizer = torch.optim.SGD(classifier.parameters(), 0.1)
    snapshots = [{name: tensor.clone() for name, tensor in classifier.state_dict().items()}]
    for seed in range(3):
        torch.manual_seed(seed)
        optimizer.zero_grad()
        classifier.train()(torch.randn(4, 3, 32, 32)).square().mean().backward()
        optimizer.step()
        samples.add(classifier)
        samples.thin()
        snapshots.append({name: tensor.clone() for name, tensor in classifier.state_dict().items()})
    with torch.no_grad():
        classifier.train()(torch.randn(4, 3, 32, 32))  # buffers move on too
        _mark(classifier, 9)
    assert len(samples.kept) == 4
    for kept, snapshot in zip(samples.kept, snapshots, strict=True):
        assert all(torch.equal(kept[name], snapshot[name]) for name in snapshot)


def test_an_old_classifier_comes_whole_in_eval_mode_and_without_gradients() -> None:
    classifier = _classifier()
    samples = Samples(classifier, find_thinning("FL"))
    with torch.no_grad():
        classifier.train()(torch.randn(4, 3, 32, 32))  # its batch norms move on from f(0)
    _mark(classifier, 1)
    samples.add(classifier)
    draws = []
    for _ in range(20):
        draws.append(samples.draw())
        samples.add(classifier)
    old = [drawn for drawn in draws if drawn is not classifier]
    assert 0 < len(old) < 20
    assert not any(module.training for module in old[0].modules())
    assert not any(parameter.requires_grad for parameter in old[0].parameters())
    assert all(parameter.requires_grad for parameter in classifier.parameters())
    assert all(module.training for module in classifier.modules())
    for name, tensor in old[0].state_dict().items():
        assert torch.equal(tensor, samples.kept[0][name])
    moved = classifier.state_dict()
    assert any(not torch.equal(moved[name], samples.kept[0][name]) for name in moved if "running_mean" in name)


def test_the_newest_is_drawn_half_of_the_time_and_the_others_evenly() -> None:
    samples, classifier = _begin("L100", period=1, limit=5)
    _run(samples, classifier, 4)
    assert len(samples.kept) == 4
    drawn, steps = Counter(), 1500
    _mark(classifier, 99)
    for _ in range(steps):
        samples.add(classifier)
        drawn[int(next(samples.draw().parameters()).flatten()[0])] += 1
    assert set(drawn) == {99, *_kept(samples)}

    def spread(p: float) -> float:  # of the binomial law: 4.5 standard deviations
        return 4.5 * sqrt(steps * p * (1 - p))

    assert abs(drawn[99] - steps / 2) < spread(1 / 2)
    for old in _kept(samples):
        assert abs(drawn[old] - steps / 8) < spread(1 / 8)


def test_draws_depend_on_the_seed_and_the_step_alone() -> None:
    plain, classifier = _begin("L100", period=2, limit=4, seed=5)
    wanted = _run(plain, classifier, 30)
    busy, classifier = _begin("L100", period=2, limit=4, seed=5)
    found = []
    for k in range(30):
        torch.manual_seed(k)  # another fate for the rest of the world
        torch.rand(k)
        busy.draw()  # and an extra draw
        found += _run(busy, classifier, 1, start=k)
    assert found == wanted
    other, classifier = _begin("L100", period=2, limit=4, seed=6)
    assert _run(other, classifier, 30) != wanted


@pytest.mark.parametrize(("name", "period"), [("F", None), ("L", None), ("FL", None), ("L100", 2)])
def test_a_restored_set_goes_on_as_if_nothing_had_been(tmp_path, name, period) -> None:
    samples, classifier = _begin(name, period, limit=4, seed=3)
    _run(samples, classifier, 9)
    write_tree(tmp_path / "samples.safetensors", samples.state_dict())
    wanted = _run(samples, classifier, 12, start=9), _kept(samples)
    again, classifier = _begin(name, period, limit=4, seed=3)
    again.load_state_dict(read_tree(tmp_path / "samples.safetensors"))
    assert (_run(again, classifier, 12, start=9), _kept(again)) == wanted
    assert len(again) == len(samples)


def _bytes(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize(
    ("name", "copies"), [("F", 1), ("L", 1), ("FL", 2), ("L100", 4)]
)  # one is where an old one works
def test_the_memory_predicted_is_what_a_full_set_takes(name, copies) -> None:
    samples, classifier = _begin(name, period=1, limit=4)
    predicted = megabytes(classifier, samples.thinning, 4) * 1e6
    most = 0
    for k in range(8):
        _run(samples, classifier, 1, start=k)
        beside = [t for state in samples.kept for t in state.values()] + list(samples.drawn.state_dict().values())
        most = max(most, _bytes(beside))
        assert most <= predicted + 1
    assert most == pytest.approx(predicted)
    assert predicted == pytest.approx(copies * _bytes(classifier.state_dict().values()))
