"""Tests of the dates beside "yesterday" and "next Friday"."""

import re
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from slowwave.text.times.dates import extract_spans
from slowwave.text.times.days import format_minute, get_utc_offset, localise
from slowwave.text.times.relative_days import add_days

NOTE = re.compile(r" \([^)]*\)")
WEDNESDAY = datetime(2026, 4, 8, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "expected",
    [
        "Yesterday (7 Apr 2026) we switched to pnpm.",
        "Yesterday's (7 Apr 2026) relay welded shut, and ‘yesterday (7 Apr 2026)’ it said.",
        "Last week’s (30 Mar to 5 Apr 2026) firing was late.",
        "The freeze starts next Friday (10 or 17 Apr 2026) and lasts two weeks.",
        "The freeze starts next Tuesday (14 Apr 2026).",
        "We ship the day after tomorrow (10 Apr 2026).",
        "I met her last Wednesday (1 Apr 2026).",
        "Invoices are due in 30 days (8 May 2026, counted from 8 Apr).",
        "At 9 we stop, and in two weeks (22 Apr 2026, counted from 8 Apr) we go live.",
        "Two weeks ago (about 25 Mar 2026) it broke.",
        "It moves next month (May 2026), last year (2025) it did not.",
        "Last weekend (4 to 5 Apr 2026) we hiked.",
        "We ship two weeks from now (22 Apr 2026, counted from 8 Apr).",
        "We ship this Friday (10 Apr 2026).",
        "Gestern (7 Apr 2026) haben wir das System umgestellt.",
        "Ab dem nächsten Freitag (10 or 17 Apr 2026) ist der Freeze für alle.",
        "In zwei Wochen (22 Apr 2026, counted from 8 Apr) ziehen wir um.",
        "Vendredi prochain (10 or 17 Apr 2026) on livre la version.",
        "Il y a trois jours (5 Apr 2026) c'était cassé.",
        "下周五 (17 Apr 2026)发布新版本。",
        "来週の金曜日 (17 Apr 2026)にリリースします。",
        # Of these the language is not told, or another one is.
        "Le gel commence vendredi prochain (10 or 17 Apr 2026).",
        "Wir liefern kommenden Montag (13 Apr 2026).",
        "Le contrat finit le mois prochain (May 2026).",
        "Desplegamos dentro de dos semanas (22 Apr 2026, counted from 8 Apr).",
        "La demo es el viernes que viene (10 or 17 Apr 2026).",
        "Два года назад (2024) мы переехали.",
        "В следующую пятницу (10 or 17 Apr 2026) релиз.",
        "两周后 (22 Apr 2026, counted from 8 Apr)搬家。",
        "下个星期五 (17 Apr 2026)发布。",
        "下下周五 (24 Apr 2026)才发布。",
        "再来週 (20 to 26 Apr 2026)は休みではない。",
        "再来週の月曜日 (20 Apr 2026)に移します。",
        "Freitag in einer Woche (17 Apr 2026) ist die Abnahme.",
        "We ship two weeks from Friday (24 Apr 2026).",
        "2週間後 (22 Apr 2026, counted from 8 Apr)に引っ越します。",
        # A weekday beside its week is one time, in either order.
        "Next week Thursday (16 Apr 2026) the plumber comes.",
        "He comes Thursday next week (16 Apr 2026), or on Monday of the week after next (20 Apr 2026).",
        "Last week Tuesday (31 Mar 2026) he came.",
        "Nächste Woche Donnerstag (16 Apr 2026) kommt der Klempner.",
        "Er kommt am Donnerstag nächster Woche (16 Apr 2026) zu uns.",
        "Le plombier vient jeudi de la semaine prochaine (16 Apr 2026).",
        "De loodgieter komt donderdag volgende week (16 Apr 2026) langs.",
        "Come Tuesday or Thursday next week (13 to 19 Apr 2026), please.",
    ],
)
def test_a_day_named_by_its_distance_gets_its_date(expected: str) -> None:
    said = NOTE.sub("", expected)
    assert add_days(said, WEDNESDAY) == expected


@pytest.mark.parametrize("said", ["next week Thursday", "Donnerstag nächster Woche"])
def test_a_dated_text_gets_no_second_date(said: str) -> None:
    dated = add_days(f"The plumber: {said} at nine.", WEDNESDAY)
    assert add_days(dated, WEDNESDAY - timedelta(days=14)) == dated


@pytest.mark.parametrize(
    "text",
    [
        "Let's do it on Monday.",  # before or after: the words do not say
        "Run `git log --since yesterday` daily.",
        "We met in the New Yesterday Café.",
        "Yesterday (7 April) it broke.",
        "It was the last week of May.",
        "We moved half a year ago, or 1.5 years ago.",  # not one year, nor five
        "It broke twenty-one days ago.",
        "We saw it this Monday.",  # said on Wednesday: the last one, or the next
        "Heute Morgen war es kaputt, heute morgen auch.",
        "Today we ship version 3 in 2 parts.",
        "地下周一围都是电缆。",  # underground all around: 地下|周|一围
        "La persona que viene del banco firma.",
        "61 pages in a week is too many.",  # a rate
        "It went down by 62% in three weeks!",
        "61 Seiten in zwei Wochen sind zu viel für uns.",
    ],
)
def test_what_names_no_other_day_stays_as_it_is(text: str) -> None:
    assert add_days(text, WEDNESDAY) == text


def test_a_text_without_a_time_stays_as_it_is() -> None:
    assert add_days("Yesterday we moved.", None) == "Yesterday we moved."


def test_a_number_in_words_counts_days_back_in_a_query_too() -> None:
    spans = extract_spans("Was haben wir vor drei Tagen besprochen?", WEDNESDAY)
    assert [span[0].date().isoformat() for span in spans] == ["2026-04-05"]


@pytest.mark.parametrize(
    "expected",
    [
        "Yesterday (7 Apr 2026) we moved; today we rest.",
        "Nächsten Freitag (10 or 17 Apr 2026) beginnt der Freeze.",
        "On a migré la base hier (7 Apr 2026).",
        "La próxima semana (13 to 19 Apr 2026) publicamos la versión 3.",
        "下周五 (17 Apr 2026)发布新版本。",
    ],
)
@pytest.mark.parametrize("hours", [-4, 9])
def test_at_the_turn_of_a_day_the_day_is_that_of_who_said_it(
    expected: str, hours: int
) -> None:
    late = WEDNESDAY.replace(
        hour=23, minute=30, tzinfo=timezone(timedelta(hours=hours))
    )
    said = NOTE.sub("", expected)
    assert add_days(said, late) == expected
    stored = localise(late.astimezone(UTC), get_utc_offset(late))
    assert add_days(said, stored) == expected
    assert add_days(expected, late) == expected  # a date that stands there stands once
    assert format_minute(stored) == "8 Apr 2026, 23:30"


def test_days_are_those_of_the_machines_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    late = datetime(2026, 4, 9, 2, 30, tzinfo=UTC)  # 22:30 of the 8th in New York
    try:
        assert format_minute(late) == "8 Apr 2026, 22:30"
        assert (
            add_days("Yesterday we moved.", late) == "Yesterday (7 Apr 2026) we moved."
        )
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Pasado mañana viene el técnico.", "20 Nov 2026"),
        ("Dopodomani arriva il pacco.", "20 Nov 2026"),
        ("모레 배포합니다.", "20 Nov 2026"),
        # no stop word, so of no known language
        ("übermorgen: Abgabe", "20 Nov 2026"),
        ("anteontem choveu", "16 Nov 2026"),
        ("L’altro ieri pioveva", "16 Nov 2026"),  # a curly apostrophe
        ("hace dos semanas lo decidimos", "about 4 Nov 2026"),
    ],
)
def test_days_that_are_told_in_other_languages(text: str, day: str) -> None:
    said_at = datetime(2026, 11, 18, tzinfo=UTC)
    assert f"({day})" in add_days(text, said_at)
