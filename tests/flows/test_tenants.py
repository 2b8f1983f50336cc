"""Several spaces of one store: a night, a share and a key for each, and nothing from one to another."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from tests.command_line import typed
from tests.vllm_servers import free_port
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    monkeypatch.setenv("SLOWWAVE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def write(folder: Path, name: str, text: str) -> None:
    """Write a transcript whose session, messages and workspace are called the same in whatever space."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "session_id": name,
            "message_id": f"{name}-{n}",
            "role": role,
            "content": said,
            "workspace": "/same",
        }
        for n, (role, said) in enumerate(
            (("user", f"Where do we keep {name}?"), ("assistant", text))
        )
    ]
    (folder / f"{name}.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )


def test_a_space_hears_nothing_of_another(tmp_path: Path) -> None:
    for space, where in (
        ("a", "in the harbour office"),
        ("b", "on the lighthouse roof"),
    ):
        write(
            tmp_path / "in" / space, "gauges", f"We decided to keep the gauges {where}."
        )
    refused = typed("run", tmp_path / "in", "--plain", "--space", "a", "--space", "b")
    assert (refused.exit_code, "each PATH must contain {space}" in refused.output) == (
        1,
        True,
    )
    assert (
        "no space yet"
        in typed("run", tmp_path / "in" / "{space}", "--plain", "--all-spaces").output
    )
    assert not (tmp_path / "store").exists()
    night = typed(
        "run",
        tmp_path / "in" / "{space}",
        "--plain",
        "--space",
        "a",
        "--space",
        "gone",
        "--space",
        "b",
    )
    assert night.exit_code == 3, night.output  # of the one whose folder is not there
    assert night.output.count("Released r1") == 2

    of_b = typed(
        "recall", "where do we keep the gauges", "--space", "b", "--project", "/same"
    ).output
    assert "lighthouse" in of_b
    assert "harbour" not in of_b
    both = json.loads(
        typed(
            "recall",
            "where do we keep the gauges",
            "--space",
            "a",
            "--space",
            "b",
            "--json",
        ).output
    )
    words = {"a": "harbour", "b": "lighthouse"}
    assert {hit["space"] for hit in both["hits"]} == {"a", "b"}
    said = [hit for hit in both["hits"] if "decided" in hit["text"]]
    assert said
    assert all((words[hit["space"]] in hit["text"]) for hit in said)


def test_a_quota_leaves_the_rest_to_the_next_night_and_whoever_waited_longest_is_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for space in ("a", "b"):
        for name in ("gauges", "charts", "buoys"):
            write(
                tmp_path / "in" / space,
                name,
                f"We decided to keep the {name} of {space} in the shed.",
            )
    monkeypatch.setenv("SLOWWAVE_QUOTA__MESSAGES", "3")
    source = tmp_path / "in" / "{space}"
    first = typed("run", source, "--plain", "--space", "b", "--space", "a")
    assert first.exit_code == 0, first.output
    assert first.output.count("left for another night transcripts 1") == 2
    assert first.output.index("space b") < first.output.index("space a")
    monkeypatch.setenv("SLOWWAVE_SPACE", "b")  # as the setting has it
    assert typed("run", source, "--plain").exit_code == 0
    last = typed("run", source, "--plain", "--all-spaces")
    assert last.exit_code == 0, last.output
    assert last.output.index("space a") < last.output.index("space b")
    monkeypatch.setenv("SLOWWAVE_QUOTA__MESSAGES", "0")
    assert (
        typed("run", source, "--plain", "--all-spaces").output.count("Nothing changed")
        == 2
    )


def test_one_server_answers_each_key_from_its_own_space(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    import httpx
    import uvicorn
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    from slowwave.cli.agents.serve import read_keys
    from slowwave.mcp.server import make_http_app, make_server
    from slowwave.schemas.errors import UsageError
    from slowwave.schemas.settings import Settings

    for space, where in (
        ("a", "in the harbour office"),
        ("b", "on the lighthouse roof"),
    ):
        write(
            tmp_path / "in" / space, "gauges", f"We decided to keep the gauges {where}."
        )
    assert (
        typed(
            "run",
            tmp_path / "in" / "{space}",
            "--plain",
            "--space",
            "a",
            "--space",
            "b",
        ).exit_code
        == 0
    )
    file = tmp_path / "keys.toml"
    file.write_text("".join(f'{space} = "{space * 16}"\n' for space in "ab"))
    file.chmod(0o644)
    with pytest.raises(UsageError, match="others may read it"):
        read_keys(file)
    file.chmod(0o600)
    servers = [
        (make_server(Settings(space=space)), key)
        for space, key in read_keys(file).items()
    ]
    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(
            make_http_app(servers, "127.0.0.1"), port=port, log_level="error"
        )
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, every=0.02)

        async def ask(key: str) -> str:
            headers = {"Authorization": f"Bearer {key}"}
            async with (
                httpx.AsyncClient(headers=headers) as http,
                Client(
                    streamable_http_client(
                        f"http://127.0.0.1:{port}/mcp", http_client=http
                    )
                ) as client,
            ):
                return str(
                    (
                        await client.call_tool(
                            "recall", {"query": "where do we keep the gauges"}
                        )
                    ).content
                )

        of_a, of_b = (asyncio.run(ask(space * 16)) for space in "ab")
        assert ("harbour" in of_a, "lighthouse" in of_a) == (True, False)
        assert ("harbour" in of_b, "lighthouse" in of_b) == (False, True)
        assert (
            httpx.post(
                f"http://127.0.0.1:{port}/mcp", headers={"Authorization": "Bearer c"}
            ).status_code
            == 401
        )
    finally:
        server.should_exit = True
        thread.join()
