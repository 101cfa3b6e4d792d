"""Mappings that a study looks at: files that were named, or CASM and Baseline, trained for it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from casmap.data.photos import PhotoSet
from casmap.data.sources import open_photos
from casmap.evaluation.report import names_of
from casmap.mapper import SaliencyMapper
from casmap.studies.plan import Planned
from casmap.studies.setting import Setting, thinned
from casmap.studies.trainings import Trainings

PAIR = {"CASM": "L100", "Baseline": "F"}


@dataclass(frozen=True)
class Entries:
    """Photos to look at, mappings by name, and options to be kept with the study."""

    photos: PhotoSet
    mappers: dict[str, SaliencyMapper]
    options: dict[str, Any]

    @classmethod
    def open(
        cls,
        setting: Setting,
        mappings: list[Path] | None,
        out: Path,
        console: Console,
        thinnings: Mapping[str, str] = PAIR,
    ) -> "Entries":
        """Files that were named look at DATA itself; where none was, mappings are trained on it."""
        if not mappings:
            mappers = Trainings(out / "trainings", console).mappers(setting, thinnings)
            return cls(setting.held_out_photos(), mappers, setting.options() | {"thinnings": list(thinnings.values())})
        photos = open_photos(
            setting.test or setting.data, held_out=True, boxes=setting.boxes, masks=setting.masks, split=setting.split
        )
        names = names_of(mappings)
        files = {
            name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in zip(names, mappings, strict=True)
        }
        mappers = {name: SaliencyMapper.load(path) for name, path in zip(names, mappings, strict=True)}
        return cls(photos, mappers, {"data": setting.test or setting.data, "split": setting.split, "mappings": files})


def planned(setting: Setting, photos: int, classes: int) -> list[Planned]:
    """What is trained where no mapping is named."""
    return [
        Planned("f(0)", setting.recipe, photos, classes, first=setting.trains_first(classes), maps=False),
        *(Planned(name, thinned(setting.recipe, thinning, photos), photos, classes) for name, thinning in PAIR.items()),
    ]
