"""Canaries: random pieces of forgotten texts, stored as keyed hashes, which a scan searches in files.

A piece is 24 bytes that occur in no text that is kept. A scan hashes every window of 24 bytes by three multiplications
(multiply-add over 64-bit words, Dietzfelbinger 1996), at about 100 MB a second. A window whose hash matches is compared
by BLAKE2b under the same key. The hashes reveal no text, but a person with a certificate can test a guess of it.
"""

import hashlib
import random
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

WIDTH = 24
"""Bytes of a piece. Pieces of 16 bytes were found in topics' purposes, which combine fixed words and folders' names."""
MOST = 256
"""Most canaries of one plan."""
A_TEXT = 4
"""Pieces tried of one text."""
STEP = 1 << 22
UNFIT = frozenset(b'"\\' + bytes(range(32)) + b"\x7f")
"""Characters that JSON may escape."""


@dataclass(frozen=True)
class Canaries:
    """Pieces of texts that no file may contain, as hashes under a key."""

    key: str
    """Hex, 32 bytes."""
    marks: dict[str, str]
    """BLAKE2b of the piece -> its window hash, both hex."""
    width: ClassVar[int] = WIDTH

    def find(self, data: bytes | memoryview) -> set[str]:
        """Return the BLAKE2b hashes of the canaries that the bytes contain."""
        hits: set[str] = set()
        hashes = np.array(
            [int(mark, 16) for mark in self.marks.values()], dtype=np.uint64
        )
        sieve = np.zeros(1 << 16, dtype=np.bool_)
        sieve[hashes >> np.uint64(48)] = True
        for start in range(0, len(data) - WIDTH + 1 if self.marks else 0, STEP):
            part = memoryview(data)[start : start + STEP + WIDTH - 1]
            windows = _hash_windows(part, self.key)
            near = np.nonzero(sieve[windows >> np.uint64(48)])[0]
            fit = near[np.isin(windows[near], hashes)].tolist()
            hits |= {
                _digest_piece(bytes(part[at : at + WIDTH]), self.key) for at in fit
            } & self.marks.keys()
        return hits


def pick_canaries(texts: Iterable[str], staying: Iterable[str]) -> Canaries:
    """Return at most `MOST` random pieces of `texts` that occur in none of the `staying` texts."""
    key = secrets.token_hex(32)
    pieces = [
        piece
        for text in texts
        for piece in _pick_pieces(text.encode("utf-8", "replace"))
    ]
    random.shuffle(pieces)
    drawn = pieces[: 4 * MOST]  # some also occur in texts that are kept
    marks = {
        _digest_piece(piece, key): f"{_hash_windows(memoryview(piece), key)[0]:016x}"
        for piece in drawn
    }
    canaries = Canaries(key, marks)
    for block in _join_texts(staying):
        for digest in canaries.find(block):
            del canaries.marks[digest]
    return Canaries(key, dict(list(canaries.marks.items())[:MOST]))


def _pick_pieces(raw: bytes) -> Iterator[bytes]:
    for _ in range(A_TEXT if len(raw) >= WIDTH else 0):
        at = random.randrange(len(raw) - WIDTH + 1)
        piece = raw[at : at + WIDTH]
        if not UNFIT & set(piece) and len(set(piece)) > WIDTH // 3:
            yield piece


def _join_texts(texts: Iterable[str]) -> Iterator[bytes]:
    """Yield the texts joined into blocks of at least `STEP` bytes; the last may be shorter."""
    buffer = bytearray()
    for text in texts:
        buffer += text.encode("utf-8", "replace") + b"\0"
        if len(buffer) >= STEP:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


def _hash_windows(data: memoryview, key: str) -> npt.NDArray[np.uint64]:
    """Return the hash of each window of `WIDTH` bytes, shape (len(data) - 23,)."""
    mixed = np.zeros(len(data) - WIDTH + 1, dtype=np.uint64)
    for at in range(0, WIDTH, 8):
        factor = np.uint64(
            int.from_bytes(bytes.fromhex(key)[at : at + 8], "little") | 1
        )
        word: npt.NDArray[np.uint64] = np.ndarray(
            mixed.shape, np.dtype("<u8"), data, at, (1,)
        )
        mixed += np.multiply(word, factor)
    return np.bitwise_xor(mixed, np.right_shift(mixed, np.uint64(29)))


def _digest_piece(piece: bytes, key: str) -> str:
    return hashlib.blake2b(piece, digest_size=16, key=bytes.fromhex(key)).hexdigest()
