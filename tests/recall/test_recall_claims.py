"""Claims are told apart by who said them: a claim in the first person does not name its speaker."""

from functools import partial

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.recall.live import QueryVectors
from slowwave.recall.query import build_query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.candidates import MESSAGE_WEIGHTS
from slowwave.recall.search import Search
from slowwave.schemas.settings import RecallSettings, Settings
from tests.talk_files import session

SAID = {
    "Paul": [
        "I drink green tea in the morning.",
        "I moved to Porto in March.",
        "I bought a red bicycle yesterday.",
    ],
    "Vera": [
        "I drink black coffee in the morning.",
        "I moved to Turin in March.",
        "I bought a blue kayak yesterday.",
    ],
}


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("claims")
    turns = [("user", said[i]) for i in range(3) for said in SAID.values()]
    talk = session(folder, "chat", 1, turns, None, list(SAID))
    everything = {"max_share": 1.0, "pack": "personal"}
    run_night(
        [talk], Settings(store=folder / "s", encoder="hash-384", observe=everything)
    )
    return Memory.open(folder / "s")


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("What does Paul drink in the morning?", "tea"),
        ("Where did Vera move in March?", "Turin"),
        ("What has VERA bought yesterday?", "kayak"),
    ],
)
def test_who_is_named_is_who_answers(memory: Memory, query: str, word: str) -> None:
    hits = memory.recall(query, kinds="claim")
    assert word in hits[0].text


def test_the_weight_of_the_vector_moves_the_scores_of_messages(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, view = (
        build_query("Who drinks tea in the morning?", 5, "message"),
        View.open(memory.root, "default"),
    )

    def score() -> list[float]:
        vectors = QueryVectors("hash-384", HashEncoder(), print)
        search = Search(
            view,
            RecallSettings(),
            partial(vectors.encode_texts, view.release.encoder),
            print,
        )
        return [hit.score for hit in search.answer_queries([asked])[0]]

    usual = score()
    monkeypatch.setitem(MESSAGE_WEIGHTS, "vector", 0.1)
    assert score() != usual
