"""Check notes that you keep by hand (CLAUDE.md, MEMORY.md) against a memory of what was really said.

    python docs/examples/check_notes.py MEMORY.md [--store STORE] [--space SPACE]

Each sentence of the file is looked up. Printed are those that a later session changed, and those that nothing in the
memory supports. The file is only read.
"""

import argparse
from pathlib import Path

from rapidfuzz import fuzz

from slowwave import Memory
from slowwave.text.sentences import split_sentences

LEAST_WORDS = 3
"""Shorter pieces are headings and labels."""
SUPPORTED = 0.5
"""Relevance of the nearest memory from which a sentence counts as supported."""


def check_notes(path: Path, memory: Memory) -> list[tuple[str, str]]:
    """Return (sentence, finding) of each sentence that a later session changed or that nothing supports."""
    sentences = [
        sentence.text for sentence in split_sentences(path.read_text(encoding="utf-8"))
    ]
    sentences = [text for text in sentences if len(text.split()) >= LEAST_WORDS]
    findings = []
    for text, hits in zip(
        sentences, memory.recall_many(sentences, kinds="claim"), strict=True
    ):
        same = max(hits, key=lambda hit: fuzz.ratio(text, hit.text), default=None)
        if same and same.successor:
            findings.append((text, f"changed: {same.successor.text}"))
        elif hits.relevance < SUPPORTED:
            findings.append(
                (
                    text,
                    f"unsupported: the nearest memory has relevance {hits.relevance:.2f}",
                )
            )
    return findings


def main() -> None:
    """Print the findings of one file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--space")
    args = parser.parse_args()
    for text, finding in check_notes(args.path, Memory.open(args.store, args.space)):
        print(f"- {text}\n    {finding}")


if __name__ == "__main__":
    main()
