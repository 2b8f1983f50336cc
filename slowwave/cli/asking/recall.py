"""`slowwave recall QUERY`: what the memory knows, with its sources. Starts without loading the pipeline."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from slowwave.schemas.filters import Filters, spell_out_filters
from slowwave.schemas.vocabulary import Status

if TYPE_CHECKING:
    from slowwave.recall.hits import Hit
    from slowwave.recall.sessions import SessionHit

NARROW = "Filters"
SHOWN_CHARS = 300
"""Of a hit's text, in a terminal."""
Kinds = Annotated[
    list[str] | None, typer.Option("--kind", help="observation, message, summary (may be repeated), or session.")
]


def make_filter_option(name: str, about: str) -> object:
    """Return a filter's annotation as an option; the files are named one at a time."""
    if name == "files":
        return Annotated[
            list[str] | None, typer.Option("--file", help=f"{about} May be repeated.", rich_help_panel=NARROW)
        ]
    return Annotated[str | None, typer.Option(help=about, rich_help_panel=NARROW)]


@spell_out_filters(make_filter_option)
def recall(
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    k: Annotated[int, typer.Option("-k", "--k", help="How many hits, at most.")] = 10,
    kind: Kinds = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object: hits, reason, stale, …")] = False,
    store: Annotated[Path | None, typer.Option(help="Folder of the store.")] = None,
    space: Annotated[str | None, typer.Option(help="Whose memory.")] = None,
    release: Annotated[str | None, typer.Option(help="An earlier release, by name (r3) or id.")] = None,
    **filters: Unpack[Filters],
) -> None:
    """Print the memories that answer a query, with their sources."""
    from slowwave.cli.common import load_settings, print_notes, report_errors, silence_note_logging
    from slowwave.context.handed_out import note_hits
    from slowwave.memory import Memory
    from slowwave.recall.sessions import SessionHits

    with report_errors():
        silence_note_logging()
        settings = load_settings(store, space)
        memory = Memory.open(settings.store, settings.space, release)
        memory.refuse_unknown_workspace(filters.get("workspace"))
        hits = memory.recall_kinds(query, k, kind or (), **filters)
    note_hits(settings.store / settings.space, hits)
    print_notes(hits.notes)
    if as_json:
        typer.echo(json.dumps(hits.as_dict(), ensure_ascii=False, indent=2))
        return
    if isinstance(hits, SessionHits):
        told = [_format_session(n, one) for n, one in enumerate(hits, 1)]
    else:
        told = [_format_hit(n, hit, sure=hits.confident) for n, hit in enumerate(hits, 1)]
    typer.echo("\n\n".join([*([hits.caveat] if hits.caveat else ()), *told]) or f"Nothing found: {hits.reason}.")


def _format_hit(number: int, hit: "Hit", *, sure: bool = True) -> str:
    """Return a hit with its sources; with its relevance, where the answer is not sure."""
    when = f" {hit.observed_at:%Y-%m-%d}" if hit.observed_at else ""
    when += "" if sure or hit.relevance is None else f" (relevance {hit.relevance:.2f})"
    text = truncate_line(hit.shorten(SHOWN_CHARS).text, SHOWN_CHARS)
    first = f"{number}. {hit.kind}{when}{format_change(hit)}  {text}"
    sources = [f"   session {s.session}, message {s.message}: “{truncate_line(s.quote, 160)}”" for s in hit.sources]
    return "\n".join([first, *sources])


def _format_session(number: int, one: "SessionHit") -> str:
    days = dict.fromkeys(f"{at:%Y-%m-%d}" for at in (one.started_at, one.ended_at) if at)
    facts = [f"session {one.session}", " to ".join(days), one.workspace, f"likely {one.probability:.0%}"]
    first = f"{number}. {' · '.join(filter(None, facts))}"
    told = [f"   {truncate_line(text, SHOWN_CHARS)}" for text in (one.title, one.summary) if text]
    sources = [f"   message {s.message}: “{truncate_line(s.quote, 160)}”" for s in one.sources]
    return "\n".join([first, *told, *sources])


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
    return f"“{truncate_line(hit.successor.text, 100)}”{f', {at:%Y-%m-%d}' if at else ''}"


def truncate_line(text: str, chars: int) -> str:
    """Return one line, cut at a word."""
    line = " ".join(text.split())
    return line if len(line) <= chars else line[:chars].rsplit(" ", 1)[0] + " …"
