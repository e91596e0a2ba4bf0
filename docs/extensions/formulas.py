"""Convert formulas of the privacy notes from plain text in backticks to LaTeX; text that may not be a formula stays code."""

from __future__ import annotations

import re


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


GREEK = {
    name: f"\\{name}"
    for name in words("alpha beta gamma delta zeta eta theta lambda mu rho sigma tau Gamma Sigma")
}
GREEK["epsilon"] = r"\varepsilon"
FUNCTIONS = {name: f"\\{name} " for name in words("exp log ln max min sinh cosh tanh")}
FUNCTIONS |= {
    name: rf"\mathrm{{{name}}}\,"
    for name in words("isqrt floor ceil clip round asinh tr cut sign diag rank")
}
FUNCTIONS |= {
    "log2": r"\log_2 ",
    "sum": r"\sum ",
    "prod": r"\prod ",
    "integral": r"\int ",
    "infinity": r"\infty ",
}
FUNCTIONS |= {"l2": r"\ell_2 ", "grad": r"\nabla ", "mod": r"\bmod "}
# Variables named by a word; such a word alone is code.
VARIABLES = set(
    words(
        "slope rate radius noise step steps margin curvature spread start width lower upper middle dim dt batch"
    )
)
LABELS = {"max", "min", "priv", "pub"}  # as subscripts
WORDS = set(
    words(
        "over of rows in for each every and at most least to or if all row than cells bins otherwise dy"
    )
)
SIGNS = {
    "<=": r"\le ", ">=": r"\ge ", "->": r"\to ", ">>": r"\gg ", "||": r"\Vert ", "!=": r"\ne ", "|": r"\vert ", "*": r"\cdot ",
    "#": r"\#", "~": r"\sim ", "{": r"\{", "}": r"\}", ".": r"\cdot ", "...": r"\ldots ",
}  # fmt: skip
TOKEN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<name>[A-Za-z]+2?(?![A-Za-z]))|(?P<sign><=|>=|->|>>|!=|\|\||\.\.\.|[-+*/=<>|(),;:\[\]{}.#~'^_])|\s+"
)
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
FENCE = re.compile(r"(?ms)^(```.*?^```$)")


# A dotted or underscored name, or an option: `a.bc`, `max_depth`, `_coded`, `pad=`.
CODE_SIGNS = re.compile(
    r"[A-Za-z]\w*\.[A-Za-z]{2}|(?!(?:Gamma|max|min|sum|prod|rho)_)\b[A-Za-z]{2,}_[A-Za-z]{2,}|^_|[A-Za-z]="
)


class NotAFormulaError(Exception):
    """A text contains code."""


class Reader:
    """Parser of a formula, from left to right."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text):
            match = TOKEN.match(text, position)
            if match is None:
                raise NotAFormulaError
            if match.lastgroup:
                self.tokens.append((match.lastgroup, match.group()))
            position = match.end()

    def next_is(self, *signs: str) -> bool:
        """Return whether the next token is one of these signs."""
        return bool(self.tokens) and self.tokens[0][0] == "sign" and self.tokens[0][1] in signs

    def take(self) -> tuple[str, str]:
        """Consume and return the next token."""
        if not self.tokens:
            raise NotAFormulaError
        return self.tokens.pop(0)

    def until(self, closing: str | None) -> str:
        """Convert everything up to a closing sign, which is consumed too, or up to the end."""
        parts = []
        while self.tokens:
            if closing is not None and self.next_is(closing):
                self.take()
                return "".join(parts)
            parts.append(self.piece())
        if closing is not None:
            raise NotAFormulaError
        return "".join(parts)

    def piece(self) -> str:
        """Convert one token and the tokens that belong to it."""
        kind, text = self.take()
        if kind == "number":
            mantissa, _, power = text.partition("e")
            return rf"{mantissa}\cdot 10^{{{power}}}" if power else f"{text} "
        if kind == "name":
            return self.name(text)
        if text in "^_":
            return f"{text}{{{self.script(raised=text == '^')}}}"
        if text == "(":
            return f"({self.until(')')})"
        if text == "'":
            return "'"
        return SIGNS.get(text, text)

    def name(self, text: str) -> str:
        """Convert a letter, a Greek letter, a function or a word."""
        if text == "sqrt" and self.next_is("("):
            self.take()
            return rf"\sqrt{{{self.until(')')}}}\,"
        if text in FUNCTIONS:
            return FUNCTIONS[text]
        if text in GREEK:
            return f"{GREEK[text]} "
        if len(text) == 1:
            return f"{text} "
        if text in VARIABLES:
            return rf"\mathit{{{text}}}\,"
        if text in WORDS:
            return rf"\;\text{{{text}}}\;"
        raise NotAFormulaError

    def script(self, *, raised: bool) -> str:
        """Convert a superscript or subscript: a group, or one token with its sign; `-1/2` is one token."""
        for opening, closing in (("(", ")"), ("{", "}")):
            if self.next_is(opening):
                self.take()
                return self.until(closing)
        sign = self.take()[1] if self.next_is("-") and raised else ""
        kind, text = self.take()
        if kind == "sign" and text not in "*":
            raise NotAFormulaError
        if kind == "name" and text in GREEK:
            text = GREEK[text]
        elif kind == "name" and len(text) > 2:
            if text not in LABELS:
                raise NotAFormulaError
            text = rf"\mathrm{{{text}}}"
        whole = sign + text
        if (
            raised
            and kind == "number"
            and self.next_is("/")
            and len(self.tokens) > 1
            and self.tokens[1][0] == "number"
            and sign
        ):
            whole += self.take()[1] + self.take()[1]
        return whole


def to_latex(text: str) -> str | None:
    """Return the formula in LaTeX, or None if it may be code."""
    if text in VARIABLES or "()" in text or CODE_SIGNS.search(text):
        return None
    try:
        return Reader(text).until(None).strip()
    except NotAFormulaError:
        return None


def convert(note: str) -> str:
    """Return the note with its formulas in LaTeX."""

    def replaced(match: re.Match[str]) -> str:
        latex = to_latex(" ".join(match[1].split()))
        return match[0] if latex is None else f"${latex}$"

    parts = FENCE.split(note)
    return "".join(part if part.startswith("```") else CODE.sub(replaced, part) for part in parts)
