"""A person's message and its answer are one hit: whose words the query asks for decides what it is."""

from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.context.direct import read_others
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.recall.prompts import only_assents
from slowwave.recall.release.view import View
from slowwave.recall.replies import leans_by_words
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES
from tests.talk_files import session

PIANO = "My grandmother's piano weighs 220 kilos and we have no lift. Can the movers of the flat take it?"
ADVICE = (
    "For a piano of 220 kilos without a lift I would book a piano mover, two days before the other movers come. "
    "Ask whether they insure the stairs, measure the landings of the flat first, and keep the piano wrapped until "
    "the room is warm, since the wood moves with the air for about a week."
)
LAMP = "The lamp in the hall flickers since Tuesday evening, whatever bulb I try."


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("turns")
    said = [("user", PIANO), ("assistant", ADVICE), ("user", LAMP)]
    path = session(folder, "move", 3, said)
    run_night([path], Settings(store=folder / "store", encoder="hash-384"))
    return Memory.open(folder / "store", encoder=HashEncoder())


def test_the_other_message_of_a_turn_is_found_from_either_side(memory: Memory) -> None:
    view = View.open(memory.root, memory.space)
    rows = view.read_rows(MESSAGES, ["message_id", "text"])
    key_of = {row["text"]: row["message_id"] for row in rows}
    piano, advice, lamp = (key_of[text] for text in (PIANO, ADVICE, LAMP))

    def tell(*ids: str) -> dict[str, str]:
        return {key: row["text"] for key, row in read_others(view, ids).items()}

    assert tell(piano) == {piano: ADVICE}
    assert tell(advice, lamp, "none") == {advice: PIANO}
    # told once
    assert tell(piano, advice) == {advice: PIANO}
    assert tell(lamp) == tell("none") == tell() == {}


@pytest.mark.parametrize(
    ("query", "sources"),
    [
        ("How heavy is my grandmother's piano?", [PIANO]),  # a person's words alone
        (
            "What did you recommend for my grandmother's piano?",
            [ADVICE, PIANO],
        ),  # the answer, with what it answers
    ],
)
def test_a_turn_is_one_hit_by_whose_words_are_asked_for(
    memory: Memory, query: str, sources: list[str]
) -> None:
    hits = memory.recall(query, kinds="message", everything=True)
    found = [hit for hit in hits if LAMP not in hit.text]
    assert [[one.quote for one in hit.sources] for hit in found] == [sources]
    # the exchange has both, in the order in which they were said
    assert [fragment.text for fragment in found[0].pair] == [PIANO, ADVICE]


def test_a_long_message_is_scored_by_its_best_passage(tmp_path: Path) -> None:
    idle = " ".join(
        f"The {word} of the {quay} quay was painted, oiled and counted before the winter."
        for quay in ("northern", "southern", "eastern", "western")
        for word in [
            "crane",
            "rope",
            "lamp",
            "bench",
            "gate",
            "stair",
            "hoist",
            "rail",
            "crate",
            "buoy",
        ]
    )
    answer = "Okonkwo reads the boiler in the cellar on Mondays."
    near = "The boiler was bought in May, with a warranty of ten years."
    said = [("user", f"{idle} {answer}"), ("user", idle), ("user", near)]
    others = [("user", f"Pump {n} stands in the cellar.") for n in range(4)]
    paths = [
        session(tmp_path, f"s{n}", n + 2, [one])
        for n, one in enumerate([*said, *others])
    ]
    run_night(paths, Settings(store=tmp_path / "store", encoder="hash-384"))
    memory = Memory.open(tmp_path / "store", encoder=HashEncoder())
    asked = "Who reads the boiler in the cellar?"
    first, *rest = memory.recall(asked, 10, "message", everything=True)
    assert first.text == said[0][1]
    assert answer in first.sources[0].quote
    assert "northern" not in first.sources[0].quote
    # its other passages alone stand below all that is near
    assert [hit.text for hit in rest][-1] == idle


def test_a_block_has_the_persons_words_before_the_answer(memory: Memory) -> None:
    asked = "What did you recommend for my grandmother's piano?"
    (part,) = memory.context(asked, 600).parts
    said = [line.source.by for line in part.lines if LAMP not in line.text]
    assert said == ["person", "model"]


@pytest.mark.parametrize(
    ("reply", "assents"),
    [
        ("Wonderful, thanks!", True),
        ("Super, danke", True),
        ("no, that's horrible. undo that", False),
        ("No.", False),
        ("great, but on port 9", False),  # it has a figure
        ("thanks, but no", False),
    ],
)
def test_a_reply_that_only_acknowledges_is_told_from_one_that_says_more(
    reply: str, assents: bool
) -> None:
    assert only_assents(reply) == assents


@pytest.mark.parametrize(
    ("reply", "leans"),
    [
        ("wrong, 31 of the invoices have no number. Check the whole list", True),
        ("nope, the parcel locker by the station closed in the summer", True),
        ("nein, der Termin beim Notar ist erst am Montag darauf", True),
        ("no, undo that", True),  # of few words
        # what goes on without an objection
        ("ok, then rename the column and write the migration for it", False),
        ("thanks, and which of the two ferries takes bicycles on board?", False),
        # what is understood without the answer, for it begins with a matter of its own
        ("The second greenhouse needs a new pump before the frost comes", False),
    ],
)
def test_a_reply_that_begins_with_an_objection_stands_beside_what_it_answers(
    reply: str, leans: bool
) -> None:
    assert leans_by_words(reply) == leans


CHECKED = [
    ("user", "Which versions of Python does the client support?"),
    ("assistant", "From 3.9 on. How about we drop support for Python 3.9 now?"),
    ("user", "two customers still need it, so leave it in"),
    ("assistant", "It stays."),
    ("user", "Where does the API of staging listen?"),
    ("assistant", "The API of staging listens on port 8080."),
    (
        "user",
        "the importer reads the tide tables of all harbours on Monday nights, before the ferries leave",
    ),
    ("assistant", "Noted."),
]


def test_a_short_reply_that_takes_back_by_its_vector_stands_beside_the_first_hit(
    tmp_path: Path,
) -> None:
    """Neither reply begins with an objection, and both are longer than what leans on an answer by its length."""
    assert not any(leans_by_words(CHECKED[at][1]) for at in (2, 6))
    nights = Settings(store=tmp_path / "store")
    parts = {"a": CHECKED[:4], "b": CHECKED[4:]}
    talks = [session(tmp_path, name, 3, part) for name, part in parts.items()]
    run_night(talks, nights)
    memory = Memory.open(nights.store)
    for at, reply in ((1, CHECKED[2][1]), (5, None)):
        hits = memory.recall(CHECKED[at][1], 10, "message", everything=True)
        replies = [
            hit.get_reply()
            for hit in hits
            if CHECKED[at][1] in [fragment.text for fragment in hit.pair]
        ]
        assert set(replies) == {reply}


NOTED = [
    ("user", "Die Rechnungen heben wir sieben Jahre auf."),
    ("assistant", "Verstanden."),
    ("user", "发票存放在三楼的蓝色柜子里。可以帮我改一下错字吗？"),
    ("assistant", "好的。"),
    ("user", "Wer betreut die neue Kollegin?"),
    ("assistant", "Ana Weiss."),
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        # what an assistant said is asked for, and it said nothing
        ("What did you tell me about Rechnungen?", NOTED[0][1]),
        ("What did you advise on 蓝色柜子?", NOTED[2][1]),
        # a short reply to a message that only asks is the answer
        ("What did you say, wer betreut die Kollegin?", NOTED[5][1]),
    ],
)
def test_an_acknowledgement_stands_behind_what_it_acknowledges(
    tmp_path_factory: pytest.TempPathFactory, query: str, first: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "noted"
    if not folder.exists():
        path = session(folder, "noted", 3, NOTED)
        run_night([path], Settings(store=folder / "store", encoder="hash-384"))
    memory = Memory.open(folder / "store", encoder=HashEncoder())
    assert memory.recall(query, 3, "message", everything=True)[0].text == first


def test_the_likeliest_line_is_cut_to_clauses_before_a_lesser_one_is_told(
    tmp_path: Path,
) -> None:
    rent = (
        "The landlord agreed to lower the rent of the shop by the river from 6,200 to 5,900 a month, with the deposit "
        "as it was before, and the lease of the shop runs until the end of March of the year after next."
    )
    said = [("user", rent), ("user", "The shop is blue.")]
    path = session(tmp_path, "shop", 3, said)
    run_night([path], Settings(store=tmp_path / "store", encoder="hash-384"))
    memory = Memory.open(tmp_path / "store", encoder=HashEncoder())
    text = memory.context("What is the rent of the shop a month?", 45).text
    assert "deposit as it was before, …" in text  # not the third clause
    assert "year after next" not in text


@pytest.mark.parametrize(
    ("reply", "first"),
    [
        ("Understood.", "The northern buoy of the harbour is painted crimson."),
        # nothing else was answered with it, so it may be the answer
        ("Crimson.", "Which colour does the northern buoy of the harbour have now?"),
    ],
)
def test_a_question_that_got_an_idle_reply_stands_behind_an_answer(
    tmp_path: Path, reply: str, first: str
) -> None:
    told = "The northern buoy of the harbour is painted crimson."
    asked = "Which colour does the northern buoy of the harbour have now?"
    talks = [(told, "Understood."), (LAMP, "Understood."), (asked, reply)]
    paths = [
        session(tmp_path, f"s{n}", n + 2, [("user", one), ("assistant", other)])
        for n, (one, other) in enumerate(talks)
    ]
    run_night(paths, Settings(store=tmp_path / "store", encoder="hash-384"))
    memory = Memory.open(tmp_path / "store", encoder=HashEncoder())
    hits = memory.recall(
        "Which colour does the northern buoy have?", kinds="message", everything=True
    )
    assert hits[0].text == first
