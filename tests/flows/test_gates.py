"""Gates: a night that would take much away is held back; calm ones never are. Real nights over real stores."""

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slowwave.cli.common import HELD
from slowwave.flows.exclude import promote_candidate, run_exclude, run_include
from slowwave.flows.nightly import run_night
from slowwave.flows.parts import quarantine_sessions
from slowwave.flows.parts.repair import run_repair
from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import is_held
from slowwave.flows.reprocess import Selection, run_reprocess
from slowwave.memory import Memory
from slowwave.recall.probes import FIRST, STILL, find_answered
from slowwave.recall.release.view import View
from slowwave.schemas.counters import Count
from slowwave.schemas.settings import GateSettings, Settings
from slowwave.schemas.tables import (
    CLAIMS,
    COMPLETIONS,
    PASSAGES,
    QUARANTINE,
    RUNS,
    SUMMARIES,
)
from slowwave.store import Store
from slowwave.store.publishing import read_releases
from slowwave.tasks.job import Job
from slowwave.tasks.publish import gates
from slowwave.tasks.publish.gates import Bounds, Changes, check_gates
from slowwave.tasks.publish.task import publish_release
from slowwave.tasks.summarize.coherence import Coherence
from slowwave.tasks.topics import by_model, cluster
from slowwave.tasks.topics.cluster import TopicLimits
from tests import llm_scripts
from tests.command_line import typed
from tests.talk_files import write_talk


@pytest.fixture
def settings(gated: Settings) -> Settings:
    return gated


def lose(settings: Settings, share: float) -> None:
    """What a faulty step would do: claims gone from the newest table."""
    store = Store.open(settings.store)
    ids = sorted(
        store.read(CLAIMS, ["claim_id"], pc.field("status") == "active")[0].to_pylist()
    )
    store.delete_ids(CLAIMS, ids[: int(share * len(ids))])


def test_a_night_that_loses_claims_is_held_until_a_person_promotes_it(
    settings: Settings, twelve: Path
) -> None:
    lose(settings, 0.5)
    report = run_night([], settings)
    (reason,) = report.held
    assert "claims withdrawn or gone, gates.max_lost allows 20%" in reason
    assert report.release is None
    store = Store.open(settings.store)
    assert [one.name for one in read_releases(store)] == ["r1"]
    assert store.read(RUNS).sort_by("started_at")["status"].to_pylist() == [
        "done",
        "held",
    ]
    assert run_night([], settings).held == report.held  # it stays so

    where = ["--store", str(settings.store)]
    shown = typed("diff", "--candidate", *where, "--limit", "1").stdout
    assert shown.startswith("r1 to candidate: ")
    assert "\ngone (1 of " in shown
    assert typed("status", *where).exit_code == HELD
    assert typed("promote", "--why", " ", *where).exit_code == 1
    assert typed("promote", "--why", "these were test data", *where).exit_code == 0
    again = typed("promote", "--why", "once more", *where)
    assert (again.exit_code, "nothing is held back" in again.stderr) == (1, True)
    assert [one.name for one in read_releases(store)] == ["r1", "r2"]
    kept = orjson.loads(
        store.read(RUNS).sort_by("started_at")["report"].to_pylist()[-1]
    )
    assert kept["notes"] == ["promoted: these were test data"]
    assert run_night([], settings).held == []
    assert typed("status", *where).exit_code == 0


def test_a_night_that_was_held_while_the_clock_was_ahead_is_decided_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime(2040, 1, 1, tzinfo=UTC)

    lose(settings, 0.5)
    with monkeypatch.context() as ahead:
        ahead.setattr("slowwave.flows.parts.run.datetime", Ahead)
        assert run_night([], settings).held
    store = Store.open(settings.store)
    assert is_held(store)
    promote_candidate("test data", settings)
    assert not is_held(store)
    runs = store.read(RUNS).to_pylist()
    # Killed before its row.
    store.delete_ids(RUNS, [row["run_id"] for row in runs if row["kind"] == "promote"])
    assert not is_held(store)


def test_within_the_bounds_and_in_a_small_memory_nothing_is_held(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(settings, 0.1)
    assert run_night([], settings).held == []
    lose(settings, 0.9)
    monkeypatch.setattr(gates, "BOUNDS", Bounds(claims=999))
    assert run_night([], settings).held == []


@pytest.mark.parametrize("dropped", [0, 1])
def test_claims_of_other_rules_take_the_place_of_those_before_but_may_not_be_far_fewer(
    settings: Settings, dropped: int
) -> None:
    """Of each session's three claims all are others, or one is gone besides."""
    store = Store.open(settings.store)
    rows = store.read(CLAIMS).sort_by("session_id")
    renamed = pc.binary_join_element_wise(rows["claim_id"], "x", "")
    store.delete_ids(CLAIMS, rows["claim_id"].to_pylist())
    keys = pa.array(["other"] * rows.num_rows)
    at = {name: rows.schema.get_field_index(name) for name in ("claim_id", "step_key")}
    rows = rows.set_column(at["claim_id"], rows.schema.field("claim_id"), renamed)
    rows = rows.set_column(at["step_key"], rows.schema.field("step_key"), keys)
    store.append(
        CLAIMS,
        rows.filter(pa.array([n % 3 >= dropped for n in range(rows.num_rows)])),
    )
    held = run_night([], settings).held
    assert [line[: line.index(" in")] for line in held] == dropped * [
        "33% of 36 claims withdrawn or gone, gates.max_lost allows 20%: 12 fewer"
    ]


def test_a_step_is_not_done_again_by_a_model_that_does_not_write_the_memory(
    settings: Settings,
) -> None:
    """`--llm` would otherwise have every claim made anew by that model, and lost where it has none."""
    store, where = Store.open(settings.store), ["--store", str(settings.store)]
    versions = store.read_versions([CLAIMS])
    made = typed(
        "reprocess", "topics", "--llm", "scripted:tests.llm_scripts:lying", *where
    )
    assert (made.exit_code, "written by rules" in made.output) == (1, True), made.output
    assert store.read_versions([CLAIMS]) == versions


def test_what_is_asked_for_by_hand_is_held_as_a_night_is(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = "scripted:tests.llm_scripts:faithful"
    store, where = (
        Store.open(settings.store),
        ["--store", str(settings.store), "--llm", spec],
    )
    model = settings.model_copy(update={"llm": spec})
    run_night([], model, rewrite=True)
    # Else it would answer as before.
    store.delete_ids(COMPLETIONS, store.read(COMPLETIONS)["completion_id"].to_pylist())
    lies = [llm_scripts.claim(1, "the moon is made of green cheese")]
    monkeypatch.setattr(llm_scripts, "claims", lambda request: lies)
    report = run_reprocess("observe", Selection(), model)
    assert "100% of 36 claims withdrawn or gone" in report.held[0]
    for words in (
        ["gists", "--gists", "extractive"],
        ["summaries"],
    ):
        # Make nothing of it live either.
        again = typed("reprocess", *words, "--missing", *where)
        assert again.exit_code == HELD, again.output
    assert [one.name for one in read_releases(store)] == ["r1", "r2"]


def test_a_session_that_a_person_leaves_out_is_no_loss_to_hold_back(
    settings: Settings,
) -> None:
    report = run_exclude(
        [f"s{n}" for n in range(6)], "half of it were test data", settings
    )
    assert (report.held, report.release is None) == ([], False)


def test_a_probe_that_would_be_lost_holds_the_night_whatever_the_shares(
    settings: Settings,
) -> None:
    store = Store.open(settings.store)
    probes = {
        "which port does the unit3x service listen on": "port 1021",
        "who paints the boat": "Ulrike",
    }
    settings = settings.model_copy(
        update={"gates": settings.gates.model_copy(update={"probes": probes})}
    )
    assert run_night([], settings).held == []
    for table, column in (
        (CLAIMS, "summary"),
        (PASSAGES, "text"),
        (SUMMARIES, "text"),
    ):
        rows = store.read(table, [table.key, column]).to_pylist()
        store.delete_ids(
            table, [row[table.key] for row in rows if "1021" in row[column]]
        )
    (reason,) = publish_release(Job(settings, "by a faulty step"), gated=True).held
    assert "which port does the unit3x service listen on" in reason


def test_an_answer_that_news_push_down_is_not_lost(
    settings: Settings, twelve: Path
) -> None:
    probe = {"which port does the unit3x service listen on": "port 1021"}
    talk = write_talk(twelve / "b.jsonl", 20, 12)
    talk.write_text(re.sub(r"unit\d+x", "unit3x", talk.read_text()))
    assert run_night([talk], settings).check_complete().release is not None
    now = datetime.now(UTC)
    view = View.open(settings.store, settings.space)
    assert [
        find_answered(view, settings, probe, now, first) for first in (FIRST, STILL)
    ] == [set(), {*probe}]


def test_a_model_whose_summaries_tell_nothing_or_whose_base_topic_holds_all_is_held_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_model, "SIZES", by_model.Sizes(batch=5))
    monkeypatch.setattr(gates, "BOUNDS", Bounds(claims=10, summaries=10))
    monkeypatch.setattr(cluster, "LIMITS", TopicLimits(min_to_split=1_000))

    def run(script: str, last: int) -> RunReport:
        store, llm = tmp_path / script[-6:], f"scripted:{script}"
        made = Settings(store=store, encoder="hash-384", keywords={"top": 0}, llm=llm)
        return run_night([write_talk(tmp_path / f"{last}.jsonl", 0, last)], made)

    faithful, selfish = (
        "tests.llm_scripts:faithful",
        "tests.topics.test_merge_topics:selfish",
    )
    # The first one has nothing to be compared with.
    assert run(faithful, 12).release is not None
    held = run(faithful, 24).held
    assert ["3% at least is right: An account of" in line for line in held] == [True]
    monkeypatch.setattr(
        gates, "BOUNDS", Bounds(claims=10, summaries=10, coverage=0, base_topic=0.4)
    )
    assert run(selfish, 12).release is not None
    held = run(selfish, 24).held  # the second night's are all in another base topic
    assert "50% of the claims in one base topic, 40% at most is right" in held


WRONG = [
    Coherence(0, f"Account {n}", 0.5, "7 is nowhere", 0.9, None) for n in range(13)
]
RIGHT = [Coherence(0, "Fine", 0.5, None, 0.9, None)] * 7
MUTE = [Coherence(0, "今日は", None, None, None, None)] * 20
"""Without words and vectors nothing is known of them."""
UNLIKE = [Coherence(0, "Off the point", 0.5, None, 0.1, None)] * 20


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            Changes(5, summarised=(20, 3)),
            "3 of 20 sessions and topics lost their summaries, gates.max_lost allows 10%",
        ),
        (Changes(5, summarised=(20, 2)), None),
        (Changes(5, summarised=(19, 19)), None),  # too few to tell
        (Changes(new_claims=200, rejected=["nobody said it"] * 19), None),
        (
            Changes(new_claims=200, rejected=["nobody said it"] * 801),
            "80% of the new claims were not kept",
        ),
        (
            Changes(new_claims=200, junk=["Let me check."] * 181),
            "90% of the new claims are of no use",
        ),
        (Changes(new_claims=200, tokens=1_001), "1,001 tokens"),
        (
            Changes(100, base_share=0.6),
            "60% of the claims in one base topic, 50% at most is right",
        ),
        (Changes(99, base_share=0.6), None),
        (
            Changes(5, summaries=[*WRONG, *RIGHT]),
            "65% of the 20 new summaries say what no member says, 60% at most is right: Account 0; Account 1; ",
        ),
        (Changes(5, summaries=[*WRONG, *RIGHT[1:]]), None),
        (Changes(5, summaries=MUTE), None),
        (Changes(5, summaries=UNLIKE), "0.20 at least is right: Off the point"),
    ],
)
def test_what_is_beyond_a_bound_is_told_and_nothing_of_too_few(
    changes: Changes, told: str | None
) -> None:
    lines = check_gates(GateSettings(max_tokens=1_000), changes)
    assert [told in line for line in lines if told] == [True] * (told is not None), (
        lines
    )
    assert bool(lines) == (told is not None)


def test_a_night_that_loses_summaries_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "LIMITS", TopicLimits(min_to_split=1_000))
    made = Settings(store=tmp_path / "store", encoder="hash-384", keywords={"top": 0})
    run_night([write_talk(tmp_path / "a.jsonl", 0, 24)], made)
    store = Store.open(made.store)
    rows = store.read(
        SUMMARIES, ["summary_id", "scope"], pc.field("scope") == "session"
    ).to_pylist()
    store.delete_ids(SUMMARIES, [row["summary_id"] for row in rows])
    held = publish_release(Job(made, "lossy")).held
    assert ["sessions and topics lost their summaries" in line for line in held] == [
        True
    ]


def test_a_session_that_grew_and_chats_that_were_edited_hold_no_night(
    settings: Settings, twelve: Path
) -> None:
    whole = (
        write_talk(twelve / "b.jsonl", 20, 12).read_bytes().splitlines(keepends=True)
    )
    half = twelve / "c.jsonl"
    half.write_bytes(
        b"".join(
            line.replace(b'"s2', b'"c').replace(b'"s3', b'"c') for line in whole[:18]
        )
    )
    run_night([half], settings).check_complete()
    half.write_bytes(half.read_bytes().replace(b"port", b"harbour", 3))
    with half.open("ab") as file:
        file.writelines(re.sub(rb'"s\d+', b'"c0', line) for line in whole[18:])
    report = run_night([half], settings).check_complete()
    assert report.release is not None
    assert (
        sum(
            "message was changed" in note
            for note in report.notes + report.collect_notes()
        )
        == 3
    )


def test_rows_that_can_not_be_used_are_set_aside_and_the_night_goes_on(
    settings: Settings, twelve: Path
) -> None:
    some = write_talk(twelve / "some.jsonl", 20, 20)
    some.write_text(some.read_text().replace('"user"', '"oracle"', 25))
    report = run_night([some], settings).check_complete()
    assert (
        report.steps[0].counts[Count.LINES_QUARANTINED],
        report.steps[0].rows_out,
    ) == (25, 35)

    most = write_talk(twelve / "most.jsonl", 50, 33)
    most.write_text(most.read_text().replace('"user"', '"oracle"', 97))
    report = run_night([most], settings)
    assert (
        report.steps[0].counts[Count.LINES_QUARANTINED],
        report.steps[0].rows_out,
        report.held,
    ) == (1, 0, [])
    assert report.failures == [
        f"not read: {most} (in quarantine: `slowwave inspect quarantine` has the reason)"
    ]
    reasons = (
        Store.open(settings.store).read(QUARANTINE, ["reason"])["reason"].to_pylist()
    )
    assert any(
        one.startswith("97 of its first 99 rows can't be used, so none is read: ")
        for one in reasons
    )


def test_what_came_with_a_held_night_is_set_aside_by_the_next_one_which_goes_on(
    settings: Settings, twelve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dislike(*_: object) -> list[str]:
        rows = Store.open(settings.store).read(
            CLAIMS, ["summary"], pc.field("status") == "active"
        )
        return ["unit 303 again"] * any(
            "unit303x" in claim for claim in rows["summary"].to_pylist()
        )

    monkeypatch.setattr("slowwave.tasks.publish.task.check_gates", dislike)
    assert run_night([write_talk(twelve / "bad.jsonl", 300, 6)], settings).held
    report = run_night([write_talk(twelve / "b.jsonl", 20, 12)], settings)
    assert (report.held, report.release is None) == ([], False)
    assert (
        "what it added is excluded; `slowwave include ID` includes it: s300"
        in report.notes[0]
    )
    assert "unit25x" in Memory.open(settings.store).recall("the unit25x cache")[0].text
    assert run_include(["s302"], settings).release is not None


def test_what_a_held_night_changed_in_known_sessions_is_set_aside_and_new_ones_are_not(
    settings: Settings, twelve: Path
) -> None:
    def is_told(words: str) -> bool:
        return (
            words
            in Memory.open(settings.store)
            .recall(f"the {words} cache holds entries")[0]
            .text
        )

    path = twelve / "a.jsonl"
    path.write_text(re.sub(r"unit(\d+)x", r"quay\1x", path.read_text()))
    assert run_night([path], settings).held
    path.write_text(path.read_text().replace("quay4x", "pier4x"))
    report = run_night([path, write_talk(twelve / "b.jsonl", 20, 12)], settings)
    assert (report.held, report.release is None) == ([], False)
    assert "`slowwave include ID` includes it: s0, s1, s10" in report.notes[0]
    assert "s20" not in report.notes[0]
    told = [
        is_told(words) for words in ("unit25x", "unit3x", "unit4x", "quay3x", "pier4x")
    ]
    assert told == [True, True, True, False, False]
    assert run_include(["s3"], settings).release is not None
    assert (is_told("unit3x"), is_told("quay3x")) == (False, True)


def test_damage_is_mended_while_a_night_is_held(
    settings: Settings, twelve: Path
) -> None:
    path = twelve / "a.jsonl"
    path.write_text(re.sub(r"unit(\d+)x", r"quay\1x", path.read_text()))
    assert run_night([path], settings).held
    shutil.rmtree(settings.store / "default" / "claims.lance")
    assert run_repair(settings).release is not None
    assert not is_held(Store.open(settings.store))
    assert (
        "unit3x"
        in Memory.open(settings.store).recall("the unit3x cache holds entries")[0].text
    )


def test_a_file_that_holds_many_times_what_is_known_is_set_aside(
    settings: Settings, twelve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine_sessions, "FEW", 30)
    folder, named = twelve / "more", write_talk(twelve / "named.jsonl", 100, 70)
    folder.mkdir()
    flood = write_talk(folder / "flood.jsonl", 300, 70)
    write_talk(folder / "calm.jsonl", 20, 12)
    report = run_night([folder], settings)
    assert [str(flood) in note for note in report.notes] == [True]
    hits = Memory.open(settings.store).recall(
        "the cache holds entries at most", 300, everything=True
    )
    sessions = {source.session for hit in hits for source in hit.sources}
    assert "s21" in sessions
    assert not [one for one in sessions if one.startswith("s3") and len(one) == 4]
    assert run_night([named], settings).notes == []
