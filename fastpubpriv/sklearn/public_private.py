"""Base of the estimators for scikit-learn's pipelines: `fit(X, y, X_pub=..., y_pub=...)`, private rows first, public rows as
metadata, which every estimator requests by default, or as parameters of the estimator, which need no metadata routing.

Needs scikit-learn 1.6 or newer (`pip install fastpubpriv[sklearn]`). Every fit spends its budget again: also a fit of a clone, and
every fit inside cross-validation or a grid search. With `ledger=` (the path of a ledger file) fits are debited and rejected beyond
its total; without one, every fit after the first of a process issues a PrivacyWarning with the total spent.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.release.account import before_debit
from fastpubpriv.sklearn.purchases import FitPurchase
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.arrow_streams import in_memory, public_in_memory
from fastpubpriv.sources.bound import BoundTable
from fastpubpriv.sources.open import labels_of_table, names_of_table, public_rows

NEEDS_PUBLIC = (
    "fit needs public rows: pass X_pub= to the estimator, or to fit, of a Pipeline or a search with "
    "sklearn.set_config(enable_metadata_routing=True)"
)


@dataclass(kw_only=True, eq=False, repr=False)
class PublicPrivateEstimator(BaseEstimator):
    """Base of all estimators. Without private rows or an open ledger: clones and pickles hold public and released values only."""

    # Neighbors: replace one row of X (and its label). The rows of X_pub are public. Attributes whose names end in an underscore are
    # released.
    # of one fit; required, as it has no default
    budget: Budget | None = field(default=None, kw_only=False)
    ledger: str | None = None  # path of a ledger file from which every fit is debited
    random_state: int | None = None  # for tests: results with a seed are not private
    X_pub: Any = None  # public rows of all fits that are given none

    __metadata_request__fit = {"X_pub": True}  # noqa: RUF012  # no field: scikit-learn reads it
    _may_lack_public: ClassVar[bool] = False  # whether `fit` works without public rows

    def __sklearn_tags__(self) -> Any:
        """Allow missing cells in private rows, whose content never raises."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags

    def _public(self, **given: Any) -> tuple[Any, ...]:
        """Return the public rows, and labels if named, of the estimator or else of `fit`; raise if both have them."""
        stated = {name: getattr(self, name) for name in given}
        in_fit = any(each is not None for each in given.values())
        in_estimator = any(each is not None for each in stated.values())
        if in_fit and in_estimator and any(given[name] is not stated[name] for name in given):
            raise InputError(
                f"the estimator has public rows, and fit is given others: pass {' and '.join(f'{name}=' for name in given)} to one "
                "of them"
            )
        return tuple(map(public_in_memory, (stated if in_estimator else given).values()))

    def _spend(self, call: Callable[..., Any], x: Any, x_pub: Any, **given: Any) -> Any:
        """Return call(x, x_pub=, ...) with the parameters that it shares, after the checks of a fit, and count the fit."""
        is_bound = isinstance(x, BoundTable)
        if is_bound:
            self._refuse_beside_table(X_pub=x_pub, **given)
        lacks_public = x.public is None if is_bound else x_pub is None
        if lacks_public and not self._may_lack_public:
            raise InputError(NEEDS_PUBLIC)
        if not isinstance(self.budget, Budget):
            raise InputError(
                "budget must be ZCDP(...), ApproxDP(...) or PureDP(...): what one fit may cost"
            )
        if self.ledger is not None and not isinstance(self.ledger, str):
            raise InputError(
                "ledger must be the path of a ledger file: an open ledger can be neither cloned nor pickled"
            )
        self.n_features_in_: int
        # Only the number and names of the columns are checked, where scikit-learn can tell them.
        if hasattr(self, "n_features_in_"):
            del self.n_features_in_
        if not is_bound:
            validate_data(self, x, skip_check_array=True)
        named_by_public = not hasattr(self, "n_features_in_")
        if named_by_public and x_pub is not None:
            self._take_features(x_pub)
        names = inspect.signature(call).parameters
        settings = {
            name: value for name, value in self.get_params(deep=False).items() if name in names
        }
        purchase = FitPurchase(self.budget, is_bound or self.ledger is not None)
        with (
            contextlib.nullcontext()
            if self.ledger is None
            else Ledger.from_file(self.ledger) as ledger,
            before_debit(purchase.announce),
        ):
            self.result_: Any = call(x, x_pub=x_pub, **{**settings, **given, "ledger": ledger})
        purchase.warn_of_scores()
        if named_by_public and x_pub is None:
            self.n_features_in_ = self.result_.dim
            self._name_features(self.result_.columns)
        elif named_by_public:
            self._order_features(self.result_.columns)
        return self.result_

    def _refuse_beside_table(self, **given: Any) -> None:
        """Raise InputError, before the debit, if public rows or a ledger are given beside a `PrivateTable`, which has them."""
        named = {**given, "ledger": self.ledger}
        for name in ("X_pub", "y_pub", "ledger"):
            if named.get(name) is not None:
                raise InputError(
                    f"a PrivateTable has public rows, their labels and a ledger: leave {name}= out of the estimator and of fit"
                )

    def _take_features(self, x_pub: Any) -> None:
        """Set the number of columns, and names that are texts, from the public rows alone."""
        names = names_of_table(x_pub)
        # A column of text has a name, so that only rows without names are read.
        self.n_features_in_ = public_rows(x_pub).shape[1] if names is None else len(names)
        labels = labels_of_table(x_pub)
        are_texts = labels is not None and all(isinstance(label, str) for label in labels)
        self._name_features(labels if are_texts else None)

    def _order_features(self, columns: tuple[str, ...] | None) -> None:
        """Put the names in the order of the private rows' `columns`; remove them if these have no such names."""
        if hasattr(self, "feature_names_in_"):
            are_same = columns is not None and set(columns) == set(self.feature_names_in_)
            self._name_features(columns if are_same else None)

    def _name_features(self, names: Sequence[str] | None) -> None:
        """Set the names of the columns, or remove those that scikit-learn or an earlier fit has set."""
        if names is not None:
            self.feature_names_in_: Any = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _rows(self, x: Any) -> FloatArray:
        """Return the rows to predict for, in the columns of the fit; this call does not protect them."""
        check_is_fitted(self)
        dimensions = len(getattr(x, "shape", ())) or (
            np.ndim(x) if isinstance(x, list | tuple) else 0
        )
        if dimensions > 1 or (dimensions == 1 and self.n_features_in_ > 1):
            checks: Any = {"reset": False, "dtype": np.float64, "ensure_all_finite": "allow-nan"}
            return cast(FloatArray, validate_data(self, x, **checks))
        # One column, or a source that scikit-learn does not read.
        names = getattr(self, "feature_names_in_", None)
        x = in_memory(x)
        rows = private_rows(x)
        if rows.columns is not None and names is not None:
            rows = private_rows(x, columns=names.tolist())
        if rows.dim != self.n_features_in_:
            raise InputError(
                f"X has {rows.dim} columns, and the rows of the fit had {self.n_features_in_}"
            )
        return np.concatenate([chunk.astype(np.float64) for chunk in rows.chunks()])

    def _ask(self, name: str, x: Any) -> Any:
        """Return the value of a method of the result for rows."""
        rows = self._rows(x)  # first, as it raises NotFittedError
        return getattr(self.result_, name)(rows)
