"""Arguments that a call refuses, one case a line: the words of the error, then what is passed."""


class Refusals(list):
    """Rows of a parametrized test: what stands before the arguments, the arguments by name, and a pattern of the error's words."""

    def add(self, words, /, *before, **given):
        """Add a row: `add(words, method, steps=0)` is a call of that method with `steps=0`, refused in these words."""
        self.append((*before, given, words))
