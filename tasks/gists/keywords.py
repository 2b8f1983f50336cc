"""Find a text's keywords, the phrases nearest to its meaning, with KeyBERT (Grootendorst 2020).

The candidates are runs of words between stop words and punctuation. KeyBERT chooses among them by maximal marginal
relevance. It gets the vectors from here: the documents' are the claims' own, and each n-gram is encoded once for many
texts. The result is the same as calling KeyBERT for each document alone (docs/decisions/007-keywords.md).
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.tasks.gists.hidden_packages import hide_packages
from slowwave.text.languages import ENGLISH, find_stop_words
from slowwave.text.stop_words import UNKNOWN_MEMORY, MemoryWords
from slowwave.text.words import (
    ENGLISH_STOP,
    LETTER,
    UNSPACED,
    put_spaces,
)

BATCH_TEXTS = 256
"""Texts whose n-grams are encoded in one call."""
MOST_CANDIDATES = 100
"""Candidates of a text: the most frequent, of equals the first. Each is encoded."""
KEYBERT_OPTIONAL = {
    "sentence_transformers",
    "transformers",
    "huggingface_hub",
    "model2vec",
    "openai",
    "cohere",
    "langchain",
    "litellm",
}
"""Packages that KeyBERT imports if they are installed, for encoders and language models that are not used here."""
TOKEN = re.compile(
    rf"(?:(?<![\w.])[.@]|(?<!\S)--)?{LETTER}(?:[-./:@]{LETTER}|['’]{LETTER}|(?<=\d),\d{{3}}(?!\w))*(?:\+\+|#(?!\w))?"
    r"|[^\w\s]"
)
"""A word (`.env`, `--fix`, `src/app/main.py`, `3.11`, `snake_case`, `web-based`, `1,800`, `c++`), or a sign that ends a
run of words.
"""
CHAT_STOP = """
    actually also anyway awesome basically btw can cannot could did do does done e.g etc going gonna got great guess ha
    haha having hello hey hi hmm http https huh i.e just kind kinda let lol lot lots maybe mm mmm nah nope oh ok okay
    please pretty really right say said sort stuff sure thank thanks thing things totally uh um wanna want wanted wants
    way well went wow yea yeah yep yes
"""
"""Stop words of chats that scikit-learn's list lacks."""
JOIN = re.compile(rf"(?<={UNSPACED.pattern}) (?={UNSPACED.pattern})")
KEYWORD_STOP = ENGLISH_STOP.union(CHAT_STOP.split())


def extract_keywords(
    texts: Sequence[str],
    vectors: Vectors,
    encoder: Encoder,
    top: int,
    diversity: float = 0.3,
    memory: MemoryWords = UNKNOWN_MEMORY,
) -> list[list[str]]:
    """Return keywords of each text, the nearest first. A text without a candidate has none.

    Args:
        texts: any strings.
        vectors: the texts' vectors, shape (len(texts), dim).
        encoder: encodes the n-grams; an encoder that keeps vectors of earlier calls saves most of the time.
        top: the most keywords of a text.
        diversity: weight of the keywords' difference from each other, 0 to 1.
        memory: tells the language of a text, and its counted stop words.
    """
    keywords: list[list[str]] = []
    for start in range(0, len(texts) if top else 0, BATCH_TEXTS):
        batch = slice(start, start + BATCH_TEXTS)
        keywords += _pick_keywords(
            texts=texts[batch],
            vectors=vectors[batch],
            encoder=encoder,
            top=top,
            diversity=diversity,
            memory=memory,
        )
    return keywords or [[] for _ in texts]


def _pick_keywords(
    texts: Sequence[str],
    vectors: Vectors,
    encoder: Encoder,
    top: int,
    diversity: float,
    memory: MemoryWords,
) -> list[list[str]]:
    """Return the keywords of a batch of texts, chosen by KeyBERT among the phrases that the encoder reads.

    A text without a vector, or without such a phrase, gets those that take up most of it (`count_phrases`).
    """
    phrases = {
        text: {
            phrase
            for phrase, _ in Counter(extract_phrases(text, memory=memory)).most_common(
                MOST_CANDIDATES
            )
        }
        for text in texts
    }
    ngrams = sorted(set().union(*phrases.values()))
    ngram_vectors = encoder.encode(ngrams)
    is_read = [bool(vector.any()) for vector in ngram_vectors]
    vocabulary = [ngram for ngram, read in zip(ngrams, is_read, strict=True) if read]
    read = set(vocabulary)
    # KeyBERT raises an error if no text has a candidate.
    rows = [
        row
        for row, text in enumerate(texts)
        if vectors[row].any() and not read.isdisjoint(phrases[text])
    ]
    keywords = [
        [] if row in rows else count_phrases(text, top, memory=memory)
        for row, text in enumerate(texts)
    ]
    if not rows:
        return keywords
    from sklearn import config_context
    from sklearn.feature_extraction.text import CountVectorizer

    with config_context(assume_finite=True, skip_parameter_validation=True):
        # scikit-learn's checks of its input take about as long as the work itself.
        picked = load_keybert(encoder).extract_keywords(
            [texts[row] for row in rows],
            vectorizer=CountVectorizer(
                analyzer=phrases.__getitem__, vocabulary=vocabulary
            ),
            top_n=top,
            use_mmr=True,
            diversity=diversity,
            doc_embeddings=vectors[rows],
            word_embeddings=ngram_vectors[is_read],
        )
    # Of one text KeyBERT returns its keywords, not a list of lists.
    for row, scored in zip(rows, picked if len(rows) > 1 else [picked], strict=True):
        keywords[row] = [word for word, _ in scored]
    return keywords


def load_keybert(encoder: Encoder) -> Any:
    """Return a KeyBERT that uses our encoder.

    KeyBERT is imported without its optional packages: two of them import torch, which takes 3 to 15 s.
    """
    with hide_packages(KEYBERT_OPTIONAL):
        from keybert import KeyBERT
        from keybert.backend import BaseEmbedder

    class EncoderBackend(BaseEmbedder):  # type: ignore[misc]  # KeyBERT has no types
        """Encodes KeyBERT's texts with our encoder."""

        def embed(self, documents: Sequence[str], verbose: bool = False) -> Vectors:
            return encoder.encode([*documents])

    return KeyBERT(model=EncoderBackend())


def count_phrases(
    text: str,
    top: int,
    max_words: int = 3,
    memory: MemoryWords = UNKNOWN_MEMORY,
) -> list[str]:
    """Return without a model the runs of words that take up most of a text; of equals the first.

    A run of more than `max_words` words counts as pieces of equal length.
    """
    pieces = Counter(
        tuple(piece)
        for run in split_word_runs(text, memory)
        for piece in _split_evenly(run, max_words)
    )
    names = {
        name: count * len(piece)
        for piece, count in pieces.items()
        if not (name := join_words(piece)).replace(" ", "").isdecimal()
    }
    return sorted(names, key=lambda name: -names[name])[:top]


def _split_evenly(run: Sequence[str], longest: int) -> Iterator[Sequence[str]]:
    """Yield a run in as few pieces of at most `longest` words as there can be."""
    size = math.ceil(len(run) / math.ceil(len(run) / longest))
    for at in range(0, len(run), size):
        yield run[at : at + size]


def extract_phrases(
    text: str,
    max_words: int = 3,
    memory: MemoryWords = UNKNOWN_MEMORY,
) -> list[str]:
    """Return a text's candidates in lower case, with repeats: each word, and each run of words.

    A run of more than `max_words` words gives each window of that length. A number alone is not a candidate, but a
    version or a number with its noun is.
    """
    phrases: list[str] = []
    for run in split_word_runs(text, memory):
        phrases += [word for word in run if not word.replace(",", "").isdecimal()]
        size = min(len(run), max_words)
        if size > 1:
            phrases += [
                join_words(run[at : at + size]) for at in range(len(run) - size + 1)
            ]
    return phrases


def join_words(words: Sequence[str]) -> str:
    """Return the words as a phrase. There is no space between words of a script that is written without spaces."""
    return JOIN.sub("", " ".join(words))


def split_word_runs(
    text: str,
    memory: MemoryWords = UNKNOWN_MEMORY,
) -> Iterator[list[str]]:
    """Yield the runs of words between punctuation and the stop words of the text's language, in lower case.

    The stop words that were counted in the memory divide runs too.
    """
    run: list[str] = []
    language = memory.find_language(text)
    is_english = language in (None, ENGLISH)
    tokens = TOKEN.findall(put_spaces(text, endings=False).lower())
    parts = [token.replace("’", "'").partition("'") for token in [*tokens, "."]]
    words = {word for word, _, _ in parts}
    stop_words = KEYWORD_STOP if is_english else find_stop_words(words, language)
    stop_words = stop_words | memory.stop_words.get(language or "", frozenset())
    for word, apostrophe, ending in parts:
        if (
            len(word) > 1
            and word not in stop_words
            and (not apostrophe or ending == "s")
        ):
            run.append(word)
        elif run:
            yield run
            run = []
