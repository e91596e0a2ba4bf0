"""Private hypothesis selection: the mixture of a public list that fits the private rows best (paper C, section 2.3; spec C7)."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import Keep, RowsPerPerson, Score, SelectionLaw, SelectionMethod
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.errors import InputError, warn
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.mechanisms import selection
from fastpubpriv.mechanisms.hypotheses import Hypotheses
from fastpubpriv.mechanisms.scores import CELLS, LogRatios, checked_clip
from fastpubpriv.mechanisms.selection import HypothesisChoice, prepare
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.privacy.calibrated_budget import without_delta
from fastpubpriv.release.release import MAX_CANDIDATES
from fastpubpriv.results.mixture import SelectionResult
from fastpubpriv.results.reasons import Reason
from fastpubpriv.sources import Rows

__all__ = ["Hypotheses", "required_n", "select_hypothesis"]

MOST_CELLS = 4096
MOST_DRAWS = 2**15 - 1


def required_n(
    candidates: int, accuracy: float, epsilon: float, failure_prob: float = FAILURE_PROB
) -> int:
    """Number of rows from which the selected hypothesis is within 3 OPT + accuracy/2 of the distribution of the rows.

    Parameters
    ----------
    candidates : int
        Length of the list.
    accuracy : float in (0, 1)
        Twice the slack, in total variation.
    epsilon : float
        Epsilon of the selection. Under ZCDP(rho) the exponential mechanism runs at epsilon = sqrt(8 rho).
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.

    Returns
    -------
    int
        The least n with 2 Delta + s + 1 / n <= accuracy / 2, Delta = sqrt(ln(2 S / b) / (2 n)) and s = 2 ln(M / b) / (n epsilon),
        for M candidates, S = M (M - 1) / 2 sets and b = failure_prob / 4.

    Raises
    ------
    InputError
        Arguments out of range.

    Privacy
    -------
    Reads no data.

    See Also
    --------
    select_hypothesis : the selection itself.
    plan : rows, budget or error of other estimators.

    Notes
    -----
    Uses Hoeffding's inequality over all sets, and the tail of the exponential mechanism (permute-and-flip is never worse). Smaller
    than the closed form max(32 ln(2 S / b) / accuracy^2, 8 ln(M / b) / (accuracy epsilon)), which gives each part half of the
    slack. Still conservative: lists of similar hypotheses need far fewer rows.

    Examples
    --------
    >>> required_n(1000, accuracy=0.2, epsilon=1.0)
    4098
    """
    candidates = validation.integer("candidates", candidates, minimum=1)
    accuracy = validation.probability("accuracy", accuracy)
    epsilon = validation.positive("epsilon", epsilon)
    return selection.required_rows(
        candidates, accuracy, epsilon, validation.probability("failure_prob", failure_prob)
    )


@user_level
def select_hypothesis(
    x_priv: Any,
    *,
    hypotheses: Any,
    budget: Budget,
    accuracy: float | None = None,
    score: Score = "minimum_distance",
    method: SelectionMethod = "auto",
    law: SelectionLaw = "auto",
    fallback: Any = None,
    cells: int = CELLS,
    draws: int | None = None,
    public_seed: int = 0,
    clip: float = selection.CLIP,
    failure_prob: float = FAILURE_PROB,
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> SelectionResult:
    """Member of a public list of mixtures that is nearly as close to the law of the private rows as the best of them.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows.
        A row with a missing or infinite entry lies in no set, but counts in n_priv: it speaks against every hypothesis, and many
        such rows may decide the choice. Nothing is released about their number, so that no reason says so.
    hypotheses : list of MixtureResult, triple of arrays, or Hypotheses
        The list, which must not depend on these rows: weights (m, k), means (m, k, dim) and variances (m, k, dim) or covariances
        (m, k, dim, dim). It may come from public data or from private releases on other rows. Entries with non-finite parameters or
        variances that are not positive are excluded. Columns with names are matched with those of the rows by name.
    budget : PureDP, ApproxDP or ZCDP
        Debited before `x_priv` is read. Of ApproxDP only the epsilon is spent.
    columns : str, int or list of these, optional
        Numeric columns by name or, of an array, by number; by default all, in their order.
    person : str or (n_priv,) array-like, optional
        Column that says whose row it is, or the identifiers themselves: the call then protects all rows of a person together
        (user-level privacy); say by `keep` or `rows_per_person` what stands for a person. Rows without an identifier are left
        out. A text that is a number in its usual form (7, -3, 7.0) is that number, whatever the form of the table; "07" and "7"
        are two persons. Whole numbers beyond 2^53 are rounded in columns of numbers: keep them as text. By default each row is
        protected by itself.
    keep : "row", "mean" or "sum", optional
        With `person`: "mean", for each column the mean of the numbers in the person's rows, so that each person counts once; or
        "sum", their sum (0 for a person without any), whose total is that of all rows. Public rows that have the column of
        persons are treated alike, others are of persons already. "row", which `rows_per_person` implies: rows.
    rows_per_person : int or "auto", optional
        With `person`: at most how many rows of each person are used, chosen as if at random. For k rows the budget is spent at
        row level with rho / k^2 or epsilon / k; "auto" chooses k with a sixteenth of it, and a given k spends 1/64 on how many
        persons have more rows: reason "rows_left_out" if surely more than 2 % do. Rows that a person does not have are in no
        count; a method that cannot tell them from rows at a center refuses k > 1 before the debit.

    accuracy : float in (0, 1), optional
        Twice the desired slack in total variation; there is a warning if n_priv rows do not guarantee it.
    score : "minimum_distance", "yatracos" or "log_ratio"
        Score of a hypothesis. "minimum_distance": by the Scheffe sets of it and each other one, up to 32768 hypotheses on one
        column and 20000 on several.
        "yatracos": by the Scheffe sets of all pairs, up to 256 hypotheses; the same guarantee. "log_ratio": clipped log densities,
        up to 1048576 hypotheses in time proportional to their number; equally private, but without a guarantee of accuracy.
    method : "auto", "exact", "cells" or "densities"
        Evaluation of the sets. For one column, "exact" finds the roots of the differences of densities (up to 1000 hypotheses,
        the default up to 100), and "cells" uses unions of public cells (the default for longer lists). "densities" compares log
        densities at the rows (any number of columns, the default above one).
    law : "auto", "permute_and_flip" or "exponential"
        Selection mechanism; "auto" is permute-and-flip if the cost is an epsilon (it is never worse there), and the
        exponential mechanism under ZCDP (where it costs a quarter).
    fallback : one mixture, in the form of a list with one entry, optional
        Returned with the reason "fallback", at no cost, if every hypothesis was excluded.
    cells : int
        Maximum number of cells of "cells": 2 to 4096.
    draws : int, optional
        Public draws from each hypothesis for the masses of "densities": 16 to 32767. None takes 1024, and down to 256 for long
        lists, to save time: 512 for a thousand mixtures of two components on three columns.
    public_seed : int
        Seed of the public draws.
    clip : float
        For "log_ratio", in nats, from 1/512 to 31 and rounded to 512ths: log ratios of a hypothesis to the best of the list at a
        row are clipped here. A smaller clip makes the selection less noisy and more robust, but does not distinguish hypotheses
        that are poor at most rows.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        It is the failure probability of the bound `slack` of the result.

    ledger : Ledger, optional
        Debited before the first read, by what `budget` says is spent.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads : int, optional
        Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
    progress : bool, optional
        Whether a progress bar is shown; by default on a terminal, for long work.

    Returns
    -------
    SelectionResult
        Index and parameters of the chosen mixture, and a bound on its distance from the best of the list.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For the list, the public arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other. Public: n_priv, the list, and all arguments. Released: one
    choice of an index of the list, nothing else, on whole scores that one row can move by the same small number whatever the
    list is. It is made by permute-and-flip, or by the exponential mechanism, and costs the budget (of ApproxDP its epsilon);
    nothing when one hypothesis is left.

    Proofs: `notes/hypotheses.md`, `notes/selection.md`.

    See Also
    --------
    plan : how many rows a guarantee of accuracy needs (task "select_hypothesis").
    learn_axis_aligned_mixture : a mixture without a list, columns independent within a component.
    learn_separated_mixture : a mixture without a list.

    Notes
    -----
    Paper C, Lemma 3.1 (Theorem 27 of Aden-Ali, Ashtiani and Kamath 2021, after Bun, Kamath, Steinke and Wu 2019), which gives the
    order of the rows and no constants: `required_n` has ours. Departs from it: the score is the pairwise minimum distance of
    Mahalanabis and Stefankovic (2008), s_i the largest |round(n f_i(A)) - rows in A| over the Scheffe sets A of i and another
    hypothesis, one for each pair. Masses are rounded before rows are counted, which costs 1 / (2 n) of accuracy and makes scores
    integers. "yatracos" takes the largest over the sets of all pairs (Theorem 27 of Aden-Ali, Ashtiani and Kamath).
    "log_ratio": s_i is the sum over rows of min(max_j ln f_j - ln f_i, clip), in quarters of the clip. Permute-and-flip is that
    of McKenna and Sheldon (2020), run as its loop of exact coins. Time: pairs times cells / 2, or pairs times rows, in whole
    vectors; for "yatracos" pairs times hypotheses before that, for "log_ratio" hypotheses times rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import PureDP, select_hypothesis
    >>> rows = np.random.default_rng(0).normal(3.0, 2.0, size=(2000, 1))
    >>> means = np.arange(-10.0, 11.0).reshape(-1, 1, 1)
    >>> listed = (np.ones((21, 1)), means, np.full((21, 1, 1), 4.0))
    >>> result = select_hypothesis(rows, hypotheses=listed, budget=PureDP(epsilon=1.0))
    >>> result.means.tolist(), result.law
    ([[3.0]], 'permute_and_flip')
    """
    rows, _ = session.open_rows(x_priv, columns=columns)
    session.refuse_padding(rows, "select_hypothesis")
    listed, spare = _lists(hypotheses, fallback, rows)
    if accuracy is not None:
        accuracy = validation.probability("accuracy", accuracy)
    score = validation.choice("score", score, get_args(Score))
    if score == "log_ratio" and accuracy is not None:
        raise InputError(
            'score="log_ratio" guarantees no accuracy: leave accuracy out, or pass score="minimum_distance"'
        )
    law = validation.choice("law", law, get_args(SelectionLaw))
    compared = {
        "method": validation.choice("method", method, get_args(SelectionMethod)),
        "cells": validation.integer("cells", cells, minimum=2, maximum=MOST_CELLS),
        "draws": None
        if draws is None
        else validation.integer("draws", draws, minimum=16, maximum=MOST_DRAWS),
        "public_seed": validation.integer("public_seed", public_seed, minimum=0),
        "clip": checked_clip(validation.positive("clip", clip)),
    }
    failure_prob = validation.probability("failure_prob", failure_prob)
    run = session.start(
        "select_hypothesis",
        rows,
        # A selection is pure DP, so no delta is spent.
        without_delta(budget),
        draws=1,
        **session.asked(ledger, random_state, threads, progress),
    )
    if listed.size == 0:
        if spare is None:
            raise InputError(
                "every hypothesis was left out for non-finite parameters or variances that are not positive: pass a usable list, "
                "or fallback="
            )
        return _result(run, spare, 0, index=None, left_out=listed.given)
    left_out = listed.given - listed.size
    if listed.size == 1:
        return _result(run, listed, 0, index=int(listed.positions[0]), left_out=left_out)
    used_law = selection.law_for(run.account, law)
    epsilon = run.account.spending.choice_epsilon(used_law)
    if accuracy is not None:
        warn_few("select_hypothesis", rows.n, listed.size, accuracy, float(epsilon), failure_prob)
    used_method, evaluation = prepare(
        listed, rows.n, score=score, **compared, threads=run.executor.threads
    )
    slack = (
        math.inf
        if score == "log_ratio"
        else selection.slack_at(listed.size, rows.n, float(epsilon), failure_prob)
    )
    used: dict[str, Any] = {"clip": evaluation.clip} if isinstance(evaluation, LogRatios) else {}
    choice = HypothesisChoice(evaluation=evaluation, size=listed.size, law=used_law)
    with run.paid():
        chosen = run.release(choice, name="hypothesis", cost=epsilon, score=score, **used).index
        facts = {
            "score": score,
            "method": used_method,
            "law": used_law,
            "epsilon": float(epsilon),
            "slack": slack,
        }
        return _result(
            run, listed, chosen, index=int(listed.positions[chosen]), left_out=left_out, **facts
        )


def _lists(hypotheses: Any, fallback: Any, rows: Rows) -> tuple[Hypotheses, Hypotheses | None]:
    """Return the list and the fallback, with columns in the order of the rows."""
    shown = rows.kind != "csv"  # as in `open_rows`
    listed = Hypotheses.of(hypotheses).ordered(rows.columns, show=shown)
    if listed.dim != rows.dim:
        raise InputError(f"the hypotheses describe {listed.dim} columns, the rows have {rows.dim}")
    spare = None if fallback is None else Hypotheses.of(fallback).ordered(rows.columns, show=shown)
    if spare is not None and (spare.size != 1 or spare.dim != rows.dim):
        raise InputError(f"fallback must be a list of one usable mixture of {rows.dim} columns")
    if listed.size > MAX_CANDIDATES:
        raise InputError(
            f"a choice is made among up to {MAX_CANDIDATES} hypotheses, got {listed.size}: pass a shorter list"
        )
    return listed, spare


def warn_few(
    name: str,
    n: int,
    size: int,
    accuracy: float,
    epsilon: float,
    failure_prob: float,
) -> None:
    """Warn if, by public numbers, a selection by this number of rows does not guarantee the desired accuracy."""
    needed = round(selection.required_rows(size, accuracy, epsilon, failure_prob))
    if n < needed:
        warn(
            f"{name}: {n} rows do not guarantee accuracy {accuracy:.3g} over {size} hypotheses, "
            f"{needed} would; pass more rows, a larger budget or accuracy, or a shorter list of candidates",
        )


def _result(
    run: session.Session,
    listed: Hypotheses,
    chosen: int,
    *,
    index: int | None,
    left_out: int,
    **facts: Any,
) -> SelectionResult:
    """Return the result; without `facts`, no selection took place."""
    facts = {
        "score": "none",
        "method": "none",
        "law": "none",
        "epsilon": 0.0,
        "slack": 0.0,
        **facts,
    }
    present = listed.weights[chosen] > 0.0
    spreads = listed.spreads[chosen][present]
    covariances = spreads[:, :, None] * np.eye(listed.dim) if listed.axis_aligned else spreads
    return SelectionResult(
        index=index,
        weights=listed.weights[chosen][present],
        means=listed.means[chosen][present],
        covariances=covariances,
        part_reasons=((Reason.FALLBACK,) if index is None else (),) * len(covariances),
        candidates=0 if index is None else listed.size,
        left_out=left_out,
        columns=run.rows.columns,
        provenance={"hypotheses": "argument"},
        **facts,
        **run.fields(0),
    )
