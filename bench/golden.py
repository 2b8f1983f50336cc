"""Freeze what a night over the samples gives, and compare: what should change nothing is seen to change nothing.

    python -m bench.golden data/samples --write golden.json    (before)
    python -m bench.golden data/samples --check golden.json    (after; exit status 1 and the names of what differs)

A golden file belongs to one machine and one set of packages: vectors and cosines differ in their last bits elsewhere.
"""

import argparse
import json
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import RELEASED
from slowwave.store.integrity.digest import compute_table_digest
from slowwave.store.snapshot import Snapshot

QUESTIONS = Path(__file__).parent.parent / "data" / "questions.toml"
BUDGETS = (250, 500, 1000)
VIEWS: tuple[dict[str, Any], ...] = ({}, {"kinds": "message"}, {"kinds": "observation"}, {"kinds": "summary", "k": 5})
REPORT = "The importer fails since the move to the new database: rows arrive twice and the port is refused. "


def freeze(samples: Path, folder: Path) -> dict[str, Any]:
    """Return digests of all released tables, hits of fixed questions and blocks of context, by name."""
    settings = Settings(store=folder / "store")
    run_night([samples], settings).check_complete()
    frozen: dict[str, Any] = {}
    snapshot = Snapshot(settings.store, settings.space)
    for table in RELEASED:
        frozen[f"table {table.name}"] = compute_table_digest(table, snapshot.read(table))
    memory = Memory.open(settings.store)
    asked = [one["question"] for one in tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))["question"]]
    for question in [*asked, "What did we do last month?", REPORT * 4]:
        for view in VIEWS:
            hits = memory.recall(question, **view)
            frozen[f"recall {question[:60]} {view}"] = [[hit.id, hit.text, f"{hit.score:.6f}"] for hit in hits]
        for budget in BUDGETS:
            frozen[f"context {question[:60]} {budget}"] = memory.context(question, budget).text
    frozen["briefing"] = memory.briefing(800).text
    return frozen


def main() -> int:
    """Write the golden file, or compare with it; the exit status tells of a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--check", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        frozen = freeze(args.samples, Path(folder))
    if args.write:
        args.write.write_text(json.dumps(frozen, indent=1, ensure_ascii=False), encoding="utf-8")
    before = json.loads(args.check.read_text(encoding="utf-8")) if args.check else frozen
    differ = [name for name in {**before, **frozen} if before.get(name) != frozen.get(name)]
    print("\n".join(f"differs: {name}" for name in differ) or f"{len(frozen)} things, none differs")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
