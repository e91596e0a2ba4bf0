"""Intervals for every number of a full Gaussian, and a reason for each column that has one: post-processing of its releases."""

from __future__ import annotations

import math

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.ladder.full import Resolved
from fastpubpriv.estimators.ladder.norms import chi_beyond
from fastpubpriv.estimators.ladder.public_base import PublicBase
from fastpubpriv.estimators.moments import LARGEST, SOME_PUBLIC, Functional, RadialMean
from fastpubpriv.estimators.second_moments import unpacked
from fastpubpriv.results.base import frozen
from fastpubpriv.results.gaussians import GaussianReport

# Public rows' fourth moment over the squared variance from which a column has a heavy tail.
KURTOSIS = 12.0
# Parts of a variance that give a reason: of the outer piece beyond that of Gaussian rows, under a heavy law as far as noise
# allows and else as far as it is sure; of what may lie beyond; and of the error.
OUTER, BEYOND, UNCERTAIN = 0.05, 0.5, 0.5
# Of two columns with rows far out, the part of them that is taken to be the same rows.
TOGETHER = 0.5
# Deviations of the count of an octave, at the end of the rows, that may be beyond it in a column with a heavy tail (`python -m
# benchmarks.accuracy --estimator covariances --half tuning`: upper ends of variances with a reason).
FAR_ROWS = 2.5
# Public rows from which their own fourth moments are tried.
LEAST_PUBLIC = 10
# Of rows without a missing cell, the least share that is believed.
LEAST_COMPLETE = 0.1
# How far a mean may be off, in deviations, when it is taken out of a second moment.
MEAN_OFF = 2.0


def complete_share(resolved: Resolved) -> float:
    """The share of rows without a missing cell: 1 unless what was released of the constant of rows (v, 1) says otherwise."""
    pieces, last = resolved.pieces, resolved.map
    assert pieces is not None
    assert last is not None
    row, side = last[-1], len(last)
    inside, outer = (np.array(row @ unpacked(each, side) @ row) for each in (pieces.mean, pieces.outer))
    known = pieces.known(inside, outer, np.array(float(row @ row)), 0.0)
    return max(float(known.value), LEAST_COMPLETE) if float(known.interval(0.99)[1]) < 1.0 else 1.0


class Squares:
    """The second moment about a mean, E (x - mean)(x - mean)^T, as linear maps of the released one of rows y: (x - mean) = L y."""

    def __init__(self, base: PublicBase, resolved: Resolved, mean: FloatArray) -> None:
        assert resolved.pieces is not None
        assert resolved.map is not None
        self.pieces: RadialMean = resolved.pieces
        side = len(resolved.map)
        self.maps: FloatArray = np.column_stack([base.root, base.center - mean]) @ resolved.map
        self.clipped, self.outer = (unpacked(each, side) for each in (self.pieces.mean, self.pieces.outer))

    @property
    def heavy(self) -> float:
        """Mean |y|^4 beyond that of Gaussian rows."""
        return max(self.pieces.norms.rms**2 - 2.0 * self.pieces.dim, 0.0)

    @property
    def unseen(self) -> FloatArray:
        """What rows that no count can show may add to the variance of each column, (dim,), if it has a heavy tail."""
        law = self.pieces.norms.law
        rows = 0.0 if law is None else FAR_ROWS * law.octave_std * law.end / self.pieces.n
        lengths: FloatArray = np.sum(self.maps**2, axis=1)
        return rows * lengths

    def known(
        self, inside: FloatArray, outer: FloatArray, lengths: FloatArray, gaussian: FloatArray, both: FloatArray
    ) -> Functional:
        """What is known of linear maps (k, k): `gaussian` are variances for Gaussian rows, `both` what two columns share."""
        least = 1.0 / LARGEST
        lengths = np.maximum(lengths, least)
        far = np.abs(outer) + TOGETHER * both + lengths * self.pieces.piece_std
        share = np.minimum(far / (lengths * max(float(np.trace(self.outer)), least)), 1.0)
        variance = gaussian / lengths**2 + share * self.heavy
        return self.pieces.known(inside, outer, lengths, np.sqrt(variance / self.pieces.n))

    def covariances(self) -> Functional:
        """What is known of E (x - mean)(x - mean)^T, (dim, dim)."""
        inside, outer, inner = (
            self.maps @ each @ self.maps.T for each in (self.clipped, self.outer, np.eye(len(self.outer)))
        )
        squares, spread = np.diag(inner), np.diag(inside)
        lengths = np.sqrt((np.outer(squares, squares) + inner**2) / 2.0)
        gaussian = np.outer(spread, spread) + inside**2
        ends = np.sqrt(np.maximum(np.diag(outer), 0.0))
        return self.known(inside, outer, lengths, gaussian, np.outer(ends, ends) - np.diag(ends**2))

    def correlations(self) -> Functional:
        """What is known of correlations, to first order in what is not known of covariances."""
        inside, outer, inner = (
            self.maps @ each @ self.maps.T for each in (self.clipped, self.outer, np.eye(len(self.outer)))
        )
        unit = np.sqrt(np.maximum(np.diag(inside), np.finfo(np.float64).tiny))
        r, o, g = (each / np.outer(unit, unit) for each in (inside, outer, inner))
        r = np.clip(r, -1.0, 1.0)
        a, b = np.diag(g)[:, None], np.diag(g)[None, :]
        squares = (a * b + g * g) / 2.0 + r * r / 4.0 * (a * a + b * b + 2.0 * g * g) - r * g * (a + b)
        ends = np.maximum(np.diag(o), 0.0)
        turned = o - r / 2.0 * (np.diag(o)[:, None] + np.diag(o)[None, :])
        both = np.sqrt(np.outer(ends, ends))
        np.fill_diagonal(both, 0.0)
        return self.known(r, turned, np.sqrt(np.maximum(squares, 0.0)), (1.0 - r * r) ** 2, both)


def report_of(
    base: PublicBase, resolved: Resolved, mean: FloatArray, average: RadialMean, public: FloatArray, share: float = 1.0
) -> GaussianReport:
    """Intervals and reasons of a full Gaussian whose mean (dim,) was released last, as `average` of whitened rows.

    `share` of the rows have no missing cell.
    """
    root, _ = resolved.powers
    back = base.root @ root
    start = base.center + base.root @ resolved.start
    lengths = np.sqrt(np.sum(back**2, axis=1))
    means = average.known(start + back @ average.mean, back @ average.outer, lengths, 1.0 / math.sqrt(average.n))
    squares = Squares(base, resolved, mean)
    covariances, correlations = squares.covariances(), squares.correlations()
    off = MEAN_OFF * means.std + means.tail + np.abs(mean - means.value)
    spread = np.sqrt(np.maximum(np.diag(covariances.value), np.finfo(np.float64).tiny))
    reasons = _reasons(squares, covariances, public)
    heavy = np.array([reason == "heavy_tail" for reason in reasons])
    return GaussianReport(
        reasons=reasons,
        **_parts("mean", means, 0.0),
        **_parts("covariance", covariances, np.outer(off, off), np.diag(squares.unseen * heavy), share),
        **_parts("correlation", correlations, np.outer(off / spread, off / spread)),
    )


def report_of_public(public: FloatArray) -> GaussianReport | None:
    """The same of public rows alone (m, dim), from their fourth moments; None where they are too few for a deviation of these."""
    m = len(public)
    if m < LEAST_PUBLIC:
        return None
    gaps = public - public.mean(axis=0)
    largest = np.abs(gaps).max(axis=0)
    gaps = gaps / np.where(largest > 0.0, largest, 1.0)
    unit = np.sqrt(np.maximum(np.mean(gaps**2, axis=0), 1.0 / LARGEST))
    white, scale = gaps / unit, unit * np.where(largest > 0.0, largest, 1.0)
    squares, r = white**2, white.T @ white / m
    both, odd, fourth = squares.T @ squares / m, (white**3).T @ white / m, np.mean(squares**2, axis=0)
    turned = both - r * (odd + odd.T) + r * r / 4.0 * (fourth[:, None] + fourth[None, :] + 2.0 * both)
    # The deviation of Student's law stands in for its wider quantiles.
    student = math.sqrt((m - 1.0) / (m - 3.0) / m)
    product, none = np.outer(scale, scale), np.zeros_like(r)
    few = (_kurtosis(public) > KURTOSIS) | (m < SOME_PUBLIC)
    return GaussianReport(
        reasons=tuple("few_rows" if each else "ok" for each in few.tolist()),
        mean=frozen(public.mean(axis=0)), mean_std=frozen(student * scale), mean_below=frozen(none[0]),
        mean_above=frozen(none[0]), covariance=frozen(product * r),
        covariance_std=frozen(student * product * np.sqrt(np.maximum(both - r * r, 0.0))), covariance_below=frozen(none),
        covariance_above=frozen(none), correlation=frozen(np.clip(r, -1.0, 1.0)),
        correlation_std=frozen(student * np.sqrt(np.maximum(turned, 0.0))), correlation_below=frozen(none),
        correlation_above=frozen(none),
    )  # fmt: skip


def _parts(
    name: str, known: Functional, around: FloatArray | float, above: FloatArray | float = 0.0, share: float = 1.0
) -> dict[str, FloatArray]:
    """The fields of a report about one kind of number, with what is added on both sides and `above`, over a share of the rows."""
    found = {
        name: known.value,
        f"{name}_std": known.std,
        f"{name}_below": known.tail - np.minimum(known.extra, 0.0) + around,
        f"{name}_above": known.tail + np.maximum(known.extra, 0.0) + around + above,
    }
    # Released moments may be of any size: what is not a number is not known.
    return {
        part: frozen(np.nan_to_num(each / share, nan=0.0 if part == name else LARGEST)) for part, each in found.items()
    }


def _reasons(squares: Squares, known: Functional, public: FloatArray) -> tuple[str, ...]:
    """Of each column why its intervals may not hold, or "ok"."""
    pieces = squares.pieces
    if pieces.reason in ("unresolved", "point_mass"):
        return ("unresolved",) * len(known.value)
    variances = np.maximum(np.diag(known.value), np.finfo(np.float64).tiny)
    outer = np.diag(squares.maps @ squares.outer @ squares.maps.T)
    lengths = np.sum(squares.maps**2, axis=1)
    doubt = lengths * pieces.piece_std
    dim = len(variances)
    # What the outer piece of white Gaussian rows has of each variance, the constant of a row (y, 1) apart.
    white = (chi_beyond(dim, pieces.radius / 2.0 - 1.0) - chi_beyond(dim, pieces.radius - 1.0)) / dim
    far, surely = (outer + 2.0 * doubt) / variances - white, (outer - doubt) / variances - white
    above = (np.diag(known.tail) + np.maximum(np.diag(known.extra), 0.0)) / variances
    heavy = (bool(pieces.reason) & (far > OUTER)) | (surely > OUTER) | (above > BEYOND) | (_kurtosis(public) > KURTOSIS)
    few = np.diag(known.std) > UNCERTAIN * variances
    return tuple(
        "few_rows" if scarce else "heavy_tail" if long else "ok"
        for scarce, long in zip(few.tolist(), heavy.tolist(), strict=True)
    )


def _kurtosis(public: FloatArray) -> FloatArray:
    """Fourth moment of each column of public rows (m, dim) over its squared variance; 1 where they are too few to tell."""
    if len(public) < SOME_PUBLIC:
        return np.ones(public.shape[1])
    gaps = public - public.mean(axis=0)
    largest = np.abs(gaps).max(axis=0)
    squares = np.square(gaps / np.where(largest > 0.0, largest, 1.0))
    found: FloatArray = np.mean(squares**2, axis=0) / np.maximum(np.mean(squares, axis=0) ** 2, 1e-300)
    return found
