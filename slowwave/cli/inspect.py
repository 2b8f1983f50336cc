"""`slowwave status`, `inspect` and `config`: how a memory is, its ledgers, and the settings in force."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from slowwave.cli.common import HELD, INCOMPLETE, OUT, command, echo, load_settings, print_json, print_table
from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import SHORT_ID
from slowwave.schemas.places import name_place
from slowwave.schemas.vocabulary import LEADS, LedgerKind, RunStatus, Status
from slowwave.text.fence import escape_line

if TYPE_CHECKING:
    from pydantic import BaseModel

    from slowwave.schemas.settings import Settings
    from slowwave.store.store import Store

Row = dict[str, Any]


class Listing(NamedTuple):
    """What a ledger holds, and of it what a table shows: its headings, each with a column of the rows."""

    rows: list[Row]
    columns: dict[str, str]
    notes: Sequence[str] = ()

    @property
    def table(self) -> list[Row]:
        """What a table shows: of an id the first characters."""
        short = [key for key in self.columns.values() if key.endswith("id") and key != "run_id"]
        return [
            {heading: str(row[key])[:SHORT_ID] if key in short else row[key] for heading, key in self.columns.items()}
            for row in self.rows
        ]


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
    # as a table
    if listing.rows:
        print_table(listing.table)
    else:
        OUT.print(f"Nothing in {ledger}.")
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
    rows = []
    for number, release in enumerate(releases):
        is_kept = number == 0 or not is_dropped(store.dir, release)
        state = ["live"] * (number == 0) + ["no longer kept"] * (not is_kept)
        state += [f"back to {names.get(release.restores, release.restores)}"] if release.restores else []
        counts = {name: release.counts.get(name, 0) for name in ("messages", "observations", "summaries")}
        rows.append({**vars(release), "name": release.name, "kept": is_kept, "state": ", ".join(state), **counts})
    counted = {name: name for name in ("messages", "observations", "summaries")}
    return Listing(rows, {"release": "name", "made": "created_at", **counted, "": "state"})


def _list_runs(settings: "Settings", everything: bool) -> Listing:
    """Return the runs that changed something, paid a model, failed or died, newest first; below them, of those that did
    not end well, why.
    """
    import orjson

    from slowwave.schemas.tables import RUNS

    rows = sorted(_open_store(settings).read(RUNS).to_pylist(), key=lambda row: row["started_at"], reverse=True)
    for row in rows:
        row["seconds"] = (row["ended_at"] - row["started_at"]).total_seconds() if row["ended_at"] else None
        report = orjson.loads(row["report"])
        counts = [pair for step in report.get("steps", ()) for pair in step["counts"].items()]
        row["tokens"] = sum(n for name, n in counts if name.endswith((": prompt tokens", ": answer tokens"))) or None
        row["why"] = _explain_end(row["status"], report)
    columns = {"run": "run_id", "kind": "kind", "started": "started_at", "seconds": "seconds", "tokens": "tokens"}
    bad = [row for row in rows if row["why"]][:MOST_EXPLAINED]
    notes = [f"{row['run_id']} {row['status']}: {escape_line(row['why'])}" for row in bad]
    return Listing(rows, columns | {"status": "status"}, notes)


MOST_EXPLAINED = 5
"""Runs of which a table says why they did not end well; `--json` says it of all."""


def _explain_end(status: str, report: Row) -> str:
    """Return why a run did not end well; empty if it did."""
    if status == RunStatus.FAILED:
        return "; ".join(report.get("notes", [])[-1:])
    names = {str(RunStatus.INCOMPLETE): ("failed", "unread"), str(RunStatus.HELD): ("held",)}.get(status, ())
    return "; ".join(line for step in report.get("steps", ()) for name in names for line in step.get(name, ()))


def _list_quarantine(settings: "Settings", everything: bool) -> Listing:
    """Return the input that could not be used and is not resolved: file, line and reason."""
    from slowwave.schemas.tables import QUARANTINE

    rows = [row for row in _open_store(settings).read(QUARANTINE).to_pylist() if everything or not row["resolved"]]
    rows.sort(key=lambda row: (row["path"] or "", row["line"] or 0))
    for row in rows:
        unit, slash, part = (row["row_id"] or "").partition("/")
        # of a whole file its folder too: the trouble may be in that one's name
        shown = Path(*Path(row["path"] or "").parts[-1 if row["line"] else -2 :])
        row["where"] = str(shown) if row["path"] else f"{unit[:SHORT_ID]}{slash}{part}"
    return Listing(rows, {name: name for name in ("step", "where", "line", "reason")})


def _list_junk(settings: "Settings", everything: bool) -> Listing:
    """Return the text that recurs over many sessions, and in how many of them it is masked."""
    from slowwave.schemas.tables import BOILERPLATE

    rows = _open_store(settings).read(BOILERPLATE).to_pylist()
    rows.sort(key=lambda row: (-row["sessions"], row["span_id"]))
    rows = [row | {"masked": row["sessions"] - len(row["kept"])} for row in rows]
    return Listing(rows, {"span": "span_id", "sessions": "sessions", "masked": "masked", "text": "text"})


def _list_merges(settings: "Settings", everything: bool) -> Listing:
    """Return the claims that were merged or retired, with the rule."""
    rows = [row for row in _collect_merges(_open_store(settings)) if everything or row["state"] == "in force"]
    columns = {"merge": "merge_id", "kind": "kind", "rule": "rule", "state": "state"}
    return Listing(rows, columns | {"this claim": "loser", "gave way, or may, to": "winner"})


def _list_changes(settings: "Settings", everything: bool) -> Listing:
    """Return the claims that a later one changed or may have changed, the surest first, and how many to expect wrong.

    Of each is told who decided, the classifier or a language model.
    """
    from slowwave.tasks.supersede.judge import Answer

    # Each row gets `answer`: what the model judged of its pair, or None.
    ledger = [row for row in _collect_merges(_open_store(settings)) if row["state"] == "in force"]
    judged = [row for row in ledger if row["kind"] == LedgerKind.JUDGEMENT and row["rule"] != Answer.UNANSWERED]
    answers = {frozenset((row["loser_id"], row["winner_id"])): row["rule"] for row in judged}
    rows, notes = list[Row](), list[str]()
    for kind, what in ((LedgerKind.SUPERSESSION, "superseded"), (LedgerKind.DOUBT, "linked, both standing")):
        of_kind = [row for row in ledger if row["kind"] == kind and row["rule"] != LEADS]
        for row in of_kind:
            row["answer"] = answers.get(frozenset((row["loser_id"], row["winner_id"])))
            row["by"] = f"model: {row['answer']}" if row["answer"] else "classifier"
            row["likely"] = f"{row['scores'].get('likely', 1.0):.0%}{' ?' * (kind == LedgerKind.DOUBT)}"
        likely = [row["scores"].get("likely", 1.0) for row in of_kind if not row["answer"]]
        notes += [f"{len(likely)} {what}: {sum(1 - p for p in likely):.1f} expected wrong."] if likely else []
        notes += [f"{len(of_kind) - len(likely)} {what} by a model's word."] if len(of_kind) > len(likely) else []
        rows += sorted(of_kind, key=lambda row: (-row["scores"].get("likely", 1.0), row["merge_id"]))
    notes += [f"{len(judged)} pairs judged by a model."] if judged else []
    columns = {"merge": "merge_id", "likely": "likely", "judged by": "by", "this claim": "loser"}
    return Listing(rows, columns | {"is changed, or may be, by": "winner"}, notes)


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
        # whether the decision is still in force
        stands = row["winner_id"] in (loser.get("canonical_id"), loser.get("superseded_by"))
        if row["kind"] == LedgerKind.DOUBT:
            stands = loser.get("status") == winner.get("status") == Status.ACTIVE
        if row["kind"] == LedgerKind.JUDGEMENT:
            stands = bool(loser and winner)
        row["state"] = "undone" if row["undone"] else "in force" if stands else "lapsed"
    return sorted(rows, key=lambda row: (row["kind"], row["rule"], row["merge_id"]))


def _list_notes(settings: "Settings", everything: bool) -> Listing:
    """Return the notes, the oldest first: when, by whom, and whether a person confirmed or rejected them."""
    from slowwave.store.notes import PREFIX, read_notes

    notes = [note for note in read_notes(settings.store / settings.space) if everything or note.verdict != "rejected"]
    rows = [vars(note) | {"note": note.id.removeprefix(PREFIX), "noted": note.at[:16]} for note in notes]
    how = "`slowwave include ID` confirms an agent's note, `slowwave exclude ID --why …` rejects it."
    columns = {name: name for name in ("note", "noted", "speaker", "by", "verdict")}
    return Listing(rows, columns | {"of": "workspace", "text": "text"}, [how] if notes else ())


def _list_excluded(settings: "Settings", everything: bool) -> Listing:
    """Return the sessions, messages and claims that are left out, and why."""
    from slowwave.schemas.tables import EXCLUSIONS, MESSAGES, OBSERVATIONS, SESSIONS

    store = _open_store(settings)
    rows = store.read(EXCLUSIONS, ["row_id", "kind", "why", "at"]).sort_by(
        [("at", "ascending"), ("row_id", "ascending")]
    )
    ids = rows["row_id"].to_pylist()
    sessions = store.read_ids(SESSIONS, ids, ["session_id", "native_id", "path"]).to_pylist()
    claims = store.read_ids(OBSERVATIONS, ids, ["observation_id", "summary"]).to_pylist()
    about = {row["session_id"]: {"name": row["native_id"], "text": row["path"]} for row in sessions}
    about |= {row["observation_id"]: {"text": row["summary"]} for row in claims}
    messages = store.read_ids(MESSAGES, ids, ["message_id", "text"]).to_pylist()
    about |= {row["message_id"]: {"text": row["text"]} for row in messages}
    named = [
        row | {"name": row["row_id"][:SHORT_ID], "text": "forgotten since"} | about.get(row["row_id"], {})
        for row in rows.to_pylist()
    ]
    return Listing(named, {"kind": "kind", "id": "name", "since": "at", "why": "why", "what": "text"})


def _list_usage(settings: "Settings", everything: bool) -> Listing:
    """Return the claims that were used or rated, of `everything` all, the most used first."""
    from slowwave.recall.views.usage import count_usage
    from slowwave.store.releases import Snapshot

    usage = count_usage(Snapshot(settings.store, settings.space), settings.store / settings.space)
    verdicts = {rating.id: rating.verdict for rating in usage.ratings}
    rows = [vars(claim) | {"rating": verdicts.get(claim.id)} for claim in usage.claims]
    span = f", {usage.first:%Y-%m-%d} to {usage.last:%Y-%m-%d}" if usage.first and usage.last else ""
    good, never = [*verdicts.values()].count("good"), len(usage.never)
    notes = (
        f"{usage.recalls:,} answers were handed out{span}.",
        f"Of {len(rows):,} claims {len(rows) - never:,} were among them, {never:,} never; "
        f"{good:,} memories were rated good, {len(verdicts) - good:,} bad.",
    )
    used = [row for row in rows if row["times"] or row["rating"] or everything]
    return Listing(used, {"times": "times", "claim": "id", "rated": "rating", "what it says": "text"}, notes)


def _list_spaces(settings: "Settings", everything: bool) -> Listing:
    """Return the store's spaces: size on disk, live release, and whether their disk is known to be encrypted."""
    from slowwave.store.crypt import find_encryption
    from slowwave.store.releases import list_spaces, load_releases

    rows = []
    for name in sorted(list_spaces(settings.store)):
        folder = settings.store / name
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        live = next((release.name for release in load_releases(folder)[::-1]), None)
        rows.append({"space": name, "bytes": size, "release": live, "encrypted": find_encryption(folder)})
    return Listing(rows, {"space": "space", "bytes": "bytes", "live": "release", "encrypted by": "encrypted"})


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

    Exit status 0: all is well; 3: transcripts have waited for more than a day, the last run did not end well, or a
    forgetting is not finished; 4: what it made is held back; 1: there is no memory yet, or it can't be read.
    """
    rows = collect_status(settings)
    last = next(value for heading, _, value in rows if heading == "last run")
    behind = rows[0][2]["behind"]
    # figures, where they are asked for
    if stats:
        from slowwave.flows.metrics import list_metrics

        figures = list_metrics(settings)
        by_name = {metric.name: metric.as_dict() for metric in figures}
        counted = [metric for metric in figures if any(metric.values.values()) and "timestamp" not in metric.name]
        none = "; ".join(metric.about for metric in figures if not any(metric.values.values()))
        lines = [*(str(metric) for metric in counted), f"None: {none}"]
        rows += [("stats", "", by_name)] if as_json else [("", line, None) for line in lines]
    if as_json:
        print_json({heading.replace(" ", "_"): value for heading, _, value in rows})
    else:
        OUT.print("\n".join(f"{heading:<12}{escape_line(text)}" for heading, text, _ in rows))
    # the exit status
    unfinished = any(heading == UNFINISHED for heading, _, _ in rows)
    ended_well = last.get("status") == RunStatus.DONE and not behind and not unfinished
    raise typer.Exit(HELD if last.get("status") == RunStatus.HELD else 0 if ended_well else INCOMPLETE)


def collect_status(settings: "Settings") -> list[tuple[str, str, Any]]:
    """Return the lines of `status`: each with its heading and the values that it is made of."""
    from slowwave.cli.agents.client_files import OURS, Client, list_client_files
    from slowwave.cli.schedule import find_schedule
    from slowwave.flows.coverage import find_next_night, measure_coverage
    from slowwave.schemas.settings_files import load_aliases
    from slowwave.text.marked import read_as_it_is

    # what the lines are made of
    coverage, night = measure_coverage(settings), find_schedule() or find_next_night()
    waits = Counter(row["reason"] for row in _list_quarantine(settings, False).rows)
    reasons = "; ".join(f"{n:,} {reason}" for reason, n in waits.most_common(3))
    space = next(row for row in _list_spaces(settings, False).rows if row["space"] == settings.space)
    last, kind = next(iter(_list_runs(settings, False).rows), {}), space["encrypted"]
    hooks = {str(client): list_client_files(client, None, ["slowwave"], ())[0].path for client in Client}
    hooked = [name for name, path in hooks.items() if OURS.search(read_as_it_is(path))]
    aliases = load_aliases()
    return [
        ("memory", coverage["line"], coverage),
        *_list_unfinished(settings),
        ("quarantine", f"{waits.total():,}{f': {reasons[:200]}' if reasons else ''}", waits),
        ("last run", _describe_run(last) if last else "none is noted", last),
        ("next night", night or "none is planned: `slowwave schedule install`", night),
        (
            "store",
            f"{name_place(settings.store / settings.space)}, {space['bytes'] / 1e6:,.1f} MB, live {space['release']}",
            space,
        ),
        ("encrypted", _describe_encryption(settings, kind), kind),
        ("encoder", settings.encoder, settings.encoder),
        ("model", settings.llm, settings.llm),
        *([("aliases", ", ".join(f"{old} is {new}" for old, new in aliases.items()), aliases)] if aliases else []),
        ("hooks", ", ".join(hooked) or "none: `slowwave install claude-code`, codex or cursor", hooked),
    ]


def _describe_encryption(settings: "Settings", kind: str | None) -> str:
    """Return whether the store's disk is encrypted, or that an encrypted folder beside the store is not mounted."""
    from slowwave.store.crypt import is_locked

    if is_locked(settings.store):
        return "no: an encrypted folder beside the store is not mounted in its place, see docs/install.md"
    return f"by {kind}, unlocked" if kind else "not known to be: see docs/install.md"


UNFINISHED = "forgetting"
"""Heading of what a killed run had begun to forget."""


def _list_unfinished(settings: "Settings") -> list[tuple[str, str, Any]]:
    """Return a line for each forgetting that a killed run left; none if there is none."""
    from slowwave.tasks.forget.lineage import read_plans

    return [
        (
            UNFINISHED,
            f"{plan.run_id} of {plan.at[:16].replace('T', ' ')} UTC is not finished: the next `slowwave run`, or any "
            "other command that writes, finishes it first",
            {"run_id": plan.run_id, "at": plan.at, "by": plan.why, "erased": plan.erased},
        )
        for plan in read_plans(settings.store / settings.space)
    ]


def _describe_run(run: Row) -> str:
    """Return a run's time, status and output; of one that failed the error."""
    import orjson

    report, names = orjson.loads(run.pop("report")), {"read": "messages", "observe": "claims"}
    steps = report.get("steps", [])  # of a broken report that was forgotten nothing is left
    made = [f"{step['rows_out']:,} {names[step['step']]}" for step in steps if step["step"] in names]
    made += [f"{step['counts']['superseded']:,} changed" for step in steps if "superseded" in step["counts"]]
    why = report.get("notes", [])[-1:] if run["status"] == RunStatus.FAILED or not made else made
    reasons = f": {', '.join(why)}" if why else ""
    return f"{run['kind']} {run['started_at']:%Y-%m-%d %H:%M} UTC, {run['status']}{reasons}"


@command
def config(
    alias: Annotated[
        tuple[str, str, str] | None, typer.Argument(metavar="[alias OLD NEW]", help="Name of a workspace that moved.")
    ] = None,
    as_json: bool = False,
) -> Row | None:
    """Show every current setting and where it comes from; `config alias OLD NEW` gives a workspace another name.

    What was said under OLD, or in a folder below it, is found under NEW. Nothing that is stored changes: the alias is a
    line of your settings file.
    """
    from slowwave.schemas.settings import Settings
    from slowwave.schemas.settings_files import (
        find_project_file,
        find_user_file,
        load_project_excludes,
        load_user_settings,
    )

    if alias:
        return _set_alias(*alias, as_json)
    # The names that files set, nested as in them, each with the files that set it.
    own = _map_to_path(str(find_user_file()), load_user_settings(Settings))
    if load_project_excludes():
        section = own.setdefault("read", {})
        section["exclude"] = " and ".join(filter(None, (section.get("exclude"), str(find_project_file()))))
    return _print_settings(_list_settings(load_settings(), (), own), as_json)


def _print_settings(rows: list[tuple[str, Any, str, str]], as_json: bool) -> Row | None:
    if as_json:
        return {name: {"value": value, "from": origin} for name, value, origin, _ in rows}
    for name, value, origin, about in rows:  # no table: at 80 columns it would cut the names
        echo(f"{name} = {value}  ({origin})\n    {about}")
    return None


def _set_alias(what: str, old: str, new: str, as_json: bool) -> Row | None:
    from slowwave.schemas.settings_files import write_alias
    from slowwave.store.workspaces import anchor_workspace

    if what != "alias":
        raise UsageError(
            f"config can't {what}: write `slowwave config alias OLD NEW`, or `slowwave config` to list all"
        )
    old, new = anchor_workspace(old), anchor_workspace(new)
    path = str(write_alias(old, new))
    if as_json:
        return {"old": old, "new": new, "file": path}
    echo(f"{old} is {new} from now on ({path})")
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
        while isinstance(origin, dict):  # a table whose keys a person chose
            origin = next(iter(origin.values()), "default")
        plain = value if isinstance(value, bool | int | float | str) else str(value)
        rows.append((".".join(names), plain, origin, field.description or ""))
    return rows
