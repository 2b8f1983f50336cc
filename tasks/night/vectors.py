"""Vectors for rows on their way into the store: each distinct text is encoded once, ever."""

from functools import cache

import pyarrow as pa

from schemas.settings import Settings
from schemas.vectors import VECTORS
from slowwave.engines.encoder import Encoder
from slowwave.engines.sentence_transformer import load_encoder
from slowwave.store.store import Store
from tasks.embed import add_vectors, encode_once, vector_ids
from tasks.keywords import NgramVectors


@cache
def shared_encoder(name: str) -> Encoder:
    """The model, loaded once a process."""
    return load_encoder(name)


@cache
def shared_ngrams(name: str) -> NgramVectors:
    """N-gram vectors of the process's encoder, kept from batch to batch."""
    return NgramVectors(shared_encoder(name))


def encoder_for(settings: Settings) -> Encoder | None:
    """The encoder, or None where embeddings are off."""
    return shared_encoder(settings.encoder) if settings.embeddings else None


def with_vectors(store: Store, rows: pa.Table, column: str, encoder: Encoder | None) -> pa.Table:
    """The rows with `vector` filled from the text in `column`; new vectors are stored first. Without encoder: as is."""
    if encoder is None or rows.num_rows == 0:
        return rows
    texts: list[str] = rows.column(column).to_pylist()
    known = store.read_ids(VECTORS, vector_ids(texts, encoder.name))
    encoded = encode_once(texts, encoder, known)
    store.append(VECTORS, encoded.new)
    return add_vectors(rows, column, encoded)
