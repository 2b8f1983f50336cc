"""opencode's database and its exports: small ones of the shape that the program writes."""

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

from slowwave.tasks.ingest.parsing.records import Inactive, Message, Rejected, Session
from tests.transcript_rows import put, read

Fields = dict[str, Any]


EXPORT = json.loads((Path(__file__).parent / "transcripts/opencode/ses_1.json").read_text())
INFO: Fields = EXPORT["info"]
MESSAGES: list[tuple[Fields, list[Fields]]] = [(one["info"], one["parts"]) for one in EXPORT["messages"]]


def make_database(path: Path, **session: object) -> Path:
    """A database of opencode's with the messages, and a part that is broken."""
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE session (id, parent_id, directory, title, revert, time_created)")
        db.execute("CREATE TABLE message (id, session_id, time_created, data)")
        db.execute("CREATE TABLE part (id, message_id, session_id, data)")
        row = {"id": "ses_1", "directory": INFO["directory"], "title": INFO["title"], "time_created": 1} | session
        db.execute(f"INSERT INTO session ({','.join(row)}) VALUES ({','.join('?' * len(row))})", list(row.values()))
        for at, (info, parts) in enumerate(MESSAGES):
            data = json.dumps({key: value for key, value in info.items() if key != "id"})
            db.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?)", (info["id"], at, data))
            for n, part in enumerate(parts):
                db.execute("INSERT INTO part VALUES (?, ?, 'ses_1', ?)", (f"{at}{n}", info["id"], json.dumps(part)))
        db.execute("INSERT INTO part VALUES ('99', 'msg_5', 'ses_1', '{')")
    db.close()
    return path


def test_an_export_and_the_database_of_opencode_tell_the_same(tmp_path: Path) -> None:
    records = read(put(tmp_path / "ses_1.json", EXPORT))
    back = json.dumps({"messageID": "msg_4"})
    stored = read(make_database(tmp_path / "opencode.db", parent_id="ses_0", revert=back))
    packed = put(tmp_path / "opencode.db.gz", gzip.compress((tmp_path / "opencode.db").read_bytes()))
    assert read(packed) == stored
    keep = [(one.native_id, one.role, one.blocks, one.ts) for one in records if isinstance(one, Message)]
    assert [(one.native_id, one.role, one.blocks, one.ts) for one in stored if isinstance(one, Message)] == keep
    assert [one.native_id for one in stored if isinstance(one, Inactive)] == ["msg_4", "msg_5"]
    assert len([one for one in stored if isinstance(one, Rejected)]) == 1
    session = next(one for one in stored if isinstance(one, Session))
    assert (session.workspace, session.kind, session.parent_id) == ("/home/ada/tidepool", "subagent", "ses_0")
