"""The sweep: the table of arguments is complete, no quick call prints what is not true; the whole of it is an audit."""

import inspect
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fastpubpriv as fpp
from fastpubpriv import sklearn as classes
from fastpubpriv.cli import estimators, options
from tests.truth import arguments, engine, known, shares, terms
from tests.truth.arguments import VERBS

FORMS = ("estimate_mean", "quantiles", "value_counts", "describe", "linear_regression")


# ---- The rule --------------------------------------------------------------------------------------------------------
def test_every_argument_of_a_public_function_has_a_case():
    assert arguments.complaints(list(arguments.public_functions()), VERBS) == []


def test_a_new_argument_without_a_case_is_seen():
    def quantiles(x_priv, *, x_pub, budget, q=0.5, new=None): ...

    found = arguments.complaints([("quantiles", quantiles)], VERBS)

    assert found == ["argument new of quantiles has no case"]


def test_a_new_function_without_cases_is_seen():
    def estimate_mode(x_priv, *, budget): ...

    found = arguments.complaints([("estimate_mode", estimate_mode)], VERBS)

    assert found == ["function estimate_mode has no case"]


def test_every_argument_of_a_scikit_learn_class_is_one_of_its_function():
    functions = dict(arguments.public_functions())
    made = {name: getattr(classes, name) for name in classes.__all__}
    assert arguments.class_complaints(made, functions) == []


def test_every_option_of_a_command_is_one_of_its_function():
    own = {
        "private_path",
        "public_path",
        "rho",
        "epsilon",
        "delta",
        "seed",
        "keep",
        "join_quoted_lines",
        "quiet",
    }
    own |= {
        "ledger",
        "ledger_total",
        "level",
        "json_path",
        "plot_path",
        "help",
        "person",
        "rows_per_person",
        # What stands for other options, and rows inside a condition: tests/cli/test_data_file.py and tests/tables.
        "data_path",
        "where",
        "with_columns",
        # Comparisons of released numbers: tests/results/test_comparisons.py and tests/cli.
        "difference",
        "ratio",
    }
    found = []
    for command in estimators.COMMANDS:
        known_names = set(inspect.signature(getattr(fpp, command._made[1])).parameters)
        named_as_own = set(options.GROUPS) | OPTIONS_OF.get(command.name, set())
        names = {str(option.name) for option in command.params} - own - known_names - named_as_own
        found += [f"option {name} of {command.name} has no case" for name in sorted(names)]

    assert found == []


# Options that stand for an argument in other words.
OPTIONS_OF: dict[str, set[str]] = {
    "describe": {"html_path"}, "histogram": {"width", "offset", "levels", "dyadic", "joint"}, "train": {"huber_threshold"},
}  # fmt: skip


# ---- The sweep -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("verb", VERBS)
def test_no_printed_number_is_wrong(verb):
    sweep = engine.quick([verb])
    assert sweep.lines(known.KNOWN) == [], "\n".join(
        finding.code() for finding in sweep.unlisted(known.KNOWN)
    )
    assert sweep.refusals() == []


@pytest.mark.audit
@pytest.mark.parametrize("verb", VERBS)
def test_two_whole_sweeps_find_what_is_known_and_nothing_else(verb):
    repaired = [entry for entry in known.KNOWN if entry.verb == verb]
    for seed in (1, 2):
        sweep = engine.whole([verb], seed=seed)
        with tempfile.TemporaryDirectory() as folder:
            engine.same_bits(sweep, [verb], Path(folder))
        repaired = sweep.repaired(repaired)  # what neither of them shows

        assert sweep.lines(known.KNOWN) == []
        assert sweep.refusals() == []
    assert repaired == []


@pytest.mark.parametrize("verb", FORMS)
def test_every_form_of_a_table_and_every_neutral_argument_give_the_same_bits(verb, tmp_path):
    call = engine.Call(verb, (), "awkward", 400)
    assert engine.changed_bits(call) == []
    assert engine.other_forms(call, tmp_path) == []


def test_identifiers_are_the_same_persons_in_every_form(tmp_path):
    case = next(
        case
        for case in VERBS["estimate_mean"].all_cases()
        if case.text == "person='id', rows_per_person=1"
    )
    call = engine.Call("estimate_mean", (case,), "light", 400)

    assert engine.other_forms(call, tmp_path) == []


# ---- Terms, one at a time --------------------------------------------------------------------------------------------
def test_every_term_moves_its_interval():
    assert terms.still_terms() == []


def test_noise_alone_spreads_answers_as_printed():
    assert terms.outside(terms.noise_alone()) == []


def test_sampling_alone_spreads_answers_as_printed():
    assert terms.outside(terms.sampling_alone()) == []


def test_a_plan_is_what_calls_print():
    assert terms.outside(terms.planned()) == []


def test_measured_errors_are_within_a_factor_of_four_of_the_plan():
    assert terms.outside(terms.measured_over_planned()) == []


def test_intervals_under_laplace_noise_have_its_tails():
    assert terms.wider_under_laplace() > 1.5


@pytest.mark.audit
def test_ranks_and_coefficients_spread_as_printed():
    line = terms.noise_of_coefficients(terms.call_of("linear_regression", rows=20_000))
    ranks = terms.noise_of_ranks(terms.MEDIAN, seeds=1_000)

    assert 1.0 / terms.ROOM < line < terms.ROOM
    assert terms.RANKS_RECORDED / terms.ROOM < ranks < terms.RANKS_RECORDED * terms.ROOM


@pytest.mark.parametrize("name", shares.WATCHED)
def test_as_many_facts_are_ok_as_were(name):
    assert shares.watched_moved(name) == []


# ---- The inputs that every test once let pass ------------------------------------------------------------------------
SIZE, PERSONS = 20_000, 10_000


def visits_of_persons():
    """Private rows of 10,000 persons without a gap, and 60 public rows."""
    rng = np.random.default_rng(0)
    rows = SIZE + 60
    frame = pd.DataFrame(
        {
            "u": rng.normal(50.0, 10.0, rows),
            "x": rng.normal(10.0, 1.0, rows),
            "v": rng.normal(10.0, 1.0, rows),
        }
    )
    frame["g"] = rng.choice(["a", "b", "c"], rows)
    frame["id"] = rng.integers(0, PERSONS, rows)
    return frame.head(SIZE), frame.tail(60)


def test_means_of_groups_within_bounds_hold_the_truth():
    d, p = visits_of_persons()
    ends = (float(d["u"].min()), float(d["u"].max()))

    result = fpp.estimate_mean(d, x_pub=p, columns=["u"], by="g", bounds=ends, budget=fpp.ZCDP(0.1))

    assert np.abs(result.mean[:3] - 50.0).max() < 1.0


@pytest.mark.parametrize("unit", [{"bounds": (0, 30)}, {"norm_bound": 20.0}])
@pytest.mark.parametrize("k", [1, 2, "auto"])
def test_a_mean_of_several_rows_of_each_person_is_right(unit, k):
    d, p = visits_of_persons()
    try:
        result = fpp.weighted_mean(
            d,
            x_pub=p,
            columns=["x", "v"],
            person="id",
            rows_per_person=k,
            budget=fpp.ZCDP(0.1),
            **unit,
        )
    except fpp.InputError:
        assert k != 1  # several rows of a person may be refused
        return

    assert np.abs(result.mean - 10.0).max() < 0.2


@pytest.mark.parametrize("k", [1, 2, "auto"])
def test_variances_of_several_rows_of_each_person_are_right(k):
    d, _ = visits_of_persons()
    unit = {"scale": 4.0, "center": 10.0, "columns": ["x", "v"], "budget": fpp.ZCDP(1)}
    try:
        result = fpp.coinpress_covariance(d, person="id", rows_per_person=k, **unit)
    except fpp.InputError:
        assert k != 1  # several rows of a person may be refused
        return

    assert np.abs(np.diag(result.covariance) - 1.0).max() < 0.1


def test_identifiers_in_a_csv_file_are_those_of_the_frame(tmp_path):
    d, p = visits_of_persons()
    d.head(600).to_csv(tmp_path / "visits.csv", index=False)
    given = {"x_pub": p, "columns": ["u"], "person": "id", "keep": "mean"}
    given |= {"budget": fpp.ZCDP(1), "random_state": 0}

    with pytest.warns(fpp.SeededNoiseWarning):
        of_frame = fpp.estimate_mean(d.head(600), **given).mean
    with pytest.warns(fpp.SeededNoiseWarning):
        of_file = fpp.estimate_mean(tmp_path / "visits.csv", **given).mean

    assert of_frame == of_file


@pytest.mark.parametrize("k", [2, "auto"])
def test_counts_of_persons_add_up_to_their_rows(k):
    d, _ = visits_of_persons()
    result = fpp.value_counts(
        d, columns="g", keys=["a", "b"], person="id", rows_per_person=k, budget=fpp.ZCDP(0.1)
    )

    assert result.share.sum() == pytest.approx(1.0, abs=0.03)
    assert result.n_priv == d["id"].nunique()


def test_no_count_lies_outside_its_own_interval():
    d, _ = visits_of_persons()
    for _ in range(20):
        result = fpp.value_counts(d, columns="g", keys=["a", "b"], budget=fpp.ZCDP(0.1))
        lower, upper = result.confidence_interval()

        assert np.all((lower <= result.published) & (result.published <= upper))


def two_rows_of_each_person():
    """Private rows of 2,000 persons with two each, all in one group."""
    return pd.DataFrame({"u": np.arange(4_000) % 7.0, "g": "a", "id": np.arange(4_000) // 2})


def test_printed_counts_of_two_rows_of_each_person_may_be_more_than_the_persons():
    result = fpp.value_counts(
        two_rows_of_each_person(),
        columns="g",
        keys=["a"],
        person="id",
        rows_per_person=2,
        budget=fpp.ZCDP(0.5),
    )

    assert result.to_frame()["count"].loc["a"] == pytest.approx(4_000, abs=50)


def test_printed_rows_of_a_group_of_two_rows_of_each_person_may_be_more_than_the_persons():
    d = two_rows_of_each_person()
    result = fpp.estimate_mean(
        d,
        x_pub=d.head(5),
        columns=["u"],
        by="g",
        person="id",
        rows_per_person=2,
        budget=fpp.ZCDP(0.5),
    )

    assert result.to_frame()["rows"].iloc[0] == pytest.approx(4_000, abs=200)


# ---- The share of ok facts -------------------------------------------------------------------------------------------
def test_a_share_that_moved_is_told_with_its_reason():
    before = {"quantiles, light": {"ok": 0.9, "misses": 0.04, "reasons": {"few_rows": 0.1}}}
    now = {"quantiles, light": {"ok": 0.5, "misses": 0.02, "reasons": {"few_rows": 0.9}}}

    (line,) = shares.moved(before, now)

    assert line == (
        "quantiles, light: 90% of the facts were ok, now 50%; few_rows in 10% of the draws, now in 90%; "
        "4.0% of the ok facts missed, now 2.0%"
    )


@pytest.mark.audit
@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in shares.LEFT_OUT])
def test_as_many_facts_of_a_verb_are_ok_as_were(verb):
    assert shares.moved(shares.stored_of([verb]), shares.measured(shares.of_verb(verb))) == []
