"""The trainings that studies share: each is done once, wherever it is asked for again."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from casmap.data.photos import PhotoSet
from casmap.inference.mapper import SaliencyMapper
from casmap.paper.setting import Setting, key_of, thinned
from casmap.paper.study import Study
from casmap.training.first_classifier import first_classifier
from casmap.training.loop import train_mapping
from casmap.training.recipes import Recipe
from casmap.training.run import Run, describe
from casmap.training.scores import SCORES


class Trainings:
    """Classifiers and mappings in one folder, each in a folder of its own, named by what it was made of."""

    def __init__(self, folder: Path, console: Console) -> None:
        self.folder, self.console = folder, console

    def classifier(self, photos: PhotoSet, recipe: Recipe) -> Path:
        """The file of f(0), trained on these photos as the recipe says."""
        folder = self._folder(f"classifier-{recipe.backbone}-{recipe.seed}", photos, recipe, "")
        done = folder / "classifier.safetensors"
        if not done.exists():
            self.console.rule(f"a classifier: {recipe.backbone}, seed {recipe.seed}")
            run = Run(folder, recipe, resume=True)
            with run.begun(photos):
                first_classifier(photos, recipe, run)
        return done

    def mapping(self, photos: PhotoSet, recipe: Recipe, classifier: Path) -> Path:
        """The file of a mapping, trained on these photos from that f(0)."""
        name = f"{SCORES[recipe.score].letter}-{recipe.encoder}-{recipe.thinning}-{recipe.seed}"
        given = hashlib.sha256(classifier.read_bytes()).hexdigest()
        folder = self._folder(name, photos, recipe, given)
        done = folder / "mapping.safetensors"
        if not done.exists():
            self.console.rule(f"a mapping: score {recipe.score}, encoder {recipe.encoder}, thinning {recipe.thinning}")
            train_mapping(photos, recipe, Run(folder, recipe, resume=True), str(classifier))
        return done

    def mappers(self, photos: PhotoSet, base: Recipe, thinnings: Mapping[str, str]) -> dict[str, SaliencyMapper]:
        """A mapping for each name, trained with its thinning, all from one f(0)."""
        first = self.classifier(photos, base)
        recipes = {name: thinned(base, thinning, len(photos)) for name, thinning in thinnings.items()}
        return {name: SaliencyMapper.load(self.mapping(photos, recipe, first)) for name, recipe in recipes.items()}

    def _folder(self, name: str, photos: PhotoSet, recipe: Recipe, given: str) -> Path:
        made_of = json.dumps([json.loads(recipe.to_json()), describe(photos), given])
        return self.folder / f"{name.replace('/', '-')}-{hashlib.sha256(made_of.encode()).hexdigest()[:8]}"


def begin(
    name: str, setting: Setting, photos: PhotoSet, held_out: PhotoSet, out: Path, console: Console
) -> tuple[Study, Trainings]:
    """The folder of a study that trains, which goes on only with the same options and photos, and what it may train."""
    keys = {"photos": key_of(photos), "photos to measure on": key_of(held_out)}
    return Study(out / name, setting.options() | keys), Trainings(out / "trainings", console)
