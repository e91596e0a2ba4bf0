"""Twins of `kernels.densities` in NumPy and SciPy: normals in cells of the line, and the statistic of rows under a mixture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from fastpubpriv._types import FloatArray, IntArray

_ROOT = 1.0 / math.sqrt(2.0 * math.pi)
_FAR = 1e70  # standard deviations; squares of squares stay finite


def _inside(z: FloatArray) -> FloatArray:
    """Normal mass between neighbours of ascending z (..., edges), by the nearer tail: Phi near one has no digits left."""
    tail = ndtr(-np.abs(z))
    left, right = tail[..., :-1], tail[..., 1:]
    above = z > 0.0
    mass: FloatArray = np.where(above[..., :-1], left - right, right - left)
    around = above[..., 1:] & ~above[..., :-1]
    mass[around] = ndtr(z[..., 1:][around]) - left[around]
    return mass


def cell_masses(means: FloatArray, stds: FloatArray, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mass of each normal (size, components) between ascending edges, (size, components, cells), and the edges in stds."""
    with np.errstate(all="ignore"):
        z = (edges - means[:, :, None]) / stds[:, :, None]
        return _inside(z), z


def _densities(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    density = _ROOT * np.exp(-0.5 * z * z)
    tilted = np.where(np.abs(z) < 40.0, z, 0.0) * density
    return np.diff(density), np.diff(tilted)


def cell_parts(means: FloatArray, stds: FloatArray, edges: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Differences of Phi(z), phi(z) and z phi(z) from edge to edge, (size, components, cells) each."""
    with np.errstate(all="ignore"):
        z = (edges - means[:, :, None]) / stds[:, :, None]
        return _inside(z), *_densities(z)


def cell_slopes(
    counts: FloatArray,
    weights: FloatArray,
    masses: tuple[FloatArray, FloatArray],
    total: float,
    noise_variance: float,
    rows: IntArray,
    fixed_std: bool,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Slopes of expected counts, the same times the precision, and weighted residuals, of the mixtures `rows`."""
    inside, z = (part[rows] for part in masses)
    with np.errstate(all="ignore"):
        density, tilted = _densities(z)
    shares = weights[rows][:, :, None]
    mass = np.sum(shares * inside, axis=1)
    blocks = [shares * (inside - mass[:, None, :]), -shares * density]
    if not fixed_std:
        blocks.append(-shares * tilted)
    expected, slopes = total * mass, total * np.concatenate(blocks, axis=1)
    precision = 1.0 / (noise_variance + np.maximum(expected, 0.0) + 1e-9)
    return slopes, slopes * precision[:, None, :], precision * (counts - expected)


class RowStatistic:
    """Statistic of rows under a mixture, row by row in NumPy."""

    def __init__(self, means: FloatArray, stds: FloatArray) -> None:
        self._means, self._stds = means, stds

    def distances(self, chunk: Any) -> tuple[FloatArray, Any, FloatArray]:
        """Squared lengths (components, n) of rows in standard deviations, whether each is finite (n,), and the rows so divided."""
        rows = np.asarray(chunk, dtype=np.float64)
        with np.errstate(all="ignore"):
            z = np.clip((rows - self._means[:, None]) / self._stds[:, None], -_FAR, _FAR)
            length_sq = np.zeros(z.shape[:2])
            for column in np.moveaxis(z, 2, 0):
                length_sq += column * column
        return length_sq, np.isfinite(rows).all(axis=1).astype(np.uint8), z

    def moments(
        self,
        distances: tuple[FloatArray, Any, FloatArray],
        share: FloatArray,
        radii: tuple[float, float, float],
        out: FloatArray,
    ) -> None:
        """Fill out (n, components (1 + dim or 1 + 2 dim))."""
        length_sq, whole, z = distances
        parts = [(radii[0] * share).T]
        with np.errstate(all="ignore"):
            factor = share * np.minimum(1.0, radii[1] / np.sqrt(np.maximum(length_sq, 1e-300)))
            parts += list(z * factor[:, :, None])
            if radii[2] > 0.0:
                square = (z * z - 1.0) * math.sqrt(0.5)
                length_sq = np.zeros(square.shape[:2])
                for column in np.moveaxis(square, 2, 0):
                    length_sq += column * column
                factor = share * np.minimum(1.0, radii[2] / np.sqrt(np.maximum(length_sq, 1e-300)))
                parts += list(square * factor[:, :, None])
        out[:] = np.where(whole[:, None] != 0, np.concatenate(parts, axis=1), 0.0)
