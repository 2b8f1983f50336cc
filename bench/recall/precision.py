"""Does recall return what must be found, and nothing that must not? Single statements, with aliases and look-alikes.

    python -m bench.recall.precision data/labelled/precision.jsonl [--store DIR] [--encoder NAME] [--json]

FILE holds statements; FILE's `.queries.json` holds for each question what must be found (`gold`), must not be found
(`never`) and may be found (`may`). A case passes if all of `gold` and none of `never` are returned; one that nothing
answers (*absent*) passes if nothing is returned, or the answer says that it is unsure. *recall* is the share of `gold`
that is returned, *precision* that of `gold` among what is returned without `may`. A row a way to ask: recall as it
stops by itself, up to 20 hits (`everything`), and as a hook asks. Constants were chosen on the half *open*; *test* was
looked at only afterwards. About 15 seconds.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from bench.harness import ENCODER, SCRATCH, Figures, Row, average, run
from bench.recall.talks import QUERIES, read_talks
from slowwave import Memory
from slowwave.recall.hits import Hits

ABSENT = "absent"
"""Category of the questions that nothing answers."""
MOST = 20
"""Hits that are asked for."""
WAYS: dict[str, Callable[[Memory, str], Hits]] = {
    "recall": lambda memory, query: memory.recall(query, MOST),
    "everything": lambda memory, query: memory.recall(query, MOST, everything=True),
    "automatic": lambda memory, query: memory.recall(query, MOST, automatic=True),
}


def measure(file: Path, *, store: Path = SCRATCH, encoder: str = ENCODER) -> Figures:
    """Return a row a way to ask, a half and a category."""
    (talk,) = read_talks(file)
    cases = orjson.loads(file.with_suffix(QUERIES).read_bytes())
    found = list(ask_cases(talk.open(store, encoder), cases))
    of_all = ({**row, "category": "all"} for row in found if row["category"] != ABSENT)
    rows = average([*of_all, *found], "way", "half", "category", count="cases")
    return Figures(rows, "what is found, and what must not be")


def ask_cases(memory: Memory, cases: list[Row]) -> Iterator[Row]:
    """Yield the result of each case, a row a way to ask."""
    for name, ask in WAYS.items():
        for case in cases:
            hits = ask(memory, case["query"])
            ids = {source.message for hit in hits for source in hit.sources}
            gold, never = set(case["gold"]), set(case["never"])
            is_absent = case["category"] == ABSENT
            passes = gold <= ids and not ids & never
            yield {
                "way": name,
                "half": case["half"],
                "category": case["category"],
                "passed": not hits.confident if is_absent else passes,
                "recall": len(gold & ids) / len(gold) if gold else None,
                "precision": len(gold & ids) / max(1, len(ids - set(case["may"])))
                if gold
                else None,
                "hits": len(hits),
            }


if __name__ == "__main__":
    run(measure)
