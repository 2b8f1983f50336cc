"""Abstention: does recall, unasked, say nothing when the answer is not in the store? Beside a threshold on the cosine.

    python -m bench.recall.abstention LOCOMO_FILE [--threshold 0.5] [--stride 2] [--svg FILE] [--encoder NAME] [--json]
    python -m bench.recall.abstention --cases FILE…

Each conversation becomes a released, calibrated store, and is asked three kinds of questions: its own (*answered*);
its own after the turns that answer them are taken out, up to `GROUPS` sets of questions a conversation, each with a
store of its own (*removed*); and those of the other conversations (*foreign*). Each is put with `automatic`, since
whoever asks is always answered. Precision is the share of silences that are right, recall the share of unanswerable
questions met with silence; *lost* is the share of the evidence that ten hits hold for who asks and don't hold unasked.
Below the table, and drawn by `--svg`: of the questions by relevance, a tenth at a time, how many have an answer.
Needs about 2 minutes a conversation, nearly all of it the encoder's.

With `--cases`, FILEs are conversations with cases (`bench/recall/amendment_cases.py`): each becomes a store by a whole
night and is asked its own questions, all of them fair, and those of the other files (about half a minute a file).
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.progress import track

from bench.harness import build_parser, forbid_cached_answers, print_rows
from bench.plot import draw_curves
from bench.recall.amendment_cases import read_cases
from bench.recall.changes import run_night_over
from bench.recall.locomo import compute_recall_at
from bench.recall.locomo_files import Conversation, Question, build_message_rows, load_conversations
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import Encoder
from slowwave.memory import Memory
from slowwave.recall.hits import Hits
from slowwave.recall.release.calibration import fit_calibration
from slowwave.recall.release.view import View
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, PASSAGES
from slowwave.store import Store
from slowwave.store.releases import publish
from slowwave.store.upkeep import compact_store
from slowwave.tasks.passages.cut import build_passages
from slowwave.tasks.vectors import add_vectors, encode_once

GROUPS = 4
"""Stores with turns taken out, a conversation: taking out all answers at once would leave little to be wrong about."""
ADVERSARIAL = 5
KINDS = ("answered", "removed", "foreign")
ASKED = (("observation", "message", "summary"), ("observation",), ("message",))


@dataclass(frozen=True)
class AskedQuestion:
    """One question put to one store."""

    kind: str
    silent: bool
    """Whether it gets no hit unasked."""
    cosine: float
    found: float
    """Evidence recall at 10 for who asks."""
    unasked: float
    """The same unasked."""
    relevance: float
    """Of its best hit, as it is told."""


def build_passage_rows(conversation: Conversation, encoder: Encoder) -> pa.Table:
    """Return the conversation's passages, with their vectors."""
    rows = build_passages(build_message_rows(conversation), "bench")
    return add_vectors(rows, "text", encode_once(rows["text"].to_pylist(), encoder))


def build_reduced_store(
    conversation: Conversation, rows: pa.Table, without: set[str], root: Path, encoder: Encoder
) -> None:
    """Make a released and calibrated store of the conversation, less some turns."""
    store = Store.open(root, create=True)
    for table, some in ((MESSAGES, build_message_rows(conversation)), (PASSAGES, rows)):
        store.append(
            table, some.filter(pc.invert(pc.is_in(some["message_id"], pa.array(sorted(without), pa.string()))))
        )
    compact_store(store)
    publish(store, "bench", encoder.name, lambda draft: fit_calibration(View(store.dir, draft), encoder).to_json())


def ask_questions(
    root: Path, kind: str, questions: Sequence[Question], encoder: Encoder, vectors: pa.Table
) -> list[AskedQuestion]:
    """Return what recall says to who asks, and to who does not."""
    memory, texts = Memory.open(root, encoder=encoder), [question.text for question in questions]
    found = memory.recall_many(texts, k=10, kinds=("message",))
    unasked = memory.recall_many(texts, k=10, kinds=("message",), automatic=True)
    matrix = np.array(vectors["vector"].to_pylist(), dtype=np.float32)
    near = (encode_once(texts, encoder).vectors @ matrix.T).max(axis=1)
    return [
        AskedQuestion(
            kind,
            not told,
            float(cosine),
            _score_evidence(hits, question),
            _score_evidence(told, question),
            hits.relevance or 0.0,
        )
        for hits, told, cosine, question in zip(found, unasked, near, questions, strict=True)
    ]


def _score_evidence(hits: Hits, question: Question) -> float:
    if not question.evidence:
        return 0.0
    return compute_recall_at([source.message for hit in hits for source in hit.sources], frozenset(question.evidence))[
        1
    ]


def ask_about_conversation(
    conversation: Conversation, others: Sequence[Question], encoder: Encoder, stride: int
) -> list[AskedQuestion]:
    """Ask all three kinds of questions about one conversation."""
    rows = build_passage_rows(conversation, encoder)
    own = [q for q in conversation.questions if q.evidence and q.category != ADVERSARIAL][::stride]
    told: list[AskedQuestion] = []
    for group in range(-1, GROUPS):
        with tempfile.TemporaryDirectory(prefix="slowwave-abstention-") as scratch:
            mine = own if group < 0 else own[group::GROUPS]
            gone = set() if group < 0 else {turn for question in mine for turn in question.evidence}
            build_reduced_store(conversation, rows, gone, Path(scratch), encoder)
            left = rows.filter(pc.invert(pc.is_in(rows["message_id"], pa.array(sorted(gone), pa.string()))))
            told += ask_questions(Path(scratch), "answered" if group < 0 else "removed", mine, encoder, left)
            if group < 0:
                told += ask_questions(Path(scratch), "foreign", others, encoder, left)
    return told


def score_silence(
    asked: Sequence[AskedQuestion], kind: str, silent: Sequence[bool], kept: Sequence[float]
) -> dict[str, float]:
    """Return precision and recall of silence against one kind of unanswerable question, and what it costs, in
    percent.

    Args:
        kept: evidence recall that is left of each.
    """
    pairs = list(zip(asked, silent, strict=True))
    right = sum(quiet for one, quiet in pairs if one.kind == kind)
    wrong = sum(quiet for one, quiet in pairs if one.kind == "answered")
    found = [(one.found, share) for one, share in zip(asked, kept, strict=True) if one.kind == "answered"]
    left, total = sum(share for _, share in found), sum(share for share, _ in found)
    return {
        "precision": round(100 * right / max(right + wrong, 1), 1),
        "recall": round(100 * right / max(sum(one.kind == kind for one in asked), 1), 1),
        "evidence lost": round(100 * (total - left) / max(total, 1e-9), 1),
    }


def compute_abstention_scores(asked: Sequence[AskedQuestion], threshold: float) -> list[dict[str, object]]:
    """Return a row for each way of keeping silent and kind of question."""
    far = [one.cosine < threshold for one in asked]
    near = [0.0 if quiet else one.found for one, quiet in zip(asked, far, strict=True)]
    ways = {
        "recall, automatic": ([one.silent for one in asked], [one.unasked for one in asked]),
        f"cosine < {threshold} (fixed)": (far, near),
    }
    return [
        {"silence by": name, "asked": kind, **score_silence(asked, kind, silent, kept)}
        for name, (silent, kept) in ways.items()
        for kind in KINDS[1:]
    ]


def compute_calibration(asked: Sequence[AskedQuestion]) -> dict[str, list[float]]:
    """Return of each tenth of the questions, by relevance, its mean and the share of those that have an answer."""
    ranked = sorted(asked, key=lambda one: one.relevance)
    tenths = [ranked[len(ranked) * n // 10 : len(ranked) * (n + 1) // 10] for n in range(10)]
    return {
        "relevance": [float(np.mean([one.relevance for one in some])) for some in tenths if some],
        "have an answer": [float(np.mean([one.kind == "answered" for one in some])) for some in tenths if some],
    }


def measure_silenced_share(files: Sequence[Path]) -> list[dict[str, object]]:
    """Return share of the questions met with silence, unasked, in percent: by kinds of memory, and fair or foreign."""
    asked = {file: [case.query for case in read_cases([file])[1]] for file in files}
    silent: dict[tuple[str, str], list[bool]] = {}
    for file in track(files, "stores", console=Console(stderr=True)):
        foreign = [query for other in files if other != file for query in asked[other] if query not in asked[file]]
        with tempfile.TemporaryDirectory(prefix="slowwave-abstention-") as scratch:
            run_night_over(file, Settings(store=Path(scratch) / "store"))
            memory = Memory.open(Path(scratch) / "store")
            for kinds in ASKED:
                for name, queries in (("fair", asked[file]), ("foreign", foreign)):
                    found = memory.recall_many(queries, k=5, kinds=kinds, automatic=True)
                    silent.setdefault((", ".join(kinds), name), []).extend(not hits for hits in found)
    names = [", ".join(kinds) for kinds in ASKED]
    shares = {key: round(100 * float(np.mean(some)), 1) for key, some in silent.items()}
    return [{"kinds": kinds, "fair": shares[kinds, "fair"], "foreign": shares[kinds, "foreign"]} for kinds in names]


def main() -> None:
    """Measure and print."""
    parser = build_parser(__doc__, "file?")
    parser.add_argument("--cases", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--threshold", type=float, default=0.5)
    parser.add_argument("--stride", type=int, default=2, help="every n-th question")
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    forbid_cached_answers()
    if given.cases:
        print_rows(measure_silenced_share(given.cases), given.as_json, "questions met with silence, unasked, %")
        return
    if given.file is None:
        parser.error("a file of LoCoMo, or --cases")
    encoder, read, asked = load_encoder(given.encoder), load_conversations(given.file), list[AskedQuestion]()
    for one in track(read, "conversations", console=Console(stderr=True)):
        foreign = [q for c in read if c.id != one.id for q in c.questions][:: given.stride * 3]
        asked += ask_about_conversation(one, foreign, encoder, given.stride)
    curves = compute_calibration(asked)
    if given.svg:
        draw_curves(given.svg, "tenth of the questions", range(1, 1 + len(curves["relevance"])), curves)
    told = [f"relevance {said:.2f}: {so:.0%} have an answer" for said, so in zip(*curves.values(), strict=True)]
    print_rows(compute_abstention_scores(asked, given.threshold), given.as_json, "saying nothing unasked, %", told)


if __name__ == "__main__":
    main()
