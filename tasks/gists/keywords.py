"""`extract_keywords`: texts in, the phrases nearest to each text's meaning out, with KeyBERT (Grootendorst 2020).

KeyBERT does the scoring, over batches. What it would embed again for every document is embedded once: n-gram vectors
are cached across batches and the documents' vectors are the claims' own. The keywords are those of KeyBERT called per
document with the same candidates (docs/decisions/008-keywords.md has what that saves). The candidates are runs of words
between stop words and punctuation, as `extract_phrases` cuts them.
"""

import re
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.text.words import ENGLISH_STOP

VERSION = 2
"""Raised when the method changes: keywords made under an older one are pending again."""

BATCH_TEXTS = 256
"""Texts KeyBERT sees at once: enough to fill the encoder's batches with their n-grams."""

if TYPE_CHECKING:
    pass


class NgramVectors:
    """KeyBERT's model: an encoder that remembers the `size` n-grams last used (100,000 are about 160 MB at 384
    dimensions). Share one across calls.
    """

    def __init__(self, encoder: Encoder, size: int = 100_000) -> None:
        self.encoder, self.size = encoder, size
        self.encoded = 0
        """N-grams the encoder was asked for."""
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()

    def embed(self, documents: Sequence[str], verbose: bool = False) -> Vectors:
        """Return unit vectors of n-grams, shape (len(documents), dim)."""
        words = [str(word) for word in documents]
        missing = [word for word in words if word not in self._vectors]
        self.encoded += len(missing)
        self._vectors.update(zip(missing, self.encoder.encode(missing), strict=True))
        vectors = np.empty((len(words), self.encoder.dim), dtype=np.float32)
        for row, word in enumerate(words):
            vectors[row] = self._vectors[word]
            self._vectors.move_to_end(word)
        while len(self._vectors) > self.size:
            self._vectors.popitem(last=False)
        return vectors


def extract_keywords(
    texts: pa.Array | pa.ChunkedArray | Sequence[str | None],
    encoder: Encoder,
    top: int,
    document_vectors: Vectors | None = None,
    ngrams: NgramVectors | None = None,
) -> list[list[str]]:
    """Return keywords of each text, the nearest first; none for a null text or one without a candidate.

    Args:
        texts: strings, in Arrow or in a sequence.
        encoder: makes the vectors of the n-grams, and of the texts where none are given.
        top: how many, at most.
        document_vectors: the texts' own vectors, shape (len(texts), dim), if they are at hand.
        ngrams: vectors kept from earlier calls; this call adds to them.

    Raises:
        ValueError: `document_vectors` has not one row a text.
    """
    plain = texts.to_pylist() if isinstance(texts, (pa.Array, pa.ChunkedArray)) else list(texts)
    if document_vectors is not None and len(document_vectors) != len(plain):
        raise ValueError(f"{len(plain)} texts came with {len(document_vectors)} vectors: one a text was expected")
    found: list[list[str]] = [[] for _ in plain]
    if top == 0:
        return found
    backend = ngrams or NgramVectors(encoder)
    candidates = [extract_phrases(text or "") for text in plain]
    rows = [row for row, words in enumerate(candidates) if words]  # one text without any empties KeyBERT's whole batch
    for start in range(0, len(rows), BATCH_TEXTS):
        batch = rows[start : start + BATCH_TEXTS]
        vectors = encoder.encode([plain[r] for r in batch]) if document_vectors is None else document_vectors[batch]
        for row, words in zip(
            batch, _rank_candidates([candidates[r] for r in batch], vectors, backend, top), strict=True
        ):
            found[row] = words
    return found


def build_keybert(ngrams: NgramVectors) -> Any:
    """Return KeyBERT over the shared vectors."""
    with hide_torch():
        from keybert import KeyBERT
        from keybert.backend import BaseEmbedder

    class Backend(BaseEmbedder):  # type: ignore[misc]  # KeyBERT has no types
        def embed(self, documents: Sequence[str], verbose: bool = False) -> Vectors:
            return ngrams.embed(documents, verbose)

    return KeyBERT(model=Backend())


@contextmanager
def hide_torch() -> Iterator[None]:
    """Let KeyBERT be imported as where neither sentence-transformers nor transformers is installed.

    It imports those where it can, and so torch, which takes 3 to 15 s; the vectors here are made without.
    """
    hidden = {"sentence_transformers", "transformers"} - sys.modules.keys()
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is Python's own way to say: not there
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def _rank_candidates(
    candidates: list[list[str]], vectors: Vectors, backend: NgramVectors, top: int, diversity: float = 0.3
) -> list[list[str]]:
    """Return KeyBERT's keywords of one batch of texts, given as their candidates so that they are not cut up twice
    again; `diversity` weighs their difference from each other (maximal marginal relevance).
    """
    from sklearn.feature_extraction.text import CountVectorizer

    scored: list[Any] = build_keybert(backend).extract_keywords(
        candidates,  # the vectorizer takes them as they are, and nothing else reads the texts
        vectorizer=CountVectorizer(analyzer=list),
        top_n=top,
        use_mmr=True,
        diversity=diversity,
        doc_embeddings=vectors,
    )
    if len(candidates) == 1:  # then KeyBERT returns that text's keywords, not a list of one
        scored = [scored]
    return [[word for word, _ in pairs] for pairs in scored]


TOKEN = re.compile(
    r"(?:(?<![\w.])[.@]|(?<!\S)--)?\w+(?:[-./:@]\w+|['’]\w+|(?<=\d),\d{3}(?!\w))*(?:\+\+|#(?!\w))?|[^\w\s]"
)
"""`.env`, `--fix`, `src/app/main.py`, `3.11`, `snake_case`, `web-based`, `1,800`, `c++`; or one sign: a border."""

IDLE_WORDS = """
    actually also anyway awesome basically btw can cannot could did do does done e.g etc going gonna got great guess ha
    haha having hello hey hi hmm http https huh i.e just kind kinda let lol lot lots maybe mm mmm nah nope oh ok okay
    please pretty really right say said sort stuff sure thank thanks thing things totally uh um wanna want wanted wants
    way well went wow yea yeah yep yes
"""
"""Stop words of chats that scikit-learn's list lacks."""

STOP_WORDS = ENGLISH_STOP.union(IDLE_WORDS.split())


def extract_phrases(text: str, max_words: int = 3) -> list[str]:
    """Return lower-cased candidates, repeats included: each run of words, in windows of `max_words`, and each word of
    it.

    A number alone is none; a version or a number with its noun is.
    """
    found: list[str] = []
    for run in split_word_runs(text):
        found += [word for word in run if not word.replace(",", "").isdecimal()]
        size = min(len(run), max_words)
        if size > 1:
            found += [" ".join(run[at : at + size]) for at in range(len(run) - size + 1)]
    return found


def split_word_runs(text: str) -> Iterator[list[str]]:
    """Yield lower-cased words that stand together, between stop words and punctuation."""
    run: list[str] = []
    for token in TOKEN.findall(text.lower()):
        word = normalise_token(token)
        if word:
            run.append(word)
        elif run:
            yield run
            run = []
    if run:
        yield run


def normalise_token(token: str) -> str:
    """Return the token without a possessive 's; nothing for stop words, single letters, signs and contractions."""
    word, apostrophe, ending = token.replace("’", "'").partition("'")
    if (apostrophe and ending != "s") or len(word) < 2 or word in STOP_WORDS:
        return ""
    return word
