"""The latest of what was said, without a question: turns with their gists and keywords."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.hits import Shown
from slowwave.recall.release.view import View
from slowwave.recall.views.show import collect_tags
from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import GISTS, MESSAGES, OBSERVATIONS
from slowwave.schemas.vocabulary import SPOKEN, name_speaker
from slowwave.store.workspaces import anchor_workspace, require_workspaces

COLUMNS = ["message_id", "session_id", "role", "origin", "speaker", "text", "ts", "workspace", "blocks"]


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
    """In a sentence, where gists are made."""
    keywords: tuple[str, ...]
    """Of its gist, and of the claims that were made of it."""
    tags: tuple[str, ...]


def list_recent(
    view: View, n: int = 10, workspace: str | None = None, keyword: str | None = None, tag: str | None = None
) -> list[RecentTurn]:
    """Return the last turns of people and models that have a time, the newest first.

    Args:
        view: the release.
        n: turns, at most.
        workspace: only what was said there, however it is written.
        keyword: only turns with this keyword, in whatever case.
        tag: only turns with this tag.

    Raises:
        UsageError: n under 1, or a workspace that is not known.
        StoreUnreadable: a table is broken or gone.
    """
    if n < 1:
        raise UsageError(f"n is {n}; it is the number of turns wanted, at least 1")
    wanted = (pc.field("text") != "") & pc.field("origin").isin([*map(str, SPOKEN)]) & pc.field("ts").is_valid()
    if workspace:
        places = require_workspaces(anchor_workspace(workspace), view.workspaces)
        wanted &= pc.field("workspace").isin(places)
    if keyword is not None:
        wanted &= pc.field("message_id").isin(pa.array(_find_by_keyword(view, keyword.casefold()), pa.string()))
    columns = ["message_id", "ts", *(["blocks"] if tag is not None else [])]
    found = view.read(MESSAGES, columns, wanted).sort_by([("ts", "descending"), ("message_id", "ascending")])
    if tag is not None:
        found = found.filter([tag in collect_tags(blocks or ()) for blocks in found["blocks"].to_pylist()])
    ids = found["message_id"].to_pylist()[:n]
    rows: dict[str, Any] = view.read_by_id(MESSAGES, ids, COLUMNS)
    gists: dict[str, Any] = view.read_by_id(GISTS, ids, ["summary", "keywords"])
    words = _read_claim_keywords(view, {row["session_id"] for row in rows.values()})
    return [_make_turn(view, rows[key], gists.get(key, {}), words.get(key, [])) for key in ids]


def _make_turn(view: View, row: dict[str, Any], gist: dict[str, Any], words: list[str]) -> RecentTurn:
    return RecentTurn(
        row["message_id"],
        view.native_sessions.get(row["session_id"], row["session_id"]),
        row["workspace"],
        name_speaker(row),
        row["ts"],
        row["text"],
        gist.get("summary"),
        tuple(dict.fromkeys([*gist.get("keywords", ()), *words])),
        tuple(collect_tags(row["blocks"] or ())),
    )


def _find_by_keyword(view: View, word: str) -> list[str]:
    """Return messages whose gist, or a claim made of them, has the keyword."""
    claims = view.read(OBSERVATIONS, ["message_ids", "keywords"]).to_pylist()
    gists = view.read(GISTS, ["message_id", "keywords"]).to_pylist()
    rows = [*((row["message_ids"][:1], row["keywords"]) for row in claims)]
    rows += [([row["message_id"]], row["keywords"]) for row in gists]
    return sorted({key for keys, words in rows for key in keys if word in map(str.casefold, words)})


def _read_claim_keywords(view: View, sessions: set[str]) -> dict[str, list[str]]:
    """Return by message the keywords of the claims that quote it."""
    found: dict[str, list[str]] = defaultdict(list)
    inside = pc.field("session_id").isin(pa.array(sorted(sessions), pa.string()))
    for row in view.read(OBSERVATIONS, ["message_ids", "keywords"], inside).to_pylist():
        for message in row["message_ids"][:1]:
            found[message] += row["keywords"]
    return found
