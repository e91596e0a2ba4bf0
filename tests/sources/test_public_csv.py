"""Pairs of CSV files of one dialect: both are read in one way, or the public file is refused before the debit."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from helpers.refusals import Refusals
from helpers.tables import rows_of_persons

import fastpubpriv as fpp
from fastpubpriv import session
from fastpubpriv.cli import main
from fastpubpriv.errors import InputError
from fastpubpriv.sources import Rows
from fastpubpriv.sources.open import cells_of_column, public_rows, texts_of_column

NUMBERS = np.random.default_rng(5).normal(50.0, 10.0, 4000)
COMMON = {"budget": fpp.ZCDP(1), "random_state": 5}
pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.errors.SeededNoiseWarning")


def plain(number, row):
    return f"{number:.4f},x"


def with_gaps(number, row):
    return f"{number:.4f},x" if row % 3 else "NA,x"


def quoted(number, row):
    return f'"{number:.4f}","x, y"\r'


def with_line_breaks(number, row):
    return f'{number:.4f},"x\ny"' if row % 3 else f"{number:.4f},x"


def with_flags(number, row):
    return "TRUE,x" if number > 50 else "FALSE,x"


def hexadecimal(number, row):
    return f"{int(number):#x},x"


def with_inch_signs(number, row):
    return f'{number:.4f},5" pipe' if row % 3 else f"{number:.4f},x"


def with_blank_lines(number, row):
    return f"{number:.4f},x\n"


def with_thousands(number, row):
    return f'"{1000 * number:,.0f}",x'


def with_short_lines(number, row):
    return f"{number:.4f},x" if row % 3 else f"{number:.4f}"


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """A function that writes the private file p.csv, 4,000 rows, and the public file q.csv, 200 rows, in one dialect."""
    monkeypatch.chdir(tmp_path)

    def written(dialect):
        for name, numbers in (("p.csv", NUMBERS), ("q.csv", NUMBERS[:200])):
            lines = ["cost,note", *(dialect(number, row) for row, number in enumerate(numbers))]
            (tmp_path / name).write_bytes("".join(f"{line}\n" for line in lines).encode())

    return written


@pytest.mark.parametrize("dialect", [plain, with_gaps, quoted])
def test_a_pair_of_files_is_read_in_one_way(dialect, pair):
    pair(dialect)
    found = fpp.estimate_mean("p.csv", x_pub="q.csv", columns=["cost"], **COMMON)
    used = NUMBERS[np.arange(4000) % 3 > 0] if dialect is with_gaps else NUMBERS
    assert (
        found.confidence_interval(0.999)[0][0]
        < used.mean()
        < found.confidence_interval(0.999)[1][0]
    )


REFUSED = Refusals()
REFUSED.add_values(
    "line 3 of the public file .*q.csv' has an odd number of quotes: .*as Parquet.*join_quoted_lines",
    with_line_breaks,
)
REFUSED.add_values("'cost' .line 2 has '(TRUE|FALSE)', which is no decimal number", with_flags)
REFUSED.add_values("'cost' .line 2 has '0x[0-9a-f]+', which is no decimal number", hexadecimal)
REFUSED.add_values("line 3 of the public file .* has an odd number of quotes", with_inch_signs)
REFUSED.add_values("line 3 of the public file .* is blank", with_blank_lines)
REFUSED.add_values("'cost' .line 2 has '[0-9]+,[0-9]+', which is no decimal number", with_thousands)
REFUSED.add_values("line 2 of the public file .* has 1 cell and the header 2", with_short_lines)


@pytest.mark.parametrize(("dialect", "words"), REFUSED)
def test_a_public_file_of_another_dialect_is_refused_before_the_debit(dialect, words, pair):
    pair(dialect)
    ledger = fpp.Ledger(fpp.ZCDP(1))
    with pytest.raises(InputError, match=words):
        fpp.estimate_mean("p.csv", x_pub="q.csv", columns=["cost"], ledger=ledger, **COMMON)
    assert ledger.entries == ()


@pytest.mark.parametrize(("dialect", "words"), REFUSED)
@pytest.mark.parametrize("columns", [["--columns", "cost"], []])
def test_the_command_refuses_the_same_files(dialect, words, columns, pair):
    pair(dialect)
    spending = ["--rho", "1", "--ledger", "l", "--ledger-total", "rho=1"]
    found = CliRunner().invoke(
        main, ["mean", "--private", "p.csv", "--public", "q.csv", *columns, *spending]
    )
    assert found.exit_code != 0
    assert re.search("of the public file|is no decimal number", " ".join(found.output.split()))
    assert not Path("l").exists()


def test_lines_joined_on_request_are_joined_in_both_files(pair):
    pair(with_line_breaks)
    p = Rows.from_csv("p.csv", ["cost"], join_quoted_lines=True)
    q = Rows.from_csv("q.csv", ["cost"], join_quoted_lines=True)
    found = fpp.estimate_mean(p, x_pub=q, **COMMON)
    assert found.n_priv == 4000
    assert (
        found.confidence_interval(0.999)[0][0]
        < NUMBERS.mean()
        < found.confidence_interval(0.999)[1][0]
    )


def test_the_line_of_a_cell_counts_the_lines_within_cells_before_it(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text('cost,note\n1,"x\ny"\nTRUE,z\n')
    rows = Rows.from_csv(path, ["cost"], join_quoted_lines=True)
    with pytest.raises(InputError, match="line 4 has 'TRUE'"):
        public_rows(rows)


def test_cells_that_are_no_numbers_are_categories_as_in_the_private_file(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text('flag,day\nTRUE,2024-01-31\nFALSE,"say ""a"""\n')
    assert texts_of_column(path, "flag") == ("FALSE", "TRUE")
    assert texts_of_column(path, "day") == ("2024-01-31", 'say "a"')


OTHER_DIALECTS = [dialect for dialect, _ in REFUSED]


@pytest.fixture
def beside_a_plain_file(pair, tmp_path):
    """A function that writes the private file p.csv in some dialect, and the public file q.csv in plain numbers."""

    def written(dialect):
        pair(dialect)
        numbers = "".join(f"{number:.4f}\n" for number in NUMBERS[:200])
        (tmp_path / "q.csv").write_text(f"cost\n{numbers}")

    return written


@pytest.mark.parametrize("dialect", OTHER_DIALECTS)
def test_the_content_of_the_private_file_is_not_refused_nor_warned_about_before_the_release(
    dialect, beside_a_plain_file
):
    beside_a_plain_file(dialect)
    ways = [
        (fpp.estimate_mean, {}),
        (fpp.quantiles, {"q": 0.5}),
        (fpp.describe, {}),
        (fpp.estimate_gaussian, {"structure": "mean"}),
    ]
    for call, more in ways:
        with warnings.catch_warnings(action="error"), session.rehearsal():
            warnings.simplefilter("ignore", fpp.SeededNoiseWarning)
            with pytest.raises(session.WouldPay):
                call("p.csv", x_pub="q.csv", columns=["cost"], **more, **COMMON)


VERBS = {
    "estimate_mean": {},
    "estimate_mean, bounds": {"bounds": (0.0, 100.0)},
    "quantiles": {"q": 0.5},
    "describe": {},
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_a_private_file_of_another_dialect_has_surely_more_missing_cells(verb, beside_a_plain_file):
    call = getattr(fpp, verb.split(",")[0])

    def reasons():
        given = {"x_pub": "q.csv", "columns": ["cost"], **VERBS[verb], **COMMON}
        return call("p.csv", **given).reasons

    for dialect in (with_gaps, with_thousands, with_short_lines, with_inch_signs):
        beside_a_plain_file(dialect)
        assert "more_missing" in reasons(), dialect.__name__
    beside_a_plain_file(plain)
    assert "more_missing" not in reasons()


def test_cells_that_are_missing_as_often_as_public_ones_are_no_reason(pair):
    pair(with_gaps)
    result = fpp.estimate_mean("p.csv", x_pub="q.csv", columns=["cost"], **COMMON)
    assert abs(result.report.missing[0] - 4000 / 3) < 50
    assert "more_missing" not in result.reasons


def test_a_frame_has_the_missing_cells_that_its_owner_sees():
    gaps = np.where(np.arange(4000) % 3 > 0, NUMBERS, np.nan)[:, None]
    result = fpp.estimate_mean(gaps, x_pub=NUMBERS[:200, None].copy(), **COMMON)
    assert "more_missing" not in result.reasons


def test_rows_that_a_person_does_not_have_are_no_missing_cells(tmp_path):
    path = tmp_path / "visits.csv"
    lines = [f"{person},{number:.4f}" for person, number in enumerate(NUMBERS)]
    path.write_text("\n".join(["who,cost", *lines, ""]))
    asked = {"columns": ["cost"], "person": "who", "rows_per_person": 2}
    public = pd.DataFrame({"cost": NUMBERS[:200]})
    result = fpp.estimate_mean(path, x_pub=public, **asked, **COMMON)
    assert "more_missing" not in result.reasons


def test_the_command_says_that_more_cells_are_missing(beside_a_plain_file):
    beside_a_plain_file(with_gaps)
    files = ["--private", "p.csv", "--public", "q.csv", "--columns", "cost"]
    found = CliRunner().invoke(main, ["mean", *files, "--rho", "1"])
    assert found.exit_code == 0
    assert "more_missing" in found.output


def test_public_persons_are_read_in_the_same_dialect(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text("who,cost\na,1\nb,TRUE\n")
    with pytest.raises(InputError, match="line 3 has 'TRUE'"):
        public_rows(rows_of_persons(path, person="who"), columns=["cost"])


def test_numbers_of_joined_lines_are_numbers_as_in_a_plain_file(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text('note,cost,place\n"two\nlines",1.5,north\nplain,2,south\n')
    joined = Rows.from_csv(path, None, join_quoted_lines=True)
    assert cells_of_column(joined, "cost") == [1.5, 2.0]
    assert texts_of_column(joined, "cost") is None
    assert texts_of_column(joined, "place") == ("north", "south")
