"""The echo guard: text that recall returned before it was repeated is not new.

An echo is seldom a whole sentence ("As noted: we keep …, but …"), so each run of clauses is looked up, longest first.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from slowwave.store.logs import hash_span
from slowwave.text.sentences import split_sentences

CLAUSE = re.compile(r"[^:;,—–()\"“”]+")
MAX_CLAUSES = 8
"""Most clauses of a sentence to look up; a sentence with more is a list."""


def mask_echoes(
    text: str, said_at: datetime | None, recalled: Mapping[str, datetime]
) -> tuple[str, int]:
    """Return the text with every echo replaced by line breaks, at the same length, and the number of echoes.

    Args:
        text: a message's text.
        said_at: the time of the message. A message before the recall is the memory's source, not its echo. Without a
            time the text is returned unchanged.
        recalled: hash of a sentence -> when recall first returned it (`slowwave.store.logs`).
    """
    if not recalled or said_at is None:
        return text, 0
    masked = text
    echoes = 0
    for sentence in split_sentences(text):
        for start, end in _iter_clause_runs(sentence.text, sentence.start):
            at = recalled.get(hash_span(text[start:end]) or "")
            if at is not None and at < said_at and masked[start:end].strip():
                masked = masked[:start] + "\n" * (end - start) + masked[end:]
                echoes += 1
    return masked, echoes


def _iter_clause_runs(sentence: str, offset: int) -> Iterator[tuple[int, int]]:
    """Yield the places in the text of the whole sentence, then of every run of adjacent clauses, longest first."""
    yield offset, offset + len(sentence)
    clauses = [m.span() for m in CLAUSE.finditer(sentence)][:MAX_CLAUSES]
    for length in range(len(clauses), 0, -1):
        for first in range(len(clauses) - length + 1):
            yield offset + clauses[first][0], offset + clauses[first + length - 1][1]
