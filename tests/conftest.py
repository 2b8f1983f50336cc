"""What several tests share: the real encoder, the plain one, and the folder of benchmark data."""

import os
from pathlib import Path

import pytest

from slowwave.engines.encoders.hash_encoder import HashEncoder
from slowwave.engines.encoders.load import load_encoder, load_original
from slowwave.engines.encoders.protocol import Encoder
from slowwave.engines.encoders.sentence_transformer import SentenceTransformerEncoder


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    """all-MiniLM-L6-v2 from its package."""
    return load_encoder("all-MiniLM-L6-v2")


@pytest.fixture(scope="session")
def original() -> SentenceTransformerEncoder:
    """The same model by sentence-transformers."""
    return load_original("all-MiniLM-L6-v2")


@pytest.fixture(scope="session")
def fake_encoder() -> HashEncoder:
    return HashEncoder()


@pytest.fixture(scope="session")
def bench_data() -> Path:
    folder = os.environ.get("SLOWWAVE_BENCH_DATA")
    if not folder:
        pytest.skip("SLOWWAVE_BENCH_DATA names no folder of benchmark data")
    return Path(folder)
