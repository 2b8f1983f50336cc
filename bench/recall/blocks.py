"""Does a block answer? How much of what answers a question, or of what a bug report needs, stands in its block.

    python -m bench.recall.blocks FILE… [--talks PATH…] [--sample N] [--store DIR] [--encoder NAME] [--json]

FILEs are conversations with what is asked of them (`bench/recall/talks.py`), or `X.queries.json` alone, asked of a
memory of all `--talks`. A real night makes a store of each conversation, kept as DIR/NAME with `--store`.

What answers a question are the content words of the short answer, else of the gold messages, that the question lacks;
what a report needs are those of the decision. Columns, at 250 to 2,000 tokens of the tokenizer that ships: the mean
share of these words in whole turns by *BM25*, in *recall*'s messages packed whole, in these of the right session alone
(*session known*), and in the *block*; *empty*, blocks with none of them; *lines* of a block; *noise*, lines that hold
none of them nor are of a session that answers; *stale first*, blocks that tell what no longer holds before what holds,
of those that tell either; *stale*, blocks with a wording that no longer holds. `--sample` takes so many of a file's
questions, as many of each kind. About a second a question; a night over one of LoCoMo's conversations takes a minute.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path

from rich.console import Console
from rich.progress import track

from bench.harness import ENCODER, SCRATCH, Figures, Row, average, run
from bench.recall.talks import (
    REPORT,
    Asked,
    load_messages,
    rank_down,
    read_talks,
    score_bm25,
)
from slowwave import Memory
from slowwave.context.rendering import Line
from slowwave.context.tokens import load_tokenizer
from slowwave.schemas.tables import PASSAGES
from slowwave.text.words import extract_content_words

BUDGETS = (250, 500, 1_000, 2_000)
HITS = 100
"""Messages that whole ones are packed from."""
COUNT = load_tokenizer("minilm")


def measure(
    files: Sequence[Path],
    *,
    talks: Sequence[Path] = (),
    sample: int | None = None,
    store: Path = SCRATCH,
    encoder: str = ENCODER,
) -> Figures:
    """Return figures of each file, over all its questions and by their kind, at each budget."""
    rows: list[Row] = []
    for path in files:
        read, found = read_talks(path, talks), list[Row]()
        chosen = sample_kinds([asked for talk in read for asked in talk.asked], sample)
        for talk in read:
            if asked := [
                one for one in chosen if any(one is other for other in talk.asked)
            ]:
                found += ask_blocks(talk.open(store, encoder), asked)
        by_kind = found if len({row["kind"] for row in found}) > 1 else []
        some = [*({**row, "kind": "all"} for row in found), *by_kind]
        rows += [
            {"file": path.name, **row, "noise": row["noise"] / (row["lines"] or 1)}
            for row in average(some, "kind", "tokens", count="questions")
        ]
    return Figures(rows, "what answers, in whole messages and in the block")


def sample_kinds(asked: Sequence[Asked], most: int | None) -> list[Asked]:
    """Return up to `most` of the questions, as many of each kind as there are, spread over their order."""
    if most is None or len(asked) <= most:
        return list(asked)
    kinds: dict[str, list[Asked]] = {}
    for one in asked:
        kinds.setdefault(one.kind, []).append(one)
    spread = [
        list(chain.from_iterable(some[n::7] for n in range(7)))
        for some in kinds.values()
    ]
    return [one for some in zip_longest(*spread) for one in some if one is not None][
        :most
    ]


def ask_blocks(memory: Memory, asked: Sequence[Asked]) -> Iterator[Row]:
    """Yield the results of the blocks for each question, a row a budget.

    A question that has all words of its answer yields nothing.
    """
    messages, view = load_messages(memory), memory.get_view()
    names = view.native_sessions
    turns = [
        (names.get(row["session_id"], row["session_id"]), row["text"])
        for row in view.read(PASSAGES, ["session_id", "text"]).to_pylist()
    ]
    words = score_bm25([text for _, text in turns], [one.text for one in asked])
    for one, ranked in track(
        list(zip(asked, rank_down(words), strict=True)),
        "questions",
        console=Console(stderr=True),
    ):
        golden = [messages[key] for key in one.gold if key in messages]
        sessions = one.sessions | {session for session, _ in golden}
        wanted = find_wanted_words(one, [text for _, text in golden])
        if not wanted:
            continue
        hits = memory.recall(
            one.text, HITS, "message", everything=True, workspace=one.workspace
        )
        recalled = [(hit.sources[0].session, hit.text) for hit in hits]
        by_words = [turns[at] for at in ranked]
        known = [
            text
            for session, text in dict.fromkeys([*recalled, *by_words])
            if session in sessions
        ]
        packed = {
            "BM25": [text for _, text in by_words],
            "recall": [text for _, text in recalled],
            "session known": known,
        }
        for budget in BUDGETS:
            block = memory.context(one.text, budget, workspace=one.workspace)
            lines = [line for part in block.parts for line in part.lines]
            told = extract_words(
                *([block.text] if one.kind == REPORT else [line.text for line in lines])
            )
            share = len(told & wanted) / len(wanted)
            whole = {
                name: len(extract_words(*pack_turns(some, budget)) & wanted)
                for name, some in packed.items()
            }
            yield {
                "kind": one.kind,
                "tokens": budget,
                **{name: count / len(wanted) for name, count in whole.items()},
                "block": share,
                "empty": share == 0,
                "lines": len(lines),
                "noise": sum(
                    line.source.session not in sessions
                    and not extract_words(line.text) & wanted
                    for line in lines
                ),
                "stale first": is_stale_first(lines, one),
                "stale": any(old in block.text for old in one.wordings)
                if one.wordings
                else None,
            }


def find_wanted_words(one: Asked, golden: Sequence[str]) -> set[str]:
    """Return the content words of the short answer, else of the gold messages, that a question lacks; of a report all
    of those.
    """
    words = extract_words(*([one.answer] if one.answer else golden))
    return words if one.kind == REPORT else words - extract_words(one.text)


def extract_words(*texts: str) -> set[str]:
    """Return the stems of some texts' content words."""
    return {word for text in texts for word in extract_content_words(text)}


def pack_turns(turns: Sequence[str], budget: int) -> Iterator[str]:
    """Yield whole turns, best first, that fit."""
    for turn in turns:
        if (cost := COUNT(turn)) <= budget:
            yield turn
            budget -= cost


def is_stale_first(lines: Sequence[Line], asked: Asked) -> bool | None:
    """Return True if the first line of a current or stale message is of a stale one; None without such a line."""
    told = (
        line.source.message
        for line in lines
        if line.source.message in asked.current | asked.stale
    )
    first = next(told, None)
    return None if first is None or not asked.current else first in asked.stale


if __name__ == "__main__":
    run(measure)
