"""Summarise single texts without a model: by the sentence nearest to the text's own vector, else by its first words."""

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

VERSION = 8
"""Raised when the method changes: gists made under an older one are pending again."""
KEYWORDS = 5
READ = 20_000
LONGEST = 300
"""Most characters of a text that are read (READ), and of a summary (LONGEST)."""


@dataclass(frozen=True, slots=True)
class Gist:
    """The gist of one message; `strategy` is the one that made it."""

    summary: str
    keywords: tuple[str, ...] = ()
    strategy: Literal["llm", "extractive", "truncated", "own"] = "extractive"


def summarize_text(text: str, encoder: Encoder | None = None) -> tuple[str, list[str]]:
    """Return a text's summary and at most `KEYWORDS` keywords: "" and no keywords for a blank text.

    Args:
        text: any text; only its first `READ` characters are read.
        encoder: makes the vectors; None for the default encoder.
    """
    if not text.strip():
        return "", []
    chosen = encoder or load_encoder(Settings().encoder)
    (gist,) = build_gists([text], chosen.encode)
    return gist.summary, list(gist.keywords)


def find_own_gist(blocks: Sequence[Mapping[str, str | None]]) -> Gist | None:
    """Return the gist of a message that its transcript has, or None if it has none."""
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
    """Return a gist of each text. It depends on that text alone.

    Args:
        texts: texts that are not blank.
        encode: makes unit vectors. Without it, and for a text without a sentence (code, a log), the summary is the
            text's first words.
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
