import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.evaluation import numbers
from casmap.evaluation.numbers import bootstrap_interval, bootstrap_of_sums, bootstrap_statistic, paired_difference

ERRORS = (np.random.default_rng(7).random(400) < 0.36).astype(np.float64)


def test_interval_of_a_mean_is_the_one_of_the_textbook() -> None:
    low, high = bootstrap_interval(ERRORS)
    half = 1.96 * ERRORS.std() / np.sqrt(400)  # normal approximation
    assert (low, high) == pytest.approx((ERRORS.mean() - half, ERRORS.mean() + half), abs=0.005)


def test_interval_of_two_images_by_hand() -> None:
    # The mean of two draws of {0, 1} is 0, ½ or 1 with chances ¼, ½, ¼: 40 % in the middle is just ½.
    assert bootstrap_interval(np.array([0.0, 1.0]), level=0.4) == (0.5, 0.5)
    assert bootstrap_interval(np.array([0.0, 1.0]), level=0.6) == (0.0, 1.0)


@settings(max_examples=30)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30), st.integers(0, 100))
def test_interval_lies_within_the_values_and_around_the_middle_of_the_draws(values: list[float], seed: int) -> None:
    low, high = bootstrap_interval(np.array(values), seed, resamples=200)
    inner_low, inner_high = bootstrap_interval(np.array(values), seed, resamples=200, level=0.5)
    assert min(values) - 1e-9 <= low <= inner_low <= inner_high <= high <= max(values) + 1e-9


def test_more_images_narrow_it() -> None:
    few, many = bootstrap_interval(ERRORS[:50]), bootstrap_interval(np.tile(ERRORS, 8))
    assert (few[1] - few[0]) / (many[1] - many[0]) == pytest.approx(8, rel=0.15)  # √(3200 / 50)


def test_seed_decides() -> None:
    assert bootstrap_interval(ERRORS, seed=3) == bootstrap_interval(ERRORS, seed=3)
    values = np.random.default_rng(0).random(100)
    assert bootstrap_interval(values, seed=3) != bootstrap_interval(values, seed=4)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bootstrap_interval(ERRORS, resamples=70)
    monkeypatch.setattr(numbers, "CHUNK", 400 * 32)  # 32 + 32 + 6 resamples
    assert bootstrap_interval(ERRORS, resamples=70) == whole
    monkeypatch.setattr(numbers, "CHUNK", 1)  # one at a time
    assert bootstrap_interval(ERRORS, resamples=70) == whole


def test_one_level_is_wider_than_another() -> None:
    narrow, wide = bootstrap_interval(ERRORS, level=0.8), bootstrap_interval(ERRORS, level=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_it_covers_the_truth_as_often_as_it_says() -> None:
    random = np.random.default_rng(11)
    samples = random.random((300, 60)) < 0.4
    spans = [bootstrap_interval(sample.astype(np.float64), resamples=300) for sample in samples]
    covered = np.mean([low <= 0.4 <= high for low, high in spans])
    assert covered == pytest.approx(0.94, abs=0.04)


def test_pairs_cancel_what_is_hard_for_both() -> None:
    random = np.random.default_rng(5)
    hardness = random.random(200)
    a, b = hardness + 0.05 + 0.01 * random.standard_normal(200), hardness
    found, reverse = paired_difference(a, b), paired_difference(b, a)
    assert 0.045 < found.low < 0.05 < found.high < 0.055
    assert bootstrap_interval(a)[0] < bootstrap_interval(b)[1]  # unpaired, they overlap
    assert (reverse.low, reverse.high) == pytest.approx((-found.high, -found.low))


def test_pairs_have_the_same_images() -> None:
    with pytest.raises(ValueError, match="same images"):
        paired_difference(np.ones(3), np.ones(4))


def test_statistic_of_a_mean_is_the_interval_of_the_mean() -> None:
    assert bootstrap_statistic(ERRORS, lambda drawn: float(drawn.mean()), resamples=100) == pytest.approx(
        bootstrap_interval(ERRORS, resamples=100)
    )


def test_statistic_draws_whole_items() -> None:
    rows = np.arange(5)[:, None] * np.array([1, 10])
    seen: list[np.ndarray] = []
    bootstrap_statistic(rows, lambda drawn: float(seen.append(drawn) or 0.0), resamples=20)
    drawn = np.stack(seen)
    assert drawn.shape == (20, 5, 2)
    np.testing.assert_array_equal(drawn[..., 1], 10 * drawn[..., 0])
    assert len(np.unique(drawn[..., 0])) == 5


def test_sums_are_those_of_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "CHUNK", 30 * 7)  # seven draws at a time
    histograms = np.random.default_rng(1).integers(0, 1000, (30, 2, 7))

    def share(total: np.ndarray) -> float:
        return float(total[1, 3:].sum() / total.sum())

    of_sums = bootstrap_of_sums(histograms, share, seed=5, resamples=100)
    assert of_sums == bootstrap_statistic(histograms, lambda chosen: share(chosen.sum(axis=0)), seed=5, resamples=100)


def test_nothing_has_no_interval() -> None:
    with pytest.raises(ValueError, match="at least one image"):
        bootstrap_interval(np.array([]))
    with pytest.raises(ValueError, match="at least one image"):
        bootstrap_statistic(np.empty((0, 2)), np.std)
