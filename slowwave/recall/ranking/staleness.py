"""What is true now, or was then: hits that a later claim has changed are marked, and give up their place to it.

A claim carries who superseded it and when. A message is stale where it is what such a claim was said in, repeats it, or
echoes it in the next breath ("Noted, port 7070"); a summary where it tells the old and not the new. Whoever finds the
old is led to the new: the successor takes the stale hit's place, brought in if need be, and the stale hits stand below
it, marked; of those shown, below all others. Read once a release; costs nothing where nothing was ever changed.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.filters import mask_allowed_claims
from slowwave.recall.hits import Successor
from slowwave.recall.query import Query
from slowwave.recall.ranking.rank import ScoredRow, reassign_scores
from slowwave.recall.release.supersessions import Supersession, SupersessionIndex, Words
from slowwave.recall.release.view import View
from slowwave.schemas.tables import OBSERVATIONS
from slowwave.schemas.vocabulary import Status
from slowwave.text.cues import QUESTION
from slowwave.text.words import extract_stems

SAME = 0.75
"""Share of a claim's words that a message elsewhere has to have to make the same claim."""
TOLD = 0.6
"""The same for a summary, which tells in fewer words."""
MIN_STATED = 4
"""Words beside its questions from which a message says something of its own."""


def mark_superseded(view: View, found: Sequence[ScoredRow], query: Query) -> list[ScoredRow]:
    """Return what was found, stale rows marked (`status`, `superseded_by`) and below what holds in their stead.

    More than was found by the successors brought in. Scores fall with the place as before.
    """
    truth = view.truth
    marked = list(found)
    if truth.changes:
        changes = _find_superseded(view, truth, found, query)
        heirs = {at: truth.find_successor(change, query.as_of) for at, change in changes.items()}
        marked = [_mark_row(one, heirs.get(at), truth) for at, one in enumerate(found)]
        wanted = _find_allowed_claims(view, set(heirs.values()), query)
        marked = _order_by_successors(truth, marked, changes, heirs, wanted, query)
    return reassign_scores(_move_statement_first(marked))


def _find_superseded(
    view: View, truth: SupersessionIndex, found: Sequence[ScoredRow], query: Query
) -> dict[int, Supersession]:
    """Place among the found -> the change that made it stale."""
    asked, ids = query.stems, {one.id for one in found}
    told = _read_other_claims(view, truth, found)
    stale: dict[int, Supersession] = {}
    for at, one in enumerate(found):
        known = {"observation": _find_for_claim, "message": _find_for_message, "summary": _find_for_summary}[one.kind]
        some = [c for c in known(view, truth, one) if truth.is_in_force(c, query.as_of)]
        meant = [c for c in some if asked & (c.words | c.come) or ids & {c.claim, truth.find_successor(c, query.as_of)}]
        best = max(
            some if one.kind != "summary" else meant,
            key=lambda c: (c in meant, len(asked & (c.words | c.come)), c.claim),
            default=None,
        )
        if best is None:
            continue
        rivals = [len(asked & words) for words in told.get(one.id, ())]
        if one.kind != "message" or len(asked & (best.words | best.come)) >= max(rivals, default=0):
            stale[at] = best
    return stale


def _find_for_claim(view: View, truth: SupersessionIndex, one: ScoredRow) -> list[Supersession]:
    return [truth.changes[one.id]] if one.id in truth.changes else []


def _find_for_message(view: View, truth: SupersessionIndex, one: ScoredRow) -> list[Supersession]:
    """Return changes of the claims that a message made, or else of those that it repeats or echoes."""
    if one.id in truth.by_message:
        return truth.by_message[one.id]
    row, layout = one.row, view.passages
    text, at = extract_stems(str(row["text"])), cast(datetime | None, row["ts"])
    workspace = layout.workspaces[code] if (code := int(layout.workspace[cast(int, row["position"])])) >= 0 else None
    near = truth.by_place.get((str(row["session_id"]), cast(int, row["seq"])), [])
    echoes = [c for c in near if c.is_echoed_in(text)]
    same = [c for c in truth.find_restated(text, SAME) if c.workspace == workspace]
    return [c for c in (*echoes, *same) if at is None or c.at is None or at < c.at]


def _find_for_summary(view: View, truth: SupersessionIndex, one: ScoredRow) -> list[Supersession]:
    text = extract_stems(str(one.row["text"]))
    return [c for c in truth.find_restated(text, TOLD) if not c.is_corrected_in(text)]


def _read_other_claims(view: View, truth: SupersessionIndex, found: Sequence[ScoredRow]) -> dict[str, list[Words]]:
    """Return words of the active claims of messages that made a stale one too: one may be asked for, not the other."""
    both = {one.id: str(one.row["session_id"]) for one in found if one.kind == "message" and one.id in truth.by_message}
    if not both:
        return {}
    where = (pc.field("status") == pa.scalar(Status.ACTIVE)) & pc.field("session_id").isin(sorted(set(both.values())))
    told: dict[str, list[Words]] = defaultdict(list)
    for row in view.read(OBSERVATIONS, ["message_ids", "summary"], where).to_pylist():
        for message in row["message_ids"]:
            told[message].append(extract_stems(row["summary"]))
    return told


def _mark_row(one: ScoredRow, heir: str | None, truth: SupersessionIndex) -> ScoredRow:
    status = "active" if heir is None else "superseded"
    row = truth.rows.get(heir) if heir is not None else None
    successor = Successor.from_claim(row) if row is not None else None
    return replace(one, row={**one.row, "status": status, "superseded_by": heir, "successor": successor})


def _order_by_successors(
    truth: SupersessionIndex,
    found: list[ScoredRow],
    changes: Mapping[int, Supersession],
    heirs: Mapping[int, str],
    wanted: Set[str],
    query: Query,
) -> list[ScoredRow]:
    """Return each successor in the place of the best that it succeeds, or above; each stale one below what holds
    instead.

    Args:
        wanted: the successors that the query's conditions let through.
    """
    place: dict[int, float] = {at: float(at) for at in range(len(found))}
    everything = list(found)
    for heir in dict.fromkeys(heirs.values()):
        losers = [at for at, of in heirs.items() if of == heir]
        claims = [at for at, one in enumerate(found) if heir in (one.id, one.claim and one.claim.id)]
        row = truth.rows.get(heir)
        leads = [at for at in losers if _is_match_for_old_claim(found[at], changes[at], query)]
        if leads and not claims and row is not None and heir in wanted:
            claims = [len(everything)]
            everything.append(replace(found[leads[0]], kind="observation", id=heir, row={**row, "superseded_by": None}))
        for at in claims:
            place[at] = min([place.get(at, len(found)), *(lead - 0.5 for lead in leads)])
        messages = cast(list[str], row["message_ids"] or []) if row is not None else ()
        holding = claims + [at for at, one in enumerate(found) if one.kind == "message" and one.id in messages]
        for at in losers:
            place[at] = max([place[at], *(place[other] + 0.25 for other in holding if other not in heirs)])
    return [everything[at] for at in sorted(place, key=lambda at: (place[at], at))]


def _is_match_for_old_claim(one: ScoredRow, change: Supersession, query: Query) -> bool:
    """Return whether a stale hit was found for what is stale in it: then the query means its successor."""
    if one.kind == "message":
        return not query.stems.isdisjoint(change.words)
    return one.kind == "observation"


def _find_allowed_claims(view: View, claims: Collection[str], query: Query) -> frozenset[str]:
    """Return which of some claims the query's conditions let through."""
    offsets = view.find_offsets(OBSERVATIONS, sorted(claims)) if "observation" in query.kinds else np.zeros(0, np.int64)
    allowed = offsets[mask_allowed_claims(view, query)[offsets]]
    return frozenset(view.read_keys(OBSERVATIONS).take(allowed).to_pylist())


def _move_statement_first(found: list[ScoredRow]) -> list[ScoredRow]:
    """Return what was stated leads: neither the same question, asked before, nor a summary, which tells of many
    things.
    """
    first = next((at for at, one in enumerate(found) if one.kind != "summary" and not _is_only_question(one)), 0)
    return [found[first], *found[:first], *found[first + 1 :]] if first else found


def _is_only_question(one: ScoredRow) -> bool:
    text = str(one.row["text"]) if one.kind == "message" else ""
    return "?" in text and len(QUESTION.sub(" ", text).split()) < MIN_STATED
