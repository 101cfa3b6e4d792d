"""S, H, R and L against numbers worked out by hand."""

from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from casmap.training.score import classification_loss, kept_loss, mask_in, mask_out, score
from casmap.training.scores.doubt import doubt
from casmap.training.scores.entropy import entropy

# Logits as logarithms of shares, so that softmax gives the shares back.
HALF_QUARTERS = [log(0.5), log(0.25), log(0.25)]  # H = 1/2 ln 2 + 2 * 1/4 ln 4 = 1.5 ln 2; argmax 0
TENTHS = [log(0.1), log(0.8), log(0.1)]  # argmax 1
EVEN = [0.0, 0.0, 0.0]  # H = ln 3
SURE = [[50.0, 0.0, 0.0], [0.0, 50.0, 0.0], [0.0, 0.0, 50.0]]  # SURE[c]: class c, H = 0
LN2 = log(2)


def _masks(*means: float) -> torch.Tensor:
    """One mask for each mean, each of a dark and a bright half."""
    return torch.stack([torch.tensor([[0.5 * mean, 1.5 * mean]]).expand(1, 4, 2) for mean in means])


def test_entropy_by_hand() -> None:
    found = entropy(torch.tensor([HALF_QUARTERS, EVEN, SURE[0]]))
    assert found.tolist() == pytest.approx([1.5 * LN2, log(3), 0.0], abs=1e-6)


@given(st.lists(st.floats(-80, 80, width=32), min_size=2, max_size=6))
def test_entropy_lies_between_0_and_that_of_even_shares_and_ignores_a_shift(logits) -> None:
    value = float(entropy(torch.tensor([logits])))
    assert -1e-5 <= value <= log(len(logits)) + 1e-5
    assert float(entropy(torch.tensor([logits]) + 3)) == pytest.approx(value, abs=1e-4)


def test_masking_out_leaves_the_mean_colour_where_the_mask_is_1() -> None:
    images, masks = torch.full((1, 3, 1, 2), 4.0), torch.tensor([[[[1.0, 0.25]]]])
    assert torch.equal(mask_out(images, masks), torch.tensor([0.0, 3.0]).expand(1, 3, 1, 2))


def test_masking_in_keeps_what_masking_out_takes() -> None:
    images, masks = torch.full((1, 3, 1, 2), 4.0), torch.tensor([[[[1.0, 0.25]]]])
    assert torch.equal(mask_in(images, masks), torch.tensor([4.0, 1.0]).expand(1, 3, 1, 2))
    assert torch.equal(mask_in(images, masks) + mask_out(images, masks), images)


def test_the_loss_of_what_is_kept_by_hand() -> None:
    kept = torch.tensor([HALF_QUARTERS, HALF_QUARTERS, HALF_QUARTERS])
    clean = torch.tensor([SURE[0], SURE[1], SURE[0]])
    labels = torch.tensor([0, 1, 2])  # right, right, wrong: ln 2, 2 ln 2 and nothing, over three images
    assert float(kept_loss(kept, clean, labels)) == pytest.approx(3 * LN2 / 3)


def test_the_loss_by_hand() -> None:
    labels = torch.tensor([0, 1])
    masked = torch.tensor([HALF_QUARTERS, HALF_QUARTERS])  # -ln 1/2 = ln 2 and -ln 1/4 = 2 ln 2: mean 1.5 ln 2
    clean = torch.tensor([TENTHS, TENTHS])  # -ln 0.1 and -ln 0.8: mean (ln 10 + ln 1.25) / 2
    of_clean = (log(10) + log(1.25)) / 2
    assert float(classification_loss(masked, clean, labels, "masked")) == pytest.approx(1.5 * LN2)
    assert float(classification_loss(masked, clean, labels, "mixed")) == pytest.approx((1.5 * LN2 + of_clean) / 2)
    assert float(classification_loss(masked, clean, labels)) == pytest.approx((1.5 * LN2 + of_clean) / 2)


def test_a_clean_image_pulls_half_as_hard_as_in_a_loss_of_its_own() -> None:
    labels = torch.tensor([2])
    masked, clean = (torch.tensor([HALF_QUARTERS], requires_grad=True) for _ in range(2))
    classification_loss(masked, clean, labels).backward()
    share = torch.tensor([[0.5, 0.25, 0.25]]) - one_hot(labels, 3)  # the gradient of cross-entropy: softmax - one-hot
    torch.testing.assert_close(masked.grad, share / 2)
    torch.testing.assert_close(clean.grad, share / 2)


# Four images of class 0 with lambda_R = 2:
#   0. right clean, masked still class 0 (H = 1.5 ln 2, -ln p_0 = ln 2):         evidence only
#   1. right clean, masked class 1 (H of TENTHS, -ln p_0 = ln 10), area 0.25:    evidence - 2 * 0.25
#   2. wrong clean, masked class 1, area 0.5:                                    nothing
#   3. wrong clean, masked class 0:                                              nothing
LABELS = torch.tensor([0, 0, 0, 0])
MASKED = torch.tensor([HALF_QUARTERS, TENTHS, TENTHS, HALF_QUARTERS])
CLEAN = torch.tensor([SURE[0], SURE[0], SURE[1], SURE[2]])
AREAS = (0.4, 0.25, 0.5, 0.6)
H_TENTHS = 0.2 * log(10) + 0.8 * log(1.25)


def test_the_entropy_score_by_hand() -> None:
    value = score(MASKED, CLEAN, LABELS, _masks(*AREAS), 2.0, "entropy")
    assert float(value) == pytest.approx((1.5 * LN2 + (H_TENTHS - 2 * 0.25)) / 4)


def test_the_classification_score_by_hand() -> None:
    value = score(MASKED, CLEAN, LABELS, _masks(*AREAS), 2.0, "loss")
    assert float(value) == pytest.approx((LN2 + (log(10) - 2 * 0.25)) / 4)


def test_the_score_of_doubt_by_hand() -> None:
    value = score(MASKED, CLEAN, LABELS, _masks(*AREAS), 2.0, "doubt")  # ln(1 - 0.5) and ln(1 - 0.1), confused
    assert float(value) == pytest.approx((-LN2 + (log(0.9) - 2 * 0.25)) / 4)


def test_doubt_is_finite_however_sure_the_answer_and_has_nothing_to_gain_without_the_label() -> None:
    logits = torch.tensor([[200.0, 0.0, 0.0], [-200.0, 0.0, 1.0]], requires_grad=True)
    found = doubt(logits, torch.tensor([0, 0]))
    found.sum().backward()
    assert found.tolist() == pytest.approx([LN2 - 200, 0.0])  # ln(2 e^-200 / 1)
    assert logits.grad[1].abs().max() < 1e-6  # while the gradient of H on the other two is not 0
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("which", ["entropy", "loss", "doubt"])
def test_images_that_f_gets_wrong_clean_contribute_nothing(which) -> None:
    wrong = CLEAN[[2, 3, 2, 3]]
    masked, masks = MASKED.clone().requires_grad_(), _masks(*AREAS).requires_grad_()
    value = score(masked, wrong, LABELS, masks, 2.0, which)
    value.backward()
    assert value.item() == 0.0
    assert not masked.grad.any()
    assert not masks.grad.any()


@pytest.mark.parametrize("which", ["entropy", "loss", "doubt"])
def test_images_that_are_not_confused_pay_nothing_for_their_masks(which) -> None:
    masked, clean, labels = MASKED[:1], CLEAN[:1], LABELS[:1]  # masked or not, class 0
    cheap, dear = (float(score(masked, clean, labels, _masks(0.9), price, which)) for price in (0.0, 100.0))
    assert cheap == dear == pytest.approx({"entropy": 1.5 * LN2, "loss": LN2, "doubt": -LN2}[which])


@pytest.mark.parametrize("which", ["entropy", "loss", "doubt"])
def test_what_counts_as_right_is_said_by_f_not_by_f_prime(which) -> None:
    right, wrong = torch.tensor([SURE[0]]), torch.tensor([SURE[1]])
    masked, masks = torch.tensor([TENTHS]), _masks(0.3)
    assert float(score(masked, right, LABELS[:1], masks, 1.0, which)) != 0
    assert float(score(masked, wrong, LABELS[:1], masks, 1.0, which)) == 0


def test_a_mask_costs_its_mean_whatever_its_size() -> None:
    for side in (4, 64):
        masks = torch.full((1, 1, side, side), 0.3)
        value = score(torch.tensor([SURE[1]]), torch.tensor([SURE[0]]), torch.tensor([0]), masks, 5.0)
        assert float(value) == pytest.approx(0 - 5 * 0.3, abs=1e-5)  # H of a sure answer is 0


@pytest.mark.parametrize("which", ["entropy", "loss", "doubt"])
def test_the_regulariser_pulls_confused_masks_down_evenly_and_no_others(which) -> None:
    masks = _masks(*AREAS).requires_grad_()
    score(MASKED, CLEAN, LABELS, masks, 2.0, which).backward()
    wanted = torch.zeros(4, 1, 4, 2)
    wanted[1] = -2.0 / 4 / 8  # lambda_R / N / pixels
    torch.testing.assert_close(masks.grad, wanted)


@pytest.mark.parametrize("which", ["entropy", "loss", "doubt"])
def test_evidence_pulls_the_mask_up_where_it_is_and_only_there(which) -> None:
    images = torch.zeros(1, 3, 1, 4)
    images[..., 0] = 1.0  # the evidence for class 0: one bright pixel
    masks = torch.full((1, 1, 1, 4), 0.2, requires_grad=True)

    def f(x: torch.Tensor) -> torch.Tensor:
        bright = x.mean(dim=1).sum(dim=(1, 2))
        return torch.stack([2 * bright, 0 * bright], dim=1)

    value = score(f(mask_out(images, masks)), f(images), torch.tensor([0]), masks, 3.0, which)
    value.backward()
    pull = masks.grad.flatten()
    assert pull[0] > 0
    assert pull[1:].tolist() == [0, 0, 0]  # nothing to hide there, and not confused: no price


NUMBERS = st.floats(-9, 9, width=32)


@settings(deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 1)), min_size=1, max_size=6), st.data())
def test_the_score_of_a_batch_is_the_mean_of_its_images(rows, data) -> None:
    clean = torch.tensor([row[:2] for row in rows])
    masked = torch.tensor([row[2:4] for row in rows])
    labels = torch.tensor([row[4] for row in rows])
    masks = _masks(*[data.draw(st.floats(0, 0.6)) for _ in rows])
    for which in ("entropy", "loss", "doubt"):
        alone = [float(score(masked[[i]], clean[[i]], labels[[i]], masks[[i]], 1.5, which)) for i in range(len(rows))]
        together = float(score(masked, clean, labels, masks, 1.5, which))
        assert together == pytest.approx(sum(alone) / len(rows), abs=1e-5)
