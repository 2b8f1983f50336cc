"""A block of 2,000 tokens tells a little of many sessions, in the order of time, where no one message answers."""

import re
from datetime import date
from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.context.build import assemble_context
from slowwave.context.packing import (
    LaterNote,
    arrange_by_time,
    lengthen_lines,
    make_line,
    select_outline,
    show_pieces,
    tell_replies_once,
)
from slowwave.context.rendering import Line, LineSource, Measure, Speaker
from slowwave.context.tokens import load_tokenizer
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.engines.llm.protocol import Completion, Request
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.flows.nightly import run_night
from slowwave.plugins.talk.talk import Conversation
from slowwave.recall.release.said import OMITTED
from slowwave.schemas.settings import ContextSettings, RecallSettings, Settings
from slowwave.store.notes import TalkLog, find_talk_logs
from tests.llm_scripts import kind, material
from tests.talk_files import session

WORKS = (
    *(
        "a pond with two steps",
        "a bench under the lime",
        "a fence of hazel",
        "a shed for the tools",
        "a bed of leeks",
    ),
    *(
        "a row of currants",
        "a hedge of beech",
        "a gate of oak",
        "an arch for the vine",
        "a path of slate",
    ),
)
ADVICE = " ".join(
    f"Point {n} of the advice is that good tools and dry days make such work easier."
    for n in range(40)
)


def write_works(folder: Path) -> list[Path]:
    """A session for each work, and a plumber in one of them."""
    paths = []
    for day, work in enumerate(WORKS, 2):
        said = [
            ("user", f"For the garden I am building {work} this week."),
            ("assistant", f"On {work}: {ADVICE}"),
        ]
        said += [
            ("user", "My plumber is called Okonkwo and his number is 5550147.")
        ] * (day == 7)
        paths.append(session(folder, f"day-{day}", day, said))
    return paths


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("outline")
    run_night(write_works(folder), Settings(store=folder / "store", encoder="hash-384"))
    return Memory.open(folder / "store", encoder=HashEncoder())


def find_days(memory: Memory, query: str, budget: int) -> list[date]:
    """Return the days of the block's lines that tell of a work in a person's words, as they stand."""
    (part,) = memory.context(query, budget).parts
    return [
        line.source.at.date()
        for line in part.lines
        if line.source.at and line.source.by == "person"
    ]


IN_ORDER = "In which order did I bring up what I am building for the garden?"


def test_spread_evidence_is_told_session_by_session_in_the_order_of_time(
    memory: Memory,
) -> None:
    days = find_days(memory, IN_ORDER, 2000)
    assert days == sorted(days)
    assert len(set(days)) == len(WORKS)


ASKED_FOR_ALL = "Summarise what I have been building for the garden."
CLOCK = re.compile(r"(\d\d:\d\d )?(person|model): ")


def test_lines_have_their_time_of_day_where_order_matters(memory: Memory) -> None:
    def list_clocks(query: str, budget: int) -> list[str | None]:
        said = map(CLOCK.match, memory.context(query, budget).text.splitlines())
        return [line[1] for line in said if line]

    for query, budget in ((IN_ORDER, 2000), (ASKED_FOR_ALL, 800)):
        told = list_clocks(query, budget)
        assert len(told) >= len(WORKS)
        assert None not in told
    plain = list_clocks("What is the number of my plumber Okonkwo?", 400)
    assert set(plain) == {None}


def test_a_question_for_a_summary_gets_a_line_of_every_session(memory: Memory) -> None:
    hits = memory.recall(ASKED_FOR_ALL, 20, "message")
    assert hits.overview
    assert hits.stopped is None
    # 800 tokens have no room for the whole messages of ten sessions
    days = find_days(memory, ASKED_FOR_ALL, 800)
    assert days == sorted(days)
    assert len(set(days)) == len(WORKS)


def test_a_question_for_one_thing_asks_for_no_summary(memory: Memory) -> None:
    hits = memory.recall("What is the number of my plumber Okonkwo?", 20, "message")
    assert not hits.overview


def tell(text: str, n: int, name: str = "s", by: Speaker = "person") -> Line:
    return make_line(text, LineSource(name, f"{name}{n}", n, by=by), 1 / (1 + n))


MEASURE = Measure(load_tokenizer("minilm"))


def list_outline(lines: list[Line], shown: list[Line], budget: int) -> list[str]:
    chosen = select_outline(lines, shown, "What happened?", budget, MEASURE)
    return [line.text for line in chosen]


def test_an_outline_repeats_no_line_of_the_block() -> None:
    said = "The ferry to Skarven leaves at 07:40 from the second pier."
    shown = [tell(said, 1, "monday")]
    again = [tell(said, 1, "friday"), tell("The harbour master is ill.", 2, "friday")]
    assert list_outline(again, shown, 200) == ["The harbour master is ill."]


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        (
            "(perhaps until 2 Oct 2026, then: The limit is 6.)",
            "(perhaps until 2 Oct 2026)",
        ),
        ("(said since, on 2 Oct 2026: The limit is 6.)", "The limit is 4."),
        ("(until 2 Oct 2026, then: The limit is 6.)", "(until 2 Oct 2026)"),
        ("(until 2 Oct 2026)", "(until 2 Oct 2026)"),
    ],
)
def test_an_outline_dates_a_change_without_the_later_words(
    note: str, shown: str
) -> None:
    source = LineSource("s", "m", 1, by="person")
    line = make_line("The limit is 4.", source, notes=[LaterNote(note)])
    (told,) = list_outline([line], [], 200)
    assert told.endswith(shown)  # no words of the later line: it stands by itself


def test_an_outline_tells_each_subject_of_a_session_before_one_again() -> None:
    said = [
        tell("The crane of pier 4 lifts 12 tons since the repair in May.", 1),
        tell("The crane of pier 4 lifts 12 tons, the repair in May was dear.", 2),
        tell("Our cook is called Haldis.", 3),
    ]
    # room for two of the three lines
    assert list_outline(said, [], 42) == [said[0].text, said[2].text]


def test_an_outline_tells_the_likelier_line_before_one_of_more_words() -> None:
    likely = tell("The piano tuner took 135 euros.", 0)
    other = tell("Jonna lost a tooth, and sixty boxes went to the bakery.", 24)
    # room for one of the two lines
    assert list_outline([likely, other], [], 26) == [likely.text]


def test_an_outline_keeps_the_sentence_with_figures_and_names() -> None:
    idle = (
        "It went as it had gone before and as it will go again, so there we all were and there we all are, as we "
        "always have been and always shall be, or so I should say if anybody asked."
    )
    telling = "Haldis pays 340 euros for berth 17."
    long = tell(f"{idle} {idle} {telling} {idle}", 1)
    others = [tell(idle, n, f"s{n}") for n in range(2, 6)]
    (line,) = [
        text for text in list_outline([long, *others], [], 200) if "Haldis" in text
    ]
    assert line == f"… {telling} …"


BOAT = (
    "We bought a boat.",
    "She is a sloop of nine metres from 1979 and stands in a shed at the yard of Zatoka.",
    "The owner before us let her go for 38,000, since nobody had sailed her for six long years.",
    "The yard wants her out of the shed and in the water on the first day of May at the latest.",
)


def test_room_that_is_left_goes_to_persons_lines_that_were_cut() -> None:
    long = tell(" ".join(BOAT), 0)
    others = [tell(f"Sail {n} is mended.", n, f"s{n}") for n in range(1, 30)]

    def build(budget: int) -> str:
        return assemble_context(
            "Summarise what we did.",
            [long, *others],
            budget,
            MEASURE.count,
            ContextSettings(),
            overview=True,
        ).text

    assert long.text in build(400)
    assert f"{BOAT[0]} {OMITTED}" in build(300)  # all has no room


def test_only_what_is_not_shown_is_added_to_a_line() -> None:
    long = tell(" ".join(BOAT), 1)
    cut = show_pieces(long, [BOAT[0], OMITTED])
    other = tell(BOAT[2], 2)
    answer = make_line(long.text, LineSource("s", "s3", 3, by="model"))
    short = show_pieces(answer, [BOAT[1], OMITTED])
    lines = lengthen_lines(
        whole=[other, short],
        outline=[cut],
        lines=[long, other, answer],
        budget=500,
        measure=MEASURE,
    )
    assert lines[:2] == [other, short]
    assert lines[2].pieces == (*BOAT[:2], OMITTED, BOAT[3])


def test_intentions_of_one_message_are_not_taken_for_each_other() -> None:
    source = LineSource("s", by="person")
    both = [make_line(f"Intended: {what}", source) for what in ("sail", "paint")]
    assert lengthen_lines(both, [], both, 500, MEASURE) == both


def test_the_project_that_a_question_names_is_told_first() -> None:
    lines = [
        make_line(
            f"In {place} we chose {word}.",
            LineSource(f"{place}{n}", f"{n}", n, by="person", project=place),
        )
        for n, word in enumerate(("cedar", "slate", "linen"))
        for place in ("barn", "tide")
    ]
    chosen = select_outline(lines, [], "What was chosen in Tide?", 90, MEASURE)
    # three lines of 12 tokens and their headings fill the room
    assert [line.source.project for line in chosen[:3]] == ["tide"] * 3
    anywhere = select_outline(lines, [], "What was chosen?", 90, MEASURE)
    assert [line.source.project for line in anywhere[:2]] == ["barn", "tide"]


def test_a_reply_is_told_once() -> None:
    asks = make_line(
        "Shall I take it out?",
        LineSource("s", "a", 1, by="model"),
        notes=[LaterNote("(user, then: yes, and tell Ada that the check …)")],
    )
    changed = make_line(
        "The limit is 4.",
        LineSource("s", "c", 0, by="person"),
        notes=[LaterNote("(until 2 Oct 2026, then: The limit is 6.)")],
    )
    reply = make_line(
        "yes, and tell Ada that the check is back", LineSource("s", "b", 2, by="person")
    )
    later = make_line("The limit is 6. Thanks!", LineSource("s", "d", 3, by="person"))
    alone = tell_replies_once([asks, changed])
    assert alone == [asks, changed]
    told = arrange_by_time(tell_replies_once([reply, asks, later, changed]))
    assert [line.text for line in told] == [
        "The limit is 4. (until 2 Oct 2026)",
        "Shall I take it out?",
        "yes, and tell Ada that the check is back",
        "The limit is 6. Thanks!",
    ]


def test_a_note_is_told_once() -> None:
    later = "(perhaps until 2 Oct 2026, then: The limit is 6.)"
    lines = [
        make_line(
            f"The limit is 4, said {n}.",
            LineSource("s", f"{n}", n),
            notes=[LaterNote(later)],
        )
        for n in range(2)
    ]
    told = [line.text for line in tell_replies_once(lines)]
    assert told[0].endswith(later)
    assert told[1].endswith("(perhaps until 2 Oct 2026)")


@pytest.mark.parametrize(
    ("later", "shown"),
    [
        # the proposal in brackets is the line's own sentence
        (
            "(until 2 Oct 2026, then: Yes, do (Shall I make it required?))",
            "(until 2 Oct 2026)",
        ),
        # another proposal: the reply's line alone doesn't say what is accepted
        (
            "(until 2 Oct 2026, then: Yes, do (Shall I drop it?))",
            "then: Yes, do (Shall I drop it?))",
        ),
    ],
)
def test_what_accepts_the_lines_own_proposal_is_told_by_the_reply(
    later: str, shown: str
) -> None:
    asks = make_line(
        "It has no default. Shall I make it required?",
        LineSource("s", "a", 1),
        notes=[LaterNote(later)],
    )
    reply = make_line("Yes, do. And add a note.", LineSource("s", "b", 2, by="person"))
    assert tell_replies_once([asks, reply])[0].text.endswith(shown)


def test_a_heading_names_the_project_unless_it_was_asked_for(tmp_path: Path) -> None:
    paths = [
        session(tmp_path, "fer", 3, [("user", "The port of the API is 4711.")]),
        session(
            tmp_path,
            "moor",
            4,
            [("user", "The port of the API is 4712.")],
            "/w/mooring",
        ),
    ]
    run_night(paths, Settings(store=tmp_path / "store", encoder="hash-384"))
    memory = Memory.open(tmp_path / "store", encoder=HashEncoder())
    asked = "Which port has the API?"
    assert "4 Mar 2026 · mooring · moor" in memory.context(asked, 400).text
    (part,) = memory.context(asked, 400, workspace="/w/mooring").parts
    assert [line.source.project for line in part.lines] == [None]


def sum_up(request: Request) -> object:
    """A model that is only good at one gist, in words of its own."""
    if kind(request) == "gist" and "beehive" in material(request):
        return {"summary": "A home for bees is in the garden.", "keywords": ["bees"]}
    return Completion(request.id, error="cut")


def test_a_fact_stated_once_in_a_talk_is_told_in_the_next_by_its_gist(
    tmp_path: Path,
) -> None:
    model = f"scripted:{__name__}:sum_up"
    settings = Settings(
        store=tmp_path / "store",
        encoder="hash-384",
        gists="llm",
        llm=model,
        recall=RecallSettings(automatic_floor=0),
        context=ContextSettings(budget=1_200),  # too little for the whole story
    )
    folder = settings.store / settings.space
    paths = write_works(tmp_path)
    for n in range(12, 30):  # what persons said fills the room of whole messages
        said = f"For the garden I am building trellis {n} of ash, with pegs, wires, oil and a lid this week."
        paths.append(session(tmp_path, f"day-{n}", n, [("user", said)]))
    talk = Conversation(ScriptedLLM(["Good."]), None, settings, log=TalkLog(folder))
    story = " ".join(f"It weighs {n} pounds, says neighbour {n}." for n in range(40))
    "".join(talk.say(f"I took a beehive out of the attic. {story}"))
    run_night([*paths, *find_talk_logs(folder)], settings).check_complete()
    after = Conversation(
        ScriptedLLM(["Good."]),
        Memory(settings, settings.store, None, HashEncoder()),
        settings,
    )
    "".join(after.say(IN_ORDER))
    assert after.recalled is not None
    assert "A home for bees is in the garden." in after.recalled.text


def test_an_answer_of_one_message_comes_first(memory: Memory) -> None:
    (part,) = memory.context("What is the number of my plumber Okonkwo?", 2000).parts
    assert (
        "5550147"
        in [
            line.text
            for line in part.lines
            if line.source.at and line.source.at.day == 7
        ][-1]
    )
    assert part.lines[0].source.at is not None
    assert part.lines[0].source.at.day == 7


def test_lines_of_a_session_stand_as_they_were_said(memory: Memory) -> None:
    (part,) = memory.context(
        "Which tools does the advice on the pond name?", 1200
    ).parts
    for before, after in zip(part.lines, part.lines[1:], strict=False):
        assert before.source.group != after.source.group or (
            before.source.seq or 0
        ) <= (after.source.seq or 0)


def test_the_echo_of_a_replaced_value_goes_with_it(tmp_path: Path) -> None:
    port = [
        ("user", "The API listens on port 7070."),
        ("assistant", "Noted, 7070 it is."),
    ]
    moved = [
        ("user", "The API listens on port 8200 from now on."),
        ("assistant", "Done, the API listens on port 8200."),
    ]
    talks = [session(tmp_path, "a", 2, port), session(tmp_path, "b", 9, moved)]
    run_night(talks, Settings(store=tmp_path / "store")).check_complete()
    memory = Memory.open(tmp_path / "store")
    told = memory.context("Which port does the API listen on?").text
    assert "port 8200 from now on" in told
    assert "7070" not in told  # neither said again by the assistant
