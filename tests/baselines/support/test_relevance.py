"""What goes back through any backbone, by hand."""

import torch

from casmap.baselines.support.relevance import SharedSums


def test_a_sum_shares_its_relevance_by_hand() -> None:
    a = torch.tensor([1.0, 3.0]).view(1, 2, 1, 1).requires_grad_(True)
    b = torch.tensor([3.0, 1.0]).view(1, 2, 1, 1).requires_grad_(True)
    with SharedSums():
        both = a + b
    to_a, to_b = torch.autograd.grad(both, (a, b), torch.ones_like(both))
    torch.testing.assert_close(to_a.flatten(), torch.tensor([0.25, 0.75]))
    torch.testing.assert_close(to_b.flatten(), torch.tensor([0.75, 0.25]))
