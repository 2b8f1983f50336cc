"""`slowwave recall QUERY`: what the memory knows, with its sources. Starts without loading the pipeline."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.schemas.vocabulary import Status

if TYPE_CHECKING:
    from slowwave.recall.hits import Hit

Kinds = Annotated[list[str] | None, typer.Option("--kind", help="observation, message or summary; may be repeated.")]


def recall(
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    k: Annotated[int, typer.Option("-k", "--k", help="How many hits, at most.")] = 10,
    kind: Kinds = None,
    workspace: Annotated[str | None, typer.Option(help="Only what was said in this workspace.")] = None,
    category: Annotated[str | None, typer.Option(help="Only observations of this category.")] = None,
    speaker: Annotated[str | None, typer.Option(help="Only what this person said: whole name, or first name.")] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", help="Only what is about this file, src/db.py or db.py; repeatable.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only what was said from this date or time (ISO, UTC).")] = None,
    until: Annotated[str | None, typer.Option(help="Only what was said to this date or time (ISO, UTC).")] = None,
    as_of: Annotated[str | None, typer.Option(help="What was known and true on this date or time (ISO, UTC).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object: hits, reason, stale, …")] = False,
    store: Annotated[Path | None, typer.Option(help="Folder of the store.")] = None,
    space: Annotated[str | None, typer.Option(help="Whose memory.")] = None,
    release: Annotated[str | None, typer.Option(help="An earlier release, by name (r3) or id.")] = None,
) -> None:
    """Search the released memory and print what answers the query, each with its sources."""
    from slowwave.cli.common import load_settings, print_notes, report_errors, silence_note_logging
    from slowwave.context.handed_out import note_hits
    from slowwave.memory import Memory
    from slowwave.recall.hits import KINDS

    with report_errors():
        silence_note_logging()
        settings = load_settings(store, space)
        memory = Memory.open(settings.store, settings.space, release)
        conditions = (workspace, category, since, until)
        hits = memory.recall(query, k, kind or KINDS, *conditions, speaker=speaker, files=file or None, as_of=as_of)
    note_hits(settings.store / settings.space, hits)
    print_notes(hits.notes)
    if as_json:
        typer.echo(json.dumps(hits.as_dict(), ensure_ascii=False, indent=2))
        return
    typer.echo("\n\n".join(_format_hit(n, hit) for n, hit in enumerate(hits, 1)) or f"Nothing found: {hits.reason}.")


def _format_hit(number: int, hit: "Hit") -> str:
    when = f" {hit.observed_at:%Y-%m-%d}" if hit.observed_at else ""
    first = f"{number}. {hit.kind}{when}{format_change(hit)}  {_truncate_line(hit.text, 300)}"
    sources = [f"   session {s.session}, message {s.message}: “{_truncate_line(s.quote, 160)}”" for s in hit.sources]
    return "\n".join([first, *sources])


def format_change(hit: "Hit") -> str:
    """Return in brackets what changed a hit or perhaps did; empty where nothing is known to have."""
    if hit.perhaps_superseded_by:
        return f" (perhaps changed since by {_format_successor(hit)})"
    return "" if hit.status == Status.ACTIVE else f" ({hit.status} by {_format_successor(hit)})"


def _format_successor(hit: "Hit") -> str:
    """Return what holds in a hit's place, by its words and date."""
    if hit.successor is None:
        return "what came later"
    at = hit.successor.observed_at
    return f"“{_truncate_line(hit.successor.text, 100)}”{f', {at:%Y-%m-%d}' if at else ''}"


def _truncate_line(text: str, chars: int) -> str:
    """Return one line, cut at a word."""
    line = " ".join(text.split())
    return line if len(line) <= chars else line[:chars].rsplit(" ", 1)[0] + " …"
