"""Where a claim that the code lost is shown: behind what holds, on the pages, over MCP; and skills leave it out."""

import json
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from slowwave.context.projects.skill import collect_skill_lines
from slowwave.flows.nightly import run_night
from slowwave.mcp.short_hits import fit_hits
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CHECKS, CLAIMS
from slowwave.store.publishing import publish
from tests.checkouts import LATER, commit
from tests.recall_store import START, add, build, claim_row

SAYS = [
    "We decided that the retry queue is kept in src/queue_store.py, nothing else writes it",
    "We decided that the rate limiter is kept in src/limiter.py, nothing else reads it",
]
NOTE = "(src/queue_store.py: not in the code since "
QUESTION = "Where is the retry queue kept, nothing else writes it? And the limiter?"
NOW = datetime(2026, 11, 20, tzinfo=UTC)
TRAP = "The cache outlives a deploy."


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project, and a talk about two of its files."""
    folder = tmp_path / "ferry"
    commit(folder, {"src/queue_store.py": "q = 1\n", "src/limiter.py": "n = 1\n"})
    rows = [
        {
            "session_id": "s1",
            "message_id": f"m{number}",
            "role": "assistant" if text == "Understood." else "user",
            "content": text,
            "ts": f"2026-06-01T09:0{number}:00Z",
            "workspace": str(folder),
        }
        for number, text in enumerate([SAYS[0], "Understood.", SAYS[1], "Understood."])
    ]
    lines = "\n".join(map(json.dumps, rows))
    (tmp_path / "talk.jsonl").write_text(lines, encoding="utf-8")
    return folder


def run(tmp_path: Path) -> Memory:
    """Run a night; return its memory."""
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    run_night([tmp_path / "talk.jsonl"], settings, now=NOW)
    return Memory.open(settings.store)


def list_places(memory: Memory) -> list[int]:
    """Which of SAYS each message has that is a hit, in order."""
    hits = memory.recall(QUESTION, everything=True)
    said = [hit.text for hit in hits if hit.kind == "message"]
    return [SAYS.index(text) for text in said if text in SAYS]


def list_skill(memory: Memory, project: Path) -> list[str]:
    """The lines of a project's skill."""
    lines = collect_skill_lines(
        memory.get_view(), [str(project)], steers=lambda text: False
    )
    return [line.text for line in lines]


def test_what_the_code_lost_stands_behind_what_holds(
    project: Path, tmp_path: Path
) -> None:
    memory = run(tmp_path)
    assert list_places(memory) == [0, 1]
    assert {text in "".join(list_skill(memory, project)) for text in SAYS} == {True}
    commit(project, {"src/limiter.py": "n = 1\n"}, LATER)
    memory = run(tmp_path)
    assert list_places(memory) == [1, 0]
    skill = "".join(list_skill(memory, project))
    assert [text in skill for text in SAYS] == [False, True]
    hits = memory.recall(QUESTION, everything=True)
    answer = fit_hits(hits, None, 4_000, "bytes/4").structured_content
    assert answer is not None
    codes = {hit["text"]: hit.get("code") for hit in answer["hits"]}
    told = {text: code for text, code in codes.items() if code}
    assert [SAYS[0] in text for text in told] == [True]
    assert next(iter(told.values())).startswith(NOTE)


async def read_pages(memory: Memory) -> dict[str, str]:
    """The page of each of SAYS' claims, and of a search."""
    from slowwave.ui.app import make_app

    app = make_app(Settings(store=memory.root, encoder="hash-384"))
    headers = {"authorization": f"Bearer {app.state.explorer.token}"}
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", headers=headers
    )
    ids = {claim.summary: claim.id for claim in memory.claims()}
    paths = {text: f"/claim/{ids[text]}" for text in SAYS}
    async with client:
        found = {text: (await client.get(path)).text for text, path in paths.items()}
        search = await client.get("/search", params={"q": QUESTION})
    return found | {"search": search.text}


def test_the_pages_of_a_claim_and_of_a_search_show_what_the_code_lost(
    project: Path, tmp_path: Path
) -> None:
    import asyncio

    pytest.importorskip("uvicorn", reason="the extra `ui` is not installed")
    commit(project, {"src/limiter.py": "n = 1\n"}, LATER)
    memory = run(tmp_path)
    pages = asyncio.run(read_pages(memory))
    shown = {name: "not in the code since" in text for name, text in pages.items()}
    assert shown == {SAYS[0]: True, SAYS[1]: False, "search": True}
    assert pages["search"].count("not in the code since") == 1


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_trap_that_an_agent_found_leaves_the_skill_with_its_code(
    tmp_path: Path, *, is_lost: bool
) -> None:
    made = build(tmp_path / "store", index=False)
    twice = {"evidence_sessions": ["ses-a", "ses-b"], "category": "gotcha"}
    row = claim_row("o-2", TRAP, "x", "ses-a-m1", **twice)
    add(made, CLAIMS, [row])
    check = {
        "check_id": "k1",
        "row_id": "o-2",
        "workspace": "api",
        "kind": "name",
        "name": "cache",
        "result": "gone" if is_lost else "found",
        "checked_at": START,
        "commit": "1" * 40,
        "since_commit": "1" * 40 if is_lost else None,
        "since_at": START if is_lost else None,
        "step_key": "t",
    }
    add(made, CHECKS, [check])
    publish(made, "run", "hash-384")
    lines = collect_skill_lines(
        Memory.open(made.root).get_view(), ["api"], steers=lambda text: False
    )
    found = [line.own_words for line in lines if line.category == "found"]
    assert found == ([] if is_lost else [TRAP])
