"""The sample sizes of paper A: the orders of growth of its theorems."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastpubpriv import validation
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators.radii import failure_probability
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, PureDP
from fastpubpriv.results.base import Value
from fastpubpriv.results.fields import value_class
from fastpubpriv.results.result_tables import Facts, Table

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
Terms = dict[str, float]
# The theorem and its algorithm, the terms of the private rows, and the public rows.
Answer = tuple[str, Terms, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """The arguments of a theorem, in the notation of the paper."""

    theorem: str
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
    def price(self) -> float:
        """Value of the privacy parameter that divides the private terms."""
        _, value_of = _PRICES[self.budget.notion]
        return value_of(float(self.budget.amounts[0]))

    def private(self, numerator: str, value: float, names: str = "", divisor: float = 1.0) -> Terms:
        """Return a term that is divided by the privacy parameter, and by a divisor of these names."""
        price, _ = _PRICES[self.budget.notion]
        below = f"({names} {price})" if names else price
        return {f"{numerator} / {below}": value / (divisor * self.price)}

    def given(self, about: str, **arguments: Any) -> tuple[Any, ...]:
        """Return the values of arguments that a theorem needs. Raise InputError if one is missing."""
        if None in arguments.values():
            names = " and ".join(f"{name}=" for name in arguments)
            raise InputError(f"theorem {self.theorem} {about}: pass {names}")
        return tuple(arguments.values())


def _log(*factors: float) -> float:
    """Return the log of a product, at least one, as a sum of logs to avoid overflow; it also stands for polylog(...)."""
    return max(1.0, math.fsum(math.log(factor) for factor in factors))


def _loglog(value: float) -> float:
    """Return log(value), at least 2, for use inside another logarithm."""
    return max(2.0, math.log(value))


# ---- Means with known covariance


def _mean(s: _Setting, numerator: str, value: float) -> Terms:
    """Terms of sampling, and of a private numerator that is divided by the accuracy."""
    sampling = {"(d + log(1/beta)) / alpha^2": (s.d + s.tail) / s.alpha**2}
    return sampling | s.private(numerator, value, "alpha", s.alpha)


def _clipped_mean_in_range(s: _Setting) -> Answer:
    """Terms for a mean from a range, by clip and noise."""
    (reach,) = s.given("depends on a range", mean_radius=s.radius)
    wide = math.sqrt(s.d) * (reach + math.sqrt(s.d)) * s.tail
    terms = _mean(s, "sqrt(d) (R + sqrt(d)) log(1/beta)", wide)
    return "Lemma B.1 (1), clip and noise, no public row", terms, 0.0


def _clipped_mean(s: _Setting) -> Answer:
    """Terms for a mean from a public row, by clip and noise."""
    terms = _mean(s, "d log^1.5(1/beta)", s.d * s.tail**1.5)
    return "Theorem B.2 (1), clip and noise", terms, 1.0


def _chosen_mean_in_range(s: _Setting) -> Answer:
    """Terms for a mean from a range, by a choice from a cover."""
    (reach,) = s.given("depends on a range", mean_radius=s.radius)
    most = s.d * _log(s.d, reach, 1.0 / s.alpha) + s.tail
    terms = _mean(s, "(d log(d R / alpha) + log(1/beta))", most)
    return "Lemma B.1 (2), BKSW19, inefficient, no public row", terms, 0.0


def _chosen_mean(s: _Setting) -> Answer:
    """Terms for a mean from a public row, by a choice from a cover."""
    most = s.d * _log(s.d, max(s.tail, 1.0), 1.0 / s.alpha) + s.tail
    terms = _mean(s, "(d log(d log(1/beta) / alpha) + log(1/beta))", most)
    return "Theorem B.2 (2), BKSW19, inefficient", terms, 1.0


def _sum_of_squares_mean(s: _Setting) -> Answer:
    """Terms for a mean by sums of squares, from a range or a public row."""
    size = s.d + s.tail
    terms = {"(d + log(1/beta)) / alpha^2": size / s.alpha**2}
    terms |= s.private("(d + log(1/beta))", size, "alpha^2", s.alpha * s.alpha)
    if s.radius is None:
        return "Theorem B.2 (3), HKM22, 1 public row", terms, 1.0
    far = _log(s.radius)
    terms |= s.private("(d log R + min(d, log R) log(1/beta))", s.d * far + min(s.d, far) * s.tail)
    return "Lemma B.1 (3), HKM22, no public row", terms, 0.0


# ---- Gaussians from d + 1 public rows, for theorem B.12 within a gap


def _gap_factor(s: _Setting) -> float:
    """1 / (1 - gamma); theorem B.5 has no gap."""
    return 1.0 / (1.0 - s.gamma) if s.theorem == "B.12" else 1.0


def _sampling_of_covariance(s: _Setting) -> Terms:
    return {"(d^2 + log(1/beta)) / alpha^2": (s.d * s.d + s.tail) / s.alpha**2}


def _preconditioned_gaussian(s: _Setting) -> Answer:
    """Terms for a Gaussian by preconditioning."""
    d = s.d
    far = _gap_factor(s)
    rho = 1.0 / s.price**2
    accurate = (d, 1 / s.alpha, 1 / s.beta, rho)
    terms = _sampling_of_covariance(s)
    terms |= s.private(
        "d^2 polylog(d / (alpha beta rho))", d * d * _log(*accurate), "alpha", s.alpha
    )
    terms |= s.private(
        "d log(d / (alpha beta rho (1 - gamma)))", d * _log(*accurate, far), "alpha", s.alpha
    )
    rough = _log(d, 1 / s.beta, rho, far)
    terms |= s.private("d^1.5 polylog(d / (beta rho (1 - gamma)))", d**1.5 * rough)
    return f"Theorem {s.theorem} (1), KLSU19", terms, d + 1.0


def _chosen_gaussian(s: _Setting) -> Answer:
    """Terms for a Gaussian by a choice from a cover."""
    d = s.d
    most = d * d * _log(d, 1 / s.alpha, 1 / s.beta, _gap_factor(s))
    terms = _sampling_of_covariance(s)
    terms |= s.private("d^2 log(d / (alpha beta (1 - gamma)))", most, "alpha", s.alpha)
    return f"Theorem {s.theorem} (2), BKSW19, inefficient", terms, d + 1.0


# ---- Mixtures, for theorems C.28 and C.29 with public rows in proportion to the dimension


def _weights(s: _Setting) -> tuple[int, float]:
    """Return the number of components and the least weight. Raise InputError unless both are given and agree."""
    k, w = s.given("is about mixtures", n_components=s.k, min_weight=s.w_min)
    if w * k > 1.0:
        raise InputError(f"min_weight must be at most 1 / n_components = {1 / k:.3g}, got {w:g}")
    return k, w


def _mixture(s: _Setting, numerator: str, value: float) -> Terms:
    """Terms of sampling, and of a private numerator that is divided by the least weight and the accuracy."""
    k, w = _weights(s)
    key = "d^2 log(k / beta) / (w_min alpha^2)"
    sampling = {key: s.d * s.d * _log(k, 1 / s.beta) / (w * s.alpha**2)}
    return sampling | s.private(numerator, value, "w_min alpha", w * s.alpha)


def _mixture_answer(s: _Setting, terms: Terms, *, easy: bool) -> Answer:
    k, w = _weights(s)
    return f"Theorem {s.theorem}", terms, (s.d if easy else 1.0) * _log(k, 1 / s.beta) / w


def _approx_mixture(s: _Setting) -> Answer:
    """Terms for a mixture with a delta."""
    d = s.d
    k, _ = _weights(s)
    _, delta = s.budget.amounts
    tail = _log(k, 1.0 / float(delta))
    poly = _log(d, k / s.beta, 1 / s.alpha, math.sqrt(k) / s.price, tail)
    terms = _mixture(
        s,
        "(d^2 log(k / delta) + d log^1.5(k / delta)) polylog",
        (d * d * tail + d * tail**1.5) * poly,
    )
    easy = s.theorem == "C.28"
    if not easy:
        terms |= s.private("d^1.5 k^2.5 log(k / delta)", d**1.5 * k**2.5 * tail)
    return _mixture_answer(s, terms, easy=easy)


def _concentrated_mixture(s: _Setting) -> Answer:
    """Terms for a mixture without a delta."""
    d = s.d
    b = s.beta
    k, w = _weights(s)
    rho = 1.0 / s.price**2
    poly = _log(d, k, 1 / s.alpha, 1 / b, rho)
    terms = _mixture(s, "d^2 polylog(d k / (alpha beta rho))", d * d * poly)
    easy = s.theorem == "C.29"
    if not easy:
        radius, cond = s.given("depends on ranges", mean_radius=s.radius, cond_max=s.cond)
        means = d * _log(d, k, _loglog(radius), 1 / s.alpha, 1 / b, rho)
        scales = d**1.5 * math.sqrt(k * _log(cond))
        scales *= _log(d, k, _loglog(cond), rho, 1 / b)
        places = math.sqrt(d * k * _log(radius, d, k, 1 / b))
        terms |= s.private(
            "d log(d k log(R) / (alpha beta rho))", means, "w_min alpha", w * s.alpha
        )
        terms |= s.private("d^1.5 sqrt(k log(K)) polylog(d k log(K) / (rho beta))", scales)
        terms |= s.private("sqrt(d k log(R d k / beta))", places)
        terms |= s.private("d^1.5 k^2.5", d**1.5 * k**2.5)
    return _mixture_answer(s, terms, easy=easy)


# The terms of each theorem, for each notion of privacy that it is about.
THEOREMS: dict[str, dict[type[Budget], Callable[[_Setting], Answer]]] = {
    "B.1": {ZCDP: _clipped_mean_in_range, PureDP: _chosen_mean_in_range},
    "B.2": {ZCDP: _clipped_mean, PureDP: _chosen_mean},
    "HKM22": {PureDP: _sum_of_squares_mean},
    "B.5": {ZCDP: _preconditioned_gaussian, PureDP: _chosen_gaussian},
    "B.12": {ZCDP: _preconditioned_gaussian, PureDP: _chosen_gaussian},
    "C.23": {ApproxDP: _approx_mixture},
    "C.24": {ZCDP: _concentrated_mixture},
    "C.28": {ApproxDP: _approx_mixture},
    "C.29": {ZCDP: _concentrated_mixture},
}


def _optional(check: Callable[..., Any], name: str, value: Any, **limits: Any) -> Any:
    """Return a checked argument, or None if it is not given."""
    return None if value is None else check(name, value, **limits)


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
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
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

    See Also
    --------
    plan : numbers of rows with all constants, for the estimators of this library.
    estimate_gaussian : the methods that the theorems are about.

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
        theorem=theorem,
        d=validation.integer("dim", dim, minimum=1),
        alpha=validation.probability("accuracy", accuracy),
        beta=failure_probability(failure_prob),
        budget=budget,
        gamma=validation.fraction("pub_priv_gap", pub_priv_gap),
        radius=_optional(validation.positive, "mean_radius", mean_radius),
        cond=_optional(validation.positive, "cond_max", cond_max),
        k=_optional(validation.integer, "n_components", n_components, minimum=1),
        w_min=_optional(validation.positive, "min_weight", min_weight),
    )
    name, terms, n_pub = terms_of(setting)
    return OrderBounds(
        theorem=name,
        terms={key: factor * value for key, value in terms.items()},
        n_pub=n_pub,
        constant=factor,
    )
