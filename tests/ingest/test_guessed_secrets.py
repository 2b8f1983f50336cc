"""A short secret is guessed back from no id: ids hash what is stored, and stay the same from night to night."""

import json
from pathlib import Path
from typing import Any

import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import TABLES
from slowwave.store import Store
from slowwave.tasks.ingest.parsing.values import encode_json
from slowwave.text.redact import _redact

pytestmark = pytest.mark.usefixtures("only_read")

SAID = "My PIN is {pin}"
CODEX = "019a0000-0000-7000-8000-00000000c0de"


def write_generic(folder: Path, pin: str) -> Path:
    path = folder / "chat.jsonl"
    path.write_text(
        json.dumps({"role": "user", "content": SAID.format(pin=pin)}) + "\n"
    )
    return path


def write_codex(folder: Path, pin: str) -> Path:
    path = folder / f"rollout-2026-11-03T10-00-00-{CODEX}.jsonl"
    meta = {
        "id": CODEX,
        "timestamp": "2026-11-03T10:00:00.000Z",
        "cwd": "/w",
        "cli_version": "0.60.0",
    }
    said = (
        ("user", "input_text", SAID.format(pin=pin)),
        ("assistant", "output_text", "Noted, thank you."),
    )
    items = [
        {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        for role, kind, text in said
    ]
    rows = [("session_meta", meta), *(("response_item", item) for item in items)]
    stamped = [
        {"timestamp": f"2026-11-03T10:00:0{n}.000Z", "type": kind, "payload": row}
        for n, (kind, row) in enumerate(rows)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in stamped))
    return path


def write_openai(folder: Path, pin: str) -> Path:
    path = folder / "lines.jsonl"
    path.write_text(
        json.dumps({"messages": [{"role": "user", "content": SAID.format(pin=pin)}]})
        + "\n"
    )
    return path


def write_pi(folder: Path, pin: str) -> Path:
    path = folder / "2026-11-03T10-00-00_s1.jsonl"
    at = "2026-11-03T10:00:01.000Z"
    said = {
        "role": "user",
        "content": [{"type": "text", "text": SAID.format(pin=pin)}],
        "timestamp": 1793700001000,
    }
    rows = [
        {"type": "session", "version": 3, "id": "s1", "timestamp": at, "cwd": "/w"},
        {
            "type": "message",
            "id": "a1",
            "parentId": None,
            "timestamp": at,
            "message": said,
        },
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_takeout(folder: Path, pin: str) -> Path:
    path = folder / "MyActivity.json"
    asked = {
        "header": "Gemini Apps",
        "title": f"Prompted {SAID.format(pin=pin)}",
        "time": "2026-11-03T10:00:00.000Z",
        "products": ["Gemini Apps"],
        "safeHtmlItem": [{"html": "<p>Noted, thank you.</p>"}],
    }
    path.write_text(json.dumps([asked]))
    return path


WRITERS = (write_generic, write_codex, write_openai, write_pi, write_takeout)


def read_ids(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Return every table's rows that a reading writes, without times of the file or the run."""
    left = {"mtime_ns", "path", "run_id"}
    return {
        name: [
            {key: value for key, value in row.items() if key not in left}
            for row in store.read(TABLES[name]).to_pylist()
        ]
        for name in ("messages", "sessions", "files")
    }


@pytest.mark.parametrize(
    "more",
    [
        {"speaker": "My PIN is {pin}"},
        {"workspace": "/home/ada/My PIN is {pin}"},
        {"message_id": "My PIN is {pin}"},
        {"session_id": "My PIN is {pin}"},
        {"role": "My PIN is {pin}"},
    ],
)
def test_a_file_with_a_masked_name_keeps_no_digest(
    more: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "chat.jsonl"
    line = {"role": "user", "content": "When do we sail?"}
    masked = {key: value.format(pin="4821") for key, value in more.items()}
    path.write_text(f"{json.dumps(line)}\n{json.dumps({**line, **masked})}\n")
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    run_night([path], settings)
    assert Store.open(settings.store).read(TABLES["files"])["digest"].to_pylist() == [
        ""
    ]


@pytest.mark.parametrize("write", WRITERS)
def test_nothing_stored_tells_one_pin_from_another(write: Any, tmp_path: Path) -> None:
    ids = []
    for pin in ("4821", "4822"):
        folder = tmp_path / pin
        folder.mkdir()
        settings = Settings(
            store=folder / "store", encoder="hash-384", keywords={"top": 0}
        )
        run_night([write(folder, pin)], settings)
        ids.append(read_ids(Store.open(settings.store)))
        assert any("[redacted:pin]" in row["text"] for row in ids[-1]["messages"])
    assert ids[0] == ids[1]


@pytest.mark.parametrize("write", WRITERS)
def test_a_message_read_under_the_ids_of_an_earlier_version_stays_one(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    path = write(tmp_path, "4821")
    with monkeypatch.context() as before:
        # Ids were made of the words before they were redacted.
        for name in ("own.generic", "agents.codex", "agents.openclaw.reader"):
            before.setattr(f"slowwave.tasks.ingest.formats.{name}.redact_blocks", list)
        before.setattr("slowwave.plugins.formats.chats.encode_redacted", encode_json)
        before.setattr("slowwave.plugins.formats.takeout.encode_redacted", str)
        run_night([path], settings)
    stored = read_ids(Store.open(settings.store))["messages"]
    path.write_text(path.read_text() + "\n")
    run_night([path], settings)
    assert read_ids(Store.open(settings.store))["messages"] == stored


def test_a_message_whose_redaction_changed_is_a_newer_version_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    path = write_codex(tmp_path, "4821")
    with monkeypatch.context() as before:  # rules that know no PIN
        before.setattr("slowwave.text.redact._ANYWHERE", [])
        _redact.cache_clear()
        run_night([path], settings)
    _redact.cache_clear()
    path.write_text(path.read_text() + "\n")
    run_night([path], settings)
    store = Store.open(settings.store)
    rows = store.read(
        TABLES["messages"], ["text", "identity", "message_id"]
    ).to_pylist()
    assert [row["text"] for row in rows] == [
        "My PIN is 4821",
        "Noted, thank you.",
        "My PIN is [redacted:pin]",
    ]
    assert rows[0]["identity"] == rows[2]["identity"]
    (session,) = store.read(TABLES["sessions"]).to_pylist()
    assert session["inactive"] == [rows[0]["message_id"]]
