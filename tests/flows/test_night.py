"""The night as plain functions, over real transcripts and Lance tables; the encoder is the plain one that ships."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from slowwave.flows import nightly
from slowwave.flows.nightly import SETTLED, run_night
from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import STEP_NAMES
from slowwave.flows.plan import plan_night
from slowwave.flows.reprocess import FORGET, Selection, run_reprocess
from slowwave.schemas.counters import Count
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    CLAIMS,
    GISTS,
    MESSAGES,
    PASSAGES,
    QUARANTINE,
    RELEASED,
    SESSIONS,
    SUMMARIES,
    TABLES,
)
from slowwave.store import Store
from slowwave.store.logs import Recall, append
from slowwave.store.manifest import compute_table_digest
from slowwave.store.publishing import read_releases
from slowwave.tasks.ingest.parsing.records import Limits
from slowwave.tasks.ingest.store_messages import IngestedTranscript
from slowwave.tasks.ingest.task import VaultIndex, iter_new_rows
from slowwave.tasks.ingest.transcripts import find_pending
from slowwave.tasks.ingest.vault import build_message_table, find_broken_chains
from slowwave.tasks.job import Job, StepReport
from tests import talk_files
from tests.killed_nights import digests
from tests.talk_files import chat

SAMPLES = Path(__file__).parents[2] / "data" / "samples"


def settings(store: Path, **more: object) -> Settings:
    return Settings(store=store, encoder="hash-384", **{"gists": "extractive", **more})


SAID = talk_files.SAID[:6]


def steps(report: RunReport) -> dict[str, StepReport]:
    return {step.step: step for step in report.steps}


@pytest.fixture(scope="module")
def night(
    samples_night: tuple[Path, RunReport], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, RunReport]:
    store, report = samples_night
    return Path(
        shutil.copytree(store, tmp_path_factory.mktemp("night") / "store")
    ), report


def test_the_samples_give_a_release_with_rows_in_every_table(
    night: tuple[Path, RunReport],
) -> None:
    folder, report = night
    assert report.release is not None
    counts = report.release.counts
    assert counts["sessions"] == 20  # data/README.md lists them
    filled = (
        "messages",
        "sessions",
        "files",
        "passages",
        "claims",
        "topics",
        "summaries",
    )
    assert all(counts[name] for name in filled), counts
    store = Store.open(folder)
    passages, gists = (
        set(store.read(table, ["message_id"])["message_id"].to_pylist())
        for table in (PASSAGES, GISTS)
    )
    assert passages == gists
    # The torn last line of the fifth Claude Code session.
    assert store.count(QUARANTINE) == 1


def test_claims_quote_messages_of_nobody_but_people_and_models(
    night: tuple[Path, RunReport],
) -> None:
    store = Store.open(night[0])
    messages = {
        row["message_id"]: row
        for row in store.read(MESSAGES, ["message_id", "origin", "text"]).to_pylist()
    }
    gone = {
        m
        for row in store.read(SESSIONS, ["inactive"]).to_pylist()
        for m in row["inactive"]
    }
    claims = store.read(CLAIMS).to_pylist()
    assert len(claims) > 50
    assert all(
        any(claim["quote"] in messages[m]["text"] for m in claim["message_ids"])
        for claim in claims
    )
    cited = {m for claim in claims for m in claim["message_ids"]}
    assert {messages[m]["origin"] for m in cited} == {"human", "model"}
    assert not cited & gone
    assert gone  # the samples have rewound branches and regenerated answers


def test_no_secret_of_the_samples_is_stored(night: tuple[Path, RunReport]) -> None:
    store = Store.open(night[0])
    stored = "".join(str(store.read(t).to_pylist()) for t in TABLES.values())
    for secret in ("ghp" + "_", "not-a-real-" + "password", "let" + "mein"):
        assert any(
            secret in p.read_text("utf-8", "ignore") for p in SAMPLES.rglob("*.jsonl")
        ), secret
        assert secret not in stored
    assert "[redacted:" in stored


def test_every_session_has_a_master_and_sealed_groups_have_their_sizes(
    night: tuple[Path, RunReport],
) -> None:
    rows = pl.DataFrame(Store.open(night[0]).read(SUMMARIES))
    assert (
        rows.filter((pl.col("scope") == "session") & (pl.col("tier") == -1))[
            "scope_id"
        ].n_unique()
        == 20
    )
    sizes = rows.filter("sealed").with_columns(
        pl.col("member_ids").list.len().alias("size")
    )
    found = {
        (s, t > 0, n) for s, t, n in sizes.select("scope", "tier", "size").iter_rows()
    }
    assert found <= {
        ("session", False, 6),
        ("session", True, 3),
        ("topic", False, 10),
        ("topic", True, 10),
    }


def test_a_second_night_makes_no_version_of_any_table_and_loads_no_encoder(
    night: tuple[Path, RunReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str) -> None:
        raise AssertionError(name)

    monkeypatch.setattr("slowwave.tasks.vectors.load_shared_encoder", load)
    folder, _ = night
    (folder / "default" / SETTLED).unlink()  # all steps look
    before = Store.open(folder).read_versions(TABLES.values())
    again = run_night([SAMPLES], settings(folder))
    assert again.release is None
    assert Store.open(folder).read_versions(TABLES.values()) == before
    assert all(step.rows_out == 0 for step in again.steps)


def test_steps_whose_input_is_as_the_last_night_left_it_are_not_run(
    tmp_path: Path,
) -> None:
    path, called, during = chat(tmp_path, "a", 1, SAID), list[str](), list[Recall]()
    names = [*(STEP_NAMES[step.__name__] for step in nightly.STEPS), "publish"]

    def call(step: Callable[..., StepReport], *args: object) -> StepReport:
        called.append(STEP_NAMES[step.__name__])
        done = step(*args)
        if called[-1] == "publish" and during:
            append(store.dir, during.pop())
        return done

    def run(**more: object) -> list[str]:
        called.clear()
        report = run_night([path], settings(tmp_path / "store", **more), call)
        assert [step.step for step in report.steps][1:] == [
            STEP_NAMES[step.__name__] for step in nightly.STEPS
        ] + ["publish"]
        return called[1:]

    every, store = run(), Store.open(tmp_path / "store")
    assert (every, run()) == (names, [])
    assert (run(pyramid={"step": 5}), run(pyramid={"step": 5})) == (every, [])
    assert (run(), run()) == (every, [])
    store.delete_ids(CLAIMS, store.read(CLAIMS)["claim_id"].to_pylist()[:1])
    assert (run(), run()) == (every, [])
    append(store.dir, Recall("2026-03-02T09:00:00Z", []))
    # Handed out while the night is at work: the next looks at it.
    during.append(Recall("2026-03-03T09:00:00Z", []))
    assert (run(), run(), run()) == (every, every, [])


def test_a_new_session_touches_its_rows_alone(
    night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    shutil.copytree(night[0], folder)
    old = {
        t.name: {repr(r) for r in Store.open(folder).read(t).to_pylist()}
        for t in (MESSAGES, PASSAGES, GISTS)
    }
    chat(tmp_path, "new", 20, SAID)
    report = run_night([tmp_path / "new.jsonl"], settings(folder))
    assert steps(report)["read"].rows_out == 6
    assert steps(report)["passages"].rows_in == 6
    assert steps(report)["observe"].rows_in == 1
    for table in (MESSAGES, PASSAGES, GISTS):
        assert old[table.name] < {
            repr(r) for r in Store.open(folder).read(table).to_pylist()
        }


def test_a_session_is_read_on_and_what_its_transcript_loses_or_rewrites_the_vault_keeps(
    tmp_path: Path,
) -> None:
    path, options = tmp_path / "a.jsonl", settings(tmp_path / "store")
    chat(tmp_path, "a", 1, SAID[:4])
    run_night([path], options)
    store = Store.open(options.store)
    first = {row["hash"] for row in store.read(MESSAGES).to_pylist()}
    chat(tmp_path, "a", 1, SAID)  # it grows
    assert steps(run_night([path], options))["read"].rows_out == 2
    rows = store.read(MESSAGES).to_pylist()
    assert first < {row["hash"] for row in rows}
    assert sorted(row["seq"] for row in rows) == [0, 1, 2, 3, 4, 5]
    chat(
        tmp_path,
        "a",
        1,
        ["I moved to Lisbon in April and I love the river.", *SAID[1:]],
    )
    run_night([path], options)
    session = store.read(SESSIONS).to_pylist()[0]
    texts = {r["message_id"]: r["text"] for r in store.read(MESSAGES).to_pylist()}
    assert [texts[m] for m in session["inactive"]] == [SAID[0]]
    live = [
        r["summary"] for r in store.read(CLAIMS).to_pylist() if r["status"] == "active"
    ]
    assert any("Lisbon" in text for text in live)
    assert not any("Porto" in text for text in live)
    for table, column in ((PASSAGES, "text"), (GISTS, "summary"), (SUMMARIES, "text")):
        assert not any("Porto" in r[column] for r in store.read(table).to_pylist()), (
            table.name
        )
    chat(tmp_path, "a", 1, SAID[:2])  # it shrinks, and is gone
    run_night([path], options)
    path.unlink()
    run_night([tmp_path], options)
    assert store.count(MESSAGES) == 7


def test_what_a_killed_run_had_stored_is_mended_though_its_transcript_is_gone(
    tmp_path: Path,
) -> None:
    options = settings(tmp_path / "store")
    run_night([chat(tmp_path, "a", 1, SAID[:2])], options)
    job = Job(options, "killed")
    known, got = (
        VaultIndex(job.store),
        IngestedTranscript(
            find_pending({}, options, [chat(tmp_path, "a", 1, SAID)]).pending[0]
        ),
    )
    job.store.append(
        MESSAGES,
        build_message_table(list(iter_new_rows(got, known, Limits(), redact=True))),
    )
    # Killed here: messages stored, sessions not; and the tool tidied up.
    (tmp_path / "a.jsonl").unlink()
    assert find_broken_chains(job.store)[1] == []
    run_night([tmp_path / "store"], options)
    assert [r["messages"] for r in job.store.read(SESSIONS).to_pylist()] == [6]
    assert job.store.count(PASSAGES) == 6


def test_an_excluded_workspace_or_file_is_never_stored_nor_planned(
    tmp_path: Path,
) -> None:
    options = settings(
        tmp_path / "store",
        read={"exclude": ["/home/ada/tidepool*", "*/marit-and-theo*"]},
    )
    paths = [SAMPLES / "codex", SAMPLES / "claude-ai", SAMPLES / "generic"]
    plan = plan_night(paths, options)
    assert {source.tool for source in plan.sources} == {"codex", "claude-ai"}
    run_night(paths, options)
    assert Store.open(options.store).count(MESSAGES) == plan.messages
    assert {
        r["source"]
        for r in Store.open(options.store).read(MESSAGES, ["source"]).to_pylist()
    } == {"claude-ai"}


def test_reprocessing_a_part_keeps_the_evidence_of_the_whole(tmp_path: Path) -> None:
    options = settings(tmp_path / "store")
    for day, name in enumerate("abc", 1):
        chat(tmp_path, name, day, SAID)
    run_night([tmp_path], options)
    before = compute_table_digest(CLAIMS, Store.open(options.store).read(CLAIMS))
    assert any(
        len(r["evidence_sessions"]) == 3
        for r in Store.open(options.store).read(CLAIMS).to_pylist()
    )
    run_reprocess("dedupe", Selection(("a",)), options)
    assert (
        compute_table_digest(CLAIMS, Store.open(options.store).read(CLAIMS)) == before
    )


def test_a_file_that_nobody_knows_is_quarantined_and_later_resolved(
    tmp_path: Path,
) -> None:
    path, options = tmp_path / "a.jsonl", settings(tmp_path / "store")
    path.write_text("{}\n")
    chat(tmp_path, "b", 2, SAID)
    run_night([tmp_path], options)
    rows = Store.open(options.store).read(QUARANTINE).to_pylist()
    assert [(Path(r["path"]).name, r["resolved"]) for r in rows] == [("a.jsonl", False)]
    chat(tmp_path, "a", 1, SAID)
    run_night([tmp_path], options)
    rows = Store.open(options.store).read(QUARANTINE).to_pylist()
    assert [(Path(r["path"]).name, r["resolved"]) for r in rows] == [("a.jsonl", True)]


def test_gists_off_cost_nothing_and_can_be_filled_in_later(tmp_path: Path) -> None:
    options = settings(tmp_path / "store", gists="off")
    report = run_night([chat(tmp_path, "a", 1, SAID)], options)
    assert "gists" not in steps(report)
    assert Store.open(options.store).count(GISTS) == 0
    for missing in (True, False):
        with pytest.raises(UsageError, match="gists are off"):
            run_reprocess("gists", Selection(), options, missing=missing)
    options = settings(tmp_path / "store", gists="extractive")
    filled = [
        run_reprocess("gists", Selection(), options, missing=True) for _ in range(2)
    ]
    assert [steps(report)["gists"].rows_out for report in filled] == [6, 0]


def test_reprocessing_without_a_change_gives_the_same_rows(
    night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    # What other tests asked since.
    shutil.copytree(night[0], folder, ignore=shutil.ignore_patterns("recalls*.jsonl"))
    before = digests(folder, RELEASED)
    again = {STEP_NAMES[step.__name__] for step in nightly.STEPS} - {"rollup"}
    assert set(FORGET) == again | {"read", "topics", "summaries"}
    for step in FORGET:
        # Topics depend on what was there before: placed again in part they may differ, all again they may not.
        some = (
            Selection()
            if step in ("assign", "topics")
            else Selection(workspace="/home/ada/tidepool")
        )
        run_reprocess(step, some, settings(folder))
        after = digests(folder, RELEASED)
        assert after == before, step
    # Equal rows are no news.
    assert [one.name for one in read_releases(Store.open(folder))] == ["r1"]


def test_reprocessing_chooses_by_session_and_time_and_refuses_what_it_does_not_know(
    night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    shutil.copytree(night[0], folder)
    store = Store.open(folder)
    first = store.read(SESSIONS).to_pylist()[0]
    assert Selection((first["native_id"],)).select_sessions(store).height >= 1
    later = Selection(since=first["ended_at"]).select_sessions(store)
    assert (later["ended_at"] >= first["ended_at"]).all()
    with pytest.raises(UsageError, match="no such session: nobody"):
        run_reprocess("observe", Selection(("nobody",)), settings(folder))
    with pytest.raises(UsageError, match="no step 'dream'"):
        run_reprocess("dream", Selection(), settings(folder))


def test_changed_settings_redo_just_what_depends_on_them(
    night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    shutil.copytree(night[0], folder)
    options = settings(folder, pyramid={"step": 4})
    done = steps(run_night([SAMPLES], options))
    assert done["rollup"].rows_out > 0
    assert {name for name, step in done.items() if step.rows_out} == {
        "rollup",
        "publish",
    }


def test_real_transcripts_and_a_public_chat_give_whole_nights(
    bench_data: Path, tmp_path: Path
) -> None:
    """Counts from reading the files: 16 transcripts, and one LoCoMo conversation of 419 turns in 19 sessions."""
    conversation = json.loads((bench_data / "locomo" / "locomo_open.json").read_text())[
        0
    ]["conversation"]
    lines = [
        {
            "session_id": name,
            "message_id": turn["dia_id"],
            "role": "user",
            "speaker": turn["speaker"],
            "content": turn["text"],
        }
        for name, turns in conversation.items()
        if isinstance(turns, list)
        for turn in turns
    ]
    (tmp_path / "locomo.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    report = run_night(
        [bench_data / "fixtures", tmp_path / "locomo.jsonl"], settings(tmp_path / "s")
    )
    assert steps(report)["read"].counts[Count.FILES] == 17
    store = Store.open(tmp_path / "s")
    locomo = [
        r
        for r in store.read(SESSIONS).to_pylist()
        if r["path"].endswith("locomo.jsonl")
    ]
    assert (len(locomo), sum(r["messages"] for r in locomo)) == (19, 419)
    pi = [
        r
        for r in store.read(SESSIONS).to_pylist()
        if r["path"].endswith("large-session.jsonl")
    ]
    # 1,019 lines: a header, 118 changes of model or level, 900 messages.
    assert [r["messages"] for r in pi] == [900]
    assert find_broken_chains(store)[1] == []
    again = run_night(
        [bench_data / "fixtures", tmp_path / "locomo.jsonl"], settings(tmp_path / "s")
    )
    assert again.release is None
