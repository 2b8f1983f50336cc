"""Read a downloaded export: a ZIP with files of one of the other formats.

The reader that recognises the first known member reads every member that it recognises. Nothing is unpacked beside the
archive: each member is in a temporary folder while it is read, under the last part of its name.
"""

import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from slowwave.tasks.ingest.formats.nearest import HOW
from slowwave.tasks.ingest.parsing.lines import (
    LEFT,
    BoundedUnpacking,
    get_inner_suffix,
    iter_documents,
)
from slowwave.tasks.ingest.parsing.records import (
    HUMAN,
    Limits,
    Reader,
    Record,
    Rejected,
    Skipped,
    UnknownFormat,
)
from slowwave.tasks.ingest.parsing.unread import holds_turn

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
    troubles: list[Exception] = []
    try:
        with zipfile.ZipFile(path) as archive:
            names = [member.filename for member in _list_members(archive)]
            others = [name for name in archive.namelist() if name not in names]
            for name in names:
                if inner := _detect_member(
                    archive=archive, name=name, detect=detect, troubles=troubles
                ):
                    return replace(
                        inner, read=partial(_read, inner=inner, detect=detect)
                    )
    except TROUBLE as error:
        raise UnknownFormat(path, f"the ZIP can't be read: {error}") from error
    if troubles:
        raise UnknownFormat(path, f"the ZIP can't be read: {troubles[0]}")
    listed = [name for name in names or others if not name.endswith("/")]
    shown = ", ".join(listed[:NAMED]) + ", …" * (len(listed) > NAMED)
    why = "" if names else "it holds no JSON, but "
    raise UnknownFormat(
        path,
        f"no reader knows a file in the ZIP: {why}{shown or 'nothing'}; unpack it and name its folder, or {HOW}",
    )


def _detect_member(
    archive: zipfile.ZipFile,
    name: str,
    detect: Callable[[Path], Reader],
    troubles: list[Exception],
) -> Reader | None:
    """Return the reader that recognises a member; None if there is none. Add an error to `troubles`."""
    try:
        with suppress(UnknownFormat), _unpack(archive, name) as copy:
            return detect(copy)
    except TROUBLE as error:  # another member may be whole
        troubles.append(error)
    return None


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
                        copy=copy,
                        name=member.filename,
                        limits=limits,
                        inner=inner,
                        detect=detect,
                    )
            except TROUBLE as error:
                yield Rejected(0, f"{member.filename}: it can't be unpacked: {error}")


def _leave_out(
    copy: Path,
    name: str,
    limits: Limits,
    inner: Reader,
    known: str | None,
) -> Skipped | Rejected:
    """Return a member that is not read, as skipped or rejected. `known` is the reader that recognises it, if any."""
    if known:
        why = f"it is {known}'s, and the ZIP is read as {inner.name}'s: unpack it and name its folder"
        return Rejected(0, f"{name}: {why}")
    items = iter_documents(copy, limits)
    if any(
        not isinstance(item, Rejected) and holds_turn(item[1], HUMAN) for item in items
    ):
        return Rejected(
            0, f"{name}: it holds what somebody said, and no reader knows it: {HOW}"
        )
    return Skipped(f"file in a ZIP: {name}")


def _read_member(
    copy: Path,
    name: str,
    limits: Limits,
    inner: Reader,
    detect: Callable[[Path], Reader],
) -> Iterator[Record]:
    """Yield the records of a member.

    For a member of another format (such as the account's settings), yield that it is skipped; if it may hold a
    person's words, that it is rejected.
    """
    known: str | None = None
    with suppress(UnknownFormat):
        known = detect(copy).name
    if known != inner.name:
        yield _leave_out(copy=copy, name=name, limits=limits, inner=inner, known=known)
        return
    for record in inner.read(copy, limits):
        yield (
            replace(record, reason=f"{name}: {record.reason}")
            if isinstance(record, Rejected)
            else record
        )
