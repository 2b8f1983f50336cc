"""Which hit comes first: the hits of one chain of changes together, what is of the time asked about, the best score.

Hits keep their scores; their order is their rank. What a later claim changed, or perhaps did, the night has written
beside each row (`slowwave.recall.release.chains`). Beside a message counts the chain of the claim that was found with
it, since of one message several claims may be made. Where the night found nothing, two rows that are one sentence with
another value in it, or another figure, are put in order of time.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import cast

from rapidfuzz import fuzz

from slowwave.recall.filters import mask_allowed_claims
from slowwave.recall.hits import CONFIDENT, GROUPS, Successor, has_words
from slowwave.recall.query import Query
from slowwave.recall.release.chains import is_changed, is_perhaps_changed, is_superseded, mark_changes
from slowwave.recall.release.tables import Row
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.candidates import Candidate
from slowwave.schemas.tables import CHAIN, OBSERVATIONS
from slowwave.schemas.vocabulary import PERHAPS_CHANGED, Status
from slowwave.text.words import extract_content_words, extract_stems, stem


def merge_kinds(by_kind: Sequence[Sequence[Candidate]], k: int = 60) -> list[Candidate]:
    """Return lists of several kinds, each best first, as one in which each hit is another piece of evidence; a single
    kind's list is returned as it is.

    Messages lead in their own order: they hold what was said. A claim made of one message, or in a message's own
    words, is attached to it (`Candidate.claim`) and takes no place. A claim made of several messages takes turns with
    the messages where one of them was found. Claims of messages that were not found follow; then summaries, without
    those in a found message's own words (as that of a session of one message), and topics.
    Scores become reciprocal ranks, since those of different kinds don't compare.
    """
    lists = {rows[0].kind: rows for rows in by_kind if rows}
    if len(lists) < 2:
        return list(chain(*lists.values()))
    # each claim goes to the message that holds it, or stands alone
    messages = {key: row for row in lists.get("message", ()) for key in (row.id, *row.copies)}
    claims: dict[str, Candidate] = {}
    of_several, unfound = list[Candidate](), list[Candidate]()
    for claim in lists.get("observation", ()):
        ids = claim.row.get("message_ids") or []
        there = [messages[key] for key in ids if key in messages]
        source = next((row for row in there if len(ids) == 1 or has_words(row.text, claim.text)), None)
        if source is not None:
            claims.setdefault(source.id, claim)
        else:
            (of_several if there else unfound).append(claim)
    # one list, its scores reciprocal ranks
    evidence = [replace(row, claim=claims.get(row.id)) for row in lists.get("message", ())]
    turns = (row for turn in zip_longest(evidence, of_several) for row in turn if row is not None)
    texts = [row.text for row in evidence]
    summaries = [row for row in lists.get("summary", ()) if not any(has_words(text, row.text) for text in texts)]
    merged = chain(turns, unfound, summaries, lists.get("topic", ()))
    return [replace(row, score=1 / (k + rank)) for rank, row in enumerate(merged, 1)]


def trace_places(stages: Mapping[str, Sequence[Candidate]]) -> dict[str, dict[str, Mapping[str, float]]]:
    """Return by hit what each signal added to its score, and its place after each stage, from 1."""
    traces = {row.id: {"signals": row.contributions, "places": dict[str, float]()} for row in chain(*stages.values())}
    for name, rows in stages.items():
        for place, row in enumerate(rows, 1):
            cast(dict[str, float], traces[row.id]["places"])[name] = place
    return traces


ABOUT = 10
"""Hits that are put in order at least, and among which those of a chain stand together: the others are about
other things."""
SAME = 70.0
"""`rapidfuzz.fuzz.ratio` from which two texts are one sentence with another value in it."""
FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
SITTING = 3600.0
"""Seconds. What another says sooner after is of the same sitting: an answer, mostly, and no newer state of things."""
NO_CHAIN: Row = dict.fromkeys(CHAIN)


def order(view: View, hits: Sequence[Candidate], query: Query) -> list[Candidate]:
    """Return rows in the order in which they are shown, marked with what changed them by the time asked about.

    Of the first ABOUT each stands before the earlier ones that it changes, in place of the best of them. Then what is
    of the time that the query names comes first, and otherwise they stand as they came, best first. Behind all stand
    messages that only ask, as the query does, and behind those what is superseded.
    """
    rows = [_mark_row(view, hit, query) for hit in hits]
    # those that are relevant, and of the time that the query names, or name it
    timely: set[int] = set()
    if (times := query.times) is not None:
        inside = times.mask_inside([row.edges for row in rows])
        timely = {
            id(row)
            for row, is_inside in zip(rows, inside, strict=True)
            if row.relevance >= CONFIDENT and (is_inside or times.is_named_in(row.text))
        }
    # of the first, each before the earlier ones that it changes
    ordered: list[Candidate] = []
    for row in rows[:ABOUT]:
        same_time = (at for at, other in enumerate(ordered) if (id(row) in timely) == (id(other) in timely))
        place = next((at for at in same_time if _is_newer(row, ordered[at], query)), len(ordered))
        ordered.insert(place, row)
    ordered += rows[ABOUT:]
    ordered.sort(key=lambda row: (row.row["status"] == Status.SUPERSEDED, row.is_only_question, id(row) not in timely))
    # summaries and topics tell behind each sentence what changed it by then
    return [_mark_sentences(view, row, query) if row.kind in GROUPS else row for row in ordered]


def _mark_sentences(view: View, row: Candidate, query: Query) -> Candidate:
    text = mark_changes(view.chains, row.text, str(row.row.get("scope_id") or row.id), query.as_of)
    return replace(row, row={**row.row, "text": text})


def _mark_row(view: View, hit: Candidate, query: Query) -> Candidate:
    """Return a row with its chain, its status by the time asked about, and what took its place, or perhaps did."""
    chain_of = _read_chain(view, hit, query)
    gone, perhaps = is_superseded(chain_of, query.as_of), is_perhaps_changed(chain_of, query.as_of)
    later = view.chains.find_successor(chain_of, query.as_of) if gone or perhaps else None
    marks = {
        "status": Status.SUPERSEDED if gone else Status.ACTIVE,
        "superseded_by": later["observation_id"] if later and gone else None,
        "perhaps_superseded_by": later["observation_id"] if later and perhaps else None,
        "successor": Successor(later["summary"], later["observed_at"]) if later else None,
    }
    return replace(hit, row={**hit.row, **chain_of, **marks})


def _is_newer(later: Candidate, earlier: Candidate, query: Query) -> bool:
    """Return whether a row says later what another said of the same workspace: the night found that it changed it, or
    perhaps did; or thought that less likely, and the later has most words of the query that the earlier has; or they
    are one sentence with another value in it, or tell of two words of the query with other figures, and the later has
    all of them: where it lacks one, something else is asked for.
    """
    before, after = earlier.seconds, later.seconds
    if earlier.row["superseded_by"] in (later.id, later.claim.id if later.claim else later.id):
        return True  # also where it was said before, and then once more
    if not before < after or later.row["workspace"] != earlier.row["workspace"]:
        return False
    # what the night found
    in_one_chain = earlier.row["chain_id"] is not None and earlier.row["chain_id"] == later.row["chain_id"]
    if in_one_chain and not is_changed(earlier.row, query.as_of):
        return False
    if in_one_chain and is_changed(earlier.row, query.as_of, PERHAPS_CHANGED):
        return True
    # one sentence with another value in it, or another figure
    text = later.text
    query_stems, here, words = (
        frozenset(map(stem, extract_content_words(text_of))) for text_of in (query.text, earlier.text, text)
    )
    query_stems &= here
    if in_one_chain:
        return len(query_stems) < 2 * len(query_stems & words)
    by_one = later.row.get("speaker") is not None and later.row.get("speaker") == earlier.row.get("speaker")
    figures, others = (set(FIGURE.findall(text_of)) for text_of in (text, earlier.text))
    new_figure = bool(others and figures - others) and len(query_stems) > 1
    alike = new_figure or fuzz.ratio(text, earlier.text) >= SAME
    return (by_one or after - before > SITTING) and query_stems <= words and alike


def add_successors(view: View, hits: Sequence[Candidate], query: Query) -> list[Candidate]:
    """Return rows with the claims that hold in place of superseded ones, where the query's conditions let them through
    and neither they nor their messages were found.
    """
    there = {key for hit in hits for key in (hit.id, hit.claim and hit.claim.id)}
    rows: list[Candidate] = []
    for hit in hits:
        rows.append(hit)
        row = _read_chain(view, hit, query)
        later = view.chains.find_successor(row, query.as_of) if is_superseded(row, query.as_of) else None
        if later is None or not there.isdisjoint((later["observation_id"], *later["message_ids"])):
            continue
        key = str(later["observation_id"])
        offsets = view.find_offsets(OBSERVATIONS, [key]) if "observation" in query.kinds else ()
        if len(offsets) and mask_allowed_claims(view, query)[offsets].all():
            there.add(key)
            rows.append(replace(hit, kind="observation", id=key, row=later, claim=None))
    return rows


def _read_chain(view: View, hit: Candidate, query: Query) -> Row:
    """Return the columns CHAIN of what a row says of the query: of a message those of the claim found with it; where
    none was, and it says more than its chain does, only if the claim that changed it has a word of the query.
    """
    row = hit.claim.row if hit.claim is not None else hit.row
    own = NO_CHAIN if row.get("chain_id") is None else {name: row[name] for name in CHAIN}
    if hit.kind != "message" or hit.claim is not None or not is_changed(own) or is_superseded(own):
        return own
    later = view.chains.find_successor(own, query.as_of)
    return own if later and query.stems & extract_stems(str(later["summary"])) else NO_CHAIN
