"""What a sentence means counts: where it lies among its session's, in the direction of what settles something."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slowwave.context.reports.features import SENTENCE_SIGNS, WORD_SIGNS, NightVectors, SessionFeatures
from slowwave.context.reports.gather import CandidateSessions, collect_sentences, load_candidate_sessions
from slowwave.context.reports.statements import WEIGHTS, Weights, compute_sentence_logits, score_statements
from slowwave.engines.encoders.load import load_encoder
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.recall.query import Query, build_query
from slowwave.recall.retrieve.pools import Vector
from slowwave.schemas.settings import Settings
from tests.context.test_context import TALK, chat, heard

NO_WEIGHTS = Weights(0.0, {}, 0.0, {"any": 1.0})


def vector(*values: float) -> Vector:
    return np.array(values, dtype=np.float32)


VECTORS = NightVectors(
    {"m0": vector(1, 0), "m1": vector(0, 1)},
    {"m1": [("Keep ten backups", vector(0, 5))]},
)
SAID = heard(
    [(True, "Where do backups go?"), (False, "To the cellar. Keep ten backups."), (True, "The cellar floods.")]
)


def test_a_sentence_has_its_claims_vector_else_its_messages_less_the_sessions_mean() -> None:
    meaning = SessionFeatures(SAID, {}, {}, {}, VECTORS).compute_centered_vectors()
    assert meaning is not None
    # the mean of the two messages that have a vector is (.5, .5); the last message has none
    assert meaning.tolist() == [[0.5, -0.5], [-0.5, 0.5], [-0.5, 4.5], [0, 0]]


@pytest.mark.parametrize("vectors", [None, NightVectors({}, {})])
def test_without_vectors_nothing_is_known_of_the_meaning(vectors: NightVectors | None) -> None:
    talk = SessionFeatures(SAID, {}, {}, {}, vectors)
    assert talk.compute_centered_vectors() is None
    assert compute_sentence_logits(talk, replace(NO_WEIGHTS, encoder="two", direction=(1.0, 0.0))) == [0, 0, 0, 0]


def test_of_a_session_without_sentences_or_vectors_the_meaning_is_empty() -> None:
    elsewhere = SessionFeatures([], {}, {}, {}, VECTORS)
    unknown = SessionFeatures(heard([(True, "???")]), {}, {}, {}, VECTORS)
    for talk in (elsewhere, unknown):
        meaning = talk.compute_centered_vectors()
        assert meaning is not None
        assert meaning.shape == (0, 2)
        assert compute_sentence_logits(talk, replace(NO_WEIGHTS, direction=(1.0, 1.0))) == []


def test_what_lies_in_the_direction_is_worth_more() -> None:
    along, against = (
        score_statements(SAID, 0.9, {}, {}, None, replace(NO_WEIGHTS, direction=d), VECTORS)
        for d in ((0.0, 1.0), (0.0, -1.0))
    )
    assert [one.text for one in along] == [one.text for one in against]
    assert along[2].relevance > 0.89 > 0.1 > against[2].relevance
    assert along[2].worths["ten"] > against[2].worths["ten"]
    assert along[3].relevance == against[3].relevance


def test_the_quote_likest_in_length_is_meant_and_an_empty_one_never() -> None:
    told = [("", vector(9, 9)), ("Keep ten backups. Then stop", vector(8, 8)), ("Keep ten backups", vector(1, 2))]
    for quotes in (told, told[::-1]):
        found = NightVectors({}, {"m1": quotes})
        one = SessionFeatures(SAID, {}, {}, {}).found[2]
        assert one.text.startswith("Keep ten")
        own = found.find_vector(one)
        assert own is not None
        assert own.tolist() == [1, 2]
    assert NightVectors({}, {"m1": told[:1]}).find_vector(one) is None


def test_the_nights_vectors_are_those_of_passages_and_claims() -> None:
    passages = [("long", vector(1, 0)), ("long", vector(0, 1))]
    claims: list[dict[str, object]] = [
        {"message_ids": ["long", "bare"], "quote": "in two\n  lines", "vector": [2.0, 2.0]},
        {"message_ids": ["bare"], "quote": "without", "vector": None},
    ]
    found = CandidateSessions([], {}, {}, {}, {}, passages, claims).build_night_vectors()
    assert {key: one.tolist() for key, one in found.messages.items()} == {"long": [0.5, 0.5]}
    assert {key: [(quote, one.tolist()) for quote, one in some] for key, some in found.claims.items()} == {
        "long": [("in two lines", [2.0, 2.0])]
    }


def test_weights_are_read_as_they_are_written() -> None:
    assert Weights.from_json(WEIGHTS.to_json()) == WEIGHTS


def test_the_weights_that_ship_fit_the_encoder_that_ships() -> None:
    assert WEIGHTS.encoder == Settings().encoder
    assert len(WEIGHTS.direction) == load_encoder(WEIGHTS.encoder).dim
    assert set(WEIGHTS.sentence) == set(SENTENCE_SIGNS)
    assert set(WEIGHTS.word) == set(WORD_SIGNS)


def test_vectors_of_another_encoder_count_for_nothing(tmp_path: Path) -> None:
    run_night([chat(tmp_path / "chat.jsonl")], Settings(store=tmp_path / "store", encoder="hash-384"))
    memory = Memory.open(tmp_path / "store")
    query = "which encoding does the nightly import of supplier files assume, and when is a file rejected?"

    hits = [hit.id for hit in memory.recall(query, 3, "message")]
    assert hits

    def worths(weights: Weights) -> list[dict[str, float]]:
        view, asked = memory.get_view(), checked(query)
        vector = memory._vectors.encode_texts(view.release.encoder, [query])[query]
        found = collect_sentences(view, asked, vector, hits, memory.settings.context, weights)
        return [dict(one.worths) for one in found]

    asked = load_candidate_sessions(memory.get_view(), checked(query), None, [], memory.settings.context)
    assert len(asked.build_night_vectors().messages) == len(TALK)
    assert asked.closeness == {}
    assert worths(WEIGHTS) == worths(replace(WEIGHTS, direction=())) != []
    assert worths(replace(WEIGHTS, encoder="hash-384")) != worths(WEIGHTS)


def test_passages_without_vectors_are_left_out(tmp_path: Path) -> None:
    run_night([chat(tmp_path / "chat.jsonl")], Settings(store=tmp_path / "store", embeddings=False))
    memory = Memory.open(tmp_path / "store")
    query = "which encoding does the nightly import of supplier files assume, and when is a file rejected?"
    asked = load_candidate_sessions(memory.get_view(), checked(query), None, [], memory.settings.context)
    assert asked.sessions != []
    assert asked.build_night_vectors() == NightVectors({}, {})


def checked(text: str) -> Query:
    return build_query(text, 1, "message")
