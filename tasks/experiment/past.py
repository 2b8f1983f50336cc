"""A backtest on one's own past: what people asked, told again or corrected after a day, and the vault as of that day.

What is found rests on claims, which a night takes from what is worth remembering: "thanks" is near nothing. A later
message is about an older claim of another session where that claim's words and vector are near; it corrects it where
the night found a change, or a doubt, between the two. No word is looked for. What is told again could have been spared
where memory shows the older claim beside what the person said just before. Else the message itself is what is asked.

The store of all days tells which questions there are and what no longer held. The memory that is asked knows nothing of
it: it is made of the messages before the day alone.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.encoders.protocol import Vectors
from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.schemas.vocabulary import Status
from slowwave.tasks.experiment.questions import LONG_AGO, Kind, Question, Unit
from slowwave.text.sentences import split_sentences
from slowwave.text.words import compute_smooth_idf, extract_content_words

QUERY_CHARS = 2_000
"""Characters of a long message that are used as a query."""
EVIDENCE = 3
"""Older claims that a question may be about, the nearest."""


@dataclass(frozen=True)
class Past:
    """All that was said and made of it, in order of time."""

    turns: pl.DataFrame
    """What is spoken: message_id, session_id, name (`name_message`), person, text, ts, workspace."""
    claims: pl.DataFrame
    """observation_id, session_id, message_ids, quote, summary, status, canonical_id, superseded_by, at."""
    vectors: Vectors
    """Of the claims, in their order."""
    doubts: frozenset[tuple[str, str]]
    """Earlier and later claim of each change that the night was not sure of."""
    asking: Mapping[str, tuple[str, Vectors]]
    """The question of each message that asks one, and its vector, by message_id."""


def pick_cuts(turns: pl.DataFrame, count: int) -> list[datetime]:
    """Return days, at midnight, that part what people said into pieces of about equal size; each once."""
    times = turns.filter("person")["ts"].drop_nulls().sort()
    if not len(times):
        return []
    at = (times[len(times) * (n + 1) // (count + 1)] for n in range(count))
    days = dict.fromkeys(moment.replace(hour=0, minute=0, second=0, microsecond=0) for moment in at)
    return [day for day in days if day > times[0]]


def cut_vault(messages: pa.Table, sessions: pa.Table, cut: datetime) -> tuple[pa.Table, pa.Table]:
    """Return the rows of MESSAGES and SESSIONS that there were before a moment; a session without any is left out.

    What a session that went on took back is not known to have been taken back then.
    """
    times = pl.DataFrame(messages.select(["message_id", "session_id", "seq", "ts"])).sort("session_id", "seq")
    filled = times.with_columns(pl.col("ts").forward_fill().cum_max().over("session_id").alias("known"))
    kept = filled.filter(pl.col("known") < cut)
    before = messages.filter(pc.is_in(messages["message_id"], pa.array(kept["message_id"].to_list(), pa.string())))
    whole = set(filled.group_by("session_id").agg(pl.col("known").max()).filter(pl.col("known") < cut)["session_id"])
    rows = [
        row if row["session_id"] in whole else {**row, "inactive": []}
        for row in sessions.to_pylist()
        if row["session_id"] in set(kept["session_id"])
    ]
    return before.cast(MESSAGES.schema), pa.Table.from_pylist(rows, schema=SESSIONS.schema)


def part_unit(unit: Unit) -> tuple[Unit, pa.Table]:
    """Return a unit of the earlier half of the sessions, for a memory, and the messages of the later ones, which a talk
    is running of; a single session is all talk.
    """
    starts = pl.DataFrame(unit.messages.select(["session_id", "ts"])).group_by("session_id").min()["ts"].drop_nulls()
    cut = starts.sort()[len(starts) // 2] if len(starts) else LONG_AGO
    messages, sessions = cut_vault(unit.messages, unit.sessions, cut)
    later = pc.invert(pc.is_in(unit.messages["message_id"], messages["message_id"].combine_chunks()))
    return replace(unit, messages=messages, sessions=sessions), unit.messages.filter(later)


def find_asking(turns: pl.DataFrame) -> dict[str, str]:
    """Return what each person's message asks, by its id: its sentences that end in a question mark."""
    asking = {}
    for row in turns.filter("person").iter_rows(named=True):
        asks = " ".join(part.text.strip() for part in split_sentences(row["text"]) if part.text.rstrip().endswith("?"))
        if extract_content_words(asks):
            asking[row["message_id"]] = asks[:QUERY_CHARS]
    return asking


def find_questions(past: Past, cut: datetime, horizon: int, near: float, until: datetime | None) -> list[Question]:
    """Return what people asked, told again and corrected in the days after a cut, of what was said before it.

    Args:
        past: all of it.
        cut: the day as of which a memory will be asked.
        horizon: days after it.
        near: likeness from which a message is about a claim: mean of the cosine and of the words that both have.
        until: the next cut, where that comes sooner.
    """
    ends = min(cut + timedelta(days=horizon), until or datetime.max.replace(tzinfo=cut.tzinfo))
    judge = _Judge(past, cut, near)
    questions, turns = [], past.turns.filter("person", pl.col("ts").is_between(cut, ends, closed="left"))
    for row in turns.sort("ts", "session_id", "seq").iter_rows(named=True):
        # the question, and the messages that answer it
        kind, claims = judge.find_claims(row)
        query = judge.before.get(row["message_id"], "") if kind == "retold" else row["text"]
        evidence = tuple(dict.fromkeys(judge.names[key] for claim in claims for key in claim if key in judge.names))
        if evidence and extract_content_words(query):
            text, group = query[:QUERY_CHARS], f"{cut:%Y-%m-%d}"
            own = row["session_id"]
            questions.append(Question(text, group, row["ts"], kind, evidence, stale=judge.stale, cluster=own))
    return questions


class _Judge:
    """Tells which older claims a message is about, as of one cut."""

    def __init__(self, past: Past, cut: datetime, near: float) -> None:
        self.past, self.near, self.rows = past, near, past.claims.to_dicts()
        self.words = [frozenset(extract_content_words(row["summary"])) for row in self.rows]
        holding = Counter(word for words in self.words for word in words)
        self.weights = {word: compute_smooth_idf(count, len(self.rows)) for word, count in holding.items()}
        self.unknown = compute_smooth_idf(1, len(self.rows))
        self.older = [at for at, row in enumerate(self.rows) if row["at"] is not None and row["at"] < cut]
        self.of_message: dict[str, list[int]] = defaultdict(list)
        for at, row in enumerate(self.rows):
            for message in row["message_ids"]:
                self.of_message[message].append(at)
        self.names = dict(past.turns.select("message_id", "name").iter_rows())
        people = past.turns.filter("person").sort("session_id", "seq")
        said_before = people.select("message_id", pl.col("text").shift(1).over("session_id")).drop_nulls()
        self.before = dict(said_before.iter_rows())
        row_of = {row["observation_id"]: at for at, row in enumerate(self.rows)}
        later = {row["observation_id"]: row["superseded_by"] for row in self.rows if row["status"] == Status.SUPERSEDED}
        self.changes = {(row_of[old], row_of[new]) for old, new in later.items() if new in row_of}
        self.doubts = {(row_of[old], row_of[new]) for old, new in past.doubts if old in row_of and new in row_of}
        self.stale = tuple(sorted(self.rows[old]["quote"] for old, new in self.changes if {old, new} <= {*self.older}))

    def find_claims(self, message: Mapping[str, Any]) -> tuple[Kind, list[Sequence[str]]]:
        """Return what a message does, and the messages of each older claim that it does it to: it corrects where the
        night is sure of the change, or thinks it likely and they are near.
        """
        own = self.of_message.get(message["message_id"], [])
        other = [at for at in self.older if self.rows[at]["session_id"] != message["session_id"]]
        changed = [at for at in other if any((at, claim) in self.changes for claim in own)]
        likely = {at for at, claim in self.doubts if claim in own and self._liken_claims(claim, at) >= self.near}
        if changed := sorted({*changed, *likely.intersection(other)}):
            return "corrected", [self.rows[at]["message_ids"] for at in changed]
        likeness: dict[int, float] = defaultdict(float)
        asking = self.past.asking.get(message["message_id"])
        if asking is not None:
            words = frozenset(extract_content_words(asking[0]))
            likeness |= {at: self._liken(asking[1], words, at) for at in self._look(asking[1], other)}
        for claim in own if asking is None else ():
            for at in self._look(self.past.vectors[claim], other):
                likeness[at] = max(likeness[at], self._liken_claims(claim, at))
        order = sorted((at for at, value in likeness.items() if value >= self.near), key=lambda at: -likeness[at])
        return "retold" if asking is None else "asked", [self.rows[at]["message_ids"] for at in order[:EVIDENCE]]

    def _look(self, vector: Vectors, other: Sequence[int]) -> list[int]:
        """Return the nearest by vector: they alone are held against a message word by word."""
        near = self.past.vectors[list(other)] @ vector
        return [other[at] for at in np.argsort(-near, kind="stable")[:20]]

    def _liken_claims(self, claim: int, other: int) -> float:
        if self.rows[claim]["canonical_id"] == (self.rows[other]["canonical_id"] or self.rows[other]["observation_id"]):
            return 1.0  # the night held the two to be one
        return self._liken(self.past.vectors[claim], self.words[claim], other, whole=True)

    def _liken(self, vector: Vectors, words: frozenset[str], other: int, *, whole: bool = False) -> float:
        """Return mean of the cosine and of the share of words that both have, a rare one weighing more: of the
        message's words that the claim has, or of both ones'.
        """
        shared, ours, theirs = (
            sum(self.weights.get(word, self.unknown) for word in group)
            for group in (words & self.words[other], words, self.words[other])
        )
        share = 2 * shared / ((ours + theirs) or 1.0) if whole else shared / (ours or 1.0)
        return float((vector @ self.past.vectors[other] + share) / 2)
