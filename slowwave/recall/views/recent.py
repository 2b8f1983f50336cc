"""The latest of what was said, without a question: turns with their gists and keywords."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from slowwave.recall.hits import Shown
from slowwave.recall.release.tables import match_any
from slowwave.recall.release.view import View
from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import CLAIMS, GISTS, MESSAGES
from slowwave.schemas.vocabulary import SPOKEN, name_speaker
from slowwave.store.notes import collect_tags
from slowwave.text.times.days import localise
from slowwave.text.workspaces import anchor_workspace, require_workspaces

COLUMNS = [
    "message_id",
    "session_id",
    "role",
    "origin",
    "speaker",
    "text",
    "ts",
    "utc_offset",
    "workspace",
    "blocks",
]


@dataclass(frozen=True, slots=True)
class RecentTurn(Shown):
    """A message, with what it boils down to."""

    id: str
    session: str
    """The transcript's own id."""
    workspace: str | None
    speaker: str
    """By name, else the role."""
    said_at: datetime
    text: str
    gist: str | None
    """In a sentence, if gists are made."""
    keywords: tuple[str, ...]
    """Of its gist, and of the claims that were made of it."""
    tags: tuple[str, ...]


def list_recent(
    view: View,
    n: int = 10,
    workspace: str | None = None,
    keyword: str | None = None,
    tag: str | None = None,
) -> list[RecentTurn]:
    """Return the last turns of people and models that have a time, the newest first.

    Args:
        view: the release.
        n: turns, at most.
        workspace: only what was said there, however it is written.
        keyword: only turns with this keyword, in whatever case.
        tag: only turns with this tag, in whatever case.

    Raises:
        UsageError: n under 1, or a workspace that is not known.
        StoreUnreadable: a table is broken or gone.
    """
    if n < 1:
        raise UsageError(f"n is {n}; it is the number of turns wanted, at least 1")
    condition = (
        (pc.field("text") != "")
        & pc.field("origin").isin([*map(str, SPOKEN)])
        & pc.field("ts").is_valid()
    )
    if workspace:
        places = require_workspaces(anchor_workspace(workspace), view.workspaces)
        condition &= pc.field("workspace").isin(places)
    if keyword is not None:
        ids = _find_keyword(view, keyword)
        condition &= match_any("message_id", ids)
    return _make_turns(view, _list_latest(view, condition, tag)[:n])


def _find_keyword(view: View, keyword: str) -> list[str]:
    """Return the messages whose gist, or a claim made of them, has a keyword, in whatever case."""
    gists = view.read_rows(GISTS, ["message_id", "keywords"])
    keywords = [
        *_read_claim_keywords(view),
        *((row["message_id"], row["keywords"]) for row in gists),
    ]
    word = keyword.casefold()
    return sorted({key for key, words in keywords if word in map(str.casefold, words)})


def _list_latest(view: View, condition: pc.Expression, tag: str | None) -> list[str]:
    """Return ids of the messages that meet a condition, and have the tag in whatever case, the latest first."""
    columns = ["message_id", "ts", *(["blocks"] if tag is not None else [])]
    messages = view.read(MESSAGES, columns, condition).sort_by(
        [("ts", "descending"), ("message_id", "ascending")]
    )
    ids: list[str] = messages["message_id"].to_pylist()
    if tag is None:
        return ids
    word = tag.casefold()
    blocks_of = messages["blocks"].to_pylist()
    return [
        key
        for key, blocks in zip(ids, blocks_of, strict=True)
        if word in map(str.casefold, collect_tags(blocks or ()))
    ]


def _make_turns(view: View, ids: list[str]) -> list[RecentTurn]:
    """Return messages as turns, with their gists and the keywords of the claims that quote them."""
    rows: dict[str, Any] = view.read_by_id(MESSAGES, ids, COLUMNS)
    made: dict[str, Any] = view.read_by_id(GISTS, ids, ["summary", "keywords"])
    of_claims: dict[str, list[str]] = defaultdict(list)
    sessions = sorted({row["session_id"] for row in rows.values()})
    inside = match_any("session_id", sessions)
    for key, words in _read_claim_keywords(view, inside):
        of_claims[key] += words
    turns: list[RecentTurn] = []
    for key in ids:
        row = rows[key]
        gist = made.get(key, {})
        turn = RecentTurn(
            key,
            session=view.native_sessions.get(row["session_id"], row["session_id"]),
            workspace=row["workspace"],
            speaker=name_speaker(row),
            said_at=localise(row["ts"], row["utc_offset"]),
            text=row["text"],
            gist=gist.get("summary"),
            keywords=tuple(dict.fromkeys([*gist.get("keywords", ()), *of_claims[key]])),
            tags=tuple(collect_tags(row["blocks"] or ())),
        )
        turns.append(turn)
    return turns


def _read_claim_keywords(
    view: View, where: pc.Expression | None = None
) -> list[tuple[str, list[str]]]:
    """Return messages with the keywords of each claim that quotes them."""
    claims = view.read_rows(CLAIMS, ["message_ids", "keywords"], where)
    return [(key, row["keywords"]) for row in claims for key in row["message_ids"][:1]]
