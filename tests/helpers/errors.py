"""Assertions on errors, and names of the cases of a test."""

import re

import pytest


def raises(kind, words, function, /, *arguments, **options):
    """Return the error that a call raises; it must have this type and match these words (a pattern), if given."""
    with pytest.raises(kind, match=words) as caught:
        function(*arguments, **options)
    return caught.value


def shown(value, longest=40):
    """Return the repr without addresses of objects, which differ between parallel test processes."""
    return re.sub(r" at 0x[0-9a-fA-F]*", "", ascii(value))[:longest]
