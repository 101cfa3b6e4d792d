"""A ResNet-18 for the baselines that a backbone does not suit: no ReLU, no linear head, no feature maps."""

from dataclasses import replace

from casmap.baselines import Baseline, TrainingData
from casmap.errors import Unsuited, UserError
from casmap.paper.crops import Crops, Indices
from casmap.paper.maps import Maps
from casmap.paper.table1_entries import BaselineMaps
from casmap.training.first_classifier import first_classifier
from casmap.training.recipes import QUICK
from casmap.training.run import Run

NAME = "resnet18"
FAILURES = (RuntimeError, NotImplementedError, AttributeError, IndexError)  # of libraries, in what they do not know
RECIPE = QUICK.replace(backbone=NAME, size=128, first_epochs=30, first_steps=None)


def maps_of(baseline: Baseline, data: TrainingData, crops: Crops, seen: Indices, store: Maps) -> BaselineMaps:
    """A baseline at work on the classifier of the data, which sees the classes (N,), or on a ResNet-18 instead."""
    try:
        return _tried(baseline, data, crops, seen, store)
    except Unsuited as error:
        without = f"{baseline.name} cannot explain a {data.classifier.backbone}"
        if data.photos is None:
            raise UserError(
                f"{without}: with --train PHOTOS it explains a {NAME} trained on them; or name others with --only."
            ) from error
        data.reporter.message(f"{without}, and explains a {NAME} instead: {error}")
    folder = data.folder / NAME
    # At 128 px, for time's sake, whatever the size of the pictures that it is then shown.
    run = Run(folder, RECIPE, resume=True, reporter=data.reporter)
    with run.begun(data.photos):
        learned, _ = first_classifier(data.photos, RECIPE, run)
    classifier = learned.cpu().eval().requires_grad_(False)
    instead = replace(data, classifier=classifier, file=folder / "classifier.safetensors", folder=folder)
    renamed = replace(baseline, name=f"{baseline.name} (of a {NAME})", paper_le=None)
    return BaselineMaps(renamed, renamed.ready(instead), classifier, crops, store)


def _tried(baseline: Baseline, data: TrainingData, crops: Crops, seen: Indices, store: Maps) -> BaselineMaps:
    """Whether a baseline suits a classifier shows when it is asked for one map, which is kept."""
    maps = BaselineMaps(baseline, baseline.ready(data), data.classifier, crops, store)
    try:
        maps.masks(seen, crops.drawn[:1])
    except FAILURES as error:
        raise Unsuited(str(error)) from error
    return maps
