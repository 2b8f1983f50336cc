"""Back up a space to one file with the SHA-256 of each of its files, and restore it after comparing all of them.

The archive is a tar, compressed with Zstandard, whose first member is `manifest.json`. It is made under the writer's
lock: no run changes the tables meanwhile. Lines that readers append to their logs meanwhile are left out.
"""

import io
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

import orjson
import zstandard

from slowwave.schemas.errors import StoreUnreadable, UsageError
from slowwave.schemas.settings import SPACE_NAME
from slowwave.store.backup.age import MAGIC, VARIABLE, decrypt, encrypt
from slowwave.store.lock import HOLDER_FILE, writer_lock
from slowwave.store.manifest import PIECE, measure_file, sync_changes
from slowwave.store.place import refuse_copy
from slowwave.store.private import (
    make_files_private,
    make_private_folder,
    open_new,
    sync_path,
)
from slowwave.store.releases import load_releases
from slowwave.store.repair import check_store

FORMAT = "slowwave-backup/1"
MANIFEST = "manifest.json"
RESTORING = ".restoring-"
"""Prefix of the folder in which a backup is unpacked."""
Manifest = dict[str, Any]


def back_up(
    root: Path,
    space: str,
    file: Path,
    key: str | None = None,
) -> Manifest:
    """Write a space into a file, and return its manifest. With a key (a passphrase or a key of age) it is encrypted.

    Raises:
        UsageError: the file exists, or would lie in the space.
        StoreMissing: the store or space does not exist.
        StoreLocked: another run holds the store.
        StoreUnreadable: files of the space are damaged.
    """
    folder = root / space
    releases = load_releases(folder)
    if file.exists() or file.is_symlink():
        raise UsageError(f"{file} is there already: name a file that is new")
    if folder.resolve() in file.resolve().parents:
        raise UsageError(
            f"{file} would lie in the space itself, and go with it: name a file elsewhere"
        )
    # the files are measured first: under the lock they don't change before they are read
    part = file.with_name(f"{file.name}.part")
    with make_files_private(), writer_lock(folder, "backup", "backup"):
        _check_whole(folder)
        manifest: Manifest = {
            "format": FORMAT,
            "space": space,
            "release": releases[-1].name if releases else None,
            "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "files": _measure_files(folder),
        }
        # written under another name, and renamed when it is complete
        try:
            part.unlink(missing_ok=True)
            with open_new(part) as out, _open_for_writing(out, key, root) as packed:
                _add(
                    tar=packed,
                    name=MANIFEST,
                    content=(raw := orjson.dumps(manifest)),
                    size=len(raw),
                )
                for name, (size, _) in manifest["files"].items():
                    _add(tar=packed, name=name, content=folder / name, size=size)
            sync_path(part)
            part.replace(file)
            sync_path(file.parent)
        finally:
            part.unlink(missing_ok=True)
    return manifest


def _measure_files(folder: Path) -> dict[str, Any]:
    """Return by path, relative to the folder, what `measure_file` says of each file but the locks."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path.relative_to(folder).as_posix(): measure_file(path)
        for path in files
        if path.suffix != ".lock" and path.name != HOLDER_FILE
    }


def restore(
    root: Path,
    space: str | None,
    file: Path,
    key: str | None = None,
) -> Manifest:
    """Restore a space from a file of `back_up`, under its own name or another; return its manifest.

    Raises:
        UsageError: the file is not a backup, was altered or truncated, the passphrase is wrong, or the space exists.
            The store is then unchanged.
    """
    refuse_copy(root, "a backup is restored into a folder: name one with --store")
    if not file.is_file():
        raise UsageError(f"{file} is not a file")
    with make_files_private():
        make_private_folder(root)
        # unpacked beside the spaces, and renamed after all files were compared
        fresh = Path(tempfile.mkdtemp(prefix=RESTORING, dir=root))
        try:
            manifest = _unpack(file, fresh, key)
            target = root / (space or manifest["space"])
            if target.exists():
                raise UsageError(
                    f"there is a space at {target} already: nothing was restored; --space NAME names another"
                )
            _check_whole(fresh)
            sync_changes(fresh)
            fresh.rename(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return manifest


def _unpack(file: Path, fresh: Path, key: str | None) -> Manifest:
    """Unpack a backup into a folder, compare each file with its hash, and return the manifest.

    Raises:
        UsageError: as `restore`, or the disk has too little space.
    """
    try:
        with (
            file.open("rb") as source,
            _open_for_reading(source, key, fresh.parent) as packed,
        ):
            first = packed.next()
            manifest = _read_manifest(file, packed, first)
            needed = sum(size for size, _ in manifest["files"].values())
            if needed > (free := shutil.disk_usage(fresh).free):
                raise UsageError(
                    f"{file} unpacks to {needed:,} bytes, {free:,} are free: nothing was restored"
                )
            for member in packed:
                if member is first:
                    continue
                if member.size != manifest["files"].get(member.name, [None])[0]:
                    raise UsageError(
                        f"{file} lists {member.name!r} with another size: nothing was restored"
                    )
                packed.extract(member, fresh, filter="data")
    except (
        tarfile.TarError,
        zstandard.ZstdError,
        EOFError,
        AttributeError,
        TypeError,
        ValueError,
        KeyError,
    ) as broken:
        raise UsageError(
            f"{file} is not a backup of slowwave's, or was cut: {broken}; nothing was restored"
        ) from broken
    _compare_hashes(file, fresh, manifest)
    return manifest


def _read_manifest(
    file: Path, packed: tarfile.TarFile, first: tarfile.TarInfo | None
) -> Manifest:
    """Read the manifest from the first member of an archive.

    Raises:
        UsageError: the member is not a manifest, or names an invalid space: a file from elsewhere could name any path.
    """
    member_file = (
        packed.extractfile(first) if first and first.name == MANIFEST else None
    )
    # the limit is enough for about two million files
    manifest: Manifest = orjson.loads(member_file.read(1 << 28)) if member_file else {}
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise UsageError(f"{file} is not a backup of slowwave's")
    space = str(manifest.get("space"))
    if not re.fullmatch(SPACE_NAME, space):
        raise UsageError(
            f"{file} names the space {space!r}, which is not a valid name: nothing was restored"
        )
    return manifest


def _compare_hashes(file: Path, fresh: Path, manifest: Manifest) -> None:
    """Raise a usage error if an unpacked file is missing or differs from the manifest."""
    wrong = [
        name
        for name, facts in manifest["files"].items()
        if not (fresh / name).is_file() or measure_file(fresh / name) != facts
    ]
    if wrong:
        raise UsageError(
            f"{file}: {wrong[0]} differs from its hash ({len(wrong)} files): nothing was restored"
        )


@contextmanager
def _open_for_writing(
    out: IO[bytes], key: str | None, root: Path
) -> Iterator[tarfile.TarFile]:
    """Yield an archive that is compressed into a file; before encryption it is in an unnamed file of `root`."""
    with ExitStack() as stack:
        target = (
            cast(IO[bytes], stack.enter_context(tempfile.TemporaryFile(dir=root)))
            if key
            else out
        )
        with (
            zstandard.ZstdCompressor(level=3).stream_writer(
                target, closefd=False
            ) as packer,
            tarfile.open(fileobj=cast(IO[bytes], packer), mode="w|") as tar,
        ):
            yield tar
        if key:
            target.seek(0)
            encrypt(target, out, key)


@contextmanager
def _open_for_reading(
    source: IO[bytes], key: str | None, root: Path
) -> Iterator[tarfile.TarFile]:
    is_encrypted = source.read(len(MAGIC)) == MAGIC
    source.seek(0)
    if is_encrypted and not key:
        raise UsageError(
            f"this backup is encrypted: name its passphrase by --key-file or {VARIABLE}"
        )
    if key and not is_encrypted:
        raise UsageError(
            "a passphrase is given, but this backup is not encrypted: another may lie in its place"
        )
    with ExitStack() as stack:
        if key:
            plain = cast(
                IO[bytes], stack.enter_context(tempfile.TemporaryFile(dir=root))
            )
            decrypt(source, plain, key)
            plain.seek(0)
            source = plain
        unpacked = stack.enter_context(
            zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
        )
        yield stack.enter_context(
            tarfile.open(fileobj=cast(IO[bytes], unpacked), mode="r|", tarinfo=_Member)
        )


class _Member(tarfile.TarInfo):
    """A member of an archive. `tarfile` reads a long name into memory as a whole, so a very long one is refused."""

    @classmethod
    def frombuf(
        cls,
        buf: bytes | bytearray,
        encoding: str,
        errors: str,
    ) -> "_Member":
        member = super().frombuf(buf, encoding, errors)
        if not member.isreg() and member.size > PIECE:
            raise tarfile.ReadError(f"a name of {member.size:,} bytes")
        return member


def _add(
    tar: tarfile.TarFile,
    name: str,
    content: bytes | Path,
    size: int,
) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o600
    if isinstance(content, bytes):
        tar.addfile(member, io.BytesIO(content))
        return
    member.mtime = int(content.stat().st_mtime)
    with content.open("rb") as file:
        tar.addfile(member, file)


def _check_whole(folder: Path) -> None:
    if damage := check_store(folder).damage:
        raise StoreUnreadable(
            folder, f"{damage[0]}: `slowwave check` lists all; nothing was written"
        )
