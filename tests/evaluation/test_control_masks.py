"""Control masks have the area of the masks that they stand beside, and know nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from casmap.evaluation.control_masks import CONTROLS, centred_masks, exchanged_masks

MASKS = hnp.arrays(bool, st.tuples(st.integers(1, 6), st.integers(4, 12), st.integers(4, 12)))


@given(MASKS)
def test_controls_have_the_same_areas(masks) -> None:
    areas = masks.sum(axis=(1, 2))
    for name in ("centred", "random"):
        assert CONTROLS[name](masks).sum(axis=(1, 2)).tolist() == areas.tolist()
    assert sorted(CONTROLS["another photo's"](masks).sum(axis=(1, 2))) == sorted(areas)


@given(MASKS)
def test_a_centred_mask_does_not_depend_on_the_place(masks) -> None:
    assert (centred_masks(masks) == centred_masks(masks[:, ::-1, ::-1])).all()


@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize("value", [False, True])
def test_all_or_nothing_is_its_own_control(name, value) -> None:
    masks = np.full((3, 8, 8), value)
    assert (CONTROLS[name](masks) == masks).all()


def test_no_photo_keeps_its_mask() -> None:
    masks = np.eye(9, dtype=bool)[:, :, None] & np.ones((1, 1, 9), bool)  # the same area, each another row
    assert not (exchanged_masks(masks) & masks).any()
