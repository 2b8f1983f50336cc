"""A plain question's block: a model's claims that answer, then recall's best messages whole, the likeliest first.

A message is shown as it stands, since a figure or a date stays beside what it is of; of a long one the passage that was
found, or as many of its sentences as there is room for. How likely one answers falls with its place among recall's
hits, and further where the question names a speaker and somebody else said it. What was said next to one that asks may
be the answer too. Sentences that stand above word for word are left out. One that a later claim has changed is left out
where that was found too; else it tells what the later one says, as one that perhaps is changed does.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.context.packing import OMITTED
from slowwave.context.rendering import Line, LineSource, Speaker
from slowwave.recall.filters import mask_allowed_passages
from slowwave.recall.hits import Hit, Hits, has_words
from slowwave.recall.query import Query
from slowwave.recall.release.chains import THEN, format_later
from slowwave.recall.release.tables import Row
from slowwave.recall.release.view import View
from slowwave.schemas.tables import GISTS, MESSAGES, OBSERVATIONS, PASSAGES
from slowwave.schemas.vocabulary import Role, Status
from slowwave.text.sentences import split_sentences
from slowwave.text.spans import MIN_WORDS
from slowwave.text.words import extract_content_words, extract_stems

DIRECT_WORDS = 16
"""A query of up to so many content words asks for what a message says; one of more tells a case, whose words are met
all over."""
FADES = 1.3
"""Power of a message's place among the hits by which it is the less likely to answer."""
OTHERS, FOLLOWS = 0.3, 0.6
"""Of the likelihood, for a message that another said than the question names; and of that of a message which asks
something, for what was said next."""
ONE_SENTENCE = 1.5
"""Times what a message may have, where its best sentence alone has more."""
ENDS = ".!?…)\"”'"

SHOWN = ["session_id", "native_id", "seq", "role", "speaker", "ts"]


@dataclass(frozen=True, slots=True)
class MessageLine:
    """A message that may answer, or a passage of a long one."""

    text: str
    source: LineSource
    likelihood: float
    """That it answers, beside the others."""
    opens: bool = True
    """Whether the message begins with it."""
    closes: bool = True
    """Whether the message ends with it."""
    score: float | None = None
    """Recall's, of a hit."""
    later: str = ""
    """What is later known of it, in brackets; empty where it holds."""
    gist: str = ""
    """The whole message in a sentence, where gists are made."""

    @property
    def line(self) -> Line:
        """As it is shown, in one line."""
        parts = ("" if self.opens else OMITTED, _flatten(self.text), "" if self.closes else OMITTED, self.later)
        own_words = (_flatten(self.text), self.later.partition(THEN)[2].removesuffix(")")) if self.later else ()
        return Line(" ".join(filter(None, parts)), self.source, self.likelihood, tuple(filter(None, own_words)))


def rank_messages(view: View, query: Query, hits: Sequence[Hit], tags: Mapping[str, str]) -> list[MessageLine]:
    """Return the messages that may answer, the likeliest first.

    Args:
        hits: messages, best first.
        tags: how headings name the sessions (`View.session_tags`).
    """
    rows = view.read_by_id(MESSAGES, [hit.id for hit in hits], SHOWN)
    gists = view.read_by_id(GISTS, list(rows), ["summary"])
    places = {hit.id: float(1 + place) ** -FADES for place, hit in enumerate(hits)}
    # the one speaker whom the query names, where it is one alone
    layout = view.passages
    names = {layout.speakers[at] for at in np.unique(layout.speaker[layout.mask_speakers(query.text)]).tolist()}
    named = names.pop() if len(names) == 1 else None
    texts = "\n".join(_flatten(hit.text) for hit in hits)

    def make(
        row: Row, text: str, whole: str, likelihood: float, later: str = "", score: float | None = None, gist: str = ""
    ) -> MessageLine:
        other = named is not None and row["speaker"] != named
        source = make_source(view, row, tags)
        cut = not whole.startswith(text), not whole.endswith(text)
        return MessageLine(
            text, source, likelihood * (OTHERS if other else 1.0), not cut[0], not cut[1], score, later, gist
        )

    # what holds in place of a hit is told by the message that was found for it
    claims = view.chains.claims
    newer = {key: claims[key]["message_ids"] for hit in hits if (key := hit.superseded_by) in claims and key}
    messages = [
        make(
            rows[hit.id],
            hit.sources[0].quote,
            hit.text,
            places[hit.id],
            _format_change(hit, texts),
            hit.score,
            str(gists[hit.id]["summary"]) if hit.id in gists else "",
        )
        for hit in hits
        if hit.id in rows and not any(key in rows for key in newer.get(hit.superseded_by or "", ()))
    ]
    messages += [tell_hit(hit, places[hit.id]) for hit in hits if hit.status == Status.NOT_DISTILLED]
    messages += [
        make(row, str(row["text"]), str(row["text"]), places[key] * FOLLOWS)
        for key, row in read_replies(view, query, [hit.id for hit in hits if hit.text.rstrip().endswith("?")]).items()
    ]
    best: dict[object, MessageLine] = {}
    for message in sorted(messages, key=lambda message: -message.likelihood):
        best.setdefault((message.source.session, message.source.message), message)
    return list(best.values())


def tell_hit(hit: Hit, likelihood: float = 1.0) -> MessageLine:
    """Return a hit as it is; what was written since the release is marked as not yet distilled."""
    source = LineSource(hit.sources[0].session, hit.sources[0].message, at=hit.observed_at)
    later = f"({hit.status})" if hit.status == Status.NOT_DISTILLED else ""
    return MessageLine(hit.text, source, likelihood, score=hit.score, later=later)


def rank_claims(view: View, hits: Sequence[Hit], tags: Mapping[str, str]) -> list[MessageLine]:
    """Return the claims that hold and say something in other words than their messages do, as a model puts them, the
    likeliest first; one that is in its message's own words is told by the message.
    """
    keys = view.read_by_id(OBSERVATIONS, [hit.id for hit in hits], ["message_ids"])
    first = {key: row["message_ids"][0] for key, row in keys.items() if row["message_ids"]}
    rows = view.read_by_id(MESSAGES, list(first.values()), [*SHOWN, "text"])
    return [
        MessageLine(
            hit.text,
            replace(make_source(view, row, tags), speaker=None, by=None),
            1 / (1 + place),
            later=_format_change(hit, ""),
        )
        for place, hit in enumerate(hits)
        if hit.superseded_by is None
        and (row := rows.get(first.get(hit.id, ""))) is not None
        and not has_words(str(row["text"]), hit.text)
    ]


def rank_topics(hits: Hits, query: Query) -> list[MessageLine]:
    """Return a model's texts of topics that have every word of the query; else its messages tell it themselves."""
    return [
        MessageLine(hit.text, LineSource(at=hit.observed_at, topic=hit.topic or ""), 1.0)
        for hit in hits
        if query.stems and query.stems <= extract_stems(f"{hit.topic} {hit.text}")
    ]


def put_narration_last(view: View, hits: Hits) -> Hits:
    """Return the messages with those that called a tool as they were said ("Let me read the log first.") after all
    others; none where there are no others.
    """
    rows = view.read_by_id(MESSAGES, [hit.id for hit in hits], ["blocks"])
    kinds = {key: [block["type"] for block in row["blocks"]] for key, row in rows.items()}
    calling = {key for key, some in kinds.items() if "tool_call" in some}
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
    others = (layout.role[last + 1] != layout.role[last]) | (layout.speaker[last + 1] != layout.speaker[last])
    same = layout.session[last + 1] == layout.session[last]
    last = last[others & same & mask_allowed_passages(view, query)[last + 1]]
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


def make_source(view: View, row: Row, tags: Mapping[str, str]) -> LineSource:
    """Return the source of a message (the columns `SHOWN`)."""
    session = view.native_sessions.get(row["session_id"]) or str(row["session_id"])
    by: Speaker = "person" if row["role"] == Role.USER else "model"
    return LineSource(session, row["native_id"], row["seq"], row["ts"], row["speaker"], by, short=tags.get(session))


def _format_change(hit: Hit, beside: str) -> str:
    """Return a later claim's words, or else what a user said next to an assistant's message, who may take it back."""
    if hit.successor:
        return format_later(hit.successor, hit.superseded_by is not None, beside)
    reply = hit.get_reply()
    return f"(user{THEN}{_flatten(reply)})" if reply else ""


def pack_messages(
    messages: Sequence[MessageLine],
    query: str,
    budget: int,
    share: float,
    price: Callable[[Line], int],
    head: Callable[[LineSource], int],
) -> list[Line]:
    """Return lines that have at most `budget` tokens by their prices, the likeliest first.

    Args:
        messages: what may be shown, the likeliest first.
        query: whose words tell nothing where they are asked again.
        budget: tokens.
        share: of the budget, what a message may have however little room is left.
        price: of a line.
        head: price of the heading over the first line of a group.
    """
    query_words = frozenset(extract_content_words(query))
    groups, chosen, sentences, room = set[object](), list[Line](), set[str](), budget
    for message in messages:
        beside = any(_flatten(message.text) in line.said[1:] for line in chosen)
        if beside or not (text := drop_sentences(message.text, sentences)):
            continue
        shown = replace(message, text=text)
        # as much of it as there is room for
        opening = 0 if shown.source.group in groups else head(shown.source)
        left = room - opening
        most = max(int(budget * share), left // 2)
        line = shorten(shown, query_words, most, price) or shorten(shown, query_words, int(most * ONE_SENTENCE), price)
        if line is None or price(line) > left:
            continue
        # what is told by now
        chosen.append(line)
        room -= price(line) + opening
        groups.add(line.source.group)
        sentences.update(span.text for span in split_sentences(line.text))
    return chosen


def drop_sentences(text: str, told_before: Collection[str]) -> str:
    """Return a text without its sentences of MIN_WORDS words or more that are told; empty where none is left."""
    spans = split_sentences(text)
    gone = [sentence for sentence in spans if sentence.text in told_before and len(sentence.text.split()) >= MIN_WORDS]
    if len(gone) == len(spans):
        return "" if gone else text
    for sentence in reversed(gone):
        text = f"{text[: sentence.start].rstrip()} {OMITTED} {text[sentence.end :].lstrip(ENDS).lstrip()}".strip()
    return text


def shorten(message: MessageLine, query_words: Collection[str], most: int, price: Callable[[Line], int]) -> Line | None:
    """Return a message as it stands where it has at most so many tokens; else as many of its sentences in a row, from
    the one on that has most of what is asked for; None where that one has more.
    """
    if price(message.line) <= most:
        return message.line
    spans = split_sentences(message.text)
    shared = [len(set(extract_content_words(span.text)) & set(query_words)) for span in spans]
    first = shared.index(max(shared)) if shared else 0
    widths = [(first, stop) for stop in range(first + 1, len(spans) + 1)]
    widths += [(start, len(spans)) for start in reversed(range(first))]
    longest = None
    for start, stop in widths:
        # its sentences from one to another, with what ends the last
        last = spans[stop - 1].end
        rest = message.text[last:]
        text = message.text[spans[start].start : last + len(rest) - len(rest.lstrip(ENDS))]
        opens, closes = message.opens and start == 0, message.closes and stop == len(spans)
        line = replace(message, text=text, opens=opens, closes=closes).line
        longest = line if price(line) <= most else longest
    return longest


def arrange_lines(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Return lines as they are shown: the best first, those of its session and day with it, claims first, as they were
    said.
    """
    groups = list(dict.fromkeys(line.source.group for line in lines))
    # in a session a model's claims, which are nobody's words, before the messages
    return tuple(
        sorted(
            lines,
            key=lambda line: (
                groups.index(line.source.group),
                bool(line.source.speaker or line.source.by),
                line.source.seq or 0,
            ),
        )
    )
