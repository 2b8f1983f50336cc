"""Reranking: a hook for whatever scores texts, and what may fail there."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.memory import Memory
from slowwave.recall.hits import Hits
from slowwave.schemas.tables import OBSERVATIONS
from slowwave.store.publishing import publish
from slowwave.tasks.supersede.task import write_chains
from tests.recall_store import START, build

ASKED = "Which session cache do we use, Redis or Postgres?"
MESSAGES = ("message",)
HERE: dict[str, Any] = {"k": 20, "kinds": MESSAGES, "workspace": "api"}
"""Of the messages only those that ask nothing: a bare question never leads, whatever a reranker says of it."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rerank") / "store"
    build(path)
    return path


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
    assert len(plain) == 4
    assert ids(hits) == ids(plain)[::-1]
    assert hits == plain[::-1]
    ((query, texts),) = reranker.asked
    assert query == ASKED
    assert "2025-03-01 We should drop Redis, the cache keeps serving stale sessions after a deploy." in texts


def test_a_reranker_reads_who_said_it_and_when(root: Path) -> None:
    reranker = inverting()
    opened(root, reranker).recall("Where does Nina live?", kinds=MESSAGES)
    assert any(text.startswith("2025-03-31 Ann: My sister Nina") for text in reranker.asked[0][1])


def test_what_is_stale_stays_below_what_holds(tmp_path: Path) -> None:
    store = build(tmp_path / "store")
    rows = store.read(OBSERVATIONS).to_pylist()
    for row in rows:
        if row["observation_id"] == "o-old":
            row |= {"status": "superseded", "superseded_by": "o-new", "valid_to": START}
    store.merge(OBSERVATIONS, pa.Table.from_pylist(rows, schema=OBSERVATIONS.schema))
    write_chains(store)
    publish(store, "amended", "hash-384")
    stale_first = Scoring(lambda texts: [float("Redis" in text) for text in texts])
    hits = opened(store.root, stale_first).recall(ASKED, 10, "observation")
    ((_, texts),) = stale_first.asked
    assert any("stays in Redis" in text for text in texts)
    status = {hit.id: hit.status for hit in hits}
    assert status["o-old"] == "superseded"
    assert ids(hits).index("o-new") < ids(hits).index("o-old")
    assert [s == "superseded" for s in status.values()] == sorted(s == "superseded" for s in status.values())


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
def test_a_reranker_that_fails_costs_only_itself(root: Path, scores: Callable[[list[str]], Any], told: str) -> None:
    memory = opened(root, Scoring(scores))
    for _ in range(2):
        assert memory.recall(ASKED, 3) == opened(root).recall(ASKED, 3)
    (note,) = memory.notes
    assert "the reranker Scoring failed" in note
    assert told in note
