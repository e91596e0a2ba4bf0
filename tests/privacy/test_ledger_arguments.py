"""Wrong arguments, places and contents of a ledger: a typed error that says what to pass, and nothing is made or changed."""

import json
import math
import shutil
import tempfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import raises, shown
from ledger_cases import HEADER, as_body, forge, forked

from fastpubpriv.errors import BudgetError, InputError, LedgerError
from fastpubpriv.privacy import ZCDP, Budget, Cost, Ledger, Neighbors
from fastpubpriv.privacy.ledger_file import checked_timeout

OPENERS = {
    "new": lambda path, **options: Ledger(ZCDP(1), path=path, label="set A", **options),
    "from_file": Ledger.from_file,
    "repair": Ledger.repair,
}
openers = pytest.mark.parametrize("opener", list(OPENERS))


class Named:
    def __init__(self, answer):
        self.answer = answer

    def __fspath__(self):
        return self.answer


BAD_PATHS = [
    5,
    5.0,
    True,
    b"a.ledger",
    [],
    {},
    ["a.ledger"],
    object(),
    Path,
    "",
    Named(b"a.ledger"),
    Named(""),
    "a\0.ledger",
    "\0",
    Path("a\0b"),
    "\ud800.ledger",
    np.array("a"),
    ZCDP(1),
]


@openers
@pytest.mark.parametrize("bad", BAD_PATHS, ids=shown)
def test_paths(opener, bad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = r"path of a ledger must be a text or a pathlib.Path, for example 'survey.ledger'"
    raises(InputError, words, OPENERS[opener], bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opener", ["from_file", "repair"])
def test_no_path(opener):
    raises(InputError, "got NoneType", OPENERS[opener], None)


@pytest.mark.parametrize("kind", [str, Path, Named])
def test_paths_that_are_fine(kind, tmp_path):
    path = tmp_path / "a ledger \N{SNOWMAN} \udc80.ledger"
    Ledger(ZCDP(1), path=kind(str(path))).debit(ZCDP(0.5), name="x")
    assert Ledger.from_file(kind(str(path))).spent == ZCDP(0.5).cost
    assert Ledger.repair(kind(str(path))) == 0


BAD_TIMEOUTS = [
    "x",
    "1",
    None,
    True,
    np.bool_(False),
    float("nan"),
    float("inf"),
    -float("inf"),
    -1,
    -1e-300,
    Decimal("nan"),
    1j,
    [1],
    10**400,
    Fraction(-1, 3),
    np.array([1.0]),
    b"1",
]


@openers
@pytest.mark.parametrize("bad", BAD_TIMEOUTS, ids=shown)
def test_timeouts(opener, bad, path):
    before = path.read_bytes()
    raises(InputError, r"timeout \(seconds", OPENERS[opener], path, timeout=bad)
    if opener == "new":  # checked even where it is not needed
        raises(InputError, r"timeout \(seconds", Ledger, ZCDP(1), timeout=bad)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "good", [0, 0.0, 10, 1e308, Fraction(1, 3), Decimal("0.5"), np.float32(2), np.int64(3)]
)
def test_timeouts_that_are_fine(good, path):
    assert type(checked_timeout(good)) is float
    assert Ledger.from_file(path, timeout=good).spent == ZCDP(0.375).cost


@pytest.mark.parametrize("bad", [5, b"x", [], "", "\n", "x" * 201, "\ud800", object()], ids=shown)
def test_labels(bad, tmp_path):
    raises(
        InputError,
        "label must be a printable text",
        Ledger,
        ZCDP(1),
        path=tmp_path / "a",
        label=bad,
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", ["replace_one", [], {}, 0, Neighbors, object()], ids=shown)
def test_relations(bad, place):
    ledger = Ledger(ZCDP(1), **place)
    raises(BudgetError, r"Neighbors.REPLACE_ONE", ledger.debit, ZCDP(0.5), name="x", relation=bad)
    raises(BudgetError, r"Neighbors.REPLACE_ONE", Ledger, ZCDP(1), relation=bad)
    assert ledger.spent.is_zero


@pytest.mark.parametrize(
    "bad", [None, 1, "ZCDP(1)", ZCDP, Budget, ZCDP(1).cost, [], float("nan")], ids=shown
)
def test_totals(bad, tmp_path):
    raises(BudgetError, "total must be ZCDP, ApproxDP or PureDP", Ledger, bad, path=tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


HUGE = [
    Cost(ZCDP, (Fraction(10) ** 3000,)),
    Cost(ZCDP, (Fraction(10**3600),)),
    Cost(ZCDP, (Fraction(10**3600, 10**3599 + 1),)),
]


@pytest.mark.parametrize(
    "cost", [0.5, None, "x", [], np.float64(0.5), Fraction(1, 2), ZCDP, *HUGE], ids=shown
)
def test_costs(cost, place):
    ledger = Ledger(ZCDP(1), **place)
    raises(BudgetError, None, ledger.debit, cost, name="x")
    assert ledger.spent.is_zero


def test_costs_whose_sum_is_too_long_are_refused_before_they_are_charged(place):
    ledger = Ledger(ZCDP(1), **place)
    ledger.debit(Cost(ZCDP, (Fraction(1, 3**3000),)), name="long")
    raises(
        BudgetError,
        "bits",
        ledger.debit,
        Cost(ZCDP, (Fraction(1, 5**4000),)),
        name="long, and nothing in common",
    )
    assert len(ledger.entries) == 1
    ledger.debit(Cost(ZCDP, (Fraction(1, 2**4000),)), name="tiny")


@openers
def test_directories(opener, tmp_path):
    for place in (tmp_path, "/", ".", "..", str(tmp_path) + "/"):
        raises(LedgerError, "is a directory; pass the path of a file in it", OPENERS[opener], place)


def test_a_directory_that_takes_the_place_of_a_ledger(path):
    ledger = Ledger.from_file(path)
    path.unlink()
    path.mkdir()
    raises(LedgerError, "is a directory", ledger.debit, ZCDP(0.125), name="x")


@pytest.mark.parametrize("opener", ["from_file", "repair"])
def test_nothing_there(opener, tmp_path):
    words = r"does not exist; .* Ledger\(total, path=...\) starts it"
    raises(LedgerError, words, OPENERS[opener], tmp_path / "a.ledger")
    assert list(tmp_path.iterdir()) == []


def test_from_file_makes_no_file_that_vanishes_meanwhile(path, monkeypatch):
    from_dict = Budget.from_dict

    def vanish(data):
        path.unlink()
        return from_dict(data)

    monkeypatch.setattr(Budget, "from_dict", vanish)
    raises(LedgerError, "does not exist", Ledger.from_file, path)
    assert not path.exists()


@openers
def test_names_too_long_and_files_as_folders(opener, path):
    for place in ("x" * 300, "x/" * 3000 + "x", str(path) + "/x"):
        raises(LedgerError, None, OPENERS[opener], path.parent / place)


@pytest.fixture
def open_folder():
    """A folder that every user can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@openers
@pytest.mark.parametrize("what", ["file", "folder", "folder of a new file"])
def test_places_without_permission(opener, what, open_folder):
    folder = open_folder / "f"
    folder.mkdir()
    path = folder / "a.ledger"
    if what != "folder of a new file":
        Ledger(ZCDP(1), path=path, label="set A")
    (path if what == "file" else folder).chmod(0)

    def refused():
        try:
            OPENERS[opener](path)
        except LedgerError as error:
            return "Permission denied" in str(error) or "cannot be read" in str(error)

    assert forked(refused, unprivileged=True) == 0
    folder.chmod(0o700)
    assert [p.name for p in folder.iterdir()] == (
        [] if what == "folder of a new file" else ["a.ledger"]
    )


def test_a_ledger_that_may_only_be_read(open_folder):
    path = open_folder / "a.ledger"
    Ledger(ZCDP(1), path=path).debit(ZCDP(0.5), name="x")
    path.chmod(0o444)
    before = path.read_bytes()

    def reads_and_cannot_debit():
        ledger = Ledger.from_file(path)
        assert ledger.remaining == ZCDP(0.5).cost
        try:
            ledger.debit(ZCDP(0.25), name="y")
        except LedgerError as error:
            return "cannot be opened: Permission denied" in str(error)

    assert forked(reads_and_cannot_debit, unprivileged=True) == 0
    assert path.read_bytes() == before


MISSING = object()
BAD_FIELDS = [
    MISSING,
    None,
    True,
    1,
    1.5,
    "",
    "x" * 300,
    "a\0b",
    "\ud800",
    [],
    {},
    [[]],
    {"notion": "ZCDP"},
    {"notion": "ZCDP", "rho": 1},
    {"notion": "ZCDP", "rho": "1e400"},
    {"notion": "ZCDP", "rho": "1/0"},
    {"notion": "ZCDP", "rho": math.inf},
    json.loads("[" * 500 + "]" * 500),
]


@pytest.mark.parametrize("label", ["set A", None])
@pytest.mark.parametrize("field", HEADER)
def test_a_header_field_that_is_missing_or_no_such_value_is_refused(tmp_path, field, label):
    """Whatever a header says, it is read as written, or refused by LedgerError: never by another error."""
    path = tmp_path / "a.ledger"
    header = {**HEADER, "label": label}
    for value in BAD_FIELDS:
        if value == header[field] and type(value) is type(header[field]):
            continue
        changed = (
            {**header, field: value}
            if value is not MISSING
            else {k: v for k, v in header.items() if k != field}
        )
        path.write_bytes(forge(as_body(changed).replace("Infinity", "1e400")))
        before = path.read_bytes()
        raises(LedgerError, None, Ledger, ZCDP(1), path=path, label=label)
        if field == "label" and value is None:
            assert Ledger.from_file(path).label is None
        else:
            raises(LedgerError, None, Ledger.from_file, path)
        assert path.read_bytes() == before


@openers
@pytest.mark.parametrize("place", ["/dev/null", "/dev/full", "/dev/zero"])
def test_devices_are_refused_at_once(opener, place):
    raises(LedgerError, "not a regular file", OPENERS[opener], place)
