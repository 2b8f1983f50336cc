"""Abstention: does recall, unasked, say nothing when the answer is not in the store? Beside a threshold on the cosine.

    python -m bench.recall.abstention LOCOMO_FILE [--threshold 0.5] [--stride 2] [--encoder NAME] [--json]

Each conversation becomes a released, calibrated store, and is asked three kinds of questions: its own (*answered*); its
own after the turns that answer them are taken out, in `GROUPS` stores (*removed*); and those of the other conversations
(*foreign*). Each is put with `automatic`, since a direct call is always answered. Precision is the share of silences
that are right, recall the share of unanswerable questions met with silence, *answered, silent* that of the others;
*evidence lost* is the share of the evidence that ten hits of a direct call hold and those of an automatic call don't;
in percent. Below the table: of the questions by relevance, a tenth at a time, how many have an answer. About 2 minutes
a conversation, most of it the encoder's.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.progress import track

from bench.harness import ENCODER, Figures, Row, run
from bench.recall.locomo import compute_recall_at
from bench.recall.talks import (
    ADVERSARIAL,
    Conversation,
    Question,
    build_message_rows,
    build_store,
    load_conversations,
)
from slowwave import Memory
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import Encoder, KnownEncoder
from slowwave.recall.hits import Hits
from slowwave.schemas.tables import PASSAGES

GROUPS = 4
"""Stores with turns taken out, a conversation: taking out all answers at once would leave little to be wrong about."""


def measure(
    file: Path, *, threshold: float = 0.5, stride: int = 2, encoder: str = ENCODER
) -> Figures:
    """Return a row for each way of keeping silent and kind of question."""
    model, read = KnownEncoder(load_encoder(encoder)), load_conversations(file)
    found = [
        row
        for one in track(read, "conversations", console=Console(stderr=True))
        for row in ask_conversation(
            one,
            [q for other in read if other.id != one.id for q in other.questions][
                :: stride * 3
            ],
            model,
            stride,
        )
    ]
    asked = pl.DataFrame(found).with_columns(far=pl.col("cosine") < threshold)
    asked = asked.with_columns(near=pl.when("far").then(0.0).otherwise("found"))
    ways = (
        ("recall, automatic", "silent", "unasked"),
        (f"cosine < {threshold} (fixed)", "far", "near"),
    )
    rows = [
        {"silence by": name, "asked": kind, **score_silence(asked, kind, *columns)}
        for name, *columns in ways
        for kind in ("removed", "foreign")
    ]
    ranked = asked.sort("relevance", maintain_order=True)
    tenths = [
        ranked[ranked.height * n // 10 : ranked.height * (n + 1) // 10]
        for n in range(10)
    ]
    notes = [
        f"relevance {some['relevance'].mean():.2f}: {(some['kind'] == 'answered').mean():.0%} have an answer"
        for some in tenths
        if some.height
    ]
    return Figures(rows, "saying nothing unasked, %", notes)


def ask_conversation(
    one: Conversation, others: Sequence[Question], encoder: Encoder, stride: int
) -> Iterator[Row]:
    """Ask all three kinds of questions about one conversation."""
    messages = build_message_rows(one)
    own = [q for q in one.questions if q.evidence and q.category != ADVERSARIAL][
        ::stride
    ]
    yield from ask_store(messages, encoder, {"answered": own, "foreign": others})
    for mine in (own[group::GROUPS] for group in range(GROUPS)):
        gone = pa.array(
            {turn for question in mine for turn in question.evidence}, pa.string()
        )
        yield from ask_store(
            messages.filter(pc.invert(pc.is_in(messages["message_id"], gone))),
            encoder,
            {"removed": mine},
        )


def ask_store(
    messages: pa.Table, encoder: Encoder, asked: Mapping[str, Sequence[Question]]
) -> Iterator[Row]:
    """Yield the results of recall on a memory of these messages, asked and unasked, by the kind of question."""
    with tempfile.TemporaryDirectory(prefix="slowwave-abstention-") as scratch:
        build_store(Path(scratch), messages, encoder)
        memory = Memory.open(Path(scratch), encoder=encoder)
        matrix = np.array(
            memory.get_view().read(PASSAGES, ["vector"])["vector"].to_pylist(),
            dtype=np.float32,
        )
        for kind, questions in asked.items():
            texts = [question.text for question in questions]
            found, unasked = (
                memory.recall_many(
                    texts, 10, "message", automatic=automatic, everything=True
                )
                for automatic in (False, True)
            )
            near = (encoder.encode(texts) @ matrix.T).max(axis=1).tolist()
            for question, hits, told, cosine in zip(
                questions, found, unasked, near, strict=True
            ):
                shares = {
                    "found": _score_evidence(hits, question),
                    "unasked": _score_evidence(told, question),
                }
                yield {
                    "kind": kind,
                    "silent": not told,
                    "cosine": cosine,
                    **shares,
                    "relevance": hits.relevance,
                }


def _score_evidence(hits: Hits, question: Question) -> float:
    if not question.evidence:
        return 0.0
    cited = [source.message for hit in hits for source in hit.sources]
    return compute_recall_at(cited, frozenset(question.evidence))["@10"]


def score_silence(
    asked: pl.DataFrame, kind: str, silent: str, kept: str
) -> dict[str, float]:
    """Return precision and recall of silence against one kind of unanswerable question, and what it costs.

    Args:
        asked: the questions.
        kind: which of them can't be answered.
        silent: column of whether a question is met with silence.
        kept: column of the evidence that is left of each.
    """
    answered, other = (
        asked.filter(pl.col("kind") == name) for name in ("answered", kind)
    )
    right, wrong, total = (
        other[silent].sum(),
        answered[silent].sum(),
        answered["found"].sum(),
    )
    shares = {
        "precision": right / max(right + wrong, 1),
        "recall": right / max(other.height, 1),
        "answered, silent": wrong / max(answered.height, 1),
        "evidence lost": (total - answered[kept].sum()) / max(total, 1e-9),
    }
    return {name: round(100 * share, 1) for name, share in shares.items()}


if __name__ == "__main__":
    run(measure)
