"""Local randomizers: their privacy, their mean and error, and what they do with odd rows and arguments."""

import dataclasses
import itertools
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
FORMS = ("direct", "selection")


def duchi(dim, epsilon, **more):
    return Duchi(dim, epsilon, 1.0, **more)


FAMILIES = [PrivUnit, PrivUnitG, duchi]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("dim", "epsilon"), [(1, 0.5), (2, 3.0), (10, 1.0), (300, 4.0), (10**5, 2.0)]
)
def test_the_density_ratio_is_within_epsilon(family, dim, epsilon, form):
    randomizer = family(dim, epsilon, form=form)
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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dim", "epsilon"), [(3, 1.0), (10, 2.5), (70, 1.0), (200, 3.0)])
def test_the_cap_is_hit_as_often_as_it_should(family, dim, epsilon, form):
    randomizer = family(dim, epsilon, form=form)
    assert off(randomizer, direction(dim)) < 6.0


def test_a_planted_fault_is_caught(monkeypatch):
    """A door that draws from the cap a little more often than the randomizer says."""
    row = np.ones(10)
    randomizer = PrivUnit(10, 2.5)
    honest = door.kernels.report_integers

    def greedy(rows, law, key, out, *, first=0):
        fields = {name: getattr(law, name) for name in law.__slots__}
        fields["miss"] *= 0.7
        honest(rows, type(law)(**fields), key, out, first=first)

    monkeypatch.setattr(door.kernels, "report_integers", greedy)
    assert off(randomizer, row) > 6.0


SIZES = [(1, 1.0), (2, 1.0), (5, 3.0), (64, 2.0), (150, 4.0)]
WORDS = (4, 8, 16, 64, 32)
ALL = [
    family(dim, epsilon, form=form)
    for family, (dim, epsilon), form in itertools.product(FAMILIES, SIZES, FORMS)
]
for (dim, epsilon), words in zip(SIZES, WORDS, strict=True):
    ALL.append(SubsetSelection(dim, epsilon, words=words))


def standard_error(numbers):
    """Of the mean of each column."""
    return numbers.std(axis=0) / math.sqrt(len(numbers))


@pytest.mark.parametrize(
    "randomizer", ALL, ids=lambda each: f"{type(each).__name__} {each.dim} {each.form}"
)
def test_mean_and_error_are_those_of_the_closed_forms(randomizer):
    row = direction(randomizer.dim)
    found = randomizer.privatize(np.tile(row, (4000, 1)), random_state=2).vectors()
    along = found @ row
    assert abs(along.mean() - 1.0) < 6.0 * standard_error(along) + 1e-4
    across = found - along[:, None] * row
    assert np.all(np.abs(across.mean(axis=0)) < 6.0 * standard_error(across) + 1e-9)
    errors = np.sum((found - row) ** 2, axis=1)
    closed = randomizer.mean_squared_error()
    assert abs(errors.mean() - closed) < 6.0 * standard_error(errors) + 1e-3 * closed


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
    unit = np.array([0.6, 0.0, 0.8])
    rows = np.tile(norm * unit, (20_000, 1))
    found = randomizer.privatize(rows, random_state=3).vectors()
    clipped = min(norm, 2.0)
    deviation = found - clipped * unit
    assert np.all(np.abs(deviation.mean(axis=0)) < 6.0 * standard_error(found))
    error = np.mean(np.sum(deviation**2, axis=1))
    assert error == pytest.approx(randomizer.mean_squared_error(clipped), rel=0.05)


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


@pytest.mark.parametrize(
    ("randomizer", "n"), [(PrivUnit(40, 2.0), 5000), (SubsetSelection(4, 1.0, words=8), 6)]
)
def test_reports_do_not_depend_on_threads_or_on_company(randomizer, n):
    rows = np.random.default_rng(0).standard_normal((n, randomizer.dim))
    one = randomizer.privatize(rows, random_state=4, threads=1)
    two = randomizer.privatize(rows, random_state=4, threads=2)
    assert np.array_equal(one.payload, two.payload)
    rows[1:] = np.nan
    alone = randomizer.privatize(rows, random_state=4)
    assert np.array_equal(alone.payload[0], one.payload[0])


ROW = np.array([0.5, -1.0, 2.0, 0.0, 0.25])
OF_FIVE = [PrivUnit(5, 2.0), PrivUnit(5, 2.0, form="selection"), SubsetSelection(5, 2.0)]
of_five = pytest.mark.parametrize("randomizer", OF_FIVE)


@of_five
@pytest.mark.parametrize(
    "form",
    [
        ROW.reshape(1, 5),
        ROW.tolist(),
        ROW.astype(np.float32),
        ROW.astype(">f8"),
        np.column_stack([ROW, ROW])[:, 1],
        [ROW.tolist()],
    ],
    ids=["rows", "list", "f4", "big-endian", "apart", "list of a list"],
)
def test_one_row_has_the_same_report_in_every_form(randomizer, form):
    """A plain row takes a shorter way than the others."""
    plain = randomizer.privatize(ROW, random_state=3)
    other = randomizer.privatize(form, random_state=3)
    assert np.array_equal(other.payload, plain.payload)
    assert other.to_bytes() == plain.to_bytes()


@of_five
def test_reports_cannot_be_written(randomizer):
    reports = randomizer.privatize(ROW, random_state=3)
    with pytest.raises(ValueError, match="read-only"):
        reports.payload[0, 0] = 1


@of_five
def test_reports_do_not_change_with_the_array_they_were_made_of(randomizer):
    """A read-only array may be written again by its owner."""
    expected = randomizer.privatize(ROW, random_state=3).payload
    payload = expected.copy()
    payload.flags.writeable = False
    reports = Reports(randomizer, payload)
    payload.flags.writeable = True
    payload[:] = 0
    assert np.array_equal(reports.payload, expected)


@of_five
def test_a_row_of_another_shape_or_type_is_refused(randomizer):
    for wrong in (ROW[:4], ROW.reshape(5, 1), ROW.reshape(1, 1, 5), ROW + 0j):
        raises(InputError, None, randomizer.privatize, wrong)


@pytest.mark.parametrize("family", [PrivUnit, duchi])
def test_one_column_shows_its_sign_alone(family):
    """x / |x| is at times 1 - 2^-53: cut off instead of rounded, it would show in the report which rows are such."""
    rows = np.concatenate([np.arange(1.0, 2000.0), np.random.default_rng(0).standard_normal(2000)])
    assert np.any(rows * (1.0 / np.abs(rows)) < 1.0)
    found = family(1, 1.0).privatize(rows[:, None]).payload
    assert np.unique(np.abs(found)).tolist() == [256]


@pytest.mark.parametrize("norm_bound", [None, 3.0])
@pytest.mark.parametrize(
    "randomizer",
    [
        PrivUnit(4, 1.0),
        PrivUnit(4, 1.0, form="selection"),
        SubsetSelection(4, 1.0, words=8),
    ],
)
def test_no_row_raises(randomizer, norm_bound):
    rows = np.full((6, 4), 1.0)
    rows[0] = 0.0
    rows[1, 2] = np.nan
    rows[2, 0] = np.inf
    rows[3] = 1e308
    rows[4] = 1e-320
    bounded = dataclasses.replace(randomizer, norm_bound=norm_bound)
    assert np.isfinite(bounded.privatize(rows).vectors()).all()


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


TWELVE = [family(12, 2.0, form=form) for family, form in itertools.product(FAMILIES, FORMS)]
WORDS_OF_TWELVE = SubsetSelection(12, 2.0, words=64)
of_twelve = pytest.mark.parametrize("randomizer", [*TWELVE, WORDS_OF_TWELVE])


def seven_reports(randomizer):
    return randomizer.privatize(np.random.default_rng(0).standard_normal((7, 12)))


@of_twelve
def test_bytes_come_back(randomizer):
    reports = seven_reports(randomizer)
    data = reports.to_bytes()
    assert len(data) == 64 + 7 * randomizer.report_bytes
    again = Reports.from_bytes(data, randomizer=randomizer)
    assert np.array_equal(again.vectors(), reports.vectors())


@of_twelve
def test_a_part_of_reports(randomizer):
    reports = seven_reports(randomizer)
    assert np.array_equal(reports[2:4].vectors(), reports.vectors()[2:4])
    assert len(reports[3]) == 1


def test_a_report_of_words_has_ten_bytes():
    assert WORDS_OF_TWELVE.report_bytes == 10


@of_twelve
@pytest.mark.parametrize("change", [{"epsilon": 2.5}, {"dim": 13}, {"norm_bound": 3.0}], ids=str)
def test_bytes_of_another_randomizer_are_refused(randomizer, change):
    data = seven_reports(randomizer).to_bytes()
    other = dataclasses.replace(randomizer, **change)
    raises(InputError, "another randomizer", Reports.from_bytes, data, randomizer=other)


@pytest.mark.parametrize("change", [{"words": 32}, {"chosen": 1}], ids=str)
def test_bytes_of_other_words_are_refused(change):
    data = seven_reports(WORDS_OF_TWELVE).to_bytes()
    other = dataclasses.replace(WORDS_OF_TWELVE, **change)
    raises(InputError, "another randomizer", Reports.from_bytes, data, randomizer=other)


@of_twelve
@pytest.mark.parametrize("place", [4, 33, 70])
def test_a_changed_bit_is_refused(randomizer, place):
    data = bytearray(seven_reports(randomizer).to_bytes())
    data[place] ^= 1
    raises(InputError, None, Reports.from_bytes, bytes(data), randomizer=randomizer)


@of_twelve
def test_bytes_of_another_length_are_refused(randomizer):
    data = seven_reports(randomizer).to_bytes()
    for bad in (data[:-1], data + b"x", b"", data[:64], "text"):
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
    if miss > 1:
        next_ratio = Fraction(whole - miss + 1, chosen) / Fraction(miss - 1, words - chosen)
        log_next = math.log(next_ratio)
        assert log_next > epsilon - 1e-9 or log_next > math.log(ratio)


@pytest.mark.parametrize(("dim", "words", "epsilon"), [(2, 8, 2.0), (20, 64, 1.0), (100, 32, 3.0)])
def test_chosen_words_are_sent_as_often_as_they_should(dim, words, epsilon):
    assert off(SubsetSelection(dim, epsilon, words=words), direction(dim), 2000) < 6.0


def test_a_planted_fault_is_caught_of_codes():
    """Coins that spare the words outside more often than the randomizer says."""
    randomizer = SubsetSelection(20, 1.0, words=64)
    greedy = dataclasses.replace(randomizer.book, miss=int(0.7 * randomizer.book.miss))
    object.__setattr__(randomizer, "book", greedy)
    assert off(randomizer, direction(20), 2000) > 6.0


@pytest.mark.parametrize(
    ("dim", "words", "epsilon"), [(3, 16, 0.5), (30, 64, 2.0), (300, 128, 5.0)]
)
def test_the_best_number_of_words_is_chosen(dim, words, epsilon):
    def error(**more):
        return SubsetSelection(dim, epsilon, words=words, **more).mean_squared_error()

    assert error() == min(error(chosen=chosen) for chosen in range(1, words // 2 + 1))


def error_of_bits(bits):
    return SubsetSelection(100, 4.0, words=2**bits).mean_squared_error()


def test_more_words_are_better_and_privunit_is_the_limit():
    errors = [error_of_bits(bits) for bits in range(1, 11)]
    assert errors == sorted(errors, reverse=True)
    limit = PrivUnit(100, 4.0).mean_squared_error()
    assert limit < errors[-1] < 1.01 * limit


def test_six_bits_do_better_than_all_of_the_columns_of_duchi():
    assert error_of_bits(6) < Duchi(100, 4.0, 1.0).mean_squared_error()


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
        for threshold in (0.99 * cap.threshold, 1.01 * cap.threshold):
            if threshold < 1.0 - 1e-12:
                logit = caps.logit_for(epsilon, caps.log_cap_mass(dim, threshold))
                other = caps.cap_of(dim, threshold, logit)
                assert other.scale < cap.scale * (1.0 + 1e-12)


@pytest.mark.parametrize(
    ("dim", "threshold"), [(2, 0.3), (5, 0.9), (30, 0.2), (1000, 0.7), (4001, 0.75), (10**6, 0.003)]
)
def test_masses_agree_with_high_precision(dim, threshold):
    with mpmath.workdps(40):
        a = mpmath.mpf(dim - 1) / 2
        if dim <= 1000:
            half = (1 - mpmath.mpf(threshold)) / 2
            log_mass = mpmath.log(mpmath.betainc(a, a, 0, half, regularized=True))
        else:
            # Too many terms for the series: integrate the density, e^(its logarithm at the edge) taken out.
            edge = (a - 1) * mpmath.log1p(-(mpmath.mpf(threshold) ** 2))

            def density(t):
                return mpmath.exp((a - 1) * mpmath.log1p(-t * t) - edge)

            last = min(1, threshold + 60 / (dim * threshold))
            inside = mpmath.quad(density, mpmath.linspace(threshold, last, 40))
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
        threshold = math.tanh(0.5 * epsilon) * math.sqrt(math.pi / 2.0)
        log_mass = caps.log_cap_mass(2, min(0.999999, threshold))
        excess.append(caps.log_rest(log_mass) - log_mass - epsilon)
    assert max(excess) > 0.2
