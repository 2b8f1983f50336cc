"""Export a memory: its released tables for analytics, or learnings, a document that another memory can read.

    slowwave export out/ --format parquet
    slowwave export 'exports/{release}'
    slowwave export increments/r8 --since r7 --partition-by day
    slowwave export learnings.json --learnings --project /home/ann/shop

A manifest names the release and each table's rows, file and columns, so a reader needs nothing else. An export to a new
folder is written beside it and moved there when it is complete, so a killed export does not block the next.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.release.view import View
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, INTERNAL, MESSAGES, RELEASED, TABLES, Table
from slowwave.schemas.vocabulary import LEARNINGS
from slowwave.store.logs import Export, note_export
from slowwave.store.place import check_writable
from slowwave.store.private import open_new, replace_file
from slowwave.store.releases import Snapshot
from slowwave.tasks.publish.export import (
    FORMATS,
    MANIFEST,
    PARTITIONS,
    Layout,
    place_part,
    write_removed,
    write_table,
)
from slowwave.tasks.publish.graph import write_graph
from slowwave.tasks.publish.learnings import (
    CITED,
    SCHEMA,
    build_learnings,
    render_markdown,
    select_learnings,
)
from slowwave.text.workspaces import anchor_workspace, require_workspaces

GRAPH = "graphml"
RELEASE = "{release}"
"""Placeholder in a path for the release's name."""


def export_tables(
    settings: Settings,
    to: Path,
    form: str,
    tables: list[str] | None = None,
    release: str | None = None,
    phrase: str | None = None,
    *,
    internal: bool = False,
    partition_by: str | None = None,
    since: str | None = None,
) -> dict[str, Any]:
    """Write the released tables and a manifest below `to`.

    `{release}`, `{date}` and `{space}` in `to` are replaced. If `to` has `{release}` and the folder holds this very
    export of an earlier call, nothing is written.

    Args:
        settings: of the store.
        to: a new folder.
        form: one of FORMATS, or GRAPH.
        tables: names of the tables; by default all.
        release: default: the live one.
        phrase: passphrase that encrypts Parquet.
        internal: write the columns of INTERNAL, too.
        partition_by: `day` or `workspace`: a folder for each, of the tables that have one.
        since: an earlier release: write the rows that are new or differ since, and `removed`, the keys of those that
            are gone.

    Returns:
        The manifest, with the folder as `to`, and `written`: False if nothing was.

    Raises:
        UsageError: encryption or partitions of anything but Parquet, internal columns of GRAPH, an unknown format or
            table, a later release in `since`, or a folder that already holds something else.
        StoreMissing, NoRelease, ReleaseDropped: there is nothing to export, or to compare with.
    """
    chosen = _choose_tables(tables, form, internal=internal, is_encrypted=bool(phrase))
    _check_parts(form, partition_by, since, is_encrypted=bool(phrase))
    snapshot = Snapshot(settings.store, settings.space, release)
    earlier = _open_earlier(settings, snapshot, since) if since else None
    layout = Layout(
        form=form,
        phrase=phrase,
        internal=internal,
        partition_by=partition_by,
        since=earlier,
    )
    template = to
    to = fill_place(to, snapshot)
    names = sorted(table.name for table in chosen)
    if kept := _find_earlier_export(
        to=to, template=template, snapshot=snapshot, layout=layout, tables=names
    ):
        return kept | {"to": str(to), "written": False}
    check_writable(settings, settings.store if phrase else to)
    # Noted before it begins, so that a forgetting finds what a kill leaves.
    _note_new(snapshot, to, form, is_whole=False)
    # The tables, then the manifest, by which an export is whole.
    with _fill_new_folder(to) as part:
        facts = (
            {
                "tables": write_graph(
                    snapshot, part, read_claim_confidences(settings, snapshot)
                )
            }
            if form == GRAPH
            else _write_tables(snapshot=snapshot, chosen=chosen, to=part, layout=layout)
        )
        manifest = _write_manifest(
            folder=part, snapshot=snapshot, layout=layout, facts=facts
        )
        # noted before it is there, so that a forgetting finds it in any case
        _note_export(snapshot=snapshot, to=to, form=form, at=manifest["exported_at"])
    return manifest | {"to": str(to), "written": True}


def _choose_tables(
    tables: Sequence[str] | None,
    form: str,
    *,
    internal: bool,
    is_encrypted: bool,
) -> list[Table]:
    """Return the tables of an export.

    Raises:
        UsageError: a format or table is unknown, tables or internal columns are chosen for GRAPH, or another format
            than Parquet is to be encrypted.
    """
    chosen = [t for t in RELEASED if not tables or t.name in tables]
    unknown = set(tables or []) - {t.name for t in RELEASED}
    if form not in (*FORMATS, GRAPH) or unknown:
        raise UsageError(
            f"formats are {', '.join((*FORMATS, GRAPH))}; tables are {', '.join(t.name for t in RELEASED)}"
        )
    if form == GRAPH and (tables or internal):
        raise UsageError(
            "graphml has claims and their relations only: leave out --table and --internal"
        )
    if is_encrypted and form != "parquet":
        raise UsageError(
            f"an export is encrypted as Parquet alone, not as {form}: `slowwave backup` encrypts a space"
        )
    return chosen


def _check_parts(
    form: str,
    partition_by: str | None,
    since: str | None,
    *,
    is_encrypted: bool,
) -> None:
    """Check that a format can be partitioned, or be an increment.

    Raises:
        UsageError: it can't.
    """
    if partition_by and partition_by not in PARTITIONS:
        raise UsageError(
            f"an export is partitioned by {' or '.join(PARTITIONS)}, got {partition_by!r}"
        )
    if partition_by and (form != "parquet" or is_encrypted):
        raise UsageError("only Parquet that is not encrypted can be partitioned")
    if since and (form == GRAPH or is_encrypted):
        raise UsageError(
            "an increment (--since) can only be unencrypted parquet, lance or jsonl"
        )


def _open_earlier(settings: Settings, snapshot: Snapshot, since: str) -> Snapshot:
    """Return the release that an increment starts from.

    Raises:
        UsageError: it is later than the release to export.
        NoRelease, ReleaseDropped: no release has this name, or it is no longer kept.
    """
    earlier = Snapshot(settings.store, settings.space, since)
    if earlier.release.number > snapshot.release.number:
        raise UsageError(
            f"{earlier.release.name} is later than {snapshot.release.name}: --since names an earlier release"
        )
    return earlier


def _write_tables(
    snapshot: Snapshot,
    chosen: Sequence[Table],
    to: Path,
    layout: Layout,
) -> dict[str, Any]:
    """Write tables, and the removed rows of an increment; return their entries in the manifest."""
    written = {
        table.name: write_table(snapshot=snapshot, table=table, to=to, layout=layout)
        for table in chosen
    }
    facts: dict[str, Any] = {
        "tables": {name: one.facts for name, one in written.items()}
    }
    if layout.since:
        removed = {name: one.removed for name, one in written.items()}
        facts["removed"] = write_removed(removed, to, layout.form)
    return facts


def _write_manifest(
    folder: Path,
    snapshot: Snapshot,
    layout: Layout,
    facts: dict[str, Any],
) -> dict[str, Any]:
    """Write the manifest and return it. An export without this file is incomplete."""
    manifest: dict[str, Any] = {
        **_identify_export(snapshot, layout),
        "release": snapshot.release.name,
        "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
        **facts,
    }
    with open_new(folder / MANIFEST) as out:
        out.write(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
    return manifest


def _identify_export(snapshot: Snapshot, layout: Layout) -> dict[str, Any]:
    """Return the fields of a manifest that identify an export, apart from its tables."""
    facts = {
        "release_id": snapshot.release.release_id,
        "space": snapshot.dir.name,
        "format": layout.form,
    }
    if layout.since:
        facts["since"] = layout.since.release.name
        facts["since_id"] = layout.since.release.release_id
    if layout.partition_by:
        facts["partition_by"] = layout.partition_by
    return facts


def place_learnings(settings: Settings, to: Path, release: str | None = None) -> Path:
    """Return the file that `export_learnings` writes.

    Raises:
        StoreMissing, NoRelease: there is nothing to export.
    """
    return fill_place(to, Snapshot(settings.store, settings.space, release))


def fill_place(to: Path, snapshot: Snapshot) -> Path:
    """Return a path with `{release}`, `{date}` and `{space}` replaced by the release's name, today and its space.

    Raises:
        UsageError: the path has another placeholder in braces.
    """
    values = {
        RELEASE: snapshot.release.name,
        "{date}": f"{date.today()}",
        "{space}": snapshot.dir.name,
    }
    text = str(to)
    for name, value in values.items():
        text = text.replace(name, value)
    if unknown := re.search(r"\{\w*\}", text):
        raise UsageError(
            f"{unknown[0]} stands for nothing in a path: {', '.join(values)} do"
        )
    return Path(text)


@contextmanager
def _fill_new_folder(to: Path) -> Iterator[Path]:
    """Yield a new folder beside `to`, which is moved to `to` when the block ends and removed if the block raises.

    An empty folder is replaced. Where it can't be, since it is another disk or its parent is not ours, it is filled.
    """
    to = to.absolute()
    if to.exists() and (os.path.ismount(to) or not os.access(to.parent, os.W_OK)):
        yield to
        return
    part = place_part(to)
    if part.is_symlink():
        part.unlink()
    shutil.rmtree(part, ignore_errors=True)  # of an export that was killed
    part.mkdir(parents=True)
    if to.exists():
        shutil.copymode(to, part)
    try:
        yield part
        part.replace(to)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _find_earlier_export(
    to: Path,
    template: Path,
    snapshot: Snapshot,
    layout: Layout,
    tables: list[str],
) -> dict[str, Any] | None:
    """Return the manifest of this very export, if an earlier call wrote it; None if the folder is new or empty.

    Raises:
        UsageError: the folder holds something else; or its path has no placeholder or the export is encrypted, so an
            earlier one can't be reused.
    """
    if to.is_symlink():
        raise UsageError(f"{to} is a link: name the folder that is meant")
    if not to.exists() or (to.is_dir() and not any(to.iterdir())):
        return None
    may_repeat = to != template and not layout.phrase
    if may_repeat and (
        kept := _read_export(to=to, snapshot=snapshot, layout=layout, tables=tables)
    ):
        return kept
    if may_repeat:
        raise UsageError(
            f"{to} is not empty and holds something else: name another folder"
        )
    raise UsageError(
        f"{to} is not empty: name a folder that is new, as {to}-{RELEASE} is for each release"
    )


INTERNAL_COLUMNS = frozenset(INTERNAL)
IDENTITY = ("space", "release_id", "format", "since_id", "partition_by")
"""Keys of a manifest in which two exports must agree to be the same."""


def _read_export(
    to: Path,
    snapshot: Snapshot,
    layout: Layout,
    tables: list[str],
) -> dict[str, Any] | None:
    """Return the manifest of a folder that holds the same export of the same release; None if it holds another."""
    try:
        manifest: dict[str, Any] = orjson.loads((to / MANIFEST).read_bytes())
        held = manifest["tables"]
        is_same = (
            _is_of(manifest, _identify_export(snapshot, layout))
            and (layout.form == GRAPH or sorted(held) == tables)
            and _has_internal(held) == _wants_internal(tables, layout)
            and all((to / str(about["file"])).exists() for about in held.values())
        )
        return manifest if is_same else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _is_of(manifest: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Return True if a manifest agrees with the fields that identify an export."""
    return all(manifest.get(name) == wanted.get(name) for name in IDENTITY)


def _has_internal(tables: dict[str, Any]) -> bool:
    """Return True if a table of a manifest has a column of INTERNAL."""
    return any(
        not INTERNAL_COLUMNS.isdisjoint(about["columns"]) for about in tables.values()
    )


def _wants_internal(tables: list[str], layout: Layout) -> bool:
    """Return True if an export would write a column of INTERNAL."""
    return layout.internal and any(
        not INTERNAL_COLUMNS.isdisjoint(TABLES[name].schema.names) for name in tables
    )


def read_claim_confidences(settings: Settings, snapshot: Snapshot) -> dict[str, float]:
    """Return the confidence of each claim of a release, by its id."""
    view = View.open(settings.store, settings.space, snapshot.release.release_id)
    return view.look_up_confidences(view.read_keys(CLAIMS).to_pylist())


LEARNINGS_FORMATS = ("json", "md")


def export_learnings(
    settings: Settings,
    to: Path,
    workspace: str | None = None,
    form: str = "json",
    release: str | None = None,
) -> int:
    """Write the active claims of a release to a new file, note the export in the space, and return how many they are.

    Args:
        settings: of the store.
        to: the file. `{release}`, `{date}` and `{space}` in it are replaced.
        workspace: write only claims of this workspace, in any spelling of its path; by default all.
        form: one of LEARNINGS_FORMATS.
        release: default: the live one.

    Raises:
        UsageError: the format is unknown, the file exists, or no claim is of the workspace.
        StoreMissing, NoRelease: there is nothing to export.
    """
    if form not in LEARNINGS_FORMATS:
        raise UsageError(
            f"formats of learnings are {', '.join(LEARNINGS_FORMATS)}, got {form!r}"
        )
    snapshot = Snapshot(settings.store, settings.space, release)
    to = fill_place(to, snapshot)
    if to.exists() or to.is_symlink():
        raise UsageError(f"{to} is there already: name a file that is new")
    check_writable(settings, to)
    rows = snapshot.read(CLAIMS)
    known = rows["workspace"].to_pylist()
    asked = anchor_workspace(workspace) if workspace else None
    places = require_workspaces(asked, known) if asked else ()
    learnings = _collect_learnings(settings, snapshot, select_learnings(rows, places))
    if form == "md":
        title = f"Learnings of {Path(places[0]).name}" if places else "Learnings"
        content = render_markdown(learnings, title).encode()
    else:
        name = snapshot.release.name
        head = {LEARNINGS: SCHEMA, "release": name, "claims": learnings}
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        content = orjson.dumps(head, option=options)
    # so that a forgetting finds it if this is killed
    _note_new(snapshot, to, form, is_whole=False)
    replace_file(to, content, 0o666)
    # the time by which it is this very file
    _note_new(snapshot, to, form, is_whole=True)
    return len(learnings)


def _note_new(
    snapshot: Snapshot,
    to: Path,
    form: str,
    *,
    is_whole: bool,
) -> None:
    """Note an export that is written now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    _note_export(snapshot=snapshot, to=to, form=form, at=now, is_whole=is_whole)


def _note_export(
    snapshot: Snapshot,
    to: Path,
    form: str,
    at: str,
    *,
    is_whole: bool = True,
) -> None:
    """Note an export in the space, so that a forgetting finds it."""
    export = Export(
        at=at, path=str(to.resolve()), form=form, release=snapshot.release.name
    )
    note_export(snapshot.dir, export, is_whole=is_whole)


def _collect_learnings(
    settings: Settings, snapshot: Snapshot, claims: pa.Table
) -> list[dict[str, Any]]:
    """Return claims with quotes from the messages that they cite."""
    cited = pc.unique(pc.list_flatten(claims["message_ids"].combine_chunks()))
    is_cited = pc.field("message_id").isin(cited)
    messages = snapshot.read(MESSAGES, list(CITED), is_cited)
    confidences = read_claim_confidences(settings, snapshot)
    return build_learnings(claims, messages, confidences)
