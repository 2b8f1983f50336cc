"""Which reader reads a file, which files there are, and in which order they are read."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from slowwave.tasks.ingest.formats.registry import (
    detect_reader,
    find_files,
    find_installed,
    list_read_folders,
    load_readers,
)
from slowwave.tasks.ingest.parsing.lines import sort_paths
from slowwave.tasks.ingest.parsing.records import NoSuchPath, UnknownFormat
from slowwave.tasks.ingest.parsing.values import (
    clean_text,
    drop_base64,
    extract_tag_attribute,
    extract_tag_body,
    strip_tags,
)

CLAUDE = '{"type":"user","uuid":"u1","sessionId":"s1","parentUuid":null,"message":{"role":"user","content":"hi"}}\n'
CODEX = (
    '{"timestamp":"2026-05-02T09:00:00Z","type":"session_meta","payload":{"id":"c1"}}\n'
)


def put(path: Path, text: str = CLAUDE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# Detection.

FIXTURES = {
    "claude": "claude-code",
    "codex": "codex",
    "cursor": "cursor",
    "gemini": "gemini",
    "openclaw": "openclaw",
    "pi": "pi",
}
EXPORTS = {
    "chatgpt_2026_sample.json": "chatgpt",
    "claude_2026_sample.json": "claude-ai",
    "gemini_2026_sample.json": "gemini",
}


def test_each_fixture_is_known_for_what_it_is(bench_data: Path) -> None:
    for path in find_files([bench_data / "fixtures"]):
        assert detect_reader(path).name == EXPORTS.get(
            path.name, FIXTURES.get(path.parent.name)
        ), path


def test_names_are_unique() -> None:
    names = [reader.name for reader in load_readers()]
    assert len(names) == len(set(names))
    assert names[-1] == "generic"


@pytest.mark.parametrize(("text", "name"), [(CLAUDE, "claude-code"), (CODEX, "codex")])
def test_content_decides_and_not_the_name(tmp_path: Path, text: str, name: str) -> None:
    assert detect_reader(put(tmp_path / "notes.txt", text)).name == name


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        (" \n\n", "empty"),
        ("Dear diary,\n", "no reader recognises it"),
        ("\x00\x01", "no reader recognises it"),
    ],
)
def test_what_nobody_knows_says_why(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(UnknownFormat, match=why) as caught:
        detect_reader(put(tmp_path / "a.jsonl", text))
    assert caught.value.path == tmp_path / "a.jsonl"


def test_missing_and_damaged_files_say_why(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match="No such file"):
        detect_reader(tmp_path / "gone.jsonl")
    with pytest.raises(UnknownFormat, match="Is a directory"):
        detect_reader(tmp_path)
    with pytest.raises(UnknownFormat, match="damaged"):
        detect_reader(put(tmp_path / "a.jsonl.gz", "no gzip"))


@pytest.mark.parametrize(
    "table", ["pots (name)", "events (id, ts, kind, content)", "session (id)", ""]
)
def test_a_foreign_or_broken_database_is_unknown(tmp_path: Path, table: str) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE {table or 'x (y)'}")
    if not table:
        path.write_bytes(b"SQLite format 3\0" + b"\7" * 4096)
    with pytest.raises(UnknownFormat):
        detect_reader(path)


# Files.


def test_folders_are_searched_and_junk_is_left_out(tmp_path: Path) -> None:
    names = ("b/one.jsonl", "b/two.jsonl.zst", "a.json", "z/c.parquet", "z/d.sqlite")
    markdown = (".aider.chat.history.md", ".specstory/history/2025-04-29_18-49-x.md")
    wanted = [
        put(tmp_path / name)
        for name in (*names, *markdown, "s1.jsonl.deleted.2026-01-01T00-00-00Z.zst")
    ]
    for junk in (
        ".git/x.jsonl",
        "node_modules/p/x.json",
        "d.sqlite-wal",
        "d.sqlite-shm",
        "readme.md",
        "sessions.json",
        "tide-1.traj",
    ):
        put(tmp_path / junk)
    put(tmp_path / "agent-x.meta.json")
    put(tmp_path / ".aider.input.history")
    assert list(find_files([tmp_path])) == sorted(wanted)


def test_named_files_are_taken_whatever_they_are_called_and_once(
    tmp_path: Path,
) -> None:
    named = put(tmp_path / "log.txt")
    inside = put(tmp_path / "a.jsonl")
    assert list(find_files([named, tmp_path, inside])) == [inside, named]


def test_symbolic_links_lead_nowhere(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside/secret.jsonl")
    inside = put(tmp_path / "inside/a.jsonl")
    (tmp_path / "inside/loop").symlink_to(tmp_path / "inside")
    (tmp_path / "inside/out").symlink_to(outside.parent)
    (tmp_path / "inside/link.jsonl").symlink_to(outside)
    assert list(find_files([tmp_path / "inside"])) == [inside]


def test_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoSuchPath, match="no such file or folder"):
        list(find_files([tmp_path / "gone"]))


VARIABLES = {
    "CODEX_HOME": ("codex", "sessions/rollout-1.jsonl"),
    "CLAUDE_CONFIG_DIR": ("claude-code", "projects/-home-ada/s1.jsonl"),
    "XDG_DATA_HOME": ("opencode", "opencode/opencode.db"),
    "PI_CODING_AGENT_DIR": ("pi", "sessions/--home-ada--/1_x.jsonl"),
    "GEMINI_CLI_HOME": ("gemini", ".gemini/tmp/p/chats/session-1.jsonl"),
    "QWEN_HOME": ("qwen-code", "projects/-home-ada/chats/q.jsonl"),
    "QWEN_RUNTIME_DIR": ("qwen-code", "projects/-home-ada/chats/q.jsonl"),
    "CLINE_DATA_DIR": ("cline", "sessions/1_a/1_a.messages.json"),
    "COPILOT_HOME": ("copilot-cli", "session-state/c1/events.jsonl"),
}
"""The clients' own variables, and where each keeps a transcript below the folder it names."""


def test_installed_tools_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    put(tmp_path / ".qwen/projects/-home-ada/chats/q.jsonl")
    put(tmp_path / ".copilot/session-state/c1/events.jsonl")
    put(tmp_path / ".claude/projects/-home-ada/s1.jsonl")
    put(tmp_path / ".claude/projects/-home-ada/s1/subagents/agent-x.jsonl")
    put(tmp_path / ".claude/projects/-home-ada/s1/subagents/agent-x.meta.json", "{}")
    put(tmp_path / ".claude/history.jsonl")
    put(tmp_path / ".codex/sessions/2026/05/02/rollout-1.jsonl", CODEX)
    put(tmp_path / ".codex/archived_sessions/rollout-0.jsonl", CODEX)
    put(tmp_path / ".pi/agent/sessions/--home-ada--/1_x.jsonl")
    put(tmp_path / ".openclaw/agents/main/sessions/s.jsonl")
    put(tmp_path / ".cursor/projects/my-app/agent-transcripts/u1.jsonl", "{}")
    put(tmp_path / ".gemini/tmp/p/chats/session-1.json", "{}")
    put(tmp_path / ".local/share/opencode/opencode.db", "")
    put(tmp_path / ".local/share/kilo/kilo.db", "")
    put(tmp_path / ".cline/data/sessions/1_a/1_a.messages.json", "{}")
    put(tmp_path / ".cline/data/sessions/1_a/1_a.json", "{}")
    found = [(reader.name, path.name) for reader, path in find_installed(tmp_path)]
    assert found == [
        ("claude-code", "agent-x.jsonl"),
        ("claude-code", "s1.jsonl"),
        ("cline", "1_a.messages.json"),
        ("codex", "rollout-0.jsonl"),
        ("codex", "rollout-1.jsonl"),
        ("copilot-cli", "events.jsonl"),
        ("cursor", "u1.jsonl"),
        ("gemini", "session-1.json"),
        ("openclaw", "s.jsonl"),
        ("opencode", "kilo.db"),
        ("opencode", "opencode.db"),
        ("pi", "1_x.jsonl"),
        ("qwen-code", "q.jsonl"),
    ]
    told = list_read_folders(tmp_path)
    assert "~/.claude/projects (claude-code)" in told
    assert "~/.codex/sessions (codex)" in told
    assert len(told) == len({folder.partition(" ")[0] for folder in told}) > 10


@pytest.mark.parametrize(
    ("variable", "name", "place"), [(key, *value) for key, value in VARIABLES.items()]
)
def test_a_client_is_found_where_its_variable_says_and_nothing_installed_is_nothing(
    variable: str,
    name: str,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for other in VARIABLES:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    assert find_installed(tmp_path) == []
    path = put(tmp_path / "elsewhere" / place, CODEX)
    assert [(reader.name, found) for reader, found in find_installed(tmp_path)] == [
        (name, path)
    ]


# Order.


def timed(path: Path, *hours: int, filler: int = 0) -> Path:
    lines = [
        json.dumps({"timestamp": f"2026-05-02T{hour:02}:00:00Z", "x": "y" * filler})
        for hour in hours
    ]
    return put(path, "\n".join([*lines, '{"timestamp":"2026-05-02T23:00:00Z","torn']))


def test_originals_are_read_before_what_copies_them(tmp_path: Path) -> None:
    """A resumed session begins like its original and ends later, which the tail of the file tells; a fork begins
    later, though it may end first.
    """
    resumed = timed(tmp_path / "a.jsonl", 8, *[9] * 50, 12, 10, filler=5_000)
    original = timed(tmp_path / "b.jsonl", 8, *[9] * 50, 11, 10, filler=5_000)
    fork = timed(tmp_path / "c.jsonl", 9, 9)
    texts = ("", "no json\n", "[1]\n", '{"timestamp":"soon"}\n')
    undated = [put(tmp_path / f"0{n}.jsonl", text) for n, text in enumerate(texts)]
    assert sort_paths([*undated, fork, resumed, original]) == [
        original,
        resumed,
        fork,
        *undated,
    ]


# Text.


def test_cleaning() -> None:
    assert clean_text("\x1b[1;31mred\x1b[0m \x1b]0;title\x07x") == "red x"
    assert drop_base64("a data:image/png;base64,QUJD== b") == "a [image/png] b"
    assert clean_text(" a\x00\tb\x07\n ") == "a\tb"
    assert strip_tags('x <a id="1">y</a> z <a>w', ["a"]) == "x  z <a>w"
    assert extract_tag_body("x <b>\n y </b>", "b") == "y"
    assert extract_tag_attribute('<a id="1" no="2">', "a", "no") == "2"


def test_cleaning_many_open_tags_is_linear() -> None:
    text = "<a>" * 200_000
    assert strip_tags(text, ["a", "b"]) == text
