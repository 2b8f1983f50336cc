"""Which prompts the hook answers, with the encoder that ships: `prompts.toml` has them, and two projects' weeks, and
`hook_weeks` three projects' weeks by another writer. The model of prompts has learnt from neither.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from tests.talk_files import session

ROOT = Path(__file__).parents[2]
LABELLED = ROOT / "data" / "labelled"
PROMPTS = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text("utf-8"))
SAMPLES, WEEKS = "/home/ada/tidepool", ("/home/kim/fern", "/home/kim/lantern")


def answer(memory: Memory, prompt: str, workspace: str) -> str:
    """What the hook tells."""
    asked = memory.is_asked(prompt, workspace)
    return (
        memory.context(prompt, 800, automatic=True, workspace=workspace).text
        if asked
        else ""
    )


def make_memory(folder: Path, *paths: Path) -> Memory:
    run_night(paths, Settings(store=folder / "store")).check_complete()
    return Memory.open(folder / "store")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folders = [ROOT / "data" / "samples" / name for name in ("claude-code", "codex")]
    return make_memory(tmp_path_factory.mktemp("samples"), *folders)


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("weeks")
    talks = [
        session(
            folder, f"week-{n}", int(one["day"][-2:]), one["said"], one["workspace"]
        )
        for n, one in enumerate(PROMPTS["sessions"])
    ]
    return make_memory(folder, *talks)


@pytest.mark.parametrize("name", ["first", "second", "third"])
def test_short_questions_get_a_right_block_and_everyday_prompts_none(
    samples: Memory, weeks: Memory, name: str
) -> None:
    prompts: dict[str, Any] = PROMPTS[name]
    for memory, key in ((samples, "samples"), (weeks, "weeks")):
        answered = [
            prompt
            for place, prompt, words in prompts[key]
            if any(word in answer(memory, prompt, place) for word in words)
        ]
        # 10 of 15 is the bar; of the third set four ask the samples for what the floor takes to be too far
        assert len(answered) >= (8 if (name, key) == ("third", "samples") else 10), (
            answered
        )
    for memory, place in ((samples, SAMPLES), *((weeks, place) for place in WEEKS)):
        told = [
            prompt for prompt in prompts["everyday"] if answer(memory, prompt, place)
        ]
        assert len(told) <= 2, (place, told)  # of 40


@pytest.fixture(scope="module")
def other_weeks(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    return make_memory(tmp_path_factory.mktemp("other"), LABELLED / "hook_weeks.jsonl")


# The encoder reads English: of Chinese it tells less, so one everyday prompt more of 40 gets text.
@pytest.mark.parametrize(
    ("project", "most"), [("orchid", 2), ("verein", 2), ("chaguan", 3)]
)
def test_the_weeks_of_a_writer_that_nobody_learnt_from(
    other_weeks: Memory, project: str, most: int
) -> None:
    prompts, workspace = (
        json.loads((LABELLED / "hook_weeks.prompts.json").read_text("utf-8")),
        f"/home/kim/{project}",
    )
    answered = [
        one["prompt"]
        for one in prompts["questions"]
        if one["workspace"] == workspace
        and all(
            any(
                words in answer(other_weeks, one["prompt"], workspace)
                for words in either
            )
            for either in one["answer"]
        )
    ]
    assert len(answered) >= 10, answered  # of 15
    told = [
        prompt
        for prompt in prompts["everyday"]
        if answer(other_weeks, prompt, workspace)
    ]
    assert len(told) <= most, told  # of 40


@pytest.mark.parametrize(
    ("said", "prompt"),
    [
        (
            "We left Redis because its licence has changed; Valkey has taken its place.",
            "why did we leave Redis?",
        ),
        (
            "Wir haben Redis verlassen, weil sich die Lizenz geändert hat.",
            "Warum haben wir Redis verlassen?",
        ),
        ("我们放弃了Redis，因为许可证变了，现在使用Valkey。", "为什么放弃Redis？"),
        ("ライセンスが変わったので、Redisをやめました。", "Redisをやめた理由は？"),
    ],
)
def test_a_question_about_the_only_session_there_is_gets_an_answer(
    tmp_path: Path, said: str, prompt: str
) -> None:
    talk = session(
        tmp_path, "only", 2, [("user", said), ("assistant", "OK.")], "/stock"
    )
    assert said in answer(make_memory(tmp_path, talk), prompt, "/stock")


def test_what_was_noted_since_the_release_is_asked_for_too(tmp_path: Path) -> None:
    talk = session(
        tmp_path,
        "only",
        2,
        [("user", "The stock service runs on two hosts.")],
        "/stock",
    )
    memory = make_memory(tmp_path, talk)
    assert answer(memory, "where is the Kittiwake archive?", "/stock") == ""
    memory.remember(
        "The Kittiwake archive is on the shelf in Bergen.", workspace="/stock"
    )
    assert "Bergen" in answer(memory, "where is the Kittiwake archive?", "/stock")
    assert not memory.is_asked("archive it", "/stock")
