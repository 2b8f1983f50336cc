"""A block's memories: a model's claims that answer, then recall's best messages whole, the likeliest first.

A message is shown as it stands, since a figure or a date stays beside what it is of; of a long one the passage that was
found, or as many of its sentences as there is room for. How likely one answers falls with its place among recall's
hits, and further where the question names a speaker and somebody else said it. What was said next to one that asks may
be the answer too. Sentences that stand above word for word are left out. One that a later claim has changed is left out
where that was found too; else it tells what the later one says, as one that perhaps is changed does.

A long report of a case, such as a bug, shares words with the talk that settled it all over the session, seldom within
one message. So its messages are ranked by the probability of their sessions first (`weigh_by_session`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.context.packing import make_line
from slowwave.context.rendering import Line, LineSource, Speaker
from slowwave.recall.hits import Hit, Hits, has_words
from slowwave.recall.query import Query, Vector
from slowwave.recall.release.tables import Row
from slowwave.recall.release.view import THEN, View, format_later
from slowwave.recall.retrieve.rows import mask_allowed_passages
from slowwave.recall.sessions import rank_sessions, read_session_ids
from slowwave.schemas.errors import READ_TROUBLE
from slowwave.schemas.tables import GISTS, MESSAGES, OBSERVATIONS, PASSAGES
from slowwave.schemas.vocabulary import Role, Status
from slowwave.text.words import extract_stems

DIRECT_WORDS = 16
"""A query of up to so many content words asks for what a message says; one of more tells a case, whose words are met
all over."""
FADES = 1.3
"""Power of a message's place among the hits by which it is the less likely to answer."""
LEAST = 0.02
"""Of the likeliest session's probability: messages of less likely sessions are no part of a report's block."""
OTHERS, FOLLOWS = 0.3, 0.6
"""Of the likelihood, for a message that another said than the question names; and of that of a message which asks
something, for what was said next."""

SHOWN = ["session_id", "native_id", "seq", "role", "speaker", "ts"]


def rank_messages(view: View, query: Query, hits: Sequence[Hit]) -> list[Line]:
    """Return the messages that may answer, the likeliest first, of hits that are the best first."""
    rows = view.read_by_id(MESSAGES, [hit.id for hit in hits], SHOWN)
    gists = view.read_by_id(GISTS, list(rows), ["summary"])
    # the one speaker whom the query names, where it is one alone
    layout = view.passages
    names = {layout.speakers[at] for at in np.unique(layout.speaker[layout.mask_speakers(query.text)]).tolist()}
    named = names.pop() if len(names) == 1 else None

    def weigh(row: Row, likelihood: float) -> float:
        return likelihood * (OTHERS if named is not None and row["speaker"] != named else 1.0)

    # hits; one that was changed only where the message of the later claim was not found
    own = set(view.find_session_ids(query.own_sessions))
    later = {hit.id: view.chains.claims.get(hit.superseded_by or hit.perhaps_superseded_by or "") for hit in hits}
    own_texts = [str(row["summary"]) for row in later.values() if row is not None and row["session_id"] in own]
    texts = "\n".join(map(_flatten, (*(hit.text for hit in hits), *own_texts)))  # what is told beside, or was just said
    likelihoods = {hit.id: float(1 + rank) ** -FADES for rank, hit in enumerate(hits)}
    lines = list[Line]()
    for hit in hits:
        row, newer = rows.get(hit.id), view.chains.claims.get(hit.superseded_by, {}) if hit.superseded_by else {}
        if hit.status == Status.NOT_DISTILLED:
            lines.append(tell_hit(hit, likelihoods[hit.id]))
        elif row is not None and rows.keys().isdisjoint(newer.get("message_ids", ())):
            lines.append(
                make_line(
                    hit.sources[0].quote,
                    make_source(view, row),
                    weigh(row, likelihoods[hit.id]),
                    later=_format_change(hit, texts),
                    score=hit.score,
                    gist=str(gists[hit.id]["summary"]) if hit.id in gists else "",
                    within=hit.text,
                )
            )
    # what was said next to those that ask
    asking = [hit.id for hit in hits if hit.text.rstrip().endswith("?")]
    for key, row in read_replies(view, query, asking).items():
        lines.append(make_line(str(row["text"]), make_source(view, row), weigh(row, likelihoods[key] * FOLLOWS)))
    best: dict[object, Line] = {}
    for line in sorted(lines, key=lambda line: -line.relevance):
        best.setdefault((line.source.session, line.source.message), line)
    return list(best.values())


def weigh_by_session(view: View, query: Query, vector: Vector | None, lines: Sequence[Line]) -> list[Line]:
    """Return the messages of the likeliest sessions, weighed by the probability that the report is about the session.

    The likeliest come first; those of one session stay in their order. A message that no night has read yet keeps its
    likelihood.

    Args:
        view: the release.
        query: the report.
        vector: the report's; None without an encoder.
        lines: messages, the likeliest first.
    """
    try:
        ranked = rank_sessions(view, query, vector, view.has_full_text(PASSAGES))
    except READ_TROUBLE:  # recall has met it before, and noted it
        ranked = rank_sessions(view, query, vector, full_text=False)
    ids = read_session_ids(view, [number for number, _ in ranked])
    native = [view.native_sessions.get(key, key) for key in ids]
    probabilities = dict(zip(native, (probability for _, probability in ranked), strict=True))
    least = LEAST * max(probabilities.values(), default=0.0)
    places = Counter[str | None]()
    weighed = []
    for line in lines:
        session = line.source.session
        probability = probabilities.get(session or "")
        if probability is not None and probability < least:
            continue
        if probability is not None:
            line = replace(line, relevance=probability * float(1 + places[session]) ** -FADES)
            places[session] += 1
        weighed.append(line)
    return sorted(weighed, key=lambda line: -line.relevance)


def tell_hit(hit: Hit, relevance: float = 1.0) -> Line:
    """Return a hit as it is; what was written since the release is marked as not yet distilled."""
    source = LineSource(hit.sources[0].session, hit.sources[0].message, at=hit.observed_at)
    later = f"({hit.status})" if hit.status == Status.NOT_DISTILLED else ""
    return make_line(hit.text, source, relevance, score=hit.score, later=later)


def rank_claims(view: View, hits: Sequence[Hit]) -> list[Line]:
    """Return the claims that hold and say something in other words than their messages do, as a model puts them, the
    likeliest first; one that is in its message's own words is told by the message.
    """
    claims = view.read_by_id(OBSERVATIONS, [hit.id for hit in hits], ["message_ids"])
    first = {key: row["message_ids"][0] for key, row in claims.items() if row["message_ids"]}
    rows = view.read_by_id(MESSAGES, list(first.values()), [*SHOWN, "text"])
    lines = []
    for rank, hit in enumerate(hits):
        row = rows.get(first.get(hit.id, ""))
        if hit.superseded_by is None and row is not None and not has_words(str(row["text"]), hit.text):
            source = replace(make_source(view, row), speaker=None, by=None)
            lines.append(make_line(hit.text, source, 1 / (1 + rank), later=_format_change(hit, "")))
    return lines


def rank_topics(hits: Hits, query: Query) -> list[Line]:
    """Return a model's texts of topics that have every word of the query; else its messages tell it themselves."""
    return [
        make_line(hit.text, LineSource(at=hit.observed_at, topic=hit.topic or ""))
        for hit in hits
        if query.stems and query.stems <= extract_stems(f"{hit.topic} {hit.text}")
    ]


def put_narration_last(view: View, hits: Hits) -> Hits:
    """Return the messages with those that called a tool as they were said ("Let me read the log first.") after all
    others; none where there are no others.
    """
    rows = view.read_by_id(MESSAGES, [hit.id for hit in hits], ["blocks"])
    kinds = {key: [block["type"] for block in row["blocks"]] for key, row in rows.items()}
    calling = {key for key, kinds_of in kinds.items() if "tool_call" in kinds_of}
    ordered = sorted(hits, key=lambda hit: hit.id in calling)
    if not ordered or ordered[0].id in calling:
        return Hits((), hits.reason or "what was found was said beside calls of tools", relevance=hits.relevance)
    return Hits(ordered, relevance=hits.relevance, notes=hits.notes)


def read_replies(view: View, query: Query, ids: Sequence[str]) -> dict[str, Row]:
    """Return for each message the passage said next in its session by another, where the query's conditions let it
    through: a row with the columns `SHOWN` and its text.
    """
    layout, keys = view.passages, view.read_keys(MESSAGES)
    offsets = np.flatnonzero(pc.is_in(keys, value_set=pa.array(ids, keys.type)).to_numpy())
    # the last passage of each message, where another speaks next in the session
    last = np.flatnonzero(np.isin(layout.message, offsets) & (layout.message != np.append(layout.message[1:], -1)))
    last = last[last + 1 < len(layout.message)]
    by_another = (layout.role[last + 1] != layout.role[last]) | (layout.speaker[last + 1] != layout.speaker[last])
    same = layout.session[last + 1] == layout.session[last]
    last = last[by_another & same & mask_allowed_passages(view, query)[last + 1]]
    # and what was said then
    question_ids = keys.take(pa.array(layout.message[last])).to_pylist()
    passages = view.take(PASSAGES, layout.offsets[last + 1], ["message_id", "text"]).to_pylist()
    rows = view.read_by_id(MESSAGES, [row["message_id"] for row in passages], SHOWN)
    return {
        key: {**rows[row["message_id"]], "text": row["text"]}
        for key, row in zip(question_ids, passages, strict=True)
        if row["message_id"] in rows
    }


def _flatten(text: str) -> str:
    return " ".join(text.split())


def make_source(view: View, row: Row) -> LineSource:
    """Return the source of a message (the columns `SHOWN`)."""
    session = view.native_sessions.get(row["session_id"]) or str(row["session_id"])
    by: Speaker = "person" if row["role"] == Role.USER else "model"
    short = view.session_tags.get(session)
    return LineSource(session, row["native_id"], row["seq"], row["ts"], row["speaker"], by, short=short)


def _format_change(hit: Hit, beside: str) -> str:
    """Return a later claim's words, or else what a user said next to an assistant's message, who may take it back."""
    if hit.successor:
        return format_later(hit.successor, hit.superseded_by is not None, beside)
    reply = hit.get_reply()
    return f"(user{THEN}{_flatten(reply)})" if reply else ""
