"""Gradients of many models side by side: those of the twin to single precision, at any width, layout and instruction set."""

import math

import numpy as np
import pytest
from twins import sweeps as reference

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import sweeps as kernels
from fastpubpriv.losses import logistic_residual, squared_residual


def absolute(prediction, label):
    """A residual of a user's own."""
    return 1.0 if label > prediction else -1.0


def of_both(dim, outputs, residual, bounded, *, places, stride=0):
    rng = np.random.default_rng(dim * 100 + outputs)
    wide = rng.standard_normal((30, dim + stride)).astype(np.float32)
    rows, labels = wide[:, :dim], (rng.random(30) < 0.5).astype(np.float32)
    weights = (rng.standard_normal((dim, outputs)) / math.sqrt(dim)).astype(np.float32)
    factors = rng.random(outputs).astype(np.float32)
    found = []
    for module in (kernels, reference):
        norms, total = np.full(30, -1.0, dtype=np.float32), np.ones((dim, outputs), dtype=np.float32)
        given = (rows, labels, norms), places, weights, factors, total
        module.sweep_sum(*given, residual=residual, limit=0.5, bounded=bounded)
        found.append((total, norms))
    return found


@pytest.mark.parametrize("residual", [squared_residual, logistic_residual, absolute])
@pytest.mark.parametrize("outputs", [1, 6, 7, 17])
def test_a_sweep_is_that_of_its_twin(isa, outputs, residual):
    for dim, bounded in ((1, 0), (15, 1), (16, 2), (37, 1), (4097, 1)):
        for places in (None, np.array([3, 0, 3, 29, 11])):
            (total, norms), (wanted, lengths) = of_both(dim, outputs, residual, bounded, places=places, stride=dim % 2)
            np.testing.assert_allclose(total, wanted, rtol=2e-5, atol=2e-5)
            np.testing.assert_allclose(norms, lengths, rtol=1e-6)


def test_a_residual_that_is_not_finite_counts_as_zero(isa):
    rows, norms = np.ones((3, 8), dtype=np.float32), np.full(3, -1.0, dtype=np.float32)
    labels = np.array([2.0, math.nan, math.inf], dtype=np.float32)
    total = np.zeros((8, 2), dtype=np.float32)
    given = (rows, labels, norms), None, np.zeros((8, 2), dtype=np.float32), np.ones(2, dtype=np.float32), total
    kernels.sweep_sum(*given, residual=squared_residual, limit=1.0, bounded=0)
    np.testing.assert_array_equal(total, 2.0)


def test_forms_that_a_sweep_refuses():
    rows, norms, weights = np.ones((3, 2), np.float32), np.ones(3, np.float32), np.ones((2, 1), np.float32)
    good = {
        "labelled": (rows, norms, norms.copy()),
        "places": None,
        "weights": weights,
        "factors": np.ones(1, np.float32),
    }
    for changes in (
        {"labelled": (rows.astype(np.float64), norms, norms)},
        {"labelled": (rows.T, norms, norms)},
        {"labelled": (rows, norms[:2], norms)},
        {"places": np.array([0, 3])},
        {"places": np.array([0], dtype=np.int32)},
        {"weights": weights.T},
        {"factors": np.ones(2, np.float32)},
    ):
        options = {"residual": squared_residual, "limit": 1.0, "bounded": 1}
        with pytest.raises(KernelError):
            kernels.sweep_sum(**{**good, **changes}, total=np.zeros((2, 1), np.float32), **options)
