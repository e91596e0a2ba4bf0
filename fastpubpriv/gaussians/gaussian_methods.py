"""The methods of `estimate_gaussian`, which `method=` names: the ladder, and those of paper A in public coordinates."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv import session
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.output_bounds import bounded_gaussian, checked_bounds
from fastpubpriv.gaussians import (
    covariances_of_groups,
    hypothesis_selection,
    ladder,
    lifted,
    pairs,
    recursive,
)
from fastpubpriv.gaussians.gaussian_options import Options
from fastpubpriv.gaussians.lifted import GaussianCall, preconditioned
from fastpubpriv.privacy import Budget
from fastpubpriv.results.estimates import GaussianResult
from fastpubpriv.results.reasons import Reason
from fastpubpriv.session import Session
from fastpubpriv.sources import Rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GaussianMethod(session.Method[[int]]):
    """A method of `estimate_gaussian`; its draws depend on the number of columns.

    `begin(method, run, x_pub, options)` reads the public rows, checks, predicts and warns, all before the debit. The default,
    `preconditioned`, calls `prepare(run, problem, rounds)` and `learn(run, base, problem, *, rounds)` in public coordinates.
    `predict(options, dim, n_pub, n_priv, spending)` returns the error of the covariance, and details with that of the mean.
    """

    draws: Callable[[int], int] = lifted.draws
    begin: Callable[[GaussianMethod, Session, FloatArray, Options], GaussianCall] = preconditioned
    needs_public: bool = True

    def one_row_argument(self, options: Options) -> str:
        """The argument with which a call takes one row of each person, "" if it takes several."""
        if self is not LADDER:
            return f"method={self.name!r}"
        if options.structure in ("mean", "diagonal"):
            return f"structure={options.structure!r}"
        return ""

    def opened(
        self, x_priv: Any, x_pub: Any, columns: Any, budget: Budget, options: Options
    ) -> tuple[Rows, FloatArray]:
        """Return private and public rows; raise for rows or budgets that the method or its structure does not take."""
        rows, public = session.open_rows(x_priv, x_pub, columns=columns, gaps=True)
        if public is None:
            raise InputError(
                "estimate_gaussian needs public rows: pass x_pub=, or use coinpress_covariance with a known scale"
            )
        session.require_squares("estimate_gaussian", rows.dim, 12)
        if argument := self.one_row_argument(options):
            other = "estimate_gaussian with method='ladder' and structure='full'"
            session.refuse_padding(rows, argument, other)
        self.check(has_public=True, budget=budget, n_priv=rows.n)
        return rows, public

    def begun(
        self, run: Session, x_pub: FloatArray, options: Options
    ) -> Callable[[], GaussianResult]:
        """Check, predict and warn; return the call that debits, releases, and keeps the result within bounds."""
        rows = run.rows
        public = whole_rows(x_pub)
        gaps = len(public) < len(x_pub)
        box = checked_bounds("estimate_gaussian", options.bounds, public, rows.dim, rows.columns)
        estimate, reads = self.begin(self, run, public, options)

        def finish() -> GaussianResult:
            with run.paid() if reads else contextlib.nullcontext():
                result = bounded_gaussian(estimate(run), box)
            if gaps and (result.complete_rows is None or rows.may_be_absent):
                # Public rows have gaps, so that private rows are likely to have some, of which no release says how many: that of
                # the complete rows of persons leaves out the rows that a person does not have as well.
                result = replace(result, reasons=(*result.reasons, Reason.GAPS))
            return session.warned("estimate_gaussian", result)

        return finish


def whole_rows(public: FloatArray) -> FloatArray:
    """Return the public rows without missing cells; raise InputError if some have missing cells and fewer than two have none."""
    whole = np.isfinite(public).all(axis=1)
    count = int(np.count_nonzero(whole))
    if count == len(public):
        return public
    if count < 2:
        raise InputError(
            f"estimate_gaussian needs at least 2 public rows without missing cells, and {count} of {len(public)} have "
            "none: leave out the columns with most of them by columns=, fill them, or pass more public rows"
        )
    return public[whole]


LADDER = GaussianMethod(
    name="ladder",
    begin=ladder.ladder,
    learn=ladder.release_structure,
    draws=ladder.draws,
    predict=ladder.forecast,
)
LIFTED = GaussianMethod(
    name="lifted_coinpress",
    learn=lifted.learn,
    prepare=lifted.prepare,
    predict=lifted.forecast,
)
PAIRS = GaussianMethod(
    name="pairs",
    learn=pairs.learn,
    prepare=partial(lifted.prepare, rule=pairs.predict),
    predict=partial(lifted.forecast, rule=pairs.predict),
    least_rows=2,
)
RECURSIVE = GaussianMethod(
    name="recursive_preconditioner",
    learn=recursive.learn,
    draws=partial(lifted.draws, rounds=recursive.MAX_RECURSION),
    prepare=recursive.prepare,
    least_rows=2,
)
GROUP_COVARIANCES = GaussianMethod(
    name="group_covariances",
    learn=covariances_of_groups.learn,
    prepare=covariances_of_groups.prepare,
    reserved=covariances_of_groups.reserved,
    needs_delta=True,
)
SELECTION = GaussianMethod(
    name="hypothesis_selection",
    learn=hypothesis_selection.learn,
    prepare=hypothesis_selection.prepare,
)
METHODS: session.Registry[GaussianMethod] = session.Registry(
    LADDER, LIFTED, PAIRS, RECURSIVE, GROUP_COVARIANCES, SELECTION, auto=True
)


def choose_method(method: Any, options: Options) -> GaussianMethod:
    """Return the method of a call; "auto" is the ladder unless other methods own an option. Raise InputError if they clash."""
    name = METHODS.choose(method)
    other = options.of_public_bounds
    automatic = LADDER if other is None or options.structure != "auto" else LIFTED
    chosen = METHODS.get(name, automatic)
    if chosen is LADDER and other is not None:
        raise InputError(
            f"method='ladder' has no use for {other}: leave it out, or pass method='lifted_coinpress'"
        )
    if chosen is not LADDER and options.structure not in ("auto", "full"):
        raise InputError(
            f"structure={options.structure!r} belongs to method='ladder'; method={name!r} has structure='full'"
        )
    return chosen
