"""The share of rows without a missing cell, by which released sums are divided so that they are about these rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv.estimators.moments import Functional
from fastpubpriv.mechanisms.sums import Released, SecondMoment, VectorSum, WithCompleteRows
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.results.reasons import Reason, Reasons
from fastpubpriv.session import Session
from fastpubpriv.sources import Rows

LEAST_COMPLETE = 0.1  # minimum fraction of rows without a missing cell that sums are divided by
# quantile .995 of a Laplace variable over that of a Gaussian one of the same variance
LAPLACE_QUANTILE = 1.27
# fraction of rows without a missing cell from which those that are left out have no reason
ENOUGH_COMPLETE = 0.98


@dataclass(frozen=True, slots=True, eq=False)
class CompleteRows:
    """The share of rows without a missing cell, released with its errors."""

    known: Functional

    @classmethod
    def counted(cls, incomplete: float, std: float, n: int, spending: Spending) -> CompleteRows:
        """Return the share from a released number of incomplete ones of n rows with noise `std`."""
        # Quantiles of Laplace noise up to the level .99 are at most this multiple of those of Gaussian noise.
        noise = np.array(std / n * spending.by_tail(1.0, LAPLACE_QUANTILE))
        none = np.zeros(())
        value = np.array(1.0 - incomplete / n)
        return cls(Functional(value=value, std=noise, noise=noise, tail=none, extra=none))

    @property
    def divisor(self) -> float:
        """The share that sums are divided by: 1 unless the released one is below it, and at least LEAST_COMPLETE."""
        if not float(self.known.interval(0.99)[1]) < 1.0:
            return 1.0
        return max(float(self.known.value), LEAST_COMPLETE)

    @property
    def relative_std(self) -> float:
        """Relative standard error of the divisor; 0 if it is 1."""
        return float(self.known.std) / self.divisor if self.divisor < 1.0 else 0.0

    @property
    def relative_tail(self) -> float:
        """Largest relative error of the divisor by clipped rows; 0 if it is 1."""
        return (
            (float(self.known.tail) + abs(float(self.known.extra))) / self.divisor
            if self.divisor < 1.0
            else 0.0
        )

    @property
    def reasons(self) -> Reasons:
        """GAPS if the share is surely below ENOUGH_COMPLETE, UNRESOLVED if it is below the least divisor as well."""
        if not float(self.known.interval(0.99)[1]) < ENOUGH_COMPLETE:
            return ()
        lost = float(self.known.value) < LEAST_COMPLETE
        return (Reason.UNRESOLVED, Reason.GAPS) if lost else (Reason.GAPS,)

    def reasons_of(self, rows: Rows) -> Reasons:
        """Return the reasons of a result from these rows: those that may pad a person are none, however many."""
        return tuple(
            reason for reason in self.reasons if reason != Reason.GAPS or not rows.may_be_absent
        )

    def number(self, n: int) -> dict[str, Any]:
        """Return the fields of a result about n rows whose number of complete ones was counted."""
        fields = self.fields(n)
        return {name: fields[name] for name in ("complete_rows", "complete_rows_std")}

    def fields(self, n: int) -> dict[str, Any]:
        """Return the fields of the result about n rows."""
        known = self.known
        return {
            "complete_rows": n * min(max(float(known.value), 0.0), 1.0),
            "complete_rows_std": n * float(known.std),
            "complete_rows_below": n * float(known.tail - np.minimum(known.extra, 0.0)),
            "complete_rows_above": n * float(known.tail + np.maximum(known.extra, 0.0)),
        }

    def over(self, known: Functional) -> Functional:
        """Return released sums per row of all rows as means over the complete ones, with the error of their share."""
        share = self.divisor
        size = np.abs(known.value) / self.divisor
        return Functional(
            value=known.value / share,
            std=np.hypot(known.std / share, size * self.relative_std),
            noise=known.noise / share,
            tail=known.tail / share + size * self.relative_tail,
            extra=known.extra / share,
        )


def fields_of(complete: CompleteRows | None, rows: Rows) -> dict[str, Any]:
    """Return the fields of a result about these rows, none if their completeness was not released."""
    if complete is None:
        return {}
    return complete.fields(rows.n)


def reasons_of(complete: CompleteRows | None, rows: Rows) -> Reasons:
    """Return the reasons of a result about these rows, none if their completeness was not released."""
    if complete is None:
        return ()
    return complete.reasons_of(rows)


def release_complete(
    run: Session, total: VectorSum | SecondMoment, *, name: str, cost: Fraction, **facts: Any
) -> tuple[Released, CompleteRows]:
    """Release a sum over the rows, and the share of complete rows, which is free; its record has `facts` and the clip radius."""
    released = run.release(
        WithCompleteRows(total=total), name=name, cost=cost, clip_radius=total.radius, **facts
    )
    assert released.complete is not None
    n = run.rows.n
    std = released.complete_std
    return released, CompleteRows.counted(n - released.complete, std, n, run.account.spending)
