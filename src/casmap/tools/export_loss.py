"""What an exported mapping loses: both files on the same photos with boxes."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from casmap.data.photos import PhotoSet
from casmap.evaluation.evaluate import Number, localization_errors, map_photos
from casmap.evaluation.intervals import bootstrap_interval, paired_interval
from casmap.evaluation.table import system_of
from casmap.inference.mapper import SaliencyMapper


@dataclass(frozen=True)
class Loss:
    """LE of a mapping and of its export, the difference photo by photo, and the largest change of a pixel."""

    before: Number
    after: Number
    difference: Number
    pixel: float
    photos: int

    def __str__(self) -> str:
        before, after, difference = (
            f"{100 * number.value:{sign}.1f} [{100 * number.low:{sign}.1f}, {100 * number.high:{sign}.1f}]"
            for number, sign in ((self.before, ""), (self.after, ""), (self.difference, "+"))
        )
        return (
            f"LE on {self.photos} photos: {before} before, {after} after, difference {difference}; "
            f"no pixel of a mask moved by more than {self.pixel:.1e}."
        )


def loss_of(mapping: Path, exported: Path, photos: PhotoSet) -> Loss:
    """Measure both on all annotated photos, by the paper's central crop, at alpha 1."""
    mappers = [SaliencyMapper.load(path) for path in (mapping, exported)]
    before, after = (map_photos(system_of(m, photos), photos, m.size, "crop") for m in mappers)
    a, b = localization_errors(before), localization_errors(after)
    return Loss(
        Number(float(a.mean()), *bootstrap_interval(a)),
        Number(float(b.mean()), *bootstrap_interval(b)),
        Number(float((b - a).mean()), *paired_interval(b, a)),
        float(np.abs(before.masks - after.masks).max()),
        len(a),
    )
