"""Private counts of rows by their norm in public or released coordinates: what scale they have, and where they end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy import special

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.ladder.schedule import Noise

SHARES = (Fraction(1, 100), Fraction(1, 50), Fraction(1, 20))
# Rows over the noise of a shell: what is wanted of a count, and the fewest that say anything.
SIGNAL, LEAST_SIGNAL = 100.0, 30.0
# Of all columns without a public scale together, and the rows over the noise below which they get none.
MOST_COLUMN_SHARE, LEAST_COLUMN_SIGNAL = Fraction(1, 10), 20.0
# Octaves of the norm on each side of the expected median that are told apart.
OCTAVES, NEAR = 20, 2
WINDOW, INNER, OUTER = 4, 6, 12  # shells: of the window that finds the rows, and around it
# What the outer half of a window of shells must show, in deviations of noise, for the window to reach that far.
OUTER_HALF = 2.0
# Bias of a mean for the average length that clipping takes: on real tables most of the rows beyond the ball lie on one side.
SKEW = 1.0


def count_share(n: float, noise: Noise) -> Fraction:
    """The part of an allowance that one count of n rows by their norms gets: 0 where it would show nothing."""
    for share in SHARES:
        if n / noise.count(share) >= (SIGNAL if share < SHARES[-1] else LEAST_SIGNAL):
            return share
    return Fraction(0)


@dataclass(frozen=True, slots=True)
class CountShares:
    """Shares of the allowance for counts of rows, 0 where they would show nothing; all from public numbers.

    `first` is that of a count of norms before anything else, `column` that of each column whose public values are all equal.
    """

    first: Fraction
    column: Fraction
    columns: int

    @property
    def vectors(self) -> Fraction:
        """What all of them cost together."""
        return self.first + self.columns * self.column

    @classmethod
    def of(cls, n: float, noise: Noise, columns: int = 0) -> CountShares:
        """The shares for n rows and so many columns without a public scale."""
        first = count_share(n, noise)
        column = min(first, MOST_COLUMN_SHARE / columns) if columns else Fraction(0)
        if column and n / noise.count(column) < LEAST_COLUMN_SIGNAL:
            column = Fraction(0)
        return cls(first, column, columns)


NO_COUNTS = CountShares(Fraction(0), Fraction(0), 0)


def scale_edges(anchor: float) -> FloatArray:
    """Edges of norms around `anchor` and far away on both sides."""
    near = np.arange(-4 * NEAR, 4 * NEAR) / 4.0
    far = np.arange(NEAR, OCTAVES + 0.25, 0.5)
    found: FloatArray = anchor * np.exp2(np.concatenate([-far[::-1], near[1:], far]))
    return found


def count_draws(columns: int) -> int:
    """Upper bound on the noise draws of all counts of one population."""
    return (1 + columns) * (len(scale_edges(1.0)) + 1)


@dataclass(frozen=True, eq=False)
class Norms:
    """Released numbers (k + 1,) of the n rows between the ascending edges (k,), with noise of standard deviation `std`.

    `many`: most of the rows are in these shells, not in the innermost.
    """

    edges: FloatArray
    counts: FloatArray
    std: float
    n: float
    pure: bool
    many: bool = True

    @cached_property
    def squares(self) -> FloatArray:
        """A typical squared norm of each shell."""
        ends = np.square(self.edges)
        inner = np.sqrt(ends[1:] * ends[:-1])
        return np.concatenate([[ends[0] / 2.0], inner, [2.0 * ends[-1]]])

    @property
    def plenty(self) -> bool:
        """Whether there are rows enough over the noise to choose a radius by."""
        return self.n >= SIGNAL * self.std

    def lifted(self) -> Norms:
        """The norms of rows (y, 1), for those of y."""
        return replace(self, edges=np.hypot(self.edges, 1.0))

    def threshold(self, octaves: float) -> float:
        """How many deviations of noise a shell must show that lies so many octaves beyond the others.

        A false one costs four times as much with every octave, so it must be as much rarer.
        """
        nats = math.log(1_000.0 if self.many else 10_000.0) + 2.8 * octaves
        gaussian = math.sqrt(2.0 * nats)
        return max(gaussian, (nats - math.log(2.0)) / math.sqrt(2.0)) if self.pure else gaussian

    def quantile_sq(self, share: float) -> float | None:
        """The squared norm that this share of the rows stays below; None where the rows cannot be made out."""
        windows = np.convolve(self.counts, np.ones(WINDOW), mode="valid")
        best = int(np.argmax(windows))
        if windows[best] < 5.0 * self.std * math.sqrt(WINDOW):
            return None
        low, high = max(best - INNER, 0), min(best + WINDOW + OUTER, len(self.counts))
        below = float(np.sum(self.counts[:low]))
        below = below if below > 4.0 * self.std * math.sqrt(max(low, 1)) else 0.0
        totals = below + np.cumsum(np.maximum(self.counts[low:high], 0.0))
        wanted = share * float(totals[-1])
        place = int(np.searchsorted(totals, wanted))
        before = below if place == 0 else float(totals[place - 1])
        inside = min(max((wanted - before) / max(float(totals[place]) - before, 1e-9), 0.0), 1.0)
        shell = low + place
        if shell in (0, len(self.edges)):
            return float(self.squares[shell])
        one, two = math.log(self.edges[shell - 1]), math.log(self.edges[shell])
        return math.exp(2.0 * (one + inside * (two - one)))

    @cached_property
    def last(self) -> int:
        """The outermost shell that holds rows, as far as noise lets it be seen."""
        octaves = np.log2(self.edges)
        # Below the middle of a count of the scale nothing is far.
        reference = float(octaves[len(octaves) // 2] if octaves[-1] - octaves[0] > 2 * OCTAVES - 1 else octaves[0])
        found = 0
        for shell in range(1, len(self.counts)):
            gap = max(float(octaves[shell - 1]) - max(reference, float(octaves[min(found, len(octaves) - 1)])), 0.0)
            for width in (1, 2, 4):
                window = self.counts[max(shell - width + 1, 1) : shell + 1]
                outer = window[len(window) // 2 :]
                stands = np.sum(window) > self.threshold(gap) * self.std * math.sqrt(len(window))
                if stands and np.sum(outer) > OUTER_HALF * self.std * math.sqrt(len(outer)):
                    found = shell
                    break
        return found

    @cached_property
    def rows(self) -> FloatArray:
        """Rows of each shell (k + 1,) as released, and none beyond the last that stands out."""
        return np.where(np.arange(len(self.counts)) <= self.last, self.counts, 0.0)

    def beyond(self, radius: float, *, power: int) -> float:
        """Average over the rows of what their norms to this power (1 or 2) exceed that of `radius`."""
        norms = np.sqrt(self.squares) ** power
        # A negative count is noise: it must not make up for rows that are there, or the least radius would look best by chance.
        return float(np.sum(np.maximum(self.rows, 0.0) * np.maximum(norms - radius**power, 0.0))) / self.n

    @property
    def mean_square(self) -> float | None:
        """Mean square of the norms; None where no row stands out from the innermost shell."""
        last = self.last
        found = float(self.rows @ self.squares) / self.n
        # What stands out must also make up the sum: noise in shells below it does not.
        return found if last and found > self.std * float(self.squares[last]) / self.n else None

    def largest(self) -> float:
        """The outer edge of the outermost shell that holds rows."""
        return float(self.edges[min(self.last, len(self.edges) - 1)])


def chi_beyond(dim: int, cut: float) -> float:
    """E max(X - cut, 0) for a chi-squared X with `dim` degrees of freedom."""
    cut = max(cut, 0.0)
    return float(dim * special.chdtrc(dim + 2, cut) - cut * special.chdtrc(dim, cut))


@dataclass(frozen=True, slots=True)
class Cut:
    """Where to clip: the radius, the share of trace or norm that rows beyond it lose, and the error that this is taken to leave."""

    radius: float
    lost: float
    bias_sq: float


def early_cut(norms: Norms, *, slack: Callable[[float], float], least: float) -> Cut:
    """The cut of an early round: what noise hides (`slack` of a radius) against the trace that is not seen."""

    def cut(radius: float) -> Cut:
        return Cut(radius, norms.beyond(radius, power=2), 0.0)

    return min(_cuts(norms, cut, least), key=lambda one: slack(one.radius) + one.lost)


def mean_cut(norms: Norms, *, noise: float, least: float, offset: float = 0.0) -> Cut:
    """The cut of rows y with the least predicted error of their mean, from the norms of y, or (`offset` 1) of (y, 1)."""

    def cut(radius: float) -> Cut:
        lost = norms.beyond(math.hypot(radius, offset), power=1)
        return Cut(radius, lost, (SKEW * lost) ** 2)

    return min(_cuts(norms, cut, least), key=lambda one: (noise * one.radius) ** 2 + one.bias_sq)


def _cuts(norms: Norms, cut: Callable[[float], Cut], least: float) -> list[Cut]:
    outer = norms.largest()
    return [cut(least), *(cut(float(edge)) for edge in norms.edges if least < edge <= outer)]
