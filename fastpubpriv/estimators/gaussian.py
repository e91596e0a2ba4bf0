"""Mean and covariance of private rows with the help of a few public ones (paper A, Algorithm 2, and a ladder of its own)."""

from __future__ import annotations

import warnings
from typing import Any

from fastpubpriv import session as running
from fastpubpriv import validation
from fastpubpriv.errors import AccuracyWarning, InputError
from fastpubpriv.estimators.bounded import bounded_gaussian, checked_bounds
from fastpubpriv.estimators.ladder.learn import METHOD as LADDER
from fastpubpriv.estimators.ladder.learn import ladder
from fastpubpriv.estimators.ladder.schedule import STRUCTURES
from fastpubpriv.estimators.learners import METHODS
from fastpubpriv.estimators.preconditioner import DEFAULT_COND_MAX, Options, preconditioned
from fastpubpriv.estimators.radii import Mode, failure_probability
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.results.estimates import GaussianResult
from fastpubpriv.session import Method
from fastpubpriv.shared_docs import FAILURE_PROB, shared_docs


def choose_method(method: Any, structure: Any, options: Options) -> tuple[Method, str]:
    """The record and the structure of a call. "auto" is the ladder, unless an argument belongs to the other methods."""
    name = METHODS.choose(method)
    structure = validation.choice("structure", structure, ("auto", *STRUCTURES))
    given = {
        "mode='theory'": options.mode != "practical",
        "pub_priv_gap": options.pub_priv_gap > 0.0,
        "rounds": options.rounds is not None,
        "cond_max": options.cond_max != DEFAULT_COND_MAX,
        "require_precondition": options.require_precondition,
    }
    other = next((argument for argument, was in given.items() if was), None)
    if name == "auto":
        name = LADDER.name if other is None or structure != "auto" else "lifted_coinpress"
    if name == LADDER.name and other is not None:
        raise InputError(f"method='ladder' has no use for {other}: leave it out, or pass method='lifted_coinpress'")
    if name != LADDER.name and structure not in ("auto", "full"):
        raise InputError(f"structure={structure!r} belongs to method='ladder'; method={name!r} has structure='full'")
    return METHODS[name], structure


@shared_docs
def estimate_gaussian(
    x_priv: Any,
    *,
    x_pub: Any,
    budget: Budget,
    pub_priv_gap: float = 0.0,
    failure_prob: float = FAILURE_PROB,
    method: str = "auto",
    structure: str = "auto",
    mode: Mode = "practical",
    rounds: int | None = None,
    cond_max: float = DEFAULT_COND_MAX,
    require_precondition: bool = False,
    bounds: Any = None,
    columns: Any = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> GaussianResult:
    """Mean and covariance of private rows, from no worse than a few public rows to a full private covariance.

    Parameters
    ----------
    {x_priv}
        A row with a missing or infinite entry adds nothing to any sum but counts in n_priv; a full covariance of the ladder is put
        right where their share shows.
    {x_pub}
        At least two, not all equal. Columns may be constant, collinear or copies of each other.
    {budget}
        Untouched where the public rows alone are predicted to be best.
    {pub_priv_gap}
        Above 0 it calls for "lifted_coinpress". The ladder needs no such number: `diagnostics` say by how many deviations the
        public mean is off (`shift`) and by what factor the public scale (`scale_ratio`), as far as released numbers show it, and
        both are allowed for.
    {failure_prob}
        The bounds are those that other methods than the ladder derive from the public rows.
    method : str
        "auto" takes "ladder", or "lifted_coinpress" if one of its own arguments is given. "ladder": public numbers predict the
        errors of four rungs, the best is taken before anything is spent, and private and public moments are combined by inverse
        variance; where rows and budget allow, a cheap private count says what scale the rows have. The last second moment and the
        mean of the full rung are released in two pieces each, after a count of norms: they say which way rows far out pull.
        "lifted_coinpress" (CoinPress on rows (x, 1)) and "pairs" (CoinPress on differences of neighbouring rows, then for the mean:
        the version that the literature proves, with twice the noise on the covariance) start from bounds that hold for the least
        favourable public rows. In the role of black boxes that the paper names, each with its regime in its module:
        "recursive_preconditioner" (of KLSU19; many rows), "group_covariances" (of AL21; ApproxDP, very many rows, experimental),
        "hypothesis_selection" (of BKSW19; PureDP or ZCDP, one or two columns).
    structure : "auto", "public", "mean", "diagonal" or "full"
        The rung of the ladder: public mean and covariance; public covariance with a private mean; private variances along the
        axes of the public covariance; a full private covariance, shrunk as far as noise and public rows tell. "auto" predicts.
    {mode}
        Those of the proofs have union bounds; the ladder is for practice.
    rounds : int, optional
        Rounds of the covariance recursion of the other methods; None takes the public rule.
    cond_max : float
        The other methods' bound on the condition of the covariance, used without preconditioning.
    require_precondition : bool
        Of the other methods: refuse public rows that cannot precondition instead of falling back to the trace bound.
    {gaussian_bounds, matched_columns, ledger, random_state, threads, progress}

    Returns
    -------
    GaussianResult
        `mean` (dim,), `covariance` (dim, dim) positive definite, in (squared) data units, with predicted errors; `structure` and
        `status` say which rung it is, `diagnostics` what was predicted for the others. With structure "full" of the ladder,
        `confidence_interval(of=...)` has intervals of means, standard deviations, covariances and correlations, and `reasons` a
        word for each column: "ok", "heavy_tail", "few_rows" or "unresolved".

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one private row; holds for every public data set. The rung is decided by public numbers. A second moment is
    one symmetric integer matrix (squared sensitivity 2 Q^4, for pairs the same), a mean and the axis variances one vector sum each
    (4 Q^2), a count of norms or of one column's distances one histogram (2 S^2). The last second moment of the ladder is two, of
    the inner and the outer part of each row, its mean one sum of both parts. The ladder's number of second moments and their
    shares rest on released spectra and counts; the exact costs add up to at most the budget on every path. The rung "public" reads
    nothing but the size of `x_priv` and costs nothing.

    Notes
    -----
    Paper A, Algorithm 2, Theorem 2.4 and Lemma B.11, where the methods in public coordinates are meant. Departs from it: the
    learner is an adaptation of CoinPress to lifted rows (x, 1), backed by measurement, where the paper calls a black box;
    `pairs` keeps the black box. Noise is the orthogonally invariant one, smaller by sqrt(2) off the diagonal. The ladder is ours:
    an empirical-Bayes base from the public rows, CoinPress rounds as many as the released spectra ask for, and shrinkage to the
    likeliest of several targets.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, estimate_gaussian
    >>> rng = np.random.default_rng(0)
    >>> mix = np.array([[2.0, 0.0], [1.0, 0.5]])
    >>> private, public = rng.normal(size=(20_000, 2)) @ mix.T, rng.normal(size=(3, 2)) @ mix.T
    >>> result = estimate_gaussian(private, x_pub=public, budget=ZCDP(rho=0.5))
    >>> result.structure, bool(np.allclose(result.covariance, mix @ mix.T, rtol=0.1, atol=0.1))
    ('full', True)
    """
    rows, public = running.open_rows(x_priv, x_pub, columns=columns)
    if public is None:
        raise InputError(
            "estimate_gaussian needs public rows: pass x_pub=, or use coinpress_covariance with a known scale"
        )
    options = Options(
        mode=validation.choice("mode", mode, ("practical", "theory")),
        failure_prob=failure_probability(failure_prob),
        pub_priv_gap=validation.fraction("pub_priv_gap", pub_priv_gap),
        cond_max=validation.positive("cond_max", cond_max),
        rounds=rounds,
        require_precondition=require_precondition,
    )
    running.require_squares("estimate_gaussian", rows.dim, 12)
    chosen, structure = choose_method(method, structure, options)
    box = checked_bounds("estimate_gaussian", bounds, public, rows.dim, rows.columns)
    chosen.check(has_public=True, budget=budget, n_priv=rows.n)
    ready = None if chosen is LADDER else preconditioned(chosen, public, rows.n, options)
    run = running.start(
        "estimate_gaussian",
        rows,
        budget,
        draws=chosen.draws(rows.dim),
        reserved=None if chosen.reserved is None else chosen.reserved(budget),
        **running.asked(ledger, random_state, threads, progress),
    )
    if ready is None:
        climber = ladder(run, public, structure)
        del public  # as large as a covariance
        _warn(climber.warnings)
        if climber.structure == "public":
            return bounded_gaussian(climber.estimate(run), box)
        with run.paid():
            return bounded_gaussian(climber.estimate(run), box)
    del public
    prepared, warning = ready.prepare(run, rounds)
    _warn(() if warning is None else (warning,))
    with run.paid():
        return bounded_gaussian(ready.estimate(run, prepared), box)


def _warn(messages: tuple[str, ...]) -> None:
    """Say, in the caller's name, what public numbers give reason to."""
    for message in messages:
        warnings.warn(message, AccuracyWarning, stacklevel=3)
