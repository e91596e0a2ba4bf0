"""What the mean of real columns asks and what each question costs, from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from fastpubpriv.kernels.rows import LOG2_PARTS_MAX, cells_of_column
from fastpubpriv.mechanisms.cells import signed_cell_event
from fastpubpriv.privacy import gaussian_count_grid, gaussian_sum_grid, laplace_count_grid, laplace_sum_grid

# The signal of a cell, in rows over noise, that the counts are given while their share allows it. Laplace noise has longer tails:
# rows must stand out three times as far to be believed: with the signal of Gaussian noise, 3 % of 2,000 rows far from all
# others went unseen in half of the samples. Where columns are many, the noise of their sum is what costs most.
SIGNAL, SIGNAL_PURE, SIGNAL_PURE_MANY = 90.0, 280.0, 70.0
LEAST_SHARE, LEAST_SHARE_MANY = Fraction(1, 4), Fraction(3, 20)
# Under Laplace noise fewer rows hide a scale altogether: it is worth more, unless columns are many and public rows tell of it.
MOST_SHARE, MOST_SHARE_PURE = Fraction(3, 8), Fraction(15, 32)
SOME_PUBLIC = 5
SHELL_SHARE = Fraction(1, 20)
FEW_COLUMNS = 3
SHELLS = 48  # edges, eight to an octave
# What is asked again is paid out of the share of the sum: for columns far from their centre a sum and new counts, and again at most
# once more; else, where the noise of the sum is far below the sampling error, more counts.
MOST_MOVES = 2
MOVE_SUM, MOVE_COUNTS = Fraction(1, 8), Fraction(1, 4)
SPARED = tuple(Fraction(eighths, 8) for eighths in range(2, 7))
# Rows over noise below which an octave is left whole, or halved.
WHOLE, HALVED = 400.0, 800.0
UNSEEN = 8.0  # rows over noise below which no scale can be read off the counts


def draws(dim: int) -> int:
    """Most draws of noise that a call can make: cells of the finest kind and sums, with new centres, and shells."""
    return (1 + MOST_MOVES) * dim * (cells_of_column(LOG2_PARTS_MAX) + 1) + SHELLS + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How the allowance of a call is divided among cells, shells and the sum."""

    n: int  # with dim: private rows and columns
    dim: int
    pure: bool  # Laplace noise
    cells: Fraction  # with shells and total: costs of the three releases: they add up to the allowance
    shells: Fraction
    total: Fraction
    log2_parts: int  # an octave has 2^log2_parts cells
    count_std: float  # noise of one cell, in rows

    @property
    def parts(self) -> int:
        """Cells of an octave."""
        return 1 << self.log2_parts

    @property
    def blind(self) -> bool:
        """True where the counts cannot show any scale."""
        return self.count_std > self.n / UNSEEN

    @property
    def noise_per_radius(self) -> float:
        """Noise of one coordinate of a sum clipped to radius 1."""
        if self.pure:
            return math.sqrt(8.0 * self.dim) / float(self.total)
        return math.sqrt(2.0 / float(self.total))

    @property
    def noise_per_clip(self) -> float:
        """Noise expected of a column's sum for each unit of its own clip radius: the ball cuts less than the box."""
        if self.dim == 1:
            return self.noise_per_radius
        return (0.75 if self.dim <= FEW_COLUMNS else 0.5) * math.sqrt(self.dim) * self.noise_per_radius

    def predicted_error(self) -> float:
        """Expected error of one coordinate in standard deviations of a row, for columns like Gaussians."""
        radius_sq = max(9.0, self.dim + 2.0 * math.sqrt(self.dim))
        return math.sqrt(1.0 / self.n + radius_sq * (self.noise_per_radius / self.n) ** 2)


@lru_cache(maxsize=64)  # of public shares, those that a call starts with
def check_grids(shares: Shares) -> None:
    """Raise now, before the debit, unless every release has a grid."""
    pure, n = shares.pure, shares.n
    for log2_parts in range(LOG2_PARTS_MAX + 1):
        signed_cell_event(shares.cells, shares.dim, log2_parts, n, pure=pure)
    if shares.shells:
        (laplace_count_grid if pure else gaussian_count_grid)(shares.shells, SHELLS + 1, n)
    (laplace_sum_grid if pure else gaussian_sum_grid)(shares.total, shares.dim, n)


@lru_cache(maxsize=64)  # calls come in loops, with the same settings
def divide(dim: int, n: int, allowance: Fraction, *, pure: bool, n_pub: int = 1) -> Shares:
    """Divide an allowance (a rho, or an epsilon when pure) between the questions about n private rows, beside n_pub public ones.

    Examples
    --------
    >>> shares = divide(1, 20_000, Fraction(1, 20), pure=False)
    >>> str(shares.cells / Fraction(1, 20)), shares.log2_parts, round(shares.count_std, 1)
    ('1/4', 2, 8.9)
    """
    amount = float(allowance)
    signal = (SIGNAL_PURE if dim <= FEW_COLUMNS else SIGNAL_PURE_MANY) if pure else SIGNAL
    need = math.sqrt(8.0) * dim * signal / (amount * n) if pure else dim * signal**2 / (amount * n * n)
    least = LEAST_SHARE if dim <= FEW_COLUMNS else LEAST_SHARE_MANY
    wanted = Fraction(math.ceil(64.0 * min(need, 1.0)), 64)
    most = MOST_SHARE if not pure or (dim > FEW_COLUMNS and n_pub >= SOME_PUBLIC) else MOST_SHARE_PURE
    share = min(most, max(least, wanted))
    shells = SHELL_SHARE if dim > 1 else Fraction(0)
    cells = share * allowance
    std = math.sqrt(8.0) * dim / float(cells) if pure else math.sqrt(dim / float(cells))
    reached = n / std
    return Shares(
        n=n,
        dim=dim,
        pure=pure,
        cells=cells,
        shells=shells * allowance,
        total=(1 - share - shells) * allowance,
        log2_parts=0 if reached < WHOLE else 1 if reached < HALVED else 2,
        count_std=std,
    )
