"""Mean and covariance from d + 1 public rows, or two (paper A, Algorithm 2)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv import run as running
from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import AccuracyWarning, InputError
from fastpubpriv.estimators import lifted
from fastpubpriv.estimators.learners import METHODS
from fastpubpriv.estimators.matrices import symmetric
from fastpubpriv.estimators.preconditioner import Preconditioner, TraceBound, precondition, trace_bound
from fastpubpriv.estimators.radii import Mode, failure_probability
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.parameters import FAILURE_PROB, shared_docs
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import GaussianResult

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


@shared_docs
def estimate_gaussian(
    x_priv: Any,
    *,
    x_pub: Any,
    budget: Budget,
    pub_priv_gap: float = 0.0,
    failure_prob: float = FAILURE_PROB,
    method: str = "lifted_coinpress",
    mode: Mode = "practical",
    rounds: int | None = None,
    cond_max: float = DEFAULT_COND_MAX,
    require_precondition: bool = False,
    columns: Any = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> GaussianResult:
    """Mean and covariance of private rows, with all ranges taken from d + 1 public rows, or two.

    Parameters
    ----------
    {x_priv}
        A row with a missing or infinite entry adds nothing to any sum but counts in n_priv.
    {x_pub}
        From dim + 1 rows in general position the result is independent of units and of the condition of the covariance; with
        fewer (at least two distinct rows) only a bound on the largest eigenvalue is used, and `cond_max` bounds the condition.
    {budget, pub_priv_gap, failure_prob}
        The bounds are those derived from the public rows.
    method : str
        "lifted_coinpress" (default) or "pairs" (CoinPress on differences of neighbouring rows, then CoinPress for the mean: the
        version that the literature proves, with twice the noise on the covariance). In the role of black boxes that the paper
        names, each with its regime in its module: "recursive_preconditioner" (of KLSU19; many rows), "group_covariances"
        (of AL21; ApproxDP, very many rows, experimental), "hypothesis_selection" (of BKSW19; PureDP or ZCDP, one or two columns).
    {mode}
        Those of the proofs have union bounds.
    rounds : int, optional
        Rounds of the covariance recursion; None takes the public rule.
    cond_max : float
        Bound on the condition of the covariance, used without preconditioning.
    require_precondition : bool
        Refuse public rows that cannot precondition instead of falling back to the trace bound.
    {matched_columns, ledger, random_state, threads, progress}

    Returns
    -------
    GaussianResult
        `mean` (dim,), `covariance` (dim, dim) positive definite, in (squared) data units, with predicted errors.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one private row; holds for every public data set. Each round is one symmetric integer second
    moment (squared sensitivity 2 Q^4, for pairs the same), the mean step one vector sum (4 Q^2); the exact costs add up
    to at most the budget. The number of rounds depends on public numbers only.

    Notes
    -----
    Paper A, Algorithm 2, Theorem 2.4 and Lemma B.11. Departs from it: the learner is an adaptation of CoinPress to
    lifted rows (x, 1), backed by measurement, where the paper calls a black box; `pairs` keeps the black box. Noise is
    the orthogonally invariant one, smaller by sqrt(2) off the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, estimate_gaussian
    >>> rng = np.random.default_rng(0)
    >>> mix = np.array([[2.0, 0.0], [1.0, 0.5]])
    >>> private, public = rng.normal(size=(20_000, 2)) @ mix.T, rng.normal(size=(3, 2)) @ mix.T
    >>> result = estimate_gaussian(private, x_pub=public, budget=ZCDP(rho=0.5))
    >>> bool(np.allclose(result.covariance, mix @ mix.T, rtol=0.1, atol=0.1))
    True
    """
    rows, public = running.open_rows(x_priv, x_pub, columns=columns)
    if public is None:
        raise InputError(
            "estimate_gaussian needs public rows: pass x_pub=, or use coinpress_covariance with a known scale"
        )
    mode = validation.choice("mode", mode, ("practical", "theory"))
    failure_prob = failure_probability(failure_prob)
    gap = validation.fraction("pub_priv_gap", pub_priv_gap)
    chosen = METHODS[METHODS.choose(method)]
    cond_max = validation.positive("cond_max", cond_max)
    frame = public_frame(
        public,
        failure_prob=failure_prob / 2.0,
        pub_priv_gap=gap,
        cond_max=max(cond_max, 1.0),
        require_precondition=require_precondition,
    )
    n_pub = len(public)
    del public  # as large as a covariance
    if not frame.condition <= LARGEST_CONDITION:
        raise InputError(
            f"the covariance could be off the public one by a factor of {frame.condition:.3g}, beyond what can be computed with; "
            "pass a larger failure_prob, a smaller pub_priv_gap or cond_max, or more public rows"
        )
    chosen.check(has_public=True, budget=budget, n_priv=rows.n)
    run = running.start(
        "estimate_gaussian",
        rows,
        budget,
        draws=chosen.draws(rows.dim),
        reserved=None if chosen.reserved is None else chosen.reserved(budget),
        ledger=ledger,
        random_state=random_state,
        threads=threads,
        progress=progress,
    )
    problem = lifted.Problem(
        dim=rows.dim,
        n=rows.n,
        mean_radius=frame.mean_radius,
        condition=frame.condition,
        mode=mode,
        failure_prob=failure_prob,
    )
    prepared = chosen.prepare(run, problem, rounds)
    if prepared.covariance_error > 1.0 or prepared.status != "ok":
        trouble = f"predicted relative covariance error {prepared.covariance_error:.3g}"
        if prepared.status != "ok":
            trouble = f"{prepared.rounds} rounds do not resolve the smallest eigenvalues, which may be far off,"
        warnings.warn(
            f"estimate_gaussian: {trouble} for {rows.n} rows; "
            "pass a larger budget, more private rows, more public rows, or fewer columns",
            AccuracyWarning,
            stacklevel=2,
        )
    base = frame.base(rows.dim)
    with run.paid():
        learned = chosen.learn(run, base, problem, rounds=prepared.rounds)
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
            method=chosen.name,
            columns=rows.columns,
            provenance={"center": frame.source, "scale": frame.source, "radius": frame.source},
            **run.fields(n_pub),
        )
