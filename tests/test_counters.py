"""The counters of steps: each has its words, and a report comes back from its row as it was."""

import orjson
import pytest

from slowwave.schemas.counters import (
    USAGE_WORDS,
    WORDS,
    WORDS_BY_KIND,
    Count,
    CountByKind,
    ModelUsage,
)
from slowwave.tasks.job import StepReport, parse_steps


def test_each_counter_has_words_of_its_own() -> None:
    assert (WORDS.keys(), WORDS_BY_KIND.keys()) == (set(Count), set(CountByKind))
    assert len({*WORDS.values()}) == len(WORDS)
    assert vars(ModelUsage()).keys() >= USAGE_WORDS.keys()


def test_a_report_comes_back_from_its_row() -> None:
    report = StepReport("observe", rows_in=3, failed=["the engine is away"])
    report.counts[Count.CLAIMS_KEPT] += 72
    report.kinds[CountByKind.WAITING]["sessions"] += 2
    report.usage["m: 7B"] = ModelUsage(requests=3, cache_hits=1, prompt_tokens=40)
    report.usage["m: 7B"].errors["timeout"] += 1
    row = report.as_dict()
    assert parse_steps(orjson.dumps({"steps": [row]})) == [report]
    assert report.describe_counts() == {
        "claims kept": 72,
        "sessions left for another night": 2,
    }


@pytest.mark.parametrize("place", ["counts", "kinds"])
def test_a_counter_of_another_version_is_left_out(place: str) -> None:
    row = StepReport("observe").as_dict() | {place: {"clams kept": {"a": 1}}}
    assert parse_steps(orjson.dumps({"steps": [row]})) == [StepReport("observe")]


def test_what_another_version_counted_of_a_model_is_left_out() -> None:
    report = StepReport("observe", usage={"m": ModelUsage(requests=3)})
    row = report.as_dict()
    row["usage"]["m"]["joules"] = 7
    assert parse_steps(orjson.dumps({"steps": [row]})) == [report]
