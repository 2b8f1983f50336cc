"""What people say of memories, and what is handed out: noted in logs, counted, and changing no answer."""

import json
import re
import stat
from pathlib import Path

import pytest

from slowwave.context.recall_log import note_hits
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.recall.views.show import rate_memory
from slowwave.recall.views.usage import count_usage
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS
from slowwave.store.logs import Rating, append, format_now, read
from slowwave.tasks.forget.logs import erase_recalled
from tests.command_line import typed
from tests.talk_files import chat

SAID = [
    "My sister Clara teaches chemistry in Porto.",
    "The bakery at Rua das Flores closes at six every day.",
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ratings")
    run_night(
        [chat(folder, "a", 2, SAID)],
        Settings(store=folder / "store", encoder="hash-384"),
    )
    return folder / "store"


def call(store: Path, *words: str) -> tuple[int, str]:
    done = typed(*words, "--store", store, env={"COLUMNS": "200"})
    return done.exit_code, done.output


def test_what_is_handed_out_is_told_from_what_never_was(store: Path) -> None:
    memory = Memory.open(store)
    assert len(count_usage(memory.snapshot, store / "default").never) == len(
        count_claims(memory)
    )
    note_hits(store / "default", memory.recall("Where does Clara teach chemistry?", 1))
    found = count_usage(memory.snapshot, store / "default")
    assert found.recalls == 1
    assert [(one.times, "Clara" in one.text) for one in found.claims if one.times] == [
        (1, True)
    ]
    assert any("bakery" in one.text for one in found.never)
    with (store / "default" / "recalls.jsonl").open("a") as log:
        log.write('{"cut')
    assert count_usage(memory.snapshot, store / "default").recalls == 1
    status, printed = call(store, "inspect", "usage")
    assert status == 0
    assert "Answers with memories: 1" in printed
    assert [
        one["times"]
        for one in json.loads(call(store, "inspect", "usage", "--all", "--json")[1])
    ][:2] == [1, 0]


def count_claims(memory: Memory) -> list[str]:
    ids: list[str] = memory.snapshot.read(CLAIMS, ["claim_id"])["claim_id"].to_pylist()
    return ids


def test_the_last_word_on_a_memory_counts_and_answers_stay_as_they_are(
    store: Path,
) -> None:
    memory = Memory.open(store)
    before = [
        (hit.id, hit.score) for hit in memory.recall("Where does Clara teach?", 5)
    ]
    claim = count_claims(memory)[0]
    rate_memory(memory.get_view(), claim[:12], "good", "", redact=True)
    secret = "sk-ant-" + "api03-" + "x1Y2" * 24
    rated = rate_memory(
        memory.get_view(), claim, "bad", f"stale, it is Braga now {secret}", redact=True
    )
    assert (rated.kind, rated.id) == ("claim", claim)
    *_, one = read(store / "default", Rating)
    assert (one.id, one.kind, one.verdict) == (claim, "claim", "bad")
    assert "stale, it is Braga now" in one.why
    assert secret not in (store / "default" / "ratings.jsonl").read_text()
    assert len((store / "default" / "ratings.jsonl").read_text().splitlines()) == 2
    assert stat.S_IMODE((store / "default" / "ratings.jsonl").stat().st_mode) == 0o600
    assert "0 memories are rated good, 1 bad." in call(store, "inspect", "usage")[1]
    assert [
        (hit.id, hit.score)
        for hit in Memory.open(store).recall("Where does Clara teach?", 5)
    ] == before


def test_what_is_forgotten_loses_its_rating(tmp_path: Path) -> None:
    for one in ("gone", "kept"):
        append(tmp_path, Rating(format_now(), one, "claim", "bad", "it is wrong"))
    erase_recalled(tmp_path, ["gone"], [])
    assert [one.id for one in read(tmp_path, Rating)] == ["kept"]


@pytest.mark.parametrize(
    ("wanted", "verdict", "told"),
    [
        ("0123456789abcdef", "good", "has the id '0123456789abcdef'"),
        ("", "splendid", "a memory is good or bad, not 'splendid'"),
    ],
)
def test_a_rating_that_is_none_is_refused(
    store: Path, wanted: str, verdict: str, told: str
) -> None:
    memory = Memory.open(store)
    with pytest.raises(UsageError, match=re.escape(told)):
        rate_memory(
            memory.get_view(),
            wanted or count_claims(memory)[0],
            verdict,
            "",
            redact=True,
        )
