"""One thread of BLAS: matrices are small, and CPU seconds are counted."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def one_thread_of_blas():
    """For all tests of this folder."""
    with threadpool_limits(1):
        yield
