"""What slowwave makes of the files that the real clients write: each message once, by whom it was said, in its place.

`make test-clients` runs it: it needs npm, installs the releases that `package.json` pins, and takes some minutes.
SLOWWAVE_CLIENTS names a folder where they are installed already. Where all scenarios of a client pass, its line of the
table in docs/formats.md is written anew.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, QUARANTINE, SESSIONS
from slowwave.store import Store
from slowwave.tasks.ingest.formats.registry import find_installed
from slowwave.text.workspaces import find_workspaces
from tests.clients import drive
from tests.clients.drive import CLIENTS, ROOT, Client, Model, Sandbox, serve_stub

pytestmark = pytest.mark.clients
PINS = json.loads((Path(__file__).parent / "package.json").read_text())["dependencies"]
PAGE = ROOT / "docs" / "formats.md"
BY_PERSON = {
    "turn": drive.TURN,
    "resume": drive.RESUMED,
    "fork": drive.FORKED,
    "tool call": drive.LOOK,
    "slash command": drive.COMMAND,
    "attached file": drive.ATTACHED.partition(" ")[2],
    "sub-agent": drive.DELEGATE,
    "compaction": drive.GO_ON,
    "interrupt": drive.INTERRUPTED,
    "taken back": drive.SENT_AGAIN,
    "piped stdin": drive.PIPED_WITH,
}
"""What a person says in each scenario."""
EXTRA = {"taken back"}
"""Scenarios that not every client must have or lack."""
BY_NOBODY = {
    "attached file": drive.FILE,
    "piped stdin": drive.PIPED,
    "sub-agent": drive.TASK,
    "slash command": drive.TEMPLATE,
}
"""What nobody says in a scenario."""


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pinned releases."""
    if named := os.environ.get("SLOWWAVE_CLIENTS"):
        return Path(named)
    folder = tmp_path_factory.mktemp("clients")
    packages = [f"{name}@{version}" for name, version in PINS.items()]
    options = [
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefix",
        str(folder),
    ]
    subprocess.run(["npm", "install", *options, *packages], check=True)
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    with serve_stub(tmp_path_factory.mktemp("stub")) as started:
        yield started


def read_memory(box: Sandbox) -> tuple[list[dict[str, Any]], list[str]]:
    """The messages that count after a night over all that discovery finds, by time, and reasons in quarantine."""
    paths = sorted({path for _, path in find_installed(box.home)})
    settings = Settings(
        store=box.folder / "store", encoder="hash-384", keywords={"top": 0}
    )
    run_night(paths, settings)
    store = Store.open(settings.store)
    gone = {
        message
        for row in store.read(SESSIONS).to_pylist()
        for message in row["inactive"]
    }
    rows = [
        row for row in store.read(MESSAGES).to_pylist() if row["message_id"] not in gone
    ]
    return sorted(rows, key=lambda row: row["ts"]), store.read(QUARANTINE)[
        "reason"
    ].to_pylist()


@pytest.mark.parametrize("name", CLIENTS)
def test_what_was_said_to_a_client_is_stored_once_as_who_said_it(
    name: str,
    installed: Path,
    model: Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    client, box = CLIENTS[name], Sandbox(tmp_path, installed, model)
    client.prepare(box)
    try:
        for scenario in client.scenarios.values():
            scenario(box)
    finally:
        box.end_processes()
        (tmp_path / "log").write_text("\n\n".join(box.log))
    rows, quarantined = read_memory(box)
    # Claude Code -p, which alone takes a pipe, is a program's.
    told = {
        scenario: text
        for scenario, text in BY_PERSON.items()
        if scenario in client.scenarios
    }
    by_program = {"piped stdin"} if name == "Claude Code" else set()
    spoken = [row for row in rows if row["origin"] == "human"]
    counts = {
        scenario: sum(text in row["text"] for row in spoken)
        for scenario, text in told.items()
    }
    assert counts == {scenario: int(scenario not in by_program) for scenario in told}
    # What the stand-in is told is no matter.
    words = [row["text"].partition("\nCALL ")[0] for row in spoken]
    foreign = [
        (scenario, said)
        for scenario, text in BY_NOBODY.items()
        for said in words
        if text in said
    ]
    assert sorted(scenario for scenario, _ in foreign) == sorted(client.unmarked)
    assert all(told[scenario] in said for scenario, said in foreign)
    # a prompt that was taken back counts as it was sent again
    again = drive.SENT_AGAIN
    assert all(again in said for said in words if drive.TAKEN_BACK in said)
    if "sub-agent" in told:
        prompts = [
            (row["role"], row["origin"]) for row in rows if row["text"] == drive.TASK
        ]
        assert prompts == [("agent", "model")]
    # in the order of the scenarios, and in this folder
    order = [
        scenario
        for row in spoken
        for scenario, text in told.items()
        if text in row["text"]
    ]
    assert order == [
        scenario for scenario in client.scenarios if scenario not in by_program
    ]
    places = {row["workspace"] for row in rows}
    assert set(find_workspaces(str(box.project), places)) == places
    assert quarantined == []
    # each scenario was driven, or cannot be
    assert {*client.scenarios, *client.lacks} - EXTRA == BY_PERSON.keys() - EXTRA
    assert all(lack.is_seen(box) for lack in client.lacks.values())
    write_row(name, client)


def write_row(name: str, client: Client) -> None:
    """Write the client's line of the table."""
    driven = [
        f"{scenario}*" if scenario in client.unmarked else scenario
        for scenario in client.scenarios
    ]
    none = [f"{scenario}: {lack.reason}" for scenario, lack in client.lacks.items()]
    cells = (
        name,
        PINS[client.package],
        f"{datetime.now(UTC):%Y-%m-%d}",
        ", ".join(driven),
        "; ".join(none) or "nothing",
    )
    row = f"| {' | '.join(cells)} |"
    lines = PAGE.read_text(encoding="utf-8").split("\n")
    begun = lines.index("| client | release | run on | scenarios | has none |")
    at = next(
        (
            n
            for n, line in enumerate(lines[begun:], begun)
            if line.startswith(f"| {name} |")
        ),
        None,
    )
    lines = (
        [*lines[:at], row, *lines[at + 1 :]]
        if at
        else [*lines[: begun + 2], row, *lines[begun + 2 :]]
    )
    PAGE.write_text("\n".join(lines), encoding="utf-8")
