"""`extract`: messages in, requests for their claims out. Pure; `slowwave.tasks.llm.claims` reads the answers.

Each session is cut into chunks (`slowwave.tasks.llm.chunks`), each chunk is one request, and an answer is a list of claims with the
numbers of the messages they stand on.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slowwave.engines.llm.protocol import EngineUnavailable, JsonSchema, Message, Request
from slowwave.schemas.settings import ExtractSettings, ObserveSettings
from slowwave.tasks.llm.chunks import Chunk, Counter, chunked, turns_of
from slowwave.tasks.llm.fence import fenced
from slowwave.tasks.llm.library import Library, Pack, array, bullets, flat_object, number, string
from slowwave.tasks.observe.coding import is_coding

VERSION = 3
"""Raised when the method changes: every claim made under an older one is pending again."""

PROMPTS = ("extract", "consolidate")
CONFIDENCE = {"high": 0.9, "medium": 0.6, "low": 0.3}
TEMPLATE_TOKENS = 80
"""For the chat template and the fence."""


@dataclass(frozen=True, slots=True)
class Part:
    """One request: a chunk of a session."""

    request: Request
    session_id: str
    pack: Pack
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class Plan:
    """What the model is to be asked about some sessions."""

    parts: list[Part]
    rows: dict[str, list[dict[str, Any]]]
    """Rows of MESSAGES by session, in order of seq: tool traffic too."""
    skipped: dict[str, str]
    """Session to the reason it is not asked about."""

    @property
    def requests(self) -> list[Request]:
        """Every request, in order of session and part."""
        return [part.request for part in self.parts]


def planned(
    messages: pa.Table,
    observe: ObserveSettings,
    extract: ExtractSettings,
    library: Library,
    count: Counter,
    window: int,
) -> Plan:
    """Requests for every session in `messages`.

    In: rows of MESSAGES, the active ones, of whole sessions, in any order. `window` is the model's context window and
    `count` counts tokens as it does. No request exceeds the window. Sessions of fewer than `observe.min_messages`
    spoken messages are in `skipped`.

    Raises:
        EngineUnavailable: the window is too small for the prompt itself and an answer.
    """
    plan = Plan([], _by_session(messages), {})
    overhead: dict[str, int] = {}
    for session, rows in plan.rows.items():
        turns = turns_of(rows)
        if len(turns) < observe.min_messages:
            plan.skipped[session] = f"{len(turns)} spoken messages, {observe.min_messages} needed"
            continue
        pack = library.pack(pack_name(rows, observe, extract))
        if pack.name not in overhead:
            overhead[pack.name] = _overhead(library, pack, extract, count)
        room = min(extract.chunk_tokens, window - overhead[pack.name] - extract.answer_tokens)
        if room < 50:
            raise EngineUnavailable(
                "extraction",
                f"a context window of {window:,} tokens leaves {room} for a transcript beside a prompt of "
                f"{overhead[pack.name]:,} and an answer of {extract.answer_tokens:,}: lower extract.answer_tokens",
            )
        chunks = chunked(turns, room, min(extract.overlap_tokens, room // 4), count)
        plan.parts.extend(
            _part(session, pack, chunk, (n, len(chunks)), extract, library) for n, chunk in enumerate(chunks)
        )
    return plan


def pack_name(rows: Sequence[Mapping[str, Any]], observe: ObserveSettings, extract: ExtractSettings) -> str:
    """The pack for a session: the one that is set, else by the look of it."""
    if extract.pack or observe.pack != "auto":
        return extract.pack or observe.pack
    return "coding" if is_coding(dict(row) for row in rows) else "personal"


def claims_schema(pack: Pack, most: int) -> JsonSchema:
    """What an answer looks like: the quote before the words that rest on it."""
    claim = {
        "messages": array(number(9_999), 4),
        "quote": string(300),
        "category": {"enum": list(pack.categories)},
        "summary": string(300),
        "detail": string(300),
        "files": array(string(160), 5),
        "speaker": string(60),
        "confidence": {"enum": list(CONFIDENCE)},
        "reusable": {"type": "boolean"},
        "non_trivial": {"type": "boolean"},
        "specific": {"type": "boolean"},
        "doubt": string(120),
    }
    return flat_object({"claims": array(flat_object(claim), most)})


def _by_session(messages: pa.Table) -> dict[str, list[dict[str, Any]]]:
    sessions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in messages.to_pylist():
        sessions[row["session_id"]].append(row)
    return {sid: sorted(sessions[sid], key=lambda r: int(r["seq"])) for sid in sorted(sessions)}


def _part(
    session: str, pack: Pack, chunk: Chunk, place: tuple[int, int], extract: ExtractSettings, library: Library
) -> Part:
    n, parts = place
    workspace = chunk.turns[0].row["workspace"]
    where = f" in {' '.join(str(workspace).split())[:120]}" if workspace else ""
    shown = [turn.shown for turn in chunk.turns]
    messages = _messages(library, pack, extract, shown, part=n + 1, parts=parts, where=where)
    schema = claims_schema(pack, extract.max_claims)
    return Part(Request(f"{session}/{n}", messages, schema, extract.answer_tokens), session, pack, chunk)


def _messages(
    library: Library, pack: Pack, extract: ExtractSettings, shown: Sequence[str], **place: object
) -> tuple[Message, ...]:
    """The prompt: what is always the same, the pack's example as a part done already, and the transcript last."""
    prompt, constants = library.prompt("extract"), _constants(pack, extract)
    system, user = prompt.messages(**constants, **place, **fenced(shown))
    if pack.example is None:
        return system, user
    lines = pack.example.transcript.strip().splitlines()
    _, before = prompt.messages(**constants, part=1, parts=1, where="", **fenced(lines))
    return system, before, {"role": "assistant", "content": pack.example.answer.strip()}, user


def _constants(pack: Pack, extract: ExtractSettings) -> dict[str, object]:
    """What of a prompt is the same for every transcript."""
    categories = bullets(f"{name}: {meaning}" for name, meaning in pack.categories.items())
    return {
        "max_claims": extract.max_claims,
        "about": pack.about,
        "categories": categories,
        "ignore": bullets(pack.ignore),
    }


def _overhead(library: Library, pack: Pack, extract: ExtractSettings, count: Counter) -> int:
    """Tokens of a prompt without its transcript."""
    empty = _messages(library, pack, extract, [], part=99, parts=99, where=" in " + "w" * 120)
    return sum(count([message["content"] for message in empty])) + TEMPLATE_TOKENS
