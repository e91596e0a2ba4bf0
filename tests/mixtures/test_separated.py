"""learn_separated_mixture and its baselines: answers, choices by public shapes, costs, sources, and what a result holds."""

import json
import math
import tracemalloc
import warnings
from fractions import Fraction

import numpy as np
import pytest
from helpers.errors import raises
from mixture_cases import errors_of, matched, separated

from fastpubpriv import ClusterTree, learn_separated_mixture, no_public_baseline, public_only
from fastpubpriv.errors import AccuracyWarning, BudgetError, InputError, SeededNoiseWarning
from fastpubpriv.kernels.mixture_rows import prepare
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.separated.searches import METHODS, Shape, choose_method
from fastpubpriv.privacy import ZCDP, Ledger, PureDP
from fastpubpriv.privacy.spending import GaussianSpending, LaplaceSpending
from fastpubpriv.release.transcript import recording
from fastpubpriv.sources import private_rows

# matrices are small: a second thread would only wait
pytestmark = pytest.mark.usefixtures("one_blas_thread")
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
    assert result.status == "ok"
    covariance, mean, weight = errors_of(result, MIXTURE)
    # Predicted about 0.05 and 0.02 with standard deviations of the same order; ten times that has no probability to speak of.
    assert covariance.max() < 0.5
    assert mean.max() < 0.3
    assert np.abs(weight).max() < 0.05
    assert result.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (result.n_priv, result.n_pub, result.dim, result.private) == (30_000, 36, DIM, True)
    assert result.diagnostics["n_components_found"] == K
    if METHODS[method].soft:
        assert result.tree is None
        return
    assert matched(result.tree.assign(ROWS[:2000]), LABELS[:2000]) > 0.99
    assert len(result.diagnostics["leaves"]) == K
    # The component that the density prefers is the leaf that the tree sends a row to.
    order = {leaf: index for index, leaf in enumerate(result.diagnostics["leaves"])}
    assert [order[leaf] for leaf in result.tree.assign(ROWS[:100])] == result.predict(
        ROWS[:100]
    ).tolist()


@pytest.mark.parametrize("method", ["tree", "public_pca"])
def test_theory_far_apart(method):
    """The proofs want separations of about a hundred standard deviations, and rows enough for their thresholds."""
    result = learn(FAR_ROWS, public=FAR_PUBLIC, mode="theory", method=method, budget=ZCDP(20))
    assert result.method == f"{method}, theory"
    assert result.n_components == K
    assert matched(result.tree.assign(FAR_ROWS), FAR_LABELS) > 0.99
    assert errors_of(result, FAR)[1].max() < 0.3


@pytest.mark.parametrize("method", ["tree", "one_shot"])
def test_pure_budgets_cannot_pay_for_a_private_search(method):
    raises(BudgetError, "public_pca", learn, budget=PureDP(1), method=method)
    assert learn(budget=PureDP(8)).method == "soft_em"


@pytest.mark.parametrize(
    ("n_pub", "dim", "k", "mode", "noise", "expected"),
    [
        (8, 200, 4, "practical", GaussianSpending, "soft_em"),
        (1000, 200, 4, "practical", LaplaceSpending, "soft_em"),
        (39, 1, 4, "practical", GaussianSpending, "soft_em"),
        (8, 200, 1, "practical", GaussianSpending, "soft_em"),
        (1000, 200, 4, "theory", GaussianSpending, "tree"),
        (5000, 200, 4, "theory", GaussianSpending, "public_pca"),
        (8, 200, 4, "theory", LaplaceSpending, "public_pca"),
    ],
)
def test_auto_goes_by_public_shapes(n_pub, dim, k, mode, noise, expected):
    shape = Shape(dim=dim, n_pub=n_pub, n_components=k, min_weight=0.2, mode=mode, failure_prob=0.1)
    assert choose_method("auto", shape, noise).name == expected
    assert choose_method("tree", shape, GaussianSpending).name == "tree"


@pytest.mark.parametrize("mode", ["practical", "theory"])
@pytest.mark.parametrize("method", ["tree", "one_shot", "public_pca"])
def test_releases_cost_what_the_formula_says(mode, method, monkeypatch):
    """rho_clust, in theory rho_cov + max(rho_mean, rho_count + rho_mean / 2), in practice rounds; then the count of the fit."""
    monkeypatch.setattr(tuning, "SETTLED", 0.0)  # a start that settles leaves rounds unspent
    if mode == "theory" and METHODS[method].theory is None:
        raises(InputError, "practical", learn, mode=mode, method=method)
        return
    rows, public = (FAR_ROWS, FAR_PUBLIC) if mode == "theory" else (ROWS, PUBLIC)
    with recording() as transcript:
        result = learn(rows, public=public, mode=mode, method=method)
    search_state = [call for call in transcript.calls if call.reserve is not None]
    reserved = {call.reserve.cost for call in search_state}
    share = Fraction(3, 10) if method in ("tree", "one_shot") else Fraction(0)
    assert reserved == ({share} if search_state else set())
    rest = [call for call in transcript.calls if call.reserve is None]
    total = share + sum(call.event.rho for call in rest)
    if mode == "theory":
        leaves = rest[:-1]
        clusters = [
            (call.event.rho / call.event.clusters.worst, call.event.clusters) for call in leaves
        ]
        stay = sum(unit * each.stay for unit, each in clusters)
        move = sum(unit * each.move for unit, each in clusters)
        of_leaves = max(stay, move)
        assert of_leaves <= 1 - share - Fraction(1, 50)
        total = share + of_leaves + rest[-1].event.rho
        assert rest[0].name == "leaf counts"
        assert rest[-1].name == "fit"
        assert rest[0].event.clusters.stay == 0
    else:
        assert [call.name for call in rest[-2:]] == ["last round", "fit"]
    assert Fraction(199, 10_000) < rest[-1].event.rho <= Fraction(1, 50)
    assert Fraction(97, 100) <= total <= 1
    depth = {"one_shot": 1, "tree": K if mode == "theory" else K - 1, "public_pca": 0}[method]
    # A node costs at most its share, and half of that for a row that enters or leaves.
    for node in {call.name.split(":")[0] for call in search_state}:
        events = [call.event for call in search_state if call.name.startswith(f"{node}:")]
        assert sum(event.rho for event in events) <= share / depth
        assert all(event.clusters.move <= event.clusters.stay for event in events)
    assert result.spent == ZCDP(1)


def bits(result):
    return json.dumps(result.to_dict(), sort_keys=True)


def test_a_file_larger_than_the_memory_that_a_fit_takes(tmp_path):
    wide = separated(np.random.default_rng(2), 40, 2, 40.0)
    rows = np.lib.format.open_memmap(
        tmp_path / "rows.npy", mode="w+", dtype=np.float64, shape=(150_000, 40)
    )
    rng = np.random.default_rng(3)
    for begin in range(0, 150_000, 10_000):
        rows[begin : begin + 10_000] = wide.draw(rng, 10_000)[0]
    rows.flush()
    public = wide.of(rng, np.arange(30) % 2)
    options = {"public": public, "n_components": 2, "min_weight": 0.4, "method": "tree"}
    prepare(1 << 30, 1)  # the compiled loops are no memory of a fit
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
    from fastpubpriv.mixtures.separated import search_state

    original = search_state.ShellCounts.release

    def half(self, payer, rows, executor, **options):
        first = next(iter(rows.chunks(0, rows.n // 2, rows.n)))
        return original(self, payer, private_rows(np.array(first)), executor, **options)

    monkeypatch.setattr(search_state.ShellCounts, "release", half)
    raises(AssertionError, None, test_statistics_do_not_depend_on_the_order_of_rows)


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


def test_public_only_finds_as_many_components_as_rows_that_differ():
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
    assert result.status == "ok"
    raises(
        BudgetError,
        "PureDP",
        no_public_baseline,
        rows,
        n_components=2,
        radius=40.0,
        budget=PureDP(1),
    )


def test_baseline_shows_a_component_that_stands_for_two():
    """With one cluster for two components its mean lies between them; the count of the fit tells."""
    two = separated(np.random.default_rng(11), 2, 2, 20.0)
    rows, _ = two.draw(np.random.default_rng(12), 40_000)
    result = no_public_baseline(rows, n_components=1, radius=40.0, budget=ZCDP(5), progress=False)
    assert result.part_reasons == (("poor_fit",),)
    assert result.fit_interval[0] > 0.15


# ---- Bad arguments are refused before anything is paid; bad private content is silent; odd public rows give fewer components.
DIM_OF_EDGES = 3
RNG_OF_EDGES = np.random.default_rng(31)
MIXTURE_OF_EDGES = separated(RNG_OF_EDGES, DIM_OF_EDGES, 2, 40.0)
ROWS_OF_EDGES, LABELS_OF_EDGES = MIXTURE_OF_EDGES.draw(RNG_OF_EDGES, 20_000)
PUBLIC_OF_EDGES = MIXTURE_OF_EDGES.of(RNG_OF_EDGES, np.arange(30) % 2)
GOOD = {
    "x_pub": PUBLIC_OF_EDGES,
    "n_components": 2,
    "min_weight": 0.3,
    "budget": ZCDP(1),
    "progress": False,
}
EDGE_METHODS = [
    pytest.param({"method": "tree"}, id="tree"),
    pytest.param({"method": "one_shot"}, id="one shot"),
    pytest.param({"method": "public_pca"}, id="public"),
    pytest.param({"method": "soft_em"}, id="soft EM"),
    pytest.param({"method": "tree", "mode": "theory"}, id="algorithms 6 and 7"),
    pytest.param({"method": "public_pca", "mode": "theory"}, id="algorithms 9 and 10"),
]


@pytest.mark.parametrize(
    ("rows", "n_components"),
    [
        (PUBLIC_OF_EDGES, 0),
        (PUBLIC_OF_EDGES, 31),
        (np.ones((4, 2)), 2),
        (PUBLIC_OF_EDGES[:1], 1),
    ],
    ids=["no component", "more than rows", "equal rows", "one row"],
)
def test_public_only_refusals(rows, n_components):
    raises(InputError, None, public_only, rows, n_components=n_components)


def finite(result):
    """What every result must be, whatever the private rows are."""
    assert result.n_components >= 1
    assert len(result.part_reasons) == result.n_components
    assert len(result.structure) == result.n_components
    assert len(result.weights) == result.n_components
    said = {
        "clipped",
        "fallback",
        "few_rows",
        "unresolved",
        "wide",
        "shifted",
        "poor_fit",
        "rough_fit",
        "not_gaussian",
    }
    assert {*result.reasons} <= said
    assert result.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert result.weights.min() > 0.0
    for array in (result.means, result.covariances):
        assert np.isfinite(array).all()
    assert all(np.linalg.eigvalsh(covariance)[0] > 0.0 for covariance in result.covariances)
    return result


def edge(rows=ROWS_OF_EDGES, **changes):
    return finite(learn_separated_mixture(rows, **{**GOOD, **changes}))


BAD = [
    ({"n_components": 0}, InputError, "n_components"),
    ({"n_components": 31, "min_weight": 0.01}, InputError, "31 with 30 public rows"),
    ({"n_components": 10**7}, InputError, "n_components"),
    ({"min_weight": 0.0}, InputError, "min_weight"),
    ({"min_weight": 0.51}, InputError, "min_weight must be at most 1 / n_components = 0.5"),
    ({"budget": PureDP(1), "method": "tree"}, BudgetError, "PureDP"),
    ({"method": "one_shot", "mode": "theory"}, InputError, "one_shot"),
    ({"weight_floor": 0.0}, InputError, "weight_floor"),
    ({"x_pub": PUBLIC_OF_EDGES[:, :2]}, InputError, "2 columns and private rows have 3"),
    ({"x_pub": PUBLIC_OF_EDGES[:1], "n_components": 1}, InputError, "at least 2 public rows"),
    ({"x_pub": np.ones((5, 3))}, InputError, "all public rows are equal"),
    ({"x_pub": None}, BudgetError, "need a delta"),
    ({"x_pub": ROWS_OF_EDGES[:30]}, InputError, "memory"),
]


@pytest.mark.parametrize(("changes", "error", "message"), BAD)
def test_refused_before_anything_is_paid(changes, error, message):
    ledger = Ledger(ZCDP(1))
    raises(
        error,
        message,
        learn_separated_mixture,
        ROWS_OF_EDGES,
        **{**GOOD, "ledger": ledger, **changes},
    )
    assert ledger.remaining.amounts == (1,)


def test_more_components_than_private_rows():
    raises(InputError, "number of private rows", learn_separated_mixture, ROWS_OF_EDGES[:1], **GOOD)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"radius": 0.0}, "radius"),
        ({"radius": math.inf}, "radius"),
        ({"center": [0.0, 1.0]}, "center"),
        ({"n_components": 0}, "n_components"),
        ({"weight_floor": 0.0}, "weight_floor"),
    ],
)
def test_baseline_refusals(changes, message):
    given = {"n_components": 2, "radius": 50.0, "budget": ZCDP(1), "progress": False, **changes}
    raises(InputError, message, no_public_baseline, ROWS_OF_EDGES, **given)


def test_a_budget_that_buys_nothing_warns():
    lost = pytest.warns(AccuracyWarning, match=r"unresolved .*: component 0, component 1")
    with lost, pytest.warns(AccuracyWarning, match="component of 6000 rows"):
        edge(budget=ZCDP(1e-6))


def test_a_large_budget_gives_finite_results():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        edge(budget=ZCDP(500))


def test_missing_rows_and_an_outlier_leave_the_rest_alone():
    rows = ROWS_OF_EDGES.copy()
    rows[::10, 1] = np.nan
    rows[1] = 1e300
    result = edge(rows, method="tree")
    assert errors_of(result, MIXTURE_OF_EDGES)[1].max() < 0.3
    # A missing row counts in n: the weights are shares of the rows that are there, made to add up to one.
    assert np.abs(errors_of(result, MIXTURE_OF_EDGES)[2]).max() < 0.05


ODD = {
    "duplicates": np.repeat(PUBLIC_OF_EDGES[:4], 6, axis=0),
    "collinear": PUBLIC_OF_EDGES[:, :1] * np.array([[1.0, 2.0, -1.0]]) + 3.0,
    "two of each": PUBLIC_OF_EDGES[:4],
    "one far away": np.vstack([PUBLIC_OF_EDGES, [[1e9, 0.0, 0.0]]]),
    "all but one equal": np.vstack(
        [np.repeat(PUBLIC_OF_EDGES[:1], 20, axis=0), PUBLIC_OF_EDGES[1:2]]
    ),
    "tiny": PUBLIC_OF_EDGES * 1e-140,
    "huge": PUBLIC_OF_EDGES * 1e140,
}


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("options", EDGE_METHODS)
@pytest.mark.parametrize("public", ODD.values(), ids=ODD.keys())
def test_odd_public_rows(options, public):
    edge(x_pub=public.copy(), **options)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("options", EDGE_METHODS)
def test_many_components_asked_for_and_few_there(options):
    """Ten asked for, two there; twenty public rows."""
    result = edge(x_pub=PUBLIC_OF_EDGES[:20].copy(), n_components=10, min_weight=0.1, **options)
    assert result.n_components <= 10
    if options["method"] == "tree":
        # A tree stops where nothing separates: with a tenth of the rows on a side a component would have to fall apart.
        assert result.n_components <= 4


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("options", EDGE_METHODS)
def test_a_leaf_without_private_rows(options):
    """All private rows in one component: the other leaf stands with its public summary, and is marked."""
    result = edge(ROWS_OF_EDGES[LABELS_OF_EDGES == 0], **options)
    if result.n_components == 2:
        (low,) = np.flatnonzero(
            [bool({"fallback", "unresolved"} & {*own}) for own in result.part_reasons]
        )
        assert options["method"] == "soft_em" or result.part_reasons[low] == ("fallback",)
        assert np.linalg.norm(result.means[low] - MIXTURE_OF_EDGES.means[1]) < 5.0


def test_one_component():
    one = {"n_components": 1, "min_weight": 1.0}
    result = edge(ROWS_OF_EDGES[LABELS_OF_EDGES == 0], **one)
    assert result.n_components == 1
    assert result.method == "soft_em"
    assert result.weights.tolist() == [1.0]


def test_one_component_in_one_column():
    alone = separated(np.random.default_rng(0), 1, 1, 0.0)
    rng = np.random.default_rng(32)
    rows, _ = alone.draw(rng, 5000)
    public, _ = alone.draw(rng, 5)
    line = edge(rows, x_pub=public, n_components=1, min_weight=1.0)
    assert abs(line.means[0, 0] - alone.means[0, 0]) < 0.3


@pytest.mark.parametrize("options", EDGE_METHODS[:3])
def test_one_column(options):
    line = separated(np.random.default_rng(3), 1, 1, 0.0)
    rng = np.random.default_rng(4)
    labels = rng.integers(2, size=10_000)
    rows = line.of(rng, np.zeros(10_000, dtype=int)) + 50.0 * labels[:, None]
    public = line.of(rng, np.zeros(30, dtype=int)) + 50.0 * (np.arange(30) % 2)[:, None]
    result = edge(rows, x_pub=public, **options)
    assert matched(result.tree.assign(rows), labels) > 0.99


def test_a_constant_public_column_is_named():
    rng = np.random.default_rng(0)

    def rows(n):
        labels = np.arange(n) % 2
        return np.column_stack(
            [rng.normal(20.0 * labels, 1.0), rng.normal(size=n), rng.random(n) < 0.1]
        )

    private = rows(6_000)
    public = rows(30)
    public[:, 2] = 0.0
    constant = pytest.warns(
        AccuracyWarning, match="the public rows are constant in 2: the scale of the other columns"
    )
    # nor is an indicator a Gaussian
    with constant, pytest.warns(AccuracyWarning, match="poor_fit"):
        found = edge(private, x_pub=public, budget=ZCDP(0.5), method="public_pca")
    assert found.diagnostics["fallback_columns"] == ("2",)
    assert "Scale borrowed by" in found.summary()
    assert set(found.part_reasons) <= {("not_gaussian",), ("poor_fit",)}
