import pytest
import torch
from torch.nn.modules.batchnorm import _BatchNorm

from casmap.models.classifier import Classifier
from casmap.models.folding import folded


def _lived(backbone: str) -> Classifier:
    """A classifier whose batch norms have seen something."""
    torch.manual_seed(0)
    f = Classifier(backbone, classes=5).eval().requires_grad_(False)
    for norm in _norms(f):
        norm.running_mean.normal_(0, 0.1)
        norm.running_var.uniform_(0.5, 2)
        norm.weight.uniform_(0.5, 1.5)
        norm.bias.normal_(0, 0.1)
    return f


def _norms(f: Classifier) -> list[_BatchNorm]:
    return [layer for layer in f.modules() if isinstance(layer, _BatchNorm)]


@pytest.mark.parametrize("backbone", ["test_resnet", "test_efficientnet", "test_byobnet", "torchvision/mobilenet_v2"])
def test_folding_leaves_no_batch_norm_and_changes_no_logit_no_stage_and_no_gradient(backbone):
    f = _lived(backbone)
    assert _norms(f)
    g = folded(f)
    assert not _norms(g)
    assert _norms(f)  # is left as it was
    images = torch.randn(2, 3, 64, 64).requires_grad_(True)
    (logits, stages), (quick, quick_stages) = f.forward_stages(images), g.forward_stages(images)
    torch.testing.assert_close(quick, logits, rtol=1e-4, atol=1e-5)
    for stage, other in zip(stages, quick_stages, strict=True):
        torch.testing.assert_close(other, stage, rtol=1e-4, atol=1e-4)
    gradients = [torch.autograd.grad(y[:, 0].sum(), images, retain_graph=True)[0] for y in (logits, quick)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)


def test_nothing_is_learned_through_what_learned_nothing():
    assert not any(weights.requires_grad for weights in folded(_lived("test_resnet")).parameters())


def test_a_backbone_in_which_the_order_of_layers_misleads_comes_back_as_it_is():
    f = _lived("resnetv2_50")  # its batch norms come before the convolutions, after a sum
    assert folded(f) is f


def test_a_network_without_batch_norms_is_the_same():
    f = _lived("test_vit")
    assert folded(f) is f
