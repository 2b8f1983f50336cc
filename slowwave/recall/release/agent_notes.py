"""Which sessions of a release are notes of an agent's, and which of them a person has confirmed."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.schemas.vocabulary import Origin
from slowwave.store.journal import Review, read
from slowwave.store.notes import NOTES, PREFIX

if TYPE_CHECKING:
    from slowwave.recall.release.view import View


def find_agent_notes(view: "View") -> dict[str, bool]:
    """Return id of the session -> whether it is confirmed.

    A note is known by its name and its file's folder, wherever the store is now.
    """
    named = {key: native for key, native in view.native_sessions.items() if native.startswith(PREFIX)}
    if not named:
        return {}
    rows = view.read_by_id(SESSIONS, sorted(named), ["session_id", "path"])
    noted = {key for key, row in rows.items() if Path(str(row["path"])).parent.name == NOTES}
    of_person = (pc.field("origin") == Origin.HUMAN) & pc.field("session_id").isin(sorted(noted))
    noted -= set(view.read(MESSAGES, ["session_id"], of_person)["session_id"].to_pylist())
    verdicts = {review.id: review.verdict for review in read(view.dir, Review)}
    return {key: verdicts.get(named[key]) == "confirmed" for key in sorted(noted)}
