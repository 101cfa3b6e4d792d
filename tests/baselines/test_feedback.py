"""Feedback by hand, and where the place of the evidence is known."""

import torch

from casmap.baselines.feedback import feedback, gated
from casmap.baselines.gradient import plain_gradient


def test_feedback_by_hand(small_network) -> None:
    """Two features, (3, 1): the second speaks against the class, and its gate is closed."""
    network = small_network([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[2.0, -1.0]])
    picture = torch.tensor([3.0, 1.0, 5.0]).view(1, 3, 1, 1)
    assert plain_gradient(network, picture, torch.tensor([0])).item() == 2.0  # the largest of 2, 1, 0
    with gated(network, []) as speaking:
        picture.requires_grad_(True)
        (back,) = torch.autograd.grad(network(picture)[0, 0], picture)
    assert speaking[0].flatten().tolist() == [1.0, 0.0]
    assert back.flatten().tolist() == [2.0, 0.0, 0.0]
    with gated(network, speaking), torch.no_grad():
        assert network(picture).item() == 6.0  # 2 * 3, without what spoke against it
    assert network(picture).item() == 5.0  # and the gates are gone


def test_it_finds_a_planted_object(planted) -> None:
    assert planted.finds(feedback) > 0.65
