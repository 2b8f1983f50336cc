"""`slowwave related`: what hangs together with a claim, a file, a person, a project."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.common import JsonOption, ReleaseOption, SpaceOption, StoreOption, report_errors

if TYPE_CHECKING:
    from slowwave.recall.views.related import Related


def related(
    wanted: Annotated[str, typer.Argument(metavar="ID|NAME", help="A claim's id; or a file, person, project or tool.")],
    depth: Annotated[int, typer.Option(help="How many steps away, 1 to 5.")] = 1,
    limit: Annotated[int, typer.Option(help="How many claims, at most.")] = 20,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
    release: ReleaseOption = None,
) -> None:
    """List what hangs together with a claim or a name.

    By the files and things they name, by the order they were said in, and by what changed.
    """
    with report_errors():
        from slowwave.cli.asking.context import open_memory
        from slowwave.context.handed_out import note_listed

        memory = open_memory(store, space, release)
        found = memory.related(wanted, depth, limit=limit)
        note_listed(memory.root / memory.space, found)
        if as_json:
            typer.echo(json.dumps([one.as_dict() for one in found], ensure_ascii=False, indent=2))
            return
        typer.echo("\n".join(map(_format_related, found)) or "Nothing is related.")


def _format_related(one: "Related") -> str:
    """Return the claim in a line, and in a second how it was come by."""
    when = f"{one.observed_at:%Y-%m-%d}" if one.observed_at else "undated   "
    stale = "" if one.status == "active" else f" ({one.status})"
    of = one.of[:12] if one.steps > 1 else ""
    how = " ".join(filter(None, (one.relation.replace("_", " "), f"({one.reason})" if one.reason else "")))
    facts = [how, f"of {of}" if of else "", f"session {one.session}"]
    text = " ".join(one.summary.split())
    return f"{one.id[:12]}  {when}{stale}  {text}\n{' ' * 14}{' · '.join(filter(None, facts))}"
