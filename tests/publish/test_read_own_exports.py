"""What slowwave exports, `run` reads back: the same messages under the same ids, in whatever form, in another store."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from slowwave.flows.export import export_tables
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MESSAGES, QUARANTINE, SESSIONS, Table
from slowwave.store import Store
from slowwave.tasks.ingest.formats.own import export
from slowwave.tasks.ingest.formats.registry import detect_reader, find_files
from slowwave.tasks.ingest.parsing.records import Limits, Rejected
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.ingest.vault import find_broken_chains
from slowwave.tasks.job import Job
from slowwave.tasks.publish.export import FORMATS

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
READ = [SAMPLES / "claude-code", SAMPLES / "openclaw", SAMPLES / "generic"]


def settings(store: Path) -> Settings:
    return Settings(store=store, encoder="hash-384", gists="off")


def rows(store: Path, table: Table, *left_out: str) -> dict[str, dict[str, object]]:
    found = Store.open(store).read(table).drop_columns(list(left_out)).to_pylist()
    return {row[table.key]: row for row in found}


def read_into(store: Path, *paths: Path) -> None:
    read_transcripts(Job(settings(store), "run"), list(paths))


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a night over three tools' transcripts."""
    root = tmp_path_factory.mktemp("old")
    run_night(READ, settings(root))
    return root


def exported(old: Path, to: Path, form: str, tables: Sequence[str] = ()) -> Path:
    export_tables(settings(old), to, form, list(tables))
    return to


@pytest.mark.parametrize("form", FORMATS)
def test_messages_and_sessions_come_back_as_they_were(
    old: Path, tmp_path: Path, form: str
) -> None:
    new = tmp_path / "new"
    read_into(new, exported(old, tmp_path / "out", form))
    assert rows(new, MESSAGES) == rows(old, MESSAGES)  # ids, order, chain and all
    assert rows(new, SESSIONS, "path") == rows(old, SESSIONS, "path")
    assert rows(new, QUARANTINE) == {}
    assert find_broken_chains(Store.open(new))[1] == []


def test_a_night_over_an_export_claims_the_same_and_their_transcripts_are_no_news(
    old: Path, tmp_path: Path
) -> None:
    new, out = tmp_path / "new", exported(old, tmp_path / "out", "jsonl")
    run_night([out], settings(new))
    assert rows(new, CLAIMS).keys() == rows(old, CLAIMS).keys()
    assert run_night([out], settings(new)).release is None
    read_into(new, *READ)
    assert rows(new, MESSAGES) == rows(old, MESSAGES)


def test_of_an_export_that_holds_no_sessions_the_messages_are_read(
    old: Path, tmp_path: Path
) -> None:
    read_into(
        tmp_path / "new", exported(old, tmp_path / "out", "parquet", ["messages"])
    )
    same = rows(tmp_path / "new", MESSAGES)
    assert same.keys() == rows(old, MESSAGES).keys()
    assert {row["session_id"] for row in same.values()} == rows(
        tmp_path / "new", SESSIONS
    ).keys()


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_is_one_transcript_and_its_other_tables_are_none(
    old: Path, tmp_path: Path, form: str
) -> None:
    out = exported(old, tmp_path / "out", form)
    assert [path.name for path in find_files([tmp_path])] == ["manifest.json"]
    assert detect_reader(out / "manifest.json").name == "slowwave"


def test_rows_that_are_no_messages_are_quarantined_with_the_reason(
    old: Path, tmp_path: Path
) -> None:
    path = exported(old, tmp_path / "out", "jsonl") / "messages.jsonl"
    good = json.loads(path.read_text().splitlines()[0])
    bad = [
        {"role": "wizard"},
        {"message_id": "x"},
        {"blocks": [{"type": "spell"}]},
        {"text": None},
        {"session_id": 5},
    ]
    path.write_text(
        "".join(json.dumps(good | change) + "\n" for change in ({}, *bad)) + '{"torn": '
    )
    found = list(export.read(path.with_name("manifest.json"), Limits()))
    reasons = [record.reason for record in found if isinstance(record, Rejected)]
    assert [reason.split()[0] for reason in reasons] == [
        "role",
        "message_id",
        "blocks",
        "text",
        "session_id",
        "torn",
    ]


def test_an_export_without_messages_and_an_encrypted_one_say_so(
    old: Path, tmp_path: Path
) -> None:
    out = exported(old, tmp_path / "out", "parquet", ["topics"])
    export_tables(
        settings(old), tmp_path / "secret", "parquet", [], phrase="a long passphrase"
    )
    for folder, why in (
        (out, "holds no messages"),
        (tmp_path / "secret", "only its passphrase opens it"),
    ):
        (record,) = export.read(folder / "manifest.json", Limits())
        assert isinstance(record, Rejected)
        assert why in record.reason
