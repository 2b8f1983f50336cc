"""Several language models in one night, each for its own task and no other, in prompts and lengths of each level."""

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from slowwave.engines.llm.protocol import Request
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import PyramidSettings, Settings
from slowwave.schemas.tables import MERGES, OBSERVATIONS, SUMMARIES, TOPICS
from slowwave.store import Store
from tests.flows.test_kept_models import count, write_talks
from tests.llm_scripts import faithful, kind

TASKS = {
    "extract": {"claims", "drops", "gist"},
    "summaries": {"account", "master"},
    "topics": {"topics", "merges"},
    "judge": {"pairs", "changes", "relations"},
}


def _answer(task: str, request: Request) -> Any:
    """Do what is asked, where it is this task's."""
    assert kind(request) in TASKS[task], f"{task} was asked for {kind(request)}"
    said = faithful(request)
    return said | {"text": f"{task} told it."} if "text" in said else said


def extract(request: Request) -> Any:
    """Distil alone."""
    return _answer("extract", request)


def summaries(request: Request) -> Any:
    """Sum up alone; say how long the account may be."""
    words = request.messages[0]["content"].partition("at most ")[2].split()[0]
    return _answer("summaries", request) | {"text": f"In {words} words."}


def topics(request: Request) -> Any:
    """Place alone."""
    return _answer("topics", request)


def judge(request: Request) -> Any:
    """Judge alone."""
    return _answer("judge", request)


def make_settings(store: Path, **more: Any) -> Settings:
    models = {task: f"scripted:tests.flows.test_models_by_task:{task}" for task in TASKS}
    pyramid = {"step": 4, "n_sum": 3, "n_sum_sum": 2}
    return Settings(
        store=store,
        encoder="hash-384",
        gists="llm",
        extract={"gist_words": 5},
        **{"models": models, "pyramid": pyramid, **more},
    )


def test_each_task_is_asked_of_its_own_model_and_each_level_has_its_length(tmp_path: Path) -> None:
    settings, talks = make_settings(tmp_path / "store"), write_talks(tmp_path / "talks")
    report = run_night([talks], settings)  # a model that is asked for another's task raises
    assert report.failures == []
    store = Store.open(settings.store)
    assert {row["observer"] for row in store.read(OBSERVATIONS).to_pylist()} == {"scripted"}
    assert {row["text"] for row in store.read(SUMMARIES).to_pylist()} == {"In 60 words."}
    assert "daily life" in {row["name"] for row in store.read(TOPICS).to_pylist()}
    asked = {step.step for step in report.steps if any(": requests" in name for name in step.counts)}
    assert asked >= {"gists", "observe", "supersede", "assign", "rollup"}
    assert store.count(MERGES, pc.field("kind") == "duplicate") >= 3
    levels = {"step": 4, "n_sum": 3, "n_sum_sum": 2, "sum_tokens": 30, "max_words": (20, 30, 90)}
    longer = run_night([talks], settings.model_copy(update={"pyramid": PyramidSettings(**levels)}))
    assert count(longer, "summaries by the model") > 4  # of another length: they are written again
    rows = store.read(SUMMARIES, where=pc.field("scope") == "session").to_pylist()
    lengths = {(0, "In 20 words."), (1, "In 30 words."), (-1, "In 90 words.")}
    assert lengths <= {(row["tier"], row["text"]) for row in rows}
    claims, told = (store.read_versions([table]) for table in (OBSERVATIONS, SUMMARIES))
    other = {"summaries": "scripted:tests.llm_scripts:faithful > extractive"}
    again = run_night([talks], make_settings(settings.store, models=dict(settings.models) | other))
    assert count(again, "summaries by the model") > 4
    assert store.read_versions([OBSERVATIONS]) == claims
    assert store.read_versions([SUMMARIES]) != told


@pytest.mark.parametrize(("tier", "words"), [(0, 20), (1, 30), (5, 30), (-1, 30)])
def test_the_last_length_is_of_all_levels_above(tier: int, words: int) -> None:
    assert PyramidSettings(max_words=(20, 30)).get_words(tier) == words
