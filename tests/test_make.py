"""`make test`, `make test-all` and `.ci/run` with simulated steps: every step runs, and failures are reported at the end."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from clocks import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
STEPS = ("lint", "c-test", "py-test", "guards")
REST = ("c-checked", "py-rest", "serial-test", "guards-rest")
ALL = STEPS + REST
# Output of a simulated step before it succeeds or fails.
GOOD = {
    "lint": "All checks passed!",
    "c-test": "fine",
    "py-test": "120 passed, 3 deselected in 61.20s (0:01:01)",
    "guards": "22 passed in 50.00s",
    "c-checked": "fine",
    "py-rest": "30 passed, 120 deselected in 9.00s",
    "serial-test": "7 passed in 1.50s",
    "guards-rest": "5 passed, 49 deselected in 20.00s",
}
BAD = GOOD | {
    "py-test": "2 failed, 117 passed, 1 error in 61.20s (0:01:01)",
    "guards": "1 failed, 21 passed in 50.00s",
}

pytestmark = pytest.mark.skipif(
    not shutil.which("make") or not shutil.which("bash"), reason="needs make and bash"
)


def run(folder, command, broken):
    """Run a command with a copy of the project's Makefile whose steps are simulated."""
    shutil.copy(ROOT / "Makefile", folder)
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", folder / ".ci")
    played = "".join(
        f"{step}:\n\t@echo '{(BAD if step in broken else GOOD)[step]}'; exit {int(step in broken)}\n"
        for step in ALL
    )
    (folder / "csrc").mkdir()
    for needed in ("pyproject.toml", "setup.py", "csrc/build_ffi.py"):
        (folder / needed).touch()
    # GNU make prefers this file to `Makefile`, and its rules override those included.
    (folder / "GNUmakefile").write_text(
        f"include Makefile\n$(STAMP)-venv $(STAMP)-test $(STAMP)-extension: ;\n{played}",
        encoding="utf-8",
    )
    outer = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        command, cwd=folder, env=outer, capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.mark.parametrize(
    ("target", "steps"), [("test", STEPS), ("test-rest", REST), ("test-all", ALL)]
)
@pytest.mark.parametrize(
    "broken", [[], ["lint", "serial-test"], ["c-test", "py-rest", "py-test"], list(ALL)], ids=str
)
def test_every_step_runs_and_what_failed_is_listed(tmp_path, broken, target, steps):
    done = run(tmp_path, ["make", target], broken)
    failed = [step for step in steps if step in broken]
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("== ")] == [
        f"== make {step}" for step in steps
    ]
    assert (done.returncode != 0) == bool(failed)
    assert lines[-1] == f"make {target}: " + (
        "failed: " + " ".join(failed) if failed else "passed: " + " ".join(steps)
    )


@pytest.mark.parametrize(
    ("broken", "last"),
    [
        ([], "184 passed, 0 failed"),
        (["lint"], "184 passed, 1 failed"),
        (["py-test", "guards"], "180 passed, 4 failed"),
        (["serial-test"], "184 passed, 1 failed"),  # a crash after the tests
        (["c-checked"], "184 passed, 1 failed"),
        (list(ALL), "180 passed, 10 failed"),
    ],
    ids=str,
)
def test_continuous_integration_adds_up(tmp_path, broken, last):
    done = run(tmp_path, ["bash", ".ci/run"], broken)
    assert [line for line in done.stdout.splitlines() if line.startswith("== ")] == [
        f"== make {step}" for step in ALL
    ]
    assert done.stdout.splitlines()[-1] == last
    assert (done.returncode != 0) == bool(broken)


def ci_again(folder):
    """Run `.ci/run` in the folder of an earlier run; return its last line and its exit code."""
    done = subprocess.run(
        ["bash", ".ci/run"], cwd=folder, capture_output=True, text=True, timeout=PATIENCE
    )
    return done.stdout.splitlines()[-1], done.returncode


def test_the_rest_waits_for_another_day_when_time_is_up(tmp_path):
    run(tmp_path, ["true"], [])
    script = tmp_path / ".ci/run"
    text = script.read_text(encoding="utf-8")
    assert "\nlimit=1500\n" in text
    script.write_text(text.replace("\nlimit=1500\n", "\nlimit=0\n"), encoding="utf-8")
    assert ci_again(tmp_path) == ("142 passed, 0 failed", 0)


def test_a_makefile_that_cannot_be_read_is_a_failure(tmp_path):
    run(tmp_path, ["true"], [])
    (tmp_path / "GNUmakefile").write_text("nonsense\n", encoding="utf-8")
    last, code = ci_again(tmp_path)
    assert last == "0 passed, 1 failed"
    assert bool(code)
