"""Components that overlap in every column, from two releases: directions of their means, and the mixture along these.

Within an axis-aligned component columns are independent, so every covariance of two columns comes from differences of means. A
factor analysis of a noisy correlation matrix R = B + diag(psi), B of low rank, gives the directions A = v' psi^(-1/2) of the
leading eigenvectors v of psi^(-1/2) B psi^(-1/2), along which a component has variance about one. Along them the mixture follows
from a noisy sum of cosines and sines at public frequencies w, the empirical characteristic function, since that of a mixture with
covariances L L' is

    sum_j p_j exp(i w'mu_j - |L_j'w|^2 / 2),

where the factors L of axis-aligned components are diagonal.
It is fitted by damped Gauss-Newton steps from many starts; all of this reads released values only, and costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.estimators.linalg import spectrum
from fastpubpriv.kernels.mixture_rows import waves
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import axis_method
from fastpubpriv.mixtures.axis_aligned.gauss_newton import DampedFits, Equations, damped_steps
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture, by_score
from fastpubpriv.results.public_draws import draw_normals, draw_uniforms

# ---- Directions.


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """A correlation matrix (dim, dim) as B + diag(psi): the factors' part B, and the variances psi of the columns alone."""

    shared: FloatArray
    own: FloatArray

    @property
    def directions(self) -> FloatArray:
        """Directions (dim, dim) of B by descending variance, orthonormal in the metric psi."""
        root = np.sqrt(self.own)
        _, vectors = spectrum(self.shared / np.outer(root, root))
        return vectors[:, ::-1].T / root


def visible_factors(correlations: FloatArray, noise: float) -> int:
    """Return the number of eigenvalues of a matrix with zero diagonal above EDGE times the spectrum of its noise alone."""
    edge = 2.0 * math.sqrt(len(correlations)) * noise
    values, _ = spectrum(correlations)
    return int(np.count_nonzero(values > tuning.EDGE * edge))


def factors_of(correlations: FloatArray, rank: int) -> Factors:
    """Return the principal factors of correlations with zero diagonal."""
    dim = len(correlations)
    shares = np.zeros(dim)  # of the columns' variances that the factors explain
    part = np.zeros((dim, dim))
    for _ in range(tuning.FACTOR_STEPS if rank else 0):
        values, vectors = spectrum(correlations + np.diag(shares))
        leading = vectors[:, dim - rank :] * np.sqrt(np.maximum(values[dim - rank :], 0.0))
        part = leading @ leading.T
        shares = 0.5 * shares + 0.5 * np.clip(np.diag(part), 0.0, tuning.MOST_SHARED)
    return Factors(part, 1.0 - shares)


def orthonormal(rows: FloatArray, own: FloatArray) -> FloatArray:
    """Return up to MOST_DIRECTIONS rows made orthonormal in the metric `own`, without those nearly spanned by earlier ones."""
    root = np.sqrt(own)
    basis = np.zeros((0, rows.shape[1]))
    for row in rows * root:
        unit = row / max(float(np.linalg.norm(row)), 1e-300)
        rest = unit - basis.T @ (basis @ unit)
        length = float(np.linalg.norm(rest))
        if length >= tuning.LEAST_NEW and len(basis) < tuning.MOST_DIRECTIONS:
            basis = np.vstack([basis, rest / length])
    return basis / root


# ---- The statistic of a row.


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Coordinates t = matrix (x - center) of the rows of a group, and public frequencies (count, len(matrix)) there."""

    group: int
    center: FloatArray
    matrix: FloatArray
    spread: FloatArray  # covariance of t
    frequencies: FloatArray

    @classmethod
    def of(
        cls, group: int, center: FloatArray, matrix: FloatArray, spread: FloatArray
    ) -> Projection:
        """Return the projection with its frequencies, of which the lowest see the whole extent of the group."""
        size = len(matrix)
        of_direction, most = tuning.FREQUENCIES
        count = min(of_direction * size, most)
        normals = draw_normals((count, size), random_state=axis_method.PUBLIC_SEED + 7)
        units = normals / np.linalg.norm(normals, axis=1, keepdims=True)
        extents = np.sqrt(np.maximum(np.einsum("ma,ab,mb->m", units, spread, units), 1.0))
        low, high = tuning.FREQUENCY_RANGE
        lowest = low / extents
        places = draw_uniforms(count, random_state=axis_method.PUBLIC_SEED + 8)
        lengths = lowest * (high / lowest) ** places
        return cls(group, center, matrix, spread, units * lengths[:, None])

    @property
    def size(self) -> int:
        """Length of the statistic of a row."""
        return 2 * len(self.frequencies)

    def coordinates(self, rows: FloatArray) -> FloatArray:
        """Return t of rows (n, dim), (len(matrix), n); sums have one order, so that a row has the same bits beside any others."""
        gaps = (rows - self.center).T
        return _combined(self.matrix, gaps)

    def statistic(self, rows: FloatArray) -> FloatArray:
        """Return cosines and sines of frequencies times t, (n, size)."""
        parts = waves(_combined(self.frequencies, self.coordinates(rows)))
        return np.concatenate(parts).T


def _combined(matrix: FloatArray, columns: FloatArray) -> FloatArray:
    """Return matrix @ columns (n columns), term by term in the order of the rows of `columns`, from rounded products."""
    out: FloatArray = matrix[:, :1] * columns[0]
    for entries, column in zip(matrix.T[1:], columns[1:], strict=True):
        out += entries[:, None] * column
    return out


# ---- The mixture along the directions, from the characteristic function.


@dataclass(frozen=True, slots=True, eq=False)
class Waves:
    """A released characteristic function: at each frequency the mean cosines, then sines; and their standard deviation."""

    frequencies: FloatArray
    values: FloatArray
    std: float


def starting_means(k: int, spread: FloatArray) -> FloatArray:
    """Return k means of covariance `spread` for each start, (starts, k, len(spread))."""
    values, vectors = spectrum(spread)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    count = tuning.WAVE_STARTS[0]
    normals = draw_normals((count, k, len(spread)), random_state=axis_method.PUBLIC_SEED + 9)
    means: FloatArray = normals @ root.T
    return means


@dataclass(frozen=True, slots=True, eq=False)
class WaveFit:
    """A fitted mixture along directions, and the penalized sum of squares of the fit."""

    mixture: GaussianMixture
    score: float


class WaveParts(NamedTuple):
    """Weights (size, k), means and diagonals of factors (size, k, dim), and their entries below (size, k, entries)."""

    weights: FloatArray
    means: FloatArray
    stds: FloatArray
    entries: FloatArray


@dataclass(frozen=True, slots=True)
class WaveModel:
    """Mixtures of k components along `dim` directions by flat parameters (size, p), and their characteristic function.

    Parameters are log weights, means, log diagonals of lower factors L of the covariances, and, of full covariances, the entries
    of L below its diagonal.
    """

    k: int
    dim: int
    full: bool = False

    @property
    def below(self) -> tuple[IntArray, IntArray]:
        """Rows and columns of the entries below a diagonal, none of axis-aligned components."""
        rows, columns = np.tril_indices(self.dim if self.full else 0, -1)
        return rows, columns

    @property
    def worth(self) -> float:
        """Decrease of the sum of squares from which another component is kept: so much for each of its parameters."""
        return tuning.WORTH_OF_COMPONENT * (1 + 2 * self.dim + len(self.below[0]))

    @property
    def penalties(self) -> FloatArray:
        """Weights of squared parameters in the sum of squares, (p,)."""
        of_logits, of_logs = tuning.WAVE_PRIORS
        of_component = self.k * self.dim
        entries = self.k * len(self.below[0])
        return np.repeat([of_logits, 0.0, of_logs], [self.k, of_component, of_component + entries])

    def start(self, means: FloatArray) -> FloatArray:
        """Return the parameters of mixtures of these means (size, k, dim), of equal weights and of covariance one."""
        start = np.zeros((len(means), len(self.penalties)))
        start[:, self.k : self.k * (1 + self.dim)] = means.reshape(len(means), -1)
        return start

    def centered(self, parameters: FloatArray) -> FloatArray:
        """Return parameters of the same mixtures whose log weights have mean zero, and whose log deviations are in their range."""
        at = parameters.copy()
        at[:, : self.k] -= at[:, : self.k].mean(axis=1, keepdims=True)
        logs = at[:, self.k * (1 + self.dim) : self.k * (1 + 2 * self.dim)]
        np.clip(logs, *tuning.LOG_DEVIATIONS, out=logs)
        return at

    def parts(self, parameters: FloatArray) -> WaveParts:
        """Return weights, means, diagonals of factors and the entries below of each mixture."""
        size = len(parameters)
        of_component = self.k * self.dim
        ends = np.cumsum([self.k, of_component, of_component])
        logits, means, logs, entries = np.split(parameters, ends, axis=1)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        shape = size, self.k, -1
        stds = np.exp(np.clip(logs, *tuning.LOG_DEVIATIONS))
        of_entries = size, self.k, len(self.below[0])
        return WaveParts(
            weights, means.reshape(shape), stds.reshape(shape), entries.reshape(of_entries)
        )

    def mixtures(self, parameters: FloatArray) -> GaussianMixture:
        """Return the batch of mixtures."""
        at = self.parts(parameters)
        if not self.full:
            return GaussianMixture(at.weights, at.means, at.stds)
        rows, columns = self.below
        roots = at.stds[..., None] * np.eye(self.dim)
        roots[:, :, rows, columns] = at.entries
        return GaussianMixture(at.weights, at.means, roots @ roots.swapaxes(2, 3))

    def waves(
        self, parameters: FloatArray, frequencies: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return cosines, then sines (size, 2 count) of the mixtures, and derivatives (size, 2 count, p) by the parameters."""
        at = self.parts(parameters)
        rows, columns = self.below
        size = len(parameters)
        count = len(frequencies)
        phases = at.means @ frequencies.T
        of_logs = at.stds[..., None] * frequencies.T
        scaled = of_logs.copy()  # L'w
        for place, (row, column) in enumerate(zip(rows, columns, strict=True)):
            scaled[:, :, column] += at.entries[:, :, place, None] * frequencies[:, row]
        weights = at.weights[:, :, None]
        shares = weights * np.exp(-0.5 * np.square(scaled).sum(axis=2))
        cosines = shares * np.cos(phases)
        sines = shares * np.sin(phases)
        parts = np.concatenate([cosines, sines], axis=2)
        turned = np.concatenate([-sines, cosines], axis=2)
        values = parts.sum(axis=1)
        by_logits = parts - weights * values[:, None, :]
        by_means = turned[:, :, None, :] * np.tile(frequencies.T, 2)
        by_logs = -parts[:, :, None, :] * np.tile(scaled * of_logs, 2)
        of_entries = scaled[:, :, columns] * frequencies.T[rows]
        by_entries = -parts[:, :, None, :] * np.tile(of_entries, 2)
        # no entries below the diagonal of axis-aligned components, or along one direction
        lengths = [self.k, self.k * self.dim, self.k * self.dim, self.k * len(rows)]
        slopes = [
            part.reshape(size, length, 2 * count)
            for part, length in zip(
                (by_logits, by_means, by_logs, by_entries), lengths, strict=True
            )
        ]
        return values, np.concatenate(slopes, axis=1).swapaxes(1, 2)

    def refined(self, data: Waves, start: FloatArray, steps: int) -> DampedFits:
        """Return the parameters after damped Gauss-Newton steps, and penalized sums of squares."""
        penalties = self.penalties

        def evaluate(parameters: FloatArray) -> tuple[FloatArray, Equations]:
            values, slopes = self.waves(parameters, data.frequencies)
            off = (data.values - values) / data.std
            squares = np.square(off).sum(axis=1) + np.square(parameters) @ penalties

            def equations(rows: BoolArray) -> tuple[FloatArray, FloatArray]:
                scaled = slopes[rows] / data.std
                curvature = scaled.swapaxes(1, 2) @ scaled + np.diag(penalties)
                gradient = np.einsum("snp,sn->sp", scaled, off[rows])
                return curvature, gradient - parameters[rows] * penalties

            return squares, equations

        def moved(parameters: FloatArray, step: FloatArray) -> FloatArray:
            return parameters + np.clip(step, -1.0, 1.0)

        return damped_steps(
            self.centered(start), evaluate, moved, steps=steps, damping=3e-3, ridge=1e-9
        )

    def fit(self, data: Waves, spread: FloatArray) -> WaveFit:
        """Return the best fit, its batch axis of length one, from starts with means of covariance `spread`."""
        few = tuning.WAVE_STARTS[1]
        short, long = tuning.WAVE_STEPS
        first = self.refined(data, self.start(starting_means(self.k, spread)), short)
        leading = by_score(first.score)[:few]
        last = self.refined(data, first.parameters[leading], long)
        best = by_score(last.score)[:1]
        return WaveFit(self.mixtures(last.parameters[best]), float(last.score[best[0]]))


def numbers_of_components(scores: list[list[float]], worths: list[float], most: int) -> list[int]:
    """Return the number of components of each group, at most `most` together.

    `scores` are sums of squares of each group's fits of 1, 2, ... components, `worths` the decreases from which another component
    of it is leading. Greedily, the group whose one or two additional components lower the sum most gets them if each is worth its
    parameters.
    """
    numbers = [1] * len(scores)
    while True:
        gains = []
        for group, (each, worth) in enumerate(zip(scores, worths, strict=True)):
            for more in (1, 2):
                larger = numbers[group] + more
                if larger <= len(each) and sum(numbers) + more <= most:
                    gain = each[numbers[group] - 1] - each[larger - 1]
                    gains.append((gain / more - worth, group, more))
        best = max(gains, default=(0.0, 0, 0))
        if not best[0] > 0.0:
            return numbers
        numbers[best[1]] += best[2]
