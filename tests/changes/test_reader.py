"""The reader of two vectors, and the pairs of a model's statement and a person's reply."""

import numpy as np
import pyarrow as pa

from slowwave.engines.encoders.pair_reader import (
    PairReader,
    combine_vectors,
    find_reader,
    load_reader,
)
from slowwave.tasks.changes.pairs import find_reply_pairs
from tests.changes.test_decide import encode, table
from tests.claim_rows import claim_row


def test_the_reader_that_ships_tells_a_retraction_from_a_reminder() -> None:
    earlier = encode("Commit messages are written in German")
    later = [
        encode("Forget the rule about German commit messages"),
        encode("As I said, the commit messages have to be in German"),
    ]
    reader = load_reader()
    odds = reader.read(np.array([earlier, earlier]), np.array(later))
    taken_back, reminded = odds[:, reader.kinds.index("retracted")]
    assert taken_back > reminded + 1  # in log-odds


def test_a_pair_without_a_vector_is_not_read_and_a_saved_reader_reads_the_same() -> (
    None
):
    reader = load_reader()
    one, other, none = (*map(encode, ("Tea at five", "Tea at six")), np.zeros(384))
    odds = reader.read(np.array([one, one]), np.array([other, none]))
    assert np.isfinite(odds[0]).all()
    assert np.isnan(odds[1]).all()
    again = PairReader.from_bytes(reader.to_bytes())
    assert np.array_equal(again.read(one[None], other[None])[0], odds[0])
    # the later vector, the difference, and the products
    assert combine_vectors(one[None], other[None]).shape == (1, 3 * 384)


def test_other_encoders_vectors_are_not_read() -> None:
    assert find_reader("all-MiniLM-L6-v2") is load_reader()
    assert find_reader("multilingual") is None


def test_a_persons_next_words_reply_to_a_models_last_two_claims() -> None:
    said = [
        (0, "I'd take Redis", True),
        (1, "With a TTL of a minute", True),
        (2, "And two replicas", True),
        (3, "Hm, rather wait", False),
        (4, "The disk is full", True),
    ]
    # the model's three claims are of one moment, the person's of the next
    rows = [
        claim_row(
            n,
            text,
            session_id="s",
            observed_at=claim_row(max(n, 2), "")["observed_at"],
        )
        for n, text, _ in said
    ]
    claims = table(*rows).append_column("by_model", pa.array([by for *_, by in said]))
    assert find_reply_pairs(claims).tolist() == [[1, 3], [2, 3]]
    assert find_reply_pairs(claims, np.array([2])).tolist() == [[2, 3]]
    assert find_reply_pairs(table(*rows)).tolist() == []  # nobody knows who said it
