"""Commands on releases and their content: diff, rollback, promote, exclude, include."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.common import OUT, command, echo, show_loading, truncate_line
from slowwave.schemas.ids import SHORT_ID
from slowwave.text.cells import LISTED_CHARS
from slowwave.text.fence import escape_line

if TYPE_CHECKING:
    from slowwave.flows.parts.report import RunReport
    from slowwave.recall.views.compare import Difference
    from slowwave.schemas.settings import Settings
    from slowwave.store.releases import Release


ClaimLimit = Annotated[
    int, typer.Option(min=0, help="Most claims to show of each kind; 0: all.")
]


@command
def diff(
    settings: "Settings",
    old: Annotated[
        str | None,
        typer.Argument(
            help="The earlier release, by name or id; default: the one before."
        ),
    ] = None,
    new: Annotated[
        str | None, typer.Argument(help="The later release; default: the live one.")
    ] = None,
    candidate: Annotated[
        bool,
        typer.Option(
            "--candidate", help="Compare with the release that a gate holds back."
        ),
    ] = False,
    limit: ClaimLimit = 20,
    as_json: bool = False,
) -> dict[str, object] | None:
    """Compare two releases: claims added, changed and removed.

    It lists claims that were added, changed, superseded, merged, withdrawn, restored or removed.
    """
    from slowwave.recall.views.compare import compare_releases, read_decisions
    from slowwave.store.publishing import find_release_before, open_candidate
    from slowwave.store.releases import CANDIDATE, Snapshot
    from slowwave.store.store import Store

    store = Store.open(settings.store, settings.space)
    later = (
        open_candidate(store)
        if candidate
        else Snapshot(settings.store, settings.space, new)
    )
    before = old or find_release_before(store, later.release)
    if before is None:
        if as_json:
            return {"old": None, "new": later.release.name, "differences": []}
        echo(_explain_alone(later.release))
        return None
    earlier = Snapshot(settings.store, settings.space, before)
    differences = compare_releases(earlier, later, read_decisions(store))
    names = {
        "old": earlier.release.name,
        "new": CANDIDATE if candidate else later.release.name,
    }
    if as_json:
        return {
            **names,
            "differences": [difference._asdict() for difference in differences],
        }
    lines = _format_differences(differences, limit)
    echo("\n".join([f"{names['old']} to {names['new']}: {lines[0]}", *lines[1:]]))
    return None


def _explain_alone(release: "Release") -> str:
    """Return why a release can be compared with no earlier one."""
    if release.number == 1:
        return f"{release.name} is the first release: there is nothing to compare it with yet."
    return "Nothing to compare with: forgetting dropped the earlier releases."


def _format_differences(differences: Sequence["Difference"], limit: int) -> list[str]:
    """Return a line with the counts by kind, then each kind with at most `limit` of its claims (0: all)."""
    from slowwave.recall.views.compare import KINDS

    by_kind = {
        kind: [difference for difference in differences if difference.kind == kind]
        for kind in KINDS
    }
    counts = ", ".join(
        f"{len(rows):,} {kind}" for kind, rows in by_kind.items() if rows
    )
    lines = [counts or "the same claims"]
    for kind, rows in by_kind.items():
        shown = rows[: limit or None]
        more = (
            f" ({len(shown):,} of {len(rows):,} shown)"
            if len(shown) < len(rows)
            else ""
        )
        if rows:
            lines.append(f"\n{kind}{more}")
        lines += map(_format_difference, shown)
    return lines


def _format_difference(difference: "Difference") -> str:
    """Return a claim, its later claim or the reason for its removal, and its quote unless the claim contains it."""
    lines = [
        f"  {difference.claim_id[:SHORT_ID]}  {truncate_line(difference.marked_summary, LISTED_CHARS)}"
    ]
    if difference.by:
        later = truncate_line(
            difference.by_summary or "not in this release", LISTED_CHARS
        )
        lines.append(f"    now {difference.by[:SHORT_ID]}  {later}")
    elif difference.reason:
        lines.append(f"    {escape_line(difference.reason)}")
    if escape_line(difference.quote) not in escape_line(difference.summary):
        lines.append(f'    "{truncate_line(difference.quote, LISTED_CHARS)}"')
    return "\n".join(lines)


@command
def rollback(
    settings: "Settings",
    release: Annotated[
        str, typer.Argument(help="The release to go back to, by name (r3) or id.")
    ],
) -> None:
    """Make an earlier release live again.

    It holds until the next night with news; to make it last, exclude what came since. Nothing is deleted: the same
    command rolls forward again. Notes written since stay in answers, as not yet distilled.
    """
    with show_loading():
        from slowwave.flows.parts.finish import finish_forgettings
        from slowwave.flows.parts.quarantine_sessions import list_bringing
        from slowwave.flows.parts.run import open_run
        from slowwave.store.publishing import read_releases, roll_back

    with open_run("rollback", settings) as (job, report):
        finish_forgettings(job, report)
        made = report.release = roll_back(job.store, release, job.run_id)
        releases = read_releases(job.store)
        back_to = next(one.name for one in releases if one.release_id == made.restores)
        brought = list_bringing(job.store, back_to)
        newest = [one.name for one in releases if one.restores is None][-1]
    for note in report.notes:
        OUT.print(f"note: {escape_line(note)}")
    OUT.print(f"Live now: {made.name}, with the tables of {back_to}.")
    if back_to == newest:
        OUT.print("This is the newest release again.")
        return
    OUT.print(
        "It stays live until a run finds something new. That run's release has the newest tables again."
    )
    if brought:
        OUT.say(
            f"To make it last, exclude what was added since: `slowwave exclude {' '.join(brought)} --why …`"
        )
    else:
        OUT.say(
            f"No session was added since {back_to}: `slowwave diff {back_to} {made.name}` shows what changed, and"
        )
        OUT.say("`slowwave exclude` takes the ids that it prints.")
    if noted := list_noted(settings):
        OUT.say(
            "Recall still finds the notes written since, as not yet distilled. "
            f"`slowwave exclude {' '.join(noted)} --why …` excludes them."
        )


def list_noted(settings: "Settings") -> list[str]:
    """Return the sessions of notes and talks that the live release lacks, the earliest first."""
    from slowwave.memory import Memory
    from slowwave.recall.live import read_unreleased

    view = Memory.open(settings.store, settings.space).get_view()
    written = read_unreleased(view, settings.store / settings.space)
    sessions = [hit.sources[0].session for hit in written]
    return list(dict.fromkeys(sessions))


@command
def promote(
    settings: "Settings",
    why: Annotated[str, typer.Option("--why", help="Your reason, kept with the run.")],
) -> None:
    """Make the release live that a gate holds back."""
    from slowwave.flows.exclude import promote_candidate

    OUT.print(promote_candidate(why, settings).format_verdict())


Ids = Annotated[
    list[str],
    typer.Argument(
        metavar="ID…",
        help="A session, transcript file, release (for what it added), claim, merge, change or note; `candidate` "
        "means what the night added that is held back.",
    ),
]


@command(progress=True)
def exclude(
    settings: "Settings",
    ids: Ids,
    why: Annotated[
        str, typer.Option("--why", help="Your reason, kept with the exclusion.")
    ],
) -> "RunReport":
    """Leave sessions, claims, merges or notes out of the memory.

    Later nights do not bring them back. Messages stay stored; what was distilled from them is removed, and what
    depended on it is recomputed. A message that says nothing but an excluded claim is excluded too, and so is an
    agent's echo of it; of another message the claim's sentence is not shown. `slowwave inspect excluded` lists them.
    """
    with show_loading():
        from slowwave.flows.exclude import run_exclude

    return run_exclude(ids, why, settings)


@command(progress=True)
def include(settings: "Settings", ids: Ids) -> "RunReport":
    """Undo an exclusion, or confirm an agent's note."""
    with show_loading():
        from slowwave.flows.exclude import run_include

    return run_include(ids, settings)
