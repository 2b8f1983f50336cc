"""The running conversation is no memory of itself: by its session's id, else by its messages."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.context.build import Context
from slowwave.context.running import fold_turns, is_same_conversation
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.flows.nightly import run_night
from slowwave.plugins.talk.talk import Conversation
from slowwave.recall.query import is_of_session, parse_sessions
from slowwave.schemas.settings import Settings
from slowwave.store.notes import find_talk_logs
from tests.talk_files import session

EARLIER = [
    ("user", "The ferry tickets are sold from the kiosk at pier four."),
    ("assistant", "Noted: tickets are sold from the kiosk at pier four."),
]
RUNNING = [
    ("user", "Good morning."),
    ("assistant", "Good morning, what is the plan?"),
    (
        "user",
        "The ferry tickets shall be printed on the Brother  printer, its key is AKIAIOSFODNN7EXAMPLE.",
    ),
    ("assistant", "The ferry tickets go to the Brother printer, then."),
]
ASKED = "What do we know of the ferry tickets?"


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("running")
    talks = [session(folder, "earlier", 2, EARLIER), session(folder, "now", 9, RUNNING)]
    (folder / "now").mkdir()
    talks.append(
        session(
            folder,
            "now/helper",
            9,
            [("user", "List the ferry tickets of the Brother printer queue.")],
        )
    )
    run_night(talks, Settings(store=folder / "store", encoder="hash-384"))
    return Memory.open(folder / "store", encoder=HashEncoder())


def sessions(block: Context) -> set[str | None]:
    return {
        line.source.session
        for part in block.parts
        if part.name == "memories"
        for line in part.lines
    }


def test_what_a_session_said_is_no_memory_of_that_session(memory: Memory) -> None:
    assert sessions(memory.context(ASKED, 600)) == {"earlier", "now", "now/helper"}
    # Nor what its helper did.
    assert sessions(memory.context(ASKED, 600, own_sessions="now")) == {"earlier"}
    assert sessions(memory.context(ASKED, 600, automatic=True, own_sessions="now")) <= {
        "earlier"
    }
    for kinds in (
        ("message",),
        ("claim",),
        ("summary",),
        ("message", "claim", "summary"),
    ):
        hits = memory.recall(
            ASKED, 20, kinds, everything=True, own_sessions=["now", "unknown"]
        )
        assert {source.session for hit in hits for source in hit.sources} == {
            "earlier"
        }, kinds
    assert "Brother" in memory.briefing(600).text
    assert "Brother" not in memory.briefing(600, own_sessions="now").text


TURNS = [{"role": role, "content": text} for role, text in RUNNING]


@pytest.mark.parametrize(
    "turns",
    [
        TURNS,  # all that the store has of it
        [
            *TURNS,
            {"role": "user", "content": "And the kiosk?"},
            {"role": "assistant", "content": "It closes at six."},
        ],
        TURNS[1:],  # its beginning was dropped
        [text for role, text in RUNNING if role == "user"],  # only what the person said
        [
            {"role": role, "content": f"**{text}**"} for role, text in RUNNING
        ],  # as a client shows it
    ],
)
def test_a_conversation_is_known_by_its_messages(
    memory: Memory, turns: Sequence[str]
) -> None:
    block = memory.context(ASKED, 900, conversation=turns)
    assert sessions(block) == {"earlier"}
    assert block.text.count("printed on the Brother") == 1  # as a turn


def test_another_conversation_that_begins_alike_keeps_its_memories(
    memory: Memory,
) -> None:
    assert "now" in sessions(memory.context(ASKED, 900, conversation=TURNS[:1]))
    alike = [
        TURNS[0],
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "I saw a heron."},
    ]
    assert "now" in sessions(memory.context(ASKED, 900, conversation=alike))


def test_a_session_is_a_conversation_whose_turns_end_with_its_own() -> None:
    a, b, c, d = (
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
        ("assistant", "four"),
    )
    said = fold_turns([a, b, c])
    # Read before the last turn.
    assert is_same_conversation(said, fold_turns([a, b, c, d]))
    # The client dropped the first.
    assert is_same_conversation(said, fold_turns([b, c, d]))
    # One message is too little.
    assert not is_same_conversation(said, fold_turns([c, d]))
    assert not is_same_conversation(said, fold_turns([a, b, d]))  # it went on otherwise
    assert not is_same_conversation([], fold_turns([a]))


def test_a_compacted_conversation_is_known_by_four_turns_in_a_row() -> None:
    said = [
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
        ("assistant", "four"),
        ("user", "five"),
    ]
    summary = ("user", "So far: one to four.")
    assert is_same_conversation(fold_turns(said), fold_turns([summary, *said[1:]]))
    # Three in a row may be chance.
    assert not is_same_conversation(fold_turns(said), fold_turns([summary, *said[2:]]))
    # It went on otherwise.
    assert not is_same_conversation(fold_turns(said), fold_turns([summary, *said[:4]]))


@pytest.mark.parametrize("is_read", [False, True])
def test_talk_repeats_nothing_of_itself(tmp_path: Path, is_read: bool) -> None:
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    run_night([session(tmp_path, "earlier", 2, EARLIER)], settings)
    memory = Memory.open(settings.store, encoder=HashEncoder())
    memory.reading.live.WAIT = 0.0
    talk = Conversation(
        ScriptedLLM(lambda _: "All right."),
        memory,
        settings,
        log=memory.begin_conversation(),
    )
    "".join(talk.say("The ferry tickets shall be printed on the Brother printer."))
    if is_read:  # by a night while it goes on
        run_night(find_talk_logs(settings.store / settings.space), settings)
    "".join(talk.say("Where are the ferry tickets sold, and on what are they printed?"))
    assert talk.recalled is not None
    assert talk.recalled.block is not None
    assert sessions(talk.recalled.block) == {"earlier"}
    assert talk.log is not None
    # Another conversation finds it.
    found = memory.recall("ferry tickets Brother printer", 5, ("message",))
    assert talk.log.session in {
        source.session for hit in found for source in hit.sources
    }
    assert (
        json.loads(talk.log.path.read_text().splitlines()[0])["session_id"]
        == talk.log.session
    )


def test_a_session_is_known_however_a_client_spells_its_id() -> None:
    native = "0B6E2C44-91d3-4f6a-a7f1-3c2e9b1d7a10"
    for spelt in (native, native.upper(), f" {native.lower()}\n"):
        assert is_of_session(native, parse_sessions([spelt]))
        assert is_of_session(f"{native}/agent-7", parse_sessions([spelt]))
    assert not is_of_session(f"{native}0", parse_sessions([native]))
