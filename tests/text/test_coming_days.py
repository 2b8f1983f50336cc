"""The day that a plan names: the right one, none, or none that has passed. A wrong day is worse than none."""

from datetime import UTC, date, datetime

import pytest

from slowwave.text.times.coming_days import find_coming_day

WEDNESDAY = datetime(2026, 11, 25, 10, tzinfo=UTC)
DAYS = {
    "Next month, by the 10th, we have to renew the domain": date(2026, 12, 10),
    "next month on the 5th rotate the key": date(2026, 12, 5),
    "next month on the 28th rotate the key": date(2026, 12, 28),
    "by the 15th of next month rotate": date(2026, 12, 15),
    "at the end of next month cancel the server": date(2026, 12, 31),
    "next month rotate the key": date(2026, 12, 1),
    "next week on Friday rotate the key": date(2026, 12, 4),
    "nächste Woche Dienstag schalten wir um": date(2026, 12, 1),
    "nächsten Monat löschen": date(2026, 12, 1),
    "am Freitag räume ich auf": date(2026, 11, 27),
    "Morgen räume ich auf": date(2026, 11, 26),
    "vendredi prochain on vérifie": date(2026, 11, 27),
    "el viernes hay que entregar": date(2026, 11, 27),
    "el fin de semana limpio": date(2026, 11, 28),
    "周五之前要发布": date(2026, 11, 27),
    "10日までに公開": date(2026, 12, 10),
}
NONE = [
    "nächsten Monat am 5. umstellen",
    "next year in March renew",
    # no tomorrow, a name, a number of a thing, part of a month
    "Guten Morgen, wir müssen noch die Logs aufräumen",
    "am Morgen räume ich immer auf",
    "jeden Morgen läuft das Backup, das ändern wir später",
    "heute Morgen war es rot, das sehen wir später",
    "Wenn Herr Sonntag anruft, den Vertrag erwähnen",
    "Frag Freitag nach dem Zugang",
    "cuando Domingo vuelva, preguntarle por la clave",
    "3号机器坏了，以后修",
    "12号楼的设备以后换",
    "fine gennaio disdiciamo",
    # what has passed
    "seit Mittwoch ist es rot, das richte ich",
    "vergangenen Freitag ist es ausgefallen, bauen wir noch um",
    "letzten Montag lief es, wir machen es später nochmal",
    "lundi dernier ça marchait, on le refera",
    "depuis lundi c'est cassé, on le réparera",
    "desde el lunes está roto, lo arreglaremos",
    "lunedì scorso funzionava, lo rifaremo",
    "上周五坏了，以后修",
    "先週の金曜日に壊れた、後で直す",
    "지난주 금요일에 깨졌다, 나중에 고치자",
]


@pytest.mark.parametrize(("text", "day"), DAYS.items())
def test_a_day_is_read(text: str, day: date) -> None:
    assert find_coming_day(text, WEDNESDAY, of_plan=True) == day


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_coming_day_is_none(text: str) -> None:
    assert find_coming_day(text, WEDNESDAY, of_plan=True) is None


def test_a_month_from_now_with_a_day_in_chinese_is_not_its_first_day() -> None:
    for text in (
        "下个月5号清理",
        "来月の3日に片付ける",
        "le mois prochain le 5 on bascule",
    ):
        assert find_coming_day(text, WEDNESDAY, of_plan=True) != date(2026, 12, 1)
