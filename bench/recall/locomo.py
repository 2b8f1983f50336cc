"""LoCoMo: how much of a question's evidence recall finds, beside BM25, vectors alone and plain rank fusion.

    python -m bench.recall.locomo FILE [--pool conversation|all] [--json] [--encoder NAME] [--reranker MODULE:CLASS]

Each conversation becomes a released store in a scratch folder and `Memory.recall` answers its questions, kind
`message`. Figures are the mean share of evidence turns among the first 5, 10, 25 and 50, over questions and over their
kinds. About 3 minutes a conversation on one core, nearly all of it the encoder's. `--reranker` adds a line for an
object of a class of yours, as `Memory.open(reranker=…)` takes it.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name

import bm25s  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import Stemmer  # type: ignore[import-not-found]
from rich.console import Console
from rich.progress import track

from bench.harness import build_parser, forbid_cached_answers, print_rows
from bench.recall.locomo_files import CATEGORIES, Conversation, Question, build_message_rows, load_conversations
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.memory import Memory
from slowwave.recall.search import Reranker
from slowwave.schemas.tables import MESSAGES, PASSAGES
from slowwave.store import Store
from slowwave.store.releases import publish
from slowwave.store.upkeep import compact_store
from slowwave.tasks.passages.cut import build_passages
from slowwave.tasks.vectors import add_vectors, encode_once

CUTS = (5, 10, 25, 50)
RRF_K = 60
SYSTEMS = ("BM25", "vectors", "plain RRF", "slowwave, no vectors", "slowwave")
"""BM25 and the vectors see the speaker before each turn, BM25 the date too."""
RERANKED = "slowwave, reranked"

Ranking = list[str]
"""Turn ids, best first."""


@dataclass(frozen=True)
class TurnCollection:
    """Turns that are searched together, and the questions about them."""

    name: str
    parts: tuple[Conversation, ...]

    @property
    def turns(self) -> list[tuple[str, str]]:
        """Id (unique in the pool) and text with date and speaker, for the rivals."""
        return [(f"{c.id}/{t.id}", f"{t.ts:%d %B %Y} {t.speaker}: {t.text}") for c in self.parts for t in c.turns]

    @property
    def asked(self) -> list[tuple[Question, frozenset[str]]]:
        """Questions that have evidence, and its ids."""
        some = [(q, frozenset(f"{c.id}/{e}" for e in q.evidence)) for c in self.parts for q in c.questions]
        return [(question, evidence) for question, evidence in some if evidence]


def build_pool_store(pool: TurnCollection, root: Path, encoder: Encoder | None) -> None:
    """Make a released store of the pool's turns, by the night's own steps."""
    store = Store.open(root, create=True)
    said = pa.concat_tables([_make_ids_unique(build_message_rows(c), c.id) for c in pool.parts])
    store.append(MESSAGES, said)
    rows = build_passages(said, "bench")
    if encoder is not None:
        rows = add_vectors(rows, "text", encode_once(rows["text"].to_pylist(), encoder))
    store.append(PASSAGES, rows)
    compact_store(store)
    publish(store, "bench", encoder.name if encoder else None)


def _make_ids_unique(rows: pa.Table, conversation: str) -> pa.Table:
    """Turn ids are unique in a conversation alone; here they carry its name."""
    ids = pa.array([f"{conversation}/{i}" for i in rows["message_id"].to_pylist()])
    at = rows.schema.names.index
    named = rows.set_column(at("message_id"), "message_id", ids).set_column(at("native_id"), "native_id", ids)
    return named.cast(MESSAGES.schema)


def recall_rankings(
    root: Path, questions: Sequence[str], encoder: Encoder | None, reranker: Reranker | None = None
) -> list[Ranking]:
    """Return what `Memory.recall` answers: the turns its hits cite, in order. A reranker that fails is logged."""
    memory = Memory.open(root, encoder=encoder, reranker=reranker)
    hits = (memory.recall(question, k=max(CUTS), kinds=("message",)) for question in questions)
    return [[source.message for hit in some for source in hit.sources] for some in hits]


def score_bm25(turns: Sequence[str], questions: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return BM25 scores, shape (questions, turns); Snowball stems, English stop words, k1 1.2, b .75."""
    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25(k1=1.2, b=0.75)
    index.index(bm25s.tokenize(list(turns), stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)
    asked = bm25s.tokenize(list(questions), stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False)
    return np.array([index.get_scores(words) if words else np.zeros(len(turns)) for words in asked], dtype=np.float64)


def fuse_rankings(scores: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Return reciprocal rank fusion of whole rankings; shapes (questions, turns)."""
    ranks = [(-some).argsort(axis=1, kind="stable").argsort(axis=1) for some in scores]
    fused: npt.NDArray[np.float64] = np.sum([1.0 / (RRF_K + 1 + rank) for rank in ranks], axis=0)
    return fused


def rank_all_systems(
    pool: TurnCollection, encoder: Encoder, reranker: Reranker | None = None
) -> dict[str, list[Ranking]]:
    """Return every system's answer to every question of the pool."""
    ids, texts = zip(*pool.turns, strict=True)
    questions = [question.text for question, _ in pool.asked]
    words = score_bm25(texts, questions)
    cosine = (
        _encode_texts(encoder, questions) @ _encode_texts(encoder, [_strip_date(text) for text in texts]).T
    ).astype(np.float64)
    scores = (words, cosine, fuse_rankings([words, cosine]))
    found = {name: [_select_top(ids, row) for row in some] for name, some in zip(SYSTEMS, scores, strict=False)}
    for name, used in ((SYSTEMS[3], None), (SYSTEMS[4], encoder)):
        with tempfile.TemporaryDirectory(prefix="slowwave-locomo-") as scratch:
            build_pool_store(pool, Path(scratch), used)
            found[name] = recall_rankings(Path(scratch), questions, used)
            if used is not None and reranker is not None:
                found[RERANKED] = recall_rankings(Path(scratch), questions, used, reranker)
    return found


def _encode_texts(encoder: Encoder, texts: Sequence[str]) -> Vectors:
    return encode_once(texts, encoder).vectors


def _strip_date(text: str) -> str:
    """Return a rival's turn without its date (three words)."""
    return text.split(" ", 3)[3]


def _select_top(ids: Sequence[str], scores: npt.NDArray[np.float64]) -> Ranking:
    return [ids[i] for i in np.argsort(-scores, kind="stable")[: max(CUTS)]]


def compute_recall_at(ranking: Ranking, evidence: frozenset[str]) -> list[float]:
    """Return share of the evidence among the first 5, 10, 25, 50."""
    return [len(evidence.intersection(ranking[:cut])) / len(evidence) for cut in CUTS]


def compute_recall_figures(
    pools: Sequence[TurnCollection], encoder: Encoder, reranker: Reranker | None = None
) -> list[dict[str, object]]:
    """Return a row a system, in percent of the evidence: over all questions and over their kinds at each cut, and of
    each kind among the first ten.
    """
    shares: dict[str, list[tuple[int, list[float]]]] = {name: [] for name in SYSTEMS}
    shares |= {RERANKED: []} if reranker is not None else {}
    for pool in track(pools, "conversations", console=Console(stderr=True)):
        for name, answers in rank_all_systems(pool, encoder, reranker).items():
            for (question, evidence), ranking in zip(pool.asked, answers, strict=True):
                shares[name].append((question.category, compute_recall_at(ranking, evidence)))
    rows = []
    for name, asked in shares.items():
        kinds = {kind: [row for category, row in asked if category == kind] for kind in CATEGORIES}
        means = {CATEGORIES[kind]: np.mean(some, axis=0) * 100 for kind, some in kinds.items() if some}
        micro, macro = np.mean([row for _, row in asked], axis=0) * 100, np.mean(list(means.values()), axis=0)
        rows.append(
            {
                "ranking": name,
                **{f"@{cut}": round(float(value), 1) for cut, value in zip(CUTS, micro, strict=True)},
                **{f"macro @{cut}": round(float(value), 1) for cut, value in zip(CUTS, macro, strict=True)},
                **{kind: round(float(values[1]), 1) for kind, values in means.items()},
            }
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = build_parser(__doc__, "file")
    parser.add_argument("--pool", choices=("conversation", "all"), default="conversation")
    parser.add_argument("--reranker", metavar="MODULE:CLASS")
    given = parser.parse_args()
    forbid_cached_answers()
    read = load_conversations(given.file)
    pools = [TurnCollection("all", tuple(read))] if given.pool == "all" else [TurnCollection(c.id, (c,)) for c in read]
    reranker = resolve_name(given.reranker)() if given.reranker else None
    title = "LoCoMo: evidence recall, %: mean over questions, and over kinds of question; by kind @10"
    print_rows(compute_recall_figures(pools, load_encoder(given.encoder), reranker), given.as_json, title)


if __name__ == "__main__":
    main()
