"""Which past session a question or a report is about: S@1 and S@5 of four rankings, and how true the probabilities are.

    python -m bench.recall.sessions data/labelled/decisions_unseen.jsonl … [--store DIR] [--encoder NAME] [--json]

A file is one of decisions (`decisions*.jsonl`, asked by `bug_reports*.jsonl` beside it), a transcript with its
`*.queries.json` (`query`, `gold_session`), or LoCoMo's `.json`, where the session of the evidence is the right one and
each conversation is a memory. Several are measured apart; `--together` makes one memory of all transcripts. The
rankings: sessions of recall's messages, BM25 over whole sessions, words and nearest passages of a session
(`rank_sessions`), and `Memory.sessions`. 10 to 60 seconds a file, most of it the night's.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from bench.harness import build_parser, print_rows
from bench.recall.context import list_session_ranking
from bench.recall.locomo import TurnCollection, build_pool_store, score_bm25
from bench.recall.locomo_files import load_conversations
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import Encoder
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import PASSAGES

SYSTEMS = ("recall's messages", "BM25 of sessions", "words and nearest", "Memory.sessions")
CUTS = (1, 5)
MESSAGES = 50
"""Of recall, from which its sessions are taken in order."""

Case = tuple[str, frozenset[str]]
"""What is asked, and the sessions that answer."""


@dataclass(frozen=True)
class Collection:
    """A memory to be asked: transcripts that a night reads, or a conversation of LoCoMo's."""

    name: str
    cases: list[Case]
    paths: tuple[Path, ...] = ()
    turns: TurnCollection | None = None

    def open(self, store: Path, encoder: Encoder) -> Memory:
        """Return the memory, made where it is not there yet."""
        if self.turns is None:
            run_night(
                [path.absolute() for path in self.paths], Settings(store=store, encoder=encoder.name)
            ).check_complete()
        elif not store.exists():
            build_pool_store(self.turns, store, encoder)
        return Memory.open(store, encoder=encoder)


def read_collections(path: Path) -> list[Collection]:
    """Return the memories of a file, each with what is asked of it."""
    if path.suffix == ".json":
        pools = [TurnCollection(c.id, (c,)) for c in load_conversations(path)]
        return [Collection(pool.name, list_locomo_cases(pool), turns=pool) for pool in pools]
    asked = path.with_suffix(".queries.json")
    if asked.exists():
        rows = json.loads(asked.read_text(encoding="utf-8"))
        cases = [(row["query"], frozenset([row["gold_session"]])) for row in rows]
    else:
        reports = path.with_name(path.name.replace("decisions", "bug_reports")).read_text(encoding="utf-8")
        rows = map(json.loads, reports.splitlines())
        cases = [(row["report"], frozenset([row["session_id"]])) for row in rows]
    return [Collection(path.stem, cases, (path,))]


def list_locomo_cases(pool: TurnCollection) -> list[Case]:
    """Return the questions that have evidence, and its sessions; those meant to have no answer are left out."""
    (conversation,) = pool.parts
    session = {turn.id: f"{conversation.id}/{turn.session}" for turn in conversation.turns}
    asked = [q for q in conversation.questions if q.evidence and q.category != 5]
    return [(q.text, frozenset(session[one] for one in q.evidence)) for q in asked]


def rank_all(memory: Memory, cases: Sequence[Case]) -> tuple[dict[str, list[list[str]]], list[float]]:
    """Return each system's ranking of sessions, by their own ids, for each case; and how sure the last is of its
    first.
    """
    view = memory.get_view()
    names, texts = view.native_sessions, dict[str, list[str]]()
    for row in view.read(PASSAGES, ["session_id", "text"]).to_pylist():
        texts.setdefault(names.get(row["session_id"], row["session_id"]), []).append(row["text"])
    words = score_bm25(["\n".join(some) for some in texts.values()], [text for text, _ in cases])
    found: dict[str, list[list[str]]] = {name: [] for name in SYSTEMS}
    sure: list[float] = []
    for (text, _), row in track(list(zip(cases, words, strict=True)), "cases", console=Console(stderr=True)):
        hits = memory.recall(text, MESSAGES, "message")
        found[SYSTEMS[0]].append(list(dict.fromkeys(hit.sources[0].session for hit in hits)))
        found[SYSTEMS[1]].append([list(texts)[i] for i in np.argsort(-row, kind="stable")])
        found[SYSTEMS[2]].append(list_session_ranking(memory, text))
        sessions = memory.sessions(text, max(CUTS))
        found[SYSTEMS[3]].append([one.session for one in sessions])
        sure.append(sessions[0].probability if sessions else 0.0)
    return found, sure


def compute_figures(
    name: str, cases: Sequence[Case], found: Mapping[str, Sequence[list[str]]], sure: list[float]
) -> dict[str, Any]:
    """Return the share of cases with a right session among the first, by system and cut; and the mean probability of
    the first.
    """
    shares = {}
    for system, rankings in found.items():
        for cut in CUTS:
            right = [bool(gold & set(ranked[:cut])) for (_, gold), ranked in zip(cases, rankings, strict=True)]
            shares[f"{system} @{cut}"] = float(np.mean(right))
    return {"memory": name, "cases": len(cases), **shares, "probability of its first": float(np.mean(sure))}


def main() -> None:
    """Measure and print."""
    parser = build_parser(__doc__, "files…")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--store", type=Path)
    given = parser.parse_args()
    asked = [one for path in given.files for one in read_collections(path)]
    if given.together:
        paths = tuple(path for one in asked for path in one.paths)
        asked = [Collection("together", [case for one in asked for case in one.cases], paths)]
    encoder, rows = load_encoder(given.encoder), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory(prefix="slowwave-sessions-") as scratch:
        for one in asked:
            memory = one.open((given.store or Path(scratch)) / one.name, encoder)
            rows.append(compute_figures(one.name, one.cases, *rank_all(memory, one.cases)))
    means = {heading: float(np.mean([row[heading] for row in rows])) for heading in list(rows[0])[2:]}
    rows.append({"memory": "mean", "cases": sum(row["cases"] for row in rows), **means})
    print_rows(rows, given.as_json, "the right session among the first")


if __name__ == "__main__":
    main()
