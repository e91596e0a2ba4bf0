"""The local model: every user randomizes a row before it leaves the device, and a server learns from the reports.

`PrivUnit` (the least error), `PrivUnitG` and `Duchi` draw reports, which are sent as bytes. `Aggregator` sums up millions of them.
`estimate_mean` combines them with public rows, `mean_error` predicts its error, `train` learns from gradients that users report.
"""

from fastpubpriv.local.aggregate import Aggregator, ReportSum
from fastpubpriv.local.families import Duchi, PrivUnit, PrivUnitG, SubsetSelection
from fastpubpriv.local.local_training import LocalTrainingResult, train
from fastpubpriv.local.means import LocalError, estimate_mean, mean_error
from fastpubpriv.local.parameters import Cap
from fastpubpriv.local.randomizers import Randomizer, Reports
from fastpubpriv.rowwise.losses import LOSSES, Loss, RowLoss

__all__ = [
    "LOSSES",
    "Aggregator",
    "Cap",
    "Duchi",
    "LocalError",
    "LocalTrainingResult",
    "Loss",
    "PrivUnit",
    "PrivUnitG",
    "Randomizer",
    "ReportSum",
    "Reports",
    "RowLoss",
    "SubsetSelection",
    "estimate_mean",
    "mean_error",
    "train",
]


def __dir__() -> list[str]:
    return __all__
