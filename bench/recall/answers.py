"""Does a block answer? How much of what answers a plain question stands in its block of context.

    python -m bench.recall.answers FILE… [--talks PATH…] [--sample N] [--store DIR] [--encoder NAME] [--json]

FILEs are LoCoMo's conversations (`.json`), conversations with questions beside them (`X.jsonl`, `X.queries.json`: a
list of `{workspace, query, gold}` with ids of messages, at times `current` and `stale` of them too, or `expect`, a
short answer in their words), such questions alone (`X.queries.json`, asked of a memory of all `--talks`), or questions
over `data/samples` (`.toml`). A real night makes a store of each conversation, kept as DIR/NAME with `--store`.

What answers are the content words of the short answer, else of the gold messages, that the question lacks. Columns, at
250, 500, 1,000 and 2,000 tokens of the tokenizer that ships: *whole*, their mean share in recall's top messages packed
whole, without a word on where they are from; *block*, in the block's lines; *empty*, blocks with none of them; *noise*,
lines that hold none of them nor are of a gold message's session; *stale first*, blocks that tell what no longer holds
before what does, of those that tell either. `--sample` takes so many of a file's questions, as many of each kind. About
a second a question; a night over one of LoCoMo's conversations takes about a minute on one core.
"""

import statistics
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

import orjson
from rich.console import Console
from rich.progress import track

from bench.harness import build_parser, forbid_cached_answers, print_rows
from bench.recall.context import pack_turns
from bench.recall.locomo_files import CATEGORIES, Conversation, build_message_rows, load_conversations
from slowwave import Memory
from slowwave.context.rendering import Line
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.text.words import extract_content_words

BUDGETS = (250, 500, 1000, 2000)
HITS = 50
"""Messages that the baseline packs from."""
QUERIES = ".queries.json"
ADVERSARIAL = 5
"""LoCoMo's questions that nothing answers."""


@dataclass(frozen=True)
class Asked:
    """A question and what answers it."""

    talk: str
    """Name of the conversation it is of."""
    kind: str
    text: str
    gold: frozenset[str]
    """The messages that answer it, by their transcripts' own ids."""
    workspace: str | None = None
    session: str | None = None
    """Whose messages with the text `expect` answer it, where `gold` is empty."""
    expect: str = ""
    """A short answer: where there is one, its words alone count."""
    current: frozenset[str] = frozenset()
    stale: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Answered:
    """One block, beside whole messages."""

    kind: str
    budget: int
    whole: float
    block: float
    lines: int
    noise: int
    stale_first: bool | None
    """None where the block tells neither what holds nor what does not."""


Talks = dict[str, Sequence[Path]]
"""What each store is made of, by its name."""


def read_asked(path: Path, scratch: Path, talks: Sequence[Path] = ()) -> tuple[Talks, list[Asked]]:
    """Return the conversations of a file and what is asked of them; LoCoMo's are written to `scratch`."""
    alone = path.name.endswith(QUERIES)
    if path.suffix == ".json" and not alone:
        read = load_conversations(path)
        return {talk.id: [write_talk(talk, scratch)] for talk in read}, [
            Asked(talk.id, CATEGORIES[one.category], one.text, frozenset(one.evidence))
            for talk in read
            for one in talk.questions
            if one.category != ADVERSARIAL and one.evidence
        ]
    if path.suffix == ".toml":
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["question"]
        return {"samples": [path.parent / "samples"]}, [
            Asked("samples", "all", row["question"], frozenset(), session=row["session"], expect=row["expect"])
            for row in rows
        ]
    rows = orjson.loads((path if alone else path.with_suffix(QUERIES)).read_bytes())
    name = path.name.removesuffix(QUERIES if alone else path.suffix)
    return {name: talks if alone else [path]}, [
        Asked(
            name,
            row.get("category", "all"),
            row["query"],
            frozenset(row["gold"]),
            row.get("workspace"),
            expect=row.get("expect", ""),
            current=frozenset(row.get("current", ())),
            stale=frozenset(row.get("stale", ())),
        )
        for row in rows
    ]


def write_talk(talk: Conversation, folder: Path) -> Path:
    """Write a conversation's turns as messages, a line each."""
    path = folder / f"{talk.id}.jsonl"
    columns = ["session_id", "message_id", "role", "speaker", "text", "ts"]
    rows = build_message_rows(talk).select(columns).rename_columns([*columns[:4], "content", "ts"]).to_pylist()
    path.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))
    return path


def sample_kinds(asked: Sequence[Asked], most: int | None) -> list[Asked]:
    """Return up to `most` of the questions, as many of each kind as there are, spread over their order."""
    if most is None or len(asked) <= most:
        return list(asked)
    kinds = {one.kind: [other for other in asked if other.kind == one.kind] for one in asked}
    spread = [_order_spread(some) for some in kinds.values()]
    in_turn = [one for round_ in zip_longest(*spread) for one in round_ if one is not None]
    return in_turn[:most]


def _order_spread(some: Sequence[Asked]) -> list[Asked]:
    """Return the same: any first ones of it come from all over (every seventh, then those next to them)."""
    return list(chain.from_iterable(some[n::7] for n in range(7)))


def load_messages(memory: Memory) -> dict[str, tuple[str, str]]:
    """Return session and text of each message, all by the transcripts' own ids."""
    sessions = memory.snapshot.read(SESSIONS, ["session_id", "native_id"]).to_pylist()
    names = {row["session_id"]: row["native_id"] for row in sessions}
    rows = memory.snapshot.read(MESSAGES, ["native_id", "session_id", "text"]).to_pylist()
    return {row["native_id"]: (names[row["session_id"]], row["text"]) for row in rows}


def evaluate_question(memory: Memory, messages: dict[str, tuple[str, str]], asked: Asked) -> list[Answered]:
    """Return what its blocks hold, one a budget; nothing where the question has all words of the answer."""
    golden = [messages[key] for key in asked.gold if key in messages]
    sessions = {session for session, _ in golden} | {asked.session}
    known = extract_words(asked.text)
    answer = [asked.expect] if asked.expect else [text for _, text in golden]
    wanted = frozenset[str]().union(*map(extract_words, answer)) - known
    if not wanted:
        return []
    hits = [hit.text for hit in memory.recall(asked.text, HITS, "message", workspace=asked.workspace)]
    found = []
    for budget in BUDGETS:
        parts = memory.context(asked.text, budget, workspace=asked.workspace).parts
        lines = [line for part in parts for line in part.lines]
        told = [extract_words(line.text) for line in lines]
        idle = [
            line.source.session not in sessions and not words & wanted for line, words in zip(lines, told, strict=True)
        ]
        whole = extract_words(pack_turns(hits, budget))
        found.append(
            Answered(
                asked.kind,
                budget,
                len(whole & wanted) / len(wanted),
                len(frozenset[str]().union(*told) & wanted) / len(wanted),
                len(lines),
                sum(idle),
                is_stale_first(lines, asked),
            )
        )
    return found


def extract_words(text: str) -> frozenset[str]:
    """Return the stems of a text's content words."""
    return frozenset(extract_content_words(text))


def is_stale_first(lines: Iterable[Line], asked: Asked) -> bool | None:
    """Return whether the first line of a message that tells either tells what no longer holds."""
    told = (line.source.message for line in lines if line.source.message in asked.current | asked.stale)
    first = next(told, None)
    return None if first is None or not asked.current else first in asked.stale


def compute_answer_figures(name: str, found: Sequence[Answered]) -> list[dict[str, object]]:
    """Return the figures, overall and by kind, at each budget."""
    rows: list[dict[str, object]] = []
    for kind in ("all", *dict.fromkeys(one.kind for one in found if one.kind != "all")):
        for budget in BUDGETS:
            some = [one for one in found if kind in ("all", one.kind) and one.budget == budget]
            changed = [one.stale_first for one in some if one.stale_first is not None]
            rows.append(
                {
                    "file": name,
                    "kind": f"{kind} @{budget}",
                    "questions": len(some),
                    "whole": round(statistics.fmean(one.whole for one in some), 3),
                    "block": round(statistics.fmean(one.block for one in some), 3),
                    "empty": round(statistics.fmean(one.block == 0 for one in some), 3),
                    "lines": round(statistics.fmean(one.lines for one in some), 1),
                    "noise": round(sum(one.noise for one in some) / (sum(one.lines for one in some) or 1), 3),
                    "stale first": round(statistics.fmean(changed), 3) if changed else None,
                }
            )
    return rows


def evaluate_file(
    path: Path, talks: Sequence[Path], stores: Path, scratch: Path, sample: int | None, encoder: str
) -> list[Answered]:
    """Ask what is asked of a file, over stores that are there or are made."""
    made_of, asked = read_asked(path, scratch, talks)
    asked = sample_kinds(asked, sample)
    found: list[Answered] = []
    for name in dict.fromkeys(one.talk for one in asked):
        store = stores / name
        if not store.exists():
            run_night([talk.absolute() for talk in made_of[name]], Settings(store=store, encoder=encoder))
        memory = Memory.open(store)
        messages = load_messages(memory)
        for one in track([one for one in asked if one.talk == name], name, console=Console(stderr=True)):
            found += evaluate_question(memory, messages, one)
    return found


def main() -> None:
    """Measure and print."""
    parser = build_parser(__doc__, "files…")
    parser.add_argument(
        "--talks", nargs="+", type=Path, default=[], metavar="PATH", help="what X.queries.json is about"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="so many questions of each file")
    parser.add_argument("--store", type=Path, metavar="DIR", help="where stores are, or are kept")
    given = parser.parse_args()
    forbid_cached_answers()
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="slowwave-answers-") as folder:
        scratch = Path(folder)
        for path in given.files:
            stores = given.store or scratch / "stores"
            found = evaluate_file(path, given.talks, stores, scratch, given.sample, given.encoder)
            rows += compute_answer_figures(path.name, found)
    print_rows(rows, given.as_json, "what answers, in whole messages and in the block")


if __name__ == "__main__":
    main()
