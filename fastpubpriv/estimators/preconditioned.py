"""The methods of `estimate_gaussian` in coordinates that public rows bound (paper A, Algorithm 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import lifted
from fastpubpriv.estimators.lifted import Learned, Prepared, Problem
from fastpubpriv.estimators.matrices import symmetric
from fastpubpriv.estimators.preconditioner import Preconditioner, TraceBound, precondition, trace_bound
from fastpubpriv.estimators.radii import Mode
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import GaussianResult
from fastpubpriv.session import Method, Run

DEFAULT_COND_MAX = 1e6
# Beyond it a rounding error of the largest eigenvalue outweighs the smallest many times over, even after the rounds.
LARGEST_CONDITION = 1e100


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Coordinates v = (x - center) / scale in which the covariance is at most the identity, with public bounds on the rest."""

    center: FloatArray
    scale: FloatArray
    mean_radius: float
    condition: float
    source: str

    def base(self, dim: int) -> AffineMap:
        """The map x -> v as the kernels take it."""
        if self.scale.ndim == 0:
            return AffineMap(dim=dim, center=self.center, matrix=np.full(dim, 1.0 / float(self.scale)))
        inverse = Preconditioner.inverse_of(self.scale)
        return AffineMap(dim=dim, center=self.center, matrix=inverse, lower=True)

    def mean_back(self, mean: FloatArray) -> FloatArray:
        """A mean of v in data units."""
        moved: FloatArray = self.scale * mean if self.scale.ndim == 0 else self.scale @ mean
        return self.center + moved

    def covariance_back(self, covariance: FloatArray) -> FloatArray:
        """A covariance of v in squared data units."""
        if self.scale.ndim == 0:
            scaled: FloatArray = covariance * float(self.scale) ** 2
            return scaled
        return symmetric(self.scale @ covariance @ self.scale.T)


def public_frame(
    x_pub: FloatArray, *, failure_prob: float, pub_priv_gap: float, cond_max: float, require_precondition: bool
) -> Frame:
    """Precondition with at least d + 1 public rows in general position, else bound the trace with at least two distinct rows."""
    n_pub, dim = x_pub.shape
    if n_pub > dim or require_precondition:
        try:
            guarantee = precondition(x_pub, pub_priv_gap=pub_priv_gap, failure_prob=failure_prob)
        except InputError:
            if require_precondition or n_pub < 2:
                raise
        else:
            return Frame(
                guarantee.center,
                np.asarray(guarantee.scale),
                guarantee.mean_radius,
                guarantee.eig_upper / guarantee.eig_lower,
                "public rows (preconditioner)",
            )
    return trace_frame(x_pub, failure_prob=failure_prob, pub_priv_gap=pub_priv_gap, cond_max=cond_max)


def trace_frame(x_pub: FloatArray, *, failure_prob: float, pub_priv_gap: float, cond_max: float) -> Frame:
    """Bound the trace with at least two distinct public rows; `cond_max` bounds the condition of the covariance."""
    bound: TraceBound = trace_bound(x_pub, pub_priv_gap=pub_priv_gap, failure_prob=failure_prob)
    return Frame(
        bound.center,
        np.asarray(math.sqrt(bound.eig_upper)),
        bound.mean_radius,
        cond_max * bound.slack,
        "public rows (trace bound)",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the public rows are trusted with, and how; see `estimate_gaussian`."""

    failure_prob: float
    pub_priv_gap: float = 0.0
    mode: Mode = "practical"
    rounds: int | None = None
    cond_max: float = DEFAULT_COND_MAX
    require_precondition: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Preconditioned:
    """A call that is ready: the public frame, and what the method makes of it."""

    method: Method
    frame: Frame
    problem: Problem
    n_pub: int

    def prepare(self, run: Run, rounds: int | None) -> tuple[Prepared, str | None]:
        """Refuse or predict, before the debit; the prediction, and a warning if it is bad."""
        prepared: Prepared = self.method.prepare(run, self.problem, rounds)
        if not (prepared.covariance_error > 1.0 or prepared.status != "ok"):
            return prepared, None
        trouble = f"predicted relative covariance error {prepared.covariance_error:.3g}"
        if prepared.status != "ok":
            trouble = f"{prepared.rounds} rounds do not resolve the smallest eigenvalues, which may be far off,"
        return prepared, (
            f"estimate_gaussian: {trouble} for {run.rows.n} rows; pass method='ladder', a larger budget, more private rows, "
            "more public rows, or fewer columns"
        )

    def estimate(self, run: Run, prepared: Prepared) -> GaussianResult:
        """Release, after the debit, and put the result together."""
        frame = self.frame
        learned: Learned = self.method.learn(run, frame.base(run.rows.dim), self.problem, rounds=prepared.rounds)
        covariance = frozen(frame.covariance_back(learned.covariance))
        mean_map = frame.scale * learned.mean_factor if frame.scale.ndim == 0 else frame.scale @ learned.mean_factor
        return GaussianResult(
            mean=frozen(frame.mean_back(learned.mean)),
            covariance=covariance,
            mean_noise_std=frozen(learned.mean_noise_std * np.sqrt(np.einsum("ij,ij->i", mean_map, mean_map))),
            rounds=prepared.rounds if learned.rounds is None else learned.rounds,
            status=prepared.status,
            predicted_covariance_error=prepared.covariance_error,
            predicted_mean_error=prepared.mean_error,
            method=self.method.name,
            columns=run.rows.columns,
            provenance={"center": frame.source, "scale": frame.source, "radius": frame.source},
            **run.fields(self.n_pub),
        )


def preconditioned(method: Method, x_pub: FloatArray, n_priv: int, options: Options) -> Preconditioned:
    """The public frame of a call, half of the failure probability spent on it."""
    frame = public_frame(
        x_pub,
        failure_prob=options.failure_prob / 2.0,
        pub_priv_gap=options.pub_priv_gap,
        cond_max=max(options.cond_max, 1.0),
        require_precondition=options.require_precondition,
    )
    if not frame.condition <= LARGEST_CONDITION:
        raise InputError(
            f"the covariance could be off the public one by a factor of {frame.condition:.3g}, beyond what can be computed with; "
            "pass a larger failure_prob, a smaller pub_priv_gap or cond_max, or more public rows"
        )
    problem = lifted.Problem(
        dim=x_pub.shape[1],
        n=n_priv,
        mean_radius=frame.mean_radius,
        condition=frame.condition,
        mode=options.mode,
        failure_prob=options.failure_prob,
    )
    return Preconditioned(method, frame, problem, len(x_pub))
