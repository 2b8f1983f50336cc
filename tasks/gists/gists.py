"""`build_gists`: texts in, one gist a text out: the sentence nearest to the text's own vector, else its first words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import GIST
from slowwave.tasks.gists.keywords import count_phrases
from slowwave.text.sentences import split_sentences

VERSION = 6
"""Raised when the method changes: gists made under an older one are pending again."""
KEYWORDS = 5
READ = 20_000
LONGEST = 300
"""Characters of a text that are read, and of a summary."""


@dataclass(frozen=True, slots=True)
class Gist:
    """The gist of one message; `strategy` is the one that made it."""

    summary: str
    keywords: tuple[str, ...] = ()
    strategy: Literal["llm", "extractive", "truncated", "own"] = "extractive"


def summarize_text(text: str, encoder: Encoder | None = None) -> tuple[str, list[str]]:
    """Return a summary of a text and its keywords: the sentence nearest to it, and the phrases that stand out.

    Args:
        text: any; of more than `READ` characters the first are read.
        encoder: by whose vectors the sentence is found; None: the one that ships.
    """
    if not text.strip():
        return "", []
    chosen = encoder or load_encoder(Settings().encoder)
    (gist,) = build_gists([text], chosen.encode)
    return gist.summary, list(gist.keywords)


def find_own_gist(blocks: Sequence[Mapping[str, str | None]]) -> Gist | None:
    """Return the gist that a message's transcript has of it; None where it has none."""
    lines = next(
        (
            (block["text"] or "").splitlines()
            for block in blocks
            if block["name"] == GIST
        ),
        [],
    )
    return (
        Gist(lines[0], tuple(filter(None, lines[1:])), "own")
        if lines and lines[0]
        else None
    )


def build_gists(
    texts: Sequence[str], encode: Callable[[list[str]], Vectors] | None
) -> list[Gist]:
    """Return a gist of each text, which depends on that text alone.

    Args:
        texts: not blank.
        encode: makes unit vectors. Without it, as of a text without a sentence (code, a log), the first words are told.
    """
    texts = [text[:READ].strip() for text in texts]
    sentences_of = [
        [" ".join(part.text.split()) for part in split_sentences(text)]
        if encode
        else []
        for text in texts
    ]
    pieces = [
        piece
        for text, some in zip(texts, sentences_of, strict=True)
        if some
        for piece in (text, *some)
    ]
    vectors = iter(
        encode(pieces) if encode and pieces else np.empty((0, 0), np.float32)
    )
    gists = []
    for text, sentences in zip(texts, sentences_of, strict=True):
        summary = " ".join(text.split())
        if sentences:
            own = next(vectors)
            summary = sentences[
                int(np.argmax([own @ next(vectors) for _ in sentences]))
            ]
        if len(summary) > LONGEST:
            summary = summary[:LONGEST].rsplit(" ", 1)[0] + " …"
        gists.append(
            Gist(
                summary,
                tuple(count_phrases(text, KEYWORDS)),
                "extractive" if sentences else "truncated",
            )
        )
    return gists
