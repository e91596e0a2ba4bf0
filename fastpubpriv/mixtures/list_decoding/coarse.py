"""List decoders of one kind of parameter: scales of any mixture, or means at a known scale."""

from __future__ import annotations

from typing import Any

from fastpubpriv import run as running
from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.radii import Mode
from fastpubpriv.mixtures.list_decoding import sizes
from fastpubpriv.mixtures.list_decoding.results import MeanLists, ScaleLists
from fastpubpriv.mixtures.list_decoding.stages import (
    MAX_SCALES,
    common_fields,
    mean_partitions,
    release_means,
    release_scales,
    scale_partitions,
    start,
    thresholds_of,
    warn_few,
)
from fastpubpriv.parameters import FAILURE_PROB, shared_docs
from fastpubpriv.privacy import Budget, Ledger


@shared_docs
def decode_variances(
    x_priv: Any,
    *,
    budget: Budget,
    min_weight: float = 0.1,
    mode: Mode = "practical",
    max_scales: int = MAX_SCALES,
    failure_prob: float = FAILURE_PROB,
    columns: Any = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> ScaleLists:
    """Coarse scales of the Gaussians that a column may be a mixture of, with no range given.

    Parameters
    ----------
    {values}
        Rows of neighbouring positions are paired, an odd last one is dropped.
    {approx_budget, min_weight}
    {mode}
        "practical" keeps bins with half the mass that the best bin of such a Gaussian has, at most `max_scales` of them; "theory"
        gives nothing when there are more than 12 / min_weight^2.
    max_scales : int
        Of mode="practical": length of the list of a column.
    {failure_prob}
        Of mode="theory": a warning, from public numbers, when the theorem asks for more rows.
    {columns, ledger, random_state, threads, progress}

    Returns
    -------
    ScaleLists
        `scales[j]`: powers of two, one of them in [sigma, 2 sigma) of each Gaussian found in column j; `status[j]`.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one row, which replaces one pair. One release of dim dyadic histograms (StableHistogramEvent).

    Notes
    -----
    Algorithm 3 of Aden-Ali, Ashtiani, Liaw (2021), Lemma 4.7, with pairs fixed by position. Differences between components add
    scales near the distances of their means. Equal values (rounded data) differ by zero, which is in no bin: where more than half
    of the pairs are equal, add public noise of the size of the rounding first.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> values = np.random.default_rng(0).normal(1e6, 3.0, size=20_000)
    >>> lists = decode_variances(values, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> 4.0 in lists.scales[0]
    True
    """
    rows, _ = running.open_rows(x_priv, columns=columns)
    thresholds = thresholds_of(min_weight, mode, max_scales)
    beta = validation.probability("failure_prob", failure_prob)
    if rows.n < 2:
        raise InputError("differences of rows need at least two rows, got 1")
    run = start(
        "decode_variances",
        rows,
        budget,
        [(scale_partitions(rows.dim), rows.n // 2)],
        **running.asked(ledger, random_state, threads, progress),
    )
    if thresholds.theory:
        needed = sizes.variance_rows(thresholds.min_weight, budget, beta, dim=rows.dim)
        warn_few("decode_variances", thresholds, needed, rows.n)
    with run.paid():
        found = release_scales(run, thresholds)
        return ScaleLists(
            scales=tuple(item.scales for item in found),
            counts=tuple(item.counts for item in found),
            status=tuple(item.status for item in found),
            **common_fields(run, thresholds, rows.columns),
        )


@shared_docs
def decode_means(
    x_priv: Any,
    *,
    std: Any,
    budget: Budget,
    min_weight: float = 0.1,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    columns: Any = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    max_memory: float | None = None,
) -> MeanLists:
    """Coarse means of Gaussians of known scale, with no range given.

    Parameters
    ----------
    {values}
    std : float or (dim,)
        A public scale for each column: at least the standard deviation of the Gaussians to be found, and less than twice that.
    {approx_budget, min_weight}
    {mode}
        "practical" keeps bins with half the mass that the best bin of such a Gaussian has; "theory" gives nothing when there are
        more than 12 / min_weight.
    {failure_prob}
        Of mode="theory": a warning, from public numbers, when the theorem asks for more rows.
    {columns, ledger, random_state, threads, progress, max_memory}

    Returns
    -------
    MeanLists
        `means[j]`: midpoints of bins, one of them within sigma of the mean of each Gaussian found in column j; `status[j]`.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one row. One release of dim histograms with bins as wide as the scales (StableHistogramEvent).

    Notes
    -----
    Algorithm 2 of Aden-Ali, Ashtiani, Liaw (2021), Lemma 4.2. "Nearest integer" is meant where the paper writes a ceiling: bin i
    holds ((i - 1/2) std, (i + 1/2) std].

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> values = np.random.default_rng(0).normal([-7e5, 3.0], 1.0, size=(10_000, 2)).ravel()
    >>> lists = decode_means(values, std=1.5, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> bool(abs(lists.means[0] - 3.0).min() < 1.0 and abs(lists.means[0] + 7e5).min() < 1.0)
    True
    """
    rows, _ = running.open_rows(x_priv, columns=columns)
    thresholds = thresholds_of(min_weight, mode, 1)
    beta = validation.probability("failure_prob", failure_prob)
    widths = running.vector_or_number("std", std, rows.dim)
    if not (widths > 0.0).all():
        raise InputError("std must be above 0 in every column")
    scales = [[float(width)] for width in widths]
    run = start(
        "decode_means",
        rows,
        budget,
        [(mean_partitions(scales), rows.n)],
        **running.asked(ledger, random_state, threads, progress, max_memory=max_memory),
    )
    if thresholds.theory:
        needed = sizes.mean_rows(thresholds.min_weight, budget, beta, histograms=rows.dim)
        warn_few("decode_means", thresholds, needed, rows.n)
    with run.paid():
        lists = [column[0] for column in release_means(run, scales, thresholds)]
        return MeanLists(
            scale=widths,
            means=tuple(item.means for item in lists),
            counts=tuple(item.counts for item in lists),
            status=tuple(item.status for item in lists),
            **common_fields(run, thresholds, rows.columns),
        )
