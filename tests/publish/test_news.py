"""Gates on what a night brought: each bound holds what is beyond it, and nothing short of it."""

from dataclasses import replace

import pytest

from slowwave.schemas.settings import GateSettings
from slowwave.tasks.publish.news import News, check_news

CALM = News(claims=200)
BOUNDS = GateSettings(max_tokens=1_000)


def test_a_calm_night_is_not_held_back() -> None:
    assert list(check_news(GateSettings(), CALM)) == []
    assert list(check_news(BOUNDS, CALM)) == []


@pytest.mark.parametrize(
    ("gate", "news", "reason"),
    [
        ("max_rejected", replace(CALM, rejected=["nobody said it"] * 801), "80% of the new claims were not kept"),
        ("max_junk", replace(CALM, junk=["Let me check."] * 181), "90% of the new claims are of no use"),
        ("max_tokens", replace(CALM, tokens=1_001), "1,001 tokens"),
    ],
)
def test_a_night_beyond_a_bound_is_held_back_and_says_why(gate: str, news: News, reason: str) -> None:
    (told,) = check_news(BOUNDS, news)
    assert reason in told
    assert f"gates.{gate} allows" in told


def test_of_a_few_claims_no_share_is_looked_at() -> None:
    few = News(claims=0, rejected=["nobody said it"] * 19)
    assert list(check_news(BOUNDS, few)) == []
