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
    ids = {row.id: (below[row.id] if row.kind in GROUPS else row.row.get("message_ids") or []) for row in ranked}
    others = [row for row in ranked if row.kind != "message"]
    messages = view.read_by_id(MESSAGES, [key for row in others for key in ids[row.id]], MESSAGE_COLUMNS)
    exchanges = _read_exchanges(view, [row for row in ranked if row.kind == "message"])
    # what the table knows of the claims, or of the claim that was made of a message
    claims = [row if row.kind == "observation" else row.claim for row in ranked]
    facts = view.read_by_id(OBSERVATIONS, [claim.id for claim in claims if claim is not None], CLAIM_COLUMNS)
    sure = view.look_up_confidences(list(facts))
    names = view.read_by_id(TOPICS, [fact["topic_id"] for fact in facts.values() if fact["topic_id"]], ["name"])
    hits: list[Hit] = []
    for row, claim in zip(ranked, claims, strict=True):
        if row.kind == "message":
            sources, pair = exchanges[row.id]
        else:
            sources, pair = [messages[key] for key in ids[row.id] if key in messages], ()
        hit = _build_hit(view, row, sources, pair)
        if claim is not None and (fact := facts.get(claim.id)):
            hit = replace(
                hit,
                category=fact["category"],
                detail=fact["detail"],
                files=tuple(fact["files"]),
                confidence=sure[claim.id],
                topic=names.get(fact["topic_id"], {}).get("name"),
            )
        hits.append(hit)
    return hits


def _build_hit(view: View, scored: Candidate, messages: Sequence[Row], pair: tuple[Fragment, ...]) -> Hit:
    """Return a row as a hit; its messages as sources, a message in its exchange."""
    row, kind = scored.row, scored.kind
    # what is shown, and when it was said
    if kind == "observation":
        text, quote, at = row["summary"], row["quote"], row["observed_at"]
    elif kind == "message":
        text, quote, at = messages[0]["text"] if messages else row["text"], row["text"], row["ts"]
    else:
        text, quote, at = row["text"], None, row["last_at"]
    # a source quotes what is given, if the message has it, else how the message begins
    sources: list[Source] = []
    for message in messages:
        session, is_there = message["session_id"], quote is not None and fold_text(quote) in fold_text(message["text"])
        shown = quote if quote and is_there else message["text"][:QUOTE_CHARS]
        sources.append(Source(view.native_sessions.get(session) or session, message["native_id"], shown))
    role = messages[0]["role"] if messages else None
    return Hit(
        *(kind, scored.id, text, scored.score, at, row["status"]),
        sources=tuple(sources),
        pair=pair,
        relevance=scored.relevance,
        superseded_by=row["superseded_by"],
        perhaps_superseded_by=row["perhaps_superseded_by"],
        successor=row["successor"],
        claim=scored.claim.row["summary"] if scored.claim is not None else None,
        topic=row.get("name"),
        workspace=row.get("workspace"),
        speaker=None if kind in GROUPS else row.get("speaker") or role,
    )


def _read_exchanges(view: View, ranked: Sequence[Candidate]) -> dict[str, tuple[list[Row], tuple[Fragment, ...]]]:
    """Return for each message that was found itself and its exchange, taken from where they stand."""
    if not ranked:
        return {}
    layout = view.passages
    # which messages stand around each hit, by their offsets
    positions = {row.id: row.row["position"] for row in ranked}
    exchanges = {key: layout.message[layout.find_exchange(at)] for key, at in positions.items()}
    own = {key: int(layout.message[at]) for key, at in positions.items()}
    replies = {
        key: int(layout.message[reply]) for key, at in positions.items() if (reply := layout.find_reply(at)) is not None
    }
    # all of them are read at once
    wanted = np.unique(np.concatenate([*exchanges.values(), list(own.values()), list(replies.values())])).astype(int)
    wanted = wanted[wanted >= 0]
    messages = dict(zip(wanted.tolist(), view.take(MESSAGES, wanted, MESSAGE_COLUMNS).to_pylist(), strict=True))
    fragments = {at: Fragment(row["role"], row["native_id"], row["text"]) for at, row in messages.items()}
    # a reply is a part of the exchange where it leans on the message
    exchanged: dict[str, tuple[list[Row], tuple[Fragment, ...]]] = {}
    for key, places in exchanges.items():
        pair = [fragments[at] for at in places.tolist() if at in fragments]
        answer = fragments.get(replies.get(key, -1))
        if answer and len(set(extract_content_words(answer.text))) <= LEANING_WORDS:
            pair.append(answer)
        exchanged[key] = [messages[own[key]]] if own[key] in messages else [], tuple(pair)
    return exchanged


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
