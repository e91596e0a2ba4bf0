"""Plots of results; matplotlib is imported only when a figure is drawn."""

from __future__ import annotations

import functools
import io
import itertools
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.results.fields import drawn_of
from fastpubpriv.results.gaussians import clipped, ellipse
from fastpubpriv.results.public_draws import t_quantile
from fastpubpriv.results.result_tables import Lines, declared_numbers

# Colors that are distinguishable in grayscale and by color-blind readers.
PALETTE = ("#0b5fa5", "#d1690e", "#3b8f5a", "#8a5aa8", "#7a7a7a", "#b0304f")
# Maximum number of columns for which ellipses of all pairs are legible.
MAX_PAIRED = 5
# Maximum number of histogram panels, and the style of their noise bars.
MAX_PANELS = 12
NOISE_LOOK: dict[str, Any] = {
    "fmt": "none",
    "ecolor": PALETTE[1],
    "elinewidth": 1.2,
    "capsize": 3.0,
}
# Maximum number of lines of a forest plot, its width in inches, and its font size in points, legible at half the width on a phone.
MOST_LINES = 60
WIDTH = 5.8
FONT = 9.0
# Minimum share of a common axis that each group must occupy; maximum length of an axis over that of its most precise part.
LEAST_OF_AXIS = 0.01
MOST_OF_AXIS = 10.0
# Maximum number of columns of a heat map with names, and with printed values.
MAX_NAMED = 40
MAX_NUMBERED = 12


# Lowest and highest values of the columns, (dim,) each.
Box = tuple[FloatArray, FloatArray]
# Titles, and the indices of the lines under each.
Groups = list[tuple[str, list[int]]]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A series of values with optional intervals; value i is drawn on line i, or on line rows[i] if `rows` is given."""

    label: str
    mean: FloatArray
    lower: FloatArray | None = None
    upper: FloatArray | None = None
    rows: Any = None
    style: Literal["point", "tick", "bar"] = "point"

    @property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends; both are the value itself without intervals."""
        return (
            (self.mean, self.mean)
            if self.lower is None or self.upper is None
            else (self.lower, self.upper)
        )

    def _on(self, places: Sequence[int]) -> Estimate:
        """Return the part on these lines, with rows renumbered in their order."""
        rows = np.arange(len(self.mean)) if self.rows is None else self.rows
        chosen = np.flatnonzero(np.isin(rows, places))
        order = np.argsort(places)
        new_rows = np.searchsorted(places, rows[chosen], sorter=order)
        lower, upper = (end[chosen] for end in self._ends)
        return Estimate(
            self.label,
            self.mean[chosen],
            lower,
            upper,
            order[new_rows],
            self.style,
        )


class Bars(NamedTuple):
    """The bins of one histogram in ascending order: ends and released counts, (b,) each."""

    name: str
    lower: FloatArray
    upper: FloatArray
    counts: FloatArray


def public_estimate(rows: FloatArray, level: float) -> Estimate:
    """Return the mean of public rows (m, dim) with its Student interval, which needs at least two values in a column."""
    mean = np.nanmean(rows, axis=0)
    counts = np.isfinite(rows).sum(axis=0).tolist()
    if len(rows) < 2:
        return Estimate("public rows", mean)
    squares = np.nansum((rows - mean) ** 2, axis=0)
    factors = [
        t_quantile(0.5 + level / 2.0, m - 1) / math.sqrt(m * (m - 1)) if m > 1 else math.nan
        for m in counts
    ]
    reach = np.array(factors) * np.sqrt(squares)
    return Estimate("public rows", mean, mean - reach, mean + reach)


@functools.cache
def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("drawing needs matplotlib: pip install 'fastpubpriv[plot]'") from None

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    return ShownFigure


def new_figure(width: float, height: float) -> Any:
    """Return a figure without global state, which notebooks show without `%matplotlib inline`; InputError without matplotlib."""
    return _figure_class()(figsize=(width, height), layout="constrained")


def save(figure: Any, path: str | Path | None) -> Any:
    """Write the figure to `path` if one is given, and return it; raise InputError for an unknown file format."""
    if path is None:
        return figure
    if not hasattr(path, "write"):  # otherwise it is an open file
        path = validation.path_name(path)
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:  # a suffix that Matplotlib does not know
        raise InputError(f"the figure cannot be written: {error}") from None
    return figure


class Canvas:
    """A new figure of `width` times `height` inches, which notebooks show, or the axes `ax` of the caller.

    A figure has no global state. Several panels within axes of the caller share their place, and these are then hidden.
    """

    # Space between such panels as a share of that place: for the numbers below one and the title of the next.
    GAP_BELOW = 0.12
    GAP_BESIDE = 0.06

    def __init__(self, width: float, height: float, ax: Any) -> None:
        if ax is not None and not hasattr(ax, "inset_axes"):
            raise InputError(f"ax must be axes of matplotlib, got {type(ax).__name__}")
        self.axes = ax
        self.figure = new_figure(width, height) if ax is None else ax.figure
        self.lowest = ax

    def panels(self, rows: int = 1, columns: int = 1, heights: Sequence[float] = ()) -> Any:
        """Return axes (rows, columns); `heights` are those of the rows, relative to each other."""
        relative = np.array(heights or [1.0] * rows)
        if self.axes is None:
            return self.figure.subplots(rows, columns, squeeze=False, height_ratios=relative)
        if rows == columns == 1:
            return np.array([[self.axes]])
        self.axes.set_axis_off()
        gap = min(self.GAP_BELOW, 0.5 / rows)
        high = relative / relative.sum() * (1.0 + gap)
        below = 1.0 + gap - np.cumsum(high)
        wide = (1.0 + self.GAP_BESIDE) / columns
        grid = np.empty((rows, columns), dtype=object)
        for row, column in np.ndindex(rows, columns):
            place = (column * wide, below[row], wide - self.GAP_BESIDE, high[row] - gap)
            grid[row, column] = self.axes.inset_axes(place)
        self.lowest = grid[-1, 0]
        return grid

    def legend(self, handles: Any, labels: Any, side: str) -> None:
        """Draw one legend outside the panels, with as many columns as the longest label permits."""
        across = max(1, min(3, 84 // (max(map(len, labels)) + 9)))
        place: dict[str, Any] = {"loc": f"outside {side} center"}
        if self.axes is not None:
            edge = {"upper": ("lower center", 1.02), "lower": ("upper center", -0.15)}[side]
            place = {"loc": edge[0], "bbox_to_anchor": (0.5, edge[1])}
        where = self.figure if self.axes is None else self.axes
        where.legend(handles, labels, ncols=across, frameon=False, fontsize=FONT, **place)

    def label(self, text: str) -> None:
        """Write a text below all panels."""
        if self.axes is None:
            self.figure.supxlabel(text, fontsize=FONT)
        else:
            self.lowest.set_xlabel(text, fontsize=FONT)

    def title(self, text: str) -> None:
        """Write a text above all panels."""
        if self.axes is None:
            self.figure.suptitle(text, fontsize=10)
        else:
            self.axes.set_title(text, fontsize=10, pad=20.0)  # above the titles of panels

    def save(self, path: str | Path | None) -> Any:
        """Do what `save` does with the figure."""
        return save(self.figure, path)


def heading(name: str, width: int) -> str:
    """Return a name wrapped to at most two lines of `width` characters; the rest is truncated."""
    lines = textwrap.wrap(name, width) or [name[:width]]
    shown = lines if len(lines) <= 2 else [lines[0], lines[1][: width - 3] + "..."]
    return "\n".join(shown).replace("$", r"\$")  # else two of them would be a formula


def plot_lines(
    value: Any, level: float, public: Sequence[Estimate], *, path: str | Path | None, ax: Any
) -> Any:
    """Draw the declared numbers of a value, a line for each, and estimates of public rows; return the figure."""
    drawn = drawn_of(type(value))
    estimates = []
    for name, declaration in drawn.items():
        numbers, ends = declared_numbers(value, name, declaration, level)
        if numbers is not None:
            mean, *interval = map(_flat, (numbers, *(ends or ())))
            lower, upper = interval or (None, None)
            style: Literal["bar", "point"] = "bar" if declaration.bars else "point"
            estimates.append(Estimate(declaration.drawn, mean, lower, upper, style=style))
    first = next(iter(drawn.values()))
    label = value._axis_label(first)
    if estimates[0].lower is not None:
        label += f", with {level:.0%} intervals"
        label += f" of {first.interval_of}" if first.interval_of else ""
    lines = Lines.of(value)
    others = [axis for axis in lines.axes if axis != "dim"]
    line_axis = others[-1] if others else "dim"
    across = tuple(axis for axis in lines.axes if axis != line_axis)
    return plot_forest(
        [*estimates, *public],
        lines.along((line_axis,), lines.joined((line_axis,))),
        groups=_panels(value, lines, across),
        apart="dim" in across and value.dim > 1,
        zero=first.zero,
        label=label,
        path=path,
        ax=ax,
    )


def _flat(numbers: Any) -> FloatArray:
    return np.asarray(numbers, dtype=np.float64).reshape(-1)


def _panels(value: Any, lines: Lines, across: tuple[str, ...]) -> Groups | None:
    """Return a panel for each entry of the axes `across`, or without these for neighbors of one unit; None for columns alone."""
    if lines.axes == ("dim",):
        return None
    if across:
        titles = lines.joined(across)
        of_lines = lines.along(across, np.arange(len(titles)))
    else:
        units = value._units() or [""] * len(lines)
        runs = [len(list(run)) for _, run in itertools.groupby(units)]
        titles = [""] * len(runs)
        of_lines = np.repeat(np.arange(len(runs)), runs)
    places: dict[int, list[int]] = {}
    for place in value._drawn_places():
        places.setdefault(int(of_lines[place]), []).append(place)
    return [(titles[panel], own) for panel, own in places.items()] or [("", [])]


def plot_forest(
    estimates: Sequence[Estimate],
    names: Sequence[str],
    *,
    label: str,
    # names that share a unit, by title; by default every name has its own unit
    groups: Groups | None = None,
    apart: bool = False,
    zero: bool = False,  # draw a line at zero
    path: str | Path | None = None,
    ax: Any = None,
) -> Any:
    """Draw a forest plot, with one line per name from top to bottom that shows all estimates, and a legend; return the figure."""
    # All groups share one axis if each is legible on it and not `apart`; otherwise every group has an axis in its unit.
    # An interval that is unbounded, or far longer than all others, is cut at the edge and ends in an arrow.
    numbered = groups is None and len(names) > MOST_LINES
    groups = groups or [("", [place]) for place in range(len(names))]
    if sum(len(places) for _, places in groups) > MOST_LINES and not numbered:
        groups, left_out = _shortened(estimates[0], groups, zero)
        label += left_out
    together = [place for _, places in groups for place in places]
    low, high = axis_ends([each._on(together) for each in estimates], zero)
    ends = [axis_ends([each._on(places) for each in estimates], zero) for _, places in groups]
    least = min(end - begin for begin, end in ends)
    if numbered or (not apart and least >= LEAST_OF_AXIS * (high - low)):
        ends = [(low, high)] * len(groups)
        if not any(title for title, _ in groups):
            groups = [("", together)]
    line = min(0.08 + 0.14 * len(estimates), 9.0 / len(names) if numbered else np.inf)  # inches
    heights = [line * len(places) + 0.3 + 0.2 * (title != "") for title, places in groups]
    canvas = Canvas(WIDTH, sum(heights) + 0.7, ax)
    grid = canvas.panels(len(groups), heights=heights)[:, 0]
    shown: dict[str, Any] = {}
    for axes, (title, places), (low, high) in zip(grid, groups, ends, strict=False):
        parts = [(i, each._on(places)) for i, each in enumerate(estimates)]
        parts = [(i, part) for i, part in parts if len(part.mean)]
        if zero or any(part.style == "bar" for _, part in parts):
            axes.axvline(0.0, color="0.6", lw=0.8, zorder=0)
        for order, (i, part) in enumerate(parts):
            shift = 0.64 * (order - (len(parts) - 1) / 2.0) / len(parts)
            shown[part.label] = _draw(axes, part, shift, PALETTE[i % len(PALETTE)], (low, high))
        axes.set_xlim(low, high)
        axes.locator_params(axis="x", nbins=6)
        axes.ticklabel_format(axis="x", useOffset=False)
        axes.set_ylim(max(len(places), 1) - 0.5, -0.5)
        if numbered:
            axes.set_ylabel("number of the column", fontsize=FONT)
        else:
            axes.set_yticks(range(len(places)), [heading(names[place], 20) for place in places])
        axes.set_title(heading(title, 40), fontsize=FONT, loc="left", weight="bold")
        tidy(axes, "x")
    if len(shown) > 1:
        canvas.legend(shown.values(), shown.keys(), "upper")
    canvas.label(heading(label, 64))
    return canvas.save(path)


def _shortened(first: Estimate, groups: Groups, zero: bool) -> tuple[Groups, str]:
    """Return the first MOST_LINES lines, or with `zero` those with the largest ratio of estimate to half-width; and a note."""
    places = np.array([place for _, each in groups for place in each])
    if zero:
        with np.errstate(all="ignore"):
            strength = np.nan_to_num(np.abs(first.mean) / (first.mean - first._ends[0]), nan=0.0)
        places = places[np.argsort(-strength[places], kind="stable")]
    largest = set(places[:MOST_LINES].tolist())
    chosen = [(title, [place for place in each if place in largest]) for title, each in groups]
    note = f" (the {'strongest' if zero else 'first'} {MOST_LINES} of {len(places)})"
    return [each for each in chosen if each[1]], note


def axis_ends(
    parts: Sequence[Estimate], zero: bool, most: float = MOST_OF_AXIS
) -> tuple[float, float]:
    """Return axis limits: the first estimate and the shorter half of its intervals, extended by others up to `most` times that."""
    parts = [part for part in parts if len(part.mean)]
    zeros = [0.0] * (zero or any(part.style == "bar" for part in parts))
    points = []
    spans = []
    for part in parts:
        span = np.column_stack([np.where(np.isfinite(end), end, part.mean) for end in part._ends])
        span = span[np.isfinite(span).all(axis=1)]
        spans.append(span[np.argsort(span[:, 1] - span[:, 0], kind="stable")])
        points.append(part.mean[np.isfinite(part.mean)])
    half = (len(spans[0]) + 1) // 2 if parts else 0
    sure = np.concatenate([zeros, *points[:1], *(span[:half].ravel() for span in spans[:1])])
    low, high = (sure.min(), sure.max()) if len(sure) else (0.0, 1.0)
    others = [np.column_stack([each, each]) for each in points[1:]]
    for begin, end in np.concatenate(
        [np.empty((0, 2)), *(span[half:] for span in spans[:1]), *others, *spans[1:]]
    ):
        wider = min(low, begin), max(high, end)
        if low == high or wider[1] - wider[0] <= most * (high - low):
            low, high = wider
    room = 0.04 * (high - low) or 0.04 * abs(high) or 1.0
    return float(low - room), float(high + room)


def _draw(axes: Any, part: Estimate, shift: float, color: str, ends: tuple[float, float]) -> Any:
    """Draw an estimate on its lines, clipped to the axis limits, and return its legend handle."""
    rows = part.rows + shift
    lower, upper = part._ends
    low, high = ends
    # Nothing is known of a line without an estimate: an unbounded interval would look like an answer.
    unknown = np.isnan(part.mean) & np.isinf(lower)
    lower, upper = (np.where(unknown, np.nan, each) for each in (lower, upper))
    for row in np.unique(rows[unknown]):
        axes.text(
            (low + high) / 2.0,
            row,
            "no estimate",
            ha="center",
            va="center",
            color="0.5",
            fontsize=FONT,
        )
    size = 4.5 if len(rows) <= MOST_LINES else 2.0
    depth = 3.0 - PALETTE.index(color) / len(PALETTE)  # the first is in front
    if part.style == "bar":
        axes.barh(rows, np.maximum(part.mean, 0.0), height=0.7, color=color, alpha=0.35, lw=0)
    axes.hlines(
        rows,
        np.clip(lower, low, high),
        np.clip(upper, low, high),
        color=color,
        lw=0.4 * size,
        zorder=depth,
    )
    below = np.fmin(lower, part.mean) < low
    above = np.fmax(upper, part.mean) > high
    for beyond, end, marker in ((below, low, "<"), (above, high, ">")):
        if beyond.any():
            axes.plot(
                np.full(beyond.sum(), end),
                rows[beyond],
                marker,
                ms=5,
                color=color,
                clip_on=False,
                zorder=5,
            )
    marker, size = ("|", 2.0 * size) if part.style == "tick" else ("o", size)
    return axes.plot(part.mean, rows, marker, ms=size, mew=1.5, color=color, zorder=depth)[0]


def tidy(axes: Any, grid: str | None = None) -> None:
    """Set the font size of ticks and draw thin grid lines behind the data."""
    axes.tick_params(labelsize=FONT)
    axes.set_axisbelow(True)
    if grid is not None:
        axes.grid(axis=grid, alpha=0.3, lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def plot_histograms(
    drawn: list[Bars],
    *,
    noise: float,
    level: float,
    threshold: float,
    path: str | Path | None = None,
    ax: Any = None,
) -> Any:
    """Draw a panel for each one-dimensional histogram: released bins as bars with the `noise` of a count, on log axes if needed."""
    if not drawn:
        raise InputError(
            "there is no one-dimensional histogram to draw: products of columns are not drawn"
        )
    if len(drawn) > MAX_PANELS:
        raise InputError(
            f"{len(drawn)} histograms are too many to draw, at most {MAX_PANELS}: ask for fewer columns or levels"
        )
    canvas = Canvas(WIDTH, 2.5 * len(drawn) + 0.4, ax)
    panels = canvas.panels(len(drawn))[:, 0]
    for axes, item in zip(panels, drawn, strict=True):
        axes.set_xlabel(heading(item.name, 60), fontsize=FONT)
        tidy(axes, "y")
        if len(item.lower):
            _bars(axes, item, noise, threshold)
    first = panels[0]
    handles = [
        first.errorbar([], [], [], **NOISE_LOOK),
        *first.plot([], [], ":", color="0.3", lw=1.0),
    ]
    labels = [f"{level:.0%} of the noise", f"below {threshold:.0f} rows a bin is hidden"]
    canvas.legend(handles, labels, "upper")
    return canvas.save(path)


def _bars(axes: Any, item: Bars, noise: float, threshold: float) -> None:
    """Draw the bars of one histogram: rows, or rows per unit if bins differ in width."""
    lower = item.lower
    upper = np.minimum(item.upper, np.finfo(np.float64).max)
    width = upper - lower
    middle = (lower + upper) / 2.0
    equal = bool(np.ptp(width) <= 1e-6 * width.max())
    unit = np.ones_like(width) if equal else width
    least = np.maximum(item.counts - noise, 0.0) / unit
    most = (item.counts + noise) / unit
    span = np.abs(np.concatenate([lower, upper]))
    smallest = max(float(span[span > 0.0].min()), float(width.min()))
    axes.set_ylabel("rows" if equal else "rows per unit", fontsize=FONT)
    axes.bar(
        lower, item.counts / unit, width=width, align="edge", color=PALETTE[0], alpha=0.55, lw=0
    )
    if equal:
        axes.axhline(threshold, color="0.3", lw=1.0, ls=":")
    else:
        axes.hlines(threshold / unit, lower, upper, color="0.3", lw=1.0, ls=":")
    if float(span.max()) > 1e4 * smallest and not equal:
        axes.set_xscale("symlog", linthresh=smallest)
        axes.set_yscale("log")
        middle = np.where(
            lower > 0.0, np.sqrt(np.maximum(lower, smallest)) * np.sqrt(upper), middle
        )
        least = np.maximum(least, 0.5 * threshold / unit)
    else:
        # Distant bins that hold few rows, or less than 1 % of all, are left out, and their rows are printed.
        share = item.counts / item.counts.sum()
        before = np.cumsum(share)
        core = (before >= 0.05) & (before - share <= 0.95)
        low = item.lower[core].min()
        high = item.upper[core].max()
        reach = np.where((before < 0.005) | (before - share > 0.995), 0.5, 1.0) * (high - low)
        below = item.upper < low - reach
        above = item.lower > high + reach
        near = ~(below | above)
        low = item.lower[near].min()
        high = item.upper[near].max()
        axes.set_xlim(low - 0.02 * (high - low), high + 0.02 * (high - low))
        for far, edge, side, value in (
            (below, 0.01, "left", item.upper),
            (above, 0.99, "right", item.lower),
        ):
            if far.any():
                end = (
                    f"up to {value[far].max():g}"
                    if side == "left"
                    else f"from {value[far].min():g} on"
                )
                text = f"{item.counts[far].sum():,.0f} rows {end}"
                axes.text(
                    edge, 0.97, text, ha=side, va="top", transform=axes.transAxes, fontsize=FONT
                )
    axes.errorbar(
        middle,
        item.counts / unit,
        (item.counts / unit - least, most - item.counts / unit),
        **NOISE_LOOK,
    )


def plot_ellipses(
    result: Any,
    *,
    path: str | Path | None,
    ax: Any,
    level: float,
    ends_level: float,
    points: FloatArray | None,
    box: Box,
) -> Any:
    """Draw ellipses of all pairs of columns of a Gaussian, clipped to the range `box`, over the public rows `points`."""
    dim = result.dim
    mean = result.mean
    covariance = result.covariance
    names = result.labels
    side = max(1.7, (WIDTH - 0.6) / max(dim, 2))
    canvas = Canvas(side * dim + 0.6, side * dim + 0.6, ax)
    grid = canvas.panels(dim, dim)
    spread = np.sqrt(np.diag(covariance))
    lower, upper = result.confidence_interval(ends_level, of="correlation")
    known = np.isfinite(lower)
    reach = 1.15 * math.sqrt(-2.0 * math.log1p(-level))
    for row in range(dim):
        for column in range(dim):
            axes = grid[row, column]
            # the correlation and its interval, in the cell transposed to their ellipse
            if column > row:
                axes.set_axis_off()
                text = f"r = {result.correlation[row, column]:+z.2f}"
                if known[row, column]:
                    text += f"\n{lower[row, column]:+z.2f} to {upper[row, column]:+z.2f}"
                axes.text(
                    0.5,
                    0.5,
                    text,
                    transform=axes.transAxes,
                    ha="center",
                    va="center",
                    fontsize=FONT,
                )
                continue
            chosen = [column, row]
            ends = box[0][chosen], box[1][chosen]
            shown = None if points is None else points[:, chosen]
            _limits(axes.set_xlim, mean[column], reach * spread[column], ends, 0)
            if row == column:
                _density(axes, float(mean[row]), float(spread[row]), reach, ends, shown)
                axes.set_title(heading(names[row], 24), fontsize=9)
            else:
                if shown is not None:
                    axes.plot(
                        shown[:, 0], shown[:, 1], ".", color="#555555", ms=3, alpha=0.5, zorder=1
                    )
                outline = ellipse(mean[chosen], covariance[np.ix_(chosen, chosen)], level)
                outline = clipped(outline, *ends)
                axes.fill(outline[:, 0], outline[:, 1], color=PALETTE[0], alpha=0.14, lw=0)
                axes.plot(outline[:, 0], outline[:, 1], color=PALETTE[0], lw=1.3)
                axes.plot(mean[column], mean[row], "+", color=PALETTE[1], ms=8, mew=1.6)
                axes.grid(alpha=0.3, lw=0.5)
                _limits(axes.set_ylim, mean[row], reach * spread[row], ends, 1)
            axes.tick_params(labelsize=8)
            axes.locator_params(nbins=4)
            if row == dim - 1:
                axes.set_xlabel(heading(names[column], 26), fontsize=8)
            else:
                axes.tick_params(labelbottom=False)
            if column == 0 and row > 0:
                axes.set_ylabel(heading(names[row], 26), fontsize=8)
            elif 0 < column < row:
                axes.tick_params(labelleft=False)
    canvas.figure.align_ylabels()
    over = (
        ""
        if points is None
        else " over " + public_rows_note(points, mean - reach * spread, mean + reach * spread)
    )
    canvas.title(f"Released Gaussian, {level:.0%} ellipses{over}")
    return canvas.save(path)


def _limits(set_limits: Any, middle: float, reach: float, ends: Box, place: int) -> None:
    # If the spread of a column is below the rounding error of its mean, the axis would have length zero.
    reach = max(float(reach), 1e-12 * abs(float(middle)), np.finfo(np.float64).tiny)
    # a margin beyond the bounds, so that they are visible
    low = max(float(middle) - reach, float(ends[0][place]) - 0.1 * reach)
    high = min(float(middle) + reach, float(ends[1][place]) + 0.1 * reach)
    set_limits(min(low, float(middle)), max(high, float(middle)))


def _density(
    axes: Any, mean: float, spread: float, reach: float, ends: Box, points: FloatArray | None
) -> None:
    """Draw the density of one column, clipped to its bounds, without a vertical scale."""
    place = np.clip(mean + np.linspace(-reach, reach, 121) * spread, ends[0][0], ends[1][0])
    steps = (place - mean) / spread if spread > 0.0 else np.zeros_like(place)
    height = np.exp(-steps * steps / 2.0)
    axes.fill_between(place, height, color=PALETTE[0], alpha=0.14, lw=0)
    axes.plot(place, height, color=PALETTE[0], lw=1.3)
    if points is not None:
        axes.plot(points[:, 0], np.zeros(len(points)), "|", color="#555555", ms=9, alpha=0.5)
    axes.axvline(mean, color=PALETTE[1], lw=1.2)
    axes.set(ylim=(0.0, 1.12), yticks=[])
    axes.spines[["left", "right", "top"]].set_visible(False)


def plot_correlations(
    matrix: FloatArray, names: tuple[str, ...], note: str, *, path: str | Path | None, ax: Any
) -> Any:
    """Draw a heat map of correlations; `note` states their error."""
    dim = len(matrix)
    size = min(11.0, max(5.0, 0.42 * dim + 2.4))
    canvas = Canvas(size + 0.9, size, ax)
    axes = canvas.panels()[0, 0]
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    colors = canvas.figure.colorbar(image, ax=axes, fraction=0.045, pad=0.02)
    colors.ax.tick_params(labelsize=8)
    if dim <= MAX_NAMED:
        axes.set_xticks(range(dim), names, rotation=90, fontsize=8)
        axes.set_yticks(range(dim), names, fontsize=8)
    else:
        axes.set(xlabel="column", ylabel="column")
        axes.tick_params(labelsize=8)
    if dim <= MAX_NUMBERED:
        for (row, column), value in np.ndenumerate(matrix):
            shade = "white" if abs(value) > 0.6 else "#333333"
            axes.text(
                column, row, f"{value:z.2f}", ha="center", va="center", fontsize=8, color=shade
            )
    axes.set_title(f"Correlations of the released Gaussian\n{note}", fontsize=9)
    return canvas.save(path)


def public_rows_note(rows: FloatArray, low: Any, high: Any) -> str:
    """Return the legend label of public rows (m, k), with the share of them outside the axis limits, (k,) each."""
    beyond = np.any((rows < low) | (rows > high), axis=1).mean() if len(rows) else 0.0
    return "public rows" + (f" ({beyond:.1%} outside)" if beyond else "")
