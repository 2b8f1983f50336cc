"""LoCoMo: how much of a question's evidence recall finds, beside BM25, vectors alone and plain rank fusion.

    python -m bench.recall.locomo FILE [--json] [--encoder NAME]

Each conversation becomes a released store in a scratch folder and `Memory.recall` answers its questions, kind
`message`. Figures are the mean share of evidence turns among the first 5, 10, 25 and 50, in percent: over questions,
over their kinds (*macro*), and of each kind among the first ten. About 3 minutes a conversation on one core, nearly all
of it the encoder's.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.harness import ENCODER, Figures, average, run
from bench.recall.talks import (
    CATEGORIES,
    Conversation,
    build_message_rows,
    build_store,
    load_conversations,
    rank_down,
    score_bm25,
)
from slowwave import Memory
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import Encoder

CUTS = (5, 10, 25, 50)
RRF_K = 60

Ranking = Sequence[str]
"""Turn ids, best first."""


def measure(file: Path, *, encoder: str = ENCODER) -> Figures:
    """Return a row a way to rank."""
    model, rows = load_encoder(encoder), []
    for one in load_conversations(file):
        asked = [question for question in one.questions if question.evidence]
        for name, rankings in rank_turns(
            one, [question.text for question in asked], model
        ).items():
            for question, ranking in zip(asked, rankings, strict=True):
                shares = compute_recall_at(ranking, frozenset(question.evidence))
                rows.append(
                    {"ranking": name, "kind": CATEGORIES[question.category], **shares}
                )
    cuts = [f"@{cut}" for cut in CUTS]
    kinds = average(rows, "ranking", "kind")
    macro = average(kinds, "ranking")
    found = []
    for micro, mean in zip(average(rows, "ranking"), macro, strict=True):
        of_kind = {
            row["kind"]: row["@10"]
            for row in kinds
            if row["ranking"] == micro["ranking"]
        }
        shares = {cut: micro[cut] for cut in cuts} | {
            f"macro {cut}": mean[cut] for cut in cuts
        }
        shares |= {
            kind: of_kind[kind] for kind in CATEGORIES.values() if kind in of_kind
        }
        found.append(
            {
                "ranking": micro["ranking"],
                **{name: round(100 * share, 1) for name, share in shares.items()},
            }
        )
    return Figures(
        found,
        "LoCoMo: evidence recall, %: mean over questions, and over kinds of question; by kind @10",
    )


def rank_turns(
    one: Conversation, questions: Sequence[str], encoder: Encoder
) -> dict[str, list[Ranking]]:
    """Return each system's turns for each question; BM25 and the vectors see the speaker, BM25 the date too."""
    ids = np.array([turn.id for turn in one.turns])
    spoken = [f"{turn.speaker}: {turn.text}" for turn in one.turns]
    dated = [
        f"{turn.ts:%d %B %Y} {text}"
        for turn, text in zip(one.turns, spoken, strict=True)
    ]
    words = score_bm25(dated, questions)
    cosines = (encoder.encode(questions) @ encoder.encode(spoken).T).astype(np.float64)
    fused = sum(
        1.0 / (RRF_K + 1 + rank_down(scores).argsort(axis=1))
        for scores in (words, cosines)
    )
    rivals = {"BM25": words, "vectors": cosines, "plain RRF": fused}
    found = {
        name: [list(ids[row]) for row in rank_down(scores)]
        for name, scores in rivals.items()
    }
    prefix = f"{one.id}/"
    messages = build_message_rows(one, prefix)
    for name, used in (("slowwave, no vectors", None), ("slowwave", encoder)):
        with tempfile.TemporaryDirectory(prefix="slowwave-locomo-") as scratch:
            build_store(Path(scratch), messages, used)
            memory = Memory.open(scratch, encoder=used)
            hits = (
                memory.recall(
                    question, k=max(CUTS), kinds=("message",), everything=True
                )
                for question in questions
            )
            found[name] = [
                [
                    source.message.removeprefix(prefix)
                    for hit in some
                    for source in hit.sources
                ]
                for some in hits
            ]
    return found


def compute_recall_at(ranking: Ranking, evidence: frozenset[str]) -> dict[str, float]:
    """Return the share of the evidence among the first 5, 10, 25, 50."""
    return {
        f"@{cut}": len(evidence.intersection(ranking[:cut])) / len(evidence)
        for cut in CUTS
    }


if __name__ == "__main__":
    run(measure)
