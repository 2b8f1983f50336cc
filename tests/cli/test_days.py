"""The day on which something was said, and the dates beside "yesterday": of who said it, on every surface."""

import json
from pathlib import Path

import pytest

from slowwave.context.build import Context
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.mcp.server import Tools
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MESSAGES, SESSIONS
from slowwave.store.store import Store
from slowwave.ui.page import date_text
from slowwave.ui.rendering import show_day
from tests.command_line import typed

HARBOUR = "/home/ann/harbour"
SAID = "We decided yesterday that the tide tables live in PostgreSQL 17."
SHOWN = "We decided yesterday (7 Apr 2026) that the tide tables live in PostgreSQL 17"
AT, UTC_AT = "2026-04-08T23:30:00-04:00", "2026-04-09T03:30:00+00:00"
"""Late on the 8th in New York, where yesterday was the 7th."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("days")
    turns = (("user", SAID), ("assistant", "Done, they are in PostgreSQL 17."))
    lines = [
        {"session_id": "s", "role": role, "content": text, "ts": AT}
        | {"workspace": HARBOUR}
        for role, text in turns
    ]
    file = folder / "talk.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    chosen = Settings(store=folder / "store", encoder="hash-384", keywords={"top": 0})
    run_night([file], chosen)
    return chosen


@pytest.fixture
def memory(settings: Settings) -> Memory:
    return Memory.open(settings.store, encoder=HashEncoder())


def test_messages_claims_and_sessions_keep_the_offset_and_utc(
    settings: Settings,
) -> None:
    store = Store.open(settings.store)
    rows = store.read(MESSAGES, ["ts", "utc_offset"]).to_pylist()
    assert {(row["ts"].isoformat(), row["utc_offset"]) for row in rows} == {
        (UTC_AT, -240)
    }
    for table in (CLAIMS, SESSIONS):
        assert set(store.read(table, ["utc_offset"])["utc_offset"].to_pylist()) == {
            -240
        }


def test_json_is_in_utc_and_verbatim(memory: Memory) -> None:
    (hit, *_) = memory.recall("tide tables").as_dict()["hits"]
    assert (hit["text"], hit["observed_at"], hit["utc_offset"]) == (SAID, UTC_AT, -240)
    (claim,) = (claim.as_dict() for claim in memory.claims())
    assert claim["quote"] == SAID.rstrip(".")
    assert claim["observed_at"] == UTC_AT


@pytest.mark.parametrize(
    "words",
    [
        ("recall", "tide tables"),
        ("context", "Where do the tide tables live?"),
        ("briefing", "--project", HARBOUR),
        ("skill", "--project", HARBOUR),
        ("show", "claims"),
        ("recent",),
    ],
    ids=lambda words: words[0],
)
def test_what_is_printed_has_the_date_once(
    settings: Settings, words: tuple[str, ...]
) -> None:
    printed = typed(*words, "--store", settings.store).output
    assert printed.count(SHOWN) == printed.count("7 Apr 2026") == 1
    assert "9 Apr" not in printed
    assert "04-09" not in printed


def test_files_and_pages_have_it(settings: Settings, tmp_path: Path) -> None:
    options = ("--project", HARBOUR, "--store", settings.store)
    typed("project", "--out", tmp_path / "AGENTS.md", *options)
    typed("project", "--pages", tmp_path / "pages", *options)
    pages = [*tmp_path.rglob("*.md")]
    assert len(pages) == 3  # the file, one of the topic, one of the project
    for page in pages:
        assert f"- {SHOWN} (2026-04-08, " in page.read_text()


def test_a_row_is_shown_with_it_and_its_quote_without(
    settings: Settings, memory: Memory
) -> None:
    key = memory.claims()[0].id
    printed = typed("show", key, "--store", settings.store).output.splitlines()
    assert printed[0].endswith(SHOWN)
    assert f"  quote: {SAID.rstrip('.')}" in printed
    assert "  observed_at: 8 Apr 2026, 23:30" in printed


def test_an_agent_gets_it(settings: Settings, memory: Memory) -> None:
    tools = Tools(settings, lambda _: memory)
    (hit,) = tools.recall("tide tables").structured_content["hits"]  # type: ignore[index]
    assert hit["text"] == f"{SHOWN}."
    assert hit["day"] == "2026-04-08"
    (claim,) = tools.claims().claims
    assert (claim["summary"], claim["quote"]) == (SHOWN, SAID.rstrip("."))
    assert tools.show(claim["id"])["text"] == SHOWN


def test_lines_of_a_day_stand_under_one_heading(memory: Memory) -> None:
    """The day of the heading is the local one, and so is the time of day."""
    block: Context = memory.context("Where do the tide tables live?")
    line = block.parts[0].lines[0]
    assert str(line.source.group[2]) == "2026-04-08"
    assert line.source.as_dict()["at"] == UTC_AT
    assert line.text == SAID


def test_pages_show_the_local_day() -> None:
    row = {"observed_at": UTC_AT, "utc_offset": -240, "kind": "claim"}
    assert show_day(row) == "8 Apr 2026"
    assert date_text(SAID, row) == f"{SHOWN}."
    # a summary's words may be of several days
    assert date_text(SAID, row | {"kind": "summary"}) == SAID
