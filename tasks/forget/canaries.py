"""Canaries: random pieces of what is to be gone, kept as keyed hashes, and looked for in any bytes.

A piece is 24 bytes that stand in nothing that is kept. Every window of 24 bytes is hashed by three multiplications
(multiply-add over 64-bit words, Dietzfelbinger 1996), so a file is looked through at some 100 MB a second; what
fits is held against BLAKE2b under the same key. The hashes give no text away, but who has a certificate and a guess can
test it.
"""

import hashlib
import random
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

WIDTH = 24
"""Bytes of a piece. Of 16 some are found where a topic's purpose is put together of set words and a folder's name."""
WORD = np.dtype("<u8")
Factors = list[np.uint64]
MOST = 256
"""Canaries of one forgetting."""
A_TEXT = 4
"""Pieces tried of one text."""
STEP = 1 << 22
UNFIT = frozenset(b'"\\' + bytes(range(32)) + b"\x7f")
"""What JSON may write in another way."""


@dataclass(frozen=True)
class Canaries:
    """Pieces of a text that must be nowhere, as hashes under a key."""

    key: str
    """Hex, 32 bytes."""
    marks: dict[str, str]
    """BLAKE2b of the piece -> its window hash, both hex."""

    @cached_property
    def _factors(self) -> Factors:
        raw = bytes.fromhex(self.key)
        return [np.uint64(int.from_bytes(raw[at : at + 8], "little") | 1) for at in range(0, WIDTH, 8)]

    @cached_property
    def _wanted(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        hashes = np.array(sorted({int(mark, 16) for mark in self.marks.values()}), dtype=np.uint64)
        sieve = np.zeros(1 << 16, dtype=np.bool_)
        sieve[hashes >> np.uint64(48)] = True
        return hashes, sieve

    def find(self, data: bytes | memoryview) -> set[str]:
        """Return the canaries that stand in some bytes, by their BLAKE2b."""
        found: set[str] = set()
        if not self.marks:
            return found
        hashes, sieve = self._wanted
        view = memoryview(data)
        for start in range(0, max(len(view) - WIDTH + 1, 0), STEP):
            part = view[start : start + STEP + WIDTH - 1]
            windows = _hash_windows(part, self._factors)
            near = np.nonzero(sieve[windows >> np.uint64(48)])[0]
            for at in near[np.isin(windows[near], hashes)].tolist():
                digest = _digest_piece(bytes(part[at : at + WIDTH]), self.key)
                found |= {digest} & self.marks.keys()
        return found

    def without(self, known: Iterable[str]) -> "Canaries":
        """Return the canaries but for some."""
        left = set(known)
        return Canaries(self.key, {digest: mark for digest, mark in self.marks.items() if digest not in left})


def pick_canaries(texts: Iterable[str], kept: Iterable[str], seed: int | None = None) -> Canaries:
    """Return random pieces of some texts that stand in none of the texts that are kept."""
    chance = random.Random(secrets.randbits(64) if seed is None else seed)
    key = secrets.token_hex(32)
    pieces = [piece for text in texts for piece in _pick_pieces(text.encode("utf-8", "replace"), chance)]
    chance.shuffle(pieces)
    factors = Canaries(key, {})._factors
    marks = {
        _digest_piece(piece, key): f"{int(_hash_windows(memoryview(piece), factors)[0]):016x}"
        for piece in pieces[: 4 * MOST]  # some stand in what is kept
    }
    drawn = Canaries(key, marks)
    for block in _join_texts(kept):
        drawn = drawn.without(drawn.find(block))
    return Canaries(key, dict(list(drawn.marks.items())[:MOST]))


def _pick_pieces(raw: bytes, chance: random.Random) -> Iterator[bytes]:
    for _ in range(A_TEXT if len(raw) >= WIDTH else 0):
        at = chance.randrange(len(raw) - WIDTH + 1)
        piece = raw[at : at + WIDTH]
        if not UNFIT & set(piece) and len(set(piece)) > WIDTH // 3:
            yield piece


def _join_texts(texts: Iterable[str]) -> Iterator[bytes]:
    """Yield texts by the megabyte."""
    held, size = list[bytes](), 0
    for text in texts:
        raw = text.encode("utf-8", "replace")
        held.append(raw)
        size += len(raw)
        if size >= STEP:
            yield b"\0".join(held)
            held, size = [], 0
    yield b"\0".join(held)


def _hash_windows(data: memoryview, factors: Factors) -> npt.NDArray[np.uint64]:
    """Return the hash of each window; shape (bytes - 23,)."""
    count = len(data) - WIDTH + 1
    mixed = np.zeros(count, dtype=np.uint64)
    for place, factor in enumerate(factors):
        word: npt.NDArray[np.uint64] = np.ndarray(
            (count,), WORD, buffer=data, offset=place * WORD.itemsize, strides=(1,)
        )
        mixed += np.multiply(word, factor)
    return np.bitwise_xor(mixed, np.right_shift(mixed, np.uint64(29)))


def _digest_piece(piece: bytes, key: str) -> str:
    return hashlib.blake2b(piece, digest_size=16, key=bytes.fromhex(key)).hexdigest()
