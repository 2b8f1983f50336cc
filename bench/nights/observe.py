"""What the extractive observer keeps of LoCoMo's conversations, beside choices of whole turns and LoCoMo's LLM facts.

    python -m bench.nights.observe locomo_open.json [--share 0.27] [--json]

Takes about a second a conversation. Columns: *evidence*, of the turns that answer some question the share that some
claim cites, then by category of question; *words*, words of claims (summary and detail) over words said; *cited*, the
share of all turns that are cited, which shows what evidence costs; *answers*, the share of the answers' content words
that stand in some claim (adversarial questions have none and count for evidence alone); *messages/s* of the observer.
"""

import random
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from bench.harness import build_parser, print_rows
from bench.recall.locomo_files import CATEGORIES, Conversation, Turn, build_message_rows, load_conversations
from slowwave.schemas.settings import ObserveSettings
from slowwave.tasks.observe.lexicon import FIRST_PERSON
from slowwave.tasks.observe.observe import observe
from slowwave.tasks.observe.scores import extract_content_words

ADVERSARIAL = 5


@dataclass(frozen=True, slots=True)
class Claim:
    """Words kept, and the turns they are from."""

    text: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """One method on one conversation or on the mean of several."""

    method: str
    conversation: str
    evidence: float
    by_category: dict[str, float]
    answers: float
    words: float
    cited: float
    claims: float
    per_second: float | None = None


def observe_claims(conversation: Conversation, share: float) -> tuple[list[Claim], float]:
    """Return the observer's claims, and messages a second."""
    table = build_message_rows(conversation)
    start = time.perf_counter()
    claims = observe(table, ObserveSettings(max_share=share)).claims.to_pylist()
    rate = table.num_rows / (time.perf_counter() - start)
    return [Claim(f"{c['summary']} {c['detail'] or ''}".strip(), tuple(c["message_ids"])) for c in claims], rate


def collect_llm_facts(conversation: Conversation) -> list[Claim]:
    """Return the facts LoCoMo's authors had an LLM write; at their own length, whatever the share asked for."""
    return [Claim(f.text, f.turns) for f in conversation.facts]


def select_whole_turns(conversation: Conversation, share: float, rank: Callable[[Turn], float]) -> list[Claim]:
    """Return turns by falling rank while the words last."""
    left = share * sum(len(t.text.split()) for t in conversation.turns)
    kept = []
    for turn in sorted(conversation.turns, key=rank, reverse=True):
        words = len(turn.text.split())
        if words <= left:
            kept.append(Claim(turn.text, (turn.id,)))
            left -= words
    return kept


def make_random_rank() -> Callable[[Turn], float]:
    """Return the same random order on every run."""
    rng = random.Random(0)
    return lambda turn: rng.random()


def count_turn_words(turn: Turn) -> float:
    """Return words of the turn."""
    return len(turn.text.split())


def score_first_person(turn: Turn) -> float:
    """Return first-person words, less the questions asked."""
    return len(FIRST_PERSON.findall(turn.text)) - 2 * turn.text.count("?") + count_turn_words(turn) / 1000


def score_claims(method: str, c: Conversation, claims: list[Claim], per_second: float | None = None) -> Result:
    """Count evidence, answers, words and cited turns of one method's claims."""
    cited = {t for claim in claims for t in claim.turns}
    evidence = {t for q in c.questions for t in q.evidence}
    by_category = {
        name: _compute_coverage(cited, {t for q in c.questions if q.category == k for t in q.evidence})
        for k, name in CATEGORIES.items()
    }
    said = sum(count_turn_words(t) for t in c.turns)
    words = sum(len(claim.text.split()) for claim in claims) / said
    answers = _compute_answer_coverage(c, claims)
    shares = _compute_coverage(cited, evidence), by_category, answers, words, len(cited) / len(c.turns)
    return Result(method, c.id, *shares, claims=len(claims), per_second=per_second)


def _compute_answer_coverage(c: Conversation, claims: list[Claim]) -> float:
    """Return share of each answer's content words that stand in some claim, mean over the questions that have an
    answer.
    """
    kept = _stem_words(claim.text for claim in claims)
    answers = [_stem_words([q.answer]) for q in c.questions if q.category != ADVERSARIAL]
    return _average_known([_compute_coverage(kept, a) for a in answers if a])


def _stem_words(texts: Iterable[str]) -> set[str]:
    return {re.sub(r"(?:ing|ed|es|s|ly)$", "", w) for text in texts for w in extract_content_words(text)}


def _compute_coverage(found: set[str], wanted: set[str]) -> float:
    return len(found & wanted) / len(wanted) if wanted else float("nan")


def _average_known(values: Iterable[float]) -> float:
    known = [v for v in values if v == v]
    return sum(known) / len(known) if known else float("nan")


def measure_methods(c: Conversation, share: float) -> list[Result]:
    """Return every method on one conversation."""
    claims, rate = observe_claims(c, share)
    return [
        score_claims("extractive", c, claims, rate),
        score_claims("random turns", c, select_whole_turns(c, share, make_random_rank())),
        score_claims("longest turns", c, select_whole_turns(c, share, count_turn_words)),
        score_claims("first person over questions", c, select_whole_turns(c, share, score_first_person)),
        score_claims("LoCoMo's LLM facts", c, collect_llm_facts(c)),
    ]


def average_results(results: list[Result]) -> Result:
    """Return mean over conversations of one method's results."""
    rates = [r.per_second for r in results if r.per_second is not None]
    return Result(
        results[0].method,
        "mean",
        _average_known(r.evidence for r in results),
        {name: _average_known(r.by_category[name] for r in results) for name in CATEGORIES.values()},
        answers=_average_known(r.answers for r in results),
        words=_average_known(r.words for r in results),
        cited=_average_known(r.cited for r in results),
        claims=_average_known(r.claims for r in results),
        per_second=_average_known(rates) if rates else None,
    )


def main() -> None:
    """Measure and print."""
    parser = build_parser(__doc__, "locomo")
    parser.add_argument(
        "--share", type=float, default=ObserveSettings().max_share, help="words of claims over words said"
    )
    given = parser.parse_args()
    each = [measure_methods(c, given.share) for c in load_conversations(given.locomo)]
    means = [average_results(list(of_method)) for of_method in zip(*each, strict=True)]
    rows = [asdict(result) for result in [*means, *(result for of_one in each for result in of_one)]]
    print_rows([{**row, **row.pop("by_category")} for row in rows], given.as_json)


if __name__ == "__main__":
    main()
