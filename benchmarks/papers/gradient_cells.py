"""One cell of Tables 5 to 10 of paper B: four methods on one data set, each with its best setting of the published grid."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import linalg

from benchmarks.papers.experiment import Row
from benchmarks.papers.gradient_tables_printed import ALGORITHM_1, DP_SGD, MIRROR, THROW_AWAY, Cell
from benchmarks.papers.noise_tables import DELTA, conventional_noise
from benchmarks.papers.samples import SampleArray, SimulatedDraws, normal_rows
from benchmarks.papers.sweeps import Sweep, sweep
from fastpubpriv._types import FloatArray
from fastpubpriv.privacy import ApproxDP, Poisson, epsilon_of, noise_multiplier_for

# and 0, which returns the start
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
)
PRIV_WEIGHTS = tuple(tenth / 10 for tenth in range(11))
PRINTED, HONEST = "printed", "replace-one"
ACCOUNTS = (PRINTED, HONEST)
# Squared norm of the coefficients per column: the paper's loss of the zero vector is 2010.2422.
LENGTH_SQ_PER_COLUMN = 2009.2422 / 2000
SEED = 5


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the problem."""

    dim: int
    n: int
    steps: int
    batch: int
    public_batch: int


PAPER = Size(2000, 30_000, 5000, 500, 200)
QUICK = Size(200, 3000, 500, 50, 20)


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Rows of N(0, I), labels <truth, row> + N(0, 1); the first rows are the public ones."""

    size: Size
    x: SampleArray
    y: SampleArray
    truth: SampleArray


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """The data at one share of public rows, with the fit and the second moment of the public rows."""

    data: Data
    n_pub: int
    fitted: SampleArray
    inverse: SampleArray

    @property
    def throw_away(self) -> float:
        """Return the loss of the public fit."""
        return float(losses_of(self.fitted[None], self.data.truth)[0])


def make_data(size: Size, seed: int = SEED) -> Data:
    """Return the draw that all cells share."""
    x = normal_rows(np.random.SFC64([seed, size.n]), size.n, size.dim)
    truth, noise = (
        normal_rows(np.random.SFC64([seed, size.n, i]), 1, k)[0]
        for i, k in ((1, size.dim), (2, size.n))
    )
    truth = truth * np.float32(
        math.sqrt(LENGTH_SQ_PER_COLUMN * size.dim / np.sum(truth.astype(np.float64) ** 2))
    )
    return Data(size, x, x @ truth + noise, truth)


def split(data: Data, ratio: float) -> Split:
    """Fit the public rows and factor their second moment."""
    n_pub = round(ratio * data.size.n)
    x = data.x[:n_pub]
    y = data.y[:n_pub]
    return Split(data, n_pub, least_squares(x, y), mirror_inverse(x))


def least_squares(x: SampleArray, y: SampleArray) -> SampleArray:
    """Return the minimizer of the public loss; with fewer rows than columns that of minimum norm, to which descent converges."""
    wide = x.astype(np.float64)
    if len(wide) >= wide.shape[1]:
        found = np.linalg.solve(wide.T @ wide, wide.T @ y)
    else:
        found = wide.T @ np.linalg.solve(wide @ wide.T, y.astype(np.float64))
    answer: SampleArray = found.astype(np.float32)
    return answer


def mirror_inverse(x: SampleArray, regularisation: float = 0.01) -> SampleArray:
    """Return (X'X / n + (lambda / d) I)^-1 of public rows, the preconditioner of mirror descent on the squared loss."""
    rows, dim = x.shape
    second = (x.T @ x).astype(np.float64) / rows
    second[np.diag_indices(dim)] += regularisation / dim
    inverse: SampleArray = np.linalg.inv(second).astype(np.float32)
    return inverse


def losses_of(iterates: Any, truth: SampleArray) -> FloatArray:
    """Return the exact expected squared error of predictions on rows of N(0, I), for each iterate."""
    with np.errstate(all="ignore"):
        away = np.sum((np.asarray(iterates, dtype=np.float64) - truth) ** 2, axis=1)
    found: FloatArray = np.where(np.isfinite(away), 1.0 + away, np.inf)
    return found


def noise_for(rate: Fraction, epsilon: float, steps: int, account: str) -> float:
    """Return the noise multiplier, by the paper's software (add or remove a row, a coarse search) or by the paper's definition."""
    if account == PRINTED:
        return conventional_noise(rate, epsilon, steps)
    return noise_multiplier_for(ApproxDP(Fraction(str(epsilon)), DELTA), Poisson(rate), steps)


def run_cell(known: Split, cell: Cell, account: str) -> list[Row]:
    """Return every method's best setting by the true loss, an upper bound on the success of tuning."""
    alone = known.throw_away
    found = [
        _tuned(known, cell, account, ALGORITHM_1, known.n_pub, PRIV_WEIGHTS),
        _tuned(known, cell, account, MIRROR, known.n_pub, (1.0,)),
        _tuned(known, cell, account, DP_SGD, 0, (1.0,)),
    ]
    # alpha = 0 uses public rows alone, and this is the best such method
    if alone < found[0]["loss"]:
        found[0] = setting(ALGORITHM_1, alone, noise=found[0]["noise_multiplier"])
    return [*found, setting(THROW_AWAY, alone)]


def setting(
    method: str,
    loss: float,
    step_size: float = 0.0,
    priv_weight: float = 0.0,
    noise: float = 0.0,
    epsilon: float = 0.0,
) -> Row:
    """Return the row of a method with its best setting of the grid."""
    row = {"method": method, "loss": loss, "step_size": step_size, "priv_weight": priv_weight}
    return row | {"noise_multiplier": noise, "epsilon_replace_one": epsilon}


def _tuned(
    known: Split, cell: Cell, account: str, method: str, first: int, weights: tuple[float, ...]
) -> Row:
    """Return the best of a method's grid of step sizes and weights; the method treats rows from `first` on as private."""
    size = known.data.size
    data = known.data
    x = data.x[first:]
    y = data.y[first:]
    # one over the loader's number of batches
    rate = Fraction(1, math.ceil(Fraction(len(y), size.batch)))
    noise = noise_for(rate, cell.epsilon, size.steps, account)
    eta = np.repeat(STEP_SIZES, len(weights))
    alpha = np.tile(weights, len(STEP_SIZES))
    code = (
        SEED,
        round(1000 * cell.ratio),
        round(1000 * cell.epsilon),
        int(cell.warm),
        ACCOUNTS.index(account),
    )
    start = known.fitted if cell.warm else np.zeros_like(known.fitted)
    last = sweep(
        # The paper's loss has no factor 1/2: its gradient clipped to 1 is twice our gradient clipped to 1/2.
        Sweep(
            step_size=2.0 * eta,
            priv_weight=alpha,
            steps=size.steps,
            clip_norm=0.5,
            noise_multiplier=noise,
            batch_rows=max(1, round(len(y) * rate)),
        ),
        *(x, y),
        draws=SimulatedDraws(
            seed=int.from_bytes(
                hashlib.sha256(repr((*code, method)).encode()).digest()[:8], "little"
            ),
            n=len(y),
            rate=float(rate),
            n_pub=known.n_pub,
            public_rows=min(size.public_batch, known.n_pub),
        ),
        x_pub=data.x[: known.n_pub] if len(weights) > 1 else None,
        y_pub=data.y[: known.n_pub] if len(weights) > 1 else None,
        start=start,
        preconditioner=known.inverse if method == MIRROR else None,
    )
    losses = losses_of(last, data.truth)
    at_start = float(losses_of(start[None], data.truth)[0])
    i = int(np.argmin(losses))
    if not losses[i] < at_start:  # step size 0 returns the start, and reads no private row
        return setting(method, at_start, noise=noise)
    spent = epsilon_of(noise, Poisson(rate), size.steps, DELTA) if alpha[i] > 0 else 0.0
    return setting(method, float(losses[i]), float(eta[i]), float(alpha[i]), noise, spent)


def expected_throw_away(n_pub: int, dim: int, length_sq: float) -> float:
    """Return the expected loss of least squares on rows of N(0, I) with label noise 1; infinite for as many rows as columns."""
    if abs(n_pub - dim) <= 1:
        return math.inf
    if n_pub > dim:
        return 1.0 + dim / (n_pub - dim - 1)
    return 1.0 + length_sq * (1.0 - n_pub / dim) + n_pub / (dim - n_pub - 1)


def throw_away_draws(n_pub: int, dim: int, length_sq: float, draws: int) -> FloatArray:
    """Return losses (draws,) of least squares on fresh public rows, from their exact distribution by Bartlett's decomposition."""
    rng = np.random.default_rng([SEED, n_pub, dim])
    few = min(n_pub, dim)
    many = max(n_pub, dim)
    found = np.empty(draws)
    for i in range(draws):
        factor = np.tril(rng.standard_normal((few, few)), -1)
        factor[np.diag_indices(few)] = np.sqrt(rng.chisquare(many - np.arange(few)))
        noise = linalg.solve_triangular(
            factor, rng.standard_normal(few), lower=True, check_finite=False
        )
        missed = length_sq * rng.beta((dim - n_pub) / 2, n_pub / 2) if n_pub < dim else 0.0
        found[i] = 1.0 + missed + noise @ noise
    return found
