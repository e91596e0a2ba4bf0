"""One cell of Tables 5 to 10 of paper B: four methods on one data set, each with its best setting of the published grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import linalg

from fastpubpriv._types import FloatArray
from fastpubpriv.experiments import descents
from fastpubpriv.experiments.gradient_tables_printed import ALGORITHM_1, DP_SGD, MIRROR, THROW_AWAY, Cell
from fastpubpriv.experiments.noise_tables import DELTA, conventional_noise
from fastpubpriv.experiments.samples import SampleArray, normal_rows
from fastpubpriv.privacy import ApproxDP, Poisson, epsilon_of, noise_multiplier_for

STEP_SIZES = (
    0.01,
    0.03,
    0.05,
    0.07,
    0.09,
    0.1,
    0.3,
    0.5,
    0.7,
    0.9,
    1.1,
    1.3,
    1.5,
    1.7,
    1.9,
)  # and 0, which is the start
PRIV_WEIGHTS = tuple(tenth / 10 for tenth in range(11))
PRINTED, HONEST = "printed", "replace-one"
ACCOUNTS = (PRINTED, HONEST)
# The paper's loss of the zero vector is 2010.2422: its coefficients are this long.
LENGTH_SQ_PER_COLUMN = 2009.2422 / 2000
SEED = 5


@dataclass(frozen=True, slots=True)
class Size:
    """How large the problem is."""

    dim: int
    n: int
    steps: int
    batch: int
    public_batch: int


PAPER = Size(2000, 30_000, 5000, 500, 200)
QUICK = Size(200, 3000, 500, 50, 20)


@dataclass(frozen=True, slots=True)
class Best:
    """A method with the setting of the grid that comes closest to the truth."""

    method: str
    loss: float
    step_size: float
    priv_weight: float
    noise_multiplier: float
    epsilon: float


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Rows of N(0, I), labels <truth, row> + N(0, 1); the first rows are the public ones."""

    size: Size
    x: SampleArray
    y: SampleArray
    truth: SampleArray


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """The data at one share of public rows, with what public rows alone say."""

    data: Data
    n_pub: int
    fitted: SampleArray
    inverse: SampleArray

    @property
    def public(self) -> descents.Batches:
        """Public rows; a batch is never larger than there are."""
        size = min(self.data.size.public_batch, self.n_pub)
        return descents.Batches(self.data.x[: self.n_pub], self.data.y[: self.n_pub], size)

    def private(self, n_pub: int) -> tuple[descents.Batches, Fraction]:
        """Rows after the first `n_pub`, and the rate of their batches: one over the number of a loader's batches."""
        x, y = self.data.x[n_pub:], self.data.y[n_pub:]
        rate = Fraction(1, math.ceil(Fraction(len(y), self.data.size.batch)))
        return descents.Batches(x, y, max(1, round(len(y) * rate)), float(rate)), rate

    @property
    def throw_away(self) -> float:
        """Loss of the public fit."""
        return float(descents.losses(self.fitted[None], self.data.truth)[0])


def make_data(size: Size) -> Data:
    """The one draw that all cells share."""
    x = normal_rows(np.random.SFC64([SEED, size.n]), size.n, size.dim)
    truth, noise = (normal_rows(np.random.SFC64([SEED, size.n, i]), 1, k)[0] for i, k in ((1, size.dim), (2, size.n)))
    truth = truth * np.float32(math.sqrt(LENGTH_SQ_PER_COLUMN * size.dim / np.sum(truth.astype(np.float64) ** 2)))
    return Data(size, x, x @ truth + noise, truth)


def split(data: Data, ratio: float) -> Split:
    """Fit the public rows and factor their second moment."""
    n_pub = round(ratio * data.size.n)
    x, y = data.x[:n_pub], data.y[:n_pub]
    return Split(data, n_pub, descents.least_squares(x, y), descents.mirror_inverse(x))


def noise_for(rate: Fraction, epsilon: float, steps: int, account: str) -> float:
    """The noise multiplier: by the paper's software (add or remove a row, a coarse search), or by the paper's definition."""
    if account == PRINTED:
        return conventional_noise(rate, epsilon, steps)
    return noise_multiplier_for(ApproxDP(Fraction(str(epsilon)), DELTA), Poisson(rate), steps)


def run_cell(known: Split, cell: Cell, account: str) -> list[Best]:
    """Every method's best setting. The best is chosen by the true loss, which is the best case that tuning could reach."""
    size, truth = known.data.size, known.data.truth
    start = known.fitted if cell.warm else np.zeros_like(known.fitted)
    at_start = float(descents.losses(start[None], truth)[0])
    alone = known.throw_away
    code = [SEED, round(1000 * cell.ratio), round(1000 * cell.epsilon), cell.warm, ACCOUNTS.index(account)]
    rng = np.random.default_rng(code)

    private, rate = known.private(known.n_pub)
    noise = noise_for(rate, cell.epsilon, size.steps, account)
    cost = epsilon_of(noise, Poisson(rate), size.steps, DELTA)
    eta, alpha, mirror = grid()
    settings = descents.Settings(eta, alpha, noise, inverse=known.inverse, preconditioned=mirror)
    last, _ = descents.descend(start, private, known.public, settings, steps=size.steps, rng=rng)
    losses = descents.losses(last, truth)
    found = [
        best(ALGORITHM_1, losses[:-mirror], eta[:-mirror], alpha[:-mirror], at_start, noise, cost),
        best(MIRROR, losses[-mirror:], eta[-mirror:], alpha[-mirror:], at_start, noise, cost),
    ]
    if alone < found[0].loss:  # alpha = 0 is a method on public rows alone, and this is the best of them
        found[0] = Best(ALGORITHM_1, alone, 0.0, 0.0, noise, 0.0)

    everyone, rate = known.private(0)
    noise = noise_for(rate, cell.epsilon, size.steps, account)
    cost = epsilon_of(noise, Poisson(rate), size.steps, DELTA)
    eta = np.array(STEP_SIZES)
    settings = descents.Settings(eta, np.ones(len(eta)), noise)
    last, _ = descents.descend(start, everyone, None, settings, steps=size.steps, rng=rng)
    found.append(best(DP_SGD, descents.losses(last, truth), eta, settings.priv_weight, at_start, noise, cost))
    found.append(Best(THROW_AWAY, alone, 0.0, 0.0, 0.0, 0.0))
    return found


def grid() -> tuple[FloatArray, FloatArray, int]:
    """Step sizes and weights of all settings, and how many of them, the last ones, are those of mirror descent."""
    eta = np.concatenate([np.repeat(STEP_SIZES, len(PRIV_WEIGHTS)), STEP_SIZES])
    alpha = np.concatenate([np.tile(PRIV_WEIGHTS, len(STEP_SIZES)), np.ones(len(STEP_SIZES))])
    return eta, alpha, len(STEP_SIZES)


def best(
    method: str,
    losses: FloatArray,
    eta: FloatArray,
    alpha: FloatArray,
    at_start: float,
    noise: float,
    cost: float,
) -> Best:
    """The least loss; the step size 0 is the start, and reads no private row."""
    i = int(np.argmin(losses))
    if not losses[i] < at_start:
        return Best(method, at_start, 0.0, 0.0, noise, 0.0)
    spent = cost if alpha[i] > 0 else 0.0
    return Best(method, float(losses[i]), float(eta[i]), float(alpha[i]), noise, spent)


def expected_throw_away(n_pub: int, dim: int, length_sq: float) -> float:
    """Loss of least squares on rows of N(0, I) with label noise 1, in expectation; infinite where rows and columns are as many."""
    if abs(n_pub - dim) <= 1:
        return math.inf
    if n_pub > dim:
        return 1.0 + dim / (n_pub - dim - 1)
    return 1.0 + length_sq * (1.0 - n_pub / dim) + n_pub / (dim - n_pub - 1)


def throw_away_draws(n_pub: int, dim: int, length_sq: float, draws: int) -> FloatArray:
    """Losses of least squares on fresh public rows, (draws,), from their exact law: Bartlett's factor of a Wishart matrix."""
    rng = np.random.default_rng([SEED, n_pub, dim])
    few, many = min(n_pub, dim), max(n_pub, dim)
    found = np.empty(draws)
    for i in range(draws):
        factor = np.tril(rng.standard_normal((few, few)), -1)
        factor[np.diag_indices(few)] = np.sqrt(rng.chisquare(many - np.arange(few)))
        noise = linalg.solve_triangular(factor, rng.standard_normal(few), lower=True, check_finite=False)
        missed = length_sq * rng.beta((dim - n_pub) / 2, n_pub / 2) if n_pub < dim else 0.0
        found[i] = 1.0 + missed + noise @ noise
    return found
