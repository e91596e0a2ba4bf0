"""What results compute of themselves: each public property and method of their classes, on arguments fixed here."""

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


GAUSSIAN: dict[str, Use] = {
    "correlation": lambda result: result.correlation,
    "complete_rows_interval": lambda result: list(result.complete_rows_interval(0.9)),
    "confidence_ellipse": lambda result: (
        list(result.confidence_ellipse(level=0.9)) if result.dim > 1 else []
    ),
    "sample": lambda result: result.sample(4, random_state=3),
    "log_prob": lambda result: result.log_prob(points(result.mean)),
    "confidence_interval": lambda result: [
        list(result.confidence_interval(0.9, of=kind))
        for kind in ("mean", "standard_deviation", "correlation")
    ],
}
MIXTURE: dict[str, Use] = {
    "n_components": lambda result: result.n_components,
    "variances": lambda result: result.variances,
    "log_prob": lambda result: result.log_prob(points(result.means[0])),
    "predict_proba": lambda result: result.predict_proba(result.means),
    "predict": lambda result: result.predict(result.means),
    "sample": lambda result: result.sample(4, random_state=3),
}
# A result with a mixture does with it what MixtureResult does, which is recorded.
SAME = {"SelectionResult": MIXTURE.keys()}

# Class -> public property or method -> what it gives.
USES: dict[str, dict[str, Use]] = {
    "MeanResult": {
        **comparisons(lambda result: result.labels),
        "standard_error": lambda result: result.standard_error,
        "confidence_interval": lambda result: list(result.confidence_interval(0.9)),
        "interval_parts": lambda result: result.interval_parts(0.9),
        "sum": lambda result: [] if result.about.startswith("at most") else list(result.sum(0.9)),
        "missing_rows": lambda result: [] if result.report is None else result.missing_rows,
        "complete_rows_interval": complete,
    },
    "CountResult": {
        **comparisons(lambda result: [key[0] if len(key) == 1 else key for key in result.keys]),
        "published": lambda result: result.published,
        "share": lambda result: result.share, "share_interval": lambda result: list(result.share_interval(0.9)),
"named": lambda result: result.named,
        "levels": lambda result: [list(each) for each in result.levels], "to_table": lambda result: result.to_table(),
        "confidence_interval": lambda result: list(result.confidence_interval(0.9, of="population")),
        "rank_interval": lambda result: list(result.rank_interval(0.9)),
    },
    "PersonCounts": {
        **comparisons(lambda result: [key[0] if len(key) == 1 else key for key in result.keys]),
        "published": lambda result: result.published,
        "share": lambda result: result.share,
        "confidence_interval": lambda result: list(result.confidence_interval(0.9)),
    },
    "GroupQuantiles": {
        **comparisons(lambda result: result.groups),
        "confidence_interval": lambda result: list(result.confidence_interval(0.9, simultaneous=True)),
    },
    "GroupMeans": {
        **comparisons(lambda result: result.groups),
        "sum": lambda result: list(result.sum(0.9)),
        "standard_deviation": lambda result: result.standard_deviation,
        "deviation_interval": lambda result: list(result.deviation_interval(0.9)),
        "standard_error": lambda result: result.standard_error,
        "interval_parts": lambda result: result.interval_parts(0.9),
        "confidence_interval": lambda result: list(result.confidence_interval(0.9, simultaneous=True)),
    },
    "Description": {
        "standard_deviation": lambda result: result.standard_deviation,
        "confidence_interval": lambda result: list(result.confidence_interval(0.9)),
        "interval_parts": lambda result: result.interval_parts(0.9),
        "numbers": lambda result: result.numbers,
        "top": lambda result: result.top(result.texts[0].by[0]).counts,
        "to_html": lambda result: result.to_html(level=0.9).startswith("<!doctype html>"),
    },
    "QuantileResult": {
        "confidence_interval": lambda result: list(result.confidence_interval(0.9, simultaneous=True)),
    },
    "CovarianceResult": {
        "correlation": lambda result: result.correlation,
        "complete_rows_interval": complete,
    },
    "PCAResult": {
        "transform": lambda result: result.transform(points(result.center)),
        "complete_rows_interval": lambda result: list(result.complete_rows_interval(0.9)),
        "confidence_interval": lambda result: list(result.confidence_interval(0.9)),
    },
    "GaussianResult": GAUSSIAN,
    "MixtureResult": MIXTURE,
    "SelectionResult": {
        "variances": lambda result: result.variances,
        "mixture": lambda result: result.mixture.log_prob(points(result.means[0])),
    },
    "HistogramResult": {
        "count_error": lambda result: result.count_error(0.1),
    },
    "TrainingResult": {
        "standard_error": lambda result: result.standard_error,
        "intercept_error": lambda result: result.intercept_error,
        "privacy_share": lambda result: result.privacy_share,
        "confidence_interval": lambda result: list(result.confidence_interval(0.9)),
        "decision_function": lambda result: result.decision_function(points(np.zeros(result.dim))),
        "predict": lambda result: result.predict(points(np.zeros(result.dim))),
        "predict_proba": lambda result: (
            result.predict_proba(points(np.zeros(result.dim))) if len(result.classes) else []
        ),
        "prediction_interval": lambda result: (
            [] if len(result.classes) else list(result.prediction_interval(points(np.zeros(result.dim)), 0.9))
        ),
    },
    "AxisAlignedLists": {
        "coarse": lambda result: [list(result.coarse(column)) for column in range(result.dim)],
        "net": lambda result: [result.net(column, 0.5)[:1000] for column in range(result.dim)],
        "net_size": lambda result: [result.net_size(column, 0.3) for column in range(result.dim)],
        "list_size": lambda result: result.list_size(0.3),
    },
    "Preconditioner": {
        "scale": lambda result: result.scale,
        "whitening": lambda result: result.whitening(),
    },
    "Ball": {"contains": lambda result: result.contains(points(result.center))},
    "OrderBounds": {"n_priv": lambda result: result.n_priv},
}  # fmt: skip


def used(result: Any) -> dict[str, Any]:
    """What a result computes of itself, by the name of the property or method."""
    return {name: use(result) for name, use in USES.get(type(result).__name__, {}).items()}
