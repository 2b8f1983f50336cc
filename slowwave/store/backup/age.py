"""Encrypt backups with age (age-encryption.org)."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import IO

from slowwave.schemas.errors import UsageError

MAGIC = b"age-encryption.org/v1\n"
VARIABLE = "SLOWWAVE_BACKUP_KEY"
COMMAND = "SLOWWAVE_BACKUP_KEY_COMMAND"
"""Variables with the passphrase, or with a command that prints it (`secret-tool lookup app slowwave`)."""
PUBLIC = "age1"
SECRET = "AGE-SECRET-KEY-1"
"""Prefixes of age's own keys. A key encrypts a stream of any size; a passphrase needs all of it in memory."""
TOO_SLOW = "Excessive work parameter"
"""What age says if a passphrase would take this machine too long."""
TRIES = 5
"""Most times that a passphrase is tried while age says so."""


def read_key(file: Path | None) -> str | None:
    """Return the passphrase or age key: the first line of the file, of the variable or of the command's output.

    Return None if none of them is given.

    Raises:
        UsageError: the passphrase is too short, or the command fails.
    """
    command = "" if file or os.environ.get(VARIABLE) else os.environ.get(COMMAND, "")
    if file:
        given = file.read_text(encoding="utf-8")
    elif command:
        given = _run(command)
    else:
        given = os.environ.get(VARIABLE, "")
    key = next(iter(given.splitlines()), "").strip()
    if (file or command or key) and len(key) < 12:
        raise UsageError("a passphrase has 12 characters at least: nothing was done")
    return key or None


def _run(command: str) -> str:
    """Return a command's output; its stderr and prompts go to the terminal."""
    try:
        return subprocess.run(
            shlex.split(command), check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    except (OSError, ValueError, subprocess.CalledProcessError) as why:
        raise UsageError(
            f"the command of {COMMAND} gave no passphrase ({type(why).__name__}): nothing was done"
        ) from None


def encrypt(plain: IO[bytes], out: IO[bytes], key: str) -> None:
    """Write an encrypted copy of a file. With a passphrase the whole file is in memory, with an age key it is not.

    Raises:
        UsageError: the key is damaged.
    """
    import pyrage

    if not key.startswith((PUBLIC, SECRET)):
        out.write(pyrage.passphrase.encrypt(plain.read(), key))
        return
    try:
        secret = (
            None if key.startswith(PUBLIC) else pyrage.x25519.Identity.from_str(key)
        )
        public = secret.to_public() if secret else pyrage.x25519.Recipient.from_str(key)
    except (pyrage.IdentityError, pyrage.RecipientError):
        raise UsageError("the age key is damaged: nothing was done") from None
    pyrage.encrypt_io(plain, out, [public])


def decrypt(source: IO[bytes], out: IO[bytes], key: str) -> None:
    """Write a decrypted copy of a file.

    Raises:
        UsageError: the key is wrong, or the file was altered or truncated.
    """
    import pyrage

    try:
        if key.startswith(SECRET):
            pyrage.decrypt_io(source, out, [pyrage.x25519.Identity.from_str(key)])
        else:
            out.write(_decrypt_by_passphrase(source.read(), key))
    except (pyrage.DecryptError, pyrage.IdentityError, OSError) as error:
        if TOO_SLOW in f"{error}":
            raise UsageError(
                "this machine is too busy, or too slow, for the work that this backup's passphrase asks for: nothing "
                "was restored; try again when it does less, or decrypt the file with `age -d`"
            ) from None
        why = ascii(f"{error}").replace("\\n", " ")
        raise UsageError(
            f"the passphrase is wrong, or the file was altered: nothing was restored ({why})"
        ) from None


def _decrypt_by_passphrase(data: bytes, phrase: str) -> bytes:
    """Return the decrypted bytes.

    age first measures the machine for a moment, and refuses what would take it 16 times as long as what it would ask
    for itself. A busy machine may fail that once, so it is tried again.
    """
    import pyrage

    for _ in range(TRIES - 1):
        try:
            return bytes(pyrage.passphrase.decrypt(data, phrase))
        except pyrage.DecryptError as error:
            if TOO_SLOW not in f"{error}":
                raise
    return bytes(pyrage.passphrase.decrypt(data, phrase))
