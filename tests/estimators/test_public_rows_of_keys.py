"""Counts by keys of public rows say how many public rows these are."""

import json

import pandas as pd

from fastpubpriv import ZCDP, count_persons, value_counts

PRIVATE = pd.DataFrame({"ward": ["n", "s", "n", "e"] * 50, "id": list(range(100)) * 2})
PUBLIC = pd.DataFrame({"ward": ["n", "s", "n", None, "w"]})


def test_value_counts_say_how_many_public_rows_keys_are_from():
    result = value_counts(PRIVATE, x_pub=PUBLIC, columns=["ward"], budget=ZCDP(rho=1))
    assert result.n_pub == 5
    assert "200 private, 5 public" in str(result.summary())
    assert json.loads(result.to_json())["n_pub"] == 5


def test_value_counts_with_listed_keys_say_no_public_rows():
    result = value_counts(PRIVATE, keys=["n", "s"], columns=["ward"], budget=ZCDP(rho=1))
    assert result.n_pub == 0


def test_count_persons_say_how_many_public_rows_keys_are_from():
    result = count_persons(PRIVATE, x_pub=PUBLIC, person="id", by="ward", budget=ZCDP(rho=1))
    assert result.n_pub == 5
