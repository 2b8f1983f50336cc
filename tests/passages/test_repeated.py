"""Passages that only repeat lines of their message, as in a pasted log, take vectors that were made before."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slowwave.engines.encoders.protocol import HashEncoder, Vectors
from slowwave.schemas.tables import PASSAGES
from slowwave.tasks.vector_columns import build_vector_matrix
from slowwave.tasks.vectors import add_vectors


class CountingEncoder(HashEncoder):
    """The encoder by hashes, which keeps the texts that it read."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        return super().encode(texts)


def build_rows(*texts: str, message: str = "m") -> pa.Table:
    """Return passages of a message."""
    rows = [
        {
            "passage_id": f"{message}{part}",
            "message_id": message,
            "session_id": "s",
            "seq": 0,
            "part": part,
            "role": "user",
            "text": text,
            "step_key": "k",
        }
        for part, text in enumerate(texts)
    ]
    return pa.Table.from_pylist(rows, schema=PASSAGES.schema)


def test_a_repeated_passage_is_not_read_and_has_the_mean_of_its_lines() -> None:
    encoder = CountingEncoder()
    rows = build_rows("job 1 done", "mail 2 sent", "job 3 done\nmail 4 sent", "full")
    made = build_vector_matrix(add_vectors(rows, "text", encoder)["vector"])
    assert encoder.texts == ["job 1 done", "mail 2 sent", "full"]
    mean = made[0] + made[1]
    assert np.allclose(made[2], mean / np.linalg.norm(mean), atol=1e-3)


def test_vectors_do_not_depend_on_the_order_of_rows_or_on_other_messages() -> None:
    rows = build_rows("job 1 done", "job 2 done", "job 3 done\nfull")
    alone = add_vectors(rows, "text", HashEncoder())
    turned = pa.concat_tables([build_rows("job 9 done", message="a"), rows])
    turned = add_vectors(turned.take([3, 2, 1, 0]), "text", HashEncoder())
    by_id = dict(zip(turned["passage_id"].to_pylist(), turned["vector"], strict=True))
    for key, vector in zip(
        alone["passage_id"].to_pylist(), alone["vector"], strict=True
    ):
        assert by_id[key] == vector
