"""Every measurement that the data at hand allows, one after the other: `make bench`.

    SLOWWAVE_BENCH_DATA=/path/to/sets python -m bench.all

Sets that are not there are named and skipped. Each line can be run on its own; all take a path.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
DECIDED = ("unseen", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
ASKED = ("facts", "vehicle")
CHANGES = ("calm_coding", "facts", "vehicle")
CODED = ("coding/chef_chopsky.jsonl", "fixtures/pi/large-session.jsonl")
TALKS = (*CODED, "changes/calm_coding.jsonl")


def list_commands(data: Path | None) -> list[tuple[list[str], Path | None]]:
    """Return each command's words, and the file it can't do without."""
    amended = sorted(path.relative_to(ROOT) for path in (ROOT / "data" / "labelled").glob("amend*.jsonl"))
    decided = [Path("data", "labelled", f"decisions_{name}.jsonl") for name in DECIDED]
    shipped: list[tuple[list[str], Path | None]] = [
        (["bench.nights.night", "data/samples"], None),
        (["bench.nights.dedupe", "data/labelled/pairs.tsv"], None),
        (["bench.recall.changes", *map(str, amended)], None),
        (["bench.recall.newer_first"], None),
        (["bench.nights.topics", "data/labelled/topics.tsv"], None),
        (["bench.recall.context", "data/labelled/decisions.jsonl"], None),
        (["bench.nights.worth", "data/samples"], None),
        (["bench.recall.sessions", *map(str, decided)], None),
        (["bench.recall.answers", "data/questions.toml"], None),
    ]
    if data is None:
        return shipped
    locomo = data / "locomo" / "locomo_open.json"
    return [
        *shipped,
        (["bench.recall.changes", *(str(data / "changes" / f"{n}.jsonl") for n in CHANGES)], data / "changes"),
        (["bench.nights.observe", str(locomo)], locomo),
        (["bench.nights.worth", *(str(data / name) for name in TALKS)], data / "coding"),
        (["bench.recall.locomo", str(locomo)], locomo),
        (["bench.recall.sessions", str(locomo)], locomo),
        (["bench.recall.answers", str(locomo), "--sample", "150"], locomo),
        (["bench.recall.answers", *(str(data / "changes" / f"{n}.jsonl") for n in ASKED)], data / "changes"),
        (
            [
                "bench.recall.answers",
                "data/labelled/coding.queries.json",
                "--talks",
                *(str(data / name) for name in CODED),
            ],
            data / "coding",
        ),
        (["bench.recall.abstention", str(locomo)], locomo),
        (
            [
                "bench.nights.dedupe",
                str(data / "dedupe" / "msr-para-train.tsv"),
                str(data / "dedupe" / "SICK_train.txt"),
            ],
            data / "dedupe",
        ),
    ]


def main() -> int:
    """Run them; the exit status is how many failed."""
    named = os.environ.get("SLOWWAVE_BENCH_DATA")
    if not named:
        print("SLOWWAVE_BENCH_DATA is not set: only what ships is measured.")
    failed = 0
    for words, needed in list_commands(Path(named) if named else None):
        print(f"\n== python -m {' '.join(words)}", flush=True)
        if needed is not None and not needed.exists():
            print(f"skipped: no {needed}")
            continue
        failed += subprocess.run([sys.executable, "-m", *words], cwd=ROOT, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    sys.exit(main())
