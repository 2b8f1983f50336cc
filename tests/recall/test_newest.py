"""Of hits that tell what is asked for with other figures, the later goes first."""

from datetime import UTC, datetime

import pytest

from slowwave.recall.query import build_query
from slowwave.recall.ranking.rank import ScoredRow, promote_newest

OLD = "And let the API listen on port 8080, that one is free."


def said(key: str, text: str, month: int, workspace: str = "tide") -> ScoredRow:
    row = {"text": text, "ts": datetime(2026, month, 1, tzinfo=UTC), "workspace": workspace, "speaker": None}
    return ScoredRow("message", key, row, 1.0, 0.5)


@pytest.mark.parametrize(
    ("text", "month", "workspace", "first"),
    [
        ("The API now listens on port 9090 instead of 8080, in five files.", 5, "tide", "new"),
        ("The API now listens on port 9090, in five files.", 2, "tide", "old"),  # said before
        ("The API now listens on port 9090, in five files.", 5, "ferry", "old"),  # of another workspace
        ("The chart plotter listens on port 3000.", 5, "tide", "old"),  # of no API
        ("The API listens on that port, all tests pass.", 5, "tide", "old"),  # without a figure
        ("The API still listens on port 8080, all tests pass.", 5, "tide", "old"),  # with the same
    ],
)
def test_the_later_goes_first_where_it_has_what_is_asked_for_and_another_figure(
    text: str, month: int, workspace: str, first: str
) -> None:
    found = [said("old", OLD, 3), said("new", text, month, workspace)]
    query = build_query("On which port does the API listen?", 5, "message")
    assert promote_newest(found, query)[0].id == first


def test_of_a_time_that_is_named_the_message_of_then_stays_first() -> None:
    found = [said("old", OLD, 3), said("new", "The API now listens on port 9090 instead of 8080, in five files.", 5)]
    query = build_query("On which port did the API listen in March 2026?", 5, "message")
    assert promote_newest(found, query)[0].id == "old"
