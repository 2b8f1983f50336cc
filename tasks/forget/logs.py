"""Erase lines of slowwave's own files (talks, notes, the log of recalls), and claims of imported documents."""

from collections.abc import Collection, Set
from datetime import datetime
from functools import partial
from pathlib import Path

import orjson

from slowwave.store.logs import FILES, LogLine, Rating, Recall, parse_line, rewrite
from slowwave.store.notes import find_talk_logs
from slowwave.store.private import replace_file
from slowwave.tasks.ingest.formats.own.export import FOLDER as SHARED_FOLDER
from slowwave.tasks.ingest.formats.own.export import read_learnings
from slowwave.tasks.ingest.parsing.records import Limits, Message

AGENT = "agent"
"""Role of the answer that slowwave itself writes after a note."""


def erase_said(space_dir: Path, gone: Collection[tuple[str, str]]) -> None:
    """Remove messages from the files of talks and notes.

    If all messages with words of others are gone from a session, its other lines go too: slowwave's own answers, and
    messages without words, which no night reads.

    gone: native ids of session and message.
    """
    for path in [
        file
        for folder in find_talk_logs(space_dir)
        for file in sorted(folder.glob("*.jsonl"))
    ]:
        lines = [parse_line(raw) for raw in path.read_bytes().splitlines()]
        if not (hit := {_name_line(line) for line in lines}.intersection(gone)):
            continue
        talking = {
            _name_line(line)[0]
            for line in lines
            if _has_words(line) and _name_line(line) not in hit
        }
        silent = {session for session, _ in hit} - talking
        rewrite(path, partial(_keep_said, hit=hit, silent=silent))


def _has_words(line: LogLine) -> bool:
    """Return True for a message with words that slowwave itself did not write."""
    content = line.get("content")
    return line.get("role") != AGENT and bool(str(content or "").strip())


def _name_line(line: LogLine) -> tuple[str, str]:
    """Return the ids of session and message."""
    return str(line.get("session_id")), str(line.get("message_id"))


def _keep_said(
    line: LogLine, hit: Set[tuple[str, str]], silent: Set[str]
) -> LogLine | None:
    named = _name_line(line)
    return None if named in hit or named[0] in silent else line


def erase_shared(space_dir: Path, gone: Collection[tuple[str, str]]) -> None:
    """Remove claims from the documents of other memories. Delete a document that has no claims left.

    gone: native ids of session and message.
    """
    # Compare by the memory's name: if a document has several workspaces, the session id has the workspace too.
    gone_ids = {(session.split("/")[0], message) for session, message in gone}
    for path in sorted((space_dir / SHARED_FOLDER).glob("*.json")):
        records = [
            record
            for record in read_learnings(path, Limits())
            if isinstance(record, Message)
        ]
        left = {
            record.line
            for record in records
            if (path.stem, record.native_id) not in gone_ids
        }
        if len(left) == len(records):
            continue
        document = orjson.loads(path.read_bytes())
        claims = [
            claim
            for number, claim in enumerate(document["claims"], 1)
            if number in left
        ]
        if claims:
            replace_file(
                path,
                orjson.dumps(
                    {**document, "claims": claims}, option=orjson.OPT_INDENT_2
                ),
            )
        else:
            path.unlink()


def erase_recalled(
    space_dir: Path, ids: Collection[str], spans: Collection[str]
) -> None:
    """Remove hits with these ids, their ratings, and these hashes of sentences from the log of recalls.

    A recall without hits is removed.
    """

    def keep(line: LogLine) -> LogLine | None:
        hits = []
        for hit in line.get("hits") or []:
            if hit.get("id") not in ids:
                hits.append(
                    {
                        **hit,
                        "spans": [
                            span for span in hit.get("spans") or [] if span not in spans
                        ],
                    }
                )
        return {**line, "hits": hits} if hits else None

    rewrite(space_dir / FILES[Rating], lambda line: None if line["id"] in ids else line)
    rewrite(space_dir / FILES[Recall], keep)


def erase_old_recalls(space_dir: Path, before: datetime) -> int:
    """Remove the lines before a time from the log of recalls; return how many were removed."""
    return rewrite(
        space_dir / FILES[Recall],
        lambda line: line if datetime.fromisoformat(line["at"]) >= before else None,
    )
