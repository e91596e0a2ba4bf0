"""Algorithm 1 of paper B and its rivals on a linear model, many settings side by side as rows of one matrix.

All settings share their batches and one noise vector a step, so each is distributed as if it had run alone, and one product of
matrices serves all. Rows and noise are float32 and simulated: what runs here is a figure, never a release. (Differences of settings
carry no noise, so a real grid pays for each of them.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.experiments.samples import SampleArray

PUBLIC_GRADIENTS = ("raw", "clip", "sphere")


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Rows of one kind, and how a step takes some of them.

    Attributes
    ----------
    x : (n, d) float32
        Rows.
    y : (n,) float32
        Labels.
    rate : float or None
        Each row takes part with this chance (Poisson); None for batches of fixed size.
    size : int
        Expected number of rows in a batch: the divisor of sums, whatever their number is.
    """

    x: SampleArray
    y: SampleArray
    size: int
    rate: float | None = None

    def draw(self, rng: np.random.Generator) -> tuple[SampleArray, SampleArray]:
        """One fresh batch."""
        n = len(self.y)
        count = self.size if self.rate is None else int(rng.binomial(n, self.rate))
        if count >= n:
            return self.x, self.y
        # A sample of binomial size without replacement is a Poisson sample.
        taken = rng.choice(n, count, replace=False, shuffle=False)
        return self.x[taken], self.y[taken]


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """The settings of one run.

    Attributes
    ----------
    step_size : (c,) float64
        eta.
    priv_weight : (c,) float64
        alpha: 1 is private rows alone, 0 public ones.
    noise_multiplier : float
        Noise on the sum of clipped gradients, in units of the clip norm.
    inverse : (d, d) float32 or None
        Multiplies the private gradients of the last `preconditioned` settings (mirror descent).
    preconditioned : int
        How many.
    """

    step_size: FloatArray
    priv_weight: FloatArray
    noise_multiplier: float
    inverse: SampleArray | None = None
    preconditioned: int = 0


def slopes(residual: SampleArray, norms: SampleArray, clip_norm: float, form: str = "clip") -> SampleArray:
    """Scalars s, so that s x is a row's gradient 2 r x, brought to at most ("clip") or to exactly ("sphere") the norm; (c, k)."""
    residual *= np.float32(2.0)
    if form == "raw":
        return residual
    most = np.float32(clip_norm) / np.maximum(norms, np.float32(1e-30))
    if form == "sphere":
        np.sign(residual, out=residual)
        residual *= most
        return residual
    np.clip(residual, -most, most, out=residual)
    return residual


def gradients(
    batch: tuple[SampleArray, SampleArray], iterates: SampleArray, divisor: int, clip_norm: float, form: str = "clip"
) -> SampleArray:
    """Sum of a batch's gradients of (prediction - label)^2 at each iterate, over the divisor; (c, d)."""
    x, y = batch
    norms = np.sqrt(np.einsum("ij,ij->i", x, x))
    residual = iterates @ x.T
    residual -= y
    found: SampleArray = slopes(residual, norms, clip_norm, form) @ x
    found *= np.float32(1.0 / divisor)
    return found


def descend(
    start: SampleArray,
    private: Batches,
    public: Batches | None,
    settings: Settings,
    *,
    steps: int,
    rng: np.random.Generator,
    clip_norm: float = 1.0,
    public_gradient: str = "clip",
    every: int = 0,
) -> tuple[SampleArray, list[SampleArray]]:
    """Run all settings from `start` (d,); the last iterates (c, d), and those after every `every` steps.

    Algorithm 1: w <- w - eta (alpha [sum of clipped private gradients + noise] / K_priv + (1 - alpha) mean public gradient).
    """
    at_private = np.flatnonzero(settings.priv_weight > 0)
    at_public = np.flatnonzero(settings.priv_weight < 1) if public is not None else at_private[:0]
    rates = settings.step_size[:, None]
    private_rates = (rates * settings.priv_weight[:, None])[at_private].astype(np.float32)
    public_rates = (rates * (1.0 - settings.priv_weight[:, None]))[at_public].astype(np.float32)
    noise = np.float32(settings.noise_multiplier * clip_norm / private.size)
    iterates = np.repeat(start.astype(np.float32)[None, :], len(rates), axis=0)
    kept = []
    with np.errstate(all="ignore"):  # a rival may run away
        for step in range(steps):
            moves = []
            if len(at_private):
                found = gradients(private.draw(rng), iterates[at_private], private.size, clip_norm)
                found += noise * rng.standard_normal(len(start), dtype=np.float32)
                if settings.inverse is not None:
                    last = slice(len(found) - settings.preconditioned, None)
                    found[last] = found[last] @ settings.inverse
                moves.append((at_private, found, private_rates))
            if public is not None and len(at_public):
                found = gradients(public.draw(rng), iterates[at_public], public.size, clip_norm, public_gradient)
                moves.append((at_public, found, public_rates))
            for at, found, by in moves:
                found *= by
                iterates[at] -= found
            if every and (step + 1) % every == 0:
                kept.append(iterates.copy())
    return iterates, kept


def least_squares(x: SampleArray, y: SampleArray) -> SampleArray:
    """The minimiser of the public loss; with fewer rows than columns the shortest one, which descent from zero would reach."""
    wide = x.astype(np.float64)
    if len(wide) >= wide.shape[1]:
        found = np.linalg.solve(wide.T @ wide, wide.T @ y)
    else:
        found = wide.T @ np.linalg.solve(wide @ wide.T, y.astype(np.float64))
    answer: SampleArray = found.astype(np.float32)
    return answer


def mirror_inverse(x: SampleArray, regularisation: float = 0.01) -> SampleArray:
    """(X'X / n + (lambda / d) I)^-1 of public rows: mirror descent of the squared loss multiplies gradients by it."""
    rows, dim = x.shape
    second = (x.T @ x).astype(np.float64) / rows
    second[np.diag_indices(dim)] += regularisation / dim
    inverse: SampleArray = np.linalg.inv(second).astype(np.float32)
    return inverse


def losses(iterates: SampleArray, truth: SampleArray, noise_var: float = 1.0) -> FloatArray:
    """Squared error of predictions on fresh rows of N(0, I), for each iterate: exact, so no test rows are needed."""
    with np.errstate(all="ignore"):
        away = np.sum((iterates.astype(np.float64) - truth) ** 2, axis=1)
    found: FloatArray = np.where(np.isfinite(away), noise_var + away, np.inf)
    return found
