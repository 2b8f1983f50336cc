"""A stream that only who has the passphrase can read: AES-256-GCM over pieces, the key by scrypt, as exports have it.

Each piece of a megabyte has its number, and whether it is the last, in its nonce (the STREAM construction, Hoang et al.
2015): none can be altered, moved, left out or cut off without an error. A wrong passphrase fails at the first piece.
"""

import hashlib
import io
import os
import secrets
import shlex
import subprocess
from pathlib import Path
from typing import IO

from slowwave.schemas.errors import UsageError

MAGIC = b"slowwave-sealed/1\n"
PIECE = 1 << 20
TAG = 16
VARIABLE = "SLOWWAVE_BACKUP_KEY"
COMMAND = "SLOWWAVE_BACKUP_KEY_COMMAND"
"""Prints the passphrase, as `BORG_PASSCOMMAND` does: `secret-tool lookup app slowwave`, `pass show slowwave`."""


def read_passphrase(file: Path | None) -> bytes | None:
    """Return the passphrase: first line of the file, what the variable holds, or the first line that the command of the
    other variable prints (so a keyring's too); None where none of them is given.

    Raises:
        UsageError: it is too short to be one, or the command fails.
    """
    command = "" if file or os.environ.get(VARIABLE) else os.environ.get(COMMAND, "")
    given = file.read_bytes() if file else _run(command) if command else os.environ.get(VARIABLE, "").encode()
    phrase = next(iter(given.splitlines()), b"").strip()
    if (file or command or phrase) and len(phrase) < 12:
        raise UsageError("a passphrase has 12 characters at least: nothing was done")
    return phrase or None


def _run(command: str) -> bytes:
    """Return what a command prints; what it says to the terminal, or asks there, goes by."""
    try:
        return subprocess.run(shlex.split(command), check=True, stdout=subprocess.PIPE).stdout
    except (OSError, ValueError, subprocess.CalledProcessError) as why:
        raise UsageError(
            f"the command of {COMMAND} gave no passphrase ({type(why).__name__}): nothing was done"
        ) from None


class SealingWriter(io.RawIOBase):
    """Seals what is written to a file."""

    def __init__(self, out: IO[bytes], phrase: bytes) -> None:
        self._out, salt, self._prefix = out, secrets.token_bytes(16), secrets.token_bytes(7)
        self._cipher, self._held, self._count = _make_cipher(phrase, salt), bytearray(), 0
        out.write(MAGIC + salt + self._prefix)

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        """Seal whole pieces; the rest waits."""
        self._held += data
        while len(self._held) > PIECE:  # one is kept back, for the last is sealed as such
            self._seal(bytes(self._held[:PIECE]), last=False)
            del self._held[:PIECE]
        return len(data)

    def close(self) -> None:
        """Seal the last piece; the file stays open."""
        if not self.closed:
            self._seal(bytes(self._held), last=True)
        super().close()

    def _seal(self, piece: bytes, *, last: bool) -> None:
        self._out.write(self._cipher.encrypt(_build_nonce(self._prefix, self._count, last), piece, None))
        self._count += 1


class OpeningReader(io.RawIOBase):
    """Reads what was sealed.

    Raises:
        UsageError: on reading with a wrong passphrase, or a file that was altered or cut.
    """

    def __init__(self, file: IO[bytes], phrase: bytes) -> None:
        head = file.read(len(MAGIC) + 23)
        self._file, self._prefix = file, head[len(MAGIC) + 16 :]
        self._cipher, self._held, self._count = _make_cipher(phrase, head[len(MAGIC) : len(MAGIC) + 16]), b"", 0
        self._next = file.read(PIECE + TAG)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        """Fill the buffer as far as a piece goes."""
        while not self._held and self._next:
            self._held = self._open()
        size = min(len(buffer), len(self._held))
        buffer[:size], self._held = self._held[:size], self._held[size:]
        return size

    def _open(self) -> bytes:
        from cryptography.exceptions import InvalidTag

        piece, self._next = self._next, self._file.read(PIECE + TAG)
        try:
            opened: bytes = self._cipher.decrypt(_build_nonce(self._prefix, self._count, not self._next), piece, None)
        except InvalidTag:
            why = "the file was altered or cut" if self._count else "the passphrase is wrong, or the file was altered"
            raise UsageError(f"{why}: nothing was restored") from None
        self._count += 1
        return opened


def derive_key(phrase: bytes, salt: bytes) -> bytes:
    """Return 32 bytes that only who has the passphrase can make, by scrypt."""
    return hashlib.scrypt(phrase, salt=salt, n=1 << 15, r=8, p=1, maxmem=1 << 26, dklen=32)


def _make_cipher(phrase: bytes, salt: bytes):  # type: ignore[no-untyped-def]
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError:
        raise UsageError("an encrypted backup needs the package cryptography: pip install cryptography") from None
    return AESGCM(derive_key(phrase, salt))


def _build_nonce(prefix: bytes, count: int, last: bool) -> bytes:
    return prefix + count.to_bytes(4, "big") + bytes([last])
