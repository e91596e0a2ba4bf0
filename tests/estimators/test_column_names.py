"""Columns with names are matched by name: in every function that takes two data sets, and for every pair of sources."""

import inspect
import itertools
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from spies import SpyLedger, seeded

import fastpubpriv as fpp
from fastpubpriv import ApproxDP, InputError, Rows
from fastpubpriv.columns import column_order
from fastpubpriv.sources import public

NAMES = ["carat", "price", "table"]
SHIFTS = np.array([0.0, 40.0, -90.0])
RNG = np.random.default_rng(8)
PRIVATE = np.round(RNG.normal(size=(1500, 3)) + SHIFTS, 6)
PUBLIC = np.round(RNG.normal(size=(40, 3)) + SHIFTS, 6)
ORDERS = [list(order) for order in itertools.permutations(range(3))]


def frame(x, names):
    return pd.DataFrame(x, columns=names)


def written(write):
    def make(x, names, folder, label):
        path = folder / label
        write(x, names, str(path))
        return path

    return make


def parquet(x, names, path):
    pa.parquet.write_table(pa.table(dict(zip(names, x.T, strict=True))), path)


def feather(x, names, path):
    pa.feather.write_feather(pa.table(dict(zip(names, x.T, strict=True))), path)


SOURCES = {
    "pandas": lambda x, names, folder, label: frame(x, names),
    "polars": lambda x, names, folder, label: pl.DataFrame(x, schema=names),
    "arrow": lambda x, names, folder, label: pa.table(dict(zip(names, x.T, strict=True))),
    "batches": lambda x, names, folder, label: pa.table(dict(zip(names, x.T, strict=True))).to_batches(max_chunksize=9),
    "rows": lambda x, names, folder, label: Rows.from_frame(frame(x, names)),
    "block": lambda x, names, folder, label: Rows.from_frame(frame(np.vstack([x[:1], x]), names)).slice(1, len(x) + 1),
    "parquet": lambda x, names, folder, label: written(parquet)(x, names, folder, f"{label}.parquet"),
    "parquet list": lambda x, names, folder, label: [written(parquet)(x, names, folder, f"{label}.parquet")],
    "feather": lambda x, names, folder, label: written(feather)(x, names, folder, f"{label}.feather"),
    "csv": lambda x, names, folder, label: written(lambda x, n, p: frame(x, n).to_csv(p, index=False))(
        x, names, folder, f"{label}.csv"
    ),
}


def made(kind, x, order, folder, label, names=NAMES):
    return SOURCES[kind](x[:, order], [names[place] for place in order], folder, label)


def mean_of(x_priv, x_pub, **options):
    return seeded(fpp.estimate_mean, x_priv, x_pub=x_pub, budget=fpp.ZCDP(0.5), **options)


def mixture(function, x_priv, x_pub, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return seeded(function, x_priv, x_pub=x_pub, n_components=1, **options)


# Matched in tests/training/test_regression.py: what they release are coefficients.
LABELLED = {"linear_regression", "logistic_regression", "train"}
FUNCTIONS = {
    "estimate_mean": mean_of,
    "weighted_mean": lambda x_priv, x_pub, **options: seeded(
        fpp.weighted_mean, x_priv, x_pub=x_pub, norm_bound=200.0, budget=fpp.ZCDP(0.5), **options
    ),
    "estimate_gaussian": lambda x_priv, x_pub, **options: seeded(
        fpp.estimate_gaussian, x_priv, x_pub=x_pub, budget=fpp.ZCDP(5), **options
    ),
    "learn_separated_mixture": lambda x_priv, x_pub, **options: mixture(
        fpp.learn_separated_mixture, x_priv, x_pub, min_weight=0.9, budget=fpp.ZCDP(5), **options
    ),
    "learn_axis_aligned_mixture": lambda x_priv, x_pub, **options: mixture(
        fpp.learn_axis_aligned_mixture, x_priv, x_pub, budget=ApproxDP(6, 1e-6), method="dp_em", **options
    ),
}


def released(result):
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
    assert set(FUNCTIONS) == {name for name in found if both <= found[name]} - LABELLED - {"private_pca"}
    assert {name for name in found if "y_priv" in found[name]} == LABELLED


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_principal_components_match_names():
    """A result without a mean, so not among FUNCTIONS."""

    def components(x_priv, x_pub):
        return seeded(fpp.private_pca, x_priv, x_pub=x_pub, n_components=2, budget=fpp.ZCDP(5)).components

    wanted = components(frame(PRIVATE, NAMES), frame(PUBLIC, NAMES))
    for order in ORDERS:
        found = components(frame(PRIVATE, NAMES), frame(PUBLIC[:, order], [NAMES[k] for k in order]))
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(InputError):
        components(frame(PRIVATE, NAMES), frame(PUBLIC, ["carat", "price", "depth"]))


@pytest.mark.parametrize("call", FUNCTIONS.values(), ids=FUNCTIONS)
def test_every_function_matches_names(call):
    order = [2, 0, 1]
    wanted = call(frame(PRIVATE[:, order], [NAMES[k] for k in order]), PUBLIC[:, order])
    np.testing.assert_allclose(released(wanted)[0], SHIFTS[order], atol=5.0)
    assert wanted.columns == tuple(NAMES[k] for k in order)
    for public_order in ORDERS:
        x_priv, x_pub = (frame(x[:, o], [NAMES[k] for k in o]) for x, o in ((PRIVATE, order), (PUBLIC, public_order)))
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
    x_priv, x_pub = (
        made(kind, x, [0, 1, 2], tmp_path, label) for x, label in ((PRIVATE, "private"), (PUBLIC, "public"))
    )
    for ours in (PRIVATE, tmp_path / "x.npy", Rows.from_array(PRIVATE), pd.DataFrame(PRIVATE)):
        np.testing.assert_array_equal(mean_of(ours, x_pub).mean, wanted)
    for theirs in (PUBLIC, tmp_path / "y.npy", Rows.from_chunks(lambda: [PUBLIC], n=40, dim=3), pd.DataFrame(PUBLIC)):
        np.testing.assert_array_equal(mean_of(x_priv, theirs).mean, wanted)
    assert np.isfinite(mean_of(x_priv, PUBLIC[0]).mean).all()


def test_numbers_as_names():
    """The numbers of a frame made of an array are no names, but those of two frames belong to each other."""
    ours, theirs = pd.DataFrame(PRIVATE)[[2, 0, 1]], pd.DataFrame(PUBLIC)
    np.testing.assert_array_equal(mean_of(ours, theirs).mean, mean_of(PRIVATE[:, [2, 0, 1]], PUBLIC[:, [2, 0, 1]]).mean)
    numbered = pd.DataFrame(PUBLIC)[[1, 2, 0]]
    np.testing.assert_array_equal(mean_of(pd.DataFrame(PRIVATE), numbered).mean, mean_of(PRIVATE, PUBLIC).mean)


def test_spaces_in_the_header_of_a_csv_file_are_no_part_of_a_name(tmp_path):
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
    pca = seeded(fpp.private_pca, frame(PRIVATE, NAMES), budget=fpp.ZCDP(5), center=SHIFTS, radius=9.0, n_components=2)
    alone = fpp.public_only(frame(PUBLIC, NAMES), n_components=1)
    assert alone.columns == tuple(NAMES)
    for method in (
        gaussian.log_prob, found.log_prob, found.predict, found.predict_proba, pca.transform, alone.log_prob,
    ):  # fmt: skip
        wanted = method(PUBLIC)
        for rows in (
            table,
            pl.DataFrame(table.to_numpy(), schema=list(table.columns)),
            pa.table(table),
            frame(PUBLIC, NAMES),
        ):
            np.testing.assert_array_equal(method(rows), wanted)
        np.testing.assert_array_equal(method(pd.DataFrame(PUBLIC)), wanted)
        with pytest.raises(InputError, match=r"no column 'table'.*column 'depth'"):
            method(table.rename(columns={"table": "depth"}))
    points = found.plot(x_pub=table).axes[0].lines[0].get_xydata()
    np.testing.assert_array_equal(points, found.plot(x_pub=PUBLIC).axes[0].lines[0].get_xydata())
    np.testing.assert_array_equal(points, found.plot(x_pub=table.assign(name="x")).axes[0].lines[0].get_xydata())


def test_hypotheses_match_the_names_of_rows():
    def listed(order, shift):
        names = [NAMES[place] for place in order]
        return fpp.public_only(frame((PUBLIC + shift)[:, order], names), n_components=1)

    def chosen(hypotheses, **options):
        rows = frame(PRIVATE, NAMES)
        return seeded(fpp.select_hypothesis, rows, hypotheses=hypotheses, budget=fpp.PureDP(5), **options)

    mixtures = [listed([2, 0, 1], 0.0), listed([0, 1, 2], 9.0), listed([1, 0, 2], -9.0)]
    for hypotheses in (mixtures, tuple(mixtures[::-1]), fpp.Hypotheses.from_mixtures(mixtures)):
        result = chosen(hypotheses)
        assert result.columns == tuple(NAMES)
        np.testing.assert_allclose(result.means[0], SHIFTS, atol=1.0)
        full = listed([0, 1, 2], 0.0).covariances[0]
        np.testing.assert_allclose(result.covariances[0], full, rtol=1e-9)
    other = fpp.public_only(frame(PUBLIC, ["carat", "price", "depth"]), n_components=1)
    for wrong in ([other], [mixtures[0], other], fpp.Hypotheses.from_mixtures([other])):
        with pytest.raises(InputError, match=r"no column 'table'.*a column 'depth'"):
            chosen(wrong)
    with pytest.raises(InputError, match="'depth'"):
        chosen(mixtures, fallback=[other])


def test_order_of_columns():
    def order(wanted, found, **options):
        return column_order(wanted, found, of="one", within="other", **options)

    assert order(None, ["a"]) is None
    assert order(["a"], None) is None
    assert order(["a", "b"], ("a", "b")) is None
    assert order(["a", "b", "c"], ["c", "a", "b"]) == [1, 2, 0]
    assert order(["0", "1"], ["b", "a"]) is None
    assert order(["1", "0"], ["0", "1"]) == [1, 0]
    with pytest.raises(InputError, match="one name"):
        order(["a", "a"], ["a"])
    with pytest.raises(InputError, match=r"and 10 more"):
        order([f"c{i}" for i in range(60)], ["x"])
    with pytest.raises(InputError, match="lacks 2 of the columns") as caught:
        order(["secret", "hidden"], ["x"], show=False)
    assert "secret" not in str(caught.value)


def test_planted_columns_that_are_matched_by_position(monkeypatch):
    monkeypatch.setattr(public, "column_order", lambda *names, **options: None)
    within_ball = partial(mean_of, clipping="gaussian")  # counts find columns that are far from their centre
    found = within_ball(frame(PRIVATE, NAMES), frame(PUBLIC, NAMES)[NAMES[::-1]])
    assert not np.allclose(found.mean, SHIFTS, atol=5.0)
    with pytest.raises(AssertionError):
        test_every_function_matches_names(within_ball)


@pytest.mark.parametrize(
    "bad", [5, "x", {"a": 1}, [["a", "b", "c"]], PUBLIC.astype(complex), PUBLIC[:0], object(), PUBLIC[None]]
)
@pytest.mark.parametrize("call", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_wrong_data_set_is_named(call, bad):
    with pytest.raises(InputError, match=r"^x_pub: "):
        call(PRIVATE, bad)
    with pytest.raises(InputError, match=r"^x_priv: "):
        call(bad, PUBLIC)
