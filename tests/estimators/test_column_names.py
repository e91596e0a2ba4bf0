"""Columns with names are matched by name: in every function that takes two data sets, and for every pair of sources."""

import inspect
import itertools
import warnings
from functools import partial
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from helpers.errors import raises
from helpers.refusals import Refusals
from spies import SpyLedger, seeded

import fastpubpriv as fpp
from fastpubpriv import ZCDP, AccuracyWarning, ApproxDP, InputError, PureDP, Rows
from fastpubpriv.gaussians import coinpress_covariance as covariances
from fastpubpriv.sources import open, private_rows

NAMES = ["carat", "price", "table"]
SHIFTS = np.array([0.0, 40.0, -90.0])
RNG = np.random.default_rng(8)
PRIVATE = np.round(RNG.normal(size=(1500, 3)) + SHIFTS, 6)
PUBLIC = np.round(RNG.normal(size=(40, 3)) + SHIFTS, 6)
ORDERS = [list(order) for order in itertools.permutations(range(3))]


def frame(x, names):
    return pd.DataFrame(x, columns=names)


def arrow(x, names):
    return pa.table(dict(zip(names, x.T, strict=True)))


def written(path, write, *given, **options):
    write(*given, str(path), **options)
    return path


SOURCES = {
    "pandas": lambda x, names, folder, label: frame(x, names),
    "polars": lambda x, names, folder, label: pl.DataFrame(x, schema=names),
    "arrow": lambda x, names, folder, label: arrow(x, names),
    "batches": lambda x, names, folder, label: arrow(x, names).to_batches(max_chunksize=9),
    "rows": lambda x, names, folder, label: private_rows(frame(x, names)),
    "block": lambda x, names, folder, label: private_rows(
        frame(np.vstack([x[:1], x]), names)
    ).slice(1, len(x) + 1),
    "parquet": lambda x, names, folder, label: written(
        folder / f"{label}.parquet", pa.parquet.write_table, arrow(x, names)
    ),
    "parquet list": lambda *given: [SOURCES["parquet"](*given)],
    "feather": lambda x, names, folder, label: written(
        folder / f"{label}.feather", pa.feather.write_feather, arrow(x, names)
    ),
    "csv": lambda x, names, folder, label: written(
        folder / f"{label}.csv", frame(x, names).to_csv, index=False
    ),
}


def made(kind, x, order, folder, label, names=NAMES):
    return SOURCES[kind](x[:, order], [names[place] for place in order], folder, label)


def mean_of(x_priv, x_pub, **options):
    return seeded(fpp.estimate_mean, x_priv, x_pub=x_pub, budget=fpp.ZCDP(0.5), **options)


def matched(function, x_priv, x_pub, **options):
    with warnings.catch_warnings(action="ignore"):
        return seeded(function, x_priv, x_pub=x_pub, **options)


# Columns that are counted are named, and read by their lists of keys: tests/estimators/test_value_counts.py.
COUNTED = {"count_persons", "describe", "value_counts"}
# Matched in tests/regression/test_regression.py: what they release are coefficients.
LABELED = {"linear_regression", "logistic_regression", "train"}
FUNCTIONS = {
    "estimate_mean": mean_of,
    "quantiles": partial(matched, fpp.quantiles, q=0.5, budget=fpp.ZCDP(5)),
    "weighted_mean": partial(matched, fpp.weighted_mean, norm_bound=200.0, budget=fpp.ZCDP(0.5)),
    "estimate_gaussian": partial(matched, fpp.estimate_gaussian, budget=fpp.ZCDP(5)),
    "learn_separated_mixture": partial(
        matched, fpp.learn_separated_mixture, n_components=1, min_weight=0.9, budget=fpp.ZCDP(5)
    ),
    "learn_axis_aligned_mixture": partial(
        matched,
        fpp.learn_axis_aligned_mixture,
        n_components=1,
        budget=ApproxDP(6, 1e-6),
    ),
}


def released(result):
    if hasattr(result, "quantile"):
        return [result.quantile[:, 0]]
    found = result.mean if hasattr(result, "mean") else result.means[0]
    spread = getattr(result, "covariance", None)
    spread = result.covariances[0] if spread is None and hasattr(result, "covariances") else spread
    return [found] if spread is None else [found, spread]


def same(one, other):
    assert one.columns == other.columns
    for found, wanted in zip(released(one), released(other), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_no_function_with_two_data_sets_is_left_out():
    both = {"x_priv", "x_pub"}
    functions = [name for name in fpp.__all__ if inspect.isfunction(getattr(fpp, name))]
    found = {name: set(inspect.signature(getattr(fpp, name)).parameters) for name in functions}
    assert set(FUNCTIONS) == {name for name in found if both <= found[name]} - LABELED - COUNTED - {
        "private_pca"
    }
    assert {name for name in found if "y_priv" in found[name]} == LABELED


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_principal_components_match_names():
    """A result without a mean, so not among FUNCTIONS."""

    def components(x_priv, x_pub):
        return seeded(
            fpp.private_pca, x_priv, x_pub=x_pub, n_components=2, budget=fpp.ZCDP(5)
        ).components

    wanted = components(frame(PRIVATE, NAMES), frame(PUBLIC, NAMES))
    for order in ORDERS:
        found = components(
            frame(PRIVATE, NAMES), frame(PUBLIC[:, order], [NAMES[k] for k in order])
        )
        np.testing.assert_array_equal(found, wanted)
    raises(
        InputError,
        None,
        components,
        frame(PRIVATE, NAMES),
        frame(PUBLIC, ["carat", "price", "depth"]),
    )


@pytest.mark.parametrize("call", FUNCTIONS.values(), ids=FUNCTIONS)
def test_every_function_matches_names(call):
    order = [2, 0, 1]
    wanted = call(frame(PRIVATE[:, order], [NAMES[k] for k in order]), PUBLIC[:, order])
    np.testing.assert_allclose(released(wanted)[0], SHIFTS[order], atol=5.0)
    assert wanted.columns == tuple(NAMES[k] for k in order)
    for public_order in ORDERS:
        x_priv = frame(PRIVATE[:, order], [NAMES[k] for k in order])
        x_pub = frame(PUBLIC[:, public_order], [NAMES[k] for k in public_order])
        same(call(x_priv, x_pub), wanted)
    # With columns=, its order decides.
    chosen = [NAMES[k] for k in (1, 2, 0)]
    wide = frame(PRIVATE, NAMES).assign(name="Alice-SSN-123")
    same(
        call(wide, frame(PUBLIC, NAMES)[NAMES[::-1]], columns=chosen),
        call(frame(PRIVATE, NAMES)[chosen], PUBLIC[:, [1, 2, 0]]),
    )


@pytest.mark.parametrize("call", FUNCTIONS.values(), ids=FUNCTIONS)
def test_every_function_refuses_other_names_before_the_debit(call):
    log = []
    ledger = SpyLedger(fpp.ZCDP(100), log)
    for columns, words in (
        (["carat", "price", "depth"], r"no column 'table'.*a column 'depth'"),
        (["carat", "price"], "'table'"),
    ):
        with pytest.raises(InputError, match=words):
            call(frame(PRIVATE, NAMES), frame(PUBLIC[:, : len(columns)], columns), ledger=ledger)
    with pytest.raises(InputError, match="a column 'more', which x_priv has not"):
        call(frame(PRIVATE, NAMES), frame(PUBLIC, NAMES).assign(more=1.0), ledger=ledger)
    assert log == []


@pytest.mark.parametrize("theirs", SOURCES)
@pytest.mark.parametrize("ours", SOURCES)
def test_every_pair_of_sources(ours, theirs, tmp_path):
    wanted = {}
    for index, (order, public_order) in enumerate(
        ((ORDERS[0], ORDERS[3]), (ORDERS[4], ORDERS[1]), (ORDERS[5], ORDERS[5]))
    ):
        names = tuple(NAMES[place] for place in order)
        wanted[names] = wanted.get(names) or mean_of(PRIVATE[:, order], PUBLIC[:, order])
        x_priv = made(ours, PRIVATE, order, tmp_path, f"private-{index}")
        found = mean_of(x_priv, made(theirs, PUBLIC, public_order, tmp_path, f"public-{index}"))
        assert found.columns == names
        np.testing.assert_array_equal(found.mean, wanted[names].mean)
    other = made(theirs, PUBLIC, [0, 1, 2], tmp_path, "other", ["carat", "price", "depth"])
    with pytest.raises(InputError, match="which x_priv has not") as caught:
        mean_of(made(ours, PRIVATE, [0, 1, 2], tmp_path, "private"), other)
    assert "'depth'" in str(caught.value)
    # The first line of a private CSV file may be a row: its words are not told.
    assert ("'table'" in str(caught.value)) == (ours != "csv")


@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_without_names_is_matched_by_position(kind, tmp_path):
    wanted = mean_of(PRIVATE, PUBLIC).mean
    np.save(tmp_path / "x.npy", PRIVATE)
    np.save(tmp_path / "y.npy", PUBLIC)
    x_priv = made(kind, PRIVATE, [0, 1, 2], tmp_path, "private")
    x_pub = made(kind, PUBLIC, [0, 1, 2], tmp_path, "public")
    for ours in (PRIVATE, tmp_path / "x.npy", private_rows(PRIVATE), pd.DataFrame(PRIVATE)):
        np.testing.assert_array_equal(mean_of(ours, x_pub).mean, wanted)
    for theirs in (
        PUBLIC,
        tmp_path / "y.npy",
        Rows.from_chunks(lambda: [PUBLIC], n=40, dim=3),
        pd.DataFrame(PUBLIC),
    ):
        np.testing.assert_array_equal(mean_of(x_priv, theirs).mean, wanted)
    assert np.isfinite(mean_of(x_priv, PUBLIC[0]).mean).all()


def test_numbers_as_names_and_spaces_in_the_header_of_a_csv_file(tmp_path):
    """The numbers of a frame made of an array are no names, but those of two frames belong to each other."""
    ours = pd.DataFrame(PRIVATE)[[2, 0, 1]]
    theirs = pd.DataFrame(PUBLIC)
    np.testing.assert_array_equal(
        mean_of(ours, theirs).mean, mean_of(PRIVATE[:, [2, 0, 1]], PUBLIC[:, [2, 0, 1]]).mean
    )
    numbered = pd.DataFrame(PUBLIC)[[1, 2, 0]]
    np.testing.assert_array_equal(
        mean_of(pd.DataFrame(PRIVATE), numbered).mean, mean_of(PRIVATE, PUBLIC).mean
    )
    for name, x in (("private", PRIVATE), ("public", PUBLIC)):
        frame(x, [" carat", "price ", " table"]).to_csv(tmp_path / f"{name}.csv", index=False)
    found = mean_of(tmp_path / "private.csv", tmp_path / "public.csv")
    np.testing.assert_array_equal(found.mean, mean_of(PRIVATE, PUBLIC).mean)
    found = mean_of(tmp_path / "private.csv", tmp_path / "public.csv", columns=["table", "carat"])
    assert found.columns == ("table", "carat")


def test_released_results_match_the_names_of_rows():
    swapped = [2, 0, 1]
    table = frame(PUBLIC[:, swapped], [NAMES[k] for k in swapped])
    gaussian = FUNCTIONS["estimate_gaussian"](frame(PRIVATE, NAMES), PUBLIC)
    found = FUNCTIONS["learn_separated_mixture"](frame(PRIVATE, NAMES), PUBLIC)
    pca = seeded(
        fpp.private_pca,
        frame(PRIVATE, NAMES),
        budget=fpp.ZCDP(5),
        center=SHIFTS,
        radius=9.0,
        n_components=2,
    )
    alone = fpp.public_only(frame(PUBLIC, NAMES), n_components=1)
    assert alone.columns == tuple(NAMES)
    for method in (
        gaussian.log_prob,
        found.log_prob,
        found.predict,
        found.predict_proba,
        pca.transform,
        alone.log_prob,
    ):
        wanted = method(PUBLIC)
        for rows in (
            table,
            pl.DataFrame(table.to_numpy(), schema=list(table.columns)),
            pa.table(table),
            frame(PUBLIC, NAMES),
        ):
            np.testing.assert_array_equal(method(rows), wanted)
        np.testing.assert_array_equal(method(pd.DataFrame(PUBLIC)), wanted)
        raises(
            InputError,
            r"no column 'table'.*column 'depth'",
            method,
            table.rename(columns={"table": "depth"}),
        )
    points = found.plot(x_pub=table).axes[0].lines[0].get_xydata()
    np.testing.assert_array_equal(points, found.plot(x_pub=PUBLIC).axes[0].lines[0].get_xydata())
    np.testing.assert_array_equal(
        points, found.plot(x_pub=table.assign(name="x")).axes[0].lines[0].get_xydata()
    )


def test_hypotheses_match_the_names_of_rows():
    def listed(order, shift):
        names = [NAMES[place] for place in order]
        return fpp.public_only(frame((PUBLIC + shift)[:, order], names), n_components=1)

    def chosen(hypotheses, **options):
        rows = frame(PRIVATE, NAMES)
        return seeded(
            fpp.select_hypothesis, rows, hypotheses=hypotheses, budget=fpp.PureDP(5), **options
        )

    mixtures = [listed([2, 0, 1], 0.0), listed([0, 1, 2], 9.0), listed([1, 0, 2], -9.0)]
    for hypotheses in (mixtures, tuple(mixtures[::-1]), fpp.Hypotheses.from_mixtures(mixtures)):
        result = chosen(hypotheses)
        assert result.columns == tuple(NAMES)
        np.testing.assert_allclose(result.means[0], SHIFTS, atol=1.0)
        full = listed([0, 1, 2], 0.0).covariances[0]
        np.testing.assert_allclose(result.covariances[0], full, rtol=1e-9)
    other = fpp.public_only(frame(PUBLIC, ["carat", "price", "depth"]), n_components=1)
    for wrong in ([other], [mixtures[0], other], fpp.Hypotheses.from_mixtures([other])):
        raises(InputError, r"no column 'table'.*a column 'depth'", chosen, wrong)
    raises(InputError, "'depth'", chosen, mixtures, fallback=[other])


def test_planted_columns_that_are_matched_by_position(monkeypatch):
    monkeypatch.setattr(open, "column_order", lambda *names, **options: None)
    # counts find columns that are far from their center
    within_ball = partial(mean_of, clipping="gaussian")
    found = within_ball(frame(PRIVATE, NAMES), frame(PUBLIC, NAMES)[NAMES[::-1]])
    assert not np.allclose(found.mean, SHIFTS, atol=5.0)
    raises(AssertionError, None, test_every_function_matches_names, within_ball)


@pytest.mark.parametrize(
    "bad",
    [
        5,
        "x",
        {"a": 1},
        [["a", "b", "c"]],
        PUBLIC.astype(complex),
        PUBLIC[:0],
        object(),
        PUBLIC[None],
    ],
)
@pytest.mark.parametrize("call", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_wrong_data_set_is_named(call, bad):
    raises(InputError, r"^x_pub: ", call, PRIVATE, bad)
    raises(InputError, r"^x_priv: ", call, bad, PUBLIC)


# ---- `bounds=(lowest, highest)` for people who know what their columns can hold -------------------------------------
RNG_OF_BOUNDS = np.random.default_rng(17)
SCALE = np.array([1.0, 1e-6, 1e9])
ROWS = RNG_OF_BOUNDS.random((4000, 3)) * SCALE
PUBLIC_OF_BOUNDS = RNG_OF_BOUNDS.random((20, 3)) * SCALE
BOUNDS = (np.zeros(3), SCALE)
WITH_PUBLIC = {"budget": ZCDP(0.5), "x_pub": PUBLIC_OF_BOUNDS}
CALLS = {
    "weighted_mean": partial(seeded, fpp.weighted_mean, budget=ZCDP(0.5)),
    "weighted_mean, public rows": partial(seeded, fpp.weighted_mean, **WITH_PUBLIC),
    "coinpress_mean": partial(seeded, fpp.coinpress_mean, budget=ZCDP(0.5)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(1)])
def test_each_column_has_noise_of_its_own_scale(name, budget):
    result = CALLS[name](ROWS, bounds=BOUNDS, budget=budget)
    np.testing.assert_allclose(result.noise_std / SCALE, result.noise_std[0], rtol=1e-12)
    assert np.all(result.sampling_std < 0.02 * SCALE)


@pytest.mark.parametrize("name", CALLS)
def test_units_change_nothing_and_the_answer_lies_within(name):
    once = CALLS[name](ROWS, bounds=BOUNDS)
    unit = np.array([4.0, 0.25, 1.0])
    given = {"x_pub": PUBLIC_OF_BOUNDS * unit} if "public" in name else {}
    again = CALLS[name](ROWS * unit, bounds=(np.zeros(3), SCALE * unit), **given)
    np.testing.assert_array_equal(again.mean, once.mean * unit)
    np.testing.assert_array_equal(again.noise_std, once.noise_std * unit)
    given = {"x_pub": np.full((20, 3), 0.9)} if "public" in name else {}
    for budget in (ZCDP(1e-6), ZCDP(0.5)):
        result = CALLS[name](np.full((50, 3), 1e3), bounds=(0.0, 1.0), budget=budget, **given)
        assert np.all((result.mean >= 0.0) & (result.mean <= 1.0))


def test_the_ball_of_coinpress_reaches_the_corners():
    box = {"bounds": ([0.0, 0.0], [1.0, 4.0])}
    ball = {"center": [0.5, 2.0], "radius": float(np.hypot(0.5, 1.0))}
    found = [
        CALLS["coinpress_mean"](ROWS[:, :2], variance=[1.0, 4.0], steps=1, **given)
        for given in (box, ball)
    ]
    assert found[0].releases[0]["clip_radius"] == found[1].releases[0]["clip_radius"]
    full = CALLS["coinpress_mean"](
        ROWS[:, :2], bounds=(0.0, 1.0), covariance=[[1.0, 0.5], [0.5, 1.0]]
    )
    assert np.isfinite(full.mean).all()


SPREADS = {
    "coinpress_covariance": partial(seeded, fpp.coinpress_covariance, budget=ZCDP(0.5)),
    "private_pca": partial(seeded, fpp.private_pca, budget=ZCDP(0.5), n_components=1),
    "private_pca, public rows": partial(seeded, fpp.private_pca, n_components=1, **WITH_PUBLIC),
    "estimate_gaussian": partial(seeded, fpp.estimate_gaussian, **WITH_PUBLIC),
}


@pytest.mark.parametrize("center", [None, 0.4 * SCALE])
def test_a_covariance_has_a_unit_for_each_column(center):
    given = {"bounds": BOUNDS, "center": center}
    found = SPREADS["coinpress_covariance"](ROWS, **given)
    about = SCALE / 2.0 if center is None else center
    true = (ROWS - about).T @ (ROWS - about) / len(ROWS)
    assert np.all(np.abs(found.covariance - true) < 0.03 * np.outer(SCALE, SCALE))
    assert np.all(np.diag(found.covariance) <= (about * (SCALE - about)) * (1 + 1e-12))
    unit = np.array([4.0, 0.25, 1.0])
    moved = given | {
        "bounds": (np.zeros(3), SCALE * unit),
        "center": None if center is None else center * unit,
    }
    again = SPREADS["coinpress_covariance"](ROWS * unit, **moved)
    np.testing.assert_array_equal(again.covariance, found.covariance * np.outer(unit, unit))
    # Planted: one unit for all columns, in which the small ones are lost.
    shared = SPREADS["coinpress_covariance"](ROWS - about, scale=float(SCALE.max() ** 2))
    assert abs(shared.covariance[1, 1] - true[1, 1]) > 100.0 * SCALE[1] ** 2


def test_no_variance_is_more_than_bounds_allow():
    """Rows at both ends have the largest variance that there is; noise must not make it larger, and does without the limit."""
    ends = np.repeat([[0.0], [1.0]], 100, axis=0)
    limited = [
        SPREADS["coinpress_covariance"](ends, bounds=(0.0, 1.0), random_state=seed)
        for seed in range(8)
    ]
    assert max(float(found.covariance[0, 0]) for found in limited) <= 0.25 * (1 + 1e-12)
    with mock.patch.object(covariances, "narrowed", side_effect=lambda found, center, box: found):
        free = [
            SPREADS["coinpress_covariance"](ends, bounds=(0.0, 1.0), random_state=seed)
            for seed in range(8)
        ]
    assert max(float(found.covariance[0, 0]) for found in free) > 0.25


@pytest.mark.parametrize("name", ["private_pca", "private_pca, public rows"])
@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(1)])
def test_a_ball_of_directions_stays_within_the_corners(name, budget):
    rows = ROWS / SCALE * [1.0, 3.0, 1.0]
    open = {"x_pub": PUBLIC_OF_BOUNDS / SCALE * [1.0, 3.0, 1.0]} if "public" in name else {}
    found = SPREADS[name](rows, bounds=([0.0, 0.0, 0.0], [1.0, 3.0, 1.0]), budget=budget, **open)
    assert abs(found.components[0, 1]) > 0.95
    assert found.status == "ok"
    (radius,) = {
        each["clip_radius"] * np.sqrt(2.0)
        for each in found.releases
        if "second moment" in each["name"]
    }
    assert radius <= np.linalg.norm(np.maximum(found.center, [1.0, 3.0, 1.0] - found.center)) * (
        1 + 1e-12
    )
    # too few for a count of distances
    few = SPREADS[name](rows[:40], bounds=(0.0, 3.0), budget=ZCDP(0.01), **open)
    assert [each["name"] for each in few.releases] == ["second moment"]
    assert few.provenance["radius"] == ("public rows" if open else "bounds")
    assert few.provenance["center"] == ("public rows" if open else "bounds")


def test_a_gaussian_stays_within_its_bounds():
    box = (np.zeros(3), SCALE)
    free = SPREADS["estimate_gaussian"](ROWS + 2.0 * SCALE, bounds=None)
    held = SPREADS["estimate_gaussian"](ROWS + 2.0 * SCALE, bounds=box)
    assert np.all(free.mean > SCALE)
    np.testing.assert_array_equal(held.mean, SCALE)
    assert "clipped" in held.reasons
    assert held.diagnostics["outside_bounds"] is True
    assert np.all(np.diag(held.covariance) < np.diag(free.covariance))
    np.testing.assert_allclose(held.correlation, free.correlation, rtol=1e-9, atol=1e-12)
    assert held.spent == free.spent
    assert held.releases == free.releases
    again = fpp.GaussianResult.from_json(held.to_json())
    assert again.diagnostics["bounds"] == (tuple(box[0]), tuple(box[1]))
    released = partial(SPREADS["estimate_gaussian"], x_pub=PUBLIC_OF_BOUNDS / SCALE)
    for method in ("lifted_coinpress", "pairs"):
        with pytest.warns(AccuracyWarning):
            other = released(ROWS[:50] / SCALE, bounds=(0.0, 1.0), method=method)
        assert np.all(
            (other.mean >= 0.0)
            & (other.mean <= 1.0)
            & (np.diag(other.covariance) <= 0.25 * (1 + 1e-12))
        )
    assert released(ROWS / SCALE, bounds=(0.0, np.inf)).status == "ok"


@pytest.mark.filterwarnings("ignore:estimate_gaussian. clipped:fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("name", ["private_pca, public rows", "estimate_gaussian", "estimate_mean"])
def test_public_rows_beyond_the_bounds_are_named(name):
    calls = SPREADS | {
        "estimate_mean": lambda x, **options: mean_of(x, PUBLIC_OF_BOUNDS, **options)
    }
    with pytest.warns(AccuracyWarning, match=r"public values lie beyond bounds= in x2,"):
        calls[name](ROWS, bounds=(np.zeros(3), [1.0, 1e-6, 1e8]))
    with warnings.catch_warnings(action="error", category=AccuracyWarning):
        calls[name](ROWS, bounds=BOUNDS)


BAD = Refusals()
BAD.add("below the highest", bounds=(1.0, 0.0))
BAD.add("below the highest", bounds=(0.0, 0.0))
BAD.add("finite", bounds=(0.0, np.inf))
BAD.add("below the highest", bounds=(np.nan, 1.0))
BAD.add("3 columns", bounds=([0.0, 0.0], 1.0))
BAD.add("pair", bounds=1.0)
BAD.add("numbers", bounds=("a", 1.0))
BAD.add("change the unit", bounds=(0.0, 1e-300))
BAD.add("leave them out", bounds=BOUNDS, center=0.0)
BAD.add("bounds=")
# A mean or a covariance may be limited at one end alone, in any unit; what needs no bounds needs nothing in their place.
ENDLESS = ("finite", "change the unit", "leave them out", "bounds=")
OPTIONAL = {
    "estimate_gaussian": ENDLESS,
    "private_pca, public rows": ("bounds=",),
    "coinpress_covariance": ("leave them out",),
}


@pytest.mark.parametrize("name", CALLS | SPREADS)
@pytest.mark.parametrize(("options", "words"), BAD)
def test_bounds_are_checked(name, options, words):
    if words in OPTIONAL.get(name, ()):
        return
    with pytest.raises(InputError, match=words):
        (CALLS | SPREADS)[name](ROWS, **options)


REFUSED = Refusals()
REFUSED.add("either", "weighted_mean", norm_bound=1.0)
REFUSED.add("leave them out", "weighted_mean", variance=1.0)
REFUSED.add("leave them out", "coinpress_mean", radius=1.0)
REFUSED.add("leave them out", "private_pca", radius="auto")
REFUSED.add("either", "coinpress_covariance", scale=1.0)
REFUSED.add("within", "coinpress_covariance", center=0.0)


@pytest.mark.parametrize(("name", "options", "words"), REFUSED)
def test_bounds_stand_alone(name, options, words):
    raises(InputError, words, (CALLS | SPREADS)[name], ROWS, bounds=BOUNDS, **options)
