"""Every rival finds a planted object, and is about the class that it is asked for."""

import pytest
import torch

from casmap.baselines.cam import cam
from casmap.baselines.excitation_backprop import excitation_backprop
from casmap.baselines.extremal_perturbation import extremal_perturbation
from casmap.baselines.feedback import feedback
from casmap.baselines.grad_cam import grad_cam
from casmap.baselines.gradient import gradient
from casmap.baselines.guided_feature_inversion import guided_feature_inversion
from casmap.baselines.lrp import lrp
from casmap.baselines.meaningful_perturbation import meaningful_perturbation
from casmap.baselines.occlusion import occlusion
from casmap.baselines.reversed_network import deconvnet, desalinet
from casmap.baselines.rise import rise
from casmap.baselines.score_cam import score_cam

# The least that each must reach; 0.5 is chance. Deconvnet hardly sees the picture where nothing pools by the maximum;
# the masks of extremal perturbation are too smooth for pictures this small.
LEAST = {
    cam: 0.8, grad_cam: 0.8, gradient: 0.7, deconvnet: 0.55, desalinet: 0.7, lrp: 0.7, excitation_backprop: 0.8,
    occlusion: 0.7, feedback: 0.65, guided_feature_inversion: 0.65, meaningful_perturbation: 0.7,
    score_cam: 0.7, rise: 0.7, extremal_perturbation: 0.62,
}  # fmt: skip
SLOW = {
    meaningful_perturbation: 4, guided_feature_inversion: 8, occlusion: 8, rise: 8, extremal_perturbation: 3
}  # fmt: skip


@pytest.mark.parametrize("peer", LEAST, ids=lambda peer: peer.__name__)
def test_it_finds_a_planted_object(planted, peer) -> None:
    few = SLOW.get(peer, len(planted.images))
    shorter = {rise: {"masks": 500}, extremal_perturbation: {"steps": 100}}.get(peer, {})
    maps = peer(planted.classifier, planted.images[:few], planted.classes[:few], **shorter)
    assert maps.shape[0] == few
    assert not maps.requires_grad
    assert torch.isfinite(maps).all()
    assert planted.found(maps) > LEAST[peer]


# Those whose maps are about the class; deconvnet's are nearly the same for all, and box regression is told none.
ABOUT_THE_CLASS = (cam, grad_cam, gradient, lrp, excitation_backprop, occlusion, score_cam)


@pytest.mark.parametrize("peer", ABOUT_THE_CLASS, ids=lambda peer: peer.__name__)
def test_of_two_planted_objects_it_finds_the_one_that_it_is_asked_for(planted, two_planted, peer) -> None:
    images, first, second, inside_first, inside_second = two_planted
    for asked, own, other in ((first, inside_first, inside_second), (second, inside_second, inside_first)):
        maps = peer(planted.classifier, images, asked)
        full = torch.nn.functional.interpolate(maps[:, None], images.shape[-2:], mode="bilinear")[:, 0]
        right = [float(m[a].mean() > m[b].mean()) for m, a, b in zip(full, own, other, strict=True)]
        assert sum(right) / len(right) > 0.7, sum(right) / len(right)
