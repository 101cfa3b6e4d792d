"""Extremal perturbation where the place of the evidence is known."""

from casmap.baselines.extremal_perturbation import extremal_perturbation


def test_it_finds_a_planted_object(planted) -> None:
    """Its masks are too smooth for pictures this small."""
    assert planted.finds(extremal_perturbation, few=3, steps=100) > 0.62
