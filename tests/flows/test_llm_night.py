"""Whole nights with a language model, as plain functions: what comes of its answers, of its failures, and of a budget.

The model is the scripted one that ships (`tests/llm_scripts.py` says what it answers); everything else is real.
"""

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from slowwave import Memory
from slowwave.engines.llm.cache import CachedLLM
from slowwave.engines.llm.protocol import Completion, Request
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.engines.llm.select import ChainLLM
from slowwave.flows.metrics import render_metrics
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.flows.plan import plan_night
from slowwave.flows.reprocess import Selection, list_masters, run_reprocess
from slowwave.schemas.counters import Count, CountByKind
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    CLAIMS,
    COMPLETIONS,
    GISTS,
    MESSAGES,
    QUARANTINE,
    RELEASED,
    SUMMARIES,
    TABLES,
    TOPICS,
)
from slowwave.store import Store
from slowwave.tasks.job import StepReport, sum_usage
from slowwave.tasks.llm.ask import Model
from slowwave.tasks.llm.library import Library
from slowwave.tasks.observe.by_model import extract_claims
from slowwave.tasks.topics import by_model
from tests import talk_files
from tests.killed_nights import FORKS, SAMPLES, digests, finished
from tests.llm_scripts import faithful
from tests.talk_files import chat, session

CHATS = SAMPLES / "generic"
MADE = (*RELEASED, COMPLETIONS)
SAID = talk_files.SAID[:6]


def settings(store: Path, script: str = "faithful", **more: object) -> Settings:
    spec = f"scripted:tests.llm_scripts:{script}"
    return Settings(
        store=store, encoder="hash-384", **{"llm": spec, "gists": "llm", **more}
    )


def say(folder: Path, times: int, session: str) -> Path:
    """What is said so often, each time with a number."""
    return chat(
        folder,
        session,
        2,
        [f"{text} That was number {n}." for n, text in enumerate(SAID * times)],
    )


def steps(report: RunReport) -> dict[str, StepReport]:
    return {step.step: step for step in report.steps}


def paid(report: RunReport) -> int:
    """Requests that were not answered from the cache."""
    return sum(used.paid_requests for used in sum_usage(report.steps).values())


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunReport]:
    folder = tmp_path_factory.mktemp("llm")
    return folder, run_night([SAMPLES], settings(folder))


@pytest.fixture(scope="module")
def distilled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one night over the chats."""
    store = tmp_path_factory.mktemp("distilled") / "store"
    run_night([CHATS], settings(store))
    return store


@pytest.fixture
def copied(distilled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(distilled, tmp_path / "copied"))


def test_every_kept_claim_has_its_quote_in_its_message_and_its_gates(
    night: tuple[Path, RunReport],
) -> None:
    store = Store.open(night[0])
    texts = {
        r["message_id"]: r["text"]
        for r in store.read(MESSAGES, ["message_id", "text"]).to_pylist()
    }
    claims = store.read(CLAIMS).to_pylist()
    assert len(claims) > 50
    for claim in claims:
        assert claim["quote"] in texts[claim["message_ids"][0]]
        assert claim["observer"] == "scripted"
        assert claim["verified"] is True
        assert None not in (
            claim["reusable"],
            claim["non_trivial"],
            claim["specific"],
            claim["gate_reasons"],
        )


def test_a_claim_is_found_by_words_that_only_a_models_detail_has(
    tmp_path: Path,
) -> None:
    said, found = chat(tmp_path, "chat", 2, SAID), []
    for name in ("off", "faithful", "elaborating"):
        store, spec = (
            tmp_path / name,
            name if name == "off" else f"scripted:tests.llm_scripts:{name}",
        )
        run_night([said], settings(store, llm=spec, gists="off", embeddings=False))
        hits = Memory.open(store).recall("Is ornithology of interest to anybody?")
        indexes = Store.open(store).open_dataset(CLAIMS).describe_indices()
        found.append(
            (
                sorted(index.field_names[0] for index in indexes),
                [hit.text for hit in hits[:1]],
            )
        )
    assert found == [
        (["summary"], []),
        (["summary"], []),
        (["detail", "summary"], [SAID[2]]),
    ]


def test_the_model_writes_gists_summaries_titles_and_topics(
    night: tuple[Path, RunReport],
) -> None:
    store = Store.open(night[0])
    assert b'slowwave_quality_of_texts{what="tier 0' in render_metrics(
        settings(night[0])
    )
    gists = store.read(GISTS).to_pylist()
    assert {g["strategy"] for g in gists} >= {"llm", "extractive"}
    assert all(
        g["summary"] == "A message in few words."
        for g in gists
        if g["strategy"] == "llm"
    )
    summaries = store.read(SUMMARIES).to_pylist()
    assert {s["text"] for s in summaries} == {
        "An account of what was said, in plain prose.",
        "An account of the whole conversation.",
    }
    assert "What it is about" in {s["title"] for s in summaries if s["tier"] == -1}
    topics = store.read(TOPICS).to_pylist()
    (life,) = [t for t in topics if t["name"] == "daily life"]
    assert life["purpose"] == "What people do day by day."
    assert life["size"] > 10


def test_the_report_shows_what_was_asked_step_by_step_and_in_all(
    night: tuple[Path, RunReport],
) -> None:
    rows = night[1].list_usage()["scripted"]
    assert all(row["prompt tokens"] > 0 and row["answer tokens"] > 0 for row in rows)
    assert {"gists", "observe", "supersede", "assign", "rollup"} <= {
        row["step"] for row in rows
    }
    assert paid(night[1]) == Store.open(night[0]).count(COMPLETIONS)
    asked = {row["step"]: row["requests"] for row in rows}
    in_all = asked.pop("in all")
    assert in_all == sum(asked.values()) > 100
    assert f"requests {in_all:,}" in night[1].render_markdown()
    assert "scripted" not in str(night[1].list_steps())


def test_a_second_night_asks_nothing_new_and_makes_no_version(
    night: tuple[Path, RunReport],
) -> None:
    before = Store.open(night[0]).read_versions(TABLES.values())
    again = run_night([SAMPLES], settings(night[0]))
    assert again.release is None
    assert paid(again) == 0
    assert Store.open(night[0]).read_versions(TABLES.values()) == before


def test_doing_it_again_gives_the_same_rows_from_the_cache(
    night: tuple[Path, RunReport],
) -> None:
    before = digests(night[0], MADE)
    for step in ("gists", "observe", "summaries"):
        assert paid(run_reprocess(step, Selection(), settings(night[0]))) == 0
        assert digests(night[0], MADE) == before, step


def test_another_prompt_makes_what_rests_on_it_pending_and_nothing_else(
    night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    shipped = Path(__file__).parents[2] / "tasks" / "llm" / "prompts" / "master.md"
    (tmp_path / "master.md").write_text(
        shipped.read_text(encoding="utf-8").replace("You write", "Now you write")
    )
    done = steps(
        run_night([SAMPLES], settings(night[0], extract={"prompts": tmp_path}))
    )
    assert {name for name, step in done.items() if step.rows_out} == {
        "rollup",
        "publish",
    }
    used = done["rollup"].usage["scripted"]
    # A master for each session.
    assert used.paid_requests == 20


def test_of_a_model_that_declines_everything_there_is_no_claim_and_the_night_releases(
    tmp_path: Path,
) -> None:
    off = run_night([CHATS], Settings(store=tmp_path / "off", encoder="hash-384"))
    report = run_night([CHATS], settings(tmp_path / "s", "refusing"))
    assert report.release is not None
    assert report.failures == []  # asked again it would decline again: nothing waits
    store = Store.open(tmp_path / "s")
    assert store.count(CLAIMS) == 0
    assert "llm" not in {g["strategy"] for g in store.read(GISTS).to_pylist()}
    assert off.release
    masters = (pc.field("scope") == "session") & (pc.field("tier") == -1)
    assert (
        store.count(SUMMARIES, masters)
        == Store.open(tmp_path / "off").count(SUMMARIES, masters)
        > 1
    )
    rows = store.read(QUARANTINE).to_pylist()
    assert {row["step"] for row in rows} >= {"gists", "observe", "rollup"}
    assert all(
        row["reason"].startswith(("refusal: ", "not consolidated: refusal"))
        for row in rows
    )
    assert paid(run_night([CHATS], settings(tmp_path / "s", "refusing"))) == 0


def test_what_a_model_makes_up_is_quarantined_with_the_reason(tmp_path: Path) -> None:
    run_night([chat(tmp_path, "a", 2, SAID)], settings(tmp_path / "s", "lying"))
    store = Store.open(tmp_path / "s")
    assert store.count(CLAIMS) == 0
    rows = [
        row for row in store.read(QUARANTINE).to_pylist() if row["step"] == "observe"
    ]
    assert sorted(row["reason"] for row in rows) == [
        "cites no message of its chunk: [97]",
        "its quote does not stand in the messages it cites",
    ]
    assert all(
        "“" in row["excerpt"] and row["row_id"].endswith(("#0", "#1")) for row in rows
    )


def test_a_session_waits_until_the_server_is_back(tmp_path: Path) -> None:
    path, store = chat(tmp_path, "a", 2, SAID), tmp_path / "s"
    first = run_night([path], settings(store, "absent"))
    assert first.release is not None  # what was read is released
    assert steps(first)["observe"].kinds[CountByKind.WAITING]["sessions"] == 1
    why = "scripted left 1 request unanswered: unavailable: no server answered"
    assert steps(first)["observe"].failed == [why]
    assert Store.open(store).count(CLAIMS) == 0
    # Nothing is wrong with what was asked.
    assert Store.open(store).count(QUARANTINE) == 0
    versions = Store.open(store).read_versions(RELEASED)
    still_away = run_night([path], settings(store, "absent"))
    assert (still_away.release, bool(still_away.failures)) == (None, True)
    assert Store.open(store).read_versions(RELEASED) == versions
    assert steps(run_night([path], settings(store)))["observe"].rows_out == 6


def test_a_budget_stops_a_night_cleanly_and_the_next_ones_go_on_to_the_same_end(
    distilled: Path, tmp_path: Path
) -> None:
    parts, spent = tmp_path / "parts", []
    for _ in range(60):
        report = run_night([CHATS], settings(parts, model={"max_tokens": 12_000}))
        spent.append(sum(used.tokens for used in sum_usage(report.steps).values()))
        if not spent[-1]:
            break
    assert 3 < len(spent) < 60
    assert max(spent) <= 12_000
    mine, theirs = Store.open(parts), Store.open(distilled)
    for table in (GISTS, CLAIMS):
        ids = [
            sorted(store.read(table, [table.key])[table.key].to_pylist())
            for store in (mine, theirs)
        ]
        assert ids[0] == ids[1]
    assert not [r for r in mine.read(QUARANTINE).to_pylist() if "budget" in r["reason"]]
    assert mine.count(SUMMARIES) > 0


def test_a_window_too_small_for_a_prompt_is_an_engine_that_is_not_there(
    tmp_path: Path,
) -> None:
    run_night([CHATS], Settings(store=tmp_path, encoder="hash-384"))
    model = Model(
        ChainLLM([ScriptedLLM(faithful, context_window=2_048)]), Library(None)
    )
    done = extract_claims(
        Store.open(tmp_path).read(MESSAGES),
        settings(tmp_path),
        model,
        report := StepReport("observe"),
    )
    assert (done.claims, len(done.pending)) == (
        [],
        report.kinds[CountByKind.WAITING]["sessions"],
    )
    assert all("lower extract.answer_tokens" in why for why in done.pending.values())


def figures(store: Path) -> dict[str, int]:
    opened = Store.open(store)
    return {
        table.name: opened.count(table) for table in (GISTS, CLAIMS, TOPICS, SUMMARIES)
    }


def test_claims_that_wait_keep_the_topic_they_had(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = figures(copied)
    monkeypatch.setattr(by_model, "SIZES", by_model.Sizes(batch=7))
    # What was assigned is pending again, and no token is left for it.
    monkeypatch.setattr(by_model, "VERSION", 99)
    run_night([CHATS], settings(copied, gists="off", model={"max_tokens": 1}))
    store = Store.open(copied)
    waiting = [c for c in store.read(CLAIMS).to_pylist() if c["status"] == "active"]
    assert {claim["topic_id"] for claim in waiting} <= set(
        store.read(TOPICS)["topic_id"].to_pylist()
    )
    assert figures(copied) == before
    run_night([CHATS], settings(copied, gists="off"))
    keys = {t["step_key"] for t in store.read(TOPICS).to_pylist() if t["size"]}
    assert len(keys) == 1  # those of before are gone now, or made anew


def test_a_workspace_that_is_not_there_is_refused_and_costs_nothing(
    copied: Path,
) -> None:
    before = figures(copied)
    with pytest.raises(UsageError, match="/nope"):
        run_reprocess(
            "summaries", Selection(workspace="/nope"), settings(copied), missing=True
        )
    assert figures(copied) == before


def test_a_long_session_is_cut_distilled_and_consolidated(tmp_path: Path) -> None:
    path = say(tmp_path, 12, "long")
    cut = {"chunk_tokens": 400, "answer_tokens": 800, "max_claims": 30}
    options = settings(tmp_path / "s", extract=cut, gists="off")
    planned = {line.step: line.requests for line in plan_night([path], options).lines}
    report = run_night([path], options)
    rows = Store.open(tmp_path / "s").read(CLAIMS).to_pylist()
    # Every message is cited once.
    assert len({row["message_ids"][0] for row in rows}) == 72
    assert len(rows) == 72
    asked = Store.open(tmp_path / "s").read(COMPLETIONS).to_pylist()
    assert (
        sum("/final/" in row["request_id"] for row in asked)
        >= planned["consolidate"]
        == 1
    )
    assert (
        sum(
            row["request_id"].split("/")[-1].isdigit()
            and row["request_id"].count("/") == 1
            for row in asked
        )
        > 4
    )
    assert steps(report)["observe"].counts[Count.CLAIMS_KEPT] == 72


def test_counts_reconcile_whatever_the_model_does(tmp_path: Path) -> None:
    report = run_night([SAMPLES], settings(tmp_path, "troubled"))
    assert report.release is not None
    store, observed = Store.open(tmp_path), steps(report)["observe"]
    assert observed.rows_in == 20
    held = [
        row for row in store.read(QUARANTINE).to_pylist() if row["step"] == "observe"
    ]
    assert observed.counts[Count.ANSWERS_QUARANTINED] == len(held)
    assert {c["observer"] for c in store.read(CLAIMS).to_pylist()} == {"scripted"}
    spoken = store.count(GISTS)
    assert steps(report)["gists"].rows_in == spoken
    assert run_night([SAMPLES], settings(tmp_path, "troubled")).release is None


def test_settings_that_contradict_each_other_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    for wrong, said in (
        ({"llm": "off"}, "gists = llm needs a language model"),
        ({"llm": "gpt-9"}, "no LLM engine 'gpt-9'"),
        ({"observe": {"pack": "garden"}}, "no pack at"),
    ):
        with pytest.raises(UsageError, match=said):
            run_night([CHATS], settings(tmp_path / "s", **wrong))
    assert not (tmp_path / "s").exists()


def test_summarize_brings_one_session_up_to_date(tmp_path: Path) -> None:
    one, other = chat(tmp_path, "a", 2, SAID), chat(tmp_path, "b", 2, SAID[::-1])
    store = tmp_path / "s"
    run_night([one, other], settings(store, model={"max_tokens": 1}))
    assert Store.open(store).count(SUMMARIES) == 0
    wanted = Selection(("a",))
    report = run_reprocess("summaries", wanted, settings(store), missing=True)
    found = list_masters(wanted, settings(store))
    assert [(s["title"], s["text"]) for s in found] == [
        ("What it is about", "An account of the whole conversation.")
    ]
    assert report.release is not None
    assert {s["scope"] for s in Store.open(store).read(SUMMARIES).to_pylist()} == {
        "session"
    }
    again = run_reprocess("summaries", wanted, settings(store), missing=True)
    assert (again.release, list_masters(wanted, settings(store)), paid(again)) == (
        None,
        found,
        0,
    )


def do_killed_night(store: Path, source: Path, die_after: int, asked: Any) -> None:
    """Do a night whose answers are kept two by two; count them in `asked`, and die at one of them."""
    complete = ScriptedLLM.complete

    def count(self: ScriptedLLM, requests: Sequence[Request]) -> Iterator[Completion]:
        for completion in complete(self, requests):
            asked.value += 1
            if asked.value == die_after:
                os.kill(os.getpid(), signal.SIGKILL)
            yield completion

    ScriptedLLM.complete = count  # type: ignore[method-assign]
    CachedLLM.__init__.__kwdefaults__["batch"] = 2
    run_night([source], settings(store))


def killed(store: Path, source: Path, die_after: int) -> tuple[int | None, int]:
    """The exit code of such a night in a process of its own, and the answers that it was given."""
    asked = FORKS.Value("i", 0)
    process = FORKS.Process(
        target=do_killed_night, args=(store, source, die_after, asked)
    )
    process.start()
    return finished(process), asked.value


def test_killed_between_two_answers_the_night_ends_as_if_it_had_not_been_and_pays_nothing_twice(
    tmp_path: Path,
) -> None:
    source = say(tmp_path, 8, "a")
    code, everything = killed(tmp_path / "whole", source, 0)
    assert code == 0
    at = [everything // 5, everything // 3]
    for die_after in at:
        assert killed(tmp_path / "s", source, die_after) == (-signal.SIGKILL, die_after)
    code, last = killed(tmp_path / "s", source, 0)
    assert code == 0
    assert digests(tmp_path / "s", MADE) == digests(tmp_path / "whole", MADE)
    # All but the batch of two in hand at each death is kept.
    assert last <= everything - sum(at) + 2 * len(at)


def test_what_an_agent_says_of_itself_is_its_own_topic_and_one_message_is_not_summed_up(
    tmp_path: Path,
) -> None:
    said = [
        ("user", "Good morning, and who are you?"),
        ("assistant", "My name is Echo and I keep the harbour log."),
    ]
    paths = [
        session(tmp_path, "s-1", 1, said),
        session(tmp_path, "s-2", 2, [("user", SAID[3])]),
    ]
    model = "scripted:tests.llm_scripts:faithful"
    models = {"extract": model, "summaries": model}
    report = run_night(
        paths, Settings(store=tmp_path / "store", encoder="hash-384", models=models)
    )  # type: ignore[arg-type]
    assert steps(report)["rollup"].usage["scripted"].requests == 1
    store = Store.open(tmp_path / "store")
    solo = next(
        row for row in store.read(SUMMARIES).to_pylist() if SAID[3][:20] in row["text"]
    )
    assert solo["tier"] == -1
    names = {row["topic_id"]: row["name"] for row in store.read(TOPICS).to_pylist()}
    claims = store.read(CLAIMS).to_pylist()
    assert [names[row["topic_id"]] for row in claims if "Echo" in row["quote"]] == [
        "self"
    ]
