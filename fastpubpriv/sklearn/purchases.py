"""The debit of one fit and its warnings: of repeated fits without a ledger, and of scores of private rows."""

from __future__ import annotations

import sys
import threading

from fastpubpriv.errors import PrivacyWarning, warn
from fastpubpriv.privacy import Budget, Cost
from fastpubpriv.privacy.budgets import short

SCORES = (
    "scores of private rows, as best_score_ and cv_results_ of a search, are exact numbers about these rows, and nothing protects "
    "them: keep them as private as the rows"
)

_counting = threading.Lock()
budgets_without_ledger: list[Budget] = []


def _search_around_fit() -> tuple[bool, bool]:
    """Return whether a fit is one of a cross-validation, and whether it is part of a search that refits on all rows."""
    frame = sys._getframe()
    fold = False
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith("sklearn.model_selection."):
            fold = fold or frame.f_code.co_name == "_fit_and_score"
            if getattr(frame.f_locals.get("self"), "refit", False):
                return fold, True
    return fold, False


class FitPurchase:
    """The debit of one fit: it is counted, and its warnings come before it, so that as errors they lose no result."""

    def __init__(self, budget: Budget, has_ledger: bool) -> None:
        self._budget = budget
        self._has_ledger = has_ledger
        self._fold, self._search = _search_around_fit()
        self._warned_of_scores = False

    def announce(self) -> None:
        """Warn of repeated fits without a ledger and of scores; raise, and count nothing, if warnings are errors."""
        if self._has_ledger:
            self.warn_of_scores()
            return
        with _counting:
            budgets_without_ledger.append(self._budget)
            number = len(budgets_without_ledger)
            text = (
                f"this is fit number {number} of this process without a ledger, and each spends its budget again, "
                f"{_total_without_ledger()}"
            )
        try:
            # Among the fits of a search only the last one warns, the refit on all rows.
            if number > 1 and not (self._fold and (self._search or number > 2)):
                warn(text, PrivacyWarning)
            self.warn_of_scores()
        except Warning:
            with _counting:
                budgets_without_ledger.remove(self._budget)
            raise

    def warn_of_scores(self) -> None:
        """Warn, once, that scores of private rows are not protected."""
        if self._fold != self._search and not self._warned_of_scores:
            self._warned_of_scores = True
            warn(SCORES, PrivacyWarning)


def _total_without_ledger() -> str:
    """Return what the fits without a ledger spend together, and what to do about it."""
    totals = []
    for notion in dict.fromkeys(map(type, budgets_without_ledger)):
        amounts = zip(
            *(each.amounts for each in budgets_without_ledger if type(each) is notion), strict=True
        )
        totals.append(short(Cost(notion, tuple(map(sum, amounts)))))  # type: ignore[arg-type]
    together = " and ".join(totals)
    return f"with this one {together} together: if they read the same rows, these add up. Pass ledger=PATH to count them"
