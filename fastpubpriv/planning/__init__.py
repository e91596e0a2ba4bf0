"""Predicted errors from rows and budget, and the rows or budget that reach an error, without reading data."""

from fastpubpriv.planning.orders import OrderBounds, order_bounds
from fastpubpriv.planning.plans import Plan
from fastpubpriv.planning.solve import plan
from fastpubpriv.planning.tasks import TASKS, task_arguments

__all__ = [
    "TASKS",
    "OrderBounds",
    "Plan",
    "order_bounds",
    "plan",
    "task_arguments",
]


def __dir__() -> list[str]:
    return __all__
