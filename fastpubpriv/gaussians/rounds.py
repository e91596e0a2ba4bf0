"""Rounds of second moments: one state and one loop for the ladder, CoinPress, the lifted learners and leaves of mixtures.

With y = v or (v, 1) for v = base(x), a round releases the second moment M of rows z = T y for a lower triangular T. The next one
has T' = L^-1 T for L L^T = V diag(roots^2) V^T, where V has the eigenvectors of M and a rule gives the roots: for CoinPress
(BDKU20, Algorithm 3) sqrt(max(eigenvalue, 0) + slack), so that no direction seems shorter than noise and sampling allow. Any root
whitens as well as another; a triangular one halves the work of a pass. The last release becomes T^-1 M T^-T.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, Mode
from fastpubpriv.estimators.complete_rows import CompleteRows, release_complete
from fastpubpriv.estimators.linalg import divided, lower_root, spectrum
from fastpubpriv.mechanisms.sums import AffineMap, Released, SecondMoment
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.session import Session


def after(base: AffineMap, left: FloatArray, *, offset: FloatArray | None = None) -> AffineMap:
    """Return the map x -> left base(x) + offset for a lower triangular `left`, which may have more rows than columns."""
    if base.offset is not None:
        moved = left @ base.offset
        offset = moved if offset is None else offset + moved
    lower = base.matrix is None or base.matrix.ndim == 1 or base.lower
    matrix = base.times(left)
    matrix.flags.writeable = False  # so that the kernels make no copy
    return AffineMap(dim=base.dim, center=base.center, matrix=matrix, offset=offset, lower=lower)


def contracted(base: AffineMap, contraction: FloatArray) -> AffineMap:
    """Return the map x -> contraction y for y = base(x), or (base(x), 1) if the contraction has a column more."""
    dim = base.dim
    offset = contraction[:, dim] if contraction.shape[1] > dim else None
    return after(base, contraction[:, :dim], offset=offset)


@dataclass(frozen=True, slots=True)
class Precision:
    """Errors, in spectral norm, of the mean second moment of n rows of `side` coordinates, from public numbers."""

    side: int
    n: float
    spending: Spending
    tail: float = 0.0  # deviations of a union bound in mode "theory"; 0 for typical errors

    @property
    def sampling(self) -> float:
        """Error by sampling, of white rows."""
        ratio = self.side / self.n
        if self.tail:
            return 2.0 * (math.sqrt(ratio) + self.tail / math.sqrt(self.n))
        return math.sqrt(ratio) + ratio / 2.0

    def noise(self, std: float) -> float:
        """Return the error by noise of this standard deviation of diagonal entries."""
        return (math.sqrt(2.0 * self.side) + self.tail) * std

    def slack(self, std: float) -> float:
        """Return the error by sampling and by noise of this standard deviation of diagonal entries."""
        return self.sampling + self.noise(std)

    def std(self, radius_sq: float, share: Fraction) -> float:
        """Return the noise standard deviation of diagonal entries, for this squared clip radius and share of the allowance."""
        return radius_sq * self.spending.std("moment", self.side, share) / self.n


def union_tail(mode: Mode, failure_prob: float, rounds: int) -> float:
    """Return the deviations of a Gaussian beyond which no round lies, up to a part of `failure_prob`; 0 in practice."""
    if mode != "theory":
        return 0.0
    return math.sqrt(2.0 * math.log(4.0 * rounds / failure_prob))


def noise_error(values: FloatArray, std: float) -> float:
    """Return the relative Frobenius error of a covariance with these eigenvalues by noise `std` of its diagonal entries."""
    square: float = np.add.reduce(1.0 / values) ** 2 + np.add.reduce(1.0 / values**2)
    return std * math.sqrt(square / 2.0)


def covariance_error(values: FloatArray, n: float, std: float) -> float:
    """Return the relative Frobenius error by sampling of n rows and by noise, as `noise_error` has it."""
    dim = len(values)
    return math.hypot(math.sqrt(dim * (dim + 1) / n), noise_error(values, std))


@dataclass(frozen=True, slots=True, eq=False)
class RoundMoment:
    """The released second moment of a round, as a mean over n rows."""

    released: Released
    n: float
    complete: CompleteRows | None = None  # the share of complete rows, which n has as a factor

    @property
    def std(self) -> float:
        """Noise of the diagonal entries."""
        return self.released.spectral_std / self.n

    @property
    def value(self) -> FloatArray:
        """The mean of z z^T."""
        return self.released.value / self.n

    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Return the ascending eigenvalues, and the eigenvectors."""
        return spectrum(self.value, overwrite=True)


@dataclass(slots=True, eq=False)
class Rounds:
    """The state of one population between rounds, with CoinPress's rule for the roots; other rules are subclasses."""

    base: AffineMap
    contraction: FloatArray  # T, lower triangular
    slack: Callable[[RoundMoment], float]  # error that a moment may have in any direction
    made: int = 0  # early rounds

    @property
    def affine(self) -> AffineMap:
        """The map x -> z of the next round."""
        return contracted(self.base, self.contraction)

    def roots(self, values: FloatArray, vectors: FloatArray, moment: RoundMoment) -> FloatArray:
        """Return the roots of a round from the eigenvalues and eigenvectors of its moment."""
        return np.sqrt(np.maximum(values, 0.0) + self.slack(moment))

    def update(self, moment: RoundMoment) -> None:
        """Take in the moment of an early round."""
        values, vectors = moment.spectrum()
        roots = self.roots(values, vectors, moment)
        self.contraction = divided(lower_root(vectors, roots), self.contraction)
        self.made += 1

    def moment_of(self, last: RoundMoment, floor: float = 0.0) -> FloatArray:
        """Return the second moment of y that the last round shows, with eigenvalues of z raised to `floor`."""
        values, vectors = last.spectrum()
        vectors *= np.sqrt(np.maximum(values, floor))
        half = divided(self.contraction, vectors)
        del vectors
        return np.asarray(half @ half.T)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRelease:
    """A planned release; no state is updated by the `last`."""

    name: str
    cost: Fraction
    radius: float
    last: bool = False
    facts: dict[str, Any] = field(default_factory=dict)  # public ones, for the record


def planned(name: str, costs: Sequence[Fraction], radius: float) -> Iterator[PlannedRelease]:
    """Plan rounds with these costs and one clip radius."""
    for made, cost in enumerate(costs, start=1):
        title = f"{name}, round {made} of {len(costs)}"
        yield PlannedRelease(name=title, cost=cost, radius=radius, last=made == len(costs))


def release_rounds(
    states: Sequence[Rounds],
    schedule: Iterable[PlannedRelease],
    measure: Callable[[PlannedRelease], Sequence[RoundMoment]],
) -> Sequence[RoundMoment]:
    """Release and take in the rounds of a schedule, which may follow the states; return the moments of the last release."""
    moments: Sequence[RoundMoment] = ()
    for step in schedule:
        moments = measure(step)
        if step.last:
            break
        for index, state in enumerate(states):
            state.update(moments[index])
        moments = ()  # no reference keeps the matrices alive during the next pass
    return moments


def last_moment(run: Session, state: Rounds, schedule: Iterable[PlannedRelease]) -> RoundMoment:
    """Release the rounds of one population, of its complete rows; return the moment of the last."""

    def measure(step: PlannedRelease) -> list[RoundMoment]:
        total = SecondMoment(affine=state.affine, radius=step.radius)
        released, complete = release_complete(
            run, total, name=step.name, cost=step.cost, **step.facts
        )
        return [RoundMoment(released, run.rows.n * complete.divisor, complete)]

    return release_rounds([state], schedule, measure)[0]
