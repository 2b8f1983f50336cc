"""Local servers (`slowwave mcp` for agents, `slowwave ui` for a browser), and `slowwave report`, a page as a file."""

import os
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.common import ERR, OUT, command, echo
from slowwave.cli.opening import load_settings
from slowwave.schemas.errors import UsageError, name_install
from slowwave.schemas.vocabulary import UI_PORT

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from slowwave.schemas.settings import Settings

LOOPBACK = "127.0.0.1"
KEY_CHARS = 16
"""Least length of a space's key."""
PAGES = (
    "the pages need packages that are not here",
    "ui",
    "starlette",
    "jinja2",
    "uvicorn",
)


@command
def mcp(
    settings: "Settings",
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP on the loopback address.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=1, max=65_535, help="Port for --http.")
    ] = 8_765,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Do not accept notes.")
    ] = False,
    ui: Annotated[
        bool,
        typer.Option(
            "--ui", help="With --http: also serve the pages of `slowwave ui`."
        ),
    ] = False,
    keys: Annotated[
        Path | None,
        typer.Option(
            help='With --http: a TOML file with a line NAME = "KEY" for each space.'
        ),
    ] = None,
) -> None:
    """Serve the memory to agents over MCP (stdio, or --http).

    If SLOWWAVE_MCP_TOKEN is set, HTTP clients must send it as a bearer token. --keys serves several spaces: the bearer
    token that a client sends selects its space.
    """
    _require("the MCP server needs the package mcp", "mcp", "mcp")
    from importlib.metadata import version

    from slowwave.mcp.server import make_server, serve_http, serve_stdio

    if (ui or keys) and not http:
        raise UsageError(
            "--ui and --keys need --http: over stdio one space is served, and none to a browser"
        )
    if ui and keys:
        raise UsageError("--ui shows one space, and --keys serves several")
    # a server for each space
    named = (
        read_keys(keys)
        if keys
        else {settings.space: os.environ.get("SLOWWAVE_MCP_TOKEN")}
    )
    of_each = [load_settings(settings.store, space) for space in named]
    servers = [
        make_server(memory, version("slowwave"), read_only=read_only)
        for memory in of_each
    ]
    if http:
        pages = make_pages(settings, port, read_only=read_only) if ui else None
        ERR.print(f"slowwave: serving MCP at http://{LOOPBACK}:{port}/mcp")
        serve_http(
            servers=list(zip(servers, named.values(), strict=True)),
            host=LOOPBACK,
            port=port,
            pages=pages,
        )
    else:
        serve_stdio(servers[0])


def read_keys(file: Path) -> dict[str, str | None]:
    """Read the key of each space from a TOML file that only its owner may read.

    Raises:
        UsageError: others may read the file, it is not valid, or a key is too short or used twice.
    """
    try:
        named = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as wrong:
        raise UsageError(f"{file} is not TOML: {wrong}") from None
    if file.stat().st_mode & 0o077:
        raise UsageError(f"{file} holds keys, and others may read it: chmod 600 {file}")
    keys = [
        key
        for key in named.values()
        if isinstance(key, str) and key.isascii() and len(key) >= KEY_CHARS
    ]
    if not keys or len(set(keys)) < len(named):
        raise UsageError(
            f'{file} needs a line NAME = "KEY" for each space, each key another of {KEY_CHARS} characters'
        )
    return named


@command
def ui(
    settings: "Settings",
    port: Annotated[
        int,
        typer.Option(
            min=1, max=65_535, help="Port on this machine's loopback address."
        ),
    ] = UI_PORT,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Show no buttons that change anything.")
    ] = False,
) -> None:
    """Show the memory in a browser, on this machine.

    The printed address contains a token, which gives access to the pages until the command ends.
    """
    app = make_pages(settings, port, read_only=read_only)
    import uvicorn

    OUT.print("Ctrl-C ends it.")
    uvicorn.run(
        app,
        host=LOOPBACK,
        port=port,
        log_level="warning",
        server_header=False,
    )


def make_pages(settings: "Settings", port: int, *, read_only: bool) -> "Starlette":
    """Return the app of the pages, and print its address."""
    _require(*PAGES)
    from slowwave.ui.app import make_app

    app = make_app(settings, read_only=read_only)
    OUT.print(
        f"The memory is at http://{LOOPBACK}:{port}/?token={app.state.explorer.token}"
    )
    return app


@command
def report(
    settings: "Settings",
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's id, or its first characters.")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The file to write; by default the page is printed."
        ),
    ] = None,
) -> None:
    """Write one night's results, changes and costs as an HTML file.

    Without RUN it is the last night. The page quotes messages: share it only with people who may read them.
    """
    _require(*PAGES)
    from slowwave.store.private import replace_file
    from slowwave.ui.app import render_report

    page = render_report(settings, run)
    if out is None:
        echo(page)
        return
    replace_file(out, page.encode())
    ERR.print(f"{out}: written.")


def _require(what: str, extra: str, *packages: str) -> None:
    """Raise a usage error, with the command that installs them, if packages are missing."""
    if not all(map(find_spec, packages)):
        raise UsageError(f"{what}: {name_install(extra)}")
