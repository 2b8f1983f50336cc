"""Gists that something reads: the latest turns, a message that is shown, one text; and a window of them filled in."""

import shutil
from pathlib import Path

import pytest

from slowwave import Memory, summarize_text
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.flows.reprocess import Selection, run_reprocess
from slowwave.recall.views.show import show
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import GISTS, SESSIONS
from slowwave.store.store import Store
from tests.command_line import typed
from tests.talk_files import session

TEXT = "Good morning. The ferry to Hoy leaves from pier seven because pier two is closed. Bye."


def test_the_latest_turns_come_with_gists_and_keywords_and_are_found_by_them(
    samples_night: tuple[Path, RunReport],
) -> None:
    memory = Memory.open(samples_night[0], encoder=HashEncoder())
    turns = memory.recent(40)
    assert [turn.said_at for turn in turns] == sorted((turn.said_at for turn in turns), reverse=True)
    assert all(turn.gist and len(turn.gist) <= 302 for turn in turns)
    word = next(turn.keywords[0] for turn in turns if turn.keywords)
    assert {word.casefold()} <= {key.casefold() for key in memory.recent(1, keyword=word.upper())[0].keywords}
    assert {turn.workspace for turn in memory.recent(5, workspace="/home/ada/tidepool")} == {"/home/ada/tidepool"}
    assert memory.recent(5, keyword="no such keyword") == []
    with pytest.raises(UsageError):
        memory.recent(0)
    shown = show(memory.get_view(), turns[0].id).node.facts
    assert (shown["gist"], shown["keywords"][:1]) == (turns[0].gist, list(turns[0].keywords[:1]))


def test_a_tag_is_found_again_after_the_night(tmp_path: Path) -> None:
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    talk = session(tmp_path, "one", 1, [("user", TEXT), ("assistant", "Noted.")])
    run_night([talk], settings).check_complete()
    memory = Memory.open(settings.store, encoder=HashEncoder())
    memory.remember("The spare key hangs in the boathouse.", tags=["harbour"])
    run_night([talk], settings).check_complete()
    memory = Memory.open(settings.store, encoder=HashEncoder())
    assert [turn.text for turn in memory.recent(9, tag="harbour")] == ["The spare key hangs in the boathouse."]
    told = typed("recent", "1", "--tag", "harbour", "--store", settings.store)
    assert told.output.startswith("The spare key hangs in the boathouse.\n   ")
    assert "#harbour" in told.output


def test_gists_of_a_window_alone_are_filled_in(samples_night: tuple[Path, RunReport], tmp_path: Path) -> None:
    shutil.copytree(samples_night[0], tmp_path / "store")
    settings = Settings(store=tmp_path / "store", encoder="hash-384", gists="extractive")
    store = Store.open(settings.store)
    store.delete_ids(GISTS, store.read(GISTS)["message_id"].to_pylist())
    since = sorted(filter(None, store.read(SESSIONS)["ended_at"].to_pylist()))[-3]
    run_reprocess("gists", Selection(since=since), settings).check_complete()
    late = {
        row["session_id"] for row in store.read(SESSIONS).to_pylist() if row["ended_at"] and row["ended_at"] >= since
    }
    assert set(store.read(GISTS)["session_id"].to_pylist()) == late


def test_a_text_is_summed_up_in_its_own_sentence() -> None:
    summary, keywords = summarize_text(TEXT, HashEncoder())
    assert summary in TEXT
    assert "ferry" in " ".join(keywords)
    assert summarize_text(" ") == ("", [])
