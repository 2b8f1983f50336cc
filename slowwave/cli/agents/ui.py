"""`slowwave ui` and `slowwave report`: the memory in a browser, on this machine, and a night as one file."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.common import ERR, OUT, command, echo
from slowwave.schemas.errors import UsageError, name_install
from slowwave.schemas.vocabulary import UI_PORT

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from slowwave.schemas.settings import Settings


@command
def ui(
    settings: "Settings",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port on this machine's loopback address.")] = UI_PORT,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer no actions.")] = False,
) -> None:
    """Show the memory in a browser, on this machine.

    The address that is printed holds a token: it is the key to the pages, until the command ends.
    """
    app = make_pages(settings, port, read_only=read_only)
    import uvicorn

    OUT.print("Ctrl-C ends it.")
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", server_header=False)


def make_pages(settings: "Settings", port: int, *, read_only: bool) -> "Starlette":
    """Return the app of the pages, its address printed."""
    _require_packages()
    from slowwave.ui.app import make_app

    app = make_app(settings, read_only=read_only)
    OUT.print(f"The memory is at http://127.0.0.1:{port}/?token={app.state.explorer.token}")
    return app


@command
def report(
    settings: "Settings",
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or its first characters.")] = "",
    out: Annotated[Path | None, typer.Option("--out", help="The file; without it the page is printed.")] = None,
) -> None:
    """Write what a night brought, changed and cost as one HTML file.

    Without RUN it is that of the last one. The page quotes what was said: who reads it reads that.
    """
    _require_packages()
    from slowwave.store.private import replace_file
    from slowwave.ui.app import render_report

    page = render_report(settings, run)
    if out is None:
        echo(page)
        return
    replace_file(out, page.encode())
    ERR.print(f"{out}: written.")


def _require_packages() -> None:
    if not all(map(find_spec, ("starlette", "jinja2", "uvicorn"))):
        raise UsageError(f"the pages need packages that are not here: {name_install('ui')}")
