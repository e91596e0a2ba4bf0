"""Subsets of atoms whose positive least squares explain noisy counts: a search that keeps the best of each size."""

from __future__ import annotations

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.mixtures.axis_aligned.binned_em import Cells, Mixtures, cell_masses

_BEAM = 48
# Subsets that are looked at for the beam: these many first, and that many where those are too much alike.
_FIRST_LOOK, _LAST_LOOK = 8 * _BEAM, 40 * _BEAM
_LEAST_PIVOT, _TRUSTED = 1e-4, 1e-6
_BATCH = 1 << 20  # numbers in an array of many small systems


def linear(cells: Cells, found: Mixtures) -> tuple[FloatArray, FloatArray]:
    """Expected counts of the atoms, and the same weighted by precision."""
    smooth = np.maximum(cells.counts, 0.0)
    precision = 1.0 / (cells.noise_std**2 + smooth)
    shapes = cells.total * cell_masses(found, cells.edges)[:, 0, :]
    return shapes, shapes * precision


def gains(cells: Cells, found: Mixtures) -> FloatArray:
    """What each atom alone explains of the counts."""
    gain = np.empty(found.size)
    size = max(1, _BATCH // len(cells.edges))
    for first in range(0, found.size, size):
        shapes, weighted = linear(cells, found[first : first + size])
        lengths = np.einsum("ac,ac->a", weighted, shapes)
        gain[first : first + size] = np.maximum(weighted @ cells.counts, 0.0) ** 2 / np.maximum(lengths, 1e-300)
    return gain


def _explained(gram: FloatArray, product: FloatArray, subsets: IntArray) -> tuple[FloatArray, FloatArray]:
    """Least squares of the counts on each subset of atoms: shares, and what they explain; -inf where one is not positive."""
    count, size = subsets.shape
    shares, gain = np.empty((count, size)), np.empty(count)
    step = max(1, _BATCH // (size * size))
    for first in range(0, count, step):
        part = subsets[first : first + step]
        matrix = gram[part[:, :, None], part[:, None, :]]
        ridge = 1e-9 * np.einsum("spp->sp", matrix)
        right = product[part]
        solved = np.linalg.solve(matrix + ridge[:, :, None] * np.eye(size), right[:, :, None])[:, :, 0]
        shares[first : first + step] = solved
        gain[first : first + step] = np.where(np.all(solved > 0.0, axis=1), np.sum(solved * right, axis=1), -np.inf)
    return shares, gain


def _shortlist(gram: FloatArray, product: FloatArray, subsets: IntArray, most: int) -> IntArray:
    """Subsets with one atom more (rows of ascending numbers, each once), among which are the `most` that explain most.

    What an atom adds to a subset is a Schur complement, which costs a fraction of a system of its own. It is trusted to 1e-6, where
    its error is below 1e-8 (pivots of at least 1e-4 of their diagonal); all in doubt stay on the list, for `_explained` to decide.
    """
    size, diagonal = subsets.shape[1], np.diagonal(gram)
    inner = gram[subsets[:, :, None], subsets[:, None, :]]
    roots = np.sqrt(np.einsum("sii->si", inner))
    scaled = inner / (roots[:, :, None] * roots[:, None, :])
    sound = np.isfinite(scaled).all(axis=(1, 2))
    sound &= np.linalg.eigvalsh(np.where(sound[:, None, None], scaled, np.eye(size)))[:, 0] >= _LEAST_PIVOT
    inner = inner + 1e-9 * np.einsum("sii->si", inner)[:, :, None] * np.eye(size)
    right, rows = product[subsets], gram[subsets]
    solved = np.linalg.solve(inner, np.concatenate([right[:, :, None], rows], axis=2))
    alone, others = solved[:, :, 0], solved[:, :, 1:]
    pivot = diagonal * (1.0 + 1e-9) - np.sum(rows * others, axis=1)
    rest = product - np.einsum("sia,si->sa", rows, alone)
    share = rest / pivot
    gain = np.sum(alone * right, axis=1)[:, None] + rest * share
    lengths = np.concatenate([(alone[:, :, None] - others * share[:, None, :]) * roots[:, :, None],
                              (share * np.sqrt(diagonal))[:, None, :]], axis=1)  # fmt: skip
    least = np.min(lengths, axis=1) / np.sqrt(np.sum(lengths * lengths, axis=1))
    sure = sound[:, None] & (pivot >= _LEAST_PIVOT * diagonal) & np.isfinite(gain) & np.isfinite(least)
    ranked = np.sort(gain[sure & (least > _TRUSTED)])[::-1]
    # A subset is met once for each of its atoms.
    enough = ranked[most * (size + 1) - 1] if len(ranked) >= most * (size + 1) else -np.inf
    kept = ~sure | ((least > -_TRUSTED) & (gain >= enough - _TRUSTED * abs(enough)))
    np.put_along_axis(kept, subsets, False, axis=1)
    base, atom = np.nonzero(kept)
    return np.unique(np.sort(np.column_stack([subsets[base], atom]), axis=1), axis=0)


def _grown(
    found: Mixtures, gram: FloatArray, product: FloatArray, subsets: IntArray
) -> tuple[IntArray, FloatArray] | None:
    """The best subsets with one atom more, and their shares; None if no subset has positive ones."""
    for most in (_FIRST_LOOK, _LAST_LOOK):
        grown = _shortlist(gram, product, subsets, most) if subsets.shape[1] else np.arange(found.size)[:, None]
        if not len(grown):
            return None
        shares, gain = _explained(gram, product, grown)
        keep = _apart(found, grown, np.argsort(-gain)[:most])
        keep = keep[np.isfinite(gain[keep])]
        if len(keep) == _BEAM:
            break
    return (grown[keep], shares[keep]) if len(keep) else None


def beam(cells: Cells, found: Mixtures, components: int) -> list[Mixtures]:
    """For each number of components, the subsets of atoms whose positive least squares explain the counts best."""
    shapes, weighted = linear(cells, found)
    gram, product = weighted @ shapes.T, weighted @ cells.counts
    subsets = np.zeros((1, 0), dtype=np.int64)
    levels: list[Mixtures] = []
    for _ in range(components):
        grown = _grown(found, gram, product, subsets)
        if grown is None:
            break
        subsets, shares = grown
        weights = np.maximum(shares, 1e-3)
        levels.append(
            Mixtures(weights / weights.sum(axis=1, keepdims=True), found.means[subsets, 0], found.stds[subsets, 0])
        )
    return levels


def _apart(found: Mixtures, grown: IntArray, order: IntArray) -> IntArray:
    """The best subsets, those left out that differ from a better one by a neighbouring atom only."""
    octave = np.rint(np.log2(found.stds[:, 0]))
    place = np.floor(found.means[:, 0] / (2.0 * found.stds[:, 0]))
    kept: list[int] = []
    seen: set[tuple[tuple[float, float], ...]] = set()
    for index in order.tolist():
        key = tuple(sorted((octave[atom], place[atom]) for atom in grown[index].tolist()))
        if key not in seen:
            seen.add(key)
            kept.append(index)
        if len(kept) == _BEAM:
            break
    return np.array(kept, dtype=np.int64)
