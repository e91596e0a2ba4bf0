"""Point masses, constants and absurd components never go by as "ok"."""

from dataclasses import replace

import numpy as np
import pytest
from mixture_cases import learn

from fastpubpriv import ZCDP, ApproxDP, PureDP
from fastpubpriv.mechanisms.stable_histograms import StableRelease
from fastpubpriv.mixtures.axis_aligned import axis_method, cell_fits
from fastpubpriv.mixtures.axis_aligned.candidates import significant, unseen
from fastpubpriv.mixtures.axis_aligned.places import column_scales
from fastpubpriv.mixtures.fit import public_ties
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.results import Reason

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")


def column(name, n):
    rng = np.random.default_rng(0)
    return {
        "counts": rng.poisson(2.0, n).astype(float), "visits": rng.negative_binomial(0.5, 0.15, n).astype(float),
        "constant": np.full(n, 7.0), "rare": (rng.random(n) < 0.03).astype(float),
        "half an atom": np.where(rng.random(n) < 0.5, 0.0, rng.normal(50.0, 10.0, n)), "normal": rng.normal(size=n),
        "two": np.where(rng.random(n) < 0.5, rng.normal(0.0, 1.0, n), rng.normal(50.0, 10.0, n)),
        "income": rng.lognormal(10.0, 1.0, n),
    }[name]  # fmt: skip


@pytest.mark.parametrize("name", ["counts", "visits", "constant", "rare", "half an atom"])
def test_atoms_are_said_to_be(name):
    values = column(name, 20_000)
    found = learn(values, 2)
    # Components many steps wide are as good as a density; the others are not.
    assert "ties" in found.reasons
    stds = np.sqrt(found.variances[:, 0])
    assert all(
        own == ("ties",) for own, std in zip(found.part_reasons, stds, strict=True) if std < 1.0
    )
    # Pairs that tie, about: the share of the released bins that is missing, some of it hidden by the threshold.
    share = float(np.sum((np.unique(values, return_counts=True)[1] / len(values)) ** 2))
    assert found.diagnostics["tied_share"][0] == pytest.approx(share, abs=0.15)
    public = learn(values[20:], 2, budget=PureDP(1), x_pub=values[:20].copy())
    assert "ties" in public.reasons


@pytest.mark.parametrize("value", [7.0, 0.0, -1234.5, 3e-9])
def test_a_constant_is_one_atom_at_its_place(value):
    found = learn(np.full(4_000, value), 3)
    assert found.part_reasons == (("ties",),)
    assert found.means[0, 0] == pytest.approx(value, abs=1e-11 * max(1.0, abs(value)))


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.04464, 0.05068), (1e6, 3e6)])
def test_two_values_are_two_atoms(low, high):
    """They used to come back as one component, "ok": a value lies beside a set of densities as a whole, or in it."""
    values = np.where(np.random.default_rng(0).random(5_000) < 0.4, high, low)
    found = learn(values, 3)
    assert set(found.part_reasons) == {("ties",)}
    assert np.sort(found.means[:, 0]) == pytest.approx([low, high], abs=0.05 * (high - low))
    assert np.sort(found.weights) == pytest.approx([0.4, 0.6], abs=0.03)


@pytest.mark.parametrize("step", [1.0, 0.1])
@pytest.mark.parametrize("n", [5_000, 20_000])
def test_rounded_values_of_a_wide_mixture_are_no_atoms(n, step):
    """Whole minutes of delay: the comb of cells finer than a minute used to make atoms of all, or to hide the second component."""
    rng = np.random.default_rng(1)
    delays = np.where(rng.random(n) < 0.7, rng.normal(-3.0, 5.0, n), rng.normal(60.0, 20.0, n))
    values = step * np.rint(delays)
    found = learn(values, 2, random_state=3)
    assert found.status == "ok"
    assert found.means[:, 0] == pytest.approx([-3.0 * step, 60.0 * step], abs=3.0 * step)
    assert found.weights[0] == pytest.approx(0.7, abs=0.03)
    public = learn(values[60:], 2, budget=ZCDP(0.5), x_pub=values[:60].copy())
    assert public.status == "ok"


def test_noise_makes_no_components():
    """Cells of noise alone used to come back as components far away, of a weight of one in a hundred."""
    rng = np.random.default_rng(0)
    for seed in range(6):
        values = rng.normal(0.0, 1.0, 5_000)
        found = learn(values, 4, budget=ApproxDP(0.3, 1e-6), random_state=seed)
        assert np.abs(found.means).max() < 5.0


def test_a_component_lost_in_noise_is_said_to_be():
    """Its mean stays near the public one, and it is not "ok"."""
    rng = np.random.default_rng(2)
    rows = np.concatenate([rng.normal(0.0, 1.0, (490, 8)), rng.normal(20.0, 1.0, (10, 8))])
    public = np.concatenate([rng.normal(0.0, 1.0, (38, 8)), rng.normal(20.0, 1.0, (2, 8))])
    for seed in range(3):
        found = learn(rows, 2, budget=ZCDP(0.02), method="dp_em", x_pub=public, random_state=seed)
        # of 500 rows a count can say nothing
        assert found.part_reasons[0] in (("few_rows",), ("wide",))
        assert found.part_reasons[1] in (("few_rows",), ("wide",), ("unresolved",))
        assert np.abs(found.means).max() < 30.0
    strong = np.repeat(rows, 40, axis=0)
    found = learn(strong, 2, budget=ZCDP(2), method="dp_em", x_pub=public)
    # Ten rows, forty times each, are no Gaussian.
    assert found.part_reasons[0] != ("unresolved",)
    assert found.part_reasons[1] in (("rough_fit",), ("not_gaussian",))


@pytest.mark.parametrize("name", ["normal", "two", "income"])
def test_smooth_columns_are_not(name):
    values = column(name, 20_000)
    alone = learn(values, 2)
    assert {*alone.reasons} <= {"ties"} | ({"rough_fit"} if name == "income" else set())
    found = learn(values[20:], 2, budget=PureDP(1), x_pub=values[:20].copy())
    # From 20 public rows the answer may be a rough fit, and says so; of income two Gaussians always are.
    assert {*found.reasons} <= {"ties", "rough_fit", "poor_fit", "not_gaussian"}
    assert name != "income" or {"rough_fit", "poor_fit", "not_gaussian"} & {*found.reasons}
    assert found.diagnostics["tied_share"] == (0.0,)


def test_constants_beside_smooth_columns_and_too_few_rows_are_never_ok():
    rows = np.column_stack([column("constant", 20_000), column("normal", 20_000)])
    assert set(learn(rows, 2).part_reasons) == {("ties",)}
    # Too few rows are never ok.
    # The range was not found, so that means may be anywhere.
    for seed in range(5):
        rows = np.random.default_rng(seed).normal(size=(300, 2))
        found = learn(rows, 2, budget=ApproxDP(0.2, 1e-6), random_state=seed)
        assert "ok" not in found.part_status or np.abs(found.means).max() < 100.0


def test_reasons_by_hand():
    ties, lost, fallback = (
        (reason,) for reason in (Reason.TIES, Reason.UNRESOLVED, Reason.FALLBACK)
    )
    means = np.array([[0.0, 7.0], [1.0, 7.0]])
    stds = np.array([[1.0, 1.0], [0.001, 1.0]])
    plain = axis_method.LearnedMixture(at=GaussianMixture(np.array([0.5, 0.5]), means, stds))
    none = [0.0, 0.0]
    step = [0.01, 0.01]
    assert axis_method.component_reasons(plain, none, step) == ((), ties)
    assert axis_method.component_reasons(
        replace(plain, low=np.array([True, True])), none, step
    ) == (
        lost,
        lost,
    )
    blind = replace(plain, unseen=np.array([True, False]))
    assert axis_method.component_reasons(blind, none, step) == (ties, ties)
    assert axis_method.component_reasons(blind, none, step, known_std=True) == ((), ties)
    # Steps much finer than a width, then ties that no such steps explain, and steps as wide as the component.
    assert axis_method.component_reasons(plain, [0.0, 0.003], step) == ((), ties)
    assert axis_method.component_reasons(plain, [0.0, 0.3], step) == (ties, ties)
    assert axis_method.component_reasons(plain, [0.3, 0.0], [0.1, 0.1]) == ((), ties)
    assert axis_method.component_reasons(plain, [0.0, 0.3], [np.inf, np.inf]) == (ties, ties)
    assert axis_method.component_reasons(replace(plain, reason=Reason.FALLBACK), none, step) == (
        fallback,
        fallback,
    )
    assert axis_method.component_reasons(
        replace(plain, reason=Reason.FALLBACK), [0.0, 0.3], step
    ) == (
        ties,
        ties,
    )
    assert axis_method.component_reasons(replace(blind, reason=Reason.FALLBACK), none, step) == (
        ties,
        fallback,
    )
    assert axis_method.component_reasons(replace(plain, nothing=True), [0.0, 0.3], step) == (
        fallback,
        fallback,
    )
    one = axis_method.LearnedMixture(
        at=GaussianMixture(np.ones(1), np.array([[7.0]]), np.array([[1e-12]]))
    )
    assert axis_method.component_reasons(one, [0.0], [1.0]) == (ties,)


def test_public_ties_by_hand():
    rows = np.array([[1.0, 0.1, 5.0], [1.0, 0.2, 5.0], [1.0, 0.3, 6.0], [2.0, 0.4, 7.0]])
    shares, steps = public_ties(rows)
    assert shares == [0.5, 0.0, 0.0]
    assert steps == pytest.approx([1.0, 0.1, 1.0])
    assert public_ties(rows[:1]) == ([0.0] * 3, [np.inf] * 3)
    # Rounding of sums is no step.
    assert public_ties(np.array([[0.1 + 0.2], [0.3], [1.3]]))[1] == pytest.approx([1.0])


def cells_of(values, edges, noise=3.0):
    counts = np.histogram(values, np.concatenate([[-1e9], edges, [1e9]]))[
        0
    ] + np.random.default_rng(1).laplace(scale=noise / np.sqrt(2.0), size=len(edges) + 1)
    return cell_fits.CellHistogram(
        np.concatenate([[-np.inf], edges, [np.inf]]), counts, noise, len(values)
    )


def test_what_noise_may_feign_and_a_threshold_hide_by_hand():
    cells = cells_of(np.zeros(0), np.arange(-20.0, 20.0, 0.5))
    cells = replace(cells, total=2_000)

    def mixture(weight, std):
        return GaussianMixture(
            np.array([[1.0 - weight, weight]]), np.array([[0.0, 10.0]]), np.array([[3.0, std]])
        )

    assert significant(cells, mixture(0.05, 0.1)).all()  # a hundred rows in a cell
    # ten: three deviations, of one cell among eighty
    assert not significant(cells, mixture(0.005, 0.1)).any()
    assert not significant(cells, mixture(0.012, 2.0)).any()  # two dozen over seventeen cells
    assert unseen(cells, np.array([0.1, 0.1]), np.array([0.3, 0.2])).tolist() == [False, True]

    # What a threshold may hide is no tie.
    class Histogram:
        counts = np.array([400.0, 300.0, 200.0])
        keys = np.arange(3)[:, None]

    found = object.__new__(StableRelease)
    for name, value in (
        ("histograms", [Histogram]),
        ("threshold", 20.0),
        ("noise_std", 2.0),
        ("event", None),
    ):
        object.__setattr__(found, name, value)
    assert [each.tied for each in column_scales(found, 950, 6, 1)] == [0.0]
    assert [each.tied for each in column_scales(found, 1200, 6, 1)] == [0.25]
