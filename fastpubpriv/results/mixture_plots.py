"""Plots of a mixture: densities of one column, otherwise a plane with ellipses, released balls and public rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.results.gaussians import circle, clipped
from fastpubpriv.results.plots import (
    FONT,
    PALETTE,
    WIDTH,
    Box,
    Canvas,
    Estimate,
    axis_ends,
    public_rows_note,
    tidy,
)

# Maximum length of an axis over that of its most precise component; components lighter than LIGHT times the heaviest do not
# determine the axes.
MOST_OF_PLANE = 2.0
LIGHT = 0.05
# Maximum number of public points; more would cover the plot.
MOST_POINTS = 5000


def plane_of(result: Any) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Return center (dim,), orthonormal directions (2, dim) and axis labels of the plane with the largest spread of means."""
    middle = result.weights @ result.means
    if result.dim == 2:
        return np.zeros(2), np.eye(2), result.labels
    apart = (result.means - middle) * np.sqrt(result.weights)[:, None]
    between = apart.T @ apart
    within = np.einsum("k,kij->ij", result.weights, result.covariances)
    # The spread between the means has priority; the spread within components only breaks ties.
    scale = float(np.trace(between)) or 1.0
    _, vectors = np.linalg.eigh(
        between + 1e-6 * scale * within / max(float(np.trace(within)), np.finfo(float).tiny)
    )
    axes = vectors[:, ::-1][:, :2].T
    largest = np.take_along_axis(axes, np.argmax(np.abs(axes), axis=1)[:, None], axis=1)
    axes = axes * np.where(largest < 0.0, -1.0, 1.0)
    return middle, axes, tuple(_combination(axis, result.labels) for axis in axes)


def _combination(weights: FloatArray, labels: Sequence[str], most: int = 3) -> str:
    """Return the label of a direction: the columns with the `most` largest weights, if at least a tenth of the largest."""
    size = np.abs(weights)
    named = [
        place
        for place in np.argsort(-size, kind="stable")[:most]
        if size[place] >= 0.1 * size.max()
    ]
    text = " ".join(
        f"{'-' if weights[place] < 0.0 else '+'} {size[place]:.2g} {labels[place]}"
        for place in named
    )
    more = " ..." if (size >= 0.1 * size.max()).sum() > most else ""
    return text.removeprefix("+ ") + more


def plot_mixture(
    result: Any,
    labels: Sequence[str],
    *,
    path: str | Path | None = None,
    ax: Any = None,
    level: float = 0.95,
    points: FloatArray | None = None,
    balls: Sequence[Any] = (),
    box: Box,
) -> Any:
    """Draw densities (one column) or ellipses in the plane of `plane_of`, clipped to the range `box` of what is drawn."""
    shown = (
        np.empty((0, result.dim))
        if points is None
        else points[:: -(-len(points) // MOST_POINTS) or 1]
    )
    canvas = Canvas(WIDTH, 4.2 + 0.17 * len(result.weights) / 3.0, ax)
    axes = canvas.panels()[0, 0]
    if result.dim == 1:
        _densities(axes, result, labels, shown, box)
    else:
        _plane(axes, result, labels, shown, level, balls, box)
    tidy(axes)
    handles, names = axes.get_legend_handles_labels()
    canvas.legend(handles, names, "lower")
    return canvas.save(path)


def _shown_part(
    weights: FloatArray, extents: FloatArray, rows: FloatArray, ends: tuple[float, float]
) -> tuple[float, float]:
    """Return axis limits from `extents` (2, k) of components and the central 99 % of `rows`, within `ends`.

    Light or distant ones may be cut.
    """
    light = weights < LIGHT * weights.max()
    sure = extents[:, ~light].ravel()
    public = np.quantile(rows, (0.005, 0.995)) if len(rows) else rows
    rest = [np.append(each[light], public) for each in (extents.mean(axis=0), *extents)]
    first, last = axis_ends(
        [Estimate("", sure), Estimate("", rest[0], rest[1], rest[2])], False, MOST_OF_PLANE
    )
    room = 0.02 * (last - first)  # so that bounds are visible
    begin = max(first, ends[0] - room)
    end = min(last, ends[1] + room)
    return (float(begin), float(end)) if begin < end else (first, last)


def _densities(axes: Any, result: Any, labels: Sequence[str], points: FloatArray, box: Box) -> None:
    means = result.means[:, 0]
    spreads = np.sqrt(result.covariances[:, 0, 0])
    extents = np.stack([means - 4.0 * spreads, means + 4.0 * spreads])
    low, high = _shown_part(result.weights, extents, points[:, 0], (box[0][0], box[1][0]))
    # The grid resolves every component, however narrow.
    narrow = (m + s * np.linspace(-4, 4, 161) for m, s in zip(means, spreads, strict=True))
    steps = np.concatenate([np.linspace(low, high, 400), *narrow])
    steps = np.unique(np.clip(steps, box[0][0], box[1][0]))
    total = np.zeros_like(steps)
    for index in range(len(result.weights)):
        z = (steps - means[index]) / spreads[index]
        height = (
            result.weights[index]
            * np.exp(-z * z / 2.0)
            / (spreads[index] * math.sqrt(2.0 * math.pi))
        )
        total += height
        color = PALETTE[index % len(PALETTE)]
        axes.fill_between(steps, height, color=color, alpha=0.18, lw=0)
        axes.plot(steps, height, color=color, lw=1.2, label=labels[index])
    axes.plot(steps, total, color="#222222", lw=1.0, ls="--", label="mixture")
    if len(points):
        label = public_rows_note(points, low, high)
        axes.plot(
            points[:, 0], np.zeros(len(points)), "|", color="#222222", ms=9, alpha=0.5, label=label
        )
    axes.set_xlabel(result.labels[0], fontsize=FONT)
    axes.set_ylabel("density", fontsize=FONT)
    axes.set(xlim=(low, high), ylim=(0.0, None))


def _outline(ball: Any, middle: FloatArray, plane: FloatArray, turn: FloatArray) -> FloatArray:
    """Return the outline (len(turn), 2) in the plane of a ball |projection (x - origin) - center| <= radius, on its row space."""
    projection = ball.get("projection")
    origin = ball.get("origin")
    shape = (
        plane
        if projection is None
        else plane @ np.linalg.pinv(np.asarray(projection, dtype=np.float64))
    )
    values, vectors = np.linalg.eigh(shape @ shape.T)
    offset = (0.0 if origin is None else np.asarray(origin, dtype=np.float64)) - middle
    center = plane @ offset + shape @ np.asarray(ball["center"], dtype=np.float64)
    return np.asarray(
        center + float(ball["radius"]) * (turn * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    )


def _plane(
    axes: Any,
    result: Any,
    labels: Sequence[str],
    points: FloatArray,
    level: float,
    balls: Any,
    box: Box,
) -> None:
    middle, plane, names = plane_of(result)
    projected = (points - middle) @ plane.T
    around = circle(level)
    curves: list[Any] = []
    extents = np.empty((2, len(result.weights), 2))
    for index in range(len(result.weights)):
        color = PALETTE[index % len(PALETTE)]
        center = plane @ (result.means[index] - middle)
        values, vectors = np.linalg.eigh(plane @ result.covariances[index] @ plane.T)
        ellipse = center + (around * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        extents[:, index] = ellipse.min(axis=0), ellipse.max(axis=0)
        ellipse = clipped(ellipse, *box)
        axes.fill(ellipse[:, 0], ellipse[:, 1], color=color, alpha=0.14, lw=0, zorder=2)
        curves += axes.plot(
            ellipse[:, 0], ellipse[:, 1], color=color, lw=1.4, zorder=3, label=labels[index]
        )
        axes.plot(*center, "+", color=color, ms=9, mew=1.8, zorder=4)
    turn = around / math.sqrt(-2.0 * math.log1p(-level))
    for i, ball in enumerate(balls):
        at = _outline(ball, middle, plane, turn)
        label = "released ball" if i == 0 else None
        axes.plot(at[:, 0], at[:, 1], color="#222222", lw=0.8, ls=":", zorder=2, label=label)
    # The components determine the limits, as released balls and public rows may lie far outside of them.
    ends = [
        _shown_part(result.weights, extents[..., j], projected[:, j], (box[0][j], box[1][j]))
        for j in (0, 1)
    ]
    longest = max(high - low for low, high in ends)
    for j, (low, high) in enumerate(ends):
        # Equal limits, so that the axes are square with equal scales.
        room = (longest - high + low) / 2.0 if result.dim > 2 else 0.0
        (axes.set_ylim if j else axes.set_xlim)(low - room, high + room)
        for far in np.flatnonzero((extents[1, :, j] < low) | (extents[0, :, j] > high)).tolist():
            curves[far].set_label(f"{labels[far]}, far away")
    if len(projected):
        label = public_rows_note(projected, *np.transpose([axes.get_xlim(), axes.get_ylim()]))
        axes.plot(
            projected[:, 0],
            projected[:, 1],
            ".",
            color="#555555",
            ms=3,
            alpha=0.6,
            zorder=1,
            label=label,
        )
    if result.dim > 2:
        axes.set_aspect("equal", adjustable="box")
    axes.set_xlabel(names[0], fontsize=FONT)
    axes.set_ylabel(names[1], fontsize=FONT)
    axes.grid(alpha=0.3, lw=0.5)
    axes.set_title(f"Ellipses hold {level:.0%} of a component", fontsize=FONT)
