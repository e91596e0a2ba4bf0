"""The subjects of the reference, the public names of each, and the groups of a function's parameters.

A public name that is in no group fails a test.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True)
class Group:
    """One subject: a page with a line for each of its names."""

    slug: str
    title: str
    intro: str
    names: tuple[str, ...]


# Public modules: their `__all__` is documented.
MODULES = (
    "fastpubpriv",
    "fastpubpriv.training",
    "fastpubpriv.local",
    "fastpubpriv.mixtures.list_decoding",
    "fastpubpriv.auditing",
    "fastpubpriv.sklearn",
    "fastpubpriv.torch",
    "fastpubpriv.planning",
    "fastpubpriv.sources",
    "fastpubpriv.privacy",
    "fastpubpriv.privacy.conversions",
)


def public_names() -> list[str]:
    """Return every public name, each object once, under the first module that has it."""
    names, seen = [], set()
    for module in MODULES:
        for name in import_module(module).__all__:
            key = (name, id(getattr(import_module(module), name)))
            if key not in seen:
                seen.add(key)
                names.append(f"{module}.{name}")
    return names


# Titles of the groups of a release's parameters, in the order of its docstring. A parameter in no set says what is asked.
PARAMETER_GROUPS = ("The data and the budget", "What is asked", "Running it")
# The rows, public knowledge about their columns, and what may be spent.
OF_DATA = {
    "x_priv", "y_priv", "x_pub", "y_pub", "person", "keep", "rows_per_person", "keys_per_person", "label", "column", "columns",
    "bounds", "x_bounds", "y_bounds", "y_scale",
    "center", "radius", "scale", "norm_bound", "covariance", "variance", "weights_pub", "weights_priv",
    "weight_cap", "categories", "reference", "classes", "missing", "keys", "by", "groups", "hypotheses", "bins", "std", "budget",
    "budget_for_k", "module", "private", "public", "X_pub",
}  # fmt: skip
OF_RUNNING = {"ledger", "random_state", "threads", "progress", "max_memory"}


def group_of(entry: str) -> int:
    """Return the place in PARAMETER_GROUPS of an entry of a docstring, which starts with the names of its parameters."""
    names = set(entry.split("\n")[0].split(" : ")[0].split(", "))
    if names <= OF_DATA:
        return 0
    return 2 if names <= OF_RUNNING else 1


def parameter_entries(text: str) -> tuple[slice, list[str]]:
    """Return where the section on parameters stands in a docstring, and its entries; no entries where there is no section."""
    section = re.search(r"(?ms)^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n---|\Z)", text)
    if section is None:
        return slice(0, 0), []
    entries = re.split(r"(?m)^(?=\S)", section[1])[1:]
    return slice(section.start(), section.end()), [entry.rstrip() for entry in entries]


def group_parameters(lines: list[str]) -> list[str]:
    """Return a docstring with its parameters split by subject if it is that of a release, which has a ledger."""
    text = "\n".join(lines)
    section, entries = parameter_entries(text)
    if not any(entry.startswith("ledger : ") for entry in entries):
        return lines
    shown = []
    for place, title in enumerate(PARAMETER_GROUPS):
        members = [entry for entry in entries if group_of(entry) == place]
        if members:
            shown += [title, "-" * len(title), *members, ""]
    return (text[: section.start] + "\n".join(shown) + "\n" + text[section.stop :]).split("\n")


def top(*names: str) -> tuple[str, ...]:
    """Return the names of the package itself."""
    return tuple(f"fastpubpriv.{name}" for name in names)


def rest(module: str, *, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the names of a module that are in no other group; functions and classes in alphabetical order."""
    found = [
        name for name in public_names() if name.rpartition(".")[0] == module and name not in without
    ]
    return tuple(sorted(found, key=lambda name: name.rpartition(".")[2].lower()))


# Names that are data: the text of the page, with an example that runs.
DATA: dict[str, str] = {
    "fastpubpriv.training.LOSSES": """\
The losses that are known by a name: what `train` takes as `loss=`, each a `Loss`.

Examples
--------

>>> from fastpubpriv.training import LOSSES
>>> sorted(LOSSES)
['huber', 'logistic', 'poisson', 'smooth_hinge', 'softmax', 'squared']
""",
    "fastpubpriv.planning.TASKS": """\
The tasks that `plan` knows, by the name of each, and the function that predicts its error.

Examples
--------

>>> from fastpubpriv.planning import TASKS, task_arguments
>>> sorted(TASKS)[:4]
['axis_aligned_mixture', 'coinpress_mean', 'count_persons', 'counts']
>>> "n_pub" in task_arguments("mean")
True
""",
}

GROUPS = (
    Group(
        "means",
        "Means",
        "The average of private rows. Start with {name}`estimate_mean`; take {name}`weighted_mean` if every row is within known "
        "bounds, and {name}`coinpress_mean` if there is no public row at all.",
        top(
            "estimate_mean",
            "weighted_mean",
            "coinpress_mean",
            "precondition",
            "Preconditioner",
            "MeanResult",
            "GroupMeans",
            "GroupQuantiles",
        ),
    ),
    Group(
        "medians",
        "Quantiles",
        "Medians, quartiles and other quantiles of columns in any unit.",
        top("quantiles", "QuantileResult"),
    ),
    Group(
        "tables",
        "Tables at a glance",
        "Means, deviations, quartiles and the commonest texts of all columns of a table, in one call.",
        top("describe", "Description"),
    ),
    Group(
        "gaussians",
        "Covariances and Gaussians",
        "How columns vary, and vary together.",
        top(
            "estimate_gaussian",
            "coinpress_covariance",
            "private_pca",
            "GaussianResult",
            "CovarianceResult",
            "PCAResult",
        ),
    ),
    Group(
        "regression",
        "Regression and training",
        "A label from the other columns. {name}`linear_regression` and {name}`logistic_regression` give coefficients with "
        "intervals; {name}`train` takes any loss and any method of `fastpubpriv.training`.",
        top(
            "linear_regression",
            "logistic_regression",
            "train",
            "TrainingResult",
            "DescentResult",
            "warmup",
        )
        + rest("fastpubpriv.training"),
    ),
    Group(
        "mixtures",
        "Mixtures and groups",
        "Several groups in one table: weights, means and covariances of each.",
        top(
            "learn_separated_mixture",
            "learn_axis_aligned_mixture",
            "supercluster",
            "terrific_ball",
            "Ball",
            "ClusterTree",
            "no_public_baseline",
            "public_only",
            "MixtureResult",
        ),
    ),
    Group(
        "list_decoding",
        "List decoding",
        "Short lists that hold a scale, a mean or a Gaussian near each component of a mixture; no range is given.",
        rest("fastpubpriv.mixtures.list_decoding"),
    ),
    Group(
        "counts",
        "Counts",
        "How many rows, or different persons, have each value of a column, or each combination of the values of several.",
        top("value_counts", "CountResult", "count_persons", "PersonCounts", "Comparison"),
    ),
    Group(
        "histograms",
        "Histograms and selection",
        "The shape of columns that nobody bounded, and the best of a public list of hypotheses.",
        top(
            "stable_histogram",
            "BinGrid",
            "DyadicBins",
            "ProductBins",
            "HistogramResult",
            "select_hypothesis",
            "Hypotheses",
            "SelectionResult",
        ),
    ),
    Group(
        "local",
        "The local model",
        "Users randomize their rows themselves; a server learns from the reports.",
        rest("fastpubpriv.local"),
    ),
    Group(
        "budgets",
        "Budgets and ledgers",
        "What a release may cost, and where all costs of a data set are kept.",
        top("ZCDP", "ApproxDP", "PureDP", "Ledger"),
    ),
    Group(
        "planning",
        "Planning",
        "Error, rows or budget from the other two, before any data is touched.",
        top("plan", "Plan", "order_bounds", "OrderBounds") + rest("fastpubpriv.planning"),
    ),
    Group(
        "sources",
        "Rows from anywhere",
        "Arrays, files, frames, tables and streams of private rows; the rest is for those who write a mechanism of their own.",
        top("PrivateTable", "Rows") + rest("fastpubpriv.sources"),
    ),
    Group(
        "auditing",
        "Auditing",
        "Attempts to refute a guarantee.",
        rest("fastpubpriv.auditing"),
    ),
    Group(
        "sklearn",
        "Estimators for scikit-learn",
        "`pip install '.[sklearn]'`. Public rows are metadata of `fit`.",
        rest("fastpubpriv.sklearn"),
    ),
    Group(
        "torch",
        "The bridge to PyTorch",
        "`pip install '.[torch]'`. PyTorch is large and nothing else needs it, so these two examples run in "
        "`make torch-test`; while the book is built they run only where PyTorch and Opacus are installed.",
        rest("fastpubpriv.torch"),
    ),
    Group(
        "errors",
        "Errors and warnings",
        "Each is raised for public arguments, forms and budgets, never for the content of a private row.",
        top(
            "FastPubPrivError",
            "InputError",
            "BudgetError",
            "InfeasibleError",
            "LedgerError",
            "EntropyError",
            "KernelError",
            "OutOfMemoryError",
            "ReplayError",
            "SeededNoiseWarning",
            "PrivacyWarning",
            "AccuracyWarning",
            "ExperimentalWarning",
        ),
    ),
    Group(
        "accounting",
        "Accounting",
        "What releases cost, in every notion: events, sampling, conversions and composition. Estimators call these by themselves.",
        rest("fastpubpriv.privacy") + rest("fastpubpriv.privacy.conversions"),
    ),
)
