"""Builds the source archive and the wheel; with --twice once more elsewhere, to see that both are the same to the last bit.

The wheel is built from the archive, so that nothing comes from the tree by accident. Times are those of the last commit (or of
SOURCE_DATE_EPOCH), and the folder of the build is not written into the extension.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", "*.so", "*.o", "_cext.c", "_build", ".*_cache",
    ".hypothesis", ".benchmarks", "out", "demo-out",
)  # fmt: skip


def run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Run a command; show what it said only if it fails."""
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def commit_time() -> str:
    """Seconds since 1970 that stand for the time of the build."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return given
    asked = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            "this is no git checkout: set SOURCE_DATE_EPOCH to the time of the release"
        )
    return done.stdout.strip()


def normalize(archive: Path, epoch: int) -> None:
    """Write an archive again: sorted, with one time, one owner and two kinds of permissions."""
    with tarfile.open(archive) as old:
        members = sorted(old.getmembers(), key=lambda member: member.name)
        contents = {
            member.name: old.extractfile(member).read() for member in members if member.isfile()
        }  # type: ignore[union-attr]
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in members:
            plain = tarfile.TarInfo(member.name)
            plain.type, plain.mtime = member.type, epoch
            plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            body = contents.get(member.name, b"")
            plain.size = len(body)
            new.addfile(plain, io.BytesIO(body))


def build(snapshot: Path, work: Path, epoch: str, isolated: bool, **changes: str) -> list[Path]:
    """The archive and the wheel of a copy of the tree, built below `work`."""
    tree, out = work / "tree", work / "dist"
    shutil.copytree(snapshot, tree)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "PYTHONHOME"}
    }
    environment |= {"SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": "0", **changes}
    builder = [
        sys.executable,
        "-m",
        "build",
        *([] if isolated else ["--no-isolation"]),
        "--outdir",
        str(out),
    ]
    run([*builder, "--sdist", str(tree)], work, environment)
    (archive,) = out.glob("*.tar.gz")
    normalize(archive, int(epoch))
    with tarfile.open(archive) as packed:
        packed.extractall(work, filter="data")
    source = work / archive.name.removesuffix(".tar.gz")
    environment["CFLAGS"] = f"{os.environ.get('CFLAGS', '')} -ffile-prefix-map={source}=.".strip()
    run([*builder, "--wheel", str(source)], work, environment)
    (wheel,) = out.glob("*.whl")
    return [archive, wheel]


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    """Build, compare, and put both files into the folder that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outdir", type=Path, default=ROOT / "dist")
    parser.add_argument(
        "--twice",
        action="store_true",
        help="build again in another folder, time zone and language, and compare",
    )
    parser.add_argument("--no-isolation", action="store_true", help="build with what is installed")
    options = parser.parse_args()
    options.outdir.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as first,
        tempfile.TemporaryDirectory(prefix="a-longer-name-") as second,
    ):
        # Taken once, as somebody may be editing the tree, or committing.
        snapshot, epoch = Path(first) / "snapshot", commit_time()
        shutil.copytree(ROOT, snapshot, ignore=LEFT_OUT)
        made = build(snapshot, Path(first), epoch, not options.no_isolation)
        if options.twice:
            again = build(
                snapshot,
                Path(second),
                epoch,
                not options.no_isolation,
                TZ="Asia/Kathmandu",
                LC_ALL="C",
            )
            for one, other in zip(made, again, strict=True):
                if digest(one) != digest(other):
                    raise SystemExit(
                        f"{one.name}: two builds differ, {digest(one)} and {digest(other)}"
                    )
        for path in made:
            shutil.copy(path, options.outdir)
            print(digest(path), "", path.name, "(twice the same)" if options.twice else "")  # noqa: T201


if __name__ == "__main__":
    main()
