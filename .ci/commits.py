"""`python .ci/commits.py RANGE`: whether each commit of a range of git has a short subject and a body that says why."""

from __future__ import annotations

import subprocess
import sys

LONGEST_SUBJECT = 72


def faults(message: str) -> list[str]:
    """Return what is wrong with the message of a commit."""
    subject, _, rest = message.strip().partition("\n")
    found = []
    if len(subject) > LONGEST_SUBJECT:
        found.append(f"the subject has {len(subject)} characters; at most {LONGEST_SUBJECT}")
    if subject.endswith("."):
        found.append("the subject ends in a period")
    if not rest.strip():
        found.append("there is no body; say why in it")
    elif not rest.startswith("\n"):
        found.append("there is no empty line below the subject")
    return found


def messages(commits: str) -> dict[str, str]:
    """Return the messages of the commits of a range but for merges, by their short hashes."""
    command = ["git", "log", "--no-merges", "--format=%h%n%B%x00", commits]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {}
    for each in done.stdout.split("\0"):
        name, _, message = each.strip().partition("\n")
        if name:
            found[name] = message
    return found


def main() -> int:
    """Print what is wrong, and return 1 if anything is."""
    bad = 0
    for name, message in messages(sys.argv[1]).items():
        for fault in faults(message):
            sys.stdout.write(f"{name}: {fault}: {message.splitlines()[0]}\n")
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
