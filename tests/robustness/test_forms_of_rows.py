"""Rows in every form that people have them: every public function gives the same answer for all of them."""

import inspect
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from public_calls import quiet

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP
from fastpubpriv.mixtures.list_decoding import decode_axis_aligned, decode_gaussians, decode_means, decode_variances

RNG = np.random.default_rng(29)
LINE = np.concatenate([RNG.normal(size=150), RNG.normal(size=150) + 40.0])[RNG.permutation(300)]
PUBLIC = np.concatenate([RNG.normal(size=12), RNG.normal(size=12) + 40.0])
PLANE, PUBLIC_PLANE = RNG.normal(size=(300, 2)), RNG.normal(size=(24, 2))

LINES = {
    "array": lambda x: x,
    "list": lambda x: x.tolist(),
    "tuple": lambda x: tuple(x.tolist()),
    "strided": lambda x: np.repeat(x, 2)[::2],
    "list of lists": lambda x: x.reshape(-1, 1).tolist(),
    "pandas Series": pd.Series,
    "pandas Series with a name": lambda x: pd.Series(x, name="delay", index=np.arange(len(x))[::-1]),
    "pandas frame": lambda x: pd.DataFrame({"delay": x}),
    "polars Series": pl.Series,
    "polars Series with a name": lambda x: pl.Series("delay", x),
}
PLANES = {
    "list of lists": lambda x: x.tolist(),
    "list of arrays": list,
    "pandas frame": lambda x: pd.DataFrame(x, columns=["a", "b"]),
    "polars frame": lambda x: pl.DataFrame(x, schema=["a", "b"]),
}

LISTED = (np.full((3, 2), 0.5), np.array([[[0.0], [40.0]], [[1.0], [39.0]], [[5.0], [6.0]]]), np.ones((3, 2, 1)))
GAUSSIAN, APPROX = {"budget": ZCDP(0.5)}, {"budget": ApproxDP(1, 1e-6)}
WITH_PUBLIC = {
    "estimate_mean": lambda x, p, **o: fpp.estimate_mean(x, x_pub=p, **GAUSSIAN, **o),
    "estimate_mean, public covariance": lambda x, p, **o: fpp.estimate_mean(
        x, x_pub=p, covariance="public", **GAUSSIAN, **o
    ),
    "weighted_mean": lambda x, p, **o: fpp.weighted_mean(x, x_pub=p, norm_bound=60.0, **GAUSSIAN, **o),
    "estimate_gaussian": lambda x, p, **o: fpp.estimate_gaussian(x, x_pub=p, **GAUSSIAN, **o),
    "learn_separated_mixture": lambda x, p, **o: fpp.learn_separated_mixture(
        x, x_pub=p, n_components=2, min_weight=0.2, **GAUSSIAN, **o
    ),
    "learn_axis_aligned_mixture": lambda x, p, **o: fpp.learn_axis_aligned_mixture(
        x, x_pub=p, n_components=2, method="dp_em", **GAUSSIAN, **o
    ),
}
PRIVATE_ONLY = {
    "coinpress_mean": lambda x, **o: fpp.coinpress_mean(x, center=0.0, radius=99.0, **GAUSSIAN, **o),
    "coinpress_covariance": lambda x, **o: fpp.coinpress_covariance(x, scale=1000.0, **GAUSSIAN, **o),
    "private_pca": lambda x, **o: fpp.private_pca(x, center=0.0, radius=60.0, n_components=1, **GAUSSIAN, **o),
    "no_public_baseline": lambda x, **o: fpp.no_public_baseline(x, n_components=2, radius=60.0, **GAUSSIAN, **o),
    "stable_histogram": lambda x, **o: fpp.stable_histogram(x, bins=fpp.BinGrid(width=1.0), **APPROX, **o),
    "decode_variances": lambda x, **o: decode_variances(x, **APPROX, **o),
    "decode_means": lambda x, **o: decode_means(x, std=1.0, **APPROX, **o),
    "decode_gaussians": lambda x, **o: decode_gaussians(x, **APPROX, **o),
    "decode_axis_aligned": lambda x, **o: decode_axis_aligned(x, **APPROX, **o),
}
LINE_ONLY = {
    "select_hypothesis": lambda x, **o: fpp.select_hypothesis(x, hypotheses=LISTED, **GAUSSIAN, **o),
}
PUBLIC_ONLY = {
    "precondition": lambda p: fpp.precondition(p),
    "public_only": lambda p: fpp.public_only(p, n_components=2),
    "supercluster": lambda p: fpp.supercluster(p, n_components=2),
    "terrific_ball": lambda p: fpp.terrific_ball(p, min_count=2, radius_max=9.0),
}

LABELS, PUBLIC_LABELS = 2.0 * LINE + RNG.normal(size=300), 2.0 * PUBLIC + RNG.normal(size=24)
LABELLED = {
    "linear_regression": lambda x, y, p, q, **o: fpp.linear_regression(x, y, x_pub=p, y_pub=q, **GAUSSIAN, **o),
    "logistic_regression": lambda x, y, p, q, **o: fpp.logistic_regression(
        x, [each > 20.0 for each in np.ravel(y)], x_pub=p, y_pub=[each > 20.0 for each in np.ravel(q)], **GAUSSIAN, **o
    ),
    "train": lambda x, y, p, q, **o: fpp.train(
        x, y, loss="squared", method="newton", x_pub=p, y_pub=q, **GAUSSIAN, **o
    ),
}


def content(result):
    """A result without the names of its columns."""
    if not hasattr(result, "to_dict"):
        return repr(result)
    named = ("columns", "histograms", "design", "terms")
    return json.dumps({key: value for key, value in result.to_dict().items() if key not in named})


def answer(call, *rows, **options):
    return content(quiet(call, *rows, **options))


@pytest.mark.parametrize("name", WITH_PUBLIC)
def test_lines_beside_public_lines(name):
    options = {"random_state": 5, "threads": 1, "progress": False}
    expected = answer(WITH_PUBLIC[name], LINE.reshape(-1, 1), PUBLIC.reshape(-1, 1), **options)
    for form, made in LINES.items():
        assert answer(WITH_PUBLIC[name], made(LINE), made(PUBLIC), **options) == expected, form
    assert answer(WITH_PUBLIC[name], LINE, pd.Series(PUBLIC), **options) == expected
    assert answer(WITH_PUBLIC[name], pl.DataFrame({"delay": LINE}), PUBLIC.tolist(), **options) == expected


@pytest.mark.parametrize("name", LABELLED)
def test_labelled_lines(name):
    options = {"random_state": 5, "threads": 1, "progress": False}
    labels = [LABELS, PUBLIC_LABELS]
    expected = answer(LABELLED[name], LINE.reshape(-1, 1), labels[0], PUBLIC.reshape(-1, 1), labels[1], **options)
    for form, made in LINES.items():
        rows = [made(each) for each in (LINE, LABELS, PUBLIC, PUBLIC_LABELS)]
        assert answer(LABELLED[name], *rows, **options) == expected, form


def test_every_public_function_that_takes_rows_is_in_a_table():
    taking = {
        name
        for name in fpp.__all__
        if inspect.isfunction(getattr(fpp, name))
        and {"x_priv", "x_pub"} & inspect.signature(getattr(fpp, name)).parameters.keys()
    }
    assert taking <= {*WITH_PUBLIC, *PRIVATE_ONLY, *LINE_ONLY, *PUBLIC_ONLY, *LABELLED}


@pytest.mark.parametrize("name", [*PRIVATE_ONLY, *LINE_ONLY])
def test_lines_alone(name):
    call = {**PRIVATE_ONLY, **LINE_ONLY}[name]
    options = {"random_state": 5, "threads": 1, "progress": False}
    expected = answer(call, LINE.reshape(-1, 1), **options)
    for form, made in LINES.items():
        assert answer(call, made(LINE), **options) == expected, form


@pytest.mark.parametrize("name", PUBLIC_ONLY)
def test_public_lines_alone(name):
    expected = answer(PUBLIC_ONLY[name], PUBLIC.reshape(-1, 1))
    for form, made in LINES.items():
        assert answer(PUBLIC_ONLY[name], made(PUBLIC)) == expected, form


@pytest.mark.parametrize("name", [*WITH_PUBLIC, *PRIVATE_ONLY])
def test_several_columns(name):
    if name == "decode_gaussians":
        return
    options = {"random_state": 5, "threads": 1, "progress": False}
    call = {**WITH_PUBLIC, **PRIVATE_ONLY}[name]
    sets = (PLANE, PUBLIC_PLANE) if name in WITH_PUBLIC else (PLANE,)
    expected = answer(call, *sets, **options)
    for form, made in PLANES.items():
        assert answer(call, *(made(x) for x in sets), **options) == expected, form


def test_one_public_row_in_every_form():
    options = {"budget": ZCDP(0.5), "random_state": 5, "threads": 1, "progress": False}
    frame, public = pd.DataFrame(PLANE, columns=["a", "b"]), pd.DataFrame(PUBLIC_PLANE, columns=["a", "b"])
    rows = [PUBLIC_PLANE[:1], PUBLIC_PLANE[0], PUBLIC_PLANE[0].tolist(), public.iloc[:1], public.iloc[0]]
    rows += [public[["b", "a"]].iloc[0], pl.Series(PUBLIC_PLANE[0])]
    found = [answer(fpp.estimate_mean, frame, x_pub=row, **options) for row in rows]
    assert found == found[:1] * len(rows)


def test_results_evaluate_lines():
    options = {"random_state": 5, "threads": 1, "progress": False}
    gaussian = quiet(fpp.estimate_gaussian, LINE, x_pub=PUBLIC, budget=ZCDP(0.5), **options)
    directions = quiet(fpp.private_pca, LINE, center=0.0, radius=60.0, n_components=1, budget=ZCDP(0.5), **options)
    mixture = fpp.public_only(PUBLIC, n_components=2)
    for made in LINES.values():
        rows = made(PUBLIC)
        np.testing.assert_array_equal(gaussian.log_prob(rows), gaussian.log_prob(PUBLIC.reshape(-1, 1)))
        np.testing.assert_array_equal(directions.transform(rows), directions.transform(PUBLIC.reshape(-1, 1)))
        np.testing.assert_array_equal(mixture.predict(rows), mixture.predict(PUBLIC.reshape(-1, 1)))
        assert mixture.predict_proba(rows).shape == (24, 2)
