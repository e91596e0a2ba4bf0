"""Validation of inputs: valid values are converted, others raise an InputError with the reason."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from helpers.errors import raises
from helpers.refusals import Refusals

from fastpubpriv import validation
from fastpubpriv.errors import InputError

NOT_NUMBERS = [
    True,
    np.True_,
    "1",
    b"1",
    1j,
    None,
    [0.5],
    (),
    {},
    np.array([0.5]),
    np.array(0.5 + 0j),
    object(),
    "0.5",
]
NOT_FINITE = [
    math.nan,
    math.inf,
    -math.inf,
    10**400,
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    np.float32("nan"),
]
SCALARS = ["finite", "positive", "nonnegative", "probability", "fraction"]


@pytest.mark.parametrize("check", SCALARS)
@pytest.mark.parametrize("bad", NOT_NUMBERS + NOT_FINITE, ids=lambda bad: type(bad).__name__)
def test_scalars_refuse_what_is_not_a_finite_number(check, bad):
    caught = raises(InputError, "epsilon must be", getattr(validation, check), "epsilon", bad)
    assert caught.__context__ is None or caught.__suppress_context__
    assert len(str(caught)) < 200


@pytest.mark.parametrize("check", SCALARS)
@pytest.mark.parametrize(
    "half", [0.5, Fraction(1, 2), Decimal("0.5"), np.float32(0.5), np.float64(0.5), np.array(0.5)]
)
def test_scalars_are_converted(check, half):
    found = getattr(validation, check)("x", half)
    assert type(found) is float
    assert found == 0.5


@pytest.mark.parametrize(
    ("check", "inside", "outside"),
    [
        ("finite", [-1e308, 0, 5e-324], []),
        ("positive", [5e-324, 1e308, 1], [0, -0.0, -1e-300, Fraction(-1, 3)]),
        ("nonnegative", [0, -0.0, 5e-324, 1e308], [-5e-324, -1]),
        ("probability", [5e-324, math.nextafter(1, 0), 0.5], [0, -0.0, 1, 1.0, -0.1, 1.1, 2]),
        ("fraction", [0, math.nextafter(1, 0)], [1, -5e-324, math.nextafter(1, 2)]),
    ],
)
def test_limits_are_where_they_are_said_to_be(check, inside, outside):
    for value in inside:
        assert getattr(validation, check)("x", value) == value
    for value in outside:
        raises(InputError, "x must", getattr(validation, check), "x", value)


@pytest.mark.parametrize("value", [1, -1e-9, math.nan])
def test_fractions_have_limits(value):
    raises(InputError, "w must", validation.fraction, "w", value)


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.array(3)])
def test_integers_are_converted(value):
    found = validation.integer("k", value, minimum=1, maximum=3)
    assert type(found) is int
    assert found == 3


def test_integers_have_any_size():
    assert validation.integer("k", -(10**30)) == -(10**30)


NO_INTEGERS = [
    True,
    np.True_,
    1.5,
    2.0,
    np.float64(2),
    np.array(2.0),
    "2",
    None,
    Fraction(2),
    Decimal(2),
    np.array([2]),
    1j,
]


@pytest.mark.parametrize("bad", NO_INTEGERS)
def test_what_is_no_integer(bad):
    raises(InputError, "k must be a whole number", validation.integer, "k", bad)


def test_integers_have_limits():
    raises(InputError, "k must be at least 1, got 0", validation.integer, "k", 0, minimum=1)
    four = np.int64(4)
    raises(InputError, "k must be at most 3, got 4", validation.integer, "k", four, maximum=3)


VECTOR = np.arange(6.0)[::2]
VECTORS = [
    VECTOR,
    [0, 2, 4],
    (0.0, Fraction(2), Decimal(4)),
    VECTOR.astype("f4"),
    VECTOR.astype(">i2"),
]


@pytest.mark.parametrize("value", VECTORS, ids=str)
def test_a_finite_vector_is_a_copy_of_doubles(value):
    found = validation.finite_vector("center", value, 3)
    assert found.tolist() == [0.0, 2.0, 4.0]
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    assert found.flags.writeable
    assert not np.shares_memory(found, VECTOR)


NO_VECTORS = Refusals()
NO_VECTORS.add_values(r"3 numbers, got shape \(2,\)", [0, 1])
NO_VECTORS.add_values(r"got shape \(1, 3\)", [[0, 1, 2]])
NO_VECTORS.add_values(r"got shape \(\)", 5.0)
NO_VECTORS.add_values(r"center\[1\] is nan", [0, math.nan, 1])
NO_VECTORS.add_values(r"center\[2\] is inf", [0, 1, math.inf])
NO_VECTORS.add_values("real numbers", ["0", "1", "2"], [0, 1j, 2], [0, None, 2], [[0], [1, 2]])
NO_VECTORS.add_values("real numbers", [True, False, True], [10**400, 0, 1], None)


@pytest.mark.parametrize(("bad", "words"), NO_VECTORS)
def test_what_is_no_finite_vector(bad, words):
    raises(InputError, words, validation.finite_vector, "center", bad, 3)


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300, 3e-8, 7e11])
def test_cholesky_of_good_matrices(scale):
    root = np.random.default_rng(5).normal(size=(4, 4)) + 3 * np.eye(4)
    matrix = (root @ root.T) * scale
    matrix[0, 1] *= 1 + 1e-12
    factor = validation.symmetric_positive_definite("covariance", matrix, 4)
    assert np.array_equal(factor, np.tril(factor))
    assert (np.diagonal(factor) > 0).all()
    expected = np.linalg.cholesky(root @ root.T)
    np.testing.assert_allclose(factor / math.sqrt(scale), expected, rtol=1e-9, atol=1e-9)


def test_cholesky_of_one_number():
    assert validation.symmetric_positive_definite("c", [[4]], 1).tolist() == [[2.0]]


def test_cholesky_of_badly_scaled_columns():
    matrix = np.diag([1e-20, 1.0, 1e20])
    factor = validation.symmetric_positive_definite("c", matrix, 3)
    np.testing.assert_allclose(factor, np.sqrt(matrix))


REFUSED = Refusals()
REFUSED.add_values(r"shape \(2, 2\), got shape \(3, 3\)", np.eye(3))
REFUSED.add_values(r"got shape \(2,\)", [1.0, 2.0])
REFUSED.add_values(r"c\[0, 1\] is nan", [[1, math.nan], [0, 1]])
REFUSED.add_values(r"symmetric, but c\[0, 1\] is 0.5 and c\[1, 0\] is 0.4", [[1, 0.5], [0.4, 1]])
REFUSED.add_values("least eigenvalue is -1 ", [[1, 2], [2, 1]])
REFUSED.add_values("positive definite to working precision", [[1, 1], [1, 1]])
REFUSED.add_values("positive definite", [[0, 0], [0, 0]], [[-1, 0], [0, -1]])
REFUSED.add_values("real numbers", [["a", 0], [0, 1]], [[1j, 0], [0, 1]], None)


@pytest.mark.parametrize(("matrix", "words"), REFUSED)
def test_matrices_refused(matrix, words):
    raises(InputError, words, validation.symmetric_positive_definite, "c", matrix, 2)


def test_singular_up_to_rounding_is_refused_whichever_way_it_rounds():
    rng = np.random.default_rng(6)
    check = validation.symmetric_positive_definite
    for _ in range(50):
        root = rng.normal(size=(6, 5))
        raises(InputError, "drop dependent columns", check, "c", root @ root.T, 6)


MODES = ("auto", "tree", "theory")
NO_MODES = [
    ("Auto", r"one of 'auto', 'tree', 'theory', got 'Auto' \(did you mean 'auto'\?\)"),
    ("zzz", "got 'zzz'$"),
    (None, "got None"),
    (["auto"], "got list"),
    (1, "got 1"),
]


def test_a_choice_is_one_of_the_words():
    assert validation.choice("mode", "tree", MODES) == "tree"


@pytest.mark.parametrize(("bad", "words"), NO_MODES)
def test_what_is_no_choice(bad, words):
    raises(InputError, words, validation.choice, "mode", bad, MODES)


@pytest.mark.parametrize(
    ("name", "options", "near"),
    [
        ("male", ["Female", "Male", "(other)"], "Male"),
        ("AGE", ["wage", "age"], "age"),
        ("wrad", ["Ward"], "Ward"),
    ],
)
def test_a_similar_name_is_found_whatever_its_case(name, options, near):
    assert validation.did_you_mean(name, options) == f" (did you mean {near!r}?)"
    assert validation.did_you_mean(3, options) == ""
