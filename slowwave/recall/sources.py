"""From hits down to the messages they stand on, in the transcript's own ids."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

import numpy as np

from slowwave.recall.hits import GROUPS, LEANING_WORDS, QUOTE_CHARS, Fragment, Hit, Source, fold_text
from slowwave.recall.release.tables import Row
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.candidates import Candidate
from slowwave.schemas.tables import MESSAGES, OBSERVATIONS, SUMMARIES, TOPICS
from slowwave.text.words import extract_content_words

CLAIM_COLUMNS = ["category", "detail", "files", "topic_id"]
MESSAGE_COLUMNS = ["session_id", "native_id", "role", "text"]

MAX_SOURCES = 5
"""Messages named under one summary; more are reached by drilling down."""


def build_hits(view: View, ranked: Sequence[Candidate]) -> list[Hit]:
    """Return rows as hits, all their messages looked up at once."""
    # the messages that each stands on; a message in its exchange
    below = collect_message_ids_below(view, {row.id: row.row for row in ranked if row.kind in GROUPS})
    ids = {row.id: below[row.id] if row.kind in GROUPS else row.row.get("message_ids") or [] for row in ranked}
    messages = view.read_by_id(MESSAGES, list(chain(*ids.values())), MESSAGE_COLUMNS)
    exchanges = _read_exchanges(view, [row for row in ranked if row.kind == "message"])
    # what the table knows of the claims, or of the claim that was made of a message
    claims = {row.id: row.claim.id if row.claim else row.id for row in ranked if row.claim or row.kind == "observation"}
    facts = view.read_by_id(OBSERVATIONS, list(claims.values()), CLAIM_COLUMNS)
    sure = view.look_up_confidences(list(facts))
    names = view.read_by_id(TOPICS, [fact["topic_id"] for fact in facts.values() if fact["topic_id"]], ["name"])
    # each with its messages, and what is known of its claim
    hits: list[Hit] = []
    for row in ranked:
        cited = [messages[key] for key in ids[row.id] if key in messages]
        hit = _build_hit(view, row, *exchanges.get(row.id, (cited, ())))
        if fact := facts.get(key := claims.get(row.id, "")):
            hit = replace(
                hit,
                category=fact["category"],
                detail=fact["detail"],
                files=tuple(fact["files"]),
                confidence=sure[key],
                topic=names.get(fact["topic_id"], {}).get("name"),
            )
        hits.append(hit)
    return hits


def _build_hit(view: View, candidate: Candidate, messages: Sequence[Row], pair: tuple[Fragment, ...]) -> Hit:
    """Return a row as a hit; its messages as sources, a message in its exchange."""
    row, kind = candidate.row, candidate.kind
    # what is shown: of a message the whole, of which the passage that was found is quoted
    text = messages[0]["text"] if kind == "message" and messages else candidate.text
    quote = row["quote"] if kind == "observation" else candidate.text if kind == "message" else None
    # a source quotes what is given, if the message has it, else how the message begins
    sources: list[Source] = []
    for message in messages:
        session, is_there = message["session_id"], quote is not None and fold_text(quote) in fold_text(message["text"])
        words = quote if quote and is_there else message["text"][:QUOTE_CHARS]
        sources.append(Source(view.native_sessions.get(session) or session, message["native_id"], words))
    role = messages[0]["role"] if messages else None
    return Hit(
        *(kind, candidate.id, text, candidate.score, candidate.edges[1], row["status"]),
        sources=tuple(sources),
        pair=pair,
        relevance=candidate.relevance,
        superseded_by=row["superseded_by"],
        perhaps_superseded_by=row["perhaps_superseded_by"],
        successor=row["successor"],
        claim=candidate.claim.text if candidate.claim else None,
        topic=row.get("name"),
        workspace=row.get("workspace"),
        speaker=None if kind in GROUPS else row.get("speaker") or role,
    )


def _read_exchanges(view: View, ranked: Sequence[Candidate]) -> dict[str, tuple[list[Row], tuple[Fragment, ...]]]:
    """Return for each message that was found itself and its exchange, taken from where they stand."""
    if not ranked:
        return {}
    layout = view.passages
    # which messages stand around each hit, by their offsets: the exchange, itself, and what was said next
    around: dict[str, tuple[list[int], int, int]] = {}
    for row in ranked:
        at, reply = row.row["position"], layout.find_reply(row.row["position"])
        pair = layout.message[layout.find_exchange(at)].tolist()
        around[row.id] = pair, int(layout.message[at]), -1 if reply is None else int(layout.message[reply])
    # all of them are read at once
    offsets = sorted({at for pair, own, reply in around.values() for at in (*pair, own, reply) if at >= 0})
    rows = view.take(MESSAGES, np.array(offsets, dtype=np.int64), MESSAGE_COLUMNS).to_pylist() if offsets else []
    messages = dict(zip(offsets, rows, strict=True))
    fragments = {at: Fragment(row["role"], row["native_id"], row["text"]) for at, row in messages.items()}
    # a reply is a part of the exchange where it leans on the message
    exchanges: dict[str, tuple[list[Row], tuple[Fragment, ...]]] = {}
    for key, (pair, own, reply) in around.items():
        exchange = [fragments[at] for at in pair if at in fragments]
        answer = fragments.get(reply)
        if answer and len(set(extract_content_words(answer.text))) <= LEANING_WORDS:
            exchange.append(answer)
        exchanges[key] = [messages[own]] if own in messages else [], tuple(exchange)
    return exchanges


def collect_message_ids_below(view: View, summaries: Mapping[str, Row]) -> dict[str, list[str]]:
    """Return up to MAX_SOURCES messages below each summary or topic (rows by id, with `member_ids` or `samples`),
    spread over its members.

    Members are summaries of the tier below, observations or messages; each round takes all hits one tier down.
    """
    frontier = {key: row.get("member_ids", row.get("samples")) or [] for key, row in summaries.items()}
    while frontier:
        below = view.read_by_id(SUMMARIES, list(chain(*frontier.values())), ["summary_id", "member_ids"])
        if not below:
            break
        frontier = {
            key: _descend_one_tier(ids, {k: row["member_ids"] for k, row in below.items()})
            for key, ids in frontier.items()
        }
    claims = view.read_by_id(OBSERVATIONS, list(chain(*frontier.values())), ["observation_id", "message_ids"])
    messages = {key: row["message_ids"] for key, row in claims.items()}
    return {key: _descend_one_tier(ids, messages)[:MAX_SOURCES] for key, ids in frontier.items()}


def _descend_one_tier(ids: Sequence[str], members: Mapping[str, list[str]]) -> list[str]:
    """Return each id replaced by its members (or itself, where it has none), one of each in turn."""
    lists = [members.get(key, [key]) for key in ids[: MAX_SOURCES * 4]]
    spread = (key for turn in zip_longest(*lists) for key in turn if key is not None)
    return list(dict.fromkeys(spread))[: MAX_SOURCES * 4]
