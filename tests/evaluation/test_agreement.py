"""The agreement with the shipped mapping: measured where that one is better than control masks, at most a doubt."""

import numpy as np
import pytest
from tests.evaluation.test_trust import SIDE, Crops, Replaced
from tests.evaluation.test_verdict import CERTAIN, CHANCE, verdict

from casmap.evaluation.agreement import LOWEST, ShippedAgreement, mean_iou
from casmap.evaluation.numbers import Number
from casmap.evaluation.trust import measure
from casmap.inference.mapper import SaliencyMapper

CONTROL = 0.5
LOW, HIGH = (Number(CONTROL + share * (1 - CONTROL), 0.3, 0.8) for share in (LOWEST - 0.02, LOWEST + 0.02))


def test_the_iou_of_empty_and_of_overlapping_masks() -> None:
    masks, others = np.zeros((3, 4, 4), bool), np.zeros((3, 4, 4), bool)
    masks[0, :2], others[0, 1:3] = True, True  # 4 of 12 pixels
    masks[1, 0] = True  # the other one is empty
    assert mean_iou(masks, others).value == pytest.approx((1 / 3 + 0 + 1) / 3)


@pytest.mark.parametrize(
    ("iou", "gain", "expected"), [(LOW, CERTAIN, "doubtful"), (HIGH, CERTAIN, "good"), (LOW, CHANCE, "good")]
)
def test_a_low_agreement_is_a_doubt_where_the_shipped_mapping_is_sure(iou, gain, expected) -> None:
    found = verdict(agreement=ShippedAgreement(iou, CONTROL, 40, {"random": CERTAIN, "centred": gain}))
    assert found.verdict == expected
    assert found.to_json()["agreement with the shipped mapping"]["IoU"] == [iou.value, iou.low, iou.high]


def test_a_low_agreement_does_not_make_failed_masks_doubtful() -> None:
    found = verdict(agreement=ShippedAgreement(LOW, CONTROL, 40, {"random": CERTAIN}), random=CHANCE)
    assert found.verdict == "failed"
    assert "mean IoU 0.59 [0.30, 0.80] on 40 photos, 0.50 with control masks" in found.reasons[-1]


def test_the_shipped_mapping_agrees_with_itself_and_not_with_what_it_leaves() -> None:
    shipped = SaliencyMapper(SaliencyMapper.load(threads=1).network, SIDE)
    opposite = SaliencyMapper(Replaced(shipped.network, lambda masks: 1 - masks), SIDE)
    itself, other = (measure(mapper, Crops(), shipped=shipped, most=24).agreement for mapper in (shipped, opposite))
    assert itself.applies
    assert (itself.iou.value, itself.above_control) == (1.0, 1.0)
    assert itself.doubts == []
    assert other.applies
    assert other.iou.value < 0.1
    assert other.above_control < 0
    assert len(other.doubts) == 1


def test_a_reference_that_is_no_better_than_control_masks_does_not_count() -> None:
    shipped = SaliencyMapper(SaliencyMapper.load(threads=1).network, SIDE)
    useless = SaliencyMapper(Replaced(shipped.network, np.ones_like), SIDE)
    found = measure(shipped, Crops(), shipped=useless, most=24).agreement
    assert not found.applies
    assert found.doubts == []
    assert "does not count" in found.sentence
