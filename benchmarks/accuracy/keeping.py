"""Tasks on one or several processes, whose results are appended to a file, so that an interrupted run can be resumed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Task:
    """A call that can be pickled, and a key that identifies everything its result depends on."""

    key: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __call__(self) -> Any:
        """Make the call."""
        return self.function(*self.arguments)


def read(path: Path) -> dict[str, Any]:
    """Return the results of a file by their keys; an incomplete last line is ignored."""
    found: dict[str, Any] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            item = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[item["key"]] = item["result"]
    return found


def results(tasks: Sequence[Task], *, processes: int = 1, keep: Path | None = None) -> list[Any]:
    """Return results in the order of the tasks; those in the file `keep` are not computed again, others are appended to it."""
    found = {} if keep is None else read(keep)

    def take(task: Task, result: Any) -> None:
        found[task.key] = result
        if keep is not None:
            with keep.open("a", encoding="utf-8") as lines:
                lines.write("\n" + json.dumps({"key": task.key, "result": result}, default=float))

    missing = [task for task in tasks if task.key not in found]
    if processes == 1:
        for task in missing:
            take(task, task())
    else:
        with ProcessPoolExecutor(processes) as pool:
            running = {pool.submit(task): task for task in missing}
            for done in as_completed(running):
                take(running[done], done.result())
    return [found[task.key] for task in tasks]
