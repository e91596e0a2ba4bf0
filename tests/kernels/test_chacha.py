"""ChaCha20 against RFC 8439, another library, its twin, and itself at every instruction set."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from twins import chacha

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels._cbuf import check, inp, out
from fastpubpriv.kernels._cext import ffi, lib

LEVELS = range(lib.fpp_isa_detect() + 1)


def keystream(key, nonce, counter, n_bytes):
    result = np.full(n_bytes + 1, 0xA5, dtype=np.uint8)
    key_in, nonce_in = (inp(np.frombuffer(x, dtype=np.uint8)) for x in (key, nonce))
    check(lib.fpp_chacha20_keystream(key_in, nonce_in, counter, n_bytes, out(result)))
    assert result[n_bytes] == 0xA5  # nothing is written past the end
    return result[:n_bytes].tobytes()


BLOCK_COUNTING = (  # RFC 8439, section 2.3.2
    "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
)
ZERO_KEY = {  # RFC 8439, appendix A.1: (counter, key's last byte, nonce's last byte) -> block
    (0, 0, 0): (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    ),
    (1, 0, 0): (
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    ),
    (1, 1, 0): (
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0"
    ),
    (0, 0, 2): (
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c78a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d"
    ),
}


def test_rfc_8439_counting_block(isa):
    key, nonce = bytes(range(32)), bytes.fromhex("000000090000004a00000000")
    assert keystream(key, nonce, 1, 64).hex() == BLOCK_COUNTING
    assert chacha.keystream(key, nonce, 1, 64).hex() == BLOCK_COUNTING


@pytest.mark.parametrize("case", ZERO_KEY)
def test_rfc_8439_appendix(isa, case):
    counter, key_end, nonce_end = case
    key, nonce = bytes(31) + bytes([key_end]), bytes(11) + bytes([nonce_end])
    assert keystream(key, nonce, counter, 64).hex() == ZERO_KEY[case]


def test_rfc_8439_encryption_example(isa):
    text = b"Ladies and Gentlemen of the class of '99: If I could offer you "
    text += b"only one tip for the future, sunscreen would be it."
    stream = keystream(bytes(range(32)), bytes.fromhex("000000000000004a00000000"), 1, len(text))
    cipher_text = bytes(a ^ b for a, b in zip(text, stream, strict=True))
    assert cipher_text.hex().startswith("6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b")
    assert cipher_text.hex().endswith("5af90bbf74a35be6b40b8eedf2785e42874d")


def test_equals_cryptography(isa):
    rng = np.random.default_rng(20)
    for _ in range(1000):
        key, nonce = rng.bytes(32), rng.bytes(12)
        counter = int(rng.integers(0, 2**32 - 80)) if rng.random() < 0.9 else 0
        n_bytes = int(rng.integers(0, 80 * 64))
        cipher = Cipher(algorithms.ChaCha20(key, counter.to_bytes(4, "little") + nonce), mode=None).encryptor()
        assert keystream(key, nonce, counter, n_bytes) == cipher.update(bytes(n_bytes))


def test_every_length_up_to_20_blocks_is_a_prefix(isa):
    key, nonce = bytes(range(32)), bytes(12)
    whole = chacha.keystream(key, nonce, 3, 20 * 64)
    for n_bytes in [*range(0, 130), *range(64 * 7 - 1, 64 * 20 + 1, 31), 64 * 20]:
        assert keystream(key, nonce, 3, n_bytes) == whole[:n_bytes]


def test_counter_stops_at_its_end(isa):
    key, nonce = bytes(32), bytes(12)
    assert keystream(key, nonce, 2**32 - 1, 64) == chacha.keystream(key, nonce, 2**32 - 1, 64)
    assert keystream(key, nonce, 2**32 - 17, 17 * 64) == chacha.keystream(key, nonce, 2**32 - 17, 17 * 64)
    for counter, n_bytes in ((2**32 - 1, 65), (2**32 - 17, 17 * 64 + 1)):
        with pytest.raises(KernelError, match="keystream"):
            keystream(key, nonce, counter, n_bytes)
        with pytest.raises(OverflowError):
            chacha.keystream(key, nonce, counter, n_bytes)


def test_bad_arguments_are_refused():
    data = out(np.zeros(64, dtype=np.uint8))
    for args in (
        (ffi.NULL, data, 0, 1, data),
        (data, ffi.NULL, 0, 1, data),
        (data, data, 0, 1, ffi.NULL),
        (data, data, 0, -1, data),
    ):
        assert lib.fpp_chacha20_keystream(*args) == lib.FPP_ERR_ARGUMENT
    assert lib.fpp_chacha20_keystream(data, data, 0, 0, ffi.NULL) == lib.FPP_OK


def test_isa_limit_is_clamped():
    try:
        assert lib.fpp_isa_limit(-5) == lib.FPP_ISA_BASELINE
        assert lib.fpp_isa_limit(99) == lib.fpp_isa_detect()
    finally:
        lib.fpp_isa_limit(lib.FPP_ISA_AVX512)


def test_words_follow_the_protocol(isa):
    key, count = bytes(range(32)), 2500
    words = np.empty(count, dtype=np.uint64)
    check(lib.fpp_words_u64(inp(np.frombuffer(key, dtype=np.uint8)), 0, count, out(words)))
    expected = b"".join(chacha.keystream(key, chacha.nonce_of("word", block), 0, 8192) for block in range(3))
    assert words.astype("<u8").tobytes() == expected[: 8 * count]
    assert words[:5].tolist() == chacha.words(key, chacha.nonce_of("word", 0), 0, 5)
