"""Drill down and up, and taking merges back: the commands as a person types them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from slowwave.flows.parts.report import RunReport
from slowwave.memory import Memory
from slowwave.recall.release.view import View
from slowwave.recall.views.show import show
from slowwave.schemas.tables import (
    CLAIMS,
    MERGES,
    MESSAGES,
    RELEASED,
    SESSIONS,
    SUMMARIES,
    TOPICS,
)
from slowwave.store import Store
from tests.command_line import typed
from tests.killed_nights import digests
from tests.talk_files import session

SAMPLES = Path(__file__).parents[2] / "data" / "samples"


@pytest.fixture(autouse=True)
def plain_encoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="module")
def folder(
    samples_night: tuple[Path, RunReport], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return Path(
        shutil.copytree(samples_night[0], tmp_path_factory.mktemp("show") / "store")
    )


def rows(folder: Path, table: Any) -> list[dict[str, Any]]:
    return list(Store.open(folder).read(table).to_pylist())


def leaves(node: dict[str, Any]) -> list[dict[str, Any]]:
    return (
        [leaf for below in node["below"] for leaf in leaves(below)]
        if node.get("below")
        else [node]
    )


def test_an_claim_shows_its_messages_and_what_holds_it(folder: Path) -> None:
    group = next(r for r in rows(folder, SUMMARIES) if r["scope"] == "topic")
    claim = next(
        r for r in rows(folder, CLAIMS) if r["claim_id"] == group["member_ids"][0]
    )
    shown = json.loads(
        typed("show", claim["claim_id"][:12], "--json", "--store", folder).output
    )
    assert (shown["kind"], shown["text"], shown["quote"]) == (
        "claim",
        claim["summary"],
        claim["quote"],
    )
    assert [below["id"] for below in shown["below"]] == claim["message_ids"]
    assert claim["quote"] in shown["below"][0]["text"]
    assert {above["id"] for above in shown["above"]} == {
        group["summary_id"],
        claim["topic_id"],
    }


def test_a_summary_drills_down_to_messages_at_any_depth(folder: Path) -> None:
    texts = {r["message_id"]: r["text"] for r in rows(folder, MESSAGES)}
    for summary in rows(folder, SUMMARIES):
        shown = show(View.open(folder, "default"), summary["summary_id"]).as_dict()
        found = leaves(shown)
        assert {leaf["kind"] for leaf in found} == {"message"}
        assert all(texts[leaf["id"]] == leaf["text"] for leaf in found)
        assert [below["id"] for below in shown["below"]] == summary["member_ids"]


def test_a_message_goes_up_to_its_claims_its_summaries_and_its_session(
    folder: Path,
) -> None:
    claim = rows(folder, CLAIMS)[0]
    message = next(
        r for r in rows(folder, MESSAGES) if r["message_id"] == claim["message_ids"][0]
    )
    shown = show(View.open(folder, "default"), message["message_id"])
    kinds = [node.kind for node in shown.above]
    assert kinds[0] == "claim"
    assert kinds[-1] == "session"
    assert shown.above[-1].facts["native_id"]
    cut = next(row for row in rows(folder, MESSAGES) if len(row["native_id"]) == 36)
    assert (
        show(View.open(folder, "default"), cut["native_id"][:13]).node.id
        == cut["message_id"]
    )
    assert any(
        node.kind == "summary" and node.facts["tier"] == -1 for node in shown.above
    )


def test_topics_and_sessions_show_everything_below_them_once(folder: Path) -> None:
    active = [r for r in rows(folder, CLAIMS) if r["status"] == "active"]
    largest = max(rows(folder, TOPICS), key=lambda r: r["size"])
    shown = show(View.open(folder, "default"), largest["topic_id"], depth=9)
    claims = [n.id for n in walk(shown.node) if n.kind == "claim"]
    assert sorted(claims) == sorted(
        r["claim_id"] for r in active if r["topic_id"] == largest["topic_id"]
    )
    native = rows(folder, SESSIONS)[0]["native_id"]
    assert show(View.open(folder, "default"), native).node.kind == "session"


def walk(node: Any) -> list[Any]:
    return [node, *(one for below in node.below for one in walk(below))]


def test_ids_that_are_unknown_or_short_are_refused(folder: Path) -> None:
    for wanted, said in (
        ("0123456789abcdef", "nothing in release r1"),
        ("ab", "too short"),
    ):
        result = typed("show", wanted, "--store", folder)
        assert (result.exit_code, said in result.output) == (1, True)


def test_the_plain_picture_is_a_line_a_row(folder: Path) -> None:
    master = next(r for r in rows(folder, SUMMARIES) if r["tier"] == -1)
    printed = typed(
        "show", master["summary_id"], "--depth", 1, "--store", folder
    ).output
    assert printed.startswith(f"summary tier -1 {master['summary_id'][:12]}")
    assert printed.count("\n  ") >= len(master["member_ids"])
    assert "part of" in printed


def chat(tmp_path: Path, *answers: str) -> Path:
    """Sessions of a question and an answer; the messages' own ids are the same in each."""
    lines = [
        {"session_id": f"s{n}", "message_id": f"message-{i}", "role": role, "content": text, "workspace": "/w",
         "ts": f"2026-11-0{n + 1}T10:0{i}:00Z"}
        for n, answer in enumerate(answers)
        for i, (role, text) in enumerate([("user", "Where do readings go?"), ("assistant", answer)])
    ]  # fmt: skip
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


READINGS = (
    "We decided to keep the gauge readings in PostgreSQL 17 because SQLite locked up."
)


def test_a_merge_is_listed_taken_back_and_never_made_again(tmp_path: Path) -> None:
    store = tmp_path / "s"
    assert (
        typed(
            "run", chat(tmp_path, READINGS, READINGS), "--plain", "--store", store
        ).exit_code
        == 0
    )
    listed = json.loads(typed("inspect", "merges", "--json", "--store", store).output)
    assert [(m["kind"], m["undone"]) for m in listed] == [("duplicate", False)]
    assert listed[0]["from"] == listed[0]["into"]
    done = typed(
        "exclude", listed[0]["merge_id"][:10], "--why", "they differ", "--store", store
    )
    assert "left out (they differ): duplicate" in done.output, done.output
    assert (
        json.loads(typed("inspect", "merges", "--json", "--store", store).output) == []
    )
    assert (
        len(
            json.loads(
                typed("inspect", "merges", "--all", "--json", "--store", store).output
            )
        )
        == 1
    )
    assert {r["status"] for r in rows(store, CLAIMS)} == {"active"}
    assert all(r["topic_id"] for r in rows(store, CLAIMS))
    assert (
        typed("reprocess", "dedupe", "--project", "/w", "--store", store).exit_code == 0
    )
    assert [r["undone"] for r in rows(store, MERGES)] == [True]
    assert {r["status"] for r in rows(store, CLAIMS)} == {"active"}
    again = typed(
        "exclude", listed[0]["merge_id"], "--why", "they differ", "--store", store
    )
    assert "left out already" in again.output
    assert "2 rows have ids" in typed("show", "message-1", "--store", store).output
    # The night decides anew.
    assert typed("include", listed[0]["merge_id"], "--store", store).exit_code == 0
    assert {r["status"] for r in rows(store, CLAIMS)} == {"active", "duplicate"}


def test_consolidating_what_is_consolidated_changes_nothing(
    folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    before = digests(copy, RELEASED)
    assert typed("reprocess", "dedupe", "--store", copy).exit_code == 0
    assert digests(copy, RELEASED) == before


def test_what_stands_over_the_lines_of_a_block_is_found(tmp_path: Path) -> None:
    names = [
        *(f"marit-thesis-2026-{n}" for n in range(5)),
        "marit-thesis-2026-1-again",
        "e2b4f9d7-aaaa-4000",
        "tea",
    ]
    for n, name in enumerate(names):
        said = (
            f"We decided to paint gauge number {n} in blue.",
            "The tide gauge of the harbour reads metres.",
        )
        session(tmp_path, name, n + 1, [("user", said[0]), ("assistant", said[1])])
    store = tmp_path / "s"
    assert typed("run", tmp_path, "--plain", "--store", store).exit_code == 0
    native = {row["native_id"]: row["session_id"] for row in rows(store, SESSIONS)}
    memory = Memory.open(store)
    blocks = [
        memory.context(f"gauge number {n} blue, tide gauge harbour metres", 120).text
        for n in range(len(names))
    ]
    blocks.append(memory.briefing(2_000).text)
    tags = {
        line.partition(" Mar 2026 · ")[2]
        for block in blocks
        for line in block.split("\n")
    } - {""}
    tags = {tag for tag in tags if not tag.startswith("topic ")}
    assert {
        "e2b4f9",
        "tea",
        "marit-thesis-2026-0",
        "marit-thesis-2026-1",
        "marit-thesis-2026-1-",
    } <= tags
    found = {
        json.loads(typed("show", tag, "--json", "--store", store).output)["id"]
        for tag in tags
    }
    assert found == {native[name] for name in names}
    message = next(
        row
        for row in rows(store, MESSAGES)
        if row["session_id"] == native["marit-thesis-2026-1-again"]
    )
    for tag, key in (
        ("marit-thesis-2026-1-", message["native_id"]),
        ("marit-thesis-2026-1-again", message["message_id"][:9]),
    ):
        assert (
            json.loads(
                typed("show", f"{tag}/{key}", "--json", "--store", store).output
            )["id"]
            == message["message_id"]
        )
    for wrong in (
        f"tea/{message['message_id'][:12]}",
        "marit-thesis-2026-1-again/",
        "marit-thesis-2026-1-again/9999",
    ):
        refused = typed("show", wrong, "--store", store)
        assert (refused.exit_code, f"has the id '{wrong}'" in refused.output) == (
            1,
            True,
        )
    several = typed("show", "marit-th", "--store", store)
    assert several.exit_code == 1
    assert (
        "6 rows have ids that begin with 'marit-th': session marit-thesis-2026-0, session"
        in several.output
    )
