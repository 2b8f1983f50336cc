"""`slowwave ui`: the memory in a browser, on this machine."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.common import OUT, command
from slowwave.schemas.errors import UsageError, name_install

if TYPE_CHECKING:
    from slowwave.schemas.settings import Settings


@command
def ui(
    settings: "Settings",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port on this machine's loopback address.")] = 8_766,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer no actions.")] = False,
) -> None:
    """Show the memory in a browser, on this machine.

    The address that is printed holds a token: it is the key to the pages, until the command ends.
    """
    if not all(map(find_spec, ("starlette", "jinja2", "uvicorn"))):
        raise UsageError(f"the pages need packages that are not here: {name_install('ui')}")
    from slowwave.ui.app import make_app, serve

    app = make_app(settings, read_only=read_only)
    OUT.print(f"The memory is at http://127.0.0.1:{port}/?token={app.state.explorer.token}")
    OUT.print("Ctrl-C ends it.")
    serve(app, port)
