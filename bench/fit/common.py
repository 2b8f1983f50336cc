"""Counts how many labelled conversations use each word, for `slowwave.text.rarity`.

    python -m bench.fit.common [--labels data/labelled] [--write]

Only words in lower case count, so that names do not. A conversation is a file's `session_id` or `project`. Sets that
are sealed are not counted. Of languages other than English, of which there are fewer conversations, messages are
counted instead, words with a capital too: in German all nouns have one.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.fit.reader import SEALED
from bench.harness import LABELLED, ROOT, Figures, run
from slowwave.text.languages import ENGLISH, stem_in
from slowwave.text.rarity import COUNTS_FILE, LANGUAGES_FILE
from slowwave.text.words import JOINED, TERM, find_text_language, stem

SPOKEN = ("text", "content", "statement", "quote", "turns", "messages")
"""Keys under which people's words stand."""
FEWEST = 3
"""Conversations that have a word, for it to be written."""
LEAST_MESSAGES = 200
"""Messages in a language, for its words to be counted."""
OFTEN_BEFORE = 5
"""Places of a word before another one, for it to be written how often that one has a capital."""
TWICE = 2
"""Messages that have a word of such a language, for it to be written."""


def measure(*, labels: Path = LABELLED, write: bool = False) -> Figures:
    """Return the numbers of conversations and words; write the counts."""
    counts, conversations = count_words(labels)
    kept = {word: count for word, count in counts.items() if count >= FEWEST}
    if write:
        lines = [f"{word} {count}" for word, count in sorted(kept.items())]
        content = "\n".join([str(conversations), *lines, ""])
        (ROOT / "slowwave" / COUNTS_FILE).write_text(content, encoding="utf-8")
    languages = count_languages(labels)
    if write:
        content = "\n".join(map(format_language, sorted(languages.items()))) + "\n"
        (ROOT / "slowwave" / LANGUAGES_FILE).write_text(content, encoding="utf-8")
    rows = [{"conversations": conversations, "words": len(kept)}]
    return Figures([*rows, *map(describe_language, languages.items())])


@dataclass
class LanguageCounts:
    """The words of a language's messages."""

    messages: int = 0
    holding: Counter[str] = field(default_factory=Counter)
    """Stem -> messages that have it."""
    before: Counter[str] = field(default_factory=Counter)
    """Word -> places where a word follows it."""
    before_capital: Counter[str] = field(default_factory=Counter)
    """Word -> places where a word with a capital follows it."""

    def add(self, text: str, language: str) -> None:
        """Count a message."""
        words = TERM.findall(text)
        self.messages += 1
        self.holding.update({stem_in(word.lower(), language) for word in words})
        for word, following in pairwise(words):
            if following.isalpha():
                self.before[word.lower()] += 1
                self.before_capital[word.lower()] += following[0].isupper()


def count_languages(labels: Path) -> dict[str, LanguageCounts]:
    """Return the counts of the languages with spaces between words, of which there are messages enough."""
    counts: defaultdict[str, LanguageCounts] = defaultdict(LanguageCounts)
    for path in sorted(labels.glob("*.jsonl")):
        if SEALED in path.name:
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            for text in list_texts(json.loads(line)):
                language = find_text_language(text)
                if language not in (None, ENGLISH) and not JOINED.search(text):
                    counts[str(language)].add(text, str(language))
    return {
        language: count
        for language, count in counts.items()
        if count.messages >= LEAST_MESSAGES
    }


def format_language(item: tuple[str, LanguageCounts]) -> str:
    """Return a language's counts as lines: messages, then stems, then the words that others with a capital follow."""
    language, count = item
    stems = [
        f"{word} {number}"
        for word, number in sorted(count.holding.items())
        if number >= TWICE and word.isalpha()
    ]
    words = [
        f"{word} {number} {count.before_capital[word]}"
        for word, number in sorted(count.before.items())
        if number >= OFTEN_BEFORE and word.isalpha()
    ]
    return "\n".join([f"[{language}] {count.messages}", *stems, *words])


def describe_language(item: tuple[str, LanguageCounts]) -> dict[str, Any]:
    """Return a row of a language's numbers."""
    language, count = item
    words = sum(number >= TWICE for number in count.holding.values())
    return {"language": language, "messages": count.messages, "words": words}


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
    """Yield the spoken texts of a row."""
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
