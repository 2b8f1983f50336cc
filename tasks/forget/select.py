"""Which messages are meant: rows of MESSAGES in, the ids of those to forget out."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from itertools import compress
from operator import and_
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import RetentionSettings
from slowwave.schemas.tables import MESSAGES, SESSIONS, Table
from slowwave.schemas.vocabulary import SHARED
from slowwave.store.store import Store
from slowwave.store.workspaces import anchor_workspace, find_by_last_parts, match_workspaces, require_workspaces
from slowwave.text.dates import convert_to_utc
from slowwave.text.fence import CONTROLS, neutralize_template_marks

ESCAPED = re.compile(r'\\(?:u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})*|["\\/bfnrt])')
"""JSON's escapes; two numbers in a row may be one letter."""
Row = dict[str, Any]


class Words:
    """Words to find, whatever their case, letter forms, white space, JSON escapes, invisible characters and marks."""

    def __init__(self, phrases: Sequence[str]) -> None:
        self.folded = {_fold(phrase) for phrase in phrases}
        self.width = 6 * max(len(phrase.encode("utf-8", "replace")) for phrase in self.folded)

    def stand_in(self, texts: Sequence[str | None]) -> list[bool]:
        """Return of each text whether it holds any of them."""
        folded = (_fold(text or "") for text in texts)
        return [any(phrase in text for phrase in self.folded) for text in folded]

    def find(self, data: bytes | memoryview) -> set[str]:
        """Return the words where some bytes hold any of them."""
        return self.folded if self.stand_in([str(data, "utf-8", "ignore")])[0] else set()


def _fold(text: str) -> str:
    """Return a text in the form that it is compared in."""
    while "\\" in text and text != (text := ESCAPED.sub(lambda match: json.loads(f'"{match[0]}"'), text)):
        pass
    if not text.isprintable():  # most texts are, and need no look at each letter
        unseen = {ord(char): None for char in set(text) if category(char) in CONTROLS and not char.isspace()}
        text = text.translate(unseen)
    return " ".join(normalize("NFKC", neutralize_template_marks(text).casefold()).split())


@dataclass(frozen=True)
class Wanted:
    """What to forget. Of one kind any, of several kinds all must hold."""

    sessions: tuple[str, ...] = ()
    """By the transcript's own id, or ours."""
    messages: tuple[str, ...] = ()
    matches: tuple[str, ...] = ()
    """`Words` of the text, of a tool's call or output, or of the speaker's name; or an id."""
    speakers: tuple[str, ...] = ()
    workspaces: tuple[str, ...] = ()
    before: datetime | None = field(default=None, kw_only=True)
    notes: tuple[str, ...] = ()
    """Notes and talks, by the id that `remember` gave."""
    sources: tuple[str, ...] = ()
    """A format's name; `shared:NAME` for what one other memory gave."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is asked for, without its words: they may be what is to be forgotten."""
        return tuple(name for name, value in vars(self).items() if value)

    def check(self) -> None:
        """Check that something is asked for.

        Raises:
            UsageError: nothing is, or nothing but blanks.
        """
        if not self.kinds:
            raise UsageError("name what to forget: a session, message, text, speaker, workspace, day, note or source")
        if self.matches and not all(Words(self.matches).folded):
            raise UsageError("--match needs text: blank text matches everything")


def select_messages(store: Store, wanted: Wanted) -> set[str]:
    """Return ids of the messages that are meant.

    Raises:
        UsageError: a session, message, note or workspace that the vault does not hold, or a message of several
            sessions.
    """
    wanted.check()
    sessions = store.read(SESSIONS, ["session_id", "native_id", "workspace"]).to_pylist()
    ids = _find_sessions(sessions, (*wanted.sessions, *wanted.notes), only_noted=bool(wanted.notes))
    where = [] if ids is None else [_is_in("session_id", ids)]
    if wanted.messages:
        where.append(_is_in("message_id", wanted.messages) | _is_in("native_id", wanted.messages))
        named = store.read(MESSAGES, ["message_id", "native_id", "session_id"], reduce(and_, where)).to_pylist()
        _check_messages(wanted.messages, named, in_sessions=ids is not None)
    # Conditions on columns, then the words themselves.
    where += _list_conditions(store, wanted, sessions)
    messages, fits = store.open_dataset(MESSAGES), reduce(and_, where) if where else None
    if not wanted.matches:
        return set(messages.to_table(["message_id"], fits)["message_id"].to_pylist())
    columns, words = ["message_id", "text", "speaker", "blocks"], Words(wanted.matches)
    batches = messages.to_batches(columns=columns, filter=fits, batch_size=2_048)
    texts = {message for batch in batches for message in _find_holders(batch, words)}
    given = set(wanted.matches)
    session_ids = [row["session_id"] for row in sessions if given & {row["native_id"], row["session_id"]}]
    by_id = _is_in("message_id", given) | _is_in("native_id", given) | _is_in("session_id", session_ids)
    by_id = by_id if fits is None else by_id & fits
    return texts.union(messages.to_table(["message_id"], by_id)["message_id"].to_pylist())


def select_due_messages(store: Store, settings: RetentionSettings, now: datetime) -> set[str]:
    """Return ids of the messages whose time is over: of their kind, else of their workspace, source, or any."""
    if not settings.has_message_limits:
        return set()
    paths = {r["session_id"]: r["path"] for r in store.read(SESSIONS, ["session_id", "path"]).to_pylist()}
    limits, workspaces = settings.by_workspace.items(), _list_workspaces(store)
    places = {name: days for workspace, days in limits for name in match_workspaces(workspace, workspaces)}
    folders = {str(store.dir / "talk"): settings.talk_days, str(store.dir / "notes"): settings.notes_days}

    def is_due(row: Row) -> bool:
        folder = str(Path(paths.get(row["session_id"], "")).parent)
        days = settings.messages_days
        days = settings.by_source.get(row["source"], days)
        days = places.get(row["workspace"] or "", days)
        days = folders.get(folder, days)
        return bool(days and row["ts"] and row["ts"] < now - timedelta(days=days))

    columns = ["message_id", "session_id", "ts", "workspace", "source"]
    batches = store.open_dataset(MESSAGES).to_batches(columns=columns)
    return {row["message_id"] for batch in batches for row in batch.to_pylist() if is_due(row)}


def list_unmatched(store: Store, settings: RetentionSettings) -> list[str]:
    """Return a line for each workspace of the settings that no stored one is called, but that several or one end in."""
    known, lines = _list_workspaces(store), list[str]()
    for workspace in settings.by_workspace:
        groups = [] if match_workspaces(workspace, known) else find_by_last_parts(workspace, known)
        if groups:
            whole = ", ".join(repr(group[0]) for group in groups)
            lines.append(f"retention.by_workspace: nothing is of {workspace!r}; write the whole path: {whole}")
    return lines


def _find_holders(batch: pa.RecordBatch, words: Words) -> Iterator[str]:
    """Yield ids of the messages that hold words: said, in a tool's call or output, in the speaker's name."""
    ids, blocks = batch["message_id"], batch["blocks"].flatten()
    of = ids.take(pc.list_parent_indices(batch["blocks"]))
    for owners, texts in (
        (ids, batch["text"]),
        (ids, batch["speaker"]),
        *((of, pc.struct_field(blocks, name)) for name in ("text", "name")),
    ):
        yield from compress(owners.to_pylist(), words.stand_in(texts.to_pylist()))


def _find_sessions(rows: list[Row], names: tuple[str, ...], *, only_noted: bool) -> set[str] | None:
    """Return our ids of sessions; None where none is named."""
    if not names:
        return None
    sessions = {row["session_id"]: row for row in rows if row["native_id"] in names or row["session_id"] in names}
    missing = set(names) - {row["native_id"] for row in sessions.values()} - sessions.keys()
    if missing:
        kind = "note" if only_noted else "session"
        raise UsageError(f"no such {kind}: {', '.join(sorted(missing))}; the id is the transcript's own")
    return set(sessions)


def _check_messages(ids: Iterable[str], rows: list[Row], *, in_sessions: bool) -> None:
    """Check that each is there, and is one: `rows` are all that bear the ids."""
    for message in ids:
        places = {row["session_id"] for row in rows if message in (row["message_id"], row["native_id"])}
        if not places:
            raise UsageError(f"no such message: {message}; the id is the transcript's own, or a hit's")
        if len(places) > 1 and not in_sessions:
            raise UsageError(f"message {message} is in {len(places):,} sessions: --session says of which")


def _list_conditions(store: Store, wanted: Wanted, sessions: list[Row]) -> Iterator[pc.Expression]:
    """Yield conditions on rows of MESSAGES besides session, id and words."""
    if wanted.speakers:
        names = {name.casefold() for name in wanted.speakers}
        yield _is_in("speaker", [name for name in _list_values(store, MESSAGES, "speaker") if name.casefold() in names])
    if wanted.workspaces:
        workspaces = _list_workspaces(store)
        named = [require_workspaces(anchor_workspace(workspace), workspaces) for workspace in wanted.workspaces]
        places = {place for names in named for place in names}
        inside = [row["session_id"] for row in sessions if row["workspace"] in places]
        yield _is_in("workspace", places) | _is_in("session_id", inside)
    if wanted.sources:
        # Of another memory's claims the observer, as `shared:ann` of its sessions `ann` and `ann/shop`.
        given = [
            row["session_id"] for row in sessions if f"{SHARED}:{row['native_id'].split('/')[0]}" in wanted.sources
        ]
        yield _is_in("source", wanted.sources) | (_is_in("source", [SHARED]) & _is_in("session_id", given))
    if wanted.before:
        yield pc.field("ts") < convert_to_utc(wanted.before)


def _is_in(column: str, values: Iterable[str]) -> pc.Expression:
    return pc.field(column).isin(pa.array(values, pa.string()))


def _list_workspaces(store: Store) -> list[str]:
    return [name for table in (MESSAGES, SESSIONS) for name in _list_values(store, table, "workspace")]


def _list_values(store: Store, table: Table, column: str) -> list[str]:
    values: list[str] = store.read(table, [column])[column].unique().drop_null().to_pylist()
    return values
