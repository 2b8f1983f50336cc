"""The memories of a block: a model's claims that answer, then recall's best messages, whole, the likeliest first.

A message is shown with its context, so that a figure or date stays beside its subject. Of a long message of an
assistant, the passage that was found is shown; of any long message as many of its sentences as fit. The likelihood that
a message answers falls with its rank among the hits, and further if the question names a speaker and another person
said it. The reply to a message that asks may answer too, and so may the other message of its turn. Sentences that an
earlier line shows are left out, and messages that only acknowledge. If a later claim changed a message, the message is
left out if the later one was found too; otherwise the line says what the later claim says. It also says so if a later
claim perhaps changed the message. A message that replaced an earlier one is marked "current". Rules and preferences
come first, marked.

A long report, such as one of a bug, shares words with messages all over the session that answers it, and seldom with
one message alone. So its messages are ranked first by the probability of their sessions (`weigh_by_session`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slowwave.context.packing import (
    REPLY,
    LaterNote,
    find_pieces,
    make_line,
    show_pieces,
)
from slowwave.context.projects.intentions import list_intentions
from slowwave.context.projects.standing import SURE
from slowwave.context.rendering import Line, LineNote, LineSource
from slowwave.recall.changed import find_changes
from slowwave.recall.hits import (
    CONFIDENT,
    LEANING_WORDS,
    QUOTE_CHARS,
    Change,
    Hit,
    Hits,
    has_words,
)
from slowwave.recall.later import find_later_passages
from slowwave.recall.query import Ints, Query, Vector, is_question, says_little
from slowwave.recall.release.view import THEN, View, format_later
from slowwave.recall.retrieve.rows import mask_allowed_passages
from slowwave.recall.sessions import rank_sessions, read_session_ids
from slowwave.recall.views.dead_ends import Tried, find_touched
from slowwave.schemas.errors import READ_TROUBLE
from slowwave.schemas.rows import MessageRow, PassageRow
from slowwave.schemas.tables import (
    CLAIMS,
    GISTS,
    MESSAGES,
    PASSAGES,
    TRUST,
)
from slowwave.schemas.vocabulary import PERHAPS_CHANGED, Role, Status, Trust
from slowwave.text.times.days import localise
from slowwave.text.words import UNSPACED, singular_words

TRIED = 2
"""Most dead ends that the question names."""

INTENDED = 2
"""Most intentions that wait for what the question names."""
FADES = 1.3
"""A message's likelihood is its rank among the hits to the power of minus this number."""
LEAST = 0.02
"""Share of the likeliest session's probability that a session needs for its messages to be in a report's block."""
OTHERS = 0.3
FOLLOWS = 0.6
CAME_LATER = 0.1
"""Factors on the likelihood: of a message by another speaker than the question names, of the reply to a message that
asks, and of a later message of the same matter."""
FIRST = 3
"""First hits from which later messages are looked for."""

PERSON_FIRST = 1.01
"""Factor by which a person's message is likelier than the answer beside it: if room is short, the answer goes."""
CURRENT = "(current)"
"""Stands behind a message that replaced an earlier one."""
RULES = frozenset({"convention", "preference"})
"""Categories of claims that hold for every session: they come first in a block that they touch."""

SHOWN = [
    "session_id",
    "native_id",
    "seq",
    "role",
    "speaker",
    "ts",
    "utc_offset",
    "workspace",
]


def rank_messages(
    view: View,
    query: Query,
    hits: Sequence[Hit],
) -> list[Line]:
    """Return the messages that may answer, the likeliest first, given hits in the order of their rank."""
    named = _find_named_speaker(view, query)
    likelihoods = {hit.id: float(1 + rank) ** -FADES for rank, hit in enumerate(hits)}
    lines = _make_hit_lines(
        view=view, query=query, hits=hits, likelihoods=likelihoods, named=named
    )
    marked = _mark_rules(view, hits, _mark_current(view, hits, lines))
    # what answered a message that was replaced repeats what it said
    standing = [hit for hit in hits if not _is_replaced(view, hit, likelihoods.keys())]
    beside = _rank_beside(
        view=view, query=query, hits=standing, likelihoods=likelihoods, named=named
    )
    return _keep_likeliest([*beside, *marked.values()])


def _make_hit_lines(
    view: View,
    query: Query,
    hits: Sequence[Hit],
    likelihoods: Mapping[str, float],
    named: str | None,
) -> dict[str, Line]:
    """Return by hit the message that was found as a line, without acknowledgements and without messages that another
    one found replaced.
    """
    rows = view.read_by_id(MESSAGES, [hit.id for hit in hits], SHOWN)
    gists = view.read_by_id(GISTS, list(rows), ["summary"])
    known = _join_own_texts(view, query, hits)
    acknowledging = find_acknowledgements(view, query, hits)
    lines: dict[str, Line] = {}
    for hit in hits:
        row = rows.get(hit.id)
        if hit.status == Status.NOT_DISTILLED:
            lines[hit.id] = make_hit_line(hit, likelihoods[hit.id])
            continue
        if (
            row is None
            or hit.id in acknowledging
            or _is_replaced(view, hit, rows.keys())
        ):
            continue
        lines[hit.id] = _make_message_line(
            view,
            hit,
            row,
            relevance=_weigh_speaker(row, named, likelihoods[hit.id]),
            known=known,
            gist=str(gists[hit.id]["summary"]) if hit.id in gists else "",
        )
    return lines


def _rank_beside(
    view: View,
    query: Query,
    hits: Sequence[Hit],
    likelihoods: Mapping[str, float],
    named: str | None,
) -> list[Line]:
    """Return the messages beside the hits that may answer too: the others of their turns, replies, and later ones."""
    others = _rank_others(
        view=view, query=query, hits=hits, likelihoods=likelihoods, named=named
    )
    later = _find_later(view=view, query=query, hits=hits, likelihoods=likelihoods)
    asking = [hit.id for hit in hits if is_question(hit.text)]
    replies = [
        (passage, likelihoods[key] * FOLLOWS)
        for key, passage in read_replies(view, query, asking).items()
    ]
    passages = _make_passage_lines(
        view=view, query=query, passages=[*later, *replies], named=named
    )
    return [*others, *passages]


def _find_later(
    view: View,
    query: Query,
    hits: Sequence[Hit],
    likelihoods: Mapping[str, float],
) -> list[tuple[PassageRow, float]]:
    """Return persons' later passages of the first hits' matter, if these are surely about the query, with their
    likelihoods.
    """
    sure = [hit.id for hit in hits[:FIRST] if (hit.relevance or 0.0) >= CONFIDENT]
    found = find_later_passages(view, query, sure)
    hide = view.chains.hide_excluded
    return [
        (passage, likelihoods[key] * CAME_LATER)
        for key, passages in found.items()
        for passage in passages
        if not _is_left_out(hide(passage["message_id"], passage["text"]), query)
    ]


def _rank_others(
    view: View,
    query: Query,
    hits: Sequence[Hit],
    likelihoods: Mapping[str, float],
    named: str | None,
) -> list[Line]:
    """Return the other message of each hit's turn, if it is cited too: a person's whole, of an answer the passage
    that was found.
    """
    found = {hit.id: hit for hit in hits if hit.get_beside()}
    others = read_others(view, list(found))
    texts = {row["message_id"]: str(row["text"]) for row in others.values()}
    changes = find_changes(view, texts, query.as_of, places=query.places)
    lines = []
    for key, row in others.items():
        hit = found[key]
        whole = str(row["text"])
        is_answer = row["role"] != Role.USER
        if is_answer and _is_left_out(whole, query) and not is_question(hit.text):
            continue
        factor = 1 / PERSON_FIRST if is_answer else PERSON_FIRST
        # the person's message of the turn stands before its answer, and says what came later
        known = "\n".join(_flatten(change.successor.text) for change in hit.changes)
        notes = _note_changes(
            changes.get(row["message_id"], ()), known if is_answer else ""
        )
        line = make_line(
            hit.sources[1].quote if is_answer else whole,
            make_source(view, row),
            _weigh_speaker(row, named, likelihoods[key] * factor),
            notes=[*notes, *(_note_reply(hit) if is_answer else ())],
            within=whole,
        )
        lines.append(line)
    return lines


def _note_changes(changes: Iterable[Change], known: str = "") -> list[LaterNote]:
    """Return a note for each changed sentence of a message; without the later words that are `known`."""
    notes = (
        LaterNote(format_later(change.successor, change.likely, known), change.text)
        for change in changes
    )
    return [note for note in notes if note.text]


def read_others(view: View, ids: Sequence[str]) -> dict[str, MessageRow]:
    """Return by message the other one of its turn: a row with the columns `SHOWN` and its text."""
    if not ids:
        return {}
    keys = view.read_keys(MESSAGES)
    parts = _find_turns(view, ids)
    pairs = zip(*(keys.take(pa.array(part)).to_pylist() for part in parts), strict=True)
    other_of = dict(pairs)
    rows = view.read_by_id(MESSAGES, list(other_of.values()), [*SHOWN, "text"])
    for key, row in rows.items():
        row["text"] = view.chains.hide_excluded(key, row["text"])
    return {key: rows[other] for key, other in other_of.items() if other in rows}


def _find_turns(view: View, ids: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the offsets of messages that stand in a turn, and beside each that of the turn's other message.

    If both messages of a turn are given, the answer alone is returned.
    """
    layout = view.passages
    at = view.find_positions(ids)
    # an answer stands right behind what it answers
    behind = at[at + 1 < len(layout.message)] + 1
    is_answer = layout.answered[behind] == layout.message[behind - 1]
    turns = np.union1d(at, behind[is_answer])
    turns = turns[(layout.answered[turns] >= 0) & (layout.message[turns] >= 0)]
    answers = layout.message[turns]
    questions = layout.answered[turns]
    is_given = np.isin(answers, layout.message[at])
    own: Ints = np.where(is_given, answers, questions)
    other: Ints = np.where(is_given, questions, answers)
    return own, other


def _mark_current(
    view: View,
    hits: Sequence[Hit],
    lines: dict[str, Line],
) -> dict[str, Line]:
    """Return the lines; one whose claim replaced a hit, and that nothing changed, is marked as current."""
    claims = [
        view.chains.claims.get(hit.superseded_by, {})
        for hit in hits
        if hit.superseded_by
    ]
    words = {
        key: claim["quote"] for claim in claims for key in claim.get("message_ids", ())
    }
    marked = dict(lines)
    for key, line in lines.items():
        if key not in words:
            continue
        about = find_pieces(line.pieces, words[key])
        if all(note.about.isdisjoint(about or {""}) for note in line.notes):
            current = replace(line, notes=(*line.notes, LineNote(CURRENT, about)))
            marked[key] = show_pieces(current, line.pieces)
    return marked


def _mark_rules(
    view: View,
    hits: Sequence[Hit],
    lines: dict[str, Line],
) -> dict[str, Line]:
    """Return the lines; a person's that states a rule or preference, and is surely about the query, is marked so."""
    sure = [hit.id for hit in hits if (hit.relevance or 0.0) >= CONFIDENT]
    rules = find_rules(view, sure)
    return {
        key: replace(line, rule=rules[key])
        if key in rules and line.source.by == "person" and not line.source.trust
        else line
        for key, line in lines.items()
    }


def find_acknowledgements(
    view: View,
    query: Query,
    hits: Sequence[Hit],
) -> Set[str]:
    """Return the ids of messages that only acknowledge the one before them in their session: they have few content
    words, no figure and no word of the query, and the one before asks nothing.
    """
    short = [hit.id for hit in hits if _is_left_out(hit.text, query)]
    if not short:
        return frozenset()
    layout = view.passages
    keys = view.read_keys(MESSAGES)
    at = view.find_positions(short)
    at = at[(at > 0) & (layout.session[at] == layout.session[at - 1])]
    texts = view.take(PASSAGES, layout.offsets[at - 1], ["text"])["text"].to_pylist()
    ids = keys.take(pa.array(layout.message[at])).to_pylist()
    return {key for key, text in zip(ids, texts, strict=True) if not is_question(text)}


def _is_left_out(text: str, query: Query) -> bool:
    """Return True if a text says too little for a line. In scripts without spaces, three words may be a statement."""
    most = 1 if UNSPACED.search(text) else LEANING_WORDS
    return says_little(text, query, most)


def find_rules(view: View, ids: Sequence[str]) -> dict[str, str]:
    """Return the category of the active rule or preference that each message surely states, by the message's id."""
    if not ids or not view.count(CLAIMS):
        return {}
    claims = view.claims.find_claims_at(view.find_positions(ids))
    columns = ["claim_id", "category", "status", "message_ids", TRUST]
    rows = [
        row
        for row in view.take(CLAIMS, claims, columns).to_pylist()
        if row["category"] in RULES
        and row["status"] == Status.ACTIVE
        and row[TRUST] in (None, Trust.TYPED)
    ]
    confidences = view.look_up_confidences([row["claim_id"] for row in rows])
    return {
        key: row["category"]
        for row in rows
        if confidences[row["claim_id"]] >= SURE
        for key in row["message_ids"]
    }


def _make_passage_lines(
    view: View,
    query: Query,
    passages: Iterable[tuple[PassageRow, float]],
    named: str | None,
) -> list[Line]:
    """Return passages with their likelihoods as lines, of each message the likeliest, with notes of what changed since
    or refused it. All are read at once: each look into a table costs.
    """
    likeliest = dict[str, tuple[PassageRow, float]]()
    for passage, likelihood in sorted(passages, key=lambda pair: -pair[1]):
        likeliest.setdefault(passage["message_id"], (passage, likelihood))
    texts = {
        key: view.chains.hide_excluded(key, passage["text"])
        for key, (passage, _) in likeliest.items()
    }
    changes = find_changes(view, texts, query.as_of, places=query.places)
    rows = view.read_by_id(MESSAGES, list(texts), SHOWN)
    return [
        make_line(
            text,
            make_source(view, rows[key]),
            _weigh_speaker(rows[key], named, likeliest[key][1]),
            notes=_note_changes(changes.get(key, ())),
        )
        for key, text in texts.items()
        if key in rows
    ]


def _make_message_line(
    view: View,
    hit: Hit,
    row: MessageRow,
    *,
    relevance: float,
    known: str,
    gist: str,
) -> Line:
    """Return a message that was found, with notes of what changed since; a person's message whole."""
    notes = _note_changes(hit.changes, known)
    if not hit.changes:
        notes += _note_hit(hit, known)
    if row["role"] == Role.ASSISTANT:
        notes += _note_reply(hit)
    text = hit.text if row["role"] == Role.USER else hit.sources[0].quote
    return make_line(
        text,
        make_source(view, row),
        relevance,
        notes=notes,
        score=hit.score,
        gist=gist,
        within=hit.text,
    )


def _find_named_speaker(view: View, query: Query) -> str | None:
    """Return the speaker whom the query names, or None if it names none or several."""
    layout = view.passages
    names = {
        layout.speakers[at]
        for at in np.unique(layout.speaker[layout.mask_speakers(query.text)]).tolist()
    }
    return names.pop() if len(names) == 1 else None


def _weigh_speaker(
    row: MessageRow,
    named: str | None,
    likelihood: float,
) -> float:
    """Return a message's likelihood, lowered if the query names another speaker."""
    return likelihood * (
        OTHERS if named is not None and row["speaker"] != named else 1.0
    )


def _join_own_texts(
    view: View,
    query: Query,
    hits: Sequence[Hit],
) -> str:
    """Return the texts of the later claims from the running sessions, a line each."""
    own = set(view.find_session_ids(query.own_sessions))
    later = (
        view.chains.claims.get(hit.superseded_by or hit.perhaps_superseded_by or "")
        for hit in hits
    )
    return "\n".join(
        _flatten(str(row["summary"]))
        for row in later
        if row is not None and row["session_id"] in own
    )


def _is_replaced(
    view: View,
    hit: Hit,
    found: Set[str],
) -> bool:
    """Return True if a later claim replaced the hit, and a message of that claim is among those found."""
    if not hit.superseded_by:
        return False
    newer = view.chains.claims.get(hit.superseded_by, {})
    return not found.isdisjoint(newer.get("message_ids", ()))


def _keep_likeliest(lines: Sequence[Line]) -> list[Line]:
    """Return the likeliest line of each message, the likeliest first."""
    best: dict[object, Line] = {}
    for line in sorted(lines, key=lambda line: -line.relevance):
        best.setdefault((line.source.session, line.source.message), line)
    return list(best.values())


def weigh_by_session(
    view: View,
    query: Query,
    vector: Vector | None,
    lines: Sequence[Line],
) -> list[Line]:
    """Return the messages of the likeliest sessions. Their relevance is the probability that the report is about the
    session.

    The likeliest come first, and those of one session keep their order. A message newer than the release keeps its
    likelihood.

    Args:
        view: the release.
        query: the report.
        vector: the report's vector; None without an encoder.
        lines: messages, the likeliest first.
    """
    try:
        ranked = rank_sessions(
            view=view,
            query=query,
            vector=vector,
            full_text=view.has_full_text(PASSAGES),
        )
    except READ_TROUBLE:  # recall has already warned about it
        ranked = rank_sessions(view, query, vector, full_text=False)
    ids = read_session_ids(view, [number for number, _ in ranked])
    native = [view.native_sessions.get(key, key) for key in ids]
    probabilities = dict(
        zip(native, (probability for _, probability in ranked), strict=True)
    )
    least = LEAST * max(probabilities.values(), default=0.0)
    places = Counter[str | None]()
    weighed = []
    for line in lines:
        session = line.source.session
        probability = probabilities.get(session or "")
        if probability is not None and probability < least:
            continue
        if probability is not None:
            line = replace(
                line, relevance=probability * float(1 + places[session]) ** -FADES
            )
            places[session] += 1
        weighed.append(line)
    return sorted(weighed, key=lambda line: -line.relevance)


def make_hit_line(hit: Hit, relevance: float = 1.0) -> Line:
    """Return a hit as a line. A message written since the release is marked as not yet distilled."""
    source = LineSource(
        hit.sources[0].session,
        hit.sources[0].message,
        at=hit.observed_at,
        trust=hit.trust_note,
    )
    is_new = hit.status == Status.NOT_DISTILLED
    notes = [LaterNote(f"({hit.status})")] if is_new else []
    return make_line(hit.text, source, relevance, score=hit.score, notes=notes)


def hide_projects(
    view: View,
    query: Query,
    lines: Sequence[Line],
) -> list[Line]:
    """Return the lines; without their projects' names if the query names a workspace, or the store has one alone."""
    if not query.places and len(view.workspaces) > 1:
        return list(lines)
    return [replace(line, source=replace(line.source, project=None)) for line in lines]


def find_tried_lines(view: View, query: Query) -> list[Line]:
    """Return the dead ends that a question names, as lines that stand before the memories."""
    found = find_touched(view, query, TRIED)
    return [make_tried_line(one, message) for one, message in found]


def find_intended_lines(view: View, query: Query) -> list[Line]:
    """Return the intentions of a project that wait for what the question names, or that are open and that it is about,
    as lines that stand before the memories.
    """
    if not query.places or (
        query.since or query.until or query.as_of or query.speaker or query.tag
    ):
        return []
    today = datetime.now().astimezone().date()
    found = [
        one
        for one in list_intentions(view, query.places)
        if one.is_about(query.text, today) and one.session not in query.own_sessions
    ]
    return [
        replace(
            make_line(
                f"Intended: {one.told}{one.when}",
                LineSource(one.session, at=one.said_at, by="person"),
            ),
            rule="intention",
        )
        for one in found[:INTENDED]
    ]


def make_tried_line(tried: Tried, message: str) -> Line:
    """Return a dead end as a line that stands before the memories; `message` is its message's own id."""
    source = LineSource(tried.session, message, at=tried.at)
    after = f"; done instead: {tried.instead}" if tried.instead else ""
    how = "refused" if tried.by_person else "failed"
    text = f"Tried: {tried.name}; {how}: {tried.error}{after}"
    return replace(make_line(text, source), rule="dead end")


def rank_claims(view: View, hits: Sequence[Hit]) -> list[Line]:
    """Return the active claims that a model put in its own words, the likeliest first.

    A claim in its message's own words is left out, since the message says it.
    """
    claims = view.read_by_id(CLAIMS, [hit.id for hit in hits], ["message_ids"])
    first = {
        key: row["message_ids"][0] for key, row in claims.items() if row["message_ids"]
    }
    rows = view.read_by_id(MESSAGES, list(first.values()), [*SHOWN, "text"])
    lines = []
    for rank, hit in enumerate(hits):
        row = rows.get(first.get(hit.id, ""))
        if (
            hit.superseded_by is None
            and row is not None
            and not has_words(str(row["text"]), hit.text)
        ):
            source = replace(make_source(view, row), speaker=None, by=None)
            lines.append(
                make_line(hit.text, source, 1 / (1 + rank), notes=_note_hit(hit, ""))
            )
    return lines


def rank_topics(hits: Hits, query: Query) -> list[Line]:
    """Return a model's summaries of topics that contain every word of the query. The messages cover other topics."""
    return [
        make_line(hit.text, LineSource(at=hit.observed_at, topic=hit.topic or ""))
        for hit in hits
        if query.stems and query.stems <= singular_words(f"{hit.topic} {hit.text}")
    ]


def put_narration_last(view: View, hits: Hits) -> Hits:
    """Return the messages with those that call a tool ("Let me read the log first.") after all others.

    If there are only such messages, the answer is empty.
    """
    rows = view.read_by_id(MESSAGES, [hit.id for hit in hits], ["blocks"])
    kinds = {
        key: [block["type"] for block in row["blocks"]] for key, row in rows.items()
    }
    calling = {key for key, kinds_of in kinds.items() if "tool_call" in kinds_of}
    ordered = sorted(hits, key=lambda hit: hit.id in calling)
    if not ordered or ordered[0].id in calling:
        reason = hits.reason or "what was found was said beside calls of tools"
        return hits.keep((), reason, hits.relevance)
    return hits.keep(ordered, None, hits.relevance)


def read_replies(
    view: View,
    query: Query,
    ids: Sequence[str],
) -> dict[str, PassageRow]:
    """Return the reply to each message: the next passage of its session, if another speaker says it and the query's
    filters allow it. A reply is a row with its message's id and its text.
    """
    if not ids:
        return {}
    layout = view.passages
    keys = view.read_keys(MESSAGES)
    last = _find_answered_passages(view, query, ids)
    question_ids = keys.take(pa.array(layout.message[last])).to_pylist()
    passages: list[PassageRow] = view.take(
        PASSAGES, layout.offsets[last + 1], ["message_id", "text"]
    ).to_pylist()
    return dict(zip(question_ids, passages, strict=True))


def _find_answered_passages(
    view: View,
    query: Query,
    ids: Sequence[str],
) -> NDArray[np.intp]:
    """Return the place of each message's last passage, if the next passage is a reply to it."""
    layout = view.passages
    at = view.find_positions(ids)
    at = at[at + 1 < len(layout.message)]
    last = at[layout.message[at] != layout.message[at + 1]]
    by_another = (layout.role[last + 1] != layout.role[last]) | (
        layout.speaker[last + 1] != layout.speaker[last]
    )
    same = layout.session[last + 1] == layout.session[last]
    answered: NDArray[np.intp] = last[
        by_another & same & mask_allowed_passages(view, query)[last + 1]
    ]
    return answered


def _flatten(text: str) -> str:
    """Return a text as one line."""
    return " ".join(text.split())


def make_source(view: View, row: MessageRow) -> LineSource:
    """Return the source of a message (the columns `SHOWN`)."""
    session = view.native_sessions.get(row["session_id"]) or str(row["session_id"])
    return LineSource(
        session=session,
        message=row["native_id"],
        seq=row["seq"],
        at=localise(row["ts"], row["utc_offset"]),
        speaker=row["speaker"],
        by="person" if row["role"] == Role.USER else "model",
        trust=view.foreign_messages.get(row["message_id"]),
        project=view.name_project(row["workspace"]),
        short=view.session_tags.get(session),
    )


def _note_hit(hit: Hit, known: str) -> list[LaterNote]:
    """Return a note of the claim that changed a hit, or else of what the code lost."""
    if hit.successor:
        likely = PERHAPS_CHANGED if hit.superseded_by is None else 1.0
        text = format_later(hit.successor, likely, known)
        return [LaterNote(text, hit.claim or "")]
    return [LaterNote(check.note) for check in hit.not_in_code[:1]]


def _note_reply(hit: Hit) -> list[LaterNote]:
    """Return a note of the user's reply to the assistant's message of a hit's turn."""
    reply = hit.shorten(QUOTE_CHARS).get_reply()
    return [LaterNote(f"{REPLY}{THEN}{_flatten(reply)})")] if reply else []
