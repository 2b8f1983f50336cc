"""LoCoMo's long conversations (Maharana et al. 2024, CC BY-NC 4.0) as slowwave's messages; read by path, never shipped.

A file is a list of conversations; `conversation.session_N` holds turns `{speaker, dia_id, text}`, `qa` the questions
with the turns that answer them (`evidence`, some malformed), `observation` facts an LLM wrote from each session.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MESSAGES

TURN_ID = re.compile(r"D\d+:\d+")
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


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
            **{"session_id": f"{conversation.id}/{turn.session}", "seq": i - first[turn.session]},
            **{"role": "user", "origin": "human", "workspace": None, "source": "locomo"},
            **{"blocks": [{"type": "text", "text": turn.text}], "text": turn.text},
            **{"tokens": len(turn.text.encode()) // 4, "identity": compute_content_id(conversation.id, turn.id)},
            **{"prev_hash": "", "hash": compute_content_id(conversation.id, turn.id, turn.text)},
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
    said = (fact for each in raw["observation"].values() for facts in each.values() for fact in facts)
    facts = tuple(Fact(text, _find_turns([cited] if isinstance(cited, str) else cited)) for text, cited in said)
    return Conversation(raw["sample_id"], turns, questions, facts)


def _parse_turns(raw: dict[str, Any]) -> Iterator[Turn]:
    for n in sorted(int(key.split("_")[1]) for key in raw if re.fullmatch(r"session_\d+", key)):
        start = datetime.strptime(raw[f"session_{n}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for i, one in enumerate(raw[f"session_{n}"]):
            yield Turn(one["dia_id"], n, one["speaker"], one["text"], start + timedelta(seconds=30 * i))


def _find_turns(cited: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(TURN_ID.findall(" ".join(cited))))
