"""Methods that need more rows than the sweep draws, lists of candidates, and columns of dates, against the truth."""

import functools

import numpy as np
import pytest

import fastpubpriv as fpp
from fastpubpriv.mixtures import list_decoding
from tests.truth import engine
from tests.truth.arguments import VERBS, Call
from tests.truth.populations import CENTERS, drawn, population

STRONG = fpp.ApproxDP(4, 1e-6)


# ---- Covariances by black boxes --------------------------------------------------------------------------------------
BLACK_BOXES = {
    "recursive_preconditioner": (["x", "v", "u"], fpp.ZCDP(1)),
    "group_covariances": (["x"], fpp.ApproxDP(32, 0.01)),
    "hypothesis_selection": (["x"], fpp.ZCDP(1)),
}


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore:delta = 0.01 is at least 1/n:fastpubpriv.errors.PrivacyWarning")
@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.ExperimentalWarning")
@pytest.mark.parametrize("draw", range(5))
@pytest.mark.parametrize("method", BLACK_BOXES)
def test_black_boxes_are_near_the_truth_where_rows_are_many(method, draw):
    columns, budget = BLACK_BOXES[method]
    tables = drawn("light", 40_000, draw)
    truth = population("light")[columns]

    result = fpp.estimate_gaussian(
        tables.private, x_pub=tables.public, columns=columns, method=method, budget=budget
    )

    assert np.abs((result.mean - truth.mean()) / truth.std()).max() < 0.1
    assert np.abs(np.sqrt(np.diag(result.covariance)) / truth.std() - 1.0).max() < 0.2
    assert result.status != "ok" or np.isfinite(result.confidence_interval()).all()


# ---- Lists of candidates ---------------------------------------------------------------------------------------------
def places_of_rows(draw):
    """The columns of the mixture."""
    return drawn("light", 20_000, draw).private[["m1", "m2"]]


@pytest.mark.parametrize("draw", range(3))
def test_a_list_of_means_holds_every_center(draw):
    lists = list_decoding.decode_means(places_of_rows(draw), std=[1.0, 1.0], budget=STRONG)

    for column, listed in enumerate(lists.means):
        assert np.abs(CENTERS[:, column, None] - listed).min(axis=1).max() <= 1.0


@pytest.mark.parametrize("draw", range(3))
def test_a_list_of_scales_holds_the_deviation_within_a_factor_of_two(draw):
    lists = list_decoding.decode_variances(places_of_rows(draw), budget=STRONG)

    for listed in lists.scales:
        assert np.abs(np.log2(listed)).min() <= 1.0


@pytest.mark.parametrize("draw", range(3))
def test_a_list_of_means_and_scales_holds_every_component(draw):
    lists = list_decoding.decode_axis_aligned(places_of_rows(draw), budget=STRONG)

    for column in range(2):
        means, scales, _ = lists.coarse(column)
        near = means[(scales >= 0.5) & (scales <= 2.0)]
        assert np.abs(CENTERS[:, column, None] - near).min(axis=1).max() <= 2.0


@pytest.mark.parametrize("draw", range(3))
def test_a_list_of_gaussians_of_one_column_holds_every_component(draw):
    lists = list_decoding.decode_gaussians(
        places_of_rows(draw)[["m1"]], min_weight=0.15, budget=STRONG
    )
    means, scales, _ = lists.coarse(0)
    near = means[(scales >= 0.25) & (scales <= 2.0)]

    assert np.abs(np.array([0.0, 12.0])[:, None] - near).min(axis=1).max() <= 2.0


# ---- Dates -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "verb", [fpp.estimate_mean, fpp.quantiles, fpp.estimate_gaussian, fpp.describe]
)
def test_a_column_of_dates_is_refused_before_the_debit(verb):
    tables = drawn("awkward", 400, 0)
    ledger = fpp.Ledger(fpp.ZCDP(1))

    with pytest.raises(fpp.InputError, match=r"'day' \(datetime64"):
        verb(
            tables.private,
            x_pub=tables.public,
            columns=["day", "u"],
            budget=fpp.ZCDP(0.1),
            ledger=ledger,
        )

    assert ledger.entries == ()


def test_texts_of_dates_are_counted(tmp_path):
    private = drawn("awkward", 2_000, 0).private
    texts = private["day"].dt.strftime("%Y-%m-%d")
    private.assign(day=texts).to_csv(tmp_path / "days.csv", index=False)

    result = fpp.value_counts(
        tmp_path / "days.csv", columns="day", keys=sorted(set(texts))[:2], budget=fpp.ZCDP(0.5)
    )

    truth = texts.value_counts().sort_index()
    assert np.abs(result.counts[:3] - truth.to_numpy()).max() < 6.0 * result.noise_std


# ---- An argument that a function of the package accepts and ignores --------------------------------------------------
def test_a_keyword_that_quantiles_would_ignore_is_found(monkeypatch):
    @functools.wraps(fpp.quantiles)
    def quantiles(x_priv, *, smoothing=0.0, **more):
        return fpp.quantiles(x_priv, **more)

    cases = {"smoothing": [0.5], "q": [0.5]}
    monkeypatch.setitem(
        VERBS, "quantiles", VERBS["quantiles"]._replace(call=quantiles, cases=cases)
    )
    found = [
        finding.arguments for finding in engine.without_effect("quantiles", ["light"], rows=400)
    ]

    assert found == [("smoothing=0.5",)]


def test_quantiles_without_that_keyword_have_no_such_finding():
    assert engine.answer(Call("quantiles", (), "light", 400)).faults == []
