"""Corrections: a person's note that says what is right instead of a claim, by the claim's id.

`slowwave correct` keeps the person's words as a note, whose tag names the corrected claim. The note makes exactly one
claim, of the corrected claim's project and category, and that claim replaces the corrected one (`tasks/changes`).
Nothing of this is guessed. An agent's correction only links the two claims until a person confirms the note. A claim
that got another id since, for example from a newer version of the step, is found by its words.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import (
    compute_claim_id,
    compute_content_id,
    hash_words,
)
from slowwave.schemas.rows import ClaimRow
from slowwave.schemas.tables import CLAIMS, MESSAGES, SESSIONS
from slowwave.schemas.vocabulary import (
    EXTRACTIVE,
    LONGEST,
    WITHDRAWALS,
    Origin,
    Status,
)
from slowwave.store.logs import Review, read
from slowwave.store.notes import (
    NOTES,
    PREFIX,
    add_subject,
    collect_tags,
    parse_correction,
)
from slowwave.store.store import Store
from slowwave.tasks.observe.observe import NOT_JUDGED
from slowwave.text.cells import shorten_text
from slowwave.text.times.days import localise
from slowwave.text.times.relative_days import add_days
from slowwave.text.words import singular_words

CORRECTED = [
    *("claim_id", "workspace", "summary", "category", "pack", "files"),
    *("session_id", "status", "canonical_id", "reason", "observed_at", "utc_offset"),
]
"""The columns of a corrected claim on which the correcting claim depends."""


CUT = " …"
"""Ends a text that was cut."""
LEAST_SUBJECT = 30
"""Characters of a subject that is named in a correction, at least: fewer of it say nothing."""


class CorrectedRow(ClaimRow, total=False):
    """A corrected claim."""

    subject: str
    """What the claim is about: its summary, with the date of "next week" and the like, or of a claim that corrects
    another one the subject of that one."""


@dataclass(frozen=True)
class Correction:
    """One correction."""

    session: str
    """The note's session."""
    message: str
    at: datetime
    claim: str
    """The corrected claim's id when the note was written."""
    words: str
    """The hash of its words (`hash_words`)."""
    certain: bool
    """Whether it is a person's word, or an agent's that a person confirmed."""


def read_corrections(store: Store) -> list[Correction]:
    """Return the corrections that are not excluded, oldest first."""
    columns = ["session_id", "native_id", "path", "inactive"]
    begins = pc.starts_with(pc.field("native_id"), PREFIX)
    noted = {
        row["session_id"]: row
        for row in store.read(SESSIONS, columns, begins).to_pylist()
        if Path(str(row["path"])).parent.name == NOTES
    }
    verdicts = {review.id: review.verdict for review in read(store.dir, Review)}
    columns = ["message_id", "session_id", "ts", "origin", "blocks"]
    corrections = []
    for row in store.read_ids(
        MESSAGES, sorted(noted), columns, by="session_id"
    ).to_pylist():
        session = noted[row["session_id"]]
        named = parse_correction(collect_tags(row["blocks"]))
        if named is None or row["message_id"] in session["inactive"]:
            continue
        confirmed = verdicts.get(session["native_id"]) == "confirmed"
        corrections.append(
            Correction(
                session=row["session_id"],
                message=row["message_id"],
                at=row["ts"],
                claim=named.claim,
                words=named.words,
                certain=row["origin"] == Origin.HUMAN or confirmed,
            )
        )
    return sorted(corrections, key=lambda one: (one.at, one.session))


def find_corrected_claims(
    store: Store, corrections: Sequence[Correction]
) -> dict[str, CorrectedRow]:
    """Return the corrected claim (columns CORRECTED) of each correction, by the note's session.

    A correction whose claim does not exist any more is left out.
    """
    ids = sorted({one.claim for one in corrections})
    by_id = {
        row["claim_id"]: row
        for row in store.read_ids(CLAIMS, ids, CORRECTED).to_pylist()
    }
    missing = {one.words for one in corrections if not _stands(by_id.get(one.claim))}
    by_words = _find_by_words(store, missing) if missing else {}
    found: dict[str, CorrectedRow] = {}
    for one in corrections:
        row = by_id.get(one.claim)
        row = row if _stands(row) else by_words.get(one.words, row)
        if row is not None:
            earlier = found.get(row["session_id"])
            said_at = localise(row["observed_at"], row["utc_offset"])
            subject = (
                earlier["subject"] if earlier else add_days(row["summary"], said_at)
            )
            found[one.session] = {**row, "subject": subject}
    return found


def _stands(row: ClaimRow | None) -> bool:
    """Return True if a claim exists and was not withdrawn."""
    return row is not None and row["reason"] not in WITHDRAWALS


def _find_by_words(store: Store, words: Iterable[str]) -> dict[str, ClaimRow]:
    """Return the first claim with each of some words, by their hash."""
    wanted = set(words)
    found = dict[str, str]()
    columns = ["claim_id", "workspace", "summary", "reason"]
    for row in store.read(CLAIMS, columns).sort_by("claim_id").to_pylist():
        hashed = hash_words(row["workspace"], row["summary"])
        if hashed in wanted and _stands(row):
            found.setdefault(hashed, row["claim_id"])
    rows = store.read_ids(CLAIMS, sorted(found.values()), CORRECTED).to_pylist()
    by_id = {row["claim_id"]: row for row in rows}
    return {hashed: by_id[key] for hashed, key in found.items()}


def describe_corrected(corrected: Mapping[str, CorrectedRow]) -> dict[str, str]:
    """Return by session of a correction a hash of what its claim takes over from the corrected claim."""
    described = dict[str, str]()
    for session, row in corrected.items():
        words = (row["workspace"], row["subject"], row["category"], row["pack"])
        described[session] = compute_content_id(*words, *row["files"])
    return described


def build_correction_claims(
    messages: pa.Table, corrected: Mapping[str, CorrectedRow]
) -> list[ClaimRow]:
    """Return the claim of each correction, as `observe` makes rows.

    Args:
        messages: the active rows of MESSAGES of some sessions.
        corrected: the corrected claim of each session that is a correction.
    """
    claims = list[ClaimRow]()
    for row in messages.to_pylist():
        claim = corrected.get(row["session_id"])
        if claim is None or parse_correction(collect_tags(row["blocks"])) is None:
            continue
        claims.append(
            {
                "claim_id": compute_claim_id(
                    row["session_id"], row["message_id"], row["text"]
                ),
                "session_id": row["session_id"],
                "workspace": claim["workspace"],
                "summary": _name_subject(row["text"], claim["subject"]),
                "detail": None,
                "category": claim["category"],
                "pack": claim["pack"],
                "files": claim["files"],
                "quote": row["text"],
                "message_ids": [row["message_id"]],
                "speaker": row["speaker"],
                "confidence": 1.0,
                "observed_at": row["ts"],
                "utc_offset": row["utc_offset"],
                "observer": EXTRACTIVE,
                **NOT_JUDGED,
            }
        )
    return claims


def _name_subject(text: str, subject: str) -> str:
    """Return a correction's text, followed by its subject if it lacks most of the subject's content words.

    "It is 9555, not 9443" says nothing alone. Both are cut to the length of a claim that is shown unasked: the person's
    words come first.
    """
    words = shorten_text(" ".join(text.split()), LONGEST - len(CUT))
    said = singular_words(subject)
    room = LONGEST - len(CUT) - len(add_subject(words, ""))
    if 2 * len(said & singular_words(text)) > len(said) or room < LEAST_SUBJECT:
        return words
    return add_subject(words, shorten_text(" ".join(subject.split()), room))


def pair_corrections(
    store: Store, undone: Iterable[tuple[str, str]] = ()
) -> dict[tuple[str, str], bool]:
    """Return (corrected claim, correcting claim) -> whether the correction is certain.

    Of several corrections of one claim, each later one corrects the one before it. A pair in `undone` was taken back,
    so the next correction corrects the claim itself.
    """
    corrections = read_corrections(store)
    if not corrections:
        return {}
    corrected = find_corrected_claims(store, corrections)
    sessions = sorted(corrected)
    columns = ["claim_id", "session_id", "message_ids", "reason"]
    claims = {
        (row["session_id"], row["message_ids"][0]): row["claim_id"]
        for row in store.read_ids(
            CLAIMS, sessions, columns, by="session_id"
        ).to_pylist()
        if _stands(row)
    }
    taken_back = set(undone)
    holds = dict[str, str]()
    pairs: dict[tuple[str, str], bool] = {}
    for one in corrections:
        claim = claims.get((one.session, one.message))
        if claim is None or one.session not in corrected:
            continue
        row = corrected[one.session]
        is_duplicate = row["status"] == Status.DUPLICATE
        first = str(row["canonical_id"] if is_duplicate else row["claim_id"])
        pair = (holds.get(first, first), claim)
        pairs[pair] = one.certain
        if one.certain and pair not in taken_back:
            holds[first] = claim
    return pairs


def find_correcting_claims(store: Store) -> list[str]:
    """Return the ids of the claims that correct others."""
    return sorted({claim for _, claim in pair_corrections(store)})
