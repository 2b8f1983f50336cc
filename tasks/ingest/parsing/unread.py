"""Decide what becomes of a record that a reader leaves out: it is counted by kind, or rejected if it may have a turn.

The structure of a record shows whether it has a turn: a field that names a speaker, and text beside or below it.
"""

import re
from collections.abc import Iterable

from slowwave.tasks.ingest.parsing.lines import format_excerpt
from slowwave.tasks.ingest.parsing.records import HUMAN, Rejected, Skipped, Who
from slowwave.tasks.ingest.parsing.values import parse_role

_SPEAKERS = ("role", "type", "kind", "sender", "from", "author", "speaker", "source")
"""Fields that name the speaker in some format."""
_WORDS = ("content", "text", "message", "parts", "value", "body", "prompt", "input")
"""Fields with spoken text in some format."""
_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_DEEPEST = 6
LONGEST_NAME = 100


def leave_out(
    kind: str,
    line: int,
    record: object,
    *,
    known: bool = False,
) -> Skipped | Rejected:
    """Return a record outside the conversation as skipped, or as rejected if it may have a turn that is not read.

    A skipped record of an unknown kind with a sentence keeps its words: if no turn of a person is read from the file,
    it is quarantined.

    Args:
        kind: the kind under which the record is counted.
        line: the record's line.
        record: the record's fields.
        known: True if the reader knows this kind. A record with a user's words is then skipped too, and quarantined
            only if no turn of a person is read from the file.
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
        line=line,
        reason=f"{kind}: it holds what somebody said, and this reader can't read it",
        excerpt=format_excerpt(record),
        unread=True,
    )


def has_sentence(value: object, depth: int = _DEEPEST) -> bool:
    """Return True if the value has a text of more than two words, or of more than five letters beyond ASCII,
    anywhere.
    """
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
    """Return True if an object in the value names a speaker (`who`, or anybody), and it or an object in it has text."""
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
    """Return True if the value is a text that is not blank, or has one in a list or in the fields of spoken text."""
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
