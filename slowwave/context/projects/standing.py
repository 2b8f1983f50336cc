"""The standing claims about a project or a person: those that may be in a text that every session loads.

A claim stands if all of these hold: it is active and no later claim doubts it; it
does not take another claim back; a person typed it, or two sessions state
it; its confidence is high enough; none of its gates is False; and it is short enough for a statement, since a longer
one is a log or a report that somebody pasted. A person typed it if its trust is `typed`, or that of one of its
duplicates, whose words then stand for it. Where the trust is not known, the message that it quotes decides. Other cited
messages do not count: a yes cites the proposal too. What others than the person and the own agent said does not stand:
tools' output, web pages, pasted texts, sub-agents, other memories.
"""

import re
from collections import defaultdict
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise, zip_longest
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.context.rendering import LineSource, Speaker, ToldPart, add_ids
from slowwave.recall.release.view import (
    View,
    is_changed,
    is_perhaps_changed,
    is_superseded,
)
from slowwave.schemas.rows import ClaimRow, MessageRow
from slowwave.schemas.tables import CHAIN, CLAIMS, GATES, MESSAGES, TRUST
from slowwave.schemas.vocabulary import (
    EXTRACTIVE,
    LONGEST,
    TALKING,
    Origin,
    Status,
    Trust,
    is_foreign,
)
from slowwave.store.notes import PREFIX, cut_subject
from slowwave.text.fence import escape_line
from slowwave.text.foreign import find_foreign_parts
from slowwave.text.times.days import localise
from slowwave.text.words import SENTENCE_ENDS, extract_content_words, singularise

SURE = 0.7
SURE_BORNE_OUT = 0.5
"""Least confidence of a standing claim in an automatic block, and of one that `BORNE_OUT` sessions said."""
STANDING = ("decision", "convention", "gotcha", "pattern")
"""Categories of a project's conventions."""
SETTLED = (*STANDING, "preference", "fact", "context", "")
"""Categories of what holds in a project: also what is preferred, what is so, and what has no heading of its own."""
UNHEADED = ("context", "")
"""Categories without a heading of their own."""
BORNE_OUT = 2
"""Number of sessions that count as much as a person's word."""
FEWEST_WORDS = 3
"""Content words of a quote that says something by itself, at least."""
PARTIES = frozenset((*TALKING, "you", "your", "yours", "yourself"))
"""Names of the roles in a conversation, and words for the reader. Only who certainly typed them may use them: text from
elsewhere that has them may be meant for a model."""
CHAINS = ("|", "&", "$(", "<(")
"""Operators by which a shell chains commands."""
Item = TypeVar("Item")
Span = tuple[int, int]
"""Where words begin and end in a text."""
EARLIEST = datetime.min.replace(tzinfo=UTC)
COLUMNS = [
    "claim_id",
    "session_id",
    "workspace",
    "summary",
    "detail",
    "quote",
    "category",
    "message_ids",
    "speaker",
    "observed_at",
    "utc_offset",
    "evidence_sessions",
    "topic_id",
    "observer",
    TRUST,
    *CHAIN,
]
SAID = [
    "message_id",
    "session_id",
    "native_id",
    "seq",
    "origin",
    "text",
]


@dataclass(frozen=True, slots=True)
class StandingClaim:
    """A standing claim with its source."""

    id: str
    text: str
    """One line."""
    category: str
    workspace: str | None
    topic: str | None
    """The topic's id."""
    confidence: float
    """The confidence that `slowwave claims` shows."""
    sessions: int
    """Number of sessions that state it."""
    by_person: bool
    """Whether a person said it."""
    standing: str
    """The reason why it is a rule: "3 sessions", or "noted" if a person noted or confirmed it. Else empty."""
    may_instruct: bool
    """Whether agents may obey it: a person said it, and it is a rule, addresses nobody, or is certainly typed."""
    observer: str
    source: LineSource
    code_note: str = ""
    """What it names and the code does not have any more, in brackets; empty if it holds."""
    parts: tuple[ToldPart, ...] = ()
    """What each claim says of the text, in its order, if it joins several."""
    answers: str = ""
    """The question or proposal that it answers, if its text does not have that."""

    @property
    def dated_text(self) -> str:
        """The text as files show it: with its date beside "yesterday" and the like, and with its claims."""
        return add_ids(self.text, self.parts, self.source.said_at)


def add_question(
    text: str,
    question: str,
) -> str:
    """Return an answer with its question in brackets, marked as another's words, if both together are short.

    "later, when the antenna is here" alone does not say what, and "fine, in cents then" not what was proposed.
    """
    answer = text.rstrip(".!")
    is_short = len(f"{answer} ({question})") <= LONGEST
    return f"{answer} (to “{question}”)" if question and is_short else text


def collect_standing_claims(
    view: View,
    places: Collection[str] = (),
    categories: Collection[str] = (),
    min_confidence: float | None = None,
    among: Collection[str] = (),
    *,
    perhaps_changed: bool = False,
) -> list[StandingClaim]:
    """Return the standing claims, by the number of sessions, then by confidence, then by time, each the highest first.
    Of claims with equal texts, the first is kept.

    Args:
        view: the release.
        places: names of the workspaces in which a claim was said; empty for all.
        categories: the wanted categories; empty for all.
        min_confidence: least confidence of a claim; by default `SURE`, or `SURE_BORNE_OUT` if several sessions said
            it.
        among: ids of the claims to consider; empty for all.
        perhaps_changed: whether to include claims that a later claim perhaps changed.
    """
    condition = _build_condition(
        {"workspace": places, "category": categories, "claim_id": among}
    )
    rows = view.read_rows(CLAIMS, COLUMNS, condition)
    confidences = view.look_up_confidences([row["claim_id"] for row in rows])
    borne_out = _bear_out_later(rows, confidences)
    rows = [
        row
        for row in rows
        if borne_out[row["claim_id"]] >= _find_least(view, row, min_confidence)
        and len(row["summary"]) <= LONGEST
        and (perhaps_changed or not is_perhaps_changed(row))
        and not _takes_back(view, row)
    ]
    statements = _find_own_statements(view, rows)
    quoted = {
        row["message_ids"][0]
        for own in statements.values()
        for row in own
        if row["message_ids"]
    }
    messages = view.read_by_id(MESSAGES, sorted(quoted), SAID)
    standing = []
    for row in rows:
        claim = _make_claim(
            view=view,
            row=row,
            confidence=confidences[row["claim_id"]],
            statements=_find_statements(view, statements[row["claim_id"]], messages),
        )
        if claim:
            standing.append(_note_code(view, claim))
    first: dict[str, StandingClaim] = {}
    for claim in sorted(standing, key=_rank):
        first.setdefault(claim.text.casefold(), claim)
    return list(first.values())


def _takes_back(view: View, row: ClaimRow) -> bool:
    """Return True if a claim takes another one back and has no heading: by its kind another says what holds."""
    return row["claim_id"] in view.chains.retractions and row["category"] in UNHEADED


def _bear_out_later(
    rows: Sequence[ClaimRow], confidences: Mapping[str, float]
) -> dict[str, float]:
    """Return the confidence at which each claim is shown: a claim that perhaps changed others also counts theirs.

    Whether it changed them or repeats them in other words, what it says of the matter holds now. So each claim of
    another session that it perhaps changed is a witness, as sure as it was, times the probability of the change (a
    noisy-or, as of the sessions of one claim).
    """
    told = dict(confidences)
    sessions = {row["claim_id"]: row["session_id"] for row in rows}
    for row in rows:
        later = row["chain_id"]
        likely = row["chain_likely"] or 0.0
        is_typed = row["trust"] == Trust.TYPED
        if later is None or not is_typed or not is_perhaps_changed(row):
            continue
        if later not in told or sessions[later] == row["session_id"]:
            continue
        before = confidences[row["claim_id"]] / (1.0 - likely)
        told[later] = 1.0 - (1.0 - told[later]) * (1.0 - before * likely)
    return told


def _find_least(
    view: View,
    row: ClaimRow,
    min_confidence: float | None,
) -> float:
    """Return the least confidence of a claim: the one given, or else by the number of sessions that said it."""
    if min_confidence is not None:
        return min_confidence
    affirming = view.get_affirming(row["claim_id"])
    sessions = affirming.union(row["evidence_sessions"])
    return SURE_BORNE_OUT if len(sessions) >= BORNE_OUT else SURE


def _build_condition(allowed: Mapping[str, Collection[str]]) -> pc.Expression:
    """Return a filter for active claims whose gates are not False, with the allowed values in each column."""
    condition = pc.field("status") == Status.ACTIVE
    for gate in GATES:
        condition = condition & pc.if_else(
            pc.field(gate).is_valid(), pc.field(gate), True
        )
    for column, values in allowed.items():
        if values:
            condition = condition & pc.field(column).isin(sorted(values))
    return condition


def _find_own_statements(
    view: View,
    rows: Sequence[ClaimRow],
) -> dict[str, list[ClaimRow]]:
    """Return for each claim itself, then its duplicates, without those that are neither a person's nor the agent's."""
    statements = {row["claim_id"]: [row] for row in rows}
    ids = pa.array(sorted(statements), pa.string())
    duplicates = (pc.field("status") == Status.DUPLICATE) & pc.field(
        "canonical_id"
    ).isin(ids)
    for row in (
        view.read(CLAIMS, [*COLUMNS, "canonical_id"], duplicates)
        .sort_by("claim_id")
        .to_pylist()
    ):
        statements[row["canonical_id"]].append(row)
    return {
        key: [row for row in own if not is_foreign(row[TRUST], row["observer"])]
        for key, own in statements.items()
    }


@dataclass(frozen=True, slots=True)
class _Statement:
    """A claim or a duplicate of it, with the message that it quotes."""

    row: ClaimRow
    message: MessageRow
    typed: bool
    """Whether a person typed it, or confirmed an agent's note of it."""


def _find_statements(
    view: View,
    rows: Sequence[ClaimRow],
    messages: Mapping[str, MessageRow],
) -> list[_Statement]:
    """Return the statements whose message is there, those that a person typed first."""
    found = []
    for row in rows:
        message = messages.get((row["message_ids"] or [""])[0])
        if message is not None:
            typed = (
                message["origin"] == Origin.HUMAN
                if row[TRUST] is None
                else row[TRUST] == Trust.TYPED
            )
            confirmed = view.agent_notes.get(str(message["session_id"]))
            found.append(_Statement(row, message, bool(typed or confirmed)))
    return sorted(found, key=lambda statement: not statement.typed)


def _note_code(view: View, claim: StandingClaim) -> StandingClaim:
    """Return a claim with a note of what it names and the code does not have any more."""
    checks = view.code_checks.get(claim.id, ())
    return replace(claim, code_note=" ".join(check.note for check in checks))


def _rank(claim: StandingClaim) -> tuple[bool, int, float, float, str]:
    """Return a claim's key for sorting: those that hold in the code, most sessions, highest confidence and latest time
    first.
    """
    return (
        bool(claim.code_note),
        -claim.sessions,
        -claim.confidence,
        -(claim.source.at or EARLIEST).timestamp(),
        claim.id,
    )


def join_by_message(
    view: View,
    claims: Sequence[StandingClaim],
    may_join: Callable[[str], bool],
) -> list[StandingClaim]:
    """Return the claims; those of one message are one, in its order and at the place of the first.

    Less sure claims of the message that stand next to one are shown with it if they `may_join`: of "30 minutes are too
    short. slots are 45 from now on" the reason is often surer than the decision. One that a later claim may have
    changed, however unlikely, is left out. Words that the message has between two
    claims are "…". A claim stays by itself if it isn't in the message word for word, is a rule, or the code no longer
    bears it out. Joined claims have the first heading that one has. Words of the message that no longer hold are left
    out. A line of several claims says which words are whose (`StandingClaim.parts`).
    """
    rows = view.read_by_id(
        CLAIMS, [claim.id for claim in claims], ["summary", "message_ids"]
    )
    cited = {key: next(iter(row["message_ids"]), "") for key, row in rows.items()}
    texts = _read_texts(view, cited.values())
    gone = _find_gone(view, texts)
    holding = list(_cut_gone(claims=claims, rows=rows, cited=cited, gone=gone))
    groups = dict[str, list[StandingClaim]]()
    for claim in _drop_contained(holding, cited):
        message = cited[claim.id]
        by_itself = claim.standing or claim.code_note
        is_quote = not by_itself and claim.text in texts.get(message, "")
        groups.setdefault(message if is_quote else claim.id, []).append(claim)
    places = {claim.workspace for claim in claims if claim.workspace}
    beside = {
        key: {text: claim for text, claim in typed.items() if may_join(text)}
        for key, typed in _find_typed(
            view=view, places=places, texts=texts, gone=gone
        ).items()
    }
    return [
        _join_group(group, texts.get(key, ""), beside.get(key, {}))
        for key, group in groups.items()
    ]


def _join_group(
    group: Sequence[StandingClaim],
    message: str,
    beside: Mapping[str, str],
) -> StandingClaim:
    """Return claims of one message as one.

    Args:
        group: the claims.
        message: the message's text, as one line; empty if the claim stays by itself.
        beside: less sure claims that may be shown with them: their ids by their words.
    """
    quotes = {claim.text: claim.id for claim in group}
    spans = _choose_spans(message, list(quotes), list(beside))
    said = {**beside, **quotes} if spans else {}
    owners = {_locate(message, words): claim for words, claim in said.items()}
    parts = tuple(_part_spans(message, owners, spans))
    text = _join_spans(message, spans) if len(spans) > 1 else group[0].text
    for claim in group:
        before, words, after = text.partition(claim.text)
        both = f"{before}{add_question(words, claim.answers)}{after}"
        text = both if len(both) <= LONGEST else text
    return replace(
        group[0],
        text=text,
        category=find_heading(group),
        parts=parts if len({claim for _, claim in parts}) > 1 else (),
    )


def _read_texts(view: View, messages: Iterable[str]) -> dict[str, str]:
    """Return the texts of messages by id, as one line each; an empty id is left out."""
    ids = sorted(filter(None, set(messages)))
    rows = view.read_by_id(MESSAGES, ids, ["text"])
    return {key: " ".join(row["text"].split()) for key, row in rows.items()}


def _find_gone(view: View, messages: Collection[str]) -> dict[str, set[str]]:
    """Return by id of a message, of those given, its claims that a later one replaced, or perhaps did: a line each."""
    found = defaultdict[str, set[str]](set)
    for row in view.chains.claims.values():
        message = next(iter(row["message_ids"] or ()), "")
        if message in messages and (is_superseded(row) or is_perhaps_changed(row)):
            found[message].add(" ".join(str(row["summary"]).split()))
    return found


def _cut_gone(
    claims: Sequence[StandingClaim],
    rows: Mapping[str, ClaimRow],
    cited: Mapping[str, str],
    gone: Mapping[str, Collection[str]],
) -> Iterator[StandingClaim]:
    """Yield the claims, each without the words beside its own if these tell what no longer holds.

    Args:
        rows: by claim, its summary.
        cited: by claim, the id of its message.
        gone: by message, its claims that no longer hold, as one line each.
    """
    for claim in claims:
        own = " ".join(rows[claim.id]["summary"].split())
        others = (one for one in gone.get(cited[claim.id], ()) if one not in own)
        tells_gone = any(one in claim.text for one in others)
        yield replace(claim, text=own) if tells_gone else claim


def _drop_contained(
    claims: Sequence[StandingClaim], cited: Mapping[str, str]
) -> list[StandingClaim]:
    """Return the claims without those that a longer claim of the same message begins with: an answer is also shown with
    its question behind it.
    """
    longer = defaultdict[str, list[str]](list)
    for claim in claims:
        longer[cited[claim.id]].append(claim.text)
    return [
        claim
        for claim in claims
        if claim.standing
        or not any(
            text.startswith(f"{claim.text.rstrip('.!')} (")
            for text in longer[cited[claim.id]]
        )
    ]


def _find_typed(
    view: View,
    places: Collection[str],
    texts: Mapping[str, str],
    gone: Mapping[str, Collection[str]],
) -> dict[str, dict[str, str]]:
    """Return by message the active claims that a person typed in it: the ids by the words, as one line, with what
    explains them, and without, if that is too long.

    Args:
        places: workspaces of the claims; without one, none is found.
        texts: the messages' texts by id, as one line each.
        gone: by message, its claims that no longer hold. Words that have one of them are left out.
    """
    found = defaultdict[str, dict[str, str]](dict)
    columns = ["claim_id", "summary", "quote", "detail", "message_ids", TRUST, *CHAIN]
    condition = _build_condition({"workspace": places})
    rows = view.read_rows(CLAIMS, columns, condition) if places else []
    for row in rows:
        message = next(iter(row["message_ids"] or ()), "")
        summary = " ".join(row["summary"].split())
        is_typed = row[TRUST] == Trust.TYPED and not is_changed(row)
        words = (word_claim(row), summary) if is_typed else ()
        lost = gone.get(message, ())
        for said in words:
            is_there = said in texts.get(message, "")
            if is_there and not any(one in said for one in lost):
                found[message].setdefault(said, row["claim_id"])
    return found


def find_heading(claims: Sequence[StandingClaim]) -> str:
    """Return the category of the first claim that has a heading of its own, else that of the first."""
    headed = (claim.category for claim in claims if claim.category not in UNHEADED)
    return next(headed, claims[0].category)


def join_quotes(
    text: str,
    quotes: Sequence[str],
    beside: Sequence[str] = (),
) -> str:
    """Return quotes from a text as one, in its order; words that it has between two of them are "…".

    Those of `beside` that stand next to a quote, or go on where it ends, are joined to it, as long as the whole is no
    longer than LONGEST.
    """
    spans = _choose_spans(text, quotes, beside)
    return _join_spans(text, spans) if len(spans) > 1 else quotes[0]


def _choose_spans(
    text: str,
    quotes: Sequence[str],
    beside: Sequence[str],
) -> list[Span]:
    """Return the spans of a text that a line shows, in order (see `join_quotes`); none if the text is empty."""
    spans = sorted(_locate(text, quote) for quote in quotes) if text else []
    near = {_locate(text, quote) for quote in beside}
    for span in sorted(near, key=lambda span: (span[0], -span[1])):
        touching = any(_is_next(text, span, other) for other in spans)
        if touching and _measure([*spans, span]) <= LONGEST:
            spans = sorted([*spans, span])
    return spans


def _join_spans(text: str, spans: Sequence[Span]) -> str:
    """Return spans of a text, in its order, as one text."""
    joined = ""
    end = 0
    for start, stop in spans:
        if stop > end:
            between = text[end:start] if joined else ""
            joined += " … " if re.search(r"\w", between) else between
            joined += text[max(start, end) : stop]
            end = stop
    return joined


def _part_spans(
    text: str,
    owners: Mapping[Span, str],
    spans: Collection[Span],
) -> Iterator[ToldPart]:
    """Yield the parts of spans of a text, in its order, each with the claim whose words these are.

    Words that two claims share are the shorter one's: a decision is shown with its reason, which may be a claim too.

    Args:
        text: the text.
        owners: the claims by their spans.
        spans: the spans that are shown.
    """
    edges = sorted({edge for span in spans for edge in span})
    parts = list[tuple[int, int, str]]()
    for start, stop in pairwise(edges):
        covering = [(b - a, a, b) for a, b in spans if a <= start and stop <= b]
        if not covering:
            continue
        _, *span = min(covering)
        owner = owners[span[0], span[1]]
        if parts and parts[-1][1:] == (start, owner):
            start = parts.pop()[0]
        parts.append((start, stop, owner))
    for start, stop, owner in parts:
        # an id stands before the mark that ends a sentence
        words = text[start:stop].rstrip(f"{SENTENCE_ENDS} ")
        if re.search(r"\w", words):
            yield words, owner


def _locate(text: str, quote: str) -> Span:
    start = text.index(quote)
    return start, start + len(quote)


def _is_next(
    text: str,
    span: tuple[int, int],
    other: tuple[int, int],
) -> bool:
    """Return True if no word of a text stands between two spans; they may overlap."""
    first, second = sorted((span, other))
    return not re.search(r"\w", text[first[1] : second[0]])


def _measure(spans: Sequence[tuple[int, int]]) -> int:
    """Return the number of characters in spans, each once."""
    return len({at for span in spans for at in range(*span)})


def take_in_turn(groups: Iterable[Sequence[Item]]) -> Iterator[Item]:
    """Yield the items of each group in turn, so that no group displaces the others."""
    for turn in zip_longest(*groups):
        yield from (item for item in turn if item is not None)


def group_by_category(claims: Sequence[StandingClaim]) -> list[list[StandingClaim]]:
    """Return the claims of each category, in order of the categories' names."""
    categories = sorted({claim.category for claim in claims})
    return [
        [claim for claim in claims if claim.category == category]
        for category in categories
    ]


def _make_claim(
    view: View,
    row: ClaimRow,
    confidence: float,
    statements: Sequence[_Statement],
) -> StandingClaim | None:
    """Return the row as a claim, or None if neither a person typed it nor two sessions state it.

    `statements` are the claim and its duplicates, without others' words, those that a person typed first.
    """
    if not statements:
        return None
    first = statements[0]
    # Others' sessions are not evidence.
    sessions = _count_sessions(view, row, statements)
    message = first.message
    said = first.row
    text, is_plain = _word_plainly(said, message)
    session = view.native_sessions.get(said["session_id"])
    if session is None or not (first.typed or sessions >= BORNE_OUT):
        return None
    noted = (
        "noted"
        if session.startswith(PREFIX)
        and said["session_id"] not in view.unconfirmed_notes
        else ""
    )
    standing = f"{sessions} sessions" if sessions >= BORNE_OUT else noted
    kind: Speaker = "person" if first.typed else "model"
    source = LineSource(
        session=session,
        message=str(message["native_id"]),
        seq=message["seq"],
        at=localise(said["observed_at"], said["utc_offset"]),
        speaker=said["speaker"],
        by=None if said["speaker"] else kind,
        short=view.session_tags.get(session),
    )
    return StandingClaim(
        id=row["claim_id"],
        text=_mark_answered(text, said, message),
        category=row["category"],
        workspace=row["workspace"],
        topic=row["topic_id"],
        confidence=confidence,
        sessions=sessions,
        by_person=first.typed,
        standing=standing,
        may_instruct=first.typed and bool(standing or is_plain),
        observer=said["observer"],
        source=source,
        answers=_find_question(said, message),
    )


def _mark_answered(text: str, said: ClaimRow, message: MessageRow) -> str:
    """Return a claim's text; the proposal in brackets that it decides on is marked as another's words."""
    answer = " ".join((said["quote"] or "").split())
    proposal = text.removeprefix(f"{answer} (").removesuffix(")")
    is_other = proposal not in " ".join(message["text"].split())
    is_answer = said["observer"] == EXTRACTIVE and text == f"{answer} ({proposal})"
    is_correction = cut_subject(text) != text
    is_marked = is_answer and is_other and not is_correction
    return add_question(answer, proposal) if is_marked else text


def word_claim(row: ClaimRow) -> str:
    """Return a claim as one line; in the words of its message if these give the reason too, which is then its detail.

    "620 from now on" alone does not say of what.
    """
    summary = " ".join(row["summary"].split())
    quote = " ".join((row["quote"] or "").split())
    detail = " ".join((row["detail"] or "").split())
    has_both = bool(detail) and summary in quote and detail in quote
    return quote if has_both and len(quote) <= LONGEST else summary


def _find_question(
    said: ClaimRow,
    message: MessageRow,
) -> str:
    """Return the question or proposal that a claim by rules answers; empty if it answers none.

    It is the claim's detail if that does not stand in the claim's own message.
    """
    question = " ".join((said["detail"] or "").split())
    is_other = question not in " ".join(message["text"].split())
    return question if said["observer"] == EXTRACTIVE and is_other else ""


def _word_plainly(said: ClaimRow, message: MessageRow) -> tuple[str, bool]:
    """Return a claim's text, and True if agents may see it though it was said once."""
    text = word_claim(said)
    if addresses_nobody(text):
        return text, True
    own_words = find_own_words(said, message)
    is_typed = bool(own_words) or is_certainly_typed(said, message)
    return own_words or text, is_open_text(own_words or text) and is_typed


def find_own_words(said: ClaimRow, message: MessageRow) -> str:
    """Return the person's words on which a model's claim rests, if they say something by themselves; else nothing.

    A model's words may not address the reader or name a role, those that a person certainly typed may.
    """
    words = " ".join((said["quote"] or "").split())
    tells = len(extract_content_words(words)) >= FEWEST_WORDS
    is_short = len(words) <= LONGEST
    is_typed = said["observer"] != EXTRACTIVE and _is_quote_typed(said, message)
    return words if tells and is_short and is_typed else ""


def is_certainly_typed(said: ClaimRow, message: MessageRow) -> bool:
    """Return True if a person certainly typed a claim's words, so that they may address the reader or name a role.

    A model's words for what was typed may be anybody's.
    """
    return said["observer"] == EXTRACTIVE and _is_quote_typed(said, message)


def _is_quote_typed(said: ClaimRow, message: MessageRow) -> bool:
    """Return True if a person certainly typed what a claim quotes.

    What stands below a quoted or pasted part of the message may be the rest of it.
    """
    if said[TRUST] != Trust.TYPED:
        return False
    at = message["text"].find(said["quote"] or said["summary"])
    parts = find_foreign_parts(message["text"])
    return at >= 0 and all(at < start for start, _ in parts)


def _count_sessions(
    view: View,
    row: ClaimRow,
    statements: Sequence[_Statement],
) -> int:
    """Return the number of sessions that state a claim; several of one file, which its writer may name, are one."""
    evidence = {statement.row["session_id"] for statement in statements}
    if not is_foreign(row[TRUST], row["observer"]):
        evidence = set(row["evidence_sessions"]) or {row["session_id"]}
        evidence |= view.get_affirming(row["claim_id"])
    evidence -= view.unconfirmed_notes
    return len({view.session_files.get(key, key) for key in evidence})


def addresses_nobody(text: str) -> bool:
    """Return True if a text neither mentions roles or the reader, nor chains commands or hides characters."""
    words = map(singularise, re.findall(r"\w+", text.casefold()))
    return PARTIES.isdisjoint(words) and is_open_text(text)


def is_open_text(text: str) -> bool:
    """Return True if a text neither chains commands nor hides characters."""
    line = " ".join(text.split())
    return not any(mark in text for mark in CHAINS) and escape_line(line) == line
