"""OpenClaw's session files, the storage before 2026.7.2 and the form of its archives ever since.

`~/.openclaw/agents/<agent>/sessions/<id>[-topic-<thread>].jsonl`, deleted (`.jsonl.deleted.<time>[.zst]`), reset
(`.jsonl.reset.<time>`) and cold (`cold/<sha256>.jsonl.zst`) ones; `sessions.json` beside them names each session's
key and title. The same events lie in SQLite since then: see `slowwave.tasks.ingest.formats.agents.openclaw.sqlite`.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from slowwave.tasks.ingest.formats.agents.openclaw.events import Dialect, parse_session_id, read_events
from slowwave.tasks.ingest.formats.agents.openclaw.text import parse_model_text, parse_user_text
from slowwave.tasks.ingest.formats.agents.pi import is_event
from slowwave.tasks.ingest.parsing.lines import iter_json
from slowwave.tasks.ingest.parsing.records import Head, Limits, Location, Reader, Record, Session, SessionKind

OPENCLAW = Dialect("openclaw", parse_user_text, parse_model_text, ids_are_stable=True, retries=True)
HOMES = (".openclaw", ".clawdbot", ".moltbot")
MAX_INDEX_BYTES = 64 * 1024 * 1024

# What OpenClaw alone writes. Not the bare name: a pi session about OpenClaw holds that too.
_MARKS = re.compile(
    rb'"customType":\s*"(?:openclaw|model-snapshot)|"model":\s*"(?:gateway-injected|delivery-mirror)"'
    rb'|"provider":\s*"openclaw|\(untrusted metadata\):|\xe2\x9f\xa6openclaw:ctx|\[\[reply_to_current\]\]'
    rb'|"(?:text|content)":\s*"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d \d\d:\d\d'
    rb'|"(?:text|content)":\s*"(?:\[cron:|NO_REPLY"|HEARTBEAT_OK")'
    rb"|Read HEARTBEAT\.md|Pre-compaction memory flush|BEGIN_OPENCLAW_INTERNAL_CONTEXT"
)


def sniff(head: Head) -> bool:
    """Return whether the file holds session events, and OpenClaw's rather than pi's."""
    if not any(is_event(line) for line in head.lines[:20]):
        return False
    folders = [part.lower() for part in head.path.parts]
    if ".pi" in folders:
        return False
    first = head.lines[0] if head.lines and isinstance(head.lines[0], dict) else {}
    named = first.get("type") == "session" and head.path.name.startswith(str(first.get("id")))
    return named or any(part in ("openclaw", *HOMES) for part in folders) or bool(_MARKS.search(head.data))


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of one session file; its key and title from the index beside it, where there is one."""
    native_id = parse_session_id(path.name).partition("-topic-")[0]
    yield from read_events(iter_json(path, limits), load_indexed_session(path, native_id), OPENCLAW)


def list_locations(home: Path) -> list[Location]:
    """Return where OpenClaw keeps its files, under its name and its earlier ones."""
    roots = [home / name for name in HOMES]
    archives = ("session-sqlite-import-archive/**/*.jsonl*", "agents/*/session-sqlite-import-archive/**/*.jsonl*")
    patterns = ("agents/*/sessions/**/*.jsonl*", *archives)
    return [Location(root, pattern, root.is_dir()) for root in roots for pattern in patterns]


def load_indexed_session(path: Path, native_id: str) -> Session:
    """Return what `sessions.json` says of a session; only its id where there is no index or no entry."""
    index = path.parent / "sessions.json"
    try:
        found = index.stat()
    except OSError:
        return Session(native_id)
    if found.st_size > MAX_INDEX_BYTES or not index.is_file():
        return Session(native_id)
    return _map_sessions_by_id(index, found.st_mtime_ns, found.st_size).get(native_id) or Session(native_id)


def parse_session_kind(key: str) -> SessionKind:
    """Return the kind of session a key names: `agent:<id>:main`, `cron:<job>`, `hook:<uuid>`, `…:subagent:…`."""
    parts = key.split(":")
    if "subagent" in parts:
        return "subagent"
    return "scheduled" if {"cron", "hook", "heartbeat"} & set(parts) else "chat"


@lru_cache(maxsize=4)
def _load_index(index: Path, mtime_ns: int, size: int) -> dict[str, dict[str, Any]]:
    """Return entries of a session index by key.

    Empty where it can't be read, for titles are no reason to lose messages.
    """
    try:
        entries = orjson.loads(index.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    entries = entries if isinstance(entries, dict) else {}
    return {key: entry for key, entry in entries.items() if isinstance(entry, dict) and entry.get("sessionId")}


def _map_sessions_by_id(index: Path, mtime_ns: int, size: int) -> dict[str, Session]:
    entries = _load_index(index, mtime_ns, size)
    return {str(entry["sessionId"]): _parse_session(key, entry, entries) for key, entry in entries.items()}


def _parse_session(key: str, entry: dict[str, Any], entries: dict[str, dict[str, Any]]) -> Session:
    title = next((entry[k] for k in ("label", "displayName", "subject") if isinstance(entry.get(k), str)), None)
    parent = entries.get(str(entry.get("spawnedBy") or entry.get("parentSessionKey")), {}).get("sessionId")
    return Session(str(entry["sessionId"]), title=title, kind=parse_session_kind(key), parent_id=parent)


READER = Reader("openclaw", 1, sniff, read, list_locations)
