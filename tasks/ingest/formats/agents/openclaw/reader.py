"""Session files of OpenClaw and of pi, out of which it grew.

OpenClaw's are its storage before 2026.7.2 and the form of its archives ever since:
`~/.openclaw/agents/<agent>/sessions/<id>[-topic-<thread>].jsonl`, deleted (`.jsonl.deleted.<time>[.zst]`), reset
(`.jsonl.reset.<time>`) and cold (`cold/<sha256>.jsonl.zst`) ones; `sessions.json` beside them names each session's
key and title. The same events lie in SQLite since then: see `slowwave.tasks.ingest.formats.agents.openclaw.sqlite`.

pi's: `~/.pi/agent/sessions/--<cwd>--/<time>_<uuid>.jsonl`, versions 1 (a list), 2 and 3 (a tree). A branched file
begins with copies of its parent's lines, and a version 1 file is rewritten with fresh ids when pi opens it again: so a
message of pi is known by its times and its content, never by its place or its id.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from slowwave.tasks.ingest.formats.agents.openclaw.content import UnwrappedText, parse_model_text, parse_user_text
from slowwave.tasks.ingest.formats.agents.openclaw.events import (
    SPOKEN,
    TOOLS,
    Dialect,
    parse_session_id,
    read_events,
)
from slowwave.tasks.ingest.parsing.lines import iter_json
from slowwave.tasks.ingest.parsing.records import Head, Limits, Reader, Record, Session, SessionKind, lies_below
from slowwave.tasks.ingest.parsing.values import clean_text, coerce_dict

Entries = dict[str, dict[str, Any]]
"""Entries of a session index by key."""


def _clean_words(raw: str) -> UnwrappedText:
    return UnwrappedText(clean_text(raw))


OPENCLAW = Dialect("openclaw", parse_user_text, parse_model_text, ids_are_stable=True, retries=True)
PI = Dialect("pi", _clean_words, _clean_words, ids_are_stable=False, retries=False)
HOMES = (".openclaw", ".clawdbot", ".moltbot")
"""Its folder, and what that was called before."""
ARCHIVES = ("session-sqlite-import-archive/**/*.jsonl*", "agents/*/session-sqlite-import-archive/**/*.jsonl*")
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
    first = coerce_dict(head.lines[0])
    named = first.get("type") == "session" and head.path.name.startswith(str(first.get("id")))
    return named or any(part in ("openclaw", *HOMES) for part in folders) or bool(_MARKS.search(head.data))


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of one session file; its key and title from the index beside it, where there is one."""
    native_id = parse_session_id(path.name).partition("-topic-")[0]
    yield from read_events(iter_json(path, limits), load_indexed_session(path, native_id), OPENCLAW)


def sniff_pi(head: Head) -> bool:
    """Return whether the file holds session events; OpenClaw, which writes the same ones, is asked first."""
    return any(is_event(line) for line in head.lines[:20])


def read_pi(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of one session file of pi."""
    return read_events(iter_json(path, limits), Session(parse_session_id(path.name), kind="chat"), PI)


def is_event(line: object) -> bool:
    """Return whether a JSON value is a session's header or one of its messages."""
    fields = coerce_dict(line)
    if fields.get("type") == "session":
        return isinstance(fields.get("id"), str) and bool({"cwd", "version", "provider"} & fields.keys())
    role = coerce_dict(fields.get("message")).get("role")
    known = fields.get("type") == "message" and role in (*SPOKEN, *TOOLS)
    return known and not {"sessionId", "uuid", "payload"} & fields.keys()


def parse_session_kind(key: str) -> SessionKind:
    """Return the kind of session a key names: `agent:<id>:main`, `cron:<job>`, `hook:<uuid>`, `…:subagent:…`."""
    parts = key.split(":")
    if "subagent" in parts:
        return "subagent"
    return "scheduled" if {"cron", "hook", "heartbeat"} & set(parts) else "chat"


def load_indexed_session(path: Path, native_id: str) -> Session:
    """Return what `sessions.json` says of a session; only its id where there is no index or no entry."""
    index = path.parent / "sessions.json"
    entries: Entries = {}
    with suppress(OSError):
        found = index.stat()
        if found.st_size <= MAX_INDEX_BYTES and index.is_file():
            entries = _load_index(index, found.st_mtime_ns, found.st_size)
    for key, entry in reversed(entries.items()):
        if str(entry["sessionId"]) == native_id:
            titles = (entry[name] for name in ("label", "displayName", "subject") if isinstance(entry.get(name), str))
            parent = entries.get(str(entry.get("spawnedBy") or entry.get("parentSessionKey")), {}).get("sessionId")
            return Session(native_id, None, next(titles, None), parse_session_kind(key), parent)
    return Session(native_id)


@lru_cache(maxsize=4)
def _load_index(index: Path, mtime_ns: int, size: int) -> Entries:
    """Return the entries of an index; none where it can't be read, for titles are no reason to lose messages."""
    with suppress(OSError, orjson.JSONDecodeError):
        entries = coerce_dict(orjson.loads(index.read_bytes()))
        return {key: entry for key, entry in entries.items() if isinstance(entry, dict) and entry.get("sessionId")}
    return {}


READER = Reader("openclaw", 1, sniff, read, lies_below(HOMES, "agents/*/sessions/**/*.jsonl*", *ARCHIVES))
PI_READER = Reader("pi", 1, sniff_pi, read_pi, lies_below((".pi/agent/sessions",), "**/*.jsonl"))
