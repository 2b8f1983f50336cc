"""What the extractive observer keeps of LoCoMo's conversations, beside turns at random and LoCoMo's LLM facts.

    python -m bench.nights.observe locomo_open.json [--share 0.27] [--json]

Takes about a second a conversation. Columns: *evidence*, of the turns that answer some question the share that some
claim cites, then by category of question; *answers*, the share of the answers' content words that stand in some claim
(adversarial questions have none); *words*, words of claims (summary and detail) over words said; *cited*, the share of
all turns that are cited, which shows what evidence costs; *claims*; *messages/s* of the observer.
"""

import random
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from bench.harness import Figures, Row, average, run
from bench.recall.talks import (
    ADVERSARIAL,
    CATEGORIES,
    Conversation,
    Turn,
    build_message_rows,
    load_conversations,
)
from slowwave.schemas.settings import ObserveSettings
from slowwave.tasks.observe.observe import observe
from slowwave.tasks.observe.worth import extract_feature_words

Drawn = tuple[str, Sequence[str]]
"""Words kept, and the turns they are from."""


def measure(file: Path, *, share: float = ObserveSettings().max_share) -> Figures:
    """Return the mean of each method, and its figures of each conversation."""
    each = [
        row for one in load_conversations(file) for row in measure_methods(one, share)
    ]
    means = [
        {"method": row["method"], "conversation": "mean"} | row
        for row in average(each, "method")
    ]
    return Figures([*means, *each])


def measure_methods(one: Conversation, share: float) -> list[Row]:
    """Return every method on one conversation."""
    claims, rate = observe_claims(one, share)
    methods = {"extractive": claims, "random turns": draw_turns(one, share)}
    # At their own length.
    methods["LoCoMo's LLM facts"] = [(fact.text, fact.turns) for fact in one.facts]
    return [
        {
            "method": name,
            **score_claims(one, some),
            "messages/s": rate if some is claims else None,
        }
        for name, some in methods.items()
    ]


def observe_claims(one: Conversation, share: float) -> tuple[list[Drawn], float]:
    """Return the observer's claims, and messages a second."""
    table, start = build_message_rows(one), time.perf_counter()
    claims = observe(table, ObserveSettings(max_share=share)).claims.to_pylist()
    rate = table.num_rows / (time.perf_counter() - start)
    return [
        (f"{c['summary']} {c['detail'] or ''}".strip(), c["message_ids"])
        for c in claims
    ], rate


def draw_turns(one: Conversation, share: float) -> list[Drawn]:
    """Return turns by chance, the same ones each time, while the words last."""
    chance, left, kept = (
        random.Random(0),
        share * sum(map(count_turn_words, one.turns)),
        list[Drawn](),
    )
    for turn in sorted(one.turns, key=lambda _: chance.random(), reverse=True):
        if (words := count_turn_words(turn)) <= left:
            kept.append((turn.text, (turn.id,)))
            left -= words
    return kept


def count_turn_words(turn: Turn) -> int:
    """Return words of the turn."""
    return len(turn.text.split())


def score_claims(one: Conversation, claims: Sequence[Drawn]) -> Row:
    """Count evidence, answers, words and cited turns of one method's claims."""
    cited, kept = (
        {turn for _, turns in claims for turn in turns},
        _stem_words(text for text, _ in claims),
    )
    answers = [
        _stem_words([q.answer]) for q in one.questions if q.category != ADVERSARIAL
    ]
    return {
        "conversation": one.id,
        "evidence": _cover(cited, {turn for q in one.questions for turn in q.evidence}),
        **{
            name: _cover(
                cited,
                {
                    turn
                    for q in one.questions
                    if q.category == kind
                    for turn in q.evidence
                },
            )
            for kind, name in CATEGORIES.items()
        },
        "answers": fmean(len(kept & words) / len(words) for words in answers if words),
        "words": sum(len(text.split()) for text, _ in claims)
        / sum(map(count_turn_words, one.turns)),
        "cited": len(cited) / len(one.turns),
        "claims": len(claims),
    }


def _stem_words(texts: Iterable[str]) -> set[str]:
    return {
        re.sub(r"(?:ing|ed|es|s|ly)$", "", word)
        for text in texts
        for word in extract_feature_words(text)
    }


def _cover(found: set[str], wanted: set[str]) -> float | None:
    return len(found & wanted) / len(wanted) if wanted else None


if __name__ == "__main__":
    run(measure)
