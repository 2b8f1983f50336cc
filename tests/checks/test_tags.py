"""Tags that no session names: the night sees them, and a plan that waits for one is due."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slowwave.cli.agents.hook_text import build_hook_text
from slowwave.context.projects.intentions import Intention
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.tasks.checks import tags
from tests.checkouts import commit, git

NOW = datetime.now(UTC)
PLAN = "when 2.4 is tagged we remove the shim for the old harbor clients"
OTHER = "when 2.3 is tagged we drop the legacy berth importer of the marina"


@pytest.fixture
def harbor(tmp_path: Path) -> Path:
    """A project with a tag, and a talk about two plans."""
    folder = tmp_path / "harbor"
    commit(folder, {"a.py": "x = 1\n"})
    git(folder, "tag", "v2.3.0")
    said = [PLAN, "Noted.", OTHER, "Noted."]
    rows = [
        {
            "session_id": "s1",
            "message_id": f"m{number}",
            "role": ("user", "assistant")[number % 2],
            "content": text,
            "ts": (NOW - timedelta(days=5, minutes=-number)).isoformat(),
            "workspace": str(folder),
        }
        for number, text in enumerate(said)
    ]
    lines = "\n".join(map(json.dumps, rows))
    (tmp_path / "talk.jsonl").write_text(lines, encoding="utf-8")
    return folder


def run(tmp_path: Path, days_ago: int) -> Settings:
    """Run a night, so many days ago; return its settings."""
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    at = NOW - timedelta(days=days_ago)
    run_night([tmp_path / "talk.jsonl"], settings, now=at)
    return settings


def list_met(settings: Settings) -> dict[str, str | None]:
    """The version of each plan, with the day on which it came up."""
    plans = Memory.open(settings.store).intentions()
    return {one.versions[0][1]: one.met for one in plans}


def read_hook(settings: Settings, folder: Path) -> str:
    """What the hook shows at a session's start."""
    return build_hook_text(
        event="session-start",
        prompt="",
        folder=str(folder),
        own_sessions=[],
        budget=800,
        everywhere=False,
        store=str(settings.store),
        space=None,
    )


@pytest.mark.parametrize("packed", [False, True])
def test_a_plan_is_due_once_a_night_sees_the_tag(
    harbor: Path, tmp_path: Path, *, packed: bool
) -> None:
    settings = run(tmp_path, 4)
    # a tag that was there at the first night is nothing new
    assert list_met(settings) == {"2.4": None, "2.3": None}
    git(harbor, "tag", "v2.4.0rc1")
    run(tmp_path, 3)
    git(harbor, "tag", "v2.4.0")
    if packed:
        git(harbor, "pack-refs", "--all")
    assert "came up" not in read_hook(settings, harbor)
    run(tmp_path, 2)  # idle but for the tag
    day = (NOW - timedelta(days=2)).astimezone().date()
    assert list_met(settings) == {"2.4": day.isoformat(), "2.3": None}
    briefing = Memory.open(settings.store).briefing(800, workspace=str(harbor)).text
    for shown in (briefing, read_hook(settings, harbor)):
        opened = shown.partition("# Open")[2]
        assert f"{PLAN} (came up on " in opened
        assert f"{OTHER} (came up" not in opened
    # later nights do not move the day, also where it can't be read
    head = harbor / ".git" / "HEAD"
    named = head.read_text()
    head.write_text("ref: refs/heads/.invalid\n")
    run(tmp_path, 1)
    head.write_text(named)
    git(harbor, "tag", "v9")
    run(tmp_path, 0)
    assert list_met(settings) == {"2.4": day.isoformat(), "2.3": None}


def test_more_tags_than_the_bound_tell_nothing(
    harbor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = run(tmp_path, 4)
    git(harbor, "tag", "v2.4.0")
    monkeypatch.setattr(tags, "MOST_TAGS", 1)
    run(tmp_path, 2)
    assert list_met(settings) == {"2.4": None, "2.3": None}


@pytest.mark.parametrize(
    ("versions", "tag", "is_met"),
    [
        ((("", "2.4"),), "v2.4.1", True),
        ((("", "2.4"),), "release/2.4", True),
        ((("", "2.4"),), "harbor-v2.4.0", True),
        ((("", "2.4"),), "lerna@2.4.0", False),
        ((("", "2.4"),), "v2.40.0", False),
        ((("", "2.4"),), "v2.4.0-rc.1", False),
        ((("v", "3"),), "v3.0.0", True),
        ((("v", "3"),), "beta3", False),
        ((("lerna", "2"),), "lerna@2.4.0", True),
        ((("node", "22"),), "v22.0.0", False),
        ((("harbor", "2.4"),), "v2.4.0", True),
    ],
)
def test_the_tag_of_a_version(
    versions: tuple[tuple[str, str], ...], tag: str, is_met: bool
) -> None:
    assert intend("x", versions=versions).is_met_by_tag(tag) is is_met


def test_a_tag_that_is_a_name_of_its_own() -> None:
    plan = intend("once quayside-cutover is tagged, drop it", topic=("quayside",))
    assert plan.is_met_by_tag("quayside-cutover")
    assert not plan.is_met_by_tag("quayside")
    assert not intend("keep it stable", topic=("stable",)).is_met_by_tag("stable")
    file = intend("once quayside-cutover is tagged", files=("a.py",))
    assert not file.is_met_by_tag("quayside-cutover")


def intend(
    text: str,
    versions: tuple[tuple[str, str], ...] = (),
    topic: tuple[str, ...] = (),
    files: tuple[str, ...] = (),
) -> Intention:
    return Intention(
        id="c1",
        text=text,
        workspace="/home/ada/harbor",
        session="s",
        said_at=NOW,
        due=None,
        files=files,
        versions=versions,
        names=(),
        topic=topic,
    )
