"""The logs beside the tables in a space's folder: one file of JSON lines for each kind of entry.

Lines are appended, each with one write and without the writer's lock. A line that a crash truncated is skipped. Logs
are not part of a release. Only a forgetting rewrites a file.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from slowwave.schemas.errors import StoreUnwritable
from slowwave.store.private import replace_file
from slowwave.text.sentences import split_sentences
from slowwave.text.words import TERM

LOG = logging.getLogger(__name__)
LogLine = dict[str, Any]
MIN_WORDS = 4
"""Words of a sentence below which it has no hash: shorter ones are equal by chance."""


class Recall(NamedTuple):
    """The results of one recall, without text, so that the next night does not distil them as news."""

    at: str
    """ISO, as in all entries."""
    hits: list[dict[str, Any]]
    """The `id` of each hit, and the hashes of its sentences as `spans`."""

    @property
    def spans(self) -> frozenset[str]:
        """Hashes of all sentences."""
        return frozenset(str(span) for hit in self.hits for span in hit["spans"])

    @property
    def ids(self) -> frozenset[str]:
        """Ids of all hits."""
        return frozenset(str(hit["id"]) for hit in self.hits)


class Rating(NamedTuple):
    """A rating of a memory that was returned; the last one for an id counts."""

    at: str
    id: str
    kind: str
    """The kind of the rated memory: claim, message, summary, topic or session."""
    verdict: str
    """good or bad."""
    why: str


class Asked(NamedTuple):
    """The cost of an answer, without text or ids."""

    at: str
    kind: str
    """recall, sessions, context, automatic (a context requested by a hook) or briefing."""
    seconds: float
    encoding: float
    """The part of `seconds` that the encoder took to load and run."""
    hits: int
    """Hits, or lines from the memory."""
    tokens: int
    budget: int
    """Tokens a block may have; 0 for hits, as `tokens`."""
    warnings: int
    """Number of failures: an encoder that failed, a store that can't be read."""
    web: str
    """Why the web was queried; empty if it was not."""


INCLUDED = "included"


class Review(NamedTuple):
    """A person's verdict on a note; the last one counts. Or a person's permission for a file, by its path, to change
    messages of other files' sessions.
    """

    at: str
    id: str
    verdict: str
    """confirmed or rejected; for a file `INCLUDED`."""


class Added(NamedTuple):
    """A file that added a person's message to a session which was first read from another file."""

    at: str
    session: str
    path: str


class Export(NamedTuple):
    """An export of the space: a folder of tables or a file of learnings. A forgetting searches it."""

    at: str
    path: str
    form: str
    release: str


E = TypeVar("E", Recall, Asked, Rating, Review, Added, Export)
FILES: dict[type, str] = {
    Recall: "recalls.jsonl",
    Asked: "asked.jsonl",
    Rating: "ratings.jsonl",
    Review: "reviews.jsonl",
    Added: "additions.jsonl",
    Export: "exports.jsonl",
}


def format_now() -> str:
    """Return the current time, as entries have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def append(
    space_dir: Path, entry: Recall | Asked | Rating | Review | Added | Export
) -> None:
    """Add an entry to the file of its kind.

    Raises:
        StoreUnwritable: the folder's disk is full or read-only.
    """
    path = space_dir / FILES[type(entry)]
    try:
        append_lines(path, format_line(entry._asdict()))
    except OSError as trouble:
        raise StoreUnwritable(
            space_dir, f"{path.name} can't be appended to: {trouble}"
        ) from trouble


def append_lines(path: Path, raw: bytes, *, durable: bool = False) -> None:
    """Append lines to a private file with one write.

    If the last line was truncated (by a full disk), a new one is begun: else both lines would be lost.

    Raises:
        OSError: the lines can't be written, or only a part of them.
    """
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if (size := os.fstat(handle).st_size) and os.pread(
            handle, 1, size - 1
        ) != b"\n":
            raw = b"\n" + raw
        if (written := os.write(handle, raw)) != len(raw):
            raise OSError(
                f"only {written} of {len(raw)} bytes could be written to {path}"
            )
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)


def format_line(line: Mapping[str, object]) -> bytes:
    """Return a line of a file; lone surrogates are replaced."""
    return (
        json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode(
            "utf-8", "replace"
        )
        + b"\n"
    )


def parse_line(raw: bytes) -> LogLine:
    """Parse a line as an object; return an empty one if it is truncated or invalid."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return line if isinstance(line, dict) else {}


def read(space_dir: Path, kind: type[E]) -> list[E]:
    """Return the readable entries of a kind, oldest first."""
    path = space_dir / FILES[kind]
    entries = list[E]()
    for line in map(
        parse_line, path.read_bytes().splitlines() if path.is_file() else ()
    ):
        with suppress(KeyError, TypeError, ValueError):
            datetime.fromisoformat(line["at"])
            entry = kind(**{name: line[name] for name in kind._fields})
            if isinstance(entry, Recall):
                _ = entry.ids, entry.spans
            entries.append(entry)
    return entries


def rewrite(path: Path, keep: Callable[[LogLine], LogLine | None]) -> int:
    """Rewrite a file of lines, and return how many lines were changed or dropped.

    A line that can't be parsed is dropped, since nobody can tell whom it is about. The new file is renamed over the old
    one, and lines that were appended to the old one meanwhile are copied. A file that would be empty is deleted. A file
    that would not change is not written.

    Args:
        path: the file, which need not exist.
        keep: returns what a line becomes, or None to drop it.
    """
    if not path.is_file():
        return 0
    with path.open("rb") as old:
        lines = [(raw, parse_line(raw)) for raw in old.read().splitlines()]
        rows = [(raw, line, _keep_line(line, keep)) for raw, line in lines]
        if not (
            changed := sum(fresh is None or fresh != line for _, line, fresh in rows)
        ):
            return 0
        # the kept lines replace the file; lines that were appended meanwhile are added below
        content = b"".join(
            raw + b"\n" if fresh == line else format_line(fresh)
            for raw, line, fresh in rows
            if fresh is not None
        )
        replace_file(path, content)
        late = old.read()
    if late:
        append_lines(path, late)
    elif not content:
        path.unlink()
    return changed


def _keep_line(
    line: LogLine, keep: Callable[[LogLine], LogLine | None]
) -> LogLine | None:
    try:
        return keep(line) if line else None
    except (KeyError, TypeError, ValueError):
        return None


def hash_span(sentence: str) -> str | None:
    """Return a hash of a sentence's words, without case and punctuation; None if it has too few words."""
    words = TERM.findall(sentence.casefold())
    if len(words) < MIN_WORDS:
        return None
    return hashlib.blake2b(
        " ".join(words).encode("utf-8", "surrogatepass"), digest_size=8
    ).hexdigest()


def hash_spans(texts: Iterable[str]) -> list[str]:
    """Return the hashes of the texts' sentences and of the whole texts, sorted."""
    spans = [
        span
        for text in texts
        for span in (text, *(sentence.text for sentence in split_sentences(text)))
    ]
    return sorted({hashed for span in spans if (hashed := hash_span(span))})


def log_recall(
    space_dir: Path, hits: Mapping[str, Iterable[str]], at: datetime | None = None
) -> bool:
    """Log the hits that were returned; return False if the folder can't be written.

    Without the entry, the next night can't recognise repeated sentences; nothing else depends on it.

    Args:
        space_dir: the space's folder.
        hits: id of each hit -> the texts of it that were shown.
        at: time of the recall; default: now.
    """
    shown = [{"id": key, "spans": hash_spans(texts)} for key, texts in hits.items()]
    try:
        if shown:
            append(
                space_dir,
                Recall(at.isoformat(timespec="seconds") if at else format_now(), shown),
            )
    except StoreUnwritable:
        return False
    return True


def load_recalled_spans(space_dir: Path) -> dict[str, datetime]:
    """Return the hash of each sentence that this space ever returned -> the first time."""
    first: dict[str, datetime] = {}
    for recall in read(space_dir, Recall):
        at = datetime.fromisoformat(recall.at)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        for span in recall.spans:
            first[span] = min(at, first.get(span, at))
    return first


def note_export(
    space_dir: Path,
    export: Export,
    *,
    is_whole: bool = True,
) -> None:
    """Record an export; if the folder can't be written, log a warning, unless the export is yet to be made."""
    try:
        append(space_dir, export)
    except StoreUnwritable as trouble:
        if is_whole:
            LOG.warning(
                "%s: no forgetting will know of the export %s", trouble, export.path
            )
