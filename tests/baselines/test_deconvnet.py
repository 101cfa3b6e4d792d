"""Deconvnet beside captum's, and where the place of the evidence is known."""

from captum.attr import Deconvolution

from casmap.baselines.deconvnet import deconvnet


def test_it_is_captums(planted) -> None:
    planted.is_captums(deconvnet, Deconvolution)


def test_it_finds_a_planted_object(planted) -> None:
    """Hardly: where nothing pools by the maximum, it hardly sees the picture."""
    assert planted.finds(deconvnet) > 0.55
