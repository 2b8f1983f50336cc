"""Recall over a small released store, written row by row; what callers pass; a reranker, and what fails there."""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slowwave.context.tokens import count_bytes_by_four
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.memory import Memory
from slowwave.recall.hits import Hits
from slowwave.recall.query import build_query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.candidates import score_words, weigh_signals
from slowwave.schemas.errors import NoRelease, StoreMissing, UsageError
from slowwave.schemas.tables import CLAIMS
from slowwave.store.publishing import publish
from slowwave.tasks.changes.task import write_chains
from slowwave.text.times.dates import extract_spans
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
    assert (
        best.text
        == "My sister Nina moved to Lisbon in February and works for a bakery."
    )
    assert best.observed_at == START + timedelta(days=30)
    assert [(s.session, s.message, s.quote) for s in best.sources] == [
        ("ses-b", "ses-b:0", best.text),
        ("ses-b", "ses-b:1", "How lovely! Does she bake the pastries herself?"),
    ]


def test_every_kind_answers_by_default_and_every_hit_has_a_source(
    memory: Memory,
) -> None:
    hits = memory.recall("session cache Redis Postgres parser", k=20)
    assert {hit.kind for hit in hits} == {"message", "summary"}
    assert any(hit.claim for hit in hits)
    made = {
        claim.text: claim.sources[0]
        for claim in memory.recall("session cache Redis Postgres parser", 20, "claim")
    }
    assert all(
        made[hit.claim].message in {source.message for source in hit.sources}
        for hit in hits
        if hit.claim
    )
    assert all(hit.sources for hit in hits)
    assert len({(hit.kind, hit.id) for hit in hits}) == len(hits)
    assert hits == memory.recall("session cache Redis Postgres parser", k=20)


def test_whoever_asks_for_fewer_gets_the_first_of_the_same(memory: Memory) -> None:
    for asked in (
        "session cache Redis Postgres parser",
        "What does Nina do in Lisbon?",
        "line endings",
    ):
        ten = [hit.id for hit in memory.recall(asked, k=10)]
        assert [
            [hit.id for hit in memory.recall(asked, k=k)] for k in (1, 2, 3, 5)
        ] == [ten[:k] for k in (1, 2, 3, 5)]


def test_passages_of_one_message_are_one_hit_quoting_the_best(memory: Memory) -> None:
    hits = memory.recall("boiler in the cellar leaks", k=8, kinds="message")
    assert [hit.id for hit in hits].count("ses-b-m3") == 1
    assert hits[0].sources[0].quote.strip() == "The boiler in the cellar leaks."
    assert hits[0].text.startswith("A long one.")


def test_a_claim_is_asked_for_by_that_name_too(memory: Memory) -> None:
    asked = "Where does the session cache move?"
    claims = memory.recall(asked, kinds="claim")
    assert [hit.id for hit in claims] == [
        hit.id for hit in memory.recall(asked, kinds="claim")
    ]
    assert claims


def test_only_active_claims_answer_with_their_quote(memory: Memory) -> None:
    hits = memory.recall(
        "does the session cache stay in Redis or Postgres", kinds=("claim",)
    )
    assert [hit.id for hit in hits] == ["o-new"]
    source = hits[0].sources[0]
    assert (source.session, source.message) == ("ses-a", "ses-a:1")
    assert source.quote == "the session cache moves into Postgres"


def test_a_summary_names_the_messages_under_it_through_the_tiers(
    memory: Memory,
) -> None:
    hits = {
        hit.id: hit
        for hit in memory.recall(
            "morning of repairs to cache and parser",
            kinds=("summary",),
            everything=True,
        )
    }
    assert {s.message for s in hits["s-0"].sources} == {"ses-a:0", "ses-a:1"}
    assert {s.message for s in hits["s-top"].sources} == {
        "ses-a:0",
        "ses-a:1",
        "ses-a:2",
        "ses-a:3",
    }
    assert hits["s-top"].sources[0].quote == TALK["ses-a"][0]


def test_filters_hold_before_the_search(memory: Memory) -> None:
    said = "the parser and my sister"
    assert {
        h.id[:5] for h in memory.recall(said, kinds="message", workspace="home")
    } == {"ses-b"}
    assert {
        h.id[:5] for h in memory.recall(said, kinds="message", since="2025-03-31")
    } == {"ses-b"}
    assert {
        h.id[:5] for h in memory.recall(said, kinds="message", until="2025-03-01")
    } == {"ses-a"}
    assert {
        h.id[:5]
        for h in memory.recall(said, kinds="message", until=START + timedelta(hours=1))
    } == {"ses-a"}
    assert [h.kind for h in memory.recall("cache", category="decision")] == ["claim"]
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
    assert memory.warnings == [
        "this release has no vectors: answered by full text alone"
    ]


def test_without_an_index_vectors_answer(tmp_path: Path) -> None:
    build(tmp_path, index=False)
    memory = Memory.open(tmp_path, encoder=HashEncoder())
    assert (
        memory.recall("my sister Nina moved to Lisbon", k=1, kinds="message")[0].id
        == "ses-b-m0"
    )
    assert memory.warnings == [
        "passages has no full-text index: answered by vectors alone"
    ]


def test_another_encoder_than_the_vectors_is_refused(root: Path) -> None:
    with pytest.raises(UsageError, match="hash-384"):
        Memory.open(root, encoder=HashEncoder(dim=8))


def test_a_broken_index_leaves_vectors(tmp_path: Path) -> None:
    build(tmp_path)
    for folder in tmp_path.glob("default/*.lance/_indices/*"):
        shutil.rmtree(folder)
    memory = Memory.open(tmp_path, encoder=HashEncoder())
    assert (
        memory.recall("my sister Nina moved to Lisbon", k=1, kinds="message")[0].id
        == "ses-b-m0"
    )
    assert len(memory.warnings) == 1
    assert memory.warnings[0].startswith("full text of passages can't be read")


def test_the_share_of_words_scored_leaves_out_stop_words_and_names_of_speakers(
    memory: Memory,
) -> None:
    view = View.open(memory.root, "default")
    every = np.ones(len(view.passages.offsets), dtype=bool)

    def share(text: str) -> float:
        return float(score_words(view, build_query(text, 3, "message"), every)[1].max())

    assert (
        share("Who does Ann say surfs?")
        == pytest.approx(share("surfs says"))
        == pytest.approx(share("say surfs"))
    )
    assert share("What is it that surfs?") == 1.0
    # Nobody ever said the first, so it is worth more.
    assert share("zeppelin surfs") < 0.5
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
    signals = {
        "text": np.array([3.0, 1.0, np.nan]),
        "vector": np.array([0.5, 0.5, 0.5]),
    }
    weighed = weigh_signals(signals, {"text": 2.0, "vector": 1.0})
    assert {name: values.tolist() for name, values in weighed.items()} == {
        "text": [2, -2, 0],
        "vector": [0, 0, 0],
    }


def test_the_command_prints_what_memory_returns(root: Path) -> None:
    asked = [
        "recall",
        "Nina Lisbon",
        "-k",
        "2",
        "--kind",
        "message",
        "--store",
        str(root),
    ]
    told = typed(*asked, "--json")
    assert told.exit_code == 0
    answer = json.loads(told.stdout)
    recalled = Memory.open(root).recall("Nina Lisbon", 2, "message")
    assert answer == {**json.loads(json.dumps(recalled.as_dict())), "warnings": []}
    assert (answer["reason"], answer["relevance"]) == (None, recalled.relevance)
    assert answer["hits"][0]["sources"][0] == {
        "session": "ses-b",
        "message": "ses-b:0",
        "quote": TALK["ses-b"][0],
    }
    assert f"Ann · home · {answer['hits'][0]['id']}\n" in typed(*asked).stdout
    silent = json.loads(typed(*asked, "--speaker", "Zed", "--json").stdout)
    assert (silent["hits"], silent["reason"]) == (
        [],
        "nobody called 'Zed' speaks in this memory",
    )
    of_ben = json.loads(typed(*asked, "--speaker", "ben", "--json").stdout)
    assert {hit["id"] for hit in of_ben["hits"]} == {"ses-b-m1", "ses-b-m3"}
    neither = typed(*asked, "--file", "db.py", "--file", "src/x.py").stdout
    assert (
        neither.strip()
        == "Nothing found: no claim and no message is about 'db.py' or 'src/x.py'."
    )
    then = json.loads(typed(*asked, "--as-of", "2025-03-05", "--json").stdout)
    assert {hit["id"][:5] for hit in then["hits"]} == {"ses-a"}
    refused = typed("recall", "?", "--store", root)
    assert refused.exit_code == 1
    assert "no words" in refused.stderr


def test_operators_mean_nothing(memory: Memory) -> None:
    plain = memory.recall("cache not parser", kinds="message")
    assert [h.id for h in memory.recall('(cache) NOT "parser"', kinds="message")] == [
        h.id for h in plain
    ]


QUERY = "session cache Redis Postgres"


@pytest.mark.parametrize(
    "edge", [datetime.min, datetime(1, 1, 5), datetime(9999, 12, 31, 23)]
)
def test_time_before_the_first_year_and_after_the_last_is_no_span(
    memory: Memory, edge: datetime
) -> None:
    now = edge.replace(tzinfo=UTC)
    said = "last year, this month, last summer, last Friday, last weekend, yesterday, two months ago, today"
    assert all(start < end for start, end in extract_spans(said, now))
    memory.recall(f"{said} in the database", now=now)
    assert extract_spans("two months ago", datetime(1, 1, 1, tzinfo=UTC)) == []


def test_a_turn_that_calls_a_tool_says_nothing_and_parts_say_their_texts(
    memory: Memory,
) -> None:
    parts: list[Any] = [
        {"type": "text", "text": "The kettle leaks again."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "tool_result", "tool_use_id": "t1", "content": "exit 1"},
        {"type": "output_text", "text": "A new gasket is ordered."},
        "It comes on Monday \ud83d.",
    ]
    turns: list[Any] = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "t1"}]},
        {"role": "tool", "content": []},
        (
            "assistant",
            [{"type": "text", "text": "Whoever carries the ladder takes the stairs."}],
        ),
        ("assistant", None),
    ]
    # Half an emoji, as cut texts have.
    block = memory.context(f"{QUERY} \ud83d", 2_000, conversation=turns)
    (said,) = (p for p in block.parts if p.name == "conversation")
    assert [(line.source.message, line.source.speaker) for line in said.lines] == [
        ("1", "user"),
        ("4", "assistant"),
    ]
    assert all(
        words in said.lines[0].text
        for words in ("kettle leaks", "new gasket", "on Monday")
    )
    assert "base64" not in said.lines[0].text


@pytest.mark.parametrize(
    "options",
    [
        {"budget": "100"},
        {"budget": True},
        {"budget": -1},
        {"format": "html"},
        {"tokenizer": 5},
        {"tokenizer": "no such tokenizer"},
    ],
)
def test_a_block_that_can_not_be_is_refused(
    memory: Memory, options: dict[str, Any]
) -> None:
    for ask in (
        lambda: memory.context(QUERY, **options),
        lambda: memory.briefing(**options),
    ):
        with pytest.raises(UsageError):
            ask()


@pytest.mark.parametrize("turn", [None, {"role": "user"}, {"content": b"x"}, ("a", 5)])
def test_a_turn_that_is_none_is_refused(memory: Memory, turn: Any) -> None:
    with pytest.raises(UsageError, match="turn"):
        memory.context(QUERY, conversation=[turn])


def test_a_page_without_an_address_is_refused(memory: Memory) -> None:
    with pytest.raises(UsageError):
        memory.context(QUERY, web=[{"text": "x"}])


def test_a_tokenizer_may_be_given_by_its_name(memory: Memory) -> None:
    assert memory.context(QUERY, 80, tokenizer="bytes/4") == memory.context(
        QUERY, 80, tokenizer=count_bytes_by_four
    )
    assert memory.briefing(80, tokenizer="bytes/4") == memory.briefing(
        80, tokenizer=count_bytes_by_four
    )


def test_many_queries_are_no_text(memory: Memory) -> None:
    with pytest.raises(UsageError, match="list of texts"):
        memory.recall_many("one query")


ASKED = "Which session cache do we use, Redis or Postgres?"
MESSAGES = ("message",)
HERE: dict[str, Any] = {"k": 20, "kinds": MESSAGES, "workspace": "api"}
"""Of the messages only those that ask nothing: a bare question never leads, whatever a reranker says of it."""


class Scoring:
    """Scores each text by a function of it, or all by one of their number; writes down what it was asked."""

    def __init__(self, scores: Callable[[list[str]], Any]) -> None:
        self.scores = scores
        self.asked: list[tuple[str, list[str]]] = []

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        self.asked.append((query, list(texts)))
        return self.scores(list(texts))


def inverting() -> Scoring:
    return Scoring(lambda texts: range(len(texts)))


def opened(root: Path, reranker: Any = None) -> Memory:
    return Memory.open(root, encoder=HashEncoder(), reranker=reranker)


def ids(hits: Hits) -> list[str]:
    return [hit.id for hit in hits]


def test_hits_stand_in_the_rerankers_order_with_their_own_scores(root: Path) -> None:
    plain = opened(root).recall(ASKED, **HERE)
    reranker = inverting()
    hits = opened(root, reranker).recall(ASKED, **HERE)
    assert len(plain) == 2  # a person's message and its answer are one hit
    assert ids(hits) == ids(plain)[::-1]
    assert hits == plain[::-1]
    ((query, texts),) = reranker.asked
    assert query == ASKED
    assert (
        "2025-03-01 We should drop Redis, the cache keeps serving stale sessions after a deploy."
        in texts
    )


def test_a_reranker_reads_who_said_it_and_when(root: Path) -> None:
    reranker = inverting()
    opened(root, reranker).recall("Where does Nina live?", kinds=MESSAGES)
    assert any(
        text.startswith("2025-03-31 Ann: My sister Nina")
        for text in reranker.asked[0][1]
    )


def test_what_is_stale_stays_below_what_holds(tmp_path: Path) -> None:
    store = build(tmp_path / "store")
    rows = store.read(CLAIMS).to_pylist()
    for row in rows:
        if row["claim_id"] == "o-old":
            row |= {"status": "superseded", "superseded_by": "o-new", "valid_to": START}
    store.merge(CLAIMS, pa.Table.from_pylist(rows, schema=CLAIMS.schema))
    write_chains(store)
    publish(store, "amended", "hash-384")
    stale_first = Scoring(lambda texts: [float("Redis" in text) for text in texts])
    hits = opened(store.root, stale_first).recall(ASKED, 10, "claim")
    ((_, texts),) = stale_first.asked
    assert any("stays in Redis" in text for text in texts)
    status = {hit.id: hit.status for hit in hits}
    assert status["o-old"] == "superseded"
    assert ids(hits).index("o-new") < ids(hits).index("o-old")
    assert [s == "superseded" for s in status.values()] == sorted(
        s == "superseded" for s in status.values()
    )


def _raising(trouble: BaseException) -> Callable[[list[str]], Any]:
    def scores(texts: list[str]) -> Any:
        raise trouble

    return scores


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        (_raising(KeyError("gone")), "gone"),
        (lambda texts: [1.0], "one finite number for each"),
        (lambda texts: [math.nan, *range(1, len(texts))], "one finite number for each"),
        (lambda texts: None, "NoneType"),
    ],
)
def test_a_reranker_that_fails_costs_only_itself(
    root: Path, scores: Callable[[list[str]], Any], told: str
) -> None:
    memory = opened(root, Scoring(scores))
    for _ in range(2):
        assert memory.recall(ASKED, 3) == opened(root).recall(ASKED, 3)
    (note,) = memory.warnings
    assert "the reranker Scoring failed" in note
    assert told in note
