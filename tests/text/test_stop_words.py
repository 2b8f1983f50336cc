"""The stop words of a memory, which many of its texts have."""

import pytest

from slowwave.tasks.gists.keywords import extract_phrases
from slowwave.text.stop_words import LEAST_TEXTS, MemoryWords, count_stop_words

GERMAN = [
    f"Die Lieferung {n} kommt {'nicht ' if n % 5 == 0 else ''}am Montag in das Lager {n}."
    for n in range(LEAST_TEXTS)
]
CHINESE = [
    f"我们{'不' if n % 5 == 0 else '都'}在{n}号仓库存放发票。"
    for n in range(LEAST_TEXTS)
]
ENGLISH = [f"The crate {n} is not in the depot." for n in range(3 * LEAST_TEXTS)]


def test_words_in_more_than_a_tenth_of_a_languages_texts_are_stop_words() -> None:
    memory = count_stop_words([*GERMAN, *CHINESE, *ENGLISH])
    # A fifth has "nicht"; each number stands in one text. English has its lists.
    assert "nicht" in memory.stop_words["German"]
    assert "不在" in memory.stop_words["Chinese"]  # as the dictionary splits it
    assert not {"7", "17"} & memory.stop_words["German"]
    assert "English" not in memory.stop_words
    assert memory.main == "English"


def test_few_texts_of_a_language_are_not_counted() -> None:
    assert count_stop_words(GERMAN[1:]).stop_words == {}
    assert count_stop_words([]) == MemoryWords()


@pytest.mark.parametrize(
    ("main", "language"),
    [
        # "on" and "ne" are stop words of Finnish as well
        ("French", "French"),
        ("English", "Finnish"),
        (None, "Finnish"),
    ],
)
def test_a_text_in_a_language_that_nobody_writes_is_in_that_of_the_memory(
    main: str | None, language: str
) -> None:
    memory = MemoryWords(main, {"French": frozenset()})
    text = "On ne déploie jamais le vendredi, pas de MySQL."
    assert memory.find_language(text) == language
    assert memory.find_language("We never deploy on Fridays.") == "English"


def test_a_negation_is_no_keyword() -> None:
    memory = MemoryWords("German", {"German": frozenset({"nicht", "nie"})})
    text = "Rechnungen kommen nicht in den Hof, nie ohne Beleg."
    phrases = extract_phrases(text, memory=memory)
    assert {"rechnungen", "hof", "beleg"} <= set(phrases)
    assert not [phrase for phrase in phrases if "nicht" in phrase or "nie" in phrase]
