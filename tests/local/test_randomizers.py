"""Local randomizers: their privacy, their mean and error, and what they do with odd rows and arguments."""

import dataclasses
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from helpers.errors import raises

from fastpubpriv import ApproxDP, InputError, PureDP, SeededNoiseWarning
from fastpubpriv.local import Duchi, PrivUnit, PrivUnitG, Reports, SubsetSelection, families
from fastpubpriv.local import parameters as caps
from fastpubpriv.local.families import names_near_word
from fastpubpriv.local.randomizers import directions, integers
from fastpubpriv.release import reports as door

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
FAMILIES = [PrivUnit, PrivUnitG, lambda dim, epsilon, **more: Duchi(dim, epsilon, 1.0, **more)]


def make(family, dim, epsilon, **more):
    return FAMILIES[family](dim, epsilon, **more)


@pytest.mark.parametrize("form", ["direct", "selection"])
@pytest.mark.parametrize("family", [0, 1, 2])
@pytest.mark.parametrize(
    ("dim", "epsilon"), [(1, 0.5), (2, 3.0), (10, 1.0), (300, 4.0), (10**5, 2.0)]
)
def test_the_density_ratio_is_within_epsilon(family, dim, epsilon, form):
    randomizer = make(family, dim, epsilon, form=form)
    cap = randomizer.cap
    inside = cap.probability / math.exp(cap.log_mass)
    outside = (1.0 - cap.probability) / (1.0 - math.exp(cap.log_mass))
    assert math.log(inside / outside) == pytest.approx(cap.epsilon, rel=1e-9)
    # What floating point may add is taken off beforehand, and is small.
    lost = randomizer._direct_error(cap) if form == "direct" else randomizer._seed_error(cap)
    assert epsilon * 0.99 < cap.epsilon <= epsilon - lost
    assert randomizer.cost == PureDP(epsilon)
    if form == "selection":
        assert -math.log(randomizer.law.tail) <= cap.epsilon * (1.0 + 1e-12)


def test_the_cost_names_the_tails_of_the_normals():
    assert isinstance(PrivUnit(1000, 64.0).cost, ApproxDP)
    assert float(PrivUnit(1000, 64.0).cost.amounts[1]) < 1e-20
    raises(InputError, "tails", PrivUnit(1000, 200.0).privatize, np.ones(1000))


def direction(dim):
    row = np.random.default_rng(dim).standard_normal(dim)
    return row / np.linalg.norm(row)


def hits(randomizer, row, n):
    reports = randomizer.privatize(np.tile(row, (n, 1)), random_state=1)
    if isinstance(randomizer, SubsetSelection):
        return int(np.count_nonzero(names_near_word(randomizer, reports.payload, row)))
    unit = directions(randomizer, integers(randomizer, reports.payload))
    along = unit @ (row / np.linalg.norm(row))
    return int(np.count_nonzero(along >= randomizer.cap.threshold - 1e-3 * (randomizer.dim < 3)))


def off(randomizer, row, n=4000):
    """Standard deviations between how often the cap, or a chosen word, is met and how often it should; 6: false alarms 2e-9."""
    p = randomizer.cap.probability
    return abs(hits(randomizer, row, n) - n * p) / math.sqrt(n * p * (1.0 - p))


@pytest.mark.parametrize("form", ["direct", "selection"])
@pytest.mark.parametrize("family", [0, 1, 2])
@pytest.mark.parametrize(("dim", "epsilon"), [(3, 1.0), (10, 2.5), (70, 1.0), (200, 3.0)])
def test_the_cap_is_hit_as_often_as_it_should(family, dim, epsilon, form):
    assert off(make(family, dim, epsilon, form=form), direction(dim)) < 6.0


def test_a_planted_fault_is_caught(monkeypatch):
    """A door that draws from the cap a little more often than the randomizer says."""
    row = np.ones(10)
    randomizer = PrivUnit(10, 2.5)
    honest = door.kernels.report_integers

    def greedy(rows, law, key, out, *, first=0):
        honest(
            rows,
            type(law)(
                **{**{name: getattr(law, name) for name in law.__slots__}, "miss": law.miss * 0.7}
            ),
            key,
            out,
            first=first,
        )

    monkeypatch.setattr(door.kernels, "report_integers", greedy)
    assert off(randomizer, row) > 6.0


SIZES = [(1, 1.0), (2, 1.0), (5, 3.0), (64, 2.0), (150, 4.0)]
ALL = [
    *(
        make(family, *size, form=form)
        for family in range(3)
        for size in SIZES
        for form in ("direct", "selection")
    ),
    *(
        SubsetSelection(*size, words=words)
        for size, words in zip(SIZES, (4, 8, 16, 64, 32), strict=True)
    ),
]


@pytest.mark.parametrize(
    "randomizer", ALL, ids=lambda each: f"{type(each).__name__} {each.dim} {each.form}"
)
def test_mean_and_error_are_those_of_the_closed_forms(randomizer):
    n = 4000
    row = direction(randomizer.dim)
    found = randomizer.privatize(np.tile(row, (n, 1)), random_state=2).vectors()
    along = found @ row
    assert abs(along.mean() - 1.0) < 6.0 * along.std() / math.sqrt(n) + 1e-4
    across = found - along[:, None] * row
    assert np.all(np.abs(across.mean(axis=0)) < 6.0 * across.std(axis=0) / math.sqrt(n) + 1e-9)
    errors = np.sum((found - row) ** 2, axis=1)
    closed = randomizer.mean_squared_error()
    assert abs(errors.mean() - closed) < 6.0 * errors.std() / math.sqrt(n) + 1e-3 * closed


@pytest.mark.parametrize("norm", [0.0, 0.7, 2.0, 50.0])
@pytest.mark.parametrize(
    "randomizer",
    [
        PrivUnit(3, 4.0, norm_bound=2.0),
        SubsetSelection(3, 4.0, words=16, norm_bound=2.0),
    ],
    ids=["unit", "words"],
)
def test_rows_of_a_ball_keep_their_length(norm, randomizer):
    n = 20_000
    row = norm * np.array([0.6, 0.0, 0.8])
    found = randomizer.privatize(np.tile(row, (n, 1)), random_state=3).vectors()
    expected = row * min(1.0, 2.0 / norm if norm else 1.0)
    assert np.all(np.abs(found.mean(axis=0) - expected) < 6.0 * found.std(axis=0) / math.sqrt(n))
    error = np.mean(np.sum((found - expected) ** 2, axis=1))
    assert error == pytest.approx(randomizer.mean_squared_error(min(norm, 2.0)), rel=0.05)


@pytest.mark.parametrize("dim", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 10.0])
def test_privunit_is_the_best(dim, epsilon):
    best = PrivUnit(dim, epsilon, norm_bound=1.0).mean_squared_error()
    assert best < Duchi(dim, epsilon, 1.0).mean_squared_error()
    assert best < PrivUnitG(dim, epsilon, norm_bound=1.0).mean_squared_error()
    if dim > 2:
        assert best < PrivUnit.bhowmick(dim, epsilon).mean_squared_error()


def test_given_parameters_are_kept():
    randomizer = PrivUnit(20, caps.cap_of(20, 0.25, math.log(4.0)).epsilon, threshold=0.25)
    assert randomizer.cap.threshold == 0.25
    assert randomizer.cap.probability == pytest.approx(0.8, abs=1e-6)
    assert PrivUnit.bhowmick(1000, 4.0).epsilon < 4.0


def test_reports_do_not_depend_on_threads_or_on_company():
    for randomizer, n in ((PrivUnit(40, 2.0), 5000), (SubsetSelection(4, 1.0, words=8), 6)):
        rows = np.random.default_rng(0).standard_normal((n, randomizer.dim))
        one = randomizer.privatize(rows, random_state=4, threads=1)
        two = randomizer.privatize(rows, random_state=4, threads=2)
        assert np.array_equal(one.payload, two.payload)
        rows[1:] = np.nan
        alone = randomizer.privatize(rows, random_state=4)
        assert np.array_equal(alone.payload[0], one.payload[0])


@pytest.mark.parametrize(
    "randomizer", [PrivUnit(5, 2.0), PrivUnit(5, 2.0, form="selection"), SubsetSelection(5, 2.0)]
)
def test_one_row_has_the_same_report_in_every_form(randomizer):
    """A plain row takes a shorter way than the others."""
    row = np.array([0.5, -1.0, 2.0, 0.0, 0.25])
    plain = randomizer.privatize(row, random_state=3)
    apart = np.zeros((5, 2))
    apart[:, 1] = row
    for other in (
        row.reshape(1, 5),
        row.tolist(),
        row.astype(np.float32),
        row.astype(">f8"),
        apart[:, 1],
        [row.tolist()],
    ):
        assert np.array_equal(randomizer.privatize(other, random_state=3).payload, plain.payload)
    assert plain.to_bytes() == randomizer.privatize(row.tolist(), random_state=3).to_bytes()
    with pytest.raises(ValueError, match="read-only"):
        plain.payload[0, 0] = 1
    payload = plain.payload.copy()
    payload.flags.writeable = False
    again = Reports(randomizer, payload)
    payload.flags.writeable = True
    payload[:] = 0
    assert np.array_equal(again.payload, plain.payload)
    for wrong in (row[:4], row.reshape(5, 1), row.reshape(1, 1, 5), row + 0j):
        raises(InputError, None, randomizer.privatize, wrong)


@pytest.mark.parametrize("family", [0, 2])
def test_one_column_shows_its_sign_alone(family):
    """x / |x| is at times 1 - 2^-53: cut off instead of rounded, it would show in the report which rows are such."""
    rows = np.concatenate([np.arange(1.0, 2000.0), np.random.default_rng(0).standard_normal(2000)])
    assert np.any(rows * (1.0 / np.abs(rows)) < 1.0)
    found = make(family, 1, 1.0).privatize(rows[:, None]).payload
    assert np.unique(np.abs(found)).tolist() == [256]


def test_no_row_raises():
    rows = np.full((6, 4), 1.0)
    rows[0] = 0.0
    rows[1, 2] = np.nan
    rows[2, 0] = np.inf
    rows[3] = 1e308
    rows[4] = 1e-320
    for norm_bound in (None, 3.0):
        made = [
            PrivUnit(4, 1.0, norm_bound=norm_bound, form=form) for form in ("direct", "selection")
        ]
        for randomizer in (*made, SubsetSelection(4, 1.0, words=8, norm_bound=norm_bound)):
            assert np.isfinite(randomizer.privatize(rows).vectors()).all()


def test_fresh_keys_give_fresh_reports():
    randomizer = PrivUnit(50, 1.0)
    row = np.ones(50)
    first = randomizer.privatize(row)
    second = randomizer.privatize(row)
    assert first.private
    assert not np.array_equal(first.payload, second.payload)
    with pytest.warns(SeededNoiseWarning):
        assert not randomizer.privatize(row, random_state=0).private


@pytest.mark.parametrize(
    "call",
    [
        lambda: PrivUnit(0, 1.0),
        lambda: PrivUnit(2**21, 1.0),
        lambda: PrivUnit(3, 0.0),
        lambda: PrivUnit(3, -1.0),
        lambda: PrivUnit(3, math.nan),
        lambda: PrivUnit(3, 501.0),
        lambda: PrivUnit(3, 1e-9),
        lambda: PrivUnit(2.5, 1.0),
        lambda: PrivUnit(True, 1.0),
        lambda: PrivUnit(3, 1.0, norm_bound=0.0),
        lambda: PrivUnit(3, 1.0, norm_bound=1e200),
        lambda: PrivUnit(3, 1.0, form="seeds"),
        lambda: PrivUnit(3, 1.0, threshold=1.0),
        lambda: PrivUnit(1, 1.0, threshold=0.5),
        lambda: PrivUnit(1000, 12.0, form="selection"),
        lambda: Duchi(3, 1.0),
        lambda: PrivUnit.bhowmick(2, 1.0),
        lambda: PrivUnit(2**20, 1e-4),
        lambda: PrivUnit(3, 1.0).privatize(np.ones((2, 4))),
        lambda: PrivUnit(3, 1.0).privatize(np.ones((2, 3)), threads=0),
        lambda: PrivUnit(3, 1.0).privatize("nothing.npy"),
        lambda: PrivUnit(3, 1.0).privatize([["a", "b", "c"]]),
        lambda: PrivUnit(3, 1.0).privatize(np.ones((0, 3))),
        lambda: SubsetSelection(3, 1.0, words=1),
        lambda: SubsetSelection(3, 1.0, words=1025),
        lambda: SubsetSelection(3, 1.0, words=8, chosen=5),
        lambda: SubsetSelection(3, 1.0, words=8, chosen=0),
        lambda: SubsetSelection(2**20, 1.0, words=32),
        lambda: SubsetSelection(3, 0.0),
        lambda: SubsetSelection(3, math.nan),
        lambda: SubsetSelection(3, 1.0, words=2.5),
        lambda: SubsetSelection(3, 1.0).privatize(np.ones((2, 4))),
    ],
)
def test_public_arguments_are_checked(call):
    raises(InputError, None, call)


TWELVE = [
    make(family, 12, 2.0, form=form) for family in range(3) for form in ("direct", "selection")
]


@pytest.mark.parametrize("randomizer", [*TWELVE, SubsetSelection(12, 2.0, words=64)])
def test_bytes_come_back(randomizer):
    reports = randomizer.privatize(np.random.default_rng(0).standard_normal((7, 12)))
    data = reports.to_bytes()
    assert len(data) == 64 + 7 * randomizer.report_bytes
    again = Reports.from_bytes(data, randomizer=randomizer)
    assert np.array_equal(again.vectors(), reports.vectors())
    assert np.array_equal(reports[2:4].vectors(), reports.vectors()[2:4])
    assert len(reports[3]) == 1
    others = [{"epsilon": 2.5}, {"dim": 13}, {"norm_bound": 3.0}]
    if isinstance(randomizer, SubsetSelection):
        others += [{"words": 32}, {"chosen": 1}]
        assert randomizer.report_bytes == 10
    for changes in others:
        other = dataclasses.replace(randomizer, **changes)
        raises(InputError, "another randomizer", Reports.from_bytes, data, randomizer=other)
    changed = [data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] for place in (4, 33, 70)]
    for bad in (data[:-1], data + b"x", b"", data[:64], *changed, "text"):
        raises(InputError, None, Reports.from_bytes, bad, randomizer=randomizer)


# ---- Reports of a few bits: their exact privacy, mean and error, bytes, and arguments out of range ------------------
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 4.0, 20.0, 60.0, 400.0])
@pytest.mark.parametrize(("words", "chosen"), [(2, 1), (16, 3), (1024, 500)])
def test_the_ratio_of_probabilities_is_within_epsilon(words, chosen, epsilon):
    miss = families.miss_of(words, chosen, epsilon)
    whole = 1 << 62
    ratio = Fraction(whole - miss, chosen) / Fraction(miss, words - chosen)
    # In logarithms of integers, with a margin below that of the rounding of miss_of.
    assert math.log(ratio.numerator) - math.log(ratio.denominator) <= epsilon * (1.0 + 1e-15)
    assert ratio >= 1
    one_less = Fraction(whole - miss + 1, chosen) / Fraction(max(miss - 1, 1), words - chosen)
    assert miss == 1 or math.log(one_less) > epsilon - 1e-9 or math.log(one_less) > math.log(ratio)


@pytest.mark.parametrize(("dim", "words", "epsilon"), [(2, 8, 2.0), (20, 64, 1.0), (100, 32, 3.0)])
def test_chosen_words_are_sent_as_often_as_they_should(dim, words, epsilon):
    assert off(SubsetSelection(dim, epsilon, words=words), direction(dim), 2000) < 6.0


def test_a_planted_fault_is_caught_of_codes():
    """Coins that spare the words outside more often than the randomizer says."""
    randomizer = SubsetSelection(20, 1.0, words=64)
    greedy = dataclasses.replace(randomizer.book, miss=int(0.7 * randomizer.book.miss))
    object.__setattr__(randomizer, "book", greedy)
    assert off(randomizer, direction(20), 2000) > 6.0


def test_the_best_number_of_words_and_more_of_them():
    for dim, words, epsilon in ((3, 16, 0.5), (30, 64, 2.0), (300, 128, 5.0)):
        errors = [
            SubsetSelection(dim, epsilon, words=words, chosen=s).mean_squared_error()
            for s in range(1, words // 2 + 1)
        ]
        assert SubsetSelection(dim, epsilon, words=words).mean_squared_error() == min(errors)
    # More words are better and privunit is the limit.
    errors = [
        SubsetSelection(100, 4.0, words=2**bits).mean_squared_error() for bits in range(1, 11)
    ]
    assert errors == sorted(errors, reverse=True)
    assert (
        PrivUnit(100, 4.0).mean_squared_error()
        < errors[-1]
        < 1.01 * PrivUnit(100, 4.0).mean_squared_error()
    )
    # Six bits do better than all of Duchi's columns.
    assert errors[5] < Duchi(100, 4.0, 1.0).mean_squared_error()


# ---- Caps of local randomizers: the known table, closed forms, and stability from one column to a million -----------
TABLE = [
    (2, 1.0, 0.3082871299, 0.644638, 9.5217799),
    (10, 2.0, 0.2508000053, 0.686344, 14.898089),
    (100, 4.0, 0.1510682140, 0.793571, 42.818127),
    (1000, 8.0, 0.08659815913, 0.901397, 132.34683),
    (1000, 64.0, 0.3255224789, 0.991776, 8.4370886),
    (10**6, 1.0, 3.974630942e-4, 0.589326, 6330037.9),
]
TAILS = [
    (0.1, 0.0398927299),
    (1, 0.3974630105),
    (2, 0.7864802550),
    (4, 1.5156376592),
    (8, 2.7429447906),
    (16, 4.5613263599),
    (64, 10.5809168905),
]


@pytest.mark.parametrize(("dim", "epsilon", "threshold", "probability", "error"), TABLE)
def test_the_table(dim, epsilon, threshold, probability, error):
    cap = caps.best_cap(dim, epsilon)
    assert cap.threshold == pytest.approx(threshold, rel=1e-9)
    assert cap.probability == pytest.approx(probability, abs=1e-6)
    assert 1.0 / cap.scale**2 - 1.0 == pytest.approx(error, rel=5e-8)  # the digits of the table
    assert cap.scale == pytest.approx(cap.threshold, rel=1e-11)
    assert cap.epsilon == pytest.approx(epsilon, rel=1e-13)


@pytest.mark.parametrize(("epsilon", "threshold"), TAILS)
def test_the_tails(epsilon, threshold):
    cap = caps.best_tail(float(epsilon))
    assert cap.threshold == pytest.approx(threshold, abs=1e-10)
    assert cap.scale == pytest.approx(threshold, abs=1e-9)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 7.0, 20.0])
def test_three_columns_have_a_closed_form(epsilon):
    cap = caps.best_cap(3, epsilon)
    assert cap.threshold == pytest.approx(math.tanh(epsilon / 4.0), rel=1e-10)
    assert 1.0 / cap.scale**2 - 1.0 == pytest.approx(1.0 / math.sinh(epsilon / 4.0) ** 2, rel=1e-8)


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 7, 50, 1001, 65537, 10**6])
@pytest.mark.parametrize("epsilon", [1e-3, 0.05, 1.0, 5.0, 25.0, 110.0, 500.0])
def test_every_cap_is_the_best_and_costs_what_it_says(dim, epsilon):
    cap = caps.best_cap(dim, epsilon)
    assert 0.0 < cap.scale < 1.0 + 1e-11
    assert cap.epsilon <= epsilon * (1.0 + 1e-12)
    if dim > 1 and cap.threshold**2 < 1.0 - 1e-11:
        assert cap.epsilon == pytest.approx(epsilon, rel=1e-12)
        for factor in (0.99, 1.01):
            at = cap.threshold * factor
            if at < 1.0 - 1e-12:
                other = caps.cap_of(dim, at, caps.logit_for(epsilon, caps.log_cap_mass(dim, at)))
                assert other.scale < cap.scale * (1.0 + 1e-12)


@pytest.mark.parametrize(
    ("dim", "threshold"), [(2, 0.3), (5, 0.9), (30, 0.2), (1000, 0.7), (4001, 0.75), (10**6, 0.003)]
)
def test_masses_agree_with_high_precision(dim, threshold):
    with mpmath.workdps(40):
        a = mpmath.mpf(dim - 1) / 2
        if dim <= 1000:
            log_mass = mpmath.log(
                mpmath.betainc(a, a, 0, (1 - mpmath.mpf(threshold)) / 2, regularized=True)
            )
        else:
            # Too many terms for the series: integrate the density, e^(its logarithm at the edge) taken out.
            edge = (a - 1) * mpmath.log1p(-(mpmath.mpf(threshold) ** 2))
            inside = mpmath.quad(
                lambda t: mpmath.exp((a - 1) * mpmath.log1p(-t * t) - edge),
                mpmath.linspace(threshold, min(1, threshold + 60 / (dim * threshold)), 40),
            )
            log_mass = mpmath.log(inside) + edge - mpmath.log(mpmath.beta(mpmath.mpf(1) / 2, a))
    assert caps.log_cap_mass(dim, threshold) == pytest.approx(float(log_mass), rel=1e-11, abs=1e-11)


def test_the_printed_normalizer_is_wrong():
    """LLHR's plus between the two terms; what is unbiased has a minus."""
    cap = caps.best_cap(10, 2.0)
    q = math.exp(cap.log_mass)
    p = cap.probability
    slope = cap.scale / (p / q - (1.0 - p) / (1.0 - q))
    assert slope * (p / q + (1.0 - p) / (1.0 - q)) == pytest.approx(0.329309, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0, 30.0, 200.0])
@pytest.mark.parametrize("dim", [3, 20, 1000])
def test_the_conditions_of_bhowmick_are_sufficient(dim, epsilon):
    log_mass = caps.log_cap_mass(dim, caps.bhowmick_threshold(dim, epsilon))
    assert caps.log_rest(log_mass) - log_mass <= epsilon * (1.0 + 1e-9)


def test_the_first_condition_of_bhowmick_is_false_for_two_columns():
    excess = []
    for epsilon in (0.5, 1.0, 1.4, 1.8, 2.0):
        log_mass = caps.log_cap_mass(
            2, min(0.999999, math.tanh(0.5 * epsilon) * math.sqrt(math.pi / 2.0))
        )
        excess.append(caps.log_rest(log_mass) - log_mass - epsilon)
    assert max(excess) > 0.2
