"""A Dask scheduler for tests that treats each task as if it ran on another machine and was repeated after a failure."""

import pickletools

import cloudpickle
import dask
import numpy as np


class Wire:
    """Scheduler that pickles all inputs and outputs of a task, runs every task twice, and logs what was sent under which key.

    The second result, from the same inputs, is used. Arrays of the first are overwritten, so that a task that keeps a reference
    to its result, or modifies its input, changes the bits of the second.
    """

    def __init__(self):
        self.tasks = []
        self.answers = []
        self.names = []

    def __call__(self, graph, keys, **options):
        done = {}
        for key in _ordered(graph, keys):
            self.names.append(key)
            self.tasks.append(cloudpickle.dumps(graph[key]))
            given = {name: cloudpickle.loads(done[name]) for name in graph[key].dependencies}
            first = cloudpickle.loads(self.tasks[-1])(given)
            if "fastpubpriv" in str(key) and "chunk" not in str(key):
                _spoil(first)
            done[key] = cloudpickle.dumps(cloudpickle.loads(self.tasks[-1])(given))
            self.answers.append(done[key])
        return _values(keys, done)

    def used(self):
        """Return a context in which Dask uses this scheduler."""
        return dask.config.set(scheduler=self)


def modules_in(pickled):
    """Return modules whose classes and functions a pickle names."""
    strings = [
        argument for code, argument, _ in pickletools.genops(pickled) if isinstance(argument, str)
    ]
    return {text.split(" ")[0] for text in strings if text.startswith("fastpubpriv.")}


def chunked(array, chunks):
    """Return a Dask array with chunks of the given rows, or with so many chunks of about the same size."""
    import dask.array

    array = np.asarray(array)
    if isinstance(chunks, int):
        chunks = tuple(np.diff(np.linspace(0, len(array), chunks + 1).astype(int)).tolist())
    return dask.array.from_array(array, chunks=(chunks, *array.shape[1:]), name=False)


def _ordered(graph, keys):
    found = {}
    stack = [(key, False) for key in (keys if isinstance(keys, list) else [keys])]
    while stack:
        key, entered = stack.pop()
        if entered:
            found[key] = True
        elif key not in found:
            stack.append((key, True))
            stack += [(name, False) for name in graph[key].dependencies]
    return found


def _values(keys, done):
    return (
        [_values(key, done) for key in keys]
        if isinstance(keys, list)
        else cloudpickle.loads(done[keys])
    )


def _spoil(value):
    if isinstance(value, np.ndarray):
        if value.flags.writeable:
            value[...] = 77
    elif isinstance(value, tuple | list):
        for item in value:
            _spoil(item)
    elif hasattr(value, "accumulators"):
        _spoil(value.accumulators)
