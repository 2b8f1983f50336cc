"""Quality per token: how much of a past decision stands in the context block that a bug report gets.

    python -m bench.recall.context DECISIONS [--reports FILE] [--store DIR] [--svg FILE] [--encoder NAME] [--json]

The conversations are read by a real night into a scratch store (or one is kept with --store). For each report
(`{"session_id", "decision", "stale", "report"}` a line; by default in bug_reports*.jsonl beside decisions*.jsonl) the
figure is the share of the decision's content words in the text, at 125 to 2,000 tokens of the tokenizer that ships;
beside it whole turns by BM25, by recall, and by recall with the right session known. Sessions: is the right one first,
and among five. `--svg` draws the share by the budget. About 2 minutes on one core, most of it the night's.
"""

import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from bench.harness import build_parser, print_rows
from bench.plot import draw_curves
from bench.recall.locomo import score_bm25
from slowwave.context.tokens import load_tokenizer
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.recall.query import build_query
from slowwave.recall.retrieve.sessions import rank_sessions
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import PASSAGES, SESSIONS
from slowwave.text.words import extract_content_words

BUDGETS = (125, 250, 500, 1_000, 2_000)
SYSTEMS = ("turns by BM25", "turns by recall", "turns by recall, session known", "slowwave")
COUNT = load_tokenizer("minilm")

Turn = tuple[str, str]
"""Session's own id and text."""


def compute_word_share(decision: str, text: str) -> float:
    """Of the decision's content words, those in the text."""
    wanted = set(extract_content_words(decision))
    return len(wanted & set(extract_content_words(text))) / len(wanted)


def pack_turns(turns: Sequence[str], budget: int) -> str:
    """Pack whole turns, best first, that fit."""
    shown, room = [], budget
    for turn in turns:
        if (cost := COUNT(turn)) <= room:
            shown.append(turn)
            room -= cost
    return "\n".join(shown)


def build_blocks(
    memory: Memory, turns: Sequence[Turn], case: dict[str, Any], words: Any
) -> dict[str, Callable[[int], str]]:
    """Return each system's text for one report, by budget."""
    hits = memory.recall(case["report"], 100, "message")
    found = [(hit.sources[0].session, hit.text) for hit in hits]
    by_words = [turns[i] for i in np.argsort(-words, kind="stable")]
    known = [text for session, text in dict.fromkeys([*found, *by_words]) if session == case["session_id"]]
    return {
        SYSTEMS[0]: lambda budget: pack_turns([text for _, text in by_words], budget),
        SYSTEMS[1]: lambda budget: pack_turns([text for _, text in found], budget),
        SYSTEMS[2]: lambda budget: pack_turns(known, budget),
        SYSTEMS[3]: lambda budget: memory.context(case["report"], budget).text,
    }


def list_session_ranking(memory: Memory, report: str) -> list[str]:
    """Return the hundred sessions that a block looks into first, by their own ids."""
    view = memory.get_view()
    query = build_query(report, 1, "message")
    vector = memory._vectors.encode_texts(view.release.encoder, [query.text]).get(query.text)
    names = view.native_sessions
    return [names.get(one.session_id, one.session_id) for one in rank_sessions(view, query, vector, 100)]


def rank_session(memory: Memory, case: dict[str, Any]) -> int:
    """Return place of the right session, from 1; 0 where it is not among a hundred."""
    ranking = list_session_ranking(memory, case["report"])
    return ranking.index(case["session_id"]) + 1 if case["session_id"] in ranking else 0


def evaluate_context(memory: Memory, cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row a system: mean shares by budget, and how many blocks hold a stale wording."""
    view = memory.get_view()
    names = {r["session_id"]: r["native_id"] for r in view.read(SESSIONS, ["session_id", "native_id"]).to_pylist()}
    rows = view.read(PASSAGES, ["session_id", "text"]).to_pylist()
    turns = [(names[row["session_id"]], row["text"]) for row in rows]
    words = score_bm25([text for _, text in turns], [case["report"] for case in cases])
    shares: dict[tuple[str, str], list[float]] = defaultdict(list)
    for case, row in track(list(zip(cases, words, strict=True)), "reports", console=Console(stderr=True)):
        for name, block in build_blocks(memory, turns, case, row).items():
            for budget in BUDGETS:
                text = block(budget)
                shares[name, f"@{budget}"].append(compute_word_share(case["decision"], text))
                if case["stale"]:
                    shares[name, f"stale @{budget}"].append(any(old in text for old in case["stale"]))
    headings = [f"{what}@{budget}" for what in ("", "stale ") for budget in BUDGETS]
    return [{"packing": name, **{h: float(np.mean(shares[name, h] or [0])) for h in headings}} for name in SYSTEMS]


def main() -> None:
    """Measure and print."""
    parser = build_parser(__doc__, "file")
    parser.add_argument("--reports", type=Path)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    reports = given.reports or given.file.with_name(given.file.name.replace("decisions", "bug_reports"))
    cases = [json.loads(line) for line in reports.read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory(prefix="slowwave-context-") as scratch:
        store = given.store or Path(scratch)
        run_night([given.file.absolute()], Settings(store=store, encoder=given.encoder)).check_complete()
        memory = Memory.open(store)
        rows, ranks = evaluate_context(memory, cases), [rank_session(memory, case) for case in cases]
    if given.svg:
        shares = {str(row["packing"]): [row[f"@{budget}"] for budget in BUDGETS] for row in rows}
        draw_curves(given.svg, "tokens", BUDGETS, shares)
    first, five = (float(np.mean([0 < rank <= cut for rank in ranks])) for cut in (1, 5))
    title = "share of a decision's content words in the block; blocks with a stale wording"
    rows.append({"packing": "sessions", "R@1": first, "R@5": five} if given.as_json else {})
    print_rows([row for row in rows if row], given.as_json, title, [f"sessions: R@1 {first:.3f}, R@5 {five:.3f}"])


if __name__ == "__main__":
    main()
