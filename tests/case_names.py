"""Names of the cases of a test."""

import re

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]*")


def shown(value, longest=40):
    """Return the repr without addresses of objects, which differ between parallel test processes."""
    return ADDRESS.sub("", ascii(value))[:longest]
