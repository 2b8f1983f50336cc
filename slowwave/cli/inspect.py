"""`slowwave status`, `inspect` and `config`: how a memory is, its ledgers, and the settings in force."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from slowwave.cli.common import HELD, INCOMPLETE, OUT, command, echo, load_settings, print_json
from slowwave.schemas.errors import UsageError, is_locked
from slowwave.schemas.places import name_place
from slowwave.schemas.vocabulary import LEADS, LedgerKind, RunStatus, Status
from slowwave.text.fence import escape_line

if TYPE_CHECKING:
    from pydantic import BaseModel

    from slowwave.schemas.settings import Settings
    from slowwave.store.store import Store

Row = dict[str, Any]


@dataclass
class Listing:
    """What a ledger holds, for JSON and for a person."""

    rows: list[Row]
    headings: Sequence[str]
    cells: Sequence[Sequence[str]]
    """One for each row."""
    notes: Sequence[str] = ()


@command
def inspect(
    settings: "Settings",
    ledger: Annotated[str, typer.Argument(help="The ledger to list.")],
    everything: Annotated[
        bool, typer.Option("--all", help="Include rows that were undone, resolved or have lapsed.")
    ] = False,
    as_json: bool = False,
) -> list[Row] | None:
    """List releases, runs, changes, quarantine and more.

    The ledgers are releases, runs, quarantine, junk (recurring text that is masked), merges, changes, notes, excluded,
    usage (which claims were returned, and their ratings), and spaces.
    """
    if ledger not in LEDGERS:
        raise UsageError(f"there is no ledger {ledger!r}: {', '.join(LEDGERS)}")
    listing = LEDGERS[ledger](settings, everything)
    if as_json:
        return listing.rows
    table = Table(*listing.headings)
    for cells in listing.cells:
        table.add_row(*map(escape_line, cells))
    OUT.print(table if listing.cells else f"Nothing in {ledger}.")
    for note in listing.notes:
        OUT.print(note)
    return None


def _open_store(settings: "Settings") -> "Store":
    from slowwave.store.store import Store

    return Store.open(settings.store, settings.space)


def _list_releases(settings: "Settings", everything: bool) -> Listing:
    """Return the releases, newest first; the first one is live."""
    from slowwave.store.publishing import read_releases
    from slowwave.store.releases import is_dropped

    store = _open_store(settings)
    releases = read_releases(store)[::-1]
    names = {release.release_id: release.name for release in releases}
    dropped = {release.number for release in releases[1:] if is_dropped(store.dir, release)}
    cells = []
    for place, release in enumerate(releases):
        notes = ["live"] * (place == 0) + ["no longer kept"] * (release.number in dropped)
        notes += [f"back to {names.get(release.restores, release.restores)}"] if release.restores else []
        counts = [f"{release.counts.get(name, 0):,}" for name in ("messages", "observations", "summaries")]
        cells.append((release.name, f"{release.created_at:%Y-%m-%d %H:%M:%S}", *counts, ", ".join(notes)))
    rows = [{**vars(release), "name": release.name, "kept": release.number not in dropped} for release in releases]
    return Listing(rows, ("release", "made", "messages", "observations", "summaries", ""), cells)


def _list_runs(settings: "Settings", everything: bool) -> Listing:
    """Return the runs that changed something, paid a model, failed or died, newest first."""
    from slowwave.schemas.tables import RUNS

    rows = _open_store(settings).read(RUNS).to_pylist()
    rows.sort(key=lambda row: row["started_at"], reverse=True)
    cells = [
        (
            row["run_id"],
            row["kind"],
            f"{row['started_at']:%Y-%m-%d %H:%M:%S}",
            f"{(row['ended_at'] - row['started_at']).total_seconds():.1f}" if row["ended_at"] else "",
            _format_spent_tokens(row["report"]),
            row["status"],
        )
        for row in rows
    ]
    return Listing(rows, ("run", "kind", "started", "seconds", "tokens", "status"), cells)


def _format_spent_tokens(report: str) -> str:
    """Return tokens that a run's report says its models read and wrote; nothing where none was asked."""
    import orjson

    counts = [step["counts"] for step in orjson.loads(report).get("steps", [])]
    spent = sum(n for c in counts for name, n in c.items() if name.endswith((": prompt tokens", ": answer tokens")))
    return f"{spent:,}" if spent else ""


def _list_quarantine(settings: "Settings", everything: bool) -> Listing:
    """Return the input that could not be used and is not resolved: file, line and reason."""
    from slowwave.schemas.tables import QUARANTINE

    rows = [row for row in _open_store(settings).read(QUARANTINE).to_pylist() if everything or not row["resolved"]]
    rows.sort(key=lambda row: (row["path"] or "", row["line"] or 0))
    cells = []
    for row in rows:
        unit, slash, part = (row["row_id"] or "").partition("/")
        where = Path(row["path"]).name if row["path"] else f"{unit[:12]}{slash}{part}"
        cells.append((row["step"], where, str(row["line"] or ""), row["reason"]))
    return Listing(rows, ("step", "where", "line", "reason"), cells)


def _list_junk(settings: "Settings", everything: bool) -> Listing:
    """Return the text that recurs over many sessions, and in how many of them it is masked."""
    from slowwave.schemas.tables import BOILERPLATE

    rows = _open_store(settings).read(BOILERPLATE).to_pylist()
    rows.sort(key=lambda row: (-row["sessions"], row["span_id"]))
    counts = ((f"{row['sessions']:,}", f"{row['sessions'] - len(row['kept']):,}") for row in rows)
    cells = [(row["span_id"], *count, row["text"][:120]) for row, count in zip(rows, counts, strict=True)]
    return Listing(rows, ("span", "sessions", "masked", "text"), cells)


def _list_merges(settings: "Settings", everything: bool) -> Listing:
    """Return the claims that were merged or retired, with the rule."""
    rows = [row for row in _collect_merges(_open_store(settings)) if everything or row["state"] == "in force"]
    cells = [
        (row["merge_id"][:12], row["kind"], row["rule"], row["state"], row["loser"] or "", row["winner"] or "")
        for row in rows
    ]
    return Listing(rows, ("merge", "kind", "rule", "state", "this claim", "gave way, or may, to"), cells)


def _list_changes(settings: "Settings", everything: bool) -> Listing:
    """Return the claims that a later one changed or may have changed, the surest first, and how many to expect wrong.

    Of each is told who decided, the classifier or a language model.
    """
    from slowwave.tasks.supersede.judge import Answer

    # Each row gets `answer`: what the model judged of its pair, or None.
    ledger = [row for row in _collect_merges(_open_store(settings)) if row["state"] == "in force"]
    judged = [row for row in ledger if row["kind"] == LedgerKind.JUDGEMENT and row["rule"] != Answer.UNANSWERED]
    answers = {frozenset((row["loser_id"], row["winner_id"])): row["rule"] for row in judged}
    for row in ledger:
        row["answer"] = answers.get(frozenset((row["loser_id"], row["winner_id"])))
    kinds = (LedgerKind.SUPERSESSION, LedgerKind.DOUBT)
    rows = [row for row in ledger if row["kind"] in kinds and row["rule"] != LEADS]
    rows.sort(key=lambda row: (row["kind"] == LedgerKind.DOUBT, -row["scores"].get("likely", 1.0), row["merge_id"]))
    cells = []
    for row in rows:
        likely = f"{row['scores'].get('likely', 1.0):.0%}{' ?' if row['kind'] == LedgerKind.DOUBT else ''}"
        by = f"model: {row['answer']}" if row["answer"] else "classifier"
        cells.append((row["merge_id"][:12], likely, by, row["loser"] or "", row["winner"] or ""))
    notes = []
    for kind, what in ((LedgerKind.SUPERSESSION, "superseded"), (LedgerKind.DOUBT, "linked, both standing")):
        of_kind = [row for row in rows if row["kind"] == kind]
        some = [row["scores"].get("likely", 1.0) for row in of_kind if not row["answer"]]
        notes += [f"{len(some)} {what}: {sum(1 - p for p in some):.1f} expected wrong."] if some else []
        notes += [f"{len(of_kind) - len(some)} {what} by a model's word."] if len(of_kind) > len(some) else []
    notes += [f"{len(judged)} pairs judged by a model."] if judged else []
    return Listing(rows, ("merge", "likely", "judged by", "this claim", "is changed, or may be, by"), cells, notes)


def _collect_merges(store: "Store") -> list[Row]:
    """Return rows of the ledger with what both claims say, and their `state`.

    One that nobody took back has `lapsed` when its loser no longer points to its winner: that was withdrawn, the loser
    was said again, or another claim has it now. A doubt is in force while both its claims stand, a judgement while both
    are there.
    """
    from slowwave.schemas.tables import MERGES, OBSERVATIONS

    rows = store.read(MERGES).to_pylist()
    ids = [row[name] for row in rows for name in ("loser_id", "winner_id")]
    columns = ["observation_id", "summary", "canonical_id", "superseded_by", "status"]
    claims = {claim["observation_id"]: claim for claim in store.read_ids(OBSERVATIONS, ids, columns).to_pylist()}
    for row in rows:
        loser, winner = claims.get(row["loser_id"], {}), claims.get(row["winner_id"], {})
        row |= {"scores": dict(row["scores"] or []), "loser": loser.get("summary"), "winner": winner.get("summary")}
        stands = row["winner_id"] in (loser.get("canonical_id"), loser.get("superseded_by"))
        if row["kind"] == LedgerKind.DOUBT:
            stands = loser.get("status") == winner.get("status") == Status.ACTIVE
        if row["kind"] == LedgerKind.JUDGEMENT:
            stands = bool(loser and winner)
        row["state"] = "undone" if row["undone"] else "in force" if stands else "lapsed"
    return sorted(rows, key=lambda row: (row["kind"], row["rule"], row["merge_id"]))


def _list_notes(settings: "Settings", everything: bool) -> Listing:
    """Return the notes, the oldest first: when, by whom, and whether a person confirmed or rejected them."""
    from slowwave.store.notes import read_notes

    notes = [note for note in read_notes(settings.store / settings.space) if everything or note.verdict != "rejected"]
    cells = []
    for note in notes:
        by = " ".join(filter(None, (note.by, note.speaker)))
        cells.append((note.id.removeprefix("note-"), note.at[:16], by, note.verdict, note.workspace or "", note.text))
    how = "`slowwave include ID` confirms an agent's note, `slowwave exclude ID --why …` rejects it."
    return Listing(
        [vars(note) for note in notes], ("note", "noted", "by", "verdict", "of", "text"), cells, (how,) if cells else ()
    )


def _list_excluded(settings: "Settings", everything: bool) -> Listing:
    """Return the sessions and claims that are left out, and why."""
    from slowwave.schemas.tables import EXCLUSIONS, OBSERVATIONS, SESSIONS

    store = _open_store(settings)
    rows = sorted(
        store.read(EXCLUSIONS, ["row_id", "kind", "why", "at"]).to_pylist(), key=lambda row: (row["at"], row["row_id"])
    )
    ids = [row["row_id"] for row in rows]
    sessions = store.read_ids(SESSIONS, ids, ["session_id", "native_id", "path"]).to_pylist()
    claims = store.read_ids(OBSERVATIONS, ids, ["observation_id", "summary"]).to_pylist()
    about = {row["session_id"]: (row["native_id"], row["path"]) for row in sessions}
    about |= {row["observation_id"]: (row["observation_id"][:12], row["summary"]) for row in claims}
    for row in rows:
        row["name"], row["text"] = about.get(row["row_id"], (row["row_id"][:12], "forgotten since"))
    cells = [(row["kind"], row["name"], f"{row['at']:%Y-%m-%d}", row["why"], row["text"]) for row in rows]
    return Listing(rows, ("kind", "id", "since", "why", "what"), cells)


def _list_usage(settings: "Settings", everything: bool) -> Listing:
    """Return each claim's number of uses and rating, the most used first."""
    from slowwave.recall.views.usage import count_usage
    from slowwave.store.releases import Snapshot

    usage = count_usage(Snapshot(settings.store, settings.space), settings.store / settings.space)
    ratings = {rating.id: rating for rating in usage.ratings}
    rows: list[Row] = [
        vars(claim) | {"rating": ratings[claim.id].verdict if claim.id in ratings else None} for claim in usage.claims
    ]
    used = [row for row in rows if row["times"] or row["rating"] or everything]
    cells = [(f"{row['times']:,}", row["id"][:12], row["rating"] or "", row["text"]) for row in used]
    span = f", {usage.first:%Y-%m-%d} to {usage.last:%Y-%m-%d}" if usage.first and usage.last else ""
    good = sum(claim.verdict == "good" for claim in usage.ratings)
    notes = (
        f"{usage.recalls:,} answers were handed out{span}.",
        f"Of {len(usage.claims):,} claims {len(usage.claims) - len(usage.never):,} were among them, "
        f"{len(usage.never):,} never; {good:,} memories were rated good, {len(usage.ratings) - good:,} bad.",
    )
    return Listing(rows, ("times", "claim", "rated", "what it says"), cells, notes)


def _list_spaces(settings: "Settings", everything: bool) -> Listing:
    """Return the store's spaces: size on disk, live release, and whether their disk is known to be encrypted."""
    from slowwave.store.crypt import find_encryption
    from slowwave.store.releases import list_spaces, load_releases

    rows: list[Row] = [
        {
            "space": folder.name,
            "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
            "release": next((release.name for release in load_releases(folder)[::-1]), None),
            "encrypted": find_encryption(folder),
        }
        for folder in (settings.store / name for name in sorted(list_spaces(settings.store)))
    ]
    cells = [
        (row["space"], f"{row['bytes'] / 1e6:,.1f} MB", row["release"] or "-", row["encrypted"] or "not known to be")
        for row in rows
    ]
    return Listing(rows, ("space", "size", "live", "encrypted"), cells)


LEDGERS: dict[str, Callable[["Settings", bool], Listing]] = {
    "releases": _list_releases,
    "runs": _list_runs,
    "quarantine": _list_quarantine,
    "junk": _list_junk,
    "merges": _list_merges,
    "changes": _list_changes,
    "notes": _list_notes,
    "excluded": _list_excluded,
    "usage": _list_usage,
    "spaces": _list_spaces,
}


@command
def status(
    settings: "Settings",
    stats: Annotated[bool, typer.Option("--stats", help="Add figures on answers, the web, models and tables.")] = False,
    as_json: bool = False,
) -> None:
    """Show what is covered, the last night and the next one.

    Exit status 0: all is well; 3: transcripts have waited for more than a day, or the last run did not end well; 4:
    what it made is held back; 1: there is no memory yet, or it can't be read.
    """
    rows = collect_status(settings)
    last = next(value for heading, _, value in rows if heading == "last run")
    behind = rows[0][2]["behind"]
    if stats:
        from slowwave.flows.stats import collect_stats, format_stats

        figures = collect_stats(settings)
        rows += [("stats", "", figures)] if as_json else [(*line, None) for line in format_stats(figures)]
    if as_json:
        print_json({heading.replace(" ", "_"): value for heading, _, value in rows})
    else:
        OUT.print("\n".join(f"{heading:<12}{escape_line(text)}" for heading, text, _ in rows))
    ended_well = last.get("status") == RunStatus.DONE and not behind
    raise typer.Exit(HELD if last.get("status") == RunStatus.HELD else 0 if ended_well else INCOMPLETE)


def collect_status(settings: "Settings") -> list[tuple[str, str, Any]]:
    """Return the lines of `status`: each with its heading and the values that it is made of."""
    from slowwave.cli.agents.client_files import OURS, Client, list_client_files
    from slowwave.cli.schedule import find_schedule
    from slowwave.flows.coverage import find_next_night, measure_coverage
    from slowwave.text.marked import read_as_it_is

    coverage, night = measure_coverage(settings), find_schedule() or find_next_night()
    waits = Counter(row["reason"] for row in _list_quarantine(settings, False).rows)
    reasons = "; ".join(f"{n:,} {reason}" for reason, n in waits.most_common(3))
    space = next(row for row in _list_spaces(settings, False).rows if row["space"] == settings.space)
    last, kind = next(iter(_list_runs(settings, False).rows), {}), space["encrypted"]
    left = "a plain copy is left of a move: `slowwave encrypt` removes it" if is_locked(settings.store) else ""
    hooks = {str(client): list_client_files(client, None, ["slowwave"], ())[0].path for client in Client}
    hooked = [name for name, path in hooks.items() if OURS.search(read_as_it_is(path))]
    return [
        ("memory", coverage["line"], coverage),
        ("quarantine", f"{waits.total():,}{f': {reasons[:200]}' if reasons else ''}", waits),
        ("last run", _describe_run(last) if last else "none is noted", last),
        ("next night", night or "none is planned: `slowwave schedule install`", night),
        (
            "store",
            f"{name_place(settings.store / settings.space)}, {space['bytes'] / 1e6:,.1f} MB, live {space['release']}",
            space,
        ),
        ("encrypted", left or (f"by {kind}, unlocked" if kind else "not known to be: see `slowwave encrypt`"), kind),
        ("encoder", settings.encoder, settings.encoder),
        ("model", settings.llm, settings.llm),
        ("hooks", ", ".join(hooked) or "none: `slowwave install claude-code`, codex or cursor", hooked),
    ]


def _describe_run(run: Row) -> str:
    """Return a run's time, status and output; of one that failed the error."""
    import orjson

    report, names = orjson.loads(run.pop("report")), {"read": "messages", "observe": "claims"}
    steps = report.get("steps", [])  # of a broken report that was forgotten nothing is left
    made = [f"{step['rows_out']:,} {names[step['step']]}" for step in steps if step["step"] in names]
    made += [f"{step['counts']['superseded']:,} changed" for step in steps if "superseded" in step["counts"]]
    why = report.get("notes", [])[-1:] if run["status"] == RunStatus.FAILED or not made else made
    said = f": {', '.join(why)}" if why else ""
    return f"{run['kind']} {run['started_at']:%Y-%m-%d %H:%M} UTC, {run['status']}{said}"


@command
def config(as_json: bool = False) -> Row | None:
    """Show every current setting and where it comes from."""
    from slowwave.schemas.settings import Settings
    from slowwave.schemas.settings_files import (
        find_project_file,
        find_user_file,
        load_project_excludes,
        load_user_settings,
    )

    # The names that files set, nested as in them, each with the files that set it.
    own = _map_to_path(str(find_user_file()), load_user_settings(Settings))
    if load_project_excludes():
        section = own.setdefault("read", {})
        section["exclude"] = " and ".join(filter(None, (section.get("exclude"), str(find_project_file()))))
    rows = _list_settings(load_settings(), (), own)
    if as_json:
        return {name: {"value": value, "from": origin} for name, value, origin, _ in rows}
    for name, value, origin, about in rows:  # no table: at 80 columns it would cut the names
        echo(f"{name} = {value}  ({origin})\n    {about}")
    return None


def _map_to_path(path: str, table: Row) -> Row:
    return {name: _map_to_path(path, value) if isinstance(value, dict) else path for name, value in table.items()}


def _list_settings(model: "BaseModel", above: tuple[str, ...], files: Row) -> list[tuple[str, Any, str, str]]:
    """Return every setting below a model: dotted name, value, who said so, what it is."""
    from pydantic import BaseModel

    environment = {name.upper() for name in os.environ}
    rows: list[tuple[str, Any, str, str]] = []
    for name, field in type(model).model_fields.items():
        value, names = getattr(model, name), (*above, name)
        if isinstance(value, BaseModel):
            rows += _list_settings(value, names, files.get(name, {}))
            continue
        # A whole section may be given as JSON in one variable: SLOWWAVE_PYRAMID='{"step": 5}'.
        variables = ["SLOWWAVE_" + "__".join(names[:n]).upper() for n in range(len(names), 0, -1)]
        origin = next((variable for variable in variables if variable in environment), files.get(name, "default"))
        plain = value if isinstance(value, bool | int | float | str) else str(value)
        rows.append((".".join(names), plain, origin, field.description or ""))
    return rows
