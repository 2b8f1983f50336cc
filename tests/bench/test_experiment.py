"""A search for settings: it runs for real on a small store, finds what is known to be better, and refuses bad input."""

import json
from pathlib import Path

import pytest

from bench.experiment import compute_gain, load_definition, measure
from bench.harness import run
from slowwave.schemas.errors import UsageError
from tests.talk_files import session

FACTS = ["heron", "otter", "badger", "lynx", "marten", "weasel", "beaver", "stoat"]
HEAD = 'files = ["ask.queries.json"]\ntalks = ["told"]\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight days' talk, and a question about each."""
    monkeypatch.setenv("SLOWWAVE_KEYWORDS__TOP", "0")
    (tmp_path / "told").mkdir()
    questions = []
    for day, animal in enumerate(FACTS, 1):
        fact = f"We decided that the {animal} service stores its tickets in {animal} region number {day}."
        session(
            tmp_path / "told", f"s{day}", day, [("user", fact), ("assistant", "Noted.")]
        )
        questions.append(
            {
                "query": f"Where does the {animal} service store tickets?",
                "gold": [f"s{day}-0"],
            }
        )
    (tmp_path / "ask.queries.json").write_text(json.dumps(questions))
    return tmp_path


def write(folder: Path, text: str) -> Path:
    file = folder / "try.toml"
    file.write_text(HEAD + text)
    return file


def test_a_conversation_that_calls_up_older_turns_shows_more_than_one_that_does_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (
        "OLDER",
        "RECAP_SHARE",
    ):
        # In force: of sixteen turns the last four alone.
        monkeypatch.setenv(f"SLOWWAVE_CONTEXT__ACTIVE__{name}", "0")
    file = write(
        folder,
        'target = "conversation"\nbudget = 400\n[space]\n"context.active.older" = [0, 200]\n',
    )
    run(
        measure,
        [
            str(file),
            "--store",
            str(folder / "stores"),
            "--encoder",
            "hash-384",
            "--json",
        ],
    )
    *tried, before, after = json.loads(capsys.readouterr().out)
    assert (tried[0]["settings"], tried[0]["training"]) == (
        "context.active.older = 200",
        1.0,
    )
    assert {row["settings"] for row in tried[1:]} == {
        "in force",
        "context.active.older = 0",
    }
    assert (before["settings"], after["settings"], after["rest"]) == (
        "in force",
        "context.active.older = 200",
        1.0,
    )
    assert after["gain"] == pytest.approx(1.0 - before["rest"])
    assert after["low"] <= after["gain"] <= after["high"]
    # No step of a night reads the setting.
    assert len([*(folder / "stores" / "ask").iterdir()]) == 1


def test_a_setting_that_a_night_reads_gets_a_copy_with_a_night_of_its_own(
    folder: Path,
) -> None:
    file = write(
        folder,
        'method = "tpe"\ntrials = 2\n[space]\n"observe.max_share" = { low = 0.1, high = 0.9 }\n',
    )
    stores = folder / "stores"
    figures = measure(file, store=stores, encoder="hash-384")
    assert figures.notes[0] == "4 questions for training, 4 for the rest; 3 nights."
    made = {path.name for path in (stores / "ask").iterdir()}
    assert len(made) == 3
    # The same draws, from the stores that were kept.
    again = measure(file, store=stores, encoder="hash-384")
    assert (again.rows, {path.name for path in (stores / "ask").iterdir()}) == (
        figures.rows,
        made,
    )
    assert again.notes[0].endswith("; 0 nights.")


def test_draws_keep_to_their_range(folder: Path) -> None:
    file = write(
        folder,
        'method = "random"\ntrials = 5\n[space]\n"context.hits" = { low = 2, high = 4 }\n',
    )
    rows = measure(file, store=folder / "stores", encoder="hash-384").rows
    tried = {row["settings"] for row in rows if "training" in row}
    assert tried <= {"in force", *(f"context.hits = {n}" for n in (2, 3, 4))}
    assert len(tried) > 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[space]", "space: Dictionary should have at least 1 item"),
        ('[space]\n"context.hitz" = [1]', "no setting 'context.hitz'"),
        ('[space]\n"context" = [1]', "no setting 'context'"),
        ('[space]\n"store" = ["a"]', "store is given on the command line"),
        ('[space]\n"context.hits" = []', "is not an experiment"),
        ('[space]\n"context.hits" = { low = 3, high = 3 }', "low must be below high"),
        (
            'seeds = 1\n[space]\n"context.hits" = [1]',
            "seeds: Extra inputs are not permitted",
        ),
        ("space = ", "is not an experiment"),
        (
            '[space]\n"context.hits" = [0]',
            "context.hits: Input should be greater than or equal to 1",
        ),
        (
            '[space]\n"recall.automatic_floor" = { low = 0, high = 1 }',
            "a grid needs `step`",
        ),
        (
            'trials = 3\n[space]\n"context.hits" = { low = 1, high = 4, step = 1 }',
            "the grid has 4 settings",
        ),
    ],
)
def test_what_is_no_experiment_is_refused_in_a_line(
    folder: Path, text: str, why: str
) -> None:
    with pytest.raises(SystemExit) as refused:
        run(measure, [str(write(folder, text)), "--encoder", "hash-384"])
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_lost_and_too_few_sessions_are_refused(folder: Path) -> None:
    file = write(folder, '[space]\n"context.hits" = [1]\n')
    questions = json.loads((folder / "ask.queries.json").read_text())
    (folder / "ask.queries.json").write_text(json.dumps(questions[:3]))
    with pytest.raises(UsageError, match="about 3 sessions are too few"):
        measure(file, store=folder / "stores", encoder="hash-384")
    (folder / "ask.queries.json").unlink()
    with pytest.raises(UsageError, match=r"ask\.queries\.json, which does not exist"):
        load_definition(file)


def test_questions_of_one_session_are_drawn_together() -> None:
    apart = compute_gain([0.0] * 16, [0.0, 1.0] * 8, [str(n) for n in range(16)])
    together = compute_gain([0.0] * 16, [0.0, 1.0] * 8, ["a", "b"] * 8)
    assert apart[0] == together[0] == 0.5
    assert together[1:] == (0.0, 1.0)  # two sessions, of which either may come twice
    assert 0.2 < apart[1] < apart[2] < 0.8
