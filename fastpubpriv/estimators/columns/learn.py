"""Releases, each shaped by those before it: counts of cells, perhaps more of them, of shells, and the clipped sum."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fastpubpriv import session as running
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import AccuracyWarning
from fastpubpriv.estimators.columns.balls import RowBall, choose_ball, shell_edges
from fastpubpriv.estimators.columns.counts import Bounds, Seen, box_of, count
from fastpubpriv.estimators.columns.report import Found, report_of, say
from fastpubpriv.estimators.columns.scales import lower_medians
from fastpubpriv.estimators.columns.shares import Shares, check_grids, divide, draws
from fastpubpriv.estimators.radii import expected_normal_norm
from fastpubpriv.estimators.regions import MOST_BEYOND
from fastpubpriv.kernels.rows import cells_apart
from fastpubpriv.mechanisms.sums import AffineMap, ShellCounts, VectorSum
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import STATUSES, MeanResult
from fastpubpriv.row_maps import ColumnBox
from fastpubpriv.session import Run

ENOUGH_PUBLIC = 30  # rows whose own deviation can be trusted
MOST_NAMED = 10
# Logarithm of the largest factor between the unit of a column and the usual one, where the whole vector counts.
FARTHEST_ROOT = 30.0
# Numbers for each cell while counts are asked for again: those of before, joined with public rows, and their variances; the
# counts of the pass, scaled to the noise grid, and released.
HELD = 6


def warn_before(name: str, shares: Shares, n_pub: int) -> None:
    """Warn, from public numbers alone, about what the counts will not be able to show."""
    if shares.blind:
        warnings.warn(
            f"{name}: {shares.n} private rows and this budget are too few to see any scale in {shares.dim} columns (noise of "
            f"{shares.count_std:.3g} rows in each count); pass a larger budget, more private rows, fewer columns, bounds with "
            "weighted_mean, or a covariance",
            AccuracyWarning,
            stacklevel=3,
        )
        return
    predicted = expected_normal_norm(shares.dim) * shares.predicted_error()
    running.warn_if_useless(name, predicted, math.sqrt(shares.dim / n_pub))


def warn_if_bounds_are_wrong(
    name: str, public: FloatArray, bounds: Bounds, columns: tuple[str, ...] | None, *, stacklevel: int = 3
) -> None:
    """Warn, from public numbers alone, where more of them than a few lie beyond the bounds."""
    if bounds is None:
        return
    beyond = ((public < bounds[0]) | (public > bounds[1])).mean(axis=0) > MOST_BEYOND
    labels = columns or tuple(f"x{j}" for j in range(public.shape[1]))
    found = [label for label, wrong in zip(labels, beyond, strict=True) if wrong]
    if found:
        more = f" and {len(found) - MOST_NAMED} more" * (len(found) > MOST_NAMED)
        warnings.warn(
            f"{name}: public values lie beyond bounds= in {', '.join(found[:MOST_NAMED])}{more}, and private values like them "
            "would be clipped; pass wider bounds, or none",
            AccuracyWarning,
            stacklevel=stacklevel,
        )


def warn_about(name: str, result: MeanResult) -> None:
    """Warn, from released numbers, about columns that are not resolved."""
    assert result.report is not None
    parts = []
    for status, labels in result.report.flagged(result.labels).items():
        shown = ", ".join(labels[:MOST_NAMED]) + (f" and {len(labels) - MOST_NAMED} more" * (len(labels) > MOST_NAMED))
        parts.append(f"{status} ({STATUSES[status]}): {shown}")
    if parts:
        running.warn_after(f"{name}: {'; '.join(parts)}")


def public_rows_do(shares: Shares, n_pub: int) -> bool:
    """Whether the public rows alone are predicted to be closer than the release, from public numbers."""
    return n_pub >= ENOUGH_PUBLIC and shares.predicted_error() > 1.0 / math.sqrt(n_pub)


def public_mean(run: Run, public: FloatArray) -> MeanResult:
    """The mean of the public rows: nothing is debited, and no private value read."""
    m = len(public)
    # The deviation of Student's law stands in for its wider quantiles.
    std = np.std(public, axis=0, ddof=1) / math.sqrt(m) * math.sqrt((m - 1) / (m - 3))
    return MeanResult(
        mean=frozen(public.mean(axis=0)),
        noise_std=frozen(np.zeros(run.rows.dim)),
        sampling_std=frozen(std),
        noise_law="gaussian",
        columns=run.rows.columns,
        provenance={"mean": "public rows"},
        **run.fields(m),
    )


def ball_of(run: Run, columns: list[Seen], box: ColumnBox, shares: Shares) -> RowBall:
    """The ball for rows of several columns, from counts of shells."""
    if shares.dim == 1:
        return RowBall(radius=1.0, bias=0.0)
    top = float(np.sqrt(np.sum([each.map.reach**2 for each in columns if each.map.used])))
    edges = shell_edges(top)
    shells = run.release(
        ShellCounts(affine=AffineMap(dim=shares.dim), edges=edges, box=box), name="shells of rows", cost=shares.shells
    )
    return choose_ball(shells.value, edges, shells.noise_std, shares)


def by_root_of_width(columns: list[Seen]) -> list[Seen]:
    """The columns in units for the least squared error of the whole vector in data units, which noise spreads over them.

    In units of w_j of each column the squared length of a row is about sum w_j^2 (width_j / unit_j)^2 and the error sum width_j^2 /
    w_j^2 times it: least for w_j as the root of the width. All from released numbers.
    """
    logs = np.array([math.log(each.map.clip.absolute(each.map.width)) for each in columns if each.map.used])
    if not len(logs):
        return columns
    roots = iter(np.exp(np.clip((logs - logs.mean()) / 2.0, -FARTHEST_ROOT, FARTHEST_ROOT)).tolist())
    return [
        replace(each, map=replace(each.map, width=each.map.width / next(roots))) if each.map.used else each
        for each in columns
    ]


def learn(
    run: Run, public: FloatArray, shares: Shares, *, bounds: Bounds, neutral: bool, whole: bool = False
) -> MeanResult:
    """Release, clip, release, and say what came out; after the debit. `whole`: for the error of the whole vector in data units."""
    columns, shares = count(run, public, shares, bounds=bounds, neutral=neutral)
    columns = by_root_of_width(columns) if whole else columns
    totals, noise, ball = np.zeros(shares.dim), 0.0, RowBall(radius=1.0, bias=0.0)
    # Where nothing is clipped there is nothing to ask: a function of released numbers, and nothing is refunded.
    if any(each.map.used for each in columns):
        box = box_of(columns, neutral=neutral)
        ball = ball_of(run, columns, box, shares)
        measurement = VectorSum(affine=AffineMap(dim=shares.dim), radius=ball.radius, box=box)
        released = run.release(measurement, name="clipped sum", cost=shares.total, clip_radius=ball.radius)
        totals, noise = released.value, released.noise_std
    centers = np.array([each.column.center for each in columns])
    moved = centers != lower_medians(public)
    bias = ball.bias / float(np.sqrt(shares.dim))
    known = ~moved & (public != public[0]).any(axis=0)  # equal public numbers tell of no deviation
    spread = np.std(public, axis=0, ddof=1) / math.sqrt(len(public)) if len(public) > 1 else np.zeros(shares.dim)
    founds = [
        Found(
            column=each.column, scale=each.scale, map=each.map, shares=each.shares, total=float(total), noise=noise,
            bias=bias, instead=float(mean), instead_std=float(error),
        )
        for each, total, mean, error in zip(
            columns, totals, np.where(moved, centers, public.mean(axis=0)), np.where(known, spread, math.inf), strict=True
        )
    ]  # fmt: skip
    said = [say(each, len(public), neutral=neutral, bounded=bounds is not None) for each in founds]
    mean = np.array([each.mean for each in said])
    if bounds is not None:
        mean = np.clip(mean, *bounds)
    return MeanResult(
        mean=frozen(mean),
        noise_std=frozen([each.noise_std for each in said]),
        sampling_std=frozen([each.sampling_std for each in said]),
        noise_law="laplace" if shares.pure else "gaussian",
        report=report_of(founds, said, bounds),
        columns=run.rows.columns,
        provenance={"center": "released" if moved.any() else "public rows", "clipping": "released"},
        **run.fields(len(public)),
    )


def mean_of_columns(
    name: str,
    start: Callable[..., Run],
    public: FloatArray,
    *,
    bounds: Bounds,
    neutral: bool,
    skip: bool,
    whole: bool = False,
) -> MeanResult:
    """Check, pay, release. `start(draws=...)` makes the run; `skip` allows the public rows to stand in for the private ones.

    `whole`: for the error of the whole vector in data units.
    """
    n_pub, dim = public.shape
    run = start(draws=draws(dim))
    shares = divide(dim, run.rows.n, run.account.allowance, pure=run.account.pure, n_pub=n_pub)
    if skip and public_rows_do(shares, n_pub):
        return public_mean(run, public)
    check_grids(shares)
    running.require_memory(name, dim, dim * HELD * 8 * cells_apart(shares.log2_parts))
    warn_before(name, shares, n_pub)
    warn_if_bounds_are_wrong(name, public, bounds, run.rows.columns)
    with run.paid():
        result = learn(run, public, shares, bounds=bounds, neutral=neutral, whole=whole)
    warn_about(name, result)
    return result
