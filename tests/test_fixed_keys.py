"""The fixed keys of ordinary tests (tests/fixed_keys) are the same in every run and process, and no test can bypass them."""

import multiprocessing
import os
import subprocess
import sys

import pytest
from clocks import PATIENCE
from fixed_keys import escapes, keys_from, unfounded
from helpers.errors import raises
from helpers.forks import answer_of_child
from hypothesis import settings
from key_stream import NAME_OF_STREAM, KeyStream

from fastpubpriv.keys import KEY_BYTES, key_source

PRINT_KEY = "from fastpubpriv.keys import key_source; print(key_source(None).fresh().hex())"
AT_IMPORT = key_source(None).fresh()


def test_the_name_of_a_test_decides_its_keys(request):
    expected = KeyStream("tests/test_fixed_keys.py::test_the_name_of_a_test_decides_its_keys")
    source = key_source(None)
    assert source.private
    assert [source.fresh() for _ in range(3)] == [expected(KEY_BYTES) for _ in range(3)]
    assert request.node.nodeid in os.environ[NAME_OF_STREAM]


@pytest.fixture(scope="module")
def shared():
    return key_source(None).fresh()


def test_keys_of_a_file_depend_on_its_name_alone(shared):
    assert shared == KeyStream("tests/test_fixed_keys.py shared 0")(KEY_BYTES)
    assert KeyStream("tests/test_fixed_keys.py")(KEY_BYTES) == AT_IMPORT


def child_key(*options, **keywords):
    command = [sys.executable, *options, "-c", PRINT_KEY]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=PATIENCE, **keywords
    )
    return bytes.fromhex(done.stdout)


def test_processes_that_a_test_starts_have_its_keys(request):
    assert child_key() == child_key("-OO") == KeyStream(request.node.nodeid)(KEY_BYTES)


def put_key(queue):
    queue.put(AT_IMPORT)  # the first key of its process, which imports this file


def test_spawned_processes_too(request):
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    child = context.Process(target=put_key, args=(queue,))
    child.start()
    assert KeyStream(request.node.nodeid)(KEY_BYTES) == queue.get()
    child.join()


def test_forked_children_get_keys_of_their_own():
    """Forked children get distinct keys, the same in every run."""

    def fresh():
        return key_source(None).fresh()

    def family():
        with keys_from(KeyStream("a family")):
            return [answer_of_child(fresh), fresh(), answer_of_child(fresh), fresh()]

    keys = family()
    assert keys == family()
    assert len(set(keys)) == 4


@pytest.mark.fresh_keys("two keys of the operating system differ")
def test_the_operating_system_gives_what_nobody_knows(request):
    assert NAME_OF_STREAM not in os.environ
    keys = {
        key_source(None).fresh(),
        child_key(),
        child_key(),
        KeyStream(request.node.nodeid)(KEY_BYTES),
    }
    assert len(keys) == 4


BY_CHANCE = pytest.mark.fresh_keys(false_alarms=1e-9)


@pytest.mark.parametrize(
    ("mark", "ordinary", "words"),
    [
        (pytest.mark.fresh_keys("two keys differ"), True, None),
        (BY_CHANCE, False, None),
        (BY_CHANCE, True, "statistical or audit"),
        (pytest.mark.fresh_keys(false_alarms=1e-3), False, "at most 1e-06"),
        (pytest.mark.fresh_keys(false_alarms=float("nan")), False, "at most 1e-06"),
        (pytest.mark.fresh_keys, True, "every outcome"),
        (pytest.mark.fresh_keys(" "), True, "every outcome"),
        (pytest.mark.fresh_keys("so it is", rate=1), True, "every outcome"),
    ],
)
def test_fresh_keys_need_a_reason(mark, ordinary, words):
    found = unfounded(mark.mark, ordinary=ordinary)
    assert found is None if words is None else words in found


PLANTED = """
import pytest
from fastpubpriv.keys import key_source

def write(name, *keys):
    with open(name, "a") as file:
        print(*(key.hex() for key in keys), file=file)

@pytest.fixture(scope="module")
def shared():
    return key_source(None).fresh()

def test_planted(shared):
    write("fixed", shared, key_source(None).fresh())

@pytest.mark.fresh_keys("it asserts nothing")
def test_planted_with_fresh_keys():
    write("fresh", key_source(None).fresh())
"""


def pytest_on(folder, text):
    (folder / "test_planted.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "fixed_keys", "test_planted.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)


def test_two_runs_of_a_planted_file(tmp_path):
    assert [pytest_on(tmp_path, PLANTED).returncode for _ in range(2)] == [0, 0]
    for name, different in (("fixed", 1), ("fresh", 2)):
        lines = (tmp_path / name).read_text().splitlines()
        assert len(lines) == 2
        assert len(set(lines)) == different


def test_nothing_runs_beside_fresh_keys_without_a_reason(tmp_path):
    done = pytest_on(tmp_path, "import pytest\n@pytest.mark.fresh_keys\ndef test_a(): ...\n")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_planted.py::test_a: fresh_keys: say why" in done.stderr


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        (["-I"], {}),
        (["-E"], {}),
        (["-sS"], {}),
        ([], {"env": {"PATH": ""}}),
    ],
    ids=["isolated", "without environment", "without site", "another environment"],
)
def test_a_planted_process_with_keys_of_its_own_is_caught(options, keywords):
    raises(AssertionError, "fresh_keys", child_key, *options, **keywords)


def test_what_does_not_escape():
    fine = {NAME_OF_STREAM: "a", "PYTHONPATH": "b"}
    assert escapes(["python3", "-c", "import this", "-I"], fine) is None
    assert escapes(["python", "-W", "error", "-OO", "-m", "pytest"], None) is None
    assert escapes(["cc", "-I", "csrc"], None) is None
    assert escapes("ls", None) is None
    assert escapes(["/sbin/ldconfig", "-p"], {"PATH": "/sbin"}) is None


def test_hypothesis_looks_for_the_same_examples_in_every_run():
    assert settings.default.derandomize
