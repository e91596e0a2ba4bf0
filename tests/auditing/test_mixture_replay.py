"""Record and replay of the mixture learners: no release moves by more than it declares, the total is the formula's, and nothing
passes the releases by. The comparison is exact (integers and fractions): there are no false alarms.

Neighbors are chosen after the recording, knowing the tree that was released: rows that move between clusters, sit on the surface
of a ball or between two centers, overflow, or are missing.
"""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from helpers.errors import raises

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    BudgetError,
    PureDP,
    ReplayError,
    learn_separated_mixture,
    no_public_baseline,
)
from fastpubpriv.auditing import record_replay
from fastpubpriv.auditing import replay as auditing
from fastpubpriv.mixtures import fit
from fastpubpriv.mixtures.separated import search_state, searches, without_public
from fastpubpriv.privacy.calibrated_budget import gaussian_rho, laplace_epsilon
from fastpubpriv.release.transcript import recording

pytestmark = [
    # matrices are small: a second thread would only wait
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.PrivacyWarning"),
]

DIM = 3
K = 3
CENTERS = np.array([[0.0, 0.0, 0.0], [400.0, 0.0, 0.0], [0.0, 400.0, 100.0]])
RNG = np.random.default_rng(17)
LABELS = np.arange(360) % K
ROWS = CENTERS[LABELS] + RNG.normal(size=(360, DIM))
PUBLIC = CENTERS[np.arange(36) % K] + RNG.normal(size=(36, DIM))
BUDGETS = {"zcdp": ZCDP(50), "approx": ApproxDP(8, 1e-6), "pure": PureDP(8)}
COMMON = {"threads": 1, "progress": False}
METHODS = {
    "tree": {"method": "tree"},
    "one shot": {"method": "one_shot"},
    "public": {"method": "public_pca"},
    "soft EM": {"method": "soft_em"},
    "algorithms 6 and 7": {"method": "tree", "mode": "theory"},
    "algorithms 9 and 10": {"method": "public_pca", "mode": "theory"},
}
PURE = ("public", "soft EM", "algorithms 9 and 10")


def learner(budget, options, **more):
    given = {"x_pub": PUBLIC, "n_components": K, "min_weight": 0.2, **COMMON, **options, **more}
    return lambda x: learn_separated_mixture(x, budget=budget, **given)


def baseline(budget):
    return lambda x: no_public_baseline(x, n_components=K, radius=600.0, budget=budget, **COMMON)


CASES = [
    pytest.param(BUDGETS[notion], learner(BUDGETS[notion], options), id=f"{notion}: {name}")
    for notion in BUDGETS
    for name, options in METHODS.items()
    if notion != "pure" or name in PURE
] + [
    pytest.param(BUDGETS[notion], baseline(BUDGETS[notion]), id=f"{notion}: baseline")
    for notion in ("zcdp", "approx")
]


class Recording:
    """One run, and its comparison with neighbors that are replayed against it."""

    def __init__(self, run, rows, budget):
        self.run = run
        self.rows = rows
        self.budget = budget
        with recording() as transcript:
            self.result = run(rows)
        self.calls = transcript.calls
        draws = sum(call.event.draws for call in self.calls)
        self.allowance = (laplace_epsilon if isinstance(budget, PureDP) else gaussian_rho)(
            budget, draws
        )

    def neighbor(self, index, row):
        """Replay with one row replaced; returns exact cost of the pair and declared cost."""
        other = self.rows.copy()
        other[index] = row
        with recording(script=self.calls) as replayed:
            result = self.run(other)
        assert len(replayed.calls) == len(self.calls)
        calls = zip(self.calls, replayed.calls, strict=True)
        pair, declared = auditing.totals(
            (one, *auditing.compare(one, two, type(self.budget))) for one, two in calls
        )
        assert declared <= self.allowance * (1 + Fraction(1, 10**9))
        assert pair <= declared
        if auditing.fingerprint(result) != auditing.fingerprint(self.result):
            raise ReplayError("the results differ although every released value was the same")
        return pair, declared


def on_surfaces(tree, rng):
    """Rows on the surface of each released ball, and between each two centers, with one unit in the last place either way."""
    for split in () if tree is None else tree.splits:
        if split is None:
            continue
        back = np.eye(tree.dim) if split.projection is None else split.projection
        if len(split.centers) == 1:
            direction = rng.normal(size=back.shape[0])
            at = split.centers[0] + np.sqrt(split.radius_sq) * direction / np.linalg.norm(direction)
        else:
            first, second = rng.choice(len(split.centers), size=2, replace=False)
            at = (split.centers[first] + split.centers[second]) / 2.0
        row = split.origin + back.T @ at
        yield from (row, np.nextafter(row, np.inf), np.nextafter(row, -np.inf))


HOSTILE = [
    np.full(DIM, np.nan),
    np.array([0.0, np.inf, 0.0]),
    np.array([-np.inf, np.nan, 0.0]),
    np.full(DIM, 1e308),
    np.array([-1e308, 1e308, 0.0]),
    np.full(DIM, 5e-324),
    np.array([1e12, 0.0, 0.0]),
    np.array([0.0, -1e12, 0.0]),
]


def neighbors(recording, rng):
    """(index, row): moves into every other cluster, surfaces, hostile rows, copies, and random rows at several scales."""
    yield from ((index, CENTERS[(index + 1) % K] + rng.normal(size=DIM)) for index in range(3))
    yield from ((4, recording.rows[other]) for other in (5, 6))
    yield from ((int(rng.integers(360)), row) for row in on_surfaces(recording.result.tree, rng))
    yield from ((int(rng.integers(360)), row) for row in HOSTILE)
    yield from (
        (int(rng.integers(360)), rng.normal(size=DIM) * 10.0 ** rng.integers(-3, 7))
        for _ in range(6)
    )


@pytest.mark.parametrize(("budget", "run"), CASES)
def test_neighbors_keep_the_promise(budget, run):
    recording = Recording(run, ROWS, budget)
    for index, row in neighbors(recording, np.random.default_rng(1)):
        recording.neighbor(index, row)


# ---- Without public rows: blocks of rows with histograms at the whole budget, which `record_replay` accounts for.


def overlapping(gap):
    """Rows of two components `gap` deviations apart, as few as pass the thresholds of large budgets."""
    rows = np.random.default_rng(18).normal(size=(1_200, DIM))
    rows[::2] += gap / np.sqrt(DIM)
    return rows


def without_public_rows(budget):
    return learner(budget, {"x_pub": None, "n_components": 2})


def replaced(rows, place, row):
    other = rows.copy()
    other[place] = row
    return rows, other


@pytest.mark.parametrize("gap", [6.0, 1e4])
@pytest.mark.parametrize("budget", [ApproxDP(2, 1e-6), ApproxDP(60, 1e-6)], ids=["2", "60"])
def test_without_public_rows_neighbors_keep_the_promise(budget, gap):
    rng = np.random.default_rng(19)
    rows = overlapping(gap)
    for row in (30.0 * rng.normal(size=DIM), HOSTILE[0], HOSTILE[4]):
        pair = replaced(rows, int(rng.integers(len(rows))), row)
        report = record_replay(without_public_rows(budget), *pair, budget=budget)
        most = report.allowance * (1 + Fraction(1, 10**9))
        assert report.pair_cost <= report.declared_cost <= most


@pytest.mark.parametrize("gap", [6.0, 1e4])
@pytest.mark.parametrize("budget", [ZCDP(2), PureDP(8)], ids=repr)
def test_within_bounds_neighbors_keep_the_promise(budget, gap):
    rng = np.random.default_rng(19)
    rows = overlapping(gap)
    run = learner(budget, {"x_pub": None, "n_components": 2, "bounds": (-1e6, 1e6)})
    for row in (30.0 * rng.normal(size=DIM), HOSTILE[0], HOSTILE[4]):
        pair = replaced(rows, int(rng.integers(len(rows))), row)
        report = record_replay(run, *pair, budget=budget)
        most = report.allowance * (1 + Fraction(1, 10**9))
        assert report.pair_cost <= report.declared_cost <= most


def test_without_public_rows_an_answer_that_bypasses_release_is_caught(monkeypatch):
    original = without_public.learn

    def leaky(task, plan):
        found = original(task, plan)
        private = next(iter(task.run.rows.chunks()))
        at = found.state.at
        at = dataclasses.replace(at, means=at.means + 1e-12 * private[300, 0])
        return dataclasses.replace(found, state=dataclasses.replace(found.state, at=at))

    monkeypatch.setattr(without_public, "learn", leaky)
    budget = ApproxDP(60, 1e-6)
    pair = replaced(overlapping(6.0), 300, np.full(DIM, 77.0))
    run = without_public_rows(budget)
    raises(ReplayError, "leaked past release", record_replay, run, *pair, budget=budget)


def test_without_public_rows_directions_that_follow_the_rows_are_caught(monkeypatch):
    """Directions turned by a private row: frequencies, and so the sketch, are no function of released values."""
    budget = ApproxDP(60, 1e-6)
    pair = replaced(overlapping(6.0), 300, np.full(DIM, 77.0))
    original = without_public.find_mixture

    def following(task, run, groups, frames, costs):
        private = next(iter(task.run.rows.chunks()))
        frames.deviations *= 1.0 + 1e-3 * abs(private[300, 0])
        return original(task, run, groups, frames, costs)

    monkeypatch.setattr(without_public, "find_mixture", following)
    run = without_public_rows(budget)
    raises(ReplayError, "sensitivity allows", record_replay, run, *pair, budget=budget)


@pytest.mark.audit
@pytest.mark.parametrize(("budget", "run"), CASES)
def test_many_recordings(budget, run):
    rng = np.random.default_rng(2)
    for _ in range(8):
        rows = CENTERS[rng.integers(K, size=360)] + rng.normal(
            size=(360, DIM)
        ) * 10.0 ** rng.integers(-2, 3)
        rows[rng.integers(360)] = HOSTILE[rng.integers(len(HOSTILE))]
        recording = Recording(run, rows, budget)
        for _ in range(3):
            for index, row in neighbors(recording, rng):
                recording.neighbor(index, row)


@pytest.mark.parametrize(("budget", "run"), CASES)
def test_one_and_two_private_rows_per_cluster_and_hostile_neighbors(budget, run):
    for copies in (1, 2):
        recording = Recording(run, np.repeat(CENTERS, copies, axis=0), budget)
        for row in HOSTILE:
            recording.neighbor(0, row)


def test_the_practical_tree_cuts_here():
    """Else the tests above would see roots only."""
    result = learner(BUDGETS["zcdp"], METHODS["tree"])(ROWS)
    assert result.n_components == K
    assert result.diagnostics["depth"] >= 1


def test_a_replacement_in_the_first_node_costs_nearly_its_share():
    """Orthogonal extreme rows change the directions by all that is allowed."""
    budget = BUDGETS["zcdp"]
    recorded = Recording(
        learner(budget, METHODS["one shot"]), np.vstack([ROWS, [[1e12, 0.0, 0.0]]]), budget
    )
    with recording(script=recorded.calls) as replayed:
        recorded.run(np.vstack([ROWS, [[0.0, 0.0, 1e12]]]))
    cost, price = auditing.compare(recorded.calls[0], replayed.calls[0], ZCDP)
    assert recorded.calls[0].name == "node 0: directions"
    assert Fraction(95, 100) * price <= cost <= price
    assert price >= Fraction(99, 100) * recorded.calls[0].reserve.cost


def caught(monkeypatch, module, name, fault, match, method="tree"):
    monkeypatch.setattr(module, name, fault)
    recording = Recording(learner(BUDGETS["zcdp"], METHODS[method]), ROWS, BUDGETS["zcdp"])

    def replay_all():
        for index, row in neighbors(recording, np.random.default_rng(1)):
            recording.neighbor(index, row)

    raises((ReplayError, AssertionError), match, replay_all)


def test_catches_a_cut_that_looks_at_private_rows(monkeypatch):
    original = searches.valley
    seen = {}

    def peeking(self, *arguments, **options):
        released = original_counts(self, *arguments, **options)
        seen["value"] = float(np.nansum(np.clip(next(iter(self.run.rows.chunks())), -1e3, 1e3)))
        return released

    def shifted(counts, edges, **options):
        found = original(counts, edges, **options)
        return found and {**found, "radius": found["radius"] * (1.0 + 1e-12 * seen["value"])}

    original_counts = search_state.Search.radial_counts
    monkeypatch.setattr(search_state.Search, "radial_counts", peeking)
    caught(monkeypatch, searches, "valley", shifted, "differ|depends|moved")


def test_catches_directions_of_unclipped_rows(monkeypatch):
    original = search_state.SecondMoment.release

    def farther(self, payer, rows, executor, **options):
        largest = max(
            float(np.nanmax(np.abs(chunk), initial=0.0, where=np.isfinite(chunk)))
            for chunk in rows.chunks()
        )
        far = dataclasses.replace(self, radius=max(self.radius, min(largest, 1e100)))
        return original(far, payer, rows, executor, **options)

    caught(monkeypatch, search_state.SecondMoment, "release", farther, "depends on private rows")


@pytest.mark.parametrize("method", ["algorithms 6 and 7", "algorithms 9 and 10"])
def test_catches_a_count_of_theory_whose_cells_follow_other_rows(monkeypatch, method):
    original = fit.cell_codes

    def following(chunk, **given):
        (codes,) = original(chunk, **given)
        missing = np.count_nonzero(codes < 0)
        return [np.where(codes < 0, codes, codes ^ (missing % 2))]

    caught(monkeypatch, fit, "cell_codes", following, "fit", method)


@pytest.mark.parametrize("notion", BUDGETS)
def test_theory_counts_its_fit_last(notion):
    options = METHODS["algorithms 9 and 10"]
    recorded = Recording(learner(BUDGETS[notion], options), ROWS, BUDGETS[notion])
    assert recorded.calls[-1].name == "fit"
    assert recorded.result.fit_interval is not None


def test_catches_a_tree_that_asks_too_often(monkeypatch):
    """A scope for one node on a path cannot pay for the next one below."""
    centers = np.array([[0.0, 0.0, 0.0], [30.0, 0.0, 0.0], [0.0, 9000.0, 0.0], [40.0, 9000.0, 0.0]])
    rng = np.random.default_rng(0)
    rows = centers[np.arange(4000) % 4] + rng.normal(size=(4000, DIM))
    public = centers[np.arange(80) % 4] + rng.normal(size=(80, DIM))

    def run():
        return learn_separated_mixture(
            rows,
            x_pub=public,
            n_components=4,
            min_weight=0.2,
            budget=BUDGETS["zcdp"],
            method="tree",
            **COMMON,
        )

    assert run().diagnostics["depth"] >= 2
    monkeypatch.setattr(searches, "tree_depth", lambda method, shape: 1)
    raises(BudgetError, "has no budget", run)
    # Nor can it be talked into it by a wrong depth.
    monkeypatch.setattr(search_state.Search, "payer", lambda self, node: self.scope.node(0))
    raises(BudgetError, "nodes above this one have paid", run)
