"""Which claims support or depend on which: what a language model is asked, what follows, and that it stands."""

import shutil
from pathlib import Path

import pytest

from slowwave.engines.llm.protocol import Completion
from slowwave.flows.export import export_tables
from slowwave.flows.parts.run import open_run
from slowwave.flows.plan import Line, plan_night
from slowwave.memory import Memory
from slowwave.recall.views.show import show
from slowwave.schemas.settings import ExtractSettings, RelateSettings, Settings
from slowwave.schemas.tables import COMPLETIONS, OBSERVATIONS, QUARANTINE, RELATIONS, TABLES
from slowwave.schemas.vocabulary import RelationKind
from slowwave.store.manifest import compute_table_digest
from slowwave.store.store import Store
from slowwave.tasks.job import StepReport
from slowwave.tasks.llm.library import SHIPPED, Library
from slowwave.tasks.publish.task import publish_release
from slowwave.tasks.relate.by_model import LabelsAnswer, build_questions, parse_labels
from slowwave.tasks.relate.relate import Relation
from slowwave.tasks.relate.task import relate_claims
from tests.relate.test_relate import OTHERS, REDIS, settled, told

ONE, TWO, THREE = (f"{n:08x}" for n in (1, 2, 3))
FOUND = {("same_thing", TWO, ONE), ("same_thing", THREE, ONE), ("same_thing", THREE, TWO)}
LABELS = {("depends_on", TWO, ONE), ("depends_on", THREE, ONE), ("supports", THREE, TWO)}


def tie(start: str, end: str, weight: float = 0.5, kind: str = "same_thing") -> Relation:
    return Relation(RelationKind(kind), start, end, weight, "redis")


def test_a_question_is_about_one_claim_and_stays_the_same_whatever_comes_later() -> None:
    texts = {f"c{n:02}": f"Claim {n}, of Ada's." for n in range(20)}
    of = [tie("c15", f"c{n:02}", n / 20) for n in range(12)]
    more = [tie("c15", "c03", 0.9, "same_file"), tie("c15", "c02", 1, "contradicts")]
    asked = build_questions([*of, *more], texts, Library())
    assert [[pair.end for pair in one.about] for one in asked] == [[f"c{n:02}" for n in range(10)], ["c10", "c11"]]
    assert asked[0].about[3].weight == 0.9
    assert "10. Claim 9" in asked[0].request.messages[1]["content"]
    later = build_questions([tie("c16", "c15", 1.0), *of, *more], texts, Library())
    assert [one.about[0].start for one in later] == ["c16", "c15", "c15"]
    assert [one.request.messages for one in later[1:]] == [one.request.messages for one in asked]


def test_a_label_is_told_from_what_supports_or_depends_and_of_claims_that_were_shown_alone() -> None:
    texts = {key: key for key in "abcde"}
    (question,) = build_questions([tie("e", key) for key in "abcd"], texts, Library())
    answers = ["supports", "supported_by", "depends_on", "needed_by", "neither", "supports"]
    said = [{"earlier": n, "answer": name} for n, name in zip((1, 2, 3, 4, 4, 9), answers, strict=True)]
    value = LabelsAnswer.model_validate({"relations": said})
    found = parse_labels(question, Completion(question.request.id, "", value=value))
    assert [(one.kind, one.start, one.end) for one in found] == [
        ("supports", "e", "a"),
        ("supports", "b", "e"),
        ("depends_on", "e", "c"),
        ("depends_on", "d", "e"),
    ]


@pytest.fixture(scope="module")
def related(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three claims about one thing and seven of another workspace, related without a model."""
    folder = tmp_path_factory.mktemp("labels")
    settled(folder, *REDIS, *OTHERS)
    return folder / "store"


@pytest.fixture
def store(related: Path, tmp_path: Path) -> Path:
    shutil.copytree(related, tmp_path / "store")
    return tmp_path / "store"


def label(store: Path, script: str | None = "reasoning", **more: object) -> StepReport:
    """The step alone, by a model of that name, and a release."""
    llm = f"scripted:tests.llm_scripts:{script}" if script else "off"
    asked = {"llm": llm, "relate": RelateSettings(pairs=1_000), **more}
    settings = Settings(store=store, encoder="hash-384").model_copy(update=asked)
    with open_run("label", settings) as (job, _):
        report = relate_claims(job)
        publish_release(job)
        return report


def test_what_a_model_says_is_told_wherever_relations_are(store: Path, tmp_path: Path) -> None:
    assert label(store).counts["scripted: requests"] == 2
    assert told(Settings(store=store)) == FOUND | LABELS
    memory = Memory.open(store)
    told_of = {(one.id, one.relation) for one in memory.related(ONE)}  # a claim once, by the first of equals
    assert told_of == {(TWO, "needed_by"), (THREE, "needed_by")}
    shown = {(one["id"], one["relation"]) for one in show(memory.snapshot, TWO).as_dict()["related"]}
    assert {(ONE, "depends_on"), (THREE, "supported_by")} <= shown
    export_tables(Settings(store=store, encoder="hash-384"), tmp_path / "out", "graphml")
    graph = (tmp_path / "out" / "relations.graphml").read_text()
    assert (graph.count(">depends_on<"), graph.count(">supports<")) == (2, 1)


def test_without_a_model_it_stands_while_its_claims_do_and_rules_alone_have_none(store: Path) -> None:
    label(store)
    digest = compute_table_digest(RELATIONS, Store.open(store).read(RELATIONS))
    label(store, None)
    versions = Store.open(store).read_versions(TABLES.values())
    again = label(store)
    assert again.counts["scripted: requests"] == again.counts["scripted: cache hits"] == 2
    assert compute_table_digest(RELATIONS, Store.open(store).read(RELATIONS)) == digest
    label(store)
    assert Store.open(store).read_versions([RELATIONS])[RELATIONS.name] == versions[RELATIONS.name]
    with open_run("test", Settings(store=store)) as (job, _):
        job.store.delete_ids(OBSERVATIONS, [THREE])
    label(store, None)
    assert told(Settings(store=store)) == {("same_thing", TWO, ONE), ("depends_on", TWO, ONE)}
    label(store, engine="extractive")
    assert told(Settings(store=store)) == {("same_thing", TWO, ONE)}


def test_what_waits_is_asked_by_the_next_night_and_no_answer_is_paid_for_twice(store: Path, tmp_path: Path) -> None:
    few = label(store, relate=RelateSettings(pairs=1))
    assert few.counts["scripted: requests"] == Store.open(store).count(COMPLETIONS) == 1
    waiting = few.counts["pairs left for another night"]
    assert waiting == 3 - len(labels := told(Settings(store=store)) - FOUND) > 0
    prompt = (SHIPPED / "prompts" / "relate.md").read_text().replace("When in doubt", "Whenever in doubt")
    (tmp_path / "relate.md").write_text(prompt)
    other = label(store, "absent", extract=ExtractSettings(prompts=tmp_path))
    assert (other.counts["pairs left for another night"], other.counts["rows in quarantine"]) == (3, 0)
    assert told(Settings(store=store)) - FOUND == labels  # what was said before stands while nobody answers
    rest = label(store, relate=RelateSettings(pairs=1))
    assert (rest.counts["scripted: cache hits"], rest.counts["pairs left for another night"]) == (1, 0)
    assert told(Settings(store=store)) == FOUND | LABELS
    assert label(store).rows_in == 0
    assert label(store, relate=RelateSettings(pairs=0)).counts["scripted: requests"] == 0
    assert told(Settings(store=store)) == FOUND | LABELS


def test_an_answer_that_is_none_is_quarantined_and_not_asked_for_again(store: Path) -> None:
    assert label(store, "refusing").counts["rows in quarantine"] == 2
    assert told(Settings(store=store)) == FOUND
    rows = [row for row in Store.open(store).read(QUARANTINE).to_pylist() if row["step"] == "relate"]
    assert all("can't help" in row["excerpt"] and row["reason"] and not row["resolved"] for row in rows)
    assert label(store, "refusing").rows_in == 0


def test_killed_after_the_answers_it_ends_the_same(
    store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(store, other)
    label(other)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "merge_changed", _die)
        with pytest.raises(KeyboardInterrupt):
            label(store)
    assert label(store).counts["scripted: cache hits"] == 2
    wanted, got = (compute_table_digest(RELATIONS, Store.open(one).read(RELATIONS)) for one in (other, store))
    assert wanted == got


def _die(*_: object) -> int:
    raise KeyboardInterrupt


def test_the_plan_counts_the_questions_that_wait(store: Path, tmp_path: Path) -> None:
    def plan(pairs: int) -> dict[str, Line]:
        more = {"llm": "scripted:tests.llm_scripts:reasoning", "relate": RelateSettings(pairs=pairs)}
        empty = tmp_path / "empty"
        empty.mkdir(exist_ok=True)
        settings = Settings(store=store, encoder="hash-384").model_copy(update=more)
        return {line.step: line for line in plan_night([empty], settings).lines}

    before = plan(100)["relate"]
    assert (before.requests, before.cached, before.estimated) == (2, 0, False)
    assert before.prompt_tokens >= label(store).counts["scripted: prompt tokens"]
    assert plan(100)["relate"].requests == 0
    assert "relate" not in plan(0)
