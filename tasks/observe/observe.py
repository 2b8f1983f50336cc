"""`observe`: messages in, claims out, without a language model. About 1,000 messages a second on one core.

A claim is a part of a sentence that somebody said, with the text that is needed to understand it: its heading, the
sentence that continues it ("It was …"), the one that it leans on, or the question or proposal that it answers. The best
sentences are taken until the session's budget of words is spent; the budget grows with the worth of its sentences.
Everyday talk is scored by a few features (`bench/nights/observe.py` measures what they keep), but a person's words to
an agent by what they mean (`statements.py`). Talk about code is scored by a classifier trained on sentences labelled by
hand (`slowwave.tasks.observe.worth`, `bench/nights/worth.py`). Claims come from the words of people and models alone,
never from tool traffic, synthetic turns, questions or code.
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from slowwave.schemas.ids import compute_claim_id, compute_content_id
from slowwave.schemas.rows import ClaimRow, MessageRow
from slowwave.schemas.settings import ObserveSettings
from slowwave.schemas.tables import CLAIMS, GATES
from slowwave.schemas.vocabulary import EXTRACTIVE, Origin, count_turns, is_turn
from slowwave.tasks.job import digest_shipped
from slowwave.tasks.observe import categories as lex
from slowwave.tasks.observe.categories import classify_personal, find_coding_category
from slowwave.tasks.observe.coding import (
    PROPOSAL,
    REFUSAL,
    extract_file_paths,
    is_coding,
)
from slowwave.tasks.observe.layers import LAYERS_FILE
from slowwave.tasks.observe.reader import READER_FILE
from slowwave.tasks.observe.statements import (
    LIKELY,
    Statement,
    read_statements,
)
from slowwave.tasks.observe.units import (
    MIN_WORDS,
    PRONOUN,
    SpokenRow,
    Unit,
    collect_speakers,
    extract_units,
    is_adjacent,
    is_aided,
    strip_emphasis,
)
from slowwave.tasks.observe.worth import (
    NEVER,
    STANDING_FILE,
    WORTH_FILE,
    ScoredSentence,
    compute_log_odds,
    count_feature_words,
    load_worth_model,
    score_personal,
    select_within_budget,
)
from slowwave.text.foreign import LONGEST, keep_typed

VERSION = 29
"""Raised when the method changes: the sessions of claims made under an older version are pending again."""

PERSONAL_THRIFT = 0.7
CODING_THRIFT = 0.3
"""Power of a sentence's length by which its probability is divided. Over code it is low, since reasons take words."""
MIN_BUDGET = 90
MIN_BUDGET_AIDED = 100
MIN_BUDGET_CODING = 200
"""Words that the shortest session may spend: among people, with a model, about code. Three short messages may hold one
decision, and a person tells a model things to be remembered."""
MIN_CODING = 0.5
MIN_CODING_SHORT = 0.35
MIN_CODING_SAID = 0.2
"""Least probability of a coding claim: in general, in a short session, and of a person's sentence in a short session.
Of claims of real sessions outside the training data, a quarter above the second is noise, and most below it."""
MIN_PERSONAL = {True: 0.08, False: 0.03}
"""Least probability of a claim in everyday talk, by whether a person says it. Sentences below it hold nothing new."""

MIN_STATED = 0.2
"""Least share of the kinds that state something in those of a person's statement to an agent, in everyday talk."""
STATED_ODDS = -3.3
"""Log-odds added to this share, so that such statements spend as many words as other sentences of everyday talk."""

TYPICAL = 0.153
"""Typical share of the words of everyday talk that is worth keeping: each sentence's words times its probability. A
session with twice this share may keep twice as many words."""
SHORT = 25
"""Most words of two sentences that become one claim if the second continues the first."""

COLUMNS = (
    "claim_id",
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
    "utc_offset",
    "observer",
)
GATE_COLUMNS = (*GATES, "verified", "gate_reasons")
NOT_JUDGED: ClaimRow = {
    "reusable": None,
    "non_trivial": None,
    "specific": None,
    "verified": True,
    "gate_reasons": None,
}
"""Gates of a claim that a rule made: its quote is verbatim, and no model judged it."""
SCHEMA = pa.schema([CLAIMS.schema.field(c) for c in (*COLUMNS, *GATE_COLUMNS)])
NEEDED = [
    "message_id",
    "session_id",
    "seq",
    "role",
    "origin",
    "speaker",
    "blocks",
    "text",
    "ts",
    "utc_offset",
    "workspace",
    "source",
]
NAME_PREFIX = re.compile(r"^([A-Z][\w.'-]*(?: [A-Z][\w.'-]*)?): ")


@dataclass(frozen=True, slots=True)
class ObserveResult:
    """The claims of `observe`, and the sessions without any."""

    claims: pa.Table
    """Columns COLUMNS and GATE_COLUMNS of CLAIMS, in order of session, then of speech."""
    skipped: dict[str, str]
    """Session to the reason why it has no claims."""


@dataclass(frozen=True, slots=True)
class ClaimCandidate:
    """A sentence that may become a claim."""

    unit: Unit
    scored: ScoredSentence
    category: str | None
    """In the coding pack: the category, or "" if none is justified. In the personal pack: None, since the category is
    computed after the sentence is chosen."""
    pack: str
    standing: ScoredSentence | None = None
    """The sentence scored by whether it is worth showing without a query: in the coding pack, and of a statement."""
    statement: Statement | None = None
    """What a person tells an agent."""

    @property
    def row(self) -> SpokenRow:
        """The sentence's message."""
        return self.unit.row

    @property
    def place(self) -> tuple[int, int]:
        """Order of speech."""
        return self.row["seq"], self.scored.sentence.start

    @property
    def confidence(self) -> float:
        """Probability that it holds beyond its session; of a plan that it is one."""
        if self.statement is not None and self.category == "plan":
            return self.statement.reading.by_head["plan"]
        return (self.standing or self.scored).probability

    @property
    def is_told(self) -> bool:
        """Return True if it is a statement that may be shown unasked."""
        return self.statement is not None and self.statement.told >= LIKELY


def observe(
    messages: pa.Table,
    settings: ObserveSettings,
    min_messages: int = 2,
    *,
    in_layers: bool = True,
) -> ObserveResult:
    """Return claims of the sessions in `messages`.

    In: rows of MESSAGES, the active ones, of whole sessions, in any order. Out: a row for each claim, with the columns
    COLUMNS and GATE_COLUMNS. `quote` is a verbatim part of the first message in `message_ids`. If the claim answers a
    turn, that is the second message, and `detail` comes from it. `confidence` is the score as a probability; about code
    it is the probability that the claim is worth showing without a query, of a person's plan that it is one.

    In everyday talk the summaries have about `max_share` of the spoken words: more if the session lists facts, less if
    it is a log, and at least MIN_BUDGET. A session's claims depend on its own messages alone. Sessions of fewer than
    `min_messages` spoken messages (masked ones count), and those without a claim, are in `skipped`.
    With `in_layers`, what persons tell an agent is read by layers of the encoder that ships (`layers.py`).
    """
    sessions: dict[str, list[MessageRow]] = defaultdict(list)
    for row in messages.select(NEEDED).to_pylist():
        sessions[row["session_id"]].append(row)
    rows: list[ClaimRow] = []
    skipped: dict[str, str] = {}
    for session in sorted(sessions):
        all_rows = sorted(sessions[session], key=lambda row: row["seq"])
        spoken = [row for row in all_rows if is_turn(row)]
        if not spoken or count_turns(all_rows) < min_messages:
            skipped[session] = f"{len(spoken)} spoken messages, {min_messages} needed"
            continue
        coding = settings.pack == "coding" or (
            settings.pack != "personal" and is_coding(all_rows)
        )
        typed = list(map(_take_typed, _add_speakers(spoken)))
        claims = _build_claims(typed, coding, settings.max_share, in_layers=in_layers)
        if not claims:
            skipped[session] = f"no claim in {len(spoken)} spoken messages"
        rows += claims
    return ObserveResult(pa.Table.from_pylist(rows, schema=SCHEMA), skipped)


def _add_speakers(spoken: list[MessageRow]) -> list[MessageRow]:
    """Return the messages with speakers: if none is known and four in five texts open with `Name: `, that name."""
    prefixes = [NAME_PREFIX.match(row["text"]) for row in spoken]
    if (
        any(row["speaker"] for row in spoken)
        or sum(map(bool, prefixes)) * 5 < len(spoken) * 4
    ):
        return spoken
    names = (prefix[1] if prefix else None for prefix in prefixes)
    return [{**row, "speaker": name} for row, name in zip(spoken, names, strict=True)]


def _take_typed(row: MessageRow) -> SpokenRow:
    """Return a message with its `full_text`; the `text` of a person's is the part that was typed."""
    text = row["text"]
    typed = keep_typed(text) if row["origin"] == Origin.HUMAN else text
    return {**row, "text": typed, "full_text": text}


def compute_observe_key(settings: ObserveSettings) -> str:
    """Return a hash of what the claims depend on besides the messages: the version, the settings and the shipped
    models.
    """
    learnt = map(digest_shipped, (WORTH_FILE, STANDING_FILE, READER_FILE, LAYERS_FILE))
    return compute_content_id(
        "observe", EXTRACTIVE, str(VERSION), *learnt, settings.model_dump_json()
    )


def _build_claims(
    spoken: list[SpokenRow],
    coding: bool,
    max_share: float,
    *,
    in_layers: bool,
) -> list[ClaimRow]:
    """Return rows of one session's claims."""
    find = _find_coding_candidates if coding else _find_personal_candidates
    candidates = list(find(spoken, in_layers))
    min_budget = _get_min_budget(spoken, coding)
    worth = sum(c.scored.probability * c.scored.words for c in candidates)
    budget = max(int(max_share / TYPICAL * worth), min_budget)
    thrift = CODING_THRIFT if coding else PERSONAL_THRIFT
    # candidates that may be shown unasked are taken before the rest
    selected: list[ScoredSentence] = []
    for is_told in (True, False):
        left = budget - sum(s.words for s in selected)
        some = (c.scored for c in candidates if c.is_told == is_told)
        selected += select_within_budget(some, left, thrift)
    ids = set(map(id, selected))
    chosen = sorted(
        (c for c in candidates if id(c.scored) in ids), key=lambda c: c.place
    )
    return [
        _build_claim_row(claim, more) | NOT_JUDGED
        for claim, more in _pair_continuations(chosen)
    ]


def _get_min_budget(spoken: list[SpokenRow], coding: bool) -> int:
    """Return the words that a session may spend at least."""
    if coding:
        return MIN_BUDGET_CODING
    return MIN_BUDGET_AIDED if is_aided(spoken) else MIN_BUDGET


def _pair_continuations(
    chosen: Sequence[ClaimCandidate],
) -> Iterator[tuple[ClaimCandidate, ClaimCandidate | None]]:
    """Yield each candidate with the next one if that continues it, else with None. No candidate is yielded twice."""
    waiting = deque(chosen)
    while waiting:
        claim = waiting.popleft()
        continues = bool(waiting) and _continues(claim, waiting[0])
        yield claim, waiting.popleft() if continues else None


def _continues(claim: ClaimCandidate, following: ClaimCandidate) -> bool:
    """Return True if a sentence is next to the claim's in one message and opens with a pronoun ("It was …")."""
    if claim.row is not following.row:
        return False
    after = following.scored.sentence
    if after.item or PRONOUN.match(after.text) is None:
        return False
    return is_adjacent(claim.row["text"], claim.scored.sentence, after)


def _find_personal_candidates(
    spoken: list[SpokenRow], in_layers: bool
) -> Iterator[ClaimCandidate]:
    """Yield the sentences of everyday talk that reach MIN_PERSONAL, and what a person tells an agent for good."""
    _, own = collect_speakers(spoken)
    units = list(extract_units(spoken))
    aided = is_aided(spoken)
    statements = read_statements(units, in_layers=in_layers) if aided else {}
    for unit in units:
        if aided and unit.is_said:
            yield from _select_stated(statements.get(unit.key))
            continue
        logit = score_personal(
            text=unit.text,
            news=unit.spoken.news,
            crowd=unit.spoken.crowd,
            own=own,
            human=unit.is_said,
        )
        scored = ScoredSentence(unit.sentence, logit, count_feature_words(unit.summary))
        if scored.probability >= MIN_PERSONAL[unit.is_said]:
            yield ClaimCandidate(unit, scored, category=None, pack="personal")


def _select_stated(statement: Statement | None) -> Iterator[ClaimCandidate]:
    """Yield the claim of a person's statement to an agent in everyday talk, if it likely states something."""
    if statement is None:
        return
    unit = statement.unit
    scored = ScoredSentence(
        sentence=unit.sentence,
        logit=compute_log_odds(statement.stated) + STATED_ODDS,
        words=count_feature_words(unit.summary),
    )
    least = 0.0 if statement.stated >= MIN_STATED else LIKELY
    yield from _select_statement(
        statement=statement, scored=scored, least=least, pack="personal"
    )


def _find_coding_candidates(
    spoken: list[SpokenRow], in_layers: bool
) -> Iterator[ClaimCandidate]:
    """Yield sentences worth remembering, and persons' statements about themselves. Rejected proposals are left out."""
    refused = _find_refused_messages(spoken)
    units = list(extract_units(spoken))
    statements = read_statements(units, in_layers=in_layers)
    is_short = (
        sum(count_feature_words(row["text"]) for row in spoken) <= 2 * MIN_BUDGET_CODING
    )
    # the log-odds that each sentence is worth remembering, and worth showing without a query
    texts = [unit.text for unit in units]
    numbers = [unit.spoken.numbers for unit in units]
    worth = load_worth_model().compute_worth(texts, numbers)
    standing = load_worth_model(STANDING_FILE).compute_worth(texts, numbers)
    for unit, logit, standing_logit in zip(units, worth, standing, strict=True):
        scored = ScoredSentence(
            unit.sentence, max(logit, standing_logit), count_feature_words(unit.summary)
        )
        least = _get_min_probability(is_short, unit.is_said)
        is_about_me = unit.is_said and lex.ABOUT_ME.search(unit.text) is not None
        if unit.is_said:
            pack = "personal" if is_about_me else "coding"
            statement = statements.get(unit.key)
            yield from _select_statement(
                statement=statement, scored=scored, least=least, pack=pack
            )
        elif scored.probability < least:
            continue
        elif not (unit.row["message_id"] in refused and PROPOSAL.search(unit.text)):
            yield _build_coding_candidate(unit, scored, standing_logit)


def _select_statement(
    statement: Statement | None,
    scored: ScoredSentence,
    least: float,
    pack: str,
) -> Iterator[ClaimCandidate]:
    """Yield the claim of a person's statement, if it may be shown unasked or its score reaches the least.

    A log line, and a word or two that neither decide on a proposal nor go on with a sentence, are left out.
    """
    if statement is None or scored.logit == NEVER:
        return
    unit = statement.unit
    if count_feature_words(unit.summary) < MIN_WORDS and statement.proposal is None:
        return
    told = compute_log_odds(statement.told)
    scored = replace(scored, sentence=unit.sentence, logit=max(scored.logit, told))
    leans = unit.leans and unit.before is not None
    if statement.told >= LIKELY or scored.probability >= least:
        yield ClaimCandidate(
            unit,
            scored,
            category=statement.find_category(pack),
            pack=pack,
            standing=replace(scored, logit=NEVER if leans else told),
            statement=statement,
        )


def _find_refused_messages(spoken: list[SpokenRow]) -> set[str]:
    """Return ids of the model's messages whose proposals the person's next message rejects: all since the person last
    spoke.
    """
    refused: set[str] = set()
    since: list[str] = []
    for row in spoken:
        if row["origin"] == Origin.MODEL:
            since.append(row["message_id"])
            continue
        if REFUSAL.search(row["text"][:200]):
            refused.update(since)
        since = []
    return refused


def _get_min_probability(is_short: bool, human: bool) -> float:
    """Return the least probability of a coding claim, by the session's length and who speaks."""
    if not is_short:
        return MIN_CODING
    return MIN_CODING_SAID if human else MIN_CODING_SHORT


def _build_coding_candidate(
    unit: Unit,
    scored: ScoredSentence,
    standing_logit: float,
) -> ClaimCandidate:
    """Return a candidate of the coding pack. A sentence that leans on another is never shown without a query."""
    category = find_coding_category(unit.text, count_feature_words(unit.row["text"]))
    leans = unit.leans and unit.before is not None
    standing = replace(scored, logit=NEVER if leans else standing_logit)
    return ClaimCandidate(
        unit, scored, category=category, pack="coding", standing=standing
    )


@dataclass(frozen=True, slots=True)
class _ClaimText:
    """The texts of a claim, and where they come from."""

    summary: str
    detail: str | None
    quote: str
    message_ids: list[str]


def _compose_claim_text(
    claim: ClaimCandidate, more: ClaimCandidate | None
) -> _ClaimText:
    """Return the texts of a claim that `more` continues.

    An answer has the words of the proposal that it decides on. A short continuation becomes a part of the summary, and
    a long one the detail. Without a detail, the reason becomes it, the sentence that the claim leans on, or the turn
    that the claim answers.
    """
    unit = claim.unit
    statement = claim.statement
    proposal = statement.proposal if statement else None
    reason = statement.reason if statement else None
    summary = unit.summary
    detail = strip_emphasis(more.scored.sentence.text) if more else None
    if more and claim.scored.words + more.scored.words <= SHORT:
        summary = f"{summary}. {detail}"
        detail = None
    start = unit.start
    end = (more or claim).scored.sentence.end
    cited = [claim.row["message_id"]]
    if statement and proposal:
        summary = statement.word_with_proposal(summary)
        cited = [*cited, proposal.message_id]
    elif detail is None and reason:
        detail = strip_emphasis(reason.text)
        start = min(start, reason.start)
        end = max(end, reason.end)
    elif detail is None and unit.before and unit.leans:
        detail = strip_emphasis(unit.before.text)
        start = unit.before.start
    elif detail is None and unit.answered:
        detail = unit.answered.text
        cited = [*cited, unit.answered.message_id]
    return _ClaimText(
        summary=summary,
        detail=detail,
        quote=claim.row["text"][start:end],
        message_ids=cited,
    )


def _build_claim_row(claim: ClaimCandidate, more: ClaimCandidate | None) -> ClaimRow:
    """Return the row of a claim that `more` continues."""
    row = claim.row
    text = _compose_claim_text(claim, more)
    category = (
        classify_personal(claim.unit.text) if claim.category is None else claim.category
    )
    message_files = (
        extract_file_paths(row["full_text"][:LONGEST])[:3]
        if claim.pack == "coding"
        else ()
    )
    return {
        "claim_id": compute_claim_id(
            row["session_id"], row["message_id"], claim.unit.whole_sentence.text
        ),
        "session_id": row["session_id"],
        "workspace": row["workspace"],
        "summary": text.summary,
        "detail": text.detail,
        "category": category,
        "pack": claim.pack,
        "files": list(extract_file_paths(text.quote) or message_files),
        "quote": text.quote,
        "message_ids": text.message_ids,
        "speaker": row["speaker"],
        "confidence": claim.confidence,
        "observed_at": row["ts"],
        "utc_offset": row["utc_offset"],
        "observer": EXTRACTIVE,
    }
