"""The split of what a call may spend among its counts of cells, its counts of norms and its sum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from fastpubpriv.distributions import tuning
from fastpubpriv.kernels.rows import LOG2_PARTS_MAX, cells_of_column
from fastpubpriv.privacy.spending import Spending

SHELLS = 48  # edges of shells, eight per octave
# fraction of the budget of the sum that remains after a new center
MOVED = 1 - tuning.MOVE_SUM - tuning.MOVE_COUNTS


def draws(dim: int) -> int:
    """Return the maximum number of noise draws of a call: finest cells and sums, repeated for new centers, and shells."""
    return (1 + tuning.MOST_MOVES) * dim * (cells_of_column(LOG2_PARTS_MAX) + 1) + SHELLS + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSplit:
    """How the budget of a call is split among the counts of cells, the counts of shells, and the sum."""

    n: int  # number of private rows; dim is that of columns
    dim: int
    spending: Spending  # of the whole call, in the law of its noise
    # like shells and total: the cost of one release; the three add up to at most the allowance of the call's account
    cells: Fraction
    shells: Fraction
    total: Fraction
    log2_parts: int  # an octave has 2^log2_parts cells
    count_std: float  # noise standard deviation of one count

    @property
    def parts(self) -> int:
        """Number of cells per octave."""
        return 1 << self.log2_parts

    @property
    def too_noisy(self) -> bool:
        """True if the counts are too noisy to resolve the scale of any column."""
        return self.count_std > self.n / tuning.UNSEEN

    @property
    def noise_per_radius(self) -> float:
        """Noise standard deviation of one coordinate of a sum of rows clipped to norm 1."""
        return self.spending.at(self.total).std("sum", self.dim)

    @property
    def noise_per_clip(self) -> float:
        """Expected noise of a column's sum per unit of its clip radius: the ball for whole rows is smaller than the box."""
        if self.dim == 1:
            return self.noise_per_radius
        return (
            (0.75 if self.dim <= tuning.FEW_COLUMNS else 0.5)
            * math.sqrt(self.dim)
            * self.noise_per_radius
        )

    def predicted_error(self) -> float:
        """Predicted root mean squared error of one coordinate, in standard deviations of a row, for Gaussian columns."""
        radius_sq = max(9.0, self.dim + 2.0 * math.sqrt(self.dim))
        return math.sqrt(1.0 / self.n + radius_sq * (self.noise_per_radius / self.n) ** 2)


@lru_cache(maxsize=64)  # keyed by public numbers: the split that a call begins with
def check_grids(shares: BudgetSplit) -> None:
    """Raise InputError, before the debit, unless a noise grid exists for every release."""
    spending = shares.spending
    n = shares.n
    dim = shares.dim
    for log2_parts in range(LOG2_PARTS_MAX + 1):
        cells = dim * cells_of_column(log2_parts)
        spending.at(shares.cells).grid("count", cells, n, parts=dim)
    if shares.shells:
        spending.at(shares.shells).grid("count", SHELLS + 1, n)
    spending.at(shares.total).grid("sum", dim, n)


@lru_cache(maxsize=64)  # calls in a loop have equal settings
def divide(dim: int, n: int, spending: Spending, *, n_pub: int = 1) -> BudgetSplit:
    """Split what a call may spend among the releases about n private rows, given n_pub public ones."""
    few_columns = dim <= tuning.FEW_COLUMNS
    signal = tuning.SIGNAL
    least = tuning.LEAST_SHARE_MANY
    if few_columns:
        signal = spending.by_tail(tuning.SIGNAL, tuning.SIGNAL_PURE)
        least = tuning.LEAST_SHARE
    most = tuning.MOST_SHARE
    if few_columns or n_pub < tuning.FEW_PUBLIC:
        most = spending.by_tail(tuning.MOST_SHARE, tuning.MOST_SHARE_PURE)
    need = spending.share_for(signal, dim, n)
    wanted = Fraction(math.ceil(64.0 * min(need, 1.0)), 64)
    share = min(most, max(least, wanted))
    shells = tuning.SHELL_SHARE if dim > 1 else Fraction(0)
    cells = share * spending.allowance
    std = spending.at(cells).std("counts", dim)
    reached = n / std
    return BudgetSplit(
        n=n,
        dim=dim,
        spending=spending,
        cells=cells,
        shells=shells * spending.allowance,
        total=(1 - share - shells) * spending.allowance,
        log2_parts=0 if reached < tuning.WHOLE else 1 if reached < 2.0 * tuning.WHOLE else 2,
        count_std=std,
    )
