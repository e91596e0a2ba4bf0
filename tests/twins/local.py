"""Local reports one at a time in plain NumPy, with the same random words as csrc/reports.c and csrc/seeds.c."""

import math

import numpy as np

from twins.chacha import DRAW_BLOCK, nonce_of, words
from twins.sampler import report_gaussians

SMALL_DIM, SHARED_DIM, COIN_BATCH = 64, 511, 16
ATTEMPT_SHIFT = 44
MOST_REFILLS = 1 << 20


def normal_block(key, kind, block, n):
    """Return n normals of a block: midpoints of steps of 2^-40, whose floors are exact."""
    return (np.array(report_gaussians(key, kind, block, n), dtype=np.float64) + 0.5) * 2.0**-40


class Coins:
    """Random words of one report. The first eight are of kind `first`, from blocks shared by 16 reports; the others from `kind`."""

    def __init__(self, key, kind, report, *, first=None):
        self._key, self._nonce, self._counter = key, nonce_of(kind, report), 0
        self._held: list[int] = []
        if first is not None:
            self._held = words(key, nonce_of(first, report // COIN_BATCH), report % COIN_BATCH, 8)

    def word(self):
        """Return the next word."""
        if not self._held:
            self._held = words(self._key, self._nonce, self._counter, 8)
            self._counter += 1
        return self._held.pop(0)

    def uniform(self):
        """Return a uniform variable on (0, 1) with relative precision 2^-53 at any size."""
        unit = 1.0
        high = self.word()
        for _ in range(15):
            if high:
                break
            unit *= 2.0**-64
            high = self.word()
        shift = 64 - max(high, 1).bit_length()
        bits = high << shift | (self.word() >> (64 - shift) if shift > 12 else 0)
        return (float(bits >> 12) + 0.5) * 2.0 ** (-52 - shift) * unit


def report_coins(key, report):
    """Return the random words of a report."""
    return Coins(key, "rmor", report, first="rcon")


class Spares:
    """Normals for the angle of a report: first the remaining ones of its block, then further blocks."""

    def __init__(self, key, report, dim, first):
        self._key, self._report, self._size = key, report, SMALL_DIM if dim < SMALL_DIM else 8
        self._refills, self._held = 0, first

    def next(self):
        """Return the next normal."""
        if not len(self._held):
            self._held = normal_block(
                self._key, "rsca", self._report * MOST_REFILLS + self._refills, self._size
            )
            self._refills += 1
        first, self._held = float(self._held[0]), self._held[1:]
        return first


def direction(row, law, coins):
    """Return the unit vector that a row's report encodes."""
    coin = coins.uniform() if law.ball else 0.0
    largest = float(np.max(np.abs(row))) if np.isfinite(row).all() else 0.0
    unit = np.zeros(law.dim)
    length = 0.0
    unit[0] = 1.0
    if largest > 0.0:
        with np.errstate(over="ignore"):  # NumPy 1.26 warns for subnormal numbers
            scaled = row / largest
        norm = math.sqrt(math.fsum(scaled * scaled))
        unit = scaled / norm
        length = min(1.0, norm * (largest / law.radius))
    return -unit if law.ball and coin >= 0.5 * (1.0 + length) else unit


def sphere_angle(law, hit, coins, spares):
    """Return cosine and sine of the angle to v, inside the cap (`hit`) or outside."""
    gamma = law.threshold
    dim = law.dim

    def outside(t):
        return t < gamma if hit else t >= gamma

    if hit and gamma * gamma * dim >= 1.0:
        while True:
            exponent = math.log1p(-gamma * gamma) + math.log(coins.uniform()) * (2.0 / (dim - 1.0))
            t = math.sqrt(-math.expm1(exponent))
            if coins.uniform() * t < gamma:
                return t, math.sqrt(math.exp(exponent))
    while dim < SMALL_DIM:
        g = [spares.next() for _ in range(dim)]
        rest = sum(value * value for value in g[1:])
        square = g[0] * g[0] + rest
        t = (abs(g[0]) if hit else g[0]) / math.sqrt(square)
        if square >= dim * 2.0**-6 and not outside(t):
            return t, math.sqrt(rest / square)
    while True:
        g0 = spares.next() / math.sqrt(dim - 3.0)
        t = abs(g0) if hit else g0
        square = t * t
        if outside(t) or square > 1.0 - 2.0**-6:
            continue
        if math.log(coins.uniform()) < 0.5 * (dim - 3.0) * (math.log1p(-square) + square):
            return t, math.sqrt(1.0 - square)


def gaussian_part(law, hit, coins, spares):
    """Return a standard normal above the threshold (`hit`) or below it."""
    c = law.threshold
    if hit and c > 0.5:
        rate = 0.5 * (c + math.sqrt(c * c + 4.0))
        while True:
            a = c - math.log(coins.uniform()) / rate
            if math.log(coins.uniform()) < -0.5 * (a - rate) ** 2:
                return a
    while True:
        a = spares.next()
        if not (a < c if hit else a >= c):
            return a


def _normals(law, key, report, attempt):
    """Return the normals of a report: dim for its direction, then those for its angle."""
    dim = law.dim
    wanted = dim + (dim if not law.gaussian and dim < SMALL_DIM else 1)
    if dim <= SHARED_DIM and attempt == 0:
        together = DRAW_BLOCK // wanted
        at = report % together * wanted
        return normal_block(key, "repo", report // together, together * wanted)[at : at + wanted]
    blocks = -(-wanted // DRAW_BLOCK)
    sizes = [min(DRAW_BLOCK, wanted - b * DRAW_BLOCK) for b in range(blocks)]
    first = (attempt << ATTEMPT_SHIFT) + report * blocks
    return np.concatenate(
        [normal_block(key, "repo", first + b, size) for b, size in enumerate(sizes)]
    )


def _report(row, law, key, report):
    """Return the vector X of one report, in grid steps, before rounding."""
    dim = law.dim
    grid = math.ldexp(1.0, law.log2_grid)
    coins = report_coins(key, report)
    v = direction(row, law, coins)
    hit = not coins.uniform() < law.miss
    if dim == 1 and not law.gaussian:
        return np.sign(v if hit else -v) * grid
    drawn = _normals(law, key, report, 0)
    spares = Spares(key, report, dim, drawn[dim:])
    t, s = (
        (gaussian_part(law, hit, coins, spares), 1.0)
        if law.gaussian
        else sphere_angle(law, hit, coins, spares)
    )
    least = 2.0**-6 if dim < 16 else 2.0**-2
    attempt = 0
    while True:
        g = drawn[:dim]
        across = g - math.fsum(g * v) * v
        whole = math.fsum(g * g)
        rest = math.fsum(across * across)
        if law.gaussian or rest >= least * whole:
            break
        attempt += 1
        drawn = _normals(law, key, report, attempt)
    if law.gaussian:
        return (across + t * v) * grid
    length = math.sqrt(whole)
    return (length * s / math.sqrt(rest) * across + length * t * v) * grid


def report_integers(rows, law, key, out, *, first=0):
    for i, row in enumerate(rows):
        out[i] = np.rint(_report(row, law, key, first + i))


def seed_normals(seed, dim):
    """Return the normals of a seed."""
    starts = range(0, dim, DRAW_BLOCK)
    return np.concatenate(
        [normal_block(seed, "seed", at // DRAW_BLOCK, min(DRAW_BLOCK, dim - at)) for at in starts]
    )


def report_seeds(rows, law, key, out, *, first=0, most_trials=1 << 24):
    for i, row in enumerate(rows):
        coins = report_coins(key, first + i)
        seeds = Coins(key, "rsee", first + i)
        v = direction(row, law, coins)
        for _ in range(most_trials):
            seed = b"".join(seeds.word().to_bytes(8, "little") for _ in range(4))
            g = seed_normals(seed, law.dim)
            edge = law.threshold * (1.0 if law.gaussian else math.sqrt(math.fsum(g * g)))
            coin = coins.uniform()
            if math.fsum(g * v) >= edge or coin < law.tail:
                out[i] = np.frombuffer(seed, dtype=np.uint8)
                break


def seed_integers(seeds, law, out):
    for i, seed in enumerate(seeds):
        out[i] = np.rint(seed_normals(seed.tobytes(), law.dim) * math.ldexp(1.0, law.log2_grid))


def book_word(book, word, dim):
    """Return the normals of a codeword of a codebook; codewords of few columns share a block."""
    key = book.to_bytes(8, "little") + bytes(24)
    if dim <= DRAW_BLOCK:
        together = DRAW_BLOCK // dim
        at = word % together * dim
        return normal_block(key, "seed", word // together, at + dim)[at:]
    blocks = -(-dim // DRAW_BLOCK)
    sizes = [min(DRAW_BLOCK, dim - b * DRAW_BLOCK) for b in range(blocks)]
    return np.concatenate(
        [normal_block(key, "seed", word * blocks + b, size) for b, size in enumerate(sizes)]
    )


def _below(coins, bound):
    while True:
        product = coins.word() * bound
        if product % 2**64 >= 2**64 % bound:
            return product >> 64


def report_codes(rows, law, key, out, *, first=0):
    for i, row in enumerate(rows):
        coins = report_coins(key, first + i)
        v = direction(row, law.vectors, coins)
        book = coins.word() >> 2
        hit = coins.word() >> 2 >= law.miss
        place = _below(coins, law.chosen if hit else law.words - law.chosen)
        words = [book_word(book, w, law.vectors.dim) for w in range(law.words)]
        cosines = [math.fsum(g * v) / math.sqrt(math.fsum(g * g)) for g in words]
        near = set(sorted(range(law.words), key=lambda w: (-cosines[w], w))[: law.chosen])
        word = [w for w in range(law.words) if (w in near) == hit][place]
        out[i] = np.frombuffer(
            book.to_bytes(8, "little") + word.to_bytes(2, "little"), dtype=np.uint8
        )


def code_integers(codes, law, out):
    for i, code in enumerate(codes):
        book = int.from_bytes(code[:8].tobytes(), "little")
        word = int.from_bytes(code[8:].tobytes(), "little")
        out[i] = np.rint(book_word(book, word, law.dim) * math.ldexp(1.0, law.log2_grid))
