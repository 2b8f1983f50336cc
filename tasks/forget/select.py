"""Select the messages to forget: those that a request names, and those that are too old."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from itertools import compress
from operator import and_
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.errors import UsageError
from slowwave.schemas.rows import MessageRow, SessionRow
from slowwave.schemas.settings import RetentionSettings
from slowwave.schemas.tables import CLAIMS, MESSAGES, SESSIONS, Table
from slowwave.schemas.vocabulary import SHARED
from slowwave.store.names import find_named_row, find_sessions
from slowwave.store.store import Store
from slowwave.tasks.forget.spelling import Words
from slowwave.text.times.dates import convert_to_utc
from slowwave.text.workspaces import (
    anchor_workspace,
    find_by_last_parts,
    match_workspaces,
    require_workspaces,
)


@dataclass(frozen=True)
class Wanted:
    """What to forget. A message must match one value of each kind that is given."""

    sessions: tuple[str, ...] = ()
    """Native ids, or our ids or their first characters."""
    messages: tuple[str, ...] = ()
    matches: tuple[str, ...] = ()
    """`Words` in the text, in a tool's call or output, or in the speaker's name; or an id of a message or session."""
    speakers: tuple[str, ...] = ()
    workspaces: tuple[str, ...] = ()
    before: datetime | None = field(default=None, kw_only=True)
    notes: tuple[str, ...] = ()
    """Ids of notes and talks, as `remember` returned them."""
    sources: tuple[str, ...] = ()
    """Names of formats; `shared:NAME` for the claims of one other memory."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the kinds that are given, without their values, which may be what is to be forgotten."""
        return tuple(name for name, value in vars(self).items() if value)

    def check(self) -> None:
        """Check that the request names something.

        Raises:
            UsageError: it names nothing, or one of `matches` is blank.
        """
        if not self.kinds:
            raise UsageError(
                "name what to forget: a session, message, text, speaker, project, day, note or source"
            )
        if self.matches and not all(Words(self.matches).folded):
            raise UsageError("--match needs text: blank text matches everything")


def select_messages(store: Store, wanted: Wanted) -> set[str]:
    """Return ids of the messages that a request names.

    Raises:
        UsageError: the request names nothing, the vault does not have a session, message, note or workspace of it, or a
            message's id is in several sessions.
    """
    wanted.check()
    sessions = store.read(
        SESSIONS, ["session_id", "native_id", "workspace"]
    ).to_pylist()
    named = (*wanted.sessions, *wanted.notes)
    what = "note" if wanted.notes else "session"
    ids = find_sessions(store, named, what) if named else None
    where = [] if ids is None else [_is_in("session_id", ids)]
    if wanted.messages:
        where.append(_is_in("message_id", _find_messages(store, wanted.messages, ids)))
    where += _list_conditions(store, wanted, sessions)
    fits = reduce(and_, where) if where else None
    messages = store.open_dataset(MESSAGES)
    if not wanted.matches:
        return set(messages.to_table(["message_id"], fits)["message_id"].to_pylist())
    columns = ["message_id", "text", "speaker", "blocks"]
    words = Words(wanted.matches)
    batches = messages.to_batches(columns=columns, filter=fits, batch_size=2_048)
    holders = {message for batch in batches for message in _find_holders(batch, words)}
    by_id = _has_id(set(wanted.matches), sessions)
    by_id = by_id if fits is None else by_id & fits
    named_rows = messages.to_table(["message_id"], by_id)["message_id"]
    return holders.union(named_rows.to_pylist())


def _has_id(given: set[str], sessions: list[SessionRow]) -> pc.Expression:
    """Return the condition that a message, or its session, has one of these ids."""
    session_ids = [
        row["session_id"]
        for row in sessions
        if given & {row["native_id"], row["session_id"]}
    ]
    return (
        _is_in("message_id", given)
        | _is_in("native_id", given)
        | _is_in("session_id", session_ids)
    )


def select_due_messages(
    store: Store, settings: RetentionSettings, now: datetime
) -> set[str]:
    """Return ids of the messages that are older than the settings allow.

    The limit for talks and notes applies first, then that of the workspace, the source, and all messages. A message
    without a time is never due.
    """
    if not settings.has_message_limits:
        return set()
    paths = {
        r["session_id"]: r["path"]
        for r in store.read(SESSIONS, ["session_id", "path"]).to_pylist()
    }
    limits = settings.by_project.items()
    workspaces = _list_workspaces(store)
    places = {
        name: days
        for workspace, days in limits
        for name in match_workspaces(workspace, workspaces)
    }
    folders = {
        str(store.dir / "talk"): settings.talk_days,
        str(store.dir / "notes"): settings.notes_days,
    }

    def is_due(row: MessageRow) -> bool:
        folder = str(Path(paths.get(row["session_id"], "")).parent)
        days = settings.messages_days
        days = settings.by_source.get(row["source"], days)
        days = places.get(row["workspace"] or "", days)
        days = folders.get(folder, days)
        return bool(days and row["ts"] and row["ts"] < now - timedelta(days=days))

    columns = ["message_id", "session_id", "ts", "workspace", "source"]
    batches = store.open_dataset(MESSAGES).to_batches(columns=columns)
    return {
        row["message_id"]
        for batch in batches
        for row in batch.to_pylist()
        if is_due(row)
    }


def list_unmatched(store: Store, settings: RetentionSettings) -> list[str]:
    """Return a line for each workspace of the settings that no stored workspace matches, but that is the end of
    some.
    """
    known = _list_workspaces(store)
    lines = list[str]()
    for workspace in settings.by_project:
        groups = (
            []
            if match_workspaces(workspace, known)
            else find_by_last_parts(workspace, known)
        )
        if groups:
            whole = ", ".join(repr(group[0]) for group in groups)
            lines.append(
                f"retention.by_project: no message is of {workspace!r}; write the whole path: {whole}"
            )
    return lines


def _find_holders(batch: pa.RecordBatch, words: Words) -> Iterator[str]:
    """Yield ids of the messages that contain the words in their text, a tool's call or output, or the speaker's
    name.
    """
    ids = batch["message_id"]
    blocks = batch["blocks"].flatten()
    of = ids.take(pc.list_parent_indices(batch["blocks"]))
    for owners, texts in (
        (ids, batch["text"]),
        (ids, batch["speaker"]),
        *((of, pc.struct_field(blocks, name)) for name in ("text", "name")),
    ):
        yield from compress(owners.to_pylist(), words.stand_in(texts.to_pylist()))


def _find_messages(
    store: Store, names: tuple[str, ...], sessions: set[str] | None
) -> set[str]:
    """Return our ids of the messages with these ids (native or ours), or of the messages that claims with them cite.

    Args:
        store: the store to search.
        names: ids as a person gave them.
        sessions: look for messages only in these sessions; None for all.

    Raises:
        UsageError: there is no such message, several sessions have it, or the id is that of another kind of row.
    """
    ids = set[str]()
    for name in names:
        where = _is_in("message_id", [name]) | _is_in("native_id", [name])
        where = where if sessions is None else where & _is_in("session_id", sessions)
        same = store.read(MESSAGES, ["message_id", "session_id"], where).to_pylist()
        places = {row["session_id"] for row in same}
        if len(places) > 1 and sessions is None:
            raise UsageError(
                f"message {name} is in {len(places):,} sessions: name one with --session"
            )
        ids |= {row["message_id"] for row in same} or _find_cited(store, name)
    return ids


def _find_cited(store: Store, name: str) -> set[str]:
    """Return the message with an id as commands print it, or the messages that a claim with this id cites.

    Raises:
        UsageError: nothing has the id, or it is that of another kind of row.
    """
    found = find_named_row(store, name)
    if found is None:
        raise UsageError(
            f"no such message: {name}; the id is the transcript's own, or a hit's"
        )
    if found.kind == "message":
        return {found.id}
    if found.kind == "claim":
        rows = store.read(CLAIMS, ["message_ids"], pc.field("claim_id") == found.id)
        return {message for row in rows.to_pylist() for message in row["message_ids"]}
    raise UsageError(
        f"{name} is a {found.kind}, which is made of many: `slowwave show {name}` names the messages; --session, "
        "--message or --match says what to forget"
    )


def _list_conditions(
    store: Store, wanted: Wanted, sessions: list[SessionRow]
) -> Iterator[pc.Expression]:
    """Yield conditions on rows of MESSAGES besides session, id and words."""
    if wanted.speakers:
        names = {name.casefold() for name in wanted.speakers}
        yield _is_in(
            "speaker",
            [
                name
                for name in _list_values(store, MESSAGES, "speaker")
                if name.casefold() in names
            ],
        )
    if wanted.workspaces:
        workspaces = _list_workspaces(store)
        named = [
            require_workspaces(anchor_workspace(workspace), workspaces)
            for workspace in wanted.workspaces
        ]
        places = {place for names in named for place in names}
        inside = [row["session_id"] for row in sessions if row["workspace"] in places]
        yield _is_in("workspace", places) | _is_in("session_id", inside)
    if wanted.sources:
        # `shared:ann` names the sessions `ann` and `ann/shop` of another memory.
        given = [
            row["session_id"]
            for row in sessions
            if f"{SHARED}:{row['native_id'].split('/')[0]}" in wanted.sources
        ]
        yield _is_in("source", wanted.sources) | (
            _is_in("source", [SHARED]) & _is_in("session_id", given)
        )
    if wanted.before:
        yield pc.field("ts") < convert_to_utc(wanted.before)


def _is_in(column: str, values: Iterable[str]) -> pc.Expression:
    return pc.field(column).isin(pa.array(values, pa.string()))


def _list_workspaces(store: Store) -> list[str]:
    return [
        name
        for table in (MESSAGES, SESSIONS)
        for name in _list_values(store, table, "workspace")
    ]


def _list_values(store: Store, table: Table, column: str) -> list[str]:
    values: list[str] = (
        store.read(table, [column])[column].unique().drop_null().to_pylist()
    )
    return values
