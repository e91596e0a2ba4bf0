"""Distribution of the noise. Each check gives a p-value; the sampler stays above ALPHA, every planted bug falls below.

The large sizes (marker statistical) are those of the safety programme. ALPHA is so small that no fixed seed is needed.
"""

import hashlib
import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

from fastpubpriv.kernels import noise
from fastpubpriv.kernels._cbuf import check, inp, out
from fastpubpriv.kernels._cext import lib
from fastpubpriv.kernels.noise import report_integers
from fastpubpriv.rowwise.row_maps import ReportLaw

ALPHA = 1e-9
CHUNK = 1024 * 4096
DRAW = {"gaussian": noise.gaussian_floor, "laplace": noise.discrete_laplace}


def key_of(*parts):
    return hashlib.sha256(repr(parts).encode()).digest()


def chunks(law, log2_scale, n):
    key = key_of(law, log2_scale, n)
    for begin in range(0, n, CHUNK):
        yield DRAW[law](key, min(CHUNK, n - begin), log2_scale, begin=begin)


def two_sided(z):
    return 2 * stats.norm.sf(abs(z))


def variance_p(law, log2_scale, pieces):
    """Second moment about the known center, against its exact value and the exact spread of a square."""
    n = total = 0
    scale = 2.0**log2_scale
    for x in pieces:
        y = (x + 0.5) / scale if law == "gaussian" else x / scale
        total = total + float(np.dot(y, y))
        n = n + len(x)
    if law == "gaussian":
        truth = 1 + 1 / (12 * scale**2)
        relative_sd = np.sqrt(2 / n)
    else:
        q = np.exp(-1 / scale)
        truth = 2 * q / (1 - q) ** 2 / scale**2
        relative_sd = np.sqrt(5 / n)
    return two_sided((total / n / truth - 1) / relative_sd)


def pmf(law, log2_scale):
    """(first value, probabilities) over a range that holds all but 1e-12 of the mass."""
    scale = 2**log2_scale
    if law == "gaussian":
        k = np.arange(0, 8 * scale)
        # lower tail: no cancellation
        half = special.ndtr(-k / scale) - special.ndtr(-(k + 1) / scale)
        return -8 * scale, np.concatenate([half[::-1], half])
    k = np.arange(-40 * scale, 40 * scale)
    q = np.exp(-1 / scale)
    return int(k[0]), (1 - q) / (1 + q) * np.exp(-np.abs(k) / scale)


def histogram(law, log2_scale, pieces):
    first, probabilities = pmf(law, log2_scale)
    counts = np.zeros(len(probabilities), dtype=np.int64)
    for x in pieces:
        counts += np.bincount(np.clip(x - first, 0, len(counts) - 1), minlength=len(counts))
    return counts


def merge(expected, least=25.0):
    """Starts of cells of neighboring values that expect at least `least` counts each."""
    starts = np.flatnonzero(np.diff(np.cumsum(expected) // least, prepend=-1.0) > 0)
    return starts if np.add.reduceat(expected, starts)[-1] >= least else starts[:-1]


def chi_squared_p(law, log2_scale, counts):
    _, probabilities = pmf(law, log2_scale)
    n = counts.sum()
    expected = probabilities / probabilities.sum() * n
    starts = merge(expected)
    expected = np.add.reduceat(expected, starts)
    observed = np.add.reduceat(counts, starts)
    return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(starts) - 1)


def mean_magnitude_p(law, log2_scale, counts):
    """Mean of |x + 1/2|: the one number that a Gaussian without its fraction moves most."""
    first, probabilities = pmf(law, log2_scale)
    magnitude = np.abs(first + np.arange(len(counts)) + 0.5)
    weights = probabilities / probabilities.sum()
    mean = weights @ magnitude
    square = weights @ magnitude**2
    n = counts.sum()
    return two_sided(((counts @ magnitude) / n - mean) / np.sqrt((square - mean**2) / n))


def ks_p(law, log2_scale, pieces):
    y = np.sort(np.concatenate(list(pieces))) / 2.0**log2_scale
    cdf = special.ndtr(y) if law == "gaussian" else stats.laplace.cdf(y)
    n = len(y)
    above = np.arange(1, n + 1) / n - cdf
    below = cdf - np.arange(n) / n
    distance = max(above.max(), below.max())
    return stats.kstwobign.sf(distance * np.sqrt(n))


def low_bits_p(law, log2_scale, pieces):
    counts = sum(np.bincount(x & 255, minlength=256) for x in pieces)
    return stats.chisquare(counts).pvalue


def sign_p(law, log2_scale, pieces):
    """Gaussian: x and ~x are equally likely; Laplace: x and -x. Half of them each, and with the same magnitudes."""
    negative = positive = 0
    sums = np.zeros(2)
    square = 0.0
    for x in pieces:
        below = x < 0
        magnitude = np.where(below, ~x if law == "gaussian" else -x, x).astype(np.float64)
        counted = magnitude > 0 if law == "laplace" else np.ones(len(x), dtype=bool)
        negative = negative + (below & counted).sum()
        positive = positive + (~below & counted).sum()
        sums += [magnitude[below].sum(), magnitude[~below & counted].sum()]
        square += magnitude @ magnitude
    n = negative + positive
    share = two_sided((negative - n / 2) / np.sqrt(n / 4))
    mean = sums.sum() / n
    spread = np.sqrt(square / n - mean**2) * np.sqrt(1 / negative + 1 / positive)
    difference = sums[0] / negative - sums[1] / positive
    return 2 * min(share, two_sided(difference / spread))


def correlation_p(law, log2_scale, pieces):
    """Neighbors, and the same place of neighboring blocks; signs and magnitudes."""
    x = np.concatenate(list(pieces))
    y = x / np.sqrt(np.mean(np.square(x, dtype=np.float64)))
    magnitude = np.abs(y) - np.abs(y).mean()
    magnitude /= np.sqrt(np.mean(magnitude**2))
    scores = []
    for numbers, lag in itertools.product((y, magnitude), (1, noise.DRAW_BLOCK)):
        product = np.dot(numbers[:-lag], numbers[lag:])
        scores.append(abs(product) / np.sqrt(len(numbers) - lag))
    return min(1.0, len(scores) * two_sided(max(scores)))


def tails_p(law, log2_scale, pieces, cuts=(4, 5)):
    """Counts outside `cuts` scales, against their probability (Gaussian: floor cells; Laplace: geometric)."""
    n = 0
    beyond = np.zeros(len(cuts), dtype=np.int64)
    for x in pieces:
        n += len(x)
        magnitude = np.where(x < 0, ~x if law == "gaussian" else -x, x)
        beyond += [np.count_nonzero(magnitude >= cut << log2_scale) for cut in cuts]
    if law == "gaussian":
        probability = 2 * special.ndtr(-np.array(cuts, dtype=float))
    else:
        q = np.exp(-(2.0**-log2_scale))
        probability = 2 * np.exp(-np.array(cuts, dtype=float)) / (1 + q)
    p_values = [
        stats.binomtest(int(k), n, p).pvalue for k, p in zip(beyond, probability, strict=True)
    ]
    return len(cuts) * min(p_values)


def cells_p(law, log2_scale, pieces):
    """Of the whole histogram, and of its mean magnitude."""
    counts = histogram(law, log2_scale, pieces)
    return min(chi_squared_p(law, log2_scale, counts), mean_magnitude_p(law, log2_scale, counts))


SMALL = 1_000_000
# A check, its scales, and how many draws it takes in `make audit`.
CHECKS = [
    (variance_p, (8, 12, 20, 32, 40), 20_000_000),
    (cells_p, (8, 12), 80_000_000),
    (ks_p, (40,), 10_000_000),
    (low_bits_p, (16, 20, 32, 40), 10_000_000),
    (sign_p, (8, 40), 40_000_000),
    (correlation_p, (20,), 20_000_000),
    (tails_p, (16,), SMALL),
]


def cases(size):
    """Each check, its scales one by one, and the number of draws."""
    found = []
    for p_value, scales, large in CHECKS:
        found += [(p_value, scale, size or large) for scale in scales]
    return found


@pytest.mark.parametrize("law", DRAW)
@pytest.mark.parametrize(("p_value", "log2_scale", "n"), cases(SMALL))
def test_noise_has_its_law(p_value, law, log2_scale, n):
    assert p_value(law, log2_scale, chunks(law, log2_scale, n)) > ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("law", DRAW)
@pytest.mark.parametrize(("p_value", "log2_scale", "n"), cases(None))
def test_many_draws_of_noise_have_its_law(p_value, law, log2_scale, n):
    assert p_value(law, log2_scale, chunks(law, log2_scale, n)) > ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize(("law", "cuts"), [("gaussian", (4, 5, 6)), ("laplace", (4, 8, 14))])
def test_far_tails_have_their_law(law, cuts):
    pieces = chunks(law, 16, 1_000_000_000)
    assert tails_p(law, 16, pieces, cuts) > ALPHA


@pytest.mark.parametrize("law", DRAW)
def test_forced_slow_path_has_the_law(law):
    draws = np.empty(1_000_000, dtype=np.int64)
    key = inp(np.frombuffer(key_of("slow", law), dtype=np.uint8))
    check(lib.fpp_test_noise_i64(key, 0, len(draws), list(DRAW).index(law), 8, -4, out(draws)))
    assert chi_squared_p(law, 8, histogram(law, 8, [draws])) > ALPHA
    assert variance_p(law, 8, [draws]) > ALPHA


def test_uniform_numbers_have_their_law():
    n = 1_000_000
    u = noise.uniform(key_of("uniform"), n)
    distance = np.abs(np.sort(u) - np.arange(n) / n).max()
    assert stats.kstwobign.sf(distance * np.sqrt(n)) > ALPHA
    low_bits = (u * 2.0**53).astype(np.int64) & 255
    assert stats.chisquare(np.bincount(low_bits)).pvalue > ALPHA


def test_whole_numbers_below_a_limit_are_equally_likely():
    draws = noise.below(key_of("below"), 1_000_000, 1000)
    assert stats.chisquare(np.bincount(draws, minlength=1000)).pvalue > ALPHA


def test_thirds_of_a_large_limit_are_equally_likely():
    thirds = noise.below(key_of("big"), 1_000_000, 3 * 2**61) >> 61
    assert stats.chisquare(np.bincount(thirds, minlength=3)).pvalue > ALPHA


def test_permutations_of_four_are_equally_likely():
    orders = [tuple(noise.permutation(key_of("permutation", i), 4)) for i in range(24_000)]
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > ALPHA


def normals(seed, size=SMALL, **options):
    return np.random.default_rng(seed).standard_normal(size, **options)


def floored(log2_scale, size=SMALL):
    return np.floor(normals(0, size) * 2.0**log2_scale).astype(np.int64)


X = floored(20)


def laplaces(seed, size=SMALL):
    return np.random.default_rng(seed).laplace(size=size)


def whole(numbers):
    return numbers.astype(np.int64)


def blocks_used_again():
    """Of ten blocks of draws, the second is the first."""
    blocks = X[: 1024 * 900].reshape(-1, 1024)
    places = np.arange(900)
    places[1::10] -= 1
    return blocks[places].reshape(-1)


SHIFTED = X + (1 << 20) // 100
X_OF_16 = X >> 4
X_OF_8 = X >> 12
WRONG = {
    "a scale 2 % too large": (
        variance_p,
        "gaussian",
        20,
        lambda: np.floor(normals(1) * 1.02 * 2.0**20),
    ),
    "a Laplace scale 2 % too large": (
        variance_p,
        "laplace",
        20,
        lambda: laplaces(2) * 1.02 * 2.0**20,
    ),
    "truncation in place of a floor": (
        cells_p,
        "gaussian",
        8,
        lambda: whole(np.trunc(normals(3) * 256)),
    ),
    "negation in place of the complement": (
        cells_p,
        "gaussian",
        8,
        lambda: np.where(X < 0, -(~X_OF_8), X_OF_8),
    ),
    "single precision": (
        low_bits_p,
        "gaussian",
        32,
        lambda: whole(np.floor(normals(6, dtype=np.float32) * 2.0**32)),
    ),
    "a coarser grid than its integers": (
        low_bits_p,
        "gaussian",
        40,
        lambda: whole(np.round(normals(7) * 2.0**30) * 2.0**10),
    ),
    "a shift of the law": (ks_p, "gaussian", 20, lambda: SHIFTED),
    "a shift of the signs": (sign_p, "gaussian", 20, lambda: SHIFTED),
    "a skew": (sign_p, "gaussian", 20, lambda: np.where(X < 0, whole(X * 1.02), X)),
    "blocks used again": (correlation_p, "gaussian", 20, blocks_used_again),
    "draws used again": (correlation_p, "gaussian", 20, lambda: np.repeat(X[::50], 50)),
    "tails that are cut": (tails_p, "gaussian", 16, lambda: np.clip(X_OF_16, -(3 << 16), 3 << 16)),
    "tails that are heavy": (tails_p, "gaussian", 16, lambda: whole(X_OF_16 * 1.2)),
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_noise_is_caught(fault):
    p_value, law, log2_scale, draws = WRONG[fault]
    assert p_value(law, log2_scale, [draws()]) < ALPHA


def test_the_checks_pass_what_is_right():
    assert variance_p("gaussian", 20, [X]) > ALPHA
    assert correlation_p("gaussian", 20, [X]) > ALPHA
    assert cells_p("gaussian", 8, [X_OF_8]) > ALPHA


@pytest.mark.statistical
def test_variance_check_catches_a_slightly_wrong_scale():
    size = 20_000_000
    factor = 1.003 * 2.0**20
    assert variance_p("gaussian", 20, [np.floor(normals(1, size) * factor)]) < ALPHA
    assert variance_p("laplace", 20, [laplaces(2, size) * factor]) < ALPHA


def test_double_zero_of_the_laplace_law_is_caught():
    _, probabilities = pmf("laplace", 8)
    wrong = probabilities.copy()
    wrong[len(wrong) // 2] *= 2
    counts = np.random.default_rng(4).multinomial(1_000_000, wrong / wrong.sum())
    assert chi_squared_p("laplace", 8, counts) < ALPHA


def test_missing_fraction_is_caught():
    # exp(-k^2 / 2 scale^2) in place of its average over [k, k + 1): a relative change of at most 2e-3 a cell.
    half = np.exp(-0.5 * (np.arange(8 * 256) / 256.0) ** 2)
    wrong = np.concatenate([half[::-1], half])
    _, right = pmf("gaussian", 8)
    rng = np.random.default_rng(5)
    wrong_counts = rng.multinomial(80_000_000, wrong / wrong.sum())
    right_counts = rng.multinomial(80_000_000, right / right.sum())
    assert mean_magnitude_p("gaussian", 8, wrong_counts) < ALPHA
    assert mean_magnitude_p("gaussian", 8, right_counts) > ALPHA


# ---- Local reports against their laws: angles inside and outside of the cap, directions across it, at 20,000 reports each.
# A Kolmogorov-Smirnov test fails below 1e-6, so one of the tests here fails falsely once in 20,000 runs of the file.
N = 20_000
LEVEL = 1e-6
CAPS = [
    (2, 0.5),
    (3, 0.2),
    (3, 0.9),
    (10, 0.1),
    (10, 0.6),
    (64, 0.05),
    (64, 0.3),
    (1000, 0.02),
    (1000, 0.1),
]


def angles(dim, threshold, miss, *, gaussian=False, first=0, n=N):
    """Cosines to the row (its part along the row for a normal law), and the reports."""
    law = ReportLaw(
        dim=dim,
        gaussian=gaussian,
        log2_grid=24,
        ball=False,
        threshold=threshold,
        miss=miss,
        radius=1.0,
    )
    rows = np.zeros((n, dim))
    rows[:, 0] = 1.0
    integers = np.empty((n, dim), np.int32)
    report_integers(rows, law, b"statistical test of the reports!", integers, first=first)
    reports = integers.astype(np.float64) * 2.0**-24
    along = reports[:, 0]
    if not gaussian:
        along = along / np.linalg.norm(reports, axis=1)
    return along, reports


CAPS_ACROSS = [(2, 0.5), (3, 0.2), (10, 0.3), (200, 0.1)]


def mass_below(dim, t):
    """P(cosine <= t) of a uniform unit vector."""
    a = 0.5 * (dim - 1)
    return special.betainc(a, a, 0.5 * (1.0 + np.clip(t, -1.0, 1.0)))


# A cap is missed so seldom, or so often, that all reports lie on one side of its edge.
NEVER = 2.0**-900
ALWAYS = 1.0 - 2.0**-53


def inside_cap_p(dim, threshold, cosines):
    """P-value of cosines against the uniform law on a cap."""
    edge = mass_below(dim, threshold)

    def law(t):
        return np.clip((mass_below(dim, t) - edge) / (1.0 - edge), 0.0, 1.0)

    return stats.kstest(cosines, law).pvalue


def above_p(threshold, numbers):
    """P-value of numbers against the normal law above a threshold."""
    top = stats.norm.sf(threshold)
    return stats.kstest(numbers, lambda a: np.clip(1.0 - stats.norm.sf(a) / top, 0.0, 1.0)).pvalue


def below_p(threshold, numbers):
    """P-value of numbers against the normal law below a threshold."""
    bottom = stats.norm.cdf(threshold)
    return stats.kstest(numbers, lambda a: np.clip(stats.norm.cdf(a) / bottom, 0.0, 1.0)).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize(("dim", "threshold"), CAPS)
def test_angles_inside_of_the_cap(dim, threshold):
    cosines, _ = angles(dim, threshold, NEVER)
    assert cosines.min() > threshold - 1e-5
    assert inside_cap_p(dim, threshold, cosines) > LEVEL


@pytest.mark.statistical
@pytest.mark.parametrize(("dim", "threshold"), CAPS)
def test_angles_outside_of_the_cap(dim, threshold):
    edge = mass_below(dim, threshold)

    def law(t):
        return np.clip(mass_below(dim, t) / edge, 0.0, 1.0)

    cosines, _ = angles(dim, threshold, ALWAYS, first=100_000)
    assert cosines.max() < threshold + 1e-5
    assert stats.kstest(cosines, law).pvalue > LEVEL


@pytest.mark.statistical
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 2.5, 6.0])
def test_tails_of_the_normal_law(threshold):
    inside, _ = angles(4, threshold, NEVER, gaussian=True)
    assert above_p(threshold, inside) > LEVEL
    outside, reports = angles(4, threshold, ALWAYS, gaussian=True)
    assert below_p(threshold, outside) > LEVEL
    assert stats.kstest(reports[:, 1], "norm").pvalue > LEVEL


@pytest.mark.statistical
@pytest.mark.parametrize(("dim", "threshold"), CAPS_ACROSS)
def test_lengths_are_those_of_normal_rows_and_independent_of_the_angle(dim, threshold):
    cosines, reports = angles(dim, threshold, 0.3, first=200_000)
    lengths = np.linalg.norm(reports, axis=1)
    assert stats.kstest(lengths**2, stats.chi2(dim).cdf).pvalue > LEVEL
    inside = cosines >= threshold
    assert stats.ks_2samp(lengths[inside], lengths[~inside]).pvalue > LEVEL
    assert abs(np.corrcoef(cosines, lengths)[0, 1]) < 5.0 / math.sqrt(N)


@pytest.mark.statistical
@pytest.mark.parametrize(("dim", "threshold"), CAPS_ACROSS)
def test_directions_across_the_row_are_uniform(dim, threshold):
    _, reports = angles(dim, threshold, 0.3, first=200_000)
    across = reports[:, 1:] / np.linalg.norm(reports[:, 1:], axis=1, keepdims=True)
    if dim == 2:
        positive = int(np.count_nonzero(across[:, 0] > 0))
        assert stats.binomtest(positive, N).pvalue > LEVEL
    elif dim == 3:
        circle = np.arctan2(across[:, 1], across[:, 0])
        assert stats.kstest(circle, stats.uniform(-math.pi, 2.0 * math.pi).cdf).pvalue > LEVEL
    else:
        assert stats.kstest(across[:, 0], lambda t: mass_below(dim - 1, t)).pvalue > LEVEL


@pytest.mark.statistical
def test_a_planted_fault_is_seen():
    """A cap that is a hundredth of its threshold lower."""
    cosines, _ = angles(10, 0.594, NEVER)
    assert inside_cap_p(10, 0.6, cosines) < LEVEL


@pytest.mark.statistical
def test_a_million_columns():
    """1000 reports on each side, 15 s of draws each; beyond 64 columns their number enters an angle by two constants alone."""

    def scaled_cosines(miss, first):
        """Of 1000 reports, times the root of the number of columns: nearly normal."""
        parts = [angles(10**6, 0.003, miss, first=first + i, n=40)[0] for i in range(0, 1000, 40)]
        return 1000.0 * np.concatenate(parts)

    assert above_p(3.0, scaled_cosines(NEVER, 0)) > LEVEL
    assert below_p(3.0, scaled_cosines(ALWAYS, 1000)) > LEVEL
