"""Write gists, summaries and titles by a language model: build requests and read answers; measure the summaries.

A member that is longer than its share of the prompt is first condensed extractively, so that no prompt exceeds the
model's window and every member is represented. Summaries are one batch a tier over all topics and sessions.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
from pydantic import Field

from slowwave.engines.llm.protocol import NON_EMPTY, AnswerModel, Completion, Request
from slowwave.schemas.counters import Count, CountByKind
from slowwave.schemas.rows import MessageRow, SummaryRow
from slowwave.schemas.settings import ExtractSettings
from slowwave.schemas.tables import CLAIMS, MESSAGES, PASSAGES, SUMMARIES, Table
from slowwave.schemas.vocabulary import SummaryScope
from slowwave.store.store import Store
from slowwave.tasks.gists.gists import KEYWORDS, Gist
from slowwave.tasks.job import Job, StepReport
from slowwave.tasks.llm.ask import Model, Unusable
from slowwave.tasks.llm.chunks import Counter, split_text
from slowwave.tasks.llm.fence import LEFT_OUT, has_injection, mask_injections
from slowwave.tasks.llm.library import (
    TEMPLATE_TOKENS,
    Library,
    RejectedAnswer,
    limit_answer,
)
from slowwave.tasks.summarize.coherence import (
    Coherence,
    MeasuredMember,
    measure_coherence,
)
from slowwave.text.fence import format_entry
from slowwave.text.pyramid import MASTER, Draft, Member, summarize_draft
from slowwave.text.summarise import Utterance, build_extractive_summary

MEASURED = [
    "summary_id",
    "scope",
    "scope_id",
    "tier",
    "seq",
    "text",
    "member_ids",
    "vector",
]
"""Columns of SUMMARIES that are needed to measure coherence."""
VERSION = 3
GIST_PROMPTS = ("gist",)
SUMMARY_PROMPTS = ("narrate_topic", "narrate_session", "master")
GIST_TOKENS = 160
TOKENS_A_WORD = 2.5
"""Most tokens a word of an answer in JSON, in languages with words."""
WORDS_A_TOKEN = 0.6
"""Words of an extractive summary for each token of its room."""
CHARACTERS_A_WORD = 10
"""Most characters a word, with the space. Constrained decoding so ends a summary before its tokens run out."""
SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)\]]*(?=\s|$)|[。！？]")
BEFORE_CHARS = 200
"""Characters of a message that is shown as context only."""


class GistAnswer(AnswerModel):
    """A gist as the model answers it."""

    summary: str = Field(max_length=400, json_schema_extra=NON_EMPTY)
    keywords: list[Annotated[str, Field(max_length=60)]] = Field(max_length=KEYWORDS)


class SummaryAnswer(AnswerModel):
    """A summary as the model answers it."""

    text: str = Field(json_schema_extra=NON_EMPTY)


class MasterAnswer(AnswerModel):
    """The summary of a whole session as the model answers it."""

    title: str = Field(max_length=100, json_schema_extra=NON_EMPTY)
    text: str = Field(json_schema_extra=NON_EMPTY)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """Name and purpose of a topic, for the prompts of its summaries."""

    name: str
    purpose: str


@dataclass(frozen=True, slots=True)
class ParsedSummary:
    """The summary in an answer."""

    text: str
    title: str | None = None


def build_gist_requests(
    rows: Sequence[MessageRow],
    library: Library,
    count: Counter,
    window: int,
) -> list[Request]:
    """Return the requests for gists of messages (columns message_id and text)."""
    room = library.count_room(
        prompt="gist", window=window, count=count, tokens=GIST_TOKENS
    )
    texts = [mask_injections(row["text"]) for row in rows]
    shown = [
        _fit_texts([t], room, count)[0] if n > room // 2 else t
        for t, n in zip(texts, count(texts), strict=True)
    ]
    return [
        library.build_request(
            prompt="gist",
            name=f"{row['message_id']}/gist",
            entries=[format_entry("message:", text)],
            answer=GistAnswer,
            tokens=GIST_TOKENS,
        )
        for row, text in zip(rows, shown, strict=True)
    ]


def needs_gist(row: MessageRow, extract: ExtractSettings) -> bool:
    """Return True if a message is long enough for a model to write its gist."""
    return len(row["text"].split()) >= extract.gist_words


def parse_gist(completion: Completion) -> Gist | None:
    """Return the gist in an answer, or None if it is empty or contains an injection."""
    answer: GistAnswer = completion.value
    summary = " ".join(answer.summary.split())
    if not summary or has_injection(summary):
        return None
    keywords = tuple(
        dict.fromkeys(
            k
            for w in answer.keywords
            if (k := " ".join(w.split())) and not has_injection(k)
        )
    )
    return Gist(summary, keywords[:KEYWORDS], strategy="llm")


def build_summary_request(
    draft: Draft,
    about: TopicInfo | None,
    max_words: int,
    library: Library,
    count: Counter,
    window: int,
) -> Request:
    """Return the request for a draft's summary; `about` is the topic's info, or None for a session."""
    titled = draft.tier == MASTER and about is None
    form = build_summary_answer(max_words, titled=titled)
    values: dict[str, object] = {"max_words": max_words}
    if about:
        values |= {"topic": about.name, "purpose": about.purpose}
    prompt = _choose_prompt(about, titled=titled)
    answer = int(max_words * TOKENS_A_WORD) + (60 if titled else 20)
    room = library.count_room(
        prompt=prompt,
        window=window,
        count=count,
        tokens=answer - TEMPLATE_TOKENS,
        **values,
    )
    labels = [_format_label(m, "before ") for m in draft.context] + [
        _format_label(m, "") for m in draft.members
    ]
    frame = sum(count(labels)) + 2 * len(labels) if labels else 0
    shown = [m.text[:BEFORE_CHARS] for m in draft.context] + [
        m.text for m in draft.members
    ]
    texts = _fit_texts([mask_injections(text) for text in shown], room - frame, count)
    lines = [
        format_entry(label, text) for label, text in zip(labels, texts, strict=True)
    ]
    return library.build_request(
        prompt=prompt,
        name=format_summary_id(draft),
        entries=lines,
        answer=form,
        tokens=answer,
        **values,
    )


def _choose_prompt(about: TopicInfo | None, *, titled: bool) -> str:
    if titled:
        return "master"
    return "narrate_topic" if about else "narrate_session"


def build_summary_answer(max_words: int, *, titled: bool) -> type[AnswerModel]:
    """Return the answer's form for a summary of at most `max_words`, with a title if `titled`."""
    return limit_answer(
        MasterAnswer if titled else SummaryAnswer, text=CHARACTERS_A_WORD * max_words
    )


def is_single_message(draft: Draft) -> bool:
    """Return True if a draft is the master of a session of one message, for which no model is needed."""
    alone = (
        draft.scope == SummaryScope.SESSION
        and draft.tier == MASTER
        and len(draft.members) == 1
    )
    return alone and draft.members[0].speaker is not None  # a summary has no speaker


def format_summary_id(draft: Draft) -> str:
    """Return the id of a draft's request: `<topic or session>/<tier>/<seq>`."""
    return f"{draft.scope_id}/{draft.tier}/{draft.seq}"


def parse_summary(completion: Completion, max_words: int) -> ParsedSummary | None:
    """Return the summary in an answer, shortened if far too long; None if it is empty or contains an injection."""
    answer: SummaryAnswer | MasterAnswer = completion.value
    text = " ".join(answer.text.split())
    if len(answer.text) >= CHARACTERS_A_WORD * max_words:
        # Cut an unfinished text after its last whole sentence, or end it in … if that would lose half.
        ends = [
            end.end() for end in SENTENCE_END.finditer(text) if end.end() < len(text)
        ]
        text = (
            text[: ends[-1]]
            if ends and 2 * ends[-1] >= len(text)
            else f"{text.rstrip('.…')}…"
        )
    if not text or has_injection(text) or LEFT_OUT in text:
        return None
    title = (
        " ".join(answer.title.split()).strip("\"'“”. ")
        if isinstance(answer, MasterAnswer)
        else ""
    )
    return ParsedSummary(text, None if not title or has_injection(title) else title)


def _format_label(member: Member, before: str) -> str:
    when = f"{member.at:%Y-%m-%d}" if member.at else ""
    who = " ".join((member.speaker or "").split())[:60]
    return f"- {before}{', '.join(part for part in (when, who) if part)}:"


def _fit_texts(texts: Sequence[str], room: int, count: Counter) -> list[str]:
    """Return the texts; if together they exceed the room, condense those longer than an even share."""
    room = max(room - TEMPLATE_TOKENS, 8 * len(texts))
    tokens = [
        n + 2 * text.count("\n")
        for n, text in zip(count(list(texts)), texts, strict=True)
    ]
    if sum(tokens) <= room:
        return list(texts)
    share = room // len(texts)
    return [
        text if n <= share else _condense_text(text, share, count)
        for text, n in zip(texts, tokens, strict=True)
    ]


def _condense_text(text: str, tokens: int, count: Counter) -> str:
    """Return a text's central sentences within a number of tokens, or its beginning if these do not fit."""
    short = build_extractive_summary(
        [Utterance(text[:40_000])], max(5, int(tokens * WORDS_A_TOKEN))
    )
    return next(iter(split_text(short, tokens, count)), "")


class SummaryWriter:
    """Writes the summaries of drafts by a model; collects titles and rejected answers for the caller to store."""

    def __init__(
        self,
        job: Job,
        model: Model,
        report: StepReport,
        topics: Mapping[str, TopicInfo],
    ) -> None:
        self.model = model
        self.report = report
        self.topics = topics
        self.get_words = job.settings.pyramid.get_words
        self.titles: dict[str, str] = {}
        """Session -> the title of its master summary."""
        self.written: set[str] = set()
        """Ids of the requests that were answered with a summary."""
        self.rejected: list[RejectedAnswer] = []

    def write(self, drafts: list[Draft]) -> list[str | None]:
        """Return a text for each draft: the model's, None if it waits, or members' sentences if it failed for good."""
        by_name = {format_summary_id(draft): draft for draft in drafts}
        long = {
            name: draft
            for name, draft in by_name.items()
            if not is_single_message(draft)
        }
        answers = self.model.ask(
            step="summaries",
            items=long,
            build=self._build_requests,
            read=self._read_summary,
        )
        self.rejected += answers.rejected
        self.written |= answers.values.keys()
        self.report.kinds[CountByKind.WAITING]["summaries"] += len(answers.waiting)
        self.report.counts[Count.SUMMARIES_BY_MODEL] += len(answers.values)
        for name, summary in answers.values.items():
            if by_name[name].tier == MASTER and summary.title:
                self.titles[by_name[name].scope_id] = summary.title
        return [
            answers.values[name].text
            if name in answers.values
            else self._write_without_model(draft, name in answers.waiting)
            for name, draft in by_name.items()
        ]

    def _build_requests(self, drafts: Sequence[Draft]) -> list[Request]:
        return [
            build_summary_request(
                draft=d,
                about=self._get_topic_info(d),
                max_words=self.get_words(d.tier),
                library=self.model.library,
                count=self.model.count,
                window=self.model.llm.context_window,
            )
            for d in drafts
        ]

    def _read_summary(self, draft: Draft, completion: Completion) -> ParsedSummary:
        summary = parse_summary(completion, self.get_words(draft.tier))
        if summary is None:
            raise Unusable("the answer is not a summary")
        return summary

    def _get_topic_info(self, draft: Draft) -> TopicInfo | None:
        if draft.scope != SummaryScope.TOPIC:
            return None
        return self.topics.get(draft.scope_id) or TopicInfo(
            "unnamed", "what its entries have in common"
        )

    def _write_without_model(self, draft: Draft, waits: bool) -> str | None:
        """Return None if the model is asked again, else the members' own sentences, which the groups above need."""
        if waits:
            return None
        self.report.counts[Count.SUMMARIES_WITHOUT_MODEL] += 1
        return summarize_draft(draft, self.get_words(draft.tier))


def measure_summaries(
    store: Store, rows: Sequence[SummaryRow], window: int
) -> list[Coherence]:
    """Return the measures of some rows of SUMMARIES against their stored members.

    For a session, the `window` messages before a group's first message count as read along with it.
    """
    member_ids = {m for row in rows for m in row["member_ids"]}
    of_topics = [
        m
        for row in rows
        if row["scope"] == SummaryScope.TOPIC
        for m in row["member_ids"]
    ]
    sessions = {row["scope_id"] for row in rows if row["scope"] == SummaryScope.SESSION}
    summaries = _read_members(
        store=store,
        table=SUMMARIES,
        ids=[m for row in rows for m in row["member_ids"]],
        text="text",
        at="first_at",
    )
    claims = _read_members(
        store=store,
        table=CLAIMS,
        ids=of_topics,
        text="summary",
        at="observed_at",
        speaker="speaker",
    )
    messages = _read_messages(store, sessions)
    spoken = _build_message_members(
        messages, _read_message_vectors(store, sessions, member_ids)
    )
    earlier = _join_earlier_messages(messages, window)
    before = {
        row["summary_id"]: earlier.get(row["member_ids"][0], "")
        for row in rows
        if row["member_ids"]
    }
    return measure_coherence(rows, summaries | claims | spoken, before)


def _read_messages(store: Store, sessions: Iterable[str]) -> list[MessageRow]:
    """Return the messages of some sessions that have a text, in order."""
    columns = ["message_id", "session_id", "text", "speaker", "ts", "seq"]
    messages = (
        store.read_ids(table=MESSAGES, ids=sessions, columns=columns, by="session_id")
        .sort_by("seq")
        .to_pylist()
    )
    return [row for row in messages if row["text"]]


def _read_message_vectors(
    store: Store, sessions: Iterable[str], message_ids: Set[str]
) -> dict[str, list[Sequence[float]]]:
    """Return by message the vectors of its passages."""
    vectors = defaultdict[str, list[Sequence[float]]](list)
    for part in store.read_ids(
        table=PASSAGES, ids=sessions, columns=["message_id", "vector"], by="session_id"
    ).to_pylist():
        if part["message_id"] in message_ids and part["vector"] is not None:
            vectors[part["message_id"]].append(part["vector"])
    return vectors


def _build_message_members(
    messages: Iterable[MessageRow], vectors: Mapping[str, list[Sequence[float]]]
) -> dict[str, MeasuredMember]:
    """Return messages as members, each with the mean vector of its passages."""
    members: dict[str, MeasuredMember] = {}
    for row in messages:
        own = vectors.get(row["message_id"])
        vector = (
            None
            if own is None
            else np.asarray(own, dtype=np.float64).mean(axis=0).astype(np.float32)
        )
        members[row["message_id"]] = MeasuredMember(
            text=row["text"], speaker=row["speaker"], at=row["ts"], vector=vector
        )
    return members


def _join_earlier_messages(
    messages: Iterable[MessageRow], window: int
) -> dict[str, str]:
    """Return by message the text of the `window` messages before it in its session."""
    talk: defaultdict[str, list[str]] = defaultdict(list)
    earlier: dict[str, str] = {}
    for row in messages:
        before = talk[row["session_id"]]
        earlier[row["message_id"]] = "\n".join(before[-window:]) if window else ""
        before.append(f"{row['speaker'] or ''}: {row['text']}")
    return earlier


def _read_members(
    store: Store,
    table: Table,
    ids: Iterable[str],
    text: str,
    at: str,
    speaker: str | None = None,
) -> dict[str, MeasuredMember]:
    columns = [table.key, text, at, "vector", *([speaker] if speaker else [])]
    rows: pa.Table = store.read_ids(table, ids, columns)
    return {
        row[table.key]: MeasuredMember(
            text=row[text],
            speaker=row[speaker] if speaker else None,
            at=row[at],
            vector=row["vector"],
        )
        for row in rows.to_pylist()
    }
