"""What an experiment is made of: searches, splits, figures and how sure a difference is."""

import re
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slowwave.schemas.errors import UsageError
from slowwave.tasks.experiment.comparison import compute_interval, compute_p_value, correct_by_holm
from slowwave.tasks.experiment.definition import Experiment, Params, Range, Search, Target, check_name, load_experiment
from slowwave.tasks.experiment.questions import Item, Question, name_message, score_answer, split_questions
from slowwave.tasks.experiment.search import Space, run_search

SPACE = {"recall.vector": (0.5, 0.7), "context.hits": Range(low=10, high=30, step=10)}
FLOOR = {"recall.vector": Range(low=0.0, high=1.0)}
ROOT = Path(__file__).parents[2]
DAY = datetime(2026, 3, 1, tzinfo=UTC)


def rate(params: Params, share: float) -> float:
    return -abs(float(params.get("recall.vector", 0.0)) - 0.6)


def search(how: Search, space: Space, seed: int = 0) -> list[tuple[Params, float]]:
    """Return what is tried, on which share of the questions, in order."""
    tried: list[tuple[Params, float]] = []

    def evaluate(params: Params, share: float) -> float:
        tried.append((params, share))
        return rate(params, share)

    run_search(how, space, seed, evaluate)
    return tried


def test_a_grid_has_every_combination_once_and_no_more_than_trials() -> None:
    tried = search(Search(trials=6), SPACE)
    assert tried[0] == ({}, 1.0)
    assert sorted((one["recall.vector"], one["context.hits"]) for one, _ in tried[1:]) == [
        (floor, hits) for floor in (0.5, 0.7) for hits in (10, 20, 30)
    ]
    with pytest.raises(UsageError, match="6 settings, `trials` allows 5"):
        search(Search(trials=5), SPACE)
    with pytest.raises(UsageError, match="needs `step`"):
        search(Search(), {"recall.vector": Range(low=0.1, high=0.9)})


def test_draws_are_within_bounds_each_once_and_the_same_by_seed() -> None:
    space = {"a": Range(low=1, high=3), "b": Range(low=0.001, high=10.0, log=True)}
    random = Search(method="random", trials=20)
    drawn = search(random, space, 5)
    assert drawn == search(random, space, 5) != search(random, space, 6)
    assert {one["a"] for one, _ in drawn[1:]} == {1, 2, 3}
    assert all(0.001 <= float(one["b"]) <= 10 for one, _ in drawn[1:])
    assert sorted(one.get("a", 0) for one, _ in search(random, {"a": (1, 2)})) == [0, 1, 2]  # the space has no more


def test_halving_gives_the_best_more_questions() -> None:
    tried = search(Search(method="halving", trials=27, eta=3), FLOOR, 1)[1:]
    few, more, most, whole = (
        sorted(rate(params, share) for params, share in tried if round(share, 2) == about)
        for about in (0.04, 0.11, 0.33, 1.0)
    )
    assert len(few) > 2 * len(more) > 2 * len(most) > 2 * len(whole) > 0
    assert few[-1] == whole[-1]  # who is best among few questions gets all


def test_optuna_comes_nearer_than_chance_and_the_same_way_twice() -> None:
    found = [search(Search(method="optuna", trials=25), FLOOR, 3) for _ in range(2)]
    assert found[0] == found[1]
    assert max(rate(*one) for one in found[0]) > -0.01


def test_splits_by_time_put_the_earlier_before_the_later() -> None:
    asked = [Question(str(n), at=DAY + timedelta(days=n), expect="x") for n in range(8)]
    parts = split_questions(asked[::-1], "time", (0.5, 0.25, 0.25))
    assert {name: [one.text for one in some] for name, some in parts.items()} == {
        "train": ["0", "1", "2", "3"],
        "validation": ["4", "5"],
        "test": ["6", "7"],
    }


def test_splits_by_group_keep_groups_whole() -> None:
    asked = [
        Question(f"{group}{n}", group, expect="x")
        for group, size in zip("abc", (5, 3, 2), strict=True)
        for n in range(size)
    ]
    parts = split_questions(asked, "group", (0.5, 0.25, 0.25))
    assert [{one.group for one in some} for some in parts.values()] == [{"a"}, {"b"}, {"c"}]
    with pytest.raises(UsageError, match="1 groups leave validation empty"):
        split_questions(asked[:5], "group", (0.5, 0.25, 0.25))


def test_questions_of_one_session_are_drawn_together() -> None:
    apart = compute_interval([0.0, 1.0] * 8, [str(n) for n in range(16)])
    together = compute_interval([0.0, 1.0] * 8, ["a", "b"] * 8)
    assert apart.mean == together.mean == 0.5
    assert (together.low, together.high) == (0.0, 1.0)  # two sessions, of which either may come twice
    assert 0.2 < apart.low < apart.high < 0.8
    assert str(compute_interval([float("nan")], ["a"])) == "–"


def test_chance_is_small_where_all_differ_one_way_and_large_where_none_does() -> None:
    many = [str(n) for n in range(12)]
    assert compute_p_value([0.1] * 12, many) < 0.01
    assert compute_p_value([0.1, -0.1] * 6, many) == 1.0
    assert compute_p_value([0.1] * 12, ["one"] * 12) == 1.0  # one session proves nothing


def test_holm_corrects_for_all_that_were_looked_at() -> None:
    assert correct_by_holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_an_answer_is_scored_by_what_it_shows_and_what_no_longer_holds() -> None:
    old, new = name_message("s1", "m1"), name_message("s2", "m9")
    both = (Item("Port 7070.", (old,)), Item("Port  8200 now.", (new,)))
    question = Question("Which port?", evidence=(old, new, name_message("s3", "m2")), stale=("port 7070",))
    assert score_answer(question, both, 9)[::2] == (1.0, 1.0)
    assert score_answer(question, (Item("Port 7070.", (old,), True),), 4).stale == 0.0
    assert score_answer(Question("Which port?", expect="port 8200"), both, 9).evidence == 1.0
    change = (Item("Port 8200 in place of port 7070.", (new,)),)
    assert score_answer(Question("Which port?", expect="port 8200", stale=("port 7070",)), change, 8).stale == 0.0
    decision = Question("Which port?", words="the port is 8200, on Tuesdays")
    assert score_answer(decision, both, 9).evidence == pytest.approx(2 / 3)
    retold = score_answer(Question("Hello", kind="retold", evidence=(new,)), both, 9)
    assert retold.saved == 1.0
    assert retold.evidence != retold.evidence  # it is no question that was asked


@pytest.mark.parametrize(
    ("name", "target", "why"),
    [
        ("recall.vectr", "context", "no setting"),
        ("recall", "context", "section"),
        ("store", "context", "not for"),
        ("web.enabled", "context", "not for"),
        ("gates.max_lost", "context", "not for"),
        ("recall.vector.x", "context", "no setting"),
        ("context.budget", "recall", "recall does not read context.budget"),
        ("context.active.recent", "context", "context does not read context.active.recent"),
        ("gists", "context", "context does not read gists"),
        ("context.tokenizer", "prompt", "prompt does not read context.tokenizer"),
    ],
)
def test_what_no_experiment_may_vary_is_refused(name: str, target: Target, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_name(name, target)


def test_the_experiments_of_the_docs_are_experiments() -> None:
    told = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "experiments.md").read_text(), re.DOTALL)
    assert told
    for experiment in (Experiment.model_validate(tomllib.loads(text)) for text in told):
        for name in experiment.space:
            check_name(name, experiment.target)


def test_a_file_that_is_no_experiment_says_why(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    head = 'name = "x"\n[data]\nkind = "questions"\npaths = ["lost.json"]\n'
    for text, why in [
        ("name = ", "is no experiment"),
        (head, "space: Field required"),
        (head + '[space]\n"recall.vectr" = [1]', "no setting recall.vectr"),
        (head + '[space]\n"recall.vector" = [1]', "lost.json, which is not there"),
        (head.replace("questions", "dreams") + '[space]\n"recall.vector" = [1]', "data.kind: Input should be"),
    ]:
        file.write_text(text)
        with pytest.raises(UsageError, match=why):
            load_experiment(file)
