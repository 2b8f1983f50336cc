"""LoCoMo's long conversations (Maharana et al. 2024, CC BY-NC 4.0) as slowwave's messages; read by path, never shipped.

A file is a list of conversations; `conversation.session_N` holds turns `{speaker, dia_id, text}`, `qa` the questions
with the turns that answer them (`evidence`, some malformed), `observation` facts an LLM wrote from each session.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MESSAGES

TURN_ID = re.compile(r"D\d+:\d+")
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing said. `id` is LoCoMo's `D<session>:<turn>`."""

    id: str
    session: int
    speaker: str
    text: str
    ts: datetime


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its answer and the ids of the turns that hold it (only turns that exist)."""

    text: str
    answer: str
    category: int
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence LoCoMo's own LLM distilled, and the turns it cites."""

    text: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Two people over many sessions."""

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]
    facts: tuple[Fact, ...]


def load_conversations(path: Path) -> list[Conversation]:
    """Return every conversation of a LoCoMo file."""
    return [_parse_conversation(raw) for raw in orjson.loads(path.read_bytes())]


def build_message_rows(conversation: Conversation) -> pa.Table:
    """Return the turns as rows of MESSAGES; `message_id` and `native_id` are the turn's id, a session is `<id>/<N>`."""
    first = {t.session: i for i, t in reversed(list(enumerate(conversation.turns)))}
    rows = [_build_message(conversation.id, t, i - first[t.session]) for i, t in enumerate(conversation.turns)]
    return pa.Table.from_pylist(rows, schema=MESSAGES.schema)


def _build_message(conversation: str, turn: Turn, seq: int) -> dict[str, Any]:
    return {
        "message_id": turn.id,
        "session_id": f"{conversation}/{turn.session}",
        "seq": seq,
        "native_id": turn.id,
        "parent_id": None,
        "role": "user",
        "origin": "human",
        "speaker": turn.speaker,
        "blocks": [{"type": "text", "text": turn.text}],
        "text": turn.text,
        "ts": turn.ts,
        "workspace": None,
        "source": "locomo",
        "tokens": len(turn.text.encode()) // 4,
        "identity": compute_content_id(conversation, turn.id),
        "prev_hash": "",
        "hash": compute_content_id(conversation, turn.id, turn.text),
    }


def _parse_conversation(raw: dict[str, Any]) -> Conversation:
    turns = tuple(_parse_turns(raw["conversation"]))
    known = {t.id for t in turns}
    questions = tuple(_parse_question(q, known) for q in raw["qa"])
    facts = tuple(_parse_fact(f) for said in raw["observation"].values() for facts in said.values() for f in facts)
    return Conversation(raw["sample_id"], turns, questions, facts)


def _parse_turns(raw: dict[str, Any]) -> Iterator[Turn]:
    numbers = sorted(int(k.split("_")[1]) for k in raw if re.fullmatch(r"session_\d+", k))
    for n in numbers:
        start = datetime.strptime(raw[f"session_{n}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for i, t in enumerate(raw[f"session_{n}"]):
            yield Turn(t["dia_id"], n, t["speaker"], t["text"], start + timedelta(seconds=30 * i))


def _parse_question(raw: dict[str, Any], known: set[str]) -> Question:
    cited = dict.fromkeys(TURN_ID.findall(" ".join(raw["evidence"])))
    answer = str(raw.get("answer", raw.get("adversarial_answer", "")))
    return Question(raw["question"], answer, raw["category"], tuple(t for t in cited if t in known))


def _parse_fact(raw: list[Any]) -> Fact:
    cited = raw[1] if isinstance(raw[1], str) else " ".join(raw[1])
    return Fact(raw[0], tuple(dict.fromkeys(TURN_ID.findall(cited))))
