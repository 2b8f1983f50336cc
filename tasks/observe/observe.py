"""`observe`: messages in, claims out, without a language model. About 1,000 messages a second on one core.

A claim is one sentence somebody said, cut to what it says, with what it needs to be understood: its heading, the
sentence that goes on from it ("It was …"), the one that it leans on, or the question or proposal that it answers.
Sentences are scored and taken while the session's budget of words lasts, which grows with what it has to tell:
everyday talk by a few features (`bench/nights/observe.py` shows what that keeps), what is said over code by a
classifier learnt from sentences labelled by hand (`slowwave.tasks.observe.worth`, `bench/nights/worth.py`). Claims
come from people's and models' words alone, never from tool traffic, synthetic turns, questions or code.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import ObserveSettings
from slowwave.schemas.tables import GATES, OBSERVATIONS
from slowwave.schemas.vocabulary import EXTRACTIVE, Origin, count_turns, is_turn
from slowwave.tasks.job import digest_shipped
from slowwave.tasks.observe import categories as lex
from slowwave.tasks.observe.categories import classify_personal, find_coding_category
from slowwave.tasks.observe.coding import PROPOSAL, REFUSAL, extract_file_paths, is_coding
from slowwave.tasks.observe.units import PRONOUN, Unit, collect_speakers, extract_units, is_adjacent, strip_emphasis
from slowwave.tasks.observe.worth import (
    NEVER,
    STANDING_FILE,
    WORTH_FILE,
    ScoredSentence,
    count_words,
    load_worth_model,
    score_personal,
    select_within_budget,
)

VERSION = 15
"""Raised when the method changes: every claim made under an older one is pending again."""

PERSONAL_THRIFT, CODING_THRIFT = 0.7, 0.3
"""Weight of a sentence's length against it: a decision with its reason is worth its words."""
MIN_BUDGET, MIN_BUDGET_AIDED, MIN_BUDGET_CODING = 90, 100, 200
"""Words that even the shortest session may spend, of people, with a model, on code: the one decision of three short
messages is worth its words, and what a person tells a model is told to be kept."""
MIN_CODING, MIN_CODING_SHORT, MIN_CODING_SAID = 0.5, 0.35, 0.2
"""Probability of being worth remembering below which a coding sentence is no claim; the same in a short session, of
which more is meant to be kept; and of what a person says in a short session. Of claims read
from real sessions that nothing was learnt from, a quarter is noise from the second on, and most below it."""
MIN_PERSONAL = {True: 0.08, False: 0.03}
"""The same for everyday talk, of a person and of a model: under it a sentence brings nothing new and names nothing."""

TYPICAL = 0.153
"""Share of the words of everyday talk that is expected to be asked for: each sentence's words by its probability. A
session that holds twice as much may keep twice as many words."""
SHORT = 25
"""Words up to which two sentences are one claim, where the second only goes on from the first."""

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
GATE_COLUMNS = (*GATES, "verified", "gate_reasons")
NOT_JUDGED: dict[str, Any] = dict.fromkeys(GATE_COLUMNS) | {"verified": True}
"""Gates of a claim whose quote is verbatim, as all are that no model made, and that nobody judged besides."""
SCHEMA = pa.schema([OBSERVATIONS.schema.field(c) for c in (*COLUMNS, *GATE_COLUMNS)])
NEEDED = ["message_id", "session_id", "seq", "role", "origin", "speaker", "blocks", "text", "ts", "workspace", "source"]
NAME_PREFIX = re.compile(r"^([A-Z][\w.'-]*(?: [A-Z][\w.'-]*)?): ")


@dataclass(frozen=True, slots=True)
class ObserveResult:
    """What `observe` made, and what it left out."""

    claims: pa.Table
    """Columns COLUMNS and GATE_COLUMNS of OBSERVATIONS, in order of session, then of speech."""
    skipped: dict[str, str]
    """Session to the reason nothing was picked from it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence that may become a claim."""

    unit: Unit
    scored: ScoredSentence
    category: str | None
    """Of the coding pack, "" where none is justified; None in the personal pack, where the words tell once the sentence
    is chosen."""
    pack: str
    standing: ScoredSentence | None = None
    """Of the coding pack, scored by how likely it is worth telling unasked."""

    @property
    def row(self) -> dict[str, Any]:
        """Its message."""
        return self.unit.row

    @property
    def place(self) -> tuple[int, int]:
        """Order of speech."""
        return self.row["seq"], self.scored.sentence.start


def observe(messages: pa.Table, settings: ObserveSettings, min_messages: int = 2) -> ObserveResult:
    """Return claims of the sessions in `messages`.

    In: rows of MESSAGES, the active ones, of whole sessions, in any order. Out: one row a claim, columns COLUMNS and
    GATE_COLUMNS; `quote` is a verbatim piece of the first message in `message_ids`; a second one is the turn that the
    claim answers, and `detail` is from there. `confidence` is the score as a probability, over code that of being
    worth telling unasked. Words of summaries are about `max_share` of those spoken in everyday talk, more of a list of
    facts and less of a log, and MIN_BUDGET at least. A session's claims depend on its own messages alone. Sessions of
    fewer than `min_messages` spoken messages (masked ones count), and those without a claim, are in `skipped`.
    """
    rows: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    sessions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in messages.select(NEEDED).to_pylist():
        sessions[row["session_id"]].append(row)
    for session in sorted(sessions):
        all_rows = sorted(sessions[session], key=lambda row: row["seq"])
        spoken = [row for row in all_rows if is_turn(row)]
        if not spoken or count_turns(all_rows) < min_messages:
            skipped[session] = f"{len(spoken)} spoken messages, {min_messages} needed"
            continue
        coding = settings.pack == "coding" or (settings.pack != "personal" and is_coding(all_rows))
        # where most texts open with `Name: ` and no speaker is known, that name is the speaker
        prefixes = [NAME_PREFIX.match(row["text"]) for row in spoken]
        if not any(row["speaker"] for row in spoken) and sum(map(bool, prefixes)) * 5 >= len(spoken) * 4:
            names = (prefix[1] if prefix else None for prefix in prefixes)
            spoken = [{**row, "speaker": name} for row, name in zip(spoken, names, strict=True)]
        claims = _build_claims(spoken, coding, settings.max_share)
        if not claims:
            skipped[session] = f"no claim in {len(spoken)} spoken messages"
        rows += claims
    return ObserveResult(pa.Table.from_pylist(rows, schema=SCHEMA), skipped)


def compute_observe_key(settings: ObserveSettings) -> str:
    """Return hash of what the claims depend on besides the messages: the method's version and the settings."""
    learnt = (digest_shipped(WORTH_FILE), digest_shipped(STANDING_FILE))
    return compute_content_id("observe", EXTRACTIVE, str(VERSION), *learnt, settings.model_dump_json())


def _build_claims(spoken: list[dict[str, Any]], coding: bool, max_share: float) -> list[dict[str, Any]]:
    """Return rows of one session's claims."""
    aided = MIN_BUDGET_AIDED if any(r["origin"] == Origin.MODEL for r in spoken) else MIN_BUDGET
    min_budget = MIN_BUDGET_CODING if coding else aided
    candidates = list(_find_coding_candidates(spoken) if coding else _find_personal_candidates(spoken))
    worth = sum(c.scored.probability * c.scored.words for c in candidates)
    budget = max(int(max_share / TYPICAL * worth), min_budget)
    thrift = CODING_THRIFT if coding else PERSONAL_THRIFT
    selected = {id(s) for s in select_within_budget((c.scored for c in candidates), budget, thrift)}
    chosen = sorted((c for c in candidates if id(c.scored) in selected), key=lambda c: c.place)
    # each with the sentence that goes on from it, where both were chosen and stand side by side
    rows: list[dict[str, Any]] = []
    while chosen:
        claim, more = chosen.pop(0), None
        if chosen and claim.row is chosen[0].row:
            sentence, after = claim.scored.sentence, chosen[0].scored.sentence
            goes_on = not after.item and PRONOUN.match(after.text) is not None
            more = chosen.pop(0) if goes_on and is_adjacent(claim.row["text"], sentence, after) else None
        rows.append(_build_observation_row(claim, more) | NOT_JUDGED)
    return rows


def _find_personal_candidates(spoken: list[dict[str, Any]]) -> Iterator[Candidate]:
    _, own = collect_speakers(spoken)
    for unit in extract_units(spoken):
        human = unit.row["origin"] == Origin.HUMAN
        logit = score_personal(unit.text, unit.news, unit.crowd, own, human)
        scored = ScoredSentence(unit.sentence, logit, count_words(unit.summary))
        if scored.probability >= MIN_PERSONAL[human]:
            yield Candidate(unit, scored, None, "personal")


def _find_coding_candidates(spoken: list[dict[str, Any]]) -> Iterator[Candidate]:
    """Yield sentences worth remembering, and what a person says of themselves; turned-down proposals are left out."""
    # messages of the model whose proposals the person's next message turns down: all since the person last spoke
    refused: set[str] = set()
    since: list[str] = []
    for row in spoken:
        if row["origin"] == Origin.MODEL:
            since.append(row["message_id"])
            continue
        if REFUSAL.search(row["text"][:200]):
            refused.update(since)
        since = []
    units = list(extract_units(spoken))
    short = sum(count_words(r["text"]) for r in spoken) <= 2 * MIN_BUDGET_CODING
    min_probability = MIN_CODING_SHORT if short else MIN_CODING
    # how likely each sentence is worth keeping, by either head
    texts, numbers = [unit.text for unit in units], [unit.numbers for unit in units]
    worth = load_worth_model().compute_worth(texts, numbers)
    standing = load_worth_model(STANDING_FILE).compute_worth(texts, numbers)
    # a person's words of themselves, and what reaches the least
    for unit, logit, stands in zip(units, worth, standing, strict=True):
        text, human = unit.text, unit.row["origin"] == Origin.HUMAN
        scored = ScoredSentence(unit.sentence, max(logit, stands), count_words(unit.summary))
        if human and lex.ABOUT_ME.search(text):
            yield Candidate(unit, scored, None, "personal")
        elif scored.probability >= (MIN_CODING_SAID if short and human else min_probability):
            if unit.row["message_id"] in refused and PROPOSAL.search(text):
                continue
            category = find_coding_category(text, human=human, words=count_words(unit.row["text"]))
            leans = unit.leans and unit.before is not None  # nobody is told what "it" is
            yield Candidate(unit, scored, category, "coding", replace(scored, logit=NEVER if leans else stands))


def _build_observation_row(claim: Candidate, more: Candidate | None) -> dict[str, Any]:
    """Return the row of a claim; `more` goes on from it."""
    unit, row = claim.unit, claim.row
    start, end, summary = unit.start, (more or claim).scored.sentence.end, unit.summary
    category = classify_personal(unit.text) if claim.category is None else claim.category
    # a short claim takes its next sentence along; what leans on another, the one before it or what it answers
    if more and claim.scored.words + more.scored.words <= SHORT:
        summary, more = f"{summary}. {strip_emphasis(more.scored.sentence.text)}", None
    detail = strip_emphasis(more.scored.sentence.text) if more else None
    before, cited = unit.before, [row["message_id"]]
    if detail is None and before and unit.leans:
        detail, start = strip_emphasis(before.text), before.start
    elif detail is None and unit.answered:
        detail, cited = unit.answered.text, [*cited, unit.answered.message_id]
    quote, files = row["text"][start:end], extract_file_paths(row["text"])[:3] if claim.pack == "coding" else ()
    return {
        "observation_id": compute_content_id(row["session_id"], category, quote, row["message_id"]),
        "session_id": row["session_id"],
        "workspace": row["workspace"],
        "summary": summary,
        "detail": detail,
        "category": category,
        "pack": claim.pack,
        "files": list(extract_file_paths(quote) or files),
        "quote": quote,
        "message_ids": cited,
        "speaker": row["speaker"],
        "confidence": (claim.standing or claim.scored).probability,
        "observed_at": row["ts"],
        "observer": EXTRACTIVE,
    }
