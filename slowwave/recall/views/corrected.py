"""Find the claim that somebody wants to correct, and the correction that somebody takes back."""

from slowwave.recall.hits import fold_text
from slowwave.recall.release.view import View
from slowwave.schemas.errors import NoSuchId, UsageError
from slowwave.schemas.ids import SHORT_ID, hash_words
from slowwave.schemas.rows import ClaimRow
from slowwave.schemas.tables import CLAIMS
from slowwave.schemas.vocabulary import Status
from slowwave.store.names import SHORTEST, find_named_row
from slowwave.store.notes import (
    PREFIX,
    Corrected,
    parse_correction,
    read_note_lines,
    read_notes,
    read_written,
)

COLUMNS = ["workspace", "summary", "status", "canonical_id", "superseded_by", "reason"]


def find_claim_to_correct(
    view: View, name: str, text: str
) -> tuple[ClaimRow, Corrected]:
    """Return the claim that an id names, and how a note names it. For the id of a correction that no night has read,
    the claim is the one that it corrects; for a claim that repeats another, that one.

    Raises:
        UsageError: no claim has the id, it does not hold any more, or the text says the same.
    """
    claim = _find_pending_target(view, name) or name
    found = find_named_row(view, claim)
    if found is None:
        raise NoSuchId(
            f"nothing in release {view.release.name} has the id {name!r}: `slowwave show claims` lists the claims"
        )
    if found.kind != "claim":
        raise UsageError(
            f"{name} is a {found.kind}: only a claim can be corrected, and `slowwave show {name}` names its claims"
        )
    row = _read_claim(view, found.id)
    if row["status"] == Status.DUPLICATE and row["canonical_id"]:
        row = _read_claim(view, row["canonical_id"])
    if row["status"] == Status.SUPERSEDED:
        raise UsageError(_explain_superseded(view, row))
    if fold_text(text) == fold_text(row["summary"]):
        raise UsageError(f"the claim says that already: {row['summary']}")
    key = row["claim_id"]
    return row, Corrected(key, hash_words(row["workspace"], row["summary"]))


def find_correction(view: View, name: str) -> str:
    """Return the id of the last note that corrects a claim and was not taken back, or that is named itself.

    Raises:
        UsageError: no correction has the id, and no claim that has it is corrected.
    """
    holding = {one.id for one in read_notes(view.dir) if one.verdict != "rejected"}
    notes = {
        line["session_id"]: named.claim
        for line in read_note_lines(view.dir)
        if line["session_id"] in holding
        and (named := parse_correction(line.get("tags")))
    }
    begins = name.partition("/")[0].removeprefix(PREFIX)
    wanted = [
        note
        for note, claim in notes.items()
        if claim.startswith(name) or note.removeprefix(PREFIX).startswith(begins)
    ]
    if len(begins) >= SHORTEST and wanted:
        return str(wanted[-1])
    found = find_named_row(view, name)
    if found and found.kind == "claim":  # a correction's own claim
        row = view.read_by_id(CLAIMS, [found.id], ["session_id"])[found.id]
        note = str(view.native_sessions.get(row["session_id"], ""))
        if note in notes:
            return note
    raise UsageError(f"{name} is neither a correction nor a claim that is corrected")


def _read_claim(view: View, key: str) -> ClaimRow:
    """Return a claim with its id."""
    return {**view.read_by_id(CLAIMS, [key], COLUMNS)[key], "claim_id": key}


def _explain_superseded(view: View, row: ClaimRow) -> str:
    """Return why a claim that does not hold can't be corrected, with the claim that holds in its place."""
    name = row["claim_id"][:SHORT_ID]
    seen = set[str]()
    while (later := row["superseded_by"]) and later not in seen:
        seen.add(later)
        row = _read_claim(view, later)
    if not seen:
        return f"{name} does not hold any more: {row['reason']}"
    return (
        f"{name} does not hold any more; {row['claim_id'][:SHORT_ID]} holds in its place: {row['summary']}: "
        "correct that one, or undo the change (`slowwave inspect changes`)"
    )


def _find_pending_target(view: View, name: str) -> str | None:
    """Return the claim that a note corrects which the release lacks; None if the id names no such note.

    Raises:
        UsageError: the note corrects nothing.
    """
    begins = name.partition("/")[0].removeprefix(PREFIX)
    if len(begins) < SHORTEST:
        return None
    lines = {
        line["session_id"]: line
        for line in read_written(view.dir, view.files_read)
        if line["session_id"].removeprefix(PREFIX).startswith(begins)
    }
    if len(lines) != 1:
        return None
    named = parse_correction(next(iter(lines.values())).get("tags"))
    if named is None:
        raise UsageError(
            f"{name} is not yet distilled: `slowwave exclude {name} --why …` takes it back, and "
            "`slowwave remember` notes it again"
        )
    return named.claim
