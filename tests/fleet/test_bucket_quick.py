"""A store in a bucket of moto's server, in this process and so in every run of the tests; `test_bucket.py` has a real
server.
"""

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from slowwave.flows.nightly import run_night
from slowwave.flows.parts.run import open_run
from slowwave.memory import Memory
from slowwave.plugins.fleet import working_copy
from slowwave.schemas.errors import StoreLocked, StoreUnwritable
from slowwave.schemas.settings import Settings
from tests.fleet.buckets import BUCKET, KEYS, read_all
from tests.killed_nights import SMALL, digests
from tests.talk_files import session

pytest.importorskip("flask_cors", reason="moto's server is not installed")
from moto.server import ThreadedMotoServer


@pytest.fixture
def machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Settings]]:
    """Settings as on a machine with a disk of its own."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    url = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    httpx.put(f"{url}/{BUCKET}")
    for name, value in {
        **KEYS,
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(working_copy, "EVERY", timedelta(0))

    def be(name: str) -> Settings:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        return Settings(store=f"s3://{BUCKET}/team", **SMALL)

    yield be
    server.stop()


def test_another_machine_answers_and_who_lost_the_lease_makes_nothing_live(
    machine: Callable[[str], Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [
        ("user", "We decided that PostgreSQL keeps the tickets from now on."),
        ("assistant", "Noted."),
    ]
    path = session(tmp_path, "s1", 2, said)
    run_night([path], one := machine("one")).check_complete()
    run_night(
        [path], plain := Settings(store=tmp_path / "plain", **SMALL)
    ).check_complete()
    two = machine("two")
    assert (
        "PostgreSQL"
        in Memory.open(f"s3://{BUCKET}/team").recall("what keeps the tickets?")[0].text
    )
    assert digests(two.store) == digests(one.store) == digests(plain.store)
    machine("one")
    late = open_run("trial", one)
    late.__enter__()
    with pytest.raises(StoreLocked):
        run_night([path], machine("two"))
    monkeypatch.setattr(working_copy, "LEASE", timedelta(0))
    run_night([session(tmp_path, "s2", 3, said)], two).check_complete()
    machine("one")
    with pytest.raises(StoreUnwritable, match="another machine took over"):
        late.__exit__(None, None, None)
    found = read_all(os.environ["AWS_ENDPOINT_URL"], "team/default")
    assert b'"r2"' in found["live.json"]
