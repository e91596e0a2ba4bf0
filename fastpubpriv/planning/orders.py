"""The sample sizes of paper A: the orders of growth of its theorems."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastpubpriv import validation
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators.radii import failure_probability
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, PureDP
from fastpubpriv.results.base import Value
from fastpubpriv.results.fields import value_class
from fastpubpriv.results.result_tables import Facts, Table
from fastpubpriv.shared_docs import FAILURE_PROB, shared_docs

# Sample sizes term by term: orders of growth with unknown constants, never a recommendation.
LABEL = "up to constants and logs"


@value_class
class OrderBounds(Value):
    """The terms of a theorem's bound on the number of private rows.

    Attributes
    ----------
    theorem : str
        As numbered in paper A's appendix, with the algorithm that it uses as a black box.
    terms : mapping of str to float
        Name of a term, as the theorem writes it, to its value with every constant set to `constant`.
    n_pub : float
        Public rows that the theorem requires.
    constant : float
        The C in front of every term.
    label : str
        "up to constants and logs": a warning that applies to every number here.

    Examples
    --------
    >>> import fastpubpriv as fpp
    >>> bounds = fpp.order_bounds("B.2", dim=50, accuracy=0.1, budget=fpp.ZCDP(rho=0.5))
    >>> len(bounds.terms), bounds.n_pub, bounds.label
    (2, 1.0, 'up to constants and logs')
    """

    theorem: str
    terms: Mapping[str, float]
    n_pub: float
    constant: float
    label: str = LABEL

    @property
    def n_priv(self) -> float:
        """Sum of the terms."""
        return math.fsum(self.terms.values())

    def _plain(self) -> dict[str, Any]:
        return {**Value._plain(self), "n_priv": self.n_priv}

    @classmethod
    def _fields_of(cls, data: dict[str, Any]) -> dict[str, Any]:
        data.pop("n_priv", None)
        fields = super()._fields_of(data)
        terms = fields["terms"]
        if not terms or not math.isfinite(sum(terms.values())):
            raise InputError(
                "bounds have one finite term or more: this text was not written by to_json"
            )
        return fields

    def __repr__(self) -> str:
        largest = max(self.terms, key=lambda name: self.terms[name])
        return f"OrderBounds({self.theorem}: n_priv ~ {self.n_priv:.3g}, mostly {largest}; {self.label})"

    def _table(self, level: float) -> Table:
        names = sorted(self.terms)
        return Table("term", names, [("private rows", [self.terms[name] for name in names])])

    def _facts(self, level: float) -> Facts:
        rows = f"about {self.n_priv:.3g} private and {self.n_pub:.3g} public, {self.label}"
        return [("Theorem", self.theorem), ("Rows", rows), ("Constant", f"{self.constant:g}")]


_PRICES: dict[type[Budget], tuple[str, Callable[[float], float]]] = {
    ZCDP: ("sqrt(rho)", math.sqrt),
    ApproxDP: ("epsilon", float),
    PureDP: ("epsilon", float),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """The arguments of a theorem, in the notation of the paper."""

    d: int
    alpha: float
    beta: float
    budget: Budget
    gamma: float
    radius: float | None
    cond: float | None
    k: int | None
    w_min: float | None

    @property
    def tail(self) -> float:
        """log(1/beta)."""
        return math.log(1.0 / self.beta)

    @property
    def price(self) -> tuple[str, float]:
        """Name and value of the privacy parameter that divides the private terms."""
        name, value_of = _PRICES[self.budget.notion]
        return name, value_of(float(self.budget.amounts[0]))

    def range_of(self, theorem: str) -> float:
        """Return the radius. Raise InputError if it is missing."""
        return float(self.given(f"{theorem} depends on a range", mean_radius=self.radius)[0])

    @staticmethod
    def given(about: str, **arguments: Any) -> tuple[Any, ...]:
        """Return the values of arguments that a theorem needs. Raise InputError if one is missing."""
        if None in arguments.values():
            raise InputError(
                f"theorem {about}: pass {' and '.join(f'{name}=' for name in arguments)}"
            )
        return tuple(arguments.values())


def _log(*factors: float) -> float:
    """Return the log of a product, at least one, as a sum of logs to avoid overflow; it also stands for polylog(...)."""
    return max(1.0, math.fsum(math.log(factor) for factor in factors))


def _loglog(value: float) -> float:
    """Return log(value), at least 2, for use inside another logarithm."""
    return max(2.0, math.log(value))


Answer = tuple[str, dict[str, float], float]


def _clipped_mean_in_range(s: _Setting) -> Answer:
    """Terms for a mean with known covariance from a range, by clip and noise."""
    name, price = s.price
    reach = s.range_of("B.1")
    wide = math.sqrt(s.d) * (reach + math.sqrt(s.d)) * s.tail
    terms = _terms_of_sampling(s)
    terms[f"sqrt(d) (R + sqrt(d)) log(1/beta) / (alpha {name})"] = wide / (s.alpha * price)
    return "Lemma B.1 (1), clip and noise, no public row", terms, 0.0


def _clipped_mean(s: _Setting) -> Answer:
    """Terms for a mean with known covariance from a public row, by clip and noise."""
    name, price = s.price
    terms = _terms_of_sampling(s)
    terms[f"d log^1.5(1/beta) / (alpha {name})"] = s.d * s.tail**1.5 / (s.alpha * price)
    return "Theorem B.2 (1), clip and noise", terms, 1.0


def _chosen_mean_in_range(s: _Setting) -> Answer:
    """Terms for a mean with known covariance from a range, by a choice from a cover."""
    terms = _terms_of_chosen_mean(s, "d R", s.range_of("B.1"))
    return "Lemma B.1 (2), BKSW19, inefficient, no public row", terms, 0.0


def _chosen_mean(s: _Setting) -> Answer:
    """Terms for a mean with known covariance from a public row, by a choice from a cover."""
    terms = _terms_of_chosen_mean(s, "d log(1/beta)", max(s.tail, 1.0))
    return "Theorem B.2 (2), BKSW19, inefficient", terms, 1.0


def _terms_of_chosen_mean(s: _Setting, inside: str, reach: float) -> dict[str, float]:
    name, price = s.price
    most = s.d * _log(s.d, reach, 1.0 / s.alpha) + s.tail
    terms = _terms_of_sampling(s)
    terms[f"(d log({inside} / alpha) + log(1/beta)) / (alpha {name})"] = most / (s.alpha * price)
    return terms


def _terms_of_sampling(s: _Setting) -> dict[str, float]:
    return {"(d + log(1/beta)) / alpha^2": (s.d + s.tail) / s.alpha**2}


def _sum_of_squares_mean(s: _Setting) -> Answer:
    d = s.d
    a = s.alpha
    tail = s.tail
    name, price = s.price
    terms = {
        "(d + log(1/beta)) / alpha^2": (d + tail) / a**2,
        f"(d + log(1/beta)) / (alpha^2 {name})": (d + tail) / (a * a * price),
    }
    if s.radius is None:
        return "Theorem B.2 (3), HKM22, 1 public row", terms, 1.0
    far = _log(s.radius)
    terms[f"(d log R + min(d, log R) log(1/beta)) / {name}"] = (
        d * far + min(d, far) * tail
    ) / price
    return "Lemma B.1 (3), HKM22, no public row", terms, 0.0


def _far_gaussian(s: _Setting, gamma: float, label: str) -> Answer:
    """Terms for a Gaussian from public rows within a gap, by preconditioning."""
    d = s.d
    a = s.alpha
    b = s.beta
    name, price = s.price
    far = 1.0 / (1.0 - gamma)
    rho = 1.0 / price**2
    terms = _terms_of_covariance(s)
    terms[f"d^2 polylog(d / (alpha beta rho)) / (alpha {name})"] = (
        d * d * _log(d, 1 / a, 1 / b, rho) / (a * price)
    )
    terms[f"d log(d / (alpha beta rho (1 - gamma))) / (alpha {name})"] = (
        d * _log(d, 1 / a, 1 / b, rho, far) / (a * price)
    )
    terms[f"d^1.5 polylog(d / (beta rho (1 - gamma))) / {name}"] = (
        d**1.5 * _log(d, 1 / b, rho, far) / price
    )
    return f"Theorem {label} (1), KLSU19", terms, d + 1.0


def _chosen_far_gaussian(s: _Setting, gamma: float, label: str) -> Answer:
    """Terms for a Gaussian from public rows within a gap, by a choice from a cover."""
    d = s.d
    a = s.alpha
    b = s.beta
    name, price = s.price
    far = 1.0 / (1.0 - gamma)
    terms = _terms_of_covariance(s)
    terms[f"d^2 log(d / (alpha beta (1 - gamma))) / (alpha {name})"] = (
        d * d * _log(d, 1 / a, 1 / b, far) / (a * price)
    )
    return f"Theorem {label} (2), BKSW19, inefficient", terms, d + 1.0


def _terms_of_covariance(s: _Setting) -> dict[str, float]:
    return {"(d^2 + log(1/beta)) / alpha^2": (s.d * s.d + s.tail) / s.alpha**2}


def _weights(s: _Setting, theorem: str) -> tuple[int, float]:
    """Return the number of components and the least weight. Raise InputError unless both are given and agree."""
    k, w = s.given(f"{theorem} is about mixtures", n_components=s.k, min_weight=s.w_min)
    if w * k > 1.0:
        raise InputError(f"min_weight must be at most 1 / n_components = {1 / k:.3g}, got {w:g}")
    return k, w


def _terms_of_mixture(s: _Setting, k: int, w: float) -> dict[str, float]:
    d = s.d
    key = "d^2 log(k / beta) / (w_min alpha^2)"
    return {key: d * d * _log(k, 1 / s.beta) / (w * s.alpha**2)}


def _public_rows(s: _Setting, k: int, w: float, *, easy: bool) -> float:
    return (s.d if easy else 1.0) * _log(k, 1 / s.beta) / w


def _approx_mixture(s: _Setting, theorem: str, *, easy: bool) -> Answer:
    """Terms for a mixture with a delta; `easy` with public rows in proportion to the dimension."""
    d = s.d
    a = s.alpha
    b = s.beta
    name, price = s.price
    k, w = _weights(s, theorem)
    terms = _terms_of_mixture(s, k, w)
    _, delta = s.budget.amounts
    tail = _log(k, 1.0 / float(delta))
    poly = _log(d, k / b, 1 / a, math.sqrt(k) / price, tail)
    terms[f"(d^2 log(k / delta) + d log^1.5(k / delta)) polylog / (w_min alpha {name})"] = (
        (d * d * tail + d * tail**1.5) * poly / (w * a * price)
    )
    if not easy:
        terms[f"d^1.5 k^2.5 log(k / delta) / {name}"] = d**1.5 * k**2.5 * tail / price
    return f"Theorem {theorem}", terms, _public_rows(s, k, w, easy=easy)


def _concentrated_mixture(s: _Setting, theorem: str, *, easy: bool) -> Answer:
    """Terms for a mixture without a delta; `easy` with public rows in proportion to the dimension."""
    d = s.d
    a = s.alpha
    b = s.beta
    name, price = s.price
    k, w = _weights(s, theorem)
    terms = _terms_of_mixture(s, k, w)
    rho = 1.0 / price**2
    poly = _log(d, k, 1 / a, 1 / b, rho)
    terms[f"d^2 polylog(d k / (alpha beta rho)) / (w_min alpha {name})"] = (
        d * d * poly / (w * a * price)
    )
    if not easy:
        radius, cond = s.given(
            f"{theorem} depends on ranges", mean_radius=s.radius, cond_max=s.cond
        )
        terms[f"d log(d k log(R) / (alpha beta rho)) / (w_min alpha {name})"] = (
            d * _log(d, k, _loglog(radius), 1 / a, 1 / b, rho) / (w * a * price)
        )
        terms[f"d^1.5 sqrt(k log(K)) polylog(d k log(K) / (rho beta)) / {name}"] = (
            d**1.5 * math.sqrt(k * _log(cond)) * _log(d, k, _loglog(cond), rho, 1 / b) / price
        )
        terms[f"sqrt(d k log(R d k / beta)) / {name}"] = (
            math.sqrt(d * k * _log(radius, d, k, 1 / b)) / price
        )
        terms[f"d^1.5 k^2.5 / {name}"] = d**1.5 * k**2.5 / price
    return f"Theorem {theorem}", terms, _public_rows(s, k, w, easy=easy)


# The terms of each theorem, for each notion of privacy that it is about.
THEOREMS: dict[str, dict[type[Budget], Callable[[_Setting], Answer]]] = {
    "B.1": {ZCDP: _clipped_mean_in_range, PureDP: _chosen_mean_in_range},
    "B.2": {ZCDP: _clipped_mean, PureDP: _chosen_mean},
    "HKM22": {PureDP: _sum_of_squares_mean},
    "B.5": {
        ZCDP: lambda s: _far_gaussian(s, 0.0, "B.5"),
        PureDP: lambda s: _chosen_far_gaussian(s, 0.0, "B.5"),
    },
    "B.12": {
        ZCDP: lambda s: _far_gaussian(s, s.gamma, "B.12"),
        PureDP: lambda s: _chosen_far_gaussian(s, s.gamma, "B.12"),
    },
    "C.23": {ApproxDP: lambda s: _approx_mixture(s, "C.23", easy=False)},
    "C.24": {ZCDP: lambda s: _concentrated_mixture(s, "C.24", easy=False)},
    "C.28": {ApproxDP: lambda s: _approx_mixture(s, "C.28", easy=True)},
    "C.29": {ZCDP: lambda s: _concentrated_mixture(s, "C.29", easy=True)},
}


@shared_docs
def order_bounds(
    theorem: str,
    *,
    dim: int,
    accuracy: float,
    budget: Budget,
    failure_prob: float = FAILURE_PROB,
    pub_priv_gap: float = 0.0,
    mean_radius: float | None = None,
    cond_max: float | None = None,
    n_components: int | None = None,
    min_weight: float | None = None,
    constant: float = 1.0,
) -> OrderBounds:
    """Terms of one of paper A's sample-complexity theorems, up to constants and logs.

    The numbers show how the terms compare and grow; use `plan` for the number of rows to collect.

    Parameters
    ----------
    theorem : str
        "B.1" (mean within a known range), "B.2" (mean, one public row), "HKM22" (mean by sums of squares, with a range or a public
        row; no implementation exists), "B.5" (Gaussian from d + 1 public rows), "B.12" (the same, public rows within a gap),
        "C.23" and "C.24" (mixture, few public rows), "C.28" and "C.29" (mixture, public rows in proportion to the dimension).
    dim : int
        Columns, d.
    accuracy : float in (0, 1)
        Target total-variation distance, alpha.
    budget : ZCDP, ApproxDP or PureDP
        Must have the privacy notion of the theorem.
    {failure_prob}
        beta in the paper.
    pub_priv_gap : float in [0, 1)
        Total-variation gap, gamma; "B.12" only.
    mean_radius, cond_max : float, optional
        A priori ranges R and K; "C.24", and R alone for "B.1" and "HKM22".
    n_components : int, optional
        Components k; mixtures only.
    min_weight : float, optional
        Least mixing weight; mixtures only.
    constant : float
        The unknown C in front of every term.

    Returns
    -------
    OrderBounds
        The terms by name, their sum, and the public rows.

    Raises
    ------
    InputError, BudgetError
        An unknown theorem, a budget of another notion, or arguments missing or out of range.

    Privacy
    -------
    Reads no data.

    Notes
    -----
    Paper A, appendices B and C. polylog(x) of a theorem is evaluated as one power of log(x), and every logarithm is at least one.
    The mixture theorems also need a separation of order sqrt(k log(n k / beta)) standard deviations. Theorems C.22 and C.27 are
    the mixture theorems listed here before a notion of privacy is chosen.

    Examples
    --------
    >>> from fastpubpriv import ZCDP, order_bounds
    >>> order_bounds("B.2", dim=50, accuracy=0.1, budget=ZCDP(rho=0.5))
    OrderBounds(Theorem B.2 (1), clip and noise: n_priv ~ 8.97e+03, mostly (d + log(1/beta)) / alpha^2; up to constants and logs)
    """
    by_notion = THEOREMS[validation.choice("theorem", theorem, tuple(THEOREMS))]
    notion: Any = getattr(budget, "notion", None)  # None for what is no budget
    terms_of = by_notion.get(notion)
    if terms_of is None:
        wanted = " or ".join(notion.__name__ for notion in by_notion)
        raise BudgetError(
            f"theorem {theorem} is about {wanted} budgets, got {type(budget).__name__}"
        )
    factor = validation.positive("constant", constant)
    setting = _Setting(
        d=validation.integer("dim", dim, minimum=1),
        alpha=validation.probability("accuracy", accuracy),
        beta=failure_probability(failure_prob),
        budget=budget,
        gamma=validation.fraction("pub_priv_gap", pub_priv_gap),
        radius=None if mean_radius is None else validation.positive("mean_radius", mean_radius),
        cond=None if cond_max is None else validation.positive("cond_max", cond_max),
        k=None
        if n_components is None
        else validation.integer("n_components", n_components, minimum=1),
        w_min=None if min_weight is None else validation.positive("min_weight", min_weight),
    )
    name, terms, n_pub = terms_of(setting)
    return OrderBounds(
        theorem=name,
        terms={key: factor * value for key, value in terms.items()},
        n_pub=n_pub,
        constant=factor,
    )
