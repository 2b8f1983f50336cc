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


@pytest.fixture
def twelve(night_of_twelve: Path) -> Path:
    """The folder as it was."""
    shutil.rmtree(night_of_twelve)
    return Path(shutil.copytree(night_of_twelve.with_name("kept"), night_of_twelve))
