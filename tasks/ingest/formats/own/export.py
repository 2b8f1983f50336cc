"""The reader of another slowwave's exports and learnings.

An export (`slowwave export OUT` from one store, `slowwave run OUT` into another) is one transcript: its
`manifest.json`. The ids of messages and sessions in the first store are kept. A message's identity depends on ids of
its tool, so it can't be computed again, and must be the same if the tool's transcript is read too. Without the table of
sessions, a session's id is used as its name.

In learnings (`slowwave export OUT --learnings`), a claim becomes a message: its text is the claim's quote, and its
blocks have the claim's fields (prefix `LEARNING`). A document becomes one session of source `shared` for each
workspace. `slowwave.tasks.observe.shared` makes claims of them.
"""

from collections.abc import Iterator, Set
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, Field, ValidationError, field_validator

from slowwave.schemas.tables import MESSAGES, SESSIONS, TABLES, Table
from slowwave.schemas.vocabulary import LEARNINGS, SHARED
from slowwave.tasks.ingest.formats.own import generic
from slowwave.tasks.ingest.formats.own.store_folder import is_lance_table
from slowwave.tasks.ingest.parsing.lines import (
    format_excerpt,
    has_keys_in_head,
    iter_documents,
    iter_json,
    read_head,
)
from slowwave.tasks.ingest.parsing.records import (
    MODEL,
    Block,
    Head,
    Inactive,
    Limits,
    Message,
    Origin,
    Reader,
    Record,
    Rejected,
    Role,
    Session,
    SessionKind,
    StoredMessage,
    StoredSession,
    read_each,
)
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    coerce_list,
    coerce_text,
    coerce_time,
    drop_control,
    parse_role,
)
from slowwave.text.times.days import localise

MANIFEST = "manifest.json"
Id = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


NO_MESSAGES = f"this export holds no messages: `slowwave export OUT --table {MESSAGES.name}` writes them"
ENCRYPTED = (
    "this export is encrypted, and only its passphrase opens it: nothing of it was read"
)
PARTITIONED = "this export is partitioned: `slowwave run` reads exports that were written without --partition-by"


class _SessionRow(BaseModel):
    session_id: Id
    native_id: str
    source: str
    inactive: list[Id]
    workspace: str | None = None
    title: str | None = None
    kind: SessionKind | None = None
    parent_id: str | None = None


class _MessageRow(BaseModel):
    message_id: Id
    session_id: Id
    identity: Id
    native_id: str
    source: str
    role: Role
    origin: Origin
    blocks: list[Block]
    text: str
    ts: Any = None
    utc_offset: int | None = None
    parent_id: str | None = None
    speaker: str | None = None
    workspace: str | None = None


Row = TypeVar("Row", bound=BaseModel)


def sniff(head: Head) -> bool:
    """Return True if the file is an export's manifest."""
    return bool(_parse_manifest(head.data))


def list_exported(folder: Path) -> set[str]:
    """Return the names of an export's tables in a folder; none if its manifest isn't an export's.

    A file with a table's name counts only if it has the columns that the manifest lists.
    """
    path = folder / MANIFEST
    try:
        manifest = (
            _Manifest.model_validate_json(path.read_bytes()) if path.is_file() else None
        )
        files = (
            {about.file: about.columns.keys() for about in manifest.list_files()}
            if manifest
            else {}
        )
        return {
            file
            for file, columns in files.items()
            if _is_exported(folder / file, columns)
        }
    except (ValidationError, *generic.DAMAGED):
        return set()


def _is_exported(path: Path, columns: Set[str]) -> bool:
    if path.is_dir():
        return is_lance_table(path) or any(path.glob("*=*/part-*.parquet"))
    if not path.is_file():
        return False  # opening a pipe with a table's name would wait for a writer
    head = read_head(path)
    if path.suffix == ".jsonl":
        return (
            not head.data
            or head.is_cut(*columns)
            or any(columns == line.keys() for line in head.objects[:1])
        )
    names = generic.read_column_names(head)
    # the columns of an encrypted file can't be read
    return not names or columns == set(names)


class _File(BaseModel):
    file: str
    rows: int
    columns: dict[str, str]


class _Exported(_File):
    key: str


class _Manifest(BaseModel):
    """An export's manifest, whose files are then not read as transcripts."""

    release: str = Field(pattern=r"^r\d+$")
    release_id: Id
    space: str
    format: Literal["parquet", "lance", "jsonl"]
    exported_at: datetime
    tables: dict[str, _Exported] = Field(min_length=1)
    removed: _File | None = None

    def list_files(self) -> list[_File]:
        """Return the files of the tables, and that of an increment's removed rows."""
        return [*self.tables.values(), *([self.removed] if self.removed else ())]

    @field_validator("removed")
    @classmethod
    def _check_removed(cls, removed: _File | None) -> _File | None:
        if removed and removed.file.partition(".")[0] != "removed":
            raise ValueError("no file of removed rows")
        return removed

    @field_validator("tables")
    @classmethod
    def _check_tables(cls, tables: dict[str, _Exported]) -> dict[str, _Exported]:
        for name, about in tables.items():
            own = (
                name in TABLES
                and about.key == TABLES[name].key
                and about.key in about.columns
            )
            if not own or about.file.partition(".")[0] != name:
                raise ValueError(f"{name} is not an exported table")
        return tables


def _parse_manifest(raw: bytes) -> dict[str, object]:
    """Return an export's manifest; an empty object if it isn't one."""
    try:
        parsed = coerce_dict(orjson.loads(raw))
    except orjson.JSONDecodeError:
        return {}
    tabular = parsed.get("format") in ("parquet", "lance", "jsonl")
    return parsed if tabular and {"release_id", "tables"} <= parsed.keys() else {}


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the messages' rows; a session comes before its first message."""
    # The files have fixed names beside the manifest. Names in the manifest are not used.
    manifest = _parse_manifest(path.read_bytes())
    form = manifest.get("format")
    tables = coerce_dict(manifest.get("tables"))
    messages = path.with_name(f"{MESSAGES.name}.{form}")
    sessions = path.with_name(f"{SESSIONS.name}.{form}")
    if not (messages.is_file() or messages.is_dir()):
        # missing, or a pipe, which would wait for a writer
        yield Rejected(0, NO_MESSAGES)
        return
    if "salt" in coerce_dict(tables.get(MESSAGES.name)):
        yield Rejected(0, ENCRYPTED)
        return
    if manifest.get("partition_by"):
        yield Rejected(0, PARTITIONED)
        return
    ahead: dict[str, Session] = {}
    for _, row in _read_table(
        path=sessions, table=SESSIONS, form=_SessionRow, limits=limits
    ):
        if isinstance(row, Rejected):
            yield row
        else:
            ahead[row.session_id] = _make_session(row)
    announced: set[str] = set()
    for line, message in _read_table(
        path=messages, table=MESSAGES, form=_MessageRow, limits=limits
    ):
        if isinstance(message, Rejected):
            yield message
            continue
        sid = message.session_id
        source = message.source
        if sid not in announced:
            announced.add(sid)
            yield ahead.get(sid) or Session(sid, stored=StoredSession(sid, source))
        yield _make_message(message, line)


def _make_session(row: _SessionRow) -> Session:
    return Session(
        native_id=row.native_id,
        workspace=row.workspace,
        title=row.title,
        kind=row.kind,
        parent_id=row.parent_id,
        stored=StoredSession(row.session_id, row.source, tuple(row.inactive)),
    )


def _make_message(row: _MessageRow, line: int) -> Message:
    same = {"native_id", "role", "origin", "text", "parent_id", "speaker"}
    return Message(
        row.session_id,
        **row.model_dump(include=same),
        blocks=row.blocks,
        ts=localise(coerce_time(row.ts), row.utc_offset),
        line=line,
        stored=StoredMessage(
            message_id=row.message_id,
            identity=row.identity,
            source=row.source,
            workspace=row.workspace,
        ),
    )


def _read_table(
    path: Path,
    table: Table,
    form: type[Row],
    limits: Limits,
) -> Iterator[tuple[int, Row | Rejected]]:
    """Yield the number and the values of each row of a table's file; a rejection for an invalid row.

    Yield nothing if there is no file.
    """
    if not (path.is_file() or path.is_dir()):
        return
    rows = (
        iter_json(path, limits)
        if path.suffix == ".jsonl"
        else generic.read_rows(path, table.schema.names)
    )
    for item in rows:
        if isinstance(item, Rejected):
            yield item.line, item
            continue
        line, row = item
        try:
            yield line, form.model_validate(row)
        except ValidationError as error:
            name = error.errors()[0]["loc"][0]
            why = f"{name} is {row.get(str(name))!r:.60}: no export has that"
            yield line, Rejected(line, why, format_excerpt(row))


# Learnings.

FOLDER = "shared"
"""Folder of a space with the imported documents, `NAME.json`."""
WITHDRAWN = "withdrawn"
"""Key of a document with the claims that an earlier one of the same name had and this one lacks: session and id."""
LEARNING = "learning."
"""Prefix of a block's name, before the name of a claim's field. Each field has a block, so that redacting one leaves
the others intact.
"""


class _Learning(BaseModel):
    """A shared claim. Control characters are removed from its texts, since these are printed and written to files."""

    id: str = Field(pattern=r"\S")
    summary: str = Field(pattern=r"\S", max_length=1_000)
    quote: str = Field(pattern=r"\S", max_length=20_000)
    pack: Literal["coding", "personal"]
    category: str | None = Field(
        None, pattern=r"^[^\W\d_]+([_-][^\W\d_]+){0,3}$", max_length=40
    )
    detail: str | None = Field(None, max_length=4_000)
    speaker: str | None = Field(None, max_length=200)
    observed_at: Any = None
    confidence: float = Field(strict=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _clean(cls, value: object) -> object:
        return drop_control(value) or None if isinstance(value, str) else value

    @field_validator("observed_at")
    @classmethod
    def _parse_time(cls, value: object) -> datetime | None:
        return coerce_time(value)


def sniff_learnings(head: Head) -> bool:
    """Return True if the file is a document of learnings."""
    return has_keys_in_head(head, LEARNINGS, "claims")


def read_learnings(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the claims; `line` is a claim's number, from 1."""
    return read_each(iter_documents(path, limits), partial(_read_document, path))


def _read_document(
    path: Path, number: int, document: dict[str, object]
) -> Iterator[Record]:
    if document.get(LEARNINGS) != 1:
        yield Rejected(
            0,
            f"learnings of version {document.get(LEARNINGS)!r:.20}: this slowwave reads version 1",
        )
        return
    name = coerce_text(document.get("name")) or path.name.split(".")[0]
    yield from read_claims(
        name, [coerce_dict(claim) for claim in coerce_list(document.get("claims"))]
    )
    for gone in map(coerce_dict, coerce_list(document.get(WITHDRAWN))):
        session = coerce_text(gone.get("session"))
        native = coerce_text(gone.get("id"))
        if session and native and session.split("/")[0] == name:
            yield Inactive(session, native)


def read_claims(name: str, claims: list[dict[str, object]]) -> Iterator[Record]:
    """Yield the records of the claims of the source `name`: a session for each workspace, and its claims as
    messages.
    """
    workspaces = dict.fromkeys(coerce_text(claim.get("workspace")) for claim in claims)
    for workspace in workspaces:
        session = name if len(workspaces) == 1 else f"{name}/{workspace or ''}"
        yield Session(session, workspace=workspace, title=f"Learnings of {name}")
        for number, claim in enumerate(claims, 1):
            if coerce_text(claim.get("workspace")) == workspace:
                yield _parse_claim(
                    session=session, name=name, number=number, fields=claim
                )


def _parse_claim(
    session: str,
    name: str,
    number: int,
    fields: dict[str, object],
) -> Message | Rejected:
    try:
        claim = _Learning.model_validate(fields)
    except ValidationError as error:
        return Rejected(
            number,
            f"claim {number}: no usable {error.errors()[0]['loc'][0]}",
            format_excerpt(fields),
        )
    facts = {
        "summary": claim.summary,
        "category": claim.category,
        "pack": claim.pack,
        "detail": claim.detail,
        "files": "\n".join(
            file for file in coerce_list(fields.get("files")) if isinstance(file, str)
        ),
        "confidence": str(fields["confidence"]),
        "from": name,
    }
    cited = coerce_dict(next(iter(coerce_list(fields.get("cited"))), None))
    blocks = [
        Block("text", claim.quote),
        *(Block("other", v, name=LEARNING + k) for k, v in facts.items() if v),
    ]
    role, origin = parse_role(cited.get("role")) or MODEL
    return Message(
        session=session,
        native_id=claim.id,
        role=role,
        origin=origin,
        blocks=blocks,
        text=claim.quote,
        ts=claim.observed_at,
        speaker=claim.speaker,
        line=number,
    )


READER = Reader("slowwave", sniff, read, version=3)
LEARNINGS_READER = Reader(
    "learnings", sniff_learnings, read_learnings, tool=SHARED, version=2
)
