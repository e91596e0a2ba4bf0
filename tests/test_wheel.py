"""The source archive contains all files to build the wheel, and the wheel all files to run."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NEEDED_TO_BUILD = (
    "pyproject.toml",
    "setup.py",
    "LICENSE",
    "csrc/fpp.h",
    "csrc/sampler_tables.h",
    "csrc/build_ffi.py",
)
NEEDED_TO_RUN = (
    "fastpubpriv/py.typed",
    "fastpubpriv/mechanisms/notes/release.md",
    "fastpubpriv/kernels/_cext.pyi",
)

pytestmark = [
    pytest.mark.serial,
    pytest.mark.fresh_keys(
        "in the wheel's own environment; the answer may be some thirty deviations off"
    ),
]
# Figures of papers, demonstrations and twins of kernels are in the source archive only.
NO_LIBRARY = {
    "experiments",
    "papers",
    "demo",
    "reference",
    "twins",
    "tests",
    "benchmarks",
    "examples",
    "csrc",
}


def run(*command: object, cwd: Path) -> str:
    # These two variables would show the tree, or settings of this interpreter, to the child.
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "PYTHONHOME"}
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def missing(names: list[str], needed: tuple[str, ...]) -> list[str]:
    return [
        name
        for name in needed
        if not any(name == found or found.endswith("/" + name) for found in names)
    ]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the archive built from the tree, and the wheel built from the archive, so that no other file of the tree is used."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (archive,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    return {"archive": archive, "wheel": wheel}


def test_archive_and_wheel_are_complete(built):
    with tarfile.open(built["archive"]) as archive:
        names = archive.getnames()
    tables = [f"csrc/{path.name}" for path in (ROOT / "csrc").glob("*.[ch]")]
    assert len(tables) >= 10
    assert missing(names, (*NEEDED_TO_BUILD, *tables)) == []
    assert not [name for name in names if name.endswith((".so", ".o", "_cext.c"))]
    assert not [name for name in names if "/corpus/" in name]
    assert "-cp311-abi3-" in built["wheel"].name  # one wheel for every Python
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = wheel.namelist()
        extensions = [each for each in wheel.infolist() if each.filename.endswith(".so")]
    assert missing(names, NEEDED_TO_RUN) == []
    # 4.6 MB with debug information
    assert [each.file_size < 1_500_000 for each in extensions] == [True]
    assert missing(["fastpubpriv-0.1.0/setup.py"], ("setup.py", "csrc/fpp.h")) == ["csrc/fpp.h"]
    assert any(
        name.startswith("fastpubpriv/kernels/_cext.") and name.endswith(".so") for name in names
    )
    homes = {name.split("/")[0] for name in names}
    assert {home.split("-")[0] for home in homes} == {"fastpubpriv"}
    assert sum(home.endswith(".dist-info") for home in homes) == len(homes) - 1
    assert [name for name in names if NO_LIBRARY & set(name.split("/"))] == []


def test_wheel_works_outside_the_tree(built, tmp_path):
    home = tmp_path / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    place = Path(
        run(
            python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path
        ).strip()
    )
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        place,
        built["wheel"],
        cwd=tmp_path,
    )
    # The dependencies come from this environment by a path on which .pth files are not read, so
    # an editable installation of the tree is not visible.
    (place / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    assert "works from fastpubpriv" in run(python, "-I", ROOT / "tests" / "smoke.py", cwd=tmp_path)
    # The same without the text of the sources.
    run(python, "-m", "compileall", "-b", "-q", place / "fastpubpriv", cwd=tmp_path)
    for source in (place / "fastpubpriv").rglob("*.py"):
        source.unlink()
    assert "works from fastpubpriv" in run(python, "-I", ROOT / "tests" / "smoke.py", cwd=tmp_path)
