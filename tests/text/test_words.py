"""What is a word in any script, which language a text is in, and what two forms of a word have in common."""

import pytest

from slowwave.text.full_text import LONGEST_RUN, split_run
from slowwave.text.languages import (
    find_stop_words,
    fold_word,
    is_stop_word,
    stem_in,
)
from slowwave.text.words import (
    compute_word_shares,
    extract_content_words,
    find_text_language,
    singular_words,
    split_pairs,
    split_words,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("画像はS3に保存", ["画像", "は", "s3", "に", "保存"]),
        ("เก็บใบแจ้งหนี้", ["เก็บ", "ใบ", "แจ้ง", "หนี้"]),  # the tones stay
        (
            "हम चालान रखते हैं",
            ["हम", "चालान", "रखते", "हैं"],
        ),  # vowel signs are parts of words
        ("청구서를 10년간", ["청구서를", "10년간"]),
        ("re\u0301sume\u0301 don't", ["re\u0301sume\u0301", "don", "t"]),
        ("Deploy to eu-west_1!", ["deploy", "to", "eu", "west_1"]),
        ("☕️", []),
    ],
)
def test_words_of_any_script(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Wie lange heben wir Rechnungen auf?", "German"),
        ("¿Quién se encarga de la facturación?", "Spanish"),
        ("Où sont stockées les images ?", "French"),
        ("Chi si occupa della nostra fatturazione?", "Italian"),
        ("Кто отвечает за счета?", "Russian"),
        ("发票要保存多久？", "Chinese"),
        ("PostgreSQLを使っています", "Japanese"),
        (
            "Let's see what Caroline's pet is",
            "English",
        ),  # "s" and "t" alone are stop words of French
        ("run tests", None),
        ("CI passes", None),  # "ci" alone is a stop word of Italian
    ],
)
def test_the_language_of_a_text(text: str, language: str | None) -> None:
    assert find_text_language(text) == language


def test_content_words_are_without_the_stop_words_of_their_language() -> None:
    assert extract_content_words("Wie lange heben wir Rechnungen auf?") == [
        "lange",
        "heben",
        "rechnungen",
    ]
    assert extract_content_words("画像はどこに保存する？") == ["画像", "保存"]
    assert extract_content_words("What was the port?") == ["port"]
    assert is_stop_word("die", "German")
    assert not is_stop_word("die", "English")


def test_forms_of_a_word_meet() -> None:
    assert fold_word("Straße") == fold_word("STRASSE") == "strasse"
    assert fold_word("résumé") == fold_word("re\u0301sume\u0301") == "resume"
    assert fold_word("है") == "है"  # no accent, but its vowel
    assert stem_in("jahre", "German") == stem_in("jahren", "German")
    assert singular_words("Wir löschen die Rechnungen") >= singular_words(
        "Welche Rechnung haben wir?"
    )


def test_pairs_of_letters_keep_their_marks() -> None:
    assert split_pairs("データ") == ["デー", "ータ"]
    assert split_pairs("หนี้") == ["หนี้"]
    assert split_pairs("は") == ["は"]
    assert compute_word_shares(["保存"], ["保存期間は七年", "削除する"]) == [1.0, 0.0]


def test_words_are_shared_in_the_singular_or_plural() -> None:
    words = ["cities", "bus", "logs", "y"]
    texts = ["The city's Log", "Buses of two CITIES, a bus", "cit, lo, bu", "Y's"]
    assert compute_word_shares(words, texts) == [0.5, 0.5, 0.0, 0.25]


@pytest.mark.parametrize("letter", ["画", "ก", "a", "я", "\u0301", "👍", "\ud83d"])
def test_a_text_without_a_space_is_split_in_parts(letter: str) -> None:
    text = letter * 100_000
    split_words(text)
    extract_content_words(text)
    assert find_text_language(text) in (None, "Chinese", "Thai", "Russian")
    if letter == "画":
        assert len(split_run(text)) >= len(text) / LONGEST_RUN


def test_stop_words_found_together_are_those_found_one_by_one() -> None:
    words = ["这", "日志", "我们", "する", "った", "क्योंकि", "لا", "ไว้", "\ud83d", ""]
    together = {
        name: find_stop_words(words, name) for name in ("Chinese", "Thai", None)
    }
    assert together == {
        name: {word for word in words if is_stop_word(word, name)} for name in together
    }
    assert "我们" in together["Chinese"]  # we
