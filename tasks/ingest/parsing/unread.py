"""Records that a reader leaves out: counted by kind, unless what somebody said stands in one that it does not know.

Whose words a record holds is told by its structure: a field that names who speaks, and text beside or below it.
"""

import re
from collections.abc import Iterable

from slowwave.tasks.ingest.parsing.lines import format_excerpt
from slowwave.tasks.ingest.parsing.records import HUMAN, Rejected, Skipped, Who
from slowwave.tasks.ingest.parsing.values import parse_role

_SPEAKERS = ("role", "type", "kind", "sender", "from", "author", "speaker", "source")
"""Fields that name who speaks, in one format or another."""
_WORDS = ("content", "text", "message", "parts", "value", "body", "prompt", "input")
"""Fields that hold what was said."""
_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_DEEPEST = 6
LONGEST_NAME = 100


def leave_out(
    kind: str, line: int, record: object, *, known: bool = False
) -> Skipped | Rejected:
    """Return a record of no conversation as skipped; as rejected if it may hold a turn that nobody reads.

    A record of an unknown kind that has a sentence bears it along: if no turn of a person is read, it is quarantined.

    Args:
        kind: what the record is counted by.
        line: its place.
        record: its fields.
        known: the reader knows what such a record is: if it holds a user's words, it is rejected only if no turn of a
            person was read at all.
    """
    if known:
        return Skipped(
            kind, line, format_excerpt(record) if holds_turn(record, HUMAN) else ""
        )
    if not holds_turn(record):
        return Skipped(
            kind, line, format_excerpt(record) if has_sentence(record) else ""
        )
    return Rejected(
        line,
        f"{kind}: it holds what somebody said, and this reader can't read it",
        format_excerpt(record),
        True,
    )


def has_sentence(value: object, depth: int = _DEEPEST) -> bool:
    """Return True if a text of several words, or of a script without spaces, stands anywhere in the value."""
    if isinstance(value, str):
        return len(value.split()) > 2 or (not value.isascii() and len(value) > 5)
    below: Iterable[object]
    if isinstance(value, dict):
        below = value.values()
    elif isinstance(value, list):
        below = value
    else:
        below = ()
    return depth > 0 and any(has_sentence(item, depth - 1) for item in below)


def holds_turn(value: object, who: Who | None = None, depth: int = _DEEPEST) -> bool:
    """Return True if an object in the value names who speaks (`who`, or anybody) and has text, itself or one below."""
    if depth == 0:
        return False
    if isinstance(value, list):
        return any(holds_turn(item, who, depth - 1) for item in value)
    if not isinstance(value, dict):
        return False
    if any(_names_speaker(value.get(key), who) for key in _SPEAKERS):
        inner = (item for item in value.values() if isinstance(item, dict))
        if holds_words(value):
            return True
        if any(map(holds_words, inner)):
            return True
    return any(holds_turn(item, who, depth - 1) for item in value.values())


def holds_words(value: object, depth: int = _DEEPEST) -> bool:
    """Return True if text stands in the value, or in the fields of it that hold what was said."""
    if isinstance(value, str):
        return bool(value.strip())
    if depth and isinstance(value, list):
        return any(holds_words(item, depth - 1) for item in value)
    return (
        bool(depth)
        and isinstance(value, dict)
        and any(holds_words(value.get(key), depth - 1) for key in _WORDS)
    )


def _names_speaker(value: object, who: Who | None) -> bool:
    if isinstance(value, dict):
        return any(
            _names_speaker(value.get(key), who) for key in ("role", "type", "name")
        )
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        return False
    named = {role for role in map(parse_role, _NAME.findall(value)) if role}
    return who in named if who else bool(named)
