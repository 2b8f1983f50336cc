"""A run's report: a table for the terminal, Markdown for Prefect, JSON for the ledger."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any, NamedTuple, Self

import orjson
import pyarrow.compute as pc

from slowwave.context.projects.standing import (
    STANDING,
    collect_standing_claims,
    group_by_category,
    take_in_turn,
)
from slowwave.flows.parts.languages import describe_languages, measure_languages
from slowwave.recall.release.view import View
from slowwave.recall.views.compare import COLUMNS, KINDS, Difference, compare_claims
from slowwave.schemas.counters import USAGE_WORDS, WORDS, Count, CountByKind
from slowwave.schemas.errors import SlowwaveError
from slowwave.schemas.tables import CLAIMS, PERSONAL
from slowwave.schemas.vocabulary import COUNTED, RunStatus
from slowwave.store.publishing import read_releases
from slowwave.store.releases import Release, Snapshot, is_dropped
from slowwave.store.store import Store
from slowwave.tasks.job import StepReport, sum_usage
from slowwave.tasks.publish.gates import BOUNDS
from slowwave.tasks.quarantine import collect_quarantined
from slowwave.text.cells import LISTED_CHARS, shorten_text
from slowwave.text.fence import escape_line
from slowwave.text.words import count_noun

INDENT = " " * len("Learnt: ")
IS_NOW = "is now"
PERHAPS_NOW = "is perhaps now"
"""What stands between the words of a claim and those of the later one that changed it, or perhaps did."""
LOST = frozenset(KINDS) - {"added", "returned"}
"""The kinds of difference that an earlier claim can have."""


class NightIncomplete(SlowwaveError):
    """A step, or a session in it, failed and the rest was released; or the result is held back."""

    def __init__(self, report: "RunReport") -> None:
        self.report = report
        # Failures may quote transcripts, and Prefect's server keeps error messages. So they are only in the run's row.
        super().__init__(
            f"{report.format_verdict()} `slowwave inspect runs` has run {report.run_id}"
        )

    def __reduce__(self) -> tuple[type[Self], tuple["RunReport"]]:
        return type(self), (self.report,)  # a process, or Prefect, passes it on


@dataclass
class RunReport:
    """A run's steps and what it released."""

    run_id: str
    kind: str
    steps: list[StepReport] = field(default_factory=list)
    release: Release | None = None
    notes: list[str] = field(default_factory=list)
    closing: list[str] = field(default_factory=list)
    """Lines about the night's news, for a terminal alone: they quote transcripts."""
    next_command: str = ""
    searched: list[str] = field(default_factory=list)
    """Where transcripts were looked for, a line each, if there was none anywhere."""
    read_folders: list[str] = field(default_factory=list)
    """The tools' folders that were read, if no path was named."""
    is_released: bool = True
    """Whether there is a release, from this run or an earlier one."""

    @property
    def failures(self) -> list[str]:
        """The parts that failed while the rest went on, a line each."""
        return [
            line
            for step in self.steps
            for line in (*step.failed, *(f"not read: {file}" for file in step.unread))
        ]

    @property
    def held(self) -> list[str]:
        """The reasons why the result is not live, a line each."""
        return [line for step in self.steps for line in step.held]

    @property
    def leaves_row(self) -> bool:
        """True if the run has a row in the table of runs: a run that changed nothing has none."""
        return bool(
            self.release or self.failures or self.held or self.count_paid_requests()
        )

    def check_complete(self) -> Self:
        """Return the report.

        Raises:
            NightIncomplete: something failed, or the result is held back.
        """
        if self.failures or self.held:
            raise NightIncomplete(self)
        return self

    @property
    def status(self) -> RunStatus:
        """How the run ended, as its row says."""
        if self.held:
            return RunStatus.HELD
        if self.failures:
            return RunStatus.INCOMPLETE
        return RunStatus.DONE

    @property
    def news(self) -> str:
        """The counts of new input in a few words, without quotes."""
        read = next(
            (step for step in self.steps if step.step == "read" and step.rows_out), None
        )
        if read is None:
            return "nothing"
        return f"{count_noun(read.rows_out, 'message')} in {count_noun(read.counts[Count.SESSIONS], 'session')}"

    @property
    def seconds(self) -> float:
        """Wall time of all steps."""
        return sum(step.seconds for step in self.steps)

    def format_verdict(self) -> str:
        """Return one sentence about the release that is live now."""
        unread = "; ".join(line for step in self.steps for line in step.unread)
        failed = any(step.failed for step in self.steps)
        waits = _sum_kinds(self, CountByKind.WAITING).total()
        where = (
            "`slowwave status` shows what waits and why"
            if waits
            else "`slowwave inspect runs` shows why"
        )
        but = f" Not everything was done: {where}." if failed else ""
        but += f" Nothing was read from {escape_line(unread)}." if unread else ""
        if self.held:
            return (
                f"Held back; the live release does not change. `slowwave diff --candidate` shows what would change, "
                f"`slowwave promote --why …` makes it live, `slowwave exclude candidate --why …` drops it; the "
                f"next night drops it too.{but}"
            )
        if self.searched:
            return "Nothing was read."
        if self.release is None and not self.is_released:
            return f"Nothing was read, and there is no release yet.{but}"
        if self.release is None:
            return f"Nothing changed: the live release stays.{but}"
        counts = self.release.counts
        figures = ", ".join(f"{counts.get(name, 0):,} {name}" for name in COUNTED)
        return f"Released {self.release.name}: {figures}.{but}"

    def collect_notes(self) -> list[str]:
        """Return the failures, and the notes of the run and its steps, each once."""
        failed = (line for step in self.steps for line in step.failed)
        of_steps = (note for step in self.steps for note in step.notes)
        return [*dict.fromkeys([*failed, *self.held, *self.notes, *of_steps])]

    def render_json(self) -> str:
        """Return the report for its row in `runs`."""
        release = self.release.name if self.release else None
        facts = {
            "steps": [s.as_dict() for s in self.steps],
            "notes": self.notes,
            "release": release,
        }
        return orjson.dumps(facts).decode()

    def list_steps(self) -> list[dict[str, Any]]:
        """Return a row for each step: what it read and wrote, its seconds, and its counts in a line."""
        rows = []
        for step in self.steps:
            counts = [
                f"{name} {n:,}" for name, n in step.describe_counts().items() if n
            ]
            numbers = {
                "in": step.rows_in,
                "out": step.rows_out,
                "seconds": round(step.seconds, 1),
            }
            rows.append({"step": step.step, **numbers, "of which": " · ".join(counts)})
        return rows

    def list_usage(self) -> dict[str, list[dict[str, Any]]]:
        """Return, by model, a row for each step that asked it and a row for all steps."""
        usage: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for name, steps in (
            *((step.step, [step]) for step in self.steps),
            ("in all", self.steps),
        ):
            for model, used in sum_usage(steps).items():
                errors = [f"{error} {n:,}" for error, n in sorted(used.errors.items())]
                numbers = {
                    words: getattr(used, field) for field, words in USAGE_WORDS.items()
                }
                row = {"step": name, **numbers, "seconds": used.milliseconds / 1000}
                usage[model].append(row | {"errors": ", ".join(errors)})
        return usage

    def count_paid_requests(self) -> int:
        """Return the number of requests that a model answered, without those that the completions cache answered."""
        return sum(used.paid_requests for used in sum_usage(self.steps).values())

    def add_closing(
        self,
        store: Store,
        width: int,
        options: str,
        program: str = "slowwave",
    ) -> None:
        """Add a summary of the night's news to the report, and the next command if all was done.

        Args:
            store: as the night left it.
            width: of the terminal, in characters; a changed claim is cut to it.
            options: of the next command, each after a space.
            program: what starts this program in the person's shell.

        Raises:
            StoreUnreadable: a table is damaged or missing.
        """
        if self.searched:
            self.closing = [
                "No transcript was found. Looked for:",
                *(f"  {line}" for line in self.searched),
            ]
            self.next_command = f" Next: `slowwave run PATH{options}`, with a file or folder of transcripts."
            return
        later = self.release is not None and self.release.number > 1
        self.closing = [f"New: {self.news}."]
        if self.read_folders:
            self.closing.append(f"Read: {', '.join(self.read_folders)}.")
        views, before = open_views(self.release, store)
        if views:
            new, old = views
            self.closing += _describe_claims(
                new=new, old=old, width=width, program=program
            )
        if left := collect_left_out(self, store, before):
            self.closing.append(f"Left out: {'; '.join(left)}.")
        if self.release and (
            other := describe_languages(measure_languages(store), self.release.encoder)
        ):
            self.closing.append(f"Language: {other}.")
        if self.status == RunStatus.DONE:
            self.next_command = (
                f" Next: `slowwave {'diff' if later else 'briefing'}{options}`."
            )

    def render_markdown(self) -> str:
        """Return the verdict and the models' usage for Prefect. Notes are omitted: they may quote, and forgetting
        does not reach that server.
        """
        lines = [f"# {self.kind} `{self.run_id}`", self.format_verdict()]
        for model, rows in self.list_usage().items():
            numbers = ((words, rows[-1][words]) for words in USAGE_WORDS.values())
            used = ", ".join(f"{words} {n:,}" for words, n in numbers if n)
            lines.append(f"{model}: {used}.")
        notes = len(self.collect_notes())
        if notes and self.leaves_row:
            lines.append(
                f"{notes} notes: `slowwave inspect runs --json` has them, and a forgetting takes them out."
            )
        return "\n\n".join(lines)


def open_views(
    made: Release | None,
    store: Store,
    live: View | None = None,
) -> tuple[tuple[View, View | None] | None, Release | None]:
    """Return views of a run's release and of the release before it, and then that earlier release.

    The views are None if the run released nothing or one of the two releases is dropped. The second view is None if
    there is no earlier release. The earlier release is None if there is none or it is dropped.

    Args:
        made: the run's release.
        store: of the releases.
        live: a view to reuse if it shows the run's release: its data is loaded already.
    """
    earlier = [
        release
        for release in read_releases(store)
        if made is None or release.number < made.number
    ][-1:]
    before = next(
        (release for release in earlier if not is_dropped(store.dir, release)), None
    )
    if made is None or bool(before) != bool(earlier) or is_dropped(store.dir, made):
        return None, before
    new = (
        live
        if live and live.release.release_id == made.release_id
        else View(store.dir, made)
    )
    return (new, View(store.dir, before) if before else None), before


MOST_RANKED = 2_000
"""Standing claims are looked for among this many of the surest."""


class NewlyChanged(NamedTuple):
    """An earlier claim that a later one changed, certainly or perhaps."""

    claim_id: str
    how: str
    """IS_NOW or PERHAPS_NOW."""
    later: str
    """The text of the later claim."""
    later_id: str


@dataclass(frozen=True)
class News:
    """The differences between a release and the one before it."""

    learnt: list[Difference]
    """Claims that were added, those that stand first, then the surest."""
    lost: Counter[str]
    """The number of earlier claims for each kind of difference."""
    changed: list[NewlyChanged]
    changed_among_new: list[str]
    """Ids of new claims that another new claim surely changed."""
    perhaps_among_new: list[str]
    """Ids of new claims that another new claim perhaps changed."""

    def describe_among_new(self) -> str:
        """Return the number of new claims that another new one changed, or perhaps did; empty if there are none."""
        sure = len(self.changed_among_new)
        perhaps = len(self.perhaps_among_new)
        if not perhaps:
            changed = f"{count_noun(sure, 'new claim')} {'is' if sure == 1 else 'are'}"
            return f"{changed} changed by another new one" if sure else ""
        surely = (
            f", {sure:,} more surely {'is' if sure == 1 else 'are'}" if sure else ""
        )
        return f"{count_noun(perhaps, 'new claim')} may be changed by another new one{surely}"


def collect_news(new: View, old: View | None) -> News:
    """Return a release's news: new claims, and changes of earlier ones, the likeliest first."""
    earlier = old.read(CLAIMS, COLUMNS) if old else CLAIMS.make_empty_table()
    claims = new.read(CLAIMS, COLUMNS)
    differences = compare_claims(earlier, claims, {})
    added = {
        difference.claim_id: difference
        for difference in differences
        if difference.kind == "added"
    }
    # What became of earlier claims: certain changes, then possible ones.
    before = set(earlier["claim_id"].to_pylist())
    before_too = old.chains.perhaps_changed if old else {}
    came = {
        key: row
        for key, row in new.chains.perhaps_changed.items()
        if key not in before_too
    }
    perhaps = [row for key, row in came.items() if key in before]
    superseded = claims.filter(pc.field("superseded_by").is_valid())["claim_id"]
    changed = [
        NewlyChanged(
            claim_id=row.claim_id, how=IS_NOW, later=row.by_summary, later_id=row.by
        )
        for row in differences
        if row.by_summary and row.by
    ]
    changed += [
        NewlyChanged(
            claim_id=str(row["claim_id"]),
            how=PERHAPS_NOW,
            later=str(later["summary"]),
            later_id=str(later["claim_id"]),
        )
        for row in perhaps
        if (later := new.chains.find_successor(row))
    ]
    return News(
        learnt=[added[key] for key in _rank_added(new, list(added))],
        lost=Counter(row.kind for row in differences if row.kind in LOST),
        changed=changed,
        changed_among_new=[key for key in superseded.to_pylist() if key not in before],
        perhaps_among_new=[key for key in came if key not in before],
    )


def _rank_added(view: View, added: list[str]) -> list[str]:
    """Return the ids, standing claims first with their categories in turn, then the others by certainty."""
    sure = view.look_up_confidences(added)
    surest = sorted(sure, key=lambda key: (-sure[key], key))
    among = surest[:MOST_RANKED]
    if not among:
        return []
    categories = (*STANDING, *PERSONAL)
    standing = collect_standing_claims(view, (), categories, among=among)
    foremost = [claim.id for claim in take_in_turn(group_by_category(standing))]
    return [*dict.fromkeys([*foremost, *surest])]


def _describe_claims(
    new: View,
    old: View | None,
    width: int,
    program: str,
) -> Iterator[str]:
    """Yield lines with a few of the added claims, standing claims first, and what happened to earlier claims."""
    news = collect_news(new, old)
    for n, claim in enumerate(news.learnt[: BOUNDS.examples]):
        yield fill(
            shorten_text(claim.marked_summary, LISTED_CHARS),
            width,
            initial_indent=f"{INDENT if n else 'Learnt: '}- ",
            subsequent_indent=f"{INDENT}  ",
        )
    changes = [f"{kind} {n:,}" for kind, n in news.lost.items()]
    if perhaps := sum(change.how == PERHAPS_NOW for change in news.changed):
        changes.append(f"perhaps changed {perhaps:,} (`{program} inspect changes`)")
    changes += [_quote_change(new, change, width) for change in news.changed[:1]]
    yield f"Changed: {'; '.join(changes) or 'nothing that the memory knew before'}."
    if among := news.describe_among_new():
        yield f"{INDENT}{among} (`{program} inspect changes`)."


def _quote_change(
    new: View,
    change: NewlyChanged,
    width: int,
) -> str:
    """Return a changed claim and the later one in quotes, each in one line of the width."""
    row = new.read_by_id(CLAIMS, [change.claim_id], ["summary"])[change.claim_id]
    earlier, later = (
        shorten_text(" ".join(text.split()), width)
        for text in (str(row["summary"]), change.later)
    )
    return f"“{earlier}” {change.how} “{later}”"


def collect_left_out(
    report: RunReport,
    store: Store,
    before: Release | None,
) -> list[str]:
    """Return the kinds of records that a night dropped or masked, each a sentence with its count and reasons."""
    counts = _sum_counts(report)
    parts = [
        _describe_quarantine(report=report, store=store, before=before, counts=counts),
        _describe_masked(report),
        _describe_waiting(report),
    ]
    if skipped := counts[Count.RECORDS_SKIPPED]:
        parts.append(f"{WORDS[Count.RECORDS_SKIPPED]} {skipped:,}")
    return [part for part in parts if part]


def collect_troubles(
    report: RunReport,
    store: Store,
    before: Release | None,
    status: str,
) -> list[str]:
    """Return the troubles of a run that a person can act on: failed, waiting, held back or in quarantine."""
    parts = [
        _describe_quarantine(
            report=report, store=store, before=before, counts=_sum_counts(report)
        ),
        _describe_waiting(report),
        *(line for step in report.steps for line in step.failed),
        *report.held,
    ]
    parts += report.notes if status == RunStatus.FAILED else []
    return [*dict.fromkeys(part for part in parts if part)]


def _sum_counts(report: RunReport) -> Counter[Count]:
    """Return the sum of all steps' counts."""
    return sum((step.counts for step in report.steps), Counter[Count]())


def _sum_kinds(report: RunReport, count: CountByKind) -> Counter[str]:
    """Return the sum of all steps' counts, by kind."""
    return sum((step.kinds[count] for step in report.steps), Counter[str]())


def _describe_quarantine(
    report: RunReport,
    store: Store,
    before: Release | None,
    counts: Counter[Count],
) -> str:
    """Return the number of files and rows in quarantine, with the commonest reasons."""
    old = Snapshot(store.root, store.space, before.release_id) if before else None
    looked = counts[Count.LINES_QUARANTINED] or counts[Count.FILES_UNREADABLE]
    unread, rejected = (
        collect_quarantined(store, old) if looked or report.release else ([], [])
    )
    found = Counter([*unread, *rejected])
    if not found:
        return ""
    reasons = "; ".join(reason for reason, _ in found.most_common(BOUNDS.examples))
    return f"in quarantine {found.total():,} ({reasons})"


def _describe_masked(report: RunReport) -> str:
    """Return the number of secrets that were masked, with their kinds."""
    masked = _sum_kinds(report, CountByKind.REDACTED)
    if not masked:
        return ""
    return f"secrets masked {masked.total():,} ({', '.join(sorted(masked))})"


def _describe_waiting(report: RunReport) -> str:
    """Return the work left for another night, with the errors of the steps that left it."""
    waiting = _sum_kinds(report, CountByKind.WAITING)
    if not waiting:
        return ""
    why = dict.fromkeys(
        line
        for step in report.steps
        if step.kinds[CountByKind.WAITING]
        for line in step.failed
    )
    reasons = f" ({'; '.join(why)})" if why else ""
    figures = ", ".join(f"{kind} {n:,}" for kind, n in sorted(waiting.items()))
    return f"left for another night {figures}{reasons}"
