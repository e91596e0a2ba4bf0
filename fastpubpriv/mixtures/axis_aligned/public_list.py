"""A list of mixtures made from public rows, for a private choice at pure epsilon.

The list may depend on the public rows in any way, so all private rows are left for the choice, and the range of the data costs
nothing.
"""

from __future__ import annotations

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.mechanisms.selection import check_rows
from fastpubpriv.mixtures.axis_aligned import em
from fastpubpriv.mixtures.axis_aligned.em import PUBLIC_SEED, STD_FLOOR, Batch
from fastpubpriv.mixtures.axis_aligned.types import AxisMethod, Learned, Task, choose, choosing, hypotheses_of
from fastpubpriv.public_draws import draw_exponentials, draw_normals, draw_uniforms

PLAIN_STARTS = 20
BOOTSTRAPS = 100
_PRIOR = 0.3
_STEPS = 60
_DEPTH = 6.0  # a fit this many units of log likelihood below the best gets 1 / e of its points
_SPREAD = (0.3, 1.5)  # of a standard error, between the fits and the points around them
_PAIR_STARTS = 200
_EMPTIEST = 0.01


def standardised(public: FloatArray, *, known_std: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Public rows with mean zero and (unless standard deviations are known) standard deviation one; centre and scale."""
    with np.errstate(over="ignore"):
        center = public.mean(axis=0)
        scale = np.ones(public.shape[1]) if known_std else public.std(axis=0)
    if not (np.isfinite(center).all() and np.isfinite(scale).all()):
        raise InputError("x_pub spans more than a double can square: divide the columns by a constant")
    scale = np.where(scale > 0.0, scale, np.maximum(np.abs(center), 1.0))
    return (public - center) / scale, center, scale


def fits(rows: FloatArray, components: int, *, known_std: bool) -> Batch:
    """EM on the rows from several starts, and on random weightings of them (the Bayesian bootstrap), likeliest first."""
    size = PLAIN_STARTS + BOOTSTRAPS
    drawn = draw_exponentials((BOOTSTRAPS, len(rows)), random_state=PUBLIC_SEED + 1)
    counts = np.concatenate([np.ones((PLAIN_STARTS, len(rows))), drawn])
    centres = em.starts(rows, components, size, seed=PUBLIC_SEED)
    found = em.fit(rows, centres, counts=counts, steps=_STEPS, prior=_PRIOR, fixed_std=known_std)
    return found[em.likeliest(found, rows)]


def scattered(heads: Batch, score: FloatArray, n_pub: int, size: int, *, known_std: bool) -> Batch:
    """Points around the fits, a random fraction of their own standard errors away, more around the likelier ones."""
    components, dim = heads.means.shape[1:]
    share = np.exp(np.maximum(score - score.max(), -400.0) / _DEPTH)
    uniform = draw_uniforms((size, 2), random_state=PUBLIC_SEED + 2)
    normal = draw_normals((size, components, 2 * dim + 1), random_state=PUBLIC_SEED + 3)
    picked = np.minimum(np.searchsorted(np.cumsum(share) / share.sum(), uniform[:, 0]), heads.size - 1)
    reach = (_SPREAD[0] + (_SPREAD[1] - _SPREAD[0]) * uniform[:, 1])[:, None]
    weights, means, stds = heads.weights[picked], heads.means[picked], heads.stds[picked]
    held = np.maximum(weights * n_pub, 1.0)
    root = (reach / np.sqrt(held))[:, :, None]
    means = means + stds * root * normal[:, :, :dim]
    if not known_std:
        stds = stds * np.exp(root / np.sqrt(2.0) * normal[:, :, dim : 2 * dim])
    weights = weights + reach * np.sqrt(weights * (1.0 - weights) / n_pub) * normal[:, :, -1]
    weights = np.clip(weights, _EMPTIEST, 1.0)
    return Batch(weights / weights.sum(axis=1, keepdims=True), means, stds)


def from_pairs(rows: FloatArray, components: int, size: int, *, known_std: bool) -> Batch:
    """Components that two public rows describe, a mean and a distance (sample compression): the likeliest combinations.

    Every component of weight w needs no more than two public rows, so this part of the list is good even where EM has too few.
    """
    n = len(rows)
    centres = em.starts(rows, components, _PAIR_STARTS, seed=PUBLIC_SEED + 4)
    uniform = draw_uniforms((_PAIR_STARTS, components, 2), random_state=PUBLIC_SEED + 5)
    away = np.einsum("skd,skd->sk", centres, centres)[:, :, None] - 2.0 * centres @ rows.T
    near = np.argsort(away + np.einsum("nd,nd->n", rows, rows), axis=2)
    reach = max(1, n // components - 1)
    place = 1 + np.minimum((uniform[:, :, 0] * reach).astype(np.int64), n - 2)
    partner = rows[np.take_along_axis(near, place[:, :, None], axis=2)[:, :, 0]]
    octave = 2.0 ** np.floor(3.0 * uniform[:, :, 1, None] - 1.0)
    stds = np.ones_like(centres) if known_std else np.abs(partner - centres) * np.sqrt(0.5) * octave
    batch = Batch(np.full((_PAIR_STARTS, components), 1.0 / components), centres, np.maximum(stds, 20.0 * STD_FLOOR))
    held = em.step(batch, rows, None, prior=_PRIOR, spread=1.0, fixed_std=known_std)
    batch = Batch(held.weights, batch.means, batch.stds)
    return batch[em.likeliest(batch, rows)[:size]]


def public_candidates(public: FloatArray, components: int, size: int, *, known_std: bool = False) -> Batch:
    """Up to `size` mixtures of at most `components` axis-aligned Gaussians that the public rows make likely."""
    rows, center, scale = standardised(public, known_std=known_std)
    parts = [fits(rows, fewer, known_std=known_std)[:3] for fewer in range(1, components)]
    heads = fits(rows, components, known_std=known_std)
    parts.append(heads)
    few = max(1, size // 20)
    parts.append(from_pairs(rows, components, few, known_std=known_std))
    left = size - sum(part.size for part in parts)
    if left > 0:
        score = len(rows) * em.log_likelihood(heads, rows)
        parts.append(scattered(heads, score, len(rows), left, known_std=known_std))
    found = em.stacked(parts)[:size]
    return Batch(found.weights, center + scale * found.means, scale * found.stds)


def learn(task: Task) -> Learned:
    """The list from the public rows, the choice from all private rows."""
    if task.public is None:
        raise InputError("method='public_list' makes its list from public rows: pass x_pub")
    found = public_candidates(task.public, task.n_components, task.candidates, known_std=task.known_std)
    listed = hypotheses_of(found.weights, found.means, found.stds)
    check_rows(task.run.rows.n, task.run.rows.dim)
    task.run.account.open()
    return choose(task, task.run, listed, status="ok", diagnostics={})


METHOD = AxisMethod(
    name="public_list",
    learn=learn,
    draws=lambda n, dim, components, known_std: 1,
    seconds=choosing,
    candidates=1000,
    choice_only=True,
    needs_public=True,
)
