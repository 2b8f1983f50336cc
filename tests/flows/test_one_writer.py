"""A memory has one writer: rules, or a model. Another one is refused until it is told to rewrite the memory, what the
writer can't make waits, and nobody fills in for it.
"""

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow.compute as pc
import pytest

import tests.llm_scripts as scripts
from slowwave import Memory
from slowwave.cli.common import INCOMPLETE
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.engines.llm.cache import CachedLLM
from slowwave.engines.llm.protocol import Completion, EngineUnavailable, Request
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.flows.exclude import run_exclude
from slowwave.flows.forget import run_forget
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.flows.plan import plan_night
from slowwave.flows.reprocess import Selection, run_reprocess
from slowwave.flows.status import measure_waiting
from slowwave.schemas.counters import Count, CountByKind
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    CLAIMS,
    GISTS,
    MARKS,
    MERGES,
    PASSAGES,
    RELATIONS,
    RELEASED,
    SUMMARIES,
    TOPIC_HISTORY,
    TOPICS,
    Table,
)
from slowwave.store import Store
from slowwave.store.publishing import read_releases
from slowwave.store.releases import Snapshot
from slowwave.tasks.forget.select import Wanted
from slowwave.tasks.llm.writer import name_writer
from tests.command_line import typed
from tests.fake_llm_server import FakeServer, Reply
from tests.killed_nights import FORKS, digests, finished
from tests.llm_scripts import faithful, kind
from tests.talk_files import SAID, chat, session

RULES, MODEL, ANOTHER = (
    "off",
    "scripted:tests.llm_scripts:faithful",
    "scripted:tests.llm_scripts:another",
)
WRITTEN = (
    CLAIMS,
    MERGES,
    RELATIONS,
    TOPICS,
    TOPIC_HISTORY,
    SUMMARIES,
    PASSAGES,
    MARKS,
)
"""What a writer makes, and what hangs on it."""
SMALL: dict[str, Any] = {
    "encoder": "hash-384",
    "keywords": {"top": 0},
    "pyramid": {"step": 4, "n_sum": 3},
}


def settings(store: Path, llm: str = MODEL, **more: Any) -> Settings:
    return Settings(store=store, llm=llm, **{**SMALL, **more})


def write_talks(folder: Path, sessions: int = 4, upto: int = len(SAID)) -> Path:
    for n in range(sessions):
        chat(
            folder,
            f"s{n}",
            2 + n,
            [
                text if i == 4 else f"In town {n} {text}"
                for i, text in enumerate(SAID[:upto])
            ],
        )
    return folder


def read_observers(store: Path, release: str | None = None) -> set[str]:
    """Who made the claims of a release, of the live one unless named."""
    return set(
        Snapshot(store, "default", release)
        .read(CLAIMS, ["observer"])["observer"]
        .to_pylist()
    )


def read_ids(store: Path, table: Table, scope: str | None = None) -> list[str]:
    """The ids of a table's newest rows, of summaries those of a scope."""
    where = None if scope is None else pc.field("scope") == scope
    return sorted(
        Store.open(store).read(table, [table.key], where)[table.key].to_pylist()
    )


def name_writers(store: Path) -> list[str | None]:
    return [release.writer for release in read_releases(Store.open(store))]


def count(report: RunReport, name: Count) -> int:
    return sum(step.counts[name] for step in report.steps)


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_talks(tmp_path_factory.mktemp("said"))


@pytest.fixture(scope="module")
def written(talks: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A store of one night over the talks by each writer."""
    folder = tmp_path_factory.mktemp("written")
    for number, llm in enumerate((RULES, MODEL, ANOTHER)):
        run_night([talks], settings(folder / str(number), llm))
    return {
        llm: folder / str(number) for number, llm in enumerate((RULES, MODEL, ANOTHER))
    }


@pytest.fixture
def copies(written: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    return {
        llm: Path(shutil.copytree(path, tmp_path / path.name))
        for llm, path in written.items()
    }


def test_a_release_names_its_writer_and_a_second_night_changes_nothing(
    written: dict[str, Path], talks: Path
) -> None:
    assert {llm: name_writers(store) for llm, store in written.items()} == {
        RULES: ["rules"],
        MODEL: ["scripted"],
        ANOTHER: ["another"],
    }
    assert [read_observers(store) for store in written.values()] == [
        {"extractive"},
        {"scripted"},
        {"another"},
    ]
    for llm, store in written.items():
        versions = Store.open(store).read_versions(RELEASED)
        assert run_night([talks], settings(store, llm)).release is None
        assert Store.open(store).read_versions(RELEASED) == versions


@pytest.mark.parametrize(
    ("first", "then", "name"), [(RULES, MODEL, "scripted"), (MODEL, RULES, "rules")]
)
def test_another_writer_stops_before_any_work(
    first: str, then: str, name: str, written: dict[str, Path], tmp_path: Path
) -> None:
    store, new = written[first], write_talks(tmp_path / "new", 6)
    versions = Store.open(store).read_versions([*RELEASED, MARKS])
    was = "rules" if first == RULES else "scripted"
    line = (
        f"this memory was written by {was}, and the settings name {name}: name its writer (llm, SLOWWAVE_LLM or "
        f"--llm), or have {name} rewrite it: `slowwave run --rewrite`"
    )
    other = settings(store, then)
    for run in (
        lambda: run_night([new], other),
        lambda: run_reprocess("topics", Selection(), other),
        lambda: run_exclude(["s0"], "wrong", other),
        lambda: run_forget(Wanted(sessions=("s0",)), other),
    ):
        with pytest.raises(UsageError) as stopped:
            run()
        assert str(stopped.value) == line
    assert Store.open(store).read_versions([*RELEASED, MARKS]) == versions
    assert line in plan_night([new], other).notes
    assert measure_waiting(other)["line"] == line


def test_the_command_says_in_one_line_why_it_stops(
    copies: dict[str, Path], talks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("ENCODER", "hash-384"),
        ("KEYWORDS__TOP", "0"),
        ("PYRAMID", '{"step": 4, "n_sum": 3}'),
    ):
        monkeypatch.setenv(f"SLOWWAVE_{name}", value)
    words = ["run", talks, "--plain", "--store", copies[RULES], "--llm", ANOTHER]
    stopped = typed(*words)
    assert stopped.exit_code == 1
    assert stopped.output.count("this memory was written by rules") == 1
    assert len(stopped.output.strip().splitlines()) == 1
    assert typed(*words, "--rewrite").exit_code == 0
    assert name_writers(copies[RULES]) == ["rules", "another"]
    assert typed(*words, "--rewrite").exit_code == 0  # nothing is left to write anew
    assert name_writers(copies[RULES]) == ["rules", "another"]
    assert (
        typed("run", "--rewrite", "--background", "--store", copies[RULES]).exit_code
        == 1
    )


@pytest.mark.parametrize(
    ("first", "then"), [(RULES, MODEL), (MODEL, RULES), (MODEL, ANOTHER)]
)
def test_a_rewritten_memory_is_what_its_writer_would_have_made_alone(
    first: str,
    then: str,
    copies: dict[str, Path],
    written: dict[str, Path],
    talks: Path,
) -> None:
    store = copies[first]
    report = run_night([talks], settings(store, then), rewrite=True)
    assert report.failures == []
    assert digests(store, WRITTEN) == digests(written[then], WRITTEN)
    # A roll-back finds the old one.
    assert read_observers(store, "r1") == read_observers(written[first])
    assert run_night([talks], settings(store, then)).release is None


def test_what_a_person_left_out_stays_out_of_a_rewritten_memory(
    copies: dict[str, Path], talks: Path
) -> None:
    store = copies[RULES]
    claim = (
        Store.open(store)
        .read(CLAIMS, where=pc.field("status") == "active")
        .to_pylist()[0]
    )
    run_exclude([claim["claim_id"]], "wrong", settings(store, RULES))
    run_night([talks], settings(store, ANOTHER), rewrite=True)
    run_night([talks], settings(store, RULES), rewrite=True)
    assert name_writers(store)[-1] == "rules"
    texts = (
        Store.open(store)
        .read(CLAIMS, ["summary"], pc.field("status") == "active")["summary"]
        .to_pylist()
    )
    assert claim["summary"] not in texts
    assert texts


def do_killed_rewrite(store: Path, source: Path, die_after: int, asked: Any) -> None:
    """Rewrite with answers that are kept two by two; count them in `asked`, and die at one of them."""
    complete = ScriptedLLM.complete

    def counted(self: ScriptedLLM, requests: Sequence[Request]) -> Iterator[Completion]:
        for completion in complete(self, requests):
            asked.value += 1
            if asked.value == die_after:
                os.kill(os.getpid(), signal.SIGKILL)
            yield completion

    ScriptedLLM.complete = counted  # type: ignore[method-assign]
    CachedLLM.__init__.__kwdefaults__["batch"] = 2
    run_night([source], settings(store), rewrite=True)


def test_a_rewrite_that_is_killed_answers_by_the_release_before_and_the_next_night_ends_it(
    copies: dict[str, Path], written: dict[str, Path], talks: Path
) -> None:
    store = copies[RULES]
    for share in (3, 2):  # in the claims, then in what rests on them
        asked = FORKS.Value("i", 0)
        process = FORKS.Process(
            target=do_killed_rewrite, args=(store, talks, 12 // share, asked)
        )
        process.start()
        assert finished(process) == -signal.SIGKILL
        assert Memory.open(store, encoder=HashEncoder()).release.name == "r1"
        assert read_observers(store) == {"extractive"}
        line = measure_waiting(settings(store))["line"]
        assert line.startswith(
            "scripted, which is rewriting the memory; until it is done, r1 by rules answers; "
        )
    with pytest.raises(
        UsageError, match="is being rewritten by scripted, and the settings name rules"
    ):
        run_night([talks], settings(store, RULES))
    report = run_night([talks], settings(store))  # needs not be told again
    assert report.failures == []
    assert name_writers(store) == ["rules", "scripted"]
    assert digests(store, WRITTEN) == digests(written[MODEL], WRITTEN)


def test_a_rewrite_can_be_taken_back_before_it_is_done(
    copies: dict[str, Path], written: dict[str, Path], talks: Path
) -> None:
    store = copies[RULES]
    report = run_night(
        [talks], settings(store, model={"max_tokens": 3_000}), rewrite=True
    )
    assert report.failures == [
        "scripted has not written the whole memory yet: the release before answers, the next night goes on"
    ]
    run_night([talks], settings(store, RULES), rewrite=True)
    assert set(name_writers(store)) == {"rules"}
    assert digests(store, WRITTEN) == digests(written[RULES], WRITTEN)


def test_a_budget_spreads_a_rewrite_over_nights_and_no_release_has_a_part_of_it(
    copies: dict[str, Path], written: dict[str, Path], talks: Path
) -> None:
    store, nights = copies[RULES], 0
    while name_writers(store) == ["rules"]:
        run_night([talks], settings(store, model={"max_tokens": 6_000}), rewrite=True)
        nights += 1
        assert nights < 60
    assert nights > 2
    assert name_writers(store) == ["rules", "scripted"]
    observed = Store.open(store).read(CLAIMS, ["claim_id"])["claim_id"].to_pylist()
    alone = (
        Store.open(written[MODEL]).read(CLAIMS, ["claim_id"])["claim_id"].to_pylist()
    )
    assert sorted(observed) == sorted(alone)


def test_a_memory_without_a_claim_changes_its_writer_too(tmp_path: Path) -> None:
    said = session(tmp_path / "said", "s", 2, [("user", "Hello.")])
    run_night([said], settings(tmp_path / "store", RULES))
    run_night([said], settings(tmp_path / "store"), rewrite=True)
    run_night([said], settings(tmp_path / "store"))  # is not refused
    assert name_writers(tmp_path / "store") == ["rules", "scripted"]


def test_before_the_first_release_any_writer_may_begin(tmp_path: Path) -> None:
    # There is nothing to read.
    run_night([tmp_path], settings(tmp_path / "store", RULES))
    run_night([write_talks(tmp_path / "talks", 1)], settings(tmp_path / "store"))
    assert name_writers(tmp_path / "store") == ["scripted"]


class ModelServer(FakeServer):
    """A server of a model that does what it is asked, and goes down when it has answered so often."""

    answers_left = 10_000
    asked = 0

    def reply(self, body: dict[str, Any]) -> Reply:
        with self.lock:
            self.asked += 1
            if self.asked > self.answers_left:
                return Reply(dies=True)
        answer = Asked(
            tuple(body["messages"]), body["response_format"]["json_schema"]["schema"]
        )
        return Reply(orjson.dumps(faithful(answer)).decode())


class Asked(Request):
    """A request as a server gets it."""

    __slots__ = ("form",)
    form: Any

    def __init__(self, messages: Any, form: Any) -> None:
        object.__setattr__(self, "messages", messages)
        object.__setattr__(self, "form", form)

    @property
    def schema(self) -> Any:
        """The form of its answer."""
        return self.form


@pytest.fixture
def server() -> Iterator[ModelServer]:
    server = ModelServer(lambda prompt, nth: "", model="m", window=32_768)
    yield server
    server.down()


def test_what_a_server_that_dies_in_mid_night_leaves_waits_for_the_next_one(
    server: ModelServer, talks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("ENCODER", "hash-384"),
        ("KEYWORDS__TOP", "0"),
        ("PYRAMID", '{"step": 4, "n_sum": 3}'),
    ):
        monkeypatch.setenv(f"SLOWWAVE_{name}", value)
    store, whole, spec = (
        tmp_path / "store",
        tmp_path / "whole",
        f"openai:m@{server.url}",
    )
    run_night([talks], settings(whole, spec))
    # it dies when two of the four sessions are answered
    server.asked, server.answers_left = 0, 2
    words = ("--store", store, "--llm", spec)
    night = typed("run", talks, "--plain", *words, env={"COLUMNS": "200"})
    assert night.exit_code == INCOMPLETE
    assert "left for another night" in night.output
    assert "`slowwave status` shows what waits and why" in night.output
    assert name_writers(store) == ["m"]
    assert read_observers(store) <= {"m"}
    opened = Store.open(store)
    assert 0 < len(opened.read(CLAIMS, ["session_id"])["session_id"].unique()) < 4
    assert opened.count(SUMMARIES) == 0
    # passages answer meanwhile, and `status` says what waits
    texts = {
        hit.text
        for hit in Memory.open(store, encoder=HashEncoder()).recall(
            "violins in a workshop at Braga"
        )
    }
    assert {f"In town {n} {SAID[7]}" for n in range(4)} <= texts
    monkeypatch.setenv("SLOWWAVE_LLM", spec)
    status = typed("status", "--store", store, env={"COLUMNS": "300"})
    (line,) = [line for line in status.output.splitlines() if line.startswith("writer")]
    assert status.exit_code == INCOMPLETE
    assert "summaries of 4 sessions wait: openai:m is unavailable: " in line
    facts = orjson.loads(typed("status", "--json", "--store", store).output)["writer"]
    assert facts["waiting"]["claims"] == 4 - len(
        opened.read(CLAIMS, ["session_id"])["session_id"].unique()
    )
    # up again
    server.answers_left = 10_000
    server.up()
    report = run_night([talks], settings(store, spec))
    assert report.failures == []
    made = [
        (read_ids(path, CLAIMS), read_ids(path, SUMMARIES, "session"))
        for path in (store, whole)
    ]
    # Which of two that say the same stands depends on who came first.
    assert made[0] == made[1]
    assert measure_waiting(settings(store, spec))["line"] == "m"


def test_a_chain_of_models_is_one_writer_and_its_second_stands_in(
    server: ModelServer, talks: Path, tmp_path: Path
) -> None:
    chain = f"openai:first@http://127.0.0.1:9/v1 > openai:m@{server.url}"
    report = run_night([talks], settings(tmp_path, chain))
    assert report.failures == []
    assert read_observers(tmp_path) == {"m"}
    assert name_writers(tmp_path) == ["first"]
    # Nothing is left to be asked.
    alone = run_night([talks], settings(tmp_path, "openai:first@http://127.0.0.1:9/v1"))
    assert (alone.release, alone.failures) == (None, [])
    with pytest.raises(UsageError, match="written by first, and the settings name m: "):
        run_night([talks], settings(tmp_path, f"openai:m@{server.url}"))


@pytest.mark.parametrize(
    "spec",
    [
        f"{MODEL} > extractive",
        "extractive",
        f"extractive > {MODEL}",
        f"{MODEL}→extractive",
    ],
)
def test_rules_fill_in_for_no_model(spec: str, talks: Path, tmp_path: Path) -> None:
    for given in ({"llm": spec}, {"llm": MODEL, "models": {"judge": spec}}):
        with pytest.raises(
            UsageError,
            match="a memory has one writer, and rules never fill in for a model",
        ):
            run_night(
                [talks], Settings(store=tmp_path / "store", encoder="hash-384", **given)
            )
    assert not (tmp_path / "store").exists()


def test_only_a_gist_falls_back_and_is_made_again(
    talks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings(tmp_path, gists="llm", extract={"gist_words": 5})

    def go_down(request: Request) -> Any:
        raise EngineUnavailable("scripted", "it is down")

    with monkeypatch.context() as trouble:
        trouble.setattr(scripts, "faithful", go_down)
        first = run_night([talks], given)
    assert first.release is not None
    assert first.failures == ["scripted is unavailable: it is down"]
    store = Store.open(tmp_path)
    assert (store.count(CLAIMS), store.count(SUMMARIES)) == (0, 0)
    gists = store.read(GISTS).to_pylist()
    assert len(gists) == 4 * len(SAID)
    assert {gist["strategy"] for gist in gists} <= {"extractive", "truncated"}
    assert run_night([talks], given).failures == []
    assert {gist["strategy"] for gist in store.read(GISTS).to_pylist()} == {"llm"}


def test_a_session_that_has_grown_keeps_its_claims_while_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, talks = tmp_path / "store", write_talks(tmp_path / "talks", upto=5)
    run_night([talks], settings(store))
    before = Store.open(store).read(CLAIMS).to_pylist()
    with monkeypatch.context() as trouble:
        trouble.setattr(scripts, "faithful", scripts.absent)
        night = run_night([write_talks(talks)], settings(store))
    assert sum(s.kinds[CountByKind.WAITING]["sessions"] for s in night.steps) == 4
    assert night.failures
    after = Store.open(store).read(CLAIMS).to_pylist()
    assert sorted(after, key=lambda row: row["claim_id"]) == sorted(
        before, key=lambda row: row["claim_id"]
    )
    # but for what a person takes out, with the model still away
    with monkeypatch.context() as trouble:
        trouble.setattr(scripts, "faithful", scripts.absent)
        run_exclude([before[0]["claim_id"]], "wrong", settings(store))
    out = Store.open(store).read_ids(CLAIMS, [before[0]["claim_id"]]).to_pylist()
    assert [row["status"] for row in out] in ([], ["superseded"])
    run_night([talks], settings(store))
    active = (
        Store.open(store).read(CLAIMS, where=pc.field("status") == "active").to_pylist()
    )
    assert len({row["session_id"] for row in active}) == 4
    assert len(active) > len(before)


def test_what_is_forgotten_goes_while_the_model_is_away(
    copies: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = copies[MODEL]
    monkeypatch.setattr(scripts, "faithful", scripts.absent)
    report, certificates = run_forget(
        Wanted(matches=("In town 0 I am allergic",)), settings(store)
    )
    assert (len(certificates), report.release is None) == (1, False)
    assert name_writers(store) == ["scripted", "scripted"]
    for table, column in (
        (CLAIMS, "summary"),
        (TOPICS, "text"),
        (SUMMARIES, "text"),
        (PASSAGES, "text"),
    ):
        texts = Snapshot(store).read(table, [column])[column].to_pylist()
        assert not [
            text for text in texts if text and "In town 0 I am allergic" in text
        ], table.name
    assert read_observers(store) == {"scripted"}


def test_a_same_day_run_asks_no_model_and_its_session_waits(
    copies: dict[str, Path],
    talks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, said = (
        copies[MODEL],
        chat(
            tmp_path / "new", "new", 20, ["The ferry of Espinho is painted green."] * 2
        ),
    )

    def refuse(request: Request) -> Any:
        raise AssertionError("a model is asked")

    for llm in (MODEL, RULES):  # also where this machine's settings name no model
        with monkeypatch.context() as asked:
            asked.setattr(scripts, "faithful", refuse)
            run_night([said], settings(store, llm), same_day=True)
    hits = Memory.open(store, encoder=HashEncoder()).recall(
        "What colour is the ferry of Espinho?"
    )
    assert hits[0].text == "The ferry of Espinho is painted green."
    assert read_observers(store) == {"scripted"}
    line = measure_waiting(settings(store))["line"]
    assert (
        line
        == "scripted; claims of 1 session and summaries of 1 session wait: the next night makes them"
    )
    run_night([talks, said], settings(store))
    assert measure_waiting(settings(store))["line"] == "scripted"


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


summaries.model = "narrator"  # type: ignore[attr-defined]
judge.model = "judge"  # type: ignore[attr-defined]


def make_settings(store: Path, **more: Any) -> Settings:
    models = {task: f"scripted:tests.flows.test_one_writer:{task}" for task in TASKS}
    pyramid = {"step": 4, "n_sum": 3, "n_sum_sum": 2}
    return Settings(
        store=store,
        encoder="hash-384",
        extract={"gist_words": 5},
        **{"gists": "llm", "models": models, "pyramid": pyramid, **more},
    )


def test_each_task_is_asked_of_its_own_model_and_each_level_has_its_length(
    tmp_path: Path, talks: Path
) -> None:
    settings = make_settings(tmp_path / "store")
    # A model that is asked for another's task raises.
    report = run_night([talks], settings)
    assert report.failures == []
    store = Store.open(settings.store)
    assert name_writers(settings.store) == [
        "claims by scripted, topics by scripted, summaries by narrator"
    ]
    assert {row["observer"] for row in store.read(CLAIMS).to_pylist()} == {"scripted"}
    assert {row["text"] for row in store.read(SUMMARIES).to_pylist()} == {
        "In 60 words."
    }
    assert "daily life" in {row["name"] for row in store.read(TOPICS).to_pylist()}
    asked = {step.step for step in report.steps if step.usage}
    assert asked >= {"gists", "observe", "supersede", "assign", "rollup"}
    assert store.count(MERGES, pc.field("kind") == "duplicate") >= 3
    levels = {
        "step": 4,
        "n_sum": 3,
        "n_sum_sum": 2,
        "sum_tokens": 30,
        "max_words": (20, 30, 90),
    }
    longer = run_night([talks], make_settings(settings.store, pyramid=levels))
    # Of another length: they are written again.
    assert count(longer, Count.SUMMARIES_BY_MODEL) > 4
    rows = store.read(SUMMARIES, where=pc.field("scope") == "session").to_pylist()
    lengths = {(0, "In 20 words."), (1, "In 30 words."), (-1, "In 90 words.")}
    assert lengths <= {(row["tier"], row["text"]) for row in rows}


def test_another_model_for_one_task_is_another_writer_and_another_judge_is_not(
    tmp_path: Path, talks: Path
) -> None:
    store = tmp_path / "store"
    models = dict(make_settings(store).models)
    run_night([talks], make_settings(store, gists="off"))
    judged = make_settings(store, gists="off", models=models | {"judge": "off"})
    assert run_night([talks], judged).failures == []
    told = make_settings(store, gists="off", models=models | {"summaries": MODEL})
    with pytest.raises(
        UsageError,
        match=r"written by claims by scripted, .* and the settings name scripted",
    ):
        run_night([talks], told)
    run_night([talks], told, rewrite=True)
    assert name_writers(store)[-1] == "scripted"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "rules"),
        ({"llm": "vllm:Qwen/Qwen3-8B"}, "Qwen/Qwen3-8B"),
        (
            {"llm": "openai:Qwen/Qwen3-8B@http://127.0.0.1:1/v1"},
            "Qwen/Qwen3-8B",
        ),  # on a server the same writer
        (
            {"llm": "openai:a@http://127.0.0.1:1/v1 > openai:b@http://127.0.0.1:2/v1"},
            "a",
        ),
        ({"llm": "scripted", "models": {"judge": "off"}}, "scripted"),
        ({"models": {"judge": "scripted", "talk": "scripted"}}, "rules"),
        (
            {"models": {"extract": "scripted"}},
            "claims by scripted, topics by rules, summaries by rules",
        ),
    ],
)
def test_a_writer_is_named_by_what_makes_claims_topics_and_summaries(
    given: dict[str, Any], name: str
) -> None:
    assert name_writer(Settings(**given)) == name


@pytest.mark.parametrize(("tier", "words"), [(0, 20), (1, 30), (5, 30), (-1, 30)])
def test_the_last_length_is_of_all_levels_above(tier: int, words: int) -> None:
    assert (
        settings(Path("x"), pyramid={"max_words": (20, 30)}).pyramid.get_words(tier)
        == words
    )
