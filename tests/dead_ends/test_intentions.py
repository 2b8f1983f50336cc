"""What persons mean to do later: kept with what it waits for, and told when that comes."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from slowwave.cli.agents.hook_text import build_hook_text
from slowwave.cli.agents.running_session import list_done_by_moves
from slowwave.cli.main import app
from slowwave.context.projects.intentions import (
    Done,
    Intention,
    ProjectTalk,
    list_names,
    read_done,
    read_line,
    read_shown,
    read_waits,
    split_parts,
)
from slowwave.context.projects.nearness import measure_nearness
from slowwave.flows.exclude import run_exclude
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MESSAGES
from slowwave.store.publishing import publish
from slowwave.tasks.dead_ends.moves import read_call_moves
from slowwave.text.rarity import get_lexicon
from slowwave.text.times.coming_days import find_coming_day
from tests.recall_store import START, add, build, claim_row

HERE = "/home/ada/harbor"
WEDNESDAY = datetime(2026, 5, 6, 12, tzinfo=UTC)
SESSIONS = Path(__file__).parents[2] / "data" / "labelled"

TALK = ProjectTalk(0, frozenset(), {})


@pytest.mark.parametrize(
    ("text", "of_plan", "day"),
    [
        ("on 2 june the summer tariff starts", False, date(2026, 6, 2)),
        ("the certificate runs out on 2026-07-15", False, date(2026, 7, 15)),
        ("rotate the key in three days", False, date(2026, 5, 9)),
        ("tomorrow the berths are painted", False, date(2026, 5, 7)),
        # the next one, where a plan says so
        ("todo for monday: rotate the key", True, date(2026, 5, 11)),
        ("broken since monday", False, None),
        # a month, or a part of one, of a plan alone
        ("mid july the banner comes in", True, date(2026, 7, 15)),
        ("end of june the 32bit builds go", True, date(2026, 6, 30)),
        ("come august, archive the boards", True, date(2026, 8, 1)),
        ("by the end of the month empty it", True, date(2026, 5, 31)),
        ("in Q3 we turn it off", True, date(2026, 7, 1)),
        ("on the 3rd the key expires", True, date(2026, 6, 3)),
        ("on the 3rd of july the key expires", True, date(2026, 7, 3)),
        ("you may drop it", True, None),
        # said of the past, or of no day
        ("it broke on 2 May", False, None),
        ("we met on 3 April 2025", False, None),
        ("in June the tariff changes", False, None),
        ("am 2. Juni beginnt der Sommertarif", False, date(2026, 6, 2)),
        # in other languages, however short
        ("bis Freitag muss es raus", True, date(2026, 5, 8)),
        ("kommenden Montag die Belege schicken", True, date(2026, 5, 11)),
        ("übernächsten Freitag wird gezählt", True, date(2026, 5, 15)),
        ("Übernächste Woche kommt die Waage", True, date(2026, 5, 18)),
        ("Ende Juni muss das Lager gezählt werden", True, date(2026, 6, 30)),
        ("Ende des Monats wird gezählt", True, date(2026, 5, 31)),
        ("ab Juli gelten neue Preise", True, date(2026, 7, 1)),
        ("in acht Wochen läuft es aus", True, date(2026, 7, 1)),
        ("nächsten Monat löschen", True, date(2026, 6, 1)),
        ("demain il faut payer", True, date(2026, 5, 7)),
        ("lundi il faut payer", True, date(2026, 5, 11)),
        ("fin juin il faut compter", True, date(2026, 6, 30)),
        ("el viernes hay que entregar", True, date(2026, 5, 8)),
        ("a finales de junio hay que contar", True, date(2026, 6, 30)),
        ("fra due settimane scade il certificato", True, date(2026, 5, 20)),
        ("entro venerdì bisogna consegnare", True, date(2026, 5, 8)),
        ("周五把报告发出去", True, date(2026, 5, 8)),
        ("下下周要换密钥", True, date(2026, 5, 18)),
        ("20号，付款", True, date(2026, 5, 20)),
        ("金曜日までに出す", True, date(2026, 5, 8)),
        ("来週の月曜に鍵を変える", True, date(2026, 5, 11)),
        ("20日間かかる", True, None),
        # of no plan they may be habits, or the last ones
        ("lundi il faut payer", False, None),
        ("ab Juli gelten neue Preise", False, None),
        ("non lo so mai", True, None),
    ],
)
def test_the_day_that_a_text_waits_for(
    text: str, of_plan: bool, day: date | None
) -> None:
    assert find_coming_day(text, WEDNESDAY, of_plan=of_plan) == day


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("payment is due in 14 days", None),
        ("eine Rechnung ist in 30 Tagen zu zahlen", None),
        ("the rent is due tomorrow", date(2026, 5, 7)),
        ("the visa runs out on 12 June, payment is due in 14 days", date(2026, 6, 12)),
    ],
)
def test_what_always_holds_has_a_term_and_no_counted_day(
    text: str, day: date | None
) -> None:
    assert find_coming_day(text, WEDNESDAY, counted=False) == day


def intend(**known: Any) -> Intention:
    empty: dict[str, Any] = {
        "id": "c1",
        "text": "x",
        "workspace": HERE,
        "session": "s",
        "said_at": WEDNESDAY,
        "due": None,
        "files": (),
        "versions": (),
        "names": (),
    }
    return Intention(**{**empty, **known})


def test_what_an_intention_waits_for() -> None:
    due = intend(due="2026-06-02")
    days = [date(2026, 6, 1), date(2026, 6, 2), date(2026, 6, 16), date(2026, 6, 17)]
    assert [due.is_due(day) for day in days] == [False, True, True, True]
    # nobody has worked there since; once somebody has, two weeks are enough
    met = intend(due="2026-06-02", resumed="2026-06-09")
    assert [met.is_due(day) for day in days] == [False, True, True, False]
    late = intend(due="2026-06-02", resumed="2026-06-17")
    assert late.is_due(date(2026, 6, 17))
    assert not late.is_due(date(2026, 6, 18))
    file = intend(files=("harbor/tides.py",))
    assert file.is_about_file(["/x/harbor/tides.py"])
    assert file.is_about_file(["tides.py"])
    assert not file.is_about_file(["web/tides.py"])
    assert not file.is_about_file(["tides.pyi"])
    node = intend(versions=(("node", "22"), ("", "1.4")))
    assert node.has_version("FROM node:22.16")
    assert node.has_version("git tag v1.4.0")
    assert not node.has_version("node 122 and 11.4")
    assert intend(names=("ines",)).is_named("Ines wrote")
    assert not intend(names=("ines",)).is_named("lines")
    assert list_names("When Ines is back ask her about Kilbrack") == (
        "ines",
        "kilbrack",
    )


@pytest.mark.parametrize(
    ("said", "waits", "moment", "other"),
    [
        (
            "whoever opens .goreleaser.yml: drop snap",
            "file",
            "fix .goreleaser.yml",
            "goreleaser",
        ),
        ("once node 22 is in, drop tsx", "version", '"node": ">=22.1"', "node 2.2"),
        ("with v2 the switch dies", "version", "git tag v2.0.1", "v21"),
        # a number behind a file is none
        (
            "if fold.go is opened: the constant 16 goes",
            "file",
            "fix fold.go",
            "constant 16",
        ),
        # one capital is a name in any language; of several two words are needed
        ("wenn Wiebke zurück ist, frag sie", "name", "Wiebke ist da", "frag zurück"),
        ("when Lena is back ask her", "name", "lena is on a call", "the layout"),
        # one rare word, or two less so
        ("once we're at celery again set acks", "topic", "celery is slow", "set it"),
        (
            "when the green button is due, drop it",
            "topic",
            "the buttons are green",
            "button",
        ),
    ],
)
def test_what_a_plan_waits_for(said: str, waits: str, moment: str, other: str) -> None:
    one = read_waits(intend(), said, ProjectTalk(0, frozenset(), {}))
    kinds = {
        "file": one.files,
        "version": one.versions,
        "name": one.names,
        "topic": one.topic,
    }
    assert [kind for kind, found in kinds.items() if found] == [waits]
    assert one.is_named(moment)
    assert not one.is_named(other)


def test_a_topic_is_met_by_a_file_of_its_name_and_a_frequent_word_by_nothing() -> None:
    said = "once we're at celery again set acks"
    topic = read_waits(intend(), said, ProjectTalk(0, frozenset(), {}))
    assert topic.is_about_file(["harbor/celery.py"])
    frequent = read_waits(intend(), said, ProjectTalk(0, frozenset({"celeri"}), {}))
    assert not frequent.is_named("celery is slow")


def test_where_all_nouns_have_a_capital_a_name_is_told_by_the_word_before_it() -> None:
    german = get_lexicon("German")
    said = "Wenn Friederike zurück ist, frag sie nach den Fotos vom Hof"
    assert list_names(said, 1, german) == ("friederike",)
    titled = "Sobald Herr Wessels sich wegen der Milch gemeldet hat"
    assert "wessels" in list_names(titled, 1, german)
    assert "milch" not in list_names(titled, 1, german)
    assert list_names("Am Montag kommt die Waage", 1, german) == ()


def test_one_noun_tells_a_topic_in_a_language_that_was_counted() -> None:
    said = "Sobald wir am Newsletter arbeiten, muss die Abmeldung gehen"
    one = read_waits(intend(language="German"), said, TALK)
    assert one.is_named("Der Newsletter kommt doppelt an.")
    assert not one.is_named("Lass uns weiter arbeiten.")


def test_a_word_that_many_say_is_enough_if_the_prompt_is_near_in_meaning() -> None:
    said = "once the archive moves to the new server, tell the mirrors"
    one = read_waits(intend(text=said), said, TALK)
    prompt = "we copy the archive tonight"
    assert not one.is_named(prompt)
    assert not one.is_named(prompt, near=0.2)
    assert one.is_named(prompt, near=2.0)
    assert not one.is_named("clean up the log", near=2.0)


def test_a_number_with_a_unit_is_no_version() -> None:
    one = intend(versions=(("", "2.6"),))
    assert one.has_version("2.6 is out")
    assert not one.has_version("it took 2.6 seconds")
    german = replace(one, language="German")
    assert german.has_version("2.6 ist fertig")
    assert not german.has_version("es dauert 2.6 Sekunden")


def test_the_new_version_of_an_upgrade_is_that_behind_the_arrow() -> None:
    one = intend(versions=(("astro", "6"),))
    assert one.has_version("astro  ^5.14.1  →  ^6.0.2")
    assert not one.has_version("astro  ^5.14.1\nvite  ^5.1.0  →  ^6.0.2")


@pytest.mark.parametrize(
    ("said", "moments", "others"),
    [
        # a version of something else, a number in code, a share
        (
            "after 2.4 is out drop the old totals",
            ["tag 2.4.0", 'version = "2.4"', "git tag -a v2.4.1", "harbor 2.4 is out"],
            ["pip install quux==2.4", "timeout = 2.4", "sleep(2.4)", "it is 2.4% less"],
        ),
        (
            "once quux 2.4 is in drop the wrapper",
            ['"quux": "^2.4.1"', "move quux to 2.4"],
            ["tag 2.4.0", "it took 2.4 seconds"],
        ),
        # a product that many say, as files name it
        (
            "once we are on python 3.13 the dredger gets the threaded build",
            ["FROM python:3.13-slim", 'requires-python = ">=3.13"', "python 3.13.1"],
            ["FROM python:3.12", "timeout = 3.13", "FROM quux:3.13"],
        ),
        # a word with a capital that many say tells nobody's name
        ("ask Ines about the Layout", ["Ines wrote"], ["the layout is off"]),
        # what a topic's words are said of is one sentence, which the person typed
        (
            "when the green button is due, drop it",
            ["is the button green?"],
            [
                "The grass is green. Press the button.",
                "it failed:\n```\ngreen button\n```",
            ],
        ),
        # in a language whose words were not counted one word is not rare
        (
            "sobald Trudi zurück ist, Kajüte und Steuerrad abgleichen",
            ["Trudi hat die Kajüte gestrichen"],
            ["die Kajüte ist nass"],
        ),
    ],
)
def test_what_only_looks_like_the_moment_tells_nothing(
    said: str, moments: list[str], others: list[str]
) -> None:
    one = read_waits(intend(text=said), said, ProjectTalk(0, frozenset(), {}))
    assert [text for text in moments if not one.is_named(text)] == []
    assert [text for text in others if one.is_named(text)] == []


@pytest.mark.parametrize(
    ("said", "reminds", "is_known"),
    [
        (
            "when Trudi visits ask her for the spare winch",
            "Trudi is here today",
            "Trudi brought the winch",
        ),
        (
            "once quux 2.4 is in drop the dredger wrapper",
            "move to quux 2.4",
            "we have quux 2.4 since friday, and I deleted the dredger thing",
        ),
        (
            "when the mooring upgrade comes the dredger alarm should go along",
            "the mooring upgrade is today",
            "the mooring upgrade is today, the dredger alarm went along",
        ),
        # most words of the part that has the name
        (
            "Trudi wants a drawing of the winch, hand it over when we see each other",
            "Trudi is on the pier",
            "Trudi's winch drawing is off, somebody made one",
        ),
        # a name in code, said in words
        (
            "once quux 2.4 is in the DredgerShim goes",
            "quux 2.4 is in now",
            "quux 2.4 is in, and the shim of the dredger went",
        ),
        # the condition in its own words, and a product that many say
        (
            "after 2.4 is tagged, the dredger shim goes and nobody asks",
            "2.4 is tagged",
            "2.4 is tagged and the dredger went",
        ),
        (
            "once we are on python 3.13, the dredger gets the threaded build",
            "put python 3.13 into the Dockerfile",
            "python 3.13 is in, the dredger has it",
        ),
        # a title belongs to the name
        (
            "when Mr Trudi gets in touch I ask him for the dredger report",
            "Mr Trudi has written this morning",
            "Mr Trudi has sent the dredger report",
        ),
        # no comma: what goes with the version is less than most of it
        (
            "when 0.4.0 is tagged we must drop the old endpoints",
            "0.4.0 is tagged, what is next?",
            "0.4.0 is tagged and the endpoints are dropped",
        ),
    ],
)
def test_who_says_what_is_to_be_done_is_not_reminded(
    said: str, reminds: str, is_known: str
) -> None:
    talk = ProjectTalk(0, frozenset(), {})
    one = read_waits(intend(text=said), said, talk)
    assert one.comes_up(reminds)
    assert one.is_named(is_known)
    assert not one.comes_up(is_known)


def test_a_doubtful_plan_waits_only_for_what_is_exact() -> None:
    talk = ProjectTalk(0, frozenset(), {})
    plans = [
        "did that friday for Ines",
        "the tides go out on 2 June",
        "tag 2.4",
        "split tides.py",
    ]
    read = [read_waits(intend(), text, talk, is_sure=False) for text in plans]
    # a weekday may be the last one, and a name is in many sentences
    assert [one.is_waiting for one in read] == [False, True, True, True]


def test_a_file_of_a_frequent_name_is_no_topic() -> None:
    said = "when the search comes up again set the wait to 150"
    one = read_waits(intend(), said, ProjectTalk(0, frozenset(), {}))
    assert not one.is_about_file(["web/search.ts"])


def test_a_reason_belongs_to_the_part_before_it() -> None:
    talk = ProjectTalk(0, frozenset(), {})
    said = "I turned the berth camera on this morning to see boats, that has to be off again by 2 june at noon"
    [one] = read_line(intend(), said, talk)
    assert (one.text, one.due) == (said, "2026-06-02")
    both = "after 2.4 the old tide table page goes, when tides.py is touched next split the parser"
    assert [part.moment for part in read_line(intend(), both, talk)] == [
        "Shown when 2.4 comes up.",
        "Shown when tides.py is edited.",
    ]


@pytest.mark.parametrize(
    ("said", "moment"),
    [
        ("on 2 june the summer tariff starts", "Due on 2 Jun 2026."),
        ("when Lena is back ask her", "Shown when Lena is named."),
        (
            "once we're at celery again set acks",
            "Shown when the conversation mentions celery.",
        ),
        (
            "when the green button is due, drop it",
            "Shown when the conversation mentions enough of green, button, due.",
        ),
        (
            "the lists cant be hungarian obviously",
            "Shown when the conversation mentions hungarian.",
        ),
        ("once node 22 is in, drop tsx", "Shown when node 22 comes up."),
        ("do it", "Not tied to a time or an event."),
    ],
)
def test_a_stranger_is_told_when_it_will_be_told(said: str, moment: str) -> None:
    talk = ProjectTalk(1, frozenset(), {})
    one = read_waits(intend(text=said), said, talk)
    assert replace(one, text=said).moment == moment


def test_a_day_of_the_month_is_in_the_month_that_the_part_before_it_names() -> None:
    talk = ProjectTalk(0, frozenset(), {})
    said = "Orsi comes 4 july to Leeds with the night train, she goes home again early on the 9th with her father"
    assert [part.due for part in read_line(intend(), said, talk)] == [
        "2026-07-04",
        "2026-07-09",
    ]
    later = "Orsi comes 4 july to Leeds with the night train, tomorrow we have to ask her whether walnuts hurt"
    [_, asked] = read_line(intend(), later, talk)
    assert asked.due == "2026-05-07"


def test_parts_wait_for_themselves() -> None:
    both = "on friday 15th the big banner goes out, and if priya asks about analytics tell her it moved"
    assert split_parts(both) == both.split(",")
    assert split_parts("after 2.4 drop the old totals flag, nobody reads it") == [
        "after 2.4 drop the old totals flag, nobody reads it"
    ]
    assert split_parts("drop it at 2.4\nask Lena then") == [
        "drop it at 2.4",
        "ask Lena then",
    ]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A store in which something is due today, and something else is not."""
    at = datetime.now(UTC) - timedelta(days=20)
    today = datetime.now().astimezone().date()
    said = [
        f"On {today:%d %B %Y} the summer tariff of the harbor starts, change the table.",
        f"On {today + timedelta(days=40):%d %B %Y} the winter berths of the harbor open again.",
    ]
    rows = [
        {
            "session_id": "s1",
            "message_id": f"m{number}",
            "role": "user",
            "content": text,
            "ts": (at + timedelta(minutes=number)).isoformat(),
            "workspace": HERE,
        }
        for number, text in enumerate(said)
    ]
    path = tmp_path / "talk.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    run_night([path], settings)
    return settings


def test_what_is_due_is_told_until_it_is_left_out(settings: Settings) -> None:
    memory = Memory.open(settings.store)
    due, later = memory.intentions(HERE)
    assert "summer tariff" in due.text
    assert memory.intentions() == [due, later]
    told = memory.briefing(800, workspace=HERE).text
    opened = told.partition("# Open")[2].partition("# Last")[0]
    assert "summer tariff" in told
    assert "winter berths" not in opened
    words = ["show", "intentions", "--all", "--store", str(settings.store)]
    assert due.describe() in CliRunner().invoke(app, words).output
    run_exclude([due.id], "done", settings)
    assert Memory.open(settings.store).intentions(HERE) == [later]


def test_a_plan_outlasts_one_of_another_matter_that_is_put_alike(
    tmp_path: Path,
) -> None:
    said = [
        "On 30 November 2026 we have to rotate the signing key.",
        "On 29 November 2026 we have to check the payout export of the auditors.",
        "We have to rotate the signing key on 5 December 2026.",
    ]
    listed = []
    for number, text in enumerate(said):
        rows = [
            {
                "session_id": f"s{number}",
                "message_id": f"{number}-{minute}",
                "role": role,
                "content": content,
                "ts": f"2026-{9 + number:02}-02T09:0{minute}:00Z",
                "workspace": HERE,
            }
            for minute, (role, content) in enumerate(
                [("user", text), ("assistant", "Noted."), ("user", "Run the tests.")]
            )
        ]
        lines = "\n".join(map(json.dumps, rows))
        (tmp_path / f"{number}.jsonl").write_text(lines, encoding="utf-8")
        settings = Settings(store=tmp_path / "store", keywords={"top": 0})
        run_night([tmp_path / f"{number}.jsonl"], settings)
        listed.append([one.due for one in Memory.open(settings.store).intentions(HERE)])
    # the second perhaps changes the first by its frame alone; the third names its matter
    assert listed[1] == ["2026-11-29", "2026-11-30"], listed
    assert "2026-11-30" not in listed[2]


def test_a_prompt_that_names_nobody_is_told_nothing(settings: Settings) -> None:
    asked = {
        "event": "user-prompt",
        "prompt": "run the tests",
        "folder": HERE,
        "own_sessions": [],
        "budget": 800,
        "everywhere": False,
        "store": str(settings.store),
        "space": None,
    }
    assert build_hook_text(**asked) == ""


def test_what_a_command_showed_is_told_at_the_next_prompt_once(tmp_path: Path) -> None:
    later = SESSIONS / "later"
    read = tmp_path / "read"
    read.mkdir()
    for name in ("nell-05.jsonl", "nell-06.jsonl"):
        shutil.copy(later / name, read)
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    run_night([read], settings)
    running = tmp_path / "nell-10.jsonl"
    lines = (later / "nell-10.jsonl").read_text(encoding="utf-8").splitlines()
    asked = {
        "event": "user-prompt",
        "prompt": "run the linters",
        "folder": "/home/nell/parcel-hub",
        "own_sessions": [],
        "budget": 800,
        "everywhere": False,
        "store": str(settings.store),
        "space": None,
        "transcript": str(running),
    }
    # the prompt alone, and then what the upgrade showed
    running.write_text(lines[0] + "\n", encoding="utf-8")
    assert build_hook_text(**asked) == ""
    running.write_text("\n".join(lines[:3]) + "\n", encoding="utf-8")
    told = build_hook_text(**asked)
    assert "when pydantic 3 is in, the whole validators module" in told
    # the client writes down what it was told
    with running.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"type": "attachment", "content": told}) + "\n")
    assert build_hook_text(**asked) == ""


def test_what_was_edited_in_an_earlier_session_came_up(tmp_path: Path) -> None:
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    run_night([SESSIONS / "ends"], settings)
    plans = Memory.open(settings.store).intentions()
    [tides] = [one for one in plans if one.files == ("tides.py",)]
    assert tides.met == "2026-06-02"
    edit = {"file_path": "/x/tides.py", "old_string": "a", "new_string": "b"}
    call = {"type": "tool_call", "text": json.dumps(edit)}
    look = {"type": "tool_call", "text": json.dumps({"file_path": "/x/tides.py"})}
    patch = {"type": "tool_call", "text": "*** Begin Patch\n*** Update File: tides.py"}
    done = read_done([call, look, patch])
    assert [tides.is_met_by(one) for one in done] == [True, False, True]


def test_what_a_command_showed_in_an_earlier_session_came_up(tmp_path: Path) -> None:
    read = tmp_path / "read"
    read.mkdir()
    for name in ("nell-05.jsonl", "nell-06.jsonl", "nell-10.jsonl"):
        shutil.copy(SESSIONS / "later" / name, read)
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    run_night([read], settings)
    plans = Memory.open(settings.store).intentions()
    [validators] = [one for one in plans if ("pydantic", "3") in one.versions]
    # no call names the version: `uv sync --upgrade` printed it
    assert validators.met == "2026-04-20"
    assert read_done([{"type": "tool_call", "text": '{"command": "uv lock"}'}]) == [
        Done(run="uv lock")
    ]


def edit(path: str, new: str) -> dict[str, str]:
    return {"file_path": path, "old_string": "", "new_string": new}


@pytest.mark.parametrize(
    ("waits", "tool", "given", "is_moment"),
    [
        ({"versions": (("", "2.4"),)}, "Bash", {"command": "git tag -a v2.4.1"}, True),
        ({"versions": (("v", "3"),)}, "Bash", {"command": "git tag v3.0.0"}, True),
        ({"versions": (("v", "3"),)}, "Bash", {"command": "npm version 3.0.0"}, True),
        ({"versions": (("node", "22"),)}, "Edit", edit("a.yml", "node: 22"), True),
        ({"versions": (("quux", "2.4"),)}, "Edit", edit("a.in", "quux==2.4.1"), True),
        ({"files": ("api/index.ts",)}, "Edit", edit("/x/api/index.ts", "b"), True),
        # what is looked for or read, and what is in a word, a path or a sentence
        ({"files": ("api/index.ts",)}, "Edit", edit("/x/ui/index.ts", "b"), False),
        ({"files": ("index.ts",)}, "Read", {"file_path": "/x/index.ts"}, False),
        ({"files": ("index.ts",)}, "Grep", {"pattern": "a", "path": "index.ts"}, False),
        ({"versions": (("v", "3"),)}, "Grep", {"pattern": "v3", "path": "docs"}, False),
        ({"versions": (("v", "3"),)}, "Bash", {"command": "curl /api/v3/rates"}, False),
        ({"versions": (("v", "3"),)}, "Edit", edit("a.yml", "checkout@v3"), False),
        ({"versions": (("", "2.4"),)}, "Edit", edit("a.in", "numpy==2.4.1"), False),
        ({"versions": (("", "2.4"),)}, "Bash", {"command": "git tag v2.4.0rc1"}, False),
        ({"versions": (("node", "22"),)}, "Bash", {"command": "ping node 22"}, False),
        ({"versions": (("node", "22"),)}, "Read", {"file_path": "node 22.md"}, False),
    ],
)
def test_the_hook_and_the_night_read_a_call_alike(
    waits: dict[str, Any], tool: str, given: dict[str, str], is_moment: bool
) -> None:
    one = intend(**waits)
    text = json.dumps(given)
    at_night = read_done([{"type": "tool_call", "text": text}])
    at_call = list_done_by_moves(read_call_moves(tool, text, None, "/x"))
    assert [any(map(one.is_met_by, done)) for done in (at_night, at_call)] == [
        is_moment,
        is_moment,
    ]


def test_outputs_are_read_if_they_may_have_the_version_and_to_their_ends() -> None:
    long = f"+ Pydantic==3.0\n{'x' * 20_000}\nend"
    printed = {
        "long": long,
        "short": "pydantic 3",
        "number": "numpy 3",
        "name": "pydantic 2",
        "failed": "pydantic 3 is not there",
        "other": "pydantic 3",
    }
    blocks = [
        {
            "type": "tool_result",
            "text": text,
            "call_id": name,
            "is_error": name == "failed" or None,
        }
        for name, text in printed.items()
    ]
    fields = [MESSAGES.schema.field(name) for name in ("session_id", "ts", "blocks")]
    row = {"session_id": "s", "ts": WEDNESDAY, "blocks": blocks}
    messages = pa.Table.from_pylist([row], schema=pa.schema(fields))
    calls = [{"blocks": [{"call_id": name} for name in printed if name != "other"]}]
    shown = read_shown(messages, calls, {("pydantic", "3")})
    assert shown["s"].keys() == {"long", "short"}
    assert (shown["s"]["long"], shown["s"]["short"]) == (
        f"{long[:6144]}\n{long[-6144:]}",
        "pydantic 3",
    )
    # a version without a name is known by its number
    assert read_shown(messages, calls, {("", "3.0")})["s"].keys() == {"long"}


def test_without_messages_of_agents_nothing_was_printed() -> None:
    assert read_shown(MESSAGES.make_empty_table(), [], {("pydantic", "3")}) == {}


def test_what_is_printed_of_a_product_is_its_version_if_a_sign_says_so() -> None:
    node = intend(versions=(("node", "22"),))
    assert node.is_met_by(Done(shown="- node@20.1\n+ node@22.1"))
    for shown in ("worker node 22 healthy", "requires node >= 22", "worker-node-22 up"):
        assert not node.is_met_by(Done(shown=shown))


def test_a_topic_comes_up_by_its_meaning(tmp_path: Path) -> None:
    read = tmp_path / "read"
    read.mkdir()
    for path in sorted((SESSIONS / "later").glob("nell-0[1-9].jsonl")):
        shutil.copy(path, read)
    settings = Settings(store=tmp_path / "store", keywords={"top": 0})
    run_night([read], settings)
    memory = Memory.open(settings.store)
    plans = memory.intentions()
    [backups] = [one for one in plans if "backups" in one.topic]
    # one word that many say, in a session of its own and in a prompt
    assert backups.met == "2026-04-16"
    named = memory.find_named(plans, "why did the backup of last night fail?")
    assert [one.id for one in named] == [backups.id]
    # no word of it
    assert memory.find_named(plans, "why did the dump of last night fail?") == []


def test_nearness_counts_from_what_is_usual() -> None:
    said = np.asarray([[1.0, 0.0], [0.8, 0.6]] * 5, dtype=np.float32)
    own = np.asarray([[0.0, 1.0]], dtype=np.float32)
    near = measure_nearness(own, own, said)
    assert near == pytest.approx((1.0 - 0.3) / 0.3)
    assert measure_nearness(own, own, said[:9]) is None
    assert measure_nearness(own, own, np.repeat(own, 10, axis=0)) is None


def test_what_is_open_stands_in_context_of_its_project(settings: Settings) -> None:
    memory = Memory.open(settings.store)
    asked = "what about the summer tariff of the harbor?"
    assert "Intended: On" in memory.context(asked, 800, workspace=HERE).text
    assert "Intended" not in memory.context(asked, 800).text
    assert "Intended" not in memory.context("who paints?", 800, workspace=HERE).text


def test_a_courtesy_that_names_a_day_is_no_intention(
    tmp_path: Path,
) -> None:
    at = datetime.now(UTC) - timedelta(days=5)
    day = datetime.now().astimezone().date()
    talks = [
        [
            ("assistant", f"Shall I rotate the harbor key on {day:%d %B %Y}?"),
            ("user", "yes"),
            ("assistant", "I will rotate it."),
            ("user", "À demain alors, bonne soirée"),
        ],
        [
            ("user", "Which browser do you open?"),
            ("assistant", "The one of the berths."),
        ],
    ]
    rows = [
        {
            "session_id": f"s{number}",
            "message_id": f"{number}-{minute}",
            "role": role,
            "content": text,
            "ts": (at + timedelta(days=number, minutes=minute)).isoformat(),
            "workspace": HERE,
        }
        for number, said in enumerate(talks)
        for minute, (role, text) in enumerate(said)
    ]
    path = tmp_path / "talk.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    settings = Settings(store=tmp_path / "store", keywords={"top": 0})
    run_night([path], settings)
    open_ones = Memory.open(settings.store).intentions(HERE)
    assert [one.due for one in open_ones] == [day.isoformat()]


def test_a_question_with_a_day_in_it_is_no_intention(tmp_path: Path) -> None:
    made = build(tmp_path / "store", index=False)
    day = f"{START + timedelta(days=40):%d %B %Y}"
    claims = [
        ("o-1", f"Labels carry the month as in {day}, can you print one?"),
        ("o-2", f"The lease of the shed ends on {day}. Does it renew itself?"),
    ]
    more = {"trust": "typed", "category": "fact", "session_id": "hash-ses-a"}
    rows = [claim_row(key, text, text, "ses-a-m2", **more) for key, text in claims]
    add(made, CLAIMS, rows)
    publish(made, "run", "hash-384")
    found = Memory.open(made.root).intentions("api")
    assert [one.id for one in found] == ["o-2"]


def test_a_number_says_nothing_of_what_came_of_a_plan(tmp_path: Path) -> None:
    said = [
        "after the 1.4 tag drop the 2 old offers lists, the gardeners app doesnt call them any more",
        "so the age: show 'harvest 2024' and not '2 years old', people trust the year more",
    ]
    rows = [
        {
            "session_id": f"s{number}",
            "message_id": f"{number}-{minute}",
            "role": role,
            "content": content,
            "ts": f"2026-05-0{4 + number}T09:0{minute}:00Z",
            "workspace": HERE,
        }
        for number, text in enumerate(said)
        for minute, (role, content) in enumerate(
            [("user", text), ("assistant", "Noted."), ("user", "Run the tests.")]
        )
    ]
    path = tmp_path / "talk.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    settings = Settings(store=tmp_path / "store", keywords={"top": 0})
    run_night([path], settings)
    [plan] = Memory.open(settings.store).intentions(HERE)
    assert plan.versions == (("", "1.4"),)
