"""Every measurement that the data at hand allows, one after the other: `make bench`.

    SLOWWAVE_BENCH_DATA=/path/to/sets python -m bench.all

Sets that are not there are named and skipped. Each line can be run on its own; all take a path.
"""

import subprocess
import sys

from bench.harness import ROOT, Figures, run

COMMANDS = """
nights.night data/samples
cost
nights.dedupe data/labelled/pairs.tsv
recall.changes data/labelled/amend*.jsonl
recall.changes data/labelled/newer_first.jsonl
recall.weeks data/labelled/weeks/*
recall.objections data/labelled/objections.jsonl data/labelled/pairs_replies.jsonl
nights.checks packages
branches
nights.dead_ends data/labelled/ends
nights.dead_ends data/labelled/again
nights.dead_ends data/labelled/repeats
nights.large_checkout --files 5000 --commits 50
nights.intentions data/labelled/ends
nights.intentions data/labelled/later
nights.intentions data/labelled/repeats
nights.intentions data/labelled/plans/tamsin
nights.intentions data/labelled/plans/jonas
nights.intentions data/labelled/plans/lin
nights.intentions data/labelled/plans/fergus
nights.intentions data/labelled/plans/mireia
nights.newcomer data/labelled/newcomers/*/
nights.topics data/labelled/topics.tsv
recall.blocks data/labelled/decisions.jsonl data/labelled/decisions_unseen.jsonl data/questions.toml
nights.worth data/samples
recall.sessions data/labelled/decisions_*.jsonl
recall.evidence data/labelled/assistant_*.jsonl --together
recall.evidence data/labelled/fresh/*.jsonl --together
recall.precision data/labelled/precision.jsonl
recall.languages data/labelled/languages_*.jsonl
recall.changes changes/calm_coding.jsonl changes/facts.jsonl changes/vehicle.jsonl
nights.observe locomo/locomo_open.json
nights.worth coding/chef_chopsky.jsonl fixtures/pi/large-session.jsonl changes/calm_coding.jsonl
recall.locomo locomo/locomo_open.json
recall.sessions locomo/locomo_open.json
recall.blocks locomo/locomo_open.json --sample 150
recall.outline locomo/locomo_open.json
recall.blocks changes/facts.jsonl changes/vehicle.jsonl
recall.blocks data/labelled/coding.queries.json --talks coding/chef_chopsky.jsonl fixtures/pi/large-session.jsonl
nights.dedupe dedupe/msr-para-train.tsv dedupe/SICK_train.txt
"""
"""A measurement with its words a line; data is looked for here and in the folder of the public sets."""


def list_commands() -> list[list[str]]:
    """Return the words of each command, patterns of files that ship filled in."""
    lines = (line.split() for line in COMMANDS.strip().splitlines())
    return [[word for given in words for word in _fill_in(given)] for words in lines]


def _fill_in(word: str) -> list[str]:
    return (
        sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(word))
        if "*" in word
        else [word]
    )


def measure() -> Figures:
    """Run them; the figures are how each ended."""
    ended = []
    for name, *words in list_commands():
        print(f"\n== python -m bench.{name} {' '.join(words)}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", f"bench.{name}", *words], cwd=ROOT, check=False
        )
        ended.append(
            {"measurement": " ".join([name, *words[:1]]), "status": done.returncode}
        )
    return Figures(ended, failed=any(row["status"] for row in ended))


if __name__ == "__main__":
    run(measure)
