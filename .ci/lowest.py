"""Requirements with each lower bound of pyproject.toml as the version, for `make lowest`: one line for each package."""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def requirements(project: dict, extra: str) -> list[str]:
    """Return the requirements of the project with an extra, and of the extras that this one names."""
    found = list(project["dependencies"])
    for requirement in project["optional-dependencies"][extra]:
        own = re.fullmatch(rf"{project['name']}\[(.+)\]", requirement)
        if own is None:
            found.append(requirement)
            continue
        for other in own[1].split(","):
            found.extend(requirements(project, other))
    return list(dict.fromkeys(found))


def pinned(requirement: str) -> str:
    """Return a requirement `name>=version` or `name>=version,<other` as `name==version`."""
    parts = re.fullmatch(r"([\w.-]+(?:\[[\w,-]+\])?)>=([\d.]+)(?:,<[\d.]+)?", requirement)
    if parts is None:
        raise SystemExit(f"{requirement!r} has no lower bound: write name>=version")
    return f"{parts[1]}=={parts[2]}"


def main() -> None:
    """Print the requirements of the project with the extra that is named on the command line."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    found: dict[str, str] = {}
    for each in map(pinned, requirements(project, sys.argv[1])):
        name, _, version = each.partition("==")
        # The tests may need more than the package.
        found[name] = max(
            found.get(name, version),
            version,
            key=lambda text: [int(part) for part in text.split(".")],
        )
    sys.stdout.writelines(f"{name}=={version}\n" for name, version in found.items())


if __name__ == "__main__":
    main()
