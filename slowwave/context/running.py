"""Find the past session that is the running conversation. A run or a hook may have read its transcript already.

Messages are compared without case, blanks and ASCII punctuation, since a client may change Markdown. Secrets are
compared as placeholders. A session is the running conversation if its latest messages equal consecutive turns, and the
equal run either reaches the beginning of the session or of the turns, or is RUN messages long. (A client that compacts
a conversation puts a summary before the turns that it keeps.) One equal message is not enough, unless the session has
no other: two sessions may both begin with "good morning".
"""

import string
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

from slowwave.recall.hits import fold_text
from slowwave.recall.live import read_unreleased
from slowwave.recall.query import parse_sessions
from slowwave.recall.release.tables import match_any
from slowwave.recall.release.view import View
from slowwave.schemas.tables import MESSAGES
from slowwave.schemas.vocabulary import Role
from slowwave.text.redact import redact_text

RUN = 4
"""Length of a run of equal messages that two conversations do not share by chance: two questions with answers."""
MARKS = str.maketrans("", "", string.punctuation + string.whitespace)

ComparedTurn = tuple[bool, str]
"""Whether an assistant said it, and the folded text."""


def fold_turns(turns: Sequence[tuple[str, str]]) -> list[ComparedTurn]:
    """Return the turns with text for comparison; `turns` are pairs of role and text."""
    return [
        (role == Role.ASSISTANT, fold_letters(redact_text(text)))
        for role, text in turns
        if text.strip()
    ]


def fold_letters(text: str) -> str:
    """Return a text in one case, without ASCII punctuation and blanks. If nothing is left, only the case is folded."""
    return text.casefold().translate(MARKS) or fold_text(text)


def find_own_sessions(
    view: View | None,
    space_dir: Path,
    turns: Sequence[ComparedTurn],
    sessions: Collection[str],
) -> list[str]:
    """Return the sessions, by the transcripts' own ids, that are the conversation with these turns."""
    return [
        key
        for key, said in _read_sessions(view, space_dir, sessions).items()
        if is_same_conversation(said, turns)
    ]


def is_same_conversation(
    said: Sequence[ComparedTurn], turns: Sequence[ComparedTurn]
) -> bool:
    """Return True if a session is a conversation, or its beginning. Persons' messages alone are compared too."""
    said_by_persons = [turn for turn in said if not turn[0]]
    turns_of_persons = [turn for turn in turns if not turn[0]]
    if _is_beginning(said, turns):
        return True
    return len(said_by_persons) > 1 and _is_beginning(said_by_persons, turns_of_persons)


def _is_beginning(said: Sequence[ComparedTurn], turns: Sequence[ComparedTurn]) -> bool:
    """Return True if the latest messages equal consecutive turns, and the run reaches the beginning of either, or is
    RUN messages long.
    """
    for stop in range(1, len(turns) + 1):
        count = min(stop, len(said))
        if (count > 1 or count == len(said) > 0) and list(said[-count:]) == list(
            turns[stop - count : stop]
        ):
            return True
        if count > RUN and list(said[-RUN:]) == list(turns[stop - RUN : stop]):
            return True
    return False


def _read_sessions(
    view: View | None, space_dir: Path, sessions: Collection[str]
) -> dict[str, list[ComparedTurn]]:
    """Return the messages of each session in order: those of the release, then those written since."""
    said: dict[str, list[ComparedTurn]] = defaultdict(list)
    ids = view.find_session_ids(parse_sessions(sessions)) if view is not None else ()
    if view is not None and ids:
        inside = match_any("session_id", ids)
        rows = (
            view.read(MESSAGES, ["session_id", "seq", "role", "text"], inside)
            .sort_by("seq")
            .to_pylist()
        )
        for row in rows:
            if row["role"] in (Role.USER, Role.ASSISTANT) and row["text"].strip():
                text = fold_letters(row["text"])
                said[view.native_sessions[row["session_id"]]].append(
                    (row["role"] == Role.ASSISTANT, text)
                )
    for hit in read_unreleased(view, space_dir):
        session = hit.sources[0].session
        if session in sessions:
            said[session].append(
                (hit.speaker == Role.ASSISTANT, fold_letters(hit.text))
            )
    return said
