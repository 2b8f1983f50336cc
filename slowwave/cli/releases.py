"""Commands on releases and on what is in them: compare, go back, promote, leave out, take in again."""

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.common import OUT, command, echo, print_json
from slowwave.text.fence import escape_line

if TYPE_CHECKING:
    from slowwave.flows.parts.report import RunReport
    from slowwave.recall.views.compare import Difference
    from slowwave.schemas.settings import Settings


class DiffFormat(StrEnum):
    """Forms of a comparison."""

    TEXT = "text"
    MARKDOWN = "md"
    JSON = "json"


@command
def diff(
    settings: "Settings",
    old: Annotated[str | None, typer.Argument(help="The earlier, by name or id; else the one before.")] = None,
    new: Annotated[str | None, typer.Argument(help="The later; else the live one.")] = None,
    candidate: Annotated[bool, typer.Option("--candidate", help="With what a gate held back.")] = False,
    form: Annotated[DiffFormat, typer.Option("--format", help="How it is printed.")] = DiffFormat.TEXT,
    limit: Annotated[int, typer.Option(min=0, help="Claims shown of each kind; 0: all.")] = 20,
) -> None:
    """Compare two releases: what came, changed and went.

    Which claims were added, changed, superseded, merged or withdrawn, came back, or are gone.
    """
    from slowwave.recall.views.compare import KINDS, compare_releases, read_decisions
    from slowwave.schemas.errors import NoRelease
    from slowwave.store.publishing import open_candidate
    from slowwave.store.snapshot import CANDIDATE, Snapshot
    from slowwave.store.store import Store

    # Read both releases.
    store = Store.open(settings.store, settings.space)
    later = open_candidate(store) if candidate else Snapshot(settings.store, settings.space, new)
    if old is None and later.release.number == 1:
        raise NoRelease(later.dir, "before r1")
    earlier = Snapshot(settings.store, settings.space, old or f"r{later.release.number - 1}")
    found = compare_releases(earlier, later, read_decisions(store))
    names = {"old": earlier.release.name, "new": CANDIDATE if candidate else later.release.name}

    # Print the differences.
    if form == DiffFormat.JSON:
        print_json({**names, "differences": [one._asdict() for one in found]})
        return
    told = Counter(one.kind for one in found)
    counts = ", ".join(f"{told[kind]:,} {kind}" for kind in KINDS if told[kind]) or "the same claims"
    head, below = ("## ", "\n") if form == DiffFormat.MARKDOWN else ("", "")
    lines = [f"{head[1:]}{names['old']} to {names['new']}: {counts}"]
    for kind in (kind for kind in KINDS if told[kind]):
        shown = [one for one in found if one.kind == kind][: limit or None]
        more = f" ({len(shown):,} of {told[kind]:,} shown)" if len(shown) < told[kind] else ""
        lines += [f"\n{head}{kind}{more}{below}", *(_format_difference(one, form) for one in shown)]
    echo("\n".join(lines))


def _format_difference(one: "Difference", form: DiffFormat) -> str:
    """Return a claim, what took its place or why it went, and its quote, where that says more."""
    mark, inside = ("- ", "  ") if form == DiffFormat.MARKDOWN else ("  ", "    ")
    lines = [f"{mark}{one.claim_id[:12]}  {escape_line(one.summary)}"]
    if one.by:
        lines.append(f"{inside}now {one.by[:12]}  {escape_line(one.by_summary or 'not in this release')}")
    elif one.reason:
        lines.append(f"{inside}{escape_line(one.reason)}")
    if (quote := escape_line(one.quote)) not in lines[0]:
        lines.append(f'{inside}"{quote}"')
    return "\n".join(lines)


@command
def rollback(
    settings: "Settings",
    release: Annotated[str, typer.Argument(help="The release to go back to, by name (r3) or id.")],
) -> None:
    """Make an earlier release live again.

    Nothing is deleted: rolling forward is the same command.
    """
    from slowwave.flows.parts.run import open_run
    from slowwave.store.publishing import roll_back

    with open_run("rollback", settings) as (job, report):
        made = report.release = roll_back(job.store, release, job.run_id)
    OUT.print(f"Live now: {made.name}, with the tables of {release}.")


@command
def promote(
    settings: "Settings",
    why: Annotated[str, typer.Option("--why", help="Your reason; it is kept with the run.")],
) -> None:
    """Make live what a gate held back."""
    from slowwave.flows.exclude import promote_candidate

    OUT.print(promote_candidate(why, settings).format_verdict())


Ids = Annotated[
    list[str],
    typer.Argument(
        metavar="ID…",
        help="A session, a transcript file, a release (what came with it), a claim, a merge or change, or a note; "
        "`candidate` is what came with a night that is held back.",
    ),
]


@command(progress=True)
def exclude(
    settings: "Settings",
    ids: Ids,
    why: Annotated[str, typer.Option("--why", help="Your reason; it is kept.")],
) -> "RunReport":
    """Leave sessions, claims, merges or notes out of the memory.

    Later nights do not bring them back. Messages stay in the vault; what was distilled from them goes, and what
    depended on it is made anew. `slowwave inspect excluded` lists them.
    """
    from slowwave.flows.exclude import run_exclude

    return run_exclude(ids, why, settings)


@command(progress=True)
def include(settings: "Settings", ids: Ids) -> "RunReport":
    """Take in again what was left out; confirm an agent's note."""
    from slowwave.flows.exclude import run_include

    return run_include(ids, settings)
