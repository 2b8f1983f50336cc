"""The briefing of a project: what holds now, what is open, the last two sessions; nothing twice, no courtesy."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slowwave.context.build import Context
from slowwave.context.projects.briefing import (
    Collected,
    collect_session_lines,
    drop_repeated,
    join_due,
    pack_briefing,
)
from slowwave.context.projects.standing import join_quotes
from slowwave.context.rendering import Line, LineSource
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from tests.command_line import typed
from tests.talk_files import session

FIRST = [
    ("user", "We decided that the staging gateway listens on port 9443."),
    ("assistant", "Done: the staging gateway listens on port 9443."),
    ("user", "Have a nice weekend!"),
]
SECOND = [
    ("user", "The gateway needs retries, so add three of them with backoff."),
    ("assistant", "I added three retries with backoff to the gateway."),
    ("user", "Please also add a metric for the retries of the gateway."),
]
THIRD = [
    ("user", "Fix the flaky login test of the gateway."),
    ("assistant", "Fixed the login test. Shall I also freeze the clock there?"),
]


def brief(settings: Settings) -> Context:
    memory = Memory.open(settings.store, encoder=HashEncoder())
    return memory.briefing(600, workspace="/gate")


def test_it_says_what_holds_what_is_open_and_the_last_sessions_newest_first(
    tmp_path: Path,
) -> None:
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    talks = enumerate((FIRST, SECOND, THIRD), 1)
    run_night(
        [session(tmp_path, f"gw-{n}", 2 * n, said, "/gate") for n, said in talks],
        settings,
    )
    memory = Memory.open(settings.store, encoder=HashEncoder())
    (wrong,) = [one for one in memory.claims() if "9443" in one.summary]
    at = datetime(2026, 3, 8, 9, tzinfo=UTC)
    memory.correct(wrong.id, "it is 9555, not 9443", at=at)
    right = f"it is 9555, not 9443 (corrects: {wrong.summary})"
    rest = [
        "4 Mar 2026 · gw-2",
        "person: The gateway needs retries, so add three of them with backoff",
        "# Open",
        "6 Mar 2026 · gw-3",
        "model: Shall I also freeze the clock there?",
        "4 Mar 2026 · gw-2",
        "person: Please also add a metric for the retries of the gateway.",
        "# Last sessions",
        "6 Mar 2026 · gw-3",
        "- Asked: Fix the flaky login test of the gateway. Reported: Fixed the login test.",
        "4 Mar 2026 · gw-2",
        # what was asked stands above, so it is not repeated
        "- Reported: I added three retries with backoff to the gateway.",
        # that of the first session
        "- 1 more, since 2 Mar 2026",
    ]
    # before a night read the correction, and after it
    told = brief(settings).text.splitlines()
    assert told[2:] == [f"- {right} (not yet distilled)", *rest]
    run_night([], settings)
    told = brief(settings).text.splitlines()
    assert (told[0], told[2], told[3:]) == ("# Holds now", f"person: {right}", rest)


def test_a_session_that_says_nothing_new_leaves_its_line_to_an_earlier_one(
    tmp_path: Path,
) -> None:
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    talks = enumerate((SECOND, THIRD, [FIRST[0], ("assistant", "Noted.")]), 1)
    run_night(
        [session(tmp_path, f"gw-{n}", 2 * n, said, "/gate") for n, said in talks],
        settings,
    )
    holds, *_, last = brief(settings).parts
    assert "We decided that the staging gateway listens on port 9443" in [
        line.text for line in holds.lines
    ]
    assert [line.source.session for line in last.lines] == ["gw-3", "gw-2", "gw-1"]
    assert last.lines[0].text == "What is sure enough to be shown stands above."


@pytest.mark.parametrize(
    ("said", "told", "left_out"),
    [
        (
            [
                ("user", "Why does the kiln import crash again?"),
                ("assistant", "The kiln import needs more memory than it may take."),
                (
                    "user",
                    "lol yes, and always deploy on Friday at 5 pm, that is our rule",
                ),
                ("assistant", "Ha, at 5 pm then."),
            ],
            "Asked: Why does the kiln import crash again? "
            "Reported: The kiln import needs more memory than it may take.",
            "5 pm",
        ),
        (
            [
                (
                    "user",
                    "Imagine that the trellis server stood in Frankfurt, what would it cost?",
                ),
                ("assistant", "The trellis server would cost 40 euros less there."),
            ],
            None,
            "40 euros",
        ),
        (
            [
                ("user", "Production of delta is down right now."),
                ("assistant", "Looking."),
            ],
            None,
            "down",
        ),
        (
            [
                ("user", "Fix the date of the delta report."),
                ("assistant", "Fixed the date of the delta report."),
                ("user", "Thanks a lot for that report, have a nice evening!"),
            ],
            "Asked: Fix the date of the delta report. "
            "Reported: Fixed the date of the delta report.",
            "evening",
        ),
        (
            [
                ("user", "Fix the date of the delta report."),
                ("assistant", "Fixed the date of the delta report."),
                ("user", "Thanks! Tell me a joke."),
                (
                    "assistant",
                    "Why couldn't the bicycle stand up by itself? It was two-tired.",
                ),
            ],
            "Asked: Fix the date of the delta report. "
            "Reported: Fixed the date of the delta report.",
            "two-tired",
        ),
        (
            [
                ("user", "Why did the bicycle of the harbour office fall over?"),
                ("assistant", "It was two-tired."),
            ],
            "Asked: Why did the bicycle of the harbour office fall over?",
            "two-tired",
        ),
    ],
)
def test_the_last_sessions_tell_no_joke_thought_courtesy_or_state_of_the_moment(
    tmp_path: Path, said: list[tuple[str, str]], told: str | None, left_out: str
) -> None:
    settings = Settings(store=tmp_path / "store", keywords={"top": 0})
    run_night([session(tmp_path, "one", 2, said, "/gate")], settings)
    block = Memory.open(settings.store).briefing(600, workspace="/gate")
    lines = [
        line.text
        for part in block.parts
        if part.name == "sessions"
        for line in part.lines
    ]
    assert lines == ([told] if told else [])
    assert left_out not in block.text


def test_what_one_message_says_is_one_line_in_its_own_words() -> None:
    said = "The port 9443 collides. Use 9555! Ok? And core stays sync, for now."
    quotes = ["core stays sync", "The port 9443 collides", "Use 9555", "port 9443"]
    # what is within another quote is not said twice, and "Ok? And" was no claim
    assert join_quotes(said, quotes) == (
        "The port 9443 collides. Use 9555 … core stays sync"
    )


def test_a_less_sure_sentence_is_told_with_the_one_beside_it() -> None:
    said = "30 minutes is too short, they are late. Slots are 45 from now on. Bye! Print it"
    sure = ["30 minutes is too short, they are late"]
    beside = ["Slots are 45 from now on", "Print it"]
    # "Print it" stands behind "Bye!", which was no claim
    assert join_quotes(said, sure, beside) == (
        "30 minutes is too short, they are late. Slots are 45 from now on"
    )


def test_a_fact_that_is_due_stands_whole_under_what_is_open_alone() -> None:
    nowhere = LineSource()
    facts = [
        Line("No Cyrillic. Delivery is on 30 November", nowhere),
        Line("Tabs, not spaces", nowhere),
    ]
    due = Line(
        "Delivery is on 30 November (due 30 Nov 2026)",
        nowhere,
        own_words=("Delivery is on 30 November",),
    )
    others, is_open = join_due(facts, [due])
    assert [line.text for line in others] == ["Tabs, not spaces"]
    assert [line.text for line in is_open] == [
        "No Cyrillic. Delivery is on 30 November (due 30 Nov 2026)"
    ]


def test_each_plan_of_a_message_has_its_day_behind_its_own_words() -> None:
    nowhere = LineSource()
    said = "Ask Lena then. Delivery is on 30 November. The fair is on 2 December"
    dues = [
        Line(f"{words} (due {day})", nowhere, own_words=(words,))
        for words, day in (
            ("The fair is on 2 December", "2 Dec 2026"),
            ("Delivery is on 30 November", "30 Nov 2026"),
        )
    ]
    others, [line] = join_due([Line(said, nowhere)], dues)
    assert others == []
    assert line.text == (
        "Ask Lena then. Delivery is on 30 November (due 30 Nov 2026). "
        "The fair is on 2 December (due 2 Dec 2026)"
    )
    assert line.own_words == (said,)


def test_a_part_of_a_session_keeps_its_label_and_no_cut_sentence_stands_alone() -> None:
    told = Line("We want a party.", LineSource())
    last = [
        Line("Asked: We want a party. Write the guests down.", LineSource()),
        Line("Asked: We want a party. Theo plays, he said …", LineSource()),
        Line(
            "Said: We want a party (until May).", LineSource(), own_words=(told.text,)
        ),
    ]
    _, sessions = drop_repeated([[told], last])
    assert [line.text for line in sessions] == ["Asked: Write the guests down."]


def test_a_bracket_of_several_sentences_is_told_whole() -> None:
    told = "The lathe has one spindle; two of them would halve the time."
    words = f"Said: leave it as it is (9 minutes and 40 watts. {told.rstrip('.')})."
    holds, session = ([Line(text, LineSource())] for text in (told, words))
    _, lines = drop_repeated([holds, session])
    assert [line.text for line in lines] == [words]
    # also where it is cut
    cut = "leave it as it is (9 minutes and 40 watts. The lathe has one …"
    _, lines = drop_repeated([holds, [Line(f"Said: {told} {cut}", LineSource())]])
    assert [line.text for line in lines] == [f"Said: {cut}"]
    # a mark that only looks like a bracket joins nothing
    sad = Line(f"Said: it is late :(. {told}", LineSource())
    _, lines = drop_repeated([holds, [sad]])
    assert [line.text for line in lines] == ["Said: it is late :(."]


def test_a_question_that_the_last_words_answered_is_not_open(tmp_path: Path) -> None:
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    asked = "Should the receipt go out as PDF or as plain mail?"
    talk = [
        ("user", "We decided that refunds of a booking take two days."),
        ("assistant", f"Noted. {asked}"),
        ("user", "plain mail"),
    ]
    run_night([session(tmp_path, "gw-1", 2, talk, "/gate")], settings)
    parts = {part.name: part.lines for part in brief(settings).parts}
    assert f"plain mail (to “{asked}”)" in [line.text for line in parts["briefing"]]
    sessions = Memory.open(settings.store).get_view()
    assert not collect_session_lines(sessions, ("/gate",))[1].lines


def test_a_briefing_of_all_projects_names_each_and_a_folder_without_one_is_said(
    tmp_path: Path,
) -> None:
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    talks = [
        session(tmp_path, "gw-1", 2, FIRST, "/home/ada/gate"),
        session(tmp_path, "so-1", 4, SECOND, "/home/ada/sonde"),
    ]
    run_night(talks, settings)
    memory = Memory.open(settings.store, encoder=HashEncoder())
    mixed = memory.briefing(600).text
    assert "2 Mar 2026 · gate · gw-1" in mixed
    assert "4 Mar 2026 · sonde · so-1" in mixed
    assert "gate" not in memory.briefing(600, workspace="gate").text.replace(
        "gateway", ""
    )
    said = typed("briefing", "--store", settings.store).stderr
    assert said.startswith("note: the memory knows no project in this folder")
    assert said.endswith("--project takes one: gate, sonde\n")
    for named in ("--all", "--project=sonde"):
        assert not typed("briefing", named, "--store", settings.store).stderr


def make_lines(start: str, number: int, words: int = 4) -> list[Line]:
    return [
        Line(f"{start} {n} {'tide ' * words}".strip(), LineSource(f"s-{n}"))
        for n in range(number)
    ]


def count_words(text: str) -> int:
    return len(text.split())


def test_a_part_of_which_no_line_fits_says_how_many_there_are() -> None:
    kinds = [make_lines("rule", 3), make_lines("open", 2, 90), [], []]
    collected = Collected(kinds, more=(5, 4, 0, 0))
    block = pack_briefing(collected, 60, count_words)
    assert block.text.endswith("- 5 more\n# Open\n- 6 more")
    told = json.loads(pack_briefing(collected, 60, count_words, "json").text)
    assert told["left_out"] == {"briefing": "5 more", "open": "6 more"}
    # one line alone is told rather than how many there are
    (part,) = pack_briefing(collected, 15, count_words).parts
    assert (part.name, part.left_out, len(part.lines)) == ("briefing", "7 more", 1)
    assert pack_briefing(collected, 3, count_words).text == ""


def test_what_is_left_out_is_counted_before_only_the_first_are_considered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    talks = [
        [
            ("user", f"We decided that gateway {name} listens on port 9{n}43."),
            ("assistant", f"Shall I also freeze the clock of {name}?"),
        ]
        for n, name in enumerate(("kiln", "heron", "larder", "trellis", "quill"), 1)
    ]
    run_night(
        [
            session(tmp_path, f"gw-{n}", 2 * n, said, "/gate")
            for n, said in enumerate(talks, 1)
        ],
        settings,
    )
    counts = []
    for most in (200, 2):
        monkeypatch.setattr("slowwave.context.projects.briefing.MOST_LINES", most)
        holds, is_open, *_ = brief(settings).parts
        counts.append(
            [
                len(part.lines) + int((part.left_out or "0").split()[0])
                for part in (holds, is_open)
            ]
        )
    assert counts == [[5, 5], [5, 5]]
