"""Is what holds told before what it replaced? Thirty plain pairs of statements, each with the question it answers.

    python -m bench.recall.newer_first [FILE] [--misses] [--record] [--encoder NAME] [--json]

FILE has one pair a line: `earlier` and `later` are said in two sessions that lie `days` apart in one `workspace`, and
`question` is answered by the value `old`, later by `new`. A session is the statement, a reply and a closing word, since
the night makes no claims of one message alone. One night reads all sessions, and each question is asked in its
workspace. *Newer first* is the share of the pairs of which the first of ten hits that carries either value carries the
later one. The figure may only rise: `--record` writes it to `bench/newer_first.json`, and a test compares a run with
that file. Takes a quarter of a minute.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path

import orjson

from bench.harness import build_parser, print_rows
from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings

PAIRS = Path(__file__).parents[2] / "data" / "labelled" / "newer_first.jsonl"
RECORD = Path(__file__).parents[1] / "newer_first.json"
START = datetime(2026, 1, 5, 9, tzinfo=UTC)
"""When the first pair's earlier statement is made."""
TOP = 10
REPLIES = (
    "Good to know.",
    "Got it, I will keep that in mind.",
    "Understood.",
    "Thanks for telling me.",
    "All right, noted.",
    "Okay, I have it.",
    "Makes sense.",
    "That helps.",
    "Sure, I will go by that.",
    "Fine, I wrote it down.",
    "Very well.",
    "I see.",
    "Noted, anything else?",
    "Clear.",
    "Then I will remember it.",
)
CLOSINGS = (
    "Thanks.",
    "That is all for now.",
    "No, nothing else.",
    "Good, talk to you later.",
    "Great.",
    "Right, see you.",
    "Perfect.",
    "Okay, bye.",
    "That was it.",
    "Cheers.",
    "Have a good day.",
    "Then we are done.",
    "Nice.",
    "Thank you, bye.",
    "Good.",
)
"""Enough that none recurs in five sessions, which would make it boilerplate."""


@dataclass(frozen=True)
class Pair:
    """A statement, a later one that changes it, and the question that both answer."""

    workspace: str
    days: int
    """Between the two sessions."""
    earlier: str
    later: str
    question: str
    old: str
    """The value that the earlier statement gives."""
    new: str
    """The value that holds since the later one."""


@dataclass(frozen=True)
class Answer:
    """What a question found."""

    question: str
    first: str | None
    """The first hit that carries either value; None where no hit does."""
    newer_first: bool


def read_pairs(path: Path) -> list[Pair]:
    """Return the pairs of a file, one a line."""
    return [Pair(**orjson.loads(line)) for line in path.read_bytes().splitlines()]


def write_sessions(pairs: Sequence[Pair], path: Path) -> None:
    """Write both statements of each pair as a session of three messages; a pair begins an hour after the one before."""
    lines, words = [], zip(cycle(REPLIES), cycle(CLOSINGS), strict=True)
    for number, pair in enumerate(pairs, 1):
        begun = START + timedelta(hours=number)
        for name, text, at in (
            ("earlier", pair.earlier, begun),
            ("later", pair.later, begun + timedelta(days=pair.days)),
        ):
            session, (reply, closing) = f"pair-{number:02}-{name}", next(words)
            for minute, (role, content) in enumerate((("user", text), ("assistant", reply), ("user", closing))):
                moment = (at + timedelta(minutes=minute)).isoformat()
                message = {"session_id": session, "message_id": f"{session}-{minute}", "workspace": pair.workspace}
                lines.append(orjson.dumps({**message, "ts": moment, "role": role, "content": content}))
    path.write_bytes(b"\n".join(lines) + b"\n")


def ask_pairs(pairs: Sequence[Pair], folder: Path, encoder: str) -> list[Answer]:
    """Return what each question finds after a night over all pairs.

    Args:
        folder: an empty one for the transcript and the store.
        encoder: the night's.
    """
    talk, store = folder / "talk" / "pairs.jsonl", folder / "store"
    talk.parent.mkdir()
    write_sessions(pairs, talk)
    run_night([talk], Settings(store=store, encoder=encoder, llm="off")).check_complete()
    memory = Memory.open(store)
    return [ask_pair(memory, pair) for pair in pairs]


def ask_pair(memory: Memory, pair: Pair) -> Answer:
    """Return what a pair's question finds."""
    texts = (hit.text for hit in memory.recall(pair.question, TOP, workspace=pair.workspace))
    first = find_first_carrier(texts, pair)
    return Answer(pair.question, first, first is not None and carries(first, pair.new))


def find_first_carrier(texts: Iterable[str], pair: Pair) -> str | None:
    """Return the first text that carries a value of the pair; None where none does."""
    return next((text for text in texts if carries(text, pair.old) or carries(text, pair.new)), None)


def carries(text: str, value: str) -> bool:
    """Return whether a value stands in a text as whole words, in whatever case; a final s may be there or not."""
    return re.search(rf"(?<!\w){re.escape(value)}s?(?!\w)", text, re.I) is not None


def count_newer_first(pairs: Sequence[Pair], answers: Sequence[Answer]) -> list[dict[str, object]]:
    """Return the pairs, those of which the newer is first, and their share: of all, and by workspace."""
    rows: list[dict[str, object]] = []
    for name in ("all", *dict.fromkeys(pair.workspace for pair in pairs)):
        some = [a.newer_first for p, a in zip(pairs, answers, strict=True) if name in ("all", p.workspace)]
        share = round(sum(some) / len(some), 3)
        rows.append({"workspace": name, "pairs": len(some), "newer first": sum(some), "share": share})
    return rows


def main() -> None:
    """Run the night, ask, print."""
    parser = build_parser(__doc__, "file?")
    parser.add_argument("--misses", action="store_true", help="list the questions of which the newer is not first")
    parser.add_argument("--record", action="store_true", help=f"write the figure to {RECORD.name}")
    given = parser.parse_args()
    pairs = read_pairs(given.file or PAIRS)
    with tempfile.TemporaryDirectory(prefix="slowwave-newer-") as folder:
        answers = ask_pairs(pairs, Path(folder), given.encoder)
    rows = count_newer_first(pairs, answers)
    if given.record:
        figures = {"pairs": rows[0]["pairs"], "newer_first": rows[0]["newer first"], "share": rows[0]["share"]}
        RECORD.write_text(json.dumps({**figures, "encoder": given.encoder}, indent=2) + "\n", encoding="utf-8")
    misses = [answer for answer in answers if given.misses and not answer.newer_first]
    notes = [f"{answer.question} {answer.first or 'no hit carries either value'}" for answer in misses]
    print_rows(rows, given.as_json, "the later of two statements first, extractive night", notes)


if __name__ == "__main__":
    main()
