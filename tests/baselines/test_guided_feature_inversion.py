"""Guided feature inversion where the place of the evidence is known."""

from casmap.baselines.guided_feature_inversion import guided_feature_inversion


def test_it_finds_a_planted_object(planted) -> None:
    assert planted.finds(guided_feature_inversion, few=8) > 0.65
