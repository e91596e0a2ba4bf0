"""Made mixtures of known components, and how well a tree tells them apart; shared by the tests of this folder."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from spies import seeded

from benchmarks.papers.mixture_cases import Truth
from fastpubpriv import ApproxDP, Rows, learn_axis_aligned_mixture, session
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.sources import private_rows


def opened(rows, budget, *, draws=10**7, random_state=None, threads=1):
    """A run on rows whose budget has been debited."""
    data = rows if isinstance(rows, Rows) else private_rows(rows)
    run = session.start(
        "test",
        data,
        budget,
        draws=draws,
        ledger=None,
        random_state=random_state,
        threads=threads,
        progress=False,
    )
    run.account.open()
    return run


@dataclass(frozen=True)
class Mixture:
    """Means (k, dim), factors of the covariances (k, dim, dim) and weights (k,)."""

    means: np.ndarray
    factors: np.ndarray
    weights: np.ndarray

    @property
    def covariances(self):
        return self.factors @ np.swapaxes(self.factors, 1, 2)

    def draw(self, rng, n):
        """Rows (n, dim) and their components (n,)."""
        labels = rng.choice(len(self.weights), size=n, p=self.weights)
        return self.of(rng, labels), labels

    def of(self, rng, labels):
        """One row for each label."""
        rows = rng.normal(size=(len(labels), self.means.shape[1]))
        for j in range(len(self.weights)):
            rows[labels == j] = self.means[j] + rows[labels == j] @ self.factors[j].T
        return rows


def rotation(rng, dim):
    return np.linalg.qr(rng.normal(size=(dim, dim)))[0]


def separated(rng, dim, k, separation, *, scales=None, weights=None, eigenvalues=(0.2, 1.0)):
    """Components at equal distances: `separation` times their scale, 1 by default, with random covariances of that scale.

    The first component of each new scale sits at `separation` times the scale from all others.
    """
    scales = np.ones(k) if scales is None else np.asarray(scales, dtype=float)
    means = separation * scales[:, None] / np.sqrt(2.0) * np.eye(k, dim)
    factors = np.array(
        [
            rotation(rng, dim) * np.sqrt(rng.uniform(*eigenvalues, size=dim)) * scale
            for scale in scales
        ]
    )
    weights = np.full(k, 1.0 / k) if weights is None else np.asarray(weights)
    return Mixture(means @ rotation(rng, dim).T, factors, weights)


def log_density(mixture, rows):
    weights, means, covariances = mixture
    parts = []
    for weight, mean, covariance in zip(weights, means, covariances, strict=True):
        root = np.linalg.cholesky(covariance)
        white = np.linalg.solve(root, (rows - mean).T)
        constant = np.log(weight) - np.log(np.diag(root)).sum()
        parts.append(constant - 0.5 * np.square(white).sum(axis=0))
    return logsumexp(parts, axis=0)


def total_variation(truth, result, draws=20_000):
    """By draws of both: their mean has a standard error below .004."""
    rng = np.random.default_rng(2)
    at = result.weights, result.means, result.covariances
    factors = np.linalg.cholesky(result.covariances)
    answer = Mixture(result.means, factors, result.weights)
    rows = np.concatenate([truth.draw(rng, draws)[0], answer.draw(rng, draws)[0]])
    first = log_density((truth.weights, truth.means, truth.covariances), rows)
    return float(np.abs(np.tanh((first - log_density(at, rows)) / 2.0)).mean())


def matched(leaves, labels):
    """Share of rows whose leaf is the one matched to their component."""
    ids, reached = np.unique(leaves, return_inverse=True)
    table = np.zeros((len(ids), labels.max() + 1))
    np.add.at(table, (reached, labels), 1.0)
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns].sum() / len(labels)


def order_of(result, mixture):
    """For each true component the position of the released one that is nearest, as a permutation."""
    away = np.linalg.norm(result.means[None] - mixture.means[:, None], axis=2)
    return linear_sum_assignment(away)[1]


def gaussian_errors(mean, covariance, true_mean, factor):
    """Relative Frobenius error of a covariance, and Mahalanobis error of a mean."""
    inverse = np.linalg.inv(factor)
    off = inverse @ covariance @ inverse.T - np.eye(len(inverse))
    return np.linalg.norm(off), np.linalg.norm(inverse @ (mean - true_mean))


def errors_of(result, mixture):
    """The errors of each covariance and of each mean, and error of each weight."""
    order = order_of(result, mixture)
    truths = zip(mixture.means, mixture.factors, strict=True)
    found = [
        gaussian_errors(result.means[j], result.covariances[j], *true)
        for j, true in zip(order, truths, strict=True)
    ]
    covariance, mean = np.array(found).T
    return covariance, mean, result.weights[order] - mixture.weights


# ---- Rows for the tests of axis-aligned mixtures, and calls with repeatable noise -----------------------------------

APPROX = ApproxDP(1, 1e-6)
COMMON = {"threads": 1, "progress": False}

FAR_APART = Truth.line([0.3, 0.7], [-1e9, 500.0], [0.2, 40.0])
BLOBS = Truth(
    np.array([0.5, 0.3, 0.2]),
    np.array([[0.0, 0.0, 1e6], [20.0, 5.0, 1e6], [20.0, -30.0, 1e6 + 4.0]]),
    np.array([[1.0, 2.0, 0.5], [3.0, 1.0, 0.5], [1.0, 4.0, 1.0]]),
)


def one(weights, means, stds):
    return GaussianMixture(np.array([weights]), np.array([means]), np.array([stds]))


def learn(x, n_components, *, budget=APPROX, **options):
    return seeded(
        learn_axis_aligned_mixture, x, n_components=n_components, budget=budget, **COMMON, **options
    )


def axis_matched(result, truth):
    """Worst error over the true components of the nearest released one: of means in stds, of log stds, of weights."""
    worst = np.zeros(3)
    for weight, mean, std in zip(truth.weights, truth.means, truth.stds, strict=True):
        away = np.abs((result.means - mean) / std).max(axis=1)
        nearest = int(np.argmin(away))
        ratio = np.abs(np.log(np.sqrt(result.variances[nearest]) / std)).max()
        worst = np.maximum(worst, [away[nearest], ratio, abs(result.weights[nearest] - weight)])
    return worst
