"""The trainings that studies share, each done once, and the mappings that studies compare."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from casmap.data.photos import PhotoSet
from casmap.data.sources import open_photos
from casmap.inference.mapper import SaliencyMapper, load_mappers
from casmap.paper.plan import Planned, planned_mappings
from casmap.paper.setting import Setting, key_of, thinned
from casmap.paper.study import Study
from casmap.reporting import SILENT, Reporter
from casmap.training.first_classifier import first_classifier
from casmap.training.loop import train_mapping
from casmap.training.options_of_0_1_0 import names_of_0_1_0
from casmap.training.recipes import Recipe
from casmap.training.run import Run, describe
from casmap.training.scores import SCORES
from casmap.training.snapshots import snapshot_file, train_snapshot, without_end

Files = Sequence[Path] | None
PAIR = {"CASM": "L100", "Baseline": "F"}  # what the paper compares, with its thinnings


class Trainings:
    """Classifiers and mappings in one folder, each in a subfolder named by everything that determines it."""

    def __init__(self, folder: Path, *, reporter: Reporter = SILENT) -> None:
        self.folder, self.reporter = folder, reporter

    def classifier(self, photos: PhotoSet, recipe: Recipe) -> Path:
        """The file of f(0), trained on these photos with the recipe."""
        folder = self._folder(f"classifier-{recipe.backbone}-{recipe.seed}", photos, recipe, "")
        done = folder / "classifier.safetensors"
        if not done.exists():
            self.reporter.heading(f"Classifier: {recipe.backbone}, seed {recipe.seed}")
            run = Run(folder, recipe, resume=True, reporter=self.reporter)
            with run.started(photos):
                first_classifier(photos, run)
        return done

    def mapper(self, photos: PhotoSet, recipe: Recipe, classifier: Path) -> SaliencyMapper:
        """A mapping, trained on these photos from that f(0)."""
        folder = self._mapping_folder(photos, recipe, classifier)
        done = folder / "mapping.safetensors"
        if not done.exists():
            self.reporter.heading(f"Mapping: {_described(recipe)}")
            train_mapping(photos, Run(folder, recipe, resume=True, reporter=self.reporter), str(classifier))
        return SaliencyMapper.load(done)

    def snapshot(self, photos: PhotoSet, recipe: Recipe, classifier: Path, steps: int) -> SaliencyMapper:
        """The mapping of a run without end after so many steps, from that f(0); a later one continues the same run."""
        recipe = without_end(recipe)
        folder = self._mapping_folder(photos, recipe, classifier)
        done = snapshot_file(folder, steps)
        if not done.exists():
            self.reporter.heading(f"Mapping: {_described(recipe)}, seed {recipe.seed}, to step {steps:,}")
            run = Run(folder, recipe, resume=True, reporter=self.reporter)
            train_snapshot(photos, run, str(classifier), steps)
        return SaliencyMapper.load(done)

    def _mapping_folder(self, photos: PhotoSet, recipe: Recipe, classifier: Path) -> Path:
        name = f"{SCORES[recipe.score].letter}-{recipe.encoder}-{recipe.thinning}-{recipe.seed}"
        return self._folder(name, photos, recipe, hashlib.sha256(classifier.read_bytes()).hexdigest())

    def _folder(self, name: str, photos: PhotoSet, recipe: Recipe, given: str) -> Path:
        made_of = json.dumps([names_of_0_1_0(recipe.options()), describe(photos), given])
        return self.folder / f"{name.replace('/', '-')}-{hashlib.sha256(made_of.encode()).hexdigest()[:8]}"


def _described(recipe: Recipe) -> str:
    return f"score {recipe.score}, encoder {recipe.encoder}, thinning {recipe.thinning}"


def begin(
    name: str, setting: Setting, photos: PhotoSet, held_out: PhotoSet, out: Path, reporter: Reporter
) -> tuple[Study, Trainings]:
    """The folder of a study, which accepts only the same options and photos when it resumes, and its trainings."""
    keys = {"photos": key_of(photos), "photos to measure on": key_of(held_out)}
    return Study(out / name, setting.options() | keys), Trainings(out / "trainings", reporter=reporter)


@dataclass(frozen=True)
class Entries:
    """The photos of a study of masks, the name of their data, and the mappings by name."""

    study: Study
    photos: PhotoSet
    data: str
    mappers: dict[str, SaliencyMapper]

    @property
    def papers(self) -> bool:
        """Whether the first two mappings are the paper's CASM and Baseline."""
        return list(self.mappers)[:2] == list(PAIR)

    @classmethod
    def open(
        cls, name: str, setting: Setting, *, mappings: Files, out: Path, thinnings: dict[str, str] = PAIR,
        reporter: Reporter = SILENT,
    ) -> "Entries":  # fmt: skip
        """Open the given mappings on DATA itself; without any, train mappings on DATA, all from one f(0).

        Errors are raised before anything is trained.
        """
        if not mappings:
            photos, held_out, base = setting.training_photos(), setting.held_out_photos(), setting.recipe
            study, trainings = begin(name, setting, photos, held_out, out, reporter)
            first = trainings.classifier(photos, base)
            recipes = {entry: thinned(base, thinning, len(photos)) for entry, thinning in thinnings.items()}
            mappers = {entry: trainings.mapper(photos, recipe, first) for entry, recipe in recipes.items()}
            return cls(study, held_out, setting.data, mappers)
        data = setting.test or setting.data
        photos = open_photos(data, held_out=True, boxes=setting.boxes, masks=setting.masks, split=setting.split)
        mappers = load_mappers(mappings)
        hashes = (hashlib.sha256(path.read_bytes()).hexdigest()[:8] for path in mappings)
        keys = dict(zip(mappers, hashes, strict=True))
        return cls(Study(out / name, {"photos": key_of(photos), "mappings": keys}), photos, data, mappers)


def planned_entries(
    setting: Setting, photos: int, classes: int, mappings: Files = None, thinnings: dict[str, str] = PAIR, **_: object
) -> list[Planned]:
    """The trainings of Entries.open, for any study."""
    recipes = {name: thinned(setting.recipe, thinning, photos) for name, thinning in thinnings.items()}
    return [] if mappings else planned_mappings(setting, photos, classes, recipes)
