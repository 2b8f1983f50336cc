"""Put hits behind others: those that name what the code lost, that state nothing, or that sum up what is gone."""

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from slowwave.recall.hits import CONFIDENT, GROUPS
from slowwave.recall.query import Query, only_asks, says_little
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.candidates import Candidate
from slowwave.recall.retrieve.rows import Rows
from slowwave.schemas.tables import PASSAGES, TRUST
from slowwave.schemas.vocabulary import SUMMARISED, Status, Trust
from slowwave.text.words import TERM

GUESS = 5
"""Places that a row moves at most by a guess: since it seems to be of the time asked about, to change another, to be
lost in the code, or to state nothing."""


def mark_code(
    view: View,
    row: Candidate,
    query: Query,
) -> Candidate:
    """Return a row with what it, or the claim found with it, names and the code had lost by the time asked about."""
    own = (
        check
        for check in view.code_checks.get(row.id, ())
        if row.kind != "message" or check.name in row.text
    )
    of_claim = view.code_checks.get(row.claim.id, ()) if row.claim else ()
    checks = {
        (check.name, check.value or ""): check
        for check in (*of_claim, *own)
        if query.as_of is None or (check.at is not None and check.at <= query.as_of)
    }
    lost = tuple(checks[key] for key in sorted(checks))
    return replace(row, row={**row.row, "not_in_code": lost}) if lost else row


def put_failing_behind(rows: list[Candidate]) -> list[Candidate]:
    """Return rows with each that names what the code lost behind those next to it that are no less relevant.

    It passes GUESS places at most, and rows of its workspace alone: of others it can't be said which holds.
    """
    is_failing = ["not_in_code" in row.row for row in rows]

    def is_passed(row: Candidate, other: Candidate) -> bool:
        is_alike = other.row.get("workspace") == row.row.get("workspace")
        return is_alike and other.relevance >= row.relevance

    return _put_behind(rows, is_failing, is_passed)


def put_questions_behind(
    view: View, rows: list[Candidate], query: Query
) -> list[Candidate]:
    """Return rows with each that states nothing behind those next to it that hold and are surely about the query.

    It passes GUESS places at most.
    """
    bare = _find_bare_questions(view, rows, query)

    def is_passed(_: Candidate, other: Candidate) -> bool:
        is_standing = other.row["status"] != Status.SUPERSEDED
        return is_standing and other.relevance >= CONFIDENT

    return _put_behind(rows, [row.id in bare for row in rows], is_passed)


def _find_bare_questions(
    view: View, rows: Sequence[Candidate], query: Query
) -> Set[str]:
    """Return the ids of messages that only ask and got a reply of few words that other messages got too.

    A short reply that nothing else got may be the answer.
    """
    exchanges = {
        row.id: view.passages.find_exchange(row.row["position"])
        for row in rows
        if row.kind == "message" and only_asks(row.text)
    }
    replied = {key: at[1] for key, at in exchanges.items() if len(at) > 1}
    if not replied:
        return frozenset()
    offsets = view.passages.offsets[[*replied.values()]]
    texts = view.take(PASSAGES, offsets, ["text"])["text"].to_pylist()
    return {
        key
        for key, text in zip(replied, texts, strict=True)
        if says_little(text, query) and _is_said_twice(view, text)
    }


def _is_said_twice(view: View, text: str) -> bool:
    """Return True if two messages have this text.

    Of all that have its words such messages are the shortest, so that the index of full text finds them first. A text
    without a word that it knows is found nowhere.
    """
    if not view.has_full_text(PASSAGES):
        return False
    rows = Rows(view=view, table=PASSAGES, columns=("text",))
    found: list[str] = rows.search_text(TERM.findall(text), 2)["text"].to_pylist()
    return found == [text, text]


def _put_behind(
    rows: list[Candidate],
    is_behind: Sequence[bool],
    is_passed: Callable[[Candidate, Candidate], bool],
) -> list[Candidate]:
    """Return rows with each of a mask behind the last of the next GUESS rows that it is passed by, of the others."""
    places = [float(at) for at in range(len(rows))]
    for at, row in enumerate(rows):
        reach = range(at + 1, min(len(rows), at + 1 + GUESS)) if is_behind[at] else ()
        for n in reach:
            if not is_behind[n] and is_passed(row, rows[n]):
                places[at] = n + 0.5
    return [rows[at] for at in sorted(range(len(rows)), key=lambda at: places[at])]


def put_summaries_behind(rows: list[Candidate]) -> list[Candidate]:
    """Return rows with each summary of messages that are gone behind the last row that a person said."""
    last = max((at for at, row in enumerate(rows) if _is_by_person(row)), default=0)
    moved = [row for row in rows[:last] if row.row.get("speaker") == SUMMARISED]
    ids = {row.id for row in moved}
    above = [row for row in rows[: last + 1] if row.id not in ids]
    return [*above, *moved, *rows[last + 1 :]]


def _is_by_person(row: Candidate) -> bool:
    """Return True if a person typed or pasted a row's words, or those of the other message of its turn."""
    trusts = [one.row.get(TRUST) for one in (row, row.beside) if one is not None]
    return row.kind not in GROUPS and not {Trust.TYPED, Trust.OUTSIDE}.isdisjoint(
        trusts
    )
