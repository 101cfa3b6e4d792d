"""Each rival beside another way to its maps: another library, or the formula of its docstring by hand."""

import pytest
import torch
from captum.attr import Deconvolution, GuidedBackprop
from torch import nn
from torch.nn.functional import interpolate
from torchcam.methods import CAM, GradCAM

from casmap.baselines.cam import cam
from casmap.baselines.excitation_backprop import contrasted, excitation_backprop
from casmap.baselines.feedback import gated
from casmap.baselines.grad_cam import grad_cam
from casmap.baselines.gradient import gradient, plain_gradient
from casmap.baselines.lrp import lrp
from casmap.baselines.occlusion import occlusion
from casmap.baselines.relevance import SharedSums
from casmap.baselines.reversed_network import deconvnet, desalinet
from casmap.baselines.rise import rise
from casmap.baselines.score_cam import score_cam
from casmap.models.class_activation import last_features

FEW = 3


class Listened(nn.Module):
    """A classifier whose last features pass a layer by which torch-cam can be told of them."""

    def __init__(self, classifier) -> None:
        super().__init__()
        self.classifier, self.layer = classifier, nn.Identity()

    def forward(self, images):
        features = self.layer(last_features(self.classifier, images)[0])
        return self.classifier.network.fc(features.mean(dim=(2, 3)))


def stretched(maps):
    low, high = maps.amin(dim=(1, 2), keepdim=True), maps.amax(dim=(1, 2), keepdim=True)
    return (maps - low) / (high - low)


def test_cam_is_torch_cams(planted) -> None:
    images, classes = planted.images[:FEW], planted.classes[:FEW]
    model = Listened(planted.classifier)
    with CAM(model, target_layer="layer", fc_layer="classifier.network.fc") as extractor, torch.no_grad():
        model(images)
        theirs = extractor(classes.tolist(), normalized=False)[0]
    ours = cam(planted.classifier, images, classes)
    torch.testing.assert_close(stretched(ours), stretched(theirs), rtol=1e-4, atol=1e-4)


def test_grad_cam_is_torch_cams(planted) -> None:
    images, classes = planted.images[:FEW].clone().requires_grad_(True), planted.classes[:FEW]
    model = Listened(planted.classifier)
    with GradCAM(model, target_layer="layer") as extractor:
        logits = model(images)
        theirs = extractor(classes.tolist(), logits, normalized=False)[0].detach()
    ours = grad_cam(planted.classifier, images.detach(), classes)
    torch.testing.assert_close(stretched(ours), stretched(theirs), rtol=1e-4, atol=1e-4)


def test_the_gradient_is_autograds(planted) -> None:
    images, classes = planted.images[:FEW].clone().requires_grad_(True), planted.classes[:FEW]
    for index, label in enumerate(classes.tolist()):
        (back,) = torch.autograd.grad(planted.classifier(images)[index, label], images)
        ours = plain_gradient(planted.classifier, images.detach(), classes)[index]
        torch.testing.assert_close(ours, back[index].abs().amax(dim=0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("ours", "theirs"), [(deconvnet, Deconvolution), (desalinet, GuidedBackprop)])
def test_a_reversed_network_is_captums(planted, ours, theirs) -> None:
    images, classes = planted.images[:FEW], planted.classes[:FEW]
    found = ours(planted.classifier, images, classes)
    wanted = theirs(planted.classifier).attribute(images.clone().requires_grad_(True), target=classes)
    torch.testing.assert_close(found, wanted.detach().abs().amax(dim=1), rtol=1e-3, atol=1e-5)


def test_occlusion_by_hand(planted) -> None:
    """64 pixels: squares of 16, moved by 4; a pixel has the mean of the losses of all squares over it."""
    images, classes = planted.images[:1], planted.classes[:1]
    loss, count = torch.zeros(64, 64), torch.zeros(64, 64)
    with torch.no_grad():
        whole = planted.classifier(images).softmax(dim=1)[0, classes[0]]
        for y in range(0, 49, 4):
            for x in range(0, 49, 4):
                covered = images.clone()
                covered[..., y : y + 16, x : x + 16] = 0
                loss[y : y + 16, x : x + 16] += whole - planted.classifier(covered).softmax(dim=1)[0, classes[0]]
                count[y : y + 16, x : x + 16] += 1
    wanted = (loss / count).clamp_min(0)
    torch.testing.assert_close(occlusion(planted.classifier, images, classes)[0], wanted, rtol=1e-3, atol=1e-4)


def test_rise_by_the_librarys_masks(planted) -> None:
    """The mean of TorchRay's own masks, each weighted with the probability that torch, not ONNX Runtime, tells."""
    library = pytest.importorskip("torchray.attribution.rise")
    images, classes = planted.images[:2], planted.classes[:2]
    seen: list[torch.Tensor] = []  # all-ones pictures times the masks: the masks
    library.rise(
        lambda pictures: (seen.append(pictures), pictures.mean(dim=(2, 3)))[1], torch.ones(1, 1, 64, 64), num_masks=48
    )
    masks = torch.cat(seen[1:])  # first it asks for the picture itself
    assert len(masks) == 48
    for image, label, found in zip(images, classes, rise(planted.classifier, images, classes, masks=48), strict=True):
        with torch.no_grad():
            probabilities = planted.classifier(image * masks).softmax(dim=1)[:, label]
        torch.testing.assert_close(
            found, (probabilities[:, None, None] * masks[:, 0]).mean(dim=0), rtol=1e-3, atol=1e-5
        )


def test_score_cam_by_hand(planted) -> None:
    images, classes = planted.images[:1], planted.classes[:1]
    with torch.no_grad():
        features, logits = last_features(planted.classifier, images)
        gains = []
        for plane in stretched(features[0].flatten(1)[:, None])[:, 0].view_as(features[0]).nan_to_num(0.0):
            mask = interpolate(plane[None, None], (64, 64), mode="bilinear", align_corners=False)
            gains.append(planted.classifier(images * mask)[0, classes[0]] - logits[0, classes[0]])
        weights = torch.stack(gains).softmax(dim=0)
        wanted = (weights[:, None, None] * features[0]).sum(dim=0).clamp_min(0)
    found = score_cam(planted.classifier, images, classes)
    torch.testing.assert_close(stretched(found), stretched(wanted[None]), rtol=1e-3, atol=1e-3)


def test_a_sum_shares_its_relevance_by_hand() -> None:
    a = torch.tensor([1.0, 3.0]).view(1, 2, 1, 1).requires_grad_(True)
    b = torch.tensor([3.0, 1.0]).view(1, 2, 1, 1).requires_grad_(True)
    with SharedSums():
        both = a + b
    to_a, to_b = torch.autograd.grad(both, (a, b), torch.ones_like(both))
    torch.testing.assert_close(to_a.flatten(), torch.tensor([0.25, 0.75]))
    torch.testing.assert_close(to_b.flatten(), torch.tensor([0.75, 0.25]))


def test_lrp_by_hand() -> None:
    """One convolution of 1 x 1 and a head: R_i = 2 z+ / sum z+ - z- / sum z-, for the logit's relevance."""
    network = Small()
    picture = torch.tensor([1.0, 2.0, 0.5]).view(1, 3, 1, 1)
    found = lrp(network, picture, torch.tensor([0]))
    # z = x w = (2, -1, 0.5), all of which go to one feature of 1.5, and on to the logit 3.
    relevance = 3 * (2 * (2 + 0.5) / 2.5 - 1 / 1)
    torch.testing.assert_close(found, torch.full((1, 1, 1), relevance), rtol=1e-3, atol=1e-4)


class Small(nn.Module):
    """Three colours, a few features, one logit."""

    def __init__(self, features=((2.0, -0.5, 1.0),), head=((2.0,),)) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, len(features), 1, bias=False)
        self.relu, self.head = nn.ReLU(), nn.Linear(len(features), 1, bias=False)
        with torch.no_grad():
            self.convolution.weight.copy_(torch.tensor(features).view(-1, 3, 1, 1))
            self.head.weight.copy_(torch.tensor(head))

    def forward(self, images):
        return self.head(self.relu(self.convolution(images)).mean(dim=(2, 3)))


def test_contrastive_winning_probabilities_by_hand() -> None:
    features = torch.tensor([[1.0, 3.0], [4.0, 0.0]]).view(1, 2, 1, 2)  # two maps of two places
    weights = torch.tensor([[2.0, -1.0]])  # the first speaks for the class, the second against it
    # For: 2 (1, 3) of 8 -> 1/4, 3/4. Against: (4, 0) of 4 -> 1, 0, on the other map.
    torch.testing.assert_close(contrasted(features, weights).flatten(), torch.tensor([0.25, 0.75, -1.0, 0.0]))


def test_feedback_by_hand() -> None:
    """Two features, (3, 1): the second speaks against the class, and its gate is closed."""
    network = Small(features=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], head=[[2.0, -1.0]])
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


def test_ten_crops_are_all_of_a_picture_that_is_the_same_everywhere(planted) -> None:
    """Each pixel has the mean over the crops that show it: of the whole picture's gradient, if nothing moves."""
    maps = gradient(Flat(), torch.rand(1, 3, 64, 64), torch.tensor([0]))
    assert maps.shape == (1, 64, 64)
    torch.testing.assert_close(maps, torch.full((1, 64, 64), 1 / 64**2), rtol=1e-3, atol=1e-6)


class Flat(nn.Module):
    """A logit that is the mean of all pixels of the first colour: its gradient is the same everywhere."""

    def forward(self, images):
        return images[:, :1].mean(dim=(2, 3))


def test_contrastive_excitation_backprop_is_torchrays(planted) -> None:
    """On a plain network, which both can handle: convolutions, ReLU, average pooling, one linear layer."""
    excitation = pytest.importorskip("torchray.attribution.excitation_backprop")
    plain = Plain().eval()
    images, classes = planted.images[:FEW], planted.classes[:FEW]
    theirs = excitation.contrastive_excitation_backprop(
        plain, images, classes, saliency_layer="first", contrast_layer="second", classifier_layer="fc"
    )
    ours = excitation_backprop(plain, images, classes)
    torch.testing.assert_close(stretched(ours), stretched(theirs[:, 0].detach()), rtol=1e-2, atol=1e-2)


class Plain(nn.Module):
    """Two stages; the first has an eighth of the picture's side."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Sequential(nn.Conv2d(3, 8, 8, stride=8, bias=False), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.ReLU())
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 4, bias=False)
        self.backbone, self.stage_indices = "plain", (0, 1)
        self.num_features = 16

    def forward(self, images):
        return self.fc(self.pool(self.second(self.first(images))).flatten(1))

    def look_inside(self, images):
        low = self.first(images)
        features = self.second(low)
        return self.fc(self.pool(features).flatten(1)), [low, features], features

    @property
    def network(self):
        return self

    def get_classifier(self):
        return self.fc
