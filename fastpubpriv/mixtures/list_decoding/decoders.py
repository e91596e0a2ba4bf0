"""List decoders: short lists that hold a Gaussian close to each component of a mixture, with no range given."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from fastpubpriv import run as running
from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators.radii import Mode
from fastpubpriv.mixtures.list_decoding import sizes
from fastpubpriv.mixtures.list_decoding.results import AxisAlignedLists
from fastpubpriv.mixtures.list_decoding.stages import (
    MAX_SCALES,
    MeanList,
    Thresholds,
    common_fields,
    mean_partitions,
    paper_event,
    release_means,
    release_scales,
    scale_partitions,
    start,
    thresholds_of,
    warn_few,
)
from fastpubpriv.parameters import FAILURE_PROB, shared_docs
from fastpubpriv.privacy import Budget, Ledger, stable_event
from fastpubpriv.sources import Rows
from fastpubpriv.sources.views.each import linear_rows
from fastpubpriv.sources.views.view import split_rows


@shared_docs
def decode_gaussians(
    x_priv: Any,
    *,
    budget: Budget,
    min_weight: float = 0.1,
    mode: Mode = "practical",
    max_scales: int = MAX_SCALES,
    failure_prob: float = FAILURE_PROB,
    accounting: str = "exact",
    columns: Any = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    max_memory: float | None = None,
) -> AxisAlignedLists:
    """Coarse (mean, scale) pairs of the Gaussians that one column may be a mixture of, with no range given.

    Parameters
    ----------
    {values}
        Here of one column, so dim is 1. The first half finds scales, the second half means.
    {approx_budget, min_weight, mode}
        See `decode_variances`.
    max_scales : int
        Of mode="practical": most scales that are kept.
    {failure_prob}
        Of mode="theory": a warning, from public numbers, when the theorem asks for more rows.
    accounting : "exact" or "paper"
        "exact": each half has the whole budget, as the halves are disjoint. "paper": the noise that the paper's composition
        prescribes, half of the budget for scales and far less for each histogram of means; what it really costs is less, and where
        that is not so for the most scales that may be found, it is refused.
    {columns, ledger, random_state, threads, progress, max_memory}

    Returns
    -------
    AxisAlignedLists
        With one column; `coarse(0)` gives the pairs, `net(0, accuracy)` the fine list.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one row, which is in one of the halves. (epsilon, delta) for each half, hence in total.

    Notes
    -----
    Algorithm 4 of Aden-Ali, Ashtiani, Liaw (2021). Departs from it: standard deviations stay with the means of their scale (the
    paper crosses all), each half has the whole budget, and the histograms of all scales share one noise.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> rng = np.random.default_rng(0)
    >>> values = np.where(rng.random(40_000) < 0.4, rng.normal(1e5, 3.0, 40_000), rng.normal(-20.0, 0.5, 40_000))
    >>> lists = decode_gaussians(values, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> means, scales, counts = lists.coarse(0)
    >>> bool(((abs(means - 1e5) < 3.0) & (scales == 4.0)).any() and ((abs(means + 20.0) < 0.5) & (scales == 0.5)).any())
    True
    """
    rows, _ = running.open_rows(x_priv, columns=columns)
    if rows.dim != 1:
        raise InputError(f"decode_gaussians takes one column, got {rows.dim}; use decode_axis_aligned")
    thresholds = thresholds_of(min_weight, mode, max_scales)
    paper = validation.choice("accounting", accounting, ("exact", "paper")) == "paper"
    options = running.asked(ledger, random_state, threads, progress, max_memory=max_memory)
    return _decode("decode_gaussians", rows, budget, thresholds, failure_prob, paper=paper, **options)


@shared_docs
def decode_axis_aligned(
    x_priv: Any,
    *,
    budget: Budget,
    min_weight: float = 0.1,
    covariance: Any = None,
    mode: Mode = "practical",
    max_scales: int = MAX_SCALES,
    failure_prob: float = FAILURE_PROB,
    columns: Any = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    max_memory: float | None = None,
) -> AxisAlignedLists:
    """Coarse lists for every column of a mixture of axis-aligned Gaussians, or of Gaussians with one known covariance.

    Parameters
    ----------
    {x_priv}
        With no covariance given the first half finds scales, the second half means.
    {approx_budget, min_weight}
    covariance : (dim, dim), optional
        Public covariance that all components share. Rows are multiplied by the inverse of its Cholesky factor, and only means are
        looked for, in those coordinates.
    {mode}
        See `decode_variances`.
    max_scales : int
        Of mode="practical": most scales that are kept for each column.
    {failure_prob}
        Of mode="theory": a warning, from public numbers, when the theorem asks for more rows.
    {columns, ledger, random_state, threads, progress, max_memory}

    Returns
    -------
    AxisAlignedLists
        A list for each column. A candidate of the mixture's components is one member of each list; the product is never formed, and
        `list_size(accuracy)` says how long it would be.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one row, which is in one of the halves. One joint release for each half, so the noise grows with the root
    of the number of histograms, where the paper gives each column a share of the budget.

    Notes
    -----
    Algorithm 5 and Appendix E of Aden-Ali, Ashtiani, Liaw (2021). The total variation of a product is at most the sum over columns:
    pass accuracy / dim to `net`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal([1e4, -3.0], [10.0, 0.2], size=(30_000, 2))
    >>> lists = decode_axis_aligned(rows, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> [len(lists.coarse(column)[0]) > 0 for column in range(2)], lists.list_size(0.5) > 100
    ([True, True], True)
    """
    rows, _ = running.open_rows(x_priv, columns=columns)
    thresholds = thresholds_of(min_weight, mode, max_scales)
    options = running.asked(ledger, random_state, threads, progress, max_memory=max_memory)
    if covariance is None:
        return _decode("decode_axis_aligned", rows, budget, thresholds, failure_prob, paper=False, **options)
    factor = validation.symmetric_positive_definite("covariance", covariance, rows.dim)
    beta = validation.probability("failure_prob", failure_prob)
    white = linear_rows(rows, solve_triangular(factor, np.eye(rows.dim), lower=True))
    scales = [[1.0]] * rows.dim
    run = start("decode_axis_aligned", white, budget, [(mean_partitions(scales), rows.n)], **options)
    if thresholds.theory:
        needed = sizes.mean_rows(thresholds.min_weight, budget, beta, histograms=rows.dim)
        warn_few("decode_axis_aligned", thresholds, needed, rows.n)
    with run.paid():
        return _lists(run, release_means(run, scales, thresholds), thresholds, rows.columns, factor)


def _decode(
    name: str, rows: Rows, budget: Budget, thresholds: Thresholds, failure_prob: Any, *, paper: bool, **options: Any
) -> AxisAlignedLists:
    """Scales from the first half of the rows, means from the second."""
    beta = validation.probability("failure_prob", failure_prob)
    if rows.n < 4:
        raise InputError(f"two halves with a pair of rows each need at least four rows, got {rows.n}")
    first, second = split_rows(rows, 1, 1)
    most = rows.dim * min(thresholds.scale_bound, sizes.DYADIC_SCALES)
    # As many histograms of means as there may be scales; the real number is known after the first release.
    stages = [(scale_partitions(rows.dim), first.n // 2), (mean_partitions([[1.0] * most]), second.n)]
    run = start(name, rows, budget, stages, **options)
    if thresholds.theory:
        needed = 2 * max(
            sizes.variance_rows(thresholds.min_weight, budget, beta / 2.0, dim=rows.dim),
            sizes.mean_rows(thresholds.min_weight, budget, beta / 2.0, histograms=most),
        )
        warn_few(name, thresholds, needed, rows.n)
    epsilon, delta = run.account.approx_left
    scale_cost = epsilon, delta
    if paper:
        scale_cost = epsilon / 2, delta / (2 * (thresholds.scale_bound + 1))
        stable_event(*scale_cost, histograms=rows.dim, n=first.n // 2, draws=first.n)
        if paper_event(epsilon, delta, histograms=most, n=second.n, draws=most * second.n) is None:
            raise BudgetError(
                f"with up to {most} histograms the paper's parameters cost more than the budget: pass accounting='exact', a "
                "smaller epsilon, or fewer scales (max_scales)"
            )
    with run.paid():
        scales = release_scales(run.block(first), thresholds, cost=scale_cost)
        listed = [column.scales.tolist() for column in scales]
        count, event = sum(len(column) for column in listed), None
        if paper and count:
            # Fewer histograms than were checked cost less, though nothing is proved of the paper's noise: "exact" stands ready.
            event = paper_event(epsilon, delta, histograms=count, n=second.n, draws=count * second.n)
        means = release_means(run.block(second), listed, thresholds, event=event)
        return _lists(run, means, thresholds, rows.columns, None)


def _lists(
    run: running.Run,
    found: list[list[MeanList]],
    thresholds: Thresholds,
    columns: Any,
    factor: FloatArray | None,
) -> AxisAlignedLists:
    return AxisAlignedLists(
        scales=tuple(np.array([item.scale for item in column]) for column in found),
        means=tuple(tuple(item.means for item in column) for column in found),
        counts=tuple(tuple(item.counts for item in column) for column in found),
        status=tuple("ok" if any(item.status == "ok" for item in column) else "empty" for column in found),
        factor=factor,
        **common_fields(run, thresholds, columns),
    )
