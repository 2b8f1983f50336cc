"""Which replies stand beside what they answer: they may take it back, or say nothing without it.

A reply that only acknowledges stands nowhere. Of the others three kinds do, and each is found by what it has:

- it has few words ("no, undo that"): it is understood only beside what it answers
- it begins with a clause of few words that objects, by its letters ("that's not true, 14 of them failed")
- it is a short sentence that takes back what it answers, by the vectors of both ("two customers still need it")

One fitted model of letters and vectors finds fewer of the short ones (`docs/decisions/030-turns.md`).
"""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slowwave.engines.encoders.pair_reader import find_reader
from slowwave.recall.hits import LEANING_WORDS
from slowwave.recall.prompts import is_objection, only_assents, take_first_clause
from slowwave.recall.release.tables import build_matrix
from slowwave.recall.release.view import View
from slowwave.schemas.tables import PASSAGES
from slowwave.schemas.vocabulary import RETRACTED
from slowwave.text.words import extract_content_words

OBJECTING = 0.5
"""Log-odds from which a reply takes back what it replies to, by the reader of pairs
(`docs/decisions/048-agreements.md`)."""


class ReplyPlaces(NamedTuple):
    """Where a reply stands among the passages."""

    answered: int
    """The position of the last passage that it answers."""
    reply: int
    """That of its own first."""


def find_leaning_replies(
    view: View,
    replies: Mapping[ReplyPlaces, str],
) -> set[ReplyPlaces]:
    """Return the places of the replies that stand beside what they answer; `replies` has their texts."""
    leaning = set[ReplyPlaces]()
    unsure = list[ReplyPlaces]()
    for places, text in replies.items():
        if leans_by_words(text):
            leaning.add(places)
        elif has_few_words(text, 2 * LEANING_WORDS) and not only_assents(text):
            unsure.append(places)
    return leaning | _find_retracting(view, unsure)


def leans_by_words(reply: str) -> bool:
    """Return True if a reply has few words, or begins with an objection of few words, and does not only acknowledge."""
    if has_few_words(reply):
        return not only_assents(reply)
    first = take_first_clause(reply)
    return has_few_words(first) and not only_assents(first) and is_objection(first)


def has_few_words(text: str, most: int = LEANING_WORDS) -> bool:
    """Return True if a text has few content words."""
    return len(set(extract_content_words(text))) <= most


def _find_retracting(view: View, replies: Sequence[ReplyPlaces]) -> set[ReplyPlaces]:
    """Return the replies that likely take back what they answer, by the vectors of both."""
    reader = find_reader(view.release.encoder or "")
    if reader is None or not replies:
        return set()
    positions = np.array(replies, dtype=np.int64)
    offsets = view.passages.offsets[positions.ravel()]
    vectors = view.take(PASSAGES, offsets, ["vector"])["vector"].combine_chunks()
    is_known = vectors.is_valid().to_numpy(zero_copy_only=False)
    known = is_known.reshape(-1, 2).all(axis=1)
    both = build_matrix(vectors.filter(pa.array(np.repeat(known, 2))))
    odds = reader.read(both[::2], both[1::2])[:, reader.kinds.index(RETRACTED)]
    read = compress(replies, known)
    return {
        places
        for places, of_reply in zip(read, odds, strict=True)
        if of_reply >= OBJECTING
    }
