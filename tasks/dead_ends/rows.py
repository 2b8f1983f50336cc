"""Make rows of DEAD_ENDS of what sessions tried and left, and tell in which later session it worked after all."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import DeadEndRow, SessionRow
from slowwave.tasks.dead_ends.find import (
    STATUS,
    DeadEnd,
    get_share,
)
from slowwave.tasks.dead_ends.moves import TOKEN, Move, MoveKind, read_moves
from slowwave.text.cells import shorten_text
from slowwave.text.fence import escape_line
from slowwave.text.languages import LANGUAGES_OF
from slowwave.text.rarity import weigh_word
from slowwave.text.redact import redact_text

COLUMNS = ["message_id", "session_id", "seq", "origin", "text", "blocks", "ts"]
"""Columns of MESSAGES that are read."""
LONGEST = 200
"""Characters of a line that is kept."""
MOST_NAMES = 60
"""Names of an edit that are kept."""
SAME = 0.9
"""Share of an edit's names that a later one has, at least, to be the same edit."""


def read_sessions(
    messages: pa.Table, sessions: pa.Table
) -> list[tuple[SessionRow, list[Move]]]:
    """Return the sessions in their order, each with its moves."""
    about = sessions.to_pylist()
    gone = {message for row in about for message in row["inactive"]}
    frame = pl.DataFrame(messages).filter(
        ~pl.col("message_id").is_in(pl.Series(sorted(gone), dtype=pl.String).implode())
    )
    by_session = {
        str(key[0]): group.to_dicts()
        for key, group in frame.sort("session_id", "seq").group_by(
            ["session_id"], maintain_order=True
        )
    }
    return [
        (row, read_moves(by_session.get(row["session_id"], []), row["workspace"]))
        for row in about
    ]


def build_rows(
    session: SessionRow, dead_ends: Sequence[DeadEnd], step_key: str
) -> list[DeadEndRow]:
    """Return rows of DEAD_ENDS of one session."""
    return [
        {
            "dead_end_id": compute_content_id("dead_end", one.attempt.message),
            "session_id": session["session_id"],
            "workspace": session["workspace"],
            "kind": one.attempt.kind,
            "path": _clean(one.attempt.path),
            "attempt": _clean(one.attempt.line) or "",
            "words": [redact_text(word)[:LONGEST] for word in one.words[:MOST_NAMES]],
            "attempt_id": one.attempt.message,
            "failure_id": one.failure,
            "error": _clean(choose_line(one.reason, one.after)) or "",
            "by_person": one.is_by_person,
            "instead": _clean(describe_move(one.instead)) if one.instead else None,
            "instead_id": one.instead.message if one.instead else None,
            "at": one.at,
            "worked_in": None,
            "step_key": step_key,
        }
        for one in dead_ends
    ]


def describe_move(move: Move) -> str:
    """Return a command, or an edit's file with the first line that it brings in."""
    if move.kind is not MoveKind.EDIT or not move.path:
        return move.line
    return f"{move.path}: {move.line}" if move.line else move.path


def choose_line(output: str, after: str) -> str:
    """Return the line of an output that has most words of what was said of it next, a rare one counting more; of
    several the one with more words without a meaning, then the first.
    """
    lines = [line.strip() for line in output.splitlines()]
    lines = [line for line in lines if not STATUS.match(line)]
    said = {word.casefold() for word in TOKEN.findall(after)}
    shared = [
        said & {word.casefold() for word in TOKEN.findall(line)} for line in lines
    ]
    weights = [
        (sum(map(weigh_word, words - LANGUAGES_OF.keys())), len(words))
        for words in shared
    ]
    return lines[weights.index(max(weights))] if lines else ""


def _clean(text: str | None) -> str | None:
    """Return a text as it is stored: one line, redacted, cut with an ellipsis."""
    if not text:
        return None
    safe = redact_text(escape_line(text[: 2 * LONGEST]))
    return shorten_text(safe, LONGEST - len(" …"))


def find_where_worked(
    row: Mapping[str, Any], moves: Sequence[Move], own: Sequence[DeadEnd]
) -> bool:
    """Return True if a later session did the same, and it worked.

    Args:
        row: of DEAD_ENDS.
        moves: of the later session.
        own: the dead ends of the later session: what led to one did not work.
    """
    left = {one.attempt.message for one in own}
    names = frozenset(row["words"])
    in_words = row["kind"] == MoveKind.WORDS
    for move in moves:
        if not move.ok or move.message in left:
            continue
        if row["at"] and move.at and move.at <= row["at"]:
            continue
        if in_words and move.brings_in(names):
            return True
        if move.kind != row["kind"]:
            continue
        if move.kind in (MoveKind.RUN, MoveKind.CHECK) and [*move.words] == [
            *row["words"]
        ]:
            return True
        is_same_file = move.kind is MoveKind.EDIT and move.path == row["path"]
        if is_same_file and get_share(names, move.added) >= SAME:
            return True
    return False
