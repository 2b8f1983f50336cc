"""A secret in any place of a transcript, an id or a file's name among them, is in no byte of the store."""

import json
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, SESSIONS, TABLES
from slowwave.store import Store
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.ingest.transcripts import redact_id, redact_path
from slowwave.tasks.job import Job

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
TOKEN = "gh" + "p_a1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZ"


def list_keys(value: object) -> Iterator[str]:
    """The names of all members that hold text."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from [name] if isinstance(member, str) else list_keys(member)
    elif isinstance(value, list):
        for member in value:
            yield from list_keys(member)


def plant(value: object, key: str) -> object:
    """The same with a secret at the end of each text of that name."""
    if isinstance(value, dict):
        return {
            n: f"{m}-{TOKEN}" if n == key and isinstance(m, str) else plant(m, key)
            for n, m in value.items()
        }
    return (
        [plant(member, key) for member in value] if isinstance(value, list) else value
    )


def read_into_store(folder: Path, store: Path) -> Store:
    job = Job(Settings(store=store, encoder="hash-384"), "run")
    read_transcripts(job, [folder])
    return job.store


@pytest.mark.parametrize(
    "form",
    ["chatgpt", "claude-ai", "claude-code", "codex", "generic", "openclaw", "pi"],
)
def test_a_secret_in_any_place_of_a_transcript_is_in_no_byte_of_the_store(
    form: str, tmp_path: Path
) -> None:
    files = [
        *(SAMPLES / form).rglob("*.jsonl"),
        *(SAMPLES / form).rglob("conversations.json"),
    ]
    sample = min(files, key=lambda path: path.stat().st_size)
    text = sample.read_text(encoding="utf-8")
    records = (
        [json.loads(text)]
        if sample.suffix == ".json"
        else [json.loads(line) for line in text.splitlines()]
    )
    (tmp_path / "in").mkdir()
    for key in sorted({key for record in records for key in list_keys(record)}):
        lines = [json.dumps(plant(record, key)) for record in records]
        (tmp_path / "in" / f"{key}-{TOKEN}{sample.suffix}").write_text("\n".join(lines))
    store = read_into_store(tmp_path / "in", tmp_path / "store")
    assert store.count(MESSAGES) > 10
    assert not [
        path
        for path in store.dir.rglob("*")
        if path.is_file() and TOKEN.encode() in path.read_bytes()
    ]
    for table in TABLES.values():
        if (path := store.dir / f"{table.name}.lance").exists():
            assert TOKEN not in str(lance.dataset(str(path)).to_table().to_pylist()), (
                table.name
            )
    before = store.read_versions(TABLES.values())
    assert (
        read_into_store(tmp_path / "in", tmp_path / "store").read_versions(
            TABLES.values()
        )
        == before
    )


def test_an_id_stays_one_and_no_others_and_without_a_secret_as_it_is() -> None:
    one, other = redact_id(f"a-{TOKEN}"), redact_id(f"b-{TOKEN}")
    assert one == redact_id(f"a-{TOKEN}") != other
    assert redact_id(one) == one
    assert (
        redact_id("5c7e8810-2b9a-4f4d-a1d6-90c3be72f6a1")
        == "5c7e8810-2b9a-4f4d-a1d6-90c3be72f6a1"
    )
    assert (
        redact_path(Path(f"/home/ann/{TOKEN}/talk.jsonl"))
        == f"/home/ann/{redact_id(TOKEN)}/talk.jsonl"
    )


def test_messages_of_a_session_with_a_secret_for_a_name_stay_in_one_session(
    tmp_path: Path,
) -> None:
    said = [
        {
            "session_id": TOKEN,
            "message_id": f"{TOKEN}/{n}",
            "role": "user",
            "content": f"line {n}",
        }
        for n in range(3)
    ]
    (tmp_path / "talk.jsonl").write_text(
        "".join(f"{json.dumps(line)}\n" for line in said)
    )
    store = read_into_store(tmp_path / "talk.jsonl", tmp_path / "store")
    assert store.read(SESSIONS, ["native_id", "messages"]).to_pylist() == [
        {"native_id": redact_id(TOKEN), "messages": 3}
    ]
    assert len(set(store.read(MESSAGES, ["native_id"])["native_id"].to_pylist())) == 3


def test_a_guess_of_a_secret_can_not_be_tested_by_a_messages_id(tmp_path: Path) -> None:
    rows = []
    for at, secret in enumerate((TOKEN, f"{TOKEN[:-1]}A", "no token")):
        line = {
            "session_id": "s1",
            "message_id": "m1",
            "role": "user",
            "content": f"My token is {secret}, keep it.",
        }
        (tmp_path / "talk.jsonl").write_text(json.dumps(line))
        store = read_into_store(tmp_path / "talk.jsonl", tmp_path / f"store{at}")
        rows += store.read(MESSAGES, ["message_id", "hash", "text"]).to_pylist()
    assert rows[0] == rows[1] != rows[2]
