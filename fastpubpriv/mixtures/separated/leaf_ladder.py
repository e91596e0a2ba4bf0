"""The ladder for the leaves of a cluster tree: each on its own rung, all of them in joint releases.

Counts first; they decide the rungs. Then rounds of second moments for the leaves on the full rung, in step: shares and number of
rounds are those of the leaf that wants most. Last, one vector for every leaf that is not on the rung "public".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.ladder import learn
from fastpubpriv.estimators.ladder.full import FullRung, Resolved, mean_step_map
from fastpubpriv.estimators.ladder.public_base import PublicBase, column_scales, public_base, rough_base
from fastpubpriv.estimators.ladder.rungs import (
    MEAN_SHARES,
    Outlook,
    diagonal_radius,
    full_plan,
    mean_clip,
    mean_radius,
    outlook,
)
from fastpubpriv.estimators.ladder.schedule import EARLY_SHARES, LEAST_LAST, Noise
from fastpubpriv.kernels.tree import KeptNodes
from fastpubpriv.maps import RowTree
from fastpubpriv.mechanisms.axis_features import AxisFeatures
from fastpubpriv.mechanisms.leaf_vectors import LeafVector, LeafVectors
from fastpubpriv.mechanisms.leaves import LeafCounts, LeafSecondMoments
from fastpubpriv.mechanisms.sums import Released
from fastpubpriv.mixtures.separated.leaf_gaussians import LeafEstimates, leaf_costs
from fastpubpriv.mixtures.separated.tree import ClusterTree
from fastpubpriv.privacy import cluster_count_grid, cluster_gram_grid, cluster_sum_grid
from fastpubpriv.results.base import frozen
from fastpubpriv.run import Run

# A leaf whose count is not this many times its noise is taken to be empty.
FLOOR_DEVIATIONS = 10.0
FLOOR_ROWS = 10
# A relative covariance error predicted beyond this is never "ok": with public rows of its own, and with those around it alone.
WORST_OK = (1.0, 0.5)


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A leaf once its rows have been counted: its place, what public rows say, the predictions, and the rung it is on."""

    place: int
    base: PublicBase
    n: int
    view: Outlook
    structure: str
    low: bool


def leaf_ladder_draws(dim: int, n_leaves: int) -> int:
    """Upper bound on the noise draws of a leaf stage."""
    return n_leaves * (1 + learn.draws(dim))


def check_leaf_ladder_grids(dim: int, n: int, n_leaves: int, allowance: Fraction, *, pure: bool) -> None:
    """Raise now, before the debit, if a leaf stage of this size and cost has no integer grids."""
    costs, lineage = leaf_costs(allowance, pure=pure), ("check",)
    cluster_count_grid(costs.counts, n, pure=pure, clusters=n_leaves, lineage=lineage)
    for share in (*MEAN_SHARES, Fraction(1)):
        cluster_sum_grid(costs.learning * share, 2 * dim, n, pure=pure, clusters=n_leaves, lineage=lineage)
        for part in (*EARLY_SHARES, LEAST_LAST, Fraction(1)) if share < 1 else ():
            cost = costs.learning * (1 - share) * part
            cluster_gram_grid(cost, dim + 1, n, pure=pure, clusters=n_leaves, lineage=lineage)


def leaf_bases(tree: ClusterTree, leaves: Sequence[int], x_pub: FloatArray) -> list[PublicBase]:
    """What the public rows that reach each leaf say.

    A column whose values are equal in a leaf borrows its scale from the nearest node above in which they are not; so does every
    column of a leaf with a single public row, or equal ones.
    """
    found = []
    for leaf in leaves:
        path = tree.path(leaf)[::-1]
        rows = x_pub[tree.members(x_pub, leaf)]
        if not len(rows):
            raise InputError(f"no public row reaches node {leaf}; estimate its parent instead")
        around = np.full(x_pub.shape[1], np.nan)
        for node in path:
            if np.isfinite(around).all():
                break
            above = column_scales(x_pub[tree.members(x_pub, node)])
            around = np.where(np.isfinite(around), around, above)
        try:
            found.append(public_base(rows, around=around))
        except InputError:
            found.append(rough_base(rows.mean(axis=0), around, n_pub=len(rows)))
    return found


def learn_leaf_ladder(
    run: Run,
    tree: ClusterTree,
    leaves: Sequence[int],
    bases: Sequence[PublicBase],
    *,
    allowance: Fraction,
    structure: str = "auto",
    kept: KeptNodes | None = None,
) -> LeafEstimates:
    """Release counts, then what each leaf's rung asks for, of the rows that reach it; as `learn_leaves`, with the leaves that take
    part.

    `bases` are what public rows say about each leaf (`leaf_bases`), `structure` the rung of all leaves, or "auto", and `kept` what
    the search found out about the nodes of an array's rows.
    """
    account = run.account
    routes = tree.routes(leaves)
    if kept is not None:
        kept.watch(routes)
    if len(bases) != len(leaves):
        raise InputError(f"{len(leaves)} leaves need as many bases, got {len(bases)}")
    costs = leaf_costs(allowance, pure=account.pure)
    counted = run.release(LeafCounts(routes=routes), name="leaf counts", cost=costs.counts)
    count_noise = float(counted.noise_std[0])
    noise = Noise(account.pure, costs.learning, moving=True)
    floor = max(FLOOR_ROWS, math.ceil(FLOOR_DEVIATIONS * count_noise))
    grown = [
        _leaf(place, base, count, floor, run.rows.n, noise, structure)
        for place, (base, count) in enumerate(zip(bases, counted.value.tolist(), strict=True))
    ]
    full = [leaf for leaf in grown if leaf.structure == "full"]
    mean_share = max((leaf.view.mean_share for leaf in full), default=Fraction(1))
    resolved = _second_moments(run, routes, full, noise.part(1 - mean_share)) if full else {}
    climbed = _vectors(run, routes, grown, resolved, costs.learning * mean_share)
    return LeafEstimates(
        means=frozen([each.mean for each in climbed]),
        covariances=frozen([each.covariance for each in climbed]),
        counts=frozen(counted.value),
        count_noise_std=count_noise,
        status=tuple(_status(leaf, each) for leaf, each in zip(grown, climbed, strict=True)),
        rounds=max(each.rounds for each in climbed),
        mean_noise_std=frozen([each.mean_noise_std for each in climbed]),
        predicted_covariance_errors=frozen([each.covariance_error for each in climbed]),
        predicted_mean_errors=frozen([each.mean_error for each in climbed]),
        details=tuple(_details(leaf, each) for leaf, each in zip(grown, climbed, strict=True)),
    )


def _leaf(place: int, base: PublicBase, count: float, floor: int, n_priv: int, noise: Noise, structure: str) -> Leaf:
    """Decide the rung of a leaf by its released count."""
    n = max(floor, min(round(count), n_priv))
    view = outlook(base.strength, n, noise, pieces=False)
    best = view.best if structure == "auto" else structure
    low = count < floor
    return Leaf(place, base, n, view, "public" if low else best, low)


def _second_moments(run: Run, routes: RowTree, full: list[Leaf], noise: Noise) -> dict[int, tuple[Resolved, int]]:
    """All rounds, each one release for all leaves on the full rung; by place, what they gave and the number of rounds."""
    rungs = [FullRung(leaf.base, full_plan(leaf.base.strength, leaf.n, noise)) for leaf in full]
    while True:
        steps = [rung.step() for rung in rungs]
        share = max((step.share for step in steps if step.share is not None), default=None)
        radii = [rung.radius(share) for rung in rungs]
        released = run.release(
            LeafSecondMoments(
                routes=routes,
                affines=[rung.affine for rung in rungs],
                radii=radii,
                targets=tuple(leaf.place for leaf in full),
            ),
            name="leaf second moments, last" if share is None else f"leaf second moments, round {rungs[0].made + 1}",
            cost=noise.allowance * (rungs[0].left if share is None else share),
            clip_radius=max(radii),
        )
        answers = [
            Released(value=value, noise_std=std, event=released.event, spectral_std=spectral)
            for value, std, spectral in zip(
                released.value, released.noise_std.tolist(), released.spectral_std.tolist(), strict=True
            )
        ]
        if share is None:
            return {
                leaf.place: (rung.finish(answer, radius), rung.made)
                for leaf, rung, answer, radius in zip(full, rungs, answers, radii, strict=True)
            }
        for rung, answer, radius in zip(rungs, answers, radii, strict=True):
            rung.absorb(answer, radius, share)


def _vectors(
    run: Run, routes: RowTree, grown: list[Leaf], resolved: dict[int, tuple[Resolved, int]], cost: Fraction
) -> list[learn.Climbed]:
    """One vector for every leaf that is not public, and the estimates of all leaves."""
    taking = [leaf for leaf in grown if leaf.structure != "public"]
    answers: dict[int, Released] = {}
    if taking:
        vectors = [_vector(leaf, resolved) for leaf in taking]
        released = run.release(
            LeafVectors(routes=routes, vectors=vectors),
            name="leaf means",
            cost=cost,
            clip_radius=max(vector.radius for vector in vectors),
        )
        answers = {leaf.place: answer for leaf, answer in zip(taking, released.answers, strict=True)}
    found = []
    for leaf in grown:
        base, view, answer = leaf.base, leaf.view, answers.get(leaf.place)
        if answer is None:
            found.append(learn.public_rung(base, view))
        elif leaf.structure == "mean":
            found.append(learn.mean_rung(base, view, answer, leaf.n))
        elif leaf.structure == "diagonal":
            found.append(learn.diagonal_rung(base, view, answer, leaf.n))
        else:
            inner, rounds = resolved[leaf.place]
            found.append(
                learn.full_rung(base, view, inner, answer.value / leaf.n, answer.noise_std / leaf.n, leaf.n, rounds)
            )
    return found


def _vector(leaf: Leaf, resolved: dict[int, tuple[Resolved, int]]) -> LeafVector:
    """What a leaf asks of its rows last: a mean, a mean with squares, or the mean in whitened coordinates."""
    base = leaf.base
    if leaf.structure == "mean":
        return LeafVector(target=leaf.place, rule=base.affine, radius=mean_radius(base.strength))
    if leaf.structure == "diagonal":
        features = AxisFeatures(center=base.center, matrix=base.inverse)
        return LeafVector(target=leaf.place, rule=features, radius=diagonal_radius(base.strength))
    return LeafVector(
        target=leaf.place, rule=mean_step_map(base, resolved[leaf.place][0]), radius=mean_clip(base.strength.dim)
    )


def _status(leaf: Leaf, found: learn.Climbed) -> str:
    if leaf.low:
        return "low_count"
    if leaf.base.rough and found.structure != "full":
        return "rough"
    status = learn.status_of(found)
    if status == "ok" and not found.covariance_error <= WORST_OK[leaf.base.rough]:
        return "under_resolved"
    return "borrowed" if leaf.base.fallback and status in ("ok", "diagonal", "mean", "public") else status


def _details(leaf: Leaf, found: learn.Climbed) -> dict[str, Any]:
    """What a leaf tells about itself in the diagnostics."""
    return {
        "structure": found.structure,
        "rungs": {name: [each.covariance, each.mean] for name, each in leaf.view.rungs.items()},
        "fallback_columns": list(leaf.base.fallback),
        "base": leaf.base.source,
        **found.details,
    }
