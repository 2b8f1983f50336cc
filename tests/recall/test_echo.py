"""What a person says stands before an assistant's longer echo of it, unless the assistant alone says what is asked."""

from pathlib import Path

import numpy as np
import pytest

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.memory import Memory
from slowwave.recall.query import Query
from slowwave.recall.retrieve.candidates import compute_own
from slowwave.schemas.tables import PASSAGES
from tests.recall_store import TALK, build


@pytest.mark.parametrize(
    ("query", "own"),
    [
        (
            "Why do we drop the session cache?",
            [1.0, 0.0],
        ),  # the answer has two of the words, and so has the message
        (
            "Where does the session cache live in Postgres?",
            [1.0, 0.25],
        ),  # "postgres" is the answer's alone
    ],
)
def test_an_answers_own_words_are_those_that_its_question_lacks(
    tmp_path: Path, query: str, own: list[float]
) -> None:
    build(tmp_path / "store")
    view = Memory.open(tmp_path / "store", encoder=HashEncoder()).get_view()
    texts = view.take(PASSAGES, view.passages.offsets, ["text"])["text"].to_pylist()
    positions = np.array([texts.index(text) for text in TALK["ses-a"][:2]])
    said = view.take(PASSAGES, view.passages.offsets[positions], ["text"])["text"]
    assert (
        compute_own(view, Query(query, 5, ("message",)), positions, said).tolist()
        == own
    )
