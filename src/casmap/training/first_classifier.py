"""f(0), the first classifier: brought along, taken from weights, or trained on the photos first."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from timm.data.imagenet_info import ImageNetInfo
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from casmap.data.batches import Batches, normalised, whole_photos
from casmap.data.photos import PhotoSet
from casmap.errors import UserError
from casmap.models.backbones import source_of, weights_reachable
from casmap.models.classifier import Classifier, place
from casmap.models.files import load_classifier, read_tensors, save_classifier
from casmap.training.checkpoints import Checkpoints, Resumable, Row
from casmap.training.recipes import Recipe
from casmap.training.run import Run

SURE, LITTLE = 0.8, 0.5  # shares that f(0) gets right, below which there is something to say
HINT = 480  # steps
CHECKPOINT = "classifier-checkpoint"
L2 = 0.02
ENOUGH = 10_000  # photos for a linear head
BATCH, ROUNDS = 32, 100  # photos that are looked at together; rounds of L-BFGS
WARM_UP = 0.15  # share of the steps in which the learning rate rises


def first_classifier(photos: PhotoSet, recipe: Recipe, run: Run, given: str | None = None) -> tuple[Classifier, str]:
    """f(0) and a sentence that says where it comes from."""
    done = run.folder / "classifier.safetensors"
    if run.resumed and done.exists():
        classifier, about = load_classifier(done)
        return classifier, about["origin"]
    if given:
        classifier = bring_classifier(given, photos, recipe)
        origin = f"f(0) is the classifier given, {Path(given).name}."
    else:
        classifier, origin = _make(photos, recipe, run)
    save_classifier(done, classifier, list(photos.classes), {"origin": origin})
    Checkpoints(run.folder, CHECKPOINT).remove()  # only now
    return classifier, origin


def _make(photos: PhotoSet, recipe: Recipe, run: Run) -> tuple[Classifier, str]:
    """f(0) with the recipe's weights, which are trained unless they know these classes already; and its origin."""
    torch.manual_seed(recipe.seed)
    pretrained = recipe.pretrained and not recipe.weights
    if pretrained:
        check_weights(recipe.backbone)
    classifier = Classifier(recipe.backbone, len(photos.classes), pretrained)
    source = source_of(recipe.backbone).origin if pretrained else "random weights"
    if recipe.weights:
        missing = load_backbone(classifier, recipe.weights)
        source = f"the weights of {Path(recipe.weights).name}" + (" but a new head" if missing else "")
    origin = f"f(0) is {recipe.backbone} with {source}, "
    if is_ready(photos, recipe):
        return classifier, f"{origin}taken as it is: its classes are the photos' classes."
    steps = recipe.total_first_steps(len(photos))
    fits = (recipe.pretrained or recipe.weights is not None) and has_linear_head(classifier)
    if not fits and not steps:
        raise UserError(f"f(0), {recipe.backbone} with {source}, must be trained: give it --first-steps.")
    told = ["its head fitted to the photos"] * fits + [f"trained on the photos for {steps} steps"] * bool(steps)
    run.say(f"{origin}{' and '.join(told)}.")
    if fits:
        place(classifier, run.device)
        accuracy = fit_head(classifier, photos, recipe.size, run) if run.processes.first else None
        run.processes.wait()
        run.processes.agree(classifier)
        told[0] += "" if accuracy is None else f" ({accuracy:.0%} right of a fifth held out for that)"
    if steps:
        accuracy = train_first(classifier, photos, recipe, run, steps)
        told[-1] += f" to {accuracy:.0%} training accuracy"
    if not steps and accuracy is not None and accuracy < SURE:
        run.say(f"Photos unlike those of the weights? --first-steps {HINT} trains all of f(0), not only its head.")
    if accuracy is not None and accuracy < LITTLE:
        run.warn(
            f"Warning: f(0) gets only {accuracy:.0%} right, and only what it gets right teaches the mapping: "
            "expect little. Start from --weights, or give it more photos or --first-steps."
        )
    return classifier, f"{origin}{' and '.join(told)}."


def bring_classifier(path: str, photos: PhotoSet, recipe: Recipe) -> Classifier:
    """The user's own f(0): a classifier that casmap wrote, or the weights of the recipe's backbone with its head."""
    if "tree" in read_tensors(path)[1]:
        classifier, about = load_classifier(path)
        if list(about["classes"]) != list(photos.classes):
            raise UserError(
                f"The classifier {path} knows {len(about['classes'])} classes, the photos have {len(photos.classes)}, "
                "or their names differ: it must have been trained on the same classes."
            )
        if about["backbone"] != recipe.backbone:
            raise UserError(f"The classifier {path} is a {about['backbone']}: say --backbone {about['backbone']}.")
        return classifier
    classifier = Classifier(recipe.backbone, len(photos.classes))
    if missing := load_backbone(classifier, path):
        raise UserError(
            f"The classifier {path} is not a {recipe.backbone} for the {len(photos.classes)} classes of the photos: "
            f"{missing[0]} does not fit. With --weights instead, it gets a new head."
        )
    return classifier


def backbone_of(path: str) -> str | None:
    """The backbone of a classifier that casmap wrote; None for a plain file of weights."""
    return str(load_classifier(path)[1]["backbone"]) if "tree" in read_tensors(path)[1] else None


def is_ready(photos: PhotoSet, recipe: Recipe) -> bool:
    """Whether pretrained weights already tell the photos' classes: both are ImageNet's thousand, in its order."""
    if not recipe.pretrained or recipe.weights:
        return False
    imagenet: list[str] = ImageNetInfo("imagenet-1k").label_names()  # type: ignore[no-untyped-call]
    known = source_of(recipe.backbone).pretrained_classes(recipe.backbone)
    return list(photos.classes) == list(imagenet) and known == len(imagenet)


def check_weights(backbone: str) -> None:
    """Say at once, not after a minute of retries, that pretrained weights cannot be had."""
    if not weights_reachable(backbone):
        raise UserError(source_of(backbone).missing_weights(backbone))


def load_backbone(classifier: Classifier, path: str) -> list[str]:
    """Put the weights of a safetensors file into the backbone; returns the names left as they were (a new head)."""
    weights, _ = read_tensors(path)
    own = classifier.network.state_dict()
    fitting = {name: weights[name] for name in own if name in weights and weights[name].shape == own[name].shape}
    missing = [name for name in own if name not in fitting and not name.endswith("num_batches_tracked")]
    foreign = len(weights) - len(fitting)
    if max(len(missing), foreign) > len(own) / 10:  # a head is a few tensors; another network differs in many
        raise UserError(
            f"The weights in {path} are not those of {classifier.backbone}: {len(missing)} of its tensors are missing, "
            f"and {foreign} others do not belong to it."
        )
    classifier.network.load_state_dict(fitting, strict=False)
    return missing


def has_linear_head(classifier: Classifier) -> bool:
    """Whether a backbone ends in one linear layer.

    >>> has_linear_head(Classifier("test_resnet", 2)), has_linear_head(Classifier("torchvision/mobilenet_v2", 2))
    (True, False)
    """
    if classifier.stage_indices is None or not isinstance(head := classifier.network.get_classifier(), nn.Linear):
        return False
    picture = torch.zeros(1, 3, classifier.side, classifier.side, device=head.weight.device)
    with torch.no_grad():
        logits, _, last = classifier.eval().forward_features(picture)
        seen = classifier.network.forward_head(last, pre_logits=True)
        return seen.shape[1:] == (head.in_features,) and torch.allclose(head(seen), logits, rtol=1e-3, atol=1e-3)


def fit_head(classifier: Classifier, photos: PhotoSet, size: int, run: Run) -> float | None:
    """Give the classifier the best linear head; returns the share that one fitted without a fifth gets right of it.

    min over W, b of  CE(W z + b, y) + L2 / 2 |W|^2    z: features of whole photos, before the head, their deviation 1

    A random head would spoil a pretrained backbone while it learns: docs/experiments.md. None where no class has five
    photos, so that none can be held out.
    """
    chosen, ranks = some_of_each(photos.labels, ENOUGH)
    labels = torch.from_numpy(photos.labels[chosen]).to(run.device)
    place(classifier, run.device).eval()
    seen = []
    with torch.no_grad(), run.reporter.progress("f(0), its head", -(-len(chosen) // BATCH), lasting=True) as advance:
        for _, (pictures,) in whole_photos(photos, chosen, (size,), BATCH):
            images = normalised(pictures, classifier.mean, classifier.std).to(run.device)
            *_, last = classifier.forward_features(images)
            seen.append(classifier.network.forward_head(last, pre_logits=True))
            advance()
    features = torch.cat(seen)
    scale = features.std().clamp_min(1e-6)
    features /= scale
    tested = torch.from_numpy(ranks % 5 == 4).to(run.device)
    weight, bias = best_linear(features[~tested], labels[~tested], classifier.classes)
    right = (features[tested] @ weight.T + bias).argmax(dim=1) == labels[tested]
    weight, bias = best_linear(features, labels, classifier.classes)
    head = classifier.network.get_classifier()
    with torch.no_grad():
        head.weight.copy_(weight / scale)
        head.bias.copy_(bias)
    return float(right.float().mean()) if tested.any() else None


def some_of_each(labels: npt.NDArray[np.int64], most: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Numbers of photos, rising: the first of each class, the second, and so on, `most` in all; and which of its class.

    >>> some_of_each(np.array([0, 0, 0, 1]), 3)
    (array([0, 1, 3]), array([0, 1, 0]))
    """
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    ranks = np.empty_like(labels)
    ranks[order] = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = np.sort(np.lexsort((labels, ranks))[:most])
    return chosen, ranks[chosen]


def best_linear(features: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """W (classes, K) and b (classes,) of the logistic regression of labels (n,) on features (n, K).

    >>> weight, bias = best_linear(torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 1]), 2)
    >>> weight.shape, bool(weight[1] > weight[0])
    (torch.Size([2, 1]), True)
    """
    weight = torch.zeros(classes, features.shape[1], device=features.device, requires_grad=True)
    bias = torch.zeros(classes, device=features.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=ROUNDS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        found = cross_entropy(features @ weight.T + bias, labels) + L2 / 2 * weight.square().sum()
        found.backward()  # type: ignore[no-untyped-call]
        return found

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()


def train_first(classifier: Classifier, photos: PhotoSet, recipe: Recipe, run: Run, steps: int) -> float:
    """Train f(0) with AdamW, a warm-up and a cosine; returns the accuracy over the last tenth of the steps."""
    device, processes = run.device, run.processes
    processes.synchronised(place(classifier, device)).train()
    batches = Batches(
        photos, recipe.algorithm_side, recipe.batch, classifier.mean, classifier.std,
        seed=recipe.seed + 1, smallest_crop=recipe.smallest_crop, flip=recipe.flip,
        rank=processes.rank, ranks=processes.ranks,
    )  # fmt: skip
    processes.agree(classifier)
    optimizer = torch.optim.AdamW(classifier.parameters(), recipe.first_lr, weight_decay=recipe.first_decay)
    training = Resumable(run, CHECKPOINT, "classifier-log", steps, classifier=classifier, optimizer=optimizer)

    def learn() -> Iterator[Row]:
        for step, (images, labels) in enumerate(batches.between(training.start, steps, device), training.start):
            run.seed(recipe.seed, step)
            for group in optimizer.param_groups:
                group["lr"] = recipe.first_lr * one_cycle(step / steps)
            logits = classifier(images)
            loss = cross_entropy(logits, labels, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            processes.average_gradients(classifier.parameters())
            optimizer.step()
            processes.average_statistics(classifier)
            right = (logits.argmax(dim=1) == labels).float().mean()
            told, accuracy = processes.mean(torch.stack([loss.detach(), right])).tolist()
            yield {"loss": told, "accuracy": accuracy}

    label = "f(0), the first classifier"
    rows = training.follow(label, batches, learn(), note=lambda row: f"accuracy {row['accuracy']:.2f}")
    last = rows[-max(1, steps // 10) :]
    return float(sum(row["accuracy"] for row in last) / len(last))


def one_cycle(share: float) -> float:
    """The learning rate, relative to its highest, after this share of the steps: up a line, down a cosine.

    >>> one_cycle(0.15), round(one_cycle(1.0), 3)
    (1.0, 0.0)
    """
    if share < WARM_UP:
        return (share + 0.01) / (WARM_UP + 0.01)
    return (1 + math.cos(math.pi * (share - WARM_UP) / (1 - WARM_UP))) / 2
