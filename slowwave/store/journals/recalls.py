"""`recalls.jsonl`: what recall handed out, so that the next night does not take its echo for news.

One line a recall: when, and for each hit its id and the hashes of its sentences; never the words themselves. It lies in
the space's folder beside the tables and belongs to no release: readers write it without the writer's lock, each line in
one append. A line cut by a crash is passed over, and counted.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from slowwave.text.sentences import split_sentences
from slowwave.text.words import TERM

FILE = "recalls.jsonl"
MIN_WORDS = 4
"""Shorter sentences say the same by chance."""


def hash_span(sentence: str) -> str | None:
    """Return hash of a sentence's words, case and punctuation apart; None for one too short to be known again."""
    words = TERM.findall(sentence.casefold())
    if len(words) < MIN_WORDS:
        return None
    return hashlib.blake2b(" ".join(words).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def hash_spans(texts: Iterable[str]) -> list[str]:
    """Return hashes of the texts' sentences, sorted."""
    found = {hash_span(one.text) for text in texts for one in split_sentences(text)}
    whole = {hash_span(text) for text in texts}
    return sorted(h for h in found | whole if h)


def log_recall(space_dir: Path, hits: Mapping[str, Iterable[str]], at: datetime | None = None) -> bool:
    """Note what was handed out; False where the folder can't be written to, which costs the guard and nothing else.

    Args:
        space_dir: the space's folder.
        hits: id of each hit -> what of it was shown: its text and its quotes.
        at: when; now, unless given.
    """
    if not hits:
        return True
    line = {
        "at": (at or datetime.now(UTC)).isoformat(timespec="seconds"),
        "hits": [{"id": key, "spans": hash_spans(list(texts))} for key, texts in hits.items()],
    }
    return append_line(space_dir / FILE, line)


def append_line(path: Path, line: Mapping[str, object]) -> bool:
    """Add a line of JSON to a file of its owner's alone, in one append; False where that can't be written to.

    After a line that a full disk cut it begins a new one: else both would be lost.
    """
    raw = json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:  # a store that is mounted read-only
        return False
    try:
        if (size := os.fstat(handle).st_size) and os.pread(handle, 1, size - 1) != b"\n":
            raw = b"\n" + raw
        return os.write(handle, raw) == len(raw)
    except OSError:  # the disk is full
        return False
    finally:
        os.close(handle)


class RecalledSpans(dict[str, datetime]):
    """Hash of each sentence that was ever handed out -> when it first was."""

    unread = 0
    """Lines that were passed over."""


def load_recalled_spans(space_dir: Path) -> RecalledSpans:
    """Return what was ever handed out from this space."""
    first = RecalledSpans()
    for line in read_recalls(space_dir):
        if line is None:
            first.unread += 1
            continue
        for one in line.spans:
            first[one] = min(line.at, first.get(one, line.at))
    return first


@dataclass(frozen=True)
class Recall:
    """What was handed out at once."""

    at: datetime
    ids: frozenset[str]
    spans: frozenset[str]


def read_recalls(space_dir: Path) -> Iterator[Recall | None]:
    """Yield what each line says, the oldest first; None for one that says nothing."""
    path = space_dir / FILE
    if not path.is_file():
        return
    with path.open("rb") as stream:
        for raw in stream:
            try:
                line = json.loads(raw)
                at = datetime.fromisoformat(line["at"])
                ids = frozenset(str(hit["id"]) for hit in line["hits"])
                spans = frozenset(str(one) for hit in line["hits"] for one in hit["spans"])
            except (ValueError, KeyError, TypeError, RecursionError):  # cut by a crash, or written by hand
                yield None
                continue
            yield Recall(at if at.tzinfo else at.replace(tzinfo=UTC), ids, spans)
