"""The sweep sees faults that are planted by replacing a function, and finds nothing on a verb that is right."""

import dataclasses
import functools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastpubpriv as fpp
from fastpubpriv.privacy.spending import GaussianSpending
from fastpubpriv.regression import inputs
from fastpubpriv.results import by_key, estimates, gaussians
from tests.truth import engine, oracles, terms
from tests.truth.arguments import VERBS, Call, Verb


def kinds(call, draws=24):
    """Kinds of faults of one answer, and of coverage over draws."""
    found = {fault.kind for fault in engine.answer(call).faults}
    tally = engine.of_draws(call, range(draws))
    return found | {
        f"coverage {key[0]}" for key, misses in tally.misses.items() if misses > engine.MOST_MISSES
    }


def case_of(verb, text):
    return next(case for case in VERBS[verb].all_cases() if case.text == text)


# ---- A verb that is right, and one that is not -----------------------------------------------------------------------
def exact_mean(x_priv, *, budget, columns, shift=0.0, ignored=None, random_state=0):
    """The mean of the rows with a normal interval, as a result of the package."""
    rows = x_priv[columns].to_numpy(float)
    n, dim = rows.shape
    known = {
        "n_priv": n,
        "n_pub": 0,
        "dim": dim,
        "spent": budget,
        "private": True,
        "columns": tuple(columns),
    }
    return fpp.MeanResult(
        mean=rows.mean(axis=0) + shift, noise_std=np.full(dim, 1e-9), sampling_std=rows.std(axis=0) / np.sqrt(n),
        noise_law="gaussian", releases=({"name": "mean"},), **known,
    )  # fmt: skip


def toy(**cases):
    return Verb(exact_mean, lambda call: {}, cases, lambda name: ["x", "v"])


def swept(monkeypatch, **cases):
    monkeypatch.setitem(VERBS, "toy", toy(**cases))
    return [(finding.kind, finding.arguments) for finding in engine.quick(["toy"]).findings]


def test_nothing_is_found_on_a_verb_that_is_right(monkeypatch):
    assert swept(monkeypatch) == []


def test_a_mean_that_is_far_off_is_found_with_its_argument_alone(monkeypatch):
    found = swept(monkeypatch, shift=[1.0])
    assert ("far", ("shift=1.0",)) in found
    assert ("coverage mean", ("shift=1.0",)) in found


def test_an_interval_that_seldom_holds_is_found(monkeypatch):
    assert ("coverage mean", ("shift=0.03",)) in swept(monkeypatch, shift=[0.03])


def test_an_argument_that_is_accepted_and_ignored_is_found(monkeypatch):
    assert swept(monkeypatch, ignored=[3]) == [("argument without effect", ("ignored=3",))]


def test_a_statistic_that_is_never_ok_is_no_interval(monkeypatch):
    wrong = [fpp.results.Reason.WIDE]
    monkeypatch.setattr(oracles, "whole_is_ok", lambda result: not wrong)
    assert ("never ok mean", ()) in swept(monkeypatch, shift=[0.0, 0.001, 0.002])


def test_two_runs_print_the_same_lines():
    assert engine.quick(["persons"]).lines() == engine.quick(["persons"]).lines()


# ---- Faults that replace a function of the package -------------------------------------------------------------------
def test_count_intervals_of_half_their_width_are_found(monkeypatch):
    right = fpp.CountResult.confidence_interval

    def halved(self, level=0.95, **more):
        lower, upper = right(self, level, **more)
        return (self.counts + lower) / 2.0, (self.counts + upper) / 2.0

    monkeypatch.setattr(fpp.CountResult, "confidence_interval", halved)
    assert "coverage count" in kinds(Call("value_counts", (), "light", 2_000, fpp.ZCDP(0.1)))


def test_quantile_ends_without_sampling_are_found(monkeypatch):
    ranks = fpp.results.ranks.EdgeRanks
    right = ranks.ends

    def without_sampling(self, q, z):
        reach = z * np.sqrt(np.maximum(self.std**2 - q * (1.0 - q) * self.total, 0.0))
        inside = np.abs(self.below - q * self.total) <= reach
        return (
            (float(self.edges[inside][0]), float(self.edges[inside][-1]))
            if inside.any()
            else right(self, q, 0.0)
        )

    monkeypatch.setattr(ranks, "ends", without_sampling)
    one_column = case_of("quantiles", "columns=columns[:1]")
    assert "coverage quantile" in kinds(
        Call("quantiles", (one_column,), "light", 20_000, fpp.ZCDP(0.1)), draws=12
    )


def test_groups_without_sampling_are_found(monkeypatch):
    monkeypatch.setattr(
        fpp.GroupMeans,
        "standard_error",
        property(lambda self: np.hypot(self.noise_std, self.clipping_std)),
    )
    call = Call(
        "estimate_mean", (case_of("estimate_mean", "by='g'"),), "light", 20_000, fpp.ZCDP(0.1)
    )
    assert "coverage mean" in kinds(call)
    assert "GroupMeans.sampling_std does not move an interval" in terms.still_terms()


def test_labels_of_groups_that_are_rotated_are_found(monkeypatch):
    @functools.wraps(fpp.estimate_mean)
    def rotated(*given, **more):
        result = fpp.estimate_mean(*given, **more)
        return dataclasses.replace(
            result, groups=(*result.groups[1:3], result.groups[0], *result.groups[3:])
        )

    monkeypatch.setitem(VERBS, "estimate_mean", VERBS["estimate_mean"]._replace(call=rotated))
    call = Call(
        "estimate_mean", (case_of("estimate_mean", "by='g'"),), "light", 20_000, fpp.ZCDP(0.1)
    )
    assert "far" in kinds(call, draws=1)


def test_class_weights_that_are_ignored_have_no_effect(monkeypatch):
    monkeypatch.setattr(inputs.DataSpec, "class_weights", lambda self, *given: np.ones(2))
    found = [
        finding.arguments for finding in engine.without_effect("logistic_regression", ["light"])
    ]
    assert ("class_weight={0.0: 1.0, 1.0: 3.0}",) in found


def test_a_regression_that_leaves_sampling_out_is_found(monkeypatch):
    right = fpp.TrainingResult._ends
    monkeypatch.setattr(
        fpp.TrainingResult, "_ends", lambda self, level, rows=False: right(self, level, rows=True)
    )
    assert "coverage coefficient" in kinds(
        Call("linear_regression", (), "light", 20_000, fpp.ZCDP(0.1))
    )


@pytest.mark.parametrize("field", ["sampling_std", "clipping_std"])
def test_a_mean_without_a_term_is_found(monkeypatch, field):
    def without(self):
        parts = {"noise_std": self.noise_std, "sampling_std": self.sampling_std}
        clipped = self.clipping_std if self.report is None else self.report.clipping_std
        parts["clipping_std"] = np.zeros(self.dim) if clipped is None else clipped
        parts.pop(field)
        return np.hypot(*parts.values())

    monkeypatch.setattr(fpp.MeanResult, "standard_error", property(without))
    assert any(f"{field} does not move" in line for line in terms.still_terms())


def test_noise_of_vectors_a_tenth_too_large_is_found(monkeypatch):
    right = GaussianSpending.std

    def louder(self, kind, *given, **more):
        return (1.1 if kind == "sum" else 1.0) * right(self, kind, *given, **more)

    monkeypatch.setattr(GaussianSpending, "std", louder)
    assert not 1.0 / 1.03 < terms.planned_coinpress(terms.ZCDP) < 1.03


def test_a_plan_of_counts_that_is_five_times_too_large_is_found(monkeypatch):
    right = fpp.plan

    def too_large(task, **given):
        found = right(task, **given)
        return dataclasses.replace(found, error=5.0 * found.error) if task == "counts" else found

    monkeypatch.setattr(fpp, "plan", too_large)
    assert not 1.0 / 1.03 < terms.planned_counts(terms.ZCDP) < 1.03


def test_a_normal_law_under_laplace_noise_is_found(monkeypatch):
    right = by_key.deviations
    monkeypatch.setattr(
        by_key, "deviations", lambda law, level, together=1: right("gaussian", level, together)
    )
    assert terms.wider_under_laplace() < 1.5


@pytest.mark.parametrize("fields", [("tail_below", "tail_above"), ("worst_below", "worst_above")])
def test_an_interval_of_a_mean_without_its_tails_is_found(monkeypatch, fields):
    right = estimates.ColumnReport.interval

    def without_tails(self, *given):
        nothing = {name: np.zeros(len(self.missing)) for name in fields}
        return right(dataclasses.replace(self, **nothing), *given)

    monkeypatch.setattr(estimates.ColumnReport, "interval", without_tails)
    assert [line for line in terms.still_terms() if fields[0] in line] == [
        f"ColumnReport.{fields[0]} does not move an interval"
    ]


def test_correlations_without_their_error_are_found(monkeypatch):
    right = gaussians.GaussianReport.interval

    def without_error(self, kind, point, level):
        return right(
            dataclasses.replace(self, correlation_std=np.zeros_like(self.correlation)),
            kind,
            point,
            level,
        )

    monkeypatch.setattr(gaussians.GaussianReport, "interval", without_error)
    assert "GaussianReport.correlation_std does not move an interval" in terms.still_terms()


def test_intervals_of_a_gaussian_of_half_their_width_are_found(monkeypatch):
    right = gaussians.GaussianReport.interval

    def halved(self, kind, point, level):
        lower, upper = right(self, kind, point, level)
        return (point + lower) / 2.0, (point + upper) / 2.0

    monkeypatch.setattr(gaussians.GaussianReport, "interval", halved)
    assert {"coverage mean", "coverage std"} & kinds(
        Call("estimate_gaussian", (), "light", 20_000, fpp.ZCDP(0.1))
    )


@pytest.mark.fresh_keys("help texts draw no noise")
@pytest.mark.parametrize("module", ["tests.truth", "tests.truth.shares"])
def test_the_sweep_starts_by_hand_in_a_plain_checkout(module):
    root = Path(__file__).resolve().parents[2]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", module, "--help"]
    started = subprocess.run(command, cwd=root, env=plain, capture_output=True, check=False)
    assert started.returncode == 0, started.stderr.decode()


def test_a_component_from_five_public_rows_is_ok_only_if_its_count_can_tell():
    """Component 0 stands 3.3 deviations from the rows that are nearest, and was ok: noise left its count nothing to say."""
    call = engine.made("learn_separated_mixture", [7], "awkward", 2000, fpp.PureDP(epsilon=1.0), 0)
    assert [case.text for case in call.cases] == ["x_pub=p.head(5)"]
    assert engine.answer(call).faults == []
