"""Keywords against KeyBERT called per document: the same keywords, how much faster, and how good they are.

    python -m bench.keywords INSPEC_FOLDER [--limit N] [--json] [--max-words N] [--diversity X]

The folder holds `N.txt` (an abstract) and `N.key` (its gold keyphrases, one a line), as Inspec does (Hulth 2003). F1 is
over exact matches of Porter stems, averaged over documents. All methods run in one process, with the same encoder;
600 abstracts take about five minutes on one core.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import Stemmer  # type: ignore[import-not-found]
from keybert import KeyBERT
from rich.console import Console
from rich.table import Table
from sklearn.feature_extraction.text import CountVectorizer

from slowwave.engines.encoders.load import load_original
from slowwave.engines.encoders.sentence_transformer import SentenceTransformerEncoder
from slowwave.schemas.settings import KeywordSettings
from slowwave.tasks.gists.keywords import NgramVectors, build_keybert, build_vectorizer, extract_keywords
from slowwave.text.words import TERM

RANKS = (5, 10, 15)
STEMMER = Stemmer.Stemmer("porter")
YAKE = {5: 13.9, 10: 17.7, 15: 18.8}
"""Published run of YAKE on Inspec, for reference."""


@dataclass(frozen=True)
class Document:
    """An abstract and its gold keyphrases, stemmed."""

    text: str
    gold: frozenset[str]


def load_documents(folder: Path, limit: int | None) -> list[Document]:
    """Return the folder's documents in order of their names.

    Raises:
        FileNotFoundError: there is no `N.txt` with its `N.key`.
    """
    found = [
        Document(
            path.read_text(),
            frozenset(filter(None, map(stem_phrase, path.with_suffix(".key").read_text().splitlines()))),
        )
        for path in sorted(folder.glob("*.txt"))[:limit]
    ]
    if not found:
        raise FileNotFoundError(f"{folder} holds no N.txt with N.key")
    return found


def stem_phrase(phrase: str) -> str:
    """Return the phrase's words, lower case, as Porter stems."""
    return " ".join(STEMMER.stemWords(TERM.findall(phrase.lower())))


def compute_f1(found: list[list[str]], docs: list[Document], rank: int) -> float:
    """Return harmonic mean of mean precision and mean recall of the first `rank` keywords, in percent."""
    precision, recall = [], []
    for words, doc in zip(found, docs, strict=True):
        picked = list(dict.fromkeys(map(stem_phrase, words)))[:rank]
        hits = len(doc.gold.intersection(picked))
        precision.append(hits / max(len(picked), 1))
        recall.append(hits / max(len(doc.gold), 1))
    p, r = float(np.mean(precision)), float(np.mean(recall))
    return 200 * p * r / (p + r) if p + r else 0.0


def extract_per_document(
    texts: list[str], model: KeyBERT, settings: KeywordSettings, words: CountVectorizer
) -> list[list[str]]:
    """Return KeyBERT called once a document."""
    return [
        [
            word
            for word, _ in model.extract_keywords(
                text, vectorizer=words, top_n=settings.top, use_mmr=True, diversity=settings.diversity
            )
        ]
        for text in texts
    ]


def time_call(work: Callable[[], list[list[str]]]) -> tuple[list[list[str]], float]:
    """Return what `work` returns, and the seconds it took."""
    start = time.perf_counter()
    done = work()
    return done, time.perf_counter() - start


def measure_keywords(
    docs: list[Document], encoder: SentenceTransformerEncoder, settings: KeywordSettings
) -> dict[str, object]:
    """Return quality of both sides at each rank, their agreement and their speed at `settings.top`."""
    texts = [doc.text for doc in docs]
    at = [settings.model_copy(update={"top": rank}) for rank in RANKS]
    words = build_vectorizer(settings)
    plain = CountVectorizer(ngram_range=(1, settings.max_words), stop_words="english")
    encoder.encode(texts[:1])  # warm
    vectors, vector_seconds = time_encoding(encoder, texts)
    ngrams = NgramVectors(encoder)
    ours, seconds = time_call(lambda: extract_keywords(texts, encoder, settings, vectors, ngrams))
    theirs, their_seconds = time_call(
        lambda: extract_per_document(texts, KeyBERT(model=encoder.model), settings, words)
    )
    cached = build_keybert(ngrams)  # the same vectors: only how often they are made differs
    return {
        "documents": len(docs),
        "settings": settings.model_dump(),
        "f1": {
            "slowwave": [compute_f1(extract_keywords(texts, encoder, s, vectors, ngrams), docs, s.top) for s in at],
            "KeyBERT per document, same candidates": [
                compute_f1(extract_per_document(texts, cached, s, words), docs, s.top) for s in at
            ],
            "KeyBERT per document, its own candidates": [
                compute_f1(extract_per_document(texts, cached, s, plain), docs, s.top) for s in at
            ],
        },
        "same_keywords": float(np.mean([a == b for a, b in zip(ours, theirs, strict=True)])),
        "same_keyword_sets": float(np.mean([set(a) == set(b) for a, b in zip(ours, theirs, strict=True)])),
        "docs_per_second": {
            "slowwave, claims' vectors at hand": len(docs) / seconds,
            "slowwave, their making included": len(docs) / (seconds + vector_seconds),
            "KeyBERT per document, same candidates": len(docs) / their_seconds,
        },
        "speed_ratio": their_seconds / seconds,
        "speed_ratio_with_document_vectors": their_seconds / (seconds + vector_seconds),
    }


def time_encoding(encoder: SentenceTransformerEncoder, texts: list[str]) -> tuple[np.ndarray, float]:
    """Return the documents' vectors, and the seconds they took."""
    start = time.perf_counter()
    vectors = encoder.encode(texts)
    return vectors, time.perf_counter() - start


def print_keyword_tables(figures: dict[str, object], console: Console) -> None:
    """Two tables and a line."""
    quality = Table("F1, exact stems", *(f"@{rank}" for rank in RANKS))
    rows = figures["f1"]
    speeds = figures["docs_per_second"]
    if not isinstance(rows, dict) or not isinstance(speeds, dict):
        raise TypeError("figures are not those of `measure_keywords`")
    for name, scores in rows.items():
        quality.add_row(name, *(f"{score:.1f}" for score in scores))
    quality.add_row("YAKE (reference, not run)", *(f"{YAKE[rank]:.1f}" for rank in RANKS))
    speed = Table("speed", "docs/s")
    for name, rate in speeds.items():
        speed.add_row(name, f"{rate:.2f}")
    console.print(quality)
    console.print(speed)
    console.print(
        f"same keywords in {figures['same_keywords']:.1%} of {figures['documents']} documents "
        f"(as sets {figures['same_keyword_sets']:.1%}); {figures['speed_ratio']:.1f} times as fast, "
        f"{figures['speed_ratio_with_document_vectors']:.1f} times with the documents' vectors made too"
    )


def main() -> None:
    """Run the command."""
    defaults = KeywordSettings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of N.txt and N.key")
    parser.add_argument("--limit", type=int, help="read only the first N documents")
    parser.add_argument("--max-words", type=int, default=defaults.max_words)
    parser.add_argument("--diversity", type=float, default=defaults.diversity)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    args = parser.parse_args()
    settings = KeywordSettings(top=defaults.top, max_words=args.max_words, diversity=args.diversity)
    encoder = load_original(args.encoder)  # both sides by one model: KeyBERT takes no other
    figures = measure_keywords(load_documents(args.folder, args.limit), encoder, settings)
    if args.json:
        print(json.dumps(figures))
    else:
        print_keyword_tables(figures, Console())


if __name__ == "__main__":
    main()
