"""Tell a person whose messages are in another language than the encoder reads."""

from collections import Counter

import numpy as np

from slowwave.engines.encoders.load import PACKAGED
from slowwave.schemas.errors import name_install
from slowwave.schemas.tables import MESSAGES
from slowwave.schemas.vocabulary import SPOKEN
from slowwave.store.store import Store
from slowwave.text.languages import ENGLISH
from slowwave.text.words import find_text_language

SAMPLE = 1_000
"""Messages whose language is looked at, spread evenly over the store."""


def describe_languages(store: Store, encoder: str | None) -> str:
    """Return which other language most messages are in if the encoder reads English alone; else an empty string."""
    dataset = store.open_dataset(MESSAGES)
    rows = dataset.count_rows()
    if encoder not in PACKAGED or not rows:
        return ""
    offsets = np.unique(np.linspace(0, rows - 1, SAMPLE).astype(np.int64)).tolist()
    sample = dataset.take(offsets, columns=["text", "origin"]).to_pylist()
    languages = Counter(
        find_text_language(row["text"]) for row in sample if row["origin"] in SPOKEN
    )
    del languages[None]
    language, count = next(iter(languages.most_common(1)), (ENGLISH, 0))
    if language == ENGLISH or 2 * count < languages.total():
        return ""
    return (
        f"{count / languages.total():.0%} of the messages are {language}, and the encoder {encoder} reads English: "
        f'set encoder = "multilingual" to find them by meaning too ({name_install("multilingual")})'
    )
