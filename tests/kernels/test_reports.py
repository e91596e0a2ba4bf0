"""Local reports: C against its twin, rows that are odd, batches as bytes."""

from __future__ import annotations

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
from fastpubpriv.row_maps import CodeLaw, ReportLaw

KEY = bytes(range(32))


def law(dim, threshold=0.3, *, gaussian=False, ball=False, miss=0.3, radius=1.0, tail=0.5, log2_grid=8):
    return ReportLaw(
        dim=dim, gaussian=gaussian, log2_grid=log2_grid, ball=ball, threshold=threshold, miss=miss, radius=radius,
        tail=tail,
    )  # fmt: skip


CASES = [
    law(1, 0.0), law(2, 0.9), law(2, 0.1, ball=True, radius=3.0), law(5, 0.0, ball=True, radius=1.5), law(17, 0.05),
    law(63, 0.02, log2_grid=12), law(64, 0.02), law(100, 0.3), law(513, 0.01), law(1030, 0.2),
    law(7, 1.5, gaussian=True), law(7, 0.2, gaussian=True, ball=True, radius=2.0), law(1, 1.5, gaussian=True),
]  # fmt: skip


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


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.dim}-{case.threshold}-{case.gaussian}-{case.ball}")
def test_reports_agree_with_their_twin(case):
    n = 3 if case.dim > 300 else 7
    rows = odd_rows(case.dim)[:n]
    fast, exact = np.empty(rows.shape, np.int32), np.empty(rows.shape, np.int32)
    noise.report_integers(rows, case, KEY, fast, first=5)
    slow.report_integers(rows, case, KEY, exact, first=5)
    assert near(fast, exact)


@pytest.mark.parametrize("case", [law(1, 0.0, tail=0.4), law(3, 0.4, tail=0.2), law(20, 1.0, gaussian=True, tail=0.3)])
def test_seeds_agree_with_their_twin(case):
    rows = odd_rows(case.dim)[:4]
    fast, exact = np.empty((4, 32), np.uint8), np.empty((4, 32), np.uint8)
    noise.report_seeds(rows, case, KEY, fast, first=2)
    slow.report_seeds(rows, case, KEY, exact, first=2)
    assert np.array_equal(fast, exact)
    mine, theirs = np.empty((4, case.dim), np.int32), np.empty((4, case.dim), np.int32)
    report_codes.seed_integers(fast, case, mine)
    slow.seed_integers(fast, case, theirs)
    assert np.array_equal(mine, theirs)


BOOKS = [
    CodeLaw(words=9, chosen=4, miss=1 << 60, vectors=law(1, 0.0)),  # all cosines are 1 or -1: ties alone
    CodeLaw(words=8, chosen=1, miss=1 << 61, vectors=law(2, 0.0)),
    CodeLaw(words=20, chosen=8, miss=1 << 61, vectors=law(3, 0.0, ball=True, radius=2.0)),
    CodeLaw(words=7, chosen=6, miss=1 << 61, vectors=law(100, 0.0)),
    CodeLaw(words=3, chosen=1, miss=1 << 61, vectors=law(1030, 0.0)),
]


def book_id(book):
    return f"{book.words}-{book.chosen}-{book.vectors.dim}"


@pytest.mark.parametrize("book", BOOKS, ids=book_id)
def test_codes_agree_with_their_twin(book):
    dim = book.vectors.dim
    n = 3 if dim > 50 else 9
    rows = odd_rows(dim)[:n]
    fast, exact = np.empty((n, 10), np.uint8), np.empty((n, 10), np.uint8)
    noise.report_codes(rows, book, KEY, fast, first=13)
    slow.report_codes(rows, book, KEY, exact, first=13)
    assert np.array_equal(fast, exact)
    fast[0, 8:] = 255  # a word that no book has is a vector too
    mine, theirs = np.empty((n, dim), np.int32), np.empty((n, dim), np.int32)
    report_codes.code_integers(fast, book.vectors, mine)
    slow.code_integers(fast, book.vectors, theirs)
    assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("book", BOOKS, ids=book_id)
def test_words_of_one_book_after_another_are_read_as_alone(book):
    dim, codes = book.vectors.dim, np.zeros((60, 10), np.uint8)
    codes[:, 0] = np.repeat([7, 9, 7], 20)
    codes[:, 8] = np.r_[np.arange(20), np.arange(20)[::-1], np.random.default_rng(0).integers(0, 40, 20)]
    together, alone = np.empty((60, dim), np.int32), np.empty((60, dim), np.int32)
    report_codes.code_integers(codes, book.vectors, together)
    for i in range(60):
        report_codes.code_integers(codes[i : i + 1], book.vectors, alone[i : i + 1])
    assert np.array_equal(together, alone)


@pytest.mark.parametrize("book", BOOKS, ids=book_id)
def test_a_code_depends_on_its_number_and_its_row_alone(book):
    rows, whole = odd_rows(book.vectors.dim, 40), np.empty((40, 10), np.uint8)
    noise.report_codes(rows, book, KEY, whole, first=100)

    def part(begin, end):
        found = np.empty((end - begin, 10), np.uint8)
        noise.report_codes(np.array(rows[begin:end]), book, KEY, found, first=100 + begin)
        return found

    for begin, end in ((0, 1), (7, 9), (13, 40)):
        same_at_every_level(whole[begin:end], part, begin, end)


@pytest.mark.parametrize(
    "changes", [{"words": 1}, {"words": 1025}, {"chosen": 0}, {"chosen": 9}, {"miss": 0}, {"miss": 1 << 62}]
)
def test_books_out_of_range_are_refused(changes):
    book = dataclasses.replace(BOOKS[0], **changes)
    raises(KernelError, None, noise.report_codes, np.ones((1, 1)), book, KEY, np.empty((1, 10), np.uint8))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.dim}-{case.threshold}-{case.gaussian}-{case.ball}")
def test_a_report_depends_on_its_number_and_its_row_alone(case):
    rows = odd_rows(case.dim, 40)
    whole = np.empty(rows.shape, np.int32)
    noise.report_integers(rows, case, KEY, whole, first=100)
    for begin, end in ((0, 1), (7, 9), (13, 40)):
        part = np.empty((end - begin, case.dim), np.int32)
        noise.report_integers(np.array(rows[begin:end]), case, KEY, part, first=100 + begin)
        assert np.array_equal(part, whole[begin:end])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.dim}-{case.threshold}-{case.gaussian}-{case.ball}")
def test_instruction_sets_give_the_same_bits(case):
    rows = odd_rows(case.dim)

    def drawn():
        found = np.empty(rows.shape, np.int32)
        noise.report_integers(rows, case, KEY, found)
        return found

    same_at_every_level(drawn(), drawn)


def test_rows_without_direction_are_the_first_axis():
    case, out = law(4, 0.99, miss=1e-9), np.empty((9, 4), np.int32)
    noise.report_integers(odd_rows(4), case, KEY, out)
    unit = out / np.linalg.norm(out, axis=1, keepdims=True)
    assert (unit[[1, 2, 3], 0] > 0.98).all()
    assert unit[6, 2] < -0.98


@pytest.mark.parametrize("changes", [
    {"dim": 0}, {"dim": 2**25}, {"threshold": 1.0}, {"threshold": -0.1}, {"threshold": math.nan}, {"miss": 0.0},
    {"miss": 1.0}, {"radius": 0.0}, {"radius": math.inf}, {"log2_grid": 31}, {"log2_grid": -1},
])  # fmt: skip
def test_laws_out_of_range_are_refused(changes):
    case = dataclasses.replace(law(3), **changes)
    with pytest.raises(KernelError):
        noise.report_integers(np.zeros((1, case.dim if case.dim < 100 else 3)), case, KEY, np.empty((1, 3), np.int32))


def test_numbers_of_reports_end():
    out = np.empty((1, 3), np.int32)
    noise.report_integers(np.ones((1, 3)), law(3), KEY, out, first=lib.FPP_REPORTS_MAX - 1)
    raises(KernelError, None, noise.report_integers, np.ones((1, 3)), law(3), KEY, out, first=lib.FPP_REPORTS_MAX)
    raises(KernelError, None, noise.report_integers, np.ones((1, 3)), law(3), KEY[:31], out)
    raises(KernelError, None, noise.report_integers, np.ones((1, 3), np.float32), law(3), KEY, out)


def test_a_seed_that_is_never_taken_is_an_error():
    with pytest.raises(KernelError):
        noise.report_seeds(np.ones((1, 50)), law(50, 0.99, tail=1e-9), KEY, np.empty((1, 32), np.uint8), most_trials=3)


# ---- Bytes ----------------------------------------------------------------------------------------------------------
def batch(n=5, dim=3, entry_bytes=2, form=0):
    header = report_codes.BatchHeader(dim, n, 0, form, 1, 8, 0 if form else entry_bytes, 0.25, -1.5, 2.0, 1.0)
    rng = np.random.default_rng(0)
    if form:
        return header, rng.integers(0, 256, (n, report_codes.WIDTHS[form])).astype(np.uint8)
    payload = rng.integers(-(2**31) + 1, 2**31, (n, dim)).astype(np.int32)
    return header, payload >> (16 if entry_bytes == 2 else 0)


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


def test_entries_are_cut_off():
    header, _ = batch(n=1)
    data = report_codes.batch_write(header, np.array([[40000, -40000, 7]], dtype=np.int32))
    assert report_codes.batch_payload(data).tolist() == [[32767, -32767, 7]]


def test_an_empty_batch_is_a_batch():
    header, payload = batch(n=0)
    assert report_codes.batch_payload(report_codes.batch_write(header, payload)).shape == (0, 3)


def test_every_changed_byte_is_seen():
    header, payload = batch()
    data = report_codes.batch_write(header, payload)
    for at in range(len(data)):
        raises(InputError, None, report_codes.batch_header, data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        raises(InputError, None, report_codes.batch_header, data[:at])


def test_another_version_is_named():
    header, payload = batch()
    data = report_codes.batch_write(header, payload)
    raises(InputError, "version", report_codes.batch_header, data[:4] + b"\2" + data[5:])
