"""Boilerplate is masked, echoes are no news, and what people say stays; over real transcripts and Lance tables."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from bench.recall.talks import build_message_rows, load_conversations
from slowwave import Memory
from slowwave.flows.forget import run_forget
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.run import open_run
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import BOILERPLATE, CLAIMS, MARKS, RELEASED
from slowwave.schemas.vocabulary import MASKED, WITHDRAWALS
from slowwave.store import Store
from slowwave.store.logs import load_recalled_spans, log_recall
from slowwave.store.manifest import compute_table_digest
from slowwave.tasks.boilerplate import task
from slowwave.tasks.boilerplate.echo import mask_echoes
from slowwave.tasks.forget.select import Wanted
from slowwave.text.spans import (
    extract_spans,
    find_recurring_spans,
    hash_session_spans,
    mask_spans,
    restore_quote,
)
from tests.command_line import typed

RULES = """# House rules
- Use tabs.
- We decided to keep every secret in the vault of the team.
- Never commit to main.
- All dates are written as ISO 8601 in UTC.
"""
SAID = [
    "We decided to use PostgreSQL 17 for the gauge readings because SQLite locked.",
    "We decided to move the tide tables into object storage last week.",
    "The parser must accept both commas and points in heights.",
    "We decided to build the chart with uPlot since it is small.",
    "The release script must stop when the changelog is empty.",
    "We decided to keep port 8090 for the local server of the docs.",
]
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def settings(folder: Path, **more: object) -> Settings:
    return Settings(store=folder / "store", encoder="hash-384", **more)


def transcript(
    folder: Path, number: int, *texts: str, day: int | None = None, role: str = "user"
) -> Path:
    """A session of generic JSONL, a message a text."""
    path = folder / f"s{number}.jsonl"
    at = NOON + timedelta(days=number if day is None else day)
    lines = [
        {"session_id": f"s{number}", "message_id": f"m{i}", "role": "assistant" if i % 2 else role, "content": text,
         "workspace": "/home/ada/tide", "ts": (at + timedelta(minutes=i)).isoformat()}
        for i, text in enumerate(texts)
    ]  # fmt: skip
    path.write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )
    return path


def claims(options: Settings) -> list[dict[str, str]]:
    rows = Store.open(options.store).read(CLAIMS).to_pylist()
    return [row for row in rows if row["status"] == "active"]


def test_a_short_line_counts_with_its_neighbours_and_a_long_one_alone() -> None:
    long = "We keep every secret in the vault of the team."
    text = f"Use tabs.\n{long}\nNever commit to main."
    found = [text[s.start : s.end] for s in extract_spans(text)]
    assert found == [f"Use tabs.\n{long}", long, f"{long}\nNever commit to main."]


def test_banners_that_differ_in_their_time_and_id_alone_are_the_same() -> None:
    one = "Session started at 2026-11-01T10:00:00Z with id 3f0c6a52e1b94d7a by the nightly runner."
    other = "Session started at 2026-12-24T23:59:59Z with id 91d27bee00aa11bb by the nightly runner."
    port = "The local server listens on port 8080 and the docs on port 9090."
    assert [s.hash for s in extract_spans(one)] == [
        s.hash for s in extract_spans(other)
    ]
    assert [s.hash for s in extract_spans(port)] != [
        s.hash for s in extract_spans(port.replace("8080", "8081"))
    ]


def test_masking_keeps_every_other_character_in_its_place() -> None:
    known = find_recurring_spans([hash_session_spans([RULES + said]) for said in SAID])
    text = f"{SAID[0]}\n{RULES}{SAID[1]}"
    kept = mask_spans(text, known)
    assert kept.split() == f"{SAID[0]} {SAID[1]}".split()
    assert (len(kept), kept.index(SAID[1])) == (len(text), text.index(SAID[1]))
    assert restore_quote(kept, kept, text) == text


BANNER = "We decided to run the nightly agent of the tide service with eight workers."


def read_rows(options: Settings, words: str) -> list[dict[str, Any]]:
    rows = Store.open(options.store).read(CLAIMS).to_pylist()
    return [row for row in rows if words in row["quote"]]


def test_a_rule_of_every_session_is_kept_once_and_a_banner_not_at_all(
    tmp_path: Path,
) -> None:
    """Seven nights, and one over all: the rule's claim stands from the first, and each session bears it out."""
    said = [*SAID, "We decided to archive the gauge photos as WebP from May on."]
    paths = [
        transcript(tmp_path, i, f"{RULES}\n{text}", f"{BANNER}\nDone.")
        for i, text in enumerate(said)
    ]
    options = settings(tmp_path / "a")
    first = ""
    for night, path in enumerate(paths, 1):
        run_night([path], options)
        rows = read_rows(options, "vault of the team")
        assert not [row for row in rows if row["reason"] in WITHDRAWALS]
        (claim,) = (row for row in rows if row["status"] == "active")
        first = first or claim["claim_id"]
        assert (claim["claim_id"], len(claim["evidence_sessions"])) == (
            first,
            night,
        )
        banners = {
            (row["status"] == "active", row["reason"])
            for row in read_rows(options, "eight workers")
        }
        assert banners == {(False, MASKED)} if night >= 5 else (True, None) in banners
        assert any(said[night - 1][:-1] in row["quote"] for row in claims(options))
    at_once = settings(tmp_path / "b")
    run_night(paths, at_once)
    for column in ("quote", "claim_id", "evidence_sessions"):
        assert sorted(row[column] for row in claims(options)) == sorted(
            row[column] for row in claims(at_once)
        )
    digests = [
        compute_table_digest(BOILERPLATE, Store.open(o.store).read(BOILERPLATE))
        for o in (options, at_once)
    ]
    assert digests[0] == digests[1]
    before = Store.open(options.store).read_versions(RELEASED)
    run_night(paths, options)
    assert Store.open(options.store).read_versions(RELEASED) == before
    rows = Store.open(options.store).read(BOILERPLATE).to_pylist()
    assert {
        (row["sessions"], len(row["kept"]), BANNER in row["text"]) for row in rows
    } == {(7, 4, False), (7, 0, True)}
    listed = typed("inspect", "junk", "--json", "--store", options.store)
    assert {row["span_id"] for row in json.loads(listed.output)} == {
        row["span_id"] for row in rows
    }
    compared = typed("diff", "r4", "r5", "--json", "--store", options.store)
    news = json.loads(compared.output)["differences"]
    assert {(d["kind"], d["reason"], "eight workers" in d["quote"]) for d in news} == {
        ("added", None, False),
        ("withdrawn", MASKED, True),
    }


def test_evidence_of_a_rule_goes_with_the_session_that_is_forgotten(
    tmp_path: Path,
) -> None:
    options = settings(tmp_path)
    run_night(
        [
            transcript(tmp_path, i, f"{RULES}\n{said}", "Noted.")
            for i, said in enumerate(SAID)
        ],
        options,
    )
    (before,) = (
        row
        for row in read_rows(options, "vault of the team")
        if row["status"] == "active"
    )
    run_forget(Wanted(sessions=("s5",)), options)
    (after,) = (
        row
        for row in read_rows(options, "vault of the team")
        if row["status"] == "active"
    )
    assert before["claim_id"] == after["claim_id"]
    assert [len(row["evidence_sessions"]) for row in (before, after)] == [6, 5]


def test_repeats_are_looked_for_anew_only_where_something_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sixth session types the rules that five did: its evidence is what a pass over all sessions adds."""
    options = settings(tmp_path)
    talks = [
        transcript(tmp_path, i, f"{RULES}\n{said}", "Noted.")
        for i, said in enumerate(SAID)
    ]
    run_night(talks[:5], options)
    looked: list[str] = []
    find = task.find_repeating_sessions

    def count(quote: str, text: str, holders: Mapping[int, set[str]]) -> set[str]:
        looked.append(quote)
        return find(quote, text, holders)

    monkeypatch.setattr(task, "find_repeating_sessions", count)
    run_night(talks[:6], options)
    assert looked
    kept = read_rows(options, "vault of the team")
    looked.clear()
    plain = transcript(tmp_path, 90, "The kiosk opens at nine on Sundays.", "Noted.")
    run_night([*talks[:6], plain], options)
    assert looked == []
    with open_run("again", options) as (job, _):
        marks = job.store.read(MARKS, where=pc.field("step") == task.REPEATS)
        assert marks.num_rows
        job.store.delete_ids(MARKS, marks["mark_id"].to_pylist())
        # A full pass finds nothing that was missed.
        assert task.add_repeating_sessions(job) == 0
    assert looked
    assert read_rows(options, "vault of the team") == kept


def test_no_turn_of_a_public_chat_is_boilerplate(bench_data: Path) -> None:
    """Three long conversations: nobody says the same eight words in five of their sessions."""
    sessions: dict[str, list[str]] = {}
    for one in load_conversations(bench_data / "locomo" / "locomo_open.json"):
        for row in build_message_rows(one).to_pylist():
            sessions.setdefault(row["session_id"], []).append(row["text"])
    assert (
        find_recurring_spans([hash_session_spans(texts) for texts in sessions.values()])
        == {}
    )


def test_an_echo_of_recall_is_no_news_but_what_came_before_it_is(
    tmp_path: Path,
) -> None:
    options = settings(tmp_path)
    first = transcript(tmp_path, 0, SAID[0], "Good.")
    run_night([first], options)
    claim = claims(options)[0]
    assert log_recall(
        options.store / "default",
        {claim["claim_id"]: [claim["summary"]]},
        NOON + timedelta(days=1),
    )
    second = transcript(
        tmp_path, 1, "What did we decide?", f"As noted: {SAID[0]} {SAID[3]}", day=2
    )
    run_night([first, second], options)
    rows = Store.open(options.store).read(CLAIMS).to_pylist()
    assert [
        r["quote"]
        for r in rows
        if "PostgreSQL 17" in r["quote"] and r["message_ids"] != claim["message_ids"]
    ] == []
    assert any(SAID[3].rstrip(".") in r["quote"] for r in rows)
    assert any(
        r["claim_id"] == claim["claim_id"] and r["status"] == "active" for r in rows
    )


def test_echoes_are_known_by_their_words_and_by_the_time(tmp_path: Path) -> None:
    assert log_recall(tmp_path, {"o1": [SAID[0]], "o2": ["Yes, sure."]}, NOON)
    recalled = load_recalled_spans(tmp_path)
    assert set(recalled.values()) == {NOON}
    said = (
        "we decided to use POSTGRESQL 17 for the gauge readings, because SQLite locked!"
    )
    later = NOON + timedelta(hours=1)
    assert mask_echoes(said, later, recalled)[1] == 1
    assert mask_echoes(said, NOON - timedelta(hours=1), recalled) == (said, 0)
    assert mask_echoes(said, None, recalled) == (said, 0)
    partly, echoes = mask_echoes(
        f"As noted: {SAID[0][:-1]}, but from May on it will be DuckDB.", later, recalled
    )
    assert (" ".join(partly.split()), echoes) == (
        "As noted: , but from May on it will be DuckDB.",
        1,
    )
    assert mask_echoes("Yes, sure.", later, recalled) == ("Yes, sure.", 0)


def test_a_torn_log_is_read_to_its_end_and_an_unwritable_one_costs_nothing(
    tmp_path: Path,
) -> None:
    log_recall(tmp_path, {"o1": [SAID[0]]}, NOON)
    with (tmp_path / "recalls.jsonl").open("ab") as stream:
        stream.write(b'{"at": "2026-11-01T1\n')
    log_recall(tmp_path, {"o1": [SAID[0]], "o2": [SAID[1]]}, NOON + timedelta(days=1))
    assert sorted(at.day for at in load_recalled_spans(tmp_path).values()) == [1, 2]
    assert SAID[0] not in (tmp_path / "recalls.jsonl").read_text()
    assert not log_recall(tmp_path / "none", {"o1": [SAID[0]]}, NOON)
    assert load_recalled_spans(tmp_path / "none") == {}


@pytest.mark.parametrize("origin", ["synthetic", "tool"])
def test_synthetic_and_tool_turns_are_nobodys_words(
    tmp_path: Path, origin: str
) -> None:
    """A role that is neither a person's nor a model's gives no claim, whatever it says."""
    options = settings(tmp_path)
    path = tmp_path / "s.jsonl"
    roles = {"synthetic": "system", "tool": "tool"}
    lines = [
        {
            "session_id": "s",
            "message_id": f"m{i}",
            "role": roles[origin] if i else "user",
            "content": text,
        }
        for i, text in enumerate(["Go on with the chart, please.", *SAID])
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_night([path], options)
    assert not [
        c for c in claims(options) if any(said[:-1] in c["quote"] for said in SAID)
    ]


def test_a_rule_that_every_session_begins_with_is_found_once_and_stands_once_in_a_block(
    tmp_path: Path,
) -> None:
    rule = (
        "We decided to keep every secret in the vault of the team, and never in a file."
    )
    paths = [
        transcript(tmp_path, i, rule, "Noted.", f"Good. {rule} {said}")
        for i, said in enumerate(SAID)
    ]
    run_night(paths, settings(tmp_path))
    memory = Memory.open(tmp_path / "store")
    hits = memory.recall("Where do we keep every secret?", 10, "message")
    assert [hit.sources[0].session for hit in hits if hit.text == rule] == ["s0"]
    # What else a message says is asked for too.
    assert sum(rule in hit.text for hit in hits) > 1
    assert memory.context("Where do we keep every secret?", 500).text.count(rule) == 1
