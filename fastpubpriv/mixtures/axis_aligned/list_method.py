"""Algorithm 1 of paper C as a method: coarse lists of every column, nets of mixtures around them, and a private choice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InfeasibleError, InputError
from fastpubpriv.mechanisms.selection import HypothesisChoice, check_rows, law_for, prepare
from fastpubpriv.mixtures.axis_aligned import axis_method
from fastpubpriv.mixtures.axis_aligned.axis_method import AxisMethod, LearnedMixture, Task
from fastpubpriv.mixtures.fit import COUNT_SHARES, count_draws
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.mixtures.list_decoding import decoders, results
from fastpubpriv.privacy import Budget
from fastpubpriv.results.reasons import Reason
from fastpubpriv.session import Session
from fastpubpriv.sources import Rows
from fastpubpriv.sources.views import split_rows

MAX_CANDIDATES = 20_000
DECODER_SHARE = 18  # the decoder runs at accuracy / 18
# share of the epsilon of the block of the choice for the count of the fit, with Laplace noise
CHOICE_COUNT = COUNT_SHARES[1]


def least_list(n_components: int, dim: int, accuracy: float, *, known_std: bool = False) -> int:
    """Return the minimum number of candidates, or a lower bound on it: the decoder finds one coarse Gaussian in each column."""
    one = results.gaussian_net_size(accuracy / (DECODER_SHARE * dim), known_std=known_std) ** dim
    return _length(one, n_components, math.ceil(DECODER_SHARE * n_components / accuracy))


def _length(components: int, k: int, resolution: int) -> int:
    """Return the size of a net of mixtures; of a long one, which takes long to compute, its first power as a lower bound."""
    return (
        components
        if components > MAX_CANDIDATES
        else results.mixture_net_size(components, k, resolution)
    )


def check_feasible(
    n: int,
    n_components: int,
    dim: int,
    accuracy: float | None,
    budget: Budget,
    failure_prob: float,
    *,
    known_std: bool = False,
) -> tuple[float, list[int]]:
    """Return least weight and rows of the blocks for scales (unless known), means, choice; raise InfeasibleError if too few."""
    if accuracy is None:
        raise InputError(
            "method='list_decoding' needs accuracy=, a total variation between 0 and 1"
        )
    least = least_list(n_components, dim, accuracy, known_std=known_std)
    advice = "pass method='auto', or public rows; list decoding suits one component, few columns and a large accuracy"
    if least > MAX_CANDIDATES:
        most = results.mixture_sizes(
            n_components, dim, accuracy, budget, failure_prob=failure_prob
        ).log10_candidates
        raise InfeasibleError(
            f"list decoding would have at least {least:.3g} candidates, and up to 10^{most:.0f}, where "
            f"{MAX_CANDIDATES} can be compared ({n_components} components, {dim} columns, accuracy {accuracy:g}): {advice}"
        )
    if known_std:
        weight = accuracy / (DECODER_SHARE * n_components)
        share = failure_prob / (2.0 * n_components)
        sizes = [results.mean_rows(weight, budget, share, histograms=dim)]
    else:
        asked = results.mixture_sizes(
            n_components, dim, accuracy, budget, failure_prob=failure_prob
        )
        weight = asked.corruption_weight
        sizes = [asked.variance_rows, asked.mean_rows]
    epsilon = float(budget.amounts[0] * (1 - CHOICE_COUNT))
    for_choice = results.selection_rows(math.log(MAX_CANDIDATES), accuracy, epsilon, failure_prob)
    needed = sum(sizes) + for_choice
    if n < needed:
        raise InfeasibleError(
            f"the theorem asks for {needed:,} rows, and there are {n:,}: {advice}"
        )
    return weight, [*sizes, n - sum(sizes)]


class CoarseGaussian(NamedTuple):
    """A coarse Gaussian of a column; those of more rows sort before others."""

    missing: float  # minus the noisy count of rows
    mean: float
    scale: float


ColumnLists = list[list[CoarseGaussian]]


def release_lists(
    task: Task, blocks: Sequence[Rows], thresholds: decoders.Thresholds
) -> ColumnLists:
    """Release the coarse Gaussians of each column, heaviest first, by blocks for scales (unless known) and for means."""
    run = task.run
    *before, mean_block = blocks
    scales = [[1.0]] * run.rows.dim
    if before:
        released = decoders.release_scales(run.block(before[0]), thresholds)
        scales = [each.entries.tolist() for each in released]
    columns: ColumnLists = []
    for lists in decoders.release_means(run.block(mean_block), scales, thresholds):
        coarse = [
            CoarseGaussian(-float(count), float(mean), each.scale)
            for each in lists
            for mean, count in zip(each.entries, each.counts, strict=True)
        ]
        columns.append(sorted(coarse))
    return columns


@dataclass(frozen=True, slots=True)
class Nets:
    """How finely mixtures are listed around coarse Gaussians."""

    components: int
    fine: float  # accuracy of a Gaussian of one column
    resolution: int  # multiples of one over it are weights
    known_std: bool

    @classmethod
    def of(cls, task: Task) -> Nets:
        """Return what the theorem asks for."""
        accuracy = task.accuracy
        assert accuracy is not None
        k = task.n_components
        fine = accuracy / (DECODER_SHARE * task.run.rows.dim)
        return cls(k, fine, math.ceil(DECODER_SHARE * k / accuracy), task.known_std)

    def size(self, columns: ColumnLists) -> int:
        """Return the number of mixtures around these coarse Gaussians, or a lower bound on it."""
        of_one = results.gaussian_net_size(self.fine, known_std=self.known_std)
        gaussians = math.prod(of_one * len(column) for column in columns)
        return _length(gaussians, self.components, self.resolution)

    def heaviest(self, columns: ColumnLists) -> ColumnLists:
        """Return the heaviest coarse Gaussians of each column, as many as at most MAX_CANDIDATES mixtures permit."""
        heaviest = [list(column) for column in columns]
        while all(heaviest) and self.size(heaviest) > MAX_CANDIDATES:
            longest = max(heaviest, key=len)
            if len(longest) == 1:
                break
            longest.pop()
        return heaviest

    def of_column(self, column: list[CoarseGaussian]) -> FloatArray:
        """Return the means and standard deviations (size, 2) around coarse Gaussians of a column."""
        net = partial(results.gaussian_net, accuracy=self.fine, known_std=self.known_std)
        return np.concatenate([np.zeros((0, 2)), *(net(each.mean, each.scale) for each in column)])

    def mixtures(self, columns: ColumnLists) -> GaussianMixture:
        """Return all mixtures around these coarse Gaussians."""
        k = self.components
        dim = len(columns)
        of_columns = [self.of_column(column) for column in columns]
        components = np.array(list(itertools.product(*of_columns))).reshape(-1, dim, 2)
        combined: list[tuple[IntArray, FloatArray]] = []
        if len(components):
            combined = list(results.mixture_net(len(components), k, self.resolution))
        picked = np.array([index for index, _ in combined], dtype=np.int64).reshape(-1, k)
        weights = np.array([weight for _, weight in combined]).reshape(-1, k)
        return GaussianMixture(weights, components[picked, :, 0], components[picked, :, 1])


def choose(
    run: Session, listed: GaussianMixture, reason: Reason | None, facts: dict[str, Any]
) -> LearnedMixture:
    """Select a candidate by the rows of a run; without candidates, return the public N(0, 1)."""
    hypotheses = listed.hypotheses
    facts["candidates"] = hypotheses.size
    if hypotheses.size == 0:
        return axis_method.nothing_found(run.rows.dim, facts)
    index = 0
    if hypotheses.size > 1:
        account = run.account
        law = law_for(account)
        epsilon = account.of_choices.part(1 - CHOICE_COUNT).choice_epsilon(law)
        method, evaluation = prepare(hypotheses, run.rows.n, threads=run.executor.threads)
        choice = HypothesisChoice(evaluation=evaluation, size=hypotheses.size, law=law)
        index = run.release(choice, name="choice", cost=epsilon, method=method).index
    facts["chosen"] = int(hypotheses.positions[index])
    present = hypotheses.weights[index] > 0.0
    at = GaussianMixture(
        hypotheses.weights[index][present],
        hypotheses.means[index][present],
        np.sqrt(hypotheses.spreads[index][present]),
    )
    return LearnedMixture(at=at, reason=reason, diagnostics=facts)


def learn(task: Task) -> LearnedMixture:
    """Decode coarse lists of every column, build their nets and all mixtures of the nets' Gaussians, and select one."""
    run = task.run
    k = task.n_components
    known = task.known_std
    dim = run.rows.dim
    weight, sizes = check_feasible(
        run.rows.n,
        k,
        dim,
        task.accuracy,
        run.account.budget,
        task.failure_prob,
        known_std=known,
    )
    thresholds = decoders.Thresholds(min_weight=weight, theory=True)
    *blocks, choice_block = split_rows(run.rows, *sizes)
    if not known:
        decoders.check_histograms(run, decoders.scale_partitions(dim), blocks[0].n // 2)
    # Checked for the maximum number of scales: fewer histograms need less.
    most = dim if known else dim * thresholds.scale_bound
    decoders.check_histograms(run, decoders.mean_partitions([[1.0] * most]), blocks[-1].n)
    check_rows(choice_block.n, dim)
    for_count = run.account.beside.part(CHOICE_COUNT)
    for_count.grid("count", count_draws(k), choice_block.n)
    run.account.open()
    coarse = release_lists(task, blocks, thresholds)
    nets = Nets.of(task)
    heaviest = nets.heaviest(coarse)
    facts: dict[str, Any] = {
        "coarse": [len(column) for column in coarse],
        "coarse_kept": [len(column) for column in heaviest],
        "corruption_weight": weight,
    }
    reason = None
    if not all(heaviest):
        reason = Reason.FALLBACK
    elif heaviest != coarse:
        # The theorem holds only for lists that are compared completely.
        reason = Reason.SHORTLIST
    choosing = run.block(choice_block)
    learned = choose(choosing, nets.mixtures(heaviest), reason, facts)
    return axis_method.measured(task, learned, choosing, cost=for_count)


def most_draws(n: int, dim: int, components: int, *, known_std: bool) -> int:
    """Return an upper bound on the noise draws: a histogram of pairs, one for each possible scale, the choice, and the count."""
    histograms = (results.DYADIC_SCALES + 1) * n * dim
    return histograms + 1 + count_draws(components)


PAIR_SECONDS = 5e-8  # seconds of the comparison of two candidates on the line
_DENSITY_SECONDS = 2.5e-11  # seconds of a product of densities in several columns


def choice_rows(n: int) -> int:
    """Return about how many of n rows choose among the candidates, in the last of three blocks."""
    return max(1, n // 3)


def seconds(n: int, dim: int, components: int) -> float:
    """Return the run time of a list and the choice from it."""
    pairs = MAX_CANDIDATES**2 / 2.0
    if dim == 1:
        return 0.3 + pairs * PAIR_SECONDS + 60.0 * n * axis_method.ROW_SECONDS
    densities = components * (dim + 4) * (1024 + choice_rows(n) / 2.0)
    return 0.3 + 2.0 * pairs * densities * _DENSITY_SECONDS


METHOD = AxisMethod(
    name="list_decoding",
    learn=learn,
    draws=most_draws,
    prepare=check_feasible,
    seconds=seconds,
    refuses_inaccurate=True,
    needs_delta=True,
    least_rows=16,
)
