"""Every prompt as a model gets it, beside one that a person has read.

After a change on purpose `SLOWWAVE_WRITE_GOLDEN=1 pytest tests/llm` writes them anew: read the difference before it is
committed, for it makes pending again whatever rests on the prompt.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slowwave.engines.llm.protocol import Request
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.schemas.settings import ExtractSettings, ObserveSettings
from slowwave.schemas.tables import MESSAGES
from slowwave.tasks.changes import verdicts as change
from slowwave.tasks.changes.verdicts import ClaimShown
from slowwave.tasks.llm.library import SHIPPED, Library
from slowwave.tasks.observe import by_model as consolidate
from slowwave.tasks.observe.by_model import plan_requests
from slowwave.tasks.summarize.by_model import (
    TopicInfo,
    build_gist_requests,
    build_summary_request,
)
from slowwave.tasks.topics.by_model import Board, Topic, build_merge_request
from slowwave.text.pyramid import MASTER, Draft, Member

GOLDEN = Path(__file__).parent / "golden"
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
LIBRARY, SETTINGS, WINDOW = Library(None), ExtractSettings(), 32_768
COUNT = ScriptedLLM().count_tokens
MARK = "quetzal"
"""A word that stands in no prompt."""


def message(text: str = "I moved to Porto in March.", **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(MESSAGES.schema.names, "") | {
        "blocks": [],
        "tokens": 9,
        "parent_id": None,
        "utc_offset": None,
    }
    said = {
        "message_id": "m1",
        "session_id": "s",
        "seq": 0,
        "role": "user",
        "origin": "human",
        "speaker": "Ada",
    }
    return (
        row
        | said
        | {
            "text": text,
            "ts": NOON,
            "workspace": "/home/ada/tidepool",
            "source": "generic",
        }
        | more
    )


def ask_extract(
    first: dict[str, Any] | None = None, extract: ExtractSettings = SETTINGS
) -> Request:
    rows = [
        first or message(),
        message("And the flat?", message_id="m2", seq=1, speaker="Ben"),
    ]
    table = pa.Table.from_pylist(rows, schema=MESSAGES.schema)
    return plan_requests(
        table, ObserveSettings(pack="personal"), extract, LIBRARY, COUNT, WINDOW
    ).requests[0]


def ask_consolidate(**first: Any) -> Request:
    claims = [
        {
            "claim_id": str(n),
            "category": "fact",
            "speaker": "Ada",
            "by_person": True,
            "detail": "",
            "summary": text,
        }
        for n, text in enumerate(["Ada lives in Porto.", "Ada lives in Braga."])
    ]
    claims[0] |= first
    return consolidate.build_questions("s", claims, LIBRARY, COUNT, WINDOW)[0].request


def ask_gist() -> Request:
    return build_gist_requests([message()], LIBRARY, COUNT, WINDOW)[0]


MEMBERS = (
    Member("a", "Ada moved to Porto.", NOON, speaker="Ada"),
    Member("b", "Her sister lives there.", NOON),
)
DRAFT = Draft(
    "session",
    "s",
    0,
    0,
    MEMBERS,
    (Member("c", "They talked of rivers.", NOON, speaker="Ben"),),
)
ABOUT = TopicInfo("Porto", "Where Ada lives and what she finds there")


def ask_account(
    draft: Draft = DRAFT, about: TopicInfo | None = None, words: int = 60
) -> Request:
    return build_summary_request(draft, about, words, LIBRARY, COUNT, WINDOW)


PORTO = Topic("t", "Porto", "Where Ada lives")
CLAIM = {
    "claim_id": "1",
    "summary": "Ada moved to Porto.",
    "vector": None,
    "pack": "coding",
    "workspace": "/home/ada/tidepool",
}


def ask_assign(**more: Any) -> Request:
    topic = replace(PORTO, samples=["The bakery closes at six."], **more)
    return Board([topic], 5).build_batch([CLAIM], LIBRARY, COUNT, WINDOW).request


def ask_merge() -> Request:
    return build_merge_request(
        [PORTO, Topic("u", "Lisbon", "Where her sister lives")], LIBRARY, COUNT, WINDOW
    )


def ask_split() -> Request:
    return Board([PORTO], 5).build_split("t", [CLAIM], LIBRARY, COUNT, WINDOW).request


EARLIER = ClaimShown("1", "Ada lives in Porto.", "Ada", NOON, NOON)
LATER = ClaimShown(
    "2", "Ada lives in Braga now.", "Ada", datetime(2026, 12, 1, 9, tzinfo=UTC), NOON
)


def ask_change() -> Request:
    return change.build_questions([(EARLIER, LATER)], LIBRARY)[0].request


PROMPTS: dict[str, Callable[[], Request]] = {
    "extract": ask_extract,
    "consolidate": ask_consolidate,
    "gist": ask_gist,
    "narrate_session": ask_account,
    "narrate_topic": lambda: ask_account(about=ABOUT),
    "master": lambda: ask_account(replace(DRAFT, tier=MASTER, context=())),
    "assign": ask_assign,
    "merge": ask_merge,
    "split": ask_split,
    "change": ask_change,
}


def render(request: Request) -> str:
    return (
        "\n".join(
            f"=== {turn['role']} ===\n{turn['content']}" for turn in request.messages
        )
        + "\n"
    )


def test_every_prompt_that_ships_is_here() -> None:
    assert {path.stem for path in (SHIPPED / "prompts").glob("*.md")} == set(PROMPTS)


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_is_the_one_that_was_read(name: str) -> None:
    path, shown = GOLDEN / f"{name}.txt", render(PROMPTS[name]())
    if os.environ.get("SLOWWAVE_WRITE_GOLDEN"):
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")


def test_a_detail_and_a_topics_projects_are_shown_too() -> None:
    assert MARK in ask_consolidate(detail=MARK).messages[-1]["content"]
    assert MARK in ask_assign(projects={MARK}).messages[-1]["content"]


def test_limits_stand_in_the_prompt() -> None:
    assert "at most 37 words" in ask_account(words=37).messages[0]["content"]
    asked = ask_extract(extract=ExtractSettings(max_claims=23))
    assert "at most 23" in " ".join(asked.messages[0]["content"].split())


def test_what_comes_before_is_shown_by_its_first_words_alone() -> None:
    long = f"{'word ' * 100}{MARK}"
    shown = ask_account(replace(DRAFT, context=(Member("c", long, NOON),))).messages[
        -1
    ]["content"]
    assert ("word word" in shown, MARK in shown) == (True, False)
    assert (
        MARK
        in ask_account(replace(DRAFT, members=(Member("c", long, NOON),))).messages[-1][
            "content"
        ]
    )


def test_a_topic_to_be_cut_is_shown_by_as_many_of_its_latest_claims_as_fit() -> None:
    claims = [
        CLAIM | {"claim_id": str(n), "summary": f"{n} {'word ' * 60}"}
        for n in range(60)
    ]
    batch = Board([PORTO], 5).build_split("t", claims, LIBRARY, COUNT, 4_096)
    used = (
        sum(COUNT([turn["content"] for turn in batch.request.messages]))
        + batch.request.max_tokens
    )
    assert 3_900 < used <= 4_096
    assert [claim["claim_id"] for claim in batch.claims.values()] == [
        str(n) for n in range(31, 60)
    ]
