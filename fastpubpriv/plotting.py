"""Drawing, with matplotlib imported only when a figure is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv.errors import InputError

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# Colours that stay apart in grey and for colour-blind readers.
PALETTE = ("#0b5fa5", "#d1690e", "#3b8f5a", "#8a5aa8", "#7a7a7a", "#b0304f")


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """One labelled estimate; `lower` and `upper` are None when it has no interval."""

    label: str
    mean: FloatArray
    lower: FloatArray | None = None
    upper: FloatArray | None = None


def new_figure(width: float, height: float) -> Any:
    """Return a figure that needs no screen and no global state."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("drawing needs matplotlib: pip install 'fastpubpriv[plot]'") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Any, path: str | Path | None) -> Any:
    """Write the figure to `path` when there is one, and return it."""
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def draw_panel(axes: Any, estimates: list[Estimate], j: int, title: str, *, hidden: tuple[int, ...] = ()) -> None:
    """Coordinate `j` of the estimates side by side; `hidden` ones keep their place on the axis and are not drawn."""
    for i, estimate in enumerate(estimates):
        if i in hidden:
            continue
        colour = PALETTE[i % len(PALETTE)]
        if estimate.lower is not None and estimate.upper is not None:
            span = [[estimate.mean[j] - estimate.lower[j]], [estimate.upper[j] - estimate.mean[j]]]
            axes.errorbar(i, estimate.mean[j], yerr=span, fmt="o", ms=5, capsize=4, color=colour)
        else:
            axes.plot(i, estimate.mean[j], "D", ms=5, color=colour)
    axes.set_xlim(-0.6, len(estimates) - 0.4)
    axes.set_xticks(range(len(estimates)))
    axes.set_xticklabels([estimate.label for estimate in estimates], rotation=40, ha="right", fontsize=7)
    axes.set_title(title, fontsize=9)
    axes.tick_params(axis="y", labelsize=7)
    axes.grid(axis="y", alpha=0.3, lw=0.5)


def plot_means(
    estimates: list[Estimate],
    *,
    columns: tuple[str, ...] | None = None,
    path: str | Path | None = None,
    level: float = 0.95,
    title: str | None = None,
    max_panels: int = 12,
) -> Any:
    """One small panel per coordinate, the estimates side by side; beyond `max_panels` coordinates one line plot over the index."""
    dim = len(estimates[0].mean)
    names = columns if columns is not None else tuple(f"x{j}" for j in range(dim))
    if dim > max_panels:
        figure = new_figure(9.0, 4.0)
        axes = figure.subplots()
        for colour, estimate in zip(PALETTE, estimates, strict=False):
            axes.plot(np.arange(dim), estimate.mean, color=colour, lw=1.2, label=estimate.label)
            if estimate.lower is not None and estimate.upper is not None:
                axes.fill_between(np.arange(dim), estimate.lower, estimate.upper, color=colour, alpha=0.2, lw=0)
        axes.set_xlabel("coordinate")
        axes.set_ylabel("mean")
        axes.legend(frameon=False)
        axes.set_title(title or f"Mean, with {level:.0%} intervals")
        return save(figure, path)
    across = min(dim, 5)
    down = math.ceil(dim / across)
    figure = new_figure(2.3 * across + 0.4, 2.9 * down + 0.5)
    grid = figure.subplots(down, across, squeeze=False)
    for j, axes in enumerate(grid.ravel()):
        if j >= dim:
            axes.set_axis_off()
            continue
        draw_panel(axes, estimates, j, names[j])
    figure.suptitle(title or f"Mean, with {level:.0%} intervals", fontsize=10)
    return save(figure, path)
