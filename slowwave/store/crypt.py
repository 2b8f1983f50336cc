"""Backups encrypted by age (age-encryption.org), which every tool of age opens; and whether a disk is encrypted."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import IO

from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings

MAGIC = b"age-encryption.org/v1\n"
VARIABLE, COMMAND = "SLOWWAVE_BACKUP_KEY", "SLOWWAVE_BACKUP_KEY_COMMAND"
"""The passphrase, and a command that prints it, as `BORG_PASSCOMMAND` does: `secret-tool lookup app slowwave`."""
PUBLIC, SECRET = "age1", "AGE-SECRET-KEY-1"
"""What age's own keys begin with: one of these in the place of a passphrase encrypts in a stream, of any size."""
FILE_SYSTEMS = ("fuse.gocryptfs", "fuse.cryfs", "fuse.encfs", "fuse.securefs", "ecryptfs")


def read_key(file: Path | None) -> str | None:
    """Return the passphrase, or key of age's: the first line of the file, of what the variable holds, or of what the
    command of the other variable prints; None where none of them is given.

    Raises:
        UsageError: it is too short to be one, or the command fails.
    """
    command = "" if file or os.environ.get(VARIABLE) else os.environ.get(COMMAND, "")
    given = file.read_text(encoding="utf-8") if file else _run(command) if command else os.environ.get(VARIABLE, "")
    key = next(iter(given.splitlines()), "").strip()
    if (file or command or key) and len(key) < 12:
        raise UsageError("a passphrase has 12 characters at least: nothing was done")
    return key or None


def _run(command: str) -> str:
    """Return what a command prints; what it says to the terminal, or asks there, goes by."""
    try:
        return subprocess.run(shlex.split(command), check=True, stdout=subprocess.PIPE, text=True).stdout
    except (OSError, ValueError, subprocess.CalledProcessError) as why:
        raise UsageError(
            f"the command of {COMMAND} gave no passphrase ({type(why).__name__}): nothing was done"
        ) from None


def encrypt(plain: IO[bytes], out: IO[bytes], key: str) -> None:
    """Write an encrypted copy of a file; with a passphrase all of it is held in memory, with a key of age's none.

    Raises:
        UsageError: the key is damaged.
    """
    import pyrage

    if not key.startswith((PUBLIC, SECRET)):
        out.write(pyrage.passphrase.encrypt(plain.read(), key))
        return
    try:
        secret = None if key.startswith(PUBLIC) else pyrage.x25519.Identity.from_str(key)
        public = secret.to_public() if secret else pyrage.x25519.Recipient.from_str(key)
    except (pyrage.IdentityError, pyrage.RecipientError):
        raise UsageError("the key of age's is damaged: nothing was done") from None
    pyrage.encrypt_io(plain, out, [public])


def decrypt(source: IO[bytes], out: IO[bytes], key: str) -> None:
    """Write a decrypted copy of a file.

    Raises:
        UsageError: the key is another, or the file was altered or cut.
    """
    import pyrage

    try:
        if key.startswith(SECRET):
            pyrage.decrypt_io(source, out, [pyrage.x25519.Identity.from_str(key)])
        else:
            out.write(pyrage.passphrase.decrypt(source.read(), key))
    except (pyrage.DecryptError, pyrage.IdentityError, OSError):
        raise UsageError("the passphrase is wrong, or the file was altered or cut: nothing was restored") from None


def find_encryption(folder: Path, mounts: Path = Path("/proc/self/mountinfo"), sys: Path = Path("/sys")) -> str | None:
    """Return what encrypts the disk of a folder, or of the nearest one above it that is there: dm-crypt (also below
    LVM), gocryptfs and its kin, eCryptfs. None where nothing is known to, as outside of Linux.
    """
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists()).resolve()
    if not mounts.is_file():
        return None
    # Of a line: device (major:minor), mount point and file system; of two at one place the later hides the earlier.
    lines = [line.split(" - ", 1) for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()]
    parsed = [(left.split(), right.split()) for left, right in reversed(lines)]
    known = [(f[2], Path(f[4].encode().decode("unicode_escape")), t[0]) for f, t in parsed]
    device, _, kind = max(known, key=lambda one: len(one[1].parts) if there.is_relative_to(one[1]) else -1)
    if kind in FILE_SYSTEMS:
        return kind.removeprefix("fuse.")
    return "dm-crypt" if _is_dm_crypt(sys / "dev" / "block" / device) else None


def check_encrypted(settings: Settings, folder: Path | None = None) -> None:
    """Check that what is to be written, into the store unless elsewhere, is encrypted, where settings ask for it.

    Raises:
        UsageError: it is not known to be.
    """
    folder = folder or settings.store
    if settings.storage.require_encrypted and find_encryption(folder) is None:
        raise UsageError(f"nothing is written to {folder}: no encryption is known there (storage.require_encrypted)")


def _is_dm_crypt(block: Path, depth: int = 0) -> bool:
    uuid = block / "dm" / "uuid"
    if uuid.is_file() and uuid.read_text().startswith("CRYPT-"):
        return True
    below = [*(block / "slaves").glob("*")] if depth < 8 else []
    return bool(below) and all(_is_dm_crypt(one, depth + 1) for one in below)
