"""The order of hits: what changed what, as the night wrote it, and what the code lost.

What is superseded stands last, since the ledger says so. A summary of messages that are gone stands behind what a
person said. All else is a guess, and moves a hit by GUESS places at most (`docs/decisions/018-chains.md`).
"""

import unicodedata
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import cast

import numpy as np
from rapidfuzz import fuzz

from slowwave.recall.hits import CONFIDENT, GROUPS
from slowwave.recall.matter import ABOUT
from slowwave.recall.query import Mask, Query, only_asks, says_little
from slowwave.recall.release.view import (
    FIGURE,
    View,
    is_changed,
    is_perhaps_changed,
    is_superseded,
    mark_changes,
)
from slowwave.recall.retrieve.candidates import (
    PASSAGE_COLUMNS,
    Candidate,
    CandidateRow,
)
from slowwave.recall.retrieve.rows import (
    Rows,
    mask_allowed_claims,
    mask_allowed_passages,
)
from slowwave.schemas.tables import CLAIMS, NO_CHAIN, PASSAGES, TRUST, ChainRow
from slowwave.schemas.vocabulary import PERHAPS_CHANGED, SUMMARISED, Status, Trust
from slowwave.text.words import TERM, extract_content_words, singular_words, stem

GUESS = 5
"""Places that a row moves up at most since it seems to be of the time asked about, or to change another."""
SAME = 70.0
"""`rapidfuzz.fuzz.ratio` from which two texts are one sentence with another value in it."""
OTHER_FIGURE = "another figure"
OTHER_VALUE = "another value"
SITTING = 3600.0
"""Seconds. What another says sooner after is of the same sitting: an answer, mostly, and no newer state of things."""


def _mark_sentences(
    view: View,
    row: Candidate,
    query: Query,
) -> Candidate:
    """Return a summary or topic with a note behind each sentence that a later claim had changed by then."""
    own = view.find_session_ids(query.own_sessions)
    scope = str(row.row.get("scope_id") or row.id)
    text = mark_changes(
        chains=view.chains,
        text=row.text,
        scope=scope,
        as_of=query.as_of,
        own_sessions=own,
        places=query.places,
    )
    return replace(row, row={**row.row, "text": text})


def order_hits(
    view: View,
    hits: Sequence[Candidate],
    query: Query,
) -> list[Candidate]:
    """Return rows in the order in which they are shown, by what the code and later claims say of them."""
    marked = [_mark_code(view, row, query) for row in hits]
    ordered = order_by_change(view, _put_failing_behind(marked), query)
    return _put_summaries_behind(_put_questions_behind(view, ordered, query))


def _put_summaries_behind(rows: list[Candidate]) -> list[Candidate]:
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


def order_by_change(
    view: View,
    hits: Sequence[Candidate],
    query: Query,
) -> list[Candidate]:
    """Return rows in the order in which they are shown, marked with what changed them by the time asked about, and with
    what holds in place of superseded ones.

    What is superseded stands last, since the night's ledger says so; before it a message that asks the same word for
    word, since it can tell nothing more. All else that orders them is a guess, and moves a
    row up by GUESS places at most: if it is relevant, and of the time that the query names, or names it; and among the
    first ABOUT to the best of the earlier ones that it changes.
    """
    rows = _add_successors(view, [_mark_row(view, hit, query) for hit in hits], query)
    is_last = np.array([row.row["status"] == Status.SUPERSEDED for row in rows], bool)
    is_timely = _mask_timely(rows, query)
    places = np.arange(len(rows), dtype=np.float64) - (GUESS + 0.5) * is_timely
    for at, row in enumerate(rows[:ABOUT]):
        earlier = [
            n
            for n in range(at)
            if is_timely[n] == is_timely[at] and _is_newer(row, rows[n], query)
        ]
        if earlier:
            reach = ABOUT if any(is_last[n] for n in earlier) else GUESS
            places[at] = max(places[earlier].min(), places[at] - reach) - 0.5
    ordered = [
        rows[at] for at in np.lexsort((places, mask_repeats(rows, query), is_last))
    ]
    marked = [
        _mark_sentences(view, row, query) if row.kind in GROUPS else row
        for row in ordered
    ]
    # of some summaries a person left out all that they say
    return [row for row in marked if row.kind not in GROUPS or TERM.search(row.text)]


def _mark_code(
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


def _put_failing_behind(rows: list[Candidate]) -> list[Candidate]:
    """Return rows with each that names what the code lost behind those next to it that are no less relevant.

    It passes GUESS places at most, and rows of its workspace alone: of others it can't be said which holds.
    """
    is_failing = ["not_in_code" in row.row for row in rows]

    def is_passed(row: Candidate, other: Candidate) -> bool:
        is_alike = other.row.get("workspace") == row.row.get("workspace")
        return is_alike and other.relevance >= row.relevance

    return _put_behind(rows, is_failing, is_passed)


def _put_questions_behind(
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


def mask_repeats(rows: Sequence[Candidate], query: Query) -> Mask:
    """Return a mask of the messages that ask the query's question word for word, or stand beside one that does."""
    if not unicodedata.name(query.text[-1:] or " ", "").endswith("QUESTION MARK"):
        return np.zeros(len(rows), dtype=bool)
    asked = TERM.findall(query.text.casefold())

    def is_repeat(row: Candidate | None) -> bool:
        return row is not None and TERM.findall(row.text.casefold()) == asked

    repeats = [
        row.kind == "message" and (is_repeat(row) or is_repeat(row.beside))
        for row in rows
    ]
    return np.array(repeats, dtype=bool)


def _mask_timely(rows: Sequence[Candidate], query: Query) -> Mask:
    """Return a mask of the relevant rows that are of the time that the query names, or that name it themselves."""
    if (times := query.times) is None or not rows:
        return np.zeros(len(rows), dtype=bool)
    inside = times.mask_inside([row.edges for row in rows])
    named = np.array([times.is_named_in(row.text) for row in rows], dtype=bool)
    mask: Mask = (inside | named) & np.array(
        [row.relevance >= CONFIDENT for row in rows], dtype=bool
    )
    return mask


def _mark_row(
    view: View,
    hit: Candidate,
    query: Query,
) -> Candidate:
    """Return a row with its chain, its status by the time asked about, and what took its place, or perhaps did.

    The chain of a message is that of the claim found with it; if none was, and it says more than its chain does,
    only if the claim that changed it has a word of the query.
    """
    row = hit.claim.row if hit.claim is not None else hit.row
    chain_of = NO_CHAIN
    if row.get("chain_id") is not None:
        chain_of = ChainRow(
            chain_id=row["chain_id"],
            chain_at=row["chain_at"],
            chain_likely=row["chain_likely"],
        )
    if (
        hit.kind == "message"
        and hit.claim is None
        and is_changed(chain_of)
        and not is_superseded(chain_of)
    ):
        later = view.chains.find_successor(chain_of, query.as_of, query.places)
        if later is None or query.stems.isdisjoint(
            singular_words(str(later["summary"]))
        ):
            chain_of = NO_CHAIN
    # what changed it by then
    superseded = is_superseded(chain_of, query.as_of)
    perhaps = is_perhaps_changed(chain_of, query.as_of)
    later = (
        view.chains.find_successor(chain_of, query.as_of, query.places)
        if superseded or perhaps
        else None
    )
    marks = CandidateRow(
        status=Status.SUPERSEDED if superseded else Status.ACTIVE,
        superseded_by=later["claim_id"] if later and superseded else None,
        perhaps_superseded_by=later["claim_id"] if later and perhaps else None,
        successor=view.chains.make_successor(later) if later else None,
    )
    return replace(hit, row={**hit.row, **chain_of, **marks})


def _is_newer(
    later: Candidate,
    earlier: Candidate,
    query: Query,
) -> bool:
    """Return True if a row likely says something newer than another.

    One of these holds: the night found that it changed the other, or perhaps did. The night thought that less likely,
    and the row has most words of the query that the other has. They are one sentence of one workspace with another
    value in it, or have other figures beside two words of the query, and the row has all these words: if it lacks one,
    something else is asked for.
    """
    own_claim = later.claim.id if later.claim else later.id
    if earlier.row["superseded_by"] in (later.id, own_claim):
        return True  # also where it was said before, and then once more
    if earlier.seconds >= later.seconds:
        return False
    chain_id = earlier.row["chain_id"]
    if chain_id is None or chain_id != later.row["chain_id"]:
        is_near = later.row["workspace"] == earlier.row["workspace"]
        return is_near and _has_another_value(later, earlier, query)
    if not is_changed(earlier.row, query.as_of):
        return False
    if is_changed(earlier.row, query.as_of, PERHAPS_CHANGED):
        return True
    asked = extract_content_stems(query.text) & extract_content_stems(earlier.text)
    return len(asked) < 2 * len(asked & extract_content_stems(later.text))


def _has_another_value(
    later: Candidate,
    earlier: Candidate,
    query: Query,
) -> bool:
    """Return True if two rows are one sentence with another value in it, or have other figures, and the later one has
    all words of the query that the earlier one has. What another said within one sitting is an answer.
    """
    asked = extract_content_stems(query.text) & extract_content_stems(earlier.text)
    if not asked <= extract_content_stems(later.text):
        return False
    speaker = later.row.get("speaker")
    is_by_one = speaker is not None and speaker == earlier.row.get("speaker")
    if not is_by_one and later.seconds - earlier.seconds <= SITTING:
        return False
    return name_difference(later.text, earlier.text, len(asked)) is not None


def name_difference(later: str, earlier: str, shared: int) -> str | None:
    """Return OTHER_FIGURE or OTHER_VALUE if a later text states an earlier one anew with it, else None.

    shared: words of a question that both have.
    """
    figures = set(FIGURE.findall(later))
    earlier_figures = set(FIGURE.findall(earlier))
    if earlier_figures and figures - earlier_figures and shared > 1:
        return OTHER_FIGURE
    return OTHER_VALUE if fuzz.ratio(later, earlier) >= SAME else None


def extract_content_stems(text: str) -> frozenset[str]:
    """Return the stems of a text's content words."""
    return frozenset(map(stem, extract_content_words(text)))


def _add_successors(
    view: View,
    rows: Sequence[Candidate],
    query: Query,
) -> list[Candidate]:
    """Return marked rows, each that is superseded followed by what holds in its place, where the query's conditions let
    that through and neither it nor its messages were found.
    """
    there = {key for row in rows for key in (*row.ids, row.claim and row.claim.id)}
    shown: list[Candidate] = []
    for row in rows:
        shown.append(row)
        if (key := row.row["superseded_by"]) is None:
            continue
        messages = view.chains.claims[key]["message_ids"]
        if not there.isdisjoint((key, *messages)):
            continue
        successor = _find_successor(
            view=view,
            row=row,
            key=key,
            query=query,
        )
        if successor is not None:
            there.update((key, *messages))
            shown.append(_mark_row(view, successor, query))
    return shown


def _find_successor(
    view: View,
    row: Candidate,
    key: str,
    query: Query,
) -> Candidate | None:
    """Return the claim that holds in place of a row, or the message that it was made of if no claims are asked for;
    None if the query's conditions do not let it through.
    """
    offsets = view.find_offsets(CLAIMS, [key])
    if not len(offsets):
        return None
    if "claim" in query.kinds:
        is_allowed = bool(mask_allowed_claims(view, query)[offsets].all())
        later = cast(CandidateRow, view.chains.claims[key])
        found = replace(
            row,
            kind="claim",
            id=key,
            row=later,
        )
        return (
            replace(
                found,
                claim=None,
                beside=None,
            )
            if is_allowed
            else None
        )
    _, positions = view.claims.find_claim_positions(offsets)
    is_passing = mask_allowed_passages(view, query)[positions]
    if "message" not in query.kinds or not is_passing.any():
        return None
    at = int(positions[is_passing][0])
    (passage,) = view.take(
        PASSAGES, view.passages.offsets[[at]], PASSAGE_COLUMNS
    ).to_pylist()
    found = replace(
        row,
        id=passage["message_id"],
        row=passage | {"position": at},
    )
    return replace(
        found,
        claim=None,
        beside=None,
        copies=(),
    )
