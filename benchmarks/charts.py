"""Draw the tables of docs/results.md: LE of every method with its 95 % interval, one figure for each Table 1.

python benchmarks/charts.py            # write docs/figures/table1-*.png
python benchmarks/charts.py --check    # exit 1 if a figure was drawn from another version of its table

The numbers are read from the Markdown tables, so a figure cannot disagree with its table. Each method is shown at
whichever threshold gives it the lowest LE: alpha 1, its authors' rule, or its own alpha.
"""

import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

DOCS = Path(__file__).parent.parent / "docs"
FIGURES = {"Table 1 on ImageNet": "table1-imagenet.png", "Table 1 on pets": "table1-pets.png"}
THRESHOLDS = ("LE ↓", "LE, authors' rule ↓", "LE, own alpha ↓")
OURS = "CASM + second stage"
# How a method is drawn, by what it is given besides the photo: colour, marker, fill, offset from its row.
STYLES = {
    "nothing": ("#2a78d6", "o", "#2a78d6", 0.0),
    "boxes in training": ("#3a9d5d", "s", "#3a9d5d", 0.0),
    "true class": ("#d9730d", "o", "#d9730d", -0.17),
    "predicted class": ("#d9730d", "o", "white", 0.17),
}
NUMBER = re.compile(r"\*{0,2}([\d.]+)\*{0,2} \[([\d.]+), ([\d.]+)\]")


@dataclass(frozen=True)
class Point:
    """LE of one row of the table, with its interval."""

    method: str
    given: str
    value: float
    low: float
    high: float
    photos: int


def main() -> None:
    """Draw every figure, or check that each was drawn from the table as it is now."""
    page = (DOCS / "results.md").read_text()
    outdated = []
    for heading, name in FIGURES.items():
        table = table_below(page, heading)
        mark = hashlib.sha256("\n".join(table).encode()).hexdigest()
        path = DOCS / "figures" / name
        if "--check" in sys.argv:
            if not path.exists() or Image.open(path).info.get("Table") != mark:
                outdated.append(name)
            continue
        figure = draw(points(table), heading)
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, dpi=110, metadata={"Table": mark, "Software": None})
    if outdated:
        sys.exit(f"Outdated: {', '.join(outdated)}. Run python benchmarks/charts.py.")


def table_below(page: str, heading: str) -> list[str]:
    """The lines of the first table with a column "given" below a heading."""
    lines = page.partition(f"\n## {heading}\n")[2].splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("|") and "| given |" in line)
    end = next(at for at in range(start, len(lines)) if not lines[at].startswith("|"))
    return lines[start:end]


def points(table: list[str]) -> list[Point]:
    """A point for each row, at the threshold with the lowest LE."""
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    found = []
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        numbers = [NUMBER.match(cells[key]) for key in THRESHOLDS]
        value, low, high = min(tuple(map(float, number.groups())) for number in numbers if number)
        method = cells[""].replace("*", "")
        found.append(Point(method, cells["given"], value, low, high, int(cells["photos"].replace(",", ""))))
    return found


def draw(rows: list[Point], title: str) -> Figure:
    """A row for each method, the best at the top; a dot with its interval for each way it was run."""
    best: dict[str, float] = {}
    for row in rows:
        best[row.method] = min(row.value, best.get(row.method, 101.0))
    places = {method: place for place, method in enumerate(sorted(best, key=best.__getitem__))}
    figure = Figure(figsize=(9, 1.7 + 0.32 * len(places)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(best[OURS], color="#2a78d6", linewidth=1, linestyle=":")
    for row in rows:
        colour, marker, fill, offset = STYLES[row.given]
        at = places[row.method] + offset
        axes.plot([row.low, row.high], [at, at], color=colour, linewidth=1.6, solid_capstyle="butt")
        axes.plot(row.value, at, marker, color=colour, markerfacecolor=fill, markersize=6)
    labels(axes, rows, places, best)
    figure.suptitle(f"{title}: localization error with 95 % intervals", fontsize=12)
    shown = [given for given in STYLES if any(row.given == given for row in rows)]
    handles = [
        Line2D([], [], color=STYLES[given][0], marker=STYLES[given][1], markerfacecolor=STYLES[given][2], label=given)
        for given in shown
    ]
    place = {"loc": "outside lower center", "ncols": len(shown), "frameon": False}
    figure.legend(handles=handles, title="given besides the photo", fontsize=10, title_fontsize=10, **place)
    return figure


def labels(axes: Axes, rows: list[Point], places: dict[str, int], best: dict[str, float]) -> None:
    """The names of the methods, their lowest LE at the right edge, and the number of photos where it is small."""
    most = max(row.photos for row in rows)
    photos = {row.method: row.photos for row in rows}
    names = [re.sub(r" \(.*\)", "", name) for name in places]  # the table has the authors
    names = [
        name if photos[of] == most else f"{name}, {photos[of]} photos" for name, of in zip(names, places, strict=True)
    ]
    axes.set_yticks(range(len(places)), names, fontsize=10)
    for text, name in zip(axes.get_yticklabels(), places, strict=True):
        text.set_fontweight("bold" if name == OURS else "normal")
    axes.set_ylim(len(places) - 0.4, -0.6)
    right = max(row.high for row in rows) + 2
    axes.set_xlim(0, right)
    for name, place in places.items():
        axes.text(right + 1, place, f"{best[name]:.1f}", va="center", fontsize=10)
    axes.set_xlabel("LE in percent (lower is better)")
    axes.grid(axis="x", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


if __name__ == "__main__":
    main()
