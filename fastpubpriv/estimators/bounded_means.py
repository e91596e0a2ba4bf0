"""The mean of columns between known ends: one joint release of counts, sums and squares in place of counts of cells and a sum.

Numbers x enter as y = (x - middle) / half, clipped to -1 ... 1, and the mean is middle + half (sum of y) / rows: the box that
encodes them decodes their mean. No row is undetected, and no tail is guessed. Privacy note: `mechanisms/notes/group_moments.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.distributions import tuning
from fastpubpriv.distributions.budget_split import BudgetSplit
from fastpubpriv.distributions.support import public_moments
from fastpubpriv.mechanisms.group_moments import GroupMoments, MomentsReleased
from fastpubpriv.results.estimates import ColumnReport, MeanResult
from fastpubpriv.results.reasons import Reason, first_of
from fastpubpriv.session import Session

# Largest predicted error within bounds, over that of counted columns. The interval of a counted column allows for clipping and for
# rows that noise may hide, so that it is about as much wider than its predicted error says.
MOST_ERROR = 1.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundedColumns:
    """The ends of columns, and what their public values say of them; arrays are (dim,)."""

    low: FloatArray
    high: FloatArray
    public_counts: IntArray
    # Standard deviation of y of the public values; 0 if these are too few to show it, or equal: then others are rare, and counts
    # show how far away.
    public_std: FloatArray

    @classmethod
    @np.errstate(all="ignore")
    def of(cls, public: FloatArray, bounds: tuple[FloatArray, FloatArray]) -> BoundedColumns:
        """Return the columns of public rows (m, dim), cells of which may be NaN."""
        low, high = bounds
        counts, _, std = public_moments(np.clip(public, low, high))
        shown = np.where(counts >= tuning.FEW_PUBLIC, std, 0.0)
        half = high / 2.0 - low / 2.0
        return cls(
            low=low, high=high, public_counts=counts, public_std=np.minimum(shown / half, 1.0)
        )

    @property
    def half(self) -> FloatArray:
        """Half of each range."""
        return self.high / 2.0 - self.low / 2.0

    @property
    def middle(self) -> FloatArray:
        """The middle of each range."""
        return self.low / 2.0 + self.high / 2.0

    def encoded(self) -> GroupMoments:
        """The release of counts, sums and squares of y."""
        return GroupMoments(middle=self.middle[None], half=self.half[None])

    def decoded(self, y: FloatArray) -> FloatArray:
        """Means of the columns from means of y."""
        return np.clip(self.middle + self.half * y, self.low, self.high)

    @np.errstate(all="ignore")
    def predicted_error(self, shares: BudgetSplit) -> FloatArray:
        """Predicted root mean squared error of each mean, in standard deviations of the column, at the allowance of the call."""
        n = shares.n
        noise = shares.spending.group_grid(1, shares.dim, n).noise_std
        return np.hypot(1.0 / math.sqrt(n), noise / n / self.public_std)

    def suffice(self, shares: BudgetSplit) -> bool:
        """Whether means within the bounds are predicted to be about as good as those of counted columns: from public numbers."""
        most = MOST_ERROR * shares.predicted_error()
        return bool((self.predicted_error(shares) <= most).all())

    def sampling_std(self, moments: MomentsReleased) -> FloatArray:
        """Standard deviation of the mean y of a sample, from squares or public values; at most what a mean y allows."""
        y = moments.mean
        variance = moments.variance
        if variance is None:
            # The standard deviation of Student's t stands in for its wider quantiles.
            m = self.public_counts
            std = self.public_std * np.sqrt((m - 1) / (m - 3))
        else:
            variance_std = np.hypot(1.0, 2.0 * y) * moments.noise_std / moments.rows
            std = np.sqrt(np.maximum(variance + variance_std, 0.0))
        return np.minimum(std, np.sqrt(1.0 - y**2)) / np.sqrt(moments.rows)

    def report(
        self, missing: FloatArray, pulled: FloatArray, worst: FloatArray, rows_used: Any
    ) -> ColumnReport:
        """The report of means that unseen missing values may have `pulled` to the middle."""
        fields: dict[str, Any] = dict.fromkeys(("resolved_from", "lowest"), self.low)
        fields |= dict.fromkeys(("resolved_to", "highest"), self.high)
        fields |= dict.fromkeys(("undetected_rows", "clipping_std"), np.zeros(len(worst)))
        fields |= dict.fromkeys(("worst_below", "worst_above"), worst)
        fields["tail_below"] = np.maximum(-pulled, 0.0)
        fields["tail_above"] = np.maximum(pulled, 0.0)
        return ColumnReport(missing=missing, rows_used=rows_used, **fields)


def mean_in_bounds(run: Session, public: FloatArray, columns: BoundedColumns) -> MeanResult:
    """Release the moments of all columns with the whole allowance, and return their means."""
    n = run.rows.n
    cost = run.account.allowance
    released = run.release(columns.encoded(), name="moments within bounds", cost=cost).at(0)
    surely = tuning.LIKELY * released.count_std
    count = released.count
    missing = np.where(n - count > surely, n - count, 0.0)
    moments = replace(released, count=n - missing).possible
    y = moments.mean
    noise = np.where(missing > 0.0, moments.noise, moments.noise_std / moments.rows)
    # Missing values within the noise of their number pull the mean to the middle.
    unseen = np.maximum(n - count - missing, 0.0)
    pulled = columns.half * y * (unseen / n)
    unresolved = count <= surely  # there may be no number at all
    worst = np.where(unresolved, math.inf, 0.0)
    if run.rows.may_be_absent:
        report = columns.report(np.full(len(y), math.nan), pulled, worst, n - missing)
    else:
        report = columns.report(missing, pulled, worst, None)
    fields = run.fields(len(public))
    fields["report"] = report
    fields["noise_law"] = run.account.spending.law
    fields["columns"] = run.rows.columns
    fields["provenance"] = {"center": "bounds", "clipping": "bounds"}
    fields["part_reasons"] = first_of([(unresolved, Reason.UNRESOLVED)], len(y))
    return MeanResult(
        mean=columns.decoded(y),
        noise_std=columns.half * noise,
        sampling_std=columns.half * columns.sampling_std(moments),
        **fields,
    )
