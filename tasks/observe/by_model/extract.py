"""`extract`: messages in, requests for their claims out. Pure; `slowwave.tasks.llm.claims` reads the answers.

Each session is cut into chunks (`slowwave.tasks.llm.chunks`), each chunk is one request, and an answer is a list of
claims with the numbers of the messages they stand on.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field, create_model

from slowwave.engines.llm.protocol import AnswerModel, EngineUnavailable, Message, Request
from slowwave.schemas.settings import ExtractSettings, ObserveSettings
from slowwave.schemas.vocabulary import count_turns
from slowwave.tasks.llm.chunks import Chunk, Counter, build_turns, split_into_chunks
from slowwave.tasks.llm.library import Library, Pack, format_bullets, limit_answer
from slowwave.tasks.observe.coding import is_coding
from slowwave.text.fence import fence_entries

VERSION = 3
"""Raised when the method changes: every claim made under an older one is pending again."""

PROMPTS = ("extract", "consolidate")
CONFIDENCE = {"high": 0.9, "medium": 0.6, "low": 0.3}
TEMPLATE_TOKENS = 80
"""For the chat template and the fence."""


class ClaimAnswer(AnswerModel):
    """One claim as the model answers it: the quote before the words that rest on it."""

    messages: list[Annotated[int, Field(ge=0, le=9_999)]] = Field(max_length=4)
    quote: str = Field(max_length=300)
    category: str
    summary: str = Field(max_length=300)
    detail: str = Field(max_length=300)
    files: list[Annotated[str, Field(max_length=160)]] = Field(max_length=5)
    speaker: str = Field(max_length=60)
    confidence: Literal["high", "medium", "low"]
    reusable: bool
    non_trivial: bool
    specific: bool
    doubt: str = Field(max_length=120)


class ClaimsAnswer(AnswerModel):
    """The claims of a chunk."""

    claims: list[ClaimAnswer]


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


def plan_requests(
    messages: pa.Table,
    observe: ObserveSettings,
    extract: ExtractSettings,
    library: Library,
    count: Counter,
    window: int,
    min_messages: int = 2,
) -> Plan:
    """Return requests for every session in `messages`.

    In: rows of MESSAGES, the active ones, of whole sessions, in any order. `window` is the model's context window and
    `count` counts tokens as it does. No request exceeds the window. Sessions of fewer than `min_messages` spoken
    messages are in `skipped`; a chunk begins with up to 200 tokens of the last.

    Raises:
        EngineUnavailable: the window is too small for the prompt itself and an answer.
    """
    plan = Plan([], _group_by_session(messages), {})
    overhead: dict[str, int] = {}
    for session, rows in plan.rows.items():
        turns = build_turns(rows)
        if not turns or count_turns(rows) < min_messages:
            plan.skipped[session] = f"{len(turns)} spoken messages, {min_messages} needed"
            continue
        pack = library.load_pack(select_pack(rows, observe))
        if pack.name not in overhead:
            overhead[pack.name] = _count_overhead_tokens(library, pack, extract, count)
        room = min(extract.chunk_tokens, window - overhead[pack.name] - extract.answer_tokens)
        if room < 50:
            raise EngineUnavailable(
                "extraction",
                f"a context window of {window:,} tokens leaves {room} for a transcript beside a prompt of "
                f"{overhead[pack.name]:,} and an answer of {extract.answer_tokens:,}: lower extract.answer_tokens",
            )
        chunks = split_into_chunks(turns, room, min(200, room // 4), count)
        plan.parts.extend(
            _build_part(session, pack, chunk, (n, len(chunks)), extract, library) for n, chunk in enumerate(chunks)
        )
    return plan


def select_pack(rows: Sequence[Mapping[str, Any]], observe: ObserveSettings) -> str:
    """Return the pack for a session: the one that is set, else by the look of it."""
    if observe.pack != "auto":
        return observe.pack
    return "coding" if is_coding(dict(row) for row in rows) else "personal"


@lru_cache(maxsize=64)
def build_claims_answer(categories: tuple[str, ...], most: int) -> type[ClaimsAnswer]:
    """Return the form of an answer with at most so many claims, each of one of these categories."""
    category: Any = Literal[categories]
    claim: Any = create_model("ClaimAnswer", __base__=ClaimAnswer, category=(category, ...))
    return limit_answer(create_model("ClaimsAnswer", __base__=ClaimsAnswer, claims=(list[claim], ...)), claims=most)


def _group_by_session(messages: pa.Table) -> dict[str, list[dict[str, Any]]]:
    sessions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in messages.to_pylist():
        sessions[row["session_id"]].append(row)
    return {sid: sorted(sessions[sid], key=lambda r: int(r["seq"])) for sid in sorted(sessions)}


def _build_part(
    session: str, pack: Pack, chunk: Chunk, place: tuple[int, int], extract: ExtractSettings, library: Library
) -> Part:
    n, parts = place
    workspace = chunk.turns[0].row["workspace"]
    where = f" in {' '.join(str(workspace).split())[:120]}" if workspace else ""
    shown = [turn.shown for turn in chunk.turns]
    messages = _build_messages(library, pack, extract, shown, part=n + 1, parts=parts, where=where)
    answer = build_claims_answer(tuple(pack.categories), extract.max_claims)
    return Part(Request(f"{session}/{n}", messages, answer, extract.answer_tokens), session, pack, chunk)


def _build_messages(
    library: Library, pack: Pack, extract: ExtractSettings, shown: Sequence[str], **place: object
) -> tuple[Message, ...]:
    """Return the prompt: what is always the same, the pack's example as a part done already, and the transcript
    last.
    """
    prompt, constants = library.load_prompt("extract"), _build_prompt_constants(pack, extract)
    system, user = prompt.render_messages(**constants, **place, **fence_entries(shown))
    if pack.example is None:
        return system, user
    lines = pack.example.transcript.strip().splitlines()
    _, before = prompt.render_messages(**constants, part=1, parts=1, where="", **fence_entries(lines))
    return system, before, {"role": "assistant", "content": pack.example.answer.strip()}, user


def _build_prompt_constants(pack: Pack, extract: ExtractSettings) -> dict[str, object]:
    """Return what of a prompt is the same for every transcript."""
    categories = format_bullets(f"{name}: {meaning}" for name, meaning in pack.categories.items())
    return {
        "max_claims": extract.max_claims,
        "about": pack.about,
        "categories": categories,
        "ignore": format_bullets(pack.ignore),
    }


def _count_overhead_tokens(library: Library, pack: Pack, extract: ExtractSettings, count: Counter) -> int:
    """Return tokens of a prompt without its transcript."""
    empty = _build_messages(library, pack, extract, [], part=99, parts=99, where=" in " + "w" * 120)
    return sum(count([message["content"] for message in empty])) + TEMPLATE_TOKENS
