"""The group of all other rows, which nobody named: without rows it enters neither the status of a result nor its plot."""

import numpy as np
import pytest

import fastpubpriv as fpp

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")


def rows_of(groups, n=40_000):
    rng = np.random.default_rng(0)
    group = rng.integers(0, groups, n)
    return np.column_stack([rng.normal(10.0 + group, 1.0), rng.normal(5.0, 1.0, n), group])


def learned(function, rows, groups, **options):
    return function(
        rows[60:],
        x_pub=rows[:60].copy(),
        by=-1,
        groups=groups,
        budget=fpp.ZCDP(1),
        random_state=3,
        **options,
    )


@pytest.mark.parametrize(
    ("function", "options"), [(fpp.estimate_mean, {}), (fpp.quantiles, {"q": 0.5})]
)
def test_groups_that_are_all_listed_make_an_ok(function, options):
    result = learned(function, rows_of(20), range(20), **options)
    assert result.groups[-1] == "(other)"
    assert result.part_reasons[-1] == ("few_rows",)
    assert result.part_status.count("ok") == 40
    assert result.status == "ok"
    assert result.reasons == ()
    assert type(result).from_json(result.to_json()).status == "ok"
    assert "few_rows (" not in result.summary()


@pytest.mark.parametrize(
    ("function", "options"), [(fpp.estimate_mean, {}), (fpp.quantiles, {"q": 0.5})]
)
def test_a_named_group_without_rows_is_a_caution(function, options):
    result = learned(function, rows_of(4), [0, 1, 2, 3, 99], **options)
    assert result.part_reasons[-4:] == (("few_rows",),) * 4
    assert result.status == "caution"
    assert "caution (8 ok, 2 caution)" in result.summary()


def test_other_rows_that_are_there_have_a_mean_and_a_line():
    result = learned(fpp.estimate_mean, rows_of(8), range(7))
    rows = rows_of(8)[60:]
    assert result["(other)"] == pytest.approx(rows[rows[:, 2] == 7, :2].mean(axis=0), abs=0.1)
    assert [text.get_text() for text in result.plot().axes[0].get_yticklabels()][-1] == "(other)"


def test_a_plot_of_means_leaves_out_other_rows_that_are_not_there():
    axes = learned(fpp.estimate_mean, rows_of(3), range(3)).plot().axes
    assert [[text.get_text() for text in each.get_yticklabels()] for each in axes] == [
        ["0", "1", "2"]
    ] * 2
    assert [text.get_text() for each in axes for text in each.texts] == []


def test_a_plot_of_quantiles_leaves_out_other_rows_that_are_not_there():
    figure = learned(fpp.quantiles, rows_of(3), range(3)).plot()
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [f"{group}: x{j}" for group in range(3) for j in range(2)]


@pytest.mark.parametrize(("function", "lines"), [(fpp.estimate_mean, 2), (fpp.quantiles, 6)])
def test_a_printed_table_leaves_out_other_rows_that_are_not_there(function, lines):
    result = learned(function, rows_of(3), range(3))
    first_words = [line.split()[0] for line in result.summary().splitlines()]
    assert first_words.count("(other)") == 1  # the fact below the table
    assert "nan" not in result.summary()
    assert "nan" not in result._repr_html_()
    assert len(result.to_frame().loc["(other)"]) == lines


@pytest.mark.parametrize(("function", "lines"), [(fpp.estimate_mean, 2), (fpp.quantiles, 6)])
def test_a_printed_table_has_other_rows_that_are_there(function, lines):
    result = learned(function, rows_of(8), range(7))
    assert result.summary().count("\n(other) ") == lines


def test_a_group_of_other_rows_in_an_unresolved_column_stays_in_the_status():
    rows = np.column_stack([np.random.default_rng(0).normal(size=200), np.arange(200) % 2])
    with pytest.warns(fpp.AccuracyWarning):
        result = fpp.estimate_mean(
            rows,
            x_pub=np.array([[0.0, 0.0]]),
            by=-1,
            groups=[0],
            budget=fpp.ZCDP(0.0005),
            random_state=1,
        )
    assert result.status == "unreliable"
    assert set(result.part_reasons) == {("unresolved",)}
