"""Dabkowski & Gal 2017, "Real Time Image Saliency for Black Box Classifiers": a masking network with a class selector.

    L = l1 TV(m) + l2 AV(m) - log f_c(Phi(x, m)) + l3 f_c(Phi(x, 1 - m))^l4        in the authors' program:

    L = D(x, 1 - m) + 8 mean (m + 0.0005)^0.3 + 0.005 TV(m) + 0.3 P(x, m)

D: what is destroyed should not be told as c (by a margin of 5 in the logits); P: what is preserved should (by a margin
of 1); TV: half the squared differences of neighbours, and 0.3 times those of the border from nothing. Phi puts in, by
chance, a blurred picture, or one colour and noise.

The network is a U-Net on the fixed stages of the classifier. The selector is a vector for each class: the last stage is
multiplied by sigmoid(<stage, vector>), and in a phase of its own it learns to tell whether the class is there at all;
three in ten of the classes asked for are not, and then nothing should be masked.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, interpolate, relu

from casmap.baselines import BASELINES, Baseline, TrainingData
from casmap.baselines.support.blurring import blur
from casmap.data.batches import Batches
from casmap.evaluation.rules import above
from casmap.models.classifier import Classifier
from casmap.models.files import read_tree, write_tree
from casmap.models.folding import folded

AREA, AREA_POWER, SMOOTH, PRESERVE = 8.0, 0.3, 0.005, 0.3
DESTROY_MARGIN, PRESERVE_MARGIN = 5.0, 1.0
BORDER = 0.3
CONFIDENCES = (0.0, 6.0)
BLUR = 11.0
NOISE, KEPT_NOISE, COLOURS = 0.11, 0.03, 0.66  # of pictures from -1 to 1, as lite0's are
RATE, DECAY = 1e-3, 1e-4
STEPS, BATCH, CROP, SEED = 540, 16, 0.3, 0  # each phase: in both, as many photos as CASM in its two stages
WIDTH = 64  # channels of the finest stage; each coarser one has twice as many
SELECTED = 3  # stages above the last that the U-Net climbs


class MaskingNetwork(nn.Module):
    """Stages of a classifier and the class asked for in, masks (N, 1, h, w) in 0..1 out; and whether it is there.

    >>> network = MaskingNetwork([8, 16, 32, 64], classes=5)
    >>> stages = [torch.rand(2, c, s, s) for c, s in ((8, 32), (16, 16), (32, 8), (64, 4))]
    >>> mask, there = network(stages, torch.tensor([0, 4]))
    >>> mask.shape, there.shape
    (torch.Size([2, 1, 32, 32]), torch.Size([2]))
    """

    def __init__(self, stage_channels: list[int], classes: int) -> None:
        super().__init__()
        used = stage_channels[-SELECTED - 1 :]
        self.selector = nn.Embedding(classes, used[-1])
        nn.init.normal_(self.selector.weight, std=used[-1] ** -0.5)
        widths = [WIDTH * 2**level for level in reversed(range(SELECTED))]
        self.up = nn.ModuleList(map(_Up, [used[-1], *widths], reversed(used[:-1]), widths))
        self.mask = nn.Conv2d(widths[-1], 2, 1)

    def forward(self, stages: list[Tensor], classes: Tensor, confidence: float = 0.0) -> tuple[Tensor, Tensor]:
        """The mask of the class asked for, and the logit of its being there (N,)."""
        *beside, flow = stages[-SELECTED - 1 :]
        speaks = (flow * self.selector(classes)[..., None, None]).sum(dim=1, keepdim=True)
        flow = flow * torch.sigmoid(speaks - confidence)
        for up, stage in zip(self.up, reversed(beside), strict=True):
            flow = up(flow, stage)
        a, b = self.mask(flow).abs().split(1, dim=1)
        return a / (a + b + 1e-6), speaks.mean(dim=(1, 2, 3))


class _Up(nn.Module):
    """Twice the side: what comes from below, enlarged, and the stage beside it."""

    def __init__(self, below: int, beside: int, width: int) -> None:
        super().__init__()
        self.below, self.both = (
            nn.Sequential(nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
            for channels in (below, width + beside)
        )

    def forward(self, flow: Tensor, stage: Tensor) -> Tensor:
        flow = interpolate(self.below(flow), stage.shape[-2:], mode="bilinear")
        found: Tensor = self.both(torch.cat([flow, stage], dim=1))
        return found


class RealTimeSaliency:
    """The trained network as a method: classifier, images and classes in, maps out.

    confidence: the bar for places that resemble the class only a little, 6 where the authors' own selector was trained
    on a million photos; the lower it is, the more is marked.
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
    """The first phase: half of the classes asked for are not there; returns the share told right in the last tenth."""
    optimizer = torch.optim.Adam(network.selector.parameters(), RATE, weight_decay=DECAY)
    right = []
    for step, (images, labels) in enumerate(batches.between(0, steps)):
        if step == steps // 2:
            optimizer.param_groups[0]["lr"] /= 10
        asked, there = ask(labels, classifier.classes, 0.5, seed + step)
        with torch.no_grad():
            _, stages = classifier.forward_stages(images)
        logits = (stages[-1] * network.selector(asked)[..., None, None]).sum(dim=1).mean(dim=(1, 2))
        loss = binary_cross_entropy_with_logits(logits, there.float())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        right.append(float(((logits > 0) == there).float().mean()))
    last = right[-max(1, steps // 10) :]
    return sum(last) / len(last)


def train_masks(network: MaskingNetwork, classifier: Classifier, batches: Batches, steps: int, seed: int) -> float:
    """The second phase: the four terms; three in ten classes asked for are not there. Returns the last mean area."""
    trained = [parameter for name, parameter in network.named_parameters() if not name.startswith("selector")]
    optimizer = torch.optim.Adam(trained, RATE, weight_decay=DECAY)
    area = 0.0
    for step, (images, labels) in enumerate(batches.between(0, steps)):
        asked, there = ask(labels, classifier.classes, 0.3, seed + step)
        with torch.no_grad():
            _, stages = classifier.forward_stages(images)
        masks = interpolate(network.train()(stages, asked)[0], images.shape[-2:], mode="bilinear")
        loss = four_terms(classifier, images, labels, there, masks, torch.Generator().manual_seed(seed + step))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        area = float(masks.detach().mean())
    return area


def ask(labels: Tensor, classes: int, fakes: float, seed: int) -> tuple[Tensor, Tensor]:
    """Classes to ask for (N,), this share of them another than the label, and which are there (N,)."""
    chance = torch.Generator().manual_seed(seed)
    fake = torch.rand(len(labels), generator=chance) < fakes
    other = torch.randint(1, classes, (len(labels),), generator=chance)
    return (labels + other * fake) % classes, ~fake


def four_terms(
    classifier: Classifier, images: Tensor, labels: Tensor, there: Tensor, masks: Tensor, chance: torch.Generator
) -> Tensor:
    """The loss of a batch: masks (N, 1, H, W); where the class asked for is not there, destroying it is forbidden."""
    blurred = blur(images, BLUR)
    destroyed, preserved = (classifier(exchanged(images, blurred, m, chance)) for m in (1 - masks, masks))
    # Where it is not there: what is destroyed should still be told, what is preserved should not.
    destroys = torch.where(there, margin(destroyed, labels, -1, DESTROY_MARGIN), margin(destroyed, labels, 1, 1.0))
    preserves = torch.where(there, margin(preserved, labels, 1, PRESERVE_MARGIN), margin(preserved, labels, -1, 1.0))
    area = (masks + 0.0005).pow(AREA_POWER).mean()
    return destroys.mean() + AREA * area + SMOOTH * roughness(masks) + PRESERVE * preserves.mean()


def margin(logits: Tensor, labels: Tensor, sign: int, least: float) -> Tensor:
    """How much the label's logit lacks to lead (sign 1) or to trail (sign -1) the best other one by `least`: (N,).

    >>> logits, label = torch.tensor([[3.0, 1.0]]), torch.tensor([0])
    >>> margin(logits, label, 1, 5.0), margin(logits, label, 1, 1.0), margin(logits, label, -1, 1.0)
    (tensor([3.]), tensor([0.]), tensor([3.]))
    """
    own = logits.gather(1, labels[:, None])[:, 0]
    best = logits.scatter(1, labels[:, None], float("-inf")).amax(dim=1)
    return relu(sign * (best - own) + least)


def roughness(masks: Tensor) -> Tensor:
    """Half the squared differences of neighbours, the border's from nothing counted 0.3 times; a mean over photos."""
    inner = torch.stack([masks.diff(dim=dim).square().sum() for dim in (2, 3)]).sum()
    border = torch.stack([masks.select(dim, place).square().sum() for dim in (2, 3) for place in (0, -1)]).sum()
    return (inner + BORDER * border) / (2 * len(masks))


def exchanged(images: Tensor, blurred: Tensor, masks: Tensor, chance: torch.Generator) -> Tensor:
    """The pictures, with a little noise, where the mask is 1; elsewhere blurred or, half of the time, one colour."""
    count = len(images)
    noise = NOISE * torch.randn(images.shape, generator=chance)
    colour = COLOURS * (torch.rand(count, 3, 1, 1, generator=chance) - 0.5)
    blurs = torch.rand(count, 1, 1, 1, generator=chance) < 0.5
    kept = images + KEPT_NOISE * torch.randn(images.shape, generator=chance)
    return masks * kept + (1 - masks) * torch.where(blurs, blurred, colour + noise)


def learn(data: TrainingData) -> RealTimeSaliency:
    """Train both phases on photos with their classes, or read the file of an earlier start; the classifier stays."""
    assert data.photos is not None
    f, path = folded(data.classifier.eval().requires_grad_(False)), data.folder / "real-time.safetensors"
    selected = path.with_stem(f"{path.stem}-selector")
    torch.manual_seed(SEED)
    network = MaskingNetwork(f.stage_channels, f.classes)
    size, told = data.pictures.shape[1], data.reporter.message
    batches = Batches(data.photos, size, BATCH, f.mean, f.std, seed=SEED + 3, smallest_crop=CROP)
    if not path.exists():
        if selected.exists():
            network.load_state_dict(read_tree(selected)["network"])
        else:
            right = train_selector(network, f, batches, STEPS, SEED)
            told(f"Real-time saliency: its selector tells {right:.0%} of the classes that are there or not.")
            write_tree(selected, {"network": network.state_dict()})
        area = train_masks(network, f, batches, STEPS, SEED)
        told(f"Real-time saliency: its masks cover {area:.2f} of the photos.")
        write_tree(path, {"network": network.state_dict(), "confidence": best_confidence(network, f, batches)})
        selected.unlink(missing_ok=True)
    kept = read_tree(path)
    network.load_state_dict(kept["network"])
    return RealTimeSaliency(network, kept["confidence"])


@torch.no_grad()
def best_confidence(network: MaskingNetwork, classifier: Classifier, batches: Batches) -> float:
    """The one of CONFIDENCES with which the loss on training photos is least."""
    losses = dict.fromkeys(CONFIDENCES, 0.0)
    for step, (images, labels) in enumerate(batches.between(0, 10)):
        _, stages = classifier.forward_stages(images)
        there = torch.ones(len(labels), dtype=torch.bool)
        for confidence in CONFIDENCES:
            masks = interpolate(network.eval()(stages, labels, confidence)[0], images.shape[-2:], mode="bilinear")
            chance = torch.Generator().manual_seed(step)
            losses[confidence] += float(four_terms(classifier, images, labels, there, masks, chance))
    return min(CONFIDENCES, key=lambda confidence: losses[confidence])


BASELINES.register("real-time-saliency")(
    Baseline("real-time saliency", "Dabkowski & Gal 2017", rule=above(0.5), paper_le=36.7, masks=True, learn=learn)
)
