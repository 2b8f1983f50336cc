"""`observe`: messages in, claims out, without a language model.

A claim is one sentence somebody said, cut to what it says, with what it needs to be understood: its heading, the
sentence before it, or the question or proposal that it answers. A classifier learnt from sentences labelled by hand
says how likely each is worth remembering (`slowwave.tasks.observe.worth`), and a longer one must be likelier: so a list
of facts keeps nearly all its words and a log hardly any (`bench/observe.py` and `bench/worth.py` show what is kept).
Claims come from people's and models' words alone, never from tool traffic, synthetic turns, questions or code.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import ObserveSettings
from slowwave.schemas.tables import CODING, OBSERVATIONS, PERSONAL
from slowwave.schemas.vocabulary import Origin, is_turn
from slowwave.tasks.observe.coding import extract_file_paths, is_coding, is_proposal, is_refusal
from slowwave.tasks.observe.units import Unit, extract_units, strip_emphasis
from slowwave.tasks.observe.worth import Judgement, compute_worth_digest, load_worth_model
from slowwave.text.words import count_words

VERSION = 7
"""Raised when the method changes: every claim made under an older one is pending again."""

OBSERVER = "extractive"
LEAST = {"coding": 0.5, "personal": 0.568}
"""Probability of being worth remembering from which a sentence of USUAL words is a claim."""
USUAL = 12
THRIFT = {"coding": 0.3, "personal": 1.0}
"""How much a sentence's length counts against it, as the power of its words: a decision with its reason is worth its
words; everyday talk tells much by the way in short sentences."""
ABOUT_SOMEBODY = ("preference", "relationship")
"""What a person says in a coding session that is of the person, not of the work."""

COLUMNS = (
    "observation_id",
    "session_id",
    "workspace",
    "summary",
    "detail",
    "category",
    "pack",
    "files",
    "quote",
    "message_ids",
    "speaker",
    "confidence",
    "observed_at",
    "observer",
)
SCHEMA = pa.schema([OBSERVATIONS.schema.field(c) for c in COLUMNS])
NEEDED = ["message_id", "session_id", "seq", "role", "origin", "speaker", "blocks", "text", "ts", "workspace", "source"]
NAME_PREFIX = re.compile(r"^([A-Z][\w.'-]*(?: [A-Z][\w.'-]*)?): ")


@dataclass(frozen=True, slots=True)
class ObserveResult:
    """What `observe` made, and what it left out."""

    claims: pa.Table
    """Columns COLUMNS of OBSERVATIONS, in order of session, then of speech."""
    skipped: dict[str, str]
    """Session to the reason nothing was picked from it."""


def observe(messages: pa.Table, settings: ObserveSettings) -> ObserveResult:
    """Return claims of the sessions in `messages`.

    In: rows of MESSAGES, the active ones, of whole sessions, in any order. Out: one row a claim, columns COLUMNS;
    `quote` is a verbatim piece of the first message in `message_ids`; a second one is the turn that the claim answers,
    and `detail` is from there. `confidence` is the probability that it is worth
    remembering. A session's claims depend on its own messages alone. Sessions of fewer than `min_messages` spoken
    messages, and those without a claim, are in `skipped`.
    """
    rows: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    for session, all_rows in _iter_sessions(messages):
        spoken = [r for r in all_rows if is_turn(r)]
        if len(spoken) < settings.min_messages:
            skipped[session] = f"{len(spoken)} spoken messages, {settings.min_messages} needed"
            continue
        coding = settings.pack == "coding" or (settings.pack == "auto" and is_coding(all_rows))
        claims = _build_claims(_infer_speakers(spoken), coding, settings.strictness)
        if not claims:
            skipped[session] = f"no claim in {len(spoken)} spoken messages"
        rows += claims
    return ObserveResult(pa.Table.from_pylist(rows, schema=SCHEMA), skipped)


def compute_observe_key(settings: ObserveSettings) -> str:
    """Return hash of what the claims depend on besides the messages: the method's version and the settings."""
    return compute_content_id("observe", OBSERVER, str(VERSION), compute_worth_digest(), settings.model_dump_json())


def _iter_sessions(messages: pa.Table) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield rows by session, sessions in order of id, rows in order of arrival."""
    sessions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in messages.select(NEEDED).to_pylist():
        sessions[row["session_id"]].append(row)
    for session in sorted(sessions):
        yield session, sorted(sessions[session], key=lambda r: r["seq"])


def _infer_speakers(spoken: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows; where most texts open with `Name: ` and no speaker is known, that name is the speaker."""
    prefixes = [NAME_PREFIX.match(r["text"]) for r in spoken]
    if any(r["speaker"] for r in spoken) or sum(map(bool, prefixes)) * 5 < len(spoken) * 4:
        return spoken
    return [{**r, "speaker": m[1] if m else None} for r, m in zip(spoken, prefixes, strict=True)]


def _build_claims(spoken: list[dict[str, Any]], coding: bool, strictness: float) -> list[dict[str, Any]]:
    """Return rows of one session's claims; proposals that were turned down are left out."""
    pack = "coding" if coding else "personal"
    refused = _find_refused_messages(spoken)
    units = [unit for unit in extract_units(spoken) if not (_is_of(unit, refused) and is_proposal(unit.text))]
    judged = load_worth_model().judge([unit.text for unit in units], [unit.numbers for unit in units])
    chosen = [
        (unit, said)
        for unit, said in zip(units, judged, strict=True)
        if said.worth >= strictness * LEAST[pack] * (count_words(unit.summary) / USUAL) ** THRIFT[pack]
    ]
    told = {(unit.row["message_id"], unit.sentence.position) for unit, _ in chosen}
    return [_build_observation_row(unit, said, coding, told) for unit, said in chosen]


def _is_of(unit: Unit, messages: Set[str]) -> bool:
    return unit.row["message_id"] in messages


def _find_refused_messages(spoken: list[dict[str, Any]]) -> set[str]:
    """Return messages of the model whose proposals the person's next message turns down: all since the person last
    spoke.
    """
    refused: set[str] = set()
    since: list[str] = []
    for row in spoken:
        if row["origin"] == Origin.MODEL:
            since.append(row["message_id"])
            continue
        if is_refusal(row["text"]):
            refused.update(since)
        since = []
    return refused


def _choose_category(judged: Judgement, coding: bool, human: bool) -> tuple[str, str]:
    """Return pack and category: coding talk has categories of its own, but for what a person says of themselves."""
    if coding and human and judged.choose_category(tuple(judged.categories)) in ABOUT_SOMEBODY:
        return "personal", judged.choose_category(ABOUT_SOMEBODY)
    if not coding:
        return "personal", judged.choose_category(PERSONAL)
    likeliest = judged.choose_category(tuple(judged.categories))
    return "coding", likeliest if likeliest in CODING else "context"


def _build_observation_row(unit: Unit, judged: Judgement, coding: bool, told: Set[tuple[str, int]]) -> dict[str, Any]:
    """Return a row; `told`: message and place of every sentence that is a claim."""
    row, before = unit.row, unit.before
    pack, category = _choose_category(judged, coding, row["origin"] == Origin.HUMAN)
    start, detail, cited = unit.start, None, [row["message_id"]]
    if unit.asked:
        detail, cited = unit.asked.text, [*cited, unit.asked.message_id]
    elif judged.leans and before and (row["message_id"], before.position) not in told:
        detail, start = strip_emphasis(before.text), before.start
    quote = row["text"][start : unit.sentence.end]
    return {
        "observation_id": compute_content_id(row["session_id"], category, quote, row["message_id"]),
        "session_id": row["session_id"],
        "workspace": row["workspace"],
        "summary": unit.summary,
        "detail": detail,
        "category": category,
        "pack": pack,
        "files": extract_file_paths(quote) or (extract_file_paths(row["text"])[:3] if pack == "coding" else []),
        "quote": quote,
        "message_ids": cited,
        "speaker": row["speaker"],
        "confidence": judged.worth,
        "observed_at": row["ts"],
        "observer": OBSERVER,
    }
