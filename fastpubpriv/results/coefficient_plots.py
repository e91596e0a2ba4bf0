"""Coefficients with their intervals, one strip for each column: columns have units of their own, the levels of one share theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv.results.plots import PALETTE, Estimate, new_figure, save

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
