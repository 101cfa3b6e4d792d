"""Dabkowski & Gal 2017, "Real Time Image Saliency for Black Box Classifiers": a masking network with a class selector.

    L = l1 TV(m) + l2 AV(m) - log f_c(Phi(x, m)) + l3 f_c(Phi(x, 1 - m))^l4        in the authors' code:

    L = D(x, 1 - m) + 8 mean (m + 0.0005)^0.3 + 0.005 TV(m) + 0.3 P(x, m)

D: the destroyed image should not be classified as c (by a margin of 5 in the logits); P: the preserved image should (by
a margin of 1); TV: half the squared differences of neighbours, and 0.3 times the squared values at the border. Phi
replaces pixels, at random, by a blurred image, or by one colour and noise.

The network is a U-Net on the frozen stages of the classifier. The selector is a vector for each class: the last stage
is multiplied by sigmoid(<stage, vector>), and in its own phase it is trained to predict whether the class is present;
three in ten of the requested classes are not, and then nothing should be masked.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, interpolate, relu

from casmap.baselines import BASELINES, Baseline, TrainingData
from casmap.baselines.support.blurring import blur
from casmap.data.batches import Batches
from casmap.evaluation.rules import above
from casmap.io.reading import reading
from casmap.models.classifier import Classifier
from casmap.models.files import read_tree, write_tree
from casmap.models.folding import folded

AREA, AREA_POWER, SMOOTH, PRESERVE = 8.0, 0.3, 0.005, 0.3
DESTROY_MARGIN, PRESERVE_MARGIN = 5.0, 1.0
BORDER = 0.3
CONFIDENCES = (0.0, 6.0)
BLUR = 11.0
NOISE, KEPT_NOISE, COLOURS = 0.11, 0.03, 0.66  # for images from -1 to 1, as lite0's are
RATE, DECAY = 1e-3, 1e-4
STEPS, BATCH, CROP, SEED = 540, 16, 0.3, 0  # per phase: together as many photos as CASM's two stages
WIDTH = 64  # channels of the finest stage; each coarser stage has twice as many
SELECTED = 3  # stages before the last that the U-Net uses


class MaskingNetwork(nn.Module):
    """Stages of a classifier and the requested class -> masks (N, 1, h, w) in 0..1, and the logit of its presence."""

    def __init__(self, stage_channels: list[int], classes: int) -> None:
        super().__init__()
        used = stage_channels[-SELECTED - 1 :]
        self.selector = nn.Embedding(classes, used[-1])
        nn.init.normal_(self.selector.weight, std=used[-1] ** -0.5)
        widths = [WIDTH * 2**level for level in reversed(range(SELECTED))]
        self.up = nn.ModuleList(map(_Up, [used[-1], *widths], reversed(used[:-1]), widths))
        self.mask = nn.Conv2d(widths[-1], 2, 1)

    def forward(self, stages: list[Tensor], classes: Tensor, confidence: float = 0.0) -> tuple[Tensor, Tensor]:
        """The mask of the requested class, and the logit of its presence (N,)."""
        *skips, flow = stages[-SELECTED - 1 :]
        presence = (flow * self.selector(classes)[..., None, None]).sum(dim=1, keepdim=True)
        flow = flow * torch.sigmoid(presence - confidence)
        for up, stage in zip(self.up, reversed(skips), strict=True):
            flow = up(flow, stage)
        a, b = self.mask(flow).abs().split(1, dim=1)
        return a / (a + b + 1e-6), presence.mean(dim=(1, 2, 3))


class _Up(nn.Module):
    """Upsample by 2 and merge with the stage of that size."""

    def __init__(self, below: int, skip: int, width: int) -> None:
        super().__init__()
        self.below, self.both = (
            nn.Sequential(nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
            for channels in (below, width + skip)
        )

    def forward(self, flow: Tensor, stage: Tensor) -> Tensor:
        flow = interpolate(self.below(flow), stage.shape[-2:], mode="bilinear")
        found: Tensor = self.both(torch.cat([flow, stage], dim=1))
        return found


class RealTimeSaliency:
    """The trained network as a baseline method: classifier, images and classes in, maps out.

    confidence: the threshold for locations that resemble the class only a little; 6 for the authors, whose selector was
    trained on a million photos. A lower value marks more.
    """

    def __init__(self, network: MaskingNetwork, confidence: float) -> None:
        self.network, self.confidence = network.eval(), confidence

    def __call__(self, classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
        """Images (N, 3, H, W), classes (N,) -> maps (N, h, w)."""
        with torch.no_grad():
            _, stages = classifier.forward_stages(images)
            masks: Tensor = self.network(stages, classes, self.confidence)[0]
        return masks[:, 0]


def train_selector(network: MaskingNetwork, classifier: Classifier, batches: Batches, steps: int, seed: int) -> float:
    """The first phase: half of the requested classes are absent; returns the accuracy in the last tenth of steps."""
    optimizer = torch.optim.Adam(network.selector.parameters(), RATE, weight_decay=DECAY)
    accuracies = []
    for step, (images, labels) in enumerate(batches.between(0, steps)):
        if step == steps // 2:
            optimizer.param_groups[0]["lr"] /= 10
        requested, present = sample_classes(labels, classifier.classes, 0.5, seed + step)
        with torch.no_grad():
            _, stages = classifier.forward_stages(images)
        logits = (stages[-1] * network.selector(requested)[..., None, None]).sum(dim=1).mean(dim=(1, 2))
        loss = binary_cross_entropy_with_logits(logits, present.float())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        accuracies.append(float(((logits > 0) == present).float().mean()))
    last = accuracies[-max(1, steps // 10) :]
    return sum(last) / len(last)


def train_masks(network: MaskingNetwork, classifier: Classifier, batches: Batches, steps: int, seed: int) -> float:
    """The second phase: the four loss terms; three in ten requested classes are absent. Returns the last mean area."""
    trained = [parameter for name, parameter in network.named_parameters() if not name.startswith("selector")]
    optimizer = torch.optim.Adam(trained, RATE, weight_decay=DECAY)
    area = 0.0
    for step, (images, labels) in enumerate(batches.between(0, steps)):
        requested, present = sample_classes(labels, classifier.classes, 0.3, seed + step)
        with torch.no_grad():
            _, stages = classifier.forward_stages(images)
        masks = interpolate(network.train()(stages, requested)[0], images.shape[-2:], mode="bilinear")
        loss = masking_loss(classifier, images, labels, present, masks, torch.Generator().manual_seed(seed + step))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        area = float(masks.detach().mean())
    return area


def sample_classes(labels: Tensor, classes: int, absent: float, seed: int) -> tuple[Tensor, Tensor]:
    """Classes to request (N,), this share of them different from the label, and which are present (N,)."""
    generator = torch.Generator().manual_seed(seed)
    fake = torch.rand(len(labels), generator=generator) < absent
    other = torch.randint(1, classes, (len(labels),), generator=generator)
    return (labels + other * fake) % classes, ~fake


def masking_loss(
    classifier: Classifier, images: Tensor, labels: Tensor, present: Tensor, masks: Tensor, generator: torch.Generator
) -> Tensor:
    """The loss of a batch with masks (N, 1, H, W); if the class is absent, destroying the label is penalised."""
    blurred = blur(images, BLUR)
    destroyed, preserved = (classifier(composite(images, blurred, m, generator)) for m in (1 - masks, masks))
    # Where the class is absent, the destroyed image should still show the label and the preserved one should not.
    destroys = torch.where(present, margin(destroyed, labels, -1, DESTROY_MARGIN), margin(destroyed, labels, 1, 1.0))
    preserves = torch.where(present, margin(preserved, labels, 1, PRESERVE_MARGIN), margin(preserved, labels, -1, 1.0))
    area = (masks + 0.0005).pow(AREA_POWER).mean()
    return destroys.mean() + AREA * area + SMOOTH * roughness(masks) + PRESERVE * preserves.mean()


def margin(logits: Tensor, labels: Tensor, sign: int, least: float) -> Tensor:
    """How far the label's logit is from leading (sign 1) or trailing (sign -1) the best other by `least`: (N,).

    >>> logits, label = torch.tensor([[3.0, 1.0]]), torch.tensor([0])
    >>> margin(logits, label, 1, 5.0), margin(logits, label, 1, 1.0), margin(logits, label, -1, 1.0)
    (tensor([3.]), tensor([0.]), tensor([3.]))
    """
    own = logits.gather(1, labels[:, None])[:, 0]
    best = logits.scatter(1, labels[:, None], float("-inf")).amax(dim=1)
    return relu(sign * (best - own) + least)


def roughness(masks: Tensor) -> Tensor:
    """Half the squared differences of neighbours, and 0.3 times the squared border values; a mean over photos."""
    inner = torch.stack([masks.diff(dim=dim).square().sum() for dim in (2, 3)]).sum()
    border = torch.stack([masks.select(dim, place).square().sum() for dim in (2, 3) for place in (0, -1)]).sum()
    return (inner + BORDER * border) / (2 * len(masks))


def composite(images: Tensor, blurred: Tensor, masks: Tensor, generator: torch.Generator) -> Tensor:
    """The images with a little noise where the mask is 1; elsewhere blurred or, half of the time, one colour."""
    count = len(images)
    noise = NOISE * torch.randn(images.shape, generator=generator)
    colour = COLOURS * (torch.rand(count, 3, 1, 1, generator=generator) - 0.5)
    blurs = torch.rand(count, 1, 1, 1, generator=generator) < 0.5
    kept = images + KEPT_NOISE * torch.randn(images.shape, generator=generator)
    return masks * kept + (1 - masks) * torch.where(blurs, blurred, colour + noise)


def learn(data: TrainingData) -> RealTimeSaliency:
    """Train both phases on photos with classes, or read the file of an earlier run; the classifier is not trained."""
    assert data.photos is not None
    f, path = folded(data.classifier.eval().requires_grad_(False)), data.folder / "real-time.safetensors"
    selected = path.with_stem(f"{path.stem}-selector")
    torch.manual_seed(SEED)
    network = MaskingNetwork(f.stage_channels, f.classes)
    size, report = data.images.shape[1], data.reporter.message
    batches = Batches(data.photos, size, BATCH, f.mean, f.std, seed=SEED + 3, smallest_crop=CROP)
    if not path.exists():
        if selected.exists():
            with reading(selected, f"{selected} is damaged: delete it."):
                network.load_state_dict(read_tree(selected)["network"])
        else:
            accuracy = train_selector(network, f, batches, STEPS, SEED)
            report(f"Real-time saliency: the selector's accuracy in predicting presence is {accuracy:.0%}.")
            write_tree(selected, {"network": network.state_dict()})
        area = train_masks(network, f, batches, STEPS, SEED)
        report(f"Real-time saliency: the masks cover {area:.2f} of the photos.")
        write_tree(path, {"network": network.state_dict(), "confidence": best_confidence(network, f, batches)})
        selected.unlink(missing_ok=True)
    with reading(path, f"{path} is damaged: delete it."):
        kept = read_tree(path)
        network.load_state_dict(kept["network"])
        return RealTimeSaliency(network, float(kept["confidence"]))


@torch.no_grad()
def best_confidence(network: MaskingNetwork, classifier: Classifier, batches: Batches) -> float:
    """The value in CONFIDENCES with the lowest loss on training photos."""
    losses = dict.fromkeys(CONFIDENCES, 0.0)
    for step, (images, labels) in enumerate(batches.between(0, 10)):
        _, stages = classifier.forward_stages(images)
        present = torch.ones(len(labels), dtype=torch.bool)
        for confidence in CONFIDENCES:
            masks = interpolate(network.eval()(stages, labels, confidence)[0], images.shape[-2:], mode="bilinear")
            generator = torch.Generator().manual_seed(step)
            losses[confidence] += float(masking_loss(classifier, images, labels, present, masks, generator))
    return min(CONFIDENCES, key=lambda confidence: losses[confidence])


BASELINES.register("real-time-saliency")(
    Baseline("real-time saliency", "Dabkowski & Gal 2017", rule=above(0.5), paper_le=36.7, masks=True, learn=learn)
)
