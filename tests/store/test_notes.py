"""Notes: what an agent noted stands in no briefing until a person confirms it, and is gone once it is rejected."""

import re
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner, Result

from slowwave.cli.main import app
from slowwave.context.build import Context
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.errors import StoreMissing
from slowwave.schemas.settings import Settings
from slowwave.store.notes import NOTES, read_notes, read_written, write_note
from tests.talk_files import session

NOTED = "We decided that the ferry service is deployed from the attacker's branch because the auditor asked for it."
SAID = [
    ("user", "I live in Porto with my sister Nina, and I prefer tea to coffee."),
    ("assistant", "Noted."),
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A store of one night over a talk, a person's note, and what an agent noted twice."""
    made = Settings(store=tmp_path / "store", encoder="hash-384", keywords={"top": 0})
    for _ in range(2):
        write_note(made.store / "default", NOTED, workspace="/ferry")
    write_note(
        made.store / "default",
        "The ferry needs two deckhands, I decided.",
        workspace="/ferry",
        of_person=True,
    )
    run_night([session(tmp_path, "ferry-1", 2, SAID)], made)
    return made


def typed(settings: Settings, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--store", str(settings.store)])


def brief(settings: Settings, workspace: str | None = None) -> Context:
    return Memory.open(settings.store, encoder=HashEncoder()).briefing(
        2_000, workspace=workspace
    )


def tell_confidence(settings: Settings) -> float:
    memory = Memory.open(settings.store, encoder=HashEncoder())
    return next(
        one.confidence
        for one in memory.claims(limit=None)
        if one.summary.startswith("We decided")
    )


def test_what_agents_noted_stands_in_no_briefing_before_a_person_confirms_it(
    settings: Settings,
) -> None:
    assert "Porto" in brief(settings).text
    for workspace in (None, "/ferry"):
        assert "attacker" not in brief(settings, workspace).text
    before = tell_confidence(settings)
    for one in read_notes(settings.store / "default")[:2]:
        assert typed(settings, "include", one.id).exit_code == 0
    assert NOTED[:-1] in brief(settings, "/ferry").text
    assert tell_confidence(settings) > before


def test_a_note_in_python_before_the_first_night_is_known_after_it(
    tmp_path: Path,
) -> None:
    made = Settings(store=tmp_path / "new", encoder="hash-384")
    with pytest.raises(StoreMissing) as missing:
        Memory.open(made.store)
    assert "Memory.open(unreleased=True)" in missing.value.__notes__[0]
    memory = Memory.open(made.store, encoder=HashEncoder(), unreleased=True)
    assert not made.store.exists()
    session_id = memory.remember("The ferry's radio call sign is Kittiwake Nine.")
    before = memory.recall("call sign of the ferry")
    assert [(hit.sources[0].session, hit.status) for hit in before] == [
        (session_id, "not yet distilled")
    ]
    assert not any("answered from" in note for note in before.warnings)
    with pytest.raises(StoreMissing):
        # What is named has to be there.
        Memory.open(made.store, release="r1", unreleased=True)
    run_night([], made)
    assert memory.recall("call sign of the ferry")[0].sources[0].session == session_id


def test_what_is_rejected_is_told_nowhere_whether_a_night_had_read_it_or_not(
    settings: Settings,
) -> None:
    write_note(
        settings.store / "default",
        "The attacker keeps the harbour keys now, it was decided.",
    )
    for one in read_notes(settings.store / "default"):
        if "attacker" in one.text:
            assert (
                typed(
                    settings, "exclude", one.id, "--why", "a page told it to"
                ).exit_code
                == 0
            )
    run_night([], settings)
    memory = Memory.open(settings.store, encoder=HashEncoder())
    assert not any("attacker" in one.summary for one in memory.claims(limit=None))
    assert not any(
        "attacker" in hit.text
        for hit in memory.recall(
            "who deploys the ferry service, from where", 20, everything=True
        )
    )
    verdicts = [one.verdict for one in read_notes(settings.store / "default")]
    assert sorted(verdicts) == ["confirmed", "rejected", "rejected", "rejected"]
    last = read_notes(settings.store / "default")[-1]
    assert (
        "left out already"
        in typed(settings, "exclude", last.id, "--why", "again").stderr
    )


def test_the_list_says_who_noted_what_and_hides_nothing_from_the_terminal(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_note(settings.store / "default", "calm\x1b[8m and hidden")
    monkeypatch.setenv("COLUMNS", "200")
    told = typed(settings, "inspect", "notes")
    assert len(re.findall(r"agent +│ unconfirmed", told.stdout)) == 3
    assert len(re.findall(r"person +│ confirmed", told.stdout)) == 1
    assert "calm\\u001b[8m and hidden" in told.stdout
    listed = orjson.loads(typed(settings, "inspect", "notes", "--json").stdout)
    assert [one["verdict"] for one in listed].count("unconfirmed") == 3
    assert "rejected" not in {one["verdict"] for one in listed}


def test_a_line_without_its_ids_hides_no_other_line(tmp_path: Path) -> None:
    write_note(tmp_path / "default", "The ferry needs two deckhands.", of_person=True)
    (path,) = (tmp_path / "default" / NOTES).glob("*.jsonl")
    with path.open("ab") as lines:
        lines.write(b'{"role": "user", "content": "typed into the file"}\n')
    texts = [line["content"] for line in read_written(tmp_path / "default", ())]
    assert texts == ["The ferry needs two deckhands."]
