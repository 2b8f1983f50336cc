"""Mark hits with what changed them by the time asked about, and add what holds in place of superseded ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from slowwave.recall.query import Query
from slowwave.recall.release.view import (
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
from slowwave.recall.retrieve.rows import mask_allowed_claims, mask_allowed_passages
from slowwave.schemas.tables import CLAIMS, NO_CHAIN, PASSAGES, ChainRow
from slowwave.schemas.vocabulary import Status
from slowwave.text.words import singular_words


def mark_row(
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


def mark_sentences(
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


def add_successors(
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
            shown.append(mark_row(view, successor, query))
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
