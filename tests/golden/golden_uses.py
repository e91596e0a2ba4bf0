"""What results compute of themselves: each public property and method of their classes, on arguments fixed here."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

Use = Callable[[Any], Any]

# These say in other words what the fields say, which `golden_values` reads.
WORDS_ONLY = {
    "to_dict",
    "to_json",
    "from_json",
    "plot",
    "summary",
    "to_frame",
    "labels",
    "status",
    "part_status",
    "widened",
}


def points(mean: np.ndarray) -> np.ndarray:
    """A few rows about a mean."""
    steps = np.array([[0.0], [0.5], [-2.0], [30.0]])
    return mean + steps * (1.0 + np.arange(len(mean)))


def complete(result: Any) -> list[float]:
    """The interval of the number of complete rows, if it was released."""
    return [] if result.complete_rows is None else list(result.complete_rows_interval(0.9))


def comparisons(names: Callable[[Any], Any]) -> dict[str, Use]:
    """The uses that compare the first two of some names, if there are two."""

    def use(method: str) -> Use:
        def called(result: Any) -> list[Any]:
            pair = names(result)[:2]
            if len(pair) < 2:
                return []
            answer = getattr(result, method)(*pair, 0.9)
            return [answer.estimate, answer.lower, answer.upper]

        return called

    return {method: use(method) for method in ("difference", "ratio")}


def fields(*names: str) -> dict[str, Use]:
    """The uses that read a property."""
    return {name: operator.attrgetter(name) for name in names}


def ends(method: str, **options: Any) -> Use:
    """The use that asks a method for an interval at level 0.9."""

    def use(result: Any) -> list[Any]:
        return list(getattr(result, method)(0.9, **options))

    return use


def intervals(*methods: str) -> dict[str, Use]:
    """The uses that ask for intervals at level 0.9."""
    return {method: ends(method) for method in methods}


def interval_parts(result: Any) -> Any:
    """The parts of the interval at level 0.9."""
    return result.interval_parts(0.9)


def keys_of(result: Any) -> list[Any]:
    """The keys of counts, those of one column without their tuple."""
    return [key[0] if len(key) == 1 else key for key in result.keys]


def groups_of(result: Any) -> Any:
    """The names of groups."""
    return result.groups


def sample(result: Any) -> Any:
    """Four rows of a fixed seed."""
    return result.sample(4, random_state=3)


# ---- Gaussians and mixtures ------------------------------------------------------------------------------------------
def ellipse(result: Any) -> list[Any]:
    """The ellipse of the first two columns, if there are two."""
    return list(result.confidence_ellipse(level=0.9)) if result.dim > 1 else []


def intervals_of_gaussian(result: Any) -> list[Any]:
    """The intervals of each kind of parameter."""
    kinds = ("mean", "standard_deviation", "correlation")
    return [list(result.confidence_interval(0.9, of=kind)) for kind in kinds]


GAUSSIAN: dict[str, Use] = {
    **fields("correlation"),
    **intervals("complete_rows_interval"),
    "confidence_ellipse": ellipse,
    "sample": sample,
    "log_prob": lambda result: result.log_prob(points(result.mean)),
    "confidence_interval": intervals_of_gaussian,
}
MIXTURE: dict[str, Use] = {
    **fields("n_components", "variances"),
    "log_prob": lambda result: result.log_prob(points(result.means[0])),
    "predict_proba": lambda result: result.predict_proba(result.means),
    "predict": lambda result: result.predict(result.means),
    "sample": sample,
}
# A result with a mixture does with it what MixtureResult does, which is recorded.
SAME = {"SelectionResult": MIXTURE.keys()}

# Class -> public property or method -> what it gives.
USES: dict[str, dict[str, Use]] = {}
USES["GaussianResult"] = GAUSSIAN
USES["MixtureResult"] = MIXTURE
USES["SelectionResult"] = {
    **fields("variances"),
    "mixture": lambda result: result.mixture.log_prob(points(result.means[0])),
}


# ---- Means, counts and quantiles -------------------------------------------------------------------------------------
def sum_of_rows(result: Any) -> list[Any]:
    """The interval of the sum, which the mean of some rows of each person does not have."""
    return [] if result.about.startswith("at most") else list(result.sum(0.9))


def missing_rows(result: Any) -> Any:
    """The missing rows, if a report counts them."""
    return [] if result.report is None else result.missing_rows


def top_of_first_text(result: Any) -> Any:
    """The counts of the first column of text of a description."""
    return result.top(result.texts[0].by[0]).counts


def is_page(result: Any) -> bool:
    """Whether the description in HTML begins as a page."""
    return result.to_html(level=0.9).startswith("<!doctype html>")


USES["MeanResult"] = {
    **comparisons(lambda result: result.labels),
    **fields("standard_error"),
    **intervals("confidence_interval"),
    "interval_parts": interval_parts,
    "sum": sum_of_rows,
    "missing_rows": missing_rows,
    "complete_rows_interval": complete,
}
USES["CountResult"] = {
    **comparisons(keys_of),
    **fields("published", "share", "named"),
    **intervals("share_interval", "rank_interval"),
    "levels": lambda result: [list(level) for level in result.levels],
    "to_table": lambda result: result.to_table(),
    "confidence_interval": ends("confidence_interval", of="population"),
}
USES["PersonCounts"] = {
    **comparisons(keys_of),
    **fields("published", "share"),
    **intervals("confidence_interval"),
}
USES["GroupQuantiles"] = {
    **comparisons(groups_of),
    "confidence_interval": ends("confidence_interval", simultaneous=True),
}
USES["GroupMeans"] = {
    **comparisons(groups_of),
    **fields("standard_deviation", "standard_error"),
    **intervals("sum", "deviation_interval"),
    "interval_parts": interval_parts,
    "confidence_interval": ends("confidence_interval", simultaneous=True),
}
USES["Description"] = {
    **fields("standard_deviation", "numbers"),
    **intervals("confidence_interval"),
    "interval_parts": interval_parts,
    "top": top_of_first_text,
    "to_html": is_page,
}
USES["QuantileResult"] = {"confidence_interval": ends("confidence_interval", simultaneous=True)}
USES["HistogramResult"] = {"count_error": lambda result: result.count_error(0.1)}

# ---- Covariances and directions --------------------------------------------------------------------------------------
USES["CovarianceResult"] = {**fields("correlation"), "complete_rows_interval": complete}
USES["PCAResult"] = {
    **intervals("complete_rows_interval", "confidence_interval"),
    "transform": lambda result: result.transform(points(result.center)),
}
USES["Preconditioner"] = {
    **fields("scale"),
    "whitening": lambda result: result.whitening(),
}
USES["Ball"] = {"contains": lambda result: result.contains(points(result.center))}


# ---- Models ----------------------------------------------------------------------------------------------------------
def rows_about_zero(result: Any) -> np.ndarray:
    """A few rows to predict for."""
    return points(np.zeros(result.dim))


def chances_of_classes(result: Any) -> Any:
    """The chances of the classes, if there are classes."""
    return result.predict_proba(rows_about_zero(result)) if len(result.classes) else []


def prediction_interval(result: Any) -> list[Any]:
    """The interval of a label, if it is a number."""
    if len(result.classes):
        return []
    return list(result.prediction_interval(rows_about_zero(result), 0.9))


USES["TrainingResult"] = {
    **fields("standard_error", "intercept_error", "privacy_share"),
    **intervals("confidence_interval"),
    "decision_function": lambda result: result.decision_function(rows_about_zero(result)),
    "predict": lambda result: result.predict(rows_about_zero(result)),
    "predict_proba": chances_of_classes,
    "prediction_interval": prediction_interval,
}

# ---- Lists of hypotheses, and bounds ---------------------------------------------------------------------------------
USES["AxisAlignedLists"] = {
    "coarse": lambda result: [list(result.coarse(column)) for column in range(result.dim)],
    "net": lambda result: [result.net(column, 0.5)[:1000] for column in range(result.dim)],
    "net_size": lambda result: [result.net_size(column, 0.3) for column in range(result.dim)],
    "list_size": lambda result: result.list_size(0.3),
}
USES["OrderBounds"] = fields("n_priv")


def used(result: Any) -> dict[str, Any]:
    """What a result computes of itself, by the name of the property or method."""
    return {name: use(result) for name, use in USES.get(type(result).__name__, {}).items()}
