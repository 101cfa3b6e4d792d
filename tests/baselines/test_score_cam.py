"""Score-CAM by hand, and where the place of the evidence is known."""

import torch
from torch.nn.functional import interpolate

from casmap.baselines.score_cam import score_cam
from casmap.models.class_activation import last_features, min_max


def test_score_cam_by_hand(planted) -> None:
    images, classes = planted.images[:1], planted.classes[:1]
    with torch.no_grad():
        features, logits = last_features(planted.classifier, images)
        gains = []
        for plane in min_max(features[0]):
            mask = interpolate(plane[None, None], (64, 64), mode="bilinear", align_corners=False)
            gains.append(planted.classifier(images * mask)[0, classes[0]] - logits[0, classes[0]])
        weights = torch.stack(gains).softmax(dim=0)
        wanted = (weights[:, None, None] * features[0]).sum(dim=0).clamp_min(0)
    found = score_cam(planted.classifier, images, classes)
    torch.testing.assert_close(min_max(found), min_max(wanted[None]), rtol=1e-3, atol=1e-3)


def test_it_finds_a_planted_object(planted) -> None:
    assert planted.finds(score_cam) > 0.7


def test_of_two_planted_objects_it_finds_the_one_that_it_is_asked_for(planted, two_planted) -> None:
    assert planted.tells_apart(score_cam, two_planted) > 0.7
