"""Fixtures of all tests. This folder is on the import path, so that tests can import `spies` and `helpers`."""

import signal

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def interrupts_arrive():
    """Restore Python's handler of SIGINT, which a process in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, scope="session")
def small_passes_use_the_threads_that_are_asked_for():
    """Split even few rows among threads; `test_fold.py` tests the rule itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastpubpriv.sources.fold._INLINE_WORK_ASKED", 0)
        yield


@pytest.fixture
def one_blas_thread():
    """Use one BLAS thread, as matrices are small."""
    with threadpool_limits(1):
        yield
