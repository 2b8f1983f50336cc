"""`slowwave rate` and `slowwave stats`: what memories are worth, by what people say and by what is handed out."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from slowwave.cli.common import OUT, JsonOption, SpaceOption, StoreOption, load_settings, report_errors

if TYPE_CHECKING:
    from slowwave.recall.views.usage import Usage

SHOWN = 10
"""Claims and ratings that are printed; JSON has all."""


def rate(
    wanted: Annotated[str, typer.Argument(metavar="ID", help="A memory's id, or its first characters.")],
    verdict: Annotated[str, typer.Argument(help="good or bad.")],
    why: Annotated[str, typer.Option("--why", help="In a few words.")] = "",
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Say that a memory is good or bad.

    It is noted, and shown by `slowwave stats`; recall does not change.
    """
    with report_errors():
        from slowwave.recall.views.show import rate_memory
        from slowwave.store.snapshot import Snapshot

        settings = load_settings(store, space)
        node = rate_memory(Snapshot(settings.store, settings.space), wanted, verdict, why, redact=settings.redact)
        OUT.print(f"Noted as {verdict}: {node.kind} {node.id[:12]}", highlight=False)


def stats(as_json: JsonOption = False, store: StoreOption = None, space: SpaceOption = None) -> None:
    """Tell which claims were handed out, and how they were rated."""
    with report_errors():
        from slowwave.recall.views.usage import count_usage
        from slowwave.store.snapshot import Snapshot

        settings = load_settings(store, space)
        found = count_usage(Snapshot(settings.store, settings.space), settings.store / settings.space)
        if as_json:
            ratings = [rating._asdict() for rating in found.ratings]
            OUT.print_json(data=asdict(found) | {"ratings": ratings}, default=str)
        else:
            _print_usage(found)


def _print_usage(found: "Usage") -> None:
    used = [claim for claim in found.claims if claim.times]
    span = f", {found.first:%Y-%m-%d} to {found.last:%Y-%m-%d}" if found.first and found.last else ""
    unread = f" ({found.unread} lines of recalls.jsonl can't be read)" if found.unread else ""
    OUT.print(f"{found.recalls:,} answers were handed out{span}{unread}.")
    OUT.print(f"Of {len(found.claims):,} claims {len(used):,} were among them, {len(found.never):,} never.")
    if used:
        table = Table("times", "claim", "what it says")
        for claim in used[:SHOWN]:
            table.add_row(f"{claim.times:,}", claim.id[:12], claim.text)
        OUT.print(table)
    good = sum(rating.verdict == "good" for rating in found.ratings)
    OUT.print(f"{good:,} memories were rated good, {len(found.ratings) - good:,} bad.")
    bad = [rating for rating in found.ratings if rating.verdict == "bad"]
    for rating in bad[:SHOWN]:
        OUT.print(f"  {rating.kind} {rating.id[:12]}{f': {rating.why}' if rating.why else ''}", soft_wrap=True)
