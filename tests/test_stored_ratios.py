"""Ratios of speed that are stored for classes of processors, what fails beside them, and the clock that measures them."""

import json
import sys

import pytest

from benchmarks import stored
from benchmarks.conftest import measured_speedup

OURS = {"a": {"peer": "p", "ratio": 2.0}, "b": {"peer": "p", "ratio": 4.0}}
OTHERS = {"a": {"peer": "p", "ratio": 1.0}, "b": {"peer": "p", "ratio": 9.0}}


@pytest.fixture(autouse=True)
def processor_named_ours(monkeypatch):
    monkeypatch.setattr(stored, "processor", lambda: "Ours")


def keep(folder, name, cases):
    (folder / f"{name}.json").write_text(json.dumps({"cases": cases}))


def test_a_processor_is_held_to_its_own_class(tmp_path):
    keep(tmp_path, "ours-avx2", OURS)
    keep(tmp_path, "other-avx2", OTHERS)
    assert stored.stored_ratios(1, tmp_path) == {"a": 2.0, "b": 4.0}


def test_an_unknown_processor_is_held_to_the_lowest_ratios_of_its_instruction_set(tmp_path):
    keep(tmp_path, "one-avx2", OURS)
    keep(tmp_path, "other-avx2", OTHERS)
    keep(tmp_path, "one-avx-512", {"a": {"peer": "p", "ratio": 0.1}})
    assert stored.stored_ratios(1, tmp_path) == {"a": 1.0, "b": 4.0}


def test_where_no_class_has_an_instruction_set_nothing_is_guarded(tmp_path):
    keep(tmp_path, "one-avx2", OURS)
    assert stored.stored_ratios(0, tmp_path) == {}


@pytest.mark.parametrize(("ratio", "code"), [(0.74, 1), (0.76, 0)])
def test_a_case_below_three_quarters_of_its_stored_ratio_fails(
    ratio, code, tmp_path, monkeypatch, capsys
):
    report = {
        "benchmarks": [
            {"extra_info": {"case": "a", "peer": "p", "ratio": ratio}},
            {"extra_info": {}},
        ]
    }
    (tmp_path / "report.json").write_text(json.dumps(report))
    monkeypatch.setattr(stored, "stored_ratios", lambda level: {"a": 1.0})
    monkeypatch.setattr(sys, "argv", ["stored", str(tmp_path / "report.json")])
    assert stored.main() == code
    assert f"| a | {ratio} | 1 | {ratio}{stored.TOO_SLOW * code} |" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--show"])
    assert stored.main() == 0


def test_a_case_that_has_no_stored_ratio_is_shown_and_does_not_fail():
    assert stored.compared({"new": 0.001}, {}) == [("new", "0.001", "-", "not stored")]


def test_saved_cases_replace_their_old_ratios_and_leave_the_others(tmp_path):
    keep(tmp_path, "ours-avx2", OURS)
    target = stored.save({"b": {"peer": "q", "ratio": 0.00123456}}, 1, tmp_path)
    assert stored.cases_in(target) == {
        "a": {"peer": "p", "ratio": 2.0},
        "b": {"peer": "q", "ratio": 0.001235},
    }


@pytest.mark.parametrize(
    ("seconds", "repeated", "ratio"),
    [
        (0.02, 1, 3.0),
        (0.02, 2, 1.5),
        (1e-4, 1, 3.0),
        (1e-4, 2, 1.5),
        (1.0, 1, 3.0),
        (1.0, 2, 1.5),
    ],
)
def test_a_call_that_is_made_twice_has_half_the_ratio(seconds, repeated, ratio):
    """The clock of this test tells the work that was done; the peer does three times as much."""
    worked = [0.0]

    def ours():
        worked[0] += seconds * repeated

    def peer():
        worked[0] += 3.0 * seconds

    assert measured_speedup(ours, peer, clock=lambda: worked[0]) == pytest.approx(ratio)
