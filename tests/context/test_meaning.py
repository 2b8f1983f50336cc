"""What a sentence means counts: where it lies among its session's, in the direction of what settles something."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slowwave.context.report import (
    SENTENCE_SIGNS,
    WEIGHTS,
    WORD_SIGNS,
    PastMessage,
    Weights,
    compute_meaning,
    extract_sentences,
    load_sessions,
    rank_sentences,
    score_session,
)
from slowwave.engines.encoders.load import load_encoder
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.recall.query import Vector, build_query
from slowwave.schemas.settings import Settings
from tests.context.test_context import TALK, chat, heard

NO_WEIGHTS = Weights(0.0, (0.0,) * len(SENTENCE_SIGNS), 0.0, (1.0, 0.0, 0.0))
QUERY = "which encoding does the nightly import of supplier files assume, and when is a file rejected?"


def vector(*values: float) -> Vector:
    return np.array(values, dtype=np.float32)


def talk() -> list[PastMessage]:
    first, second, third = heard(
        [(True, "Where do backups go?"), (False, "To the cellar. Keep ten backups."), (True, "The cellar floods.")]
    )
    claims = (("", vector(9, 9)), ("Keep ten backups. Then stop", vector(8, 8)), ("Keep ten backups", vector(0, 5)))
    return [replace(first, vector=vector(1, 0)), replace(second, vector=vector(0, 1), claims=claims), third]


def test_a_sentence_has_the_vector_of_the_claim_likest_in_length_else_its_messages_less_the_sessions_mean() -> None:
    said = talk()
    for claims in (said[1].claims, said[1].claims[::-1]):
        said[1] = replace(said[1], claims=claims)
        meaning = compute_meaning(said, extract_sentences(said))
        assert meaning is not None
        # the mean of the two messages that have a vector is (.5, .5); the last message has none
        assert meaning.tolist() == [[0.5, -0.5], [-0.5, 0.5], [-0.5, 4.5], [0, 0]]


def test_without_vectors_or_sentences_nothing_is_known_of_the_meaning() -> None:
    bare = [replace(one, vector=None, claims=()) for one in talk()]
    assert compute_meaning(bare, extract_sentences(bare)) is None
    along = replace(NO_WEIGHTS, direction=(1.0, 0.0))
    assert {one.relevance for one in score_session(bare, 0.9, weights=along)} == {0.45}
    assert score_session([replace(talk()[0], text="???")], 0.9, weights=along) == []


def test_what_lies_in_the_direction_is_worth_more() -> None:
    along, against = (
        score_session(talk(), 0.9, weights=replace(NO_WEIGHTS, direction=direction))
        for direction in ((0.0, 1.0), (0.0, -1.0))
    )
    assert [one.text for one in along] == [one.text for one in against]
    assert along[2].relevance > 0.89 > 0.1 > against[2].relevance
    assert along[2].worths["ten"] > against[2].worths["ten"]
    assert along[3].relevance == against[3].relevance


def test_the_weights_that_ship_fit_the_encoder_that_ships() -> None:
    assert WEIGHTS.encoder == Settings().encoder
    assert len(WEIGHTS.direction) == load_encoder(WEIGHTS.encoder).dim
    assert (len(WEIGHTS.sentence), len(WEIGHTS.word)) == (len(SENTENCE_SIGNS), len(WORD_SIGNS))


@pytest.mark.parametrize("encoder", ["hash-384", WEIGHTS.encoder])
def test_vectors_of_another_encoder_count_for_nothing(tmp_path: Path, encoder: str) -> None:
    run_night([chat(tmp_path / "chat.jsonl")], Settings(store=tmp_path / "store", encoder=encoder))
    memory = Memory.open(tmp_path / "store")
    view, asked = memory.get_view(), build_query(QUERY, 1, "message")
    hits = memory.recall(QUERY, 3, "message")
    vectors = memory._vectors.encode_texts(view.release.encoder, [QUERY]).get(QUERY)
    messages = next(
        some
        for _, some in load_sessions(view, asked, vectors, [hit.id for hit in hits], WEIGHTS.encoder)
        if len(some) == len(TALK)
    )
    assert all((one.vector is not None) == (encoder == WEIGHTS.encoder) for one in messages)
    with_meaning, without = (
        [line.worths for line in rank_sentences(view, asked, vectors, hits, weights)]
        for weights in (WEIGHTS, replace(WEIGHTS, direction=()))
    )
    assert (with_meaning == without != []) == (encoder != WEIGHTS.encoder)
