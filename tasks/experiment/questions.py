"""What an experiment asks and how good an answer is: questions, splits, labelled sets, scores."""

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import nan
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl
import pyarrow as pa

from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.text.words import extract_content_words

Kind = Literal["labelled", "asked", "retold", "corrected"]
"""Of one's own past: what was asked, told again, corrected."""
SPLITS = ("train", "validation", "test")
LONG_AGO = datetime.min.replace(tzinfo=UTC)
QUERY, EXPECT = ("question", "query", "report"), ("expect", "amended", "answer")
"""Fields of labelled sets: the question, and the words of a right answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of one unit, and what a memory would have to show."""

    text: str
    group: str = ""
    """The conversation, workspace or day: what a split by group keeps together."""
    at: datetime | None = None
    kind: Kind = "labelled"
    evidence: tuple[str, ...] = ()
    """Messages that answer it, as `name_message` has them; one of them is enough."""
    expect: str = ""
    """Words that stand in a right answer, one after the other."""
    words: str = ""
    """A decision that an answer tells; its words of content count."""
    stale: tuple[str, ...] = ()
    """Messages, or words, that no longer hold when it is asked."""
    cluster: str = ""
    """What is drawn as one for intervals: the session that it is about, or that it was asked in."""

    @property
    def id(self) -> str:
        """Hash of all that it is."""
        return compute_content_id(*(str(getattr(self, name)) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Unit:
    """Questions that are put to one memory, and what that has been told (rows of MESSAGES and SESSIONS)."""

    name: str
    questions: tuple[Question, ...]
    messages: pa.Table
    sessions: pa.Table
    """As their transcripts tell of them."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Our session id -> the transcript's own, where they differ."""

    @property
    def digest(self) -> str:
        """Hash of what is told and asked."""
        hashes = sorted(self.messages.column("hash").to_pylist())
        return compute_content_id(self.name, *hashes, *(question.id for question in self.questions))


def name_message(session: str, message: str) -> str:
    """Return how a message is named here, by the transcript's own ids."""
    return f"{session} {message}"


def split_questions(
    questions: Sequence[Question], how: Literal["time", "group"], shares: Sequence[float]
) -> dict[str, list[Question]]:
    """Return the questions of train, validation and test.

    By time the earlier ones train; what was asked at one moment stays together. By group whole groups go one way, each
    to the split that is furthest below its share, the larger groups first.

    Raises:
        UsageError: there are too few for three splits.
    """
    parts: dict[str, list[Question]] = {name: [] for name in SPLITS}
    # questions that must stay in one split
    together: dict[Any, list[Question]] = defaultdict(list)
    for question in questions:
        together[question.group if how == "group" else question.at or LONG_AGO].append(question)
    # deal them out: by group the largest first, else in time
    for key in sorted(together, key=lambda key: (-len(together[key]) if how == "group" else 0, str(key))):
        done = sum(map(len, parts.values())) / len(questions) + 1e-9
        least = min(zip(SPLITS, shares, strict=True), key=lambda question: len(parts[question[0]]) / question[1])[0]
        next_in_time = SPLITS[0 if done < shares[0] else 1 if done < shares[0] + shares[1] else 2]
        parts[least if how == "group" else next_in_time] += together[key]
    if empty := [name for name in SPLITS if not parts[name]]:
        counts = f"{len(questions)} questions in {len({question.group for question in questions})} groups"
        raise UsageError(
            f"{counts} leave {empty[0]} empty when split by {how}: ask more, or split otherwise; a backtest "
            "finds more with a longer `horizon` or a lower `near`"
        )
    return parts


def read_labelled(paths: Iterable[Path], messages: pl.DataFrame) -> list[Question]:
    """Return the questions of labelled files: TOML, a JSON list, or lines of JSON, also between a transcript's own.

    A row asks (`question`, `query` or `report`) and says what is right: `expect`, `amended` or `answer` (words that
    stand there), `decision` (words of content that count), or `gold` (ids of messages); and what is `stale`.

    Args:
        paths: the files.
        messages: all that is told; columns session (the transcript's own id), native_id, ts, workspace.

    Raises:
        UsageError: nothing is asked there, or nothing of a question says what is right.
    """
    messages_by_id = {row["native_id"]: row for row in messages.iter_rows(named=True)}
    last = {row["session"]: row for row in messages.sort("ts").iter_rows(named=True)}
    rows = [(path, row) for path in paths for row in _read_rows(path) if any(row.get(name) for name in QUERY)]
    if not rows:
        raise UsageError("nothing is asked there: a question has `question`, `query` or `report`")
    return [_build_question(path, row, messages_by_id, last) for path, row in rows]


def _read_rows(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            return [row for rows in tomllib.loads(text).values() if isinstance(rows, list) for row in rows]
        rows = (
            json.loads(text)
            if path.suffix == ".json"
            else [json.loads(line) for line in text.splitlines() if line.strip()]
        )
    except ValueError as error:
        raise UsageError(f"{path} can't be read: {error}") from None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _build_question(
    path: Path, row: Mapping[str, Any], messages: Mapping[str, Mapping[str, Any]], last: Mapping[str, Mapping[str, Any]]
) -> Question:
    text = next(str(row[name]) for name in QUERY if row.get(name))
    gold = [messages[key] for key in row.get("gold", ()) if key in messages]
    session = str(row.get("session") or row.get("session_id") or (gold[-1]["session"] if gold else ""))
    about = messages.get(str(row.get("message_id"))) or last.get(session) or (gold[-1] if gold else {})
    expect = next((str(row[name]) for name in EXPECT if row.get(name)), "") if not gold else ""
    evidence = tuple(name_message(key["session"], key["native_id"]) for key in gold)
    if not (evidence or expect or row.get("decision")):
        raise UsageError(f"{path}: nothing says what answers {text!r:.80}")
    stale = row.get("stale") or ()
    return Question(
        text,
        str(row.get("workspace") or about.get("workspace") or session),
        about.get("ts"),
        evidence=evidence,
        expect=expect,
        words=str(row.get("decision") or ""),
        stale=(stale,) if isinstance(stale, str) else tuple(map(str, stale)),
        cluster=session,
    )


class Item(NamedTuple):
    """A part of an answer: its text, the messages it stands on, and whether it is marked as changed since."""

    text: str
    messages: tuple[str, ...]
    marked: bool = False


class Score(NamedTuple):
    """Figures of one answer; NaN where the question has no such figure."""

    evidence: float
    """1 where something that answers it is shown; of words of content their share."""
    saved: float
    """Share of what was told again that memory would have shown first."""
    stale: float
    """1 where the answer shows what no longer holds, unmarked."""
    tokens: float
    """Of the answer."""


def score_answer(question: Question, items: Sequence[Item], tokens: int) -> Score:
    """Return the figures of an answer."""
    texts = [_normalise(item.text) for item in items]
    evidence = _find_evidence(question, items, texts)
    expected = _normalise(question.expect)
    stale = any(  # a message that says what holds may name what it replaces
        not item.marked
        and not (expected and expected in text)
        and any(old in item.messages or _normalise(old) in text for old in question.stale)
        for item, text in zip(items, texts, strict=True)
    )
    retold = question.kind == "retold"
    return Score(
        evidence=nan if retold else evidence,
        saved=evidence if retold else nan,
        stale=float(stale) if question.stale else nan,
        tokens=float(tokens),
    )


def _find_evidence(question: Question, items: Sequence[Item], texts: list[str]) -> float:
    if question.evidence:
        shown = {message for item in items for message in item.messages}
        return float(not shown.isdisjoint(question.evidence))
    if question.expect:
        return float(any(_normalise(question.expect) in text for text in texts))
    words = set(extract_content_words(question.words))
    return len(words & {word for text in texts for word in extract_content_words(text)}) / max(1, len(words))


def _normalise(text: str) -> str:
    return " ".join(text.split()).casefold()
