"""The ladder as a method of `estimate_gaussian`: choose a structure before the debit, warn about it, and release."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.distributions.norms import DRAWS, EDGES, NormCount, Shells
from fastpubpriv.errors import warn
from fastpubpriv.estimators.complete_rows import (
    CompleteRows,
    fields_of,
    reasons_of,
    release_complete,
)
from fastpubpriv.estimators.linalg import spectrum, symmetric
from fastpubpriv.estimators.moments import RadialPlan
from fastpubpriv.gaussians import gaussian_tuning as tuning
from fastpubpriv.gaussians.gaussian_intervals import (
    ReleasedVector,
    Reported,
    report_of,
    report_of_public,
)
from fastpubpriv.gaussians.gaussian_options import Options
from fastpubpriv.gaussians.last_round import FullRounds, LastRound, Resolved, edge_of
from fastpubpriv.gaussians.lifted import GaussianCall
from fastpubpriv.gaussians.public_prior import (
    EffectiveRows,
    Mismatch,
    PublicPrior,
    constant_text,
    mismatch_of,
    plain_worth,
    public_prior,
)
from fastpubpriv.gaussians.rounds import PlannedRelease, RoundMoment, release_rounds
from fastpubpriv.gaussians.structures import (
    LEAST_LAST,
    CountShares,
    Forecasts,
    Prediction,
    RoundPlan,
    axis_variances,
    constant_sq,
    forecast_structures,
    vector_radius,
)
from fastpubpriv.mechanisms import sums
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.release.account import Account
from fastpubpriv.results.estimates import GaussianResult
from fastpubpriv.results.public_draws import chi2_quantile
from fastpubpriv.results.reasons import Reason, first_of, ordered
from fastpubpriv.session import Method, PredictedError, Session


@dataclass(frozen=True, slots=True, eq=False)
class ScaleCheck:
    """The public prior rescaled by `stretch` after a count of norms, and the norms in its coordinates, None if unresolved."""

    base: PublicPrior
    norms: Shells | None = None
    stretch: float = 1.0
    refuted: bool = False  # the stretch is more than chance explains


def counting(account: Account, n: int, dim: int, share: Fraction, counts: CountShares) -> NormCount:
    """Return a count of norms for this share of the allowance, planned with the budget that all counts leave."""
    left = account.allowance * (1 - counts.vectors)
    return NormCount.costing(account.allowance * share, left, n, dim, spending=account.spending)


def check_scale(base: PublicPrior, shells: Shells | None) -> ScaleCheck:
    """Compare the scale of the public prior with counted norms, and rescale it if they contradict it."""
    if shells is None:
        return ScaleCheck(base)
    middle = shells.quantile(0.5)
    middle_sq = None if middle is None else middle * middle
    stretch = base.worth.stretch(middle_sq)
    if middle_sq is None or stretch == 1.0:
        return ScaleCheck(base, shells)
    shrunk = replace(shells, edges=shells.edges / stretch)
    refuted = base.worth.refuted_by(stretch)
    return ScaleCheck(base.stretched(stretch), shrunk, stretch, refuted)


def with_column_scales(run: Session, base: PublicPrior, counts: CountShares) -> PublicPrior:
    """Return the prior with a scale from a private count for each column of equal public values whose count resolves one."""
    dim = run.rows.dim
    factors = np.ones(dim)
    left = []
    count = counting(run.account, run.rows.n, 1, counts.column, counts)
    for column in base.fallback:
        borrowed = math.sqrt(float(np.sum(np.square(base.root[column]))))
        unit = np.eye(dim)[[column]] / borrowed
        affine = sums.AffineMap(dim=dim, center=base.center, matrix=unit)
        norms = count.count_norms(run, affine, np.zeros(0), name=f"scale of column {column}")
        if norms.shells is None:
            left.append(column)
        else:
            factors[column] = norms.rms
    return replace(base.scaled(factors), borrowed=tuple(left))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StructureMoments:
    """What the releases of a structure show: a mean of n rows v with its noise, a covariance in data units, and a report."""

    structure: str
    covariance: FloatArray
    # from the combined mean, in data units, and the mismatch of public and private rows
    report: Callable[[FloatArray, Mismatch], Reported]
    n: float
    mean: FloatArray
    noise_std: FloatArray  # of the mean, in data units
    # squared length of the mean and expected one of its noise, in deviations of a covariance of `freedom` degrees
    distance_sq: float = 0.0
    noise_sq: float = 0.0
    freedom: float = math.inf
    error_sq: float = math.inf  # of the mean, in squared deviations of the rows
    covariance_error: float | None = None  # as the releases predict it
    complete: CompleteRows | None = None
    rounds: int = 0
    under_resolved: bool = False
    details: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def public(cls, base: PublicPrior, x_pub: FloatArray) -> StructureMoments:
        """Return what public rows alone show; a private mean would have no weight."""
        dim = len(base.center)
        return cls(
            structure="public",
            covariance=base.covariance,
            report=lambda *_: report_of_public(base, x_pub, base.covariance),
            n=math.inf,
            mean=np.zeros(dim),
            noise_std=np.zeros(dim),
        )


def estimate_of(
    run: Session, view: Forecasts, check: ScaleCheck, moments: StructureMoments
) -> GaussianResult:
    """Return the result in data units, in which private and public mean are combined by inverse variance.

    Its reasons follow from released numbers. Without a report, columns are FEW_PUBLIC_ROWS where the public rows do not show their
    scale, or how columns vary together, and FEW_ROWS elsewhere.
    """
    base = check.base
    dim = len(base.center)
    full = moments.structure == "full"
    mismatch = mismatch_of(
        moments.distance_sq, moments.noise_sq, base.worth, moments.n, freedom=moments.freedom
    )
    weight = mismatch.weight(moments.error_sq)
    mean = base.center + base.root @ (weight * moments.mean)
    if moments.under_resolved or not full:
        mean = base.settled(mean)
    reported = moments.report(mean, mismatch)
    predicted = view.structures[moments.structure]
    if moments.covariance_error is not None:
        predicted = Prediction(moments.covariance_error, math.sqrt(weight * moments.error_sq))
    details = {"mean_weight": weight, **moments.details}
    if not full:
        details["guess"] = base.worth.guess
    if moments.structure != "public":
        details |= {
            "shift": mismatch.deviations,
            "shifted": mismatch.beyond_chance,
            "scale_ratio": check.stretch,
            "rescaled": check.refuted,
        }
    if full:  # predicted errors do not include the uncertainty of a tail
        details["guess"] = any(reported.part_reasons)
    guessed = np.full(dim, base.worth.guess)
    guessed[list(base.borrowed)] = True
    few = first_of([(guessed, Reason.FEW_PUBLIC_ROWS), (True, Reason.FEW_ROWS)], dim)
    held = {
        Reason.CLIPPED: details.get("edge", 0.0) > tuning.AT_THE_EDGE,
        Reason.UNRESOLVED: moments.under_resolved,
        Reason.SHIFTED: mismatch.beyond_chance or check.refuted,
    }
    reasons = ordered(reason for reason, holds in held.items() if holds)
    source = f"public rows, ridge {base.ridge:.3g}"
    return GaussianResult(
        mean=mean,
        covariance=moments.covariance,
        mean_noise_std=weight * moments.noise_std,
        rounds=moments.rounds,
        reasons=(*reasons, *reasons_of(moments.complete, run.rows)),
        part_reasons=reported.part_reasons or few,
        predicted_covariance_error=predicted.covariance,
        predicted_mean_error=predicted.mean,
        method="ladder",
        structure=moments.structure,
        diagnostics=details,
        report=reported.report,
        columns=run.rows.columns,
        provenance=dict.fromkeys(("center", "scale", "radius"), source),
        **fields_of(moments.complete, run.rows),
        **run.fields(base.worth.n_pub),
    )


def draws(dim: int) -> int:
    """Return an upper bound on the number of noise draws for one population."""
    return (tuning.MOST_ROUNDS + 1) * (dim + 1) ** 2 + 2 * dim + (dim + 3) * DRAWS


def check_grids(run: Session, view: Forecasts, structure: str) -> None:
    """Raise, before the debit, if a release of the structure has no integer grid."""
    if structure == "public":
        return
    account = run.account
    dim = run.rows.dim
    n = run.rows.n
    allowance = account.allowance
    counts = view.counts
    if structure == "full":
        # The smallest and the largest share that the rounds may have.
        plan = RadialPlan.of_squares(account, n, dim + 1, 1 - counts.columns * counts.column)
        least = min(1 - counts.vectors, plan.pieces / allowance)
        sums.check_gram_grids(
            account, [allowance * least * share for share in tuning.EARLY_SHARES], dim + 1, n
        )
        last = RadialPlan.of_squares(account, n, dim + 1, least * LEAST_LAST)
        for each in (plan, last):
            each.check_grids(account)
    else:
        rest = allowance * (1 - counts.vectors)
        sums.check_sum_grids(account, [rest], dim if structure == "mean" else 2 * dim, n)
    for share in {counts.first, counts.column} - {0}:
        counting(account, n, dim, share, counts).check_grid()


def moments_of_vector(
    run: Session, check: ScaleCheck, vector: ReleasedVector, x_pub: FloatArray
) -> StructureMoments:
    """Return what a released vector of structure "mean" or "diagonal" (private variances along public axes) shows."""
    base = check.base
    worth = base.worth
    std = vector.std
    dim = worth.dim
    average = vector.values[:dim]
    share = vector.n / run.rows.n
    edge = edge_of(vector.values * share, std * share, vector.radius)
    details: dict[str, Any] = {"edge": edge}
    if vector.structure == "diagonal":
        variances, common = axis_variances(vector.values, std, vector.n, worth)
        noise_sq = std * std * float(np.sum(1.0 / variances))
        distance_sq = float(np.sum(np.square(average) / variances))
        error_sq = dim / vector.n + noise_sq
        scaled = base.root * np.sqrt(variances)
        covariance = symmetric(scaled @ scaled.T)
        details |= {"axis_variances": variances, "common_scale": common}
    else:
        spread = worth.radius_sq(0.5) / chi2_quantile(0.5, dim)
        noise_sq = dim * std * std / spread
        distance_sq = float(np.sum(np.square(average))) / spread
        error_sq = dim / vector.n + std * std * float(np.sum(1.0 / worth.spectrum()))
        covariance = base.covariance

    def report(mean: FloatArray, mismatch: Mismatch) -> Reported:
        # Public rows of another mean or scale would not show what clipping takes away.
        if check.stretch != 1.0 or mismatch.beyond_chance or edge > tuning.AT_THE_EDGE:
            return Reported()
        return report_of_public(base, x_pub, covariance, vector)

    return StructureMoments(
        structure=vector.structure,
        covariance=covariance,
        report=report,
        n=vector.n,
        mean=average,
        noise_std=std * np.linalg.norm(base.root, axis=1),
        distance_sq=distance_sq,
        noise_sq=noise_sq,
        freedom=worth.low + 2.0,
        error_sq=error_sq,
        complete=vector.complete,
        details=details,
    )


def moments_of_last_round(
    run: Session, view: Forecasts, resolved: Resolved, x_pub: FloatArray
) -> StructureMoments:
    """Return what the last round of structure "full" shows of the complete rows."""
    complete = resolved.complete_rows
    share = complete.divisor
    n = run.rows.n * share
    base = resolved.last.base
    root, inverse = resolved.powers
    back = base.root @ (root * share**-0.5)
    inverse = inverse * share**0.5
    noise_root = resolved.noise_root / share
    noise_sq = float(np.sum(np.square(inverse @ noise_root)))
    public_error = view.structures["public"].covariance
    return StructureMoments(
        structure="full",
        covariance=symmetric(back @ back.T),
        report=lambda mean, _: report_of(resolved, mean, x_pub),
        n=n,
        mean=resolved.mean,
        noise_std=np.linalg.norm(base.root @ noise_root, axis=1),
        distance_sq=float(np.sum(np.square(inverse @ resolved.mean))),
        noise_sq=noise_sq,
        error_sq=len(root) / n + noise_sq + resolved.mean_bias_sq / share,
        covariance_error=resolved.error,
        complete=complete,
        rounds=resolved.last.rounds,
        under_resolved=resolved.under_resolved,
        details={
            "edge": resolved.edge,
            **resolved.details,
            "public_covariance_error": public_error,
        },
    )


def release_structure(
    run: Session, base: PublicPrior, view: Forecasts, structure: str, x_pub: FloatArray
) -> GaussianResult:
    """Make the releases of a structure, all of them on all rows, and return the result; of "public" no private row is read."""
    if structure == "public":
        return estimate_of(run, view, ScaleCheck(base), StructureMoments.public(base, x_pub))
    if view.counts.column:
        base = with_column_scales(run, base, view.counts)
    if structure == "full":
        return _full(run, base, view, x_pub)
    return _vector(run, base, view, structure, x_pub)


def _vector(
    run: Session, base: PublicPrior, view: Forecasts, structure: str, x_pub: FloatArray
) -> GaussianResult:
    """Release a count of norms if it is worthwhile, and one sum of rows, or of rows and their squares along public axes."""
    dim = run.rows.dim
    n = run.rows.n
    counts = view.counts
    shells = None
    complete = None
    if counts.first:
        count = counting(run.account, n, dim, counts.first, counts)
        asked = count.asked(base.affine, incomplete=True)
        *cells, incomplete = run.release(asked, name="norms of rows", cost=count.shares.cells).value
        shells = count.shown(np.array(cells), np.zeros(0)).shells
        complete = CompleteRows.counted(incomplete, count.shares.count_std, n, run.account.spending)
    radius = vector_radius(structure, base.worth)
    check = check_scale(base, shells)
    base = check.base
    left = 1 - counts.vectors
    cost = run.account.allowance * left
    name = structure
    total: Any = sums.VectorSum(affine=base.affine, radius=radius)
    if structure == "mean" and (norms := check.norms) is not None:
        hidden = dim * (run.account.spending.std("sum", dim, left) / n) ** 2
        radius = norms.best_radius(
            lambda r: hidden * r * r + norms.beyond(r, power=1) ** 2, least=0.5 * radius
        )
        total = replace(total, radius=radius)
    if structure == "diagonal":
        name = "mean and axis variances"
        features = sums.AxisFeatures(center=base.center, matrix=base.inverse)
        total = sums.StatisticSum(
            statistic=features, dim=2 * dim, radius=radius, row_cost=dim * dim
        )
    if structure == "mean" and complete is None:
        released, complete = release_complete(run, total, name=name, cost=cost)
    else:
        released = run.release(total, name=name, cost=cost, clip_radius=radius)
    rows = n if complete is None else n * complete.divisor
    vector = ReleasedVector(
        structure=structure,
        values=released.value / rows,
        std=released.noise_std / rows,
        n=rows,
        complete=complete,
        radius=radius,
    )
    return estimate_of(run, view, check, moments_of_vector(run, check, vector, x_pub))


def _full(run: Session, base: PublicPrior, view: Forecasts, x_pub: FloatArray) -> GaussianResult:
    """Release a count of norms, early rounds if they pay off and another count after them, and the last round in two pieces."""
    account = run.account
    n = run.rows.n
    dim = run.rows.dim
    base = base.rotated()
    counts = view.counts
    part = 1 - counts.columns * counts.column
    plan = RadialPlan.of_squares(account, n, dim + 1, part)
    shells = None
    squared = None
    early = FullRounds.of(base, n, account.spending.part(part))
    direct = early.step() is None
    if direct:
        own = helping_norms(base.affine, x_pub)
        count = plan.counting(early.amplified)
        asked = count.asked(base.affine)
        released = run.release(asked, name="norms of rows", cost=count.shares.cells).value
        squared = count.shown(released, np.zeros(0)).shells
        shells = None if squared is None else replace(squared, edges=np.sqrt(squared.edges))
        part = plan.pieces / account.allowance
    elif counts.first:
        first = counting(account, n, dim, counts.first, counts)
        shells = first.count_norms(run, base.affine, np.zeros(0)).shells
        part -= counts.first
    check = check_scale(base, shells)
    early = FullRounds.of(check.base, n, account.spending.part(part))
    norms = None
    if direct and check.stretch == 1.0:  # otherwise rows may be a cluster far from the public ones
        norms = count.shown(released, own).moved(constant_sq(dim))
        early.ball_sq = norms.radius
    if norms is None or early.step() is not None:
        release_early(run, early, part, check, needed=norms is None)
        norms = None
        plan = RadialPlan.of_squares(account, n, dim + 1, part * early.left)
    last = LastRound.after(early)
    if norms is None:
        helping = helping_norms(last.centered, x_pub)
        again = plan.counting(early.amplified)
        norms = again.count_norms(run, last.centered, helping, name="norms before the last round")
        norms = norms.moved(constant_sq(dim))
    pieces = plan.pieces_of(run, last.affine, norms, np.zeros(0), name="last second moment")
    resolved = last.resolved(pieces)
    moments = moments_of_last_round(run, view, resolved, x_pub)
    result = estimate_of(run, view, check, moments)
    if squared is None or resolved.under_resolved:
        return result
    if tail_seen(released, squared, own, count):
        return with_public_tail(base, x_pub, own, result)
    return result


def tail_seen(released: FloatArray, shells: Shells, own: FloatArray, count: NormCount) -> bool:
    """Return whether counts beyond all significant shells hold the tail that squared norms of public rows `own` (m,) have there."""
    end = float(shells.edges[-1])
    if len(own) < tuning.LEAST_PUBLIC or own.max() <= end:
        return False
    first, last = np.searchsorted(EDGES, (end, own.max())).tolist()
    rows = float(released[1 + first : 1 + last].sum())
    noise = tuning.FAR_ROWS * count.shares.count_std * math.sqrt(last - first)
    return rows > max(noise, shells.n * float(np.mean(own > end)) / 2.0)


def with_public_tail(
    base: PublicPrior, x_pub: FloatArray, own: FloatArray, result: GaussianResult
) -> GaussianResult:
    """Return the result with the public covariance where the released one is smaller in every direction: its tail was clipped."""
    white = base.inverse @ result.covariance @ base.inverse.T
    if float(spectrum(white)[0][-1]) > tuning.UNCERTAIN:
        return result
    of_mean = [f"mean{part}" for part in ("", "_std", "_below", "_above")]
    means = {name: getattr(result.report, name) for name in of_mean}
    public = report_of_public(base, x_pub, base.covariance)
    assert public.report is not None  # `tail_seen` has enough public rows
    report = replace(public.report, **means)
    error = math.sqrt(float(np.mean(own**2)) / len(own))  # of a mean of m products of whitened rows
    result = replace(result, covariance=base.covariance, predicted_covariance_error=error)
    return replace(result, report=report, part_reasons=((Reason.FALLBACK,),) * len(white))


def first_radius(check: ScaleCheck, plan: RoundPlan, share: Fraction) -> float:
    """Return the clip radius of the first round, wider if counts show distant rows, whose directions would be inflated."""
    # Wide if noise is small: in coordinates of few public rows, or with a long tail, many rows are longer than white ones.
    radius = math.sqrt(max(plan.wide_radius_sq * plan.shows(share), plan.first_radius_sq))
    if check.norms is None or check.stretch != 1.0:
        return radius
    norms = replace(check.norms, edges=np.hypot(check.norms.edges, 1.0))  # of rows (v, 1)
    if norms.beyond(radius, power=2) <= tuning.FAR_EXCESS * plan.dim:
        return radius
    return norms.best_radius(
        lambda wider: plan.slack(plan.std(wider * wider, share)) + norms.beyond(wider, power=2),
        least=radius,
    )


def helping_norms(affine: sums.AffineMap, rows: FloatArray | None) -> FloatArray:
    """Return |y|^2 of mapped public rows, (m,), empty if they are too few for their norms about their own mean to be typical."""
    if rows is None or len(rows) < tuning.HELPING * affine.dim:
        return np.zeros(0)
    moved = (rows if affine.center is None else rows - affine.center) @ affine.dense.T
    return np.asarray(
        np.sum(np.square(moved if affine.offset is None else moved + affine.offset), axis=1)
    )


def release_early(
    run: Session, early: FullRounds, part: Fraction, check: ScaleCheck, *, needed: bool
) -> None:
    """Release the early rounds, planned one by one, at least one if `needed`."""
    plan = early.plan

    def schedule() -> Iterator[PlannedRelease]:
        least = tuning.EARLY_SHARES[0] if needed else None
        while share := early.step() or (None if early.made else least):
            radius = (
                math.sqrt(plan.radius_sq(early.made, share))
                if early.made
                else first_radius(check, plan, share)
            )
            name = f"second moment, round {early.made + 1}"
            cost = run.account.allowance * part * share
            yield PlannedRelease(name=name, cost=cost, radius=radius)
            early.left -= share

    def measure(step: PlannedRelease) -> list[RoundMoment]:
        total = sums.SecondMoment(affine=early.affine, radius=step.radius)
        released = run.release(total, name=step.name, cost=step.cost, clip_radius=step.radius)
        return [RoundMoment(released, plan.n)]

    release_rounds([early], schedule(), measure)


def ladder(
    method: Method[[int]], run: Session, x_pub: FloatArray, options: Options
) -> GaussianCall:
    """Read the public rows, predict every structure, choose one, check the grids and warn, all before the debit."""
    base = public_prior(x_pub)
    structure = options.structure
    spending = run.account.spending
    view = forecast_structures(
        base.worth, run.rows.n, spending, CountShares.of(run.rows.n, spending, len(base.fallback))
    )
    taken = structure if structure != "auto" else view.best
    if structure == "auto" and run.rows.may_be_absent and taken in ("mean", "diagonal"):
        # These take a row that pads a person for one at the public mean; the full structure releases the share of such rows.
        taken = (
            "full"
            if view.structures["full"].covariance < view.structures["public"].covariance
            else "public"
        )
    check_grids(run, view, taken)
    names = run.rows.columns or tuple(map(str, range(run.rows.dim)))
    if base.fallback:
        warn(f"estimate_gaussian: {constant_text([names[j] for j in base.fallback])}")
    if structure == "auto" and taken in ("public", "mean"):
        warn(f"estimate_gaussian: {_advice(base.worth, run.rows.n, spending, view, taken)}")
    # The noise of the full structure is predicted above the eigenvalues.
    if structure == "full" and view.own_error_sq > run.rows.dim / 2.0:
        warn(
            "estimate_gaussian: structure='full' has a predicted relative covariance error of "
            f"{view.own_error_sq**0.5:.3g} by itself; structure='auto' would take {view.best!r}"
        )

    def estimate(run: Session) -> GaussianResult:
        result = release_structure(run, base, view, taken, x_pub)
        worth = base.worth
        details = {
            "rungs": {name: [each.covariance, each.mean] for name, each in view.structures.items()},
            "auto": view.best,
            "public_degrees": [worth.low, worth.likely],
            "fallback_columns": [names[j] for j in base.fallback],
        }
        return replace(result, diagnostics={**details, **result.diagnostics})

    return estimate, taken != "public"


def _advice(worth: EffectiveRows, n: int, spending: Spending, view: Forecasts, taken: str) -> str:
    """Return the text that names what replaces a private covariance, and the number of rows that would make one worthwhile."""
    own = "nothing private was read" if taken == "public" else "the mean alone is private"
    guess = (
        f", a guess: {worth.n_pub} public rows do not show how columns vary together"
        if worth.guess
        else ""
    )
    error = view.structures[taken].covariance
    text = f"the covariance is that of the public rows (predicted relative error {error:.3g}{guess}); {own}"
    for doubling in range(1, tuning.MOST_DOUBLINGS + 1):
        enough = n << doubling
        if forecast_structures(worth, enough, spending).best in ("diagonal", "full"):
            return f"{text}. About {enough} private rows, or a larger budget, would buy a private covariance"
    return f"{text}; no reasonable number of rows at this budget would improve on it"


def forecast(
    options: Options, dim: int, n_pub: int, n_priv: int, spending: Spending
) -> PredictedError:
    """Predict the errors of all structures, and the choice for typical public rows (without pseudo-rows)."""
    view = forecast_structures(
        plain_worth(dim, n_pub), n_priv, spending, CountShares.of(n_priv, spending)
    )
    taken = view.best if options.structure == "auto" else options.structure
    details = {"mean_error": view.structures[taken].mean}
    for name, each in view.structures.items():
        details[f"takes_{name}"] = float(name == taken)
        details[f"{name}_covariance_error"] = each.covariance
        details[f"{name}_mean_error"] = each.mean
    return view.structures[taken].covariance, details
