"""Every test gets its keys from a stream that its name decides, so that it is the same test in every run.

The stream answers the library's calls of `os.urandom`, so that results are `private=True` as in use. It is there while a file is
collected, a fixture set up and a test run, and in the processes that a test starts. The library knows nothing of it. Tests marked
`fresh_keys` keep the operating system's keys, and say why they may: `fresh_keys("two keys differ")`, as what they assert holds for
every outcome, or `fresh_keys(false_alarms=1e-9)`, as they are tests by chance; these are never ordinary ones.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from key_stream import NAME_OF_STREAM, KeyStream, give_keys_from

MOST_FALSE_ALARMS = 1e-6
FOLDER = str(Path(__file__).resolve().parent)

_streams: list[KeyStream | None] = []  # the last is the one in use; None is the operating system


@contextmanager
def keys_from(stream: KeyStream | None) -> Iterator[None]:
    """Until it is left, keys come from a stream, or from the operating system again."""
    _streams.append(stream)
    try:
        yield
    finally:
        _streams.pop()


def is_fresh(item: pytest.Item) -> bool:
    """Whether a test draws keys that nobody knows."""
    return item.get_closest_marker("fresh_keys") is not None


def unfounded(mark: pytest.Mark, *, ordinary: bool) -> str | None:
    """What is missing in a mark `fresh_keys`."""
    if mark.kwargs.keys() == {"false_alarms"} and not mark.args:
        if ordinary:
            return "a test by chance is marked statistical or audit"
        rate = mark.kwargs["false_alarms"]
        return (
            None
            if 0 < rate <= MOST_FALSE_ALARMS
            else f"false alarms at {rate}, at most {MOST_FALSE_ALARMS}"
        )
    if (
        mark.kwargs
        or len(mark.args) != 1
        or not isinstance(mark.args[0], str)
        or not mark.args[0].strip()
    ):
        return "say why the assertion holds for every outcome, or false_alarms=..."
    return None


def name_of(item: pytest.Item | pytest.Collector) -> str:
    """The name that decides the stream: without the number of the test in this run, and of this machine's paths."""
    return item.nodeid


def escapes(arguments: Any, environment: Mapping[str, str] | None) -> str | None:
    """Why a process that a test starts would draw keys of its own, if it would."""
    words = [arguments] if isinstance(arguments, str | bytes | os.PathLike) else list(arguments)
    words = [os.fsdecode(word) for word in words]
    if Path(words[0]).name == "ldconfig":  # of ctypes.util, when PyTorch is imported
        return None
    # Options stand before the program: a "-c", "-m" or file and all behind it is the child's own business.
    options = []
    for word in words[1:]:
        if not word.startswith("-") or word in {"-c", "-m"}:
            break
        options.append(word)
    if "python" in Path(words[0]).name and any(
        set(word[1:]) & set("IES") for word in options if word[1:2] != "-"
    ):
        return "Python's options -I, -E and -S"
    if environment is not None and not {NAME_OF_STREAM, "PYTHONPATH"} <= {
        os.fsdecode(name) for name in environment
    }:
        return "an environment without PYTHONPATH and " + NAME_OF_STREAM
    return None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and _streams and _streams[-1] is not None:
        _, words, _, environment = arguments
        if why := escapes(words, environment):
            raise AssertionError(
                f"{why}: the keys of {words!r} are not those of this test; pass them on, or mark it fresh_keys"
            )


def pytest_configure(config: pytest.Config) -> None:
    """From now on; and Hypothesis looks for the same examples in every run."""
    give_keys_from(lambda: _streams[-1] if _streams else None)
    sys.addaudithook(_watch)
    settings.register_profile("fixed", derandomize=True)
    settings.load_profile("fixed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing runs while a test keeps fresh keys without a reason."""
    for item in items:
        ordinary = not any(item.get_closest_marker(name) for name in ("statistical", "audit"))
        for mark in item.iter_markers("fresh_keys"):
            if what := unfounded(mark, ordinary=ordinary):
                raise pytest.UsageError(f"{item.nodeid}: fresh_keys: {what}")


@contextmanager
def _keys_of(item: pytest.Item) -> Iterator[None]:
    """The stream of a test, in its process and in those it starts."""
    with (
        pytest.MonkeyPatch.context() as patch,
        keys_from(None if is_fresh(item) else KeyStream(name_of(item))),
    ):
        if not is_fresh(item):
            patch.setenv(NAME_OF_STREAM, name_of(item))
            patch.setenv("PYTHONPATH", FOLDER, prepend=os.pathsep)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Around setup, call and teardown."""
    with _keys_of(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """What several tests share is the same whichever of them comes first."""
    if fixturedef.scope == "function" or not _streams or _streams[-1] is None:
        return (yield)
    name = f"{name_of(request.node)} {fixturedef.argname} {getattr(request, 'param_index', 0)}"
    with keys_from(KeyStream(name)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """What a file releases when it is imported."""
    with keys_from(KeyStream(name_of(collector))):
        return (yield)
