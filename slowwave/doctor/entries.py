"""What stands in the memories that people and other tools keep: Markdown notes, mem0's export, claude-mem's database.

Everything is read only. An entry is one statement with the place where it stands.
"""

import json
import re
import sqlite3
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from slowwave.schemas.errors import UsageError
from slowwave.tasks.ingest.formats.registry import JUNK_FOLDERS
from slowwave.tasks.ingest.parsing.sqlite_readonly import open_read_only
from slowwave.tasks.ingest.parsing.values import coerce_dict, coerce_list, coerce_text, coerce_time
from slowwave.text.marked import find_marked
from slowwave.text.sentences import split_sentences

MARKDOWN = frozenset((".md", ".mdc", ".markdown"))
DATABASES = frozenset((".db", ".sqlite", ".sqlite3"))
DATED = ("updated", "updated_at", "modified", "date", "created", "created_at")
"""Front matter's words for when a note was written, the latest first."""
LEAST_WORDS = 3
"""Shorter pieces are labels."""
_FRONT = re.compile(r"\A---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.S)
_DAY = re.compile(r"(?<![\d-])(\d{4}-\d\d-\d\d)(?![\d-])")
_LEADING_DAY = re.compile(r"^[(\[]?\d{4}-\d\d-\d\d[)\]]?(?:: | - | – | )")
_MARKS = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?|[*_`\s.;:!]+")
_ITEM = re.compile(r"(\s*)(?:[-*+•]|\d{1,3}[.)])\s")


@dataclass(frozen=True)
class Entry:
    """A statement of a memory."""

    path: Path
    line: int
    """From 1; of a database or an export its number there."""
    text: str
    at: datetime | None
    """When it was written, where its file says so; else when the file was last changed."""
    dated: bool
    """Whether the file says when."""
    alone: tuple[int, int] | None = None
    """First and last line that hold this entry and nothing else; None where others share them."""


def read_entries(path: Path) -> list[Entry]:
    """Return the entries of a file, or of all below a folder that are memories, in order of path and place.

    Raises:
        UsageError: there is no such path, or a file named is no memory that is known.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    if path.is_dir():
        return [entry for file in sorted(_walk(path)) for entry in _read_file(file) or ()]
    found = _read_file(path)
    if found is None:
        raise UsageError(f"{path}: no memory that is known: Markdown, mem0's JSON export, claude-mem's database")
    return found


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        inside = set(path.relative_to(folder).parts[:-1])
        if path.is_file() and not path.is_symlink() and not inside & JUNK_FOLDERS and ".specstory" not in inside:
            yield path


def _read_file(path: Path) -> list[Entry] | None:
    """Return the entries of a file; None where it is none of the memories that are known."""
    suffix = path.suffix.lower()
    try:
        if suffix in MARKDOWN and not path.name.startswith(".aider"):
            return list(read_markdown(path, path.read_bytes().decode("utf-8", "replace")))
        if suffix == ".json":
            return _read_mem0(path)
        if suffix in DATABASES:
            return _read_claude_mem(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    return None


def read_markdown(path: Path, text: str) -> Iterator[Entry]:
    """Yield the statements of a page: the sentences of its prose and lists, none of code, headings and tables."""
    front = _FRONT.match(text)
    written = _parse_front_date(front[1]) if front else None
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC) if path.exists() else None
    # Front matter and our own block are blanked and not cut off, so that places stay what they are in the file.
    with suppress(UsageError):  # marks that are no pair: it is all a person's
        text = _blank(text, *(find_marked(text) or (0, 0)))
    body = _blank(text, 0, front.end()) if front else text
    lines = body.split("\n")
    sentences = [s for s in split_sentences(body) if len(s.text.split()) >= LEAST_WORDS]
    ends = [found.start() for found in re.finditer("\n", body)]
    places = [(bisect_left(ends, s.start), bisect_left(ends, s.end)) for s in sentences]
    shared = Counter(n for first, last in places for n in range(first, last + 1))
    for sentence, (first, last) in zip(sentences, places, strict=True):
        held = "\n".join(lines[first : last + 1])
        alone = (
            _MARKS.sub("", held.replace(sentence.text, "")) == ""
            and all(shared[n] == 1 for n in range(first, last + 1))
            and not _has_children(lines, first, last)
        )
        day = _DAY.search(held)
        at = _parse_day(day[1]) if day else written
        said = _LEADING_DAY.sub("", " ".join(_strip_marks(sentence.text).split()))
        yield Entry(path, first + 1, said, at or changed, at is not None, (first + 1, last + 1) if alone else None)


def _blank(text: str, start: int, end: int) -> str:
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def _has_children(lines: list[str], first: int, last: int) -> bool:
    """Return whether a list item has others below it, or the text goes on in lines that are no item."""
    item = _ITEM.match(lines[first])
    below = lines[last + 1] if last + 1 < len(lines) else ""
    if not below.strip():
        return False
    nested = _ITEM.match(below)
    return item is None or nested is None or len(nested[1].expandtabs()) > len(item[1].expandtabs())


def _strip_marks(text: str) -> str:
    return re.sub(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", r"\2", text)


def _parse_front_date(front: str) -> datetime | None:
    fields = dict(line.split(":", 1) for line in front.split("\n") if ":" in line and not line.startswith(" "))
    for name in DATED:
        found = coerce_time(fields.get(name, "").strip().strip("\"'"))
        if found:
            return found
    return None


def _parse_day(text: str) -> datetime | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _read_mem0(path: Path) -> list[Entry] | None:
    """Return the memories of mem0's export, a list or the object of its API around one; None for other JSON."""
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    rows = coerce_list(found) or coerce_list(coerce_dict(found).get("results"))
    memories = [(n, fields) for n, row in enumerate(rows, 1) if coerce_text((fields := coerce_dict(row)).get("memory"))]
    if not memories:
        return None
    return [_make_entry(path, n, str(fields["memory"]), _get_time(fields)) for n, fields in memories]


def _get_time(fields: Mapping[str, object]) -> datetime | None:
    return coerce_time(fields.get("updated_at")) or coerce_time(fields.get("created_at"))


def _read_claude_mem(path: Path) -> list[Entry] | None:
    """Return the facts of claude-mem's observations, or their text where they have none; None for other databases."""
    try:
        with open_read_only(path) as db:
            names = {row[1] for row in db.execute("PRAGMA table_info(observations)")}
            if not {"id", "project", "created_at"} <= names or not {"sdk_session_id", "memory_session_id"} & names:
                return None
            wanted = [name for name in ("facts", "narrative", "text", "title") if name in names]
            rows = db.execute(f"SELECT id, created_at, {', '.join(wanted)} FROM observations ORDER BY id").fetchall()
    except sqlite3.Error:
        return None
    return [
        _make_entry(path, int(row[0]), text, coerce_time(row[1]))
        for row in rows
        for text in _list_facts(dict(zip(wanted, row[2:], strict=True)))
    ]


def _list_facts(fields: Mapping[str, object]) -> list[str]:
    try:
        facts = coerce_list(json.loads(str(fields.get("facts") or "[]")))
    except ValueError:
        facts = []
    told = [fact for fact in facts if isinstance(fact, str) and fact.strip()]
    return told or [text for name in ("narrative", "text", "title") if (text := coerce_text(fields.get(name)))][:1]


def _make_entry(path: Path, line: int, text: str, at: datetime | None) -> Entry:
    return Entry(path, line, " ".join(text.split()), at, at is not None)
