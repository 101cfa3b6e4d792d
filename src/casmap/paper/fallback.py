"""A ResNet-18 for the rivals that a backbone does not suit: no ReLU, no linear head, no feature maps."""

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from casmap.baselines.rivals import Lesson, Rival
from casmap.data.photos import PhotoSet
from casmap.errors import Unsuited, UserError
from casmap.models.classifier import Classifier
from casmap.paper.crops import Crops, Indices
from casmap.paper.entrants import Explainer
from casmap.paper.maps import Maps
from casmap.training.first_classifier import first_classifier
from casmap.training.recipes import QUICK
from casmap.training.run import Run

NAME = "resnet18"
FAILURES = (RuntimeError, NotImplementedError, AttributeError, IndexError)  # of libraries, in what they do not know
RECIPE = QUICK.replace(backbone=NAME, size=128, first_epochs=30, first_steps=None)


def explainer_of(rival: Rival, lesson: Lesson, crops: Crops, seen: Indices, store: Maps) -> Explainer:
    """A rival at work on the classifier of the lesson, which sees the classes (N,), or on a ResNet-18 instead."""
    try:
        return _tried(rival, lesson, crops, seen, store)
    except Unsuited as error:
        without = f"{rival.name} cannot explain a {lesson.classifier.backbone}"
        if lesson.photos is None:
            raise UserError(
                f"{without}: with --train PHOTOS it explains a {NAME} trained on them; or name others with --only."
            ) from error
        lesson.console.print(f"{without}, and explains a {NAME} instead: {error}", soft_wrap=True, markup=False)
    folder = lesson.folder / NAME
    classifier = learn_fallback(lesson.photos, folder, lesson.console)
    instead = replace(lesson, classifier=classifier, file=folder / "classifier.safetensors", folder=folder)
    renamed = replace(rival, name=f"{rival.name} (of a {NAME})")
    return Explainer(renamed, renamed.peer(instead), classifier, crops, store)


def _tried(rival: Rival, lesson: Lesson, crops: Crops, seen: Indices, store: Maps) -> Explainer:
    """Whether a rival suits a classifier shows when it is asked for one map, which is kept."""
    explainer = Explainer(rival, rival.peer(lesson), lesson.classifier, crops, store)
    try:
        explainer.masks(seen, crops.drawn[:1])
    except FAILURES as error:
        raise Unsuited(str(error)) from error
    return explainer


def learn_fallback(photos: PhotoSet, folder: Path, console: Console) -> Classifier:
    """A ResNet-18 trained on photos with classes; in a folder that holds a begun training it goes on with that.

    At 128 px, for time's sake, whatever the size of the pictures that it is then shown.
    """
    run = Run(folder, RECIPE, resume=True)
    with run.begun(photos):
        classifier, _ = first_classifier(photos, RECIPE, run)
    return classifier.cpu().eval().requires_grad_(False)
