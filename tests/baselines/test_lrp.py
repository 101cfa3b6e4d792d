"""LRP by hand, and where the place of the evidence is known."""

import torch

from casmap.baselines.lrp import lrp


def test_lrp_by_hand(small_network) -> None:
    """One convolution of 1 x 1 and a head: R_i = 2 z+ / sum z+ - z- / sum z-, for the logit's relevance."""
    network = small_network([[2.0, -0.5, 1.0]], [[2.0]])
    picture = torch.tensor([1.0, 2.0, 0.5]).view(1, 3, 1, 1)
    found = lrp(network, picture, torch.tensor([0]))
    # z = x w = (2, -1, 0.5), all of which go to one feature of 1.5, and on to the logit 3.
    relevance = 3 * (2 * (2 + 0.5) / 2.5 - 1 / 1)
    torch.testing.assert_close(found, torch.full((1, 1, 1), relevance), rtol=1e-3, atol=1e-4)


def test_it_finds_a_planted_object(planted) -> None:
    assert planted.finds(lrp) > 0.7


def test_of_two_planted_objects_it_finds_the_one_that_it_is_asked_for(planted, two_planted) -> None:
    assert planted.tells_apart(lrp, two_planted) > 0.7
