"""One population up the ladder: releases on all rows, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.ladder.full import FullRung, Resolved, mean_step_map
from fastpubpriv.estimators.ladder.public_base import PublicBase
from fastpubpriv.estimators.ladder.rungs import Outlook, diagonal_radius, full_plan, mean_clip, mean_radius
from fastpubpriv.estimators.ladder.schedule import EARLY_SHARES, LEAST_LAST, MOST_ROUNDS, Noise
from fastpubpriv.estimators.ladder.vectors import Scales, axis_variances, mean_weight
from fastpubpriv.estimators.matrices import symmetric
from fastpubpriv.mechanisms.axis_features import AxisFeatures
from fastpubpriv.mechanisms.statistics import StatisticSum
from fastpubpriv.mechanisms.sums import Released, SecondMoment, VectorSum, check_gram_grids, check_sum_grids
from fastpubpriv.run import Run

# Beyond this share of the radius of the ball that rows were clipped to, a released mean was limited by the ball.
AT_THE_EDGE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Climbed:
    """Mean and covariance in data units, with the noise on the mean (dim,), the rung, and how they came about."""

    mean: FloatArray
    covariance: FloatArray
    mean_noise_std: FloatArray
    structure: str
    status: str
    covariance_error: float
    mean_error: float
    rounds: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)


def status_of(found: Climbed) -> str:
    """The status of a rung, or "clipped" where the ball around the public rows held the private mean back."""
    return "clipped" if found.details.get("edge", 0.0) > AT_THE_EDGE else found.status


def draws(dim: int) -> int:
    """Upper bound on the noise draws of one population."""
    return MOST_ROUNDS * (dim + 1) ** 2 + 2 * dim


def check_grids(run: Run, view: Outlook, structure: str) -> None:
    """Refuse, before the debit, a rung whose releases have no integer grid."""
    account, dim, n, allowance = run.account, run.rows.dim, run.rows.n, run.account.allowance
    if structure == "full":
        shares = [*EARLY_SHARES, LEAST_LAST, Fraction(1)]
        check_gram_grids(account, [allowance * (1 - view.mean_share) * share for share in shares], dim + 1, n)
        check_sum_grids(account, [allowance * view.mean_share], dim, n)
    elif structure != "public":
        check_sum_grids(account, [allowance], dim if structure == "mean" else 2 * dim, n)


def public_rung(base: PublicBase, view: Outlook) -> Climbed:
    """The public rows alone: nothing private is read."""
    predicted = view.rungs["public"]
    return Climbed(
        mean=base.center,
        covariance=base.covariance,
        mean_noise_std=np.zeros(len(base.center)),
        structure="public",
        status="public",
        covariance_error=predicted.covariance,
        mean_error=predicted.mean,
        details={"mean_weight": 0.0},
    )


def mean_rung(base: PublicBase, view: Outlook, released: Released, n: float) -> Climbed:
    """The public covariance and a combined mean, from the released sum of clipped v."""
    std, dim = released.noise_std / n, len(base.center)
    error_sq = dim / n + std * std * float(np.sum(1.0 / base.strength.spectrum()))
    weight = mean_weight(base.strength, error_sq)
    predicted = view.rungs["mean"]
    return Climbed(
        mean=base.center + weight * (base.root @ (released.value / n)),
        covariance=base.covariance,
        mean_noise_std=weight * std * _norms(base.root),
        structure="mean",
        status="mean",
        covariance_error=predicted.covariance,
        mean_error=predicted.mean,
        details={"mean_weight": weight, "edge": edge(released.value / n, std, mean_radius(base.strength))},
    )


def diagonal_rung(base: PublicBase, view: Outlook, released: Released, n: float) -> Climbed:
    """Released variances along the axes of the public covariance, and a combined mean."""
    std, dim = released.noise_std / n, len(base.center)
    average = released.value / n
    scales: Scales = axis_variances(average, std, n, base.strength)
    error_sq = dim / n + std * std * float(np.sum(1.0 / scales.variances))
    weight = mean_weight(base.strength, error_sq)
    predicted = view.rungs["diagonal"]
    scaled = base.root * np.sqrt(scales.variances)
    return Climbed(
        mean=base.center + weight * (base.root @ average[:dim]),
        covariance=symmetric(scaled @ scaled.T),
        mean_noise_std=weight * std * _norms(base.root),
        structure="diagonal",
        status="diagonal",
        covariance_error=predicted.covariance,
        mean_error=predicted.mean,
        details={
            "mean_weight": weight,
            "edge": edge(average, std, diagonal_radius(base.strength)),
            "axis_variances": scales.variances,
            "common_scale": scales.common,
        },
    )


def full_rung(
    base: PublicBase, view: Outlook, resolved: Resolved, released: Released, n: float, rounds: int
) -> Climbed:
    """The resolved covariance and a combined mean, from the released sum of whitened rows about the start."""
    std, dim = released.noise_std / n, len(base.center)
    error_sq = dim / n + dim * std * std
    weight = mean_weight(base.strength, error_sq)
    root = resolved.powers[0]
    mean = weight * (resolved.start + root @ (released.value / n))
    back = base.root @ root
    return Climbed(
        mean=base.center + base.root @ mean,
        covariance=symmetric(back @ back.T),
        mean_noise_std=weight * std * _norms(back),
        structure="full",
        status="under_resolved" if resolved.under_resolved else "ok",
        covariance_error=resolved.error,
        mean_error=math.sqrt(weight * error_sq),
        rounds=rounds,
        details={
            "mean_weight": weight,
            "edge": edge(released.value / n, std, mean_clip(dim)),
            "target": resolved.target,
            "target_strength": resolved.strengths,
            "clip_factor": resolved.clip_factor,
            "floored": resolved.floored,
            "public_covariance_error": view.rungs["public"].covariance,
        },
    )


def edge(average: FloatArray, std: float, radius: float) -> float:
    """How far out a released average lies in the ball that its rows were clipped to, less two deviations of the noise.

    Near 1 the rows are elsewhere than the public ones, and the mean is held back by the ball.
    """
    length = math.sqrt(float(np.sum(np.square(average))))
    return min(max(length - 2.0 * std * math.sqrt(len(average)), 0.0) / radius, 1.0)


def climb(run: Run, base: PublicBase, view: Outlook, structure: str) -> Climbed:
    """Make the releases of a rung, all of them on all rows, and put the estimate together."""
    dim, n, allowance = run.rows.dim, run.rows.n, run.account.allowance
    if structure == "public":
        return public_rung(base, view)
    if structure == "mean":
        radius = mean_radius(base.strength)
        measurement = VectorSum(affine=base.affine, radius=radius)
        return mean_rung(base, view, run.release(measurement, name="mean", cost=allowance, clip_radius=radius), n)
    if structure == "diagonal":
        radius = diagonal_radius(base.strength)
        features = AxisFeatures(center=base.center, matrix=base.inverse)
        both = StatisticSum(statistic=features, dim=2 * dim, radius=radius, row_cost=dim * dim)
        released = run.release(both, name="mean and axis variances", cost=allowance, clip_radius=radius)
        return diagonal_rung(base, view, released, n)
    rung, resolved = _second_moments(run, base, view)
    clip = mean_clip(dim)
    measurement = VectorSum(affine=mean_step_map(base, resolved), radius=clip)
    released = run.release(measurement, name="mean", cost=allowance * view.mean_share, clip_radius=clip)
    return full_rung(base, view, resolved, released, n, rung.made)


def _second_moments(run: Run, base: PublicBase, view: Outlook) -> tuple[FullRung, Resolved]:
    """Early rounds as long as the plan asks for them, then the last one."""
    part = 1 - view.mean_share
    noise = Noise(run.account.pure, run.account.allowance).part(part)
    rung = FullRung(base, full_plan(base.strength, run.rows.n, noise))
    while True:
        step = rung.step()
        radius = rung.radius(step.share)
        share = rung.left if step.share is None else step.share
        released = run.release(
            SecondMoment(affine=rung.affine, radius=radius),
            name="last second moment" if step.share is None else f"second moment, round {rung.made + 1}",
            cost=run.account.allowance * part * share,
            clip_radius=radius,
        )
        if step.share is None:
            return rung, rung.finish(released, radius)
        rung.absorb(released, radius, share)


def _norms(root: FloatArray) -> FloatArray:
    """Length of each row of a root: what noise of standard deviation one becomes in each column."""
    lengths: FloatArray = np.sqrt(np.einsum("ij,ij->i", root, root))
    return lengths
