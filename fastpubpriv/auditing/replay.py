"""Record every release of a run, force the same answers on a neighboring data set, and compare the exact queries.

After Re:cord-play (Cebere, Erb, Desfontaines, Bellet, Fitzsimons, 2026). If every release returns the same answer on both data
sets, a correct estimator makes the same further computations on both, and its exact integers differ by at most the declared
sensitivity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv.errors import BudgetError, ReplayError
from fastpubpriv.privacy import ApproxDP, Budget, Cost, PureDP
from fastpubpriv.privacy.budgets import Composition
from fastpubpriv.privacy.calibrated_budget import approx_slack, gaussian_rho, laplace_epsilon
from fastpubpriv.privacy.ledger import cost_in
from fastpubpriv.release.transcript import Prepaid, ReleaseRecord, Transcript, recording
from fastpubpriv.sources import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """Result of replaying a run on a neighboring data set.

    Attributes
    ----------
    calls : int
        Number of releases in the run.
    pair_cost : Fraction
        Exact privacy cost between these two data sets: sum of |q - q'|^2 / (2 4^m), or of |q - q'|_1 / 2^m; for stable histograms
        the share of epsilon of the counts that differ. With several disjoint blocks of rows, the cost of the most expensive one.
    declared_cost : Fraction
        Sum of the declared costs of the releases. Releases over the same clusters contribute the larger of two sums, one for a row
        that stays and one for a row that moves; the nodes of a tree contribute the prepaid cost of the tree.
    allowance : Fraction
        Maximum cost under the budget, in the same unit.
    epsilon : Fraction
        Declared cost of Laplace releases beside Gaussian ones, in an (epsilon, delta) run; not part of the numbers above.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> from fastpubpriv.auditing import record_replay
    >>> rows = np.zeros((100, 1))
    >>> def run(x):
    ...     return fpp.coinpress_mean(x, center=0.0, radius=5.0, budget=fpp.ZCDP(rho=1))
    >>> report = record_replay(run, rows, rows.copy(), budget=fpp.ZCDP(rho=1))
    >>> float(report.pair_cost), report.declared_cost <= report.allowance  # nothing tells equal rows apart
    (0.0, True)
    """

    calls: int
    pair_cost: Fraction
    declared_cost: Fraction
    allowance: Fraction
    epsilon: Fraction = Fraction(0)

    @property
    def tightness(self) -> float:
        """Fraction of the declared cost that this pair attains."""
        return float(self.pair_cost / self.declared_cost) if self.declared_cost else 0.0


def record_replay(
    run: Callable[[Any], Any],
    x_priv: Any,
    x_neighbor: Any,
    *,
    budget: Budget,
    pieces: int | None = None,
) -> ReplayReport:
    """Report on the declared sensitivity of every release of a run: it is recorded on `x_priv` and replayed on `x_neighbor`.

    Parameters
    ----------
    run : callable
        run(x) calls an estimator on private rows x with all other arguments fixed, and returns its result.
    x_priv, x_neighbor : anything that `run` accepts
        Two data sets that differ in one row.
    budget : ZCDP, ApproxDP or PureDP
        The budget that `run` passes to the estimator. A call that divides it among several accounts is checked account by account,
        and their parts may add up to the budget.
    pieces : int, optional
        If given, also replay on the rows of the array `x_priv` in chunks of this size: the queries must return the same integers.
        `run` is then called with `Rows`.

    Returns
    -------
    ReplayReport
        How close the pair comes to the declared cost.

    Raises
    ------
    ReplayError
        The releases differ in number, name, shape, price or unit; a query changes by more than its sensitivity, or depends on how
        the rows are split into chunks; the declared costs exceed the budget; more noise was drawn than the budget was corrected
        for; or the results differ although every release was forced to the same answer.

    See Also
    --------
    audit : statistics of the output, which need no access to the releases.
    audit_by_tracing : an attack on a released mean.

    Notes
    -----
    For tests and audits only: exact private integers are held in memory during the run.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> from fastpubpriv.auditing import record_replay
    >>> rows, neighbor = np.full((100, 1), -1.0), np.full((100, 1), -1.0)
    >>> neighbor[3] = 1.0  # as far as the clip radius allows
    >>> budget = fpp.ZCDP(rho=1)
    >>> report = record_replay(
    ...     lambda x: fpp.coinpress_mean(x, center=0.0, radius=0.5, steps=1, variance=1e-4, budget=budget),
    ...     rows, neighbor, budget=budget,
    ... )
    >>> report.pair_cost <= report.declared_cost <= 1, report.calls
    (True, 1)
    """
    with recording() as recorded:
        result = run(x_priv)
    with recording(script=recorded.calls) as replayed:
        result_neighbor = run(x_neighbor)
    if len(recorded.calls) != len(replayed.calls):
        raise ReplayError(
            f"{len(recorded.calls)} releases on one data set, {len(replayed.calls)} on its neighbor"
        )
    if recorded.accounts != replayed.accounts:
        raise ReplayError(
            "what was debited, or how much noise was declared, depends on private rows"
        )
    # The budget of an account is corrected for an error of 2^-100 in each declared draw.
    drawn = [0] * len(recorded.accounts)
    for call in recorded.calls:
        if call.account is None:
            raise ReplayError(
                f"release {call.name!r} is paid by an account that was opened before the run"
            )
        drawn[call.account] += call.event.draws
    for (name, _, declared), count in zip(recorded.accounts, drawn, strict=True):
        if count > declared:
            raise ReplayError(
                f"{name}: {count} values of noise were drawn where {declared} were declared"
            )
    if pieces is not None:
        _check_pieces(run, x_priv, pieces, recorded, result)
    pairs = list(zip(recorded.calls, replayed.calls, strict=True))
    reports = []
    for account, paid in enumerate(_prices_of_accounts(recorded, budget)):
        own = [(one, other) for one, other in pairs if one.account == account]
        reports.append(_account_report(own, paid))
    if fingerprint(result) != fingerprint(result_neighbor):
        raise ReplayError(
            "the results differ although every released value was the same: private data leaked past release"
        )
    return _report_of_all_accounts(reports, budget)


def _prices_of_accounts(recorded: Transcript, budget: Budget) -> list[Budget]:
    """Return what each account may spend: a single one the budget, each of several what it has debited of the budget."""
    debited = [price for _, price, _ in recorded.accounts if isinstance(price, Budget)]
    if len(debited) < 2:
        return [budget]
    total = Cost.zero(type(budget))
    for price in debited:
        total += cost_in(type(budget), price)
    if any(amount > most for amount, most in zip(total.amounts, budget.amounts, strict=True)):
        raise ReplayError("the declared costs of the releases exceed the budget")
    return debited


def _report_of_all_accounts(reports: list[ReplayReport], budget: Budget) -> ReplayReport:
    """Return the report of all accounts, whose costs add up; in (epsilon, delta) units differ: that of the most expensive one."""
    calls = sum(report.calls for report in reports)
    if isinstance(budget, ApproxDP):
        most = max(reports, key=_cost_of_report)
        return replace(most, calls=calls)
    pair = declared = allowance = Fraction(0)
    for report in reports:
        pair += report.pair_cost
        declared += report.declared_cost
        allowance += report.allowance
    return ReplayReport(calls=calls, pair_cost=pair, declared_cost=declared, allowance=allowance)


def _cost_of_report(report: ReplayReport) -> tuple[Fraction, Fraction]:
    """Key that orders reports by cost."""
    return report.pair_cost, report.declared_cost


def _account_report(
    pairs: list[tuple[ReleaseRecord, ReleaseRecord]], budget: Budget
) -> ReplayReport:
    """Compare the releases of one account and check them against its budget."""
    # Blocks of rows are disjoint: a replaced row is in one of them, so the run costs as much as its most expensive block.
    blocks: dict[tuple[int, ...], list[tuple[ReleaseRecord, ReleaseRecord]]] = {}
    for one, other in pairs:
        if one.block != other.block:
            raise ReplayError(f"release {one.name!r}: the block of rows depends on private rows")
        blocks.setdefault(one.block, []).append((one, other))
    moved = [
        path
        for path, calls in blocks.items()
        if not all(np.array_equal(one.query, other.query) for one, other in calls)
    ]
    if len(moved) > 1:
        raise ReplayError(
            f"blocks {moved} both saw the replaced row: blocks of rows must be disjoint"
        )
    draws = sum(one.event.draws for one, _ in pairs)
    reports = []
    for calls in blocks.values() or [[]]:
        reports.append(_block_report(calls, budget, draws, len(pairs)))
    return max(reports, key=_cost_of_report)


def _check_pieces(
    run: Callable[[Any], Any],
    x_priv: np.ndarray[Any, Any],
    size: int,
    recorded: Transcript,
    result: Any,
) -> None:
    """Replay on the same rows in chunks of `size`; the contribution of a row must not depend on other rows of its chunk."""
    rows = x_priv.reshape(len(x_priv), -1)
    cut = Rows.from_chunks(
        lambda: (rows[at : at + size] for at in range(0, len(rows), size)),
        n=len(rows),
        dim=rows.shape[1],
    )
    with recording(script=recorded.calls) as replayed:
        again = run(cut)
    for one, other in zip(recorded.calls, replayed.calls, strict=True):
        if not np.array_equal(one.query, other.query):
            raise ReplayError(
                f"release {one.name!r}: the answer depends on how the rows are cut into chunks"
            )
    if fingerprint(again) != fingerprint(result):
        raise ReplayError("the results depend on how the rows are cut into chunks")


def _block_report(
    pairs: list[tuple[ReleaseRecord, ReleaseRecord]], budget: Budget, draws: int, calls: int
) -> ReplayReport:
    """Compare the releases on one block (all rows, if there are no blocks) and check them against the budget."""
    priced: list[tuple[ReleaseRecord, Fraction, Fraction]] = []
    reserved = Fraction(0)
    deltas = Fraction(0)
    approx = isinstance(budget, ApproxDP)
    gaussian = any(one.event.gdp for one, _ in pairs)
    for one, other in pairs:
        cost, price = compare(one, other, type(budget))
        if approx and not one.event.gdp:
            if gaussian and not one.event.beside_gaussian:
                raise ReplayError(
                    "Gaussian releases and those with an epsilon of their own are in one account"
                )
            deltas += one.event.own_delta
            # a reserved part of the budget covers it; otherwise its epsilon is added to the others
            if gaussian:
                reserved += price
                continue
        priced.append((one, cost, price))
    pair, declared = totals(priced)
    # Worked out here again: the account's own `spending_of` is what is checked.
    if isinstance(budget, PureDP) or (approx and pairs and not gaussian):
        allowance = laplace_epsilon(budget, draws)
        if isinstance(budget, ApproxDP) and deltas + approx_slack(allowance, draws) > budget.delta:
            raise ReplayError("the declared deltas of the releases exceed the budget")
    else:  # without the epsilon and delta of the reserved part
        allowance = gaussian_rho(budget, draws, reserved, deltas)
    # The estimator calibrated (epsilon, delta) for at least as many draws, so its allowance is no larger, up to solver rounding.
    slack = Fraction(1, 10**9) if approx else Fraction(0)
    if declared > allowance * (1 + slack):
        raise ReplayError("the declared costs of the releases exceed the budget")
    return ReplayReport(
        calls=calls, pair_cost=pair, declared_cost=declared, allowance=allowance, epsilon=reserved
    )


def totals(priced: Iterable[tuple[ReleaseRecord, Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    """Return cost of the pair and declared cost of releases, from both of each; raise ReplayError if the pair costs more."""
    charged = Composition()
    pair = Fraction(0)
    trees = dict[Prepaid, Fraction]()
    for call, cost, price in priced:
        if call.reserve is not None:
            trees[call.reserve] = trees.get(call.reserve, Fraction(0)) + cost
        else:
            charged.add(price, call.event.clusters)
            pair += cost
    if pair > charged.total:
        raise ReplayError(
            "the pair costs more than the releases were charged: a row that stays in one moves in another"
        )
    if any(cost > reserve.cost for reserve, cost in trees.items()):
        raise ReplayError(
            "the pair costs more than the debit of its tree scope: too many nodes on one path have paid"
        )
    return pair + sum(trees.values()), charged.total + sum(reserve.cost for reserve in trees)


def compare(
    one: ReleaseRecord, other: ReleaseRecord, notion: type[Budget]
) -> tuple[Fraction, Fraction]:
    """Return exact cost of the pair and declared cost of one release; raise ReplayError if its declaration is violated."""
    public = [
        (call.name, call.public_shape, call.event, call.unit, call.reserve) for call in (one, other)
    ]
    if public[0] != public[1]:
        raise ReplayError(
            f"release {one.name!r}: name, shape, event, scope or unit depends on private rows"
        )
    try:
        return one.event.pair_cost(one.query, other.query, notion), one.event.price(notion)
    except (BudgetError, ReplayError) as error:
        raise ReplayError(f"release {one.name!r}: {error}") from None


def fingerprint(result: Any) -> Any:
    """Return the exact content of a result in a form that can be compared by ==."""
    if isinstance(result, np.ndarray):
        return (result.shape, result.dtype.str, result.tobytes())
    if hasattr(result, "to_dict"):
        return repr(result.to_dict())
    if isinstance(result, (list, tuple)):
        return tuple(fingerprint(item) for item in result)
    return repr(result)
