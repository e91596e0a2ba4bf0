"""Linear and logistic models from private and public rows: losses, methods of training and their settings.

`fastpubpriv.train` takes these as `loss=` and `method=`.
"""

from fastpubpriv.gradient.gradient_problem import (
    DPSGD,
    Ball,
    Box,
    Descent,
    MirrorDescent,
    SemiDP,
)
from fastpubpriv.gradient.single_releases import Exponential, OutputPerturbation
from fastpubpriv.rowwise.losses import LOSSES, Loss, RowLoss, huber_loss

__all__ = [
    "DPSGD",
    "LOSSES",
    "Ball",
    "Box",
    "Descent",
    "Exponential",
    "Loss",
    "MirrorDescent",
    "OutputPerturbation",
    "RowLoss",
    "SemiDP",
    "huber_loss",
]


def __dir__() -> list[str]:
    return __all__
