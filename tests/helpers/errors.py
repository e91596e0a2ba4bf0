"""Calls that must end in an error."""

import pytest


def raises(kind, words, function, /, *arguments, **options):
    """The call ends in an error of this kind, with these words (a pattern) if there are any."""
    with pytest.raises(kind, match=words):
        function(*arguments, **options)
