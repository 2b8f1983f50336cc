"""What changed and what did not: is anything retired that holds, and is what holds told before what does not?

    python -m bench.recall.changes FILE… [--misses] [--encoder NAME] [--llm SPEC] [--json]

FILEs are conversations, a store and a whole extractive night each. What is asked of one stands in it as cases: on the
line of the message that amends, `query`, `amended` (words of the claim that holds) and `stale` (words of the one that
does not), each a string or a list of which any will do; or beside it (`X.queries.json` for `X.jsonl`: a list of
`{workspace, query, current, stale}` with ids of messages). A line of `newer_first.jsonl` is a pair of statements, said
in two sessions. Of a file without any only the claims are counted: if no session changes what another said, every
retired claim is wrong. With `--llm` a language model then judges the pairs of claims that the night's classifier found
likely (`slowwave.tasks.changes`), all of them, and nothing else.

Columns: *claims*; *retired*, by a claim of another session; *linked*, of which another session may have changed them;
*asked*; *newer first*, questions of which the first of ten hits that tells either tells what holds; *top*, the very
first hit does; *in the block*, the first line of `context` (500 tokens) that tells either tells what holds; *marked*,
none of the ten hits tells what is stale without a word of it: superseded, or linked to a later claim; *both*, newer
first and marked.
"""

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import orjson
import pyarrow.compute as pc

from bench.harness import ENCODER, Figures, average, run
from bench.recall.talks import QUERIES, read_talks
from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.run import open_run
from slowwave.schemas.settings import Settings, SupersedeSettings
from slowwave.schemas.tables import CLAIMS, MERGES
from slowwave.schemas.vocabulary import LEADS, LedgerKind
from slowwave.tasks.changes.task import supersede_claims
from slowwave.tasks.publish.task import publish_release

TOP = 10
BUDGET = 500
"""Tokens of the block."""
ALL_PAIRS = SupersedeSettings(pairs=1_000_000)
"""No budget: what is measured is the model."""
START = datetime(2026, 1, 5, 9, tzinfo=UTC)
"""When the first pair's earlier statement is made."""
REPLIES = [
    "Good to know.", "Got it, I will keep that in mind.", "Understood.", "Thanks for telling me.", "All right, noted.",
    "Okay, I have it.", "Makes sense.", "That helps.", "Sure, I will go by that.", "Fine, I wrote it down.",
    "Very well.", "I see.", "Noted, anything else?", "Clear.", "Then I will remember it.",
]  # fmt: skip
CLOSINGS = [
    "Thanks.", "That is all for now.", "No, nothing else.", "Good, talk to you later.", "Great.", "Right, see you.",
    "Perfect.", "Okay, bye.", "That was it.", "Cheers.", "Have a good day.", "Then we are done.", "Nice.",
    "Thank you, bye.", "Good.",
]  # fmt: skip
"""Enough that none recurs in five sessions, which would make it boilerplate."""

Told = tuple[str, datetime | None, frozenset[str]]
"""A text, when it was said, and the messages it stands in."""


@dataclass(frozen=True)
class Case:
    """A question whose answer has changed; what holds and what does not, as phrases or as ids of messages."""

    query: str
    amended: tuple[str, ...]
    stale: tuple[str, ...]
    since: datetime | None = None
    """When it was amended, if that is known."""
    workspace: str | None = None
    by_id: bool = False

    def is_current(self, text: str, messages: frozenset[str] = frozenset()) -> bool:
        """Return True if a text states what holds."""
        return self._tells(self.amended, text, messages)

    def is_outdated(
        self, text: str, at: datetime | None, messages: frozenset[str] = frozenset()
    ) -> bool:
        """Return True if a text of that time states the old claim alone: the amendment itself may name the old."""
        if at is not None and self.since is not None and at >= self.since:
            return False
        return not self.is_current(text, messages) and self._tells(
            self.stale, text, messages
        )

    def _tells(
        self, what: tuple[str, ...], text: str, messages: frozenset[str]
    ) -> bool:
        if self.by_id:
            return not messages.isdisjoint(what)
        said = _fold(text)
        return any(
            re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", said) for phrase in what
        )


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def measure(
    files: Sequence[Path],
    *,
    misses: bool = False,
    llm: str = "off",
    encoder: str = ENCODER,
) -> Figures:
    """Return a row a file."""
    rows, missed = [], list[str]()
    for path in files:
        with tempfile.TemporaryDirectory() as folder:
            settings = Settings(
                store=Path(folder) / "store",
                encoder=encoder,
                llm=llm,
                supersede=ALL_PAIRS,
            )
            lines, cases = read_cases(path)
            run_night_over(lines, path.stem, settings.model_copy(update={"llm": "off"}))
            if llm != "off":
                with open_run("judge", settings) as (job, report):
                    report.steps += [supersede_claims(job), publish_release(job)]
            memory = Memory.open(settings.store)
            found = [ask_case(memory, case) for case in cases]
            rows.append(
                {
                    "file": path.stem,
                    **count_changes(memory),
                    "asked": len(cases),
                    **_average(found),
                }
            )
        for case, answer in zip(cases, found, strict=True):
            if misses and not all(
                answer[name] for name in ("newer first", "in the block", "marked")
            ):
                missed.append(f"{path.stem}: {case.query} {answer}")
    return Figures(rows, "what changed and what did not, extractive nights", missed)


def _average(found: Sequence[dict[str, bool]]) -> dict[str, float | None]:
    return (
        average(found)[0]
        if found
        else dict.fromkeys(("newer first", "top", "in the block", "marked", "both"))
    )


def read_cases(path: Path) -> tuple[list[bytes], list[Case]]:
    """Return a file's messages, lines of the generic format, and its cases: those in it, else those beside it."""
    rows = [
        (line, orjson.loads(line))
        for line in path.read_bytes().splitlines()
        if line.strip()
    ]
    if rows and "earlier" in rows[0][1]:
        return list(_say_pairs([row for _, row in rows])), [
            Case(
                *(
                    row["question"],
                    *(_fold_values(row[name]) for name in ("new", "old")),
                ),
                workspace=row["workspace"],
            )
            for _, row in rows
        ]
    said = [line for line, row in rows if row.get("role")]
    if path.with_suffix(QUERIES).exists():
        return said, [
            Case(
                one.text,
                tuple(one.current),
                tuple(one.stale),
                workspace=one.workspace,
                by_id=True,
            )
            for talk in read_talks(path)
            for one in talk.asked
            if one.current and one.stale
        ]
    return said, [
        Case(
            row["query"],
            *(_list_phrases(row[name]) for name in ("amended", "stale")),
            _read_time(row),
        )
        for _, row in rows
        if row.get("query") and row.get("amended") and row.get("stale")
    ]


def _list_phrases(value: str | list[str]) -> tuple[str, ...]:
    return tuple(map(_fold, value if isinstance(value, list) else [value]))


def _fold_values(value: str) -> tuple[str, ...]:
    """Return a pair's value; in a text it may have a final s."""
    return _fold(value), f"{_fold(value)}s"


def _read_time(row: dict[str, Any]) -> datetime | None:
    if not row.get("ts"):
        return None
    at = datetime.fromisoformat(row["ts"])
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _say_pairs(pairs: Sequence[dict[str, Any]]) -> Iterator[bytes]:
    """Yield both statements of each pair as sessions of three messages; a pair begins an hour after the one before."""
    words = zip(cycle(REPLIES), cycle(CLOSINGS), strict=True)
    for number, pair in enumerate(pairs, 1):
        for name, days in (("earlier", 0), ("later", pair["days"])):
            session, (reply, closing) = f"pair-{number:02}-{name}", next(words)
            at = START + timedelta(hours=number, days=days)
            for minute, (role, text) in enumerate(
                (("user", pair[name]), ("assistant", reply), ("user", closing))
            ):
                told = {
                    "role": role,
                    "content": text,
                    "ts": (at + timedelta(minutes=minute)).isoformat(),
                }
                place = {
                    "session_id": session,
                    "message_id": f"{session}-{minute}",
                    "workspace": pair["workspace"],
                }
                yield orjson.dumps(place | told)


def run_night_over(lines: Sequence[bytes], name: str, settings: Settings) -> None:
    """Read, distil and release messages, lines of the generic format."""
    with tempfile.TemporaryDirectory() as folder:
        talk = Path(folder) / f"{name}.jsonl"
        talk.write_bytes(b"\n".join(lines) + b"\n")
        run_night([talk], settings).check_complete()


def count_changes(memory: Memory) -> dict[str, int]:
    """Return claims, those retired by one of another session, and those that may be changed by one."""
    rows = memory.snapshot.read(
        CLAIMS, ["claim_id", "session_id", "superseded_by"]
    ).to_pylist()
    session = {row["claim_id"]: row["session_id"] for row in rows}
    columns = ["kind", "rule", "from_id", "into_id", "undone"]
    doubts = (
        memory.snapshot.read(MERGES, columns)
        .filter(pc.field("kind") == LedgerKind.DOUBT)
        .to_pylist()
    )
    pairs = {
        (row["from_id"], row["into_id"])
        for row in doubts
        if row["rule"] != LEADS and not row["undone"]
    }
    return {
        "claims": len(rows),
        "retired": sum(
            session.get(row["superseded_by"], row["session_id"]) != row["session_id"]
            for row in rows
        ),
        "linked": len(
            {
                source
                for source, target in pairs
                if session.get(source) != session.get(target)
            }
        ),
    }


def ask_case(memory: Memory, case: Case) -> dict[str, bool]:
    """Return the checks of a case, True if passed: the newer claim comes first, and the old one is marked."""
    hits = memory.recall(case.query, k=TOP, everything=True, workspace=case.workspace)
    block = memory.context(case.query, BUDGET, workspace=case.workspace)
    told: list[Told] = [
        (hit.text, hit.observed_at, frozenset(source.message for source in hit.sources))
        for hit in hits
    ]
    lines: list[Told] = [
        (line.text, line.source.at, frozenset({line.source.message} - {None}))
        for part in block.parts
        for line in part.lines
    ]
    newer_first = _is_current_first(case, told)
    marked = all(
        hit.status != "active" or hit.perhaps_superseded_by is not None
        for hit, (text, at, messages) in zip(hits, told, strict=True)
        if case.is_outdated(text, at, messages)
    )
    return {
        "newer first": newer_first,
        "top": bool(told) and case.is_current(told[0][0], told[0][2]),
        "in the block": _is_current_first(case, lines),
        "marked": marked,
        "both": newer_first and marked,
    }


def _is_current_first(case: Case, told: Sequence[Told]) -> bool:
    """Return True if the first text that states the new or the old claim states the new one."""
    states_new = (
        case.is_current(text, messages)
        for text, at, messages in told
        if case.is_current(text, messages) or case.is_outdated(text, at, messages)
    )
    return next(states_new, False)


if __name__ == "__main__":
    run(measure)
