"""The further tables of Table 1: the field's protocol, Choe et al.'s, how well boxes fit, LE by object size."""

from collections.abc import Mapping
from typing import Any

from casmap.evaluation.box_fit import ABOVE, ALPHA_ONE, HALF, LOOSE, MEAN, TIGHT, by_rule
from casmap.evaluation.by_size import sizes_of
from casmap.evaluation.fidelity import FIDELITY_MEASURES, shown
from casmap.evaluation.field_protocol import GT_KNOWN
from casmap.evaluation.numbers import Number, columns, percent
from casmap.evaluation.wsol_protocol import WSOL_MEASURES
from casmap.paper.outcome import Cell, Further
from casmap.paper.table1_rows import Line, Table1

FIELD = {GT_KNOWN: f"{GT_KNOWN} ↑", by_rule(GT_KNOWN, HALF): f"{GT_KNOWN}, {HALF} ↑"}
FIT = {
    f"LE at IoU {LOOSE}": f"LE at IoU {LOOSE} ↓", f"LE at IoU {TIGHT}": f"LE at IoU {TIGHT} ↓", MEAN: "mean LE ↓",
    ABOVE: f"{ABOVE} ↑",
}  # fmt: skip
AT_HALF = {
    by_rule(key, HALF): title
    for key, title in {"LE": "LE ↓", MEAN: "mean LE ↓", ABOVE: f"{ABOVE} ↑", "mask IoU": "mask IoU ↑"}.items()
}
FIELD_NOTE = (
    "Field's protocol: the photo squashed to 256 x 256, the central 224 x 224 pixels, true boxes clipped to them; "
    "GT-known: share of photos with an IoU of at least 0.5. It is not 100 - LE. Mean LE: at IoU 0.3, 0.5 and 0.7. "
    "Object size: the share of the crop that the largest true box covers."
)

# BAS: Wu et al. 2022, "Background Activation Suppression for Weakly Supervised Object Localization".
# SAT: Wu et al. 2023, "Spatial-Aware Token for Weakly Supervised Object Localization".
PUBLISHED = (
    "GT-known in the papers, measured on other photos: on ImageNet's validation set 72.0 (BAS, MobileNetV1) and 71.9 "
    "(SAT, DeiT-S, trained on three photos a class); on the test set of CUB-200-2011 birds, trained on birds, 92.4 "
    "(BAS, MobileNetV1) and 98.5 (SAT, DeiT-S)."
)


def further(table: Table1) -> list[Further]:
    """The further tables that have any number, with the rows in the order of the first table."""
    tables = [
        _table("The field's protocol, as in BAS and SAT", table, FIELD, PUBLISHED),
        _table("Choe et al.'s protocol (wsolevaluation)", table, WSOL_MEASURES),
        _table(f"How well boxes fit, {ALPHA_ONE}", table, FIT),
        _table(f"The same, {HALF}", table, AT_HALF),
        _fidelity(table),
        _by_size(table),
    ]
    return [one for one in tables if len(one.head) > 1]


def size_columns(line: Line) -> dict[str, Any]:
    """LE by object size and the number of photos, as columns of a CSV file."""
    found: dict[str, Any] = {}
    for size, group in line.by_size.items():
        found[f"photos, object {size}"] = group.photos
        for key, number in group.numbers.items():
            found |= columns(f"{key}, object {size}", number)
    return found


def _table(title: str, table: Table1, titles: Mapping[str, str], text: str = "") -> Further:
    keys = [key for key in titles if any(key in line.numbers for line in table.lines)]
    rows = [[_name(line), *(Cell(_percent(line.numbers.get(key))) for key in keys)] for line in table.ranked]
    return Further(title, ["", *(titles[key] for key in keys)], rows, text)


def _fidelity(table: Table1) -> Further:
    """The fidelity of each row's maps to the judge."""
    keys = [key for key in FIDELITY_MEASURES if any(key in line.numbers for line in table.lines)]
    rows = [[_name(line), *(Cell(shown(line.numbers.get(key))) for key in keys)] for line in table.ranked]
    return Further(f"Fidelity to {table.judge}", ["", *(FIDELITY_MEASURES[key] for key in keys)], rows)


def _by_size(table: Table1) -> Further:
    """LE at alpha 1 of the photos of each object size, with the number of photos."""
    sizes = sizes_of([line.by_size for line in table.lines])
    rows = []
    for line in table.ranked:
        groups = [line.by_size.get(size) for size in sizes]
        texts = ("-" if one is None else f"{_percent(one.numbers['LE'])}\n{one.photos} photos" for one in groups)
        rows.append([_name(line), *map(Cell, texts)])
    return Further("LE ↓ by the share of the crop that the true box covers", ["", *sizes], rows)


def _name(line: Line) -> Cell:
    return Cell(line.name.replace(", the ", ", "))


def _percent(number: Number | None) -> str:
    return "-" if number is None else percent(number).replace(" ", "\n", 1)
