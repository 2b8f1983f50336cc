"""`slowwave mcp`: the memory as a server of the Model Context Protocol, for Claude Code, Codex and other agents."""

import importlib.util
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.agents.ui import make_pages
from slowwave.cli.common import ERR, command, load_settings
from slowwave.schemas.errors import UsageError, name_install

if TYPE_CHECKING:
    from slowwave.schemas.settings import Settings

LOOPBACK = "127.0.0.1"
KEY_CHARS = 16
"""Of a space's key, at least."""


@command
def mcp(
    settings: "Settings",
    http: Annotated[bool, typer.Option("--http", help="Over HTTP on this machine's loopback address.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port for --http.")] = 8_765,
    read_only: Annotated[bool, typer.Option("--read-only", help="Take no notes.")] = False,
    ui: Annotated[bool, typer.Option("--ui", help="With --http: the pages of `slowwave ui` too.")] = False,
    keys: Annotated[
        Path | None, typer.Option(help='With --http: a TOML file with a line NAME = "KEY" for each space.')
    ] = None,
) -> None:
    """Serve the memory to agents over MCP (stdio, or --http).

    With SLOWWAVE_MCP_TOKEN set, over HTTP to those alone who send it as bearer token. With --keys several spaces: the
    key that is sent as bearer token decides whose memory answers.
    """
    if importlib.util.find_spec("mcp") is None:
        raise UsageError(f"the MCP server needs the package mcp: {name_install('mcp')}")
    from importlib.metadata import version

    from slowwave.mcp.server import make_server, serve_http

    if (ui or keys) and not http:
        raise UsageError("--ui and --keys need --http: over stdio one space is served, and none to a browser")
    if ui and keys:
        raise UsageError("--ui shows one space, and --keys serves several")
    named = read_keys(keys) if keys else {settings.space: os.environ.get("SLOWWAVE_MCP_TOKEN")}
    of_each = [load_settings(settings.store, space) for space in named]
    servers = [make_server(one, version("slowwave"), read_only=read_only) for one in of_each]
    if http:
        pages = make_pages(settings, port, read_only=read_only) if ui else None
        ERR.print(f"slowwave: serving MCP at http://{LOOPBACK}:{port}/mcp")
        serve_http(list(zip(servers, named.values(), strict=True)), LOOPBACK, port, pages)
    else:
        servers[0].run("stdio")


def read_keys(file: Path) -> dict[str, str | None]:
    """Return the key of each space, by a TOML file that its owner alone may read.

    Raises:
        UsageError: others may read it, it is no such file, or a key is short or another space's too.
    """
    try:
        named = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as wrong:
        raise UsageError(f"{file} is no TOML: {wrong}") from None
    if file.stat().st_mode & 0o077:
        raise UsageError(f"{file} holds keys, and others may read it: chmod 600 {file}")
    keys = [key for key in named.values() if isinstance(key, str) and key.isascii() and len(key) >= KEY_CHARS]
    if not keys or len(set(keys)) < len(named):
        raise UsageError(f'{file} needs a line NAME = "KEY" for each space, each key another of {KEY_CHARS} characters')
    return named
