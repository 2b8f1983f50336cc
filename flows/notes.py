"""A person's word on a note: confirmed, it counts as theirs; rejected, nothing is distilled from it.

slowwave notes confirm ID, slowwave notes reject ID
"""

from slowwave.flows.exclude import run_exclude
from slowwave.flows.forget import take_in_notes
from slowwave.flows.parts.report import RunReport
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import EXCLUSIONS, SESSIONS
from slowwave.store.notes import Note, review_note
from slowwave.store.store import Store


def reject_notes(notes: list[Note], why: str, settings: Settings) -> RunReport | None:
    """Reject notes, also such as no night has read yet, and make all that leaned on them anew; None where all were left
    out before.

    Raises:
        StoreMissing: there is no such store or space.
        StoreLocked: another run is at it.
    """
    take_in_notes(settings)
    store = Store.open(settings.store, settings.space)
    for note in notes:
        review_note(store.dir, note, "rejected")
    known = {
        row["session_id"]: row["native_id"] for row in store.read(SESSIONS, ["session_id", "native_id"]).to_pylist()
    }
    gone = {known.get(key) for key in store.read(EXCLUSIONS, ["session_id"])["session_id"].to_pylist()}
    left = [note.id for note in notes if note.id not in gone and note.id in known.values()]
    return run_exclude(left, why, settings) if left else None
