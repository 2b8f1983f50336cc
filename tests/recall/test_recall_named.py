"""A query that names the workspace finds what was said there without naming it."""

from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.recall.query import Query, build_query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import strip_names
from slowwave.schemas.settings import Settings
from tests.talk_files import session

SAID = {
    "/home/ann/gale-force": [
        "linting is flake8 with 100 columns",
        "the tests take four minutes on the small runner",
    ],
    "/home/ann/lanterns": [
        "linting is ruff with 88 columns",
        "the lanterns are lit at dusk, and lanterns stay lit",
    ],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("named")
    files = [
        session(
            folder,
            name,
            2 + n,
            [("user", text) for text in SAID[place]],
            workspace=place,
        )
        for n, (name, place) in enumerate(
            (("a", "/home/ann/gale-force"), ("b", "/home/ann/lanterns"))
        )
    ]
    run_night(files, Settings(store=folder / "s", encoder="hash-384"))
    return folder / "s"


@pytest.fixture
def view(root: Path) -> View:
    return View.open(root, "default")


def asked(text: str) -> Query:
    return build_query(text, 3, "message")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Which linter does gale-force use?", "Which linter does use?"),
        ("What is Gale Force's linter?", "What is linter?"),
        ("Is a gale coming?", "Is a gale coming?"),  # half of the name is no name
        (
            "When are the lanterns lit?",
            "When are the lanterns lit?",
        ),  # talked about there: it is what is asked for
        ("gale-force", "gale-force"),
        ("Who is ann?", "Who is ann?"),  # a folder further up names nothing
    ],
)
def test_a_name_that_is_not_said_there_is_left_out(
    view: View, text: str, left: str
) -> None:
    assert strip_names(view, asked(text), full_text=True) == left


def test_without_full_text_nobody_knows_what_is_said_and_the_name_stays(
    view: View,
) -> None:
    assert (
        strip_names(view, asked("What does gale-force use?"), full_text=False)
        == "What does gale-force use?"
    )


@pytest.mark.parametrize(("place", "name"), [("gale-force", "a"), ("lanterns", "b")])
def test_what_was_said_in_the_workspace_that_is_named_comes_first(
    root: Path, place: str, name: str
) -> None:
    hits = Memory.open(root).recall(
        f"How many columns does the linting of {place} allow?", kinds="message"
    )
    assert [hit.sources[0].session for hit in hits][:2] == [name, name]
    assert len(hits) == 4
