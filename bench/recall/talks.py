"""Conversations and what is asked of them, in every form of the labelled sets; each becomes a memory to be asked.

- LoCoMo's `.json`: questions with the turns that answer them.
- `decisions*.jsonl` with `bug_reports*.jsonl` beside: a report (`report`), the session that it is about (`session_id`),
  what was decided there (`decision`) and wordings of it that no longer hold (`stale`).
- `X.jsonl` with `X.queries.json` beside, or `X.queries.json` alone, asked of the given transcripts: `query`, `gold`
  (ids of messages), at times `gold_session`, `workspace`, `category`, `current` and `stale` (ids), and `expect`, a
  short answer in the transcripts' words.
- `.toml` over `data/samples`: `question`, `session`, `expect`.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import bm25s  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import Stemmer  # type: ignore[import-not-found]

from bench.recall.locomo_files import CATEGORIES, Conversation, build_message_rows, load_conversations
from slowwave import Memory
from slowwave.engines.encoders.protocol import Encoder
from slowwave.flows.nightly import run_night
from slowwave.recall.release.calibration import fit_calibration
from slowwave.recall.release.view import View
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, PASSAGES, SESSIONS
from slowwave.store import Store
from slowwave.store.publishing import publish
from slowwave.store.upkeep import compact_store
from slowwave.tasks.passages.cut import build_passages
from slowwave.tasks.vectors import add_vectors

QUERIES = ".queries.json"
ADVERSARIAL = 5
"""LoCoMo's questions that nothing answers."""
REPORT = "report"
"""Kind of a question that is a bug report."""


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
    """A short answer: where there is one, its words alone count."""
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
        """Return a memory of a whole night, made in `stores` where it is not there yet."""
        store, paths = stores / self.name, list(self.paths)
        if not store.exists():
            if self.conversation:
                stores.mkdir(exist_ok=True)
                paths = [_write_conversation(self.conversation, stores / f"{self.name}.jsonl")]
            run_night(paths, Settings(store=store, encoder=encoder)).check_complete()
        return Memory.open(store)


def read_talks(path: Path, transcripts: Sequence[Path] = ()) -> list[Talk]:
    """Return the conversations of a file with what is asked of them; `transcripts` are what `X.queries.json` asks."""
    alone = path.name.endswith(QUERIES)
    beside = path if alone else path.with_suffix(QUERIES)
    if path.suffix == ".json" and not alone:
        return [Talk(one.id, _list_questions(one), conversation=one) for one in load_conversations(path)]
    if path.suffix == ".toml":
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["question"]
        asked = [Asked(row["question"], sessions=frozenset([row["session"]]), answer=row["expect"]) for row in rows]
        return [Talk("samples", asked, [path.parent / "samples"])]
    if beside.exists():
        asked = [
            Asked(
                row["query"],
                row.get("category", "all"),
                *(frozenset(row["gold"]), frozenset([row["gold_session"]] if row.get("gold_session") else [])),
                *(row.get("expect", ""), row.get("workspace")),
                *(frozenset(row.get(name) or ()) for name in ("current", "stale")),
            )
            for row in orjson.loads(beside.read_bytes())
        ]
        return [
            Talk(path.name.removesuffix(QUERIES if alone else path.suffix), asked, transcripts if alone else [path])
        ]
    lines = path.with_name(path.name.replace("decisions", "bug_reports")).read_bytes().splitlines()
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
        Asked(q.text, CATEGORIES[q.category], frozenset(q.evidence), frozenset(session[turn] for turn in q.evidence))
        for q in one.questions
        if q.evidence and q.category != ADVERSARIAL
    ]


def _write_conversation(one: Conversation, path: Path) -> Path:
    columns = ["session_id", "message_id", "role", "speaker", "text", "ts"]
    rows = build_message_rows(one).select(columns).rename_columns([*columns[:4], "content", "ts"]).to_pylist()
    path.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))
    return path


def load_messages(memory: Memory) -> dict[str, tuple[str, str]]:
    """Return session and text of each message, all by the transcripts' own ids."""
    sessions = memory.snapshot.read(SESSIONS, ["session_id", "native_id"]).to_pylist()
    names = {row["session_id"]: row["native_id"] for row in sessions}
    rows = memory.snapshot.read(MESSAGES, ["native_id", "session_id", "text"]).to_pylist()
    return {row["native_id"]: (names[row["session_id"]], row["text"]) for row in rows}


def build_store(root: Path, messages: pa.Table, encoder: Encoder | None) -> None:
    """Make a released store of messages and their passages alone, these with vectors, and
    calibrated, where there is an encoder."""
    store, passages = Store.open(root, create=True), build_passages(messages, "bench")
    if encoder is not None:
        passages = add_vectors(passages, "text", encoder)
    store.append(MESSAGES, messages)
    store.append(PASSAGES, passages)
    compact_store(store)
    if encoder is None:
        publish(store, "bench", None)
    else:
        publish(store, "bench", encoder.name, lambda draft: fit_calibration(View(store.dir, draft), encoder))


def score_bm25(texts: Sequence[str], questions: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return BM25 scores, shape (questions, texts); Snowball stems, English stop words, k1 1.2, b .75."""
    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25(k1=1.2, b=0.75)
    index.index(bm25s.tokenize(list(texts), stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)
    asked = bm25s.tokenize(list(questions), stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False)
    return np.array([index.get_scores(words) if words else np.zeros(len(texts)) for words in asked], dtype=np.float64)


def rank_down(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return places by falling score, along the last axis."""
    return np.argsort(-scores, axis=-1, kind="stable")
