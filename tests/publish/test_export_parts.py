"""Exports in parts: a folder for each day or workspace, and what changed since an earlier release."""

from pathlib import Path

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest

from slowwave.flows.export import export_tables
from slowwave.flows.forget import run_forget
from slowwave.flows.nightly import run_night
from slowwave.schemas.errors import ReleaseDropped, UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MEANING, MESSAGES
from slowwave.store.logs import Export, read
from slowwave.store.releases import Snapshot
from slowwave.tasks.forget.exports import holds_any, list_exports, remove_export
from slowwave.tasks.forget.select import Wanted
from slowwave.tasks.ingest.formats.own import export
from slowwave.tasks.ingest.formats.registry import find_files
from slowwave.tasks.ingest.parsing.records import Limits, Rejected
from slowwave.tasks.publish.increment import find_increment
from tests.talk_files import SAID, chat, session

ODD = "/srv/a=b %2F/Köln"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A store of three releases: each adds a session of two messages; the last is in no workspace."""
    root = tmp_path_factory.mktemp("parts")
    made = Settings(store=root / "store", encoder="hash-384")
    for day, place in enumerate((ODD, "/boat", None), 1):
        said = [("user", SAID[2 * day - 1]), ("user", SAID[2 * day])]
        run_night([session(root / "talks", f"s{day}", day, said, place)], made)
    return made


def test_each_day_and_each_workspace_has_a_folder_that_others_read(
    settings: Settings, tmp_path: Path
) -> None:
    manifest = export_tables(settings, tmp_path / "d", "parquet", partition_by="day")
    days = sorted(path.name for path in (tmp_path / "d" / "messages.parquet").iterdir())
    assert days == ["day=2026-03-01", "day=2026-03-02", "day=2026-03-03"]
    assert manifest["tables"]["messages"]["partitioned_by"] == "day"
    assert (tmp_path / "d" / "relations.parquet").is_file()  # it has no time
    file = next((tmp_path / "d" / "messages.parquet").rglob("*.parquet"))
    assert pq.read_schema(file).field("ts").metadata[MEANING.encode()]

    export_tables(settings, tmp_path / "w", "parquet", partition_by="workspace")
    files = f"{tmp_path}/w/claims.parquet/**/*.parquet"
    sql = f"SELECT workspace FROM read_parquet('{files}', hive_partitioning = true)"
    by_duckdb = {workspace for (workspace,) in duckdb.sql(sql).fetchall()}
    by_polars = pl.read_parquet(files, hive_partitioning=True)
    assert by_duckdb == set(by_polars["workspace"]) == {ODD, "/boat", None}
    empty = pl.read_parquet(f"{tmp_path}/w/patterns.parquet/**/*.parquet")
    assert (len(empty), "support" in empty.columns) == (0, True)


@pytest.mark.parametrize("form", ["parquet", "lance", "jsonl"])
def test_an_increment_has_what_is_new_and_nothing_else(
    settings: Settings, tmp_path: Path, form: str
) -> None:
    manifest = export_tables(settings, tmp_path / "out", form, since="r2")
    assert (manifest["since"], manifest["release"]) == ("r2", "r3")
    rows = {name: facts["rows"] for name, facts in manifest["tables"].items()}
    assert (rows["messages"], rows["sessions"], rows["claims"]) == (2, 1, 2)
    assert manifest["removed"]["rows"] == 0
    none = export_tables(settings, tmp_path / "none", form, since="r3")
    assert {facts["rows"] for facts in none["tables"].values()} == {0}
    assert [path.name for path in find_files([tmp_path / "out"])] == ["manifest.json"]


def test_after_a_change_the_old_row_is_replaced_and_what_is_gone_is_named(
    tmp_path: Path,
) -> None:
    made = Settings(store=tmp_path / "store", encoder="hash-384")
    run_night([chat(tmp_path, "c", 3, ["I am allergic to walnuts."])], made)
    more = ["I am allergic to walnuts.", "So no cake for me."]
    run_night([chat(tmp_path, "c", 3, more)], made)
    manifest = export_tables(made, tmp_path / "inc", "parquet", since="r1")
    sessions = pl.read_parquet(tmp_path / "inc" / "sessions.parquet")
    assert sessions["messages"].to_list() == [2]  # of an older session: it has grown
    assert manifest["tables"]["messages"]["rows"] == 1
    back = find_increment(
        *(
            Snapshot(made.store, release=name).open_dataset(MESSAGES)
            for name in ("r2", "r1")
        ),
        MESSAGES.key,
        ["text"],
    )
    assert len(back.changed) == 0
    assert len(back.removed) == 1  # r1 has no cake
    run_forget(Wanted(matches=("So no cake",)), made)
    with pytest.raises(ReleaseDropped):
        export_tables(made, tmp_path / "gone", "parquet", since="r1")
    assert not (tmp_path / "gone").exists()


def test_a_forgetting_finds_and_removes_an_export_in_parts(
    settings: Settings, tmp_path: Path
) -> None:
    export_tables(settings, tmp_path / "d", "parquet", partition_by="day")
    made = read(settings.store / settings.space, Export)[-1]
    claims = pl.read_parquet(tmp_path / "d" / "claims.parquet" / "**/*.parquet")
    assert holds_any(made, {claims[CLAIMS.key][0]})
    assert not holds_any(made, {"0" * 32})
    assert made in list_exports(settings.store / settings.space)
    remove_export(made)
    assert not (tmp_path / "d").exists()


def test_a_run_says_that_it_reads_no_partitions_and_takes_none_for_a_transcript(
    settings: Settings, tmp_path: Path
) -> None:
    export_tables(settings, tmp_path / "d", "parquet", partition_by="workspace")
    assert [path.name for path in find_files([tmp_path])] == ["manifest.json"]
    (record,) = export.read(tmp_path / "d" / "manifest.json", Limits())
    assert isinstance(record, Rejected)
    assert record.reason.startswith("this export is partitioned")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"form": "lance", "partition_by": "day"}, "only Parquet"),
        ({"phrase": "a long passphrase", "partition_by": "day"}, "only Parquet"),
        ({"partition_by": "month"}, "day or workspace, got 'month'"),
        ({"form": "graphml", "since": "r1"}, "an increment"),
        ({"release": "r1", "since": "r2"}, "r2 is later than r1"),
    ],
)
def test_what_cannot_be_written_in_parts_is_refused(
    settings: Settings, tmp_path: Path, words: dict[str, str], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        export_tables(settings, tmp_path / "out", **{"form": "parquet"} | words)
    assert not (tmp_path / "out").exists()


def test_a_workspace_that_is_no_folders_name_is_refused(tmp_path: Path) -> None:
    made = Settings(store=tmp_path / "store", encoder="hash-384")
    said = [("user", "The boiler in the cellar leaks.")]
    run_night([session(tmp_path / "t", "a", 1, said, f"/srv/{'é' * 60}")], made)
    with pytest.raises(UsageError, match="a folder's name of 379 bytes, and 255 fit"):
        export_tables(made, tmp_path / "out", "parquet", partition_by="workspace")
    assert not (tmp_path / "out").exists()
