"""Assertions on errors."""

import pytest


def raises(kind, words, function, /, *arguments, **options):
    """Return the error that a call raises; it must have this type and match these words (a pattern), if given."""
    with pytest.raises(kind, match=words) as caught:
        function(*arguments, **options)
    return caught.value
