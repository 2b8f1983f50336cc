"""Times that texts in other languages name."""

from datetime import UTC, datetime

import pytest

from slowwave.text.times.dates import (
    Date,
    extract_dates,
    extract_spans,
    extract_time_words,
)

NOW = datetime(2026, 11, 18, tzinfo=UTC)
"""A Wednesday."""


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("Was haben wir letzten Dienstag beschlossen?", 17, 18),
        ("¿Qué decidimos el martes pasado?", 17, 18),
        ("Qu'avons-nous décidé mardi dernier ?", 17, 18),
        ("Was haben wir vor 3 Tagen gesagt?", 15, 16),
        ("昨日のエラーは？", 17, 18),
        ("3天前说了什么", 15, 16),
        # The Tuesday of last week, not the last one.
        ("上周二我们决定了什么？", 10, 11),
        ("先週の火曜日に何を決めた？", 10, 11),
        ("¿Qué hicimos hace tres días?", 15, 16),
        ("что было вчера", 17, 18),
    ],
)
def test_stretches_counted_back_in_other_languages(
    text: str, first: int, last: int
) -> None:
    assert [(start.day, end.day) for start, end in extract_spans(text, NOW)] == [
        (first, last)
    ]


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("Was geschah am 5. März 2026?", (2026, 3, 5)),
        ("¿Qué pasó el 5 de marzo de 2026?", (2026, 3, 5)),
        ("la réunion du 5 mars est à Lille", (None, 3, 5)),
        ("3月5日发生了什么？", (None, 3, 5)),
        ("2026年3月のリリース", (2026, 3, None)),
        ("3월 5일에 만났다", (None, 3, 5)),
        ("5 марта 2026 мы переехали", (2026, 3, 5)),
        ("十二月二十五日放假", (None, 12, 25)),
        # too few stop words to tell the language
        ("Wer kam am 5. Oktober?", (None, 10, 5)),
        ("le 14 juillet", (None, 7, 14)),
        # one stop word or none, so of no known language
        ("im Mai 2026", (2026, 5, None)),
        ("août 2025", (2025, 8, None)),
        ("21 de septiembre", (None, 9, 21)),
        ("il 4 maggio", (None, 5, 4)),
    ],
)
def test_dates_in_other_languages(text: str, date: Date) -> None:
    assert date in extract_dates(text).dates


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Mais que faire ?",
            "die Miete ist 1.234,5 Euro",
            "13月40日に会う",
            "mit Humor",
        ),
        "Pasa lunes y martes en la oficina.",  # spends, not last
        "Ce n'est pas mes affaires.",
        "上上周二的事不算。",  # Tuesday of the week before last
        "前天线要换新的。",  # the front antenna: 前|天线
        "一月一次检查。",  # once a month
        "This takes over 1 week of work.",  # Dutch: "over 1 week", in a week
        "We have 2 mars bars in the box.",  # French: 2 March
    ],
)
def test_what_names_no_time(text: str) -> None:
    assert not extract_dates(text).dates
    assert not extract_spans(text, NOW)


def test_the_words_that_name_a_time_are_those_of_the_text() -> None:
    assert {"letzten", "dienstag"} <= extract_time_words(
        "Was war letzten Dienstag mit dem Server?", NOW
    )
    assert "server" not in extract_time_words(
        "Was war letzten Dienstag mit dem Server?", NOW
    )


@pytest.mark.parametrize("piece", ["ich und der 5. ", "3月", "我们1", "vor 3 "])
def test_a_long_text_of_beginnings_ends(piece: str) -> None:
    assert len(extract_dates(piece * 20_000).dates) <= 1
