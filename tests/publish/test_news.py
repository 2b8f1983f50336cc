"""Gates on what a night brought: each bound holds what is beyond it, and nothing short of it."""

from dataclasses import replace

import pytest

from slowwave.schemas.settings import GateSettings
from slowwave.tasks.publish.news import News, check_news

CALM = News(messages=200, messages_before=1_000, claims=200, claims_before=150)
"""Six times as many claims a message as there were: a first export of chats beside agents' long sessions."""
BOUNDS = GateSettings(max_growth=7.0, max_tokens=1_000)


def test_a_night_of_other_talk_than_before_is_not_held_back() -> None:
    assert list(check_news(GateSettings(), CALM)) == []
    assert list(check_news(BOUNDS, CALM)) == []


@pytest.mark.parametrize(
    ("gate", "news", "reason"),
    [
        ("max_quarantined", replace(CALM, unread=["no JSON"] * 70), "26% of the new rows could not be used"),
        ("max_rejected", replace(CALM, rejected=["nobody said it"] * 201), "50% of the new claims were not kept"),
        ("max_junk", replace(CALM, junk=["Let me check."] * 181), "90% of the new claims are of no use"),
        ("max_growth", replace(CALM, claims=220), "7.3 times as many"),
        ("max_tokens", replace(CALM, tokens=1_001), "1,001 tokens"),
    ],
)
def test_a_night_beyond_a_bound_is_held_back_and_says_why(gate: str, news: News, reason: str) -> None:
    (told,) = check_news(BOUNDS, news)
    assert reason in told
    assert f"gates.{gate} allows" in told


def test_of_a_few_rows_no_share_is_looked_at() -> None:
    few = News(messages=20, messages_before=1_000, claims=20, claims_before=150, unread=["no JSON"] * 79)
    assert list(check_news(BOUNDS, few)) == []
