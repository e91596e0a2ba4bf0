"""Calls that must end in an error."""

import pytest


def raises(kind, words, function, /, *arguments, **options):
    """The error of this kind, with these words (a pattern) if there are any, that the call ends in."""
    with pytest.raises(kind, match=words) as caught:
        function(*arguments, **options)
    return caught.value
