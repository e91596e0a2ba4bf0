"""The experiments by name."""

from importlib import import_module

from benchmarks.papers.experiment import Experiment

_MODULES = (
    *(
        "coinpress_covariance",
        "example_weighted_mean",
        "figure_divergence",
        "figure_one_public_row",
        "figure_public_ratio",
    ),
    *(
        "gradient_tables",
        "local_means",
        "logistic_figures",
        "newton_beyond",
        "noise_tables",
        "public_mixtures",
    ),
    "univariate_mixtures",
)
_FOUND: list[Experiment] = [
    import_module(f"benchmarks.papers.{name}").EXPERIMENT for name in _MODULES
]
EXPERIMENTS = {each.name: each for each in sorted(_FOUND, key=lambda each: each.name)}
