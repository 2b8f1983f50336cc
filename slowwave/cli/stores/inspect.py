"""Commands that look: verify, config, the ledgers of quarantine and runs, and topics over time."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer
from rich.table import Table

from slowwave.cli.common import (
    ERR,
    OUT,
    JsonOption,
    ReleaseOption,
    SpaceOption,
    StoreOption,
    load_settings,
    open_store,
    report_errors,
    report_errors_and_progress,
)

if TYPE_CHECKING:
    from slowwave.recall.views.themes import Theme


def verify(store: StoreOption = None, space: SpaceOption = None) -> None:
    """Re-compute the vault's hash chains; name what is broken.

    Of each session the first row whose hash differs.
    """
    with report_errors_and_progress():
        from slowwave.tasks.ingest.verify import find_broken_chains

        checked, broken = find_broken_chains(open_store(store, space))
        for one in broken:
            ERR.print(f"broken: {one}", style="red", highlight=False, soft_wrap=True)
        OUT.print(
            f"{checked.messages:,} messages in {checked.sessions:,} sessions: {len(broken)} broken", highlight=False
        )
        if broken:
            raise typer.Exit(1)


def config(as_json: JsonOption = False) -> None:
    """Show every setting in force, and where it comes from."""
    with report_errors():
        from slowwave.cli.stores.provenance import list_effective_settings

        rows = list_effective_settings(load_settings())
        if as_json:
            OUT.print_json(data={row.name: {"value": row.value, "from": row.origin} for row in rows})
            return
        for row in rows:  # no table: at 80 columns it would cut the names
            typer.echo(f"{row.name} = {row.value}  ({row.origin})\n    {row.description}")


def quarantine(
    everything: Annotated[bool, typer.Option("--all", help="Also what a later reading mended.")] = False,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """List what could not be used: file, line and reason."""
    with report_errors():
        from slowwave.schemas.tables import QUARANTINE

        rows = open_store(store, space).read(QUARANTINE).to_pylist()
        rows = sorted(
            (r for r in rows if everything or not r["resolved"]), key=lambda r: (r["path"] or "", r["line"] or 0)
        )
        if as_json:
            OUT.print_json(data=rows)
            return
        table = Table("step", "where", "line", "reason")
        for row in rows:
            table.add_row(
                row["step"],
                Path(row["path"]).name if row["path"] else _shorten_row_id(row["row_id"] or ""),
                str(row["line"] or ""),
                row["reason"],
            )
        OUT.print(table if rows else "Nothing is in quarantine.")


def _shorten_row_id(row_id: str) -> str:
    """Return a row's id as other commands take it: of `<id>/<part>` the id's first 12 characters, the part whole."""
    unit, slash, part = row_id.partition("/")
    return f"{unit[:12]}{slash}{part}"


def runs(as_json: JsonOption = False, store: StoreOption = None, space: SpaceOption = None) -> None:
    """List the runs that changed something, paid a model, failed or died, newest first."""
    with report_errors():
        from slowwave.schemas.tables import RUNS

        rows = open_store(store, space).read(RUNS).to_pylist()
        rows.sort(key=lambda r: r["started_at"], reverse=True)
        if as_json:
            OUT.print_json(data=rows, default=str)
            return
        table = Table("run", "kind", "started", "seconds", "tokens", "status")
        for row in rows:
            took = f"{(row['ended_at'] - row['started_at']).total_seconds():.1f}" if row["ended_at"] else ""
            started = f"{row['started_at']:%Y-%m-%d %H:%M:%S}"
            table.add_row(row["run_id"], row["kind"], started, took, _format_spent_tokens(row["report"]), row["status"])
        OUT.print(table)


def _format_spent_tokens(report: str) -> str:
    """Return tokens that a run's report says its models read and wrote; nothing where none was asked."""
    counts = [step["counts"] for step in orjson.loads(report).get("steps", [])]
    spent = sum(n for c in counts for name, n in c.items() if name.endswith((": prompt tokens", ": answer tokens")))
    return f"{spent:,}" if spent else ""


SHADES = " ▁▂▃▄▅▆▇█"
"""A week's claims, from none to the most of any week shown."""


def topics(
    weeks: Annotated[int, typer.Option(help="Weeks that are told one by one, up to the newest claim.")] = 12,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
    release: ReleaseOption = None,
) -> None:
    """List the topics, the strongest first, with how they came and went."""
    with report_errors():
        from slowwave.cli.asking.context import open_memory

        found = open_memory(store, space, release).topics(weeks)
        if as_json:
            OUT.print_json(data=[one.as_dict() for one in found])
            return
        most = max((count for one in found for count in one.weeks), default=0) or 1
        typer.echo("\n".join(_format_theme(one, most) for one in found) or "No topics.")


def _format_theme(one: "Theme", most: int) -> str:
    """Return a topic in a line: claims, strength, its last weeks as bars, its days, its name."""
    bars = "".join(SHADES[-(-count * (len(SHADES) - 1) // most)] for count in one.weeks)
    days = " to ".join(f"{at:%Y-%m-%d}" if at else "undated" for at in (one.first_at, one.last_at))
    return f"{one.claims:>5,} claims  strength {one.strength:>5,}  |{bars}|  {days}  {one.name}"
