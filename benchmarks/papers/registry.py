"""The experiments by name."""

from __future__ import annotations

from benchmarks.papers import (
    coinpress_covariance,
    example_weighted_mean,
    figure_divergence,
    figure_one_public_row,
    figure_public_ratio,
    gradient_tables,
    local_means,
    logistic_figures,
    newton_beyond,
    noise_tables,
    public_mixtures,
    univariate_mixtures,
)
from benchmarks.papers.experiment import Experiment

_MODULES = (
    figure_one_public_row,
    newton_beyond,
    figure_divergence,
    figure_public_ratio,
    logistic_figures,
    local_means,
    example_weighted_mean,
    noise_tables,
    gradient_tables,
    public_mixtures,
    univariate_mixtures,
    coinpress_covariance,
)
EXPERIMENTS: dict[str, Experiment] = {
    each.EXPERIMENT.name: each.EXPERIMENT for each in sorted(_MODULES, key=lambda each: each.EXPERIMENT.name)
}
