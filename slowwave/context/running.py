"""Which past session is the conversation that is running: a night, or a hook, may have read it while it goes on.

Messages are compared without case, blanks and ASCII's marks, so a client may change Markdown; secrets stand as
placeholders. A session is the conversation's own if its latest messages are turns that follow one another, and either
the run goes back to where the session or the turns begin, or it is RUN messages long. A client that compacts a
conversation puts a summary before the turns it keeps. One message that both share is too little, unless the session
holds no other: two sessions may both begin with "good morning".
"""

import string
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.hits import fold_text
from slowwave.recall.live import read_unreleased
from slowwave.recall.query import parse_sessions
from slowwave.recall.release.view import View
from slowwave.schemas.tables import MESSAGES
from slowwave.schemas.vocabulary import Role
from slowwave.text.redact import redact_text

RUN = 4
"""Messages in a row that no two conversations share by chance: two questions with their answers."""
MARKS = str.maketrans("", "", string.punctuation + string.whitespace)

Said = tuple[bool, str]
"""Whether an assistant said it, and the text as it is compared."""


def fold_turns(turns: Sequence[tuple[str, str]]) -> list[Said]:
    """Return the turns that say something, of roles and texts."""
    return [(role == Role.ASSISTANT, fold_letters(redact_text(text))) for role, text in turns if text.strip()]


def fold_letters(text: str) -> str:
    """Return a text in one case without ASCII's marks and blanks; only folded if it holds nothing else."""
    return text.casefold().translate(MARKS) or fold_text(text)


def find_own_sessions(
    view: View | None, space_dir: Path, turns: Sequence[Said], sessions: Collection[str]
) -> list[str]:
    """Return those of some sessions, by the transcripts' own ids, that are the conversation with these turns."""
    return [key for key, said in _read_sessions(view, space_dir, sessions).items() if is_same(said, turns)]


def is_same(said: Sequence[Said], turns: Sequence[Said]) -> bool:
    """Return True if a session is a conversation, or its beginning; also where only what persons said is known."""
    of_persons = [one for one in said if not one[0]], [one for one in turns if not one[0]]
    return _is_beginning(said, turns) or (len(of_persons[0]) > 1 and _is_beginning(*of_persons))


def _is_beginning(said: Sequence[Said], turns: Sequence[Said]) -> bool:
    """Return True if the latest messages are turns that follow one another, back to where one of both begins or RUN
    messages long.
    """
    for stop in range(1, len(turns) + 1):
        count = min(stop, len(said))
        if (count > 1 or count == len(said) > 0) and list(said[-count:]) == list(turns[stop - count : stop]):
            return True
        if count > RUN and list(said[-RUN:]) == list(turns[stop - RUN : stop]):
            return True
    return False


def _read_sessions(view: View | None, space_dir: Path, sessions: Collection[str]) -> dict[str, list[Said]]:
    """Return what was said in each session, in order: what the release has of it, then what was written since."""
    said: dict[str, list[Said]] = defaultdict(list)
    if view is not None and (ids := view.find_session_ids(parse_sessions(sessions))):
        inside = pc.field("session_id").isin(pa.array(ids, pa.string()))
        rows = view.read(MESSAGES, ["session_id", "seq", "role", "text"], inside).sort_by("seq").to_pylist()
        for row in rows:
            if row["role"] in (Role.USER, Role.ASSISTANT) and row["text"].strip():
                text = fold_letters(row["text"])
                said[view.native_sessions[row["session_id"]]].append((row["role"] == Role.ASSISTANT, text))
    for hit in read_unreleased(view, space_dir):
        if (session := hit.sources[0].session) in sessions:
            said[session].append((hit.speaker == Role.ASSISTANT, fold_letters(hit.text)))
    return said
