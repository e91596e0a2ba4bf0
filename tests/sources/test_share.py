"""`share_out`: every piece once, whatever the threads; errors without content."""

import gc
import threading
import time
import weakref

import pytest
from clocks import PATIENCE, wait_until

from fastpubpriv import InputError
from fastpubpriv.errors import KernelError
from fastpubpriv.threads.pool import share_out


@pytest.mark.parametrize("threads", [1, 2, 5, None])
@pytest.mark.parametrize("count", [0, 1, 3, 200])
def test_every_piece_once(threads, count):
    seen = []
    share_out(seen.append, count, threads=threads)
    assert sorted(seen) == list(range(count))


def test_pieces_run_side_by_side():
    both = threading.Barrier(2, timeout=PATIENCE)
    share_out(lambda index: both.wait(), 2, threads=2)  # one thread alone would wait forever


def test_inside_of_a_piece_the_same_thread_goes_on():
    seen = []

    def outer(index):
        share_out(lambda inner: seen.append((index, inner, threading.get_ident())), 3, threads=4)

    share_out(outer, 4, threads=2)
    assert sorted(part[:2] for part in seen) == [(i, j) for i in range(4) for j in range(3)]
    assert all(len({part[2] for part in seen if part[0] == i}) == 1 for i in range(4))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_foreign_error_says_nothing(threads):
    def work(index):
        raise ValueError("value 1.23456789e77 of Alice")

    with pytest.raises(InputError) as caught:
        share_out(work, 5, threads=threads)
    assert "Alice" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("threads", [1, 2])
def test_our_own_error_comes_through_and_stops_the_rest(threads):
    started = []

    def work(index):
        started.append(index)
        if index == 0:
            raise KernelError("refused")
        time.sleep(0.02)

    with pytest.raises(KernelError, match="refused"):
        share_out(work, 1000, threads=threads)
    assert len(started) < 900


@pytest.mark.parametrize("threads", [0, -1])
def test_no_threads_at_all_are_one(threads):
    seen = []
    share_out(seen.append, 3, threads=threads)
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("failure", [ValueError, KernelError])
def test_an_error_keeps_nothing_alive(threads, failure):
    class Chunk:
        pass

    def run():
        chunk = Chunk()

        def work(index):
            raise failure(f"chunk {chunk is not None}")

        with pytest.raises((InputError, KernelError)):
            share_out(work, 5, threads=threads)
        return weakref.ref(chunk)

    gc.collect()
    gc.disable()
    try:
        kept = run()
        assert wait_until(lambda: kept() is None)  # a worker may not have left its last piece
    finally:
        gc.enable()
