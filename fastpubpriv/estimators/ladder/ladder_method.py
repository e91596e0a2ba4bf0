"""The ladder as a method of `estimate_gaussian`: choose a structure before the debit, warn about it, and release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.ladder import full
from fastpubpriv.estimators.ladder import ladder_tuning as tuning
from fastpubpriv.estimators.ladder.public_prior import (
    EffectiveRows,
    Mismatch,
    PublicPrior,
    constant_text,
    mismatch_of,
    plain_worth,
    public_prior,
)
from fastpubpriv.estimators.ladder.schedule import (
    LEAST_LAST,
    VECTOR_RADII,
    CountShares,
    Forecasts,
    RoundPlan,
    axis_variances,
    constant_sq,
    forecast_structures,
    full_plan,
)
from fastpubpriv.estimators.lifted_coinpress import GaussianCall, GaussianMethod, mean_map
from fastpubpriv.estimators.linalg import symmetric
from fastpubpriv.estimators.moments import DRAWS, NormCount, Norms, RadialMean, RadialPlan, Shells, SquarePlan, triangle
from fastpubpriv.estimators.preconditioner import Options
from fastpubpriv.mechanisms import sums
from fastpubpriv.privacy import Budget
from fastpubpriv.public_draws import chi2_quantile
from fastpubpriv.release.account import Account
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import GaussianResult
from fastpubpriv.results.gaussians import GaussianReport
from fastpubpriv.results.reasons import PartReasons, Reason, Reasons, ordered
from fastpubpriv.session import Noise, Session, allowance_of


@dataclass(frozen=True, slots=True, eq=False)
class ScaleCheck:
    """The public prior rescaled by `stretch` after a count of norms, and the norms in its coordinates, None if unresolved."""

    base: PublicPrior
    norms: Shells | None = None
    stretch: float = 1.0
    refuted: bool = False  # the stretch is more than chance explains
    middle_sq: float | None = None  # released median of the squared norms


def counting(account: Account, n: int, dim: int, share: Fraction, counts: CountShares) -> NormCount:
    """Return a count of norms for this share of the allowance, planned with the budget that all counts leave."""
    left = account.allowance * (1 - counts.vectors)
    return NormCount.costing(account.allowance * share, left, n, dim, pure=account.pure)


def check_scale(base: PublicPrior, shells: Shells | None) -> ScaleCheck:
    """Compare the scale of the public prior with counted norms, and rescale it if they contradict it."""
    if shells is None:
        return ScaleCheck(base)
    middle = shells.quantile(0.5)
    middle_sq = None if middle is None else middle * middle
    stretch = base.worth.stretch(middle_sq)
    if middle_sq is None or stretch == 1.0:
        return ScaleCheck(base, shells, middle_sq=middle_sq)
    shrunk, refuted = replace(shells, edges=shells.edges / stretch), base.worth.refuted_by(stretch)
    return ScaleCheck(base.stretched(stretch), shrunk, stretch, refuted, middle_sq / stretch**2)


def with_column_scales(run: Session, base: PublicPrior, counts: CountShares) -> PublicPrior:
    """Return the prior with a scale from a private count for each column of equal public values whose count resolves one."""
    dim = run.rows.dim
    factors, left, count = np.ones(dim), [], counting(run.account, run.rows.n, 1, counts.column, counts)
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
class LadderEstimate:
    """Mean and covariance in data units, with the noise of the mean (dim,), the structure, predicted errors and diagnostics."""

    mean: FloatArray
    covariance: FloatArray
    mean_noise_std: FloatArray
    structure: str
    covariance_error: float
    mean_error: float
    under_resolved: bool = False
    rounds: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)
    report: GaussianReport | None = None
    column_reasons: PartReasons = ()  # empty without a report


def reasons_of(estimate: LadderEstimate) -> Reasons:
    """Return the reasons from released numbers: the mean CLIPPED, eigenvalues UNRESOLVED, the rows SHIFTED or rescaled."""
    held = {
        Reason.CLIPPED: estimate.details.get("edge", 0.0) > tuning.AT_THE_EDGE,
        Reason.UNRESOLVED: estimate.under_resolved,
        Reason.SHIFTED: estimate.details.get("shifted", False) or estimate.details.get("rescaled", False),
    }
    return ordered(reason for reason, holds in held.items() if holds)


def draws(dim: int) -> int:
    """Return an upper bound on the number of noise draws for one population."""
    return (tuning.MOST_ROUNDS + 1) * (dim + 1) ** 2 + 2 * dim + (dim + 3) * DRAWS


def check_grids(run: Session, view: Forecasts, structure: str) -> None:
    """Raise, before the debit, if a release of the structure has no integer grid."""
    account, dim, n, allowance = run.account, run.rows.dim, run.rows.n, run.account.allowance
    counts = view.counts
    if structure == "full":
        # The smallest and the largest share that the rounds may have.
        plan = SquarePlan.of(account, n, triangle(dim + 1), 1 - counts.columns * counts.column)
        least = min(1 - counts.vectors, plan.pieces / allowance)
        sums.check_gram_grids(account, [allowance * least * share for share in tuning.EARLY_SHARES], dim + 1, n)
        last = SquarePlan.of(account, n, triangle(dim + 1), least * LEAST_LAST)
        for each in (plan, replace(last, pieces=last.pieces * (1 - tuning.MEAN_SHARE))):
            each.check_grids(account)
        RadialPlan.of(account, n, dim, last.pieces * tuning.MEAN_SHARE / allowance).check_grids(account)
    elif structure != "public":
        rest = allowance * (1 - counts.vectors)
        sums.check_sum_grids(account, [rest], dim if structure == "mean" else 2 * dim, n)
    if structure != "public":
        for share in {counts.first, counts.column} - {0}:
            counting(account, n, dim, share, counts).check_grid()


def public_estimate(base: PublicPrior, view: Forecasts) -> LadderEstimate:
    """Return the estimate from public rows alone; no private row is read."""
    predicted = view.structures["public"]
    return LadderEstimate(
        mean=base.center,
        covariance=base.covariance,
        mean_noise_std=np.zeros(len(base.center)),
        structure="public",
        covariance_error=predicted.covariance,
        mean_error=predicted.mean,
        details={"mean_weight": 0.0, "guess": base.worth.guess},
    )


def vector_estimate(
    base: PublicPrior,
    view: Forecasts,
    structure: str,
    released: sums.Released,
    n: float,
    *,
    radius: float | None = None,
    check: ScaleCheck | None = None,
) -> LadderEstimate:
    """Return the estimate of structure "mean" or "diagonal" (private variances along public axes) from a released vector sum."""
    std, dim, public = released.noise_std / n, len(base.center), base.worth
    average, own = released.value[:dim] / n, {}
    length_sq = float(np.sum(np.square(average)))
    if structure == "diagonal":
        variances, common = axis_variances(released.value / n, std, n, public)
        inverse = 1.0 / variances
        noise_sq, distance_sq = std * std * float(np.sum(inverse)), float(np.sum(np.square(average) * inverse))
        error_sq = dim / n + noise_sq
        scaled = base.root * np.sqrt(variances)
        covariance = symmetric(scaled @ scaled.T)
        own = {"axis_variances": variances, "common_scale": common}
    else:
        spread = public.radius_sq(0.5) / chi2_quantile(0.5, dim)
        noise_sq, distance_sq = dim * std * std / spread, length_sq / spread
        error_sq = dim / n + std * std * float(np.sum(1.0 / public.spectrum()))
        covariance = base.covariance
    mismatch = mismatch_of(distance_sq, noise_sq, public, n, freedom=public.low + 2.0)
    weight = mismatch.weight(error_sq)
    square = length_sq - dim * std * std
    if structure == "mean" and check is not None and square > tuning.TOGETHER * (check.middle_sq or math.inf):
        # The norms are large because the mean is far away, which is no evidence about the scale.
        covariance, mismatch = covariance / check.stretch**2, replace(mismatch, beyond_chance=True)
    weights = _axis_weights(base, weight, std, n)
    predicted = view.structures[structure]
    return LadderEstimate(
        mean=base.settled(base.center + base.root @ (weights * average)),
        covariance=covariance,
        mean_noise_std=std * np.linalg.norm(base.root * weights, axis=1),
        structure=structure,
        covariance_error=predicted.covariance,
        mean_error=predicted.mean,
        details={
            "mean_weight": weight,
            "edge": full.edge_of(average, std, VECTOR_RADII[structure](public) if radius is None else radius),
            **own,
            "guess": public.guess,
            **_shown(mismatch, check),
        },
    )


def full_estimate(
    base: PublicPrior,
    view: Forecasts,
    resolved: full.Resolved,
    private: FloatArray,
    noise_root: FloatArray,
    n: float,
    rounds: int,
    *,
    edge: float,
    check: ScaleCheck | None = None,
    bias_sq: float = 0.0,
) -> LadderEstimate:
    """Return the estimate of structure "full": the public mean is combined with a private one whose noise has root `noise_root`."""
    dim = len(base.center)
    root, inverse = resolved.powers
    noise_sq = float(np.sum(np.square(inverse @ noise_root)))
    error_sq = dim / n + noise_sq + bias_sq
    mismatch = mismatch_of(float(np.sum(np.square(inverse @ private))), noise_sq, base.worth, n)
    weight = mismatch.weight(error_sq)
    back = base.root @ root
    mean = base.center + base.root @ (weight * private)
    return LadderEstimate(
        mean=base.settled(mean) if resolved.under_resolved else mean,
        covariance=symmetric(back @ back.T),
        mean_noise_std=weight * np.linalg.norm(base.root @ noise_root, axis=1),
        structure="full",
        under_resolved=resolved.under_resolved,
        covariance_error=resolved.error,
        mean_error=math.sqrt(weight * error_sq),
        rounds=rounds,
        details={
            "mean_weight": weight,
            "edge": edge,
            **resolved.details,
            "public_covariance_error": view.structures["public"].covariance,
            **_shown(mismatch, check),
        },
    )


def _axis_weights(base: PublicPrior, weight: float, std: float, n: float) -> FloatArray:
    """Return weights (dim,) of the private mean along the axes; they are smaller along axes without public spread."""
    weights = np.full(len(base.center), weight)
    public = 1.0 / base.worth.n_pub
    weights[: base.unseen] = min(weight, public / (public + 1.0 / n + std * std / tuning.UNSEEN_PART))
    return weights


def _shown(mismatch: Mismatch, check: ScaleCheck | None) -> dict[str, Any]:
    """Return the diagnostics about the mismatch of public and private rows."""
    details: dict[str, Any] = {"shift": mismatch.deviations, "shifted": mismatch.beyond_chance}
    return details if check is None else {**details, "scale_ratio": check.stretch, "rescaled": check.refuted}


def release_structure(
    run: Session, base: PublicPrior, view: Forecasts, structure: str, x_pub: FloatArray
) -> LadderEstimate:
    """Make the releases of a structure, all of them on all rows, and return the estimate."""
    dim, n, allowance = run.rows.dim, run.rows.n, run.account.allowance
    if structure == "public":
        return replace(public_estimate(base, view), **full.report_of_public(x_pub))
    public = base.worth
    if view.counts.column:
        base = with_column_scales(run, base, view.counts)
    if structure == "full":
        return _full(run, base, view, x_pub)
    shells = None
    if view.counts.first:
        shells = (
            counting(run.account, n, dim, view.counts.first, view.counts)
            .count_norms(run, base.affine, np.zeros(0))
            .shells
        )
    check = check_scale(base, shells)
    base = check.base
    rest = allowance * (1 - view.counts.vectors)
    noise = Noise(run.account.pure, allowance)
    radius = VECTOR_RADII[structure](public)
    if structure == "mean" and (norms := check.norms) is not None:
        hidden = dim * (noise.vector(dim, 1 - view.counts.vectors) / n) ** 2
        radius = norms.best_radius(lambda r: hidden * r * r + norms.beyond(r, power=1) ** 2, least=0.5 * radius)
    measurement: sums.VectorSum | sums.StatisticSum = sums.VectorSum(affine=base.affine, radius=radius)
    if structure == "diagonal":
        features = sums.AxisFeatures(center=base.center, matrix=base.inverse)
        measurement = sums.StatisticSum(statistic=features, dim=2 * dim, radius=radius, row_cost=dim * dim)
    name = "mean" if structure == "mean" else "mean and axis variances"
    released = run.release(measurement, name=name, cost=rest, clip_radius=radius)
    return vector_estimate(base, view, structure, released, n, radius=radius, check=check)


def _full(run: Session, base: PublicPrior, view: Forecasts, x_pub: FloatArray) -> LadderEstimate:
    """Release early rounds, counts of norms, and the last round in two pieces; only one count if early rounds do not pay off."""
    account, n, dim, noise = run.account, run.rows.n, run.rows.dim, Noise(run.account.pure, run.account.allowance)
    base, counts = base.rotated(), view.counts
    part = 1 - counts.columns * counts.column
    plan, pieces, early = SquarePlan.of(account, n, triangle(dim + 1), part), None, None
    state = full.FullRounds(base, full_plan(base.worth, n, noise.part(part)))
    direct = state.step().share is None
    if direct:
        count = plan.counting(state.amplified)
        released = count.count(run, base.affine)
        shells = count.shown(released, np.zeros(0)).shells
        check = check_scale(base, None if shells is None else replace(shells, edges=np.sqrt(shells.edges)))
        part = plan.pieces / account.allowance
    else:
        part -= counts.first
        state = full.FullRounds(base, full_plan(base.worth, n, noise.part(part)))
        early = _counted_round(run, state, counts, part)
        check = check_scale(base, early.shells) if early.shells is not None else ScaleCheck(base)
    again = wider(check, state.plan, early)
    if check.stretch != 1.0 or direct or again is not None:
        state = full.FullRounds(check.base, full_plan(check.base.worth, n, noise.part(part)))
        state.left -= 0 if early is None else early.share
    elif early is not None:
        state.update(early.moment, early.radius, early.share)
    if direct and check.stretch == 1.0:  # otherwise rows may be a cluster far from the public ones
        norms = count.shown(released, helping_norms(base.affine, x_pub)).moved(constant_sq(dim))
        state.ball_sq = norms.radius
        if state.step().share is None:
            state.center()
            pieces, rest = _last_round(run, state, plan, norms)
    if pieces is None:
        pieces, rest = _rounds(
            run,
            state,
            part,
            x_pub,
            needed=check.stretch != 1.0 or (early is not None and again is not None),
            first=again,
        )
    base, resolved = check.base, state.finalize(pieces)
    share = full.complete_share(resolved)
    average = None
    if rest:
        affine = mean_map(base.affine, resolved.start, resolved.powers[1])
        average = RadialPlan.of(account, n, dim, rest).measure(
            run, affine, np.sqrt(helping_norms(affine, x_pub)), names=("norms of the mean", "two pieces of the mean"),
            counted=None if share == 1.0 else share * n,
        )  # fmt: skip
    resolved = resolved if average is None else resolved.with_mean(average)
    estimated = full_estimate(
        base, view, resolved, resolved.mean, resolved.noise_root, n, state.made, edge=resolved.edge, check=check,
        bias_sq=resolved.mean_bias_sq,
    )  # fmt: skip
    reported = full.report_of(base, resolved, estimated.mean, x_pub, share, average)
    # Predicted errors do not include the uncertainty of a tail.
    details = {**estimated.details, "guess": any(reported["column_reasons"])}
    return replace(estimated, covariance=estimated.covariance / share, details=details, **reported)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EarlyRound:
    """A first round with a clipping radius from public numbers, and the norms counted in the same pass."""

    moment: sums.Released
    radius: float
    share: Fraction
    shells: Shells | None = None


def wider(check: ScaleCheck, plan: RoundPlan, early: EarlyRound | None) -> float | None:
    """Return a wider radius for the first round if counts show distant rows, whose directions would be inflated, or None."""
    if check.norms is None or check.stretch != 1.0:
        return None
    norms = replace(check.norms, edges=np.hypot(check.norms.edges, 1.0))  # of rows (v, 1)
    share, least = (
        (tuning.EARLY_SHARES[0], math.sqrt(plan.wide_radius_sq)) if early is None else (early.share, early.radius)
    )
    if norms.beyond(least, power=2) <= tuning.FAR_EXCESS * plan.dim:
        return None
    return norms.best_radius(
        lambda radius: plan.slack(plan.std(radius * radius, share)) + norms.beyond(radius, power=2), least=least
    )


def _counted_round(run: Session, state: full.FullRounds, counts: CountShares, part: Fraction) -> EarlyRound:
    """Release the first round and, if it has a share, the count of norms in the same pass."""
    plan, dim = state.plan, run.rows.dim
    share = state.step().share or tuning.EARLY_SHARES[0]
    # Wide if noise is small: in coordinates of few public rows, or with a long tail, many rows are longer than white ones.
    radius = math.sqrt(max(plan.wide_radius_sq * plan.shows(share), plan.first_radius_sq))
    cost = run.account.allowance * part * share
    asked = sums.SecondMoment(affine=state.affine, radius=radius)
    if not counts.first:
        moment = run.release(asked, name="second moment, round 1", cost=cost, clip_radius=radius)
        return EarlyRound(moment=moment, radius=radius, share=share)
    count = counting(run.account, run.rows.n, dim, counts.first, counts)
    joint = sums.CountedMoment(counts=count.asked(state.base.affine), moment=asked, counted=count.shares.cells)
    released = run.release(
        joint, name="norms of rows and second moment, round 1", cost=cost + joint.counted, clip_radius=radius
    )
    shells = count.shown(released.parts, np.zeros(0)).shells
    assert released.moment is not None
    return EarlyRound(moment=released.moment, radius=radius, share=share, shells=shells)


def helping_norms(affine: sums.AffineMap, rows: FloatArray | None) -> FloatArray:
    """Return |y|^2 of mapped public rows, (m,), empty if they are too few for their norms about their own mean to be typical."""
    if rows is None or len(rows) < tuning.HELPING * affine.dim:
        return np.zeros(0)
    moved = (rows if affine.center is None else rows - affine.center) @ affine.dense.T
    return np.sum(np.square(moved if affine.offset is None else moved + affine.offset), axis=1)


def _rounds(
    run: Session, state: full.FullRounds, part: Fraction, public: FloatArray, *, needed: bool, first: float | None
) -> tuple[RadialMean, Fraction]:
    """Release the planned early rounds, at least one if `needed`, a count of norms, and the last round in two pieces."""
    while (share := state.step().share or (tuning.EARLY_SHARES[0] if needed and not state.made else None)) is not None:
        radius = state.radius(share) if state.made or first is None else first
        released = run.release(
            sums.SecondMoment(affine=state.affine, radius=radius),
            name=f"second moment, round {state.made + 1}",
            cost=run.account.allowance * part * share,
            clip_radius=radius,
        )
        state.update(released, radius, share)
    plan = SquarePlan.of(run.account, run.rows.n, triangle(run.rows.dim + 1), part * state.left)
    count, affine = plan.counting(state.amplified), state.center()
    norms = count.count_norms(run, affine, helping_norms(affine, public), name="norms before the last round")
    return _last_round(run, state, plan, norms.moved(constant_sq(run.rows.dim)))


def _last_round(run: Session, state: full.FullRounds, plan: SquarePlan, norms: Norms) -> tuple[RadialMean, Fraction]:
    """Return the pieces, and the share of a separate mean: second moments with distant rows determine the mean poorly."""
    law, mean_share = norms.law, Fraction(0)
    if norms.reason is not None or (law is not None and law.ratios(norms.radius)[0] > tuning.FAR_RATIO):
        mean_share = plan.pieces * tuning.MEAN_SHARE
    plan = replace(plan, pieces=plan.pieces - mean_share)
    return plan.pieces_of(
        run, state.affine, norms, np.zeros(0), name="last second moment"
    ), mean_share / run.account.allowance


def ladder(method: GaussianMethod, run: Session, x_pub: FloatArray, options: Options) -> GaussianCall:
    """Read the public rows, predict every structure, choose one, and check the grids, all before the debit."""
    base, structure = public_prior(x_pub), options.structure
    noise = Noise(run.account.pure, run.account.allowance)
    view = forecast_structures(base.worth, run.rows.n, noise, CountShares.of(run.rows.n, noise, len(base.fallback)))
    taken = view.best if structure == "auto" else structure
    check_grids(run, view, taken)
    names = run.rows.columns or tuple(map(str, range(run.rows.dim)))
    messages = []
    if base.fallback:
        messages.append(constant_text([names[j] for j in base.fallback]))
    if structure == "auto" and taken in ("public", "mean"):
        messages.append(_advice(base.worth, run.rows.n, noise, view, taken))
    if structure == "full" and not view.resolved(run.rows.dim):
        messages.append(
            f"structure='full' has a predicted relative covariance error of {view.own_error_sq**0.5:.3g} by itself; "
            f"structure='auto' would take {view.best!r}"
        )

    def estimate(run: Session) -> GaussianResult:
        estimated = release_structure(run, base, view, taken, x_pub)
        source, worth = f"public rows, ridge {base.ridge:.3g}", base.worth
        details = {
            "rungs": {name: [each.covariance, each.mean] for name, each in view.structures.items()},
            "auto": view.best,
            "public_degrees": [worth.low, worth.likely],
            "fallback_columns": [names[j] for j in base.fallback],
            **estimated.details,
        }
        return GaussianResult(
            mean=frozen(estimated.mean),
            covariance=frozen(estimated.covariance),
            mean_noise_std=frozen(estimated.mean_noise_std),
            rounds=estimated.rounds,
            reasons=reasons_of(estimated),
            part_reasons=estimated.column_reasons or ((Reason.FEW_ROWS,),) * len(estimated.mean),
            predicted_covariance_error=estimated.covariance_error,
            predicted_mean_error=estimated.mean_error,
            method=METHOD.name,
            structure=estimated.structure,
            diagnostics=details,
            report=estimated.report,
            columns=run.rows.columns,
            provenance={"center": source, "scale": source, "radius": source},
            **run.fields(worth.n_pub),
        )

    warnings = tuple(f"estimate_gaussian: {text}" for text in messages)
    return GaussianCall(estimate=estimate, warnings=warnings, reads=taken != "public")


def _advice(worth: EffectiveRows, n: int, noise: Noise, view: Forecasts, taken: str) -> str:
    """Return the text that names what replaces a private covariance, and the number of rows that would make one worthwhile."""
    own = "nothing private was read" if taken == "public" else "the mean alone is private"
    guess = f", a guess: {worth.n_pub} public rows do not show how columns vary together" if worth.guess else ""
    error = view.structures[taken].covariance
    text = f"the covariance is that of the public rows (predicted relative error {error:.3g}{guess}); {own}"
    for doubling in range(1, tuning.MOST_DOUBLINGS + 1):
        enough = n << doubling
        if forecast_structures(worth, enough, noise).best in ("diagonal", "full"):
            return f"{text}. About {enough} private rows, or a larger budget, would buy a private covariance"
    return f"{text}; no reasonable number of rows at this budget would improve on it"


def forecast(options: Options, dim: int, n_pub: int, n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
    """Predict the errors of all structures, and the choice for typical public rows (without pseudo-rows)."""
    noise = Noise(*allowance_of(budget, draws(dim)))
    view = forecast_structures(plain_worth(dim, n_pub), n_priv, noise, CountShares.of(n_priv, noise))
    taken = view.best if options.structure == "auto" else options.structure
    details = {"mean_error": view.structures[taken].mean}
    for name, each in view.structures.items():
        details[f"takes_{name}"] = float(name == taken)
        details[f"{name}_covariance_error"] = each.covariance
        details[f"{name}_mean_error"] = each.mean
    return view.structures[taken].covariance, details


METHOD = GaussianMethod(
    name="ladder", begin=ladder, learn=release_structure, draws=draws, predict=forecast, needs_public=True
)
