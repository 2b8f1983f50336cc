"""Times that a query names: what was said then comes first; a query of nothing else is answered."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.recall.release.calibration import fit_calibration
from slowwave.recall.release.view import View
from slowwave.schemas.tables import (
    CLAIMS,
    MESSAGES,
    PASSAGES,
    SESSIONS,
    SUMMARIES,
)
from slowwave.store import Store
from slowwave.store.publishing import publish
from slowwave.store.releases import Release
from slowwave.store.upkeep import compact_store
from slowwave.text.times.dates import extract_dates, extract_spans, extract_time_words
from tests.claim_rows import message
from tests.recall_store import add, claim_row, passage_rows, session_rows, summary

DAYS = [
    datetime(2026, 8, 28, 9, tzinfo=UTC) + timedelta(days=n) for n in range(0, 64, 2)
]
"""From 28 August to 29 October."""
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


Said = tuple[datetime, str, str | None]
"""When, what, and by whom."""


def _released(root: Path, said: Sequence[Said], *, told: bool = True) -> Memory:
    """A message a session; where `told`, a claim and a summary of each too, and the release's own scale."""
    messages = [_message(n, *one) for n, one in enumerate(said)]
    store = Store.open(root, create=True)
    add(store, MESSAGES, messages)
    add(store, PASSAGES, passage_rows(messages, vectors=True))
    add(
        store,
        SESSIONS,
        [
            session_rows()[0]
            | {"session_id": one["session_id"], "native_id": one["session_id"]}
            for one in messages
        ],
    )
    claims, summaries = [], []
    for n, (at, text, _) in enumerate(said if told else ()):
        where = {"observed_at": at, "session_id": f"hash-{n:02}"}
        claims.append(claim_row(f"o{n:02}", text, text, f"m{n:02}", **where))
        summaries.append(
            summary(f"s{n:02}", 0, text, [f"m{n:02}"]) | {"first_at": at, "last_at": at}
        )
    add(store, CLAIMS, claims)
    add(store, SUMMARIES, summaries)
    compact_store(store)

    def calibrated(release: Release) -> str:
        return fit_calibration(View(store.dir, release), HashEncoder())

    publish(store, "run", HashEncoder().name, calibrated if told else None)
    return Memory.open(root)


def _message(n: int, at: datetime, text: str, speaker: str | None) -> dict[str, object]:
    here = {
        "message_id": f"m{n:02}",
        "session_id": f"hash-{n:02}",
        "native_id": f"n{n:02}",
        "workspace": "harbour",
    }
    return message(0, text, speaker=speaker, ts=at, tokens=16, **here)


def _note(n: int, at: datetime, speaker: str | None = None) -> Said:
    return (
        at,
        f"Note {n}: the tide gauge at berth {n} was read and the harbour log filled in.",
        speaker,
    )


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    """A note every other day, a claim and a summary of each, all in the same words."""
    return _released(
        tmp_path_factory.mktemp("times") / "store",
        [_note(n, at) for n, at in enumerate(DAYS)],
    )


SEPTEMBER = (datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
OCTOBER = (datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "kinds",
    ["message", "claim", "summary", ("claim", "message", "summary")],
)
@pytest.mark.parametrize(
    ("asked", "when"),
    [
        ("which berths had the tide gauge read in Sept. 2026?", SEPTEMBER),
        ("the harbour log last month", OCTOBER),
    ],
)
def test_what_was_said_in_the_time_named_comes_first(
    memory: Memory, kinds: str, asked: str, when: tuple[datetime, datetime]
) -> None:
    hits = memory.recall(asked, k=8, kinds=kinds, now=NOW)
    assert len(hits) == 8
    inside = [
        hit.observed_at is not None and when[0] <= hit.observed_at < when[1]
        for hit in hits
    ]
    assert sum(inside) >= 7
    assert inside[0]


def test_a_whole_date_is_more_than_its_parts(memory: Memory) -> None:
    """Other messages are of September, of a 29th, and of 2026."""
    for asked in (
        "the gauge on 29 September",
        "the gauge on 2026-09-29",
        "the gauge on September 29th, 2026",
    ):
        first = memory.recall(asked, k=1, now=NOW)[0]
        assert first.observed_at is not None
        assert first.observed_at.date().isoformat() == "2026-09-29"


@pytest.mark.parametrize(
    "asked",
    [
        "what happened last month?",
        "What did we do in October?",
        "what was said on 2026-10-05?",
    ],
)
def test_a_query_of_a_time_alone_is_answered_by_what_was_said_then(
    memory: Memory, asked: str
) -> None:
    hits = memory.recall(asked, k=3, now=NOW)
    assert hits
    assert all(
        hit.observed_at is not None and hit.observed_at.month == OCTOBER[0].month
        for hit in hits
    )


def test_of_a_time_in_which_nothing_was_said_the_nearest_is_told(
    memory: Memory,
) -> None:
    hits = memory.recall("what happened in January?", k=5, now=NOW)
    assert (len(hits), hits.confident, hits.relevance) == (5, False, 0.0)
    assert len(memory.sessions("what happened in January?", 5, now=NOW)) == 5
    unasked = memory.recall("what happened in January?", now=NOW, automatic=True)
    assert (unasked, unasked.reason) == (
        [],
        "the memory has nothing from the time of the question",
    )


def test_what_is_relevant_but_not_of_the_time_is_no_answer_unasked_where_ten_others_are_of_it(
    tmp_path: Path,
) -> None:
    berths = [
        (at, f"Berth {n} was read in October.", None) for n, at in enumerate(DAYS)
    ]
    memory = _released(
        tmp_path / "store",
        [*berths, (datetime(2025, 1, 9, tzinfo=UTC), "We dropped Redis.", None)],
    )
    unasked = memory.recall(
        "Redis on October 5", kinds="message", now=NOW, automatic=True
    )
    assert (unasked, unasked.reason) == ([], "nothing relevant among what was found")


def test_a_time_in_which_much_was_said_makes_nothing_else_relevant(
    memory: Memory,
) -> None:
    assert not memory.recall(
        "which violin concerto did I rehearse last month?", now=NOW, kinds="message"
    ).confident


def test_what_was_said_about_a_time_before_it_came_is_told(tmp_path: Path) -> None:
    said = (
        datetime(2026, 1, 9, 9, tzinfo=UTC),
        "The trip in May goes to Porto instead of Lisbon.",
        None,
    )
    memory = _released(
        tmp_path / "store",
        [said, _note(1, OCTOBER[0]), _note(2, datetime(2025, 5, 9, tzinfo=UTC))],
    )
    hits = memory.recall("Where do we go in May?", kinds="message", now=NOW)
    assert any("Porto" in hit.text for hit in hits)
    assert hits.confident


def test_a_speaker_called_april_is_no_month(tmp_path: Path) -> None:
    spring = datetime(2026, 4, 3, 9, tzinfo=UTC)
    memory = _released(
        tmp_path / "store",
        [_note(0, spring, "Ben"), _note(1, NOW, "April")],
        told=False,
    )
    hits = memory.recall("What did April say of the tide gauge?", k=1, now=NOW)
    assert hits[0].observed_at == NOW


@pytest.fixture(scope="module")
def planning(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    """A talk in October about a date in December, and small talk on that date and all through May."""
    october, december = (
        datetime(2026, 10, 5, 9, tzinfo=UTC),
        datetime(2026, 12, 12, 9, tzinfo=UTC),
    )
    said = [
        (
            october,
            "For the release of 12 December we freeze the schema on the 1st and leave out the invoice export.",
        ),
        (october, "The session cache stays in Redis, Postgres is too slow for it."),
        (december, "The logo is blue now."),
        (december, "We decided on lemonade for the party."),
        (december, "The office plants need water."),
        *(
            (
                datetime(2026, 5, day, 9, tzinfo=UTC),
                f"The garden fence needs paint, coat {day}.",
            )
            for day in range(1, 9)
        ),
    ]
    return _released(
        tmp_path_factory.mktemp("planning") / "store",
        [(at, text, None) for at, text in said],
    )


@pytest.mark.parametrize(
    "asked",
    [
        "What did we leave out of the release of 12 December?",
        "Which schema freeze was agreed for the 12 December release?",
        "When does the invoice export come, if it is left out on 12 December?",
        "When is the schema frozen for the release?",
    ],
)
def test_a_question_about_a_date_is_answered_though_it_was_said_on_another(
    planning: Memory, asked: str
) -> None:
    hits = planning.recall(asked, k=4, now=NOW)
    assert "freeze the schema" in hits[0].text


def test_what_is_of_the_time_and_of_nothing_else_is_not_brought_up(
    planning: Memory,
) -> None:
    """May is a verb here, and 2024.1 a version."""
    for asked in (
        "May I use Redis for the session cache?",
        "Redis 2026.5 for the session cache",
    ):
        assert "Redis" in planning.recall(asked, k=1, now=NOW)[0].text


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("2026-10-12T10:00:00Z", {(2026, 10, 12)}),
        ("2026-13-45 or 2026-00-10", set()),
        ("39 May, 31 Feb", set()),
        ("14/07/2026 and 12.10.2026", {(2026, 7, 14), (2026, 10, 12)}),
        ("3/4/2026 is read in two ways", set()),
        ("on 7 May 2023 or in June", {(2023, 5, 7), (None, 6, None)}),
        ("since March 3rd", {(None, 3, 3)}),
        ("the 3 tests of Sept. 2021", {(2021, 9, None)}),
        ("it may break, so march on in 2023", set()),
        ("between 3 and 5 May", {(None, 5, 3), (None, 5, 4), (None, 5, 5)}),
        ("May I? it may 5 times", set()),
        ("March of the penguins", set()),
        ("in April, since Jan", {(None, 4, None), (None, 1, None)}),
        ("on 5.7. is the release", {(None, 7, 5)}),
        ("das gilt bis 24.12., dann nicht mehr", {(None, 12, 24)}),
        ("python 3.12. stays, see section 4.5. for it", set()),
    ],
)
def test_dates_are_read_as_they_are_written(
    text: str, dates: set[tuple[int | None, int | None, int | None]]
) -> None:
    assert extract_dates(text).dates == dates


@pytest.mark.parametrize(
    "text",
    ["Windows Server 2019", "port 2000", "error 2013 in mysql", "upgrade to 2024.1"],
)
def test_a_number_alone_is_no_year(text: str) -> None:
    assert not extract_dates(text).years
    assert extract_dates("what did we buy in 2019?").years == {2019}


@pytest.mark.parametrize(
    ("text", "start", "days"),
    [
        ("what did I say yesterday?", "2026-11-21", 1),
        ("last week's plan", "2026-11-09", 7),
        ("two months ago", "2026-09-08", 31),
        ("last spring", "2026-03-01", 92),
        ("last winter", "2025-12-01", 90),
        ("last year", "2025-01-01", 365),
        ("last Friday", "2026-11-20", 1),
        ("last weekend", "2026-11-14", 2),  # it is a Sunday: this one is not over
        ("the day before yesterday", "2026-11-20", 1),
        ("the last 3 weeks", "2026-11-01", 22),
        ("on Friday", "2026-11-20", 1),
        ("since Monday", "2026-11-16", 7),
    ],
)
def test_more_spans(text: str, start: str, days: int) -> None:
    (span,) = extract_spans(text, NOW)
    assert (span[0].date().isoformat(), (span[1] - span[0]).days) == (start, days)


def test_words_that_tell_of_a_time() -> None:
    assert {"last", "month", "happened"} <= extract_time_words(
        "what happened last month?", NOW
    )
    for none in ("what may happen", "9999 years ago", "upgrade to 2024.1"):
        assert extract_time_words(none, NOW) == frozenset()
