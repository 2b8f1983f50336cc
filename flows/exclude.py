"""Leave rows out of the memory for good, and take them in again; make live what a gate held back.

slowwave exclude ID… --why REASON
slowwave include ID…
slowwave promote --why REASON

An id names a session, a transcript file, a release (what came with it), a claim, a merge or change, or a note. Messages
stay in the vault, as those do that a transcript took back; `slowwave forget` erases.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.flows.forget import take_in_notes
from slowwave.flows.nightly import run_steps_after_read
from slowwave.flows.parts.aside import (
    Row,
    exclude_sessions,
    find_new_sessions,
    format_names,
    keep_reasons,
    set_inactive,
)
from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import is_held, open_run, take_reason
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import EXCLUSIONS, MERGES, OBSERVATIONS, SESSIONS
from slowwave.schemas.vocabulary import LedgerKind
from slowwave.store.notes import PREFIX, Note, Verdict, read_notes, review_note
from slowwave.store.releases import CANDIDATE
from slowwave.store.store import Store
from slowwave.tasks.dedupe.dedupe import Deduped, unmerge
from slowwave.tasks.dedupe.pairs import set_columns
from slowwave.tasks.ingest.transcripts import redact_path
from slowwave.tasks.observe.exclusions import CLAIM, hash_words
from slowwave.tasks.publish.task import find_run_release, publish_release
from slowwave.tasks.supersede.supersede import KINDS, Superseded, unsupersede

LEAST = 6
"""Characters of an id that name a claim, a merge or a note."""
NO_SESSION = (
    "no session came with what is held back: `slowwave diff --candidate` shows what would change, "
    "`slowwave exclude` takes a claim back, `slowwave reprocess` makes a step's rows anew"
)


@dataclass
class Named:
    """The rows that names mean, each once."""

    sessions: dict[str, Row] = field(default_factory=dict)
    """Rows of SESSIONS by id."""
    claims: dict[str, Row] = field(default_factory=dict)
    """Rows of OBSERVATIONS by id: a claim with all that repeats it."""
    merges: list[str] = field(default_factory=list)
    """Ids of MERGES."""


def run_exclude(names: Sequence[str], why: str, settings: Settings) -> RunReport:
    """Leave rows out, and make all that depended on them anew.

    Args:
        names: ids, or the first six characters or more of a claim's, a merge's or a note's; `candidate` is what came
            with a night that is held back: what could not be used or was paid for is then decided on too.
        why: kept with the exclusion and the run.
        settings: of the store.

    Raises:
        UsageError: no reason is given, a name means nothing or several rows, or all is left out already.
        StoreLocked: another run holds the store.
    """
    why = take_reason(why, settings)
    names = _review_notes(names, settings, "rejected")
    if CANDIDATE in names:
        decided = settings.gates.model_copy(update={"max_rejected": 1.0, "max_tokens": 0})
        settings = settings.model_copy(update={"gates": decided})
    with open_run("exclude", settings, rewrite=False) as (job, report):
        if CANDIDATE in names and not is_held(job.store):
            raise UsageError("nothing is held back")
        if CANDIDATE in names and not find_new_sessions(job.store, CANDIDATE):
            report.notes.append(NO_SESSION)
            names = [name for name in names if name != CANDIDATE]
        named = find_named(job.store, names)
        done = [exclude_sessions(job.store, [*named.sessions.values()], why)]
        # Of the claims, those that are not left out yet.
        excluded = set(job.store.read(EXCLUSIONS, ["row_id"])["row_id"].to_pylist())
        new = [
            row | {"row_id": key, "kind": CLAIM, "inactive": [], "words": hash_words(row["workspace"], row["summary"])}
            for key, row in named.claims.items()
            if key not in excluded
        ]
        keep_reasons(job.store, new, why)
        done += [f"{new[0]['row_id']} and {len(new) - 1} that repeat it" if new else ""]
        done = [*filter(None, done), *(_undo_merge(job.store, merge_id) for merge_id in named.merges)]
        if names and not done:
            raise UsageError(f"left out already: {', '.join(names)}")
        report.notes += [f"left out: {what}: {why}" for what in done]
        run_steps_after_read(job, report, gated=is_held(job.store))  # what was asked for is no loss
    return report


def run_include(names: Sequence[str], settings: Settings) -> RunReport:
    """Take in again what was left out; an agent's note counts as a person's own word from then on.

    Raises:
        UsageError: a name means nothing, or nothing of it is left out.
        StoreLocked: another run holds the store.
    """
    plain = _review_notes(names, settings, "confirmed")
    with open_run("include", settings, rewrite=False) as (job, report):
        excluded = {row["row_id"]: row for row in job.store.read(EXCLUSIONS).to_pylist()}
        left_out = {key: row for key, row in excluded.items() if row["kind"] == CLAIM}
        named = find_named(job.store, plain, left_out)
        sessions = [row for row in named.sessions.values() if row["session_id"] in excluded]
        set_inactive(job.store, {row["session_id"]: excluded[row["session_id"]]["inactive"] for row in sessions})
        words = {left_out[claim]["words"] for claim in named.claims if claim in left_out}
        claims = [key for key, row in left_out.items() if row["words"] in words]
        job.store.delete_ids(EXCLUSIONS, [*(row["session_id"] for row in sessions), *claims])
        # The night decides anew on pairs that were taken apart.
        undone = [row for row in job.store.read_ids(MERGES, named.merges).to_pylist() if row["undone"]]
        job.store.delete_ids(MERGES, [row["merge_id"] for row in undone])
        losers = job.store.read_ids(OBSERVATIONS, [row["loser_id"] for row in undone])
        job.store.merge(OBSERVATIONS, set_columns(losers, dedupe_key=None, supersede_key=None))
        merges = sorted((row["merge_id"] for row in undone), key=named.merges.index)
        notes = [name for name in plain if name not in names or name.startswith(PREFIX)]
        report.notes += [f"confirmed: {note}" for note in notes]
        report.notes += [f"taken in again: {what}" for what in (format_names(sessions), *claims, *merges) if what]
        if not report.notes:
            raise UsageError(f"not left out: {', '.join(names)}; `slowwave inspect excluded` lists what is")
        if sessions or claims or merges:  # a note's verdict counts at once
            run_steps_after_read(job, report)
    return report


def find_named(store: Store, names: Iterable[str], excluded: Mapping[str, Row] = MappingProxyType({})) -> Named:
    """Return the rows that the names mean: of a claim what repeats it too.

    Args:
        store: whose.
        names: as `run_exclude` has them.
        excluded: claims that are left out, rows of EXCLUSIONS: one that was withdrawn is no row of OBSERVATIONS.

    Raises:
        UsageError: a name means nothing, or several rows.
    """
    sessions = store.read(SESSIONS, ["session_id", "native_id", "path", "inactive", "messages"]).to_pylist()
    columns = ["observation_id", "session_id", "workspace", "summary", "canonical_id"]
    claims = {**excluded, **{row["observation_id"]: row for row in store.read(OBSERVATIONS, columns).to_pylist()}}
    merges: list[str] = store.read(MERGES, ["merge_id"])["merge_id"].to_pylist()
    named = Named()
    # Each name is a session, a claim with all that repeats it, or a merge.
    for name in names:
        if own_sessions := _find_sessions(store, sessions, name):
            named.sessions |= {row["session_id"]: row for row in own_sessions}
        elif claim := _find_one(claims, name):
            head = claims[claim].get("canonical_id") or claim
            named.claims[claim] = claims[claim]
            named.claims |= {key: r for key, r in claims.items() if head in (key, r.get("canonical_id"))}
        elif merge := _find_one(merges, name):
            named.merges.append(merge)
        else:
            raise UsageError(
                f"{name!r} is no session, file, release that brought a session, claim, merge or note; of a claim's, "
                f"merge's or note's id {LEAST} characters are enough"
            )
    return named


def _find_one(ids: Iterable[str], name: str) -> str | None:
    """Return the one id that begins with a name; None where there is none.

    Raises:
        UsageError: there are several.
    """
    matches = [row_id for row_id in ids if row_id.startswith(name)] if len(name) >= LEAST else []
    if len(matches) > 1:
        raise UsageError(f"{len(matches)} ids begin with {name!r}: give more characters")
    return matches[0] if matches else None


def _review_notes(names: Sequence[str], settings: Settings, verdict: Verdict) -> list[str]:
    """Return the names, those of notes as their session's id, once the verdict on each note is written down."""
    folder = settings.store / settings.space
    notes: dict[str, Note] = {note.id.removeprefix(PREFIX): note for note in read_notes(folder)}
    reviewed = {name: notes[key] for name in names if (key := _find_one(notes, name.removeprefix(PREFIX)))}
    if reviewed and verdict == "rejected":
        take_in_notes(settings)  # also such as no night has read yet
    for note in reviewed.values():
        review_note(folder, note, verdict)
    return [reviewed[name].id if name in reviewed else name for name in names]


def _find_sessions(store: Store, sessions: Iterable[Row], name: str) -> list[Row]:
    path = str(absolute := Path(name).expanduser().absolute())
    paths = (path, redact_path(absolute))  # as it is stored where a secret stands in it
    own = [row for row in sessions if name in (row["native_id"], row["session_id"]) or row["path"] in paths]
    new = set() if own else find_new_sessions(store, name)
    return own or [row for row in sessions if row["session_id"] in new]


def _undo_merge(store: Store, merge_id: str) -> str:
    """Write the claims of a merge or change as they were before it; return what was done.

    Raises:
        UsageError: it is undone already, or a model's judgement.
    """
    merge = store.read_ids(MERGES, [merge_id])
    kind, loser, winner = (merge[name][0].as_py() for name in ("kind", "loser_id", "winner_id"))
    if kind == LedgerKind.JUDGEMENT:
        raise UsageError(f"{merge_id} is a model's judgement: exclude what came of it (`slowwave inspect changes`)")
    if merge["undone"][0].as_py():
        raise UsageError(f"left out already: {merge_id}")
    # the claims as they were before it
    undone: Deduped | Superseded
    if kind in KINDS:
        undone = unsupersede(store.read_ids(OBSERVATIONS, [loser]), merge, merge_id)
    else:
        pair = store.read_ids(OBSERVATIONS, [loser, winner])
        others = store.read(OBSERVATIONS, where=pc.field("canonical_id") == winner)
        others = others.filter(pc.not_equal(others["observation_id"], loser))
        undone = unmerge(pa.concat_tables([pair, others]), merge, merge_id)
    store.merge(MERGES, undone.merges)
    store.merge(OBSERVATIONS, undone.observations)
    return f"{kind} {merge_id}"


def promote_candidate(why: str, settings: Settings) -> RunReport:
    """Release the newest tables, whatever the gates say: a person has looked at what would be lost.

    Raises:
        UsageError: no reason is given, or nothing is held back.
        StoreMissing: there is no such store or space.
        StoreLocked: another run is at it.
    """
    why = take_reason(why, settings)
    with open_run("promote", settings) as (job, report):
        if not is_held(job.store):
            raise UsageError("nothing is held back")
        report.notes.append(f"promoted: {why}")
        report.steps.append(publish_release(job, gated=False))
        report.release = find_run_release(job)
    return report
