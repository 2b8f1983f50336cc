"""Read a downloaded export: a ZIP with files of one of the other formats.

The reader that recognises the first known member reads every member that it recognises. Nothing is unpacked beside the
archive: each member is in a temporary folder while it is read, under the last part of its name.
"""

import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from slowwave.tasks.ingest.parsing.lines import LEFT, BoundedUnpacking, get_inner_suffix
from slowwave.tasks.ingest.parsing.records import (
    Limits,
    Reader,
    Record,
    Rejected,
    Skipped,
    UnknownFormat,
)

SUFFIX = ".zip"
MAGIC = b"PK\x03\x04"
KINDS = frozenset((".json", ".jsonl", ".ndjson"))
TROUBLE = (
    zipfile.BadZipFile,
    RuntimeError,
    NotImplementedError,
    OSError,
    EOFError,
    zlib.error,
)
"""Errors of an archive that is damaged, encrypted, or packed in another way."""
NAMED = 3


def find_inner_reader(path: Path, detect: Callable[[Path], Reader]) -> Reader:
    """Return a reader of the archive, made from the reader of the first member that `detect` recognises.

    Raises:
        UnknownFormat: the archive can't be opened, or no reader knows a member.
    """
    names: list[str] = []
    try:
        with zipfile.ZipFile(path) as archive:
            names = [member.filename for member in _list_members(archive)]
            for name in names:
                with _unpack(archive, name) as copy:
                    try:
                        inner = detect(copy)
                    except UnknownFormat:
                        continue
                return replace(inner, read=partial(_read, inner=inner, detect=detect))
    except TROUBLE as error:
        raise UnknownFormat(path, f"the ZIP can't be read: {error}") from error
    listed = ", ".join(names[:NAMED]) + ", …" * (len(names) > NAMED)
    raise UnknownFormat(
        path, f"no reader knows a file in the ZIP: {listed or 'it holds no JSON'}"
    )


def _list_members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    members = [member for member in archive.infolist() if not member.is_dir()]
    return sorted(
        (m for m in members if get_inner_suffix(Path(m.filename)) in KINDS),
        key=lambda m: m.filename,
    )


@contextmanager
def _unpack(archive: zipfile.ZipFile, name: str) -> Iterator[Path]:
    """Yield an unpacked copy of a member, which lasts as long as the block.

    Raises:
        EOFError: it unpacks to too many bytes.
    """
    with TemporaryDirectory(prefix=LEFT) as folder:
        copy = Path(folder, PurePosixPath(name.replace("\\", "/")).name)
        packed = BoundedUnpacking(
            archive.open(name), archive.getinfo(name).compress_size
        )
        with packed, copy.open("wb") as target:
            shutil.copyfileobj(packed, target, 1 << 20)
        yield copy


def _read(
    path: Path,
    limits: Limits,
    inner: Reader,
    detect: Callable[[Path], Reader],
) -> Iterator[Record]:
    with zipfile.ZipFile(path) as archive:
        for member in _list_members(archive):
            try:
                with _unpack(archive, member.filename) as copy:
                    yield from _read_member(
                        copy, member.filename, limits, inner, detect
                    )
            except TROUBLE as error:
                yield Rejected(0, f"{member.filename}: it can't be unpacked: {error}")


def _read_member(
    copy: Path,
    name: str,
    limits: Limits,
    inner: Reader,
    detect: Callable[[Path], Reader],
) -> Iterator[Record]:
    """Yield the records of a member; for a member of another format (such as the account's settings), that it is
    skipped.
    """
    try:
        known = detect(copy).name == inner.name
    except UnknownFormat:
        known = False
    if not known:
        yield Skipped(f"file in a ZIP: {name}")
        return
    for record in inner.read(copy, limits):
        yield (
            replace(record, reason=f"{name}: {record.reason}")
            if isinstance(record, Rejected)
            else record
        )
