"""The compiled samplers give the integers of their Python twins, at every instruction set, however a range is cut."""

import csv
import hashlib
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from helpers.errors import raises
from row_cases import same_at_every_level
from twins import chacha, sampler

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import noise
from fastpubpriv.kernels._cbuf import check, inp, out
from fastpubpriv.kernels._cext import ffi, lib

LAWS = {"gaussian_floor": 0, "discrete_laplace": 1}
KEY = bytes(range(7, 39))
GOLDEN = Path(__file__).parents[1] / "golden" / "noise_streams.csv"
GOLDEN_KEY = bytes(range(100, 132))
CASES = [
    *[(law, m) for law in LAWS for m in (8, 9, 19, 27, 40)],
    ("uniform",),
    *[("below", bound) for bound in (1, 2, 1000, 2**61 + 3, 2**63 - 1)],
]


def forced(key, count, law, log2_scale, window_log2):
    draws = np.empty(count, dtype=np.int64)
    key_in = inp(np.frombuffer(key, dtype=np.uint8))
    check(lib.fpp_test_noise_i64(key_in, 0, count, law, log2_scale, window_log2, out(draws)))
    return draws


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_twin(case):
    """From the first draw on, and far along the range."""
    name, *args = case
    for key, count, begin in ((KEY, 2500, 0), (bytes(range(40, 72)), 1100, 1024 * 2**40)):
        fast = getattr(noise, name)(key, count, *args, begin=begin)
        slow = getattr(sampler, name)(key, count, *args, begin=begin)
        assert fast.dtype == slow.dtype
        assert np.array_equal(fast, slow)


@pytest.mark.parametrize("n", [0, 1, 2, 1023, 1024, 1025, 4000])
def test_permutation_equals_twin_and_is_one(n):
    order = noise.permutation(KEY, n)
    assert np.array_equal(order, sampler.permutation(KEY, n))
    assert np.array_equal(np.sort(order), np.arange(n))


def test_golden_streams(isa):
    rows = list(csv.reader(GOLDEN.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 25
    for name, *args, digest in rows:
        values = [int(a) for a in args]
        draws = getattr(noise, name)(GOLDEN_KEY, 5000, *values)
        little = draws.astype(draws.dtype.newbyteorder("<")).tobytes()
        assert hashlib.sha256(little).hexdigest() == digest, (name, args)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cutting_a_range_and_instruction_sets_change_nothing(case):
    name, *args = case
    draw = getattr(noise, name)
    same_at_every_level(draw(KEY, 200_001, *args), draw, KEY, 200_001, *args)
    whole = draw(KEY, 10_000, *args)
    pieces = [
        draw(KEY, 1024, *args),
        draw(KEY, 4096, *args, begin=1024),
        draw(KEY, 4880, *args, begin=5120),
    ]
    assert np.array_equal(whole, np.concatenate(pieces))
    for count in (0, 1, 7, 8, 9, 1023, 1025):
        assert np.array_equal(draw(KEY, count, *args), whole[:count])


@pytest.mark.parametrize("window_log2", [0, -1, -4, -12])
@pytest.mark.parametrize("log2_scale", [8, 12, 40])
@pytest.mark.parametrize("law", LAWS)
def test_slow_exact_path_gives_the_ordinary_bits(law, log2_scale, window_log2, isa):
    count = 200_000 if window_log2 != -4 else 1_000_000  # 0 stands for the window in use
    ordinary = getattr(noise, law)(KEY, count, log2_scale)
    assert np.array_equal(forced(KEY, count, LAWS[law], log2_scale, window_log2), ordinary)


def test_kinds_and_keys_do_not_share_streams():
    other = bytes(range(8, 40))
    streams = [
        noise.uniform(KEY, 1000),
        noise.uniform(other, 1000),
        noise.uniform(KEY, 1000, begin=1024),
    ]
    streams += [
        noise.below(KEY, 1000, 2**53) * 2.0**-53,
        noise.gaussian_floor(KEY, 1000, 40) * 2.0**-40,
    ]
    assert np.abs(np.corrcoef(streams) - np.eye(5)).max() < 0.2


BAD_CALLS = [
    ("gaussian_floor", (KEY, 10, 7)),
    ("gaussian_floor", (KEY, 10, 41)),
    ("gaussian_floor", (KEY, 10, 2**32 + 8)),
    ("gaussian_floor", (KEY, -1, 8)),
    ("discrete_laplace", (KEY, 10, 7)),
    ("discrete_laplace", (KEY, 10, -(2**40))),
    ("gaussian_floor", (KEY[:31], 10, 8)),
    ("uniform", (KEY + b"x", 10)),
    ("uniform", (bytearray(KEY), 10)),
    ("below", (KEY, 10, 0)),
    ("below", (KEY, 10, 2**63)),
    ("permutation", (KEY, -1)),
]


@pytest.mark.parametrize(("name", "args"), BAD_CALLS, ids=str)
def test_bad_arguments_raise(name, args):
    raises(KernelError, None, getattr(noise, name), *args)
    for begin in (1, -1024):  # not on a block
        raises(KernelError, None, noise.uniform, KEY, 10, begin=begin)


def test_hook_refuses_windows_narrower_than_production():
    draws = np.empty(8, dtype=np.int64)
    key = inp(np.frombuffer(KEY, dtype=np.uint8))
    for law, window in ((2, -4), (-1, -4), (0, -35), (0, 1)):
        assert lib.fpp_test_noise_i64(key, 0, 8, law, 8, window, out(draws)) == lib.FPP_ERR_ARGUMENT
    assert lib.fpp_gaussian_floor_i64(ffi.NULL, 0, 8, 8, out(draws)) == lib.FPP_ERR_ARGUMENT
    assert lib.fpp_gaussian_floor_i64(key, 0, 8, 8, ffi.NULL) == lib.FPP_ERR_ARGUMENT


@pytest.mark.parametrize("log2_scale", [8, 40])
def test_magnitudes_stay_inside_the_cut(log2_scale):
    assert np.abs(noise.gaussian_floor(KEY, 100_000, log2_scale)).max() <= 16 << log2_scale
    assert np.abs(noise.discrete_laplace(KEY, 100_000, log2_scale)).max() < 128 << log2_scale


# ---- ChaCha20 against RFC 8439, another library, its twin, and itself at every instruction set ----------------------
def keystream(key, nonce, counter, n_bytes):
    result = np.full(n_bytes + 1, 0xA5, dtype=np.uint8)
    key_in = inp(np.frombuffer(key, dtype=np.uint8))
    nonce_in = inp(np.frombuffer(nonce, dtype=np.uint8))
    check(lib.fpp_chacha20_keystream(key_in, nonce_in, counter, n_bytes, out(result)))
    assert result[n_bytes] == 0xA5  # nothing is written past the end
    return result[:n_bytes].tobytes()


BLOCK_COUNTING = (  # RFC 8439, section 2.3.2
    "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
)


def test_chacha20_is_that_of_rfc_8439_and_of_cryptography(isa):
    key = bytes(range(32))
    nonce = bytes.fromhex("000000090000004a00000000")
    assert keystream(key, nonce, 1, 64).hex() == BLOCK_COUNTING
    assert chacha.keystream(key, nonce, 1, 64).hex() == BLOCK_COUNTING
    text = b"Ladies and Gentlemen of the class of '99: If I could offer you "
    text += b"only one tip for the future, sunscreen would be it."
    stream = keystream(key, bytes.fromhex("000000000000004a00000000"), 1, len(text))
    cipher_text = bytes(a ^ b for a, b in zip(text, stream, strict=True)).hex()
    assert cipher_text.startswith(
        "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b"
    )
    assert cipher_text.endswith("5af90bbf74a35be6b40b8eedf2785e42874d")
    # Equals cryptography.
    rng = np.random.default_rng(20)
    for _ in range(1000):
        key = rng.bytes(32)
        nonce = rng.bytes(12)
        counter = int(rng.integers(0, 2**32 - 80)) if rng.random() < 0.9 else 0
        n_bytes = int(rng.integers(0, 80 * 64))
        cipher = Cipher(
            algorithms.ChaCha20(key, counter.to_bytes(4, "little") + nonce), mode=None
        ).encryptor()
        assert keystream(key, nonce, counter, n_bytes) == cipher.update(bytes(n_bytes))
    # Counter stops at its end.
    key = bytes(32)
    nonce = bytes(12)
    assert keystream(key, nonce, 2**32 - 1, 64) == chacha.keystream(key, nonce, 2**32 - 1, 64)
    assert keystream(key, nonce, 2**32 - 17, 17 * 64) == chacha.keystream(
        key, nonce, 2**32 - 17, 17 * 64
    )
    for counter, n_bytes in ((2**32 - 1, 65), (2**32 - 17, 17 * 64 + 1)):
        raises(KernelError, "keystream", keystream, key, nonce, counter, n_bytes)
        raises(OverflowError, None, chacha.keystream, key, nonce, counter, n_bytes)


def test_words_follow_the_protocol(isa):
    key = bytes(range(32))
    count = 2500
    words = np.empty(count, dtype=np.uint64)
    check(lib.fpp_words_u64(inp(np.frombuffer(key, dtype=np.uint8)), 0, count, out(words)))
    expected = b"".join(
        chacha.keystream(key, chacha.nonce_of("word", block), 0, 8192) for block in range(3)
    )
    assert words.astype("<u8").tobytes() == expected[: 8 * count]
    assert words[:5].tolist() == chacha.words(key, chacha.nonce_of("word", 0), 0, 5)
