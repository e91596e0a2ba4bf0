"""The minimax rates of a strongly convex loss with public rows (paper B, Theorems 41 and 42): the regime of rows and budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, PureDP


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The two terms of the rate min(1 / n_pub, cost / n^2 + 1 / n), n = n_priv + n_pub, with all constants one."""

    public: float  # with private: the public rows alone; and all rows, of which the private ones are protected
    private: float
    public_rows: float  # public rows from which their term is the smaller one; infinite where it never is

    @property
    def public_decides(self) -> bool:
        """Whether public rows alone have the best rate. Where they have not, they can help by a constant factor at most."""
        return self.public < self.private


def minimax_rates(*, n_priv: int, n_pub: int, dim: int, budget: Budget) -> Rates:
    """The rates for a loss with unit Lipschitz and curvature constants; for convex losses each is the square root of these."""
    cost = _cost(dim, budget)
    n = float(n_priv + n_pub)
    # 1 / n_pub < cost / n^2 + 1 / n is n_priv^2 < n_pub (cost - n_priv).
    spare = cost - n_priv
    return Rates(
        public=1.0 / n_pub if n_pub else math.inf,
        private=cost / n**2 + 1.0 / n,
        public_rows=float(n_priv) ** 2 / spare if spare > 0.0 else math.inf,
    )


def _cost(dim: int, budget: Budget) -> float:
    """What privacy adds to the error of a sum of n unit rows, in order."""
    if isinstance(budget, PureDP):
        return (dim / float(budget.epsilon)) ** 2
    if isinstance(budget, ApproxDP):
        return dim * math.log(1.0 / float(budget.delta)) / float(budget.epsilon) ** 2
    if isinstance(budget, ZCDP):
        return dim / float(budget.rho)
    raise BudgetError(f"budget must be ZCDP, ApproxDP or PureDP, got {type(budget).__name__}")
