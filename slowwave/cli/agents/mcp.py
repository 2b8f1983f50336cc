"""`slowwave mcp`: the memory as a server of the Model Context Protocol, for Claude Code, Codex and other agents."""

import importlib.util
import os
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.agents.ui import make_pages
from slowwave.cli.common import ERR, command
from slowwave.schemas.errors import UsageError, name_install

if TYPE_CHECKING:
    from slowwave.schemas.settings import Settings

LOOPBACK = "127.0.0.1"


@command
def mcp(
    settings: "Settings",
    http: Annotated[bool, typer.Option("--http", help="Over HTTP on this machine's loopback address.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port for --http.")] = 8_765,
    read_only: Annotated[bool, typer.Option("--read-only", help="Take no notes.")] = False,
    ui: Annotated[bool, typer.Option("--ui", help="With --http: the pages of `slowwave ui` too.")] = False,
) -> None:
    """Serve the memory to agents over MCP (stdio, or --http).

    With SLOWWAVE_MCP_TOKEN set, over HTTP to those alone who send it as bearer token.
    """
    if importlib.util.find_spec("mcp") is None:
        raise UsageError(f"the MCP server needs the package mcp: {name_install('mcp')}")
    from importlib.metadata import version

    from slowwave.mcp.server import make_server, serve_http

    server = make_server(settings, version("slowwave"), read_only=read_only)
    if ui and not http:
        raise UsageError("--ui needs --http: over stdio nothing is served to a browser")
    if http:
        pages = make_pages(settings, port, read_only=read_only) if ui else None
        ERR.print(f"slowwave: serving MCP at http://{LOOPBACK}:{port}/mcp")
        serve_http(server, LOOPBACK, port, os.environ.get("SLOWWAVE_MCP_TOKEN"), pages)
    else:
        server.run("stdio")
