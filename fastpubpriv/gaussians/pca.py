"""Private principal components (Analyze Gauss)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import BoolArray, FloatArray, Keep, RowsPerPerson
from fastpubpriv.distributions.norms import DRAWS, Norms
from fastpubpriv.errors import InputError, warn
from fastpubpriv.estimators.column_means import warn_if_bounds_are_wrong
from fastpubpriv.estimators.complete_rows import CompleteRows, fields_of, reasons_of
from fastpubpriv.estimators.linalg import spectrum
from fastpubpriv.estimators.moments import LARGEST, RadialMean, RadialPlan, longest_tail, unpacked
from fastpubpriv.estimators.radii import middle_and_half, size, size_or_auto
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.gaussians.gaussian_intervals import (
    parts_of,
    public_kurtosis,
    undetected_square,
)
from fastpubpriv.gaussians.gaussian_tuning import (
    KURTOSIS,
    LEAST_PUBLIC,
    OUTER,
    UNSEEN_KURTOSIS,
)
from fastpubpriv.gaussians.ladder import helping_norms
from fastpubpriv.gaussians.last_round import tail_of
from fastpubpriv.gaussians.structures import chi_beyond, count_share
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.results.estimates import PCAResult
from fastpubpriv.results.public_draws import chi2_quantile
from fastpubpriv.results.reasons import Reason, first_of
from fastpubpriv.session import Session

# Quantile of the distances of public rows that is the radius without a private count.
PUBLIC_QUANTILE = 0.9


@user_level
def private_pca(
    x_priv: Any,
    *,
    budget: Budget,
    center: Any = None,
    radius: float | str | None = None,
    bounds: Any = None,
    n_components: int,
    x_pub: Any = None,
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> PCAResult:
    """Principal directions of private rows within a public ball.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows.
        Rows outside the ball are projected onto its surface. A row with a missing cell is left out if the radius comes from a
        count, which then also gives their number; otherwise it counts as a row at the center.
    budget : ZCDP, ApproxDP or PureDP
        Spent whole, and debited before `x_priv` is read.
    center : float or (dim,), optional
        Center of the ball, a public number; by default the mean of the public rows.
    radius : float > 0 or "auto", optional
        Radius of the ball, in data units. "auto", the default with public rows: a part of the budget pays for a private count of
        the distances from the center, the radius balances clipping bias and noise, and the part of rows beyond it is estimated; if
        noise would dominate a count, the public distances give the radius. Intervals are shortest, without "clipped" or
        "heavy_tail", if most rows are closer than .7 times the radius.
    bounds : (lowest, highest), numbers or (dim,) each
        Range of each column, in place of `center` and `radius`: the center is the middle, or the mean of the public rows, and the
        radius as with "auto", at most the distance to the farthest corner.
    x_pub : (n_pub, dim), optional
        Public rows, at least two distinct ones. Their second moment is averaged with the private one by inverse variance; the
        weight is a function of public and released numbers, and small if the two disagree.
    columns : str, int or list of these, optional
        Numeric columns by name or, of an array, by number; by default all, in their order.
    person : str or (n_priv,) array-like, optional
        Column that says whose row it is, or the identifiers themselves: the call then protects all rows of a person together
        (user-level privacy); say by `keep` or `rows_per_person` what stands for a person. Rows without an identifier are left
        out. A text that is a number in its usual form (7, -3, 7.0) is that number, whatever the form of the table; "07" and "7"
        are two persons. Whole numbers beyond 2^53 are rounded in columns of numbers: keep them as text. By default each row is
        protected by itself.
    keep : "row", "mean" or "sum", optional
        With `person`: "mean", for each column the mean of the numbers in the person's rows, so that each person counts once; or
        "sum", their sum (0 for a person without any), whose total is that of all rows. Public rows that have the column of
        persons are treated alike, others are of persons already. "row", which `rows_per_person` implies: rows.
    rows_per_person : int or "auto", optional
        With `person`: at most how many rows of each person are used, chosen as if at random. For k rows the budget is spent at
        row level with rho / k^2 or epsilon / k; "auto" chooses k with a sixteenth of it, and a given k spends 1/64 on how many
        persons have more rows: reason "rows_left_out" if surely more than 2 % do. Rows that a person does not have are in no
        count; a method that cannot tell them from rows at a center refuses k > 1 before the debit.

    n_components : int from 1 to dim
        Number of directions.

    ledger : Ledger, optional
        Debited before the first read, by what `budget` says is spent.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads : int, optional
        Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
    progress : bool, optional
        Whether a progress bar is shown; by default on a terminal, for long work.

    Returns
    -------
    PCAResult
        `components` (n_components, dim), orthonormal rows, and `eigenvalues` (n_components,) of the noisy second moment
        about `center`, algebraically largest first, in squared data units; `part_reasons` marks the directions whose
        eigenvalue does not exceed the next by more than the noise, and `structure` is "public" if the public rows have most of the
        weight. `confidence_interval` is that of the mean square of the private rows along each, and `part_reasons` also marks
        those that few distant rows determine. With a radius from public rows all are marked, as "few_rows" or worse; with any
        public radius, as "clipped" if so many rows are near or beyond it that no interval holds.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other, whatever the public rows are. Public: n_priv, dim, x_pub.
    Released with Gaussian noise (zCDP, approximate DP) or discrete Laplace noise (pure DP): two second moments at once, of the
    inner and of the outer part of each clipped row; with radius="auto" or `bounds` one count of distances before them, unless
    noise would dominate it. The exact costs add up to at most the budget.

    Proofs: `notes/moment_pieces.md`, `notes/shell_counts.md`.

    See Also
    --------
    estimate_gaussian : mean and whole covariance, in units that come from public rows.
    coinpress_covariance : a covariance without public rows.

    Notes
    -----
    Analyze Gauss (Dwork, Talwar, Thakurta, Zhang, 2014); paper A, Algorithm 4. Departs from it: the bound on what a row may
    change is exact, which makes the noise smaller by sqrt(2) (`notes/gram.md`), and the noise is orthogonally invariant.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, private_pca
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 4)) * [5.0, 1.0, 1.0, 1.0]
    >>> result = private_pca(rows, budget=ZCDP(rho=0.1), center=0.0, radius=20.0, n_components=1)
    >>> bool(abs(result.components[0, 0]) > 0.99)
    True
    """
    rows, public = session.open_rows(x_priv, x_pub, columns=columns)
    session.refuse_padding(
        rows, "private_pca", "estimate_gaussian, whose covariance has principal directions"
    )
    count = validation.integer("n_components", n_components, minimum=1, maximum=rows.dim)
    session.require_squares("private_pca", rows.dim, 12)
    middle, ball, corner = _ball(rows.dim, center, radius, bounds, public, rows.columns)
    run = session.start(
        "private_pca",
        rows,
        budget,
        draws=2 * rows.dim * rows.dim + DRAWS + 1,
        **session.asked(ledger, random_state, threads, progress),
    )
    spending = run.account.spending
    counted = ball is None and count_share(rows.n, spending) > 0
    rough = 1.0
    source = "argument"
    if ball is None and (public is not None or corner is not None or not counted):
        rough = _rough_radius(middle, public, corner)
        source = "bounds" if rough == corner else "public rows"
        ball = None if counted else rough
    source = "released" if counted else source
    plan = RadialPlan.of_squares(run.account, rows.n, rows.dim, counts=counted)
    plan.check_grids(run.account)
    spectral = math.sqrt(2.0 * rows.dim) * spending.std("moment", rows.dim) / rows.n
    if not spectral < 1.0:
        warn(
            f"private_pca: the noise is predicted to be {spectral:.3g} times the largest eigenvalue of rows in the ball; pass a "
            "larger budget, more private rows or fewer columns",
        )
    affine = AffineMap(dim=rows.dim, center=middle)
    with run.paid():
        complete = None
        if ball is None:
            pieces, complete = _counted_pieces(run, plan, affine, public, corner)
            added, _ = tail_of(pieces, 0.0)
        else:
            pieces = _pieces_in_ball(run, plan, affine, ball, corner)
            added = 0.0
        private = unpacked(pieces.mean + added * pieces.outer, rows.dim)
        std = math.hypot(1.0, added) * pieces.noise_std
        moment = _with_public(private, std, pieces.n, public, middle)
        components, lost = _directions(moment, count)
        few = source == "public rows" and not pieces.reached
        along, reasons = _along(pieces, components["components"], public, complete, few=few)
        result = PCAResult(
            **components,
            **along,
            **fields_of(complete, rows),
            reasons=reasons_of(complete, rows),
            part_reasons=first_of([(lost, Reason.UNRESOLVED), *reasons], count),
            center=middle,
            columns=rows.columns,
            provenance={
                "center": "argument"
                if center is not None
                else "public rows"
                if public is not None
                else "bounds",
                "radius": source,
                **(
                    {"second_moment": f"public rows, weight {moment.weight:.3g}"}
                    if moment.weight
                    else {}
                ),
            },
            **run.fields(0 if public is None else len(public)),
        )
    return session.warned("private_pca", result)


def _counted_pieces(
    run: Session,
    plan: RadialPlan,
    affine: AffineMap,
    public: FloatArray | None,
    corner: float | None,
) -> tuple[RadialMean, CompleteRows]:
    """Release a count of norms and the two pieces of the second moment, in a ball of the radius that the count gives.

    Return the means over the complete rows, and their share.
    """
    helping = helping_norms(affine, public)
    most = math.inf if corner is None else corner * corner
    count = plan.counting()
    *cells, incomplete = run.release(
        count.asked(affine, incomplete=True), name="norms of rows", cost=plan.count
    ).value
    norms = count.shown(np.array(cells), helping)
    complete = CompleteRows.counted(incomplete, count.shares.count_std, plan.n, plan.spending)
    share = complete.divisor
    norms = replace(norms, rms=norms.rms / math.sqrt(share))
    pieces = plan.pieces_of(
        run, affine, norms, helping, name="second moment", counted=plan.n * share, most=most
    )
    return pieces, complete


def _pieces_in_ball(
    run: Session, plan: RadialPlan, affine: AffineMap, radius: float, corner: float | None
) -> RadialMean:
    """Release the two pieces of the second moment in a ball of public `radius`, without a count of norms."""
    square = radius * radius
    unknown = Norms(radius=square, bias=0.0, end=square, rms=square)
    pieces = plan.pieces_of(run, affine, unknown, np.zeros(0), name="second moment")
    # Clipped rows have E |y|^4 <= R E |y|^2.
    trace = float(np.trace(unpacked(pieces.mean, affine.out_dim)))
    rms = math.sqrt(square * min(max(trace, 0.0), square))
    return replace(
        pieces, norms=replace(unknown, rms=rms), reached=corner is not None and radius >= corner
    )


def _along(
    pieces: RadialMean,
    components: FloatArray,
    public: FloatArray | None,
    complete: CompleteRows | None,
    *,
    few: bool,
) -> tuple[dict[str, Any], list[tuple[Any, Reason | None]]]:
    """Return the report on the mean square of private rows along each direction, and possible reasons in order of precedence.

    `few`: the private rows were too few for a count, so that the public ones gave the radius.
    """
    dim = components.shape[1]
    noise = pieces.piece_std
    whole = unpacked(pieces.mean, dim)
    far = unpacked(pieces.outer, dim)
    inside, outer = (
        np.einsum("ij,jk,ik->i", components, each, components) for each in (whole, far)
    )
    share = np.clip((outer + noise) / max(float(np.trace(far)), 1.0 / LARGEST), 0.0, 1.0)
    # The variance is twice the square for Gaussian rows, and for distant rows their share of the fourth moment.
    sampling = np.sqrt((2.0 * inside**2 + share * pieces.norms.rms**2) / pieces.n)
    known = pieces.known(inside, outer, np.ones(len(components)), sampling)
    # Gaussian rows have norms like a multiple of chi squared, and the wider a direction the more of it is in the outer piece.
    total = max(float(np.trace(whole)), 1.0 / LARGEST)
    squares = max(float(np.sum(whole**2)), 1.0 / LARGEST**2)
    freedom = total**2 / squares
    radius = pieces.radius * total / squares
    beyond = squares / total * (chi_beyond(freedom, radius / 2.0) - chi_beyond(freedom, radius))
    over = np.where(pieces.reached, 0.0, np.maximum(outer - beyond * inside**2 / squares, 0.0))
    known = replace(known, extra=known.extra + longest_tail(over, noise))
    if complete is not None:
        known = replace(known, std=np.hypot(known.std, np.abs(known.value) * complete.relative_std))
    heavy = bool(pieces.reason) & (outer + 2.0 * noise > OUTER * np.abs(known.value))
    heavy |= over - noise > OUTER * np.abs(known.value)
    tailed = heavy | (over > 2.0 * noise)
    if public is not None:
        projected = public @ components.T
        heavy = heavy | (public_kurtosis(projected) > KURTOSIS)
        tailed = tailed | heavy | (public_kurtosis(projected, LEAST_PUBLIC) > UNSEEN_KURTOSIS)
    # noise may take a mean square below zero
    known = replace(known, value=np.maximum(known.value, 0.0))
    return parts_of("along", known, above=undetected_square(pieces, tailed)), [
        (pieces.reason == Reason.UNRESOLVED, Reason.UNRESOLVED),
        (_fills_ball(pieces, dim, freedom), Reason.CLIPPED),
        (few, Reason.FEW_ROWS),
        (heavy, Reason.HEAVY_TAIL),
    ]


def _fills_ball(pieces: RadialMean, dim: int, freedom: float) -> bool:
    """Return whether more rows fill the outer half of a ball of public radius than those of which a tenth lie beyond it.

    These are Gaussian rows with the degrees `freedom` of |y|^2. What is beyond a ball of counted radius is known from the count.
    """
    if pieces.norms.law is not None or pieces.norms.reason is not None or pieces.reached:
        return False
    half = pieces.radius / 2.0
    filled = (
        float(np.trace(unpacked(pieces.outer, dim))) - 2.0 * pieces.piece_std * math.sqrt(dim)
    ) / half
    degrees = min(max(freedom, 1.0), float(dim))  # noise may have made them any number
    quantile = chi2_quantile(PUBLIC_QUANTILE, degrees)
    usual = (chi_beyond(degrees, quantile / 2.0) - chi_beyond(degrees, quantile)) * 2.0 / quantile
    return filled > (1.0 + usual) / 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """A second moment (dim, dim), its predicted error in spectral norm, and the weight of the public rows in it."""

    matrix: FloatArray
    error: float
    weight: float = 0.0


def _with_public(
    private: FloatArray, std: float, n: float, public: FloatArray | None, middle: FloatArray
) -> Moment:
    """Average a released second moment and the public one by inverse variances of Gaussian rows; a gap raises the public one."""
    dim = len(private)
    noise_norm = math.sqrt(2.0 * dim) * std
    # The mean takes one degree of freedom; two more are subtracted because the inverse of a variance from few rows is biased up.
    freedom = 0 if public is None else max(len(public) - 3, 1)
    if public is None or len(public) < 2 or not np.isfinite(private).all():
        return Moment(private, noise_norm)
    offsets = public - middle
    with np.errstate(over="ignore", invalid="ignore"):
        theirs = offsets.T @ offsets / (len(public) - 1)
        spread_sq = float(np.trace(theirs)) ** 2 + float(np.sum(np.square(theirs)))
        own_sq = std * std * dim * (dim + 1.0) / 2.0 + spread_sq / n
        public_sq = max(spread_sq / freedom, _far_apart(private, theirs) - own_sq)
    if not (spread_sq > 0.0 and math.isfinite(public_sq) and math.isfinite(own_sq)):
        return Moment(private, noise_norm)
    weight = own_sq / (own_sq + public_sq)
    error = math.hypot((1.0 - weight) * noise_norm, weight * math.sqrt(public_sq))
    return Moment((1.0 - weight) * private + weight * theirs, error, weight)


def _far_apart(private: FloatArray, public: FloatArray) -> float:
    """Return the squared Frobenius distance of two second moments."""
    return float(np.sum(np.square(private - public)))


def _directions(moment: Moment, count: int) -> tuple[dict[str, Any], BoolArray]:
    """Return principal directions of a released second moment, with a canonical sign, and which of them noise hides."""
    values, vectors = spectrum(moment.matrix)
    order = np.argsort(values)[::-1]
    # The gap of the last direction is its eigenvalue.
    gaps = values[order] - np.append(values[order][1:], 0.0)
    components = vectors[:, order[:count]].T
    largest = np.take_along_axis(components, np.argmax(np.abs(components), axis=1)[:, None], axis=1)
    directions = {
        "components": components * np.where(largest < 0.0, -1.0, 1.0),
        "eigenvalues": values[order[:count]],
        "noise_norm": moment.error,
        "structure": "public" if moment.weight > 0.5 else "full",
    }
    return directions, ~(gaps[:count] > moment.error)


def _ball(
    dim: int,
    center: Any,
    radius: Any,
    bounds: Any,
    public: FloatArray | None,
    columns: tuple[str, ...] | None,
) -> tuple[FloatArray, float | None, float | None]:
    """Return center, radius (None if a count or the public rows give it) and its maximum (None without bounds) from arguments."""
    box = validation.column_bounds(bounds, dim)
    if box is not None:
        if center is not None or radius is not None:
            raise InputError("bounds= replaces center= and radius=: leave them out")
        middle, _ = middle_and_half(box)
        if public is not None:
            warn_if_bounds_are_wrong("private_pca", public, box, columns)
            middle = np.clip(public.mean(axis=0), *box)
        with np.errstate(over="ignore"):
            corner = float(np.linalg.norm(np.maximum(box[1] - middle, middle - box[0])))
            size("square of the radius from bounds", corner * corner)
        return middle, None, corner
    if center is None:
        if public is None:
            raise InputError(
                "pass center= and radius=, a ball that holds the rows, bounds=(lowest, highest), or public rows as x_pub="
            )
        middle = public.mean(axis=0)
    else:
        middle = session.vector_or_number("center", center, dim)
    if radius is None and public is None:
        raise InputError('pass radius=, a number or "auto", or public rows as x_pub=')
    return middle, None if radius is None else size_or_auto("radius", radius), None


def _rough_radius(center: FloatArray, public: FloatArray | None, corner: float | None) -> float:
    """Return a quantile of the distances of public rows from the center, at most that of the corner of the bounds."""
    if corner is not None and (public is None or not np.any(public != center)):
        return corner
    if public is None:
        raise InputError(
            'too few private rows or too small a budget for radius="auto": pass a number, or public rows as x_pub='
        )
    with np.errstate(over="ignore"):
        reach = float(np.quantile(np.linalg.norm(public - center, axis=1), PUBLIC_QUANTILE))
    # The squares of the edges of a count around it must be normal numbers.
    reach = math.sqrt(size("square of the radius from public rows", reach * reach))
    return reach if corner is None else min(reach, corner)
