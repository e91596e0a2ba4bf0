"""Functions that draw; matplotlib is imported only when a figure is asked for."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.quantiles import t_quantile
from fastpubpriv.results.gaussians import clipped, correlation_of, ellipse

# Colours that can be told apart in grey and by colour-blind readers.
PALETTE = ("#0b5fa5", "#d1690e", "#3b8f5a", "#8a5aa8", "#7a7a7a", "#b0304f")
# Beyond so many columns pairs of ellipses get too small to read.
MAX_PAIRED = 5
# Panels of histograms.
MAX_PANELS = 12
# Means: panels, beyond so many columns small ones, and beyond more one line over their numbers.
MAX_LARGE_PANELS, MAX_SMALL_PANELS = 12, 60
# Beyond so many columns names overlap, then numbers do.
MAX_NAMED, MAX_NUMBERED = 40, 12


# Lowest and highest values of the columns, (dim,) each.
Box = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """One labelled estimate; `lower` and `upper` are None when it has no interval."""

    label: str
    mean: FloatArray
    lower: FloatArray | None = None
    upper: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """The bins of one histogram: ends and shares of the rows, (b,) each."""

    title: str
    lower: FloatArray
    upper: FloatArray
    frequency: FloatArray


def public_estimate(rows: FloatArray, level: float) -> Estimate:
    """The mean of public rows (m, dim) with Student's interval; for a single row, which shows no spread, without an interval."""
    mean = rows.mean(axis=0)
    if len(rows) < 2:
        return Estimate("public rows", mean)
    reach = t_quantile(0.5 + level / 2.0, len(rows) - 1) * rows.std(axis=0, ddof=1) / math.sqrt(len(rows))
    return Estimate("public rows", mean, mean - reach, mean + reach)


def new_figure(width: float, height: float) -> Any:
    """Return a figure that needs no screen and no global state."""
    try:
        from fastpubpriv.results.figures import ShownFigure
    except ImportError:
        raise InputError("drawing needs matplotlib: pip install 'fastpubpriv[plot]'") from None
    return ShownFigure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: str | Path | None) -> Any:
    """Write the figure to `path` when there is one, and return it."""
    if path is None:
        return figure
    if not hasattr(path, "write"):  # otherwise it is an open file
        path = validation.path_name(path)
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:  # a suffix that Matplotlib does not know
        raise InputError(f"the figure cannot be written: {error}") from None
    return figure


def heading(name: str, width: int) -> str:
    """A name on at most two lines of so many letters, the rest left out."""
    lines = textwrap.wrap(name, width) or [name[:width]]
    return "\n".join(lines if len(lines) <= 2 else [lines[0], lines[1][: width - 3] + "..."])


def draw_panel(axes: Any, estimates: list[Estimate], j: int, title: str, *, hidden: tuple[int, ...] = ()) -> None:
    """Coordinate `j` of the estimates side by side; `hidden` ones keep their place on the axis and are not drawn."""
    for i, estimate in enumerate(estimates):
        if i in hidden:
            continue
        colour = PALETTE[i % len(PALETTE)]
        if estimate.lower is not None and estimate.upper is not None:
            reach = np.array([estimate.mean[j] - estimate.lower[j], estimate.upper[j] - estimate.mean[j]])
            span = np.where(np.isfinite(reach), reach, 0.0).reshape(2, 1)
            axes.errorbar(i, estimate.mean[j], yerr=span, fmt="o", ms=5, capsize=4, color=colour, label=estimate.label)
            for infinite, marker in zip(~np.isfinite(reach), "v^", strict=True):
                if infinite:  # an end without a bound is drawn as an arrow
                    axes.plot(i, estimate.mean[j], marker, ms=11, mfc="none", color=colour)
        else:
            axes.plot(i, estimate.mean[j], "D", ms=5, color=colour, label=estimate.label)
    axes.set_xlim(-0.6, len(estimates) - 0.4)
    axes.set_xticks(range(len(estimates)))
    axes.set_xticklabels([estimate.label for estimate in estimates], rotation=40, ha="right", fontsize=7)
    axes.set_title(heading(title, 30), fontsize=9)
    axes.tick_params(axis="y", labelsize=7)
    axes.grid(axis="y", alpha=0.3, lw=0.5)


def plot_means(
    estimates: list[Estimate],
    *,
    columns: tuple[str, ...] | None = None,
    path: str | Path | None = None,
    level: float = 0.95,
    quantity: str = "mean",
) -> Any:
    """One panel per coordinate in its own unit, the estimates side by side; of very many one line over their numbers."""
    dim = len(estimates[0].mean)
    title = f"{quantity.capitalize()}, with {level:.0%} intervals"
    names = columns if columns is not None else tuple(f"x{j}" for j in range(dim))
    if dim > MAX_SMALL_PANELS:
        figure = new_figure(9.0, 4.0)
        axes = figure.subplots()
        for colour, estimate in zip(PALETTE, estimates, strict=False):
            axes.plot(np.arange(dim), estimate.mean, color=colour, lw=1.2, label=estimate.label)
            if estimate.lower is not None and estimate.upper is not None:
                axes.fill_between(np.arange(dim), estimate.lower, estimate.upper, color=colour, alpha=0.2, lw=0)
        axes.set_xlabel("coordinate")
        axes.set_ylabel(quantity)
        axes.legend(frameon=False)
        axes.set_title(title)
        return save(figure, path)
    large = dim <= MAX_LARGE_PANELS
    across = min(dim, 5) if large else math.ceil(math.sqrt(1.4 * dim))
    down = math.ceil(dim / across)
    figure = new_figure((2.3 if large else 1.5) * across + 0.4, (2.9 if large else 1.45) * down + 0.5)
    grid = figure.subplots(down, across, squeeze=False)
    for j, axes in enumerate(grid.ravel()):
        if j >= dim:
            axes.set_axis_off()
            continue
        draw_panel(axes, estimates, j, names[j])
        if not large:
            axes.set_title(heading(names[j], 20), fontsize=7)
            axes.set_xticks([])
            axes.locator_params(axis="y", nbins=3)
            axes.tick_params(axis="y", labelsize=6)
            axes.yaxis.offsetText.set_fontsize(6)
    if not large:
        figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title, fontsize=10)
    return save(figure, path)


def plot_histograms(drawn: list[Bars], title: str, *, path: str | Path | None = None) -> Any:
    """One panel for each one-dimensional histogram: released bins as bars of density, on a log axis where they spread far.

    Bins without a bar had no row, or too few for the threshold. `path` is written when given; returns the figure.
    """
    if not drawn:
        raise InputError("there is no one-dimensional histogram to draw: products of columns are not drawn")
    if len(drawn) > MAX_PANELS:
        raise InputError(
            f"{len(drawn)} histograms are too many to draw, at most {MAX_PANELS}: ask for fewer columns or levels"
        )
    across = min(len(drawn), 3)
    down = math.ceil(len(drawn) / across)
    figure = new_figure(4.2 * across + 0.4, 2.8 * down + 0.5)
    grid = figure.subplots(down, across, squeeze=False)
    for axes, item in zip(grid.ravel(), drawn, strict=False):
        axes.set_title(item.title, fontsize=9)
        axes.tick_params(labelsize=7)
        if len(item.lower) == 0:
            continue
        lower, upper = item.lower, np.minimum(item.upper, np.finfo(np.float64).max)
        width = upper - lower
        axes.bar(lower, item.frequency / width, width=width, align="edge", color=PALETTE[0], alpha=0.75, lw=0)
        span = np.abs(np.concatenate([lower, upper]))
        smallest = float(span[span > 0.0].min())
        if float(span.max()) > 1e4 * max(smallest, float(width.min())):
            axes.set_xscale("symlog", linthresh=max(smallest, float(width.min())))
            axes.set_yscale("log")
        axes.set_ylabel("share of the rows per unit", fontsize=8)
    for axes in grid.ravel()[len(drawn) :]:
        axes.set_axis_off()
    figure.suptitle(title, fontsize=10)
    return save(figure, path)


def plot_ellipses(
    mean: FloatArray,
    covariance: FloatArray,
    names: tuple[str, ...],
    *,
    path: str | Path | None,
    level: float,
    points: FloatArray | None = None,
    box: Box | None = None,
    correlations: tuple[FloatArray, FloatArray] | None = None,
) -> Any:
    """Ellipses of all pairs of columns that hold a share `level` of a Gaussian each, and on the diagonal the single columns.

    With public rows `points` behind them, cut to the `box` of what the columns can hold, and with intervals of correlations.
    """
    dim = len(mean)
    side = 2.1 if dim > 2 else 2.9
    figure = new_figure(side * dim + 0.8, side * dim + 0.7)
    grid = figure.subplots(dim, dim, squeeze=False)
    spread = np.sqrt(np.diag(covariance))
    correlation = correlation_of(covariance)
    reach = 1.15 * math.sqrt(-2.0 * math.log1p(-level))
    for row in range(dim):
        for column in range(dim):
            axes = grid[row, column]
            if column > row:
                axes.set_axis_off()
                continue
            chosen = [column, row]
            ends = None if box is None else (box[0][chosen], box[1][chosen])
            seen = None if points is None else points[:, chosen]
            _limits(axes.set_xlim, mean[column], reach * spread[column], ends, 0)
            if row == column:
                _density(axes, float(mean[row]), float(spread[row]), reach, ends, seen)
                axes.set_title(heading(names[row], 24), fontsize=9)
            else:
                outline = ellipse(mean[chosen], covariance[np.ix_(chosen, chosen)], level)
                _ellipse(axes, mean[chosen], outline, ends, seen)
                _limits(axes.set_ylim, mean[row], reach * spread[row], ends, 1)
                tilt = correlation[row, column]
                between = ""
                if correlations is not None:
                    between = f"\n{correlations[0][row, column]:+.2f} to {correlations[1][row, column]:+.2f}"
                # In the upper corner that the ellipse leans away from.
                axes.text(
                    0.04 if tilt >= 0.0 else 0.96, 0.96, f"r = {tilt:+.2f}{between}", transform=axes.transAxes,
                    ha="left" if tilt >= 0.0 else "right", va="top", fontsize=7, color="#444444",
                )  # fmt: skip
            axes.tick_params(labelsize=7)
            axes.locator_params(nbins=4)
            if row == dim - 1:
                axes.set_xlabel(heading(names[column], 26), fontsize=8)
            else:
                axes.tick_params(labelbottom=False)
            if column == 0 and row > 0:
                axes.set_ylabel(heading(names[row], 26), fontsize=8)
            elif column > 0 and column < row:
                axes.tick_params(labelleft=False)
    figure.align_ylabels()
    figure.suptitle(f"Released Gaussian, {level:.0%} ellipses", fontsize=10)
    return save(figure, path)


def _limits(set_limits: Any, middle: float, reach: float, ends: Box | None, place: int) -> None:
    # For a column whose spread is less than the rounding error of its mean, the axis would have no length.
    reach = max(float(reach), 1e-12 * abs(float(middle)), np.finfo(np.float64).tiny)
    low, high = float(middle) - reach, float(middle) + reach
    if ends is not None:  # a little beyond the ends is shown too, so that they are seen to be ends
        low = min(max(low, float(ends[0][place]) - 0.1 * reach), float(middle))
        high = max(min(high, float(ends[1][place]) + 0.1 * reach), float(middle))
    set_limits(low, high)


def _ellipse(axes: Any, mean: FloatArray, outline: FloatArray, ends: Box | None, points: FloatArray | None) -> None:
    """One ellipse with its centre, cut to what two columns can hold, over the public rows."""
    if points is not None:
        axes.plot(points[:, 0], points[:, 1], ".", color="#555555", ms=3, alpha=0.5, zorder=1)
    if ends is not None:
        outline = clipped(outline, *ends)
    axes.fill(outline[:, 0], outline[:, 1], color=PALETTE[0], alpha=0.14, lw=0)
    axes.plot(outline[:, 0], outline[:, 1], color=PALETTE[0], lw=1.3)
    axes.plot(mean[0], mean[1], "+", color=PALETTE[1], ms=8, mew=1.6)
    axes.grid(alpha=0.3, lw=0.5)


def _density(axes: Any, mean: float, spread: float, reach: float, ends: Box | None, points: FloatArray | None) -> None:
    """The density of one column, cut to the values that it can hold, without a scale for its height."""
    place = mean + np.linspace(-reach, reach, 121) * spread
    if ends is not None:
        place = np.clip(place, ends[0][0], ends[1][0])
    steps = (place - mean) / spread if spread > 0.0 else np.zeros_like(place)
    height = np.exp(-steps * steps / 2.0)
    axes.fill_between(place, height, color=PALETTE[0], alpha=0.14, lw=0)
    axes.plot(place, height, color=PALETTE[0], lw=1.3)
    if points is not None:
        axes.plot(points[:, 0], np.zeros(len(points)), "|", color="#555555", ms=9, alpha=0.5)
    axes.axvline(mean, color=PALETTE[1], lw=1.2)
    axes.set_ylim(0.0, 1.12)
    axes.set_yticks([])
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)


def plot_correlations(matrix: FloatArray, names: tuple[str, ...], note: str, *, path: str | Path | None) -> Any:
    """A heat map of correlations; `note` says how noisy they are."""
    dim = len(matrix)
    size = min(11.0, max(5.0, 0.42 * dim + 2.4))
    figure = new_figure(size + 0.9, size)
    axes = figure.subplots()
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    colours = figure.colorbar(image, ax=axes, fraction=0.045, pad=0.02)
    colours.ax.tick_params(labelsize=7)
    if dim <= MAX_NAMED:
        small = 8 if dim <= 20 else 6
        axes.set_xticks(
            range(dim), names, rotation=90 if dim > 8 else 40, ha="center" if dim > 8 else "right", fontsize=small
        )
        axes.set_yticks(range(dim), names, fontsize=small)
    else:
        axes.set_xlabel("column")
        axes.set_ylabel("column")
        axes.tick_params(labelsize=7)
    if dim <= MAX_NUMBERED:
        for row in range(dim):
            for column in range(dim):
                value = matrix[row, column]
                shade = "white" if abs(value) > 0.6 else "#333333"
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6.5, color=shade)
    axes.set_title(f"Correlations of the released Gaussian\n{note}", fontsize=9)
    return save(figure, path)
