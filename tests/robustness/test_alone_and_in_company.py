"""What a private row contributes to a release depends on that row alone: in every pass of every estimator, to the last bit."""

import inspect
import pickle
from dataclasses import dataclass
from functools import cache, partial
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from company_cases import (
    ALONE,
    cancelling,
    differences,
    honest_run,
    modules,
    other_bits,
    queries,
    reading_sites,
    recording,
)
from helpers.accounts import opened
from own_losses import COMPILED, OWN, OWN_SCORES, ROWS
from releases import (
    release_cell_counts,
    release_code_counts,
    release_shell_counts,
    release_statistic_sum,
)
from spies import seeded

from fastpubpriv import ZCDP, ApproxDP, BinGrid, DyadicBins, ProductBins, PureDP, local
from fastpubpriv.gaussians.hypothesis_selection import projected
from fastpubpriv.kernels.bins import BinRule
from fastpubpriv.mechanisms import group_covariances
from fastpubpriv.mechanisms import stable_histograms as stable
from fastpubpriv.mechanisms.cells import CellQuery
from fastpubpriv.mechanisms.stable_histograms import Partition
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.mixtures.axis_aligned import column_modes
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.mixtures.separated import searches
from fastpubpriv.regression import coordinates
from fastpubpriv.sources import Query, Rows, private_rows
from fastpubpriv.sources.views import Mapped, each_row
from fastpubpriv.training import Exponential, OutputPerturbation, SemiDP
from fastpubpriv.training.methods import METHODS as TRAINING

pytestmark = [
    # matrices are small: a second thread would only wait
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.ExperimentalWarning"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.PrivacyWarning"),
]

DIMS = (1, 8, 16, 130)
N = 240
K = 2
AMPLE = ZCDP(1000)
AMPLE_DELTA = ApproxDP(300, 1e-1)
# A row's group is its position, so what it contributes is compared by another test.
BY_POSITION = {"fastpubpriv.mechanisms.group_covariances.GroupQuery"}
# Places that see private rows without a query, each for a reason.
READERS = {
    # Copies of a view that turns each row by itself; see the test of the rotation below.
    "fastpubpriv.regression.coordinates.mapped_rows",
    # A copy of some rows as they are, for the rounds that read them often.
    "fastpubpriv.mixtures.separated.soft_em.some_rows",
    # Each report and each gradient is made from one user's row by a kernel that takes rows one by one.
    "fastpubpriv.release.reports._draw.pieces",
    "fastpubpriv.local.local_training._block",
    # On their way to such a report.
    "fastpubpriv.cli.report_commands.privatize",
    # Rows to predict for: nothing is released from them.
    "fastpubpriv.cli.training_commands.predict",
    "fastpubpriv.results.models.terms_of",
    "fastpubpriv.sklearn.public_private.PublicPrivateEstimator._rows",
}
NOT_ESTIMATORS = {
    "as_rows",
    "mean_of_groups",
    "open_labeled",
    "open_rows",
    "opened_source",
    "people_of_table",
    "record_replay",
    "refuse_shared_memory",
    "rows_inside",
    "rows_of_each",
    "table_of_persons",
    "usable_rows",
}


def estimators_of(dim):
    """(name, call) for every public function that takes private rows, in its variants, on small input."""
    rng = np.random.default_rng(dim)
    centers = np.stack([np.zeros(dim), np.full(dim, 40.0)])
    private = centers[np.arange(N) % K] + rng.normal(size=(N, dim))
    m = 2 * dim + 8
    public = centers[np.arange(m) % K] + rng.normal(size=(m, dim))
    one = rng.normal(size=(N, dim))
    one_public = rng.normal(size=(m, dim))
    listed = np.full((4, K), 0.5), rng.normal(size=(4, K, dim)), np.ones((4, K, dim))
    covariance = np.eye(dim) + 0.1
    few = {"n_components": K, "budget": AMPLE_DELTA}
    whole = {"n_components": K, "min_weight": 0.3, "budget": AMPLE, "x_pub": public}
    grids = [BinGrid(width=0.5, levels=2), *[None] * (dim - 1)]
    products = (
        [ProductBins(grids=[BinGrid(width=1.0), DyadicBins()], columns=(0, dim - 1))]
        if dim > 1
        else []
    )

    yield "estimate_mean", one, {"x_pub": one_public, "budget": AMPLE}
    yield "estimate_mean", one, {"x_pub": one_public, "budget": AMPLE, "missing": "neutral"}
    yield "estimate_mean", one, {"x_pub": one_public, "budget": AMPLE, "clipping": "gaussian"}
    groups = {
        "by": -1,
        "groups": [-1, 1],
        "x_pub": np.column_stack([one_public, np.sign(one_public[:, :1])]),
    }
    yield "estimate_mean", np.column_stack([one, np.sign(one[:, :1])]), {**groups, "budget": AMPLE}
    yield "quantiles", one, {"x_pub": one_public, "budget": AMPLE}
    yield "describe", one, {"x_pub": one_public, "budget": AMPLE}
    signs = pd.DataFrame(np.sign(one), columns=[f"c{j}" for j in range(dim)])
    listed_signs = {name: [1, -1] for name in signs.columns[:3]}
    yield "value_counts", signs, {"columns": "c0", "keys": [1, -1], "budget": AMPLE}
    yield "value_counts", signs, {"columns": "c0", "bins": [-0.5, 0.5], "budget": AMPLE}
    several = {"columns": list(listed_signs), "keys": listed_signs}
    yield "value_counts", signs, {**several, "budget": AMPLE}
    by_key = {"person": np.arange(N) // 2, "by": list(listed_signs), "groups": listed_signs}
    yield "count_persons", signs, {**by_key, "keys_per_person": 2, "budget": AMPLE}
    yield "weighted_mean", one, {"budget": AMPLE, "norm_bound": 3.0, "x_pub": one_public}
    yield (
        "coinpress_mean",
        one,
        {"budget": AMPLE, "center": np.zeros(dim), "radius": 30.0, "covariance": covariance},
    )
    yield "coinpress_covariance", one, {"budget": AMPLE, "scale": 10.0}
    yield (
        "private_pca",
        one,
        {"budget": AMPLE, "center": np.zeros(dim), "radius": 30.0, "n_components": 1},
    )
    for method in ("lifted_coinpress", "pairs"):
        yield "estimate_gaussian", one, {"x_pub": one_public, "budget": AMPLE, "method": method}
    for structure in ("mean", "diagonal", "full"):
        yield (
            "estimate_gaussian",
            one,
            {"x_pub": one_public, "budget": AMPLE, "structure": structure},
        )
    for method in searches.METHODS:
        yield "learn_separated_mixture", private, {**whole, "method": method}
    yield "no_public_baseline", private, {"n_components": K, "radius": 600.0, "budget": AMPLE}
    yield "stable_histogram", private, {"bins": [*grids, *products], "budget": AMPLE_DELTA}
    scores = [("minimum_distance", "auto"), ("log_ratio", "auto"), ("yatracos", "densities")]
    for score, method in [*scores, ("minimum_distance", "cells")] if dim == 1 else scores:
        options = {"score": score, "method": method, "draws": 64}
        yield "select_hypothesis", one, {"hypotheses": listed, "budget": PureDP(10), **options}
    near = {**few, "method": "cells" if dim == 1 else "dp_em", "x_pub": public}
    yield "learn_axis_aligned_mixture", private, near
    yield "learn_axis_aligned_mixture", private, {**near, "budget": PureDP(45)}
    within = {**few, "bounds": (-1e4, 1e4)}
    if dim <= 8:  # looks at many columns draw more noise than so large an epsilon allows
        yield "learn_axis_aligned_mixture", private, {**within, "budget": PureDP(20)}
    yield "learn_axis_aligned_mixture", private, {**within, "budget": AMPLE}
    # With fewer public rows than private ones the rounds of many columns are worth their noise.
    yield "learn_axis_aligned_mixture", private, {**near, "x_pub": public[:12]}
    yield "learn_separated_mixture", private, {**whole, "method": "soft_em", "x_pub": public[:12]}
    label = (one[:, :1] > 0.0) + 0.0
    labeled = {
        "x_pub": np.column_stack([one_public, (one_public[:, :1] > 0.0) + 0.0]),
        "label": -1,
        "budget": AMPLE,
    }
    whole_rows = np.column_stack([one, label])
    yield "linear_regression", whole_rows, {**labeled, "method": "newton"}
    for method in TRAINING:
        given = {"loss": "squared", "method": method}
        if method == "output_perturbation":
            given = {"loss": "huber", "method": OutputPerturbation(steps=5)}
        yield "train", whole_rows, {**labeled, **given}
    yield "logistic_regression", whole_rows, {**labeled, "method": "newton"}
    weights = {
        "class_weight": {0: 1.0, 1: 3.0},
        "weights_pub": np.arange(len(one_public)) % 3 + 1.0,
    }
    yield "logistic_regression", whole_rows, {**labeled, "method": "newton", **weights}
    ranged = {"x_bounds": (-1e6, 1e6), "y_bounds": (-1.0, 2.0)}
    yield "linear_regression", whole_rows, {**labeled, "method": "newton", **ranged}
    steps = SemiDP(steps=2, step_size=0.1, priv_weight=0.5)
    for loss in ("huber", ROWS, COMPILED, OWN):
        yield "train", whole_rows, {**labeled, "loss": loss, "method": steps}
    yield (
        "train",
        whole_rows,
        {**labeled, "loss": OWN, "method": Exponential(candidates=5, clip=1.0)},
    )
    from_zero = SemiDP(steps=2, step_size=0.1, priv_weight=1.0, start="zero")
    yield "train", whole_rows, {**labeled, "loss": OWN_SCORES, "method": from_zero}
    if dim == 8:
        yield (
            "learn_axis_aligned_mixture",
            private[:60],
            {**few, "method": "sketch", "covariance": covariance},
        )
        yield (
            "decode_axis_aligned",
            private,
            {"budget": AMPLE_DELTA, "min_weight": 0.3, "covariance": covariance},
        )
    if dim == 1:
        yield "decode_variances", private, {"budget": AMPLE_DELTA, "min_weight": 0.3}
        yield "decode_means", private, {"budget": AMPLE_DELTA, "min_weight": 0.3, "std": 1.0}
        yield "decode_gaussians", private, {"budget": AMPLE_DELTA, "min_weight": 0.3}


def takers():
    """Public functions of the package whose first argument is `x_priv`, by name."""
    return {
        name: value
        for module in modules()
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and next(iter(inspect.signature(value).parameters), "") == "x_priv"
        and name not in NOT_ESTIMATORS
        and not name.startswith("_")
        # one user's row at a time, not a table
        and not module.__name__.startswith("fastpubpriv.local")
    }


def only_code(chunk, **given):
    return column_modes.codes(chunk, **given)[0]


def passes_below(dim):
    """(name, call) for passes that only some widths of rows reach by way of an estimator, at every width."""
    rng = np.random.default_rng(dim)
    rows = private_rows(rng.normal(size=(N, dim)))
    account = opened(AMPLE_DELTA, draws=10**7)
    gaussian = opened(AMPLE, draws=10**5)
    line = partial(projected, center=rng.normal(size=dim), weights=rng.normal(size=dim))
    cells = CellQuery.of(np.linspace(-8.0, 8.0, 1025))
    yield "one direction", lambda: ALONE.run(cells, each_row(rows, line, 1))
    fit = GaussianMixture(*(np.ones((1, 1)) for _ in range(3)))
    column = column_modes.ColumnModes(fit, np.array([-0.5, 0.25, 1.0]), 0.0)
    chosen = sorted({0, dim // 2, dim - 1})
    options = {"cost": account.approx_left[0] / 10, "executor": ALONE}
    yield (
        "combinations",
        lambda: release_code_counts(
            account,
            rows,
            partial(column_modes.codes, chosen=chosen, columns=[column] * dim),
            [4 ** len(chosen)],
            name="a",
            row_cost=1,
            **options,
        ),
    )
    randomizer = local.PrivUnit(dim + 1, 4.0)
    reports = randomizer.privatize(rng.normal(size=(N, dim + 1)))
    yield "reports", lambda: local.Aggregator(randomizer).add(reports)
    few = local.SubsetSelection(dim + 1, 4.0, words=4)
    codes = few.privatize(rng.normal(size=(N, dim + 1)))
    yield "codes", lambda: local.Aggregator(few).add(codes)
    yield (
        "cells",
        lambda: release_cell_counts(account, rows, [column.cuts] * dim, name="b", **options),
    )
    labeled = Partition(
        (0,), (BinRule(0.25),), labels=partial(only_code, chosen=[dim - 1], columns=[column] * dim)
    )
    yield (
        "groups",
        lambda: ALONE.run(group_covariances.GroupQuery(base=AffineMap(dim=dim), groups=3), rows),
    )
    yield "labels", lambda: stable.count_bins(rows, [labeled], ALONE)
    edges = np.array([0.5, 1.0, 2.0, 8.0])
    whitening = AffineMap(dim=dim, center=rng.normal(size=dim), matrix=np.eye(dim) + 0.1)
    yield (
        "shells",
        lambda: release_shell_counts(
            gaussian,
            rows,
            whitening,
            name="c",
            edges=edges,
            cost=gaussian.allowance / 2,
            executor=ALONE,
        ),
    )


@cache
def all_passes(dim):
    """Every pass that the cases of a width make; makes sure that the cases reach all of them."""
    functions = takers()
    with recording() as recorder:
        for number, (name, rows, options) in enumerate(estimators_of(dim)):
            recorder.case = f"{name} ({number})"
            seeded(functions[name], rows, threads=1, progress=False, **options)
        for name, call in passes_below(dim):
            recorder.case = name
            call()
    return recorder


def test_every_function_that_takes_private_rows_has_a_case_and_known_places_read_them():
    assert {name for dim in DIMS for name, _, _ in estimators_of(dim)} == set(takers())
    assert reading_sites() == READERS
    assert len(queries()) >= 13


@pytest.mark.parametrize("dim", DIMS)
def test_rows_contribute_the_same_alone_and_in_company(dim):
    recorder = all_passes(dim)
    rng = np.random.default_rng(5)
    # Rounds of diagonals are for several columns, and too noisy for 130 of them and so few rows.
    missed = {"fastpubpriv.mechanisms.sums.MappedQuery _parts_sum"} if dim in (1, 130) else set()
    assert queries() == {each.site for each in recorder.passes} | missed
    # Rows tried here have no class as label; logistic regression makes the pass of linear regression with another residual.
    wrong = [
        words
        for each in recorder.passes
        if each.site not in BY_POSITION and not each.case.startswith("logistic_regression")
        for words in differences(each, rng.normal(size=(6, each.dim)), np.random.default_rng(1), 4)
    ]
    assert not wrong
    assert recorder.statistics
    for name, columns, statistic in recorder.statistics:
        rows = rng.normal(size=(20, columns))
        assert not other_bits(statistic, np.concatenate([rows, cancelling(rng, rows)])), name


@pytest.mark.parametrize("dim", [1, 8, 130])
def test_labeled_rows_are_turned_alone(dim):
    """The copies that regression keeps of its rows: the same bits in blocks of any size, and a product in their place is caught."""
    name, rows, options = next(
        each for each in estimators_of(dim) if each[2].get("method") == "newton"
    )
    seen = []
    honest = coordinates.each_row

    def keep(source, rotation, width):
        seen.append(rotation)
        return honest(source, rotation, width)

    with mock.patch.object(coordinates, "each_row", keep):
        seeded(takers()[name], rows, threads=1, progress=False, **options)
    tried = np.concatenate([rows[:20], cancelling(np.random.default_rng(4), rows[:20])])
    assert seen
    for rotation in seen:
        assert not other_bits(rotation, tried)
    matrix = np.random.default_rng(3).normal(size=(rows.shape[1], 5))
    assert dim == 1 or other_bits(lambda chunk: chunk @ matrix, tried)


@pytest.mark.parametrize("dim", [1, 6, 8, 16])
def test_groups_by_position_do_not_see_each_other(dim):
    """The one query that counts rows: a group's covariance has the same bits whatever the chunks and the other groups hold."""
    rng = np.random.default_rng(dim)
    rows = rng.normal(size=(33, dim))
    rows[::4] *= 1e9
    rows[5] = np.nan
    rows[7, 0] = np.inf
    base = AffineMap(
        dim=dim, center=rng.normal(size=dim), matrix=np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    )
    query = group_covariances.GroupQuery(base=base, groups=11)
    whole, valid = ALONE.run(query, private_rows(rows))
    for size in (1, 2, 3):
        parts = Rows.from_chunks(
            lambda size=size: (rows[k : k + size] for k in range(0, 33, size)), n=33, dim=dim
        )
        found, usable = ALONE.run(query, parts)
        assert found.tobytes() == whole.tobytes()
        assert usable.tolist() == valid.tolist()
    others = rng.normal(size=rows.shape)
    others[4::11] = rows[4::11]
    assert ALONE.run(query, private_rows(others))[0][4].tobytes() == whole[4].tobytes()


# ---- planted faults: each is what NumPy code that looks innocent would do ---------------------------------------------
def found_wrong(dim, call, bisected=20):
    with recording() as recorder:
        call()
    rows = np.random.default_rng(5).normal(size=(6, dim))
    return [
        words
        for each in recorder.passes
        for words in differences(each, rows, np.random.default_rng(1), bisected)
    ]


def statistic_sum(dim, statistic, out_dim):
    account = opened(AMPLE, draws=1000)
    rows = private_rows(np.random.default_rng(2).normal(size=(20, dim)))
    release_statistic_sum(
        account,
        rows,
        statistic,
        name="x",
        dim=out_dim,
        radius=4.0,
        cost=account.allowance,
        row_cost=1,
        executor=ALONE,
    )


@pytest.mark.parametrize("dim", [8, 16, 130])
def test_a_reduction_over_columns_is_caught(dim):
    """`np.add.reduce` takes another order when a block has one row; `total` has one order."""

    def reduced(chunk):
        columns = np.ascontiguousarray(chunk.T)
        return np.add.reduce(columns * columns, axis=0)[:, None]

    def in_order(chunk):
        return group_covariances.total(np.square(np.ascontiguousarray(chunk.T)))[:, None]

    assert not found_wrong(dim, partial(statistic_sum, dim, in_order, 1))
    rows = cancelling(np.random.default_rng(6), np.random.default_rng(7).normal(size=(20, dim)))
    assert other_bits(reduced, rows)
    assert not other_bits(in_order, rows)


@pytest.mark.parametrize("dim", [8, 16, 130])
def test_a_product_is_caught(dim):
    matrix = np.random.default_rng(3).normal(size=(dim, 5))
    wrong = found_wrong(dim, partial(statistic_sum, dim, lambda chunk: chunk @ matrix, 5))
    assert any("other integers than alone" in words for words in wrong)


def test_a_whitening_by_a_product_is_caught():
    name, rows, options = next(
        each for each in estimators_of(8) if each[0] == "decode_axis_aligned"
    )
    with mock.patch.object(Mapped, "__call__", lambda self, chunk: chunk @ self.matrix.T):
        wrong = found_wrong(
            8,
            lambda: seeded(takers()[name], rows, threads=1, progress=False, **options),
            bisected=1,
        )
    assert any("other bits alone" in words for words in wrong)


def test_a_label_from_a_norm_is_caught():
    def nearest(chunk):
        return (np.linalg.norm(chunk, axis=1) > np.sqrt(16.0)).astype(np.int64)

    def centered(chunk):
        return ((chunk - chunk.mean(axis=0))[:, 0] > 0.0).astype(np.int64)

    rows = private_rows(np.random.default_rng(2).normal(size=(20, 16)))
    for labels in (nearest, centered):
        partition = Partition((0,), (BinRule(1.0),), labels=labels)
        wrong = found_wrong(
            16, lambda partition=partition: stable.count_bins(rows, [partition], ALONE)
        )
        assert wrong, labels.__name__


def test_an_infinite_entry_that_counts_is_caught():
    wrong = found_wrong(4, partial(statistic_sum, 4, lambda chunk: np.clip(chunk, -1.0, 1.0), 4))
    assert any("an infinite entry counts" in words for words in wrong)


@dataclass(frozen=True)
class Hiding(Query):
    """Finds nothing that can be seen."""

    def zeros(self):
        return (np.zeros(1, dtype=np.int64),)

    def add(self, chunk, accumulators):
        pass


def test_a_pass_that_hides_what_it_finds_is_caught():
    """Accumulators that stay empty say nothing: such a pass has to be looked at where it writes, as `found_by` does."""
    rows = private_rows(np.ones((20, 2)))
    assert any(
        "finds nothing" in words for words in found_wrong(2, lambda: ALONE.run(Hiding(), rows))
    )


@pytest.mark.parametrize("dim", [1, 8])
def test_every_query_can_be_pickled_and_its_copy_finds_the_same(dim):
    recorder = all_passes(dim)
    missed = {"fastpubpriv.mechanisms.sums.MappedQuery _parts_sum"} if dim == 1 else set()
    assert queries() - missed == {each.site for each in recorder.passes}
    for each in recorder.passes:
        copy = pickle.loads(pickle.dumps(each.query))
        assert type(copy) is type(each.query)
        found = [honest_run(ALONE, query, each.rows) for query in (each.query, copy)]
        assert pickle.dumps(found[0]) == pickle.dumps(found[1]), each
    for measurement in recorder.measurements:
        # With eq=False two values are never equal; the pickles of copies are, which share the same texts.
        copy = pickle.loads(pickle.dumps(measurement))
        assert pickle.dumps(pickle.loads(pickle.dumps(copy))) == pickle.dumps(copy), measurement
