"""What an experiment is made of: searches, splits, figures and what chance does to them, settings written down."""

import re
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slowwave.schemas.errors import UsageError
from slowwave.tasks.experiment.adopt import set_in_toml
from slowwave.tasks.experiment.definition import Experiment, Params, Range, Search, check_name, load_experiment
from slowwave.tasks.experiment.intervals import (
    compute_calibration,
    compute_chance,
    compute_interval,
    correct_by_holm,
)
from slowwave.tasks.experiment.questions import Question, name_message, split_questions
from slowwave.tasks.experiment.score import Answer, Item, score_answer
from slowwave.tasks.experiment.search import Space, run_search

SPACE = {"recall.floor": (0.5, 0.7), "context.hits": Range(low=10, high=30, step=10)}
FLOOR = {"recall.floor": Range(low=0.0, high=1.0)}
ROOT = Path(__file__).parents[2]
DAY = datetime(2026, 3, 1, tzinfo=UTC)


def rate(params: Params, share: float) -> float:
    return -abs(float(params.get("recall.floor", 0.0)) - 0.6)


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
    assert sorted((one["recall.floor"], one["context.hits"]) for one, _ in tried[1:]) == [
        (floor, hits) for floor in (0.5, 0.7) for hits in (10, 20, 30)
    ]
    with pytest.raises(UsageError, match="6 settings, `trials` allows 5"):
        search(Search(trials=5), SPACE)
    with pytest.raises(UsageError, match="needs `step`"):
        search(Search(), {"recall.floor": Range(low=0.1, high=0.9)})


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
    assert compute_interval([float("nan")], ["a"]).asked == 0


def test_chance_is_small_where_all_differ_one_way_and_large_where_none_does() -> None:
    many = [str(n) for n in range(12)]
    assert compute_chance([0.1] * 12, many) < 0.01
    assert compute_chance([0.1, -0.1] * 6, many) == 1.0
    assert compute_chance([0.1] * 12, ["one"] * 12) == 1.0  # one session proves nothing


def test_holm_corrects_for_all_that_were_looked_at() -> None:
    assert correct_by_holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_calibration_has_bins_of_equal_size() -> None:
    found = compute_calibration([0.1, 0.2, 0.8, 0.9, float("nan")], [0, 1, 1, 1, 1], 2)
    assert [one[1:] for one in found] == [(0.5, 2), (1.0, 2)]
    assert [one[0] for one in found] == pytest.approx([0.15, 0.85])


def test_an_answer_is_scored_by_what_it_shows_and_what_no_longer_holds() -> None:
    old, new = name_message("s1", "m1"), name_message("s2", "m9")
    both = Answer((Item("Port 7070.", (old,)), Item("Port  8200 now.", (new,))), 9)
    one = Question("Which port?", evidence=(old, new, name_message("s3", "m2")), stale=("port 7070",))
    assert score_answer(one, both)[:4:2] == (2 / 3, 1.0)
    marked = Answer((Item("Port 7070.", (old,), True),), 4)
    assert score_answer(one, marked).stale == 0.0
    assert score_answer(Question("Which port?", expect="port 8200"), both).evidence == 1.0
    change = Answer((Item("Port 8200 in place of port 7070.", (new,)),), 8)
    assert score_answer(Question("Which port?", expect="port 8200", stale=("port 7070",)), change).stale == 0.0
    assert score_answer(Question("Which port?", words="the port is 8200, on Tuesdays"), both).evidence == pytest.approx(
        2 / 3
    )
    foreign = Question("Whose cat is it?", kind="foreign")
    assert (score_answer(foreign, both).right, score_answer(foreign, Answer((), 0)).right) == (0.0, 1.0)
    retold = score_answer(Question("Hello", kind="retold", evidence=(new,), any=True), both)
    assert retold.saved == 1.0
    assert retold.evidence != retold.evidence  # it is no question that was asked


def test_a_setting_is_written_and_all_else_left_as_it_was() -> None:
    before = '# mine\nllm = "off"  # no model\n\n[recall]\nfloor = 0.7   # as shipped\n'
    after = set_in_toml(before, {"recall.floor": 0.6, "context.active.words": 0.4})
    assert after.startswith('# mine\nllm = "off"  # no model\n\n[recall]\nfloor = 0.6   # as shipped\n')
    assert "[context.active]\nwords = 0.4\n" in after
    with pytest.raises(UsageError, match="can't be changed"):
        set_in_toml("recall = 3", {"recall.floor": 0.6})


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("recall.flor", "no setting"),
        ("recall", "section"),
        ("store", "not for"),
        ("web.enabled", "not for"),
        ("gates.max_lost", "not for"),
        ("recall.floor.x", "no setting"),
    ],
)
def test_what_no_experiment_may_vary_is_refused(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_name(name)


def test_the_experiments_of_the_docs_are_experiments() -> None:
    told = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "experiments.md").read_text(), re.DOTALL)
    names = [name for one in told for name in Experiment.model_validate(tomllib.loads(one)).space]
    assert len(told) == 2
    for name in names:
        check_name(name)


def test_a_file_that_is_no_experiment_says_why(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    head = 'name = "x"\n[data]\nkind = "locomo"\npaths = ["lost.json"]\n'
    for text, why in [
        ("name = ", "is no experiment"),
        (head, "space: Field required"),
        (head + '[space]\n"recall.flor" = [1]', "no setting recall.flor"),
        (head + '[space]\n"recall.floor" = [1]', "lost.json, which is not there"),
        (head.replace("locomo", "dreams") + '[space]\n"recall.floor" = [1]', "data.kind: Input should be"),
    ]:
        file.write_text(text)
        with pytest.raises(UsageError, match=why):
            load_experiment(file)
