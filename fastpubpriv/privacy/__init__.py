"""Privacy accounting: budgets, events, conversions, calibration, ledger. All exact or safely rounded."""

from fastpubpriv.privacy.allowance import gaussian_rho, gaussian_rho_beside, laplace_epsilon
from fastpubpriv.privacy.budgets import ZCDP, ApproxDP, Budget, Cost, PureDP
from fastpubpriv.privacy.calibration import (
    Grid,
    clip_steps,
    gaussian_count_grid,
    gaussian_gram_grid,
    gaussian_sum_grid,
    laplace_count_grid,
    laplace_gram_grid,
    laplace_sum_grid,
    step,
)
from fastpubpriv.privacy.cluster_grids import (
    cluster_count_grid,
    cluster_gram_grid,
    cluster_shell_grid,
    cluster_sum_grid,
)
from fastpubpriv.privacy.clusters import Clusters, CostTally
from fastpubpriv.privacy.composed import ComposedEvent
from fastpubpriv.privacy.composition import (
    advanced_composition,
    basic_composition,
    optimal_composition_delta,
    optimal_composition_epsilon,
)
from fastpubpriv.privacy.conversions import (
    best_epsilon,
    bun_steinke_epsilon,
    bun_steinke_rho,
    exponential_mechanism_rho,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    gdp_rho,
    group_approx,
    group_mu,
    group_rho,
    pure_to_zcdp,
    pure_to_zcdp_exact,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from fastpubpriv.privacy.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    SampledGaussianEvent,
    SelectionEvent,
    StableHistogramEvent,
)
from fastpubpriv.privacy.ledger import Ledger, LedgerEntry, cost_in
from fastpubpriv.privacy.relations import Neighbors
from fastpubpriv.privacy.sampled_grids import SampledGrid, sampled_sum_grid
from fastpubpriv.privacy.sampler_error import approx_slack, pure_slack, total_variation
from fastpubpriv.privacy.sampling import FullBatch, OnePass, Poisson, Sampling, WithoutReplacement
from fastpubpriv.privacy.stable import stable_event
from fastpubpriv.privacy.stable_profile import stable_delta
from fastpubpriv.privacy.subsampled import delta_of, epsilon_of, noise_multiplier_for

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Budget",
    "Clusters",
    "ComposedEvent",
    "Cost",
    "CostTally",
    "Event",
    "FullBatch",
    "GaussianEvent",
    "Grid",
    "LaplaceEvent",
    "Ledger",
    "LedgerEntry",
    "Neighbors",
    "OnePass",
    "Poisson",
    "PureDP",
    "SampledGaussianEvent",
    "SampledGrid",
    "Sampling",
    "SelectionEvent",
    "StableHistogramEvent",
    "WithoutReplacement",
    "advanced_composition",
    "approx_slack",
    "basic_composition",
    "best_epsilon",
    "bun_steinke_epsilon",
    "bun_steinke_rho",
    "clip_steps",
    "cluster_count_grid",
    "cluster_gram_grid",
    "cluster_shell_grid",
    "cluster_sum_grid",
    "cost_in",
    "delta_of",
    "epsilon_of",
    "exponential_mechanism_rho",
    "gaussian_count_grid",
    "gaussian_gram_grid",
    "gaussian_rho",
    "gaussian_rho_beside",
    "gaussian_sum_grid",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "gdp_rho",
    "group_approx",
    "group_mu",
    "group_rho",
    "laplace_count_grid",
    "laplace_epsilon",
    "laplace_gram_grid",
    "laplace_sum_grid",
    "noise_multiplier_for",
    "optimal_composition_delta",
    "optimal_composition_epsilon",
    "pure_slack",
    "pure_to_zcdp",
    "pure_to_zcdp_exact",
    "sampled_sum_grid",
    "stable_delta",
    "stable_event",
    "step",
    "total_variation",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]


def __dir__() -> list[str]:
    return __all__
