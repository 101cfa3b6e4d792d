"""CASM and Baseline from the same f(0): the pair that every comparison of the paper rests on."""

from pathlib import Path

from casmap.data.photos import PhotoSet
from casmap.inference.mapper import SaliencyMapper
from casmap.reporting import SILENT, Reporter
from casmap.training.loop import train_mapping
from casmap.training.recipes import Recipe
from casmap.training.run import Run


def train_pair(
    photos: PhotoSet, recipe: Recipe, *, out: Path, classifier: Path | None = None, reporter: Reporter = SILENT
) -> dict[str, SaliencyMapper]:
    """Train CASM (the recipe's thinning) and Baseline (F), or take up where an earlier start stopped."""
    first = classifier or out / "casm" / "classifier.safetensors"
    mappers = {}
    for name, thinning, given in (("CASM", recipe.thinning, classifier), ("Baseline", "F", first)):
        run = Run(out / name.lower(), recipe.replace(thinning=thinning), resume=True, reporter=reporter)
        reporter.heading(f"{name}, thinning {thinning}")
        trained = train_mapping(photos, run.recipe, run, None if given is None else str(given))
        mappers[name] = SaliencyMapper.load(trained.mapping)
    return mappers
