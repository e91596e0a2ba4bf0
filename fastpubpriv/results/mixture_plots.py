"""Drawing a released mixture: densities in one column, else a plane with ellipses, released balls and public rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.results import plots as plotting
from fastpubpriv.results.gaussians import circle, clipped
from fastpubpriv.results.plots import Box

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
    figure = plotting.new_figure(6.4, 4.6)
    axes = figure.subplots()
    if result.dim == 1:
        _densities(axes, result, points, box)
    else:
        _plane(axes, result, points, level, balls, box)
    axes.tick_params(labelsize=8)
    return plotting.save(figure, path)


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
        colour = plotting.PALETTE[index % len(plotting.PALETTE)]
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
        colour = plotting.PALETTE[index % len(plotting.PALETTE)]
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
