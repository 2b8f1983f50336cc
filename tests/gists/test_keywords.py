"""Keywords: KeyBERT's own, from phrases that hold together, each n-gram encoded once."""

import pytest

from slowwave.engines.encoders.protocol import Encoder, HashEncoder
from slowwave.engines.encoders.torch import SentenceTransformerEncoder
from slowwave.tasks.gists.keywords import (
    count_phrases,
    extract_keywords,
    extract_phrases,
    split_word_runs,
)

TEXTS = [
    "We moved the database from MySQL to PostgreSQL because of its JSONB support.",
    "My sister Anna lives in Lisbon and works as a marine biologist.",
    "The flaky test in tests/test_store.py waits for the lock file, so its timeout is now 30 seconds.",
    "Deploys run on Python 3.11 behind nginx; retry_limit stays at three.",
]


def test_phrases_stop_at_stop_words_and_punctuation() -> None:
    assert list(
        split_word_runs("Anna's web-based tools, the C++ parser and src/app/main.py in Python 3.11; don't use __init__")
    ) == [
        ["anna", "web-based", "tools"],
        ["c++", "parser"],
        ["src/app/main.py"],
        ["python", "3.11"],
        ["use", "__init__"],
    ]


def test_a_number_in_thousands_is_one_word() -> None:
    found = extract_phrases("It cost 1,800 euros, 30 men", 2)
    assert "1,800 euros" in found
    assert not {"800 euros", "800", "1,800", "euros 30"} & set(found)


def test_phrases_are_windows_and_words() -> None:
    words, pairs = ["lock", "file", "timeout"], ["lock file", "file timeout", "timeout 30"]
    assert extract_phrases("lock file timeout 30", 2) == words + pairs


def test_runs_that_take_up_most_of_a_text_without_a_model() -> None:
    text = "The lock file is old: 1800. A killed run is what left the lock file; a killed run is a lost run."
    assert count_phrases(text, 4) == ["lock file", "killed run", "lost run", "old"]
    assert count_phrases("1800 and 30", 5) == []


def find(texts: list[str], encoder: Encoder, top: int) -> list[list[str]]:
    return extract_keywords(texts, encoder.encode(texts), encoder, top)


def test_keywords_name_what_a_text_is_about(encoder: Encoder) -> None:
    database, sister, *_ = find(TEXTS, encoder, 5)
    assert "jsonb support" in database
    assert {"lisbon", "marine biologist"} <= set(sister)


@pytest.mark.parametrize("top", [5, 3])
def test_the_same_as_keybert_called_per_document(
    encoder: Encoder, original: SentenceTransformerEncoder, top: int
) -> None:
    from keybert import KeyBERT  # brings torch: seconds for whoever collects this file
    from sklearn.feature_extraction.text import CountVectorizer

    model = KeyBERT(model=original.model)
    words = CountVectorizer(analyzer=extract_phrases)
    options = {"vectorizer": words, "top_n": top, "use_mmr": True, "diversity": 0.3}
    expected = [[word for word, _ in model.extract_keywords(text, **options)] for text in TEXTS]
    assert find(TEXTS, encoder, top) == expected
    assert [find([text], encoder, top)[0] for text in TEXTS] == expected


def test_a_text_without_candidates_does_not_empty_the_others(fake_encoder: HashEncoder) -> None:
    texts = ["!!!", "", "the lock file", "and so on", ""]
    assert [bool(words) for words in find(texts, fake_encoder, 5)] == [False, False, True, False, False]
    assert find(["of the", ""], fake_encoder, 5) == [[], []]
    assert find([], fake_encoder, 5) == []


def test_top_bounds_the_number(fake_encoder: HashEncoder) -> None:
    assert [len(words) for words in find(TEXTS, fake_encoder, 2)] == [2, 2, 2, 2]
    assert find(TEXTS, fake_encoder, 0) == [[], [], [], []]
