"""`slowwave mcp`: the memory as a server of the Model Context Protocol, for Claude Code, Codex and other agents."""

import importlib.util
import os
from typing import Annotated

import typer

from slowwave.cli.common import ERR, SpaceOption, StoreOption, load_settings, report_errors
from slowwave.schemas.errors import UsageError

LOOPBACK = "127.0.0.1"


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Over HTTP on this machine's loopback address.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port for --http.")] = 8_765,
    read_only: Annotated[bool, typer.Option("--read-only", help="Take no notes.")] = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Serve the memory to agents over MCP (stdio, or --http).

    With SLOWWAVE_MCP_TOKEN set, over HTTP to those alone who send it as bearer token.
    """
    with report_errors():
        if importlib.util.find_spec("mcp") is None:
            raise UsageError("the MCP server needs the package mcp: pip install 'slowwave[mcp]'")
        from importlib.metadata import version

        from slowwave.mcp.server import make_server, serve_http

        server = make_server(load_settings(store, space), version("slowwave"), read_only=read_only)
        if http:
            ERR.print(f"slowwave: serving MCP at http://{LOOPBACK}:{port}/mcp", highlight=False)
            serve_http(server, LOOPBACK, port, os.environ.get("SLOWWAVE_MCP_TOKEN"))
        else:
            server.run("stdio")
