"""What a call refuses, one case a line: the words of the error, then what is passed."""


class Refusals(list):
    """Rows of a parametrized test, each of which ends with a pattern of the words of an error."""

    def add(self, words, /, *before, **given):
        """Add a row of arguments by name: `add(words, method, steps=0)` is a call of that method with `steps=0`."""
        self.append((*before, given, words))

    def add_values(self, words, /, *values):
        """Add a row for each of some values that are refused in the same words."""
        self.extend((value, words) for value in values)
