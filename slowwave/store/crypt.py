"""Encrypt backups with age (age-encryption.org), and detect whether a folder is on an encrypted disk."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import IO

from slowwave.schemas.errors import ENCRYPTED, UsageError
from slowwave.schemas.settings import Settings
from slowwave.store.place import refuse_copy

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
FILE_SYSTEMS = (
    "fuse.gocryptfs",
    "fuse.cryfs",
    "fuse.encfs",
    "fuse.securefs",
    "ecryptfs",
)


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


def find_encryption(
    folder: Path, mounts: Path = Path("/proc/self/mountinfo"), sys: Path = Path("/sys")
) -> str | None:
    """Return the encryption of the disk of a folder (or of its nearest existing parent), or None if none is known.

    Detected are dm-crypt (also below LVM), gocryptfs and similar, and eCryptfs; on a Mac FileVault, for the disk of the
    home folder.
    """
    there = next(
        parent for parent in (folder, *folder.absolute().parents) if parent.exists()
    ).resolve()
    if not mounts.is_file():
        if (
            not shutil.which("fdesetup")
            or there.stat().st_dev != Path.home().stat().st_dev
        ):
            return None
        status = subprocess.run(
            ["fdesetup", "status"], stdout=subprocess.PIPE, text=True, check=False
        ).stdout
        return "FileVault" if status.strip() == "FileVault is On." else None
    # A line has the device (major:minor), the mount point and the file system. A later mount hides an earlier one.
    lines = [
        line.split(" - ", 1)
        for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    ]
    parsed = [(left.split(), right.split()) for left, right in reversed(lines)]
    entries = [
        (f[2], Path(f[4].encode().decode("unicode_escape")), t[0]) for f, t in parsed
    ]
    device, _, kind = max(
        entries,
        key=lambda entry: len(entry[1].parts) if there.is_relative_to(entry[1]) else -1,
    )
    if kind in FILE_SYSTEMS:
        return kind.removeprefix("fuse.")
    return "dm-crypt" if _is_dm_crypt(sys / "dev" / "block" / device) else None


def check_encrypted(settings: Settings, folder: Path | None = None) -> None:
    """Check that a folder (default: the store) may be written to.

    Raises:
        UsageError: the store's encrypted folder is not mounted; or the settings require encryption and none is known.
    """
    folder = folder or settings.store
    if folder == settings.store and is_locked(folder):
        store = folder.resolve()
        raise UsageError(
            f"nothing is written to {folder}: {store}{ENCRYPTED} is not mounted there, so the store is locked or half "
            f"moved. `gocryptfs {store}{ENCRYPTED} {store}` unlocks it; docs/install.md says how to end a move"
        )
    if settings.storage.require_encrypted:
        refuse_copy(
            folder,
            "storage.require_encrypted asks for a disk that is known to be encrypted",
        )
    if settings.storage.require_encrypted and find_encryption(folder) is None:
        raise UsageError(
            f"nothing is written to {folder}: no encryption is known there (storage.require_encrypted)"
        )


def is_locked(store: Path) -> bool:
    """Return True if an encrypted folder lies beside the store and is not mounted in its place.

    The store is then locked, or it is being moved into the encrypted folder.
    """
    store = store.resolve()
    return store.with_name(store.name + ENCRYPTED).exists() and not os.path.ismount(
        store
    )


def _is_dm_crypt(block: Path, depth: int = 0) -> bool:
    uuid = block / "dm" / "uuid"
    if uuid.is_file() and uuid.read_text().startswith("CRYPT-"):
        return True
    below = [*(block / "slaves").glob("*")] if depth < 8 else []
    return bool(below) and all(_is_dm_crypt(device, depth + 1) for device in below)
