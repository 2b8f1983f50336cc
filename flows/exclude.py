"""Exclude rows from the memory for good, include them again, and promote a release that a gate held back.

slowwave exclude ID… --why REASON
slowwave include ID…
slowwave promote --why REASON

An id names a session, a transcript file, a release (all rows that it added), a message, a claim, a merge, a change or a
note. The id of a summary or topic names the messages or claims that it was made of. With a claim the messages are
excluded that say nothing else; of another message its sentence is not shown (`recall/release/said.py`). Excluded
messages stay in the vault; `slowwave forget` erases them. A file may be in quarantine because it would change messages
of another file's sessions: including it allows the change.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, takewhile
from pathlib import Path
from types import MappingProxyType
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.flows.forget import take_in_notes
from slowwave.flows.nightly import run_steps_after_read
from slowwave.flows.parts.finish import finish_forgettings
from slowwave.flows.parts.quarantine_sessions import (
    MOST_NAMED,
    exclude_sessions,
    find_new_sessions,
    format_names,
    keep_reasons,
    set_inactive,
)
from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import is_held, open_run, run_step, take_reason
from slowwave.recall.release.said import Omissions, collect_left_out
from slowwave.schemas.errors import NoRelease, UsageError
from slowwave.schemas.ids import SHORT_ID, hash_words, shorten_id
from slowwave.schemas.rows import ClaimRow, ExclusionRow, MessageRow, SessionRow
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    CLAIMS,
    EXCLUSIONS,
    FILES,
    MERGES,
    MESSAGES,
    QUARANTINE,
    SESSIONS,
    SUMMARIES,
)
from slowwave.schemas.vocabulary import (
    EXCLUDED,
    SPOKEN,
    WITHDRAWALS,
    LedgerKind,
    Role,
)
from slowwave.store.logs import INCLUDED, Review, append
from slowwave.store.names import SHORTEST, NamedRow, find_named_row
from slowwave.store.notes import (
    OWN_SESSIONS,
    PREFIX,
    Note,
    Verdict,
    read_notes,
    review_note,
)
from slowwave.store.publishing import read_releases
from slowwave.store.releases import CANDIDATE, Snapshot, is_dropped, pick_release
from slowwave.store.store import Store
from slowwave.tasks.changes.outcome import KINDS, Superseded, unsupersede
from slowwave.tasks.dedupe.dedupe import Deduped, unmerge
from slowwave.tasks.dedupe.pairs import set_columns
from slowwave.tasks.ingest.task import TRESPASS, read_transcripts
from slowwave.tasks.ingest.transcripts import redact_path
from slowwave.tasks.observe.exclusions import CLAIM, MESSAGE
from slowwave.tasks.publish.task import find_run_release, publish_release
from slowwave.text.cells import LISTED_CHARS, shorten_text
from slowwave.text.rarity import adds_little
from slowwave.text.words import count_noun, singular_words

ROWS = ("session", "message", "claim", "merge", "summary", "topic")
"""Kinds of rows that a person can name here."""
NO_SESSION = (
    "the held-back night added no session: `slowwave diff --candidate` shows what would change, "
    "`slowwave exclude` removes a claim, `slowwave reprocess` runs a step again"
)


@dataclass
class Named:
    """The rows that names mean, each once."""

    sessions: dict[str, SessionRow] = field(default_factory=dict)
    """Rows of SESSIONS by id."""
    messages: dict[str, str] = field(default_factory=dict)
    """Message id -> id of its session."""
    claims: dict[str, ClaimRow] = field(default_factory=dict)
    """Rows of CLAIMS by id: a claim with all that repeats it; of a withdrawn claim its row of EXCLUSIONS."""
    merges: list[str] = field(default_factory=list)
    """Ids of MERGES."""


def run_exclude(
    names: Sequence[str],
    why: str,
    settings: Settings,
) -> RunReport:
    """Exclude rows, and remake what depended on them.

    Args:
        names: ids as commands print them. `candidate` names all that a held-back night added; it also switches off the
            gates on rejected input and on tokens for this run.
        why: the reason, kept with the exclusion and the run.
        settings: of the store.

    Raises:
        UsageError: the reason is missing, a name means nothing or several rows, or all is excluded already.
        StoreLocked: another run holds the store.
    """
    why = take_reason(why, settings)
    names = _review_notes(names, settings, "rejected")
    if CANDIDATE in names:
        decided = settings.gates.model_copy(
            update={"max_rejected": 1.0, "max_tokens": 0}
        )
        settings = settings.model_copy(update={"gates": decided})
    with open_run("exclude", settings, rewrite=False) as (job, report):
        finish_forgettings(job, report)
        if CANDIDATE in names and not is_held(job.store):
            raise UsageError("nothing is held back")
        if CANDIDATE in names and not find_new_sessions(job.store, CANDIDATE):
            report.notes.append(NO_SESSION)
            names = [name for name in names if name != CANDIDATE]
        done = _leave_out(job.store, find_named(job.store, names), why)
        if names and not done:
            raise UsageError(f"left out already: {', '.join(names)}")
        report.notes += [f"left out ({why}): {what}" for what in done]
        # No gate holds back the loss that was asked for.
        run_steps_after_read(job, report, gated=is_held(job.store))
    return report


def _leave_out(
    store: Store,
    named: Named,
    why: str,
) -> list[str]:
    """Exclude the sessions, messages, claims and merges that are not excluded yet; return a description of each kind.

    A claim's exclusion also has a hash of its words, by which the next nights recognise it, and the messages that say
    nothing else, which are excluded too.
    """
    done = [exclude_sessions(store, [*named.sessions.values()], why)]
    done.append(_exclude_messages(store, named.messages, why))
    excluded = set(store.read(EXCLUSIONS, ["row_id"])["row_id"].to_pylist())
    new: list[ExclusionRow] = [
        {
            "row_id": key,
            "kind": CLAIM,
            "session_id": row["session_id"],
            "inactive": [],
            "words": hash_words(row["workspace"], row["summary"]),
        }
        for key, row in named.claims.items()
        if key not in excluded
    ]
    keep_reasons(store, new, why)
    claims = _read_excluded_claims(store, {row["session_id"] for row in new})
    listed = [key for row in claims for key in row["inactive"]]
    done.append(_exclude_messages(store, _note_telling(store, claims, listed), why))
    if new:
        words = shorten_text(named.claims[new[0]["row_id"]]["summary"], LISTED_CHARS)
        again = f" and {count_noun(len(new) - 1, 'repetition')}"
        done.append(f"“{words}”{again if len(new) > 1 else ''}")
    done += [_undo_merge(store, merge_id) for merge_id in named.merges]
    return [what for what in done if what]


def _note_telling(
    store: Store,
    claims: Sequence[ExclusionRow],
    listed: Collection[str],
) -> dict[str, str]:
    """Write with each excluded claim the messages that tell nothing else; return them with their sessions.

    Args:
        store: where the claims are.
        claims: all exclusions of claims of some sessions.
        listed: messages that were excluded with a claim before. A person excluded the other ones.
    """
    by_person = set(store.read(EXCLUSIONS, ["row_id"])["row_id"].to_pylist())
    by_person.difference_update(listed)
    told = dict[str, set[str]]()
    for session in {row["session_id"] for row in claims}:
        told |= find_telling_messages(store, session, claims)
    noted: list[ExclusionRow] = [
        row | {"inactive": sorted(told[row["row_id"]] - by_person)}
        for row in claims
        if row["row_id"] in told
    ]
    store.merge(EXCLUSIONS, pa.Table.from_pylist(noted, schema=EXCLUSIONS.schema))
    rows = {row["row_id"]: row for row in (*claims, *noted)}
    return {key: row["session_id"] for row in rows.values() for key in row["inactive"]}


def _read_excluded_claims(
    store: Store,
    sessions: Collection[str],
) -> list[ExclusionRow]:
    """Return the exclusions of claims of some sessions."""
    where = pc.field("kind") == CLAIM
    rows = store.read_ids(EXCLUSIONS, sessions, by="session_id", where=where)
    return cast(list[ExclusionRow], rows.to_pylist())


def run_include(names: Sequence[str], settings: Settings) -> RunReport:
    """Include excluded rows again. An included agent's note counts as the person's own words from then on.

    Raises:
        UsageError: a name means nothing, or nothing that it means is excluded.
        StoreLocked: another run holds the store.
    """
    plain = _review_notes(names, settings, "confirmed")
    with open_run("include", settings, rewrite=False) as (job, report):
        files = _let_files_change(job.store, plain)
        plain = [name for name in plain if name not in files]
        if files:
            run_step(
                job, report, read_transcripts, [*files.values()], [*files.values()]
            )
            report.notes += [
                f"included: the changes of {path} to messages of other files"
                for path in files.values()
            ]
        finish_forgettings(job, report)
        taken_in = _take_in_again(job.store, plain)
        notes = [name for name in plain if name not in names or name.startswith(PREFIX)]
        report.notes += [f"confirmed: {note}" for note in notes]
        report.notes += [f"included again: {what}" for what in taken_in]
        if not report.notes:
            raise UsageError(
                f"not excluded: {', '.join(names)}; `slowwave inspect excluded` lists what is"
            )
        if files or taken_in:  # a note's verdict counts at once
            run_steps_after_read(job, report)
    return report


def _take_in_again(store: Store, names: Sequence[str]) -> list[str]:
    """Undo the exclusions of named rows; return the included sessions, messages, claims and merges."""
    excluded = {row["row_id"]: row for row in store.read(EXCLUSIONS).to_pylist()}
    left_out = {key: row for key, row in excluded.items() if row["kind"] == CLAIM}
    named = find_named(store, names, left_out)
    sessions = [row for row in named.sessions.values() if row["session_id"] in excluded]
    messages = _include_messages(store, named.messages, excluded)
    set_inactive(
        store,
        {
            row["session_id"]: excluded[row["session_id"]]["inactive"]
            for row in sessions
        },
    )
    words = {left_out[claim]["words"] for claim in named.claims if claim in left_out}
    claims = [key for key, row in left_out.items() if row["words"] in words]
    store.delete_ids(EXCLUSIONS, [row["session_id"] for row in sessions])
    messages += _include_telling(store, [left_out[key] for key in claims], excluded)
    merges = _forget_undoing(store, named.merges)
    ids = [shorten_id(key) for key in (*claims, *merges)]
    return [*filter(None, (format_names(sessions), *messages, *ids))]


def _include_telling(
    store: Store,
    claims: Sequence[ExclusionRow],
    excluded: Mapping[str, ExclusionRow],
) -> list[str]:
    """Delete exclusions of claims; return the messages that are included with them.

    They are all that were excluded with a claim of these sessions and tell more than what stays excluded, so the order
    in which claims are excluded and included does not count.
    """
    before = _read_excluded_claims(store, {row["session_id"] for row in claims})
    listed = {key: row["session_id"] for row in before for key in row["inactive"]}
    gone = {row["row_id"] for row in claims}
    store.delete_ids(EXCLUSIONS, gone)
    left = [row for row in before if row["row_id"] not in gone]
    still = _note_telling(store, left, listed)
    back = {key: sid for key, sid in listed.items() if key not in still}
    return _include_messages(store, back, excluded)


def _forget_undoing(store: Store, merges: Sequence[str]) -> list[str]:
    """Delete the undone merges among the given ids, and return their ids.

    Their source claims lose the keys of dedupe and supersede, so the night judges the pairs anew.
    """
    undone = [
        row for row in store.read_ids(MERGES, merges).to_pylist() if row["undone"]
    ]
    store.delete_ids(MERGES, [row["merge_id"] for row in undone])
    sources = store.read_ids(CLAIMS, [row["from_id"] for row in undone])
    store.merge(CLAIMS, set_columns(sources, dedupe_key=None, supersede_key=None))
    return sorted((row["merge_id"] for row in undone), key=merges.index)


def find_named(
    store: Store,
    names: Iterable[str],
    excluded: Mapping[str, ExclusionRow] = MappingProxyType({}),
) -> Named:
    """Return the rows that the names mean. A claim brings the claims that repeat it.

    Args:
        store: where the rows are looked up.
        names: as in `run_exclude`.
        excluded: excluded claims, rows of EXCLUSIONS; a withdrawn claim has no row in CLAIMS.

    Raises:
        UsageError: a name means nothing, or several rows.
    """
    sessions = store.read(
        SESSIONS, ["session_id", "native_id", "path", "inactive", "messages"]
    ).to_pylist()
    columns = ["claim_id", "session_id", "workspace", "summary", "canonical_id"]
    columns += ["quote", "message_ids"]
    claims = {
        **excluded,
        **{row["claim_id"]: row for row in store.read(CLAIMS, columns).to_pylist()},
    }
    named = Named()
    for name in names:
        if own_sessions := _find_sessions(store, sessions, name):
            named.sessions |= {row["session_id"]: row for row in own_sessions}
        elif left_out := _find_excluded(excluded, name):
            _add_claims(named, claims, [left_out])
        elif found := _find_row(store, name):
            row, tables = found
            _add_row(
                named=named,
                store=store,
                sessions=sessions,
                claims=claims,
                found=row,
                tables=tables,
            )
        else:
            raise UsageError(
                f"nothing is called {name!r}: give a session, file, message, claim, merge, summary, topic, note or "
                f"a release that added a session; {SHORTEST} characters of an id are enough"
            )
    return named


def _find_row(store: Store, name: str) -> tuple[NamedRow, Store | Snapshot] | None:
    """Return the row that an id names, and the tables that hold it.

    The newest tables are searched first, then the kept releases: excluded rows, summaries and topics are only in
    earlier ones.

    Raises:
        UsageError: several rows have ids with this beginning, or the row is of another kind.
    """
    every: Iterator[Store | Snapshot] = chain([store], _list_snapshots(store))
    for tables in every:
        if found := find_named_row(tables, name):
            if found.kind not in ROWS:
                raise UsageError(
                    f"{name} is a {found.kind}: each night counts it again, so it can't be excluded"
                )
            return found, tables
    return None


def _list_snapshots(store: Store) -> Iterator[Snapshot]:
    """Yield the releases that are kept, newest first."""
    for release in reversed(read_releases(store)):
        if not is_dropped(store.dir, release):
            yield Snapshot(store.root, store.space, release.release_id)


def _find_excluded(excluded: Mapping[str, ExclusionRow], name: str) -> str | None:
    """Return the excluded claim whose id begins with a name, or None.

    Raises:
        UsageError: several claims match.
    """
    matches = (
        [row_id for row_id in excluded if row_id.startswith(name)]
        if len(name) >= SHORTEST
        else []
    )
    if len(matches) > 1:
        raise UsageError(
            f"{len(matches)} ids begin with {name!r}: give more characters"
        )
    return matches[0] if matches else None


def _add_row(
    named: Named,
    store: Store,
    sessions: Sequence[SessionRow],
    claims: Mapping[str, ClaimRow],
    found: NamedRow,
    tables: Store | Snapshot,
) -> None:
    """Add to `named` the rows that one row stands for, which was found in `tables`."""
    if found.kind == "session":
        named.sessions |= {
            row["session_id"]: row for row in sessions if row["session_id"] == found.id
        }
    elif found.kind == "merge":
        named.merges.append(found.id)
    elif found.kind == "topic":
        rows = tables.read(CLAIMS, ["claim_id"], pc.field("topic_id") == found.id)
        _add_claims(named, claims, rows["claim_id"].to_pylist())
    elif found.kind == "summary":
        members = _list_members(tables, found.id)
        _add_claims(named, claims, members)
        _add_messages(named, store, members)
    else:
        _add_claims(named, claims, [found.id])
        _add_messages(named, store, [found.id])


def _list_members(tables: Store | Snapshot, summary: str) -> list[str]:
    """Return the messages or claims of a summary, including those of the summaries below it."""
    below = {
        row["summary_id"]: row["member_ids"]
        for row in tables.read(SUMMARIES, ["summary_id", "member_ids"]).to_pylist()
    }
    leaves = dict[str, None]()
    waiting = [summary]
    seen = set[str]()
    while waiting:
        row_id = waiting.pop()
        if row_id in below and row_id not in seen:
            waiting += below[row_id]
        elif row_id not in below:
            leaves[row_id] = None
        seen.add(row_id)
    return [*leaves]


def _add_claims(
    named: Named,
    claims: Mapping[str, ClaimRow],
    ids: Iterable[str],
) -> None:
    """Add the claims with these ids, and the claims that repeat them."""
    for claim in ids:
        if claim in claims:
            head = claims[claim].get("canonical_id") or claim
            named.claims[claim] = claims[claim]
            named.claims |= {
                key: row
                for key, row in claims.items()
                if head in (key, row.get("canonical_id"))
            }


def _add_messages(
    named: Named,
    store: Store,
    ids: Sequence[str],
) -> None:
    """Add the messages with these ids."""
    rows = store.read_ids(MESSAGES, ids, ["message_id", "session_id"]).to_pylist()
    named.messages |= {row["message_id"]: row["session_id"] for row in rows}


def find_telling_messages(
    store: Store,
    session: str,
    exclusions: Iterable[ExclusionRow],
) -> dict[str, set[str]]:
    """Return by excluded claim of a session the ids of the messages that tell it and nothing else.

    They are its own message, if nothing stands in it beside what is hidden, and what a model answered that only echoes
    it. A message that another claim was made of is none.
    """
    columns = ["message_id", "seq", "role", "origin", "text"]
    rows = store.read_ids(MESSAGES, [session], columns, by="session_id")
    said = [row for row in rows.sort_by("seq").to_pylist() if row["origin"] in SPOKEN]
    claims = store.read_ids(CLAIMS, [session], by="session_id").to_pylist()
    gone = {str(row[name]) for row in exclusions for name in ("row_id", "words")}
    claims = [_reason_now(row, gone) for row in claims]
    left_out = collect_left_out(claims)
    stating = {
        row["message_ids"][0] for row in claims if row["reason"] not in WITHDRAWALS
    }
    return {
        claim["claim_id"]: _find_telling(
            claim=claim, said=said, left_out=left_out, stating=stating
        )
        for claim in claims
        if claim["reason"] == EXCLUDED
    }


def _find_telling(
    claim: ClaimRow,
    said: Sequence[MessageRow],
    left_out: Mapping[str, Omissions],
    stating: Collection[str],
) -> set[str]:
    """Return the ids of the messages of a session that tell an excluded claim and nothing else."""
    own = claim["message_ids"][0]
    at = next((n for n, row in enumerate(said) if row["message_id"] == own), None)
    if at is None:
        return set()
    words = singular_words(claim["summary"])
    answers = takewhile(lambda row: row["role"] != Role.USER, said[at + 1 :])
    found = {
        row["message_id"]
        for row in answers
        if row["message_id"] not in stating and adds_little(row["text"], words)
    }
    is_own = not singular_words(left_out[own].hide(said[at]["text"]))
    return found | {own} if is_own else found


def _reason_now(claim: ClaimRow, gone: Collection[str]) -> ClaimRow:
    """Return a claim with the reason that the next night gives it, as to its exclusion (an id or a hash in `gone`)."""
    words = hash_words(claim["workspace"], claim["summary"])
    if claim["claim_id"] in gone or words in gone:
        return claim | {"reason": EXCLUDED}
    return claim | {"reason": None} if claim["reason"] == EXCLUDED else claim


def _exclude_messages(
    store: Store,
    messages: Mapping[str, str],
    why: str,
) -> str:
    """Exclude the messages that are not excluded yet; return a description."""
    rows = {
        row["session_id"]: row
        for row in store.read_ids(SESSIONS, set(messages.values())).to_pylist()
    }
    new = {
        key: sid
        for key, sid in messages.items()
        if sid in rows and key not in rows[sid]["inactive"]
    }
    reasons: list[ExclusionRow] = [
        {
            "row_id": key,
            "kind": MESSAGE,
            "session_id": sid,
            "inactive": [],
            "words": None,
        }
        for key, sid in new.items()
    ]
    keep_reasons(store, reasons, why)
    inactive = {
        sid: sorted({*rows[sid]["inactive"], *(key for key in new if new[key] == sid)})
        for sid in new.values()
    }
    set_inactive(store, inactive)
    names = [key[:SHORT_ID] for key in new]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (
        f"{count_noun(len(names), 'message')} {', '.join(names[:MOST_NAMED])}{more}"
        if names
        else ""
    )


def _include_messages(
    store: Store,
    messages: Mapping[str, str],
    excluded: Mapping[str, ExclusionRow],
) -> list[str]:
    """Include excluded messages again; return them.

    Raises:
        UsageError: a message's whole session is excluded.
    """
    chosen = {key: sid for key, sid in messages.items() if key in excluded}
    rows = {
        row["session_id"]: row
        for row in store.read_ids(SESSIONS, set(chosen.values())).to_pylist()
    }
    if whole := sorted(rows[sid]["native_id"] for sid in rows if sid in excluded):
        raise UsageError(
            f"the session is left out as a whole: `slowwave include {whole[0]}` first"
        )
    set_inactive(
        store,
        {
            sid: [key for key in row["inactive"] if key not in chosen]
            for sid, row in rows.items()
        },
    )
    store.delete_ids(EXCLUSIONS, [*chosen])
    return [key[:SHORT_ID] for key in chosen]


def _let_files_change(store: Store, names: Iterable[str]) -> dict[str, Path]:
    """Allow quarantined files to change messages of another file's sessions.

    Write a permission for each such file and delete its row of FILES, so it is read again. Return the names that are
    such files, with their paths.
    """
    rows = store.read(QUARANTINE, ["path", "reason"], ~pc.field("resolved")).to_pylist()
    waiting = {row["path"] for row in rows if row["reason"].startswith(TRESPASS)}
    paths = {name: Path(name).expanduser().absolute() for name in names}
    files = {
        name: path
        for name, path in paths.items()
        if waiting & {str(path), redact_path(path)}
    }
    for path in files.values():
        append(
            store.dir,
            Review(
                datetime.now(UTC).isoformat(timespec="seconds"), str(path), INCLUDED
            ),
        )
    store.delete_ids(
        FILES,
        [name for path in files.values() for name in (str(path), redact_path(path))],
    )
    return files


def _review_notes(
    names: Sequence[str],
    settings: Settings,
    verdict: Verdict,
) -> list[str]:
    """Write the verdict on each named note; return the names, with a note replaced by the id of its session.

    If a note is rejected, or a name is a talk's or a note's session, first read the notes and talks that no night read.
    """
    folder = settings.store / settings.space
    notes: dict[str, Note] = {
        note.id.removeprefix(PREFIX): note for note in read_notes(folder)
    }
    # a note is a session of one message: either's id names it
    keys = {name: name.removeprefix(PREFIX).partition("/")[0] for name in names}
    reviewed = {name: note for name in names if (note := _find_note(notes, keys[name]))}
    is_talk = any(name.startswith(OWN_SESSIONS) for name in names)
    if is_talk or (reviewed and verdict == "rejected"):
        take_in_notes(settings)
    for note in reviewed.values():
        review_note(folder, note, verdict)
    return [reviewed[name].id if name in reviewed else name for name in names]


def _find_note(notes: Mapping[str, Note], name: str) -> Note | None:
    """Return the note whose id begins with a name, or None.

    Raises:
        UsageError: several notes match.
    """
    matches = (
        [note for key, note in notes.items() if key.startswith(name)]
        if len(name) >= SHORTEST
        else []
    )
    if len(matches) > 1:
        raise UsageError(
            f"{len(matches)} notes have ids that begin with {name!r}: give more characters"
        )
    return matches[0] if matches else None


def _find_sessions(
    store: Store,
    sessions: Iterable[SessionRow],
    name: str,
) -> list[SessionRow]:
    """Return the sessions with this id or file; if there is none, the new sessions of the release with this name."""
    path = str(absolute := Path(name).expanduser().absolute())
    paths = (path, redact_path(absolute))  # as it is stored where a secret stands in it
    own = [
        row
        for row in sessions
        if name in (row["native_id"], row["session_id"]) or row["path"] in paths
    ]
    new = set() if own else find_new_sessions(store, _find_release(store, name))
    return own or [row for row in sessions if row["session_id"] in new]


def _find_release(store: Store, name: str) -> str:
    """Return the name of the release that an id means, or the id if it means none."""
    with suppress(NoRelease):
        if name.isdecimal():  # too little to say that a release is meant
            return name
        return pick_release(read_releases(store), name, store.dir).name
    return name


def _undo_merge(store: Store, merge_id: str) -> str:
    """Restore the claims of a merge or change to their state before it; return a description.

    Raises:
        UsageError: it is undone already, or it is a model's judgement.
    """
    merge = store.read_ids(MERGES, [merge_id])
    kind, source, target = (
        merge[name][0].as_py() for name in ("kind", "from_id", "into_id")
    )
    if kind == LedgerKind.JUDGEMENT:
        raise UsageError(
            f"{merge_id} is a model's judgement: exclude what came of it (`slowwave inspect changes`)"
        )
    if merge["undone"][0].as_py():
        raise UsageError(f"left out already: {merge_id}")
    # the claims as they were before it
    undone: Deduped | Superseded
    if kind in KINDS:
        undone = unsupersede(store.read_ids(CLAIMS, [source]), merge, merge_id)
    else:
        pair = store.read_ids(CLAIMS, [source, target])
        others = store.read(CLAIMS, where=pc.field("canonical_id") == target)
        others = others.filter(pc.not_equal(others["claim_id"], source))
        undone = unmerge(pa.concat_tables([pair, others]), merge, merge_id)
    store.merge(MERGES, undone.merges)
    store.merge(CLAIMS, undone.claims)
    return f"{kind} {merge_id}"


def promote_candidate(why: str, settings: Settings) -> RunReport:
    """Release the newest tables although gates hold them back: a person has looked at the losses.

    Raises:
        UsageError: the reason is missing, or nothing is held back.
        StoreMissing: the store or space does not exist.
        StoreLocked: another run holds the store.
    """
    why = take_reason(why, settings)
    with open_run("promote", settings) as (job, report):
        finish_forgettings(job, report)
        if not is_held(job.store):
            raise UsageError("nothing is held back")
        report.notes.append(f"promoted: {why}")
        report.steps.append(publish_release(job, gated=False))
        report.release = find_run_release(job)
    return report
