"""Whose settings count: the user's own file, the environment, the command line; of a project's file next to nothing."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.store.releases import Snapshot
from tests.command_line import typed
from tests.recall_store import build
from tests.talk_files import session

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-c", "from slowwave.cli.main import main; main()")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that somebody else filled; the process works in it."""
    folder = tmp_path / "cloned [repo]"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("SLOWWAVE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def own(project: Path) -> Path:
    """The user's own settings file, not yet written."""
    folder = project.parent / "config" / "slowwave"
    folder.mkdir(parents=True)
    return folder / "slowwave.toml"


def fields(
    model: type[BaseModel], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(
            field.annotation, BaseModel
        ):
            yield from fields(field.annotation, (*above, name))
        else:
            yield (*above, name), field


def other_value(kind: Any, now: Any) -> Any:
    """A value of the field's kind that is not the one in force."""
    if isinstance(kind, UnionType):
        return other_value(get_args(kind)[0], now)
    if get_origin(kind) is Literal:
        return next(one for one in get_args(kind) if one != now)
    if get_origin(kind) is tuple:
        return [*now, *now] if now else [other_value(get_args(kind)[0], None)]
    if get_origin(kind) is list:
        return [*now, other_value(get_args(kind)[0], None)]
    if get_origin(kind) is dict:
        return {} if now else {"codex": "x" if get_args(kind)[1] is str else 1}
    if kind in (bool, int, float):
        return {bool: not now, int: (now or 0) + 1, float: (now or 0) * 0.8 + 0.0123}[
            kind
        ]
    return "elsewhere"


def written(names: tuple[str, ...], value: Any) -> str:
    told = json.dumps(value, separators=(", ", " = "))  # a table within a line of TOML
    return f"{'.'.join(names)} = {told}\n"


def in_force(names: tuple[str, ...]) -> Any:
    value: Any = Settings()
    for name in names:
        value = getattr(value, name)
    return value


def test_no_field_but_what_may_be_excluded_counts_in_a_projects_file(
    project: Path, own: Path, caplog: pytest.LogCaptureFixture
) -> None:
    as_it_was = Settings()
    everything = ""
    for names, field in fields(Settings):
        line = written(names, other_value(field.annotation, in_force(names)))
        if names == ("read", "exclude"):
            continue
        own.write_text(line)
        assert Settings() != as_it_was, f"{line} changes nothing anywhere"
        own.unlink()
        caplog.clear()
        (project / "slowwave.toml").write_text(line)
        assert Settings() == as_it_was, line
        assert ".".join(names) in caplog.text
        assert str(own) in caplog.text
        everything += line
    assert everything.count("\n") > 90
    (project / "slowwave.toml").write_text(everything)
    assert Settings() == as_it_was
    assert "more: left out" in caplog.text


def test_a_projects_globs_are_added_and_reach_no_other_folder(
    project: Path, own: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own.write_text('[read]\nexclude = ["/home/ada/diary*"]\n')
    (project / "slowwave.toml").write_text('[read]\nexclude = ["drafts/*"]\n')
    root = str(project).replace("[", "[[]")
    assert Settings().read.exclude == ("/home/ada/diary*", f"{root}/drafts/*")
    shown = json.loads(typed("config", "--json").output)
    assert shown["read.exclude"]["from"] == f"{own} and {project / 'slowwave.toml'}"
    assert not caplog.records
    for wrong in (
        '["/home/*"]',
        '["../*"]',
        '["~/x"]',
        '["a/../../*"]',
        "[1]",
        '"*"',
        "{}",
    ):
        (project / "slowwave.toml").write_text(
            f"[read]\nexclude = {wrong}\nmax_line_bytes = {len(wrong)}\n"
        )
        assert Settings().read.exclude == ("/home/ada/diary*",)
    assert "read.max_line_bytes, read.exclude with other than globs" in caplog.text


def test_a_night_started_in_a_project_leaves_out_that_project_alone(
    project: Path,
) -> None:
    (project / "slowwave.toml").write_text('read.exclude = ["*"]\n')
    files = [
        project / "notes.jsonl",
        project.parent / "here.jsonl",
        project.parent / "there.jsonl",
    ]
    for path, place in zip(
        files, ("/elsewhere", str(project), "/elsewhere"), strict=True
    ):
        session(
            path.parent,
            path.stem,
            2,
            [("user", f"The boiler of {path.stem} leaks.")],
            workspace=place,
        )
    given = [files[0], files[1], project / ".." / "there.jsonl"]
    run_night(given, Settings(store=project.parent / "s", encoder="hash-384"))
    from slowwave.schemas.tables import MESSAGES

    assert Snapshot(project.parent / "s").read(MESSAGES, ["text"])[
        "text"
    ].to_pylist() == ["The boiler of there leaks."]


@pytest.mark.parametrize(
    "content",
    [
        "llm = 'off'".encode("utf-16"),
        b"llm = ",
        b"a = " + b"[" * 20_000,
        b"#" * 70_000,
        b'"x\\n\\u001b[31m" = 1',
        b"\xff",
    ],
)
def test_a_projects_file_that_cannot_be_used_is_one_line_and_left_out(
    project: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    as_it_was = Settings()
    (project / "slowwave.toml").write_bytes(content)
    assert Settings() == Settings() == as_it_was
    (record,) = caplog.records
    assert str(project / "slowwave.toml") in record.getMessage()
    assert record.getMessage().isprintable()


def test_what_is_no_file_in_a_project_is_no_settings(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    as_it_was = Settings()
    odd = project / "slowwave.toml"
    for make in (odd.mkdir, lambda: odd.symlink_to(odd), lambda: os.mkfifo(odd)):
        make()
        assert Settings() == as_it_was
        odd.rmdir() if odd.is_dir() else odd.unlink()
    assert not caplog.records


def test_neither_env_file_nor_pyproject_is_read(project: Path) -> None:
    as_it_was = Settings()
    (project / ".env").write_text(
        "SLOWWAVE_LLM=openai:x@http://127.0.0.1:9/v1\nSLOWWAVE_SPACE=stolen\n"
    )
    (project / "pyproject.toml").write_text(
        '[tool.slowwave]\nspace = "x"\n[tool.pydantic-settings]\nspace = "x"\n'
    )
    assert Settings() == as_it_was


def test_the_file_that_slowwave_config_names_is_the_users(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "slowwave.toml").write_text('space = "mine"\n')
    monkeypatch.setenv("SLOWWAVE_CONFIG", "slowwave.toml")
    assert Settings().space == "mine"


@pytest.mark.parametrize(
    "content", ["space = 'x'".encode("utf-16"), b"space = ", b"a = " + b"[" * 20_000]
)
def test_the_users_broken_file_is_an_error_in_one_line(
    project: Path, own: Path, content: bytes
) -> None:
    own.write_bytes(content)
    for words in (
        ("config",),
        ("recall", "x"),
        ("context", "x"),
        ("briefing",),
        ("run", "x"),
        ("run", "x", "--plain"),
    ):
        result = typed(*words)
        assert result.exit_code == 1, words
        assert result.output.startswith(f"slowwave: {own} is not ")
        assert result.output.count("\n") == 1
    with pytest.raises(UsageError, match="is not "):
        Memory.open(project / "s")


@pytest.fixture
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """An address that keeps what it is sent, and answers nothing."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    heard.append(connection.recv(65_536))

        Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1", heard


def test_a_strangers_encoder_is_sent_nothing_and_the_memory_answers(
    project: Path, own: Path, listener: tuple[str, list[bytes]]
) -> None:
    url, heard = listener
    store = project.parent / "s"
    build(store, encoder="x")
    (project / "slowwave.toml").write_text(
        f'encoder = "openai:x@{url}"\n[web]\nenabled = true\n'
    )
    asked = [*COMMAND, "recall", "session cache", "--json", "--store", str(store)]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["hits"]
    assert heard == []
    assert done.stderr.count("encoder, web.enabled: left out") == 1
    own.write_text(f'encoder = "openai:x@{url}"\n')
    assert json.loads(
        typed("recall", "session cache", "--json", "--store", store).stdout
    )["hits"]
    assert heard, "the user's own encoder would be asked"


def test_prefect_is_not_imported_as_a_strangers_folder_has_it(project: Path) -> None:
    (project / ".env").write_text(
        f"PREFECT_LOGGING_SETTINGS_PATH={project}/logging.yml\n"
    )
    runs_code = "handlers: {x: {(): os.mkdir, path: made}}\nroot: {handlers: [x]}\n"
    (project / "logging.yml").write_text(f"version: 1\n{runs_code}")
    told = "from slowwave.cli.under_prefect import import_prefect_quietly; import_prefect_quietly()"
    subprocess.run([sys.executable, "-c", told], capture_output=True, check=True)
    assert not (project / "made").exists()


def test_what_is_spawned_after_prefect_was_imported_finds_its_modules(
    project: Path,
) -> None:
    told = "from slowwave.cli.under_prefect import import_prefect_quietly; import_prefect_quietly(); "
    told += "from multiprocessing.spawn import get_preparation_data as d; print(d('x')['sys_path'])"
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True
    )
    assert str(project) in done.stdout
    assert "slowwave/cli" not in done.stdout


def test_a_strangers_folder_names_no_server_to_report_a_night_to(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    address = "http://127.0.0.1:9/api"
    (project / "prefect.toml").write_text(f'[api]\nurl = "{address}"\n')
    (project / ".env").write_text(f"PREFECT_API_URL={address}\n")
    chat = session(project, "chat", 2, [("user", "The boiler in the cellar leaks.")])
    done = typed("run", chat, "--no-embeddings", "--store", project.parent / "s")
    assert "Released r1: 1 message" in done.stdout
    assert "Prefect" not in done.stderr


def test_a_persons_memory_is_among_the_users_data_also_in_a_checkout(
    project: Path,
) -> None:
    told = "from slowwave.schemas.settings import Settings; print(Settings().store)"
    environment = {
        **os.environ,
        "HOME": str(project),
        "XDG_DATA_HOME": str(project / "data"),
    }
    done = subprocess.run(
        [sys.executable, "-c", told],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert project in Path(done.stdout.strip()).parents
    assert Path(done.stdout.strip()).parts[-2:] == ("slowwave", "store")


def test_cleaning_a_checkout_removes_the_demos_memory_and_no_other(
    tmp_path: Path,
) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for space in ("demo", "default"):
        (tmp_path / "data" / "store" / space).mkdir(parents=True)
    subprocess.run(["make", "clean"], cwd=tmp_path, capture_output=True, check=True)
    assert [path.name for path in (tmp_path / "data" / "store").iterdir()] == [
        "default"
    ]
