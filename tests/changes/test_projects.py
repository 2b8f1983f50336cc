"""What is said in one folder of a repository changes what was said in another; packages and repositories stay apart."""

from pathlib import Path
from typing import NamedTuple

import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MERGES
from slowwave.schemas.vocabulary import LedgerKind
from slowwave.store import Store
from tests.checkouts import commit, git
from tests.transcript_rows import put


class Case(NamedTuple):
    """What was said first and then, each in a folder. The work tree of `tide` is `tree`."""

    first: str
    said: str
    then: str
    changed: str


CHANGES = [
    Case(
        *("tide", "We deploy to the staging host heron on Tuesdays."),
        *("tide/api", "We no longer deploy to heron on Tuesdays, but on Thursdays."),
    ),
    Case(
        *("tide/api", "We use RabbitMQ for the tide queue."),
        *("tide", "We dropped RabbitMQ; the tide queue runs on NATS now."),
    ),
    Case(
        *("tide", "The buoy endpoint listens on port 8443."),
        *("tree", "The buoy endpoint listens on port 9000 now."),
    ),
    Case(
        *("tide/api", "Invoices are numbered per customer."),
        *("tree/api", "Invoices are numbered per year now, no longer per customer."),
    ),
]
# Two packages may differ, and another repository is another matter.
APART = [
    Case(
        *("tide/api", "The tests are run with pytest."),
        *("tide/web", "The tests are run with vitest now."),
    ),
    Case(
        *("tide/api", "Logs are kept for 30 days."),
        *("tree/web", "Logs are kept for 90 days now."),
    ),
    Case(
        *("tide", "The dashboard is written in Svelte."),
        *("mill", "The dashboard is written in Vue now."),
    ),
]


def say(folder: Path, name: str, place: Path, text: str, day: int) -> None:
    at = f"2026-11-{day}T09:00:00Z"
    about = {"session_id": name, "workspace": str(place), "ts": at}
    lines = (("user", text), ("assistant", "Noted."))
    put(
        folder / f"{name}.jsonl",
        tuple({"role": role, "content": said, **about} for role, said in lines),
    )


@pytest.mark.parametrize(
    ("one_place", "expected"), [(False, CHANGES), (True, [*CHANGES, *APART])]
)
def test_a_change_is_found_wherever_in_its_project_it_was_said(
    one_place: bool, expected: list[Case], tmp_path: Path
) -> None:
    for name in ("tide", "mill"):
        commit(tmp_path / name, {"api/a.txt": "a", "web/a.txt": "a"})
    git(tmp_path / "tide", "worktree", "add", "-q", "../tree")
    talk = tmp_path / "talk"
    settings = Settings(store=tmp_path / "store")
    for n, case in enumerate([*CHANGES, *APART]):
        place = tmp_path / ("tide" if one_place else case.first)
        say(talk, f"{n}-first", place, case.said, 10)
    run_night([talk], settings)
    for n, case in enumerate([*CHANGES, *APART]):
        place = tmp_path / ("tide" if one_place else case.then)
        say(talk, f"{n}-then", place, case.changed, 20)
    run_night([talk], settings)

    store = Store.open(settings.store)
    rows = store.read(CLAIMS, ["claim_id", "quote"]).to_pylist()
    quotes = {row["claim_id"]: row["quote"] for row in rows}
    linked = {
        (quotes[row["from_id"]], quotes[row["into_id"]])
        for row in store.read(MERGES).to_pylist()
        if row["kind"] in (LedgerKind.DOUBT, LedgerKind.SUPERSESSION)
    }
    assert linked == {
        (case.said.rstrip("."), case.changed.rstrip(".")) for case in expected
    }
