"""f(0), the initial classifier: given as a file, taken from pretrained weights, or trained on the photos."""

import copy
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from timm.data.imagenet_info import ImageNetInfo
from torch.nn.functional import cross_entropy

from casmap.data.batches import Batches
from casmap.data.photos import PhotoSet, Subset
from casmap.errors import UserError, option
from casmap.inference.mapper import SHIPPED
from casmap.models.backbones import source_of, weights_reachable
from casmap.models.classifier import Classifier, to_device
from casmap.models.files import load_classifier, read_tensors, save_classifier
from casmap.models.onnx_training import load_trainable
from casmap.models.split import last_layers
from casmap.reporting import counted
from casmap.training.checkpoints import Checkpoints, Resumable, Row
from casmap.training.head import HeadInputs, accuracy_on, has_linear_head, head_inputs, held_out_fifth
from casmap.training.recipes import Recipe
from casmap.training.run import Run

HINT_BELOW, WARN_BELOW = 0.8, 0.5  # accuracies of f(0) below which a hint and a warning are printed
GOOD_HEAD = 0.2  # share of the errors of guessing up to which a head is good: with first_if_better, no layer is trained
HINT_STEPS = 480  # first_steps that the hint suggests
GENTLE_CROP = 0.6  # smallest crop of gentle training
CHECKPOINT, LOG = "classifier-checkpoint", "classifier-log"
WARM_UP = 0.15  # share of the steps in which the learning rate rises


def first_classifier(photos: PhotoSet, run: Run, given: str | None = None) -> tuple[Classifier, str]:
    """f(0), and a sentence that says where it comes from."""
    path = run.folder / "classifier.safetensors"
    if run.resumed and path.exists():
        classifier, about = load_classifier(path)
        return classifier, str(about.get("origin", "unknown"))
    if given:
        classifier = load_given_classifier(given, photos, run.recipe)
        origin = f"f(0) is the classifier given, {Path(given).name}."
    else:
        classifier, origin = _make(photos, run)
    save_classifier(path, classifier, list(photos.classes), {"origin": origin})
    Checkpoints(run.folder, CHECKPOINT).remove()  # only after the classifier is saved
    return classifier, origin


def _make(photos: PhotoSet, run: Run) -> tuple[Classifier, str]:
    """f(0) with the recipe's weights, trained unless these already cover the photos' classes; and its origin."""
    recipe = run.recipe
    torch.manual_seed(recipe.seed)
    pretrained = recipe.pretrained and not recipe.weights and recipe.from_scratch
    if pretrained:
        check_weights(recipe.backbone)
    classifier = Classifier(recipe.backbone, len(photos.classes), pretrained)
    source = source_of(recipe.backbone).origin if pretrained else "random weights"
    if not recipe.from_scratch:
        load_shipped_encoder(classifier, photos)
        source = "the weights of the shipped mapping"
    elif recipe.weights:
        missing = load_backbone(classifier, recipe.weights)
        source = f"the weights of {Path(recipe.weights).name}" + (" and a new head" if missing else "")
    origin = f"f(0) is {recipe.backbone} with {source}, "
    if is_pretrained_for(photos, recipe):
        return classifier, f"{origin}used as it is because its classes are the photos' classes."
    steps = recipe.total_first_steps(len(photos))
    fits_head = (recipe.pretrained or recipe.weights is not None) and has_linear_head(classifier)
    if not fits_head and not steps:
        raise UserError(
            f"f(0), {recipe.backbone} with {source}, must be trained: set {option('first_steps', HINT_STEPS)}."
        )
    chooses = recipe.first_if_better and fits_head and steps > 0
    parts = ["its head fitted to the photos"] * fits_head + [
        f"trained on the photos for {counted(steps, 'step')}"
    ] * bool(steps)
    run.message(f"Initial classifier: {origin}{' and, if better, '.join(parts) if chooses else ' and '.join(parts)}.")
    accuracy, inputs = None, None
    if fits_head:
        to_device(classifier, run.device)
        first = run.processes.first
        inputs = head_inputs(classifier, photos, recipe.size, run.device, run.reporter) if first else None
        accuracy = inputs.fit(classifier) if inputs else None
        run.processes.wait()
        run.processes.broadcast_weights(classifier)
        parts[0] += "" if accuracy is None else f" ({accuracy:.0%} accuracy on a held-out fifth)"
    if chooses:
        classifier, trained = keep_better(classifier, inputs, accuracy, photos, run, steps)
        accuracy = accuracy if trained is None else trained
        parts[1:] = [] if trained is None else [f"{parts[1]} ({trained:.0%} accuracy on the fifth)"]
    elif steps:
        accuracy = train_first(classifier, photos, run, steps)
        parts[-1] += f" to {accuracy:.0%} training accuracy"
    if not steps and accuracy is not None and accuracy < HINT_BELOW:
        run.message(
            f"If your photos differ from those of the weights, {option('first_steps', HINT_STEPS)} trains all of f(0), "
            "not only its head."
        )
    if accuracy is not None and accuracy < WARN_BELOW:
        run.warning(
            f"f(0) has an accuracy of only {accuracy:.0%}, and the mapping learns only from photos that it classifies "
            f"correctly. Use pretrained weights, {option('weights', 'FILE')}, more photos, or a higher "
            f"{option('first_steps')}."
        )
    return classifier, f"{origin}{' and '.join(parts)}."


def load_shipped_encoder(classifier: Classifier, photos: PhotoSet) -> None:
    """Copy the weights of the shipped mapping's encoder; its head only if the photos have its classes."""
    shipped, _ = load_trainable(SHIPPED)
    if shipped.encoder.backbone != classifier.backbone:
        raise UserError(
            f"The shipped mapping is a {shipped.encoder.backbone}, not a {classifier.backbone}: set "
            f"{option('from_scratch', True)}."
        )
    weights = shipped.encoder.state_dict()
    if shipped.classes != list(photos.classes):
        head = {id(tensor) for tensor in shipped.encoder.network.get_classifier().parameters()}
        named = {name for name, tensor in shipped.encoder.named_parameters() if id(tensor) in head}
        weights = {name: tensor for name, tensor in weights.items() if name not in named}
    classifier.load_state_dict(weights, strict=False)


def load_given_classifier(path: str, photos: PhotoSet, recipe: Recipe) -> Classifier:
    """The user's f(0): a classifier that casmap wrote, or the weights of the recipe's backbone including its head."""
    if "tree" in read_tensors(path)[1]:
        classifier, about = load_classifier(path)
        if list(about["classes"]) != list(photos.classes):
            raise UserError(
                f"The {len(about['classes'])} classes of the classifier {path} are not the {len(photos.classes)} "
                "classes of the photos: give a classifier that was trained on the same classes."
            )
        if about["backbone"] != recipe.backbone:
            backbone = about["backbone"]
            raise UserError(f"The classifier {path} is a {backbone}: set {option('backbone', backbone)}.")
        return classifier
    classifier = Classifier(recipe.backbone, len(photos.classes))
    if missing := load_backbone(classifier, path):
        raise UserError(
            f"The classifier {path} is not a {recipe.backbone} for the {len(photos.classes)} classes of the photos: "
            f"{missing[0]} does not match. To give it a new head, use {option('weights', 'FILE')}."
        )
    return classifier


def backbone_of(path: str) -> str | None:
    """The backbone of a classifier that casmap wrote; None for a plain file of weights."""
    return str(load_classifier(path)[1]["backbone"]) if "tree" in read_tensors(path)[1] else None


def is_pretrained_for(photos: PhotoSet, recipe: Recipe) -> bool:
    """Whether pretrained weights already cover the photos' classes: both are ImageNet's 1,000, in the same order."""
    if not recipe.pretrained or recipe.weights:
        return False
    imagenet: list[str] = ImageNetInfo("imagenet-1k").label_names()  # type: ignore[no-untyped-call]
    known = source_of(recipe.backbone).pretrained_classes(recipe.backbone)
    return list(photos.classes) == list(imagenet) and known == len(imagenet)


def check_weights(backbone: str) -> None:
    """Raise UserError at once, not after a minute of retries, if pretrained weights are unavailable."""
    if not weights_reachable(backbone):
        raise UserError(source_of(backbone).missing_weights(backbone))


def load_backbone(classifier: Classifier, path: str) -> list[str]:
    """Load the weights of a safetensors file into the backbone; returns the tensors that were not loaded (the head)."""
    weights, _ = read_tensors(path)
    own = classifier.network.state_dict()
    matching = {name: weights[name] for name in own if name in weights and weights[name].shape == own[name].shape}
    missing = [name for name in own if name not in matching and not name.endswith("num_batches_tracked")]
    extra = len(weights) - len(matching)
    if max(len(missing), extra) > len(own) / 10:  # a head is a few tensors; another network differs in many
        raise UserError(
            f"The weights in {path} are not those of {classifier.backbone}: {len(missing)} of its tensors are missing, "
            f"and {extra} others do not belong to it."
        )
    classifier.network.load_state_dict(matching, strict=False)
    return missing


def keep_better(
    classifier: Classifier, inputs: HeadInputs | None, accuracy: float | None, photos: PhotoSet, run: Run, steps: int
) -> tuple[Classifier, float | None]:
    """The classifier, or a copy whose last layers are trained: the one with the higher accuracy on a held-out fifth.

    accuracy: that of the classifier, whose head is fitted. If it makes at most a fifth of the errors of always guessing
    the most frequent class, nothing is trained. inputs: of that head; only the first process has them. The copy starts
    from the head that was measured and never sees the fifth. Returns its accuracy, or None if the classifier is kept.
    """
    head = float(run.processes.broadcast(b"nan" if accuracy is None else str(accuracy).encode()))
    guessed = float(np.bincount(photos.labels).max() / len(photos))
    if not 1 - head > GOOD_HEAD * (1 - guessed):  # also if nothing could be held out
        shown = "" if math.isnan(head) else f": it has {head:.0%} accuracy on a held-out fifth, a guess {guessed:.0%}"
        run.message(f"Only the head of f(0) is fitted{shown}.")
        return classifier, None
    aside = held_out_fifth(photos.labels)
    trained = copy.deepcopy(classifier)
    if inputs is not None:
        inputs.fit(trained, everything=False)
    train_first(trained, Subset(photos, np.setdiff1d(np.arange(len(photos)), aside)), run, steps, gently=True)
    after = accuracy_on(trained, photos, aside, run.recipe.size, run.device) if run.processes.first else 0.0
    after = float(run.processes.broadcast(str(after).encode()))
    kept = "the trained one is kept" if after > head else "the head alone is kept"
    run.message(
        f"Accuracy of f(0) on a held-out fifth: head alone {head:.0%}, last layers trained {after:.0%}; {kept}."
    )
    return (trained, after) if after > head else (classifier, None)


def train_first(classifier: Classifier, photos: PhotoSet, run: Run, steps: int, gently: bool = False) -> float:
    """Train f(0) with AdamW, a warm-up and a cosine decay; returns the accuracy over the last tenth of the steps.

    gently: train only the layers after the trunk (`models.split`), keep the batch norms' statistics, and crop less, so
    that small objects stay in the crops.
    """
    recipe, device, processes = run.recipe, run.device, run.processes
    # The batch norms of the shipped encoder have no statistics: its export folded them into the convolutions.
    processes.with_sync_batch_norms(to_device(classifier, device)).train(recipe.from_scratch and not gently)
    batches = Batches(
        photos, recipe.algorithm_side, recipe.batch, classifier.mean, classifier.std,
        seed=recipe.seed + 1, smallest_crop=max(recipe.smallest_crop, GENTLE_CROP if gently else 0), flip=recipe.flip,
        rank=processes.rank, ranks=processes.ranks,
    )  # fmt: skip
    processes.broadcast_weights(classifier)
    trained = last_layers(classifier) if gently else list(classifier.parameters())
    classifier.requires_grad_(False)
    for weights in trained:
        weights.requires_grad_(True)
    optimizer = torch.optim.AdamW(trained, recipe.first_lr, weight_decay=recipe.first_decay)
    stage = Resumable(run, CHECKPOINT, LOG, steps, option("first_lr"), classifier=classifier, optimizer=optimizer)

    def take_steps() -> Iterator[Row]:
        for step, (images, labels) in enumerate(batches.between(stage.start, steps, device), stage.start):
            run.seed(step)
            for group in optimizer.param_groups:
                group["lr"] = recipe.first_lr * one_cycle(step / steps)
            logits = classifier(images)
            loss = cross_entropy(logits, labels, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            processes.average_gradients(trained)
            optimizer.step()
            processes.average_statistics(classifier)
            correct = (logits.argmax(dim=1) == labels).float().mean()
            mean_loss, accuracy = processes.mean(torch.stack([loss.detach(), correct])).tolist()
            yield {"loss": mean_loss, "accuracy": accuracy}

    note = "loss {loss:.3f}, accuracy {accuracy:.2f}"
    rows = stage.run_steps("Training f(0)", batches, take_steps(), lambda row: note.format(**row))
    classifier.requires_grad_(True)
    last = rows[-max(1, steps // 10) :]
    return float(sum(row["accuracy"] for row in last) / len(last))


def one_cycle(share: float) -> float:
    """The learning rate, relative to its maximum, after this share of the steps: linear warm-up, then cosine decay.

    >>> one_cycle(0.15), round(one_cycle(1.0), 3)
    (1.0, 0.0)
    """
    if share < WARM_UP:
        return (share + 0.01) / (WARM_UP + 0.01)
    return (1 + math.cos(math.pi * (share - WARM_UP) / (1 - WARM_UP))) / 2
