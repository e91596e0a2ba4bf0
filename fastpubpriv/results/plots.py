"""Functions that draw; matplotlib is imported only when a figure is asked for."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.public_draws import t_quantile
from fastpubpriv.results.gaussians import circle, clipped, correlation_of, ellipse

# Colours that can be told apart in grey and by colour-blind readers.
PALETTE = ("#0b5fa5", "#d1690e", "#3b8f5a", "#8a5aa8", "#7a7a7a", "#b0304f")
# Beyond so many columns pairs of ellipses get too small to read.
MAX_PAIRED = 5
# Panels of histograms.
MAX_PANELS = 12
# Means: panels, beyond so many columns small ones, and beyond more one line over their numbers.
MAX_LARGE_PANELS, MAX_SMALL_PANELS = 12, 60
MAX_BARS = 60  # of counts of keys
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


def plot_counts(
    names: Sequence[str],
    counts: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    title: str,
    *,
    path: str | Path | None = None,
) -> Any:
    """A bar for each key, from the top down, with its interval."""
    figure = new_figure(6.0, 0.6 + 0.24 * max(len(names), 4))
    axes = figure.subplots()
    places = np.arange(len(names))
    axes.barh(places, np.maximum(counts, 0.0), color=PALETTE[0], alpha=0.75, lw=0)
    axes.hlines(places, lower, upper, color=PALETTE[1], lw=1.5)
    axes.set_yticks(places)
    axes.set_yticklabels([heading(name, 40) for name in names], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("rows", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(axis="x", alpha=0.3, lw=0.5)
    axes.set_title(heading(title, 60), fontsize=9)
    return save(figure, path)


def plot_forest(
    names: Sequence[str],
    columns: Sequence[str],
    values: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    title: str,
    *,
    path: str | Path | None = None,
) -> Any:
    """One panel for each column, and in it a line for each name, from the top down: a point and its interval; all (names, columns).

    An infinite end goes on to the edge of the panel.
    """
    shown = min(len(columns), MAX_LARGE_PANELS)
    figure = new_figure(1.4 + 3.0 * shown, 0.8 + 0.2 * max(len(names), 4))
    places = np.arange(len(names))
    for j, axes in enumerate(figure.subplots(1, shown, squeeze=False, sharey=True)[0]):
        ends = np.concatenate([each[:, j][np.isfinite(each[:, j])] for each in (values, lower, upper)])
        low, high = (float(ends.min()), float(ends.max())) if len(ends) else (0.0, 1.0)
        room = 0.04 * (high - low) or 1.0
        axes.set_xlim(low - room, high + room)
        axes.hlines(
            places, np.maximum(lower[:, j], low - room), np.minimum(upper[:, j], high + room), color=PALETTE[0], lw=1.5
        )
        axes.plot(values[:, j], places, "o", ms=3.5, color=PALETTE[1])
        axes.set_yticks(places)
        axes.set_yticklabels([heading(name, 40) for name in names], fontsize=7)
        axes.tick_params(axis="x", labelsize=7)
        axes.grid(axis="x", alpha=0.3, lw=0.5)
        axes.set_title(heading(columns[j], 30), fontsize=9)
    figure.axes[0].invert_yaxis()
    figure.suptitle(heading(title, 60), fontsize=9)
    return save(figure, path)


def plot_description(described: Any, *, path: str | Path | None = None, level: float = 0.95) -> Any:
    """A panel for each column of a Description: quantiles, and below them the mean; or bars of the commonest texts."""
    shown = described.labels[:MAX_SMALL_PANELS]
    figure = new_figure(6.4, 0.5 + 0.75 * len(shown))
    grid = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
    for j, axes in enumerate(grid):
        axes.set_ylabel(heading(shown[j], 14), rotation=0, ha="right", va="center", fontsize=8)
        axes.set_yticks([])
        axes.tick_params(axis="x", labelsize=7)
        if j >= described.numbers:
            counts = described.texts[j - described.numbers]
            keys = counts.named[: counts.top]
            lower, upper = (ends[keys] / max(counts.n_priv, 1) for ends in counts.confidence_interval(level))
            axes.bar(np.arange(len(keys)), counts.share[keys], color=PALETTE[0], alpha=0.75)
            axes.vlines(np.arange(len(keys)), lower, upper, color=PALETTE[1])
            axes.set_xticks(np.arange(len(keys)), [heading(counts._label(key), 14) for key in keys])
            continue
        for name, values, ends, place in (
            ("quantiles", described.quantiles.quantile[j], described.quantiles.confidence_interval(level), 0.5),
            ("mean", described.means.mean[[j]], described.means.confidence_interval(level), 0.0),
        ):
            colour = PALETTE[0] if name == "quantiles" else PALETTE[1]
            low, high = (np.where(np.isfinite(end[j]), end[j], values) for end in ends)
            axes.hlines(np.full(len(values), place), low, high, color=colour, lw=2.5, alpha=0.5)
            axes.plot(values, np.full(len(values), place), "|" if name == "quantiles" else "o", ms=9, color=colour)
        axes.set_ylim(-0.5, 1.0)
    figure.suptitle(f"Quantiles (|), means (o) and shares, with {level:.0%} intervals", fontsize=9)
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


# Coefficients with their intervals, one strip for each column: columns have units of their own, the levels of one share theirs.

MOST_STRIPS = 60  # lines of text that a figure has room for
_APART = 0.32  # of a line, between estimates of the same term


def strips(terms: tuple[str, ...], source: list[int] | None, levels: list[bool]) -> list[tuple[str, list[int]]]:
    """Terms that share a unit, by title: the levels of a column, and every other term by itself."""
    found: list[tuple[str, list[int]]] = []
    last = None
    for place, name in enumerate(terms):
        column = None if source is None or not levels[place] else source[place]
        if column is not None and column == last:
            found[-1][1].append(place)
        else:
            found.append((name.partition("=")[0] if column is not None else name, [place]))
        last = column
    return found


def plot_coefficients(
    estimates: list[Estimate],
    *,
    terms: tuple[str, ...],
    groups: list[tuple[str, list[int]]],
    title: str,
    unit: str,
    path: str | Path | None = None,
) -> Any:
    """One strip for each group, its terms below each other; of more than `MOST_STRIPS` terms those with the strongest estimate."""
    groups, left_out = _strongest(estimates[0], groups)
    heights = [len(places) + 1.1 for _, places in groups]
    figure = new_figure(7.2, 0.21 * sum(heights) + 1.0)
    grid = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (_, places) in zip(grid, groups, strict=True):
        axes.axvline(0.0, color="0.6", lw=0.8)
        lines = np.arange(len(places), dtype=np.float64)
        for i, estimate in enumerate(estimates):
            _draw(axes, estimate, np.array(places), lines + _APART * (i - (len(estimates) - 1) / 2.0), PALETTE[i])
        axes.set_yticks(lines, [terms[place] for place in places], fontsize=7)
        axes.set_ylim(len(places) - 0.4, -0.6)
        axes.tick_params(axis="x", labelsize=6.5, pad=1.5)
        axes.grid(axis="x", alpha=0.3, lw=0.5)
    grid[0].legend(frameon=False, fontsize=7, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)
    grid[-1].set_xlabel(unit, fontsize=8)
    figure.suptitle(title + (f" (the {left_out} weakest terms are left out)" if left_out else ""), fontsize=10)
    return save(figure, path)


def _draw(axes: Any, estimate: Estimate, places: Any, lines: Any, colour: str) -> None:
    mean, reach = estimate.mean[places], None
    if estimate.lower is not None and estimate.upper is not None:
        reach = np.nan_to_num(np.array([mean - estimate.lower[places], estimate.upper[places] - mean]), posinf=0.0)
    axes.errorbar(mean, lines, xerr=reach, fmt="o", ms=3.0, lw=1.2, capsize=1.5, color=colour, label=estimate.label)


def _strongest(first: Estimate, groups: list[tuple[str, list[int]]]) -> tuple[list[tuple[str, list[int]]], int]:
    """Groups with the terms that are longest in their intervals, in their order, and how many terms are left out."""
    size = len(first.mean)
    if size <= MOST_STRIPS or first.lower is None:
        return groups, 0
    with np.errstate(all="ignore"):
        strength = np.nan_to_num(np.abs(first.mean) / np.maximum(first.mean - first.lower, 1e-300), nan=0.0)
    kept = set(np.argsort(-strength, kind="stable")[:MOST_STRIPS].tolist())
    shown = [(title, [place for place in places if place in kept]) for title, places in groups]
    return [each for each in shown if each[1]], size - MOST_STRIPS


# Drawing a released mixture: densities in one column, else a plane with ellipses, released balls and public rows.

# With more public points, they would cover the whole picture.
MOST_POINTS = 5000


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The mixture of a picture: arrays over its components, a name for each of them, names of the columns."""

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    labels: Sequence[str]
    columns: tuple[str, ...] | None

    @property
    def dim(self) -> int:
        """Number of columns."""
        return len(self.means[0])


def plane_of(result: Drawn) -> tuple[FloatArray, FloatArray, tuple[str, str]]:
    """Centre (dim,), two orthonormal directions (2, dim) and labels of the plane in which the means lie farthest apart.

    Two columns are drawn as they are. Fewer than three means leave a direction free; the released covariances choose it.
    """
    middle = result.weights @ result.means
    if result.dim == 2:
        names = result.columns or ("x0", "x1")
        return np.zeros(2), np.eye(2), (names[0], names[1])
    apart = (result.means - middle) * np.sqrt(result.weights)[:, None]
    between = apart.T @ apart
    within = np.einsum("k,kij->ij", result.weights, result.covariances)
    # First the spread between the means; where it leaves a direction free, the spread within components decides.
    scale = float(np.trace(between)) or 1.0
    _, vectors = np.linalg.eigh(between + 1e-6 * scale * within / max(float(np.trace(within)), np.finfo(float).tiny))
    axes = vectors[:, ::-1][:, :2].T
    largest = np.take_along_axis(axes, np.argmax(np.abs(axes), axis=1)[:, None], axis=1)
    return middle, axes * np.where(largest < 0.0, -1.0, 1.0), ("first direction", "second direction")


def plot_mixture(
    result: Drawn,
    *,
    path: str | Path | None = None,
    level: float = 0.95,
    points: FloatArray | None = None,
    balls: Sequence[Any] = (),
    bounds: Any = None,
) -> Any:
    """Draw a mixture; `path` is written when given. Returns the figure (needs matplotlib).

    One column: the density and its components. More: ellipses that hold a share `level` of each component, in the plane in which
    the means lie farthest apart, with the public rows `points` if they are given, and the released balls that were cut out in
    that very space. `bounds` cut the picture of one or two columns.
    """
    box = validation.column_bounds(bounds, result.dim, endless=True) if result.dim <= 2 else None
    if points is not None and len(points) > MOST_POINTS:
        points = points[:: -(-len(points) // MOST_POINTS)]
    figure = new_figure(6.4, 4.6)
    axes = figure.subplots()
    if result.dim == 1:
        _densities(axes, result, points, box)
    else:
        _plane(axes, result, points, level, balls, box)
    axes.tick_params(labelsize=8)
    return save(figure, path)


def _densities(axes: Any, result: Drawn, points: FloatArray | None, box: Box | None) -> None:
    means, spreads = result.means[:, 0], np.sqrt(result.covariances[:, 0, 0])
    low, high = float((means - 4.0 * spreads).min()), float((means + 4.0 * spreads).max())
    # Fine enough for the narrowest component, wherever it is.
    steps = np.unique(
        np.concatenate(
            [
                np.linspace(low, high, 400),
                *(m + s * np.linspace(-4, 4, 161) for m, s in zip(means, spreads, strict=True)),
            ]
        )
    )
    if box is not None:
        steps = np.unique(np.clip(steps, box[0][0], box[1][0]))
    total = np.zeros_like(steps)
    for index in range(len(result.weights)):
        z = (steps - means[index]) / spreads[index]
        height = result.weights[index] * np.exp(-z * z / 2.0) / (spreads[index] * math.sqrt(2.0 * math.pi))
        total += height
        colour = PALETTE[index % len(PALETTE)]
        axes.fill_between(steps, height, color=colour, alpha=0.18, lw=0)
        axes.plot(steps, height, color=colour, lw=1.2, label=result.labels[index])
    axes.plot(steps, total, color="#222222", lw=1.0, ls="--", label="mixture")
    if points is not None:
        axes.plot(points[:, 0], np.zeros(len(points)), "|", color="#222222", ms=9, alpha=0.5, label="public rows")
    axes.set_xlabel((result.columns or ("x0",))[0], fontsize=9)
    axes.set_ylabel("density", fontsize=9)
    axes.set_ylim(bottom=0.0)
    axes.legend(frameon=False, fontsize=8)
    axes.set_title(f"Released mixture of {len(result.weights)}", fontsize=10)


def _outline(ball: Any, middle: FloatArray, plane: FloatArray, turn: FloatArray) -> FloatArray:
    """Outline (len(turn), 2) in the plane of the ball |projection (x - origin) - center| <= radius.

    A projection that scales the columns makes an ellipse of it; directions that it leaves free are not drawn.
    """
    projection, origin = ball.get("projection"), ball.get("origin")
    shape = plane if projection is None else plane @ np.linalg.pinv(np.asarray(projection, dtype=np.float64))
    values, vectors = np.linalg.eigh(shape @ shape.T)
    offset = (0.0 if origin is None else np.asarray(origin, dtype=np.float64)) - middle
    center = plane @ offset + shape @ np.asarray(ball["center"], dtype=np.float64)
    outline: FloatArray = center + float(ball["radius"]) * (turn * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return outline


def _plane(
    axes: Any, result: Drawn, points: FloatArray | None, level: float, balls: Sequence[Any], box: Box | None
) -> None:
    middle, plane, labels = plane_of(result)
    if points is not None:
        seen = (points - middle) @ plane.T
        axes.plot(seen[:, 0], seen[:, 1], ".", color="#555555", ms=3, alpha=0.6, zorder=1, label="public rows")
    around = circle(level)
    for index in range(len(result.weights)):
        colour = PALETTE[index % len(PALETTE)]
        center = plane @ (result.means[index] - middle)
        values, vectors = np.linalg.eigh(plane @ result.covariances[index] @ plane.T)
        ellipse = center + (around * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        ellipse = ellipse if box is None else clipped(ellipse, *box)
        axes.fill(ellipse[:, 0], ellipse[:, 1], color=colour, alpha=0.14, lw=0, zorder=2)
        axes.plot(ellipse[:, 0], ellipse[:, 1], color=colour, lw=1.4, zorder=3, label=result.labels[index])
        axes.plot(*center, "+", color=colour, ms=9, mew=1.8, zorder=4)
    limits = axes.get_xlim(), axes.get_ylim()
    angle = np.linspace(0.0, 2.0 * math.pi, 181)
    turn = np.column_stack([np.cos(angle), np.sin(angle)])
    shown = False
    for ball in balls:
        at = _outline(ball, middle, plane, turn)
        axes.plot(
            at[:, 0], at[:, 1], color="#222222", lw=0.8, ls=":", zorder=2, label=None if shown else "released ball"
        )
        shown = True
    # A ball may be many times larger than the components that it separates.
    axes.set_xlim(limits[0])
    axes.set_ylim(limits[1])
    if result.dim > 2:
        axes.set_aspect("equal", adjustable="box")
    axes.set_xlabel(labels[0], fontsize=9)
    axes.set_ylabel(labels[1], fontsize=9)
    axes.grid(alpha=0.3, lw=0.5)
    axes.legend(framealpha=0.85, edgecolor="none", fontsize=8)  # ellipses may fill the whole picture
    axes.set_title(f"Released mixture of {len(result.weights)}, {level:.0%} ellipses", fontsize=10)
