"""What later claims changed is marked behind each sentence, in hits and blocks, and behind a model's echo of it."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.cli.ask import format_hit
from slowwave.context.packing import LaterNote, make_line, tell_replies_once
from slowwave.context.rendering import LineSource
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.recall.hits import Change, Successor, mark_sentences
from slowwave.recall.release.view import format_later
from slowwave.schemas.settings import Settings
from slowwave.text.rarity import ChangedClaim, adds_little
from slowwave.text.words import singular_words
from tests.command_line import typed
from tests.talk_files import session

PORT = "The API listens on port 7070."
STANDUP = "The standup of the harbour team begins at 9:15 in the room Oslo."
TALK = {
    2: [
        ("user", f"{PORT} Deploys go out on Fridays. {STANDUP}"),
        ("assistant", "The API: port 7070. Shall I add a diagram?"),
    ],
    5: [("user", "Ingrid grinds the coffee beans."), ("assistant", "Good.")],
    9: [
        ("user", "The API listens on port 8200 from now on."),
        ("assistant", "Changed."),
        ("user", "The standup of the harbour team begins at 10:40 in the room Oslo."),
        ("assistant", "Moved."),
    ],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("changed")
    paths = [session(folder, f"day-{day}", day, said) for day, said in TALK.items()]
    run_night(paths, Settings(store=folder / "store", encoder="hash-384"))
    return folder / "store"


@pytest.mark.parametrize(
    "query", ["On which port does the API listen?", "When do deploys go out?"]
)
def test_each_changed_sentence_is_marked_whatever_is_asked(
    store: Path, query: str
) -> None:
    memory = Memory.open(store, encoder=HashEncoder())
    (hit,) = (
        hit
        for hit in memory.recall(query, 10, "message", everything=True)
        if hit.text.startswith(PORT)
    )
    assert [change.text for change in hit.changes] == [PORT[:-1], STANDUP[:-1]]
    assert [change["note"] for change in hit.as_dict()["changes"]] == [
        change.note for change in hit.changes
    ]
    (line,) = (
        line.text
        for part in memory.context(query, 400).parts
        for line in part.lines
        if line.text.startswith(PORT)
    )
    port, _, standup = line.partition(" Deploys go out on Fridays. ")
    assert port.startswith(f"{PORT} (until 9 Mar 2026")
    assert standup.startswith(f"{STANDUP} (perhaps until 9 Mar 2026")


def test_an_agents_echo_of_it_is_marked_and_what_it_says_besides_is_not(
    store: Path,
) -> None:
    query = "Which port has the API?"
    block = Memory.open(store, encoder=HashEncoder()).context(query, 400).text
    assert "The API: port 7070. (until 9 Mar 2026" in block
    assert "Shall I add a diagram? (" not in block


def test_the_command_line_marks_each_sentence_and_json_lists_them(store: Path) -> None:
    query = "When do deploys go out?"
    where = ("--store", store, "--kind", "message")
    shown = " ".join(typed("recall", query, *where).stdout.split())
    assert f"{PORT} (until 9 Mar 2026, then: The API listens on port 8200" in shown
    assert f"{STANDUP} (perhaps until 9 Mar 2026, then: The standup" in shown
    hits = json.loads(typed("recall", query, *where, "--json").stdout)["hits"]
    (changes,) = (hit["changes"] for hit in hits if hit["text"].startswith(PORT))
    assert [one["status"] for one in changes] == ["superseded", "perhaps superseded"]
    assert changes[0]["successor"]["text"] == "The API listens on port 8200 from now on"


def test_notes_stand_behind_each_equal_sentence_and_behind_none_with_more_in_it() -> (
    None
):
    later = Successor("The port is 81", None)
    admin = Change("The admin is Bo", "superseded", "b", 1.0, later, "(B)")
    port = Change("The port is 80", "superseded", "a", 1.0, later, "(A)")
    text = "The port is 8080 here. The port is 80. The admin is Bo. **The port is 80**"
    assert mark_sentences(text, [admin, port]) == (
        "The port is 8080 here. The port is 80. (A) The admin is Bo. (B) **The port is 80 (A)**"
    )


@pytest.mark.parametrize(
    ("said", "echoes"),
    [
        ("The queue: RabbitMQ", True),
        ("NATS replaces RabbitMQ; the cache port is 6390", False),
        ("The queue", False),
    ],
)
def test_a_sentence_with_more_than_the_claim_is_no_echo(
    said: str, *, echoes: bool
) -> None:
    changed = ChangedClaim.from_texts("The queue is RabbitMQ", "The queue is NATS")
    assert changed.is_repeated(singular_words(said)) is echoes
    restored = ChangedClaim.from_texts(
        "The queue is RabbitMQ", "We went back: the queue is RabbitMQ again"
    )
    assert not restored.is_repeated(singular_words(said))


def test_a_message_without_words_echoes_nothing() -> None:
    claim = singular_words("The queue is RabbitMQ")
    assert adds_little("The queue: RabbitMQ.", claim)
    assert not adds_little("", claim)


def test_the_command_line_marks_the_other_line_of_a_turn(store: Path) -> None:
    query = "Shall I add a diagram of the API and its port 7070?"
    where = ("--store", store, "--kind", "message")
    shown = " ".join(typed("recall", query, *where).stdout.split())
    assert f"{PORT} (until 9 Mar 2026, then: The API listens on port 8200" in shown
    assert "The API: port 7070. (until 9 Mar 2026, then: The API listens" in shown
    hits = json.loads(typed("recall", query, *where, "--json").stdout)["hits"]
    changed = [one for hit in hits for one in hit["pair"] if one.get("changes")]
    assert all(one["changes"][0]["successor"]["observed_at"] for one in changed)
    assert changed


def test_of_a_less_likely_change_only_what_was_said_since_is_told() -> None:
    later = Successor("Once a minute is plenty", datetime(2026, 3, 9, tzinfo=UTC))
    note = format_later(later, 0.3, "")
    assert note == "(said since, on 9 Mar 2026: Once a minute is plenty)"
    assert format_later(later, 0.3, later.text) == ""
    source = LineSource("s", "m", 1, by="person")
    line = make_line("Poll every five minutes.", source, notes=[LaterNote(note)])
    assert line.text == f"Poll every five minutes. {note}"
    other = make_line(f"{later.text}.", LineSource("t", "n", 1, by="person"))
    first, _ = tell_replies_once([line, other])
    assert first.text == "Poll every five minutes."


BOAT = [
    (
        "user",
        "I bought a boat and want to refit her. I take my coffee with milk, two sugars.",
    ),
    ("assistant", "Noted. Shall we plan the hull?"),
    ("user", "I live at Ogarna street 12 in Gdansk. My yard is open on Saturdays."),
    ("assistant", "Fine."),
]
GAME = [
    (
        "user",
        "I design a board game about bees. I take my coffee black now, no sugar.",
    ),
    ("assistant", "Good. Shall we count the bees?"),
    (
        "user",
        "I no longer live at Ogarna street 12 in Gdansk. I moved from Gdansk to Poznan last week.",
    ),
    ("assistant", "Right."),
]
"""What one says of oneself in two projects."""


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects")
    boat = session(folder, "boat", 2, BOAT, "sailrefit")
    game = session(folder, "game", 9, GAME, "tabletop")
    run_night([boat, game], Settings(store=folder / "store"))
    return folder / "store"


@pytest.mark.parametrize("workspace", ["sailrefit", None])
def test_a_project_shows_no_doubt_and_no_words_of_another_project(
    projects: Path, workspace: str | None
) -> None:
    memory = Memory.open(projects)
    coffee = memory.context("How do I take my coffee?", 400, workspace=workspace).text
    home = memory.context("Where do I live?", 400, workspace=workspace).text
    asked = "Where do I live?"
    hits = memory.recall(asked, 10, everything=True, workspace=workspace)
    (hit,) = (one for one in hits if one.text.startswith("I live at Ogarna"))
    briefing = memory.briefing(workspace=workspace).text
    claims = memory.recall(asked, 10, ("claim",), everything=True, workspace=workspace)
    old = next(one for one in claims if one.text.startswith("I live at Ogarna"))
    assert old.status == "superseded"
    if workspace:
        assert "two sugars." in coffee
        assert "(perhaps" not in coffee + home + briefing
        assert "in Gdansk. (until 9 Mar 2026)" in home
        assert "superseded by what came later, 9 Mar 2026" in format_hit(1, old)
        assert "Poznan" not in home + briefing + str(hit.as_dict()) + str(old.as_dict())
    else:
        assert "(perhaps until 9 Mar 2026, then: I take my coffee black" in coffee
        assert "in Gdansk. (until 9 Mar 2026" in home
