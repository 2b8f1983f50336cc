"""The columns of an export: each says what it means, and those of use to nights alone come only if asked for."""

from pathlib import Path

import lance
import pyarrow.parquet as pq
import pytest

from slowwave.flows.export import export_tables
from slowwave.flows.parts.report import RunReport
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, INTERNAL, MEANING, RELEASED, TABLES
from tests.command_line import typed


@pytest.mark.parametrize("table", RELEASED, ids=lambda table: table.name)
def test_every_released_column_has_a_meaning_and_a_store_keeps_none(
    table: object,
) -> None:
    stored = TABLES[table.name]  # type: ignore[attr-defined]
    assert set(stored.schema.names) - set(stored.meanings) == set()
    assert all(
        MEANING.encode() not in (field.metadata or {}) for field in stored.schema
    )
    assert all(text == text.strip() and text for text in stored.meanings.values())


def test_parquet_and_lance_carry_meanings_and_no_internal_key(
    samples_night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    settings, means = Settings(store=samples_night[0]), MEANING.encode()
    said = b"the messages that support the quote and the claim"
    for form in ("parquet", "lance", "jsonl"):
        manifest = export_tables(settings, tmp_path / form, form)
        assert not {
            name for facts in manifest["tables"].values() for name in facts["columns"]
        } & set(INTERNAL)
    parquet = pq.read_schema(tmp_path / "parquet" / "claims.parquet")
    copied = lance.dataset(str(tmp_path / "lance" / "claims.lance")).schema
    for schema in (parquet, copied):
        assert schema.field("message_ids").metadata[means] == said
        assert all(field.metadata[means] for field in schema)
        assert set(schema.names) == set(CLAIMS.schema.names) - set(INTERNAL)
    assert b'"step_key"' not in (tmp_path / "jsonl" / "claims.jsonl").read_bytes()
    export_tables(settings, tmp_path / "whole", "parquet", ["claims"], internal=True)
    whole = pq.read_schema(tmp_path / "whole" / "claims.parquet")
    assert whole.names == CLAIMS.schema.names


def test_a_folder_of_an_export_is_reused_only_for_the_same_columns(
    samples_night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    settings, to = Settings(store=samples_night[0]), tmp_path / "{release}"
    assert export_tables(settings, to, "jsonl", ["claims"])["written"]
    with pytest.raises(UsageError, match="r1 is not empty"):
        export_tables(settings, to, "jsonl", ["claims"], internal=True)
    whole = tmp_path / "whole" / "{release}"
    for written in (True, False):
        made = export_tables(settings, whole, "jsonl", ["claims"], internal=True)
        assert made["written"] == written
    with pytest.raises(UsageError, match="r1 is not empty"):
        export_tables(settings, whole, "jsonl", ["claims"])
    # Sessions have no internal column, so both exports are the same.
    same = tmp_path / "same" / "{release}"
    for internal in (False, True):
        made = export_tables(settings, same, "jsonl", ["sessions"], internal=internal)
        assert made["written"] != internal


def test_internal_columns_of_a_graph_or_of_learnings_are_refused(
    samples_night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    settings = Settings(store=samples_night[0])
    with pytest.raises(UsageError, match="leave out --table and --internal"):
        export_tables(settings, tmp_path / "g", "graphml", internal=True)
    told = typed(
        *("export", tmp_path / "l.json", "--learnings", "--internal"),
        *("--store", settings.store),
    )
    assert told.exit_code == 1
    assert "leave out --table, --encrypted, --internal" in told.output
    assert list(tmp_path.iterdir()) == []
