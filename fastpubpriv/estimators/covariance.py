"""Covariance without public rows (CoinPress) and private principal components (Analyze Gauss)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv import run as running
from fastpubpriv import validation
from fastpubpriv.estimators.learners import coinpress_rounds
from fastpubpriv.estimators.matrices import spectrum
from fastpubpriv.estimators.radii import Mode, budget_shares, failure_probability, size
from fastpubpriv.mechanisms.sums import AffineMap, Released, SecondMoment, check_gram_grids
from fastpubpriv.parameters import FAILURE_PROB, shared_docs
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import CovarianceResult, PCAResult

ROW_FAILURE = 0.1
MAX_STEPS = 10


@shared_docs
def coinpress_covariance(
    x_priv: Any,
    *,
    budget: Budget,
    scale: float,
    center: Any = None,
    steps: int = 2,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    columns: Any = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> CovarianceResult:
    """Covariance of centred private rows with no public row: the caller bounds the largest eigenvalue.

    Parameters
    ----------
    {x_priv}
        Their mean is `center`.
    {budget}
    scale : float > 0
        Bound on the largest eigenvalue of the covariance, in squared data units. Too small a bound costs accuracy, never privacy.
    center : None, float or (dim,)
        Mean of the rows (zero by default), a public number.
    steps : int from 1 to 10
        Rounds. The last spends 3/4 of the budget.
    {mode, failure_prob}
        Used in mode="theory" only.
    {columns, ledger, random_state, threads, progress}

    Returns
    -------
    CovarianceResult
        `covariance` (dim, dim), positive semi-definite, in squared data units; `correlation`.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one row. One symmetric integer second moment per round, squared sensitivity 2 Q^4 (pure: l1 on
    the triangle); the exact costs add up to at most the budget. Public: n_priv, dim.

    Notes
    -----
    Biswas, Dong, Kamath, Ullman, "CoinPress" (2020), Algorithm 3. Departs from its published code: rows are multiplied by the
    preconditioner on its proper side (that code is wrong from three rounds on), rows are not clipped in place, and the noise is
    orthogonally invariant.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, coinpress_covariance
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 3)) * [1.0, 2.0, 3.0]
    >>> result = coinpress_covariance(rows, budget=ZCDP(rho=0.5), scale=20.0, steps=3)
    >>> np.round(np.sqrt(np.diag(result.covariance)), 0).tolist()
    [1.0, 2.0, 3.0]
    """
    rows, _ = running.open_rows(x_priv, columns=columns)
    bound = size("scale", scale)
    steps = validation.integer("steps", steps, minimum=1, maximum=MAX_STEPS)
    mode = validation.choice("mode", mode, ("practical", "theory"))
    failure_prob = failure_probability(failure_prob)
    middle = running.vector_or_number("center", 0.0 if center is None else center, rows.dim)
    run = running.start(
        "coinpress_covariance",
        rows,
        budget,
        draws=steps * rows.dim * rows.dim,
        ledger=ledger,
        random_state=random_state,
        threads=threads,
        progress=progress,
    )
    dim, n = rows.dim, rows.n
    check_gram_grids(run.account, [run.account.allowance * share for share in budget_shares(steps)], dim, n)

    def slack(released: Released) -> float:
        ratio = math.sqrt(dim / n)
        if mode == "theory":
            width = math.sqrt(2.0 * dim)
            tail = math.sqrt(2.0 * math.log(4.0 * steps / failure_prob))
            return 2.0 * (ratio + tail / math.sqrt(n)) + (width + tail) * released.spectral_std / n
        # The noise is left out here, as in the published constants: with it the early rounds shrink too timidly.
        return ratio + ratio * ratio / 2.0

    base = AffineMap(dim=dim, center=middle, matrix=np.full(dim, 1.0 / math.sqrt(bound)))
    with run.paid():
        covariance, released = coinpress_rounds(
            run,
            base,
            shares=budget_shares(steps),
            n=n,
            row_failure=failure_prob / n if mode == "theory" else ROW_FAILURE,
            slack=slack,
        )
        return CovarianceResult(
            covariance=frozen(covariance * bound),
            relative_noise_std=released.spectral_std / n,
            steps=steps,
            columns=rows.columns,
            provenance={"center": "argument", "scale": "argument"},
            **run.fields(0),
        )


@shared_docs
def private_pca(
    x_priv: Any,
    *,
    budget: Budget,
    center: Any,
    radius: float,
    n_components: int,
    columns: Any = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> PCAResult:
    """Principal directions of private rows within a public ball.

    Parameters
    ----------
    {x_priv}
        Those outside the ball are pulled to its surface.
    {budget}
    center : None, float or (dim,)
        Centre of the ball, a public number.
    radius : float > 0
        Radius of the ball, in data units.
    n_components : int from 1 to dim
        Number of directions.
    {columns, ledger, random_state, threads, progress}

    Returns
    -------
    PCAResult
        `components` (n_components, dim), orthonormal rows, and `eigenvalues` (n_components,) of the noisy second moment
        about `center`, algebraically largest first, in squared data units.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one row. One symmetric integer second moment of clipped rows, squared sensitivity 2 Q^4.

    Notes
    -----
    Analyze Gauss (Dwork, Talwar, Thakurta, Zhang, 2014); paper A, Algorithm 4. Departs from it: sensitivity sqrt(2) r^2
    in place of 2 r^2, and orthogonally invariant noise.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, private_pca
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 4)) * [5.0, 1.0, 1.0, 1.0]
    >>> result = private_pca(rows, budget=ZCDP(rho=0.1), center=0.0, radius=20.0, n_components=1)
    >>> bool(abs(result.components[0, 0]) > 0.99)
    True
    """
    rows, _ = running.open_rows(x_priv, columns=columns)
    ball = size("radius", radius)
    count = validation.integer("n_components", n_components, minimum=1, maximum=rows.dim)
    middle = running.vector_or_number("center", 0.0 if center is None else center, rows.dim)
    run = running.start(
        "private_pca",
        rows,
        budget,
        draws=rows.dim * rows.dim,
        ledger=ledger,
        random_state=random_state,
        threads=threads,
        progress=progress,
    )
    check_gram_grids(run.account, [run.account.allowance], rows.dim, rows.n)
    with run.paid():
        released = run.release(
            SecondMoment(affine=AffineMap(dim=rows.dim, center=middle), radius=ball),
            name="second moment",
            cost=run.account.allowance * Fraction(1),
            clip_radius=ball,
        )
        values, vectors = spectrum(released.value / rows.n)
        order = np.argsort(values)[::-1][:count]
        components = vectors[:, order].T
        # A fixed sign, so that equal answers look equal.
        largest = np.take_along_axis(components, np.argmax(np.abs(components), axis=1)[:, None], axis=1)
        return PCAResult(
            components=frozen(components * np.where(largest < 0.0, -1.0, 1.0)),
            eigenvalues=frozen(values[order]),
            center=frozen(middle),
            noise_norm=math.sqrt(2.0 * rows.dim) * released.spectral_std / rows.n,
            columns=rows.columns,
            provenance={"center": "argument", "radius": "argument"},
            **run.fields(0),
        )
