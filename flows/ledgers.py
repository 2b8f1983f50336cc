"""The ledgers of a memory as data: what `slowwave inspect` and the pages list."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import orjson

from slowwave.recall.release.view import View
from slowwave.recall.views.usage import count_usage
from slowwave.schemas.ids import SHORT_ID
from slowwave.schemas.rows import ClaimRow, MergeRow, MessageRow, RunRow
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    BOILERPLATE,
    CHECKS,
    CLAIMS,
    EXCLUSIONS,
    MERGES,
    MESSAGES,
    QUARANTINE,
    RUNS,
    SESSIONS,
)
from slowwave.schemas.vocabulary import (
    CORRECTED,
    COUNTED,
    LEADS,
    LedgerKind,
    RunStatus,
    Status,
)
from slowwave.store.encrypted_disk import find_encryption
from slowwave.store.notes import PREFIX, read_notes
from slowwave.store.publishing import read_releases
from slowwave.store.releases import Snapshot, is_dropped, list_spaces, load_releases
from slowwave.store.store import Store
from slowwave.text.fence import escape_line
from slowwave.text.secrets.rules import MARK
from slowwave.text.times.days import format_day

MASKED = re.compile(rf"{re.escape(MARK)}([a-z0-9-]+)\]")
AROUND = 40
"""Characters shown on either side of a masked word."""
MOST_MASKED = 200
"""Masked words listed, unless all are wanted."""


class MergeState(StrEnum):
    """Whether a row of MERGES counts now, as a table says it."""

    IN_FORCE = "in force"
    LAPSED = "lapsed"
    """What it decided no longer holds between its claims."""
    UNDONE = "undone"


DECISIONS = {
    LedgerKind.DUPLICATE: "merged",
    LedgerKind.SUPERSESSION: "changed",
    LedgerKind.DOUBT: "perhaps changed",
    LedgerKind.AGREEMENT: "both hold",
    LedgerKind.JUDGEMENT: "judged by a model",
}
"""What each kind of row in MERGES decides, as a table says it."""


LEAST_WRONG = 0.05
"""Least number of expected errors that is shown as a figure."""
CHANGE_COLUMNS = {
    "change": "merge_id",
    "decision": "decision",
    "likely": "likely",
    "judged by": "by",
    "earlier": "from",
    "later": "into",
    "of": "at",
}
"""The columns of the list of changes, by heading."""


class ListedRun(RunRow, total=False):
    """A run as its ledger lists it."""

    seconds: float | None
    tokens: int | None
    why: str
    """Why it did not end well; empty if it did."""


ListedMerge = TypedDict(
    "ListedMerge",
    {
        "merge_id": str,
        "kind": LedgerKind,
        "from_id": str,
        "into_id": str,
        "rule": str,
        "scores": dict[str, float],
        "reason": str | None,
        "undone": bool,
        "step_key": str,
        # what the two claims say; None if a claim is not there any more
        "from": str | None,
        "into": str | None,
        # when the later claim was made
        "at": datetime | None,
        "state": MergeState,
        "decision": NotRequired[str],
        "answer": NotRequired[str | None],
        "by": NotRequired[str],
        "likely": NotRequired[str],
    },
)
"""A decision on two claims as its ledgers list it."""


class Redaction(TypedDict):
    """A masked word of a message."""

    message_id: str
    at: datetime | None
    kind: str
    where: str
    """The text around it."""
    path: str | None


class SpaceSize(TypedDict):
    """A space of a store, and what it takes on disk."""

    space: str
    bytes: int
    release: str | None
    encrypted: str | None


class Listing(NamedTuple):
    """The rows of a ledger, and the columns that a table shows of them: a key of the rows for each heading."""

    rows: Sequence[Mapping[str, Any]]
    columns: dict[str, str]
    notes: Sequence[str] = ()

    @property
    def table(self) -> list[dict[str, Any]]:
        """The rows with the table's columns alone, by heading. Ids are cut to SHORT_ID characters, except `run_id`."""
        short = [
            key
            for key in self.columns.values()
            if key.endswith("id") and key != "run_id"
        ]
        return [
            {
                heading: str(row[key])[:SHORT_ID] if key in short else row[key]
                for heading, key in self.columns.items()
            }
            for row in self.rows
        ]


def _open_store(settings: Settings) -> Store:
    return Store.open(settings.store, settings.space)


def _list_releases(settings: Settings, everything: bool) -> Listing:
    """Return the releases, newest first; the first one is live."""
    store = _open_store(settings)
    releases = read_releases(store)[::-1]
    names = {release.release_id: release.name for release in releases}
    rows = []
    for number, release in enumerate(releases):
        is_kept = number == 0 or not is_dropped(store.dir, release)
        state = ["live"] * (number == 0) + ["no longer kept"] * (not is_kept)
        state += (
            [f"back to {names.get(release.restores, release.restores)}"]
            if release.restores
            else []
        )
        counts = {
            name: release.counts.get(name, 0) for name in COUNTED if name != "topics"
        }
        rows.append(
            {
                **vars(release),
                "name": release.name,
                "kept": is_kept,
                "state": ", ".join(state),
                **counts,
            }
        )
    counted = {name: name for name in COUNTED if name != "topics"}
    return Listing(
        rows, {"release": "name", "made": "created_at", **counted, "": "state"}
    )


def list_runs(settings: Settings, everything: bool) -> Listing:
    """Return the runs that changed something, paid a model, failed or died, newest first.

    The notes explain the newest MOST_EXPLAINED runs that did not end well.
    """
    runs: list[RunRow] = _open_store(settings).read(RUNS).to_pylist()
    runs.sort(key=lambda run: run["started_at"], reverse=True)
    rows = [_add_outcome(run) for run in runs]
    columns = {
        "run": "run_id",
        "kind": "kind",
        "started": "started_at",
        "seconds": "seconds",
        "tokens": "tokens",
    }
    bad = [row for row in rows if row["why"]][:MOST_EXPLAINED]
    notes = [
        f"{row['run_id']} {row['status']}: {escape_line(row['why'])}" for row in bad
    ]
    return Listing(rows, columns | {"status": "status"}, notes)


def _add_outcome(run: RunRow) -> ListedRun:
    from slowwave.tasks.job import parse_steps, sum_usage

    report = orjson.loads(run["report"])
    usage = sum_usage(parse_steps(run["report"]))
    tokens = sum(used.tokens for used in usage.values())
    ended = run["ended_at"]
    return {
        **run,
        "seconds": (ended - run["started_at"]).total_seconds() if ended else None,
        "tokens": tokens or None,
        "why": _explain_end(run["status"], report),
    }


MOST_SHOWN = 200
"""Characters of a claim or message in `list_failed_checks`."""
MOST_EXPLAINED = 5
"""Runs for which a table explains why they did not end well; `--json` explains all."""


def _explain_end(status: str, report: dict[str, Any]) -> str:
    """Return why a run did not end well; empty if it did."""
    if status == RunStatus.FAILED:
        return "; ".join(report.get("notes", [])[-1:])
    names = {
        str(RunStatus.INCOMPLETE): ("failed", "unread"),
        str(RunStatus.HELD): ("held",),
    }.get(status, ())
    return "; ".join(
        line
        for step in report.get("steps", ())
        for name in names
        for line in step.get(name, ())
    )


def list_quarantine(settings: Settings, everything: bool) -> Listing:
    """Return the input that could not be used: step, place, line and reason. `everything` includes resolved input."""
    rows = [
        row
        for row in _open_store(settings).read(QUARANTINE).to_pylist()
        if everything or not row["resolved"]
    ]
    rows.sort(key=lambda row: (row["path"] or "", row["line"] or 0))
    for row in rows:
        unit, slash, part = (row["row_id"] or "").partition("/")
        # of a whole file its folder too: the trouble may be in that one's name
        shown = Path(*Path(row["path"] or "").parts[-1 if row["line"] else -2 :])
        row["where"] = str(shown) if row["path"] else f"{unit[:SHORT_ID]}{slash}{part}"
    return Listing(rows, {name: name for name in ("step", "where", "line", "reason")})


def _list_junk(settings: Settings, everything: bool) -> Listing:
    """Return the text that recurs over many sessions, and in how many of them it is masked."""
    rows = _open_store(settings).read(BOILERPLATE).to_pylist()
    rows.sort(key=lambda row: (-row["sessions"], row["span_id"]))
    rows = [row | {"masked": row["sessions"] - len(row["kept"])} for row in rows]
    return Listing(
        rows,
        {"span": "span_id", "sessions": "sessions", "masked": "masked", "text": "text"},
    )


def count_compared(settings: Settings) -> int:
    """Return the number of names in the live release's claims and passages that were looked up in a checkout."""
    view = View.open(settings.store, settings.space)
    if CHECKS.name not in view.release.versions:  # a release of before
        return 0
    return view.count(CHECKS)


def list_failed_checks(settings: Settings) -> list[dict[str, Any]]:
    """Return a row for each failed check of the live release: something that an active claim or passage names and that
    its checkout lacks. The rows are sorted by the id of the claim or message.
    """
    view = View.open(settings.store, settings.space)
    checks = view.code_checks
    texts = view.read_by_id(CLAIMS, list(checks), ["summary"])
    said = view.read_by_id(MESSAGES, list(checks), ["text"])
    summaries = {key: str(row["summary"]) for key, row in texts.items()}
    messages = {key: str(row["text"]) for key, row in said.items()}
    rows = []
    for key, failed in sorted(checks.items()):
        text = " ".join(summaries.get(key, messages.get(key, "")).split())
        rows += [
            {"claim": key, "text": text[:MOST_SHOWN], **check.as_dict()}
            for check in failed
        ]
    return rows


def _list_merges(settings: Settings, everything: bool) -> Listing:
    """Return the decisions that merged or retired a claim, with the rule. `everything` includes those not in force."""
    rows = [
        row
        for row in _collect_merges(_open_store(settings))
        if everything or row["state"] == MergeState.IN_FORCE
    ]
    for row in rows:
        row["decision"] = (
            "less likely changed" if row["rule"] == LEADS else DECISIONS[row["kind"]]
        )
    columns = {
        "merge": "merge_id",
        "decision": "decision",
        "rule": "rule",
        "state": "state",
    }
    return Listing(rows, columns | {"this claim": "from", "the other": "into"})


def _list_changes(settings: Settings, everything: bool) -> Listing:
    """Return the claims that a later claim changed, then those that one may have changed, the surest first.

    Each row says who decided: the classifier, a language model or a person. The notes say how many to expect wrong.
    `everything` includes the claims that a later one affirms, or holds beside for a narrower case. It also includes the
    messages that recall orders by itself, or marks though no claim was made of one of them.
    """
    from slowwave.tasks.changes.verdicts import PairAnswer

    ledger = _collect_in_force(settings)
    judged = [
        row
        for row in ledger
        if row["kind"] == LedgerKind.JUDGEMENT and row["rule"] != PairAnswer.UNANSWERED
    ]
    answers = {_get_pair(row): str(row["rule"]) for row in judged}
    rows = list[ListedMerge]()
    notes = list[str]()
    for kind, what in (
        (LedgerKind.SUPERSESSION, "changed"),
        (LedgerKind.DOUBT, "perhaps changed"),
    ):
        of_kind = [row for row in ledger if row["kind"] == kind]
        for row in of_kind:
            row["answer"] = answers.get(_get_pair(row))
            row["by"] = _name_judge(row)
            row["likely"] = f"{_get_likely(row):.0%}"
            row["decision"] = what
        notes += _count_by_judge(of_kind, what)
        rows += sorted(of_kind, key=lambda row: (-_get_likely(row), row["merge_id"]))
    agreeing = _select_agreements(ledger)
    notes += _count_agreements(
        agreeing,
        everything,
    )
    notes += [f"{len(judged)} pairs judged by a model."] if judged else []
    if not everything:
        return Listing(rows, CHANGE_COLUMNS, notes)
    pairs = _list_passage_pairs(settings)
    return Listing([*rows, *agreeing, *pairs], CHANGE_COLUMNS, notes)


def _list_passage_pairs(settings: Settings) -> Sequence[Mapping[str, Any]]:
    from slowwave.flows.passage_pairs import list_passage_pairs

    pairs = list_passage_pairs(View.open(settings.store, settings.space))
    return [{**pair, "decision": pair["rule"]} for pair in pairs]


def _collect_in_force(settings: Settings) -> list[ListedMerge]:
    """Return the decisions that hold, but for the least likely."""
    return [
        row
        for row in _collect_merges(_open_store(settings))
        if row["state"] == MergeState.IN_FORCE and row["rule"] != LEADS
    ]


def _select_agreements(ledger: list[ListedMerge]) -> list[ListedMerge]:
    """Return the rows on claims that both hold, as the list of changes shows them."""
    rows = [row for row in ledger if row["kind"] == LedgerKind.AGREEMENT]
    for row in rows:
        row["answer"] = None
        row["by"] = "classifier"
        row["decision"] = row["rule"]
        row["likely"] = f"{_get_likely(row):.0%}"
    return rows


def _count_agreements(
    rows: list[ListedMerge],
    everything: bool,
) -> list[str]:
    """Return a line on the claims that another one agrees with; if they are not listed, the command that lists them."""
    rules = Counter(row["rule"] for row in rows)
    counts = " and ".join(f"{count} {rule}" for rule, count in sorted(rules.items()))
    listing = "" if everything else ": `--all` lists them"
    return (
        [f"{counts} by a later claim, which changes nothing{listing}."] if rows else []
    )


def _get_pair(row: ListedMerge) -> frozenset[str]:
    return frozenset((row["from_id"], row["into_id"]))


def _get_likely(row: ListedMerge) -> float:
    """Return the probability of a change; 1 if none is noted."""
    return row["scores"].get("likely", 1.0)


def _name_judge(row: ListedMerge) -> str:
    """Return the judge of a row of the ledger; `answer` is what a model said of its pair, or None."""
    if row["rule"] == CORRECTED:
        return "person"
    return f"model: {row['answer']}" if row["answer"] else "classifier"


def _count_by_judge(rows: list[ListedMerge], what: str) -> list[str]:
    """Return a line for each judge that decided some of the rows. The classifier's says how many to expect wrong."""
    likely = [_get_likely(row) for row in rows if row["by"] == "classifier"]
    by_person = sum(row["by"] == "person" for row in rows)
    by_model = len(rows) - len(likely) - by_person
    lines = []
    if likely:
        wrong = sum(1 - p for p in likely)
        share = f"about {wrong:.1f}" if wrong >= LEAST_WRONG else "hardly any"
        lines.append(f"{len(likely)} {what} ({share} expected to be wrong).")
    if by_person:
        lines.append(f"{by_person} {what} by a person's correction.")
    if by_model:
        lines.append(f"{by_model} {what} by a model's word.")
    return lines


def _collect_merges(store: Store) -> list[ListedMerge]:
    """Return rows of the ledger with what both claims say, and their `state`.

    A row that nobody took back has `lapsed` if its source no longer points to its target: the target was withdrawn,
    the source was said again, or it points to another claim now. A doubt is in force while both claims hold, a
    judgement while both exist.
    """
    rows: list[MergeRow] = store.read(MERGES).to_pylist()
    ids = [row[name] for row in rows for name in ("from_id", "into_id")]
    columns = ["claim_id", "summary", "canonical_id", "superseded_by", "status"]
    columns += ["observed_at"]
    claims: dict[str, ClaimRow] = {
        claim["claim_id"]: claim
        for claim in store.read_ids(CLAIMS, ids, columns).to_pylist()
    }
    listed = list[ListedMerge]()
    for row in rows:
        source = claims.get(row["from_id"], {})
        target = claims.get(row["into_id"], {})
        state = (
            MergeState.IN_FORCE
            if _is_in_force(row, source, target)
            else MergeState.LAPSED
        )
        listed.append(
            {
                "merge_id": row["merge_id"],
                "kind": LedgerKind(row["kind"]),
                "from_id": row["from_id"],
                "into_id": row["into_id"],
                "rule": row["rule"],
                "scores": dict(row["scores"] or []),
                "reason": row["reason"],
                "undone": row["undone"],
                "step_key": row["step_key"],
                "from": source.get("summary"),
                "into": target.get("summary"),
                "at": target.get("observed_at"),
                "state": MergeState.UNDONE if row["undone"] else state,
            }
        )
    return sorted(listed, key=lambda row: (row["kind"], row["rule"], row["merge_id"]))


def _is_in_force(row: MergeRow, source: ClaimRow, target: ClaimRow) -> bool:
    """Return True if a decision still holds, given its claims as they are now; empty ones are not there any more."""
    if row["kind"] in (LedgerKind.DOUBT, LedgerKind.AGREEMENT):
        return source.get("status") == target.get("status") == Status.ACTIVE
    if row["kind"] == LedgerKind.JUDGEMENT:
        return bool(source and target)
    return row["into_id"] in (source.get("canonical_id"), source.get("superseded_by"))


def _list_notes(settings: Settings, everything: bool) -> Listing:
    """Return the notes, the oldest first: when, by whom, and whether a person confirmed or rejected them.

    `everything` includes rejected notes.
    """
    notes = [
        note
        for note in read_notes(settings.store / settings.space)
        if everything or note.verdict != "rejected"
    ]
    rows = [
        vars(note)
        | {"note": note.id.removeprefix(PREFIX), "noted": _read_moment(note.at)}
        for note in notes
    ]
    how = "`slowwave include ID` confirms an agent's note, `slowwave exclude ID --why …` rejects it."
    columns = {name: name for name in ("note", "noted", "speaker", "by", "verdict")}
    return Listing(
        rows, columns | {"of": "workspace", "text": "text"}, [how] if notes else ()
    )


def _read_moment(at: str) -> datetime | str:
    """Return a time in ISO format as a moment; or the text itself if it is not one."""
    with suppress(ValueError):
        return datetime.fromisoformat(at)
    return at


def _list_excluded(settings: Settings, everything: bool) -> Listing:
    """Return the sessions, messages and claims that are excluded, and why."""
    store = _open_store(settings)
    rows = store.read(EXCLUSIONS, ["row_id", "kind", "why", "at"]).sort_by(
        [("at", "ascending"), ("row_id", "ascending")]
    )
    ids = rows["row_id"].to_pylist()
    sessions = store.read_ids(
        SESSIONS, ids, ["session_id", "native_id", "path"]
    ).to_pylist()
    claims = store.read_ids(CLAIMS, ids, ["claim_id", "summary"]).to_pylist()
    about = {
        row["session_id"]: {"name": row["native_id"], "text": row["path"]}
        for row in sessions
    }
    about |= {row["claim_id"]: {"text": row["summary"]} for row in claims}
    messages = store.read_ids(MESSAGES, ids, ["message_id", "text"]).to_pylist()
    about |= {row["message_id"]: {"text": row["text"]} for row in messages}
    named = [
        row
        | {"name": row["row_id"][:SHORT_ID], "text": "forgotten since"}
        | about.get(row["row_id"], {})
        for row in rows.to_pylist()
    ]
    return Listing(
        named,
        {"kind": "kind", "id": "name", "since": "at", "why": "why", "what": "text"},
    )


def _list_redactions(settings: Settings, everything: bool) -> Listing:
    """Return the masked words of messages with the text around them, the latest message first.

    Return MOST_MASKED of them at most, unless `everything`.
    """
    store = _open_store(settings)
    columns = ["message_id", "session_id", "ts", "text", "blocks"]
    paths = dict(
        zip(
            *store.read(SESSIONS, ["session_id", "path"]).to_pydict().values(),
            strict=True,
        )
    )
    rows = list[Redaction]()
    for message in store.read(MESSAGES, columns).to_pylist():
        path = paths.get(message["session_id"])
        rows += [
            {
                "message_id": message["message_id"],
                "at": message["ts"],
                "kind": kind,
                "where": where,
                "path": path,
            }
            for where, kind in _find_masked(message).items()
        ]
    rows.sort(key=lambda row: (str(row["at"]), row["message_id"]), reverse=True)
    shown = rows if everything else rows[:MOST_MASKED]
    notes = [
        "slowwave does not keep the masked words. If one is not a secret, look it up in its transcript and add it to "
        "the setting `redact_except`. The next night then reads the transcripts that still exist again.",
    ]
    if len(shown) < len(rows):
        notes.append(f"{len(rows) - len(shown):,} more: --all lists them.")
    return Listing(
        shown,
        {
            "message": "message_id",
            "said": "at",
            "kind": "kind",
            "where": "where",
            "in": "path",
        },
        notes if rows else (),
    )


def _find_masked(message: MessageRow) -> dict[str, str]:
    """Return the text around each masked word of a message, with the kind of secret as its value."""
    texts = [message["text"], *(block["text"] or "" for block in message["blocks"])]
    return {
        " ".join(text[max(0, match.start() - AROUND) : match.end() + AROUND].split()): (
            match[1]
        )
        for text in texts
        for match in MASKED.finditer(text)
    }


def _list_usage(settings: Settings, everything: bool) -> Listing:
    """Return the claims that were used or rated, the most used first; all claims if `everything`."""
    usage = count_usage(
        Snapshot(settings.store, settings.space), settings.store / settings.space
    )
    verdicts = {rating.id: rating.verdict for rating in usage.ratings}
    rows = [vars(claim) | {"rating": verdicts.get(claim.id)} for claim in usage.claims]
    span = (
        f", {format_day(usage.first)} to {format_day(usage.last)}"
        if usage.first and usage.last
        else ""
    )
    good = [*verdicts.values()].count("good")
    never = len(usage.never)
    notes = (
        f"Answers with memories: {usage.recalls:,}{span}.",
        f"They contained {len(rows) - never:,} of {len(rows):,} claims; never returned: {never:,}. "
        f"{good:,} memories are rated good, {len(verdicts) - good:,} bad.",
    )
    used = [row for row in rows if row["times"] or row["rating"] or everything]
    return Listing(
        used,
        {"times": "times", "claim": "id", "rated": "rating", "what it says": "text"},
        notes,
    )


def measure_spaces(settings: Settings, everything: bool) -> Listing:
    """Return the store's spaces: size on disk, live release, and whether their disk is known to be encrypted."""
    rows = list[SpaceSize]()
    for name in sorted(list_spaces(settings.store)):
        folder = settings.store / name
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        live = next((release.name for release in load_releases(folder)[::-1]), None)
        rows.append(
            {
                "space": name,
                "bytes": size,
                "release": live,
                "encrypted": find_encryption(folder),
            }
        )
    return Listing(
        rows,
        {
            "space": "space",
            "bytes": "bytes",
            "live": "release",
            "encrypted by": "encrypted",
        },
    )


LEDGERS: dict[str, Callable[[Settings, bool], Listing]] = {
    "releases": _list_releases,
    "runs": list_runs,
    "quarantine": list_quarantine,
    "junk": _list_junk,
    "merges": _list_merges,
    "changes": _list_changes,
    "notes": _list_notes,
    "excluded": _list_excluded,
    "redactions": _list_redactions,
    "usage": _list_usage,
    "spaces": measure_spaces,
}
