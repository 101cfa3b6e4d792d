"""The tables of an evaluation: mappings and what looks at no photo, under four protocols."""

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from casmap.annotations.types import Kind
from casmap.data.photos import PhotoSet
from casmap.data.resizing import Policy, resize
from casmap.data.sources import open_photos
from casmap.data.validate import annotation_warnings
from casmap.errors import UserError, option
from casmap.evaluation.blind import BLIND, SHORTER, SQUARE, with_centre_squares, without_photos
from casmap.evaluation.box_fit import ABOVE, BINARY_RULES, EXTRACTED_RULES, FIT, LOOSE, MEAN, TIGHT, Rules, by_rule
from casmap.evaluation.by_size import UNION, sizes_of
from casmap.evaluation.evaluate import Predictions, Row, System, annotated_indices, map_photos, measure_masks
from casmap.evaluation.field_protocol import GT_KNOWN, measure_field_protocol
from casmap.evaluation.numbers import Number
from casmap.evaluation.wsol_protocol import WSOL_MEASURES, measure_wsol
from casmap.inference.components import PAPER, Threshold
from casmap.inference.edges import Edges, fit_mask
from casmap.inference.mapper import SHIPPED, SaliencyMapper, load_mappers
from casmap.reporting import SILENT, Reporter

Mapping = str | os.PathLike[str] | SaliencyMapper

# The first table. Shares are printed in percent, as in the paper; the arrow shows which direction is better.
COLUMNS: dict[str, tuple[str, float]] = {
    "OM": ("OM ↓", 100), "LE": ("LE ↓", 100), "LE at area": ("LE at equal area ↓", 100), "F1": ("F1 ↑", 100),
    "mask IoU": ("mask IoU ↑", 100),
    "evidence recall": ("evidence recall ↑", 100), "evidence precision": ("evidence precision ↑", 100),
    "binary area": ("binary mask area", 1), "area": ("mask area", 1), "total variation": ("total variation", 1),
    "mask entropy": ("mask entropy", 1), "spread": ("spread", 1),
}  # fmt: skip
# The further tables, in percent, by each rule that makes a binary mask.
FIT_MEASURES = {
    f"LE at IoU {LOOSE}": f"LE at IoU {LOOSE} ↓", "LE": "LE at IoU 0.5 ↓",
    f"LE at IoU {TIGHT}": f"LE at IoU {TIGHT} ↓", MEAN: "mean of the three ↓", ABOVE: f"above IoU {FIT} ↑",
    "mask IoU": "mask IoU ↑",
}  # fmt: skip
FIELD_MEASURES = {GT_KNOWN: f"{GT_KNOWN} ↑"}
# The short table; the last three measures are there only if parts or an area are given.
SHORT_MEASURES = {
    "LE": "LE ↓", "mask IoU": "mask IoU ↑", "F1": "F1 ↑", ABOVE: f"box IoU > {FIT} ↑",
    "LE at area": "LE at equal area ↓", "evidence recall": "evidence recall ↑",
    "evidence precision": "evidence precision ↑",
}  # fmt: skip
SHORT_NOTE = (
    "As extracted: what casmap extract writes, the whole photo at threshold 0.5. Size: the share of the photo that "
    "the true box covers, and the number of photos. Paper's protocol: the central square, alpha = 1.\n"
    "LE: share of photos whose box misses the object (IoU at most 0.5). F1: of the soft mask and the true box."
)
OM_NOTE = "OM: share of photos with a wrong box or a wrong class."  # only where a mapping knows the classes
PAPER_MEASURES = ("OM", "LE", "F1")  # the paper's measures of localization
FORMULAS = (
    "total variation: sum of |differences| between neighbouring pixels; mask entropy: mean of -m log2 m; "
    "spread: standard deviation over photos of the mean mask"
)
FIELD_PROTOCOL = (
    "GT-known: share of photos whose box has an IoU of at least 0.5 with a true box, on the central 224 x 224 pixels "
    "of the photo squashed to 256 x 256, with true boxes clipped to them. Compare it with published GT-known numbers, "
    "not with 100 - LE of the paper's protocol."
)
# 2 Σ_B m / (Σ m + |B|) for m = 1 on a photo of area 1 and |B| = a, and for a mask inside the box with Σ m = k |B|.
WHOLE_PHOTO_F1 = (
    "The whole photo can have a higher F1 than a good mask because F1 = 2 Σ_box m / (Σ m + |box|) rewards filling the "
    "box: if the box covers the share a of the photo, the whole photo gets 2a / (1 + a), while a mask inside the box "
    "that fills the share k of it gets 2k / (1 + k), which is lower if k < a."
)


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One row for each system: mappings, the centre box, square and Gaussian, and the whole photo.

    rows: what `casmap extract` does, each photo resized to a square as a whole, masks with the mapper's edges, and a
    threshold of 0.5. Scaling both sides of a photo does not change IOU or F1, so these are the numbers of the boxes and
    masks in the photo's own pixels. central_crop: the same systems by the paper's protocol, on the central square of
    each photo, with the decoder's masks and alpha 1. field_protocol: GT-known localization accuracy as in BAS and SAT,
    on the central 224 of 256 pixels of the squashed photo, with boxes clipped to them and the decoder's masks.
    wsol_protocol: MaxBoxAccV2 and PxAP as in wsolevaluation, and LE at alpha 1, of the squashed photo and the decoder's
    masks.
    """

    rows: list[Row]
    central_crop: list[Row]
    field_protocol: list[Row]
    wsol_protocol: list[Row]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> Row:
        """The row with this name."""
        return {row.name: row for row in self.rows}[name]


def evaluate(
    data: str | os.PathLike[str],
    *,
    mapping: Mapping | Sequence[Mapping] | None = None,
    boxes: str | os.PathLike[str] | None = None,
    masks: str | os.PathLike[str] | None = None,
    parts: str | os.PathLike[str] | None = None,
    split: str | None = None,
    area: float | None = None,
    size: int | None = None,
    unseen: bool = False,
    brief: bool = False,
    reporter: Reporter = SILENT,
) -> Evaluation:
    """Measure mappings against boxes and masks, with the centre box and others that look at no photo for comparison.

    data: photos in any supported layout, or scenes[:options]. mapping: one or several files or mappers (default: the
    shipped mapping). area: compare evidence at this mean area. size: side of the square that photos are resized to
    (default: the mapping's). unseen: accept classes that a mapping does not know; it then has no OM. brief:
    leave field_protocol and wsol_protocol empty, which takes half of the time.
    """
    photos = open_photos(os.fspath(data), held_out=True, boxes=boxes, masks=masks, parts=parts, split=split)
    unmatched = [one.what for one in getattr(photos, "problems", ()) if one.kind is Kind.NO_PHOTO]
    if unmatched:
        reporter.warning(f"Annotations that match no photo in {data}: {len(unmatched)}, the first {unmatched[0]}.")
    annotated_indices(photos)  # without boxes and masks, nothing else matters
    for sentence in annotation_warnings(photos):
        reporter.warning(sentence)
    given = [mapping] if mapping is None or isinstance(mapping, str | os.PathLike | SaliencyMapper) else mapping
    if not given:
        raise UserError("No mapping was given to evaluate.")
    files = [Path(SHIPPED if one is None else one) for one in given if not isinstance(one, SaliencyMapper)]
    by_name = iter(load_mappers(files).items())  # files have short names; a mapper has its position in the list
    loaded = (
        (f"mapping {n}", one) if isinstance(one, SaliencyMapper) else next(by_name) for n, one in enumerate(given, 1)
    )
    mappers = dict(loaded)
    for name, mapper in mappers.items():
        unknown = [label for label in photos.classes if label not in mapper.classes]
        if unknown and mapper.network.predicts and not unseen:
            raise UserError(
                f"The mapping {name!r} was not trained on the class {unknown[0]!r} of these photos: add "
                f"{option('unseen', True)} to measure boxes and masks without the predicted class."
            )
    return compare(photos, mappers, area=area, size=size, brief=brief, reporter=reporter)


def compare(
    photos: PhotoSet, mappers: dict[str, SaliencyMapper], *,
    area: float | None = None, size: int | None = None, brief: bool = False, reporter: Reporter = SILENT,
) -> Evaluation:  # fmt: skip
    """Evaluate each mapper, and what looks at no photo, under all four protocols, or, if brief, the first two."""
    sides = {name: size or mapper.size for name, mapper in mappers.items()}
    common = next(iter(sides.values()))
    systems: dict[str, tuple[System, System]] = {
        name: (system_of(mapper, photos, mapper.edges), system_of(mapper, photos)) for name, mapper in mappers.items()
    }
    systems |= {name: (system, system) for name, system in BLIND.items()}
    rows, central_crop, field_protocol, wsol_protocol = [], [], [], []
    measured = annotated_indices(photos)
    if left_out := sorted(set(range(len(photos))) - {*measured}):
        many = f"{len(left_out)} of {len(photos)}"
        reporter.warning(f"Photos without a box or mask, left out: {many}, the first {photos.names[left_out[0]]}.")
    truths: dict[Policy, Predictions] = {}  # those of the first mapper, without its masks
    with reporter.progress(
        "Evaluating photos under each protocol", (2 if brief else 4) * len(measured) * len(mappers)
    ) as advance:

        def masks_of(name: str, system: System, policy: Policy, threshold: Threshold = PAPER) -> Predictions:
            if name in mappers:
                found = map_photos(system, photos, sides[name], policy, advance, threshold)
                truths.setdefault(policy, dataclasses.replace(found, masks=np.empty((0, common, common))))
                return found
            found = without_photos(system, common, truths[policy], threshold)
            return with_centre_squares(found) if name == SQUARE else found

        for name, (extracted, papers) in systems.items():
            rows.append(measure_masks(name, masks_of(name, extracted, "squash", Threshold()), area))
            central_crop.append(measure_masks(name, masks_of(name, papers, "crop"), area))
            if brief:
                continue
            field_protocol.append(measure_field_protocol(name, masks_of(name, papers, "squash and crop")))
            wsol_protocol.append(measure_wsol(name, masks_of(name, papers, "squash")))
    return Evaluation(rows, central_crop, field_protocol, wsol_protocol)


def system_of(mapper: SaliencyMapper, photos: PhotoSet, edges: Edges | None = None) -> System:
    """A mapper as a system to measure; it predicts classes only if it knows all classes of the photos.

    Images are resized to the mapper's own size, as in extraction; the masks are fitted to them, or, without edges,
    resized back as they are.
    """
    here = {mapper.classes.index(name): index for index, name in enumerate(photos.classes) if name in mapper.classes}

    def system(images: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.int64] | None]:
        side, squares = images.shape[1], images
        if side != mapper.size:
            squares = np.stack([resize(image, mapper.size, "crop") for image in images])
        masks, logits = mapper.masks(squares)
        if edges is not None:
            masks = np.stack([fit_mask(*one, edges) for one in zip(masks, squares, images, strict=True)])
        elif side != mapper.size:
            masks = np.stack([cv2.resize(mask, (side, side)) for mask in masks])
        if not mapper.network.predicts or len(here) < len(photos.classes):
            return masks, None
        return masks, np.array([here.get(int(index), -1) for index in logits.argmax(axis=1)])

    return system


def text_of(number: Number | None, scale: float) -> str:
    """A number, and its interval on the next line."""
    if number is None:
        return "-"
    value, low, high = (scale * x for x in (number.value, number.low, number.high))
    digits = 1 if scale > 1 or value >= 100 else 3
    return f"{value:.{digits}f}\n{low:.{digits}f} – {high:.{digits}f}"


def table_rows(rows: Sequence[Row], keys: Sequence[str] = tuple(COLUMNS)) -> list[list[str]]:
    """A line for each measure that any row has: its title, and its number in each row."""
    measured = [key for key in keys if any(key in row.numbers for row in rows)]
    return [
        [COLUMNS[key][0], *(text_of(row.numbers.get(key), COLUMNS[key][1]) for row in rows)] for key in measured
    ]  # fmt: skip


def rule_rows(rows: Sequence[Row], titles: dict[str, str], rules: Rules = BINARY_RULES) -> list[list[str]]:
    """Lines of a further table: for each rule a heading, and below it a line for each measure that any row has."""
    lines = []
    for rule in rules:
        lines.append([rule, *("" for _ in rows)])
        lines += _lines(rows, {by_rule(key, rule, rules): title for key, title in titles.items()})
    return lines


def wsol_table(results: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Head and lines of the table by wsolevaluation: a line for each system, last its LE by the paper's protocol."""
    rows, crops = results.wsol_protocol, results.central_crop
    titles = {key: title for key, title in WSOL_MEASURES.items() if any(key in row.numbers for row in rows)}
    lines = []
    for row, crop in zip(rows, crops, strict=True):
        numbers = [*map(row.numbers.get, titles), crop.numbers["LE"]]
        lines.append([row.name, *(text_of(number, 100).replace(" – ", "–") for number in numbers)])
    return ["", *titles.values(), "LE central crop ↓"], lines


def size_rows(rows: Sequence[Row], rules: Rules = BINARY_RULES) -> list[list[str]]:
    """Lines of LE by object size: for each rule a heading, and below it each size with its number of photos."""
    lines, sizes = [], sizes_of([row.by_size for row in rows])
    for rule in rules:
        key = by_rule("LE", rule, rules)
        lines.append([rule, *("" for _ in rows)])
        for size in sizes:
            groups = [row.by_size.get(size) for row in rows]
            photos = max(group.photos for group in groups if group is not None)
            numbers = (None if group is None else group.numbers[key] for group in groups)
            lines.append([f"  {size} ({photos})", *map(_short, numbers)])
    return lines


def short_table(results: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Head and lines of the short table: as extracted, LE by object size, and OM and LE by the paper's protocol."""
    rows, crop = ([row for row in of if row.name not in SHORTER] for of in (results.rows, results.central_crop))
    sizes = size_rows(rows, EXTRACTED_RULES)[1:]
    groups = {
        "as extracted": _lines(rows, SHORT_MEASURES),
        "LE ↓ by size": [line for line in sizes if not line[0].startswith(f"  {UNION} ")],
        "paper's protocol": _lines(crop, {"OM": "OM ↓", "LE": "LE ↓"}),
    }
    lines = [line for title, of in groups.items() for line in [[title, *("" for _ in rows)], *of]]
    return ["", *(row.name for row in rows)], lines


def _lines(rows: Sequence[Row], titles: dict[str, str]) -> list[list[str]]:
    """A line for each measure that any row has."""
    measured = {key: title for key, title in titles.items() if any(key in row.numbers for row in rows)}
    return [[f"  {title}", *(_short(row.numbers.get(key)) for row in rows)] for key, title in measured.items()]


def _short(number: Number | None) -> str:
    """A share in percent and its interval on one line; without the interval if it has no width.

    >>> _short(Number(0.3614, 0.3, 0.4256)), _short(Number(1.0, 1.0, 1.0))
    ('36.1  30.0–42.6', '100.0')
    """
    text = text_of(number, 100).replace(" – ", "–").replace("\n", "  ")
    return text.partition("  ")[0] if number is not None and number.low == number.high else text
