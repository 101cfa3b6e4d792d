"""Mappings that a study looks at: files that were named, or CASM and Baseline, trained for it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from casmap.data.photos import PhotoSet
from casmap.data.sources import open_photos
from casmap.inference.mapper import SaliencyMapper, names_of
from casmap.paper.plan import Planned, planned_first
from casmap.paper.setting import Setting, key_of, thinned
from casmap.paper.study import Study
from casmap.paper.trainings import begin

PAIR = {"CASM": "L100", "Baseline": "F"}


@dataclass(frozen=True)
class Entries:
    """A study, photos to look at and what they are called, and mappings by name.

    papers: whether the first two are CASM and Baseline, of which the paper speaks.
    """

    study: Study
    photos: PhotoSet
    data: str
    mappers: dict[str, SaliencyMapper]

    @property
    def papers(self) -> bool:
        """Whether the first two are those that the paper compares."""
        return list(self.mappers)[:2] == list(PAIR)

    @classmethod
    def open(
        cls,
        name: str,
        setting: Setting,
        mappings: list[Path] | None,
        out: Path,
        console: Console,
        thinnings: Mapping[str, str] = PAIR,
    ) -> "Entries":
        """Files that were named look at DATA itself; where none was, mappings are trained on it.

        Whatever can be refused is, before anything is trained.
        """
        if not mappings:
            photos, held_out = setting.training_photos(), setting.held_out_photos()
            study, trainings = begin(name, setting, photos, held_out, out, console)
            return cls(study, held_out, setting.data, trainings.mappers(photos, setting.recipe, thinnings))
        data = setting.test or setting.data
        photos = open_photos(data, held_out=True, boxes=setting.boxes, masks=setting.masks, split=setting.split)
        named = dict(zip(names_of(mappings), mappings, strict=True))
        mappers = {name: SaliencyMapper.load(path) for name, path in named.items()}
        files = {name: hashlib.sha256(path.read_bytes()).hexdigest()[:8] for name, path in named.items()}
        return cls(Study(out / name, {"photos": key_of(photos), "mappings": files}), photos, data, mappers)


def planned(setting: Setting, photos: int, classes: int, thinnings: Mapping[str, str] = PAIR) -> list[Planned]:
    """What is trained where no mapping is named."""
    recipes = {name: thinned(setting.recipe, thinning, photos) for name, thinning in thinnings.items()}
    return planned_first(setting, photos, classes) + [
        Planned(name, recipe, photos, classes) for name, recipe in recipes.items()
    ]
