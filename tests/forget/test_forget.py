"""Words that were said in one place, and then stand in every table and file: after a forgetting they stand in none."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from slowwave.cli.common import INCOMPLETE
from slowwave.cli.main import app
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows import forget
from slowwave.flows.exclude import run_exclude
from slowwave.flows.export import export_learnings, export_tables
from slowwave.flows.forget import preview_forgetting, run_forget, take_in_notes
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.repair import run_repair
from slowwave.memory import Memory
from slowwave.schemas.errors import SlowwaveError, StoreUnreadable, UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    CHAIN,
    CLAIMS,
    COMPLETIONS,
    EXCLUSIONS,
    FILES,
    GISTS,
    MESSAGES,
    PASSAGES,
    QUARANTINE,
    RUNS,
    SESSIONS,
    SUMMARIES,
    TABLES,
    TOPICS,
)
from slowwave.schemas.vocabulary import LEARNINGS
from slowwave.store import Store
from slowwave.store.logs import (
    Export,
    Rating,
    append,
    format_now,
    hash_spans,
    log_recall,
)
from slowwave.store.manifest import compute_table_digest
from slowwave.store.notes import TalkLog, read_notes, write_note
from slowwave.store.publishing import read_releases
from slowwave.store.repair import check_store
from slowwave.tasks.dedupe.pairs import set_columns
from slowwave.tasks.forget import stages, task
from slowwave.tasks.forget.canaries import Canaries
from slowwave.tasks.forget.proof import (
    Scan,
    check_certificate,
    load_certificate,
    scan_files,
)
from slowwave.tasks.forget.select import Wanted
from slowwave.tasks.forget.spelling import Words
from slowwave.tasks.ingest.vault import find_broken_chains
from slowwave.tasks.publish.learnings import SCHEMA
from tests.command_line import typed
from tests.kept_folders import restore
from tests.words_in_store import SECRET, find_word

ENCODER = "hash-384"
START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
TALK = {
    "told": [
        f"We decided to move the {SECRET} deployment from Redis to Postgres because sessions went stale.",
        f"Agreed: the {SECRET} deployment keeps its sessions in Postgres from now on.",
        f"I always keep the {SECRET} password file in the blue cabinet of the Lisbon office.",
        f"Noted: the {SECRET} password file lies in the blue cabinet of the Lisbon office.",
        f"The {SECRET} deployment runs every Tuesday at nine from the Lisbon office.",
        f"Right, every Tuesday at nine the {SECRET} deployment runs from the Lisbon office.",
    ],
    "other": [
        "My sister Nina moved to Porto in February and works for a bakery near the river.",
        "How lovely! A bakery near the river in Porto sounds like a good place to work.",
        "I prefer rye bread to wheat bread, and I bake it every Sunday at home.",
        "Rye bread every Sunday at home, that is a fine habit to keep.",
        "We decided to rent a van in April to move Nina's furniture to Porto.",
        "A van in April it is, for Nina's furniture.",
    ],
}


def write_transcript(path: Path, session: str, texts: list[str]) -> None:
    lines: list[dict[str, Any]] = [
        {
            "session_id": session,
            "message_id": f"{session}-{n}",
            "role": ("user", "assistant")[n % 2],
            "content": text,
            "ts": (START + timedelta(minutes=n)).isoformat(),
            "speaker": "Ann" if n % 2 == 0 else None,
            "title": f"About {texts[0][:40]}",
        }
        for n, text in enumerate(texts)
    ]
    if session == "told":
        output = [
            {"type": "tool_result", "text": f"exit 0: {SECRET} built", "call_id": "c1"}
        ]
        lines.insert(
            4,
            {**lines[3], "role": "tool", "message_id": "told-tool", "content": output},
        )
    path.write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
        + '{"role": "user", "content": 7}\n'
    )


def make_settings(store: Path, **more: Any) -> Settings:
    return Settings(store=store, encoder=ENCODER, gists="extractive", **more)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of two nights in which the words are everywhere, with answers handed out on this machine,
    and the transcripts beside it; its copy, which is put in its place.
    """
    root = tmp_path_factory.mktemp("forget") / "made"
    (root / "in").mkdir(parents=True)
    for session, texts in TALK.items():
        write_transcript(root / "in" / f"{session}.jsonl", session, texts)
    settings = make_settings(root / "store")
    run_night([root / "in"], settings).check_complete()
    space = root / "store" / "default"
    write_note(space, f"The {SECRET} budget is nine thousand euros.", at=START)
    talk = TalkLog(space, at=START)
    talk.append("user", f"What was the budget of {SECRET} again?")
    talk.append("assistant", "Nine thousand euros.")
    run_night([root / "in"], settings).check_complete()
    plant_rows(Store.open(root / "store"))
    memory = Memory.open(root / "store", encoder=HashEncoder())
    hits = memory.recall(f"where is the {SECRET} password file?")
    assert any(SECRET in hit.text for hit in hits)
    log_recall(space, {hit.id: [hit.text] for hit in hits})
    log_recall(space, {"other/other-0": [TALK["other"][0]]})
    shutil.copytree(root, root.with_name("kept"))
    return root


def plant_rows(store: Store) -> None:
    """What a language model's night, a failure and a bad line would have left."""
    sid = store.read(SESSIONS, ["session_id"], pc.field("native_id") == "told")[
        "session_id"
    ][0].as_py()
    path = store.read(SESSIONS, ["path"], pc.field("native_id") == "told")["path"][
        0
    ].as_py()
    answer = {
        "completion_id": "c" * 32, "request_id": f"{sid}/0", "model": "m", "engine": "e", "text": f'["{SECRET}"]',
        "error": None, "reason": "", "finish_reason": "stop", "prompt_tokens": 1, "completion_tokens": 1,
        "prefix_tokens": 0, "flags": [], "created_at": START,
    }  # fmt: skip
    other = store.read(SESSIONS, ["session_id"], pc.field("native_id") == "other")[
        "session_id"
    ][0].as_py()
    kept = {
        **answer,
        "completion_id": "d" * 32,
        "request_id": f"{other}/0",
        "text": "rye",
    }
    store.append(
        COMPLETIONS, pa.Table.from_pylist([answer, kept], schema=COMPLETIONS.schema)
    )
    bad = {
        "quarantine_id": "q1", "step": "read", "path": path, "line": 9, "row_id": None, "reason": f"no {SECRET}",
        "excerpt": f"{SECRET} {{", "resolved": False,
    }  # fmt: skip
    failed = {
        **bad,
        "quarantine_id": "q2",
        "step": "observe",
        "path": None,
        "row_id": f"{sid}/session",
    }
    store.merge(
        QUARANTINE, pa.Table.from_pylist([bad, failed], schema=QUARANTINE.schema)
    )
    run = store.read(RUNS).to_pylist()[0]
    report = {**json.loads(run["report"]), "notes": [f"failed: KeyError: '{SECRET}'"]}
    store.merge(
        RUNS,
        pa.Table.from_pylist(
            [{**run, "report": json.dumps(report)}], schema=RUNS.schema
        ),
    )


@pytest.fixture
def root(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder as it was, in the same place: nights know their files by path."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return restore(made, "kept")


def digest_other(store: Store) -> dict[str, str]:
    """Digests of all that was made of the other session; what changed what is judged anew among the claims left."""
    sid = store.read(SESSIONS, ["session_id"], pc.field("native_id") == "other")[
        "session_id"
    ][0].as_py()
    ids = store.read(MESSAGES, ["message_id"], pc.field("session_id") == sid)[
        "message_id"
    ].to_pylist()
    found = {
        table.name: store.read_ids(table, [sid], by="session_id")
        for table in (MESSAGES, SESSIONS, PASSAGES, CLAIMS)
    }
    for table in (PASSAGES, CLAIMS):
        found[table.name] = set_columns(found[table.name], **dict.fromkeys(CHAIN))
    found[GISTS.name] = store.read_ids(GISTS, ids)
    found[SUMMARIES.name] = store.read_ids(SUMMARIES, [sid], by="scope_id")
    found[COMPLETIONS.name] = store.read_ids(COMPLETIONS, ["d" * 32])
    assert all(rows.num_rows for rows in found.values())
    return {
        name: compute_table_digest(TABLES[name], rows) for name, rows in found.items()
    }


def test_after_forgetting_no_byte_holds_the_words_and_the_rest_is_what_it_was(
    root: Path,
) -> None:
    store = Store.open(root / "store")
    full = " ".join(find_word(root / "store"))
    held = (
        MESSAGES,
        PASSAGES,
        GISTS,
        CLAIMS,
        TOPICS,
        SUMMARIES,
        COMPLETIONS,
        QUARANTINE,
        RUNS,
        SESSIONS,
    )
    for name in (*(f"{table.name} version" for table in held), "notes", "talk"):
        assert name in full, name  # else nothing is shown by its being gone
    assert (indexes := set(store.dir.rglob("_indices/*")))
    before = digest_other(store)
    (store.dir / "vectors.lance").mkdir()  # an earlier version's
    report, [path] = run_forget(
        Wanted(matches=(SECRET.upper(),)), make_settings(root / "store")
    )
    assert report.release
    assert not find_word(root / "store")
    assert not (store.dir / "vectors.lance").exists()
    store = Store.open(root / "store")
    assert digest_other(store) == before
    log = (store.dir / "recalls.jsonl").read_text()
    assert "other/other-0" in log
    assert not any(span in log for text in TALK["told"] for span in hash_spans([text]))
    # Their words are packed: no grep shows that they are gone.
    assert not indexes & set(store.dir.rglob("_indices/*"))
    assert not check_store(store.dir).damage
    assert find_broken_chains(store)[1] == []
    assert [
        one.name for one in read_releases(store) if _is_pinned(store, one.name)
    ] == [report.release.name]
    certificate = load_certificate(path)
    assert SECRET not in path.read_text()
    assert (
        certificate["scan"]["found"],
        len(certificate["canaries"]["marks"]) > 10,
    ) == (0, True)
    assert all(one.holds for one in check_certificate(store, certificate))


def _is_pinned(store: Store, name: str) -> bool:
    return name in store.open_dataset(MESSAGES).tags.list()


def test_a_transcript_on_disk_is_not_read_again_and_what_it_gains_is(
    root: Path,
) -> None:
    settings = make_settings(root / "store")
    run_forget(Wanted(sessions=("told",)), settings, rebuild=False)
    write_transcript(
        root / "in" / "told.jsonl",
        "told",
        [*TALK["told"], "The kettle in the kitchen is broken again."],
    )
    os.utime(root / "in" / "told.jsonl", (1, 1))
    run_night([root / "in"], settings).check_complete()
    store = Store.open(root / "store")
    said = store.read_ids(SESSIONS, ["told"], by="native_id").to_pylist()[0]
    rows = (
        store.read_ids(MESSAGES, [said["session_id"]], by="session_id")
        .sort_by("seq")
        .to_pylist()
    )
    assert [row["text"] for row in rows] == [""] * 7 + [
        "The kettle in the kitchen is broken again."
    ]
    assert said["title"] is None
    assert find_broken_chains(store)[1] == []
    told = store.read(QUARANTINE, where=pc.field("path") == said["path"]).to_pylist()
    assert SECRET not in str(told)
    # A repair without the list of what was forgotten keeps it blank, and says that it may be back.
    shutil.rmtree(root / "store" / "default" / "forgotten.lance")
    assert "may come back from a transcript: forget them again" in str(
        run_repair(settings).notes
    )
    os.utime(root / "in" / "told.jsonl", (2, 2))
    run_night([root / "in"], settings).check_complete()
    assert not find_word(root / "store", "blue cabinet")
    assert find_broken_chains(store)[1] == []
    assert (
        f"The {SECRET} budget is nine thousand euros."
        in store.read(MESSAGES, ["text"])["text"].to_pylist()
    )


KILLED_EXPORT = """
import os, sys
from pathlib import Path
from slowwave.flows import export
from slowwave.schemas.settings import Settings

to = Path(sys.argv[2])
settings = Settings(store=Path(sys.argv[1]), encoder="hash-384")
os.fsync = lambda handle: os._exit(9)  # a file of learnings is written, not renamed
export._write_manifest = lambda **_: os._exit(9)  # a folder's tables are written
write = export.export_learnings if to.suffix else export.export_tables
write(settings, to, form="json" if to.suffix else "jsonl")
"""


@pytest.mark.parametrize(
    ("name", "left"), [("tables", ".tables.part"), ("all.json", ".all.json.new")]
)
def test_what_a_killed_export_left_is_named_and_removed(
    root: Path, name: str, left: str
) -> None:
    settings, store = make_settings(root / "store"), Store.open(root / "store")
    out = root / "out"
    out.mkdir()
    command = [
        sys.executable,
        "-c",
        KILLED_EXPORT,
        str(root / "store"),
        str(out / name),
    ]
    assert subprocess.run(command, check=False).returncode == 9
    assert [path.name for path in out.iterdir()] == [left]
    note = next(one for one in read_notes(store.dir) if SECRET in one.text)
    wanted = Wanted(notes=(note.id,))
    assert preview_forgetting(wanted, settings).exports == [str(out / left)]
    run_forget(wanted, settings, exports=True)
    assert list(out.iterdir()) == []


def refuse(export: Export) -> None:
    raise PermissionError(export.path)


def test_exports_that_hold_it_are_named_and_removed_where_that_is_asked_for_and_no_others(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, store, out = (
        make_settings(root / "store"),
        Store.open(root / "store"),
        root / "out",
    )
    out.mkdir()
    # When the note had not been read.
    export_tables(settings, out / "before", "parquet", release="r1")
    for form in ("parquet", "lance", "jsonl", "graphml"):
        export_tables(settings, out / form, form)
    with (store.dir / "exports.jsonl").open("a") as log:
        # By hand, and cut by a full disk.
        log.write(
            '{"path": "/", "form": "json", "release": "r1", "at": "never"}\n{"path": "/'
        )
    export_learnings(settings, out / "shared.json")
    (out / "lance" / "mine.txt").write_text("not slowwave's")
    note = next(one for one in read_notes(store.dir) if SECRET in one.text)
    wanted = Wanted(notes=(note.id,))
    held = {
        str(out / name)
        for name in ("parquet", "lance", "jsonl", "graphml", "shared.json")
    }
    assert set(preview_forgetting(wanted, settings).exports) == held
    with monkeypatch.context() as locked:  # a folder that is read-only stops nothing
        locked.setattr(stages, "remove_export", refuse)
        _, [path] = run_forget(wanted, settings, exports=True)
    first = load_certificate(path)
    assert {(one["path"], one["removed"]) for one in first["exports"]} == {
        (one, False) for one in held
    }
    assert [one.what for one in check_certificate(store, first) if not one.holds] == [
        "exports"
    ]
    (out / "shared.json").write_text("mine by now")
    os.utime(out / "shared.json", (4e9, 4e9))
    _, [path] = run_forget(Wanted(sessions=("told",)), settings, exports=True)
    told = {Path(one["path"]).name for one in load_certificate(path)["exports"]}
    assert told == {"parquet", "lance", "jsonl", "graphml", "before"}
    assert sorted(str(one.relative_to(out)) for one in out.rglob("*")) == [
        "lance",
        "lance/mine.txt",
        "shared.json",
    ]
    assert all(
        one.holds
        for each in (load_certificate(path), first)
        for one in check_certificate(store, each)
    )


def test_the_reasons_that_a_person_gave_go_too(root: Path) -> None:
    settings, store = make_settings(root / "store"), Store.open(root / "store")
    # Said of what goes; what is said of the rest goes by its words.
    words = "it names the green wardrobe"
    sid = store.read(SESSIONS, ["session_id"], pc.field("native_id") == "told")[
        "session_id"
    ][0]
    told = store.read(CLAIMS, ["claim_id"], pc.field("session_id") == sid).to_pylist()[
        0
    ]
    run_exclude([told["claim_id"]], words, settings)
    append(
        store.dir,
        Rating(format_now(), told["claim_id"], "claim", "bad", words),
    )
    run_exclude(["told"], words, settings)
    run_exclude(["other"], f"it is about the {SECRET}", settings)
    for word in (SECRET, "green wardrobe"):
        assert any("exclusions" in place for place in find_word(root / "store", word))
    run_forget(Wanted(matches=(SECRET,)), settings)
    assert find_word(root / "store", SECRET, "green wardrobe") == []


def test_no_guess_of_what_was_forgotten_fits_what_is_left(root: Path) -> None:
    store, told = Store.open(root / "store"), pc.field("text") == TALK["told"][2]
    (row,) = store.read(MESSAGES, where=told).to_pylist()
    after = store.read(MESSAGES, where=pc.field("prev_hash") == row["hash"]).to_pylist()
    settings = make_settings(root / "store")
    claims = [
        one
        for one in store.read(CLAIMS).to_pylist()
        if row["message_id"] in one["message_ids"]
    ]
    run_exclude([claims[0]["claim_id"]], "as asked", settings)
    # Of its words, and of a link on these.
    hashes = [
        row["message_id"],
        row["hash"],
        *(one["hash"] for one in after),
    ]
    (denied,) = store.read_ids(EXCLUSIONS, [claims[0]["claim_id"]]).to_pylist()
    # A file in which something was masked has no digest.
    digests = [one for one in store.read(FILES)["digest"].to_pylist() if one]
    assert digests
    hashes += [denied["row_id"], denied["words"], *digests]
    assert len(hashes) == 5 + len(digests)
    run_forget(Wanted(messages=(row["message_id"],)), settings)
    assert find_word(root / "store", *hashes) == []
    assert find_broken_chains(store)[1] == []


def test_an_edited_row_of_the_ledger_or_a_text_put_back_is_found(root: Path) -> None:
    _, [path] = run_forget(
        Wanted(sessions=("told",)), make_settings(root / "store"), rebuild=False
    )
    store, certificate = Store.open(root / "store"), load_certificate(path)
    row = store.read(MESSAGES, where=pc.field("text") == "").to_pylist()[0]
    text = TALK["told"][0]
    store.merge(
        MESSAGES, pa.Table.from_pylist([{**row, "text": text}], schema=MESSAGES.schema)
    )
    broken = {
        one.what for one in check_certificate(store, certificate) if not one.holds
    }
    assert {"messages", "chains", "bytes"} <= broken
    assert not check_certificate(store, {**certificate, "rows": {}})[0].holds


def test_what_is_not_there_is_an_error_and_changes_nothing(root: Path) -> None:
    settings, store = make_settings(root / "store"), Store.open(root / "store")
    take_in_notes(settings)  # of the copy, whose paths are others
    before = store.read_versions(TABLES.values())
    blank = (Wanted(matches=("cup", one)) for one in (" ", "\u200b"))
    for wanted in (
        Wanted(),
        *blank,
        Wanted(sessions=("nobody",)),
        Wanted(messages=("nothing",)),
    ):
        with pytest.raises(UsageError):
            preview_forgetting(wanted, settings)
        with pytest.raises(UsageError):
            run_forget(wanted, settings)
    nothing = preview_forgetting(
        Wanted(matches=("zzzzzz",)), settings, search_files=True
    )
    assert (nothing.rows, nothing.left) == ({}, [])
    named = preview_forgetting(
        Wanted(matches=("TOLD.jsonl",)), settings, search_files=True
    )
    assert named.left == ["files", "quarantine", "sessions"]
    assert run_forget(Wanted(matches=("zzzzzz",)), settings)[1] == []
    assert store.read_versions(TABLES.values()) == before


def test_each_way_to_say_what_is_meant(root: Path) -> None:
    store, settings = Store.open(root / "store"), make_settings(root / "store")

    def count(**wanted: Any) -> int:
        return preview_forgetting(Wanted(**wanted), settings).rows.get("messages", 0)

    note = store.read(SESSIONS, ["native_id"], pc.field("native_id") != "told")[
        "native_id"
    ].to_pylist()
    assert count(sessions=("told",)) == 7
    assert count(messages=("told-0", "other-0")) == 2
    assert count(speakers=("ann",)) == 6
    assert count(speakers=("ann",), sessions=("told",)) == 3
    assert count(sources=("generic",), matches=("exit 0",)) == 1
    assert count(before=START + timedelta(minutes=1), sessions=("told", "other")) == 2
    assert count(notes=tuple(one for one in note if one.startswith("note-"))) == 2
    write_note(store.dir, "The shop opens at nine.", workspace="/home/ann/shop")
    take_in_notes(settings)
    write_note(store.dir, "The caf\u00e9 is shut.", workspace="/home/ann/caf\u00e9")
    take_in_notes(settings)
    assert count(workspaces=("/home/ann/../ann/shop/",)) == 2
    assert (
        count(
            workspaces=("/home/ann/shop", "/home/ann/cafe\u0301"),
            matches=("shut", "opens"),
        )
        == 2
    )
    with pytest.raises(UsageError, match="the nearest: '/home/ann/shop'"):
        count(workspaces=("/home/ann/shops",))
    with pytest.raises(
        UsageError, match="message m1 is in 4 sessions: name one with --session"
    ):
        count(messages=("m1",))


def test_words_are_found_however_they_are_written_and_in_titles_too(
    tmp_path: Path,
) -> None:
    settings, path = make_settings(tmp_path / "store"), tmp_path / "talk.jsonl"
    said = [
        "<|im_end|>The house in\nUme\u00e5 is sold.",
        "Sold: the  ho\u00aduse in Ume\u0061\u030a.",
        "Who buys it?",
        "The bank does.",
    ]
    call = {
        "type": "tool_use",
        "id": "1",
        "name": "Bash",
        "input": {"note": 'the "house in\tUme\u00e5"'},
    }
    lines = [
        {
            "session_id": "a",
            "role": ("user", "assistant")[n % 2],
            "content": text,
            "title": "Selling: what ours brings",
        }
        for n, text in enumerate([*said, [call]])
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_night([path], settings).check_complete()
    before = find_word(tmp_path / "store", "ours brings")
    assert {"sessions", "summaries"} <= {place.split()[0] for place in before}
    for match in ("HOUSE IN UME\u00c5", "house in Umea\u030a", "house\nin  Ume\u00e5"):
        assert (
            preview_forgetting(Wanted(matches=(match,)), settings).rows["messages"] == 3
        ), match
    for match in (
        "‹|im_end|›The house in Ume\\u00e5",
        "the ho\\u00aduse in Ume",
    ):
        # As a terminal shows them.
        assert (
            preview_forgetting(Wanted(matches=(match,)), settings).rows["messages"] > 0
        ), match
    run_forget(Wanted(matches=("ours\nbrings",)), settings)
    assert not find_word(tmp_path / "store", "ours brings")
    assert "bank" in str(Memory.open(tmp_path / "store").recall("Who buys it?"))
    os.utime(path, (1, 1))
    run_night([path], settings).check_complete()  # nor does it come back
    assert not find_word(tmp_path / "store", "ours brings")


def test_what_is_older_than_its_days_goes_in_the_night(root: Path) -> None:
    path = root / "in" / "new.jsonl"
    line = {
        "session_id": "new",
        "role": "user",
        "content": "The kettle is new.",
        "ts": datetime.now(UTC).isoformat(),
    }
    path.write_text(
        json.dumps(line)
        + "\n"
        + json.dumps({**line, "role": "assistant", "content": "Good."})
        + "\n"
    )
    days_ago = (datetime.now(UTC) - timedelta(days=5)).isoformat()
    shop = {
        **line,
        "session_id": "shop",
        "content": "The shop is shut.",
        "ts": days_ago,
        "workspace": "/home/ann/shop",
    }
    (root / "in" / "shop.jsonl").write_text(json.dumps(shop) + "\n")
    space = root / "store" / "default"
    log_recall(space, {"long-ago": [TALK["other"][1]]}, START)
    limits = {
        "messages_days": 10,
        "by_source": {"generic": 30},
        "recalls_days": 1,
        "completions_days": 1,
    }
    limits["by_project"] = {"/home/ann/../ann/shop": 1}
    report = run_night(
        [root / "in"], make_settings(root / "store", retention=limits)
    ).check_complete()
    store = Store.open(root / "store")
    left = {text for text in store.read(MESSAGES, ["text"])["text"].to_pylist() if text}
    note, talk = (
        f"The {SECRET} budget is nine thousand euros.",
        f"What was the budget of {SECRET} again?",
    )
    assert left == {
        "The kettle is new.",
        "Good.",
        note,
        "Noted.",
        talk,
        "Nine thousand euros.",
    }
    log = space / "recalls.jsonl"  # a log without a line goes
    assert not log.exists() or "long-ago" not in log.read_text()
    assert store.count(COMPLETIONS) == 0
    assert "forget" in [step.step for step in report.steps]
    versions = store.read_versions(TABLES.values())
    run_night(
        [root / "in"], make_settings(root / "store", retention=limits)
    ).check_complete()
    assert store.read_versions(TABLES.values()) == versions  # nothing is due twice


KILLED = """
import os, signal, sys
from pathlib import Path
from slowwave.flows import forget
from slowwave.schemas.settings import Settings
from slowwave.tasks.forget import select, stages

stages.STAGES = (*stages.STAGES[:2], lambda *args: os.kill(os.getpid(), signal.SIGKILL))
settings = Settings(store=Path(sys.argv[1]), encoder="hash-384")
forget.run_forget(select.Wanted(matches=("quixelbrandt",)), settings, rebuild=False)
"""


class Killed(BaseException):
    """What no part of a run catches."""


def die_after(part: int, patch: pytest.MonkeyPatch) -> None:
    """Let the next run end after so many parts: the plan, the stages of erasing, those of sealing."""
    done = 0

    def wrap(stage: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            nonlocal done
            result, done = stage(*args), done + 1
            if done == part:
                raise Killed
            return result

        return run

    patch.setattr(stages, "STAGES", tuple(map(wrap, stages.STAGES)))
    patch.setattr(task, "SEALS", tuple(map(wrap, task.SEALS)))
    patch.setattr(forget, "write_plan", wrap(forget.write_plan))


def test_killed_after_each_part_it_is_finished_by_whoever_comes_next(
    root: Path,
) -> None:
    settings = make_settings(root / "store")
    erasing, sealing = len(stages.STAGES), len(task.SEALS)
    # The first dies with its plan written, and all others go on by that; what is erased is not erased again.
    for part in (1, *range(1, erasing + 2), *range(2, sealing + 1)):
        with pytest.MonkeyPatch.context() as patch:
            die_after(part, patch)
            with pytest.raises(Killed):
                run_forget(Wanted(matches=(SECRET,)), settings, rebuild=False)
    run_night([root / "in"], settings).check_complete()
    check_finished(root)


WRITERS = (
    "reprocess dedupe",
    "exclude other --why x",
    "check --repair",
    "run IN",
    "rollback r1",
    "include other",
)
WRITERS += ("remember Braga", "promote --why x", "import LEARNINGS --as ann")


def leave_unfinished(root: Path, part: int) -> None:
    """Leave the folder as after a forgetting that died after so many parts; it is done once, and kept."""
    kept = root.with_name(f"kept after part {part}")
    if kept.exists():
        restore(root, kept.name)
        return
    with pytest.MonkeyPatch.context() as patch:
        die_after(part, patch)
        with pytest.raises(Killed):
            run_forget(
                Wanted(matches=(SECRET,)), make_settings(root / "store"), rebuild=False
            )
    shutil.copytree(root, kept)


@pytest.mark.parametrize(
    ("writer", "part"),
    [
        *((one, 3) for one in WRITERS),
        *((one, len(stages.STAGES) + 2) for one in WRITERS[:3]),
    ],
)
def test_whoever_writes_next_finishes_it_first_and_status_names_it(
    root: Path, writer: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_unfinished(root, part)
    monkeypatch.setenv("SLOWWAVE_ENCODER", ENCODER)
    monkeypatch.setenv("SLOWWAVE_GISTS", "extractive")
    where = ["--store", str(root / "store")]
    learnings = root / "learnings.json"
    learnings.write_text(json.dumps({LEARNINGS: SCHEMA, "release": "r1", "claims": []}))
    shown = typed("status", *where)
    (line,) = [
        line for line in shown.stdout.splitlines() if line.startswith("forgetting")
    ]
    assert (shown.exit_code, "is not finished: the next `slowwave run`" in line) == (
        INCOMPLETE,
        True,
    )
    given = {"IN": str(root / "in"), "LEARNINGS": str(learnings)}
    # Some refuse what is asked, once it is finished.
    typed(*(given.get(word, word) for word in writer.split()), *where)
    check_finished(root)
    assert "is not finished" not in typed("status", *where).stdout


def test_killed_for_good_it_is_finished_by_the_next_night(root: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(root / "store")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    run_night([root / "in"], make_settings(root / "store")).check_complete()
    check_finished(root)


def check_finished(root: Path) -> None:
    space = root / "store" / "default"
    assert not find_word(root / "store")
    assert not list((space / "forgetting").iterdir())
    [path] = (space / "certificates").iterdir()
    store = Store.open(root / "store")
    assert all(one.holds for one in check_certificate(store, load_certificate(path)))


def test_a_reader_goes_on_with_the_new_release_or_a_clear_error(root: Path) -> None:
    memory = Memory.open(root / "store", encoder=HashEncoder())
    assert any(
        "rye" in hit.text.lower() for hit in memory.recall("rye bread on Sunday")
    )
    old = Memory.open(root / "store", encoder=HashEncoder(), release="r1")
    run_forget(Wanted(matches=(SECRET,)), make_settings(root / "store"), rebuild=False)
    for question in (
        "rye bread on Sunday",
        f"the {SECRET} password file",
        "van in April",
    ):
        hits = memory.recall(question)
        assert not any(SECRET in hit.text for hit in hits)
    with suppress(SlowwaveError):  # nothing else
        old.recall(f"the {SECRET} password file")


@pytest.mark.parametrize("altered", [b"\xff", b"{}", b"[]", b'{"canaries": 1}'])
def test_a_plan_that_is_altered_is_named(root: Path, altered: bytes) -> None:
    plan = root / "store" / "default" / "forgetting" / "20260101.json"
    plan.parent.mkdir()
    plan.write_bytes(altered)
    with pytest.raises(StoreUnreadable, match=r"20260101\.json is altered"):
        run_night([], make_settings(root / "store"))


def test_the_command_asks_shows_and_checks(root: Path) -> None:
    run, at = CliRunner().invoke, ["--store", str(root / "store")]
    shown = run(app, ["forget", "--session", "told", "--dry-run", *at])
    assert (
        shown.exit_code,
        "7 messages" in shown.output,
        "told.jsonl" in shown.output,
    ) == (0, True, True)
    refused = run(app, ["forget", "--session", "told", *at])
    assert (refused.exit_code, "--yes" in refused.output) == (1, True)
    for bad in (
        ["--yes"],
        ["--session", "nobody", "--yes"],
        ["--check", str(root / "in" / "told.jsonl")],
    ):
        result = run(app, ["forget", *bad, *at])
        assert (result.exit_code, len(result.output.strip().splitlines())) == (1, 1), (
            bad
        )
    named = run(app, ["forget", "--match", "told.jsonl", "--yes", *at])
    assert (named.exit_code, "No message or title contains it" in named.output) == (
        1,
        True,
    )
    done = run(
        app, ["forget", "--session", "told", "--yes", "--no-rebuild", "--json", *at]
    )
    told = json.loads(done.stdout)
    assert done.exit_code == 0
    path = told["certificates"][0]["path"]
    assert run(app, ["forget", "--check", path, *at]).exit_code == 0
    assert "0 damaged" in run(app, ["check", *at]).output


def test_a_note_of_today_that_no_night_has_read_can_be_forgotten(root: Path) -> None:
    slip = write_note(
        root / "store" / "default", "The zanzibarion key is under the mat."
    )
    kept = write_note(root / "store" / "default", "The mat is green.")
    at = ["--store", str(root / "store")]
    done = CliRunner().invoke(
        app, ["forget", "--note", slip, "--yes", "--no-rebuild", *at]
    )
    assert done.exit_code == 0, done.output
    assert not find_word(root / "store", "zanzibarion")
    assert any(
        kept in path.read_text()
        for path in (root / "store" / "default" / "notes").iterdir()
    )


def test_an_empty_file_of_a_table_ends_no_scan(tmp_path: Path) -> None:
    (tmp_path / "torn.lance").touch()
    assert scan_files([tmp_path], Canaries("", {})) == Scan(files=1)


PHRASE = "the Falkenrath budget is 4000 crowns"
SPELT = [
    "the **Falkenrath budget** is `4000` crowns",
    "the **Falken**rath _budget_ is ~~4000~~ crowns",
    "the [Falkenrath budget](https://example.org/x) is [4000][1] crowns",
    "the [Falkenrath](https://example.org/a_(b)) budget is 4000 crowns",
    "the Falkenrath[^2] budget is ![4000](a.png) crowns",
    "the Falken&shy;rath&nbsp;budget is &#52;000 crowns",
    "the Falkenrath&amp;nbsp;budget is &amp;#52;000 crowns",
    "the Falken-\nrath budget is 4000 crowns",
    "> the Falken-\n> rath budget is\n> 4000 crowns",
    "// the Falken\u00ad\n// rath budget is 4000 crowns",
    "theFalkenrathBudget is 4000 crowns",
    "the_falkenrath_budget is <i>4000</i> cro<b>wns</b>",
    'the <a title="x > y">Falken</a>rath budget<!-- old --> is 4000 crowns',
    "> the Falkenrath\\n> budget | is \\u0034000 | crowns",
    "the Falken\u3164rath budget is 4000 crowns",
    "the Fal\u200bken\ufe0frath budget is 4000 crowns",
    "| the **Falkenrath** | budget | is | 4000 | crowns |",
    "1. the Falkenrath\n2. budget\n- [x] is 4000\n* crowns",
    "the Falkenrath\\_budget is \\*4000\\* crowns",
    "the%20Falken%72ath+budget+is+4000+crowns",
    "\x1b[1mthe Falken\x1b[0mrath budget is 4000 crowns",
    "the “Falkenrath” ‘budget’ is «4000» crowns",
    "ｔｈｅ 𝐅𝐚𝐥𝐤𝐞𝐧𝐫𝐚𝐭𝐡 budget is ④⓪⓪⓪ crowns",
    "THE-FALKENRATH-BUDGET.is::4000/crowns",
    "<p>the Falkenrath</p><p>budget is<br>4000 crowns</p>",
]
"""Ways in which Markdown, HTML, code, links and terminals write the phrase."""


@pytest.mark.parametrize("said", SPELT)
def test_words_are_found_as_they_are_shown(said: str) -> None:
    assert Words([PHRASE]).stand_in([f"We decided that {said} a year."]) == [True]


# In a phrase marks that may be code stay, and an item's number.
KEPT_MARKS = ("<br>", "[^2]", "title=", "&amp;nbsp;", "1. the")


@pytest.mark.parametrize(
    "said", [said for said in SPELT if not any(mark in said for mark in KEPT_MARKS)]
)
def test_words_are_found_by_another_spelling_of_them(said: str) -> None:
    assert Words([said]).stand_in([f"We decided that {PHRASE} a year."]) == [True]


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("Café Zürich", "im Cafe\u0301 Zu\u0308rich"),
        ("Cafe\u0301 Zu\u0308rich", "im Café Zürich"),
        ("office file", "the o\ufb03ce \ufb01le"),
        ("don't panic", "don’t panic"),
        ("pre-war ship", "a pre–war ship"),
        ("Große Straße", "GROSSE STRASSE"),
        ("v2 api", "call v2Api now"),
        ("über uns", "die ganzÜberUns-Seite"),  # a capital that ASCII does not have
        ("List<int>", "a List&lt;int&gt; of them"),
        ("blauer_anker", "var blauerAnker = 1"),
        ("blauerAnker", "der Blaue Anker und der blauer Anker"),
    ],
)
def test_letters_of_any_form_are_found(phrase: str, text: str) -> None:
    assert Words([phrase]).stand_in([text]) == [True]


def test_words_are_not_found_in_the_midst_of_others() -> None:
    assert Words(["the rapist"]).stand_in(["a therapist", "the\nrapist"]) == [
        False,
        True,
    ]
    assert Words(["4.5"]).stand_in(["45 crowns", "1. 4.5 crowns"]) == [False, True]
    assert Words(["taxiPhone"]).stand_in(["a maxitaxi phone", "a taxi phone"]) == [
        False,
        True,
    ]
    # `List` alone is in many texts, `345` too
    assert Words(["List<int>"]).stand_in(["a List of them"]) == [False]
    assert Words(["3*4*5"]).stand_in(["345 crowns"]) == [False]


def test_markup_without_an_end_is_read_in_bounded_time() -> None:
    hostile = ["](", "<a ", "&amp;", "[^", "a-\n", "\x1b[", "<!--", "](()", "- [", "%"]
    texts = [mark * 50_000 for mark in hostile]
    assert not any(Words([PHRASE]).stand_in(texts))
