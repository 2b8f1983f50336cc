"""Recall over a small released store: two sessions, their claims and summaries, written row by row."""

import json
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.memory import Memory
from slowwave.recall.query import build_query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.candidates import weigh_signals
from slowwave.recall.retrieve.lexical import hear_words
from slowwave.schemas.errors import NoRelease, StoreMissing, UsageError
from tests.command_line import typed
from tests.recall_store import START, TALK, build


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recall") / "store"
    build(path)
    return path


@pytest.fixture
def memory(root: Path) -> Memory:
    return Memory.open(root, encoder=HashEncoder())


def test_a_message_is_found_with_its_native_ids_and_words(memory: Memory) -> None:
    best = memory.recall("Which sister moved to Lisbon?", k=1, kinds=("message",))[0]
    assert (best.kind, best.id, best.status) == ("message", "ses-b-m0", "active")
    assert best.text == "My sister Nina moved to Lisbon in February and works for a bakery."
    assert best.observed_at == START + timedelta(days=30)
    assert [(s.session, s.message, s.quote) for s in best.sources] == [("ses-b", "ses-b:0", best.text)]


def test_every_kind_answers_by_default_and_every_hit_has_a_source(memory: Memory) -> None:
    hits = memory.recall("session cache Redis Postgres parser", k=20)
    assert {hit.kind for hit in hits} == {"message", "summary"}
    assert any(hit.claim for hit in hits)
    made = {
        claim.text: claim.sources[0]
        for claim in memory.recall("session cache Redis Postgres parser", 20, "observation")
    }
    assert all(made[hit.claim].message == hit.sources[0].message for hit in hits if hit.claim)
    assert all(hit.sources for hit in hits)
    assert len({(hit.kind, hit.id) for hit in hits}) == len(hits)
    assert hits == memory.recall("session cache Redis Postgres parser", k=20)


def test_whoever_asks_for_fewer_gets_the_first_of_the_same(memory: Memory) -> None:
    for asked in ("session cache Redis Postgres parser", "What does Nina do in Lisbon?", "line endings"):
        ten = [hit.id for hit in memory.recall(asked, k=10)]
        assert [[hit.id for hit in memory.recall(asked, k=k)] for k in (1, 2, 3, 5)] == [ten[:k] for k in (1, 2, 3, 5)]


def test_passages_of_one_message_are_one_hit_quoting_the_best(memory: Memory) -> None:
    hits = memory.recall("boiler in the cellar leaks", k=8, kinds="message")
    assert [hit.id for hit in hits].count("ses-b-m3") == 1
    assert hits[0].sources[0].quote.strip() == "The boiler in the cellar leaks."
    assert hits[0].text.startswith("A long one.")


def test_only_active_observations_answer_with_their_quote(memory: Memory) -> None:
    hits = memory.recall("does the session cache stay in Redis or Postgres", kinds=("observation",))
    assert [hit.id for hit in hits] == ["o-new"]
    source = hits[0].sources[0]
    assert (source.session, source.message) == ("ses-a", "ses-a:1")
    assert source.quote == "the session cache moves into Postgres"


def test_a_summary_names_the_messages_under_it_through_the_tiers(memory: Memory) -> None:
    hits = {hit.id: hit for hit in memory.recall("morning of repairs to cache and parser", kinds=("summary",))}
    assert {s.message for s in hits["s-0"].sources} == {"ses-a:0", "ses-a:1"}
    assert {s.message for s in hits["s-top"].sources} == {"ses-a:0", "ses-a:1", "ses-a:2", "ses-a:3"}
    assert hits["s-top"].sources[0].quote == TALK["ses-a"][0]


def test_filters_hold_before_the_search(memory: Memory) -> None:
    said = "the parser and my sister"
    assert {h.id[:5] for h in memory.recall(said, kinds="message", workspace="home")} == {"ses-b"}
    assert {h.id[:5] for h in memory.recall(said, kinds="message", since="2025-03-31")} == {"ses-b"}
    assert {h.id[:5] for h in memory.recall(said, kinds="message", until="2025-03-01")} == {"ses-a"}
    assert {h.id[:5] for h in memory.recall(said, kinds="message", until=START + timedelta(hours=1))} == {"ses-a"}
    assert [h.kind for h in memory.recall("cache", category="decision")] == ["observation"]
    assert memory.recall("cache", category="gotcha") == []
    assert memory.recall("cache", workspace="' OR 1=1 --") == []


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", {}),
        ("?!… --", {}),
        ("x" * 1_000_000, {}),
        ("cache", {"k": 0}),
        ("cache", {"kinds": ("fact",)}),
        ("cache", {"kinds": ()}),
        ("cache", {"since": "last spring"}),
        ("cache", {"workspace": "\ud800"}),
        ("cache", {"since": "2025-02-01", "until": "2025-01-01"}),
        (None, {}),
        ("cache", {"k": True}),
        ("cache", {"kinds": 5}),
        ("cache", {"now": "noon"}),
        ("cache", {"workspace": 5}),
        ("cache", {"until": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2)))}),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(
    memory: Memory, query: Any, options: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match=r"\w{4}"):
        memory.recall(query, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "query",
    [
        'cache" OR text:* AND (NOT parser',
        "cache\x00\x1b[31m\ud800 \u2028parser",
        "+cache -parser ~2 ^3 [a TO b] {x}",
        "cache " * 5_000,
    ],
)
def test_hostile_queries_are_plain_words(memory: Memory, query: str) -> None:
    assert len(memory.recall(query, k=3)) <= 3


def test_without_vectors_full_text_answers(tmp_path: Path) -> None:
    build(tmp_path, vectors=False)
    memory = Memory.open(tmp_path)
    assert memory.recall("Nina Lisbon", k=1, kinds="message")[0].id == "ses-b-m0"
    assert memory.recall("the of", kinds="message") == []
    assert memory.notes == ["this release has no vectors: answered by full text alone"]


def test_without_an_index_vectors_answer(tmp_path: Path) -> None:
    build(tmp_path, index=False)
    memory = Memory.open(tmp_path, encoder=HashEncoder())
    assert memory.recall("my sister Nina moved to Lisbon", k=1, kinds="message")[0].id == "ses-b-m0"
    assert memory.notes == ["passages has no full-text index: answered by vectors alone"]


def test_another_encoder_than_the_vectors_is_refused(root: Path) -> None:
    with pytest.raises(UsageError, match="hash-384"):
        Memory.open(root, encoder=HashEncoder(dim=8))


def test_a_broken_index_leaves_vectors(tmp_path: Path) -> None:
    build(tmp_path)
    for folder in tmp_path.glob("default/*.lance/_indices/*"):
        shutil.rmtree(folder)
    memory = Memory.open(tmp_path, encoder=HashEncoder())
    assert memory.recall("my sister Nina moved to Lisbon", k=1, kinds="message")[0].id == "ses-b-m0"
    assert len(memory.notes) == 1
    assert memory.notes[0].startswith("full text of passages can't be read")


def test_the_share_of_words_heard_leaves_out_idle_words_and_names_of_speakers(memory: Memory) -> None:
    view = View.open(memory.root, "default")
    every = np.ones(len(view.passages.offsets), dtype=bool)

    def share(text: str) -> float:
        return float(hear_words(view, build_query(text, 3, "message"), every, 0.75)[1].max())

    assert share("Who does Ann say surfs?") == pytest.approx(share("surfs says")) == pytest.approx(share("say surfs"))
    assert share("What is it that surfs?") == 1.0
    assert share("zeppelin surfs") < 0.5  # nobody ever said the first, so it is worth more
    assert share("the filler about nothing") == 1.0
    assert share("Who is Nina, Ann?") == 1.0  # Nina is no speaker


def test_nothing_to_open(tmp_path: Path, root: Path) -> None:
    with pytest.raises(StoreMissing):
        Memory.open(tmp_path / "none")
    with pytest.raises(NoRelease):
        Memory.open(root, release="r99")
    with pytest.raises(UsageError, match="space"):
        Memory.open(root / "default", space="../default")


def test_weighted_signals_by_hand() -> None:
    signals = {"text": np.array([3.0, 1.0, np.nan]), "vector": np.array([0.5, 0.5, 0.5])}
    weighed = weigh_signals(signals, {"text": 2.0, "vector": 1.0})
    assert {name: values.tolist() for name, values in weighed.items()} == {"text": [2, -2, 0], "vector": [0, 0, 0]}


def test_the_command_prints_what_memory_returns(root: Path) -> None:
    asked = ["recall", "Nina Lisbon", "-k", "2", "--kind", "message", "--store", str(root)]
    told = typed(*asked, "--json")
    assert told.exit_code == 0
    answer = json.loads(told.stdout)
    recalled = Memory.open(root).recall("Nina Lisbon", 2, "message")
    assert answer == {**json.loads(json.dumps(recalled.as_dict())), "notes": []}
    assert (answer["reason"], answer["stale"], answer["relevance"]) == (None, False, recalled.relevance)
    assert answer["hits"][0]["sources"][0] == {"session": "ses-b", "message": "ses-b:0", "quote": TALK["ses-b"][0]}
    assert f"Ann · home · {answer['hits'][0]['id']}\n" in typed(*asked).stdout
    silent = json.loads(typed(*asked, "--speaker", "Zed", "--json").stdout)
    assert (silent["hits"], silent["reason"]) == ([], "nobody called 'Zed' speaks in this memory")
    of_ben = json.loads(typed(*asked, "--speaker", "ben", "--json").stdout)
    assert {hit["id"] for hit in of_ben["hits"]} == {"ses-b-m1", "ses-b-m3"}
    neither = typed(*asked, "--file", "db.py", "--file", "src/x.py").stdout
    assert neither.strip() == "Nothing found: no claim and no message is about 'db.py' or 'src/x.py'."
    then = json.loads(typed(*asked, "--as-of", "2025-03-05", "--json").stdout)
    assert {hit["id"][:5] for hit in then["hits"]} == {"ses-a"}
    refused = typed("recall", "?", "--store", root)
    assert refused.exit_code == 1
    assert "no words" in refused.stderr


def test_operators_mean_nothing(memory: Memory) -> None:
    plain = memory.recall("cache not parser", kinds="message")
    assert [h.id for h in memory.recall('(cache) NOT "parser"', kinds="message")] == [h.id for h in plain]
