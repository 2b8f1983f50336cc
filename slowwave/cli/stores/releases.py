"""Commands on releases: list them, go back to one, compare two, and check the files of all."""

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from slowwave.cli.common import (
    ERR,
    OUT,
    JsonOption,
    SpaceOption,
    StoreOption,
    end_run,
    load_settings,
    open_store,
    report_errors,
    report_errors_and_progress,
)

if TYPE_CHECKING:
    from slowwave.recall.views.compare import Difference


class DiffFormat(StrEnum):
    """Forms of a comparison."""

    TEXT = "text"
    MARKDOWN = "md"
    JSON = "json"
    HTML = "html"


def releases(as_json: JsonOption = False, store: StoreOption = None, space: SpaceOption = None) -> None:
    """List the releases, newest first; the first one is live."""
    with report_errors():
        from slowwave.store.releases import is_dropped, read_releases

        opened = open_store(store, space)
        found = read_releases(opened)[::-1]
        dropped = {r.number for r in found[1:] if is_dropped(opened.dir, r)}
        if as_json:
            told = [{**vars(r), "name": r.name, "kept": r.number not in dropped} for r in found]
            OUT.print_json(data=told, default=lambda at: at.isoformat())
            return
        table = Table("release", "made", "messages", "observations", "summaries", "")
        by_id = {r.release_id: r.name for r in found}
        for i, r in enumerate(found):
            notes = ["live"] * (i == 0) + ["no longer kept"] * (r.number in dropped)
            notes += [f"back to {by_id.get(r.restores, r.restores)}"] if r.restores else []
            counts = [f"{r.counts.get(name, 0):,}" for name in ("messages", "observations", "summaries")]
            table.add_row(r.name, f"{r.created_at:%Y-%m-%d %H:%M:%S}", *counts, ", ".join(notes))
        OUT.print(table)


def rollback(
    release: Annotated[str, typer.Argument(help="The release to go back to, by name (r3) or id.")],
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Make an earlier release live again.

    Nothing is deleted: rolling forward is the same command.
    """
    with report_errors():
        from slowwave.flows.parts.run import open_run
        from slowwave.store.releases import roll_back

        settings = load_settings(store, space)
        with open_run("rollback", settings) as (job, report):
            made = report.release = roll_back(job.store, release, job.run_id)
        OUT.print(f"Live now: {made.name}, with the tables of {release}.", highlight=False)


def diff(
    old: Annotated[str | None, typer.Argument(help="The earlier, by name or id; else the one before.")] = None,
    new: Annotated[str | None, typer.Argument(help="The later; else the live one.")] = None,
    candidate: Annotated[bool, typer.Option("--candidate", help="With what a gate held back.")] = False,
    form: Annotated[DiffFormat, typer.Option("--format", help="How it is printed.")] = DiffFormat.TEXT,
    limit: Annotated[int, typer.Option(min=0, help="Claims shown of each kind; 0: all.")] = 20,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Compare two releases: what came, changed and went.

    Which claims were added, changed, superseded, merged or withdrawn, came back, or are gone.
    """
    with report_errors():
        from slowwave.recall.views.compare import KINDS, compare_releases, read_decisions
        from slowwave.schemas.errors import NoRelease
        from slowwave.store.snapshot import CANDIDATE, Snapshot

        settings, opened = load_settings(store, space), open_store(store, space)
        later = Snapshot.of_newest(opened) if candidate else Snapshot(settings.store, settings.space, new)
        if old is None and later.release.number == 1:
            raise NoRelease(later.dir, "before r1")
        earlier = Snapshot(settings.store, settings.space, old or f"r{later.release.number - 1}")
        found = compare_releases(earlier, later, read_decisions(opened))
        names = {"old": earlier.release.name, "new": CANDIDATE if candidate else later.release.name}
        if form == DiffFormat.JSON:
            OUT.print_json(data={**names, "differences": [one._asdict() for one in found]})
            return
        if form == DiffFormat.HTML:
            from slowwave.cli.stores.diff_page import render_page

            typer.echo(render_page(names["old"], names["new"], found), nl=False)
            return
        told = Counter(one.kind for one in found)
        counts = ", ".join(f"{told[kind]:,} {kind}" for kind in KINDS if told[kind]) or "the same claims"
        head, below = ("## ", "\n") if form == DiffFormat.MARKDOWN else ("", "")
        lines = [f"{head[1:]}{names['old']} to {names['new']}: {counts}"]
        for kind in (kind for kind in KINDS if told[kind]):
            shown = [one for one in found if one.kind == kind][: limit or None]
            more = f" ({len(shown):,} of {told[kind]:,} shown)" if len(shown) < told[kind] else ""
            lines += [f"\n{head}{kind}{more}{below}", *(_format_difference(one, form) for one in shown)]
        typer.echo("\n".join(lines))


def _format_difference(one: "Difference", form: DiffFormat) -> str:
    """Return a claim, what took its place or why it went, and its quote, where that says more."""
    mark, inside = ("- ", "  ") if form == DiffFormat.MARKDOWN else ("  ", "    ")
    lines = [f"{mark}{one.claim_id[:12]}  {' '.join(one.summary.split())}"]
    if one.by:
        lines.append(f"{inside}now {one.by[:12]}  {' '.join((one.by_summary or 'not in this release').split())}")
    elif one.reason:
        lines.append(f"{inside}{' '.join(one.reason.split())}")
    if (quote := " ".join(one.quote.split())) not in lines[0]:
        lines.append(f'{inside}"{quote}"')
    return "\n".join(lines)


def promote(
    why: Annotated[str, typer.Option("--why", help="Your reason; it is kept with the run.")],
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Make live what a gate held back."""
    with report_errors():
        from slowwave.flows.promote import promote_candidate

        report = promote_candidate(why, load_settings(store, space))
        OUT.print(report.format_verdict(), highlight=False)


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be freed; nothing is deleted.")] = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Drop the releases that `storage` does not keep, as nights do.

    What is younger than a day is left to readers that have it open.
    """
    with report_errors():
        from slowwave.store.integrity.check import check_newest_whole
        from slowwave.store.lock import writer_lock
        from slowwave.store.releases import is_dropped, read_releases
        from slowwave.store.upkeep import drop_old_versions, measure_garbage, pick_kept

        settings, opened = load_settings(store, space), open_store(store, space)
        found = read_releases(opened)
        kept = [one for one in pick_kept(found, settings.storage) if not is_dropped(opened.dir, one)]
        names = ", ".join(one.name for one in kept) or "none"
        if dry_run:
            sizes = measure_garbage(opened, settings.storage)
            for name, size in sorted(sizes.items(), key=lambda pair: -pair[1]):
                OUT.print(f"{size / 1e6:>10,.1f} MB  {name}", highlight=False)
            OUT.print(f"{sum(sizes.values()) / 1e6:,.1f} MB would be freed; kept are {names}.", highlight=False)
            return
        with writer_lock(opened.dir, "gc", "gc"):
            check_newest_whole(opened.dir)
            freed = drop_old_versions(opened, settings.storage)
        OUT.print(f"{freed / 1e6:,.1f} MB freed; kept are {names}.", highlight=False)


def check(
    quick: Annotated[bool, typer.Option("--quick", help="Sizes alone: no file is read.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Also the hash chains of the messages, as `verify`.")] = False,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Compare the files of the store with what they were.

    Exit status 1 where one was altered, cut or lost; `slowwave repair` mends what can be.
    """
    with report_errors_and_progress():
        from slowwave.store.integrity.check import check_store

        settings = load_settings(store, space)
        checked = check_store(settings.store / settings.space, read=not quick)
        damage = [str(one) for one in checked.damage]
        if full and not damage:
            from slowwave.tasks.ingest.verify import find_broken_chains

            damage += [str(one) for one in find_broken_chains(open_store(store, space))[1]]
        if as_json:
            OUT.print_json(data={"damage": damage, "checked": checked.sealed, "unchecked": checked.unsealed})
        else:
            for line in damage:
                ERR.print(line, style="red", highlight=False, soft_wrap=True)
            older = f"; {checked.unsealed} made before there were seals, not checked" if checked.unsealed else ""
            OUT.print(
                f"{checked.sealed:,} release{'s' * (checked.sealed != 1)} checked: {len(damage)} damaged{older}",
                highlight=False,
            )
        if damage:
            raise typer.Exit(1)


def repair(store: StoreOption = None, space: SpaceOption = None) -> None:
    """Mend a damaged store, and say what is lost.

    What is whole is kept. Messages are read again from their transcripts where these are still there; claims and what
    hangs on them are made anew. Exit status 1 where nothing could be mended, 3 where a step failed.
    """
    with report_errors_and_progress():
        from slowwave.flows.parts.repair import run_repair

        report = run_repair(load_settings(store, space))
        report.print(OUT)
        end_run(report)
