"""A session is known in the next one without a night, and what was only just noted is recalled at once."""

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.store.lock import wait_alone
from slowwave.store.notes import TalkLog, read_notes
from tests.command_line import typed
from tests.talk_files import session
from tests.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "deployments" / "hooks"
PENDING = "not yet distilled"
FACTS = {
    "claude-code": "We decided that DuckDB keeps the tide tables.",
    "codex": "We decided that the API uses port 8123.",
    "talk": "We decided that the mole is painted green.",
}


def ask(store: Path, query: str) -> dict[str, str]:
    """The status of each hit, by its text."""
    return {
        hit.text: hit.status
        for hit in Memory.open(store, encoder=HashEncoder()).recall(query)
    }


def test_sessions_that_end_at_once_are_known_in_the_next_one(tmp_path: Path) -> None:
    store, here, program = (
        tmp_path / "store",
        tmp_path / "tidepool",
        f"{sys.executable} -m slowwave",
    )
    (here / ".git").mkdir(parents=True)
    (here / "polars.py").write_text(
        "raise SystemExit('the folder that a client works in is no place for modules')"
    )
    environment = os.environ | {
        "PYTHONPATH": str(EXAMPLES.parents[1]),
        "SLOWWAVE_ENCODER": "hash-384",
    }
    environment["SLOWWAVE_STORE"] = str(store)

    def call(words: str, given: str = "") -> str:
        run = partial(
            subprocess.run,
            shell=True,
            cwd=here,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return str(run(f"{program} {words}", input=given).stdout)

    for client, fact in FACTS.items():
        said = [
            ("user", fact),
            ("assistant", "Noted."),
            ("user", "Thank you, that is all for today."),
        ]
        if client == "talk":
            call(
                f"talk --llm scripted --project {here}",
                "\n".join(text for _, text in said),
            )
            continue
        shown = (
            next(EXAMPLES.glob(f"{client}-[sh]*.json")),
            EXAMPLES / f"event-{client}-session-end.json",
        )
        hooks, event = (json.loads(path.read_text()) for path in shown)
        (hook,) = hooks["hooks"][event["hook_event_name"]][0]["hooks"]
        event |= {
            "cwd": str(here),
            "transcript_path": str(
                session(tmp_path, client, 2, said, workspace=str(here))
            ),
        }
        assert call(hook["command"].removeprefix("slowwave"), json.dumps(event)) == ""

    def knows_all() -> bool:
        briefing = call(
            "hook session-start", json.dumps({"cwd": str(here), "source": "startup"})
        )
        return all(fact[:-1] in briefing for fact in FACTS.values())

    wait_until(knows_all, every=1)
    environment |= {"SLOWWAVE_SAME_DAY": "0", "SLOWWAVE_STORE": str(tmp_path / "off")}
    assert (call("run --background"), (tmp_path / "off").exists()) == ("", False)


def test_nights_of_many_sessions_wait_at_once_and_leave_no_file(tmp_path: Path) -> None:
    with ExitStack() as waiting:
        assert all(
            waiting.enter_context(wait_alone(tmp_path, f"session {n}"))
            for n in range(40)
        )
        assert not waiting.enter_context(wait_alone(tmp_path, "session 7"))
    assert not [*tmp_path.iterdir()]


def test_a_session_whose_night_waits_or_runs_gets_no_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else all tests after this one run at the lowest priority.
    monkeypatch.setattr(os, "nice", lambda more: more)
    store, said = (
        tmp_path / "store",
        session(tmp_path, "s1", 2, [("user", FACTS["talk"]), ("assistant", "Noted.")]),
    )
    words = ["run", str(said), "--background", "--store", str(store)]
    with wait_alone(store / "default", str([said])):
        assert typed(*words).exit_code == 0
    assert not (store / "default" / "releases.lance").exists()
    assert typed(*words, env={"SLOWWAVE_ENCODER": "hash-384"}).exit_code == 0
    assert (store / "default" / "releases.lance").exists()


def test_what_was_noted_and_talked_since_the_release_is_recalled_and_marked(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    settings, log = (
        Settings(store=store, encoder="hash-384"),
        TalkLog(store / "default", "/ferry"),
    )
    log.append("user", "The ferry's radio call sign is Kittiwake Nine.")
    assert ask(store, "the ferry's call sign") == {
        "The ferry's radio call sign is Kittiwake Nine.": PENDING
    }
    block = (
        Memory.open(store, encoder=HashEncoder()).context("the ferry's call sign").text
    )
    assert "Kittiwake Nine. (not yet distilled)" in block
    run_night([], settings)
    log.append("user", "The ferry's spare call sign is Razorbill Two.")
    memory = Memory.open(store, encoder=HashEncoder())
    memory.remember(
        "The ferry needs two deckhands.", workspace="/pier", speaker="Ada Byron"
    )
    found = ask(store, "what is the spare call sign of the ferry?")
    assert next(iter(found.items())) == (
        "The ferry's spare call sign is Razorbill Two.",
        PENDING,
    )
    assert found["The ferry's radio call sign is Kittiwake Nine."] == "active"
    shown = typed("recall", "two deckhands", "--project", "/pier", "--store", store)
    assert re.match(
        rf"1\. The ferry needs two deckhands\.\n   .+ · Ada Byron · pier · note-\w+ · {PENDING}",
        shown.output,
    )
    assert [
        hit.workspace
        for hit in memory.recall("deckhands", speaker="ada", kinds="message")
    ] == ["/pier"]
    assert (
        "The ferry needs two deckhands. (not yet distilled)"
        in memory.context("how many deckhands?").text
    )
    report = (
        "The harbour crew reported "
        + "that the ferry left with one deckhand instead of two deckhands, " * 9
    )
    assert (
        "The ferry needs two deckhands. (not yet distilled)"
        in memory.context(report).text
    )
    memory.remember(
        "The ferry is sold, says a page.", workspace="/pier", of_person=False
    )
    briefing = memory.briefing(workspace="/pier").text
    assert "The ferry needs two deckhands. (not yet distilled)" in briefing
    assert (
        "sold" in briefing,
        "Razorbill" in briefing,
        "Razorbill" in memory.briefing().text,
    ) == (False, False, True)
    before = Memory.open(store, release="r1")
    assert PENDING not in {hit.status for hit in before.recall("two deckhands")}
    assert PENDING not in before.briefing().text + before.context("two deckhands").text
    run_night([], settings)
    assert PENDING not in ask(store, "two deckhands on the ferry").values()


def test_a_note_is_of_the_project_of_its_folder_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, checkout, other = (tmp_path / name for name in ("pier", "quay", "attic"))
    for folder in (known, checkout / ".git", checkout / "src", other):
        folder.mkdir(parents=True)
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    said = [("user", "The pier has nine lamps."), ("assistant", "Noted.")]
    run_night([session(tmp_path / "talk", "lamps", 2, said, str(known))], settings)
    for folder, words in (
        (known, ()),
        (checkout / "src", ()),
        (other, ()),
        (known, ("--no-project",)),
        (other, ("--project", "pier")),
    ):
        monkeypatch.chdir(folder)
        done = typed("remember", "Lamps burn.", *words, "--store", settings.store)
        assert done.exit_code == 0, done.output
    places = [note.workspace for note in read_notes(settings.store / settings.space)]
    assert places == [str(known), str(checkout / "src"), None, None, str(known)]
    both = ("--project", "pier", "--no-project")
    refused = typed("remember", "Lamps burn.", *both, "--store", settings.store)
    assert refused.exit_code == 1
    assert "give one of them" in refused.output
