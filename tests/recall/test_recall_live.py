"""Recall that stays open: exchanges, the floor, many queries at once, new releases, a store that goes away."""

import asyncio
import json
import re
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from slowwave.cli.ask import format_hit
from slowwave.engines.encoders.protocol import HashEncoder, Vectors
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.recall.hits import NOT_SURE, Fragment, Hits
from slowwave.recall.live import LiveRelease
from slowwave.recall.release.calibration import fit_calibration
from slowwave.recall.release.tables import PassageIndex
from slowwave.recall.release.view import Scale, View
from slowwave.schemas.errors import StoreMissing, StoreUnreadable, UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, PASSAGES, SUMMARIES
from slowwave.store import Store
from slowwave.store.publishing import publish, read_releases, roll_back
from slowwave.store.releases import Release
from slowwave.store.upkeep import compact_store
from tests.command_line import typed
from tests.recall_store import (
    START,
    TALK,
    add,
    build,
    build_wordless,
    message_rows,
    passage_rows,
    summary,
)
from tests.talk_files import session

NINA = "my sister Nina moved to Lisbon"
NOW = datetime(2025, 5, 14, 15, 30, tzinfo=UTC)  # a Wednesday


class Counting(HashEncoder):
    """Writes down how often it is called."""

    calls = 0

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        return super().encode(texts)


@pytest.fixture(autouse=True)
def answers_the_newest_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveRelease, "WAIT", 0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return build(tmp_path / "store")


@pytest.fixture
def memory(store: Store) -> Memory:
    return Memory.open(store.root, encoder=HashEncoder())


def _scaled(draft: Release, store: Store) -> str:
    return fit_calibration(View(store.dir, draft), HashEncoder())


def _told(store: Store, seq: int, text: str) -> None:
    """One more message in a session of its own, released."""
    row = message_rows()[0] | {
        "message_id": f"new-{seq}",
        "native_id": f"new:{seq}",
        "session_id": "new",
        "seq": seq,
    }
    row["text"] = text
    add(store, MESSAGES, [row])
    add(store, PASSAGES, passage_rows([row], vectors=True))
    compact_store(store)
    publish(store, f"run-{seq}", "hash-384")


def test_a_question_brings_its_answer_and_an_answer_its_question(
    memory: Memory,
) -> None:
    asked = memory.recall(
        "Redis cache keeps serving stale sessions", k=1, kinds="message"
    )[0]
    question = Fragment("user", "ses-a:0", TALK["ses-a"][0])
    answer = Fragment("assistant", "ses-a:1", TALK["ses-a"][1])
    assert asked.id == "ses-a-m0"
    assert asked.pair == (question, answer)
    answered = memory.recall(
        "Agreed: an unlogged table in Postgres", k=1, kinds="message"
    )[0]
    assert (answered.id, answered.pair) == ("ses-a-m1", (question, answer))
    for hit in memory.recall(
        "session cache Redis Postgres", kinds=("claim", "summary")
    ):
        assert hit.pair == ()


def test_what_a_user_takes_back_next_is_shown_with_it(tmp_path: Path) -> None:
    said = [
        "The uploads fail: make the client wait longer.",
        "I raised the upload timeout to 300 seconds.",
    ]
    said += [
        "no, that's horrible. undo that",
        "The client is as it was.",
        "Write release notes for version 2.4.",
    ]
    turns = [
        *zip(("user", "assistant", "user", "assistant", "user"), said, strict=True)
    ]
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    run_night([session(tmp_path, "uploads", 3, turns)], settings).check_complete()
    memory = Memory.open(settings.store, encoder=HashEncoder())
    hits = {
        hit.text: hit
        for hit in memory.recall(
            "upload timeout of the client", kinds="message", k=9, everything=True
        )
    }
    # a turn is one hit: the person's message, with its answer and what the person said of that
    assert [hit.get_reply() for hit in hits.values()] == [said[2], None, None]
    assert [fragment.text for fragment in hits[said[0]].pair] == said[:3]
    assert f"user, next: {said[2]}" in format_hit(1, hits[said[0]])
    block = memory.context("What is the upload timeout?", budget=300).text
    assert f"{said[1]} (user, then: {said[2]})" in block
    assert block.count(said[2]) == 1


def test_an_answer_in_several_messages_is_told_by_its_last() -> None:
    roles = ["user", "user", "assistant", "tool", "assistant", "user"]
    numbers = np.arange(len(roles))
    place = {"user": 0, "assistant": 1, "tool": 2}
    layout = PassageIndex(
        offsets=numbers,
        row_ids=numbers.astype(np.uint64),
        session=np.array([0, 0, 0, 0, 0, 0]),
        message=numbers,
        role=np.array([place[role] for role in roles]),
        roles=tuple(place),
        speaker=np.full(6, -1),
        speakers=(),
        workspace=np.full(6, -1),
        workspaces=(),
        moment=numbers,
    )
    assert [layout.find_exchange(at) for at in range(6)] == [
        [0, 4],
        [1, 4],
        [1, 2],
        [3],
        [1, 4],
        [5],
    ]


def test_the_scale_by_hand() -> None:
    scale = Scale(median=0.2, deviation=0.08)
    cosines, words = (
        np.array([0.1, 0.2, 0.27, 0.34, 0.9, 0.2]),
        np.array([0, 0, 0, 0, 0, 0.5]),
    )
    # half of the words weigh one deviation
    assert scale.compute_relevances(cosines, words) == pytest.approx(
        [0, 0, 0.35, 0.7, 1, 0.4]
    )


def test_a_release_keeps_its_scale_and_a_roll_back_takes_it_along(
    tmp_path: Path,
) -> None:
    store = Store.open(tmp_path, create=True)
    build(tmp_path, calibrate=lambda draft: _scaled(draft, store))
    _told(store, 0, "The kettle is broken.")
    roll_back(store, "r1", "undo")
    first, second, third = read_releases(store)
    assert first.calibration == third.calibration is not None
    assert second.calibration is None
    assert View.open(tmp_path, store.space, "r1").scales.keys() == {
        "message",
        "claim",
        "summary",
    }


def test_the_nearest_is_told_with_a_caveat_to_who_asks_and_withheld_with_a_reason_from_who_does_not(
    tmp_path: Path,
) -> None:
    store = Store.open(tmp_path, create=True)
    build(tmp_path, calibrate=lambda draft: _scaled(draft, store))
    memory = Memory.open(tmp_path, encoder=HashEncoder())
    zebra = "Quarterly zebra migration forecasts for the savannah?"
    unsure = memory.recall(zebra, k=5, everything=True)
    assert (len(unsure), unsure.reason, unsure.confident, unsure.caveat) == (
        5,
        None,
        False,
        NOT_SURE,
    )
    assert all(
        hit.relevance is not None and hit.relevance <= unsure.relevance < 0.7
        for hit in unsure
    )
    assert unsure.as_dict()["confident"] is False
    silent = memory.recall(zebra, automatic=True)
    assert silent == []
    assert "the floor is 0.90" in (silent.reason or "")
    found = memory.recall(NINA, everything=True)
    assert found[0].id == "ses-b-m0"
    assert (found.reason, found.confident, found.caveat) == (None, True, None)
    unasked = memory.recall(NINA, automatic=True)
    assert 0 < len(unasked) < len(found)
    assert all(hit.relevance is not None and hit.relevance >= 0.9 for hit in unasked)


def test_the_command_says_that_it_is_not_sure_and_how_near_each_hit_is(
    tmp_path: Path,
) -> None:
    store = Store.open(tmp_path, create=True)
    build(tmp_path, calibrate=lambda draft: _scaled(draft, store))

    def run(*words: str) -> str:
        return typed(*words, "--store", tmp_path).stdout

    asked = "Quarterly zebra migration forecasts?"
    assert re.match(
        rf"{NOT_SURE}\n\n1\. .+\n(   .+\n)*   .+ · relevance 0\.\d\d\n",
        run("recall", asked),
    )
    assert run("recall", asked, "--kind", "session").startswith(
        f"{NOT_SURE}\n\n1. session "
    )
    assert f" an instruction\n# Memories\n{NOT_SURE}\n" in run("context", asked)
    assert json.loads(run("context", asked, "--json"))["confident"] is False
    assert NOT_SURE not in run("recall", NINA) + run("context", NINA)
    assert "relevance" not in run("recall", NINA)


def test_what_is_not_shown_makes_no_answer_sure(tmp_path: Path) -> None:
    store = build(tmp_path)
    told = "Quarterly zebra migration forecasts for the savannah."
    add(store, SUMMARIES, [summary("s-zebra", 0, told, ["ses-b-m0"])])
    publish(store, "run-2", "hash-384", lambda draft: _scaled(draft, store))
    memory = Memory.open(tmp_path, encoder=HashEncoder())
    few, more = (memory.recall(told, k=k, everything=True) for k in (1, 25))
    # messages come first, and none is about it
    assert (few[0].kind, few.confident) == ("message", False)
    assert few.caveat == NOT_SURE
    assert [hit.id for hit in more if hit.relevance == more.relevance] == ["s-zebra"]
    assert more.confident


def test_the_name_of_who_speaks_in_a_summary_makes_it_no_answer(tmp_path: Path) -> None:
    store = build(tmp_path)
    add(
        store,
        SUMMARIES,
        [
            summary(
                "s-said", 0, "Ann: Nina surfs in Lisbon. Ben: How lovely!", ["ses-b-m0"]
            )
        ],
    )
    publish(store, "run-2", "hash-384", lambda draft: _scaled(draft, store))
    memory = Memory.open(tmp_path, encoder=HashEncoder())
    # .71 were the scale without names.
    assert not memory.recall("What did Ann give Ben on the savannah?").confident
    assert "s-said" in [
        hit.id
        for hit in memory.recall("Does Nina surf in Lisbon, Ann?", kinds="summary")
    ]


def test_a_block_that_nobody_asked_for_keeps_the_stricter_floor(tmp_path: Path) -> None:
    store = Store.open(tmp_path, create=True)
    build(tmp_path, calibrate=lambda draft: _scaled(draft, store))
    memory = Memory.open(tmp_path, encoder=HashEncoder())
    passing = "deploy on Sundays"  # two words that were said, of two matters
    assert memory.context(passing, 300).text
    assert memory.context(passing, 300, automatic=True).text == ""
    wanted = memory.context("why did we drop Redis?", 300, automatic=True)
    assert "Redis" in wanted.text
    assert wanted.tokens <= memory.context("why did we drop Redis?", 300).tokens


def test_why_nothing_is_found(memory: Memory, tmp_path: Path) -> None:
    assert (
        memory.recall("cache", workspace="nowhere").reason
        == "no project 'nowhere' is known here"
    )
    build_wordless(tmp_path / "empty")
    assert (
        Memory.open(tmp_path / "empty").recall("cache").reason
        == "nothing of that kind is in memory yet"
    )


def test_many_queries_are_encoded_in_one_call_and_answered_alike(store: Store) -> None:
    encoder = Counting()
    memory = Memory.open(store.root, encoder=encoder)
    queries = [NINA, "Redis cache", "line endings"]
    answers = memory.recall_many(queries, k=3)
    assert encoder.calls == 1
    assert answers == [memory.recall(query, k=3) for query in queries]
    assert encoder.calls == 1  # the last queries' vectors are kept
    assert memory.recall_many([]) == []
    with pytest.raises(UsageError):
        memory.recall_many([NINA, "?"])


def test_the_async_twin(memory: Memory) -> None:
    async def both() -> list[Hits]:
        return list(
            await asyncio.gather(
                memory.arecall(NINA), memory.arecall("Redis cache", k=2)
            )
        )

    assert asyncio.run(both()) == [
        memory.recall(NINA),
        memory.recall("Redis cache", k=2),
    ]
    many = asyncio.run(memory.arecall_many([NINA, "Redis cache"], 2, "message"))
    assert many == memory.recall_many([NINA, "Redis cache"], 2, "message")
    block = asyncio.run(memory.acontext(NINA, 200, format="json"))
    assert block == memory.context(NINA, 200, format="json")
    assert block.text


def test_rows_are_taken_in_the_order_asked_for_though_one_before_them_is_gone(
    store: Store,
) -> None:
    store.delete_ids(
        PASSAGES, store.read(PASSAGES, ["passage_id"])["passage_id"].to_pylist()[:1]
    )
    view = View(store.dir, publish(store, "again", "hash-384"))
    taken, keys = (
        view.take(PASSAGES, np.array([3, 0, 3]), ["passage_id"]),
        view.read_keys(PASSAGES).to_pylist(),
    )
    assert taken["passage_id"].to_pylist() == [keys[3], keys[0], keys[3]]


def test_an_open_memory_notices_a_release_and_a_pinned_one_does_not(
    store: Store, memory: Memory
) -> None:
    pinned = Memory.open(store.root, release="r1", encoder=HashEncoder())
    _told(store, 0, "The ferry to Gotland leaves at seven.")
    asked = ("ferry to Gotland", 1, "message")
    assert memory.recall(*asked)[0].id == "new-0"
    assert memory.release.name == "r2"
    assert [hit.id for hit in pinned.recall(*asked)] != ["new-0"]
    roll_back(store, "r1", "undo")
    assert [hit.id for hit in memory.recall(*asked)] != ["new-0"]


def test_eight_readers_during_swaps_meet_no_error(store: Store, memory: Memory) -> None:
    done, errors, asked = threading.Event(), list[BaseException](), list[int]()

    def read() -> None:
        try:
            while not done.is_set():
                assert memory.recall(NINA, k=1, kinds="message")[0].id == "ses-b-m0"
                asked.append(1)
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for seq in range(3):
        _told(store, seq, f"Note {seq}: the kettle whistles.")
    done.set()
    for reader in readers:
        reader.join()
    assert errors == []
    assert len(asked) >= 8
    assert memory.warnings == []
    assert memory.recall("kettle whistles", k=3, kinds="message")[0].id.startswith(
        "new-"
    )


def test_a_store_that_is_gone_is_an_error_until_it_is_back(
    store: Store, memory: Memory
) -> None:
    before = memory.recall(NINA, k=2)
    gone = store.root.rename(store.root.with_name("gone"))
    with pytest.raises(StoreMissing):
        Memory.open(store.root)
    with pytest.raises(StoreUnreadable, match="can't be read"):
        memory.recall("something else")
    with pytest.raises(UsageError):
        memory.recall("?")
    gone.rename(store.root)
    assert memory.recall(NINA, k=2) == before


def test_yesterday_brings_what_was_said_then(memory: Memory) -> None:
    asked = ("anything of note yesterday?", 3, "message")
    found = memory.recall(*asked, now=START + timedelta(days=1))
    assert {hit.id[:5] for hit in found} == {"ses-a"}
    assert {
        hit.id[:5] for hit in memory.recall(*asked, now=START + timedelta(days=31))
    } == {"ses-b"}


def test_another_encoder_in_a_newer_release_leaves_full_text(
    store: Store, memory: Memory
) -> None:
    add(
        store,
        MESSAGES,
        [message_rows()[0] | {"message_id": "x", "seq": 9, "native_id": "x"}],
    )
    publish(store, "run-2", "another")
    assert memory.recall("Nina Lisbon", k=1, kinds="message")[0].id == "ses-b-m0"
    assert memory.warnings == [
        "this release's vectors were made with 'another': answered by full text alone"
    ]
