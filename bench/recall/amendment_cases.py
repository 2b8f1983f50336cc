"""Reads conversations with amended decisions: generic JSONL, and what is asked of each.

A line is a message of slowwave's generic format (`role` and `content`; `session_id`, `message_id`, `ts`, `workspace`,
`speaker` where known). A case is four fields, on the line of the message that amends, on a line of its own, or on a
line of a second file: `case` (a name), `query`, `amended` (words of the claim that holds) and `stale` (words of the
one that does not). `amended` and `stale` are a string or a list, any of which will do. Other common names of the fields
are understood: see `NAMES`.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

NAMES = {
    "case": ("case", "case_id", "qid", "id", "name"),
    "query": ("query", "question", "q", "ask", "report"),
    "amended": ("amended", "answer", "expected", "expect", "current", "new", "gold", "after"),
    "stale": ("stale", "outdated", "old", "superseded", "obsolete", "before", "previous"),
}
MESSAGE_KEYS = ("session_id", "message_id", "role", "content", "ts", "workspace", "speaker", "title")


class NoCases(ValueError):
    """A file without a single case."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths
        super().__init__(f"{', '.join(map(str, paths))}: no line with a query, `amended` and `stale` words")


@dataclass(frozen=True, slots=True)
class Case:
    """A query whose answer has changed; words in lower case."""

    name: str
    query: str
    amended: tuple[str, ...]
    stale: tuple[str, ...]
    since: datetime | None
    """When it was amended, where the case stands on that message's line."""

    def is_current(self, text: str) -> bool:
        """Return whether a text has words of the claim that holds."""
        return _has_phrase(text, self.amended)

    def is_outdated(self, text: str, at: datetime | None) -> bool:
        """Return whether a text of that time has words of the old claim alone.

        The amendment itself may name the old.
        """
        if at is not None and self.since is not None and at >= self.since:
            return False
        return not self.is_current(text) and _has_phrase(text, self.stale)


def read_cases(paths: list[Path]) -> tuple[list[dict[str, Any]], list[Case]]:
    """Return messages, as lines of the generic format, and cases, in the order of the files.

    Raises:
        NoCases: there is none.
    """
    messages: list[dict[str, Any]] = []
    cases: list[Case] = []
    for path in paths:
        for line in path.read_bytes().splitlines():
            row = orjson.loads(line) if line.strip() else {}
            if row.get("role") and row.get("content"):
                messages.append({key: row[key] for key in MESSAGE_KEYS if row.get(key) is not None})
            case = _parse_case(row, len(cases))
            if case is not None:
                cases.append(case)
    if not cases:
        raise NoCases(paths)
    return messages, cases


def _parse_case(row: dict[str, Any], number: int) -> Case | None:
    query, amended, stale = (_get_field(row, name) for name in ("query", "amended", "stale"))
    if not (query and amended and stale):
        return None
    return Case(
        str(_get_field(row, "case") or f"case {number + 1}"),
        str(query),
        _normalise_phrases(amended),
        _normalise_phrases(stale),
        _parse_time(row),
    )


def _parse_time(row: dict[str, Any]) -> datetime | None:
    if not (row.get("role") and row.get("ts")):
        return None
    at = datetime.fromisoformat(str(row["ts"]))
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _get_field(row: dict[str, Any], name: str) -> Any:
    return next((row[key] for key in NAMES[name] if row.get(key)), None)


def _normalise_phrases(value: Any) -> tuple[str, ...]:
    return tuple(_normalise_text(str(v)) for v in (value if isinstance(value, list) else [value]))


def _has_phrase(text: str, phrases: tuple[str, ...]) -> bool:
    """Return whether one of the phrases stands in the text as whole words."""
    return any(re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", _normalise_text(text)) for phrase in phrases)


def _normalise_text(text: str) -> str:
    return " ".join(text.casefold().split())
