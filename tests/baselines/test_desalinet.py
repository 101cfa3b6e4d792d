"""DeSaliNet beside captum's guided backpropagation, and where the place of the evidence is known."""

from captum.attr import GuidedBackprop

from casmap.baselines.desalinet import desalinet


def test_it_is_captums(planted) -> None:
    planted.is_captums(desalinet, GuidedBackprop)


def test_it_finds_a_planted_object(planted) -> None:
    assert planted.finds(desalinet) > 0.7
