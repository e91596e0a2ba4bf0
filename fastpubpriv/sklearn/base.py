"""What the estimators share: parameters that can be cloned, one spending fit, and columns that are matched by name."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError, PrivacyWarning
from fastpubpriv.parameters import shared_docs
from fastpubpriv.privacy import Budget, Ledger

NEEDS_PUBLIC = "fit needs public rows: pass X_pub=, and inside a Pipeline ask for it with set_fit_request(X_pub=True)"

_counting = threading.Lock()
_spent: list[Budget] = []


@dataclass(kw_only=True, eq=False, repr=False)
class PublicPrivateEstimator(BaseEstimator):
    """The base of all: holds no data and no open ledger, so clones and pickles carry released values only.

    Parameters
    ----------
    budget : ZCDP, ApproxDP or PureDP
        What one fit costs. It has no default: nothing is spent that nobody asked for.
    ledger : str, optional
        Path of a ledger file that every fit is charged to (`fastpubpriv.Ledger(total, path=...)` makes one). A fit beyond its total
        raises BudgetError and reads nothing.
    random_state : int, optional
        Makes noise repeatable, for tests: a released seed protects nobody.

    Privacy
    -------
    Neighbours: replace one row of X (and its label). The rows of X_pub are public. Attributes whose names end in an underscore are
    released.
    """

    budget: Budget | None = field(default=None, kw_only=False)
    ledger: str | None = None
    random_state: int | None = None

    def __init_subclass__(cls, **given: Any) -> None:
        """Fill in the shared texts of the docstring."""
        super().__init_subclass__(**given)
        shared_docs(cls)

    def __sklearn_tags__(self) -> Any:
        """Missing cells are allowed in private rows: what they hold never raises."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags

    def _spend(self, x: Any, x_pub: Any, call: Callable[..., Any]) -> Any:
        """Return call(budget=, ledger=, random_state=), with what a fit has to check before and to count after."""
        if x_pub is None:
            raise InputError(NEEDS_PUBLIC)
        if not isinstance(self.budget, Budget):
            raise InputError("budget must be ZCDP(...), ApproxDP(...) or PureDP(...): what one fit may cost")
        if self.ledger is not None and not isinstance(self.ledger, str):
            raise InputError(
                "ledger must be the path of a ledger file: an open ledger can be neither cloned nor pickled"
            )
        # Only the form of the table is looked at: how many columns, and their names.
        validate_data(self, x, skip_check_array=True)
        with self._charged() as ledger:
            result = call(budget=self.budget, ledger=ledger, random_state=self.random_state)
        self.result_ = result
        return result

    @contextlib.contextmanager
    def _charged(self) -> Iterator[Ledger | None]:
        if self.ledger is not None:
            with Ledger.from_file(self.ledger) as ledger:
                yield ledger
            return
        yield None
        with _counting:
            _spent.append(self.budget)  # type: ignore[arg-type]
            number, listed = len(_spent), _spent[-3:]
        if number > 1:
            warnings.warn(
                f"this was fit number {number} of this process without a ledger, and each spent its budget again (the last: "
                f"{', '.join(map(repr, listed))}): if they read the same rows, these add up. Pass ledger=PATH to count them",
                PrivacyWarning,
                stacklevel=4,
            )

    def _rows(self, x: Any) -> FloatArray:
        """Rows to predict for, in the columns of the fit; they are not private to this call."""
        check_is_fitted(self)
        found: FloatArray = validate_data(self, x, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        return found

    def _ask(self, name: str, x: Any) -> Any:
        """The answer of a method of the result for rows."""
        rows = self._rows(x)
        return getattr(self.result_, name)(rows)
