"""A line of a skill, file or briefing that joins claims: what an id behind a sentence names, and nothing else, goes."""

import re
import shutil
from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.context.projects.projection import build_block, collect_told_claims
from slowwave.context.projects.skill import collect_skill_lines
from slowwave.context.projects.standing import SETTLED
from slowwave.flows.exclude import run_exclude
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.tasks.llm.fence import has_injection
from tests.kept_folders import restore
from tests.talk_files import session

RULES = (
    "the upload limit is 500 MB",
    "phone numbers are kept 90 days, then deleted",
    "we never indent with tabs in this repo",
)
AGAIN = ("please run ruff before every commit", "before you commit, ruff has to pass")
REASON, DECISION = (
    "30 minutes is too short for the mechanics",
    "slots are 45 minutes from now on",
)
SAID = [
    ("user", f"{RULES[0]}. {RULES[1]}. {RULES[2]}."),
    ("assistant", "Noted."),
    ("user", f"{REASON}. {DECISION}."),
    ("assistant", "Done."),
    ("user", AGAIN[0]),
    ("assistant", "Ok."),
]
MARK = re.compile(r"(.*?) (?:\[|\([^)]*, )([0-9a-f]{8})[0-9a-f]{0,4}[\])]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("joined") / "used"
    talk = session(here, "one", 2, SAID, workspace="/slots")
    other = [("user", AGAIN[1]), ("assistant", "It does.")]
    talks = [talk, session(here, "two", 9, other, workspace="/slots")]
    run_night(talks, Settings(store=here / "store")).check_complete()
    shutil.copytree(here, here.with_name("kept"))
    return here


@pytest.fixture
def settings(folder: Path) -> Settings:
    return Settings(store=restore(folder, "kept") / "store")


def show(settings: Settings) -> dict[str, str]:
    """Return the skill's lines, a block for AGENTS.md and a briefing."""
    memory = Memory.open(settings.store)
    view = memory.get_view()
    lines = collect_skill_lines(view, ("/slots",), has_injection)
    told = collect_told_claims(view, ("/slots",), SETTLED, has_injection)
    block, _ = build_block(told, "Slots", 10_000, len)
    return {
        "skill": "\n".join(line.text for line in lines),
        "file": block,
        "briefing": memory.briefing(4_000, workspace="/slots").text,
    }


def find_marks(text: str) -> dict[str, str]:
    """Return the ids by the sentences that stand before them, of the line with the rules."""
    line = next(line for line in text.splitlines() if RULES[0] in line)
    found = {}
    for words, key in MARK.findall(line):
        found |= {rule: key for rule in RULES if rule in words}
    return found


def test_each_sentence_of_a_joined_line_has_the_id_of_its_claim(
    settings: Settings,
) -> None:
    marks = [find_marks(text) for text in show(settings).values()]
    assert marks[0].keys() == set(RULES)
    assert marks[1:] == [marks[0]] * 2
    summaries = {
        one.id[:8]: one.summary for one in Memory.open(settings.store).claims()
    }
    for rule, key in marks[0].items():
        assert rule in summaries[key] or summaries[key] in rule


@pytest.mark.parametrize("at", range(len(RULES)))
def test_excluding_the_id_behind_a_sentence_removes_it_and_no_other(
    settings: Settings, at: int
) -> None:
    left_out = RULES[at]
    marks = find_marks(show(settings)["skill"])
    run_exclude([marks[left_out]], "not here", settings)
    for name, text in show(settings).items():
        assert [rule in text for rule in RULES] == [
            rule != left_out for rule in RULES
        ], name


def test_a_decision_is_told_without_a_reason_that_was_excluded(
    settings: Settings,
) -> None:
    claims = {one.summary: one.id for one in Memory.open(settings.store).claims()}
    assert f"{REASON}. {DECISION}" in re.sub(MARK, r"\1", show(settings)["file"])
    run_exclude([claims[REASON]], "not so", settings)
    text = show(settings)["file"]
    assert DECISION in text
    assert REASON not in text


def test_a_rule_said_again_in_other_words_is_told_once(settings: Settings) -> None:
    for name, text in show(settings).items():
        assert sum(words in text for words in AGAIN) == 1, name
