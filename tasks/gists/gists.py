"""`build_gists`: texts in, one gist a text out: the sentence nearest to the text's own vector, else its first words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slowwave.engines.encoders.protocol import Vectors
from slowwave.tasks.gists.keywords import count_phrases
from slowwave.text.sentences import split_sentences

VERSION = 4
"""Raised when the method changes: gists made under an older one are pending again."""
KEYWORDS = 5
READ, LONGEST = 20_000, 300
"""Characters of a text that are read, and of a summary."""


@dataclass(frozen=True, slots=True)
class Gist:
    """What one message boils down to; `strategy` is the one that made it."""

    summary: str
    keywords: tuple[str, ...] = ()
    strategy: Literal["llm", "extractive", "truncated"] = "extractive"


def build_gists(texts: Sequence[str], encode: Callable[[list[str]], Vectors] | None) -> list[Gist]:
    """Return a gist of each text, which depends on that text alone.

    Args:
        texts: not blank.
        encode: makes unit vectors. Without it, as of a text without a sentence (code, a log), the first words are told.
    """
    texts = [text[:READ].strip() for text in texts]
    found = [[" ".join(one.text.split()) for one in split_sentences(text)] if encode else [] for text in texts]
    pieces = [piece for text, some in zip(texts, found, strict=True) if some for piece in (text, *some)]
    vectors = iter(encode(pieces) if encode and pieces else np.empty((0, 0), np.float32))
    gists = []
    for text, sentences in zip(texts, found, strict=True):
        summary = " ".join(text.split())
        if sentences:
            own = next(vectors)
            summary = sentences[int(np.argmax([own @ next(vectors) for _ in sentences]))]
        if len(summary) > LONGEST:
            summary = summary[:LONGEST].rsplit(" ", 1)[0] + " …"
        gists.append(Gist(summary, tuple(count_phrases(text, KEYWORDS)), "extractive" if sentences else "truncated"))
    return gists
