"""A store of one night that several files begin with, each test at the same place: nights know their files by path."""

import shutil
from pathlib import Path

import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings


@pytest.fixture(scope="session")
def night_of_twelve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `a.jsonl`, twelve sessions of three claims, and the store of a night over it."""
    from tests.flows.test_gates import write_talk

    folder = tmp_path_factory.mktemp("twelve") / "used"
    folder.mkdir()
    made = Settings(store=folder / "store", encoder="hash-384", keywords={"top": 0})
    run_night([write_talk(folder / "a.jsonl", 0, 12)], made).check_complete()
    shutil.copytree(folder, folder.with_name("kept"))
    return folder


@pytest.fixture(scope="session")
def night_of_fifteen(night_of_twelve: Path) -> Path:
    """The same after a second night, over `poison.jsonl` of three sessions; its copy, which is put in the place."""
    from tests.flows.test_gates import write_talk

    restore(night_of_twelve, "kept")
    made = Settings(store=night_of_twelve / "store", encoder="hash-384", keywords={"top": 0})
    run_night([write_talk(night_of_twelve / "poison.jsonl", 20, 3)], made).check_complete()
    return Path(shutil.copytree(night_of_twelve, night_of_twelve.with_name("kept of two")))


def restore(folder: Path, kept: str) -> Path:
    """Put a copy of what was kept in the folder's place."""
    shutil.rmtree(folder)
    return Path(shutil.copytree(folder.with_name(kept), folder))


@pytest.fixture
def fifteen(night_of_twelve: Path, night_of_fifteen: Path) -> Path:
    """The folder as it was after the second night."""
    return restore(night_of_twelve, night_of_fifteen.name)


@pytest.fixture
def twelve(night_of_twelve: Path) -> Path:
    """The folder as it was."""
    return restore(night_of_twelve, "kept")
