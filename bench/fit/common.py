"""Counts how many labelled conversations use each word, for `slowwave.text.rarity`.

    python -m bench.fit.common [--labels data/labelled] [--write]

Only words in lower case count, so that names do not. A conversation is a file's `session_id` or `project`. Sets that
are sealed are not counted.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.fit.reader import SEALED
from bench.harness import LABELLED, ROOT, Figures, run
from slowwave.text.rarity import COUNTS_FILE
from slowwave.text.words import TERM, stem

SPOKEN = ("text", "content", "statement", "quote", "turns", "messages")
"""Keys under which people's words stand."""
FEWEST = 3
"""Conversations that have a word, for it to be written."""


def measure(*, labels: Path = LABELLED, write: bool = False) -> Figures:
    """Return the numbers of conversations and words; write the counts."""
    counts, conversations = count_words(labels)
    kept = {word: count for word, count in counts.items() if count >= FEWEST}
    if write:
        lines = [f"{word} {count}" for word, count in sorted(kept.items())]
        content = "\n".join([str(conversations), *lines, ""])
        (ROOT / "slowwave" / COUNTS_FILE).write_text(content, encoding="utf-8")
    return Figures([{"conversations": conversations, "words": len(kept)}])


def count_words(labels: Path) -> tuple[Counter[str], int]:
    """Return in how many conversations each word's stem stands, and the number of conversations."""
    words: dict[tuple[str, str], set[str]] = {}
    for path in sorted(labels.glob("*.jsonl")):
        if SEALED in path.name:
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            name = str(row.get("session_id") or row.get("project") or "")
            said = words.setdefault((path.name, name), set())
            for text in list_texts(row):
                said |= {stem(word) for word in TERM.findall(text) if is_plain(word)}
    return Counter(word for said in words.values() for word in said), len(words)


def is_plain(word: str) -> bool:
    """Return True for a word of lower-case letters alone."""
    return word.isalpha() and word.islower()


def list_texts(value: Any) -> Iterator[str]:
    """Yield what is said in a row."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from list_texts(part)
    elif isinstance(value, dict):
        for key in SPOKEN:
            yield from list_texts(value.get(key))


if __name__ == "__main__":
    run(measure)
