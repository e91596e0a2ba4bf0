"""Puts this folder on the import path, so that tests of every part can use `spies` and `helpers`; and lets Ctrl-C work."""

import signal

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def interrupts_arrive():
    """A process that was started in the background ignores SIGINT; the tests of interrupts need Python's own handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, scope="session")
def small_passes_use_the_threads_that_are_asked_for():
    """So that tests cut few rows among threads; `test_fold.py` tests the rule itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastpubpriv.sources.fold._INLINE_WORK_ASKED", 0)
        yield


@pytest.fixture
def one_blas_thread():
    """For small matrices: a second thread only waits for the first."""
    with threadpool_limits(1):
        yield
