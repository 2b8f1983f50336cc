"""Import the learnings that another memory exported.

    slowwave import learnings.json --as ann --project /home/ben/shop

The document is kept in the space's folder (`shared/NAME.json`), and a night reads it as a transcript.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.schemas.errors import StoreMissing, UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import SESSIONS
from slowwave.schemas.vocabulary import LEARNINGS
from slowwave.store.place import check_writable
from slowwave.store.private import make_files_private, make_private_folder, replace_file
from slowwave.store.store import Store
from slowwave.tasks.ingest.formats.own.export import (
    FOLDER,
    WITHDRAWN,
    read_claims,
    read_learnings,
)
from slowwave.tasks.ingest.parsing.records import Inactive, Limits, Message
from slowwave.tasks.publish.learnings import SCHEMA
from slowwave.text.workspaces import settle_workspace

_NAME = re.compile(r"[\w.-]{1,64}")


def import_learnings(
    settings: Settings,
    file: Path,
    name: str,
    workspaces: Sequence[str] = (),
) -> RunReport:
    """Keep a document of learnings as NAME's, and run a night over it.

    Args:
        settings: of the memory that imports.
        file: what `export_learnings` wrote as JSON.
        name: of the source. A later import under the same name replaces this one, and claims that it lacks are
            withdrawn.
        workspaces: `NAME=PATH` for each workspace of the claims, or one `PATH` for all: their workspaces here.

    Raises:
        UsageError: the file holds no learnings, or a name or workspace can't be used.
        StoreLocked: another run holds the store.
    """
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise UsageError(
            f"--as {name!r}: a name of letters, digits, dots and dashes, at most 64"
        )
    document = _load_document(file)
    claims = _place_claims(document["claims"], settings, workspaces)
    folder = settings.store / settings.space / FOLDER
    check_writable(settings)
    with make_files_private():
        make_private_folder(folder)
        stored = folder / f"{name}.json"
        withdrawn = _find_withdrawn(stored, name, claims)
        now = {**document, "name": name, "claims": claims, WITHDRAWN: withdrawn}
        text = orjson.dumps(now, option=orjson.OPT_INDENT_2)
        if not stored.exists() or stored.read_bytes() != text:
            replace_file(stored, text)
    return run_night([stored], settings)


def _place_claims(
    claims: list[dict[str, Any]], settings: Settings, workspaces: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the claims with their workspaces renamed to those of this memory.

    Raises:
        UsageError: the options are neither one path for all nor a path for each workspace.
    """
    pairs = [workspace.partition("=") for workspace in workspaces]
    lacks_path = any(not here for _, sign, here in pairs if sign)
    is_for_all = any(not sign for _, sign, _ in pairs)
    if lacks_path or (is_for_all and len(pairs) > 1):
        raise UsageError(
            "--project takes one PATH for all claims, or NAME=PATH for each project"
        )
    known = _list_workspaces(settings) if pairs else []
    # Paths here by their names there; under None the path for all.
    places = {
        name if sign else None: settle_workspace(here if sign else name, known)
        for name, sign, here in pairs
    }
    placed = []
    for claim in claims:
        there = claim.get("workspace")
        here = places.get(None) or places.get(str(there), there)
        placed.append({**claim, "workspace": here})
    return placed


def _find_withdrawn(
    stored: Path, name: str, claims: list[dict[str, Any]]
) -> list[dict[str, str]]:
    """Return the session and id of each claim that the source's stored document has, or had withdrawn, and that is not
    among these claims.
    """
    before = read_learnings(stored, Limits()) if stored.exists() else ()
    earlier = {
        (record.session, record.native_id)
        for record in before
        if isinstance(record, Message | Inactive)
    }
    now = {
        (record.session, record.native_id)
        for record in read_claims(name, claims)
        if isinstance(record, Message)
    }
    return [
        {"session": session, "id": native} for session, native in sorted(earlier - now)
    ]


def _list_workspaces(settings: Settings) -> list[str | None]:
    """Return the workspaces that a space knows; none before its first night."""
    try:
        rows = Store.open(settings.store, settings.space).read(SESSIONS, ["workspace"])
    except StoreMissing:
        return []
    workspaces: list[str | None] = rows["workspace"].unique().to_pylist()
    return workspaces


def _load_document(file: Path) -> dict[str, Any]:
    """Return the document that `slowwave export --learnings` wrote.

    Raises:
        UsageError: the file can't be read, or holds anything else.
    """
    try:
        if file.exists() and not file.is_file():
            # opening a pipe would wait for a writer
            raise OSError("it is not a file")
        document = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise UsageError(f"{file} can't be read as learnings: {error}") from error
    claims = (
        document.get("claims")
        if isinstance(document, dict) and document.get(LEARNINGS) == SCHEMA
        else None
    )
    if not isinstance(claims, list) or not all(
        isinstance(claim, dict) for claim in claims
    ):
        raise UsageError(
            f"{file}: no learnings of version {SCHEMA} that `slowwave export --learnings` wrote as json"
        )
    return {**document}
