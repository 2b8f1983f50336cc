"""Experiments as a user runs them: real stores of the plain encoder, the command, a kill in the middle, a backtest."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slowwave.engines.encoders.protocol import Encoder
from slowwave.flows.experiment import Lab, load_units, run_experiment
from slowwave.flows.nightly import run_night
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import RELEASED
from slowwave.store.manifest import compute_table_digest
from slowwave.store.store import Store
from slowwave.tasks.experiment.definition import load_experiment
from slowwave.tasks.forget.task import rewrite_store
from slowwave.tasks.job import Job
from tests.command_line import typed
from tests.experiment_files import write_experiment
from tests.talk_files import session

ROOT = Path(__file__).parents[2]
PLAIN = {"encoder": "hash-384", "gists": "off", "keywords": {"top": 0}}


def base(folder: Path) -> dict[str, object]:
    return {**PLAIN, "store": str(folder / "store")}


def test_a_setting_that_only_a_question_reads_makes_no_store_anew(tmp_path: Path) -> None:
    one = load_experiment(write_experiment(tmp_path, '"context.budget" = [5]'))
    units, seed = load_units(one, Settings(**base(tmp_path)), tmp_path / "lab")  # type: ignore[arg-type]
    lab = Lab(one, base(tmp_path), units, tmp_path / "lab", seed)
    asked = units[0].questions
    for budget, evidence in ((5, 0.0), (400, 1.0)):
        assert {score.evidence for score in lab.score_questions({"context.budget": budget}, asked)} == {evidence}
    assert lab.made == 1


def test_a_variant_made_from_a_copy_is_what_it_would_be_from_nothing(tmp_path: Path) -> None:
    one = load_experiment(write_experiment(tmp_path, '"pyramid.step" = [2]'))
    digests = []
    for name, before in (("copied", [{}]), ("alone", [])):
        units, seed = load_units(one, Settings(**base(tmp_path)), tmp_path / name)  # type: ignore[arg-type]
        lab = Lab(one, base(tmp_path), units, tmp_path / name, seed)
        for params in (*before, {"pyramid.step": 2, "observe.max_share": 0.9}):
            lab.score_questions(params, units[0].questions)  # type: ignore[arg-type]
        assert lab.made == len(before) + 1
        last = max(
            (path for path in (tmp_path / name).iterdir() if (path / "finished").exists()),
            key=lambda path: (path / "finished").stat().st_mtime_ns,
        )
        store = Store.open(last)
        digests.append({table.name: compute_table_digest(table, store.read(table)) for table in RELEASED})
    assert digests[0] == digests[1]


def test_each_share_of_a_prompt_decides_what_is_found_in_it(tmp_path: Path) -> None:
    """Days 1 to 4 are in memory, 5 to 8 were said in the talk itself."""
    file = write_experiment(tmp_path, '"context.talk.block_share" = [0.3]')
    file.write_text(file.read_text().replace('target = "context"', 'target = "prompt"\nbudget = 500'))
    one = load_experiment(file)
    units, seed = load_units(one, Settings(**base(tmp_path)), tmp_path / "lab")  # type: ignore[arg-type]
    lab = Lab(one, base(tmp_path), units, tmp_path / "lab", seed)

    def ask(**shares: float) -> list[float]:
        sections = dict.fromkeys(("recent", "recent_share", "older", "least"), "active.") | {"briefing_budget": ""}
        params = {f"context.{sections.get(name, 'talk.')}{name}": value for name, value in shares.items()}
        scores = lab.score_questions({"context.talk.answer_tokens": 64, **params}, units[0].questions)
        return [score.evidence for score in scores]

    in_memory, in_talk = [1.0] * 4 + [0.0] * 4, [0.0] * 4 + [1.0] * 4
    assert ask() == [1.0] * 8
    assert ask(turns_share=0, block_share=0.1) == ask(recent=0, older=0) == ask(recent=0, least=9) == in_memory
    assert ask(block_share=0, briefing_budget=0) == in_talk
    assert ask(turns_share=0.3, recent_share=1) == [1.0] * 4 + [0.0] * 3 + [1.0]  # the latest alone
    assert ask(turns_share=0.3, recent_share=0) == [1.0] * 8
    assert lab.made == 1


def test_what_topics_are_is_read_by_their_own_target_and_by_no_other(tmp_path: Path) -> None:
    file = write_experiment(tmp_path, '"topics.alpha" = [0.3]')
    file.write_text(file.read_text().replace('"context"', '"topics"'))
    settings = {**base(tmp_path), "topics": {"merge_at": 1, "fold_at": 1}}
    one = load_experiment(file)
    units, seed = load_units(one, Settings(**settings), tmp_path / "lab")  # type: ignore[arg-type]
    lab = Lab(one, settings, units, tmp_path / "lab", seed)
    tried = ({"topics.threshold": 0.2}, {"topics.threshold": 0.2, "topics.alpha": 0.1}, {"topics.threshold": 0.99})
    together, newer, apart = (lab.score_questions(some, units[0].questions) for some in tried)
    assert sum(score.tokens for score in together) > 0
    assert {score.tokens for score in together} != {score.tokens for score in newer}
    assert {(score.tokens, score.evidence) for score in apart} == {(0, 0)}  # no topic of three
    file.write_text(file.read_text().replace('"topics"', '"recall"'))
    with pytest.raises(UsageError, match=r"recall does not read topics\.alpha"):
        load_experiment(file)


def call(*words: object) -> str:
    done = typed("experiment", *words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_an_experiment_by_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "slowwave.toml"
    config.write_text('encoder = "hash-384"\ngists = "off"\n\n[context]\nbudget = 5\n')
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(config))
    monkeypatch.setenv("SLOWWAVE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("COLUMNS", "200")
    file = write_experiment(tmp_path, '"context.budget" = [5, 400]')
    printed = call(file)
    assert "2 settings were tried on training" in printed
    assert printed.count("1.000 (1.000 to 1.000)") >= 2  # the gain on validation and on test
    assert printed.endswith("for your slowwave.toml:\ncontext.budget = 400\n")
    other = write_experiment(tmp_path, '"context.budget" = [3, 4]').rename(tmp_path / "other.toml")
    assert json.loads(call(other, "--json"))["best"] == {}
    assert config.read_text().endswith("budget = 5\n")  # an experiment changes no setting


def test_an_experiment_makes_no_store_where_there_is_none(tmp_path: Path) -> None:
    file = write_experiment(tmp_path, '"context.budget" = [5, 400]')
    done = typed("experiment", file, "--store", tmp_path / "lost")
    assert done.exit_code == 1
    assert "no store at" in done.stderr
    assert not (tmp_path / "lost").exists()


def test_a_killed_experiment_goes_on_and_repeats_no_trial(tmp_path: Path) -> None:
    values = ", ".join(str(n / 100) for n in range(6))
    file = write_experiment(tmp_path, f'"recall.vector" = [{values}]')
    code = "from slowwave.cli.main import main; main()"
    words = [sys.executable, "-c", code, "experiment", str(file), "--store", str(tmp_path / "store")]
    given = {
        "SLOWWAVE_ENCODER": "hash-384",
        "SLOWWAVE_GISTS": "off",
        "SLOWWAVE_KEYWORDS__TOP": "0",
        "PYTHONPATH": str(ROOT),
    }
    run = subprocess.Popen(words, env=os.environ | given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = tmp_path / "store" / "default" / "experiments"
    scores = folder / "scores.jsonl"
    while run.poll() is None and (not scores.exists() or scores.read_bytes().count(b"\n") < 6):
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    kept = scores.read_bytes()
    made = {path: path.stat().st_mtime_ns for path in folder.rglob("finished")}
    assert made
    with scores.open("ab") as out:
        out.write(b'["cut sho')  # as a kill in the middle of a line leaves it
    one = load_experiment(file)
    settings = base(tmp_path)
    units, seed = load_units(one, Settings(**settings), folder)  # type: ignore[arg-type]
    lab = Lab(one, settings, units, folder, seed)
    first = units[0].questions[0]
    lab.score_questions({"recall.vector": 0.0}, [first])
    assert scores.read_bytes().startswith(kept)
    assert run_experiment(file, settings).tried == 6
    assert not folder.exists()


def test_a_backtest_asks_a_memory_that_knows_nothing_of_later_days(tmp_path: Path, encoder: Encoder) -> None:
    told = tmp_path / "told"
    told.mkdir()
    days = {
        1: [("user", "The dentist is Dr. Amaral in Rua das Flores. We pay her in cash."), ("assistant", "Noted.")],
        2: [("user", "Our van is insured with Fenwick Mutual, policy 5512."), ("assistant", "Noted.")],
        10: [("user", "Good morning, a letter about the van came."), ("assistant", "What does it say?"),
             ("user", "The van is insured with Fenwick Mutual, policy 5512, it says."), ("assistant", "Good.")],
        11: [("user", "Which dentist is it in Rua das Flores?"), ("assistant", "Dr. Amaral.")],
        12: [("user", "Thanks, that is all for today."), ("assistant", "You are welcome.")],
        13: [("user", "Lovely weather, is it not?"), ("assistant", "It is.")],
    }  # fmt: skip
    for day, said in days.items():
        session(told, f"s{day}", day, said)
    settings = Settings(store=tmp_path / "own", gists="off")
    run_night([told], settings).check_complete()
    file = tmp_path / "past.toml"
    file.write_text('name = "past"\n[data]\nkind = "backtest"\ncuts = 1\n[space]\n"context.hits" = [10]\n')
    units, _ = load_units(load_experiment(file), settings, tmp_path / "lab")
    (unit,) = units
    assert unit.name == "2026-03-10"
    assert [(one.kind, one.text, one.evidence) for one in unit.questions] == [
        ("retold", "Good morning, a letter about the van came.", ("s2 s2-0",)),
        ("asked", "Which dentist is it in Rua das Flores?", ("s1 s1-0",)),
    ]
    assert unit.messages.num_rows == 4  # nothing of the days after
    assert {text[:7] for text in unit.messages["text"].to_pylist()} == {"The den", "Our van", "Noted."}


def test_a_past_of_one_day_is_too_short_for_a_backtest_and_told_so(tmp_path: Path, encoder: Encoder) -> None:
    settings = Settings(store=tmp_path / "own", gists="off")
    said = [("user", "Our van is insured with Fenwick Mutual, policy 5512."), ("assistant", "Noted.")]
    run_night([session(tmp_path, "s1", 1, said)], settings).check_complete()
    file = tmp_path / "past.toml"
    file.write_text('name = "past"\n[data]\nkind = "backtest"\n[space]\n"context.hits" = [10]\n')
    with pytest.raises(UsageError, match="nothing is near what was said before"):
        load_units(load_experiment(file), settings, tmp_path / "lab")


def test_what_is_forgotten_goes_from_an_experiment_that_was_killed_too(tmp_path: Path) -> None:
    job = Job(Settings(store=tmp_path, encoder="hash-384"), "r")
    left = job.store.dir / "experiments" / "a-store" / "messages.lance"
    left.mkdir(parents=True)
    rewrite_store(job)
    assert job.store.dir.exists()
    assert not left.parents[1].exists()
