"""`make test` and `.ci/run` with steps that only pretend: every one of them runs, and the failures are added up."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from clocks import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
STEPS = ("lint", "c-test", "py-test", "serial-test", "guards")
# What a step prints before it ends well, or not.
GOOD = {
    "lint": "All checks passed!",
    "c-test": "fine",
    "py-test": "120 passed, 3 deselected in 61.20s (0:01:01)",
    "serial-test": "7 passed in 1.50s",
    "guards": "22 passed in 50.00s",
}
BAD = GOOD | {"py-test": "2 failed, 117 passed, 1 error in 61.20s (0:01:01)", "guards": "1 failed, 21 passed in 50.00s"}

pytestmark = pytest.mark.skipif(not shutil.which("make") or not shutil.which("bash"), reason="needs make and bash")


def run(folder, command, broken):
    """Run a command in a copy of the project's Makefile whose steps are played."""
    shutil.copy(ROOT / "Makefile", folder)
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", folder / ".ci")
    played = "".join(
        f"{step}:\n\t@echo '{(BAD if step in broken else GOOD)[step]}'; exit {int(step in broken)}\n" for step in STEPS
    )
    (folder / "csrc").mkdir()
    for needed in ("pyproject.toml", "setup.py", "csrc/build_ffi.py"):
        (folder / needed).touch()
    # GNU make takes this file before `Makefile`, and its rules replace those included.
    (folder / "GNUmakefile").write_text(
        f"include Makefile\n$(STAMP)-venv $(STAMP)-test $(STAMP)-extension: ;\n{played}", encoding="utf-8"
    )
    outer = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(command, cwd=folder, env=outer, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize("broken", [[], ["lint"], ["c-test", "py-test"], list(STEPS)], ids=str)
def test_every_step_runs_and_what_failed_is_listed(tmp_path, broken):
    done = run(tmp_path, ["make", "test"], broken)
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("== ")] == [f"== make {step}" for step in STEPS]
    assert (done.returncode != 0) == bool(broken)
    assert lines[-1] == "make test: " + ("failed: " + " ".join(broken) if broken else "passed: " + " ".join(STEPS))


@pytest.mark.parametrize(
    ("broken", "last"),
    [
        ([], "149 passed, 0 failed"),
        (["lint"], "149 passed, 1 failed"),
        (["py-test", "guards"], "145 passed, 4 failed"),
        (["serial-test"], "149 passed, 1 failed"),  # a crash after the tests
        (list(STEPS), "145 passed, 7 failed"),
    ],
    ids=str,
)
def test_continuous_integration_adds_up(tmp_path, broken, last):
    done = run(tmp_path, ["bash", ".ci/run"], broken)
    assert done.stdout.splitlines()[-1] == last
    assert (done.returncode != 0) == bool(broken)


def test_a_makefile_that_cannot_be_read_is_a_failure(tmp_path):
    run(tmp_path, ["true"], [])
    (tmp_path / "GNUmakefile").write_text("nonsense\n", encoding="utf-8")
    done = subprocess.run(["bash", ".ci/run"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed"
    assert done.returncode != 0
