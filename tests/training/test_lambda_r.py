"""lambda_R: the paper's numbers, and the controller on simulated mappings."""

from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.training.checkpoints import fits
from casmap.training.lambda_r import LambdaR, paper_lambda_r


def test_a_fixed_lambda_stays_whatever_it_sees() -> None:
    fixed = LambdaR(14.0)
    for area in (0.0, 0.5, 1.0):
        fixed.observe(area)
    fixed.load_state_dict(fixed.state_dict())
    assert fixed.value == 14.0
    assert fits({}, fixed.state_dict())  # as in the checkpoints of 0.1.0


@pytest.mark.parametrize(
    ("score", "numbers"),
    [
        ("entropy", {"F": 2.5, "L": 14.0, "FL": 7.5, "L100": 10.0, "L1000": 10.0}),
        ("loss", {"F": 9.0, "L": 18.0, "FL": 11.0, "L100": 17.0, "L1000": 17.0}),
    ],
)
def test_the_papers_lambda_for_1000_classes(score, numbers) -> None:
    assert {thinning: paper_lambda_r(score, thinning) for thinning in numbers} == numbers


def test_elsewhere_it_is_scaled_by_the_largest_entropy() -> None:
    # ln 10 is a third of ln 1000.
    assert paper_lambda_r("entropy", "F", classes=10) == pytest.approx(2.5 / 3)
    assert paper_lambda_r("loss", "L15", classes=1000) == 17.0  # a period of one's own: as L100


class Plant:
    """Masks that answer to lambda_R: area = sigmoid(a - b log lambda_R), with a lag and noise of each batch."""

    def __init__(self, a: float, b: float, lag: float, noise: float, seed: int) -> None:
        self.a, self.b, self.lag, self.noise = a, b, lag, noise
        self.random = np.random.default_rng(seed)
        self.area = 0.5

    def __call__(self, lambda_r: float) -> float:
        wanted = 1 / (1 + exp(self.b * log(lambda_r) - self.a))
        self.area += (wanted - self.area) / self.lag
        return float(np.clip(self.area + self.noise * self.random.normal(), 0, 1))


def _settled(steer: LambdaR, plant: Plant, steps: int, last: int) -> list[float]:
    """The areas of the last batches."""
    areas = []
    for _ in range(steps):
        areas.append(plant(steer.value))
        steer.observe(areas[-1])
    return areas[-last:]


@pytest.mark.parametrize("target", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
@settings(max_examples=25, deadline=None)
@given(
    a=st.floats(-2, 2),
    b=st.floats(0.6, 1.5),
    lag=st.floats(1, 10),
    noise=st.floats(0, 0.05),
    start=st.floats(0.3, 10),
    seed=st.integers(0, 9),
)
def test_the_controller_settles_at_its_target(target, a, b, lag, noise, start, seed) -> None:
    areas = _settled(LambdaR(start, target), Plant(a, b, lag, noise, seed), steps=600, last=150)
    assert abs(np.mean(areas) - target) < 0.03


def test_masks_too_large_make_a_pixel_dearer_and_masks_too_small_cheaper() -> None:
    for area, dearer in ((0.9, True), (0.1, False)):
        steer = LambdaR(2.0, 0.5)
        prices = [steer.value]
        for _ in range(20):
            steer.observe(area)
            prices.append(steer.value)
        assert prices == sorted(prices, reverse=not dearer)
        assert (prices[-1] > 2.0) is dearer


def test_it_begins_at_its_start_and_stays_there_at_its_target() -> None:
    steer = LambdaR(2.0, 0.5)
    assert steer.value == 2.0
    for _ in range(50):
        steer.observe(0.5)
    assert steer.value == 2.0


def test_three_steps_by_hand() -> None:
    steer = LambdaR(2.0, 0.3)
    steer.observe(0.4)  # running mean 0.4, e = 0.1; I = 0.1 * 0.1 = 0.01
    assert steer.value == pytest.approx(2 * exp(0.01 + 8 * 0.1))
    steer.observe(0.1)  # running mean 0.3 * 0.4 + 0.7 * 0.1 = 0.19, e = -0.11; I = 0.01 - 0.1 * 0.11 = -0.001
    assert steer.value == pytest.approx(2 * exp(-0.001 - 8 * 0.11))
    steer.observe(0.8)  # running mean 0.3 * 0.19 + 0.7 * 0.8 = 0.617, e = 0.317; I = -0.001 + 0.0317 = 0.0307
    assert steer.value == pytest.approx(2 * exp(0.0307 + 1))  # 8 * 0.317 would be more than 1


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.floats(0.01, 0.99), st.floats(0.1, 20))
def test_lambda_stays_finite_and_positive(areas, target, start) -> None:
    steer = LambdaR(start, target)
    for area in areas * 20:
        steer.observe(area)
        assert start * exp(-9 - 8) <= steer.value <= start * exp(9 + 1)


@pytest.mark.parametrize(("stuck", "then"), [(1.0, 0.2), (0.0, 0.8)])
def test_after_any_time_at_a_bound_it_comes_back(stuck, then) -> None:
    steer = LambdaR(1.0, 0.5)
    for _ in range(10_000):
        steer.observe(stuck)
    held = steer.value
    for _ in range(400):
        steer.observe(then)
    assert (steer.value < 1 < held) if stuck else (held < 1 < steer.value)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), max_size=20), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_restored_controller_goes_on_as_if_nothing_had_been(before, after) -> None:
    one, other = LambdaR(5.0, 0.3), LambdaR(5.0, 0.3)
    for area in before:
        one.observe(area)
    other.load_state_dict(one.state_dict())
    for area in after:
        assert one.value == other.value
        one.observe(area)
        other.observe(area)
    assert one.value == other.value
