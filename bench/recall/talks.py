"""Conversations and what is asked of them, in every form of the labelled sets; each becomes a memory to be asked.

- LoCoMo's `.json` (Maharana et al. 2024, CC BY-NC 4.0, never shipped): a list of conversations; `session_N` of their
  `conversation` holds turns `{speaker, dia_id, text}`, `qa` the questions with the turns that answer them (`evidence`,
  some malformed), `observation` facts that a language model wrote from each session.
- `decisions*.jsonl` with `bug_reports*.jsonl` beside: a report (`report`), the session that it is about (`session_id`),
  what was decided there (`decision`) and wordings of it that no longer hold (`stale`).
- `X.jsonl` with `X.queries.json` beside, or `X.queries.json` alone, asked of the given transcripts: `query`, `gold`
  (ids of messages), at times `gold_session`, `workspace`, `category`, `current` and `stale` (ids), and `expect`, a
  short answer in the transcripts' words.
- `.toml` over `data/samples`: `question`, `session`, `expect`.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import bm25s  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import Stemmer  # type: ignore[import-not-found]

from slowwave import Memory
from slowwave.engines.encoders.protocol import Encoder
from slowwave.flows.nightly import run_night
from slowwave.recall.release.calibration import fit_calibration
from slowwave.recall.release.view import View
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, PASSAGES, SESSIONS
from slowwave.store import Store
from slowwave.store.publishing import publish
from slowwave.store.upkeep import compact_store
from slowwave.tasks.passages.cut import build_passages
from slowwave.tasks.vectors import attach_vectors

QUERIES = ".queries.json"
TURN_ID = re.compile(r"D\d+:\d+")
CATEGORIES = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
ADVERSARIAL = 5
"""LoCoMo's questions that nothing answers."""
REPORT = "report"
"""Kind of a question that is a bug report."""


class Turn(NamedTuple):
    """One thing said. `id` is LoCoMo's `D<session>:<turn>`."""

    id: str
    session: int
    speaker: str
    text: str
    ts: datetime


class Question(NamedTuple):
    """A question, its answer and the ids of the turns that hold it (only turns that exist)."""

    text: str
    answer: str
    category: int
    evidence: tuple[str, ...]


class Fact(NamedTuple):
    """A sentence LoCoMo's own LLM distilled, and the turns it cites."""

    text: str
    turns: tuple[str, ...]


class Conversation(NamedTuple):
    """Two people over many sessions."""

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Asked:
    """A question or a report, and what answers it, by the transcripts' own ids."""

    text: str
    kind: str = "all"
    gold: frozenset[str] = frozenset()
    """Messages that answer it."""
    sessions: frozenset[str] = frozenset()
    """Sessions that answer it."""
    answer: str = ""
    """A short answer: if a question has one, its words alone count."""
    workspace: str | None = None
    current: frozenset[str] = frozenset()
    """Messages that tell what holds."""
    stale: frozenset[str] = frozenset()
    """Messages that tell what no longer holds."""
    wordings: tuple[str, ...] = ()
    """Phrases that no longer hold."""


@dataclass(frozen=True)
class Talk:
    """What is said in some transcripts, or in a conversation of LoCoMo's, and what is asked of it."""

    name: str
    asked: list[Asked]
    paths: Sequence[Path] = ()
    conversation: Conversation | None = None

    def open(self, stores: Path, encoder: str) -> Memory:
        """Return a memory of a whole night, made in `stores` if it is not there yet."""
        store = stores / self.name
        if not store.exists():
            run_night(
                self.list_paths(stores), Settings(store=store, encoder=encoder)
            ).check_complete()
        return Memory.open(store)

    def list_paths(self, folder: Path) -> list[Path]:
        """Return the transcripts; a conversation of LoCoMo's is written as one into the folder."""
        if self.conversation is None:
            return list(self.paths)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.jsonl"
        path.write_bytes(b"\n".join(map(orjson.dumps, list_lines(self.conversation))))
        return [path]


def read_talks(path: Path, transcripts: Sequence[Path] = ()) -> list[Talk]:
    """Return the conversations of a file with what is asked of them; `transcripts` are what `X.queries.json` asks."""
    alone = path.name.endswith(QUERIES)
    beside = path if alone else path.with_suffix(QUERIES)
    if path.suffix == ".json" and not alone:
        return [
            Talk(one.id, _list_questions(one), conversation=one)
            for one in load_conversations(path)
        ]
    if path.suffix == ".toml":
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["question"]
        asked = [
            Asked(
                row["question"],
                sessions=frozenset([row["session"]]),
                answer=row["expect"],
            )
            for row in rows
        ]
        return [Talk("samples", asked, [path.parent / "samples"])]
    if beside.exists():
        asked = [
            Asked(
                row["query"],
                row.get("category", "all"),
                frozenset(row.get("gold") or ()),
                frozenset([row["gold_session"]] if row.get("gold_session") else ()),
                *(row.get("expect", ""), row.get("workspace")),
                *(frozenset(row.get(name) or ()) for name in ("current", "stale")),
            )
            for row in orjson.loads(beside.read_bytes())
        ]
        return [
            Talk(
                path.name.removesuffix(QUERIES if alone else path.suffix),
                asked,
                transcripts if alone else [path],
            )
        ]
    lines = (
        path.with_name(path.name.replace("decisions", "bug_reports"))
        .read_bytes()
        .splitlines()
    )
    asked = [
        Asked(
            row["report"],
            REPORT,
            sessions=frozenset([row["session_id"]]),
            answer=row["decision"],
            wordings=tuple(row["stale"]),
        )
        for row in map(orjson.loads, lines)
    ]
    return [Talk(path.stem, asked, [path])]


def _list_questions(one: Conversation) -> list[Asked]:
    """Return the questions that some turns answer."""
    session = {turn.id: f"{one.id}/{turn.session}" for turn in one.turns}
    return [
        Asked(
            q.text,
            CATEGORIES[q.category],
            frozenset(q.evidence),
            frozenset(session[turn] for turn in q.evidence),
        )
        for q in one.questions
        if q.evidence and q.category != ADVERSARIAL
    ]


def list_lines(one: Conversation) -> list[dict[str, Any]]:
    """Return the turns as lines of the generic format."""
    columns = ["session_id", "message_id", "role", "speaker", "text", "ts"]
    return (
        build_message_rows(one)
        .select(columns)
        .rename_columns([*columns[:4], "content", "ts"])
        .to_pylist()
    )


def load_conversations(path: Path) -> list[Conversation]:
    """Return every conversation of a LoCoMo file."""
    return [_parse_conversation(raw) for raw in orjson.loads(path.read_bytes())]


def build_message_rows(conversation: Conversation, prefix: str = "") -> pa.Table:
    """Return the turns as rows of MESSAGES; a message's ids are the turn's after a prefix, a session is `<id>/<N>`."""
    first = {t.session: i for i, t in reversed(list(enumerate(conversation.turns)))}
    rows = [
        {
            **dict.fromkeys(("message_id", "native_id"), prefix + turn.id),
            **{"parent_id": None, "speaker": turn.speaker, "ts": turn.ts},
            **{
                "session_id": f"{conversation.id}/{turn.session}",
                "seq": i - first[turn.session],
            },
            **{
                "role": "user",
                "origin": "human",
                "workspace": None,
                "source": "locomo",
            },
            **{"blocks": [{"type": "text", "text": turn.text}], "text": turn.text},
            **{
                "tokens": len(turn.text.encode()) // 4,
                "identity": compute_content_id(conversation.id, turn.id),
            },
            **{
                "prev_hash": "",
                "hash": compute_content_id(conversation.id, turn.id, turn.text),
            },
        }
        for i, turn in enumerate(conversation.turns)
    ]
    return pa.Table.from_pylist(rows, schema=MESSAGES.schema)


def _parse_conversation(raw: dict[str, Any]) -> Conversation:
    turns = tuple(_parse_turns(raw["conversation"]))
    known = {turn.id for turn in turns}
    questions = tuple(
        Question(
            one["question"],
            str(one.get("answer", one.get("adversarial_answer", ""))),
            one["category"],
            tuple(turn for turn in _find_turns(one["evidence"]) if turn in known),
        )
        for one in raw["qa"]
    )
    said = (
        fact
        for each in raw["observation"].values()
        for facts in each.values()
        for fact in facts
    )
    facts = tuple(
        Fact(text, _find_turns([cited] if isinstance(cited, str) else cited))
        for text, cited in said
    )
    return Conversation(raw["sample_id"], turns, questions, facts)


def _parse_turns(raw: dict[str, Any]) -> Iterator[Turn]:
    for n in sorted(
        int(key.split("_")[1]) for key in raw if re.fullmatch(r"session_\d+", key)
    ):
        start = datetime.strptime(
            raw[f"session_{n}_date_time"], "%I:%M %p on %d %B, %Y"
        ).replace(tzinfo=UTC)
        for i, one in enumerate(raw[f"session_{n}"]):
            yield Turn(
                one["dia_id"],
                n,
                one["speaker"],
                one["text"],
                start + timedelta(seconds=30 * i),
            )


def _find_turns(cited: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(TURN_ID.findall(" ".join(cited))))


def load_messages(memory: Memory) -> dict[str, tuple[str, str]]:
    """Return session and text of each message, all by the transcripts' own ids."""
    sessions = memory.snapshot.read(SESSIONS, ["session_id", "native_id"]).to_pylist()
    names = {row["session_id"]: row["native_id"] for row in sessions}
    rows = memory.snapshot.read(
        MESSAGES, ["native_id", "session_id", "text"]
    ).to_pylist()
    return {row["native_id"]: (names[row["session_id"]], row["text"]) for row in rows}


def list_persons_messages(memory: Memory) -> frozenset[str]:
    """Return the transcripts' ids of the messages that a person wrote."""
    rows = memory.snapshot.read(MESSAGES, ["native_id", "role"]).to_pylist()
    return frozenset(row["native_id"] for row in rows if row["role"] == "user")


def build_store(root: Path, messages: pa.Table, encoder: Encoder | None) -> None:
    """Make a released store of messages and their passages alone, these with vectors, and calibrated, if an encoder is
    given.
    """
    store, passages = Store.open(root, create=True), build_passages(messages, "bench")
    if encoder is not None:
        passages = attach_vectors(store, passages, "text", encoder)
    store.append(MESSAGES, messages)
    store.append(PASSAGES, passages)
    compact_store(store)
    if encoder is None:
        publish(store, "bench", None)
    else:
        publish(
            store,
            "bench",
            encoder.name,
            lambda draft: fit_calibration(View(store.dir, draft), encoder),
        )


def score_bm25(
    texts: Sequence[str], questions: Sequence[str]
) -> npt.NDArray[np.float64]:
    """Return BM25 scores, shape (questions, texts); Snowball stems, English stop words, k1 1.2, b .75."""
    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25(k1=1.2, b=0.75)
    index.index(
        bm25s.tokenize(
            list(texts), stopwords="en", stemmer=stemmer, show_progress=False
        ),
        show_progress=False,
    )
    asked = bm25s.tokenize(
        list(questions),
        stopwords="en",
        stemmer=stemmer,
        show_progress=False,
        return_ids=False,
    )
    return np.array(
        [index.get_scores(words) if words else np.zeros(len(texts)) for words in asked],
        dtype=np.float64,
    )


def rank_down(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return places by falling score, along the last axis."""
    return np.argsort(-scores, axis=-1, kind="stable")
