"""The goals of speed: what `python -m benchmarks.table` holds each row against, and says whether it was met.

A goal is a ratio within the run: to the limit of the machine, at most; to a peer, at least. Small calls and first calls have
seconds, as they depend little on the width of vectors. A goal that is not met stands in the table with its number, never left out.
"""

from __future__ import annotations

from collections.abc import Sequence

AVX512 = 2  # of the numbers that the C library gives to sets of instructions

LIMITS = {
    "clipped exact sum, 1e+06 x 50": 1.2,
    "clipped exact sum, 1e+05 x 500": 1.2,
    "clipped exact sum with a centre, 1e+06 x 50": 1.4,
    "clipped exact sum with a centre, 1e+05 x 500": 1.4,
    "clipped exact sum, 5e+06 x 4": 1.3,
    "clipped exact sum, 1e+06 x 50 float32": 2.0,
    "clipped exact Gram, 1e+06 x 100": 1.5,
    "clipped exact Gram, 1e+05 x 1000": 1.25,
    "rows in one ball, 1e+07 x 4": 1.3,
    "rows in one ball, 1e+06 x 16": 1.3,
    "occupied bins, bounded, 1e+07": 2.5,
    "occupied bins, heavy-tailed, 1e+07": 2.5,
    "occupied bins, dyadic, 1e+07": 1.3,
    "pairs of 2000 hypotheses, 2e+03 rows": 2.0,
    "clipped gradients, 1e+06 x 100": 1.15,
    "clipped gradients, 1e+06 x 100 float32": 1.5,
    "a mini-batch of 500 of 27000 x 2000 float32": 1.7,
    "a Newton pass, 1e+06 x 100": 1.5,
    # 100 columns cannot have it. A report takes 448 ns of CPU (AVX-512), as many normals and reading the row 318, so that 1.15
    # leaves 48. Products with the row and rounding take 32 and 17, as at 1,000 columns for so many; what each report has by
    # itself, whatever its length: 14 for its block of secure coins, 30 for log and expm1 of the C library, whose bits are the
    # report's, 3 for the normal of the angle, and 34 for roots, quotients and the choices between them (shares of a profile).
    # Were these last free, it would be 1.3. Not tried: products of several rows of a block of normals side by side, and angles
    # of all of them before the first is rounded.
    # Of secure normals, as the limit is. PERFORMANCE allows 1.15 times insecure ones, and half as much again for secure ones; as
    # words of the secure stream are .58 to .6 of a secure normal, that is no more than this.
    "PrivUnit reports, 10000 x 100": 1.15,
    "PrivUnit reports, 1000 x 1000": 1.15,
    "PrivUnit reports, 200 x 10000": 1.15,
    "weighted_mean, 1e+06 x 50, whole call": 1.35,
    "estimate_mean, clipping='gaussian', 1e+06 x 50, whole call": 1.35,
    "estimate_mean, 1e+06 x 50, whole call": 1.35,
}
# Bins of heavy tails: 9.8 ms of a busy full-width machine with either set of instructions (before, 11.5 and 12.7), where reading
# takes 5 and the bounded column 6.2 to 7.2 (7.5 and 8.5). Of the rest, 1 to 1.5 ms are numbers outside of the window (one in a
# thousand: their blocks are looked through once more, and each takes a place of the hash table), .8 the tables themselves (pages
# touched the first time, 63,000 bins gathered and put in order), and .4 counters that are in no near cache. A window of 64 or 256
# times the middle's range in place of 128 is slower, and so is fetching counters ahead. To try: two windows, one of the middle.
# Four columns of doubles take 7.4 to 7.9 ms (AVX2 7.8 to 8.4) where they took 10.5: rows are fetched 16 KB ahead in place of 2, in
# blocks whose factors do not wait for others, and with AVX-512 without the divider (`csrc/few_simd.h`). Reading takes 5.3 to 5.6
# ms (AVX2 6.2 to 6.7): 1.40 to 1.42 and 1.22 to 1.28 readings. With rows in a near cache 1.25 ns of a row are left, 6.2 ms of 7.4:
# some 56 operations of full width for eight rows, on two ports of 3.6 GHz at least 7.8 ns, so 4.9 ms (factors 22, rows turned 8,
# scaling and norms 12, rounding and adding 12). To try: masks tested by `kortest` in place of being moved (2 %).
# A busy Zen 3 (`docs/evidence/speed_avx2.md`): sums of 17 to 64 columns of doubles and of 128 or more read their rows twice
# (`csrc/again_simd.h`): 27 ns for a row of 50 in place of 36, where reading takes 18 to 20 and arithmetic alone 23; 245 for one of
# 500 in place of 285. Between, the stream takes up to a third more at one place of the library than at another, with the same
# instructions. How far ahead rows are fetched, and loops or functions at 32 or 64 bytes, do not tell the fast places from the slow
# ones; loops that store less are even. To try: counters of loads that wait for stores.
# Where vectors of half the width cannot do as well.
LIMITS_AVX2 = {
    "clipped exact sum with a centre, 1e+06 x 50": 1.7,
    "clipped exact sum with a centre, 1e+05 x 500": 1.7,
    "clipped exact sum, 5e+06 x 4": 2.1,
}
_LOOPS = {"Numba loop": 1.1, "NumPy in row blocks": 1.1}
PEERS = {
    "exact Gaussian noise, 1e+06 draws": {"numpy (insecure)": 2.0, "OpenDP integer": 1000.0},
    "exact Laplace noise, 1e+06 draws": {"numpy (insecure)": 2.0, "OpenDP integer": 1000.0},
    **{name: _LOOPS for name in LIMITS if name.startswith("clipped exact sum")},
    # With the peer held to AVX2 where ours is: 5.6 and 4.3 for 3e5 x 100, 3.6 and 2.7 for 2e4 x 1000 (CPU; beside a peer with
    # AVX-512, AVX2 had 3.7 and 1.9). At 100 columns ours takes 1.06 times the double-precision multiply-adds with AVX2, so that
    # 5 would be .91 of them, rows read and clipped.
    "clipped exact Gram, 1e+06 x 100": {"NumPy clip and dsyrk": 5.0},
    "clipped exact Gram, 1e+05 x 1000": {"NumPy clip and dsyrk": 2.5},
    "Gaussian, 1e+06 x 100, 4 rounds": {"NumPy clip and dsyrk, as many passes": 2.0},
    # Twice the peer cannot be had at 1,000 columns. A pass of the peer, 2.1 s, is one product of n d^2 / 2 multiply-adds and its
    # clip; ours is the map, triangular as well, so as many, which takes .84 s at the peak (1.7 until products were fused), and in
    # four of five passes the Gram matrix in integers, .46 s. CPU of a row: ours 80 microseconds (AVX2 140), the peer 73 (held to
    # AVX2 as well 127). What does not grow with rows takes 1.6 s of CPU, 1.0 of it five eigendecompositions of .2 (1.14 with a
    # busy neighbour). A Cholesky factor (.009 s in place of .2 for eigenvectors and .03 for QR) would serve in the three early
    # rounds and for the final root where no eigenvalue is below its floor: about .9 of 10.9 s, so 1.1 times the peer in place of
    # 1.0. Not done, as the factor differs by up to 2e-14, and rows on the edge of an integer would fall otherwise: released
    # values with a seed would change. With AVX2 even no eigendecomposition gives 1.0: a row alone costs ours more than the
    # peer, .9 times as fast. Tried and no faster: deeper blocks, and the next panel fetched during the product with this one.
    "Gaussian, 1e+05 x 1000, 4 rounds": {"NumPy clip and dsyrk, as many passes": 1.0},
    # The loop in Numba leaves a row at its first near neighbour: 2.3 to 5 times ours at these sizes. Below 100 rows of few columns
    # it takes a microsecond for all, as much as a call from Python with its checks (`kernels/nearest.py` has the numbers).
    # One thread of scikit-learn takes 10 ms and .75 s on a quiet full-width machine, 22 ms and 2.1 s of CPU on a busy one, 18 ms
    # and 1.7 s where the goals were set. Of the second, ours takes 10 ms (26 of a busy machine before `kernels/_cover.py`): four
    # passes over the rows against 16 at once and the rows beyond the bar, all in double precision, which is what is left to try.
    # Of the first .9 ms (2.0 before panels of the early race were in single precision); a Numba loop with early exits takes 1.6.
    "most isolated row, 200 x 100, few rows": {"Numba loop with early exits": 1.0},
    "most isolated row, 2000 x 100, heavy tails": {"Numba loop with early exits": 1.0},
    "most isolated row, 2000 x 100": {"scikit-learn NearestNeighbors": 15.0, "NumPy float32 products (may err)": 1.0},
    "most isolated row, 20000 x 100": {"scikit-learn NearestNeighbors": 150.0, "NumPy float32 products (may err)": 1.0},
    "most isolated row, 100000 x 50": {"NumPy float32 products (may err)": 120.0},
    "terrific balls, 20000 x 4, 12 radii x 2": {"sorted cdist": 40.0},
    "terrific balls, 20000 x 16, 12 radii x 2": {"sorted cdist": 40.0},
    # With 16 columns, .184 s of CPU with AVX-512 and .246 with AVX2 on a busy full-width machine: .05 are the ordering, the rest
    # 3.1 million pairs of a panel of 64 rows and a centre, 41 and 60 ns each: boxes leave 2.57 radii open for a
    # pair, where .76 part its rows. Spheres around panels beside boxes leave 2.23. Tried: |x|^2 + |c|^2 - 2 x c in single
    # precision, two centres to a panel, the least distance to a bound by one instruction (`vrangeps`), and close rows
    # corrected by themselves, as that bound of error is seven times as large: .91 of the whole with AVX-512, .83 with AVX2,
    # and no gain at 4 columns. The products are then 40 % of the count, comparisons 27, boxes and centres 9. At 4 columns
    # two fifths of .061 s are the ordering (.073 before rows of four to seven columns were turned by AVX-512, and cells of a
    # tree looked up without a gather). Not tried: products of 16-bit integers (half as many), counting by exponents (a
    # histogram of lanes takes more than 2.57 comparisons of vectors).
    "rows in 200 x 24 balls, 1e+06 x 4": {"sorted cdist": 15.0},
    "rows in 200 x 24 balls, 1e+06 x 16": {"sorted cdist": 15.0},
    "occupied bins, bounded, 1e+07": {"NumPy unique": 8.0, "polars, one thread": 8.0},
    "occupied bins, heavy-tailed, 1e+07": {"NumPy unique": 8.0, "polars, one thread": 8.0},
    "occupied bins, dyadic, 1e+07": {"NumPy frexp and bincount": 8.0, "polars, one thread": 8.0},
    "occupied bins, 30 widths, 1e+07": {"NumPy unique": 8.0, "polars, one thread": 8.0},
    "stable_histogram, 1e+07, whole call": {"NumPy unique": 5.0, "polars, one thread": 6.0},
    # Of doubles the Numba loop takes 1.02 readings of the rows itself, and NumPy 3.3 (ours 1.13, and 1.16 before the line of a
    # row's last columns was fetched too): 1.1 times as fast as the one would be faster than reading, 3 times as fast as the other
    # 1.09 readings. Of floats NumPy takes 2.96
    # readings, so that 3 times as fast is the bare reading; ours take 1.43 with AVX-512 and 1.54 with AVX2 (1.3 and 1.2 times
    # the Numba loop, which adds up in floating point). A mini-batch took 1.7 and 1.8 readings of its rows where it took 2.0 and
    # 2.1 before its rows were fetched two groups ahead and taken several at a time; 1.2 and 1.3 with rows in the third cache.
    # Rows at random places are read as fast as the table if they are fetched (.21 to .24 ms, and .29 without), so the limit is
    # fair. What is left with AVX2 is arithmetic, eight instructions for four numbers, as sums are not fused; norms that are
    # kept between batches would save one. A Newton pass with AVX2 takes as long as the Numba loop (13.5 and 13.2 ms for 3e5
    # rows), whose sums are fused and not exact; two rows side by side were no faster there, four 18 % slower.
    "clipped gradients, 1e+06 x 100": {"NumPy in row blocks": 3.0, "Numba loop": 1.1},
    "clipped gradients, 1e+06 x 100 float32": {"NumPy in row blocks": 3.0, "Numba loop": 1.1},
    "a mini-batch of 500 of 27000 x 2000 float32": {"NumPy": 1.3},
    "a Newton pass, 1e+06 x 100": {"NumPy in row blocks": 3.0, "Numba loop": 1.1},
    # Sixteen beside NumPy: 2.0, and 1.6 where both are held to AVX2 (1.4 beside a NumPy with AVX-512); `SECONDS` says why.
    # 5.3 to 5.5 and 4.4 to 4.6 on a busy full-width machine, where the whitened Gram kernel takes 36 and 125 ns a row: vectors that
    # stop at the diagonal, with the one that is not full where columns are few, 16 rows to a tile, and the next tile's rows fetched
    # during the product (before: 50 and 208 ns, 4.4 and 3.4). With 24 columns or more the product is fused where a bound says that
    # the integers are the same: .92 of the time for 50 columns, .97 with AVX2, whose unfused sums run beside its products. With 20
    # columns the bound costs what it saves; there 41 ns a row with AVX2, of which 6 are the Gram matrix.
    # With 50 columns held to AVX2, 3.9 beside a script that is held as well (3.7 beside one with AVX-512): on the edge of the goal.
    "coinpress_covariance, 3e+05 x 20, 4 rounds, whole call": {"the published script": 4.0},
    "coinpress_covariance, 2e+05 x 50, 4 rounds, whole call": {"the published script": 4.0},
    "coinpress_mean, 1e+05 x 50, 4 rounds, whole call": {"the published script": 14.0},
    "stable_histogram, 30 widths, 1e+07, whole call": {"one width": 1.0 / 1.5},
    "threads by default, 10000 x 5": {"one thread": 0.95},
    "two threads, 10000 x 5": {"one thread": 0.95},
}
# Small calls in loops with the same settings, before and now (CPU of a busy full-width machine): medians of "gaussian" .30 and
# .15 ms, of `weighted_mean` .25 and .14; the least of 400 calls .275 and .138, .236 and .130. What depends on public settings alone
# is worked out once (`estimators/paths.py`). Since sums of 5 to 16 columns hold a row in a lane, they take .120 and .113 on a
# machine that is not busy. On a busy one, .132 and .120 became .125 to .13 and .109 to .113 with less to do (units of one are no
# division, the grid is worked out once, no generator). What is left of "gaussian", in microseconds: two releases of 11 and two
# passes of 14 to 15 (about 6 of them C), two row maps of 7, both tables 9, the result 12, the account 7, the public ball 6. In a
# loop by itself a part takes half to two thirds of that: probably the call's code does not stay in the first cache, and fewer
# distinct functions count. Not tried: one call of C that adds noise and converts; row maps that differ from a checked one in their
# centre only.
# The default takes 1.9 ms (2.8 two changes before, 2.4 before its counts were pooled, searched for windows and continued as tails
# in C): .9 is what it makes of the counts, mostly some forty short calls of Python for each column, and the rest three releases
# (.4), the sentences about five columns (.2), the ball, and the result. A call with three releases, each with noise, an account
# and a pass, cannot take .13, which is what "gaussian" takes with two and no column to say anything about; one call of C for all
# of `look` would leave about 1.1.
# `estimate_mean` of 1e6 x 50 with default clipping: .24 s where it took .81, and reading the rows takes .024. It reads them four
# times: cells, cells about the same centres once more (the sum has budget to spare), shells, sum. Released numbers decide on the
# second count: with fresh noise 1 of 20 calls did without it, .19 s with AVX2 in place of .28. A table takes the least of some
# calls, so that .205 s (AVX-512) beside .327 (AVX2, one run) were probably three readings beside four, and both were held against
# three. Now the case has a seed and its passes are the releases of its call: .249 and .280 s, 2.7 and 2.85 times four readings,
# interleaved, quiet. Parts of a call, in ms: with AVX-512 both counts 82, shells 37, sum 39, all else 85; with AVX2, of the one
# that counted once, 43, 44, 58 and 45, so that a look costs about 40 and kernels explain AVX2. Four readings are 95 ms, 1.35 times
# that 128: with all kernels at the limit, 33 would be left for all else. The second count reads rows whose exact counts were
# known: keeping them is refused (`mechanisms/notes/real_columns.md`), private numbers outside of a release.
# The box goes into a block of 24 KB that is added up, or counted, while it is near, without a division with AVX-512, and shells
# are found without branches (with AVX2 a quotient of five fused operations takes as long as a division). Kernels are bound by
# arithmetic: about 3.3 ns for eight numbers of the box and 2.8 for their sum, where reading takes 3.8. Windows, tails and clip
# points are in C: a look at 50 columns takes 17 ms (33 before), and counters that lie a page and a part apart let both counts
# take 72 ms in place of 82: .205 s in place of .245, 2.4 readings. Left are, in ms: counts 36 each, shells 36, sum 42, which is
# 1.8 readings without anything else, looks 33, noise 6, integers to numbers and back 7. So 1.35 (112 ms) needs kernels at about
# 26 each. From the first cache, counts take 25 (one addition to a counter each cycle and a half: the floor is one store each),
# the box and its norm 16 of arithmetic for two ports, the box and its sum 23. Not tried: looks with one call of C for each
# column, the box in single precision with a bound.
# AVX2 beside AVX-512, interleaved, quiet: the clipped sum of 1e6 x 50 takes as long with both (23.4 and 23.6 ms), and reading
# 21.4 and 19.9: 1.06 and 1.19 times the limit are one loop and two limits. Dyadic bins 2.93 and 3.02 ms (1.11 and 1.15), heavy
# tails 7.2 and 6.8 (2.65 and 2.60 there, 2.38 and 2.16 in a table of the same hour): no wider set is slower by more than 4 %.
# `weighted_mean` and clipping="gaussian": a chunk of 4 MB began with 20 microseconds of Python that is no longer in any cache,
# 2 ms of 33; chunks of 32 MB leave .9 ms for the call itself: about 1.31 readings where it took 1.5 (AVX-512).
# A tree of 10^6 x 16 rows takes .60 s of CPU on a busy full-width machine (.67 with AVX2; .95 and 1.01 before one call of C
# moved the codes of a block of rows on, put them together by group and added them up in the second cache). .45 is that call:
# reading the rows 18 times is half of it, the rest splits, moments and norms. Of a fit of four components .031 of .207 s of CPU
# are in no pass, and stay with one thread: 1.74 times is the most that two threads can give there.
# Of `linear_regression` with 500,000 x 20, .027 of .300 s of CPU are in no pass, and of `logistic_regression` .050 of .485 (fits of
# public rows, and what 32 steps pool): 1.83 and 1.81 times at most. 1.39 and 1.45 were measured on a quiet machine, which is as
# if turning the rows, .078 s, took two threads as long as one: each of 490 pieces asked for Python's lock sixteen times. Pieces
# are four times as large now, which costs nothing (13.0 ms in place of 13.8 for 100,000 rows, one thread). A pass was 21 chunks,
# of which one thread adds 11; it is 24 now. Where turning the rows with one thread takes 1.9 times as long as with two, the calls
# come to 1.64 to 1.67 if a pass takes 1.74 times as long (6.2 and 3.6 ms, the least on a busy machine), and to 1.78 if it loses
# only .1 ms; no run on a quiet machine has told yet. Turning rows in one call of C would lower both times, and this ratio too.
SECONDS = {
    "estimate_mean, clipping='gaussian', 1000 x 5": 130e-6,
    "estimate_mean, 1000 x 5": 130e-6,
    "weighted_mean, 1000 x 5": 130e-6,
    "learn_separated_mixture, 1e+06 x 16, 8 components, whole call": 0.75,
    "learn_axis_aligned_mixture, 1e+06 x 50, whole call": 3.7,  # a fifth of what it took on a half-width machine
    # .65 ns for each of 10^9 pairs of a draw and a candidate (.9 with AVX2; 2 and 3 before single precision), so .9 and 1.2 s of
    # CPU for the call, shared by all cores but for .2 s, on a busy full-width machine.
    "learn_axis_aligned_mixture, x_pub, pure, 2000 x 3, whole call, all cores": 1.0,
    "noise_multiplier_for, 5000 steps of 1/54": 0.2,
}


def every(goal: float | None, levels: Sequence[int]) -> list[float] | None:
    """The goal of each set of instructions where there is one for all."""
    return None if goal is None else [goal] * len(levels)


def limits_of(name: str, levels: Sequence[int]) -> list[float] | None:
    """Goals beside the limit for each set of instructions."""
    if name not in LIMITS:
        return None
    return [LIMITS_AVX2.get(name, LIMITS[name]) if level < AVX512 else LIMITS[name] for level in levels]


def peers_of(name: str, peer: str, levels: Sequence[int]) -> list[float] | None:
    """Goals beside a peer for each set of instructions."""
    return every(PEERS.get(name, {}).get(peer), levels)


def said(goal: list[float] | None, found: list[float] | None, *, at_most: bool, unit: str = "") -> str:
    """The goals and whether the numbers of the sets of instructions meet them, for a cell; nothing where there is no goal."""
    if goal is None or found is None:
        return ""
    met = [number <= most if at_most else number >= most for number, most in zip(found, goal, strict=True)]
    words = ["met" if each else "NOT MET" for each in met]
    shown = " / ".join(f"{each:g}" for each in (goal if len(set(goal)) > 1 else goal[:1]))
    return f"{'<=' if at_most else '>='} {shown}{unit}: {' / '.join(words if len(set(words)) > 1 else words[:1])}"
