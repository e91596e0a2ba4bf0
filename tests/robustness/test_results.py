"""Results: frozen, read-only, free of private content, and the same after JSON, pickle and copy."""

import copy
import dataclasses
import json
import pickle
from fractions import Fraction

import numpy as np
import pytest

from fastpubpriv import ZCDP, ApproxDP, MeanResult, PureDP, estimate_mean, weighted_mean
from fastpubpriv.privacy import Budget

PRIVATE = np.random.default_rng(1).standard_normal((2500, 4)) * 7
PUBLIC = np.random.default_rng(2).standard_normal((6, 4)) * 7
BUDGETS = [ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(1)]


def result_of(budget=BUDGETS[0], **options):
    return estimate_mean(PRIVATE, x_pub=PUBLIC, variance=49.0, budget=budget, **options)


def test_frozen_and_read_only():
    result = result_of()
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.mean = np.zeros(4)
    with pytest.raises((AttributeError, TypeError)):
        result.extra = 1
    for name in ("mean", "noise_std", "sampling_std"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(result, name)[0] = 0.0


def same(one, other):
    assert type(one) is type(other)
    assert one.to_dict() == other.to_dict()
    assert one.mean.tobytes() == other.mean.tobytes()
    for name in ("mean", "noise_std", "sampling_std"):
        assert not getattr(other, name).flags.writeable


@pytest.mark.parametrize("budget", BUDGETS)
def test_pickle_copy_and_replace(budget):
    result = result_of(budget)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        same(result, pickle.loads(pickle.dumps(result, protocol)))
    same(result, copy.copy(result))
    same(result, copy.deepcopy(result))
    same(result, dataclasses.replace(result))
    assert pickle.loads(pickle.dumps(result)).spent == budget


def holds(blob, array):
    """How many values of `array` have their bytes in `blob`."""
    return sum(value.tobytes() in blob or value.byteswap().tobytes() in blob for value in array.ravel())


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_pickle_holds_no_private_bytes(budget):
    for result in (
        result_of(budget),
        weighted_mean(PRIVATE, x_pub=PUBLIC, norm_bound=30.0, budget=budget),
    ):
        blob = pickle.dumps(result)
        assert holds(blob, PRIVATE) == 0
        assert holds(blob, result.mean) == 4  # control: the search finds what is there
        text = result.to_json() + repr(result)
        assert not any(repr(float(value)) in text for value in PRIVATE.ravel())
        assert repr(float(result.mean[0])) in text
    assert holds(pickle.dumps(PRIVATE[:3]), PRIVATE) == 12


@pytest.mark.parametrize("budget", BUDGETS)
def test_json_is_valid_and_exact(budget, tmp_path):
    result = result_of(budget)
    path = tmp_path / "result.json"
    text = result.to_json(path)
    assert path.read_text(encoding="utf-8") == text + "\n"

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    data = json.loads(text, parse_constant=refuse)
    assert data == result.to_dict()
    assert data["kind"] == "MeanResult"
    assert data["mean"] == result.mean.tolist()
    assert data["private"] is True
    assert Budget.from_dict(data["spent"]) == budget
    currency = "epsilon" if isinstance(budget, PureDP) else "rho"
    exact = [Fraction(release[currency]["exact"]) for release in data["releases"]]
    assert exact == [release[currency] for release in result.releases]


def test_json_without_infinities():
    result = MeanResult(
        n_priv=1, n_pub=0, dim=1, spent=ZCDP(1), private=True, mean=np.array([np.inf]), noise_std=np.array([np.nan]),
        sampling_std=np.zeros(1), noise_law="gaussian", numerics={"b": float("inf"), "a": np.float64(2)},
    )  # fmt: skip
    data = json.loads(result.to_json())
    assert data["numerics"] == {"a": 2.0, "b": None}


def test_arrays_given_to_a_result_are_copied():
    mean = np.zeros(2)
    result = MeanResult(
        n_priv=1, n_pub=0, dim=2, spent=ZCDP(1), private=True, mean=mean, noise_std=np.ones(2),
        sampling_std=np.ones(2), noise_law="gaussian",
    )  # fmt: skip
    mean[0] = 5.0
    assert result.mean.tolist() == [0.0, 0.0]
    assert mean.flags.writeable


def test_repr_is_short():
    result = result_of()
    numbers = ", ".join(f"{value:.6g}" for value in result.mean)
    assert repr(result) == f"MeanResult(mean=[{numbers}], n_priv=2500, spent=ZCDP(rho=0.5))"
    wide = estimate_mean(np.tile(PRIVATE, 2), x_pub=np.tile(PUBLIC, 2), variance=49.0, budget=BUDGETS[0])
    assert repr(wide) == "MeanResult(dim=8, n_priv=2500, spent=ZCDP(rho=0.5))"


def test_standard_error_adds_both_parts():
    result = result_of()
    assert result.standard_error == pytest.approx(np.sqrt(result.noise_std**2 + result.sampling_std**2))
    assert result.sampling_std == pytest.approx(np.full(4, 7 / 50))
