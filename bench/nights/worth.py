"""Of what the observer keeps, how much is worth it? Held against sentences of real talk that were labelled by hand.

    python -m bench.nights.worth PATH… [--labels data/labelled/worth.tsv] [--json]
    python -m bench.nights.worth PATH… --draw 100 [--seed 0] > claims.jsonl

PATHs are the transcripts that the labelled sentences were drawn from (`bench.nights.draw_sentences`); labels of others
are left out. The plain observer, which asks no model, distils them; a sentence became a claim where a claim from its
message holds it in its summary. Columns: *labelled* sentences; *worth*, the share of them labelled keep (worth
remembering, stands by itself) or context (worth it, but needs its neighbours); *claims*, how many became one; of these
*keep*, *context* and *noise*; *kept*, of the sentences labelled keep those that became a claim; *same*, of the claims
those whose category is the label's. Rows: projects, speakers, labels ("is …"), categories of claims ("as …").
Sentences were drawn evenly by message, so claims of long messages count less than they are many.

`--draw` prints so many claims to be read by hand, evenly by project: `data/labelled/claims_read.tsv` has what was made
of 341, by their hash (useful, context: useful with its neighbours, noise, or wrong out of its context).
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from bench.harness import build_parser, print_rows
from bench.nights.draw_sentences import cut_sentences, hash_parts, name_project, read_shown_messages, share_out
from slowwave.schemas.settings import ObserveSettings
from slowwave.tasks.observe.observe import observe

LABELS = Path(__file__).parents[2] / "data" / "labelled" / "worth.tsv"
WORTH = ("keep", "context")
Result = dict[str, str | int | float | None]


@dataclass(frozen=True)
class Sentence:
    """A labelled sentence, and the category of the claim it became, if any."""

    project: str
    speaker: str
    label: str
    category: str
    became: str | None


def read_labels(path: Path) -> dict[str, tuple[str, str]]:
    """Return label and category of the first reading, by hash."""
    with path.open(encoding="utf-8", newline="") as stream:
        return {row["hash"]: (row["first"], row["first_category"]) for row in csv.DictReader(stream, delimiter="\t")}


def match_sentences(messages: pa.Table, labels: dict[str, tuple[str, str]]) -> list[Sentence]:
    """Return the labelled sentences that stand in the messages, with what the observer made of them."""
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for claim in observe(messages, ObserveSettings()).claims.to_pylist():
        told[claim["message_ids"][0]].append(claim)
    found = {one["hash"]: one for one in cut_sentences(messages) if one["hash"] in labels}
    return [
        Sentence(
            one["project"],
            one["speaker"],
            *labels[key],
            next((c["category"] for c in told[one["message_id"]] if one["text"] in c["summary"]), None),
        )
        for key, one in found.items()
    ]


def draw_claims(messages: pa.Table, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return so many claims of the plain observer, in an order of chance, as evenly by project as there are enough."""
    sources = dict(zip(messages["session_id"].to_pylist(), messages["source"].to_pylist(), strict=True))
    claims = [
        {
            "hash": hash_parts(" ".join(row["summary"].lower().split()), row["message_ids"][0])[:16],
            "project": name_project(row["workspace"] or sources[row["session_id"]]),
            **{name: row[name] for name in ("category", "confidence", "summary", "detail")},
        }
        for row in observe(messages, ObserveSettings()).claims.to_pylist()
    ]
    claims.sort(key=lambda row: hash_parts(seed, row["hash"]))
    left = Counter(share_out(Counter(row["project"] for row in claims), count))
    drawn = []
    for row in claims:
        if left[row["project"]]:
            left[row["project"]] -= 1
            drawn.append(row)
    return drawn


def count_sentences(group: str, mine: Sequence[Sentence]) -> Result:
    """Return the figures of some sentences."""
    claims = [one for one in mine if one.became]
    return {
        "group": group,
        "labelled": len(mine),
        "worth": _share(one.label in WORTH for one in mine),
        "claims": len(claims),
        "keep": _share(one.label == "keep" for one in claims),
        "context": _share(one.label == "context" for one in claims),
        "noise": _share(one.label not in WORTH for one in claims),
        "kept": _share(bool(one.became) for one in mine if one.label == "keep"),
        "same": _share(one.category == one.became for one in claims),
    }


def _share(told: Iterable[bool]) -> float | None:
    values = list(told)
    return sum(values) / len(values) if values else None


def measure_worth(sentences: Sequence[Sentence]) -> list[Result]:
    """Return figures of all sentences, then by project, speaker, label, and category of the claim."""
    results = [count_sentences("all", sentences)]
    for name, word in (("project", ""), ("speaker", ""), ("label", "is "), ("became", "as ")):
        for value in sorted({getattr(one, name) for one in sentences} - {None}):
            mine = [one for one in sentences if getattr(one, name) == value]
            results.append(count_sentences(f"{word}{value}", mine))
    return results


def main() -> None:
    """Measure and print."""
    parser = build_parser(__doc__, "paths…")
    parser.add_argument("--labels", type=Path, default=LABELS, help="labelled sentences, by hash")
    parser.add_argument("--draw", type=int, default=0, help="print so many claims to read, in place of figures")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.draw:
        for one in draw_claims(read_shown_messages(given.paths), given.draw, given.seed):
            print(orjson.dumps(one).decode())
        return
    results = measure_worth(match_sentences(read_shown_messages(given.paths), read_labels(given.labels)))
    print_rows(results, given.as_json)


if __name__ == "__main__":
    main()
