"""A night about a checkout: what the code lost is told in hits, blocks, briefing, claims, and left out of rules."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slowwave.cli.main import app
from slowwave.context.projects.projection import collect_told_claims
from slowwave.context.projects.standing import STANDING, StandingClaim
from slowwave.flows.check_claims import run_claim_check
from slowwave.flows.nightly import run_night
from slowwave.flows.status import collect_status
from slowwave.memory import Memory
from slowwave.recall.views.show import show
from slowwave.schemas.counters import CountByKind
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CHECKS, MARKS, MESSAGES, RELEASED
from slowwave.store import publishing
from slowwave.store.store import Store
from slowwave.tasks.checks import checkout, task
from slowwave.ui.page import Explorer
from slowwave.ui.projects import show_project
from tests.checkouts import LATER, commit, git
from tests.claim_rows import message
from tests.recall_store import add, build

SAYS = [
    "We decided that the retry queue is kept in src/queue_store.py, nothing else writes it",
    "We decided that the rate limiter is kept in src/limiter.py, nothing else reads it",
]
NOTE = "(src/queue_store.py: not in the code since "
NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "ferry"
    commit(folder, {"src/queue_store.py": "q = 1\n", "src/limiter.py": "n = 1\n"})
    rows = [
        {
            "session_id": f"s{session}",
            "message_id": f"s{session}-{number}",
            "role": "assistant" if text == "Understood." else "user",
            "content": text,
            "ts": f"2026-06-0{session}T09:0{number}:00Z",
            "workspace": str(folder),
        }
        for session in (1, 2)
        for number, text in enumerate([SAYS[0], "Understood.", SAYS[1], "Understood."])
    ]
    lines = "\n".join(map(json.dumps, rows))
    (tmp_path / "talk.jsonl").write_text(lines, encoding="utf-8")
    return folder


def make_settings(tmp_path: Path, **more: Any) -> Settings:
    return Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}, **more
    )


def list_rules(memory: Memory, project: Path) -> list[StandingClaim]:
    """What a project's rules have."""
    view, places = memory.get_view(), [str(project)]
    return collect_told_claims(view, places, STANDING, lambda text: False)


def test_a_night_tells_what_the_code_lost_until_it_holds_again(
    project: Path, tmp_path: Path
) -> None:
    settings = make_settings(tmp_path)
    run_night([tmp_path / "talk.jsonl"], settings, now=NOW)
    view = Memory.open(settings.store).get_view()
    assert view.code_checks == {}
    rules = list_rules(Memory.open(settings.store), project)
    assert {claim.text for claim in rules} == set(SAYS)
    # idle nights see a new HEAD
    head = commit(project, {"src/limiter.py": "n = 1\n"}, LATER)
    run_night([tmp_path / "talk.jsonl"], settings, now=NOW)
    memory = Memory.open(settings.store)
    hits = memory.recall("Where are the retry queue and the rate limiter kept?")
    by_text = {hit.text: hit for hit in hits if hit.kind == "message"}
    (check,) = by_text[SAYS[0]].not_in_code
    assert (check.result, head.startswith(check.since)) == ("gone", True)
    assert by_text[SAYS[1]].not_in_code == ()
    assert "not_in_code" in hits[0].as_dict()
    assert NOTE in memory.context("Where is the retry queue kept?", 800).text
    assert NOTE in memory.briefing(800, workspace=str(project)).text
    # `show` of its id says so, also of its message
    lost = next(claim for claim in memory.claims() if claim.not_in_code)
    node = show(memory.get_view(), lost.id).node
    assert NOTE in node.facts["not_in_code"][0]
    assert NOTE in node.below[0].facts["not_in_code"][0]
    words = ["show", lost.id, "--store", str(settings.store)]
    shown = CliRunner().invoke(app, words).output
    assert "(doubted by the code)" in shown.splitlines()[0]
    told = {claim.summary: claim.not_in_code for claim in memory.claims()}
    assert {bool(told[text]) for text in SAYS} == {True, False}
    # it leaves the rules
    assert [claim.text for claim in list_rules(memory, project)] == [SAYS[1]]
    # on the project's page it is marked, behind what holds
    page = show_project(Explorer(settings), str(project))
    holding, lost = page["holds"]
    assert (holding["summary"], holding["code_note"]) == (SAYS[1], "")
    assert lost["summary"] == SAYS[0]
    assert lost["code_note"].startswith(NOTE)
    rows = Store.open(settings.store).read(CHECKS).to_pylist()
    assert {row["result"] for row in rows} == {"found", "gone"}
    # nothing more is done while nothing changes, and all is found again once it is back
    before = Store.open(settings.store).read_versions([CHECKS, MARKS])
    run_claim_check(settings)
    assert Store.open(settings.store).read_versions([CHECKS, MARKS]) == before
    commit(project, {"src/queue_store.py": "q = 2\n", "src/limiter.py": "n"}, LATER)
    run_claim_check(settings)
    assert Memory.open(settings.store).get_view().code_checks == {}


@pytest.mark.parametrize("limit", ["seconds", "bytes"])
def test_what_was_not_read_keeps_its_marks_and_is_tried_again(
    project: Path, tmp_path: Path, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(tmp_path)
    talk = [tmp_path / "talk.jsonl"]
    run_night(talk, settings, now=NOW)
    commit(project, {"src/limiter.py": "n = 1\n"}, LATER)
    run_night(talk, settings, now=NOW)
    marks = list_marks(settings.store)
    (one,) = marks
    assert one.startswith(NOTE)
    commit(project, {"src/limiter.py": "n = 2\n"}, LATER)
    waits, told = [], "ferry: not all of it"
    with monkeypatch.context() as short:
        if limit == "seconds":
            short.setattr(task, "SECONDS", 0.0)
        else:
            short.setattr(checkout, "MOST_OUTPUT", 0)
        for _ in range(4):
            report = run_night(talk, settings, now=NOW)
            (step,) = [one for one in report.steps if one.step == "checks"]
            waits.append(step.kinds[CountByKind.WAITING]["checkouts"])
            assert list_marks(settings.store) == marks
            assert (report.status, told in "".join(step.notes)) == (
                "done",
                step.rows_in > 0,
            )
            assert (
                told
                in {line.heading: line.text for line in collect_status(settings)}[
                    "code"
                ]
            )
    # a state is read three times at most, for a longer time each; more bytes are not to come
    assert waits == ([1, 1, 0, 0] if limit == "seconds" else [0, 0, 0, 0])
    # once all can be read, it is: what is back is told no more
    commit(project, {"src/queue_store.py": "q = 2\n", "src/limiter.py": "n"}, LATER)
    run_night(talk, settings, now=NOW)
    assert list_marks(settings.store) == set()
    assert "code" not in [line.heading for line in collect_status(settings)]


def test_a_checkout_that_is_not_to_be_read_keeps_its_marks(
    project: Path, tmp_path: Path
) -> None:
    settings = make_settings(tmp_path)
    run_night([tmp_path / "talk.jsonl"], settings, now=NOW)
    commit(project, {"src/limiter.py": "n = 1\n"}, LATER)
    run_claim_check(settings)
    marks = list_marks(settings.store)
    assert marks
    # a disk that is away, a HEAD that leads nowhere, objects that lie elsewhere
    away = project.rename(tmp_path / "away")
    run_claim_check(settings)
    assert list_marks(settings.store) == marks
    away.rename(project)
    head = project / ".git" / "HEAD"
    named = head.read_text()
    head.write_text("ref: refs/heads/.invalid\n")
    run_claim_check(settings)
    assert list_marks(settings.store) == marks
    head.write_text(named)
    alternates = project / ".git" / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text("/\n")
    commit(project, {"src/queue_store.py": "q = 2\n", "src/limiter.py": "n"}, LATER)
    report = run_claim_check(settings)
    assert report.steps[0].kinds[CountByKind.CHECKOUTS_REFUSED].total() == 1
    assert list_marks(settings.store) == marks
    # it is read as soon as it can be, without another commit
    alternates.unlink()
    run_claim_check(settings)
    assert list_marks(settings.store) == set()


def test_the_command_lists_what_the_code_lost(project: Path, tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    run_night([tmp_path / "talk.jsonl"], settings, now=NOW)
    commit(project, {"src/limiter.py": "n = 1\n"}, LATER)
    words = ["check-claims", "--store", str(settings.store)]
    shown = CliRunner().invoke(app, words)
    assert (shown.exit_code, NOTE in shown.output) == (0, True)
    assert "(12 Nov 2026)) src/queue_store.py\n" in shown.output
    rows = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    assert {row["name"] for row in rows} == {"src/queue_store.py"}
    # switched off, nothing is marked
    run_claim_check(make_settings(tmp_path, check_claims=False))
    assert Store.open(settings.store).count(CHECKS) == 0
    shown = CliRunner().invoke(app, words, env={"SLOWWAVE_CHECK_CLAIMS": "false"})
    assert shown.output.startswith("Nothing was compared: ")


def test_a_branch_that_a_night_found_is_gone_until_it_is_there_again(
    project: Path, tmp_path: Path
) -> None:
    # never checked out: git keeps no trace of it
    git(project, "branch", "stable/two")
    text = "We decided that releases are always cut from stable/two, nothing else is"
    talk = tmp_path / "talk.jsonl"
    talk.write_text(talk.read_text().replace(SAYS[0], text), encoding="utf-8")
    settings = make_settings(tmp_path)
    run_night([talk], settings, now=NOW)
    assert list_marks(settings.store) == set()
    git(project, "branch", "-D", "stable/two")
    for _ in range(2):  # it is known also from the row that says so
        run_claim_check(settings)
        marks = list_marks(settings.store)
        assert {note[:29] for note in marks} == {"(branch stable/two: gone, las"}
    git(project, "branch", "stable/two")
    run_claim_check(settings)
    assert list_marks(settings.store) == set()


@pytest.mark.parametrize(
    ("words", "marks"),
    [
        (["update-ref", "-d", "refs/remotes/up/stable/two"], 1),
        # it may still be there
        (["remote", "remove", "up"], 0),
    ],
)
def test_a_branch_that_a_night_found_on_a_remote_is_gone_while_that_is_configured(
    project: Path, tmp_path: Path, words: list[str], marks: int
) -> None:
    git(project, "remote", "add", "up", "https://example.org/ferry.git")
    git(project, "update-ref", "refs/remotes/up/stable/two", "HEAD")
    git(project, "branch", "stable/two")
    text = "We decided that releases are always cut from stable/two, nothing else is"
    talk = tmp_path / "talk.jsonl"
    talk.write_text(talk.read_text().replace(SAYS[0], text), encoding="utf-8")
    settings = make_settings(tmp_path)
    run_night([talk], settings, now=NOW)
    git(project, "branch", "-D", "stable/two")
    git(project, *words)
    for _ in range(2):
        run_claim_check(settings)
        assert len(list_marks(settings.store)) == marks


def list_marks(store: Path) -> set[str]:
    """The notes of what the code lost."""
    checks = Memory.open(store).get_view().code_checks
    return {one.note for found in checks.values() for one in found}


def test_a_store_from_before_the_check_reads_and_publishes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        older = tuple(table for table in RELEASED if table != CHECKS)
        before.setattr(publishing, "RELEASED", older)
        store = build(tmp_path / "store")
    view = Memory.open(tmp_path / "store").get_view()
    assert (CHECKS.name in view.release.versions, view.code_checks) == (False, {})
    assert publishing.publish(store, "run", "hash-384") is None  # nothing changed
    add(store, MESSAGES, [message(9, "Something new.", "hash-ses-a")])
    assert publishing.publish(store, "run", "hash-384") is not None
    back = publishing.roll_back(store, "r1", "run")
    assert CHECKS.name not in back.versions
