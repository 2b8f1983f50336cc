"""Sample what people wrote in a store, to find its languages and their stop words."""

import numpy as np

from slowwave.schemas.tables import MESSAGES
from slowwave.schemas.vocabulary import SPOKEN
from slowwave.store.store import Store
from slowwave.text.stop_words import MemoryWords, count_stop_words

SAMPLE = 1_000
"""Messages that are looked at, spread evenly over the store."""


def sample_texts(store: Store) -> list[str]:
    """Return the texts of SAMPLE messages, without those that nobody wrote."""
    dataset = store.open_dataset(MESSAGES)
    rows = dataset.count_rows()
    if not rows:
        return []
    offsets = np.unique(np.linspace(0, rows - 1, SAMPLE).astype(np.int64)).tolist()
    sample = dataset.take(offsets, columns=["text", "origin"]).to_pylist()
    return [row["text"] for row in sample if row["origin"] in SPOKEN]


def read_memory_words(store: Store) -> MemoryWords:
    """Return the languages of a store's messages, and the stop words counted in each."""
    return count_stop_words(sample_texts(store))
