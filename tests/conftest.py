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


@pytest.fixture
def one_blas_thread():
    """For small matrices: a second thread only waits for the first."""
    with threadpool_limits(1):
        yield
