"""Figure 2: consecutive photos masked in, masked out and inpainted, for mappings side by side."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from casmap.data.resizing import resize
from casmap.errors import UserError
from casmap.inference.mapper import SaliencyMapper
from casmap.inference.saliency_map import SaliencyMap
from casmap.io.images import Image, encode_png
from casmap.io.names import file_name
from casmap.paper.crops import Indices
from casmap.paper.outcome import Cell, Outcome
from casmap.paper.plan import Experiment
from casmap.paper.setting import Setting
from casmap.paper.trainings import Entries, Files, planned_entries
from casmap.reporting import SILENT, Reporter
from casmap.tools.page import SHOWN, side_by_side

ALPHA = 1.0  # the paper's
THINNINGS = {"CASM (L100)": "L100", "CASM (L)": "L", "Baseline": "F"}  # the supplement's three


def run_figure2(
    setting: Setting, *, mappings: Files = None, of_classes: int | None = None, out: Path, reporter: Reporter = SILENT
) -> Outcome:
    """Show the photos of the setting masked by the given mappings, or by the supplement's three."""
    entries = Entries.open("figure2", setting, mappings=mappings, out=out, thinnings=THINNINGS, reporter=reporter)
    return figure2(entries, setting.recipe.seed, of_classes)


def figure2(entries: Entries, seed: int, classes: int | None = None) -> Outcome:
    """Seven consecutive photos from a random start; or seven of each of `classes` random classes, an image each."""
    photos, mappers = entries.photos, entries.mappers
    random = np.random.default_rng((seed, 2))
    if classes is None:
        groups = {"": consecutive(np.arange(len(photos)), random)}
    else:
        full = np.flatnonzero(np.bincount(photos.labels, minlength=len(photos.classes)) >= SHOWN)
        if len(full) < classes:
            raise UserError(f"Only {len(full)} classes have {SHOWN} photos or more, not the requested {classes}.")
        groups = {
            f"-{number:02d}-{file_name(photos.classes[label])}": consecutive(
                np.flatnonzero(photos.labels == label), random
            )
            for number, label in enumerate(np.sort(random.permutation(full)[:classes]), 1)
        }
    figures, rows, records = {}, [], []
    for ending, chosen in groups.items():
        images = [photos.image(index) for index in chosen]
        found = {name: decoded(mapper, images) for name, mapper in mappers.items()}
        figures[ending] = encode_png(side_by_side(list(found.values()), alpha=ALPHA))
        for place, index in enumerate(chosen):
            maps = {name: each[place] for name, each in found.items()}
            rows.append(
                [Cell(photos.names[index]), *(Cell(f"{one.box(ALPHA)}, {one.area:.2f}") for one in maps.values())]
            )
            records += [
                {"photo": photos.names[index], "mapping": name, "box": one.box(ALPHA), "area": round(one.area, 4)}
                for name, one in maps.items()
            ]
    return Outcome(
        "figure2" if classes is None else "figure2-classes",
        "Figure 2: masked in, masked out, inpainted" + ("" if classes is None else f", {classes} classes"),
        f"{entries.data}, seed {seed}; from left to right: {', '.join(mappers)}. From top to bottom: the photo, masked "
        "in, masked out, and masked out and inpainted (Telea). The table has each mapping's box and the mean of its "
        "mask.",
        ["photo", *mappers], rows, records, figures,
    )  # fmt: skip


def decoded(mapper: SaliencyMapper, images: Sequence[Image]) -> list[SaliencyMap]:
    """The paper's maps of whole photos: the decoder's output, not fitted to their edges."""
    masks, _ = mapper.masks(np.stack([resize(image, mapper.size, "squash") for image in images]))
    pairs = zip(images, masks, strict=True)
    return [SaliencyMap(image, np.asarray(cv2.resize(mask, image.shape[1::-1]), np.float32)) for image, mask in pairs]


def consecutive(indices: Indices, random: np.random.Generator) -> list[int]:
    """Seven of the photos with these indices (N,), or all if there are fewer, in sequence from a random start."""
    begin = int(random.integers(max(1, len(indices) - SHOWN + 1)))
    return [int(index) for index in indices[begin : begin + SHOWN]]


STUDY = Experiment(run_figure2, partial(planned_entries, thinnings=THINNINGS))
