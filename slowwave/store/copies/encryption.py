"""Whether a folder lies on an encrypted disk: what protects text, vectors and indexes alike (decision 042).

Linux alone: dm-crypt under the mount (also below LVM), gocryptfs and its kin, eCryptfs, fscrypt. Elsewhere nothing is
known, and nothing is said to be encrypted.
"""

import array
import os
from pathlib import Path

from slowwave.schemas.errors import StoreUnreadable

FILE_SYSTEMS = ("fuse.gocryptfs", "fuse.cryfs", "fuse.encfs", "fuse.securefs", "ecryptfs")
GET_POLICY = 0xC0096616
"""FS_IOC_GET_ENCRYPTION_POLICY_EX of linux/fscrypt.h."""


def find_encryption(folder: Path, mounts: Path = Path("/proc/self/mountinfo"), sys: Path = Path("/sys")) -> str | None:
    """Return what encrypts a folder, or the nearest one above it that is there; None where nothing is known to."""
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists()).resolve()
    if not mounts.is_file():
        return None
    found = max(_read_mounts(mounts), key=lambda one: len(one[1].parts) if there.is_relative_to(one[1]) else -1)
    device, _, kind = found
    if kind in FILE_SYSTEMS:
        return kind.removeprefix("fuse.")
    if _is_dm_crypt(sys / "dev" / "block" / device):
        return "dm-crypt"
    return "fscrypt" if _has_policy(there) else None


def check_encrypted(folder: Path) -> None:
    """Check that a folder is encrypted, where settings ask for it.

    Raises:
        StoreUnreadable: it is not known to be.
    """
    if find_encryption(folder) is None:
        why = "storage.require_encrypted is set, and no encryption is known of its file system (decision 042)"
        raise StoreUnreadable(folder, why)


def _read_mounts(mounts: Path) -> list[tuple[str, Path, str]]:
    """Return device (major:minor), mount point and file system of each mount; the later hides the earlier."""
    lines = [line.split(" - ", 1) for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()]
    parsed = [(left.split(), right.split()) for left, right in lines]
    return [(f[2], Path(f[4].encode().decode("unicode_escape")), t[0]) for f, t in parsed][::-1]


def _is_dm_crypt(block: Path, depth: int = 0) -> bool:
    uuid = block / "dm" / "uuid"
    if uuid.is_file() and uuid.read_text().startswith("CRYPT-"):
        return True
    below = [*(block / "slaves").glob("*")] if depth < 8 else []
    return bool(below) and all(_is_dm_crypt(one, depth + 1) for one in below)


def _has_policy(folder: Path) -> bool:
    try:
        from fcntl import ioctl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return False
    try:
        ioctl(handle, GET_POLICY, array.array("B", (24).to_bytes(8, "little") + bytes(24)))
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
