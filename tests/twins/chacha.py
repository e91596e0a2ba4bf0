"""ChaCha20 (RFC 8439) in NumPy, one column per block, and the words that the samplers read from it."""

import numpy as np

DRAW_BLOCK = 1024
BLOCK_BYTES = 64
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")


def _rotate(x, n):
    return (x << np.uint32(n)) | (x >> np.uint32(32 - n))


def _quarter_round(x, a, b, c, d):
    for left, right, moved, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        x[left] += x[right]
        x[moved] = _rotate(x[moved] ^ x[left], n)


def keystream(key, nonce, counter, n_bytes):
    """Return the keystream of a 32-byte key and a 12-byte nonce, from block `counter` on (RFC 8439, 2.4)."""
    n_blocks = -(-n_bytes // BLOCK_BYTES)
    if counter + n_blocks > 2**32:
        raise OverflowError("the 32-bit block counter would wrap")
    start = np.empty((16, n_blocks), dtype=np.uint32)
    start[:4] = _CONSTANTS[:, None]
    start[4:12] = np.frombuffer(key, dtype="<u4")[:, None]
    start[12] = np.arange(counter, counter + n_blocks, dtype=np.uint64).astype(np.uint32)
    start[13:] = np.frombuffer(nonce, dtype="<u4")[:, None]
    x = start.copy()
    for _ in range(10):
        for column in range(4):
            _quarter_round(x, column, 4 + column, 8 + column, 12 + column)
        for column in range(4):
            _quarter_round(
                x, column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4
            )
    return (x + start).T.astype("<u4").tobytes()[:n_bytes]


def nonce_of(kind, index):
    """Return the nonce of a kind of draw (four letters) and a 64-bit index."""
    return kind.encode() + index.to_bytes(8, "little")


def words(key, nonce, counter, count):
    """Return the keystream as 64-bit little-endian words."""
    data = keystream(key, nonce, counter, 8 * count)
    return [int.from_bytes(data[8 * i : 8 * i + 8], "little") for i in range(count)]


class WordStream:
    """Words of one block of draws: `first[i]` belongs to draw i; draws that need more call `more`, in their order."""

    def __init__(self, key, kind, block):
        self._key, self._nonce = key, nonce_of(kind, block)
        self._counter = DRAW_BLOCK * 8 // BLOCK_BYTES
        self._pool: list[int] = []
        self.first = words(key, self._nonce, 0, DRAW_BLOCK)

    def more(self):
        """Return the next unused word."""
        if not self._pool:
            self._pool = words(self._key, self._nonce, self._counter, BLOCK_BYTES // 8)
            self._counter += 1
        return self._pool.pop(0)
