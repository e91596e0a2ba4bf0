"""Distribution of the noise. Each check gives a p-value; the sampler stays above ALPHA, every planted bug falls below.

The large sizes (marker statistical) are those of the safety programme. ALPHA is so small that no fixed seed is needed.
"""

import hashlib
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


def ks_p(law, log2_scale, x):
    y = np.sort(x) / 2.0**log2_scale
    cdf = special.ndtr(y) if law == "gaussian" else stats.laplace.cdf(y)
    n = len(y)
    distance = max((np.arange(1, n + 1) / n - cdf).max(), (cdf - np.arange(n) / n).max())
    return stats.kstwobign.sf(distance * np.sqrt(n))


def low_bits_p(pieces):
    return stats.chisquare(sum(np.bincount(x & 255, minlength=256) for x in pieces)).pvalue


def sign_p(law, pieces):
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
    return 2 * min(share, two_sided((sums[0] / negative - sums[1] / positive) / spread))


def correlation_p(x):
    """Neighbors, and the same place of neighboring blocks; signs and magnitudes."""
    y = x / np.sqrt(np.mean(np.square(x, dtype=np.float64)))
    magnitude = np.abs(y) - np.abs(y).mean()
    magnitude /= np.sqrt(np.mean(magnitude**2))
    z = [
        np.dot(v[:-lag], v[lag:]) / np.sqrt(len(v) - lag)
        for v in (y, magnitude)
        for lag in (1, noise.DRAW_BLOCK)
    ]
    return min(1.0, 4 * two_sided(np.abs(z).max()))


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
    return len(cuts) * min(
        stats.binomtest(int(k), n, p).pvalue for k, p in zip(beyond, probability, strict=True)
    )


def cells_p(law, log2_scale, pieces):
    """Of the whole histogram, and of its mean magnitude."""
    counts = histogram(law, log2_scale, pieces)
    return min(chi_squared_p(law, log2_scale, counts), mean_magnitude_p(law, log2_scale, counts))


SMALL = 1_000_000
FAR = {"gaussian": (4, 5, 6), "laplace": (4, 8, 14)}
# A check, its scales, and how many draws it takes in `make audit`.
CHECKS = {
    "variance": (variance_p, (8, 12, 20, 32, 40), 20_000_000),
    "cells and mean magnitude": (cells_p, (8, 12), 80_000_000),
    "Kolmogorov-Smirnov": (
        lambda law, scale, pieces: ks_p(law, scale, np.concatenate(list(pieces))), (40,), 10_000_000,
    ),
    "low bits": (lambda law, scale, pieces: low_bits_p(pieces), (16, 20, 32, 40), 10_000_000),
    "signs": (lambda law, scale, pieces: sign_p(law, pieces), (8, 40), 40_000_000),
    "correlation": (lambda law, scale, pieces: correlation_p(np.concatenate(list(pieces))), (20,), 20_000_000),
    "tails": (tails_p, (16,), SMALL),
    "far tails": (lambda law, scale, pieces: tails_p(law, scale, pieces, FAR[law]), (16,), 1_000_000_000),
}  # fmt: skip


@pytest.mark.parametrize(
    ("check", "law", "log2_scale", "n"),
    [
        pytest.param(check, law, log2_scale, n, marks=pytest.mark.statistical if n > SMALL else ())
        for check, (_, scales, large) in CHECKS.items()
        for law in DRAW
        for log2_scale in scales
        for n in {SMALL, large} - ({SMALL} if check == "far tails" else set())
    ],
)
def test_noise_has_its_law(check, law, log2_scale, n):
    assert CHECKS[check][0](law, log2_scale, chunks(law, log2_scale, n)) > ALPHA


@pytest.mark.parametrize("law", DRAW)
def test_forced_slow_path_has_the_law(law):
    draws = np.empty(1_000_000, dtype=np.int64)
    key = inp(np.frombuffer(key_of("slow", law), dtype=np.uint8))
    check(lib.fpp_test_noise_i64(key, 0, len(draws), list(DRAW).index(law), 8, -4, out(draws)))
    assert chi_squared_p(law, 8, histogram(law, 8, [draws])) > ALPHA
    assert variance_p(law, 8, [draws]) > ALPHA


def test_uniform_below_and_permutations_have_their_laws():
    n = 1_000_000
    u = noise.uniform(key_of("uniform"), n)
    assert stats.kstwobign.sf(np.abs(np.sort(u) - np.arange(n) / n).max() * np.sqrt(n)) > ALPHA
    assert stats.chisquare(np.bincount((u * 2.0**53).astype(np.int64) & 255)).pvalue > ALPHA
    assert (
        stats.chisquare(np.bincount(noise.below(key_of("below"), n, 1000), minlength=1000)).pvalue
        > ALPHA
    )
    assert (
        stats.chisquare(
            np.bincount(noise.below(key_of("big"), n, 3 * 2**61) >> 61, minlength=3)
        ).pvalue
        > ALPHA
    )
    # Permutations of four are equally likely.
    orders = [tuple(noise.permutation(key_of("permutation", i), 4)) for i in range(24_000)]
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > ALPHA


def normals(seed, size=SMALL, **options):
    return np.random.default_rng(seed).standard_normal(size, **options)


def floored(log2_scale, size=SMALL):
    return np.floor(normals(0, size) * 2.0**log2_scale).astype(np.int64)


X = floored(20)
BLOCKS = X[: 1024 * 900].reshape(-1, 1024)
WRONG = {
    "a scale 2 % too large": lambda: variance_p(
        "gaussian", 20, [np.floor(normals(1) * 1.02 * 2.0**20)]
    ),
    "a Laplace scale 2 % too large": lambda: variance_p(
        "laplace", 20, [np.random.default_rng(2).laplace(size=SMALL) * 1.02 * 2.0**20]
    ),
    "truncation in place of a floor": lambda: cells_p(
        "gaussian", 8, [np.trunc(normals(3) * 256).astype(np.int64)]
    ),
    "negation in place of the complement": lambda: cells_p(
        "gaussian", 8, [np.where(X < 0, -(~(X >> 12)), X >> 12)]
    ),
    "single precision": lambda: low_bits_p(
        [np.floor(normals(6, dtype=np.float32) * 2.0**32).astype(np.int64)]
    ),
    "a coarser grid than its integers": lambda: low_bits_p(
        [(np.round(normals(7) * 2.0**30) / 2.0**30 * 2.0**40).astype(np.int64)]
    ),
    "a shift of the law": lambda: ks_p("gaussian", 20, X + (1 << 20) // 100),
    "a shift of the signs": lambda: sign_p("gaussian", [X + (1 << 20) // 100]),
    "a skew": lambda: sign_p("gaussian", [np.where(X < 0, (X * 1.02).astype(np.int64), X)]),
    "blocks used again": lambda: correlation_p(
        BLOCKS[np.arange(900) - (np.arange(900) % 10 == 1)].reshape(-1)
    ),
    "draws used again": lambda: correlation_p(np.repeat(X[::50], 50)),
    "tails that are cut": lambda: tails_p("gaussian", 16, [np.clip(X >> 4, -(3 << 16), 3 << 16)]),
    "tails that are heavy": lambda: tails_p("gaussian", 16, [((X >> 4) * 1.2).astype(np.int64)]),
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_noise_is_caught(fault):
    assert WRONG[fault]() < ALPHA


def test_the_checks_pass_what_is_right():
    assert variance_p("gaussian", 20, [X]) > ALPHA
    assert correlation_p(X) > ALPHA
    assert cells_p("gaussian", 8, [X >> 12]) > ALPHA


@pytest.mark.statistical
def test_variance_check_catches_a_slightly_wrong_scale():
    size = 20_000_000
    factor = 1.003 * 2.0**20
    assert variance_p("gaussian", 20, [np.floor(normals(1, size) * factor)]) < ALPHA
    assert variance_p("laplace", 20, [np.random.default_rng(2).laplace(size=size) * factor]) < ALPHA


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
    rng = np.random.default_rng(5)
    right = pmf("gaussian", 8)[1]
    assert mean_magnitude_p("gaussian", 8, rng.multinomial(80_000_000, wrong / wrong.sum())) < ALPHA
    assert mean_magnitude_p("gaussian", 8, rng.multinomial(80_000_000, right / right.sum())) > ALPHA


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
    row = np.zeros(dim)
    row[0] = 1.0
    out = np.empty((n, dim), np.int32)
    report_integers(
        np.tile(row, (n, 1)), law, b"statistical test of the reports!", out, first=first
    )
    wide = out.astype(np.float64) * 2.0**-24
    return (wide[:, 0] if gaussian else wide[:, 0] / np.linalg.norm(wide, axis=1)), wide


def mass_below(dim, t):
    """P(cosine <= t) of a uniform unit vector."""
    a = 0.5 * (dim - 1)
    return special.betainc(a, a, 0.5 * (1.0 + np.clip(t, -1.0, 1.0)))


@pytest.mark.statistical
@pytest.mark.parametrize(("dim", "threshold"), CAPS)
def test_angles_inside_and_outside_of_the_cap(dim, threshold):
    edge = mass_below(dim, threshold)
    found, _ = angles(dim, threshold, 2.0**-900)
    assert found.min() > threshold - 1e-5
    assert (
        stats.kstest(
            found, lambda t: np.clip((mass_below(dim, t) - edge) / (1.0 - edge), 0.0, 1.0)
        ).pvalue
        > LEVEL
    )
    found, _ = angles(dim, threshold, 1.0 - 2.0**-53, first=100_000)
    assert found.max() < threshold + 1e-5
    assert (
        stats.kstest(found, lambda t: np.clip(mass_below(dim, t) / edge, 0.0, 1.0)).pvalue > LEVEL
    )


@pytest.mark.statistical
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 2.5, 6.0])
def test_tails_of_the_normal_law(threshold):
    inside, _ = angles(4, threshold, 2.0**-900, gaussian=True)
    top = stats.norm.sf(threshold)
    assert (
        stats.kstest(inside, lambda a: np.clip(1.0 - stats.norm.sf(a) / top, 0.0, 1.0)).pvalue
        > LEVEL
    )
    outside, wide = angles(4, threshold, 1.0 - 2.0**-53, gaussian=True)
    assert (
        stats.kstest(outside, lambda a: np.clip(stats.norm.cdf(a) / (1.0 - top), 0.0, 1.0)).pvalue
        > LEVEL
    )
    assert stats.kstest(wide[:, 1], "norm").pvalue > LEVEL


@pytest.mark.statistical
@pytest.mark.parametrize(("dim", "threshold"), [(2, 0.5), (3, 0.2), (10, 0.3), (200, 0.1)])
def test_lengths_and_directions_across_the_row(dim, threshold):
    found, wide = angles(dim, threshold, 0.3, first=200_000)
    lengths = np.linalg.norm(wide, axis=1)
    assert stats.kstest(lengths**2, stats.chi2(dim).cdf).pvalue > LEVEL
    across = wide[:, 1:] / np.linalg.norm(wide[:, 1:], axis=1, keepdims=True)
    if dim == 2:
        assert stats.binomtest(int(np.count_nonzero(across[:, 0] > 0)), N).pvalue > LEVEL
    else:
        cosines = across[:, 0]
        assert (
            stats.kstest(cosines, lambda t: mass_below(dim - 1, t)).pvalue > LEVEL
            if dim > 3
            else True
        )
        circle = np.arctan2(across[:, -1], across[:, 0])
        if dim == 3:
            assert stats.kstest(circle, stats.uniform(-math.pi, 2.0 * math.pi).cdf).pvalue > LEVEL
    # The side of the cap, the length and the direction are independent.
    inside = found >= threshold
    assert stats.ks_2samp(lengths[inside], lengths[~inside]).pvalue > LEVEL
    assert abs(np.corrcoef(found, lengths)[0, 1]) < 5.0 / math.sqrt(N)


@pytest.mark.statistical
def test_a_planted_fault_is_seen():
    """A cap that is a hundredth of its threshold lower."""
    found, _ = angles(10, 0.594, 2.0**-900)
    edge = mass_below(10, 0.6)
    assert (
        stats.kstest(
            found, lambda t: np.clip((mass_below(10, t) - edge) / (1.0 - edge), 0.0, 1.0)
        ).pvalue
        < LEVEL
    )


@pytest.mark.statistical
def test_a_million_columns():
    """1000 reports on each side, 15 s of draws each; beyond 64 columns their number enters an angle by two constants alone."""
    inside = np.concatenate(
        [angles(10**6, 0.003, 2.0**-900, first=i, n=40)[0] for i in range(0, 1000, 40)]
    )
    top = stats.norm.sf(0.003 * 1000.0)
    assert (
        stats.kstest(
            1000.0 * inside, lambda a: np.clip(1.0 - stats.norm.sf(a) / top, 0.0, 1.0)
        ).pvalue
        > LEVEL
    )
    outside = np.concatenate(
        [angles(10**6, 0.003, 1.0 - 2.0**-53, first=i, n=40)[0] for i in range(1000, 2000, 40)]
    )
    assert (
        stats.kstest(
            1000.0 * outside, lambda a: np.clip(stats.norm.cdf(a) / (1.0 - top), 0.0, 1.0)
        ).pvalue
        > LEVEL
    )
