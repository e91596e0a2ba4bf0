"""learn_separated_mixture and its baselines: answers, choices by public shapes, costs, sources, and what a result holds."""

import json
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from mixture_cases import errors_of, matched, separated

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    BudgetError,
    ClusterTree,
    InputError,
    PureDP,
    Rows,
    SeededNoiseWarning,
    learn_separated_mixture,
    no_public_baseline,
    public_only,
)
from fastpubpriv.mixtures.separated.searches import METHODS, Shape, choose_method, tree_depth
from fastpubpriv.release.transcript import recording

pytestmark = pytest.mark.usefixtures("one_blas_thread")  # matrices are small: a second thread would only wait

DIM, K = 3, 3
RNG = np.random.default_rng(5)
MIXTURE = separated(RNG, DIM, K, 30.0)
ROWS, LABELS = MIXTURE.draw(RNG, 30_000)
PUBLIC = MIXTURE.of(RNG, np.arange(36) % K)


FAR = separated(np.random.default_rng(8), DIM, K, 3000.0)
FAR_ROWS, FAR_LABELS = FAR.draw(np.random.default_rng(9), 30_000)
FAR_PUBLIC = FAR.of(np.random.default_rng(10), np.arange(36) % K)


def learn(rows=ROWS, *, budget=None, public=PUBLIC, **options):
    settings = {"n_components": K, "min_weight": 0.2, "progress": False, **options}
    return learn_separated_mixture(rows, x_pub=public, budget=budget or ZCDP(1), **settings)


def seeded(rows, **options):
    with pytest.warns(SeededNoiseWarning):
        return learn(rows, random_state=7, **options)


@pytest.mark.parametrize("method", METHODS)
def test_finds_and_describes_the_components(method):
    result = learn(method=method)
    assert result.status == ("ok",) * K
    covariance, mean, weight = errors_of(result, MIXTURE)
    # Predicted about 0.05 and 0.02 with standard deviations of the same order; ten times that has no probability to speak of.
    assert covariance.max() < 0.5
    assert mean.max() < 0.3
    assert np.abs(weight).max() < 0.05
    assert result.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert matched(result.tree.assign(ROWS[:2000]), LABELS[:2000]) > 0.99
    assert (result.n_priv, result.n_pub, result.dim, result.private) == (30_000, 36, DIM, True)
    assert result.diagnostics["n_components_found"] == K
    assert len(result.diagnostics["leaves"]) == K
    # The component that the density prefers is the leaf that the tree sends a row to.
    order = {leaf: index for index, leaf in enumerate(result.diagnostics["leaves"])}
    assert [order[leaf] for leaf in result.tree.assign(ROWS[:100])] == result.predict(ROWS[:100]).tolist()


@pytest.mark.parametrize("method", ["tree", "public_pca"])
def test_theory_far_apart(method):
    """The proofs want separations of about a hundred standard deviations, and rows enough for their thresholds."""
    result = learn(FAR_ROWS, public=FAR_PUBLIC, mode="theory", method=method, budget=ZCDP(20))
    assert result.method == f"{method}, theory"
    assert result.n_components == K
    assert matched(result.tree.assign(FAR_ROWS), FAR_LABELS) > 0.99
    assert errors_of(result, FAR)[1].max() < 0.3


@pytest.mark.parametrize("budget", [ApproxDP(4, 1e-6), PureDP(8)])
def test_each_notion_of_budget_finds_the_groups(budget):
    result = learn(budget=budget, method="public_pca")
    assert result.spent == budget
    assert np.abs(errors_of(result, MIXTURE)[2]).max() < 0.05
    noise = {release["noise"] for release in result.releases}
    assert noise == ({"discrete laplace"} if isinstance(budget, PureDP) else {"gaussian"})


@pytest.mark.parametrize("method", ["tree", "one_shot"])
def test_pure_budgets_cannot_pay_for_a_private_search(method):
    with pytest.raises(BudgetError, match="public_pca"):
        learn(budget=PureDP(1), method=method)
    assert learn(budget=PureDP(8)).method == "public_pca"


@pytest.mark.parametrize(
    ("n_pub", "dim", "k", "mode", "pure", "expected"),
    [
        (8, 200, 4, "practical", False, "one_shot"),
        (39, 200, 4, "practical", False, "one_shot"),
        (40, 200, 4, "practical", False, "tree"),
        (999, 200, 4, "practical", False, "tree"),
        (1000, 200, 4, "practical", False, "public_pca"),
        (8, 200, 4, "practical", True, "public_pca"),
        (8, 200, 1, "practical", False, "public_pca"),
        (1000, 200, 4, "theory", False, "tree"),
        (5000, 200, 4, "theory", False, "public_pca"),
    ],
)
def test_auto_goes_by_public_shapes(n_pub, dim, k, mode, pure, expected):
    shape = Shape(dim=dim, n_pub=n_pub, n_components=k, min_weight=0.2, mode=mode, failure_prob=0.1)
    assert choose_method("auto", shape, pure=pure).name == expected
    assert choose_method("tree", shape, pure=False).name == "tree"


def test_depths_of_the_searches():
    shape = Shape(dim=5, n_pub=50, n_components=4, min_weight=0.2, mode="practical", failure_prob=0.1)
    assert [tree_depth(METHODS[name], shape) for name in ("tree", "one_shot", "public_pca")] == [3, 1, 0]


# ---- Cost -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["practical", "theory"])
@pytest.mark.parametrize("method", METHODS)
def test_releases_cost_what_the_formula_says(mode, method):
    """rho_clust, then rho_cov + max(rho_mean, rho_count + rho_mean / 2): the account's exact total, nearly all of the budget."""
    if (mode, method) == ("theory", "one_shot"):
        with pytest.raises(InputError, match="practical"):
            learn(mode=mode, method=method)
        return
    rows, public = (FAR_ROWS, FAR_PUBLIC) if mode == "theory" else (ROWS, PUBLIC)
    with recording() as transcript:
        result = learn(rows, public=public, mode=mode, method=method)
    search = [call for call in transcript.calls if call.reserve is not None]
    reserved = {call.reserve.cost for call in search}
    share = Fraction(3, 10) if method in ("tree", "one_shot") else Fraction(0)
    assert reserved == ({share} if search else set())
    leaves = [call for call in transcript.calls if call.reserve is None]
    stay = sum(call.event.rho * call.event.clusters.stay / call.event.clusters.worst for call in leaves)
    move = sum(call.event.rho * call.event.clusters.move / call.event.clusters.worst for call in leaves)
    total = share + max(stay, move)
    assert Fraction(97, 100) <= total <= 1
    assert leaves[0].name == "leaf counts"
    assert leaves[0].event.clusters.stay == 0
    depth = {"one_shot": 1, "tree": K if mode == "theory" else K - 1, "public_pca": 0}[method]
    # A node costs at most its share, and half of that for a row that enters or leaves.
    for node in {call.name.split(":")[0] for call in search}:
        events = [call.event for call in search if call.name.startswith(f"{node}:")]
        assert sum(event.rho for event in events) <= share / depth
        assert all(event.clusters.move <= event.clusters.stay for event in events)
    assert result.spent == ZCDP(1)


# ---- Sources and runs -----------------------------------------------------------------------------------------------


def bits(result):
    return json.dumps(result.to_dict(), sort_keys=True)


def test_a_file_larger_than_the_memory_that_a_fit_takes(tmp_path):
    wide = separated(np.random.default_rng(2), 40, 2, 40.0)
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", mode="w+", dtype=np.float64, shape=(150_000, 40))
    rng = np.random.default_rng(3)
    for begin in range(0, 150_000, 10_000):
        rows[begin : begin + 10_000] = wide.draw(rng, 10_000)[0]
    rows.flush()
    public = wide.of(rng, np.arange(30) % 2)
    options = {"public": public, "n_components": 2, "min_weight": 0.4, "method": "tree"}
    tracemalloc.start()
    mapped = seeded(tmp_path / "rows.npy", threads=1, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes / 2
    assert bits(mapped) == bits(seeded(np.array(rows), **options))


def test_statistics_do_not_depend_on_the_order_of_rows():
    """The exact integers before noise are the same for permuted rows, as long as what was released before is the same."""
    permuted = ROWS[np.random.default_rng(1).permutation(len(ROWS))]
    for method in ("tree", "one_shot"):
        with recording() as first:
            learn(method=method)
        with recording(script=first.calls) as second:
            learn(permuted, method=method)
        for one, two in zip(first.calls, second.calls, strict=True):
            assert np.array_equal(one.query, two.query)


def test_that_test_notices_positions(monkeypatch):
    """Planted fault: the search looks at the first half of the rows only."""
    from fastpubpriv.mixtures.separated import search

    original = search.ShellCounts.release

    def half(self, payer, rows, executor, **options):
        first = next(iter(rows.chunks(0, rows.n // 2, rows.n)))
        return original(self, payer, Rows.from_array(np.array(first)), executor, **options)

    monkeypatch.setattr(search.ShellCounts, "release", half)
    with pytest.raises(AssertionError):
        test_statistics_do_not_depend_on_the_order_of_rows()


# ---- Results --------------------------------------------------------------------------------------------------------


def test_json_holds_the_tree_and_no_row():
    result = learn(method="tree")
    data = json.loads(result.to_json())
    tree = ClusterTree.from_dict(data["tree"])
    assert np.array_equal(tree.assign(ROWS), result.tree.assign(ROWS))
    assert data["diagnostics"]["n_components_asked"] == K
    assert {"inside", "shell", "outside", "radius"} <= set(data["diagnostics"]["cuts"][0])
    assert len(data["diagnostics"]["balls"]) == K - 1
    back = type(result).from_json(result.to_json())
    assert np.array_equal(back.predict(ROWS[:50]), result.predict(ROWS[:50]))
    numbers = result.to_json()
    # Every private number has digits of its own; none of them is in the text.
    assert not any(repr(float(value)) in numbers for value in ROWS[:300].ravel())


def test_public_only_reads_nothing_private():
    result = public_only(PUBLIC, n_components=K)
    assert result.n_priv == 0
    assert result.spent.is_zero
    assert result.releases == ()
    assert result.weights.tolist() == [pytest.approx(1 / 3)] * 3
    assert matched(result.tree.assign(ROWS[:2000]), LABELS[:2000]) > 0.99
    assert np.linalg.eigvalsh(result.covariances).min() > 0.0
    # As many components as rows: every covariance is a guess, but one that can be used.
    assert np.linalg.eigvalsh(public_only(PUBLIC[:3], n_components=3).covariances).min() > 0.0
    assert public_only(np.repeat(PUBLIC[:2], 4, axis=0), n_components=5).n_components == 2


def test_baseline_without_public_rows():
    """Two components far apart, where any start finds them."""
    two = separated(np.random.default_rng(11), 2, 2, 20.0)
    rows, labels = two.draw(np.random.default_rng(12), 40_000)
    result = no_public_baseline(rows, n_components=2, radius=40.0, budget=ZCDP(5), progress=False)
    assert result.n_pub == 0
    assert result.method == "no_public_baseline"
    assert matched(result.tree.assign(rows), labels) > 0.98
    assert errors_of(result, two)[1].max() < 0.5
    with pytest.raises(BudgetError, match="PureDP"):
        no_public_baseline(rows, n_components=2, radius=40.0, budget=PureDP(1))
