"""Twin of `kernels.densities` in NumPy: the statistic of rows under a mixture."""

import math

import numpy as np

_FAR = 1e70  # standard deviations; fourth powers stay finite


class RowStatistic:
    """Statistic of rows under a mixture, row by row in NumPy."""

    def __init__(self, means, stds):
        self._means, self._stds = means, stds

    def distances(self, chunk):
        """Return squared distances (components, n) in standard deviations, whether each row is finite (n,), and the scaled rows."""
        rows = np.asarray(chunk, dtype=np.float64)
        with np.errstate(all="ignore"):
            z = np.clip((rows - self._means[:, None]) / self._stds[:, None], -_FAR, _FAR)
            length_sq = np.zeros(z.shape[:2])
            for column in np.moveaxis(z, 2, 0):
                length_sq += column * column
        return length_sq, np.isfinite(rows).all(axis=1).astype(np.uint8), z

    def moments(self, distances, share, radii, out):
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


def waves(phases):
    """Cosines and sines by NumPy, NaN for phases beyond 2^20 and for none."""
    near = np.where(np.abs(phases) <= 2.0**20, phases, np.nan)
    return np.cos(near), np.sin(near)


def shares_at(squares, constants):
    """Responsibilities by NumPy, of distances that are none or too large as of the largest."""
    logs = constants[:, None] - 0.5 * np.where(squares < 2.0**20, squares, 2.0**20)
    shares = np.exp(logs - logs.max(axis=0))
    return shares / shares.sum(axis=0)
