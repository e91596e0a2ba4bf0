"""Events: exact costs, relations that never mix, and the error of the samplers."""

from fractions import Fraction

import mpmath
import pytest

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy import (
    ZCDP,
    ComposedEvent,
    Cost,
    GaussianEvent,
    LaplaceEvent,
    Neighbors,
    PureDP,
    approx_slack,
    gdp_epsilon,
    pure_slack,
    total_variation,
    zcdp_epsilon,
)


def test_gaussian_cost_is_exact_beyond_int64():
    event = GaussianEvent(2 * 2896**4 * 10**9, 40, 7)
    assert event.rho == Fraction(2 * 2896**4 * 10**9, 2 * 4**40)
    assert event.cost == Cost(ZCDP, (event.rho,))
    assert Fraction(event.mu) ** 2 >= 2 * event.rho
    assert event.mu == pytest.approx(float(2 * event.rho) ** 0.5, rel=1e-15)
    assert event.total_variation == Fraction(7, 2**100)


def test_laplace_cost_is_exact():
    event = LaplaceEvent(3, 8, 2)
    assert event.epsilon == Fraction(3, 256)
    assert event.cost == Cost(PureDP, (Fraction(3, 256),))
    assert event.total_variation == Fraction(2, 2**100)


@pytest.mark.parametrize("kind", [GaussianEvent, LaplaceEvent])
@pytest.mark.parametrize(
    "arguments", [(-1, 8, 1), (1.0, 8, 1), (True, 8, 1), (1, 7, 1), (1, 41, 1), (1, 8.0, 1), (1, 8, -1), (1, 8, None)]
)
def test_bad_events_are_refused(kind, arguments):
    with pytest.raises(BudgetError):
        kind(*arguments)


def test_relation_is_a_type():
    with pytest.raises(BudgetError, match="Neighbors"):
        GaussianEvent(1, 8, 1, "replace_one")
    with pytest.raises(BudgetError, match="relation"):
        ComposedEvent((GaussianEvent(1, 8, 1), GaussianEvent(1, 8, 1, Neighbors.ADD_REMOVE_ONE)))


def test_composition_adds_exactly():
    gaussian, laplace = GaussianEvent(2**16, 8, 4), LaplaceEvent(128, 8, 5)
    run = ComposedEvent((gaussian, gaussian))
    assert (run.rho, run.draws, len(run), run.all_gaussian) == (Fraction(1), 8, 2, True)
    assert ComposedEvent((laplace, laplace)).epsilon == 1
    mixed = ComposedEvent((gaussian, laplace))
    assert not mixed.all_gaussian
    exact = mpmath.mpf("0.5") * mpmath.tanh(mpmath.mpf("0.25"))
    assert 0 <= mpmath.mpf(float(mixed.rho - gaussian.rho)) - exact < 1e-14
    with pytest.raises(BudgetError):
        _ = mixed.epsilon
    with pytest.raises(BudgetError):
        ComposedEvent((ZCDP(1),))


def test_report_uses_gdp_exactly_when_all_is_gaussian():
    gaussian, laplace = GaussianEvent(2**16, 8, 4), LaplaceEvent(0, 8, 0)
    assert ComposedEvent((gaussian,)).epsilon_at(1e-6) == pytest.approx(gdp_epsilon(1e-6, 1.0), rel=1e-12)
    assert ComposedEvent((gaussian, laplace)).epsilon_at(1e-6) == pytest.approx(zcdp_epsilon(1e-6, 0.5), rel=1e-12)
    assert ComposedEvent(()).epsilon_at(1e-6) == 0.0
    with pytest.raises(BudgetError, match="larger delta"):
        ComposedEvent((GaussianEvent(2**16, 8, 10**15),)).epsilon_at(1e-14)


@pytest.mark.parametrize("epsilon", [2.0**-30, 0.1, 1, 10, 709, 1024])
def test_slack_is_an_upper_bound_and_tight(epsilon):
    with mpmath.workdps(60):
        factor = 1 + mpmath.exp(mpmath.mpf(epsilon))
        n = 10**12
        for bound, exact in (
            (approx_slack(epsilon, n), factor * n * mpmath.mpf(2) ** -100),
            (pure_slack(epsilon, n)[1], factor * n * mpmath.mpf(2) ** -184),
        ):
            ratio = mpmath.mpf(bound.numerator) / bound.denominator / exact
            assert 1 <= ratio < 1 + 1e-11
    assert pure_slack(epsilon, n)[0] == Fraction(n, 2**99)
    assert total_variation(0) == 0


def test_slack_figure_of_the_safety_page():
    assert 1e-14 < float(approx_slack(10, 10**12)) < 2e-14
