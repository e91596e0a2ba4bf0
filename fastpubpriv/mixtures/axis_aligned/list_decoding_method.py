"""Algorithm 1 of paper C with its own constants, at the sizes that can run: one component, few columns, a large accuracy."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InfeasibleError, InputError
from fastpubpriv.mechanisms.histograms import check_memory
from fastpubpriv.mechanisms.selection import check_rows
from fastpubpriv.mixtures.axis_aligned.types import AxisMethod, Learned, Task, choose, choosing, hypotheses_of
from fastpubpriv.mixtures.list_decoding.decoders import (
    Thresholds,
    mean_partitions,
    release_means,
    release_scales,
    scale_partitions,
)
from fastpubpriv.mixtures.list_decoding.results import (
    DYADIC_SCALES,
    gaussian_net,
    gaussian_net_size,
    mean_rows,
    mean_steps,
    mixture_net,
    mixture_net_size,
    mixture_sizes,
    selection_rows,
)
from fastpubpriv.privacy import Budget, stable_event
from fastpubpriv.sources.views import split_rows

MAX_CANDIDATES = 20_000
DECODER_SHARE = 18  # the decoder runs at accuracy / 18


def draws(n: int, dim: int) -> int:
    """A bound on the noise draws of a run: the pairs' histograms, one for each scale that they may show, and the choice."""
    return (DYADIC_SCALES + 1) * n * dim + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Rows of the three blocks that the theorem asks for (the first is not needed when standard deviations are known)."""

    scales: int
    means: int
    choice: int
    corruption_weight: float


def fine_net(mean: float, scale: float, accuracy: float, *, known_std: bool) -> FloatArray:
    """Means and standard deviations (size, 2) around a coarse Gaussian; one standard deviation where it is known."""
    if not known_std:
        return gaussian_net(mean, scale, accuracy)
    means = mean + mean_steps(accuracy)
    return np.column_stack([means, np.ones_like(means)])


def net_size(accuracy: float, *, known_std: bool) -> int:
    """Length of `fine_net`."""
    return len(mean_steps(accuracy)) if known_std else gaussian_net_size(accuracy)


def least_list(n_components: int, dim: int, accuracy: float, *, known_std: bool = False) -> int:
    """Candidates when the decoder finds one coarse Gaussian in each column: fewer are not possible."""
    one = net_size(accuracy / (DECODER_SHARE * dim), known_std=known_std) ** dim
    return mixture_net_size(one, n_components, math.ceil(DECODER_SHARE * n_components / accuracy))


def check_feasible(
    n: int,
    n_components: int,
    dim: int,
    accuracy: float,
    budget: Budget,
    failure_prob: float,
    *,
    known_std: bool = False,
) -> Blocks:
    """InfeasibleError, from public sizes alone, where the algorithm cannot run; else the rows of its blocks."""
    # Counting a net of more than a few Gaussians takes long itself; its first power says enough.
    one = net_size(accuracy / (DECODER_SHARE * dim), known_std=known_std) ** dim
    least = one if one > MAX_CANDIDATES else least_list(n_components, dim, accuracy, known_std=known_std)
    advice = "pass method='auto', or public rows; list decoding suits one component, few columns and a large accuracy"
    if least > MAX_CANDIDATES:
        most = mixture_sizes(n_components, dim, accuracy, budget, failure_prob=failure_prob).log10_candidates
        raise InfeasibleError(
            f"list decoding would have at least {least:.3g} candidates, and up to 10^{most:.0f}, where "
            f"{MAX_CANDIDATES} can be compared ({n_components} components, {dim} columns, accuracy {accuracy:g}): {advice}"
        )
    if known_std:
        weight = accuracy / (DECODER_SHARE * n_components)
        share = failure_prob / (2.0 * n_components)
        scales, means = 0, mean_rows(weight, budget, share, histograms=dim)
    else:
        sizes = mixture_sizes(n_components, dim, accuracy, budget, failure_prob=failure_prob)
        weight, scales, means = sizes.corruption_weight, sizes.variance_rows, sizes.mean_rows
    choosing = selection_rows(math.log(MAX_CANDIDATES), accuracy, float(budget.amounts[0]), failure_prob)
    needed = scales + means + choosing
    if n < needed:
        raise InfeasibleError(f"the theorem asks for {needed:,} rows, and there are {n:,}: {advice}")
    return Blocks(scales=scales, means=means, choice=n - scales - means, corruption_weight=weight)


def learn(task: Task) -> Learned:
    """Coarse lists of every column, their nets, all mixtures of the net's Gaussians, and the choice."""
    run, k, known, accuracy = task.run, task.n_components, task.known_std, task.accuracy
    assert accuracy is not None
    dim = run.rows.dim
    blocks = check_feasible(run.rows.n, k, dim, accuracy, run.account.budget, task.failure_prob, known_std=known)
    thresholds = Thresholds(min_weight=blocks.corruption_weight, theory=True)
    sizes = [blocks.means, blocks.choice] if known else [blocks.scales, blocks.means, blocks.choice]
    *before, mean_block, choice_block = split_rows(run.rows, *sizes)
    epsilon, delta = run.account.approx_left
    if before:
        check_memory(scale_partitions(dim), before[0].n // 2, run.executor)
        stable_event(epsilon, delta, histograms=dim, n=before[0].n // 2, draws=dim * before[0].n)
    # As many histograms as there may be scales: fewer ask for less.
    most = dim if known else dim * thresholds.scale_bound
    check_memory(mean_partitions([[1.0] * min(most, dim * DYADIC_SCALES)]), mean_block.n, run.executor)
    stable_event(epsilon, delta, histograms=most, n=mean_block.n, draws=most * mean_block.n)
    check_rows(choice_block.n, dim)
    run.account.open()
    scales = [[1.0]] * dim
    if before:
        scales = [found.scales.tolist() for found in release_scales(run.block(before[0]), thresholds)]
    means = release_means(run.block(mean_block), scales, thresholds)
    # Heaviest first: (negative count, mean, scale).
    coarse = [
        sorted(
            (-float(count), float(mean), found.scale)
            for found in column
            for mean, count in zip(found.means, found.counts, strict=True)
        )
        for column in means
    ]
    resolution = math.ceil(DECODER_SHARE * k / accuracy)
    fine = accuracy / (DECODER_SHARE * dim)
    kept = _fitting(coarse, k, resolution, net_size(fine, known_std=known))
    nets = [
        np.concatenate([fine_net(mean, scale, fine, known_std=known) for _, mean, scale in column])
        if column
        else np.zeros((0, 2))
        for column in kept
    ]
    components = np.array(list(itertools.product(*nets))).reshape(-1, dim, 2)
    combined = list(mixture_net(len(components), k, resolution)) if len(components) else []
    picked = np.array([index for index, _ in combined], dtype=np.int64).reshape(-1, k)
    weights = np.array([weight for _, weight in combined]).reshape(-1, k)
    candidates = hypotheses_of(weights, components[picked, :, 0], components[picked, :, 1])
    facts = {
        "coarse": [len(column) for column in coarse],
        "coarse_kept": [len(column) for column in kept],
        "corruption_weight": blocks.corruption_weight,
    }
    return choose(task, run.block(choice_block), candidates, status=_status(coarse, kept), diagnostics=facts)


def _status(coarse: list[list[Any]], kept: list[list[Any]]) -> str:
    """What the lists of the columns say of the answer: the theorem speaks of lists that are compared whole."""
    if not all(kept):
        return "empty"
    return "ok" if kept == coarse else "shortlist"


def _fitting(coarse: list[list[Any]], k: int, resolution: int, net: int) -> list[list[Any]]:
    """The heaviest coarse Gaussians of each column, as many as the longest list that can be compared allows."""
    kept = [list(column) for column in coarse]
    while all(kept) and _length(kept, k, resolution, net) > MAX_CANDIDATES:
        longest = max(kept, key=len)
        if len(longest) == 1:
            break
        longest.pop()
    return kept


def _length(kept: list[list[Any]], k: int, resolution: int, net: int) -> int:
    components = math.prod(net * len(column) for column in kept)
    return components if components > MAX_CANDIDATES else mixture_net_size(components, k, resolution)


def prepare(
    n: int,
    n_components: int,
    dim: int,
    accuracy: float | None,
    budget: Budget,
    failure_prob: float,
    *,
    known_std: bool,
) -> None:
    """Refuse, from public sizes alone, what cannot run."""
    if accuracy is None:
        raise InputError("method='list_decoding' needs accuracy=, a total variation between 0 and 1")
    check_feasible(n, n_components, dim, accuracy, budget, failure_prob, known_std=known_std)


METHOD = AxisMethod(
    name="list_decoding",
    learn=learn,
    draws=lambda n, dim, components, known_std: draws(n, dim),
    prepare=prepare,
    seconds=partial(choosing, shares=(1, 1, 1)),
    candidates=MAX_CANDIDATES,
    shares=(1, 1, 1),
    refuses_inaccurate=True,
    needs_delta=True,
    least_rows=16,
)
