"""CoinPress for the mean (BDKU20): clip to a ball, release, shrink the ball; the core of `estimate_mean` and a door of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from fastpubpriv import session as running
from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.columns.counted import Counted, with_report
from fastpubpriv.estimators.columns.norms import DRAWS, NormCount, Norms
from fastpubpriv.estimators.radii import (
    LARGEST_SIZE,
    MAX_AUTO_STEPS,
    Mode,
    StepRadii,
    best_steps,
    budget_shares,
    expected_normal_norm,
    failure_probability,
    predict_steps,
    size,
    step_count,
)
from fastpubpriv.estimators.whitening import Whitening, known_root
from fastpubpriv.mechanisms.sums import AffineMap, VectorSum, check_sum_grids
from fastpubpriv.privacy import Budget, Grid, Ledger, gaussian_sum_grid, laplace_sum_grid
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.session import noise_per_radius
from fastpubpriv.shared_docs import FAILURE_PROB, shared_docs

# ---- The steps of CoinPress's mean, worked out from public numbers before a row is read, and kept for the next
# call like it


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One clipped sum: its name, its cost and grid, the norm that rows are clipped to, and the noise of the mean."""

    name: str
    cost: Fraction
    grid: Grid
    clip_radius: float
    noise_std: float


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """All steps, and the noise of the last one on an infinitely fine grid."""

    steps: tuple[Step, ...]
    predicted_noise: float

    def predicted_error(self, n: int, dim: int, row_unit: float) -> float:
        """Expected distance to the mean in standard deviations of a row, from public numbers.

        `row_unit` is how many of them a whitened unit is: above one where the whitening allows for an uncertain covariance.
        """
        noise_std = row_unit * self.predicted_noise
        return expected_normal_norm(dim) * math.sqrt(1.0 / n + noise_std * noise_std)


def planned_steps(
    dim: int, n: int, allowance: Fraction, radius: float, *, pure: bool, steps: int, mode: Mode, failure_prob: float
) -> tuple[Step, ...]:
    """The steps from a ball of `radius`; InputError where a share of the allowance has no grid.

    Each step's noise is known beforehand, and so is the ball of the next.
    """
    radii = StepRadii(dim, n, steps, mode, failure_prob)
    planned = []
    for index, share in enumerate(budget_shares(steps)):
        clip = min(radii.clip(radius), LARGEST_SIZE)
        cost = allowance * share
        grid = (laplace_sum_grid if pure else gaussian_sum_grid)(cost, dim, n)
        noise_std = grid.event.noise_std * grid.step(clip) / n
        planned.append(Step(f"clipped sum, step {index + 1} of {steps}", cost, grid, clip, noise_std))
        radius = radii.after(noise_std)
    return tuple(planned)


# Public numbers only: a radius that was released goes to `planned_steps`, which keeps nothing.
@lru_cache(maxsize=256)
def public_path(
    dim: int, n: int, allowance: Fraction, radius: float, pure: bool, steps: int, mode: Mode, failure_prob: float
) -> Path:
    """The steps from a public ball; InputError, before the debit, unless every step has a grid and a radius."""
    noise = noise_per_radius(dim, pure=pure, allowance=allowance)
    predicted = predict_steps(dim, n, radius, steps=steps, noise_per_radius=noise, mode=mode, failure_prob=failure_prob)
    if max(step.clip_radius for step in predicted) > LARGEST_SIZE:
        raise InputError(
            "the noise of the early steps would make the ball grow without bound: pass fewer steps or a larger budget"
        )
    planned = planned_steps(dim, n, allowance, radius, pure=pure, steps=steps, mode=mode, failure_prob=failure_prob)
    return Path(planned, predicted[-1].noise_std)


FEW_STEPS = 2  # where "auto" would choose them before the radius is known


@dataclass(frozen=True, slots=True, eq=False)
class Ball:
    """The public promise that the private mean lies within `radius` of `center`; the radius is in whitened units."""

    center: FloatArray
    radius: float


def choose_steps(run: running.Run, ball: Ball, steps: int | str, *, mode: Mode, failure_prob: float) -> int:
    """Number of steps: as given, or the one with the least predicted error; public numbers only."""
    steps = step_count(steps)
    if steps == "auto":
        noise = running.noise_per_radius(run.rows.dim, pure=run.account.pure, allowance=run.account.allowance)
        return best_steps(
            run.rows.dim, run.rows.n, ball.radius, noise_per_radius=noise, mode=mode, failure_prob=failure_prob
        )
    return steps


def most_steps(steps: int | str) -> int:
    """Upper bound on the number of steps, known before the account is made."""
    count = step_count(steps)
    return MAX_AUTO_STEPS if count == "auto" else count


def path_of(run: running.Run, ball: Ball, steps: int, *, mode: Mode, failure_prob: float) -> Path:
    """The steps from a ball of public radius, within the allowance; raises now, before the debit, unless all can be made."""
    account = run.account
    return public_path(
        run.rows.dim, run.rows.n, account.allowance, ball.radius, account.pure, steps, mode, failure_prob
    )


def refine(
    run: running.Run, center: FloatArray, whitening: Whitening, inverse: FloatArray | None, steps: Sequence[Step]
) -> tuple[FloatArray, float]:
    """Shrink the ball by these steps and return the last centre with its noise per whitened coordinate.

    `inverse` is that of the whitening, worked out before the debit. Every step clips the original rows, so the answer depends on
    the data through the last clip alone, given the ball.
    """
    n, dim = run.rows.n, run.rows.dim
    for step in steps:
        affine = AffineMap(dim=dim, center=center, matrix=inverse, lower=True)
        asked = VectorSum(affine=affine, radius=step.clip_radius, grid=step.grid)
        released = run.release(asked, name=step.name, cost=step.cost, clip_radius=step.clip_radius)
        center = center + whitening.to_data(released.value / n)
        center.flags.writeable = False  # the next map and the result take it as it is
    return center, steps[-1].noise_std


def counts_of_norms(run: running.Run, steps: int, *, once: bool) -> list[NormCount]:
    """The counts of distances, one before all steps or one in each; raises now, before the debit, unless all grids exist."""
    n, dim, shares = run.rows.n, run.rows.dim, budget_shares(steps)
    norms = [NormCount.of(run.account, n, dim, part) for part in ((Fraction(1),) if once else shares)]
    for each in norms:
        each.check_grids(run.account)
    if once:
        check_sum_grids(run.account, (norms[0].left * share for share in shares), dim, n)
    return norms


def counted_steps(run: running.Run, center: FloatArray, norms: list[NormCount]) -> tuple[FloatArray, float, Norms]:
    """The last centre, its noise, and the last count; where no deviation is known.

    Each step counts the distances from its centre and clips where the predicted error is least.
    """
    n, dim = run.rows.n, run.rows.dim
    seen, noise_std = None, 0.0
    for index, count in enumerate(norms):
        affine = AffineMap(dim=dim, center=center)
        seen = count.look(run, affine, np.zeros(0))
        name = f"clipped sum, step {index + 1} of {len(norms)}"
        released = run.release(
            VectorSum(affine=affine, radius=seen.radius), name=name, cost=count.left, clip_radius=seen.radius
        )
        center = np.clip(center + released.value / n, -LARGEST_SIZE, LARGEST_SIZE)
        noise_std = released.noise_std / n
    assert seen is not None
    return center, noise_std, seen


def mean_result(
    run: running.Run,
    center: FloatArray,
    noise_std: float,
    unit_std: FloatArray,
    row_std: FloatArray,
    *,
    n_pub: int,
    provenance: dict[str, str],
) -> MeanResult:
    """Assemble the result; `noise_std` is per whitened coordinate, (dim,) `unit_std` in data units; `row_std` is a row's."""
    return MeanResult(
        mean=center,
        noise_std=noise_std * unit_std,
        sampling_std=row_std / math.sqrt(run.rows.n),
        noise_law="laplace" if run.account.pure else "gaussian",
        columns=run.rows.columns,
        provenance=provenance,
        **run.fields(n_pub),
    )


def starting_ball(
    center: Any, radius: Any, bounds: Any, root: FloatArray | None, dim: int
) -> tuple[Ball, Whitening, tuple[FloatArray, FloatArray] | None]:
    """Ball and whitening from the arguments, or from what the columns can hold: then also the box.

    The radius is infinite where it is still to come, from a count of norms.
    """
    box = validation.column_bounds(bounds, dim)
    if box is None:
        if center is None or radius is None:
            raise InputError("pass center= and radius=, a ball that holds the mean, or bounds=(lowest, highest)")
        auto = isinstance(radius, str) and validation.choice("radius", radius, ("auto",)) == "auto"
        middle = running.vector_or_number("center", center, dim)
        return Ball(middle, math.inf if auto else size("radius", radius)), Whitening(dim, root), None
    if center is not None or radius is not None:
        raise InputError("bounds= replaces center= and radius=: leave them out")
    half = box[1] / 2.0 - box[0] / 2.0
    for value in half:
        size("half of the range of bounds", value)
    whitening = Whitening(dim, half if root is None else root)
    inverse = whitening.inverse
    assert inverse is not None
    # The farthest corner; for a full matrix no corner is farther than this.
    farthest = np.abs(inverse) @ half if inverse.ndim == 2 else np.abs(inverse) * half
    return Ball(box[0] + half, size("radius from bounds", float(np.linalg.norm(farthest)))), whitening, box


@shared_docs
def coinpress_mean(
    x_priv: Any,
    *,
    budget: Budget,
    center: Any = None,
    radius: float | str | None = None,
    bounds: Any = None,
    covariance: Any = None,
    variance: Any = None,
    steps: int | str = 2,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    columns: Any = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> MeanResult:
    """Mean of private rows with no public row: the caller names a ball that holds the mean.

    Parameters
    ----------
    {x_priv}
        A row with a missing or infinite entry counts as a row at the current centre.
    {budget}
    center : (dim,) array-like, or a number for all columns
        Centre of the ball, in data units. Must not come from the private rows.
    radius : float > 0 or "auto"
        Radius of the ball, in standard deviations (that is, after whitening by `variance` or `covariance`). Too small a radius
        costs accuracy, never privacy. "auto": part of the budget, a quarter or more, buys a private count of the distances from
        `center`, and the ball reaches as far as rows stand out of its noise. Without a variance or covariance, every step counts
        again about its own centre and clips where the predicted error is least: no deviation has to be known, and the interval
        allows each column that of whole rows, so that it is wide for columns in small units, and several columns have the status
        "one_scale". The result has a `report`.
    bounds : (lowest, highest), numbers or (dim,) each
        What each column can hold, instead of `center` and `radius`; the answer lies within. Without a variance or covariance, the
        standard deviations are taken to be the largest that the bounds allow: half the range.
    covariance : (dim, dim) array-like, optional
        Covariance of a row, a public matrix. By default the identity.
    variance : float or (dim,), optional
        Instead of `covariance`, for columns taken as independent: one public variance, or one for each column.
    steps : int or "auto"
        Refinements. The last spends 3/4 of the budget. "auto" takes the least predicted error.
    {mode}
        Those of the proof have union bounds over rows and steps.
    {failure_prob}
        Used in mode="theory" only.
    {columns, ledger, random_state, threads, progress}

    Returns
    -------
    MeanResult

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one row. One Gaussian (zCDP, approximate DP) or discrete Laplace (pure DP) vector sum per step,
    squared l2 sensitivity 4 Q^2 or l1 sensitivity isqrt(4 dim Q^2) in grid steps; with radius="auto" a joint count of norms before
    them (2 S^2 or 2 S); the exact costs add up to at most the budget. Public: n_priv, dim.

    Notes
    -----
    Biswas, Dong, Kamath, Ullman, "CoinPress" (2020), Algorithm 1. Departs from it: every step clips the original rows, not the rows
    clipped before; noise is added to integers.

    Examples
    --------
    >>> import numpy as np, warnings
    >>> from fastpubpriv import ZCDP, coinpress_mean
    >>> rows = np.random.default_rng(0).normal(5.0, 1.0, size=(4000, 3))
    >>> result = coinpress_mean(rows, budget=ZCDP(rho=0.5), center=0.0, radius=30.0)
    >>> bool(np.all(np.abs(result.mean - 5.0) < 0.2))
    True
    """
    rows, _ = running.open_rows(x_priv, columns=columns)
    root = known_root(covariance, variance, rows.dim)
    ball, whitening, box = starting_ball(center, radius, bounds, root, rows.dim)
    mode = validation.choice("mode", mode, ("practical", "theory"))
    failure_prob = failure_probability(failure_prob)
    counted, inverse = ball.radius == math.inf, whitening.inverse
    unknown = counted and root is None  # nobody said what the deviations are
    count = FEW_STEPS if counted and step_count(steps) == "auto" else most_steps(steps)
    run = running.start(
        "coinpress_mean",
        rows,
        budget,
        draws=count * rows.dim + (DRAWS * (count if unknown else 1) if counted else 0),
        **running.asked(ledger, random_state, threads, progress),
    )
    settings: dict[str, Any] = {"mode": mode, "failure_prob": failure_prob}
    norms: list[NormCount] = []
    planned: tuple[Step, ...] = ()
    if counted:
        norms = counts_of_norms(run, count, once=not unknown)
    else:
        planned = path_of(run, ball, choose_steps(run, ball, steps, **settings), **settings).steps
    with run.paid():
        seen, unit_std = None, whitening.row_std()
        row_std = unit_std
        if unknown:
            estimate, noise_std, seen = counted_steps(run, ball.center, norms)
            # No column's own deviation is known: each is allowed that of whole rows.
            row_std = np.full(rows.dim, seen.rms)
        else:
            if counted:
                affine = AffineMap(dim=rows.dim, center=ball.center, matrix=inverse, lower=True)
                seen = norms[0].look(run, affine, np.zeros(0))
                shares = {"pure": run.account.pure, "steps": count, **settings}
                planned = planned_steps(rows.dim, rows.n, norms[0].left, seen.end, **shares)
            estimate, noise_std = refine(run, ball.center, whitening, inverse, planned)
        result = mean_result(
            run,
            estimate if box is None else np.clip(estimate, *box),
            noise_std,
            unit_std,
            row_std,
            n_pub=0,
            provenance={
                "center": "argument",
                "radius": "released" if counted else "argument",
                "covariance": "norms of rows" if unknown else "argument",
            },
        )
        return (
            result if seen is None else with_report("coinpress_mean", result, _said(result, whitening, seen, unknown))
        )


def _said(result: MeanResult, whitening: Whitening, seen: Norms, unknown: bool) -> Counted:
    """What the last count says of the columns. Where no deviation is known, one column alone has its own scale."""
    dim = result.dim
    unit = np.ones(dim) if unknown else whitening.row_std()
    return Counted(
        norms=seen,
        center=result.mean,
        unit=unit,
        known=np.full(dim, dim == 1 or not unknown),
        # With a covariance, steps clip by it and not by the count.
        bias=np.full(dim, seen.bias / result.n_priv if unknown else 0.0),
        wide=np.zeros(dim, dtype=bool),
    )
