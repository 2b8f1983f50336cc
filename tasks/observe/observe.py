"""`observe`: messages in, claims out, without a language model.

A claim is one sentence somebody said, cut to what it says, with what it needs to be understood: its heading, the
sentence before it, or the question or proposal that it answers. A model learnt from sentences labelled by hand says how
likely each is worth remembering (`slowwave.tasks.observe.worth`); the likeliest are taken while the session's budget of
words lasts, which grows with what the session has to tell: `bench/observe.py` and `bench/worth.py` show what that keeps.
Claims come from people's and models' words alone, never from tool traffic, synthetic turns, questions or code.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import ObserveSettings
from slowwave.schemas.tables import CODING, OBSERVATIONS, PERSONAL
from slowwave.schemas.vocabulary import Origin, is_turn
from slowwave.tasks.observe.coding import extract_file_paths, is_coding, is_proposal, is_refusal
from slowwave.tasks.observe.units import Unit, collect_speakers, count_words, extract_units, strip_emphasis
from slowwave.tasks.observe.worth import Judgement, compute_worth_digest, load_worth_model

VERSION = 7
"""Raised when the method changes: every claim made under an older one is pending again."""

OBSERVER = "extractive"
FLOOR = 0.3
"""Probability of being worth remembering under which a sentence is no claim."""
PERSONAL_THRIFT, CODING_THRIFT = 1.0, 0.3
"""How much a sentence's length counts against it: a decision with its reason is worth its words."""
MIN_BUDGET = 120
"""Words that even the shortest session may spend: the one decision of three short messages is worth its words."""
TYPICAL = 0.48
"""Share of the words of everyday talk that is expected to be worth remembering: each sentence's words by its
probability. A session that holds twice as much may keep twice as many words."""
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence that may become a claim."""

    unit: Unit
    judged: Judgement
    words: int
    """That the claim costs."""

    @property
    def place(self) -> tuple[int, int]:
        """Order of speech."""
        return self.unit.row["seq"], self.unit.sentence.start


def observe(messages: pa.Table, settings: ObserveSettings) -> ObserveResult:
    """Return claims of the sessions in `messages`.

    In: rows of MESSAGES, the active ones, of whole sessions, in any order. Out: one row a claim, columns COLUMNS;
    `quote` is a verbatim piece of the first message in `message_ids`; a second one is the turn that the claim answers,
    and `detail` is from there. `confidence` is the score as a probability. Words of summaries are about `max_share` of
    those spoken in everyday talk, more of a list of facts and less of a log, and MIN_BUDGET at least. A session's
    claims depend on its own messages alone. Sessions of fewer than `min_messages` spoken messages, and those without a
    claim, are in `skipped`.
    """
    rows: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    for session, all_rows in _iter_sessions(messages):
        spoken = [r for r in all_rows if is_turn(r)]
        if len(spoken) < settings.min_messages:
            skipped[session] = f"{len(spoken)} spoken messages, {settings.min_messages} needed"
            continue
        coding = settings.pack == "coding" or (settings.pack == "auto" and is_coding(all_rows))
        claims = _build_claims(_infer_speakers(spoken), coding, settings.max_share)
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


def _build_claims(spoken: list[dict[str, Any]], coding: bool, max_share: float) -> list[dict[str, Any]]:
    """Return rows of one session's claims."""
    candidates = _find_candidates(spoken)
    worth = sum(one.judged.worth * one.words for one in candidates)
    budget = max(int(max_share / TYPICAL * worth), MIN_BUDGET)
    chosen = _select_within_budget(candidates, budget, CODING_THRIFT if coding else PERSONAL_THRIFT)
    told = {(c.unit.row["message_id"], c.unit.sentence.position) for c in chosen}
    return [_build_observation_row(one, coding, told) for one in sorted(chosen, key=lambda c: c.place)]


def _find_candidates(spoken: list[dict[str, Any]]) -> list[Candidate]:
    """Return every sentence that may be a claim; proposals that were turned down are left out."""
    refused = _find_refused_messages(spoken)
    units = list(extract_units(spoken))
    judged = load_worth_model().judge([unit.text for unit in units], [unit.numbers for unit in units])
    return [
        Candidate(unit, said, count_words(unit.summary))
        for unit, said in zip(units, judged, strict=True)
        if said.worth >= FLOOR and not (unit.row["message_id"] in refused and is_proposal(unit.text))
    ]


def _select_within_budget(candidates: Sequence[Candidate], budget: int, thrift: float) -> list[Candidate]:
    """Return the candidates with the most to say for their words, as many as the budget holds.

    Greedy for the knapsack problem by probability over words ** thrift: 0 takes the best sentences whatever they
    cost, 1 the shortest, which would win coverage and lose the answers.
    """
    left = budget
    chosen: list[Candidate] = []
    for one in sorted(candidates, key=lambda c: -c.judged.worth / c.words**thrift):
        if one.words <= left:
            chosen.append(one)
            left -= one.words
    return chosen


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


def _build_observation_row(claim: Candidate, coding: bool, told: Set[tuple[str, int]]) -> dict[str, Any]:
    """Return a row; `told`: message and place of every sentence that is a claim."""
    unit, row = claim.unit, claim.unit.row
    pack, category = _choose_category(claim.judged, coding, row["origin"] == Origin.HUMAN)
    start, detail, cited = unit.start, None, [row["message_id"]]
    before = unit.before
    if unit.asked:
        detail, cited = unit.asked.text, [*cited, unit.asked.message_id]
    elif claim.judged.leans and before and (row["message_id"], before.position) not in told:
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
        "confidence": claim.judged.worth,
        "observed_at": row["ts"],
        "observer": OBSERVER,
    }
