"""A night over the samples with a strong model's recorded answers: what it learnt, and that it reaches who asks."""

import os
from pathlib import Path

import pyarrow.compute as pc
import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.flows.plan import plan_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    CLAIMS,
    COMPLETIONS,
    MERGES,
    MESSAGES,
    QUARANTINE,
    SUMMARIES,
    TOPICS,
)
from slowwave.store import Store
from slowwave.tasks.job import sum_usage
from tests import cassette
from tests.cassette import REPLAY
from tests.command_line import typed
from tests.killed_nights import SAMPLES

TIDEPOOL = "/home/ada/tidepool"


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunReport]:
    store = tmp_path_factory.mktemp("recorded") / "store"
    report = run_night([SAMPLES], Settings(store=store, encoder="hash-384", llm=REPLAY))
    if os.environ.get("SLOWWAVE_CASSETTE"):
        cassette.save()
    return store, report


def test_the_plan_foretold_each_task_within_a_tenth(
    night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    plan = plan_night(
        [SAMPLES], Settings(store=tmp_path / "store", encoder="hash-384", llm=REPLAY)
    )
    usage = {step.step: step.usage["scripted"] for step in night[1].steps if step.usage}
    lines = [line for line in plan.lines if line.requests]
    assert [line.step for line in lines] == ["observe", "supersede", "assign", "rollup"]
    for line in lines:
        used = usage[line.step]
        asked = [used.requests, used.prompt_tokens, used.answer_tokens]
        told = [line.requests, line.prompt_tokens, line.answer_tokens]
        assert told == pytest.approx(asked, rel=0.1), line.step


def read_skill(store: Path) -> str:
    words = ["skill", "--project", TIDEPOOL, "--store", str(store)]
    done = typed(*words, env={"SLOWWAVE_CONTEXT__TOKENIZER": "bytes/4"})
    assert done.exit_code == 0, done.output
    return done.output


def test_every_question_has_its_answer_and_the_cassette_says_whose(
    night: tuple[Path, RunReport],
) -> None:
    recorded = cassette.load()
    assert (recorded["model"], recorded["date"]) == ("claude", "2026-11-30")
    store = Store.open(night[0])
    failed = store.read(COMPLETIONS, where=pc.field("error").is_valid()).to_pylist()
    errors = [
        kind
        for used in sum_usage(night[1].steps).values()
        for kind in used.errors.elements()
    ]
    # A prompt that was changed is asked again: see tests/cassette.py.
    assert (failed, errors, night[1].failures) == ([], [], [])
    assert store.count(COMPLETIONS) == len(recorded["answers"])


def test_nearly_every_claim_is_kept_with_the_persons_own_words(
    night: tuple[Path, RunReport],
) -> None:
    store = Store.open(night[0])
    claims = store.read(CLAIMS).to_pylist()
    given = sum(
        len(answer["claims"])
        for answer in cassette.load()["answers"].values()
        if "claims" in answer
    )
    left_out = [
        row["reason"]
        for row in store.read(QUARANTINE).to_pylist()
        if row["step"] == "observe"
    ]
    refused = [why for why in left_out if not why.startswith("the end of its summary")]
    assert len(claims) + len(refused) == given
    assert len(claims) >= 0.98 * given > 100
    texts = {
        row["message_id"]: row
        for row in store.read(MESSAGES, ["message_id", "text", "origin"]).to_pylist()
    }
    decisions = [claim for claim in claims if claim["category"] == "decision"]
    quoted = [texts[claim["message_ids"][0]] for claim in decisions]
    assert all(
        claim["quote"] in row["text"]
        for claim, row in zip(decisions, quoted, strict=True)
    )
    assert sum(row["origin"] == "human" for row in quoted) >= 0.9 * len(quoted) > 15


def test_the_skill_has_three_of_four_standing_decisions_and_nothing_that_was_changed(
    night: tuple[Path, RunReport],
) -> None:
    text, store = read_skill(night[0]), Store.open(night[0])
    rows = store.read(CLAIMS, where=pc.field("workspace") == TIDEPOOL).to_pylist()
    rules = [row for row in rows if row["category"] in ("decision", "convention")]
    standing = [row["summary"] for row in rules if row["status"] == "active"]
    assert sum(summary in text for summary in standing) >= 0.75 * len(standing) > 12
    changed = [row["summary"] for row in rules if row["status"] == "superseded"]
    assert len(changed) == 2
    assert not any(summary in text for summary in changed)
    assert "The AWS keys in `.env` of tidepool must not be touched" in text


def test_what_was_changed_is_retired_however_unlikely_the_classifier_finds_it(
    night: tuple[Path, RunReport],
) -> None:
    store = Store.open(night[0])
    claims = {row["claim_id"]: row["summary"] for row in store.read(CLAIMS).to_pylist()}
    ledger = store.read(MERGES, where=pc.field("kind") == "supersession").to_pylist()
    changed = {
        claims[row["from_id"]]: (
            claims[row["into_id"]],
            dict(row["scores"])["likely"],
        )
        for row in ledger
    }
    assert len(changed) == 6
    fish, likely = changed[
        "Theo gave up meat in June 2026 and eats fish and vegetables."
    ]
    assert fish.startswith("Theo eats no fish any more")
    assert likely < 0.1
    sqlite = "tidepool keeps its gauge observations in SQLite, WAL mode, at `var/tidepool.db`."
    later, likely = changed[sqlite]
    assert (
        later.startswith("tidepool moves from SQLite to PostgreSQL 17"),
        likely < 0.4,
    ) == (True, True)
    assert changed["The tidepool API listens on port 8080."][0].startswith(
        "tidepool moves from port 8080 to port 9090"
    )


def test_topics_are_the_models_and_each_is_of_one_project(
    night: tuple[Path, RunReport],
) -> None:
    store = Store.open(night[0])
    topics = {
        row["topic_id"]: row for row in store.read(TOPICS).to_pylist() if row["size"]
    }
    opened = {row["name"] for row in topics.values() if not row["base"]}
    assert {
        "times and units",
        "tidepool backups",
        "Marit and Theo",
        "sourdough baking",
    } <= opened
    assert len(opened) == 13
    active = (pc.field("pack") == "coding") & (pc.field("status") == "active")
    coding = store.read(CLAIMS, where=active).to_pylist()
    places = {(row["topic_id"], row["workspace"]) for row in coding}
    assert len(places) == len({topic for topic, _ in places})


def test_a_briefing_tells_what_holds_and_marks_no_sentence_that_does(
    night: tuple[Path, RunReport],
) -> None:
    memory = Memory.open(night[0], encoder=HashEncoder())
    text = memory.briefing(4_000, workspace=TIDEPOOL).text
    assert "The AWS keys in `.env` of tidepool must not be touched" in text
    assert "tidepool listens on port 9090 everywhere" in text
    holds = text.split("tidepool listens on port 9090 everywhere")[1].split(
        "A release goes to the Pi first"
    )[0]
    assert "(until" not in holds
    titles = (
        Store.open(night[0])
        .read(SUMMARIES, where=(pc.field("scope") == "session"))
        .to_pylist()
    )
    assert len(titles) == 20
    assert all(row["title"] for row in titles)
