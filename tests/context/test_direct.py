"""The block of a plain question: recall's best messages whole, the likeliest to answer first, with their changes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.context.build import Context, assemble_context
from slowwave.context.direct import rank_messages
from slowwave.context.packing import LaterNote, make_line, shorten, show_pieces
from slowwave.context.recall_log import note_block, note_hits
from slowwave.context.rendering import Line, LineSource, Measure, Part
from slowwave.context.tokens import load_tokenizer
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.recall.order import order_by_change
from slowwave.recall.query import build_query
from slowwave.recall.release.view import mark_changes
from slowwave.recall.retrieve.candidates import PASSAGE_COLUMNS, Candidate
from slowwave.schemas.settings import ContextSettings, Settings
from slowwave.schemas.tables import CLAIMS, PASSAGES
from slowwave.store.logs import load_recalled_spans
from slowwave.store.publishing import publish
from slowwave.store.upkeep import compact_store
from slowwave.tasks.boilerplate.echo import mask_echoes
from tests.recall_store import add, build, claim_row
from tests.talk_files import session

ASKED = "When does the standup of the harbour team begin?"
MOVED = "The API listens on port 8200 from now on."
PORT = "On which port does the API listen?"
COFFEE = "Who grinds the coffee beans for the regatta?"
TALK = {
    2: [
        ("user", "The standup of the harbour team begins at 9:15 in the room Oslo."),
        (
            "assistant",
            "The standup of the harbour team begins at 9:15, noted for the whole spring.",
        ),
        ("user", "The API listens on port 7070."),
    ],
    5: [("user", COFFEE), ("assistant", "Ingrid, on Saturdays.")],
    9: [
        ("user", "The standup of the harbour team begins at 10:40 in the room Oslo."),
        ("user", MOVED),
    ],
}
COUNT = load_tokenizer("minilm")


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("direct")
    paths = [session(folder, f"day-{day}", day, said) for day, said in TALK.items()]
    run_night(paths, Settings(store=folder / "store", encoder="hash-384"))
    return Memory.open(folder / "store", encoder=HashEncoder())


def lines(memory: Memory, query: str, budget: int = 400) -> list[str]:
    parts = {part.name: part.lines for part in memory.context(query, budget).parts}
    return [line.text for line in parts["memories"]]


def told(text: str, n: int = 0) -> Line:
    return make_line(text, LineSource("s", f"m{n}", n), 1 / (1 + n))


def test_of_two_messages_that_differ_in_a_value_the_later_opens_the_block(
    memory: Memory,
) -> None:
    said = lines(memory, ASKED)
    assert said[0] == memory.recall(ASKED, kinds="message")[0].text == TALK[9][0][1]
    assert any(line.startswith(TALK[2][0][1]) for line in said[1:])


def test_a_message_may_have_its_share_of_the_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = [
        told(
            " ".join(
                f"The {word} of pier {n} is new."
                for word in ("gauge", "crane", "lamp", "rope")
            ),
            n,
        )
        for n in (1, 2, 3)
    ]

    def count_whole(share: float) -> int:
        monkeypatch.setattr("slowwave.context.packing.MESSAGE_SHARE", share)
        return assemble_context(
            "Which?", said, 110, COUNT, ContextSettings()
        ).text.count("rope")

    assert count_whole(0.1) < count_whole(0.6)


def test_what_was_said_next_may_answer_what_a_hit_asks(memory: Memory) -> None:
    (asks,) = (
        hit
        for hit in memory.recall(COFFEE, 10, "message", everything=True)
        if [source.quote for source in hit.sources][1:] == [COFFEE]
    )
    found = rank_messages(memory.get_view(), build_query(COFFEE, 10, "message"), [asks])
    assert [one.text for one in found] == [COFFEE, "Ingrid, on Saturdays."]
    until = "2026-03-05T10:00:30Z"  # the answer came later
    hits = memory.recall(COFFEE, 10, "message", everything=True, until=until)
    before = build_query(COFFEE, 10, "message", until=until)
    asked = [hit for hit in hits if hit.text == COFFEE]
    alone = rank_messages(memory.get_view(), before, asked)
    assert [one.text for one in alone] == [COFFEE]


def test_what_a_later_claim_has_changed_is_left_out_where_that_was_found_too(
    memory: Memory,
) -> None:
    block = memory.context(PORT, 400).text
    assert MOVED in block
    assert "The API listens on port 7070" not in block


def test_where_it_was_not_found_the_stale_message_tells_what_holds(
    memory: Memory,
) -> None:
    stale = [
        hit
        for hit in memory.recall(PORT, 10, "message", everything=True)
        if "7070" in hit.text
    ]
    query = build_query(PORT, 10, "message")
    first, *later = rank_messages(memory.get_view(), query, stale)
    assert first.text.endswith(f"(until 9 Mar 2026, then: {MOVED[:-1]})")
    assert {line.text for line in later} == {MOVED}


AGAIN = "We moved the API from port 8200 to port 9300."


def test_the_value_that_holds_is_marked_until_it_is_replaced_in_its_turn(
    tmp_path: Path,
) -> None:
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    first = [session(tmp_path, f"day-{day}", day, said) for day, said in TALK.items()]
    run_night(first, settings)
    marked = f"{MOVED} (current)"

    def list_lines() -> list[str]:
        memory = Memory.open(settings.store, encoder=HashEncoder())
        return lines(memory, PORT)

    assert [line for line in list_lines() if "current" in line] == [marked]
    run_night(
        [
            session(
                tmp_path,
                "day-16",
                16,
                [
                    ("user", AGAIN),
                    ("user", "The gauge of pier four is read by Ada at noon."),
                ],
            )
        ],
        settings,
    )
    later = list_lines()
    assert AGAIN in later
    assert f"{MOVED} (perhaps until 16 Mar 2026)" in later
    assert not [line for line in later if "current" in line]


def test_what_holds_is_a_message_found_with_the_stale_one_and_before_it(
    memory: Memory,
) -> None:
    view = memory.get_view()
    rows = view.read(PASSAGES, PASSAGE_COLUMNS).to_pylist()
    (stale,) = (row for row in rows if "on port 7070" in row["text"])
    found = Candidate("message", stale["message_id"], stale, 1.0, 0.9)
    ordered = order_by_change(view, [found], build_query(PORT, 10, "message"))
    assert [row.text for row in ordered] == [MOVED, stale["text"]]


def test_the_speaker_whom_a_question_names_goes_first(tmp_path: Path) -> None:
    said = [
        ("Ann", "The guitar in the hall is new."),
        ("Bo", "The guitar lessons begin in May."),
    ]
    talks = [
        session(tmp_path, who, 1, [("user", text)], speakers=[who])
        for who, text in said
    ]
    run_night(talks, Settings(store=tmp_path / "store", encoder="hash-384"))
    memory = Memory.open(tmp_path / "store", encoder=HashEncoder())
    for name, text in said:
        assert (
            lines(
                memory,
                f"What did {name} tell of the guitar in the hall and of the guitar lessons in May?",
            )[0]
            == text
        )


def test_a_models_claim_comes_first_and_is_nobodys_words(tmp_path: Path) -> None:
    store = build(tmp_path / "store")
    claim = "Sessions are cached in Postgres, unlogged, no longer in Redis."
    rows = [
        claim_row(
            "o-llm",
            claim,
            "the session cache moves into Postgres",
            "ses-a-m1",
            observer="some-model",
        )
    ]
    add(store, CLAIMS, rows)
    compact_store(store)
    publish(store, "with a model", "hash-384")
    asked = "Are sessions cached in Redis or in Postgres?"
    (part,) = (
        Memory.open(tmp_path / "store", encoder=HashEncoder()).context(asked, 300).parts
    )
    assert [line.text for line in part.lines].count(claim) == 1
    (line,) = (line for line in part.lines if line.text == claim)
    assert (line.source.message, line.source.speaker, line.source.by) == (
        "ses-a:1",
        None,
        None,
    )
    assert part.lines[0] == line  # before what was said earlier in its session
    assert part.lines[0].source.group == part.lines[1].source.group
    # Its message says it.
    assert "The session cache moves into Postgres." not in [
        line.text for line in part.lines
    ]


def test_a_follow_up_is_asked_together_with_what_was_said_before(
    memory: Memory,
) -> None:
    talk = [
        ("user", "Tell me of the standup of the harbour team in Oslo."),
        ("assistant", "It is a short meeting."),
    ]
    alone, told = (
        memory.context("And when?", 400, conversation=turns, automatic=True)
        for turns in ((), talk)
    )
    assert "memories" not in {part.name for part in alone.parts}
    assert any(
        "10:40" in line.text
        for part in told.parts
        if part.name == "memories"
        for line in part.lines
    )


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ({"rudder", "paid"}, "… The rudder costs 900 euros, paid in cash. …"),
        ({"engine"}, "The mast is oiled. …"),
        ({"blue"}, "… Paint is blue. We sail on Sunday."),
    ],
)
def test_a_long_message_is_shown_by_whole_sentences_around_what_is_asked_for(
    asked: set[str], part: str
) -> None:
    line = told(
        "The mast is oiled. The rudder costs 900 euros, paid in cash. Paint is blue. We sail on Sunday."
    )
    most = Measure(COUNT).count_line(show_pieces(line, [part]))
    short = shorten(line, asked, most, Measure(COUNT))
    assert short is not None
    assert short.text == part
    assert shorten(line, asked, 100, Measure(COUNT)) == line
    assert shorten(line, asked, 5, Measure(COUNT)) is None


def test_no_message_takes_the_whole_block() -> None:
    log = " ".join(f"step{n} is done and" for n in range(40))  # one sentence
    block = assemble_context(
        "which step is done?",
        [told(log), told("Step 7 failed.", 1)],
        200,
        COUNT,
        ContextSettings(),
    )
    part, whole = (line.text for line in block.parts[0].lines)
    assert (
        part == f"{log[:500].rpartition(' ')[0]} …"
    )  # a sentence has 500 letters at most
    assert whole == "Step 7 failed."


def test_what_a_line_tells_of_a_change_is_no_news_when_a_model_repeats_it(
    tmp_path: Path,
) -> None:
    said, then = (
        "we use SQLite for the gauges",
        "From now on the gauges go into PostgreSQL",
    )
    line = make_line(
        said,
        LineSource("s", "m"),
        notes=[LaterNote(f"(perhaps until 2026-09-28, then: {then})")],
    )
    assert note_block(tmp_path, Context(line.text, 30, (Part("memories", (line,)),)))
    recalled = load_recalled_spans(tmp_path)
    for text in (said, then):
        assert (
            mask_echoes(f"{text}.", datetime.now(UTC) + timedelta(days=1), recalled)[1]
            == 1
        )


def test_what_a_hit_tells_of_its_successor_is_noted_too(
    memory: Memory, tmp_path: Path
) -> None:
    stale = memory.recall(PORT, 10, "message", everything=True)
    stale[:] = [hit for hit in stale if hit.successor]
    assert note_hits(tmp_path, stale)
    later = f"{MOVED[:-1]}."
    assert (
        mask_echoes(
            later, datetime.now(UTC) + timedelta(days=1), load_recalled_spans(tmp_path)
        )[1]
        == 1
    )


def test_the_answer_to_a_choice_is_told_though_it_says_nothing_that_was_not_asked(
    tmp_path: Path,
) -> None:
    said = [
        ("user", "Should the retries be in the client or in the gateway?"),
        ("assistant", "Retries in the gateway."),
        ("user", "The invoices are printed on green paper."),
    ]
    run_night(
        [session(tmp_path, "choice", 3, said)],
        Settings(store=tmp_path / "store", encoder="hash-384"),
    )
    memory = Memory.open(tmp_path / "store", encoder=HashEncoder())
    assert "Retries in the gateway." in lines(
        memory, "Should the retries be in the client or in the gateway?"
    )


def test_unasked_what_an_agent_says_before_it_acts_comes_last_and_never_alone(
    tmp_path: Path,
) -> None:
    call = {
        "type": "tool_use",
        "id": "c1",
        "name": "Read",
        "input": {"path": "sync.log"},
    }
    narrated = [
        {
            "type": "text",
            "text": "Let me see why the harbour feed stops every Sunday evening.",
        },
        call,
    ]
    answered = "The harbour feed stops every Sunday evening since the ferry office restarts its router."
    alone = [
        {
            "type": "text",
            "text": "Let me look at the wiring of the lighthouse winch again.",
        },
        call,
    ]
    talks = {
        "a": ("assistant", narrated, "/harbour"),
        "b": ("user", answered, "/harbour"),
    }
    talks["c"] = ("assistant", alone, "/winch")
    paths = [
        session(tmp_path, key, 3, [(role, said)], place)
        for key, (role, said, place) in talks.items()
    ]  # type: ignore[list-item]
    run_night(paths, Settings(store=tmp_path / "store", encoder="hash-384"))
    own = Memory.open(tmp_path / "store", encoder=HashEncoder())

    def tell(query: str, place: str, *, automatic: bool) -> list[str]:
        parts = own.context(query, 200, automatic=automatic, workspace=place).parts
        return [
            line.text
            for part in parts
            if part.name == "memories"
            for line in part.lines
        ]

    query = str(narrated[0]["text"])
    assert tell(query, "/harbour", automatic=False)[0] == query
    assert tell(query, "/harbour", automatic=True)[0] == answered
    query = str(alone[0]["text"])
    assert tell(query, "/winch", automatic=False) == [query]
    assert tell(query, "/winch", automatic=True) == []


def test_a_summary_marks_the_sentence_that_a_later_claim_changed(
    memory: Memory,
) -> None:
    chains = memory.get_view().chains
    scope = next(
        str(row["session_id"])
        for row in chains.claims.values()
        if "7070" in str(row["summary"])
    )
    told = mark_changes(
        chains, "The API listens on port 7070. The tea is green.", scope
    )
    assert (
        told
        == f"The API listens on port 7070 (until 9 Mar 2026, then: {MOVED[:-1]}). The tea is green."
    )


def test_a_briefing_marks_what_perhaps_changed_since(tmp_path: Path) -> None:
    old, new = (
        "we keep the gauge readings in SQLite",
        "We moved the gauge readings from SQLite to PostgreSQL",
    )
    said = {2: f"Decision: {old}.", 9: f"{new}."}
    paths = [
        session(tmp_path, f"day-{day}", day, [("user", text), ("user", "Noted.")])
        for day, text in said.items()
    ]
    run_night(paths, Settings(store=tmp_path / "store"))
    told = Memory.open(tmp_path / "store").briefing(2_000).text
    assert f"{old} (perhaps until 9 Mar 2026, then: {new})." in told
    assert told.index(f"- {new}.") < told.index(old)  # the newest first


THANKS = "Wonderful, thanks!"
RULE = "I prefer tickets in plain English, without any jargon."


def test_a_block_has_rules_first_the_person_before_the_echo_and_no_thanks(
    tmp_path: Path,
) -> None:
    said = [
        ("user", "The ferry tickets are printed on the Brother printer at pier four."),
        (
            "assistant",
            "The ferry tickets are printed on the Brother printer at pier four. The paper is ordered each March.",
        ),
        ("user", THANKS),
        ("user", RULE),
    ]
    path = session(tmp_path, "tickets", 2, said)
    run_night([path], Settings(store=tmp_path / "store", encoder="hash-384"))
    memory = Memory.open(tmp_path / "store", encoder=HashEncoder())
    asked = "In which English are the ferry tickets printed?"
    (part,) = memory.context(asked, 400, everything=True).parts
    assert [(line.source.by, line.text) for line in part.lines] == [
        ("person", RULE),
        ("person", said[0][1]),
    ]
    assert part.lines[0].rule == "preference"


LIMIT = "(until 2 Oct 2026, then: 8 MB)"


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (
            ["The cap is 5 MB.", "Scans are in colour."],
            f"The cap is 5 MB. {LIMIT} Scans are in colour.",
        ),
        (["…", "Scans are in colour."], "… Scans are in colour."),
        (["The cap is 5 MB.", "…"], f"The cap is 5 MB. {LIMIT} …"),
    ],
)
def test_a_mark_stands_behind_its_sentence_and_goes_with_it(
    pieces: list[str], shown: str
) -> None:
    text = "The cap is 5 MB. Scans are in colour."
    words = "The cap is 5 MB"
    line = make_line(text, LineSource("s", "m"), notes=[LaterNote(LIMIT, words)])
    assert show_pieces(line, pieces).text == shown


def test_a_mark_of_words_outside_the_part_that_is_shown_is_left_out() -> None:
    whole = "The cap is 5 MB. Scans are in colour."
    source, part = LineSource("s", "m"), "Scans are in colour."
    line = make_line(part, source, notes=[LaterNote(LIMIT, "5 MB")], within=whole)
    assert line.text == f"… {part}"
    # words that stand nowhere are a model's own: the mark is about the whole line
    line = make_line(part, source, notes=[LaterNote(LIMIT, "Grey scans")], within=whole)
    assert line.text == f"… {part} {LIMIT}"


def test_a_report_is_no_question_for_an_overview(tmp_path: Path) -> None:
    """In a block of a report the session's messages are told whole, an agent's too."""
    report = (
        "Summary of what happened this week, from first to last: planner, import, orders, label, wave, warehouse, "
        "carrier, timeout, retry, postcode, country, checker, screen, export, invoice and payment were all slow."
    )
    done = "The timeout of the address checker is 800 milliseconds, and a breaker opens after 20 failures."
    said = [
        ("user", "The import of orders waits for the address checker."),
        ("assistant", done),
    ]
    path = session(tmp_path, "import", 3, said)
    run_night([path], Settings(store=tmp_path / "store"))
    memory = Memory.open(tmp_path / "store")
    assert memory.recall("Summarise the week, from first to last.").overview
    assert not memory.recall(report).overview
    assert done in memory.context(report, 400).text
