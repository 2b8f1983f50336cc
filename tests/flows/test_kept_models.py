"""What a language model made stands through every command without one, and is made again where that is asked for; and
several models in one night, each for its own task and no other, in prompts and lengths of each level.
"""

import shutil
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from slowwave.engines.llm.protocol import Request
from slowwave.flows.exclude import run_exclude
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.flows.reprocess import FORGET, Selection, run_reprocess
from slowwave.schemas.settings import PyramidSettings, Settings
from slowwave.schemas.tables import GISTS, MERGES, OBSERVATIONS, SUMMARIES, TOPICS, Table
from slowwave.schemas.vocabulary import WITHDRAWN
from slowwave.store import Store
from slowwave.tasks.observe.task import CLAIM
from slowwave.tasks.pending import is_made_by_model
from tests.llm_scripts import faithful, kind
from tests.talk_files import SAID, chat

MADE: dict[Table, str] = {OBSERVATIONS: "step_key", GISTS: "step_key", SUMMARIES: "step_key", TOPICS: "step_key"}


def write_talks(folder: Path, sessions: int = 4, upto: int = len(SAID)) -> Path:
    for n in range(sessions):
        said = (text if i == 4 else f"In town {n} {text}" for i, text in enumerate(SAID[:upto]))
        chat(folder, f"s{n}", 2 + n, list(said))
    return folder


def settings(store: Path, script: str | None = "faithful", **more: Any) -> Settings:
    model = {"llm": f"scripted:tests.llm_scripts:{script}", "gists": "llm"} if script else {"gists": "extractive"}
    small = {"pyramid": {"step": 4, "n_sum": 3, "n_sum_sum": 2}, "extract": {"gist_words": 5}}
    return Settings(store=store, encoder="hash-384", **{**small, **model, **more})


def read_made(store: Path) -> dict[str, dict[str, Any]]:
    """Rows of a model's, by table and id; of a claim also what other steps wrote."""
    opened = Store.open(store)
    return {
        f"{table.name} {row[table.key]}": row
        for table, key in MADE.items()
        for row in opened.read(table).to_pylist()
        if is_made_by_model(row[key]) and row.get("reason") != WITHDRAWN
    }


def count(report: RunReport, name: str) -> int:
    return sum(step.counts[name] for step in report.steps)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("kept")
    talks = write_talks(folder / "talks")
    run_night([talks], settings(folder / "store"))
    return folder / "store", talks


def test_no_command_without_a_model_changes_what_one_made(made: tuple[Path, Path]) -> None:
    store, talks = made
    before, versions = read_made(store), Store.open(store).read_versions([SUMMARIES, TOPICS])
    assert {name.split()[0] for name in before} == {"observations", "gists", "summaries", "topics"}
    plain = settings(store, None)
    night = run_night([talks], plain)
    assert read_made(store) == before
    assert night.release is None
    assert count(night, "sessions whose claims a model made, left as they are") == 4
    assert count(night, "summaries that a model wrote, left as they are") > 4
    assert count(night, "claims that a model placed, left there") > 10
    for step in FORGET:
        run_reprocess(step, Selection(), plain)
        assert read_made(store) == before, step
    run_reprocess("summaries", Selection(("s0",)), plain, missing=True)
    assert read_made(store) == before
    assert Store.open(store).read_versions([SUMMARIES, TOPICS]) == versions
    again = run_night([talks], settings(store))  # with the model again nothing is asked
    assert (again.release, again.count_paid_requests(), read_made(store) == before) == (None, 0, True)


def test_a_second_night_without_any_model_counts_no_claims_as_placed_by_one(tmp_path: Path) -> None:
    plain = settings(tmp_path / "s", None)
    nights = [run_night([write_talks(tmp_path / "talks", sessions)], plain) for sessions in (2, 3)]
    assert [count(night, "topics") > 0 for night in nights] == [True, True]
    assert [count(night, "claims that a model placed, left there") for night in nights] == [0, 0]


def test_what_unmerge_takes_apart_stays_apart_and_the_models_rows_stand(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    store, talks = Path(shutil.copytree(made[0], tmp_path / "store")), made[1]
    before = read_made(store)
    ledger = Store.open(store).read(MERGES, where=pc.field("kind") == "duplicate").to_pylist()
    run_exclude([ledger[0]["merge_id"]], "wrong", settings(store, None))
    changed = {name for name, row in read_made(store).items() if before.get(name) != row}
    apart = {f"observations {ledger[0][name]}" for name in ("loser_id", "winner_id")}
    assert {name for name in changed if name.startswith(("observations", "gists"))} <= apart
    assert set(before) - set(read_made(store)) <= {n for n in before if n.startswith("summaries")}  # a group lost one
    for again in (settings(store, None), settings(store)):
        run_night([talks], again)
        rows = Store.open(store).read_ids(OBSERVATIONS, [ledger[0]["loser_id"]]).to_pylist()
        assert [(row["status"], row["canonical_id"]) for row in rows] == [("active", None)]


def test_what_was_said_since_is_added_without_a_model_and_read_by_it_when_it_is_back(tmp_path: Path) -> None:
    store, talks = tmp_path / "store", write_talks(tmp_path / "talks", upto=5)
    run_night([talks], settings(store))
    before = read_made(store)
    write_talks(tmp_path / "talks")
    night = run_night([talks], settings(store, None))
    rows = Store.open(store).read(OBSERVATIONS).to_pylist()
    assert {name: row for name, row in read_made(store).items() if name.startswith("observations")} == {
        name: row for name, row in before.items() if name.startswith("observations")
    }
    added = [row for row in rows if row["observer"] == "extractive"]
    assert added
    assert all(row["topic_id"] for row in added)
    assert count(night, "summaries that wait for a model") >= 4  # each session's master tells of five messages
    stale = Store.open(store).read(SUMMARIES, where=pc.field("stale")).to_pylist()
    told = {(row["scope"], row["text"]) for row in stale}
    of_topics = ("topic", "An account of what was said, in plain prose.")
    assert told == {("session", "An account of the whole conversation."), of_topics}
    assert run_night([talks], settings(store, None)).release is None
    back = run_night([talks], settings(store))
    assert count(back, "summaries that wait for a model") == 0
    rows = Store.open(store).read(OBSERVATIONS).to_pylist()
    assert {row["observer"] for row in rows if row["status"] == "active"} == {"scripted"}
    assert all(is_made_by_model(row["step_key"]) for row in Store.open(store).read(SUMMARIES).to_pylist())


def test_told_to_a_command_makes_it_again_without_a_model(made: tuple[Path, Path], tmp_path: Path) -> None:
    store, talks = Path(shutil.copytree(made[0], tmp_path / "store")), made[1]
    run_night([talks], settings(store, None, engine="extractive"))
    assert not [name for name in read_made(store) if not name.startswith("topics")]
    active = Store.open(store).read(OBSERVATIONS, where=pc.field("status") == "active").to_pylist()
    assert {row["observer"] for row in active} == {"extractive"}


def test_a_model_that_is_away_replaces_none_of_its_claims(tmp_path: Path) -> None:
    store, talks = tmp_path / "store", write_talks(tmp_path / "talks", upto=5)
    run_night([talks], settings(store))
    before = {name: row for name, row in read_made(store).items() if name.startswith("observations")}
    write_talks(tmp_path / "talks")
    away = settings(store, "absent").model_copy(update={"llm": "scripted:tests.llm_scripts:absent > extractive"})
    night = run_night([talks], away)
    assert count(night, "sessions left as a model made them until it is back") == 4
    after = {name: row for name, row in read_made(store).items() if name.startswith("observations")}
    assert after.keys() == before.keys()
    assert all(after[name][column] == row[column] for name, row in before.items() for column in CLAIM)


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
    models = {task: f"scripted:tests.flows.test_kept_models:{task}" for task in TASKS}
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
