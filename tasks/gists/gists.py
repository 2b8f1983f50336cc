"""`build_gists`: messages in, one gist a message out: a summary far shorter than the text, and keywords.

Every message with text gets a row; a failure on one falls back (llm, extractive, truncated) and never loses it. The
extractive strategy needs no model and makes over 1,000 gists a second on one core. Each row depends on its message
alone, so that filling in what is missing gives what a whole run would have given.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from slowwave.schemas.tables import GISTS
from slowwave.tasks.gists.summary import (
    LEAST,
    NoSentence,
    rank_keywords,
    summarize_text,
    truncate_middle,
    truncate_words,
)

VERSION = 3
"""Raised when the method changes: gists made under an older one are pending again."""

KEYWORDS = 5
NEEDED = ["message_id", "session_id", "text"]
"""Columns of `messages` that are read."""


@dataclass(frozen=True, slots=True)
class Gist:
    """What one message boils down to; `strategy` is the one that made it."""

    summary: str
    keywords: tuple[str, ...] = ()
    strategy: Literal["llm", "extractive", "truncated"] = "extractive"


Summariser = Callable[[pa.Table], Mapping[str, Gist]]
"""A model's gists of messages (columns `NEEDED`), by message_id; the ones it could not make are left out."""


def build_gists(
    messages: pa.Table,
    strategy: Literal["llm", "extractive", "truncated"],
    step_key: str,
    llm: Summariser | None = None,
) -> pa.Table:
    """Return one row of `gists` a message whose text is not blank, in the messages' order.

    Args:
        messages: rows of `messages`; the columns `NEEDED` are read.
        strategy: `extractive`; `llm`, where what the model leaves out is done extractively; or `truncated`. A message
            without a sentence (code, a log) is truncated whatever the strategy. `off` is the caller's: no call.
        step_key: goes into every row.
        llm: makes the gists of the `llm` strategy.

    Raises:
        ValueError: the strategy is `llm` and there is no `llm`, or it is none of the three.
    """
    if strategy not in ("llm", "extractive", "truncated"):
        raise ValueError(f"gist strategy {strategy!r}: llm, extractive or truncated was expected")
    if strategy == "llm" and llm is None:
        raise ValueError("gist strategy 'llm' needs a model to be given as `llm`")
    rows = [row for row in messages.select(NEEDED).to_pylist() if row["text"].strip()]
    made = dict(llm(messages.select(NEEDED))) if strategy == "llm" and llm and rows else {}
    make = build_truncated_gist if strategy == "truncated" else build_extractive_gist
    return _build_gist_rows(rows, [made.get(row["message_id"]) or make(row["text"]) for row in rows], step_key)


def build_extractive_gist(text: str) -> Gist:
    """Return central sentences and ranked phrases of a text; the beginning of one that has no sentence."""
    try:
        found = summarize_text(text)
    except NoSentence:
        return build_truncated_gist(text)
    return Gist(found, tuple(rank_keywords(truncate_middle(text), KEYWORDS)), strategy="extractive")


def build_truncated_gist(text: str) -> Gist:
    """Return the first words of a text, and its ranked phrases."""
    start = truncate_middle(text)
    return Gist(truncate_words(start, LEAST), tuple(rank_keywords(start, KEYWORDS)), strategy="truncated")


def _build_gist_rows(rows: list[dict[str, Any]], made: list[Gist], step_key: str) -> pa.Table:
    """Return rows of the `gists` table."""
    columns = {
        "message_id": [row["message_id"] for row in rows],
        "session_id": [row["session_id"] for row in rows],
        "summary": [gist.summary for gist in made],
        "keywords": [list(gist.keywords) for gist in made],
        "strategy": [gist.strategy for gist in made],
        "step_key": [step_key] * len(rows),
    }
    return pa.Table.from_pydict(columns, schema=GISTS.schema)
