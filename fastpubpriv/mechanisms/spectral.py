"""Logarithms of small symmetric matrices to 60 digits, so that their rounding error is far below a grid step.

Doubles would be enough for a well-conditioned matrix; a proof that covers every private data set needs more digits.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction

from fastpubpriv._types import FloatArray

SymmetricMatrix = list[list[Fraction]]
DecimalMatrix = list[list[Decimal]]

DIGITS = 60
LOG_CAP = 64
_SWEEPS = 40


def congruence(left: FloatArray, matrix: SymmetricMatrix) -> SymmetricMatrix:
    """The product left matrix left^T, exact."""
    rows = [[Fraction(float(entry)) for entry in row] for row in left]
    half = [[_dot(row, column) for column in matrix] for row in rows]  # symmetric: its rows are its columns
    return [[_dot(one, other) for other in rows] for one in half]


def _dot(one: list[Fraction], other: list[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(one, other, strict=True)), Fraction(0))


def logarithm(matrix: SymmetricMatrix, unit: float) -> list[list[int]]:
    """Matrix logarithm of a positive definite matrix in whole units, its eigenvalues first cut to [-LOG_CAP, LOG_CAP]."""
    dim = len(matrix)
    with localcontext(Context(prec=DIGITS, Emin=-999999, Emax=999999)):
        values, vectors = _jacobi([[Decimal(x.numerator) / Decimal(x.denominator) for x in row] for row in matrix])
        cap = Decimal(LOG_CAP)
        tiny = (-2 * cap).exp()
        logs = [max(-cap, min(cap, max(value, tiny).ln())) / Decimal(unit) for value in values]
        out = [[0] * dim for _ in range(dim)]
        for i in range(dim):
            for j in range(i + 1):
                entry = sum((vectors[i][k] * vectors[j][k] * logs[k] for k in range(dim)), Decimal(0))
                out[i][j] = out[j][i] = int(entry.to_integral_value())
        return out


def _jacobi(a: DecimalMatrix) -> tuple[list[Decimal], DecimalMatrix]:
    """Eigenvalues and eigenvectors (columns) by cyclic rotations; converges quadratically."""
    dim = len(a)
    vectors = [[Decimal(int(i == j)) for j in range(dim)] for i in range(dim)]
    for _ in range(_SWEEPS):
        diagonal = sum((abs(a[i][i]) for i in range(dim)), Decimal(0))
        off = sum((abs(a[i][j]) for i in range(dim) for j in range(i)), Decimal(0))
        if off <= diagonal.scaleb(10 - 2 * DIGITS):
            break
        for p in range(dim - 1):
            for q in range(p + 1, dim):
                if a[p][q] == 0:
                    continue
                ratio = (a[q][q] - a[p][p]) / (2 * a[p][q])
                sign = Decimal(1) if ratio >= 0 else Decimal(-1)
                t = sign / (abs(ratio) + (ratio * ratio + 1).sqrt())
                c = 1 / (t * t + 1).sqrt()
                s = t * c
                for k in range(dim):
                    a[k][p], a[k][q] = c * a[k][p] - s * a[k][q], s * a[k][p] + c * a[k][q]
                for k in range(dim):
                    a[p][k], a[q][k] = c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]
                    vectors[k][p], vectors[k][q] = (
                        c * vectors[k][p] - s * vectors[k][q],
                        s * vectors[k][p] + c * vectors[k][q],
                    )
                a[p][q] = a[q][p] = Decimal(0)
    return [a[i][i] for i in range(dim)], vectors
