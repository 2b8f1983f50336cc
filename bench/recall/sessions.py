"""Which past session a question or a report is about: S@1 and S@5 of three rankings, and how true their probability is.

    python -m bench.recall.sessions data/labelled/decisions_unseen.jsonl … [--store DIR] [--encoder NAME] [--json]

FILEs are conversations with what is asked of them (`bench/recall/talks.py`); of LoCoMo's each is a memory, in which the
session of the evidence is the right one. The rankings: sessions of recall's messages, BM25 over whole sessions, and
`Memory.sessions`. *Probability* is the mean that the last gives its first. 10 to 60 seconds a file, most of it the
night's.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.harness import ENCODER, SCRATCH, Figures, average, run
from bench.recall.talks import Talk, rank_down, read_talks, score_bm25
from slowwave import Memory
from slowwave.schemas.tables import PASSAGES

CUTS = (1, 5)
MESSAGES = 50
"""Of recall, from which its sessions are taken in order."""


def measure(
    files: Sequence[Path], *, store: Path = SCRATCH, encoder: str = ENCODER
) -> Figures:
    """Return a row a memory, and their mean."""
    talks = [talk for path in files for talk in read_talks(path)]
    shares = [
        row for talk in talks for row in ask_sessions(talk, talk.open(store, encoder))
    ]
    rows = average(shares, "memory", count="cases")
    mean = {"memory": "mean", **average(rows)[0], "cases": len(shares)}
    return Figures([*rows, mean], "the right session among the first")


def ask_sessions(talk: Talk, memory: Memory) -> Iterator[dict[str, object]]:
    """Yield for each question whether a right session is among the first of each ranking."""
    view = memory.get_view()
    names, texts = view.native_sessions, dict[str, list[str]]()
    for row in view.read(PASSAGES, ["session_id", "text"]).to_pylist():
        texts.setdefault(names.get(row["session_id"], row["session_id"]), []).append(
            row["text"]
        )
    words = score_bm25(
        ["\n".join(some) for some in texts.values()],
        [asked.text for asked in talk.asked],
    )
    for asked, ranked in zip(talk.asked, rank_down(words), strict=True):
        hits, sessions = (
            memory.recall(asked.text, MESSAGES, "message", everything=True),
            memory.sessions(asked.text, max(CUTS)),
        )
        rankings = {
            "recall's messages": list(
                dict.fromkeys(hit.sources[0].session for hit in hits)
            ),
            "BM25 of sessions": [list(texts)[at] for at in ranked],
            "Memory.sessions": [one.session for one in sessions],
        }
        right = {
            f"{name} @{cut}": bool(asked.sessions & set(ranking[:cut]))
            for name, ranking in rankings.items()
            for cut in CUTS
        }
        yield {
            "memory": talk.name,
            **right,
            "probability": sessions[0].probability if sessions else 0.0,
        }


if __name__ == "__main__":
    run(measure)
