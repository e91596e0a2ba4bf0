"""Results: frozen, read-only, free of private content, and the same after JSON, pickle and copy."""

import json
import pickle

import numpy as np
import pytest

from fastpubpriv import ZCDP, ApproxDP, MeanResult, PureDP, estimate_mean, weighted_mean

PRIVATE = np.random.default_rng(1).standard_normal((2500, 4)) * 7
PUBLIC = np.random.default_rng(2).standard_normal((6, 4)) * 7
BUDGETS = [ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(1)]


def result_of(budget=BUDGETS[0], **options):
    return estimate_mean(PRIVATE, x_pub=PUBLIC, variance=49.0, budget=budget, **options)


def same(one, other):
    assert type(one) is type(other)
    assert one.to_dict() == other.to_dict()
    assert one.mean.tobytes() == other.mean.tobytes()
    for name in ("mean", "noise_std", "sampling_std"):
        assert not getattr(other, name).flags.writeable


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


def test_json_without_infinities():
    result = MeanResult(
        n_priv=1, n_pub=0, dim=1, spent=ZCDP(1), private=True, mean=np.array([np.inf]), noise_std=np.array([np.nan]),
        sampling_std=np.zeros(1), noise_law="gaussian", numerics={"b": float("inf"), "a": np.float64(2)},
    )  # fmt: skip
    assert json.loads(result.to_json())["numerics"] == {"a": 2.0, "b": None}


def test_standard_error_adds_both_parts():
    result = result_of()
    assert result.standard_error == pytest.approx(np.sqrt(result.noise_std**2 + result.sampling_std**2))
    assert result.sampling_std == pytest.approx(np.full(4, 7 / 50))
