"""Local reports: C against its twin, rows that are odd, batches as bytes."""

import dataclasses
import math

import numpy as np
import pytest
from helpers.errors import raises
from row_cases import same_at_every_level
from twins import local as slow
from twins import wire as slow_wire

from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import noise, report_codes
from fastpubpriv.kernels._cext import lib
from fastpubpriv.rowwise.row_maps import CodeLaw, ReportLaw

KEY = bytes(range(32))


def law(
    dim, threshold=0.3, *, gaussian=False, ball=False, miss=0.3, radius=1.0, tail=0.5, log2_grid=8
):
    return ReportLaw(
        dim=dim,
        gaussian=gaussian,
        log2_grid=log2_grid,
        ball=ball,
        threshold=threshold,
        miss=miss,
        radius=radius,
        tail=tail,
    )


LAWS = [
    law(1, 0.0),
    law(2, 0.9),
    law(2, 0.1, ball=True, radius=3.0),
    law(5, 0.0, ball=True, radius=1.5),
    law(17, 0.05),
    law(63, 0.02, log2_grid=12),
    law(64, 0.02),
    law(100, 0.3),
    law(513, 0.01),
    law(1030, 0.2),
    law(7, 1.5, gaussian=True),
    law(7, 0.2, gaussian=True, ball=True, radius=2.0),
    law(1, 1.5, gaussian=True),
]


def odd_rows(dim, n=9):
    rows = np.random.default_rng(dim).standard_normal((n, dim))
    rows[1] = 0.0
    rows[2, dim - 1] = np.nan
    rows[3, 0] = np.inf
    rows[4] *= 1e300
    rows[5] *= 5e-310
    rows[6] = 0.0
    rows[6, dim // 2] = -1.0
    return rows


def near(fast, exact):
    """Equal but for what rounds the other way: at most one step, in few entries."""
    gap = np.abs(fast.astype(np.int64) - exact)
    return gap.max() <= 1 and np.count_nonzero(gap) <= 1 + gap.size // 10_000


BOOKS = [
    # all cosines are 1 or -1: ties alone
    CodeLaw(words=9, chosen=4, miss=1 << 60, vectors=law(1, 0.0)),
    CodeLaw(words=8, chosen=1, miss=1 << 61, vectors=law(2, 0.0)),
    CodeLaw(words=20, chosen=8, miss=1 << 61, vectors=law(3, 0.0, ball=True, radius=2.0)),
    CodeLaw(words=7, chosen=6, miss=1 << 61, vectors=law(100, 0.0)),
    CodeLaw(words=3, chosen=1, miss=1 << 61, vectors=law(1030, 0.0)),
]
CASES = [
    *(("report_integers", law) for law in LAWS),
    *(("report_codes", book) for book in BOOKS),
    ("report_seeds", law(1, 0.0, tail=0.4)),
    ("report_seeds", law(3, 0.4, tail=0.2)),
    ("report_seeds", law(20, 1.0, gaussian=True, tail=0.3)),
]
each_case = pytest.mark.parametrize(("name", "case"), CASES)
READERS = {"report_codes": "code_integers", "report_seeds": "seed_integers"}


def vectors_of(case):
    return getattr(case, "vectors", case)


BYTES = {"report_codes": 10, "report_seeds": 32}


def drawn(name, rows, case, first=0, module=noise):
    out = np.empty(rows.shape, np.int32)
    if name in BYTES:
        out = np.empty((len(rows), BYTES[name]), np.uint8)
    getattr(module, name)(rows, case, KEY, out, first=first)
    return out


def read(name, found, case, module=report_codes):
    """The vectors that codes or seeds stand for."""
    out = np.empty((len(found), vectors_of(case).dim), np.int32)
    getattr(module, READERS[name])(found, vectors_of(case), out)
    return out


@each_case
def test_reports_agree_with_their_twin(name, case):
    dim = vectors_of(case).dim
    rows = odd_rows(dim)[: 3 if dim > 64 else 9]
    fast = drawn(name, rows, case, 13)
    exact = drawn(name, rows, case, 13, slow)
    if name == "report_integers":
        assert near(fast, exact)
    else:
        assert np.array_equal(fast, exact)
        fast[0, 8:10] = 255  # a word that no book has is a vector too
        assert np.array_equal(read(name, fast, case), read(name, fast, case, slow))


@pytest.mark.parametrize(
    "book", BOOKS, ids=lambda book: f"{book.words}-{book.chosen}-{book.vectors.dim}"
)
def test_words_of_one_book_after_another_are_read_as_alone(book):
    codes = np.zeros((60, 10), np.uint8)
    codes[:, 0] = np.repeat([7, 9, 7], 20)
    ascending = np.arange(20)
    random = np.random.default_rng(0).integers(0, 40, 20)
    codes[:, 8] = np.concatenate([ascending, ascending[::-1], random])
    alone = [read("report_codes", code[None], book) for code in codes]
    assert np.array_equal(read("report_codes", codes, book), np.concatenate(alone))


@each_case
def test_a_report_depends_on_its_number_and_its_row_alone(name, case):
    """On every instruction set."""
    rows = odd_rows(vectors_of(case).dim, 40)
    whole = drawn(name, rows, case, 100)
    for begin, end in ((0, 1), (7, 9), (13, 40)):
        part = rows[begin:end].copy()
        same_at_every_level(whole[begin:end], drawn, name, part, case, 100 + begin)


@pytest.mark.parametrize(
    "changes",
    [{"words": 1}, {"words": 1025}, {"chosen": 0}, {"chosen": 9}, {"miss": 0}, {"miss": 1 << 62}],
)
def test_books_out_of_range_are_refused(changes):
    book = dataclasses.replace(BOOKS[0], **changes)
    raises(KernelError, None, drawn, "report_codes", np.ones((1, 1)), book)


def test_rows_without_direction_are_the_first_axis():
    out = drawn("report_integers", odd_rows(4), law(4, 0.99, miss=1e-9))
    unit = out / np.linalg.norm(out, axis=1, keepdims=True)
    assert (unit[[1, 2, 3], 0] > 0.98).all()
    assert unit[6, 2] < -0.98


@pytest.mark.parametrize(
    "changes",
    [
        {"dim": 0},
        {"dim": 2**25},
        {"threshold": 1.0},
        {"threshold": -0.1},
        {"threshold": math.nan},
        {"miss": 0.0},
        {"miss": 1.0},
        {"radius": 0.0},
        {"radius": math.inf},
        {"log2_grid": 31},
        {"log2_grid": -1},
    ],
)
def test_laws_out_of_range_are_refused(changes):
    case = dataclasses.replace(law(3), **changes)
    rows = np.zeros((1, case.dim if case.dim < 100 else 3))
    out = np.empty((1, 3), np.int32)
    raises(KernelError, None, noise.report_integers, rows, case, KEY, out)


def test_numbers_of_reports_end():
    out = np.empty((1, 3), np.int32)
    given = (np.ones((1, 3)), law(3), KEY, out)
    noise.report_integers(*given, first=lib.FPP_REPORTS_MAX - 1)
    raises(KernelError, None, noise.report_integers, *given, first=lib.FPP_REPORTS_MAX)


def test_a_short_key_and_rows_of_single_precision_are_refused():
    rows = np.ones((1, 3))
    out = np.empty((1, 3), np.int32)
    raises(KernelError, None, noise.report_integers, rows, law(3), KEY[:31], out)
    raises(KernelError, None, noise.report_integers, rows.astype(np.float32), law(3), KEY, out)


def test_a_seed_that_is_never_taken_is_an_error():
    never = law(50, 0.99, tail=1e-9)
    given = (np.ones((1, 50)), never, KEY, np.empty((1, 32), np.uint8))
    raises(KernelError, None, noise.report_seeds, *given, most_trials=3)


def batch(n=5, dim=3, entry_bytes=2, form=0):
    header = report_codes.BatchHeader(
        dim, n, 0, form, 1, 8, 0 if form else entry_bytes, 0.25, -1.5, 2.0, 1.0
    )
    rng = np.random.default_rng(0)
    if form:
        return header, rng.integers(0, 256, (n, report_codes.WIDTHS[form])).astype(np.uint8)
    payload = rng.integers(-(2**31) + 1, 2**31, (n, dim)).astype(np.int32)
    if entry_bytes == 2:
        payload >>= 16
    return header, payload


@pytest.mark.parametrize(("entry_bytes", "form"), [(2, 0), (4, 0), (0, 1), (0, 2)])
def test_batches_are_the_bytes_of_the_twin(entry_bytes, form):
    header, payload = batch(entry_bytes=entry_bytes, form=form)
    data = report_codes.batch_write(header, payload)
    assert data == slow_wire.batch_write(header, payload)
    assert len(data) == report_codes.batch_size(header) == slow_wire.batch_size(header)
    assert report_codes.batch_header(data) == header
    assert slow_wire.batch_header(data) == dataclasses.astuple(header)
    assert np.array_equal(report_codes.batch_payload(data), payload)
    assert np.array_equal(slow_wire.batch_payload(data), payload)


def test_entries_beyond_two_bytes_are_cut_off():
    header, _ = batch(n=1)
    data = report_codes.batch_write(header, np.array([[40000, -40000, 7]], dtype=np.int32))
    assert report_codes.batch_payload(data).tolist() == [[32767, -32767, 7]]


def test_an_empty_batch_is_a_batch():
    data = report_codes.batch_write(*batch(n=0))
    assert report_codes.batch_payload(data).shape == (0, 3)


def test_every_changed_byte_is_seen():
    data = report_codes.batch_write(*batch())
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 16
        raises(InputError, None, report_codes.batch_header, bytes(changed))


def test_every_missing_byte_is_seen():
    data = report_codes.batch_write(*batch())
    for length in range(len(data)):
        raises(InputError, None, report_codes.batch_header, data[:length])


def test_another_version_is_refused():
    data = bytearray(report_codes.batch_write(*batch()))
    data[4] = 2
    raises(InputError, "version", report_codes.batch_header, bytes(data))
