"""Detect whether a folder is on an encrypted disk, and whether a store's encrypted folder is unlocked.

A store can lie in a folder that gocryptfs encrypts (docs/install.md): `STORE.encrypted` beside the store is mounted in
the store's place.
"""

import os
import shutil
import subprocess
from pathlib import Path

ENCRYPTED = ".encrypted"
"""End of the name of the encrypted folder beside a store."""
FILE_SYSTEMS = (
    "fuse.gocryptfs",
    "fuse.cryfs",
    "fuse.encfs",
    "fuse.securefs",
    "ecryptfs",
)


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


def is_locked(store: Path) -> bool:
    """Return True if an encrypted folder lies beside the store and is not mounted in its place.

    The store is then locked, or it is being moved into the encrypted folder.
    """
    store = store.resolve()
    return store.with_name(store.name + ENCRYPTED).exists() and not os.path.ismount(
        store
    )


def describe_lock(store: Path) -> str | None:
    """Return why a store is locked, with the command that unlocks it; None if it is not locked."""
    if not is_locked(store):
        return None
    store = store.resolve()
    sealed = f"{store}{ENCRYPTED}"
    return f"{sealed} is not mounted there; `gocryptfs {sealed} {store}` unlocks it"


def _is_dm_crypt(block: Path, depth: int = 0) -> bool:
    uuid = block / "dm" / "uuid"
    if uuid.is_file() and uuid.read_text().startswith("CRYPT-"):
        return True
    below = [*(block / "slaves").glob("*")] if depth < 8 else []
    return bool(below) and all(_is_dm_crypt(device, depth + 1) for device in below)
