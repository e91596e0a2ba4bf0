"""Semi-local training (paper B, Algorithm 4): one pass of stochastic gradient descent in which every user reports once."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray, LossName, ReportForm
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.gradients import loss_gradients, public_gradients
from fastpubpriv.local.aggregate import MOST_PER_USER, Users, hashed_names
from fastpubpriv.local.families import PrivUnit
from fastpubpriv.local.means import RELATION
from fastpubpriv.local.public_facts import (
    REACH,
    PublicStart,
    clip_of,
    finite_gradients,
    gradient_lengths,
    shortened,
)
from fastpubpriv.release.reports import report_keys
from fastpubpriv.results.base import Result
from fastpubpriv.results.fields import array, value_class
from fastpubpriv.results.result_tables import Facts
from fastpubpriv.rowwise.losses import LOSSES, Loss, RowLoss
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.labeled import beside
from fastpubpriv.sources.open import public_rows, refuse_shared_memory
from fastpubpriv.sources.person_table import of_participants
from fastpubpriv.sources.views import require_one_order
from fastpubpriv.threads.guard import naming

# ---- Step lengths of semi-local training, weights of the averaged iterates, and the resulting bound ------------------


@dataclass(frozen=True, slots=True)
class Steps:
    """For each batch, the factor of its weighted sum of gradients and the weight of its iterate in the average; and the bound."""

    lengths: Sequence[float]
    weights: Sequence[float]
    excess_bound: float
    strongly: bool = False  # True for the steps of a strongly convex loss


def best_steps(
    totals: Sequence[float],
    several: Sequence[bool],
    *,
    clip: float,
    radius: float,
    convexity: float | None,
) -> Steps:
    """Return the steps with the smaller bound: those for any convex loss, or those for a strongly convex one."""
    # A row i sends g_i with E |g_i|^2 at most G_i^2; a batch makes the step -length * sum(g_i / G_i^2), and its total is
    # sum(1 / G_i^2). E |sum(g_i / G_i^2)|^2 is at most total + (total clip)^2, the second term only for several rows.
    squares = [
        total + (total * clip) ** 2 * more for total, more in zip(totals, several, strict=True)
    ]
    # One length for all, at which the sum of lengths^2 E |.|^2 equals the squared radius.
    spread = math.fsum(squares)
    weight = math.fsum(totals)
    length = radius / math.sqrt(spread)
    plain = Steps([length] * len(totals), totals, radius * math.sqrt(spread) / weight)
    if convexity is None:
        return plain
    strong = _strongly_convex(totals, squares, convexity)
    return strong if strong.excess_bound < plain.excess_bound else plain


def _strongly_convex(totals: Sequence[float], squares: Sequence[float], convexity: float) -> Steps:
    """Return steps with lengths that fall like one over the totals so far, and weights that grow like these totals.

    With A_t the totals up to batch t, weights w_t = total_t A_t, W_t their sum up to t, and the step w_t / (mu W_t) along the
    mean gradient of the batch, the inequalities of strong convexity times w_t telescope to
    sum w_t (loss_t - best) <= sum w_t^2 E |mean gradient|^2 / (2 mu W_t). For one row at a time that is at most A_T / mu, and
    W_T >= A_T^2 / 2: the excess is at most 2 / (mu A_T).
    """
    lengths = []
    weights = []
    bound = 0.0
    so_far = itertools.accumulate(totals)
    done = 0.0
    for total, square, reached in zip(totals, squares, so_far, strict=True):
        weight = total * reached
        done += weight
        weights.append(weight)
        lengths.append(reached / (convexity * done))
        bound += reached * reached * square / done
    return Steps(lengths, weights, bound / (2.0 * convexity * done), strongly=True)


@value_class
class LocalTrainingResult(Result):
    """Weights learned from reports, with a bound on their loss; there is no interval for them (see Notes).

    Attributes
    ----------
    coefficients : (dim,) float64
        The weighted average of all iterates.
    loss : str
        Name of the loss, or the class of a custom one.
    start : (dim,) float64
        Initial weights.
    radius : float
        Weights stay within this distance of `start`.
    excess_bound : float
        Bound on the expected loss above that of the best weights in the ball, for rows in random order whose gradients are no
        longer than the clip norm.

    Notes
    -----
    Two intervals of 95 % were tried (`python -m benchmarks.local_answers training`: squared loss, 20,000 reports, epsilon .5 to
    4, even and skewed errors). The spread of the iterates holds .06 to .30 of the optimal weights, as it does not show how far
    there is still to go. A Newton step from the mean of all reports, with the curvature of 100 public rows, holds .85 to .92 if no
    gradient is clipped, and .59 to .80 with a public clip norm: clipped gradients have their minimum elsewhere, and how far is not
    known.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import local
    >>> x = np.random.default_rng(0).uniform(-1.0, 1.0, size=(2000, 2))
    >>> result = local.train(x, x[:, 0], epsilon=4.0, clip_norm=2.0, radius=1.0)
    >>> result.coefficients.shape, result.loss, bool(np.linalg.norm(result.coefficients - result.start) <= 1.0)
    ((2,), 'squared', True)
    """

    coefficients: FloatArray = array("dim", label="coefficient")
    loss: str
    start: FloatArray = array("dim")
    radius: float
    excess_bound: float

    _main = "coefficients"
    _line_axes = ("dim",)

    def _facts(self, level: float) -> Facts:
        text = f"{self.loss}, at most {self.excess_bound:.4g} above the best within {self.radius:.4g}, on average"
        none = "none: clipped gradients have their minimum elsewhere, and how far is not known"
        return [("Loss", text), ("Interval", none)]


def train(
    x_priv: Any,
    y_priv: Any,
    *,
    epsilon: float,
    clip_norm: float | str,
    radius: float | str,
    x_pub: Any = None,
    y_pub: Any = None,
    loss: LossName | RowLoss = "squared",
    start: Any = None,
    batch_rows: int | None = None,
    form: ReportForm = "direct",
    strong_convexity: float | None = None,
    users: Any = None,
    reports_per_user: int = 1,
    columns: Sequence[Any] | None = None,
    random_state: int | None = None,
) -> LocalTrainingResult:
    """Weights of a linear model learned from one report of each user, and from public rows.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, or a file with random access to rows
        Rows of users, in an order that does not depend on their content; shuffle them first if in doubt.
    y_priv : (n_priv,) array-like
        Their labels.
    epsilon : float
        Privacy of one report of a user.
    clip_norm : float > 0 or "public"
        C: longer gradients are clipped to this norm. A norm below that of the gradients causes bias. "public": the .75 quantile
        of the gradient norms of public rows, at the start or, for start="public", at fits to the other public rows.
    radius : float > 0 or "public"
        D: weights stay within this distance of `start`. "public", with start="public": three times the root mean squared error of
        the public fit, by the jackknife over tenths of the public rows.
    x_pub, y_pub : (n_pub, dim) and (n_pub,) array-like, optional
        Public rows and labels, used between the reports, or once for start="public".
    loss : "squared", "logistic", "huber", "smooth_hinge", "poisson", Loss or RowLoss
        (label - prediction)^2 / 2; the log-loss of labels 0 and 1; others of `LOSSES`; a loss by its residual; or an object with
        `value` and `gradient` for each row.
    start : "public" or (dim,) array-like, optional
        Initial weights, public; by default zero. "public": the minimum of the public loss; the public rows are then not used
        again.
    batch_rows : int, optional
        Rows with gradients at the same weights. 1 is the paper's algorithm; more are faster, at little cost if reports are noisy.
        None: a quarter of E |Z|^2 / C^2, Z a report, which adds at most 1/8 to the bound (1/4 for decreasing steps).
    form : "direct" or "selection"
        Form of the reports.
    strong_convexity : float > 0, optional
        mu: the mean loss is known to lie above its tangents by mu / 2 times the squared distance, in the ball. For squared loss, a
        lower bound on the eigenvalues of the mean of x x^T. Steps then decrease, if this makes the bound smaller: with many
        reports, or a wide ball. Too large a value costs accuracy, never privacy.
    users : n_priv bytes of length 16 or more, or (n_priv, 16 or more) uint8, optional
        A keyed hash of the name of each row's user. Rows of a user beyond `reports_per_user` are left out: their gradients are
        not requested. About 30 bytes of memory for each user.
    reports_per_user : int
        Maximum number of reports of one user. Without `users` the caller must guarantee it.
    columns : str or list of str, optional
        Columns of tables or files; default: all. A public table is put in the order of a private one, by names.
    random_state : None or int
        None: keys from the operating system. int: repeatable, warned about, not private.

    Returns
    -------
    LocalTrainingResult

    Raises
    ------
    InputError
        Arguments out of range, or data of the wrong form. Never for the content of private rows.

    Privacy
    -------
    Protected: the row of every user, against everybody, without a trusted server (local, sequentially interactive). Released:
    one report for each row, drawn by PrivUnit from the user's clipped gradient at weights that are public by then, at the price
    of `epsilon`. This is charged for each report: `spent` is `reports_per_user` times epsilon, whether a user has one row or
    several. Public: everything else, and which rows belong to one user if `users` is given.

    Proof: `notes/local_reports.md`.

    See Also
    --------
    fastpubpriv.train : a trusted server has the rows, which needs far fewer of them.
    fastpubpriv.local.estimate_mean : only a mean is wanted.
    PrivUnit : the randomizer of the gradients.

    Notes
    -----
    LLHR (paper B), Algorithm 4. Departs from it: a step for a row has length lambda / G^2, with G the root mean square of what
    the row sends (C / m for a report, C for a public row), and weights are averaged by the length of the steps: the bound is then
    D / sqrt(n_priv / G_a^2 + n_pub / G_b^2) for batch_rows = 1, never worse than the paper's and never worse than the public
    rows alone. With `strong_convexity` the bound is 2 / (mu (n_priv / G_a^2 + n_pub / G_b^2)): steps by one over the weight of
    the rows so far, averages by that weight (Lacoste-Julien, Schmidt and Bach 2012, with weights for the two types of rows).
    Public gradients are clipped like those of users, so that both belong to the same loss.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import local
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1.0, 1.0, size=(2000, 2))
    >>> y = x @ [0.5, -0.5] + 0.1 * rng.normal(size=2000)
    >>> result = local.train(x, y, x_pub=x[:50] + 0.0, y_pub=y[:50], epsilon=4.0, clip_norm=2.0, radius=1.0)
    >>> bool(np.linalg.norm(result.coefficients - [0.5, -0.5]) < 0.6)
    True
    """
    rows = _rows_with_labels(x_priv, y_priv, columns)
    names = rows.columns and rows.columns[:-1]
    dim = rows.dim - 1
    name, chosen = _loss(loss)
    shown = _public(x_priv, x_pub, y_pub, dim, {"columns": columns, "names": names})
    weights, clip, bound, (public, public_labels) = _initial_state(
        chosen, shown, start, clip_norm, radius
    )
    randomizer = PrivUnit(dim, epsilon, norm_bound=clip, form=form)
    convexity = (
        None
        if strong_convexity is None
        else validation.positive("strong_convexity", strong_convexity)
    )
    places = _reporting_positions(rows, users, reports_per_user)
    cost = randomizer.cost * reports_per_user
    fitting = max(1, int(0.25 * min(randomizer.second_moment / clip**2, 1e6)))
    size = (
        fitting if batch_rows is None else validation.integer("batch_rows", batch_rows, minimum=1)
    )
    plan = list(_plan(len(places), len(public), size))
    _try_alone(chosen, weights, public[:1], public_labels[:1])
    keys = report_keys(random_state)
    inverse = (1.0 / randomizer.second_moment, 1.0 / clip**2)
    totals = [
        (end - begin) * inverse[0] + (last - first) * inverse[1]
        for (begin, end), (first, last) in plan
    ]
    several = [end - begin + last - first > 1 for (begin, end), (first, last) in plan]
    steps = best_steps(totals, several, clip=clip, radius=bound, convexity=convexity)
    center = weights.copy()
    average = np.zeros(dim)
    done = 0.0
    with np.errstate(all="ignore"):
        for ((begin, end), (first, last)), length, weight in zip(
            plan, steps.lengths, steps.weights, strict=True
        ):
            done += weight
            average += (weight / done) * (weights - average)
            move = np.zeros(dim)
            if last > first:
                pull = finite_gradients(
                    chosen, weights, public[first:last], public_labels[first:last]
                )
                move += inverse[1] * shortened(pull, clip).sum(axis=0)
            if end > begin:
                block = _block(rows, places[begin:end])
                # on the device of each user
                gradients = loss_gradients(chosen, weights, block[:, :-1], block[:, -1])
                move += inverse[0] * randomizer._reported(
                    private_rows(gradients), keys
                ).vectors().sum(axis=0)
            weights = center + shortened((weights - length * move - center)[None], bound)[0]
    release = {
        "name": "local gradients",
        "randomizer": "PrivUnit",
        "form": form,
        "clip_norm": clip,
        "reports_per_user": reports_per_user,
        "rows_without_report": rows.n - len(places),
        "steps": "strongly convex" if steps.strongly else "convex",
    }
    return LocalTrainingResult(
        coefficients=average,
        loss=name,
        start=center,
        radius=bound,
        excess_bound=steps.excess_bound,
        n_priv=len(places),
        n_pub=len(shown[0]),
        dim=dim,
        spent=cost,
        private=keys.private,
        relation=RELATION,
        about=f"all {len(places):,} reports",
        releases=(release,),
        provenance={
            "clip_norm": _origin(clip_norm),
            "radius": _origin(radius),
            "start": "zero weights" if start is None else _origin(start),
        },
        columns=names,
    )


def _origin(given: Any) -> str:
    """Origin of a setting that is "public" or a value."""
    return "public rows" if isinstance(given, str) else "argument"


def _initial_state(
    loss: RowLoss, shown: tuple[FloatArray, FloatArray], start: Any, clip_norm: Any, radius: Any
) -> tuple[FloatArray, float, float, tuple[FloatArray, FloatArray]]:
    """Return initial weights, clip norm, radius, and the public rows left for the pass, as given or from public rows."""
    x, y = shown
    for argument, given in (("start", start), ("clip_norm", clip_norm), ("radius", radius)):
        if isinstance(given, str):
            validation.choice(argument, given, ("public",))
            if not len(x):
                raise InputError(
                    f"{argument}='public' needs public rows: pass x_pub and y_pub, or numbers"
                )
    # A text is "public" from here on.
    if isinstance(radius, str) and not isinstance(start, str):
        raise InputError(
            "radius='public' is the error of the public fit: pass start='public' too, or a number"
        )
    begun = PublicStart.of(loss, x, y) if isinstance(start, str) else None
    if begun is not None:
        weights = begun.weights
        left = (x[:0], y[:0])
    else:
        weights = (
            np.zeros(x.shape[1])
            if start is None
            else validation.finite_vector("start", start, x.shape[1])
        )
        left = shown
    if isinstance(clip_norm, str):
        clip_norm = clip_of(
            gradient_lengths(loss, weights, x, y) if begun is None else begun.lengths
        )
    if begun is not None and isinstance(radius, str):
        radius = REACH * begun.error
    return (
        weights.copy(),
        validation.positive("clip_norm", clip_norm),
        validation.positive("radius", radius),
        left,
    )


def _reporting_positions(rows: Rows, users: Any, reports_per_user: Any) -> IntArray:
    """Return the positions of the rows that may send a report."""
    cap = validation.integer("reports_per_user", reports_per_user, minimum=1, maximum=MOST_PER_USER)
    if users is None:
        return np.arange(rows.n)
    if rows.persons is not None:
        raise InputError(
            "users: x_priv has one row of each person already, in an order of its own: leave out users="
        )
    return np.flatnonzero(Users(cap).admit(hashed_names(users, rows.n))[0])


def _block(rows: Rows, places: IntArray) -> FloatArray:
    """Return the rows at ascending positions."""
    first = int(places[0])
    return rows.block(first, int(places[-1]) + 1)[places - first].astype(np.float64)


def _loss(loss: Any) -> tuple[str, RowLoss]:
    if isinstance(loss, str):
        loss = LOSSES[
            validation.choice("loss", loss, [name for name in LOSSES if not LOSSES[name].scores])
        ]
    if isinstance(loss, Loss):
        if loss.scores:
            raise InputError(
                f"loss {loss.name!r} has several predictions for a row, and local training one"
            )
        return loss.name, loss
    if not callable(getattr(loss, "gradient", None)):
        raise InputError(
            "loss must be the name of one, a Loss, or an object with value() and gradient() for each row"
        )
    return type(loss).__name__, loss


def _try_alone(loss: RowLoss, weights: FloatArray, row: FloatArray, label: FloatArray) -> None:
    """Raise InputError if the loss fails at one row, public or zeros, since failures at private rows are ignored."""
    if len(row) == 0:
        row = np.zeros((1, len(weights)))
        label = np.zeros(1)
    if isinstance(loss, Loss) and not loss.ours:
        # the gradients of users' rows use `residual`
        loss = dataclasses.replace(loss, residuals=None)
    public_gradients(loss, weights, row, label)
    try:
        loss_gradients(loss, weights, row, label)
    except Exception as error:  # Numba has compiled the function for other arguments
        raise InputError(
            f"loss: gradient() fails at one row ({type(error).__name__}: {error})"
        ) from error


def _rows_with_labels(x_priv: Any, y_priv: Any, columns: Any) -> Rows:
    """Return the rows with their labels as last column."""
    with naming("x_priv"):
        features = of_participants(private_rows(x_priv, columns=columns))
    with naming("y_priv"):
        labels = private_rows(y_priv)
        require_one_order(features, labels)
    if labels.dim != 1 or labels.n != features.n:
        raise InputError(
            f"y_priv must hold one label for each of the {features.n} rows of x_priv, got shape ({labels.n}, {labels.dim})"
        )
    rows = beside(features, labels)
    if not rows.random_access:
        raise InputError(
            "x_priv and y_priv must be arrays, tables or .npy files: local training reads rows a few at a time"
        )
    return rows


def _public(
    x_priv: Any, x_pub: Any, y_pub: Any, dim: int, named: dict[str, Any]
) -> tuple[FloatArray, FloatArray]:
    if x_pub is None:
        if y_pub is not None:
            raise InputError("y_pub without x_pub: pass both, or neither")
        return np.zeros((0, dim)), np.zeros(0)
    if y_pub is None:
        raise InputError("x_pub without y_pub: pass both, or neither")
    refuse_shared_memory(x_priv, x_pub)
    public = public_rows(x_pub, dim=dim, **named)
    labels = validation.finite_vector("y_pub", y_pub, len(public))
    return public, labels


def _plan(n_priv: int, n_pub: int, size: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield batches of `size` rows, private and public ones spread evenly, as ranges of each."""
    n = n_priv + n_pub
    for first in range(0, n, size):
        last = min(first + size, n)
        begin = first * n_priv // n
        end = last * n_priv // n
        yield (begin, end), (first - begin, last - end)
