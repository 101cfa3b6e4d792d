"""Figures with axes, as PNG files."""

import io
from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from casmap.evaluation.evaluate import Number

BLUE, ORANGE, GREY, GREEN = "#2a78d6", "#d9730d", "#8a8a8a", "#3a9d5d"
DPI = 150
BINS = 40


def png(figure: Figure) -> bytes:
    """The figure as a file."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DPI)
    return content.getvalue()


def ranked(numbers: Mapping[str, Number], title: str, marked: Sequence[str] = ()) -> bytes:
    """A dot with its interval for each name, shares in percent, in the given order; `marked` ones in another colour."""
    figure = Figure(figsize=(6, 0.9 + 0.32 * len(numbers)), layout="constrained")
    axes = figure.subplots()
    for place, (name, number) in enumerate(numbers.items()):
        colour = ORANGE if name in marked else BLUE
        axes.plot([100 * number.low, 100 * number.high], [place, place], color=colour, linewidth=2)
        axes.plot(100 * number.value, place, "o", color=colour)
    axes.set_yticks(range(len(numbers)), list(numbers))
    axes.set_ylim(len(numbers) - 0.5, -0.5)
    _tidy(axes, title)
    return png(figure)


Curves = Mapping[str, Sequence[tuple[float, Number]]]  # by name: places on the axis, each with its number


def curves(lines: Curves, title: str, bottom: str, left: str) -> bytes:
    """Lines over a logarithmic axis, each point with its interval, shares in percent."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    _draw_curves(axes, lines, 100)
    axes.set_xlabel(bottom)
    axes.set_ylabel(left)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    _tidy(axes, title)
    return png(figure)


def panels_of_curves(panels: Mapping[str, tuple[Curves, float]], bottom: str) -> bytes:
    """Two rows of panels, one for each group of lines over a logarithmic axis, in numbers times the group's factor.

    Each point has its interval. All groups have the same names, which the first panel explains.
    """
    across = -(-len(panels) // 2)
    figure = Figure(figsize=(2.4 * across, 4), layout="constrained")
    for axes, (panel, (lines, factor)) in zip(figure.subplots(2, across).flat, panels.items(), strict=False):
        _draw_curves(axes, lines, factor)
        axes.tick_params(labelsize=8)
        _tidy(axes, panel)
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.supxlabel(bottom, fontsize=9)
    return png(figure)


def _draw_curves(axes: Axes, lines: Curves, factor: float) -> None:
    for colour, (name, line) in zip(cycle((BLUE, ORANGE, GREY, GREEN)), lines.items(), strict=False):
        places = [place for place, _ in line]
        values = factor * np.array([(number.value, number.low, number.high) for _, number in line])
        axes.plot(places, values[:, 0], "o-", color=colour, label=name)
        axes.fill_between(places, values[:, 1], values[:, 2], color=colour, alpha=0.15)
    axes.set_xscale("log")
    ticks = sorted({place for line in lines.values() for place, _ in line})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def depths(panels: Mapping[str, Mapping[str, Sequence[tuple[float, Number]]]], bottom: str) -> bytes:
    """One panel for each measure, with a line for each name over a share, each point with its interval."""
    figure = Figure(figsize=(4.4 * len(panels), 3.8), layout="constrained")
    for axes, (panel, lines) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels.items(), strict=True):
        for colour, (name, line) in zip(cycle((ORANGE, BLUE, GREY, GREEN)), lines.items(), strict=False):
            values = np.array([(number.value, number.low, number.high) for _, number in line])
            places = [place for place, _ in line]
            axes.plot(places, values[:, 0], "o-", color=colour, label=name, markersize=4)
            axes.fill_between(places, values[:, 1], values[:, 2], color=colour, alpha=0.15)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_xlabel(bottom)
        _tidy(axes, panel)
    axes.legend(frameon=False)
    return png(figure)


def dots(
    panels: Mapping[str, Mapping[str, Sequence[tuple[float, bool]]]], title: str, left: str, marked: tuple[str, str]
) -> bytes:
    """One panel for each group, with a column of jittered dots for each name; some in another colour.

    marked: the legend of the dots in another colour, and of the others.
    """
    figure = Figure(figsize=(3.2 * len(panels), 3.8), layout="constrained")
    random = np.random.default_rng(0)
    figure.suptitle(title, fontsize=11)
    for axes, (panel, columns) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels.items(), strict=True):
        for place, column in enumerate(columns.values()):
            for value, is_marked in column:
                jitter = place + random.uniform(-0.18, 0.18)
                colour = ORANGE if is_marked else BLUE
                axes.plot(jitter, 100 * value, "o", color=colour, alpha=0.75, markersize=5, clip_on=False)
        axes.set_xticks(range(len(columns)), list(columns))
        axes.set_xlim(-0.5, len(columns) - 0.5)
        axes.set_ylim(0, 100)
        _tidy(axes, panel)
        axes.set_ylabel(left)
    keys = [Line2D([], [], marker="o", linestyle="", color=colour) for colour in (ORANGE, BLUE)]
    figure.legend(keys, marked, loc="outside lower center", ncols=2, frameon=False)
    return png(figure)


def histograms(panels: Mapping[str, Mapping[str, Sequence[float]]], title: str) -> bytes:
    """One panel for each group, with a histogram for each name as a step line over shared bins."""
    figure = Figure(figsize=(3.6 * len(panels), 3.2), layout="constrained")
    figure.suptitle(title, fontsize=11)
    for axes, (panel, named) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels.items(), strict=True):
        edges = np.histogram_bin_edges(np.concatenate([np.asarray(values) for values in named.values()]), BINS)
        for colour, (name, values) in zip(cycle((ORANGE, BLUE, GREY, GREEN)), named.items(), strict=False):
            axes.hist(values, list(edges), histtype="step", linewidth=1.8, color=colour, label=name)
        axes.set_ylabel("photos")
        _tidy(axes, panel)
    axes.legend(frameon=False)
    return png(figure)


def _tidy(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
