"""Read new transcripts into the vault: read, redact, chain, store.

A changed file is read from its start. Readers give the same records for the same bytes, and messages that the vault has
already are left out by id. So after a crash the file is just read again, and a transcript that shrank, was rewritten or
was deleted removes nothing from the vault.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path

import polars as pl

from slowwave.schemas.counters import Count, CountByKind
from slowwave.schemas.rows import MessageRow
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import FILES, MESSAGES, SESSIONS
from slowwave.store.logs import INCLUDED, Added, Review, append, format_now
from slowwave.store.logs import read as read_log
from slowwave.store.notes import OWN_SESSIONS, find_talk_logs
from slowwave.store.store import Store
from slowwave.tasks.forget.plan import read_forgotten
from slowwave.tasks.ingest.formats.registry import find_other_readers
from slowwave.tasks.ingest.parsing.lines import DAMAGE
from slowwave.tasks.ingest.parsing.records import (
    Inactive,
    Limits,
    Message,
    Record,
    Rejected,
    Session,
    Skipped,
)
from slowwave.tasks.ingest.parsing.values import dump_json
from slowwave.tasks.ingest.storable import (
    Timeline,
    leave_out_own_blocks,
    make_storable,
)
from slowwave.tasks.ingest.store_messages import (
    EXCLUDED,
    IngestedTranscript,
    quarantine_lines,
    repair_sessions,
    write_ingested,
)
from slowwave.tasks.ingest.transcripts import (
    Transcript,
    TranscriptScan,
    find_pending,
    is_at_home,
    is_excluded,
    lies_in_own_folder,
    name_path,
    redact_message,
)
from slowwave.tasks.ingest.vault import (
    GENESIS,
    build_block_row,
    build_message_row,
    build_message_table,
    chain_row,
    compute_message_id,
    compute_message_identity,
    compute_session_id,
    fill_gaps,
)
from slowwave.tasks.job import Job, StepReport, report_step
from slowwave.tasks.progress import show_progress
from slowwave.text.cells import shorten_text
from slowwave.text.redact import redact_text
from slowwave.text.words import count_noun

SHOWN = 3
WIDTH = 160
"""Most changed messages that a report quotes, and most characters of each."""
TRESPASS = "it would change a message of "
LOOKED_AT = 200
FEW = 20
"""First records of a file that decide whether it is read, and least rejected ones among them for rejecting the file."""
BATCH = 2_000
"""Messages, or finished files, that are written together."""


class VaultIndex:
    """The ids in the vault, as 64-bit integers, so that a million messages take about 200 MB."""

    def __init__(self, store: Store) -> None:
        self._store = store
        stored = pl.DataFrame(
            store.read(
                MESSAGES, ["message_id", "identity", "session_id", "seq", "hash"]
            )
        )
        names = pl.col("message_id", "identity", "session_id")
        # As `_shorten_id`.
        short = stored.select(
            names.str.head(16).str.to_integer(base=16, dtype=pl.UInt64)
        )
        self.messages = set(short["message_id"].to_list())
        self.owner = dict(short.select("identity", "session_id").iter_rows())
        self.folders = find_talk_logs(store.dir)
        self.forgotten = {
            _shorten_id(i) for i in read_forgotten(store, "message", "identity")
        }
        self._read_sessions()
        self._read_logs()
        self._known = frozenset(self.home)
        self._compared = set[tuple[str, str]]()
        """Sessions with the files that were compared with their first ones."""
        last = stored.sort("seq").group_by("session_id").last()
        self.tail = {
            s: (n + 1, h)
            for s, n, h in zip(
                last["session_id"], last["seq"], last["hash"], strict=True
            )
        }

    def _read_sessions(self) -> None:
        """Read the stored facts of each session."""
        sessions = self._store.read(
            SESSIONS, ["session_id", "native_id", "path", "workspace", "inactive"]
        ).to_pylist()
        self.inactive = {_shorten_id(i): i for row in sessions for i in row["inactive"]}
        self.home = {row["session_id"]: row["path"] for row in sessions}
        """The file from which each session was first read."""
        self.workspaces = {row["session_id"]: row["workspace"] for row in sessions}
        self.natives = {row["session_id"]: row["native_id"] for row in sessions}

    def _read_logs(self) -> None:
        """Read what persons said about files, and which files added to sessions of others."""
        self.included = {
            review.id
            for review in read_log(self._store.dir, Review)
            if review.verdict == INCLUDED
        }
        """Files that a person allowed to change messages of other files' sessions."""
        self.additions = {
            (entry.session, entry.path) for entry in read_log(self._store.dir, Added)
        }
        """Sessions with the other files that added a person's messages to them."""

    def find_trespass(
        self,
        session: Session,
        sid: str,
        iid: str | None,
        transcript: Transcript,
    ) -> str | None:
        """Return why a file may not add or change a message of a session, or take messages back (without `iid`).

        Return None if it may. slowwave's own sessions are only read from the space's folders, or from an export if the
        store lacks the session. A stored message may be changed only by a file in or below the folder where its session
        was first read, even if that file no longer exists, and by a file that a person included. New messages may come
        from any file.
        """
        path = transcript.path
        home = self.home.get(sid, "")
        native = self.natives.get(sid, session.native_id)
        own = native.startswith(OWN_SESSIONS) and not (session.stored and not home)
        if own and not any(
            folder.resolve() in path.resolve().parents for folder in self.folders
        ):
            return f"slowwave writes sessions such as {native} itself: from other files none is taken"
        if (
            (iid and _shorten_id(iid) not in self.owner)
            or is_at_home(path, home)
            or str(path) in self.included
        ):
            return None
        return f"{TRESPASS}{home}, where its session was first read"

    def take_over(
        self,
        session: Session,
        sid: str,
        transcript: Transcript,
    ) -> set[str]:
        """Bind a session to a file in the tool's own folder for its workspace, if it was first read from one elsewhere.

        Return the session's id if it was bound now, else nothing.
        """
        home = self.home.get(sid, transcript.name)
        if home == transcript.name or (sid, transcript.name) in self._compared:
            return set()
        self._compared.add((sid, transcript.name))
        if not lies_in_own_folder(
            transcript.path, transcript.reader, session.workspace
        ) or lies_in_own_folder(
            Path(home), transcript.reader, self.workspaces.get(sid)
        ):
            return set()
        self.home[sid] = transcript.name
        self.workspaces[sid] = session.workspace
        return {sid}

    def is_known(self, sid: str, iid: str) -> bool:
        """Return True if the store has the session and a message of this identity."""
        return sid in self.natives and _shorten_id(iid) in self.owner

    def bind_session(
        self,
        session: Session,
        sid: str,
        transcript: Transcript,
        *,
        by_person: bool,
    ) -> None:
        """Bind a new session to its file. Log a file that adds a person's message to the session of
        another file, unless a person included it.
        """
        added = (sid, transcript.name)
        is_own = self.home.setdefault(sid, transcript.name) == transcript.name
        self.workspaces.setdefault(sid, session.workspace)
        if is_own or not by_person or str(transcript.path) in self.included:
            return
        if added not in self.additions:
            line = Added(at=format_now(), session=sid, path=transcript.name)
            append(self._store.dir, line)
            self.additions.add(added)

    def settle_identity(
        self,
        source: str,
        session: Session,
        message: Message,
    ) -> str:
        """Return a message's identity; if the vault has one that an earlier version of its reader gave it, return that.

        Also sets the message's `session` to its session's native id.
        """
        message.session = session.native_id
        former = (
            message.former,
            session.former and f"{session.former}/{message.native_id}",
        )
        copies = [
            message,
            *(replace(message, identity=identity) for identity in former if identity),
        ]
        iids = [compute_message_identity(source, copy) for copy in copies]
        return next(filter(self.has_identity, iids), iids[0])

    def find_identity(self, sid: str, message: Message) -> str | None:
        """Return the identity of the stored message with a message's native id in its session; None if there is none.

        It is the same message if its content is the same, since a new version of a reader may give identities of
        another form. If the identity is made of words that were redacted in another way, the same role and time are
        enough.
        """
        blocks = dump_json(list(map(build_block_row, message.blocks)))
        for row in self._list_places(sid).get(message.native_id, ()):
            is_said_then = (row["role"], row["ts"]) == (
                message.role,
                message.ts,
            ) and message.ts is not None
            if dump_json(row["blocks"]) == blocks or (message.former and is_said_then):
                return str(row["identity"])
        return None

    def has_identity(self, iid: str) -> bool:
        """Return True if a message of this identity is stored or was forgotten."""
        return _shorten_id(iid) in self.owner or _shorten_id(iid) in self.forgotten

    @lru_cache(maxsize=1)  # noqa: B019  # one file's session at a time; the index lives for one reading
    def _list_places(self, sid: str) -> dict[str, list[MessageRow]]:
        """Return the messages of a session that were stored before this reading, by native id."""
        places = defaultdict[str, list[MessageRow]](list)
        if sid in self._known:
            columns = ["native_id", "role", "ts", "blocks", "identity"]
            for row in self._store.read_ids(
                MESSAGES, [sid], columns, by="session_id"
            ).to_pylist():
                places[row["native_id"]].append(row)
        return places

    def append_row(self, row: MessageRow) -> MessageRow:
        """Return the row, chained at the end of its session, and add its ids to the index."""
        seq, prev = self.tail.get(row["session_id"], (0, GENESIS))
        placed = chain_row(row, seq, prev)
        self.tail[row["session_id"]] = (seq + 1, placed["hash"])
        self.messages.add(_shorten_id(row["message_id"]))
        self.owner[_shorten_id(row["identity"])] = _shorten_id(row["session_id"])
        return placed


def _shorten_id(hex_id: str) -> int:
    return int(hex_id[:16], 16)


def read_transcripts(
    job: Job,
    paths: list[Path],
    named: Sequence[Path] = (),
    check_all: Callable[[], object] = lambda: None,
) -> StepReport:
    """Read every new or changed transcript below the paths into the vault.

    Args:
        job: the run.
        paths: files and folders.
        named: paths that a person named: a file without a message, and a folder without a transcript, is reported.
        check_all: called before anything new is written. Without news it is not called, so not all tables are checked.
    """
    with report_step("read") as report:
        repair_sessions(job.store)
        columns = ["path", "source", "size", "mtime_ns", "digest", "read_key"]
        known_files = {
            row["path"]: row for row in job.store.read(FILES, columns).to_pylist()
        }
        with show_progress("looking for new transcripts"):
            scan = find_pending(
                stored=known_files, settings=job.settings, paths=paths, named=named
            )
        _report_scan(report, scan)
        unreadable = [(path, Rejected(0, why)) for path, why in scan.unreadable]
        quarantine_lines(job.store, unreadable, redact=job.settings.redact)
        if scan.pending:
            check_all()
        left = _read_all(job, scan.pending, report) if scan.pending else []
        _report_waiting(report, left)
        waiting = {path for file in left for path in (file.path, *file.path.parents)}
        read = [path for path in named if path not in waiting]
        report.unread += find_unread(job, read, dict(scan.unreadable))
    return report


def _report_scan(report: StepReport, scan: TranscriptScan) -> None:
    """Add the counts of the files found to the report, and notes on those that were left out."""
    report.rows_in = len(scan.pending)
    report.counts.update(scan.counts)
    report.counts.update(scan.left_out.counts)
    report.counts[Count.FILES_UNREADABLE] = len(scan.unreadable)
    report.notes += scan.left_out.describe()


def _report_waiting(report: StepReport, left: list[Transcript]) -> None:
    """Add notes on messages from the future, and on transcripts that the quota leaves for another night."""
    if late := report.counts[Count.MESSAGES_FROM_FUTURE]:
        report.notes.append(
            f"messages dated after this run: {late:,}; they are placed by their order in the file"
        )
    if left:
        report.kinds[CountByKind.WAITING]["transcripts"] = len(left)
        report.notes.append(
            f"the space's quota is used up: {len(left):,} transcripts wait for the next night"
        )


def find_unread(
    job: Job,
    named: Sequence[Path],
    unreadable: dict[Path, str],
) -> list[str]:
    """Return a line, with the reason, for each named file that gave no message and each named folder without a file."""
    columns = ["path", "messages", "quarantined"]
    files = (
        {row["path"]: row for row in job.store.read(FILES, columns).to_pylist()}
        if named
        else {}
    )
    lines = []
    for path in named:
        # the reason, unless some of it was read
        row = files.get(name_path(path, job.settings))
        if path.is_dir():
            below = f"{name_path(path, job.settings).rstrip('/')}/"
            if any(name.startswith(below) for name in files) or any(
                path in file.parents for file in unreadable
            ):
                continue
            why = "no transcript is in it"
        elif path in unreadable:
            why = unreadable[path].removeprefix(f"{path}: ")
        elif is_excluded(path, job.settings.read.exclude):
            why = "the setting read.exclude leaves it out"
        elif row is None or row["messages"]:
            continue
        elif row["quarantined"]:
            why = "in quarantine: `slowwave inspect quarantine` has the reason"
        else:
            why = "no message in it is to be kept"
        lines.append(f"{name_path(path, job.settings)} ({why})")
    return lines


def _read_all(
    job: Job,
    transcripts: list[Transcript],
    report: StepReport,
) -> list[Transcript]:
    """Read transcripts and write them in batches: many small files share a commit, a large one has several.

    Return the files that the quota leaves. A file is read to its end, so the last one may exceed the quota.
    """
    index = VaultIndex(job.store)
    limits = Limits(job.settings.read.max_line_bytes)
    unwritten = UnwrittenRows(job, report)
    quota = job.settings.quota
    waiting = deque(transcripts)
    label = f"reading {count_noun(len(transcripts), 'file')}: kB"
    with (
        show_progress(label, sum(t.size for t in transcripts) / 1000) as advance,
        show_progress("messages") as count_messages,
    ):
        while waiting and not (
            0 < quota.messages <= unwritten.messages
            or 0 < quota.bytes <= unwritten.size
        ):
            transcript = waiting.popleft()
            got = IngestedTranscript(transcript)
            rows = iter_new_rows(
                got,
                index,
                limits,
                redact=job.settings.redact,
                exclude=job.settings.read.exclude,
                now=job.now,
            )
            for row in rows:
                unwritten.add_row(row)
                count_messages(1)
            unwritten.finish_file(got)
            advance(transcript.size / 1000)
    unwritten.commit()
    report.counts[Count.SESSIONS] = len(unwritten.sessions)
    return list(waiting)


@dataclass
class UnwrittenRows:
    """Rows and files that were read but not written yet, and totals of all that was read."""

    job: Job
    report: StepReport
    rows: list[MessageRow] = field(default_factory=list)
    files: list[IngestedTranscript] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    messages: int = 0
    size: int = 0

    def add_row(self, row: MessageRow) -> None:
        """Add a row of MESSAGES; write the rows if there are BATCH of them."""
        self.rows.append(row)
        self.sessions.add(row["session_id"])
        if len(self.rows) >= BATCH:
            self.commit()

    def finish_file(self, got: IngestedTranscript) -> None:
        """Add a file that was read to its end; write the files if there are BATCH of them."""
        self.files.append(got)
        self.messages += got.stored
        self.size += got.transcript.size
        if len(self.files) >= BATCH:
            self.commit()

    def commit(self) -> None:
        """Write the messages, then the rows derived from them, then the marks of the files; update the report."""
        table = build_message_table(self.rows)
        self.report.rows_out += self.job.store.append(MESSAGES, table)
        write_ingested(self.job.store, self.files, redact=self.job.settings.redact)
        for got in self.files:
            _count_file(self.report, got)
        changed = [text for got in self.files for text in got.changed]
        self.report.notes += [
            f"a person's message was changed: “{shorten_text(' '.join(text.split()), WIDTH)}”"
            for text in changed[: max(0, SHOWN - len(self.report.notes))]
        ]
        self.rows.clear()
        self.files.clear()


def _count_file(report: StepReport, got: IngestedTranscript) -> None:
    """Add a file's counts to a report."""
    without_message = not (got.stored or got.present or got.rejected)
    counts = {
        Count.FILES: 1,
        Count.MESSAGES_PRESENT: got.present,
        Count.LINES_QUARANTINED: len(got.rejected),
        Count.RECORDS_SKIPPED: sum(got.skipped.values()),
        Count.FILES_WITHOUT_MESSAGE: int(without_message),
        Count.MESSAGES_FROM_FUTURE: got.future,
        Count.MESSAGES_CHANGED: len(got.changed),
    }
    report.counts.update(counts)
    report.kinds[CountByKind.REDACTED].update(got.redacted)


def iter_new_rows(
    got: IngestedTranscript,
    index: VaultIndex,
    limits: Limits,
    *,
    redact: bool,
    exclude: Sequence[str] = (),
    now: datetime | None = None,
) -> Iterator[MessageRow]:
    """Yield chained rows of MESSAGES that the vault lacks, and collect the reader's other records in `got`.

    `now` is the run's clock, by default the machine's. A time more than a day after it counts as unknown.
    """
    first, rest = _begin_reading(got, limits)
    times = Timeline(now or datetime.now(UTC), first, got.transcript.mtime_ns)
    for record in (
        [unusable] if (unusable := find_unusable(first)) else chain(first, rest)
    ):
        match record:
            case Message():
                times.place(record)
                got.persons += record.origin == "human"
                row = _prepare_message_row(
                    record, got, index, redact=redact, exclude=exclude
                )
                if row is not None:
                    yield index.append_row(row)
            case Session():
                got.reuse_former_id(record, index.natives)
                got.update_session(_redact_session(record) if redact else record)
            case Inactive():
                sid = compute_session_id(got.transcript.reader.source, record.session)
                why = index.find_trespass(
                    session=got.get_session(record.session),
                    sid=sid,
                    iid=None,
                    transcript=got.transcript,
                )
                if not why:
                    got.inactive.append(record)
                elif got.rejected[-1:] != [Rejected(0, why)]:
                    # a file has many such records, most of which change nothing
                    got.rejected.append(Rejected(0, why))
            case Rejected():
                got.rejected.append(record)
            case Skipped():
                _note_skipped(got, record, redact=redact)
    got.settle(times.explain(), times.count)


def _redact_session(session: Session) -> Session:
    """Replace the secrets in a session's title, workspace and repository in place, and return the session."""
    for name in ("title", "workspace", "repository"):
        setattr(session, name, redact_text(getattr(session, name) or "") or None)
    return session


def _note_skipped(
    got: IngestedTranscript,
    record: Skipped,
    *,
    redact: bool,
) -> None:
    if redact:
        told = (record.kind, record.words)
        got.has_masked_names |= any(redact_text(words) != words for words in told)
        record.kind = redact_text(record.kind)
    if record.words and not got.persons:
        got.unread.append(record)
    else:
        got.skipped[record.kind] += 1


def _begin_reading(
    got: IngestedTranscript, limits: Limits
) -> tuple[list[Record], Iterator[Record]]:
    """Return the first records of a transcript, and an iterator over the rest.

    If the reader finds no turn of a person in the first records, but unread words of a person, then the next reader
    that recognises the file and finds such a turn reads the file instead; `got.transcript` names it.
    """
    transcript = got.transcript
    records = _read_records(transcript, limits)
    first = list(islice(records, LOOKED_AT))
    if not any(
        isinstance(record, Rejected) and record.unread for record in first
    ) or _has_person(first):
        return first, records
    try:
        others = find_other_readers(transcript.path, transcript.reader)
    except (OSError, *DAMAGE):  # gone by now
        others = []
    for other in others:
        theirs = _read_records(replace(transcript, reader=other), limits)
        if _has_person(begun := list(islice(theirs, LOOKED_AT))):
            got.transcript = replace(transcript, reader=other)
            return begun, theirs
    return first, records


def _has_person(records: Iterable[Record]) -> bool:
    return any(
        isinstance(record, Message) and record.origin == "human" for record in records
    )


def refill_vault(
    store: Store,
    settings: Settings,
    paths: Iterable[Path],
    now: datetime | None = None,
) -> int:
    """Store messages again that are missing in the middle of sessions, from their transcripts; return how many."""
    index = VaultIndex(store)
    limits = Limits(settings.read.max_line_bytes)
    read, stored = (defaultdict[str, list[MessageRow]](list) for _ in range(2))
    for transcript in find_pending(
        stored={}, settings=settings, paths=paths, named=None
    ).pending:
        got = IngestedTranscript(transcript)
        rows = iter_new_rows(
            got,
            index,
            limits,
            redact=settings.redact,
            exclude=settings.read.exclude,
            now=now,
        )
        for row in rows:
            read[row["session_id"]].append(row)
    for row in store.read_ids(MESSAGES, read, by="session_id").to_pylist():
        stored[row["session_id"]].append(row)
    return store.append(
        MESSAGES,
        build_message_table(
            [row for sid in stored for row in fill_gaps(stored[sid], read[sid])]
        ),
    )


def _read_records(transcript: Transcript, limits: Limits) -> Iterator[Record]:
    try:
        records = map(make_storable, transcript.reader.read(transcript.path, limits))
        yield from map(leave_out_own_blocks, records)
    except Exception as error:
        # deliberately broad: an error in one file must not stop the night
        yield Rejected(
            line=0,
            reason=f"reader {transcript.reader.name} stopped: {type(error).__name__}: {error}",
        )


def find_unusable(first: Sequence[Record]) -> Rejected | None:
    """Return a rejection of a whole file if most of its first records (at least FEW) are rejected; else None."""
    rejected = [record for record in first if isinstance(record, Rejected)]
    rows = len(rejected) + sum(isinstance(record, Message) for record in first)
    if len(rejected) < FEW or 2 * len(rejected) <= rows:
        return None
    why = f"{len(rejected):,} of its first {rows:,} rows can't be used, so none is read: {rejected[0].reason}"
    return Rejected(rejected[0].line, why, rejected[0].excerpt)


def _prepare_message_row(
    message: Message,
    got: IngestedTranscript,
    index: VaultIndex,
    *,
    redact: bool,
    exclude: Sequence[str],
) -> MessageRow | None:
    """Return the row of a message; None if it is stored already, excluded or rejected. Update the counts in `got`."""
    session = got.get_session(message.session)
    if _is_excluded_workspace(session.workspace, exclude):
        got.skipped[EXCLUDED] += 1
        return None
    try:
        iid, mid = _identify(message, got, index, redact=redact)
    except (TypeError, UnicodeEncodeError) as error:
        # a lone surrogate can't be encoded as UTF-8
        why = f"message can't be stored as UTF-8: {error}"
        got.rejected.append(Rejected(message.line, why))
        return None
    sid = got.get_session_id(session)
    if _is_present(message=message, index=index, sid=sid, iid=iid, mid=mid):
        _note_present(got, index, mid)
        return None
    got.taken_over |= index.take_over(session, sid, got.transcript)
    if trespass := index.find_trespass(
        session=session, sid=sid, iid=iid, transcript=got.transcript
    ):
        got.rejected.append(Rejected(message.line, trespass))
        return None
    by_person = message.origin == "human"
    if by_person and index.is_known(sid, iid):
        got.changed.append(message.text)
    index.bind_session(session, sid, got.transcript, by_person=by_person)
    got.stored += 1
    workspace = message.stored.workspace if message.stored else session.place
    row = build_message_row(
        source=got.get_source(session),
        message=message,
        workspace=workspace,
        mid=mid,
        iid=iid,
    )
    return {**row, "session_id": sid}


def _note_present(
    got: IngestedTranscript,
    index: VaultIndex,
    mid: str,
) -> None:
    """Count a message that is stored already; note it if it is inactive."""
    got.present += 1
    if _shorten_id(mid) in index.inactive:
        got.seen_again.add(index.inactive[_shorten_id(mid)])


def _is_excluded_workspace(workspace: str | None, exclude: Sequence[str]) -> bool:
    return workspace is not None and any(
        fnmatch(workspace, pattern) for pattern in exclude
    )


def _identify(
    message: Message,
    got: IngestedTranscript,
    index: VaultIndex,
    *,
    redact: bool,
) -> tuple[str, str]:
    """Redact a message in place, and return its identity and the id of this version of it.

    Raises:
        TypeError, UnicodeEncodeError: its text can't be encoded as UTF-8.
    """
    session = got.get_session(message.session)
    stored = message.stored
    source = got.get_source(session)
    iid = stored.identity if stored else index.settle_identity(source, session, message)
    if redact:
        before = message.list_names()
        got.redacted.update(redact_message(message, got.transcript.kept_words))
        got.has_masked_names |= message.list_names() != before
    if stored:
        return iid, stored.message_id
    if not index.has_identity(iid):
        sid = got.get_session_id(session)
        iid = index.find_identity(sid, message) or iid
    return iid, compute_message_id(iid, message)


def _is_present(
    message: Message,
    index: VaultIndex,
    sid: str,
    iid: str,
    mid: str,
) -> bool:
    """Return True if a message is stored, was forgotten in any version, or is a copy of another session's message.

    A person's message is not a copy unless its content is the same, since another file may have used its id before.
    """
    owner = index.owner.get(_shorten_id(iid))
    is_elsewhere = owner is not None and owner != _shorten_id(sid)
    is_copy = is_elsewhere and message.origin != "human"
    is_forgotten = _shorten_id(iid) in index.forgotten
    return is_copy or is_forgotten or _shorten_id(mid) in index.messages
