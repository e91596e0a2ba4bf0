"""The files of a package release are consistent: versions, dependencies, and the tested Pythons and architectures."""

import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

import fastpubpriv
from fastpubpriv.cli import main

ROOT = Path(__file__).resolve().parent.parent


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def project() -> dict[str, object]:
    return tomllib.loads(text("pyproject.toml"))["project"]


def version_in(name: str, pattern: str) -> str:
    found = re.findall(pattern, text(name), flags=re.MULTILINE)
    assert len(found) == 1, name
    return found[0]


def test_one_version_and_citation():
    assert project()["version"] == fastpubpriv.__version__
    assert version_in("CITATION.cff", r"^version: (.+)$") == fastpubpriv.__version__
    assert version_in("conda/meta.yaml", r'set version = "(.+)"') == fastpubpriv.__version__
    assert version_in("csrc/Makefile", r"^VERSION := (\S+)$") == fastpubpriv.__version__
    assert version_in("CITATION.cff", r"^license: (.+)$") == project()["license"]
    listed = text("CITATION.cff").split("keywords:\n")[1].split("references:")[0]
    assert re.findall(r"- (.+)", listed) == project()["keywords"]


def recipe_part(name: str) -> list[str]:
    """Return the entries of a list of the conda recipe."""
    body = re.search(rf"(?m)^ +{name}:\n((?: +- .+\n)+)", text("conda/meta.yaml"))[1]
    return [line.split("- ", 1)[1] for line in body.splitlines()]


def test_workflows_try_three_pythons_and_two_architectures():
    workflow = text(".github/workflows/tests.yml")
    pythons = re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.+)\]", workflow)[1])
    assert len(pythons) == 3
    assert project()["requires-python"] == f">={pythons[0]}"
    machines = re.search(r"machine: \[(.+)\]", workflow)[1].split(", ")
    assert sorted(machine.endswith("-arm") for machine in machines) == [False, True]


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def test_actions_of_workflows_are_pinned_by_hash():
    used = [each for path in WORKFLOWS for each in re.findall(r"uses: (\S+)", path.read_text())]
    assert used
    unpinned = [each for each in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", each)]
    assert not unpinned


def commit_rule():
    spec = importlib.util.spec_from_file_location("commits", ROOT / ".ci/commits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("Say why\n\nBecause nobody knew.", None),
        ("x" * 72 + "\n\nBecause.", None),
        ("x" * 73 + "\n\nBecause.", "73 characters"),
        ("Say why.\n\nBecause.", "period"),
        ("Say why", "no body"),
        ("Say why\nBecause.", "no empty line"),
    ],
)
def test_messages_of_commits(message, fault):
    found = commit_rule().faults(message)
    assert found == [] if fault is None else [each for each in found if fault in each], found


def test_messages_are_read_from_git(monkeypatch):
    log = "abc\nOne\n\nWhy.\n\0\ndef\nTwo\n\0"
    done = subprocess.CompletedProcess([], 0, stdout=log)
    rule = commit_rule()
    monkeypatch.setattr(rule.subprocess, "run", lambda *_, **__: done)
    monkeypatch.setattr(rule.sys, "argv", ["commits.py", "a..b"])
    assert rule.messages("a..b") == {"abc": "One\n\nWhy.", "def": "Two"}
    assert rule.main() == 1


def test_the_lowest_versions_are_those_of_the_project():
    """Each requirement of the package is pinned to its bound, except where the tests need a newer one."""
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci/lowest.py"), "test"],
        capture_output=True,
        text=True,
        check=True,
    )
    pins = dict(line.split("==") for line in done.stdout.splitlines())
    bounds = dict(each.split(">=") for each in project()["dependencies"])
    assert {name: pins[name] for name in bounds if name != "click"} == {
        name: bound for name, bound in bounds.items() if name != "click"
    }
    assert pins["click"] == "8.5"


def test_conda_builds_and_asks_as_pip_does():
    """The recipe lists all requirements of the build system, as a build downloads nothing, and runs the same command."""
    built = tomllib.loads(text("pyproject.toml"))["build-system"]["requires"]
    host = [line.replace(" ", "") for line in recipe_part("host")]
    assert set(host) == {"python>=3.11", "pip", *built}
    assert recipe_part("build") == ["{{ compiler('c') }}"]
    script = version_in("conda/meta.yaml", r"^  script: \{\{ PYTHON \}\} (.+)$")
    assert script == "-m pip install . -vv --no-deps --no-build-isolation"
    assert recipe_part("entry_points") == [
        " = ".join(each) for each in project()["scripts"].items()
    ]
    recipe = {line.replace(" ", "") for line in recipe_part("run")}
    assert recipe == {*project()["dependencies"], f"python{project()['requires-python']}"}


def test_what_conda_tries_works():
    for command in recipe_part("commands"):
        program, *words = shlex.split(command)
        if program == "python":
            exec(compile(words[-1], command, "exec"), {})  # our own text
        else:
            assert program in project()["scripts"]
            assert CliRunner().invoke(main, words).exit_code == 0, command


def unknown_steps(workflow: str) -> list[str]:
    """Return steps of a workflow that call neither a Makefile target nor an existing script, or upload files that none makes."""
    makefile = text("Makefile")
    targets = set(re.findall(r"(?m)^([a-z-]+):", makefile))
    wrong = []
    for step in re.findall(r"(?m)^ +- run: (.+)$", workflow):
        words = shlex.split(step)
        is_file = (ROOT / words[1]).is_file()
        known = {"make": words[1] in targets, "bash": is_file, "python3.11": is_file}
        # The one package that a workflow installs itself, and its module.
        known["python"] = step.startswith(
            ("python -m pip install cibuildwheel==", "python -m cibuildwheel ")
        )
        wrong += [] if known.get(words[0], False) else [step]
    for path in re.findall(r"(?m)^ +path: (.+)$", workflow):
        # cibuildwheel makes its own folder.
        wrong += (
            [] if path.removesuffix("/*") in makefile or path.startswith("wheelhouse/") else [path]
        )
    return wrong


@pytest.mark.parametrize("name", [path.stem for path in WORKFLOWS])
def test_workflows_call_what_is_there(name):
    workflow = text(f".github/workflows/{name}.yml")
    assert unknown_steps(workflow) == []
    assert re.findall(r"(?m)^ +- run: .+$", workflow)
    assert workflow.count("persist-credentials: false") == workflow.count("actions/checkout@")


def test_steps_that_lead_nowhere_are_noticed():
    workflow = "      - run: make nothing\n      - run: bash .ci/run\n      - run: sh x\n          path: elsewhere/*\n"
    assert unknown_steps(workflow) == ["make nothing", "sh x", "elsewhere/*"]


def test_a_missing_compiler_is_one_sentence(tmp_path):
    command = [
        sys.executable,
        "setup.py",
        "-q",
        "build_ext",
        "--build-temp",
        tmp_path,
        "--build-lib",
        tmp_path,
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"CC": "absent-cc"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (
        done.stderr.strip()
        .splitlines()[-1]
        .startswith("fastpubpriv needs a C compiler and 'absent-cc' was not found")
    )
    assert "Traceback" not in done.stderr


def test_an_archive_says_nothing_of_when_and_where_it_was_made(tmp_path):
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    release = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(release)
    made = []
    for name, owner, order in (("one", "ann", 1), ("other", "ben", -1)):
        path = tmp_path / f"{name}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for number, member in enumerate(("p/a.py", "p/b.py")[::order]):
                entry = tarfile.TarInfo(member)
                entry.uname = owner
                entry.mtime = number + 7
                entry.size = 4
                archive.addfile(entry, io.BytesIO(member[2:].encode()))
        before = path.read_bytes()
        release.normalize(path, 1_700_000_000)
        assert path.read_bytes() != before
        made.append(path)
    assert release.digest(made[0]) == release.digest(made[1])
    with tarfile.open(made[0]) as archive:
        assert archive.extractfile("p/b.py").read() == b"b.py"
