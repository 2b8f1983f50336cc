"""Which hit comes first: the hits of one chain of changes together, what is of the time asked about, the best score.

Hits keep their scores; their order is their rank. What a later claim changed, or perhaps did, the night has written
beside each row (`slowwave.recall.release.chains`). Beside a message counts the chain of the claim that was found with
it, since of one message several claims may be made. Where the night linked nothing, two rows that are one sentence with
another value in it, or another figure, are put in order of time.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from rapidfuzz import fuzz

from slowwave.recall.filters import mask_allowed_claims
from slowwave.recall.hits import CONFIDENT, GROUPS, Successor
from slowwave.recall.query import Query
from slowwave.recall.ranking.rank import ScoredRow
from slowwave.recall.release.chains import Chains, is_changed, is_linked, is_superseded, mark_changes
from slowwave.recall.release.tables import Row
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.pools import POOLS
from slowwave.recall.times import convert_datetimes
from slowwave.schemas.tables import CHAIN, OBSERVATIONS
from slowwave.schemas.vocabulary import LINKED, Status
from slowwave.text.cues import QUESTION
from slowwave.text.words import extract_content_words, extract_stems, stem

ABOUT = 10
"""Hits that are put in order at least, and among which those of a chain stand together: the others are about
other things."""
SAME = 70.0
"""`rapidfuzz.fuzz.ratio` from which two texts are one sentence with another value in it."""
FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
SITTING = 3600.0
"""Seconds. What another says sooner after is of the same sitting: an answer, mostly, and no newer state of things."""
MIN_STATED = 4
"""Words beside its questions from which a message says something of its own."""
NO_CHAIN: Row = dict.fromkeys(CHAIN)


def order(found: Sequence[ScoredRow], query: Query, chains: Chains) -> list[ScoredRow]:
    """Return rows in the order in which they are shown, marked with what changed them by the time asked about.

    Of the first ABOUT each stands before the earlier ones that it changes, in place of the best of them. Then what is
    of the time that the query names comes first, and otherwise they stand as they came, best first. Behind all stand
    messages that only ask, as the query does, and behind those what is superseded.
    """
    rows = [_mark(one, query, chains) for one in found]
    timely = {id(one): there for one, there in zip(rows, _find_timely(rows, query), strict=True)}
    ordered: list[ScoredRow] = []
    for one in rows[:ABOUT]:
        same_time = (at for at, other in enumerate(ordered) if timely[id(one)] == timely[id(other)])
        place = next((at for at in same_time if _is_newer(one, ordered[at], query)), len(ordered))
        ordered.insert(place, one)
    ordered += rows[ABOUT:]
    ordered.sort(key=lambda one: (one.row["status"] == Status.SUPERSEDED, _is_only_question(one), not timely[id(one)]))
    return [_mark_sentences(one, query, chains) if one.kind in GROUPS else one for one in ordered]


def _is_newer(one: ScoredRow, other: ScoredRow, query: Query) -> bool:
    """Return whether a row says later what another said of the same workspace: the night linked the two; or it
    linked them as less likely, and the later has most words of the query that the earlier has; or they are one sentence
    with another value in it, or tell of two words of the query with other figures, and the later has all of them: where
    it lacks one, something else is asked for.
    """
    before, after = _get_time(other), _get_time(one)
    if other.row["superseded_by"] in (one.id, one.claim.id if one.claim else one.id):
        return True  # also where it was said before, and then once more
    if not before < after or one.row["workspace"] != other.row["workspace"]:
        return False
    linked = other.row["chain_id"] is not None and other.row["chain_id"] == one.row["chain_id"]
    if linked and not is_changed(other.row, query.as_of):
        return False
    if linked and is_changed(other.row, query.as_of, LINKED):
        return True
    text = one.text
    asked, here, words = (_collect_stems(told) for told in (query.text, other.text, text))
    asked &= here
    if linked:
        return len(asked) < 2 * len(asked & words)
    by_one = one.row.get("speaker") is not None and one.row.get("speaker") == other.row.get("speaker")
    figures, others = (set(FIGURE.findall(said)) for said in (text, other.text))
    new_figure = bool(others and figures - others) and len(asked) > 1
    alike = new_figure or fuzz.ratio(text, other.text) >= SAME
    return (by_one or after - before > SITTING) and asked <= words and alike


def _collect_stems(text: str) -> frozenset[str]:
    """Return the content words of a text in whatever form."""
    return frozenset(map(stem, extract_content_words(text)))


def add_successors(view: View, found: Sequence[ScoredRow], query: Query) -> list[ScoredRow]:
    """Return rows with the claims that hold in place of superseded ones, where the query's conditions let them through
    and neither they nor their messages were found.
    """
    there = {key for one in found for key in (one.id, one.claim and one.claim.id)}
    rows: list[ScoredRow] = []
    for one in found:
        rows.append(one)
        row = _read_chain(one, query, view.chains)
        later = view.chains.find_successor(row, query.as_of) if is_superseded(row, query.as_of) else None
        if later is None or not there.isdisjoint((later["observation_id"], *later["message_ids"])):
            continue
        key = str(later["observation_id"])
        offsets = view.find_offsets(OBSERVATIONS, [key]) if "observation" in query.kinds else ()
        if len(offsets) and mask_allowed_claims(view, query)[offsets].all():
            there.add(key)
            rows.append(replace(one, kind="observation", id=key, row=later, claim=None))
    return rows


def _read_chain(one: ScoredRow, query: Query, chains: Chains) -> Row:
    """Return the columns CHAIN of what a row says of the query: of a message those of the claim found with it; where
    none was, and it says more than its chain does, only if the claim that changed it has a word of the query.
    """
    row = one.claim.row if one.claim is not None else one.row
    own = NO_CHAIN if row.get("chain_id") is None else {name: row[name] for name in CHAIN}
    if one.kind != "message" or one.claim is not None or not is_changed(own) or is_superseded(own):
        return own
    later = chains.find_successor(own, query.as_of)
    return own if later and query.stems & extract_stems(str(later["summary"])) else NO_CHAIN


def _mark(one: ScoredRow, query: Query, chains: Chains) -> ScoredRow:
    """Return a row with its chain, its status by the time asked about, and what took its place, or perhaps did."""
    own = _read_chain(one, query, chains)
    gone, linked = is_superseded(own, query.as_of), is_linked(own, query.as_of)
    later = chains.find_successor(own, query.as_of) if gone or linked else None
    marks = {
        "status": Status.SUPERSEDED if gone else Status.ACTIVE,
        "superseded_by": later["observation_id"] if later and gone else None,
        "perhaps_superseded_by": later["observation_id"] if later and linked else None,
        "successor": Successor.from_claim(later) if later else None,
    }
    return replace(one, row={**one.row, **own, **marks})


def _mark_sentences(one: ScoredRow, query: Query, chains: Chains) -> ScoredRow:
    """Return a summary or topic with what changed, by the time asked about, told behind each sentence."""
    scope = str(one.row.get("scope_id") or one.id)
    return replace(one, row={**one.row, "text": mark_changes(chains, one.text, scope, query.as_of)})


def _find_timely(rows: Sequence[ScoredRow], query: Query) -> list[bool]:
    """Return whether each row is relevant, and of the time that the query names, or names it."""
    if query.times is None:
        return [False] * len(rows)
    edges = [(one.row[POOLS[one.kind].first], one.row[POOLS[one.kind].last]) for one in rows]
    inside = query.times.mask_inside(*(convert_datetimes(list(ends)) for ends in zip(*edges, strict=True)))
    return [
        one.relevance >= CONFIDENT and (there or query.times.is_named_in(one.text))
        for one, there in zip(rows, inside.tolist(), strict=True)
    ]


def _get_time(one: ScoredRow) -> float:
    at = one.row[POOLS[one.kind].last]
    return at.timestamp() if at is not None else 0.0


def _is_only_question(one: ScoredRow) -> bool:
    text = str(one.row["text"]) if one.kind == "message" else ""
    return "?" in text and len(QUESTION.sub(" ", text).split()) < MIN_STATED
