"""Freeze what a night over the samples gives, and compare: what should change nothing is seen to change nothing.

    python -m bench.golden data/samples --write golden.json    (before)
    python -m bench.golden data/samples --check golden.json    (after; exit status 1 and the names of what differs)

A golden file belongs to one machine and one set of packages: vectors and cosines differ in their last bits elsewhere.
"""

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.harness import LABELLED, ROOT, SCRATCH, Figures, run
from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.recall.hits import Hit
from slowwave.recall.views.show import show
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, RELEASED, SESSIONS, SUMMARIES, TOPICS
from slowwave.store.manifest import compute_table_digest
from slowwave.store.releases import Snapshot

QUESTIONS, CODING = ROOT / "data" / "questions.toml", LABELLED / "coding.queries.json"
BUDGETS = (250, 500, 1000)
VIEWS: tuple[dict[str, Any], ...] = (
    {},
    {"kinds": "message"},
    {"kinds": "claim"},
    {"kinds": "summary", "k": 5},
)
FILTERS: tuple[dict[str, Any], ...] = (
    {"workspace": "/home/ada/tidepool"},
    {"since": "2026-10-01"},
    {"files": "config.toml", "until": "2026-10-15"},
    {"as_of": "2026-09-20"},
)
SHOWN = 5
"""Rows of each kind that are shown in full."""
REPORT = "The importer fails since the move to the new database: rows arrive twice and the port is refused. "


def measure(
    samples: Path,
    *,
    write: Path | None = None,
    check: Path | None = None,
    folder: Path = SCRATCH,
) -> Figures:
    """Write the golden file, or compare with it; the exit status tells of a difference."""
    frozen = freeze(samples, folder)
    if write:
        write.write_text(
            json.dumps(frozen, indent=1, ensure_ascii=False), encoding="utf-8"
        )
    before = json.loads(check.read_text(encoding="utf-8")) if check else frozen
    differ = [
        f"differs: {name}"
        for name in {**before, **frozen}
        if before.get(name) != frozen.get(name)
    ]
    return Figures(
        [{"things": len(frozen), "differ": len(differ)}],
        notes=differ or ["none differs"],
        failed=bool(differ),
    )


def freeze(samples: Path, folder: Path) -> dict[str, Any]:
    """Return digests of all released tables, and what fixed questions, filters and views answer, by name."""
    settings = Settings(store=folder / "store")
    run_night([samples], settings).check_complete()
    snapshot = Snapshot(settings.store, settings.space)
    frozen: dict[str, Any] = {
        f"table {table.name}": compute_table_digest(table, snapshot.read(table))
        for table in RELEASED
    }
    memory = Memory.open(settings.store)
    questions = [
        row["question"]
        for row in tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))["question"]
    ]
    for question in [*questions, "What did we do last month?", REPORT * 4]:
        for view in VIEWS:
            frozen[f"recall {question[:60]} {view}"] = list_hits(
                memory.recall(question, **view)
            )
        for budget in BUDGETS:
            frozen[f"context {question[:60]} {budget}"] = memory.context(
                question, budget
            ).text
        for filters in FILTERS:
            frozen[f"recall {question[:60]} {filters}"] = list_hits(
                memory.recall(question, **filters)
            )
        found = memory.sessions(question)
        frozen[f"sessions {question[:60]}"] = [
            [hit.session, f"{hit.probability:.6f}", hit.title] for hit in found
        ]
    # Questions about other projects: what is nearest to them, and how near, must not change either.
    for query in json.loads(CODING.read_text(encoding="utf-8")):
        frozen[f"recall {query['query'][:60]}"] = list_hits(
            memory.recall(query["query"], k=3)
        )
    workspaces = snapshot.read(SESSIONS)["workspace"].unique().drop_null().to_pylist()
    for workspace in (None, *sorted(workspaces)):
        frozen[f"briefing {workspace}"] = memory.briefing(800, workspace=workspace).text
    for table in (CLAIMS, SUMMARIES, TOPICS):
        for row_id in sorted(map(str, snapshot.read(table)[table.key].to_pylist()))[
            :SHOWN
        ]:
            frozen[f"show {table.name} {row_id}"] = show(
                memory.get_view(), row_id
            ).as_dict()
    return frozen


def list_hits(hits: Iterable[Hit]) -> list[list[str]]:
    """Return the id, the text and the score of each hit."""
    return [[hit.id, hit.text, f"{hit.score:.6f}"] for hit in hits]


if __name__ == "__main__":
    run(measure)
