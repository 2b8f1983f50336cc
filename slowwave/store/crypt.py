"""Backups encrypted by age (age-encryption.org), detection of encrypted disks, and stores encrypted by gocryptfs."""

import filecmp
import os
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from slowwave.schemas.errors import ENCRYPTED, LOCKED, MOVING, UsageError, is_locked
from slowwave.schemas.settings import Settings
from slowwave.store.bucket.working_copy import refuse_bucket
from slowwave.store.lock import hold_lock
from slowwave.store.private import make_private_folder

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
    """Return a command's output; its stderr and prompts go to the terminal."""
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
    except (pyrage.DecryptError, pyrage.IdentityError, OSError) as error:
        why = ascii(f"{error}").replace("\\n", " ")  # on a busy machine, that it takes too long
        raise UsageError(f"the passphrase is wrong, or the file was altered: nothing was restored ({why})") from None


def find_encryption(folder: Path, mounts: Path = Path("/proc/self/mountinfo"), sys: Path = Path("/sys")) -> str | None:
    """Return the encryption of the disk of a folder, or of its nearest existing parent: dm-crypt (also below
    LVM), gocryptfs and its kin, eCryptfs; on a Mac FileVault, on the disk of the home folder. None where nothing is
    known to.
    """
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists()).resolve()
    if not mounts.is_file():
        if not shutil.which("fdesetup") or there.stat().st_dev != Path.home().stat().st_dev:
            return None
        status = subprocess.run(["fdesetup", "status"], stdout=subprocess.PIPE, text=True, check=False).stdout
        return "FileVault" if status.strip() == "FileVault is On." else None
    # Of a line: device (major:minor), mount point and file system; of two at one place the later hides the earlier.
    lines = [line.split(" - ", 1) for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()]
    parsed = [(left.split(), right.split()) for left, right in reversed(lines)]
    entries = [(f[2], Path(f[4].encode().decode("unicode_escape")), t[0]) for f, t in parsed]
    device, _, kind = max(entries, key=lambda entry: len(entry[1].parts) if there.is_relative_to(entry[1]) else -1)
    if kind in FILE_SYSTEMS:
        return kind.removeprefix("fuse.")
    return "dm-crypt" if _is_dm_crypt(sys / "dev" / "block" / device) else None


def check_encrypted(settings: Settings, folder: Path | None = None) -> None:
    """Check that what is to be written, into the store unless elsewhere, is encrypted, where settings ask for it.

    Raises:
        UsageError: it is not known to be; or the store is locked.
    """
    folder = folder or settings.store
    if folder == settings.store and is_locked(folder):
        raise UsageError(f"nothing is written to {folder}: {LOCKED}")
    if settings.storage.require_encrypted:
        refuse_bucket(folder, "storage.require_encrypted asks for a disk that is known to be encrypted")
    if settings.storage.require_encrypted and find_encryption(folder) is None:
        raise UsageError(f"nothing is written to {folder}: no encryption is known there (storage.require_encrypted)")


def _is_dm_crypt(block: Path, depth: int = 0) -> bool:
    uuid = block / "dm" / "uuid"
    if uuid.is_file() and uuid.read_text().startswith("CRYPT-"):
        return True
    below = [*(block / "slaves").glob("*")] if depth < 8 else []
    return bool(below) and all(_is_dm_crypt(device, depth + 1) for device in below)


def encrypt_store(store: Path, key: str) -> None:
    """Move a store into a folder beside it that gocryptfs encrypts, and mount that in its place; where it lies in one
    already, mount that alone.

    The plain store is renamed first and removed last: of a move that was killed the next call begins anew, one that
    fails puts it back.

    Raises:
        UsageError: gocryptfs is not there or refuses, the passphrase is another's, or the store has links.
        StoreLocked: a run is at it, or another of these.
    """
    store = store.resolve()
    sealed, moving, half, mount = (store.with_name(store.name + end) for end in (ENCRYPTED, MOVING, ".half", ".mount"))
    if sys.platform != "linux":
        raise UsageError("this is for Linux: use FileVault, which storage.require_encrypted knows, or BitLocker")
    if not shutil.which("gocryptfs"):
        raise UsageError("this needs gocryptfs and FUSE: `apt install gocryptfs fuse3`, or what your system calls them")
    # a run that was killed is taken up where it was: the folder sealed, mounted, and what was plain gone
    with ExitStack() as locks:
        if not sealed.exists():
            plain = moving if moving.exists() else store
            if any(path.is_symlink() for path in plain.rglob("*")):
                raise UsageError(f"{plain} has links, and what they lead to would stay as it is: nothing was done")
            for space in [path for path in plain.glob("*") if path.is_dir()]:
                locks.callback(hold_lock(space).release)
            if plain == store:
                make_private_folder(store)
                store.rename(moving)
            try:
                _fill(half, mount, moving, key)
            except BaseException:
                unmount(mount)
                moving.rename(store)
                raise
            half.rename(sealed)
            os.sync()
        if not os.path.ismount(store):
            unmount(store)
            make_private_folder(store)
            _call("gocryptfs", "-q", sealed, store, key=key)
        if moving.exists():
            shutil.rmtree(moving)


def unmount(mount: Path) -> None:
    """Lock what an encrypted folder holds, where it is mounted, also by a gocryptfs that died.

    Raises:
        UsageError: somebody uses it.
    """
    done = subprocess.run(["fusermount3", "-u", mount], capture_output=True, text=True, check=False)
    if os.path.ismount(mount):
        raise UsageError(f"{mount} can't be locked: {done.stderr.strip()}")


def _fill(half: Path, mount: Path, plain: Path, key: str) -> None:
    """Encrypt a copy of a folder, and compare it with what can be read back."""
    unmount(mount)
    for folder in (half, mount):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
    _call("gocryptfs", "-init", "-q", half, key=key)
    _call("gocryptfs", "-q", half, mount, key=key)
    shutil.copytree(plain, mount, dirs_exist_ok=True)
    unmount(mount)
    _call("gocryptfs", "-q", half, mount, key=key)
    for path in plain.rglob("*"):
        copy = mount / path.relative_to(plain)
        if path.is_file() and not filecmp.cmp(path, copy, shallow=False):
            raise UsageError(f"{copy} differs from {path}: nothing was done")
    unmount(mount)
    mount.rmdir()
    os.sync()


def _call(*words: str | Path, key: str = "") -> None:
    """Call a program, which reads the passphrase from its input."""
    done = subprocess.run(words, input=key, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"{words[0]} refuses: {' '.join((done.stderr or done.stdout).split())[-200:]}")
