"""Ledgers in memory and in a file."""

import pytest

from fastpubpriv.privacy import ZCDP, Ledger


@pytest.fixture(params=["memory", "file"])
def place(request, tmp_path):
    return {"path": tmp_path / "a.ledger"} if request.param == "file" else {}


@pytest.fixture
def path(tmp_path):
    """A file with three debits of 1/8 against a total of 1."""
    file = tmp_path / "a.ledger"
    ledger = Ledger(ZCDP(1), path=file, label="set A")
    for k in range(3):
        ledger.debit(ZCDP(0.125), name=f"query {k}")
    return file
