"""Algorithm 1 of paper C with its own constants, at the sizes that can run: one component, few columns, a large accuracy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from fastpubpriv.errors import InfeasibleError
from fastpubpriv.mixtures.choosing import choose, hypotheses_of
from fastpubpriv.mixtures.decoder_stages import Thresholds, release_means, release_scales
from fastpubpriv.mixtures.histogram import note
from fastpubpriv.mixtures.learned import Learned, Task
from fastpubpriv.mixtures.nets import gaussian_net, gaussian_net_size, mixture_net, mixture_net_size
from fastpubpriv.mixtures.theory_sizes import MixtureSizes, mixture_sizes, selection_rows
from fastpubpriv.privacy import Budget
from fastpubpriv.sources.slices import split_rows

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

MAX_CANDIDATES = 20_000
DECODER_SHARE = 18  # the decoder runs at accuracy / 18


def draws(n: int) -> int:
    """A bound on the noise draws of a run with n rows."""
    return 2200 * n + 2**16


def least_list(n_components: int, dim: int, accuracy: float) -> int:
    """Candidates when the decoder finds one coarse Gaussian in each column: fewer are not possible."""
    one = gaussian_net_size(accuracy / (DECODER_SHARE * dim)) ** dim
    return mixture_net_size(one, n_components, math.ceil(DECODER_SHARE * n_components / accuracy))


def check_feasible(
    n: int, n_components: int, dim: int, accuracy: float, budget: Budget, failure_prob: float
) -> MixtureSizes:
    """InfeasibleError, from public sizes alone, where theory mode cannot run; else the sizes of the theorem."""
    sizes = mixture_sizes(n_components, dim, accuracy, budget, failure_prob=failure_prob)
    # Counting a net of more than a few Gaussians takes long itself; its first power says enough.
    one = gaussian_net_size(accuracy / (DECODER_SHARE * dim)) ** dim
    least = one if one > MAX_CANDIDATES else least_list(n_components, dim, accuracy)
    advice = "pass method='auto', or public rows; theory mode suits one component, few columns and a large accuracy"
    if least > MAX_CANDIDATES:
        raise InfeasibleError(
            f"theory mode would have at least {least:.3g} candidates, and up to 10^{sizes.log10_candidates:.0f}, where "
            f"{MAX_CANDIDATES} can be compared ({n_components} components, {dim} columns, accuracy {accuracy:g}): {advice}"
        )
    choosing = selection_rows(math.log(MAX_CANDIDATES), accuracy, float(budget.amounts[0]), failure_prob)
    needed = sizes.variance_rows + sizes.mean_rows + choosing
    if n < needed:
        raise InfeasibleError(f"the theorem asks for {needed:,} rows, and there are {n:,}: {advice}")
    return sizes


def learn(task: Task, accuracy: float) -> Learned:
    """Coarse lists of every column, their nets, all mixtures of the net's Gaussians, and the choice."""
    run, k = task.run, task.n_components
    dim = run.rows.dim
    sizes = check_feasible(run.rows.n, k, dim, accuracy, run.account.budget, task.failure_prob)
    choosing = run.rows.n - sizes.variance_rows - sizes.mean_rows
    scale_rows, mean_rows, choice_rows = split_rows(run.rows, sizes.variance_rows, sizes.mean_rows, choosing)
    thresholds = Thresholds(min_weight=sizes.corruption_weight, theory=True)
    run.account.open()
    scales, released = release_scales(run.account.block(), scale_rows, thresholds, passes=run.passes)
    note(run, "scales", released)
    listed = [found.scales.tolist() for found in scales]
    means, second = release_means(run.account.block(), mean_rows, listed, thresholds, passes=run.passes)
    if second is not None:
        note(run, "means", second)
    coarse = [
        sorted(
            (
                (-float(count), float(mean), found.scale)
                for found in column
                for mean, count in zip(found.means, found.counts, strict=True)
            )
        )
        for column in means
    ]
    resolution = math.ceil(DECODER_SHARE * k / accuracy)
    kept = _fitting(coarse, k, resolution, accuracy / (DECODER_SHARE * dim))
    facts = {
        "coarse": [len(column) for column in coarse],
        "coarse_kept": [len(column) for column in kept],
        "corruption_weight": sizes.corruption_weight,
    }
    nets = [
        np.concatenate([gaussian_net(mean, scale, accuracy / (DECODER_SHARE * dim)) for _, mean, scale in column])
        if column
        else np.zeros((0, 2))
        for column in kept
    ]
    components = np.array(list(itertools.product(*nets))).reshape(-1, dim, 2)
    combined = list(mixture_net(len(components), k, resolution)) if len(components) else []
    picked = np.array([index for index, _ in combined], dtype=np.int64).reshape(-1, k)
    weights = np.array([weight for _, weight in combined]).reshape(-1, k)
    candidates = hypotheses_of(weights, components[picked, :, 0], components[picked, :, 1])
    # The theorem speaks of the whole list; one that was cut is a coarser answer, and says so.
    complete = all(len(column) == len(full) and column for column, full in zip(kept, coarse, strict=True))
    return choose(
        task, run.account.block(), choice_rows, candidates, status="ok" if complete else "empty", diagnostics=facts
    )


def _fitting(coarse: list[list[Any]], k: int, resolution: int, accuracy: float) -> list[list[Any]]:
    """The heaviest coarse Gaussians of each column, as many as the longest list that can be compared allows."""
    kept = [list(column) for column in coarse]
    one = gaussian_net_size(accuracy)
    while (
        all(kept) and mixture_net_size(math.prod(one * len(column) for column in kept), k, resolution) > MAX_CANDIDATES
    ):
        longest = max(kept, key=len)
        if len(longest) == 1:
            break
        longest.pop()
    return kept
