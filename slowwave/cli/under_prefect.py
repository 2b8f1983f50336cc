"""Whether a command runs under Prefect, decided in one place; and the import of Prefect.

A night is plain unless PREFECT_API_URL is set or `--prefect` is given. slowwave starts no Prefect server: `make serve`
and the deployments do.
"""

import os
from contextlib import chdir
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from slowwave.cli.common import print_warnings, report_errors
from slowwave.schemas.places import PREFECT_SERVER

VARIABLE = "PREFECT_API_URL"
PATIENCE = 5.0
"""Seconds that the server may take to answer."""


def find_server(wanted: bool | None) -> str | None:
    """Return the address of the Prefect server to run under; None for a plain night.

    If the server can't be reached, a note says so and the night is plain.

    Args:
        wanted: True for `--prefect`, False for `--plain`, None if neither is given.
    """
    server = os.environ.get(VARIABLE, "")
    if wanted is None:
        wanted = bool(server)
    if not wanted:
        return None
    server = server or PREFECT_SERVER
    if trouble := _find_trouble(server):
        # without a user and password
        place = urlsplit(server).netloc.rpartition("@")[2] or server
        print_warnings(
            [
                f"no Prefect server answers at {place} ({trouble}): the night goes on without it"
            ]
        )
        return None
    os.environ[VARIABLE] = server
    return server


def _find_trouble(server: str) -> str:
    """Return why a server can't be reached; "" if it answers, even with an error."""
    # 16 ms that a question does not need
    from ssl import SSLError
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    try:
        with urlopen(f"{server.rstrip('/')}/health", timeout=PATIENCE):
            return ""
    except HTTPError:
        return ""
    except (OSError, ValueError) as trouble:
        reason = trouble.reason if isinstance(trouble, URLError) else trouble
        if isinstance(reason, SSLError):
            return ""  # Prefect may trust other certificates than this check
        return " ".join(str(reason).split()) or type(reason).__name__


def import_prefect_quietly() -> None:
    """Import Prefect without telemetry and without messages on the terminal, unless the user set it otherwise.

    Prefect obeys `.env`, `prefect.toml` and pyproject.toml of the folder that it is imported in: they may name another
    server, and a logging file that runs code. So it is imported in an empty folder.
    """
    from slowwave.tasks.progress import show_progress

    os.environ.setdefault("DO_NOT_TRACK", "1")
    # Prefect would log an error with its traceback; it is raised too, and printed as one line
    shown = os.environ.get("PREFECT_LOGGING_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", shown)
    # The lines of steps go to the server, not to the terminal.
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "INFO")
    # with the default of five retries, a server that dies costs a minute at every call
    os.environ.setdefault("PREFECT_CLIENT_MAX_RETRIES", "2")
    # This module remembers the folder that it is imported in: spawned processes, such as vLLM's engine, search modules
    # there.
    import multiprocessing.process  # noqa: F401

    with (
        show_progress("loading Prefect"),
        report_errors(),
        TemporaryDirectory() as empty,
        chdir(empty),
    ):
        import prefect.main  # noqa: F401
