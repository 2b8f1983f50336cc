"""Gists: short, from the message itself, one for every message, whatever fails; what reads them, and their keywords."""

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave import Memory, summarize_text
from slowwave.engines.encoders.protocol import Encoder, HashEncoder
from slowwave.engines.encoders.torch import SentenceTransformerEncoder
from slowwave.engines.llm.protocol import Request
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.flows.reprocess import Selection, run_reprocess
from slowwave.recall.views.show import show
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import GISTS, QUARANTINE, SESSIONS
from slowwave.store import Store
from slowwave.tasks.gists.gists import KEYWORDS, LONGEST, build_gists
from slowwave.tasks.gists.hidden_packages import hide_packages
from slowwave.tasks.gists.keywords import (
    count_phrases,
    extract_keywords,
    extract_phrases,
    split_word_runs,
)
from tests.command_line import typed
from tests.talk_files import session

LONG = (
    "Sure! The nightly job failed because the lock file was left behind by a killed run. "
    "I looked at the logs of the last three nights to find out what they have in common. "
    "Each time the machine had been restarted by the hosting company during the night. "
    "The fix makes the lock file carry the process id, so that a new run can tell a dead owner from a living one. "
    "There is also a test now that kills the run at each step. "
    "Let me know if you want me to look into anything else today, I am happy to help."
)
CODE = "```\n" + "x = 1\n" * 80 + "```"
HASH = HashEncoder(64)
ANSWERS = {
    "Porto": "Twelve backups are kept in Porto.",
    "Faro": "Backups are kept in Lisbon.",
    "Evora": "14 keys.",
}
"""What the model makes of a message, by a word of it."""


def answer(request: Request) -> dict[str, Any]:
    """A model that reads one message well, and two badly."""
    asked = request.messages[-1]["content"]
    summary = next((gist for word, gist in ANSWERS.items() if word in asked), " ")
    return {"summary": summary, "keywords": ["backups"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # ICU splits 遅かった into 遅, か and った, of which only か is on its list of stop words
        ("MySQLは遅かった。", ["mysql"]),
        ("画像はS3に保存することになった。", ["画像", "s3", "保存"]),
        ("設定しました", ["設定"]),
        ("在庫を使わなくなった", ["在庫"]),
        # alone, or at its start, it is a word
        ("すし、おにぎりを注文", ["すし", "おにぎり", "注文"]),
    ],
)
def test_an_ending_of_japanese_is_no_keyword(text: str, words: list[str]) -> None:
    assert [word for run in split_word_runs(text) for word in run] == words


def test_a_long_message_is_told_by_the_sentence_nearest_to_it(encoder: Encoder) -> None:
    (gist,) = build_gists([LONG], encoder.encode)
    assert (
        gist.summary
        == "The nightly job failed because the lock file was left behind by a killed run"
    )
    assert "lock file" in gist.keywords
    assert gist.strategy == "extractive"


def test_a_short_message_is_its_own_summary_without_filler() -> None:
    (gist,) = build_gists(["Hey, thanks! We moved the meeting to Friday."], HASH.encode)
    assert (gist.summary, gist.keywords) == (
        "We moved the meeting to Friday",
        ("moved", "meeting", "friday"),
    )


def test_what_has_no_sentence_or_no_encoder_is_told_by_its_first_words() -> None:
    code, port, no_encoder = build_gists(
        [CODE, "Yes, on port 5433."], HASH.encode
    ) + build_gists([LONG], None)
    assert (code.strategy, port.strategy, no_encoder.strategy) == (
        "truncated",
        "extractive",
        "truncated",
    )
    assert code.summary.startswith("``` x = 1 x = 1")
    assert code.summary.endswith(" …")
    assert no_encoder.summary.startswith("Sure! The nightly job failed")
    assert no_encoder.keywords == build_gists([LONG], HASH.encode)[0].keywords


@given(
    st.lists(
        st.text(alphabet="aI my.,!?\n`#-é東'…(", max_size=600).filter(str.strip),
        min_size=1,
        max_size=4,
    )
)
def test_every_message_has_one_short_gist_that_depends_on_it_alone(
    texts: list[str],
) -> None:
    for encode in (HASH.encode, None):
        gists = build_gists(texts, encode)
        assert all(gist.summary and len(gist.summary) <= LONGEST + 2 for gist in gists)
        assert all(len(gist.keywords) <= KEYWORDS for gist in gists)
        assert gists == [build_gists([text], encode)[0] for text in texts]


def test_a_models_gist_is_held_to_its_message(tmp_path: Path) -> None:
    said = [
        f"From now on we keep 12 backups in {town}."
        for town in ("Porto", "Faro", "Evora", "Braga")
    ]
    lines = [
        {"session_id": "s", "message_id": text[-6:-1], "role": "user", "content": text}
        for text in [*said, "👍"]
    ]
    (tmp_path / "talk.jsonl").write_text("\n".join(map(json.dumps, lines)))
    model = {
        "llm": f"scripted:{__name__}:answer",
        "gists": "llm",
        "extract": {"gist_words": 5},
    }
    run_night(
        [tmp_path / "talk.jsonl"],
        Settings(store=tmp_path / "store", encoder="hash-384", **model),
    )
    store = Store.open(tmp_path / "store")
    assert {
        (row["strategy"], row["summary"]) for row in store.read(GISTS).to_pylist()
    } == {
        ("llm", "Twelve backups are kept in Porto."),
        *(
            ("extractive", f"From now on we keep 12 backups in {town}")
            for town in ("Faro", "Evora", "Braga")
        ),
        ("truncated", "👍"),
    }
    assert {
        row["reason"]
        for row in store.read(QUARANTINE).to_pylist()
        if row["step"] == "gists"
    } == {
        "Lisbon never comes up in the transcript",
        "the number 14 does not come up in the transcript",
        "the answer is not a gist",
    }


TEXT = "Good morning. The ferry to Hoy leaves from pier seven because pier two is closed. Bye."


def test_the_latest_turns_come_with_gists_and_keywords_and_are_found_by_them(
    samples_night: tuple[Path, RunReport],
) -> None:
    memory = Memory.open(samples_night[0], encoder=HashEncoder())
    turns = memory.recent(40)
    assert [turn.said_at for turn in turns] == sorted(
        (turn.said_at for turn in turns), reverse=True
    )
    assert all(turn.gist and len(turn.gist) <= 302 for turn in turns)
    word = next(turn.keywords[0] for turn in turns if turn.keywords)
    assert {word.casefold()} <= {
        key.casefold() for key in memory.recent(1, keyword=word.upper())[0].keywords
    }
    assert {
        turn.workspace for turn in memory.recent(5, workspace="/home/ada/tidepool")
    } == {"/home/ada/tidepool"}
    assert memory.recent(5, keyword="no such keyword") == []
    with pytest.raises(UsageError):
        memory.recent(0)
    shown = show(memory.get_view(), turns[0].id).node.facts
    assert (shown["gist"], shown["keywords"][:1]) == (
        turns[0].gist,
        list(turns[0].keywords[:1]),
    )


def test_a_tag_is_found_again_after_the_night(tmp_path: Path) -> None:
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    talk = session(tmp_path, "one", 1, [("user", TEXT), ("assistant", "Noted.")])
    run_night([talk], settings).check_complete()
    memory = Memory.open(settings.store, encoder=HashEncoder())
    memory.remember("The spare key hangs in the boathouse.", tags=["harbour"])
    run_night([talk], settings).check_complete()
    memory = Memory.open(settings.store, encoder=HashEncoder())
    assert [turn.text for turn in memory.recent(9, tag="harbour")] == [
        "The spare key hangs in the boathouse."
    ]
    told = typed("recent", "1", "--tag", "harbour", "--store", settings.store)
    assert told.output.startswith("The spare key hangs in the boathouse.\n   ")
    assert "#harbour" in told.output


def test_gists_of_a_window_alone_are_filled_in(
    samples_night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    shutil.copytree(samples_night[0], tmp_path / "store")
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", gists="extractive"
    )
    store = Store.open(settings.store)
    store.delete_ids(GISTS, store.read(GISTS)["message_id"].to_pylist())
    since = sorted(filter(None, store.read(SESSIONS)["ended_at"].to_pylist()))[-3]
    run_reprocess("gists", Selection(since=since), settings).check_complete()
    late = {
        row["session_id"]
        for row in store.read(SESSIONS).to_pylist()
        if row["ended_at"] and row["ended_at"] >= since
    }
    assert set(store.read(GISTS)["session_id"].to_pylist()) == late


def test_a_text_is_summed_up_in_its_own_sentence() -> None:
    summary, keywords = summarize_text(TEXT, HashEncoder())
    assert summary in TEXT
    assert "ferry" in " ".join(keywords)
    assert summarize_text(" ") == ("", [])


TEXTS = [
    "We moved the database from MySQL to PostgreSQL because of its JSONB support.",
    "My sister Anna lives in Lisbon and works as a marine biologist.",
    "The flaky test in tests/test_store.py waits for the lock file, so its timeout is now 30 seconds.",
    "Deploys run on Python 3.11 behind nginx; retry_limit stays at three.",
]


def test_phrases_stop_at_stop_words_and_punctuation() -> None:
    assert list(
        split_word_runs(
            "Anna's web-based tools, the C++ parser and src/app/main.py in Python 3.11; don't use __init__"
        )
    ) == [
        ["anna", "web-based", "tools"],
        ["c++", "parser"],
        ["src/app/main.py"],
        ["python", "3.11"],
        ["use", "__init__"],
    ]


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("发票我们统一保存七年。", [["发票"], ["统一", "保存", "七年"]]),
        ("画像はS3に保存し、", [["画像"], ["s3"], ["保存"]]),
        ("हम चालान दस साल रखते।", [["हम", "चालान", "दस", "साल", "रखते"]]),
        (
            "Wir bewahren alle Rechnungen sieben Jahre auf.",
            [["bewahren"], ["rechnungen", "sieben", "jahre"]],
        ),
    ],
)
def test_phrases_of_other_languages_are_of_their_words(
    text: str, runs: list[list[str]]
) -> None:
    assert list(split_word_runs(text)) == runs


def test_a_phrase_is_written_as_its_script_writes_it() -> None:
    assert "统一保存七年" in extract_phrases("发票我们统一保存七年。")


def test_a_number_in_thousands_is_one_word() -> None:
    found = extract_phrases("It cost 1,800 euros, 30 men", 2)
    assert "1,800 euros" in found
    assert not {"800 euros", "800", "1,800", "euros 30"} & set(found)


def test_phrases_are_windows_and_words() -> None:
    words, pairs = (
        ["lock", "file", "timeout"],
        ["lock file", "file timeout", "timeout 30"],
    )
    assert extract_phrases("lock file timeout 30", 2) == words + pairs


def test_runs_that_take_up_most_of_a_text_without_a_model() -> None:
    text = "The lock file is old: 1800. A killed run is what left the lock file; a killed run is a lost run."
    assert count_phrases(text, 4) == ["lock file", "killed run", "lost run", "old"]
    assert count_phrases("1800 and 30", 5) == []
    assert count_phrases("画像 \ud83d 保存", 5) == ["画像", "保存"]
    # Four words in a row are two pieces; "เรา" and "ไว้" are stop words of Thai.
    assert count_phrases("เราเก็บใบแจ้งหนี้ไว้", 5) == ["เก็บใบ", "แจ้งหนี้"]


def test_a_text_that_the_encoder_does_not_read_has_keywords_too(
    encoder: Encoder,
) -> None:
    assert find(["发票我们统一保存七年。", TEXTS[0]], encoder, 2)[0] == [
        *("统一保存七年", "发票")  # the longer first
    ]


def find(texts: list[str], encoder: Encoder, top: int) -> list[list[str]]:
    return extract_keywords(texts, encoder.encode(texts), encoder, top)


def test_keywords_name_what_a_text_is_about(encoder: Encoder) -> None:
    database, sister, *_ = find(TEXTS, encoder, 5)
    assert "jsonb support" in database
    assert {"lisbon", "marine biologist"} <= set(sister)


@pytest.mark.parametrize("top", [5, 3])
def test_the_same_as_keybert_called_per_document(
    encoder: Encoder, original: SentenceTransformerEncoder, top: int
) -> None:
    from keybert import KeyBERT  # brings torch: seconds for whoever collects this file
    from sklearn.feature_extraction.text import CountVectorizer

    model = KeyBERT(model=original.model)
    words = CountVectorizer(analyzer=extract_phrases)
    options = {"vectorizer": words, "top_n": top, "use_mmr": True, "diversity": 0.3}
    expected = [
        [word for word, _ in model.extract_keywords(text, **options)] for text in TEXTS
    ]
    assert find(TEXTS, encoder, top) == expected
    assert [find([text], encoder, top)[0] for text in TEXTS] == expected


def test_packages_are_hidden_from_one_thread_and_only_in_the_block() -> None:
    def has_wave() -> bool:
        sys.modules.pop("wave", None)  # or it is found whatever is hidden
        try:
            import wave  # noqa: F401
        except ModuleNotFoundError:
            return False
        return True

    with hide_packages({"wave"}), ThreadPoolExecutor(1) as other:
        assert (has_wave(), other.submit(has_wave).result()) == (False, True)
    assert has_wave()


def test_a_text_without_candidates_does_not_empty_the_others(
    fake_encoder: HashEncoder,
) -> None:
    texts = ["!!!", "", "the lock file", "and so on", ""]
    assert [bool(words) for words in find(texts, fake_encoder, 5)] == [
        False,
        False,
        True,
        False,
        False,
    ]
    assert find(["of the", ""], fake_encoder, 5) == [[], []]
    assert find([], fake_encoder, 5) == []


def test_top_bounds_the_number(fake_encoder: HashEncoder) -> None:
    assert [len(words) for words in find(TEXTS, fake_encoder, 2)] == [2, 2, 2, 2]
    assert find(TEXTS, fake_encoder, 0) == [[], [], [], []]
