"""Predicted errors from rows and budget, and the rows or budget that reach an error, without reading data."""

from fastpubpriv.planning.orders import OrderBounds, condition_two, mixture_needs, order_bounds
from fastpubpriv.planning.solve import TASKS, Plan, plan, task_arguments

__all__ = [
    "TASKS",
    "OrderBounds",
    "Plan",
    "condition_two",
    "mixture_needs",
    "order_bounds",
    "plan",
    "task_arguments",
]


def __dir__() -> list[str]:
    return __all__
