"""Covariance without public rows (CoinPress) and private principal components (Analyze Gauss)."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv import run as running
from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import AccuracyWarning, InputError
from fastpubpriv.estimators.ladder.looks import count_norms
from fastpubpriv.estimators.ladder.norms import count_share, early_cut, scale_edges
from fastpubpriv.estimators.ladder.schedule import Noise
from fastpubpriv.estimators.learners import coinpress_rounds
from fastpubpriv.estimators.matrices import spectrum
from fastpubpriv.estimators.radii import Mode, budget_shares, chi_radius, failure_probability, size
from fastpubpriv.mechanisms.sums import AffineMap, Released, SecondMoment, check_gram_grids
from fastpubpriv.parameters import FAILURE_PROB, shared_docs
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import CovarianceResult, PCAResult
from fastpubpriv.run import Run

ROW_FAILURE = 0.1
MAX_STEPS = 10
# A predicted relative error from which a covariance is said to be lost in noise.
HOPELESS = 2.0
# Rows that fill this share of their ball, as squared norms, were cut off by it.
FILLED = 0.8
# The quantile of the squared distances of public rows that a radius reaches where no count can show one.
PUBLIC_QUANTILE = 0.9


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
        `covariance` (dim, dim), positive semi-definite, in squared data units; `correlation`; `predicted_error` from public
        numbers; `status` "clipped" where `scale` was seen to be too small, "under_resolved" where noise could have made the
        smallest eigenvalues.

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
    failure = failure_prob / n if mode == "theory" else ROW_FAILURE
    clip = chi_radius(dim, failure)
    predicted = _predicted_error(run, budget_shares(steps)[-1], clip)
    if not predicted < HOPELESS:
        warnings.warn(
            f"coinpress_covariance: predicted relative error {predicted:.3g}, noise as large as the covariance; pass a larger "
            "budget, more private rows or fewer columns, or let estimate_gaussian fall back on public rows",
            AccuracyWarning,
            stacklevel=2,
        )
    with run.paid():
        covariance, released = coinpress_rounds(
            run,
            base,
            shares=budget_shares(steps),
            n=n,
            row_failure=failure,
            slack=slack,
        )
        return CovarianceResult(
            covariance=frozen(covariance * bound),
            relative_noise_std=released.spectral_std / n,
            steps=steps,
            predicted_error=predicted,
            status=_status(released, n, clip),
            columns=rows.columns,
            provenance={"center": "argument", "scale": "argument"},
            **run.fields(0),
        )


def _predicted_error(run: Run, share: Fraction, clip: float) -> float:
    """Relative Frobenius error of white rows in a last round with this share of the budget: sampling and noise."""
    dim, n = run.rows.dim, run.rows.n
    noise = Noise(run.account.pure, run.account.allowance).gram(dim, share) * clip * clip / n
    return math.sqrt(dim * (dim + 1.0) * (1.0 / n + noise * noise / 2.0))


def _status(released: Released, n: int, clip: float) -> str:
    """What the last round shows of itself, in its own coordinates."""
    second = released.value / n
    dim, std = len(second), released.spectral_std / n
    if float(np.trace(second)) - 3.0 * std * math.sqrt(dim) > FILLED * clip * clip:
        return "clipped"
    ratio = math.sqrt(dim / n)
    least = float(spectrum(second)[0][0])
    return "ok" if least > math.sqrt(2.0 * dim) * std + ratio * ratio / 2.0 else "under_resolved"


@shared_docs
def private_pca(
    x_priv: Any,
    *,
    budget: Budget,
    center: Any = None,
    radius: float | str | None = None,
    n_components: int,
    x_pub: Any = None,
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
    center : float or (dim,), optional
        Centre of the ball, a public number; by default the mean of the public rows.
    radius : float > 0 or "auto", optional
        Radius of the ball, in data units. "auto", the default with public rows: a twentieth of the budget or less buys a private
        count of the distances from the centre, and the radius weighs what it cuts off against noise; where a count would show
        nothing, the distances of the public rows decide.
    n_components : int from 1 to dim
        Number of directions.
    x_pub : (n_pub, dim), optional
        Public rows, two or more that differ.
    {columns, ledger, random_state, threads, progress}

    Returns
    -------
    PCAResult
        `components` (n_components, dim), orthonormal rows, and `eigenvalues` (n_components,) of the noisy second moment
        about `center`, algebraically largest first, in squared data units; `status` says of each direction whether its eigenvalue
        stands out from the next by more than the noise ("resolved" or "unresolved").

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one row. One symmetric integer second moment of clipped rows, squared sensitivity 2 Q^4; with radius="auto"
    one histogram of distances before it (2 S^2, pure 2 S); the exact costs add up to at most the budget.

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
    rows, public = running.open_rows(x_priv, x_pub, columns=columns)
    count = validation.integer("n_components", n_components, minimum=1, maximum=rows.dim)
    middle, ball = _ball(rows.dim, center, radius, public)
    run = running.start(
        "private_pca",
        rows,
        budget,
        draws=rows.dim * rows.dim + len(scale_edges(1.0)) + 1,
        ledger=ledger,
        random_state=random_state,
        threads=threads,
        progress=progress,
    )
    noise = Noise(run.account.pure, run.account.allowance)
    counted = count_share(rows.n, noise) if ball is None else Fraction(0)
    if ball is None and (public is not None or not counted):
        rough = _public_radius(middle, public)
        ball = None if counted else rough
    else:
        rough = 1.0
    left = 1 - counted
    check_gram_grids(run.account, [run.account.allowance * left], rows.dim, rows.n)
    spectral = math.sqrt(2.0 * rows.dim) * noise.gram(rows.dim, left) / rows.n
    if not spectral < 1.0:
        warnings.warn(
            f"private_pca: the noise is predicted to be {spectral:.3g} times the largest eigenvalue of rows in the ball; pass a "
            "larger budget, more private rows or fewer columns",
            AccuracyWarning,
            stacklevel=2,
        )
    affine = AffineMap(dim=rows.dim, center=middle)
    given = public is None or radius not in (None, "auto")
    with run.paid():
        if ball is None:
            ball = _counted_radius(run, affine, rough, counted, spectral)
        released = run.release(
            SecondMoment(affine=affine, radius=ball),
            name="second moment",
            cost=run.account.allowance * left,
            clip_radius=ball,
        )
        return PCAResult(
            **_directions(released, rows.n, count),
            center=frozen(middle),
            columns=rows.columns,
            provenance={
                "center": "argument" if center is not None else "public rows",
                "radius": "released" if counted else "argument" if given else "public rows",
            },
            **run.fields(0 if public is None else len(public)),
        )


def _counted_radius(run: Run, affine: AffineMap, rough: float, share: Fraction, spectral: float) -> float:
    """The radius that weighs the trace it cuts off against noise, from a private count of distances."""
    norms = count_norms(run, affine, scale_edges(rough), share, name="norms of rows")
    middle_sq = norms.quantile_sq(0.5)
    least = rough if middle_sq is None else math.sqrt(middle_sq)
    return early_cut(norms, slack=lambda radius: spectral * radius**2, least=least).radius


def _directions(released: Released, n: int, count: int) -> dict[str, Any]:
    """Principal directions of a released second moment, with a fixed sign, so that equal answers look equal."""
    values, vectors = spectrum(released.value / n)
    order = np.argsort(values)[::-1]
    noise_norm = math.sqrt(2.0 * len(values)) * released.spectral_std / n
    # Beyond the last direction there is nothing: its eigenvalue stands for itself.
    gaps = values[order] - np.append(values[order][1:], 0.0)
    components = vectors[:, order[:count]].T
    largest = np.take_along_axis(components, np.argmax(np.abs(components), axis=1)[:, None], axis=1)
    return {
        "components": frozen(components * np.where(largest < 0.0, -1.0, 1.0)),
        "eigenvalues": frozen(values[order[:count]]),
        "noise_norm": noise_norm,
        "status": tuple("resolved" if gap > noise_norm else "unresolved" for gap in gaps[:count]),
    }


def _ball(dim: int, center: Any, radius: Any, public: FloatArray | None) -> tuple[FloatArray, float | None]:
    """Centre and radius from the arguments and the public rows; the radius is None where it is still to come."""
    if center is None:
        if public is None:
            raise InputError("pass center= and radius=, a ball that holds the rows, or public rows as x_pub=")
        middle = public.mean(axis=0)
    else:
        middle = running.vector_or_number("center", center, dim)
    if radius is None and public is None:
        raise InputError('pass radius=, a number or "auto", or public rows as x_pub=')
    auto = radius is None or (isinstance(radius, str) and validation.choice("radius", radius, ("auto",)) == "auto")
    return middle, None if auto else size("radius", radius)


def _public_radius(center: FloatArray, public: FloatArray | None) -> float:
    """How far public rows go from the centre."""
    if public is None:
        raise InputError(
            'too few private rows or too small a budget for radius="auto": pass a number, or public rows as x_pub='
        )
    with np.errstate(over="ignore"):
        reach = float(np.quantile(np.linalg.norm(public - center, axis=1), PUBLIC_QUANTILE))
    # So that the squares of the edges of a count around it are ordinary numbers.
    return math.sqrt(size("square of the radius from public rows", reach * reach))
