"""The resident reader: its answers are those of the direct way, whatever happens to it, the store or the client."""

import asyncio
import json
import os
import pty
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from slowwave.cli import answered
from slowwave.cli.agents.resident import KeptMemory
from slowwave.cli.answered import ask_for
from slowwave.flows.forget import run_forget
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.resident import client, place, server
from slowwave.resident.client import (
    Refused,
    ask,
    connect,
    find_readers,
    start_detached,
)
from slowwave.resident.place import find_address, is_private, make_address
from slowwave.resident.server import Resident
from slowwave.resident.wire import Frame
from slowwave.schemas.settings import Settings, find_default_store
from slowwave.tasks.forget.select import Wanted
from tests.resident_home import ROOT, Home
from tests.talk_files import session
from tests.waiting import wait_until

QUESTION = "Which database does tidepool use for the gauge readings?"
HERE = "/home/ada/tidepool"
PROMPT = {"cwd": HERE, "prompt": QUESTION}
START = {"cwd": HERE, "source": "startup"}
SECONDS = 600.0
"""More than any answer takes: a test is about what is answered, and not about when."""


@pytest.fixture
def home(
    tmp_path: Path,
    samples_night: tuple[Path, RunReport],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Home]:
    made = Home(tmp_path, Path(shutil.copytree(samples_night[0], tmp_path / "store")))
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    # a busy machine is no reason for the direct way
    monkeypatch.setattr(client, "GREETING_SECONDS", SECONDS)
    monkeypatch.setattr(answered, "SECONDS", SECONDS)
    yield made
    made.close()
    shutil.rmtree(made.runtime)


def ask_reader(question: str, *words: str) -> str | None:
    """What the reader has a recall write; None if it answers nothing."""
    output = ask_for(["recall", question, *words])
    return (
        None if output is None else b"".join(raw for _, raw in output.chunks).decode()
    )


def make_request(question: str) -> Frame:
    """A recall, as the client asks for it."""
    streams = [["utf-8", "strict", False]] * 2
    return {
        "do": "command",
        "words": ["recall", question],
        "streams": streams,
        "cwd": str(Path.cwd()),
        "environ": dict(os.environ),
    }


def read_output(answer: Frame) -> str:
    return "".join(text for _, text in answer["chunks"]).encode("latin-1").decode()


CALLS: list[tuple[list[str], object]] = [
    (["recall", QUESTION], None),
    (["recall", QUESTION, "--json", "-k", "3"], None),
    (["recall", QUESTION, "--kind", "session"], None),
    (["recall", "readings", "--project", "/no/such/project"], None),
    (["context", QUESTION, "--budget", "300"], None),
    (["briefing"], None),
    (["recent", "3"], None),
    (["recall"], None),
    (["hook", "user-prompt"], PROMPT),
    (["hook", "session-start"], START),
    (["hook", "session-start"], {"cwd": "/somewhere/else", "source": "startup"}),
]


def test_answers_are_those_of_the_direct_way_byte_for_byte(home: Home) -> None:
    direct = [home.call_directly(*words, given=given) for words, given in CALLS]
    told = [home.call(*words, given=given) for words, given in CALLS]
    for (words, _), one, other in zip(CALLS, direct, told, strict=True):
        assert one == other, words
    for (words, _), (status, out, _) in zip(CALLS[:8], direct, strict=False):
        output = ask_for(words)
        written = output.chunks if output else []
        assert b"".join(raw for one, raw in written if one == 1) == out, words
        # an error is left to the client, which meets it again
        assert (status, bool(output)) in ((0, True), (1, False), (2, False))
    (reader,) = find_readers(home.store, "default")
    assert reader["pid"] == home.find_pids()[0]
    assert reader["answers"] >= 6
    assert f"process {reader['pid']}, since" in home.call("status")[1].decode()


TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("recall", {"query": QUESTION}),
    ("context", {"query": QUESTION}),
    ("briefing", {}),
    ("claims", {"limit": 5}),
    ("related", {"wanted": "tidepool"}),
    ("habits", {}),
    ("show", {"id": "no such id"}),
    ("recall", {"query": QUESTION, "speaker": 5}),
]


def test_tools_of_mcp_have_the_same_results_and_share_the_reader(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    from mcp import Client

    from slowwave.mcp import server as tools

    monkeypatch.setattr(tools, "SECONDS", SECONDS)

    async def use(resident: bool) -> list[str]:
        settings = Settings(store=home.store, encoder="hash-384", resident=resident)
        async with Client(tools.make_server(settings)) as asked:
            results = [await asked.call_tool(name, given) for name, given in TOOLS]
            return [result.model_dump_json() for result in results]

    assert ask_reader(QUESTION) is not None
    direct = asyncio.run(use(False))
    assert find_readers(home.store, "default")[0]["answers"] == 1
    assert asyncio.run(use(True)) == direct
    # the two that are refused are left to the server
    (reader,) = find_readers(home.store, "default")
    assert reader["answers"] == 1 + len(TOOLS) - 2


def call_in_terminal(home: Home, resident: str) -> bytes:
    """What a recall writes to a terminal, errors among it."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "slowwave", "recall", QUESTION],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "SLOWWAVE_RESIDENT": resident, "TERM": "xterm-256color"},
    )
    os.close(follower)
    written = b""
    try:
        while chunk := os.read(leader, 65_536):
            written += chunk
    except OSError:  # the other side of the terminal is closed
        pass
    os.close(leader)
    assert process.wait() == 0
    return written


def test_a_terminal_gets_the_same_bytes_too(home: Home) -> None:
    direct = call_in_terminal(home, "0")
    assert b"\x1b[2m" in direct  # sources are dim
    assert call_in_terminal(home, "1") == direct
    assert len(home.find_pids()) == 1


def test_32_clients_at_once_have_one_reader_and_the_same_answer(home: Home) -> None:
    direct = home.call_directly("hook", "session-start", given=START)
    clients = [home.start("hook", "session-start", given=START) for _ in range(32)]
    answers = [(*one.communicate(), one.returncode) for one in clients]
    assert set(answers) == {(direct[1], direct[2], 0)}
    assert b"PostgreSQL 17" in direct[1]  # of the briefing
    assert len(home.find_pids()) == 1


def test_a_reader_that_is_killed_at_a_question_is_replaced(home: Home) -> None:
    direct = home.call_directly("recall", QUESTION)
    asking = home.start("recall", QUESTION)
    os.kill(killed := home.wait_for_reader(), signal.SIGKILL)  # while it imports
    out, err = asking.communicate()
    assert (asking.returncode, out, err) == direct
    assert list(home.folder.glob("*.socket"))  # of the dead
    assert home.call("recall", QUESTION) == direct
    assert home.find_pids() not in ([], [killed])


def test_a_client_that_is_killed_at_its_question_ends_nothing(home: Home) -> None:
    asking = home.start("recall", QUESTION)
    reader = home.wait_for_reader()
    asking.kill()
    asking.communicate()
    assert "PostgreSQL 17" in str(ask_reader(QUESTION))
    assert home.find_pids() == [reader]


def test_a_reader_that_hangs_holds_nobody_up(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask_reader(QUESTION) is not None
    (reader,) = home.find_pids()
    os.kill(reader, signal.SIGSTOP)
    monkeypatch.setattr(client, "GREETING_SECONDS", 0.5)
    assert ask_reader(QUESTION) is None
    assert find_readers(home.store, "default") == []
    os.kill(reader, signal.SIGCONT)
    wait_until(lambda: ask_reader(QUESTION))


class Interrupted(KeptMemory):
    """A reader during whose first answer something happens to the store."""

    def __init__(self, event: Any) -> None:
        super().__init__()
        self.events = [event]
        self.first = ""

    def _answer_once(self, request: Frame) -> Frame:
        answer = super()._answer_once(request)
        if self.events:
            self.first = read_output(answer)
            self.events.pop()()
        return answer


def test_a_release_in_mid_question_is_what_answers(home: Home, tmp_path: Path) -> None:
    said = [("user", "The gauge readings moved to CockroachDB for good.")]
    talk = session(tmp_path, "late", 9, said, workspace=HERE)
    settings = Settings(store=home.store, encoder="hash-384")
    reader = Interrupted(lambda: run_night([talk], settings))
    answer = read_output(reader.answer(make_request("CockroachDB gauge readings")))
    assert ("CockroachDB" in reader.first, "CockroachDB" in answer) == (False, True)


def test_a_forgetting_in_mid_question_is_heeded(home: Home) -> None:
    settings = Settings(store=home.store, encoder="hash-384")
    question = "Which port does tidepool move to?"
    reader = Interrupted(lambda: run_forget(Wanted(matches=("9090",)), settings))
    answer = read_output(reader.answer(make_request(question)))
    assert ("9090" in reader.first, "9090" in answer) == (True, False)


def test_what_is_forgotten_is_neither_told_nor_kept(home: Home, tmp_path: Path) -> None:
    question = "Which port does tidepool move to?"
    assert "9090" in str(ask_reader(question))
    (reader,) = home.find_pids()
    settings = Settings(store=home.store, encoder="hash-384")
    run_forget(Wanted(matches=("9090",)), settings)
    status, out, _ = home.call("recall", question)
    assert (status, b"tidepool" in out, b"9090" in out) == (0, True, False)
    # its caches may hold words that were forgotten: the process ends
    wait_until(lambda: reader not in home.find_pids())
    kept = KeptMemory()
    kept.answer(make_request(question))
    talk = session(tmp_path, "late", 9, [("user", "We use CockroachDB now.")])
    run_night([talk], settings)
    kept.look()
    assert (kept._memory, kept.is_over) == (None, False)
    kept.answer(make_request(question))
    run_forget(Wanted(matches=("8080",)), settings)
    kept.look()
    assert (kept._memory, kept.is_over) == (None, True)


def test_a_note_and_a_store_that_is_gone_are_seen_at_once(home: Home) -> None:
    note = "The Kittiwake archive is on the shelf in Bergen."
    assert note not in str(ask_reader("where is the Kittiwake archive?"))
    home.call("remember", note)
    assert note in str(ask_reader("where is the Kittiwake archive?"))
    home.store.rename(home.store.with_name("elsewhere"))
    assert ask_reader("where is the Kittiwake archive?") is None
    home.store.with_name("elsewhere").rename(home.store)
    # the reader may be ending by then: another one takes its place
    wait_until(lambda: note in str(ask_reader("where is the Kittiwake archive?")))


def test_each_store_space_and_home_has_a_reader_of_its_own(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    talk = session(tmp_path, "s1", 2, [("user", "The heron nests at Kilbrack.")])
    run_night([talk], Settings(store=other, encoder="hash-384"))
    assert "heron" in str(ask_reader("The heron?", "--store", str(other)))
    assert "heron" not in str(ask_reader("The heron?"))
    assert len(set(home.find_pids())) == 2
    addresses = {find_address(None, None), find_address(str(other), None)}
    addresses.add(find_address(str(other), "work"))
    assert find_address(str(home.store), "default") in addresses  # by another name
    monkeypatch.setenv("HOME", str(tmp_path))
    addresses.add(find_address(None, None))
    assert len(addresses) == 4
    with monkeypatch.context() as patch:
        patch.delenv("SLOWWAVE_STORE")
        default = str(find_default_store())
        assert find_address(None, None) == find_address(default, "default")
    # a reader never opens another store than its first
    kept = KeptMemory()
    assert "chunks" in kept.answer(make_request(QUESTION))
    strange = make_request(QUESTION)
    strange["words"] = ["recall", QUESTION, "--store", str(other)]
    assert kept.answer(strange) == {"pass": "Passed"}
    assert kept.is_over


def test_sockets_that_others_may_use_or_own_are_refused(home: Home) -> None:
    assert ask_reader(QUESTION) is not None
    (path,) = home.folder.glob("*.socket")
    path.chmod(0o660)
    assert ask_reader(QUESTION) is None
    wait_until(lambda: not path.exists())  # its reader ends, and another one may start
    assert ask_reader(QUESTION) is not None
    home.folder.chmod(0o750)
    assert find_address(None, None) is None
    home.folder.chmod(0o700)
    assert ask_reader(QUESTION) is not None
    path.rename(path.with_suffix(".own"))
    path.symlink_to(path.with_suffix(".own"))
    assert ask_reader(QUESTION) is None
    path.unlink()
    with socket.socket(socket.AF_UNIX) as strange:
        strange.bind(str(path))
        path.chmod(0o600)
        if os.getuid() == 0:
            os.chown(path, 65_534, -1)
            assert ask_reader(QUESTION) is None


def test_a_client_waits_for_a_socket_that_is_not_yet_its_users_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask_reader(QUESTION) is not None  # makes the folder
    address = make_address(home.folder / "other.lock")
    found: list[object] = []

    chmod = Path.chmod

    def close_to_others(path: Path, mode: int) -> None:
        found.append(connect(address))
        chmod(path, mode)

    monkeypatch.setattr(Path, "chmod", close_to_others)
    with Resident(address, KeptMemory()):
        assert found == [None]
        assert is_private(address.socket, stat.S_ISSOCK)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")
def test_another_user_gets_no_greeting(home: Home) -> None:
    assert ask_reader(QUESTION) is not None
    (path,) = home.folder.glob("*.socket")
    for opened in (home.runtime, home.folder, path):
        opened.chmod(0o777)
    program = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        's.sendall(b\'{"nonce": "1"}\\n\'); print(s.recv(9))'
    )
    command = ["/usr/bin/env", "python3", "-c", program, str(path)]
    done = subprocess.run(command, user=65_534, capture_output=True, check=False)
    assert b"version" not in done.stdout
    assert done.stdout.strip() in (b"b''", b"")


OLD = """
import sys
from pathlib import Path
from slowwave.cli.agents.resident import KeptMemory
from slowwave.resident.place import make_address
from slowwave.resident.server import Resident

resident = Resident(make_address(Path(sys.argv[1])), KeptMemory())
resident.version = "of last week"
resident.run()
"""


def test_a_reader_of_another_version_is_told_to_end(home: Home) -> None:
    address = find_address(None, None)
    assert address is not None
    old = subprocess.Popen([sys.executable, "-c", OLD, str(address.lock)], cwd=ROOT)
    home.wait_for_reader()
    assert ask_reader(QUESTION) is None
    assert old.wait() == 0
    assert not address.socket.exists()
    assert "PostgreSQL 17" in str(ask_reader(QUESTION))


@pytest.mark.parametrize(
    "answer",
    [{}, {"chunks": 5}, {"chunks": [[1]]}, {"chunks": [[1, "\u20ac"]]}, {"text": 1}],
)
def test_a_broken_answer_is_none(home: Home, answer: Frame) -> None:
    address = find_address(None, None)
    assert address is not None

    class Broken(KeptMemory):
        def answer(self, request: Frame) -> Frame:
            return answer

    resident = Resident(address, Broken())
    thread = Thread(target=resident.run)
    thread.start()
    assert ask_reader(QUESTION) is None
    resident.end()
    thread.join()


def test_without_peer_credentials_a_token_tells_who_asks(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (client, server):
        monkeypatch.setattr(module, "has_peer_credentials", lambda: False)
    address = find_address(None, None)
    assert address is not None
    resident = Resident(address, KeptMemory())
    thread = Thread(target=resident.run)
    thread.start()
    assert "PostgreSQL 17" in str(ask_reader(QUESTION))
    assert address.token.stat().st_mode & 0o777 == 0o600
    assert not address.socket.exists()
    port, _ = address.token.read_text().split()
    # a client with another token is told nothing, nor does it tell that reader anything
    connection = socket.create_connection(("127.0.0.1", int(port)))
    with connection, pytest.raises(Refused):
        client.converse(connection, "guessed", {"do": "about"}, SECONDS)
    with socket.create_connection(("127.0.0.1", int(port))) as connection:
        connection.sendall(b'{"nonce": "1"}\n{"do": "end", "proof": "guessed"}\n')
        greeting, _, rest = connection.makefile("rb").read().partition(b"\n")
    assert ("version" in json.loads(greeting), rest) == (True, b"")
    assert not resident.is_over
    resident.end()
    thread.join()
    assert not address.token.exists()


def test_a_reader_ends_when_idle_when_replaced_and_when_memory_is_short(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = find_address(None, None)
    assert address is not None
    with monkeypatch.context() as patch:
        patch.setattr(server, "IDLE", 0)
        Resident(address, KeptMemory()).run()
    with monkeypatch.context() as patch:
        patch.setattr(server, "LEAST_FREE", 2.0)
        Resident(address, KeptMemory()).run()
    assert not address.socket.exists()
    replaced = Resident(address, KeptMemory())
    address.socket.rename(address.socket.with_suffix(".old"))
    address.socket.touch()
    replaced.run()
    assert address.socket.exists()  # another's


def test_it_is_switched_off_by_the_environment_and_by_the_users_file(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_address(None, None) is not None
    monkeypatch.setenv("SLOWWAVE_RESIDENT", "off")
    assert find_address(None, None) is None
    assert home.call("recall", QUESTION, SLOWWAVE_RESIDENT="off")[0] == 0
    assert "off (the setting `resident`)" in home.call_directly("status")[1].decode()
    monkeypatch.delenv("SLOWWAVE_RESIDENT")
    assert find_address(None, None) is not None
    file = Path(home.environ["XDG_CONFIG_HOME"]) / "slowwave" / "slowwave.toml"
    file.parent.mkdir(parents=True)
    file.write_text("resident = false\n")
    assert find_address(None, None) is None
    file.write_text("resident = [\n")
    assert find_address(None, None) is None  # the direct way explains it
    assert home.find_pids() == []


def test_a_program_that_ends_at_once_is_not_waited_for(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "READER", "slowwave.no_such_module")
    request = {"do": "command", "words": ["recall", QUESTION], "streams": []}
    assert ask(request, None, None, SECONDS) is None
    assert start_detached("slowwave", "--version").wait() == 0
    assert place.find_runtime_folder() == home.folder
