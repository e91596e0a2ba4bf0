"""Three releases, each shaped by those before it: counts of cells, of shells, and the clipped sum."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np

from fastpubpriv import run as running
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import AccuracyWarning
from fastpubpriv.estimators.columns import clips
from fastpubpriv.estimators.columns.balls import RowBall, choose_ball, shell_edges
from fastpubpriv.estimators.columns.clips import Map, map_of
from fastpubpriv.estimators.columns.report import Found, report_of, say
from fastpubpriv.estimators.columns.scales import Column, Scale, column_of, lower_medians, scale_of
from fastpubpriv.estimators.columns.shares import Shares, divide, draws
from fastpubpriv.estimators.radii import expected_normal_norm
from fastpubpriv.maps import ColumnBox
from fastpubpriv.mechanisms.cells import SignedCells
from fastpubpriv.mechanisms.sums import AffineMap, ShellCounts, VectorSum
from fastpubpriv.results.base import frozen
from fastpubpriv.results.columns import STATUSES
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.run import Run

Bounds = tuple[FloatArray, FloatArray] | None
ENOUGH_PUBLIC = 30  # rows whose own deviation can be trusted
MOST_NAMED = 10


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


def seen_columns(
    counts: FloatArray, public: FloatArray, center: FloatArray, shares: Shares, bounds: Bounds
) -> list[tuple[Column, Scale, Map]]:
    """From the released counts (dim, cells): each column, its scale, and how it enters the sum."""
    found = []
    for place in range(shares.dim):
        column = column_of(counts[place], public[:, place], float(center[place]), shares)
        scale = scale_of(column, shares)
        if shares.blind and len(public) >= clips.FEW_PUBLIC:
            clip = clips.from_public(column, public[:, place], shares)
        else:
            limits = None if bounds is None else (float(bounds[0][place]), float(bounds[1][place]))
            clip = clips.choose(column, scale, shares, limits)
        found.append((column, scale, map_of(clip, shares.dim)))
    return found


def box_of(columns: list[tuple[Column, Scale, Map]], *, neutral: bool) -> ColumnBox:
    """The box and the scale of every column; one that is left out becomes zero."""
    numbers = np.zeros((6, len(columns)))
    for place, (column, _, mapped) in enumerate(columns):
        clip, unit = mapped.clip, mapped.clip.absolute
        numbers[:, place] = column.center, 0.0, 0.0, 0.0, 1.0, 0.0
        if mapped.used:
            absent = (clip.first_mean - mapped.middle) / mapped.width
            box = -unit(clip.below), unit(clip.above), unit(mapped.middle), unit(mapped.width), absent
            numbers[1:, place] = box
    names = ("center", "lower", "upper", "middle", "width", "absent")
    return ColumnBox(**dict(zip(names, numbers, strict=True)), neutral=neutral)


def ball_of(run: Run, columns: list[tuple[Column, Scale, Map]], box: ColumnBox, shares: Shares) -> RowBall:
    """The ball for rows of several columns, from counts of shells."""
    if shares.dim == 1:
        return RowBall(radius=1.0, bias=0.0)
    top = float(np.sqrt(np.sum([mapped.reach**2 for _, _, mapped in columns if mapped.used])))
    edges = shell_edges(top)
    shells = run.release(
        ShellCounts(affine=AffineMap(dim=shares.dim), edges=edges, box=box), name="shells of rows", cost=shares.shells
    )
    return choose_ball(shells.value, edges, shells.noise_std, shares)


def learn(run: Run, public: FloatArray, shares: Shares, *, bounds: Bounds, neutral: bool) -> MeanResult:
    """Release, clip, release, and say what came out; after the debit."""
    center = lower_medians(public)
    cells = SignedCells(center=center, log2_parts=shares.log2_parts, neutral=neutral)
    counts = run.release(cells, name="signed dyadic cells", cost=shares.cells, cells_per_octave=shares.parts)
    columns = seen_columns(counts.value, public, center, shares, bounds)
    totals, noise, ball = np.zeros(shares.dim), 0.0, RowBall(radius=1.0, bias=0.0)
    # Where nothing is clipped there is nothing to ask: a function of released numbers, and nothing is refunded.
    if any(mapped.used for _, _, mapped in columns):
        box = box_of(columns, neutral=neutral)
        ball = ball_of(run, columns, box, shares)
        measurement = VectorSum(affine=AffineMap(dim=shares.dim), radius=ball.radius, box=box)
        released = run.release(measurement, name="clipped sum", cost=shares.total, clip_radius=ball.radius)
        totals, noise = released.value, released.noise_std
    bias = ball.bias / float(np.sqrt(shares.dim))
    founds = [
        Found(
            column=column, scale=scale, map=mapped, total=float(total), noise=noise, bias=bias, public_mean=float(mean),
        )
        for (column, scale, mapped), total, mean in zip(columns, totals, public.mean(axis=0), strict=True)
    ]  # fmt: skip
    said = [say(each, shares, len(public), neutral=neutral) for each in founds]
    mean = np.array([each.mean for each in said])
    if bounds is not None:
        mean = np.clip(mean, *bounds)
    return MeanResult(
        mean=frozen(mean),
        noise_std=frozen([each.noise_std for each in said]),
        sampling_std=frozen([each.sampling_std for each in said]),
        noise_law="laplace" if shares.pure else "gaussian",
        report=report_of(founds, said, shares, bounds),
        columns=run.rows.columns,
        provenance={"center": "public rows", "clipping": "released"},
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
) -> MeanResult:
    """Check, pay, release. `start(draws=...)` makes the run; `skip` allows the public rows to stand in for the private ones."""
    n_pub, dim = public.shape
    run = start(draws=draws(dim))
    shares = divide(dim, run.rows.n, run.account.allowance, pure=run.account.pure)
    if skip and public_rows_do(shares, n_pub):
        return public_mean(run, public)
    shares.check_grids(run.account)
    warn_before(name, shares, n_pub)
    with run.paid():
        result = learn(run, public, shares, bounds=bounds, neutral=neutral)
    warn_about(name, result)
    return result
