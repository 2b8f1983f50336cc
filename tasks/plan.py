"""`plan`: what a night would ask a language model, in tokens, seconds and money. Pure; nothing is generated.

Prompts that can be made already (claims, gists) are made and counted, and looked up in the completions cache. What
rests on answers that are not there yet (consolidation, topics, summaries) is estimated from how much goes in; such
lines are marked. How long answers are comes from earlier runs where there were any.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from slowwave.schemas.settings import LLMSettings, PyramidSettings
from slowwave.tasks.topics.by_model import SIZES

ANSWER_SHARE = 0.35
"""Tokens of claims over tokens of transcript, before anything was measured."""
GIST_ANSWER = 60
VERDICT_ANSWER = 30
"""Of a verdict on two claims: a quote and a word."""
PAIRS_A_CLAIM = 0.2
"""Pairs that a new claim makes: .06 in calm talk, .8 where all is about changes."""
LABELS_ANSWER = 30
"""Of labels of the claims that one is tied to."""
TIED_CLAIMS = 0.25
PAIRS_A_CLAIM_TIED = 1.6
"""New claims that others are tied to, and by how many relations each (LoCoMo)."""
CLAIMS_A_MESSAGE = 0.5
CLAIM_TOKENS = 40
TOPIC_TOKENS = 120
"""A topic as a prompt shows it, with its samples."""
PROMPT_TOKENS = 260
"""Of a prompt without its material."""


@dataclass(slots=True)
class Line:
    """What one step would ask."""

    step: str
    units: int = 0
    """Sessions, messages, claims or groups."""
    requests: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    """Expected."""
    cached: int = 0
    """Requests whose answers are kept: they cost nothing, and their tokens are not counted."""
    estimated: bool = False
    """Whether the prompts could not be made yet."""

    def add(self, prompt_tokens: int, answer_tokens: float, *, cached: bool = False) -> None:
        """Count one request."""
        self.requests += 1
        self.cached += cached
        if not cached:
            self.prompt_tokens += prompt_tokens
            self.answer_tokens += round(answer_tokens)


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """What earlier runs of a model showed."""

    answer_tokens: Mapping[str, float] = field(default_factory=dict)
    """Of an answer, by step."""
    answer_per_second: float | None = None


@dataclass(slots=True)
class Estimate:
    """A whole night's cost."""

    model: str
    sessions: int = 0
    skipped: int = 0
    messages: int = 0
    lines: list[Line] = field(default_factory=list)
    seconds: float | None = None
    """None where no rate is known: neither set nor measured."""
    usd: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def prompt_tokens(self) -> int:
        """Of all steps."""
        return sum(line.prompt_tokens for line in self.lines)

    @property
    def answer_tokens(self) -> int:
        """Expected, of all steps."""
        return sum(line.answer_tokens for line in self.lines)


def measure_usage(reports: Iterable[str], model: str) -> MeasuredUsage:
    """Return what the runs' reports (JSON, newest first) say of a model: the first hundred thousand tokens that are
    found.

    A run's seconds are spent on prompts and answers together. An answer token takes far longer than a prompt's, so
    all time is put to the answers, and prompts are taken as free: the total comes out right for nights of one kind.
    """
    requests: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    seconds = tokens = 0.0
    for report in reports:
        for step in orjson.loads(report).get("steps", []):
            counts = step["counts"]
            paid = counts.get(f"{model}: requests", 0) - counts.get(f"{model}: cache hits", 0)
            requests[step["step"]] += paid
            answers[step["step"]] += counts.get(f"{model}: answer tokens", 0)
            seconds += counts.get(f"{model}: milliseconds", 0) / 1000
            tokens += counts.get(f"{model}: answer tokens", 0)
        if tokens > 100_000:
            break
    means = {step: answers[step] / n for step, n in requests.items() if n > 0}
    return MeasuredUsage(means, tokens / seconds if tokens and seconds > 0.5 else None)


def add_costs(estimate: Estimate, settings: LLMSettings, known: MeasuredUsage) -> Estimate:
    """Return the estimate with money by the prices that are set, and time by the rate that was measured."""
    prompts, answers = estimate.prompt_tokens, estimate.answer_tokens
    estimate.usd = (
        prompts * settings.usd_per_million_prompt + answers * settings.usd_per_million_completion
    ) / 1_000_000
    if known.answer_per_second or prompts + answers == 0:
        estimate.seconds = answers / known.answer_per_second if known.answer_per_second else 0.0
    else:
        estimate.notes.append("no rate is known yet: the first run measures it")
    if settings.max_tokens is not None and prompts + answers > settings.max_tokens:
        nights = -(-(prompts + answers) // settings.max_tokens)
        estimate.notes.append(f"the budget of {settings.max_tokens:,} tokens a night makes this about {nights} nights")
    return estimate


def estimate_consolidation(chunks_by_session: Sequence[int], claims_a_chunk: float) -> Line:
    """Estimate the second prompts of the sessions that are cut into several chunks."""
    line = Line("consolidate", estimated=True)
    for chunks in chunks_by_session:
        if chunks > 1:
            line.units += 1
            line.add(PROMPT_TOKENS + round(chunks * claims_a_chunk * CLAIM_TOKENS), 20 * chunks)
    return line


def estimate_verdicts(line: Line, claims: int, most: int, answer: float) -> None:
    """Add to a line what judging the pairs costs that so many new claims make, at most so many pairs."""
    for _ in range(min(most, round(claims * PAIRS_A_CLAIM))):
        line.estimated = True
        line.add(PROMPT_TOKENS + 6 * CLAIM_TOKENS, answer)


def estimate_labels(line: Line, claims: int, most: int, answer: float) -> None:
    """Add to a line what labelling the relations of so many new claims costs, at most so many pairs."""
    for _ in range(round(min(most / PAIRS_A_CLAIM_TIED, claims * TIED_CLAIMS))):
        line.estimated = True
        line.add(PROMPT_TOKENS + round((1 + PAIRS_A_CLAIM_TIED) * CLAIM_TOKENS), answer)
    line.units = line.requests


def estimate_topics(claims: int, known_topics: int) -> Line:
    """Estimate what assigning new claims costs, and the purposes of topics."""
    line, batch = Line("assign", units=claims, estimated=True), SIZES.batch
    for at in range(0, claims, batch):
        size = min(batch, claims - at)
        topics_then = min(SIZES.shown, known_topics + at // batch + 3)
        line.add(PROMPT_TOKENS + size * CLAIM_TOKENS + topics_then * TOPIC_TOKENS, size * 14)
    for _ in range(claims // 40):
        line.add(PROMPT_TOKENS + 10 * CLAIM_TOKENS, 40)
    return line


def estimate_summaries(sessions: Sequence[Sequence[int]], claims: int, settings: PyramidSettings, window: int) -> Line:
    """Estimate the summaries of sessions (tokens of each one's new messages) and of topics over `claims` new claims."""
    line = Line("rollup", estimated=True)
    answer = settings.get_words(0) * 1.6
    for tokens in sessions:
        groups = len(tokens) // settings.n_sum
        read_again = 1 + settings.sum_window / settings.n_sum
        for n in range(groups):
            mine = sum(tokens[n * settings.n_sum : (n + 1) * settings.n_sum])
            line.add(min(window, PROMPT_TOKENS + round(mine * read_again)), answer)
        for _ in range(1, settings.max_sum_lvl):
            groups //= settings.n_sum_sum
            for _ in range(groups):
                line.add(PROMPT_TOKENS + round(settings.n_sum_sum * answer), answer)
        line.add(min(window, PROMPT_TOKENS + round(answer * 4)), answer)
    while claims >= settings.step:
        claims //= settings.step
        for _ in range(claims):
            line.add(PROMPT_TOKENS + settings.step * CLAIM_TOKENS, answer)
    line.units = line.requests
    return line


def read_token_counts(rows: Iterable[Mapping[str, Any]]) -> list[int]:
    """Return tokens of each message, by its row's own estimate."""
    return [int(row["tokens"]) for row in rows]
