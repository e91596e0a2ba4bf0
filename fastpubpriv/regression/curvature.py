"""The curvature of private rows: its release, and the public rows that it is pooled with if they agree.

H is a mean of squares of rows, or of packed second derivatives, clipped to a radius from a count of norms. Directions in which it
cannot be told from noise, below the edge 2 eta sqrt(D) of the spectrum of a noise matrix with entries of deviation eta (Wigner
1955), are unseen: they are held at an upper bound, and intervals count the least that they may have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.distributions.norms import NormCount
from fastpubpriv.estimators.moments import LARGEST
from fastpubpriv.mechanisms.sums import CountedMoment
from fastpubpriv.privacy import GaussianEvent, LaplaceEvent
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.regression.problem import as_rare_as_chance_allows, rows_worth
from fastpubpriv.session import Session


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PooledMoment:
    """The second moment of the private rows, (D, D), pooled with that of public rows if they agree."""

    matrix: FloatArray
    noise: float  # of an entry
    clipped: float  # bound on what clipping may have removed
    # (D, k), directions in which the variation of private rows cannot be distinguished from noise
    unseen: FloatArray
    raised: float  # assumed curvature along these, an upper bound
    flattest: FloatArray  # (k,), lower bounds of it
    plain: FloatArray  # (D, D), of the private rows alone, with noise `plain_noise`
    plain_noise: float
    # root mean square of the error of a row's coordinate by the grid of the release, 0 if that is negligible
    rounding: float = 0.0

    def hidden_parts(self, rows: FloatArray) -> FloatArray:
        """Relative increase (q, k) of the variance of linear maps (q, D) if unseen directions have their least curvature."""
        # Noise rotates these directions toward the others, the more the less the others vary themselves.
        resolved = rows - rows @ self.unseen @ self.unseen.T
        turned = 4.0 * self.noise**2 * np.sum((resolved @ self.power(-1.0)) ** 2, axis=1)
        along = np.maximum((rows @ self.unseen) ** 2 - turned[:, None], 0.0)
        more = 1.0 / self.flattest - 1.0 / self.raised
        variance = np.sum((rows @ self.power(-0.5)) ** 2, axis=1)
        return np.asarray(along * more / np.maximum(variance, 1.0 / LARGEST)[:, None])

    def power(self, exponent: float) -> FloatArray:
        """Return a power of the matrix."""
        values, vectors = np.linalg.eigh(self.matrix)
        return np.asarray((vectors * values**exponent) @ vectors.T)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReleasedCurvature:
    """The released mean curvature of private rows, or its packed entries."""

    mean: FloatArray
    noise: float  # of an entry
    clipped: float  # bound on what clipping may have removed
    unit: float  # of the sum's whole numbers
    rounding: float = 0.0  # see `PooledMoment`


def released_curvature(
    run: Session,
    count: NormCount,
    query: Any,
    lengths: FloatArray,
    n: float,
    again: str,
    *,
    wide: bool = False,
) -> ReleasedCurvature:
    """Return the mean of a query over n rows, with a radius by a count of norms."""
    # If `wide`, the radius comes from public rows, of which `lengths` are squared norms, and one pass releases both.
    if wide:
        radius = min(tuning.WIDE * math.sqrt(float(lengths.max())), query.radius)
        asked = CountedMoment(
            counts=count.asked(query.affine),
            moment=replace(query, radius=radius),
            counted=count.shares.cells,
        )
        name = f"norms of the rows' curvature, and curvature{again}"
        cost = count.shares.cells + count.left
        released = run.release(asked, name=name, cost=cost, clip_radius=radius)
        assert released.moment is not None
        moment = released.moment
        norms = count.shown(released.value, lengths)
        radius = radius**2
    else:
        norms = count.count_norms(
            run, query.affine, lengths, name=f"norms of the rows' curvature{again}"
        )
        power = 1 + count.squared
        radius = min(max(norms.radius, 1.0 / LARGEST), query.radius**power)
        asked = replace(query, radius=radius ** (1.0 / power))
        moment = run.release(
            asked, name=f"curvature{again}", cost=count.left, clip_radius=asked.radius
        )
    beyond = math.inf if norms.law is None else norms.law.beyond(radius) / n
    mean = np.clip(np.nan_to_num(moment.value), -LARGEST, LARGEST) / n
    assert isinstance(moment.event, GaussianEvent | LaplaceEvent)
    unit = moment.noise_std / moment.event.noise_std
    clipped = tuning.CLIPPED_GRAM * beyond
    return ReleasedCurvature(mean=mean, noise=moment.noise_std / n, clipped=clipped, unit=unit)


def pooled_curvature(
    released: ReleasedCurvature, near: FloatArray, public: FloatArray, n: float
) -> PooledMoment:
    """Pool the curvature of n private rows with `near`, that of `public` rows (m, D), if they agree, (D, D) each."""
    m, dim = public.shape
    plain = released.mean
    noise = released.noise
    clipped = min(float(dim), released.clipped)
    rounding = released.rounding
    matrix = plain
    error = noise
    if m > 2 * dim:
        # A few long rows make the mean of all uncertain.
        spread = float(np.mean(np.sum(public**2, axis=1) ** 2)) - float(np.sum(near**2))
        doubt = max(tuning.CURVATURE, spread / dim**2) / m
        if float(np.mean((plain - near) ** 2)) < 2.0 * (noise**2 + doubt):
            weight = doubt / (noise**2 + doubt)
            matrix = weight * plain + (1.0 - weight) * near
            error = noise * math.sqrt(weight)
            clipped = clipped * weight
            rounding = rounding * weight
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    # A symmetric matrix of noise has next to no eigenvalue beyond this edge of its spectrum (Wigner 1955).
    edge = 2.0 * error * math.sqrt(dim)
    least = max(tuning.LEAST_CURVATURE, edge)
    # Less curvature than that of one row in n is held whatever its noise is: the clip of rows without any leaves next to none.
    unresolved = (values < least) & (values < max(tuning.RESOLVED * edge, 1.0 / n))
    held = (vectors * np.where(unresolved, least, values)) @ vectors.T
    unseen = vectors[:, unresolved]
    # Unseen directions are interchangeable: their axes are those of the public rows there. Rows of a category, of which there are
    # as many public ones as vary along an axis, may be as rare as chance allows.
    unseen = unseen @ np.linalg.svd(public @ unseen, full_matrices=False)[2].T
    along = (public @ unseen) ** 2
    rare = np.mean(along, axis=0) * as_rare_as_chance_allows(rows_worth(along))
    shown = np.einsum("ij,ik,kj->j", unseen, matrix, unseen)
    # Public rows are no guide where private ones vary significantly less.
    rare = np.where(rare > np.maximum(shown, 0.0) + 2.0 * edge, 0.0, rare)
    # One row in n has at least about a unit of curvature.
    flattest = np.clip(np.maximum(rare, shown - edge), min(1.0 / n, least), least)
    return PooledMoment(
        matrix=held,
        noise=error,
        clipped=clipped,
        unseen=unseen,
        raised=least,
        flattest=flattest,
        plain=plain,
        plain_noise=noise,
        rounding=rounding,
    )
