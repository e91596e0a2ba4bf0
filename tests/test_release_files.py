"""What a release is made from agrees with itself: versions, dependencies, and the Pythons and architectures that are tried."""

from __future__ import annotations

import importlib.util
import io
import re
import tarfile
import tomllib
from pathlib import Path

import fastpubpriv

ROOT = Path(__file__).resolve().parent.parent


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def project() -> dict[str, object]:
    return tomllib.loads(text("pyproject.toml"))["project"]


def version_in(name: str, pattern: str) -> str:
    found = re.findall(pattern, text(name), flags=re.MULTILINE)
    assert len(found) == 1, name
    return found[0]


def test_one_version():
    assert project()["version"] == fastpubpriv.__version__
    assert version_in("CITATION.cff", r"^version: (.+)$") == fastpubpriv.__version__
    assert version_in("conda/meta.yaml", r'set version = "(.+)"') == fastpubpriv.__version__


def test_conda_asks_for_what_pip_asks_for():
    run = text("conda/meta.yaml").split("  run:\n")[1].split("\n\n")[0]
    recipe = {re.sub(r"^\s+- (\S+) (\S+)$", r"\1\2", line) for line in run.splitlines()}
    assert recipe == {*project()["dependencies"], f"python{project()['requires-python']}"}


def test_workflows_try_three_pythons_and_two_architectures():
    workflow = text(".github/workflows/tests.yml")
    pythons = re.findall(r'"(3\.\d+)"', workflow)
    assert len(pythons) == 3
    assert project()["requires-python"] == f">={pythons[0]}"
    machines = re.search(r"machine: \[(.+)\]", workflow)[1].split(", ")
    assert sorted(machine.endswith("-arm") for machine in machines) == [False, True]


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
                entry.uname, entry.mtime, entry.size = owner, number + 7, 4
                archive.addfile(entry, io.BytesIO(member[2:].encode()))
        before = path.read_bytes()
        release.normalise(path, 1_700_000_000)
        assert path.read_bytes() != before
        made.append(path)
    assert release.digest(made[0]) == release.digest(made[1])
    with tarfile.open(made[0]) as archive:
        assert archive.extractfile("p/b.py").read() == b"b.py"
