"""CASM and Baseline from the same f(0): the pair that every comparison of the paper rests on."""

from pathlib import Path

from rich.console import Console

from casmap.data.photos import PhotoSet
from casmap.inference.mapper import SaliencyMapper
from casmap.training.loop import train_mapping
from casmap.training.recipes import Recipe
from casmap.training.run import Run


def train_pair(
    photos: PhotoSet, out: Path, recipe: Recipe, console: Console, classifier: Path | None = None
) -> dict[str, SaliencyMapper]:
    """Train CASM (the recipe's thinning) and Baseline (F), or take up where an earlier start stopped."""
    first = classifier or out / "casm" / "classifier.safetensors"
    mappers = {}
    for name, thinning, given in (("CASM", recipe.thinning, classifier), ("Baseline", "F", first)):
        folder = out / name.lower()
        mapping = folder / "mapping.safetensors"
        run = Run(folder, recipe.replace(thinning=thinning), resume=True)
        console.rule(f"{name}, thinning {thinning}")
        train_mapping(photos, run.recipe, run, None if given is None else str(given))
        mappers[name] = SaliencyMapper.load(mapping)
    return mappers
