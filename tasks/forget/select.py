"""Which messages are meant: rows of MESSAGES in, the ids of those to forget out."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

import pyarrow.compute as pc

from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import RetentionSettings
from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.schemas.vocabulary import SHARED
from slowwave.store.store import Store
from slowwave.store.workspaces import anchor_workspace, find_workspaces, require_workspaces
from slowwave.text.dates import convert_to_utc
from slowwave.text.fence import CONTROLS, neutralize_template_marks

COLUMNS = ["message_id", "session_id", "native_id", "speaker", "ts", "workspace", "source"]
ESCAPED = re.compile(r'\\(?:u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})*|["\\/bfnrt])')
"""JSON's escapes; two numbers in a row may be one letter."""
Row = dict[str, Any]


class Words:
    """Words to be found however they are written and shown: case, forms of letters, white space, JSON's escapes, what
    is not seen and templates' marks apart.
    """

    def __init__(self, text: str) -> None:
        self.folded = _fold(text)
        self.width = 6 * len(self.folded.encode("utf-8", "replace"))

    def stand_in(self, text: str) -> bool:
        """Return whether a text holds them."""
        return self.folded in _fold(text)

    def find(self, data: bytes | memoryview) -> set[str]:
        """Return the words where some bytes hold them."""
        return {self.folded} if self.stand_in(str(data, "utf-8", "ignore")) else set()


def _fold(text: str) -> str:
    while text != (text := ESCAPED.sub(lambda found: json.loads(f'"{found[0]}"'), text)):
        pass
    seen = re.sub(r"[^\s -~]", lambda found: "" if category(found[0]) in CONTROLS else found[0], text)
    return " ".join(normalize("NFKC", neutralize_template_marks(seen).casefold()).split())


@dataclass(frozen=True)
class Wanted:
    """What to forget. Of one kind any, of several kinds all must hold."""

    sessions: tuple[str, ...] = ()
    """By the transcript's own id, or ours."""
    messages: tuple[str, ...] = ()
    match: str | None = None
    """`Words` of the text, of a tool's call or output, or of the speaker's name; or an id."""
    speakers: tuple[str, ...] = ()
    workspace: str | None = None
    before: datetime | None = None
    notes: tuple[str, ...] = ()
    """Notes and talks, by the id that `remember` gave."""
    source: str | None = None
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
        if self.match is not None and not self.match.strip():
            raise UsageError("--match takes words: blank text stands in everything")


def select_messages(store: Store, wanted: Wanted) -> set[str]:
    """Return ids of the messages that are meant.

    Raises:
        UsageError: a session, message, note or workspace that the vault does not hold, or a message of several
            sessions.
    """
    wanted.check()
    rows = store.read(SESSIONS, ["session_id", "native_id", "path", "workspace"]).to_pylist()
    sessions, words = {row["session_id"]: row for row in rows}, Words(wanted.match) if wanted.match else None
    ids = _find_sessions(rows, (*wanted.sessions, *wanted.notes), only_noted=bool(wanted.notes))
    places = require_workspaces(anchor_workspace(wanted.workspace), _list_workspaces(store)) if wanted.workspace else ()
    chosen, named = set[str](), defaultdict[str, set[str]](set)
    for row in _iter_messages(store, with_blocks=words is not None, sessions=ids):
        for one in {row["message_id"], row["native_id"]}.intersection(wanted.messages):
            named[one].add(row["session_id"])
        if _is_meant(row, wanted, sessions.get(row["session_id"], {}), places, words):
            chosen.add(row["message_id"])
    for one in wanted.messages:
        if one not in named:
            raise UsageError(f"no such message: {one}; the id is the transcript's own, or a hit's")
        if len(named[one]) > 1 and ids is None:
            raise UsageError(f"message {one} is in {len(named[one]):,} sessions: --session says of which")
    return chosen


def select_due_messages(store: Store, settings: RetentionSettings, now: datetime) -> set[str]:
    """Return ids of the messages whose time is over: of their kind, else of their workspace, source, or any."""
    if not settings.has_message_limits:
        return set()
    paths = {r["session_id"]: r["path"] for r in store.read(SESSIONS, ["session_id", "path"]).to_pylist()}
    asked, known = settings.by_workspace.items(), _list_workspaces(store)
    places = {name: days for one, days in asked for name in find_workspaces(one, known)}
    folders = {str(store.dir / "talk"): settings.talk_days, str(store.dir / "notes"): settings.notes_days}

    def is_due(row: Row) -> bool:
        folder = str(Path(paths.get(row["session_id"], "")).parent)
        days = settings.messages_days
        days = settings.by_source.get(row["source"], days)
        days = places.get(row["workspace"] or "", days)
        days = folders.get(folder, days)
        return bool(days and row["ts"] and row["ts"] < now - timedelta(days=days))

    return {row["message_id"] for row in _iter_messages(store) if is_due(row)}


def has_text(row: Mapping[str, Any], words: Words) -> bool:
    """Return whether a row of MESSAGES holds words."""
    texts = [row["text"], row["speaker"]]
    texts += [value for block in row["blocks"] for value in (block["text"], block["name"])]
    return any(words.stand_in(text) for text in texts if text)


def _find_sessions(rows: list[Row], names: tuple[str, ...], *, only_noted: bool) -> set[str] | None:
    """Return our ids of sessions; None where none is named."""
    if not names:
        return None
    found = {row["session_id"]: row for row in rows if row["native_id"] in names or row["session_id"] in names}
    missing = set(names) - {row["native_id"] for row in found.values()} - found.keys()
    if missing:
        kind = "note" if only_noted else "session"
        raise UsageError(f"no such {kind}: {', '.join(sorted(missing))}; the id is the transcript's own")
    return set(found)


def _is_meant(
    row: Row, wanted: Wanted, session: Mapping[str, Any], places: Collection[str], words: Words | None
) -> bool:
    """Return whether a message is meant; its session, whose row of SESSIONS this is, is."""
    if wanted.messages and {row["message_id"], row["native_id"]}.isdisjoint(wanted.messages):
        return False
    if wanted.speakers and (row["speaker"] or "").casefold() not in {one.casefold() for one in wanted.speakers}:
        return False
    if places and {row["workspace"], session.get("workspace")}.isdisjoint(places):
        return False
    if wanted.source and wanted.source not in (row["source"], _name_memory(row, session)):
        return False
    if wanted.before and not (row["ts"] and row["ts"] < convert_to_utc(wanted.before)):
        return False
    ids = (row["message_id"], row["native_id"], row["session_id"], session.get("native_id"))
    return words is None or wanted.match in ids or has_text(row, words)


def _list_workspaces(store: Store) -> set[str | None]:
    return {one for table in (MESSAGES, SESSIONS) for one in store.read(table, ["workspace"])["workspace"].to_pylist()}


def _name_memory(row: Row, session: Mapping[str, Any]) -> str | None:
    """Return the observer of another memory's claims, as `shared:ann` of its sessions `ann` and `ann/shop`."""
    return f"{SHARED}:{session.get('native_id', '').split('/')[0]}" if row["source"] == SHARED else None


def _iter_messages(store: Store, *, with_blocks: bool = False, sessions: set[str] | None = None) -> Iterator[Row]:
    columns = [*COLUMNS, "text", "blocks"] if with_blocks else COLUMNS
    where = None if sessions is None else pc.field("session_id").isin(sorted(sessions))
    for batch in store.open_dataset(MESSAGES).to_batches(columns=columns, filter=where):
        yield from batch.to_pylist()
