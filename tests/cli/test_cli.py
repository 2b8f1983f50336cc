"""The command as a person types it. Each test runs real commands against a real store."""

import inspect
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from textwrap import fill
from typing import get_type_hints

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from slowwave import Filters
from slowwave.cli.main import COMMANDS, GROUP, PLUGINS, RENAMED, context, recall
from slowwave.flows.ledgers import LEDGERS
from slowwave.flows.parts.report import RunReport
from slowwave.schemas.filters import MessageFilters
from slowwave.schemas.plugins import find_plugins
from slowwave.schemas.tables import INTERNAL, MESSAGES, RELEASED, SESSIONS
from slowwave.store.releases import Snapshot
from slowwave.store.store import Store
from tests.command_line import typed

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples"


@pytest.fixture(scope="module")
def store(
    samples_night: tuple[Path, RunReport], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return Path(
        shutil.copytree(samples_night[0], tmp_path_factory.mktemp("cli") / "store")
    )


@pytest.fixture(autouse=True)
def plain_encoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def test_every_command_and_ledger_has_help() -> None:
    for command in (one for group in COMMANDS.values() for one in group):
        assert command.__doc__
        assert typed(command.__name__, "--help").exit_code == 0
    told = " ".join(typed("inspect", "--help").output.split())
    assert all(ledger in told for ledger in LEDGERS)


def test_what_other_memories_call_a_command_is_answered_with_its_name_here() -> None:
    for theirs, ours in RENAMED.items():
        refused = typed(theirs, "--project", "api")
        assert refused.exit_code == 2
        assert f"`slowwave {ours}`" in refused.output
        assert typed(*ours.split(), "--help").exit_code == 0


def test_show_lists_each_kind_and_refuses_what_it_has_no_use_for(store: Path) -> None:
    for words in (
        ("claims",),
        ("topics",),
        ("habits", "--all"),
        ("related", "tidepool"),
    ):
        assert json.loads(typed("show", *words, "--json", "--store", store).output), (
            words
        )
        assert typed("show", *words, "--store", store).exit_code == 0
    claim = json.loads(
        typed("show", "claims", "--limit", 1, "--json", "--store", store).output
    )[0]
    assert claim["summary"] in typed("show", claim["id"][:12], "--store", store).output
    for words, said in (
        (
            ("habits", "--topic", "x"),
            "`slowwave show` of habits does not accept --topic",
        ),
        (
            (claim["id"], "--limit", 3),
            "`slowwave show` of an id does not accept --limit",
        ),
        (("related",), "slowwave show related ID|NAME"),
    ):
        refused = typed("show", *words, "--store", store)
        assert (refused.exit_code, said in refused.output) == (1, True), refused.output


def test_the_help_has_a_line_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = typed("--help").output.strip().splitlines()
    added, headings = find_plugins(GROUP), [*COMMANDS, PLUGINS]
    assert (
        len(lines)
        <= sum(map(len, COMMANDS.values())) + len(added) + 2 * len(headings) + 8
    )
    assert all(any(heading in line for line in lines) for heading in headings)
    assert any(line.startswith("│ talk ") for line in lines)


def test_what_lacks_a_step_is_filled_in_and_nothing_else_can_be(
    store: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    for step in ("gists", "summaries"):
        done = typed(
            "reprocess", step, "--missing", "--gists", "extractive", "--store", copy
        )
        assert done.exit_code == 0, done.output
    assert (
        len(json.loads(typed("inspect", "releases", "--json", "--store", copy).output))
        == 1
    )
    odd = [("observe",), ("summaries", "--project", "/w")]
    told = [
        typed("reprocess", *words, "--missing", "--store", copy).output for words in odd
    ]
    for text, said in zip(
        told, ("gists and summaries can", "no project '/w' is known"), strict=True
    ):
        assert said in text


def test_the_command_line_has_the_filters_of_python() -> None:
    names = get_type_hints(Filters).keys()
    assert names <= inspect.signature(recall).parameters.keys()
    assert (
        get_type_hints(MessageFilters).keys()
        <= inspect.signature(context).parameters.keys()
    )


def test_the_last_lines_of_a_night_say_what_is_new_learnt_changed_and_left_out(
    tmp_path: Path,
) -> None:
    def write(name: str, said: list[str], torn: str = "") -> Path:
        lines = [
            {"session_id": name + "-key" * ("key" in text), "message_id": f"{name}-{i}", "role": "user",
             "content": text, "workspace": "/tidepool", "ts": f"2026-11-0{len(name)}T10:0{i}:00Z"}
            for i, text in enumerate(said)
        ]  # fmt: skip
        (tmp_path / name).write_text(
            "".join(json.dumps(line) + "\n" for line in lines) + torn
        )
        return tmp_path / name

    def tell(path: Path) -> list[str]:
        done = typed("run", path, "--plain", "--store", tmp_path / "s")
        assert done.exit_code == 0, done.output
        return done.output[done.output.index("\nNew: ") :].strip().splitlines()

    first = [
        "Convention: tidepool listens on port 8080, everywhere.",
        "Decision: we keep the gauge readings in SQLite.",
        "Noted, with the key AKIA"
        + "Q3EGXYZ7T5WLM2PB.",  # no key, nor one of an example
    ]
    options = " --store s`."  # a folder below this one
    told = tell(write("a", first, '{"role": "us'))
    assert told[0] == "New: 3 messages in 2 sessions."
    learnt = [
        "Learnt: - tidepool listens on port 8080, everywhere",
        "        - we keep the gauge readings in SQLite",
    ]
    assert told[1:3] == learnt
    assert "Changed: nothing that the memory knew before." in told
    left = "Left out: in quarantine 1 (torn line: the JSON object does not end); secrets masked 1 (aws-access-key)."
    assert told[-2] == left
    assert told[-1].startswith("Released r1: 3 messages, ")
    assert told[-1].endswith(f" Next: `slowwave briefing{options}")
    assert len(told) <= 8

    assert tell(tmp_path / "a") == [
        "New: nothing.",
        f"Nothing changed: the live release stays. Next: `slowwave briefing{options}",
    ]

    moved = [
        "Decision: tidepool moves from port 8080 to port 7070, everywhere.",
        "Convention: every migration gets a rollback test from now on.",
    ]
    told = tell(write("bb", moved))
    assert told[0] == "New: 2 messages in 1 session."
    assert told[1].startswith("Learnt: - ")
    changed = next(line for line in told if line.startswith("Changed: "))
    assert "tidepool listens on port 8080, everywhere” is " in changed
    assert "moves from port 8080 to port 7070" in changed
    assert told[-1].endswith(f" Next: `slowwave diff{options}")

    long = (
        "every migration of the gauge readings gets a rollback test from now on, which runs it against a copy of the "
        "last release and compares each table's rows, their hashes and their order with those before it"
    )
    told = tell(
        write(
            "ccc",
            [
                f"Convention: {long}.",
                "Decision: tidepool serves its height curves as SVG.",
            ],
        )
    )
    # COLUMNS.
    assert (
        told[1:3]
        == fill(
            f"Learnt: - {long}", 200, subsequent_indent=" " * len("Learnt: - ")
        ).splitlines()
    )


def test_errors_are_one_line_and_say_what_to_do(tmp_path: Path) -> None:
    for words, said in (
        (("recall", "x", "--store", tmp_path / "none"), "no store at"),
        (("check", "--store", tmp_path / "none"), "no store at"),
        (
            ("run", SAMPLES, "--plain", "--gists", "nice", "--store", tmp_path / "s"),
            "setting gists",
        ),
        (
            ("run", SAMPLES, "--plain", "--space", "../up", "--store", tmp_path / "s"),
            "setting space",
        ),
        (
            ("run", SAMPLES, "--plain", "--engine", "rya", "--store", tmp_path / "s"),
            "--engine is ray",
        ),
        (
            ("run", SAMPLES, "--plain", "--address", "a:1", "--store", tmp_path / "s"),
            "--address needs --engine",
        ),
        (
            (
                "run",
                SAMPLES,
                "--plain",
                "--llm",
                "scripted > extractive",
                "--store",
                tmp_path / "s",
            ),
            "one writer",
        ),
    ):
        result = typed(*words)
        assert result.exit_code == 1, words
        assert said in result.output
        assert "Traceback" not in result.output


def test_a_path_that_cannot_be_read_is_refused_before_prefect_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Importing it would raise ImportError.
    monkeypatch.setitem(sys.modules, "slowwave.flows.prefect", None)
    os.mkfifo(tmp_path / "pipe")
    for path, why in (
        ("none", "no such file or folder"),
        ("pipe", "expected a file or a folder, got a pipe"),
    ):
        result = typed("run", tmp_path / path, "--store", tmp_path / "s")
        assert result.exit_code == 3
        assert f"{tmp_path / path}: {why}" in result.output
    assert typed("run", "/dev/null", "--store", tmp_path / "s").exit_code == 3
    assert not (tmp_path / "s").exists()


def test_a_named_file_of_which_nothing_is_read_is_named_in_the_last_line(
    tmp_path: Path,
) -> None:
    for name, text in {
        "diary.txt": "Dear diary,\n",
        "torn.jsonl": '{"role": "user", "content": 5}\n' * 3,
        "empty.jsonl": "",
        "good.jsonl": '{"role": "user", "session_id": "s", "content": "We keep the gauge readings in PostgreSQL."}\n',
        "folder/diary.jsonl": "Dear diary,\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "bare").mkdir()
    reasons = {
        "diary.txt": "no known transcript format",
        "torn.jsonl": "in quarantine: `slowwave inspect quarantine` has the reason",
        "empty.jsonl": "the file is empty",
        "bare": "no transcript is in it",
    }
    for verdict in (
        "Released r1",
        "Nothing changed",
    ):
        # The second night finds the files as they were.
        words = (
            "run",
            *(tmp_path / name for name in (*reasons, "good.jsonl")),
            "--plain",
            "--store",
            tmp_path / "s0",
        )
        result = typed(*words)
        last = result.output.splitlines()[-1]
        assert (result.exit_code, last.startswith(verdict)) == (3, True), result.output
        for name, reason in reasons.items():
            assert (f"{tmp_path / name} (" in last, reason in last) == (True, True), (
                last
            )
    nobody_named_it = typed(
        "run",
        tmp_path / "folder",
        tmp_path / "good.jsonl",
        "--plain",
        "--store",
        tmp_path / "s",
    )
    assert nobody_named_it.exit_code == 0
    copy = shutil.copy(tmp_path / "good.jsonl", tmp_path / "folder" / "copy.jsonl")
    (tmp_path / "folder" / "letter.jsonl").write_text("Dear friend,\n")
    again = typed(
        "run", tmp_path / "folder", copy, "--plain", "--store", tmp_path / "s"
    )
    # A copy and an unreadable file are no news.
    assert "Nothing changed" in again.output.splitlines()[-1]
    assert "letter.jsonl: no known transcript format" in again.output


def test_a_settings_file_with_a_typo_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(tmp_path / "slowwave.toml"))
    (tmp_path / "slowwave.toml").write_text('gist = "off"\n')
    assert "has unknown settings: gist" in typed("config").output
    (tmp_path / "slowwave.toml").write_text("gists = \n")
    assert "is not valid TOML" in typed("config").output
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(tmp_path / "nowhere.toml"))
    assert "there is no settings file" in typed("config").output


def test_what_looks_like_markup_in_a_path_is_shown_as_it_is(tmp_path: Path) -> None:
    odd = tmp_path / "[" / "red]y[bold].json"
    odd.parent.mkdir()
    odd.write_text("junk")
    assert typed("plan", tmp_path, "--store", tmp_path / "s").exit_code == 0
    assert json.loads(
        typed("plan", tmp_path, "--json", "--store", tmp_path / "s").output
    )["sources"][0]["where"] == str(odd)
    assert typed("run", tmp_path, "--plain", "--store", tmp_path / "s").exit_code == 0
    shown = typed("inspect", "quarantine", "--store", tmp_path / "s").output.replace(
        "\n", ""
    )
    # The form of a closing tag is harmless, as everywhere.
    assert "(/red)y[bold].json" in shown


def test_plan_says_what_a_night_would_read_and_what_it_cannot(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "codex", tmp_path / "codex")
    (tmp_path / "codex" / "odd.jsonl").write_text('{"what": "ever"}\n')
    listed = json.loads(
        typed("plan", tmp_path, "--json", "--store", tmp_path / "s").output
    )["sources"]
    assert [(one["tool"], one["files"]) for one in listed] == [("codex", 2), ("?", 1)]
    assert "no known transcript format" in listed[1]["problem"]


def test_plan_without_a_path_finds_the_installed_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    shutil.copytree(
        SAMPLES / "claude-code" / "projects", tmp_path / ".claude" / "projects"
    )
    shutil.copytree(SAMPLES / "codex" / "sessions", tmp_path / ".codex" / "sessions")
    listed = json.loads(typed("plan", "--json", "--store", tmp_path / "s").output)[
        "sources"
    ]
    assert [(one["tool"], one["files"]) for one in listed] == [
        ("claude-code", 6),
        ("codex", 2),
    ]
    done = typed("run", "--plain", "--store", tmp_path / "s")
    assert done.exit_code == 0, done.output
    # 5 and a sub-agent of Claude Code, 2 of Codex.
    assert Snapshot(tmp_path / "s").release.counts["sessions"] == 8


def test_an_empty_home_is_told_where_transcripts_were_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    done = typed("run", "--store", tmp_path / "s")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert "No transcript was found. Looked for:" in lines
    assert (
        f"  claude-code: {tmp_path}/.claude/projects/**/*.jsonl (no transcript in it)"
        in lines
    )
    assert (
        f"  codex: {tmp_path}/.codex/sessions/**/*.jsonl (not there, nor 1 more)"
        in lines
    )
    assert len({line.partition(":")[0] for line in lines[1:-1]}) == len(lines) - 2
    assert "briefing" not in done.stdout
    assert "publish" not in done.stdout  # no table of zeros
    assert lines[-1].startswith("Nothing was read. Next: `slowwave run PATH --store ")


def test_check_passes_and_names_what_was_changed(store: Path, tmp_path: Path) -> None:
    result = typed("check", "--store", store)
    assert result.exit_code == 0
    assert "1 release, 334 messages in 20 sessions checked: 0 damaged" in result.output
    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    Store.open(copy).open_dataset(MESSAGES).update(
        {"text": "'forged'"}, "native_id = 'ef62bb8c-ee87-423a-a1fc-dff25e73f96f'"
    )
    forged = typed("check", "--store", copy)
    assert forged.exit_code == 1
    assert (
        "session 9e6924d2-b4fb-47c4-b8b7-4c2df11e9ac5, message 0: its content differs"
        in forged.output
    )
    # The bytes are those that Lance wrote, so nothing can be repaired, and the exit status says what is left.
    mended = typed("check", "--repair", "--store", copy)
    assert mended.exit_code == 1
    assert "message 0: its content differs" in mended.output
    for table in (MESSAGES, SESSIONS):
        Store.open(copy).open_dataset(table).delete(pc.field("source") == "chatgpt")
    assert "sessions were removed" in typed("check", "--store", copy).output


def test_config_shows_every_name_and_value_whole_at_80_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("SLOWWAVE_MODEL__USD_PER_MILLION_COMPLETION", "12.5")
    shown, listed = typed("config").output, json.loads(typed("config", "--json").output)
    assert "…" not in shown
    for name, one in listed.items():
        assert f"{name} = {one['value']}  ({one['from']})\n" in shown


def test_the_version_is_told_without_the_pipeline() -> None:
    heavy = {"torch", "prefect", "lance", "pyarrow", "numpy", "polars"}
    code = f"import sys\nfrom slowwave.cli.main import main\ntry: main()\nfinally: print(sys.modules.keys() & {heavy})"
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [f"slowwave {version('slowwave')}", "set()"]


def test_config_says_where_each_value_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slowwave.toml").write_text("[pyramid]\nstep = 7\n")
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(tmp_path / "slowwave.toml"))
    monkeypatch.setenv("SLOWWAVE_GISTS", "off")
    shown = json.loads(typed("config", "--json").output)
    assert shown["pyramid.step"] == {
        "value": 7,
        "from": str(tmp_path / "slowwave.toml"),
    }
    assert shown["gists"] == {"value": "off", "from": "SLOWWAVE_GISTS"}
    assert shown["redact"] == {"value": True, "from": "default"}


@pytest.mark.parametrize("form", ["parquet", "lance", "jsonl"])
def test_an_export_holds_the_released_rows_and_says_so(
    store: Path, tmp_path: Path, form: str
) -> None:
    result = typed("export", tmp_path / "out", "--format", form, "--store", store)
    assert result.exit_code == 0, result.output
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    snapshot = Snapshot(store)
    assert manifest["release"] == "r1"
    assert {
        name: facts["rows"] for name, facts in manifest["tables"].items()
    } == snapshot.release.counts
    for table in RELEASED:
        path = tmp_path / "out" / manifest["tables"][table.name]["file"]
        if form == "parquet":
            held = pq.read_table(path)
            own = snapshot.read(table).select(held.column_names)
            assert sorted(map(repr, held.to_pylist())) == sorted(
                map(repr, own.to_pylist())
            )
            assert set(table.schema.names).difference(held.column_names) <= {*INTERNAL}
        if form == "jsonl":
            assert (
                len(path.read_text().splitlines())
                == snapshot.release.counts[table.name]
            )
    # Never over what is there.
    assert typed("export", tmp_path / "out", "--store", store).exit_code == 1


def test_a_list_that_is_cut_says_how_many_there_are(store: Path) -> None:
    every = json.loads(
        typed("show", "claims", "--limit", 9_999, "--json", "--store", store).output
    )
    cut = typed("show", "claims", "--limit", 2, "--store", store).output
    assert cut.endswith(f"\n2 of {len(every)}; --limit N for more\n")
    whole = typed("show", "claims", "--limit", len(every), "--store", store).output
    assert "--limit N" not in whole
    slip = typed("show", "claim", "--store", store)
    assert "Did you mean `slowwave show claims`?" in slip.stderr


def test_releases_rollback_quarantine_and_runs(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    torn = typed("inspect", "quarantine", "--store", copy).output
    assert "torn line" in torn
    session = json.loads(typed("recall", "port", "--json", "--store", copy).output)[
        "hits"
    ][0]["sources"][0]["session"]
    assert (
        typed(
            "exclude", session, "--why", "a second release is needed", "--store", copy
        ).exit_code
        == 0
    )
    noted = typed("remember", "The kiln door is green", "--store", copy).output
    note = noted.split()[2].rstrip(",")
    back = typed("rollback", "r1", "--store", copy)
    assert back.exit_code == 0, back.output
    assert f"`slowwave exclude {note} --why …` excludes them" in back.output
    listed = json.loads(typed("inspect", "releases", "--json", "--store", copy).output)
    assert listed[0]["restores"] == listed[-1]["release_id"]
    kinds = [
        run["kind"]
        for run in json.loads(
            typed("inspect", "runs", "--json", "--store", copy).output
        )
    ]
    assert "nightly" in kinds
    # a slip is no run, and says which there are
    before = typed("inspect", "runs", "--json", "--store", copy).output
    slip = typed("rollback", "r77", "--store", copy)
    assert (slip.exit_code, "there are: r1, r2, r3" in slip.output) == (1, True)
    assert typed("inspect", "runs", "--json", "--store", copy).output == before
    forward = typed("rollback", "r2", "--store", copy).output
    assert forward.endswith("This is the newest release again.\n")


@pytest.fixture
def barns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that knows one barn and two stalls; the current folder is `farm`."""
    places = ["/home/ada/barn", "/home/ada/stall", "/home/bob/stall"]
    lines = [
        {
            "session_id": place,
            "role": "user",
            "content": f"We keep hay in {place}.",
            "ts": "2026-11-01T10:00:00Z",
            "workspace": place,
        }
        for place in places
    ]
    said = tmp_path / "said.jsonl"
    said.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert typed("run", said).exit_code == 0
    (tmp_path / "farm").mkdir()
    monkeypatch.chdir(tmp_path / "farm")
    return tmp_path / "farm"


@pytest.mark.parametrize(
    ("old", "stored"),
    [
        ("barn", "/home/ada/barn"),
        ("BARN", "/home/ada/barn"),
        ("ada/stall", "/home/ada/stall"),
        ("/home/bob/stall", "/home/bob/stall"),
    ],
)
def test_an_alias_of_the_last_part_of_a_path_is_one_of_the_path(
    old: str, stored: str, barns: Path
) -> None:
    made = json.loads(typed("config", "alias", old, ".", "--json").output)
    assert (made["old"], made["new"], made["known"]) == (stored, str(barns), True)
    hits = json.loads(typed("recall", "hay", "--project", ".", "--json").output)
    assert [hit["workspace"] for hit in hits["hits"]] == [stored]


def test_an_alias_of_an_unknown_name_says_that_nothing_is_stored_under_it(
    barns: Path,
) -> None:
    done = typed("config", "alias", "hutch", ".")
    assert done.output.startswith(f"hutch is {barns} from now on (")
    assert done.output.endswith("\nnote: nothing is stored under hutch yet\n")


def test_a_new_name_is_a_folder_here_or_the_last_part_of_a_path(barns: Path) -> None:
    (barns / "byre").mkdir()
    made = json.loads(typed("config", "alias", "barn", "byre", "--json").output)
    assert made["new"] == str(barns / "byre")
    made = json.loads(typed("config", "alias", "old/pen", "barn", "--json").output)
    assert made["new"] == "/home/ada/barn"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["alias"], "write `slowwave config alias OLD NEW`"),
        (["alias", "barn"], "write `slowwave config alias OLD NEW`"),
        (["alias", "barn", "x", "y"], "write `slowwave config alias OLD NEW`"),
        (["rename", "barn", "."], "write `slowwave config alias OLD NEW`"),
        (["alias", "", "."], "the name of a project is empty"),
        (["alias", "stall", "."], "2 projects are called 'stall'"),
        (["alias", "barn", "/home/ada/barn/"], "are one project already"),
    ],
)
def test_an_alias_that_names_no_two_workspaces_is_refused(
    words: list[str], message: str, barns: Path
) -> None:
    done = typed("config", *words)
    assert (done.exit_code, message in done.output) == (1, True)
    assert "aliases = {}" in typed("config").output


@pytest.mark.parametrize(
    "words",
    [
        ["briefing", "--project", "born"],
        ["skill", "--project", "born"],
        ["recall", "hay", "--project", "born"],
        ["show", "claims", "--project", "born"],
        ["show", "habits", "--project", "born"],
        ["remember", "We keep hay.", "--project", "born"],
    ],
)
def test_a_slip_inside_a_known_checkout_is_not_that_checkout(
    words: list[str], barns: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (barns / "yard" / ".git").mkdir(parents=True)
    monkeypatch.chdir(barns / "yard")
    assert typed("remember", "We keep oats.", "--project", ".").exit_code == 0
    done = typed(*words)
    told = "no project 'born' is known here; the nearest: '/home/ada/barn'"
    assert (done.exit_code, told in done.output) == (1, True), done.output


def test_in_a_renamed_folder_its_own_name_is_a_new_one(barns: Path) -> None:
    (barns / ".git").mkdir()
    made = json.loads(typed("config", "alias", "barn", "farm", "--json").output)
    assert (made["old"], made["new"]) == ("/home/ada/barn", str(barns))


def test_help_is_shown_after_any_word() -> None:
    shown = typed("config", "alias", "--help")
    assert (shown.exit_code, "what was said under OLD" in shown.output) == (0, True)


def test_a_command_that_is_printed_is_spelled_as_the_program_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = tmp_path / ".venv" / "bin" / "slowwave"
    beside.parent.mkdir(parents=True)
    beside.write_text("#!/bin/sh\n", encoding="utf-8")
    beside.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setattr(sys, "argv", [".venv/bin/slowwave", "status"])
    said = typed("status", "--store", tmp_path / "none").stderr
    assert "`.venv/bin/slowwave run`" in said
    monkeypatch.setenv("PATH", str(beside.parent))  # as an active environment has it
    said = typed("status", "--store", tmp_path / "none").stderr
    assert "`slowwave run`" in said
