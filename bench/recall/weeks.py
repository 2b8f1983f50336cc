"""Twelve weeks of one person: what changed, what was taken back, what was only confirmed, and what merely looks alike.

    python -m bench.recall.weeks FOLDER… [--misses] [--encoder NAME] [--json]

FOLDER/NAME.jsonl has a writer's messages in the generic format, FOLDER/NAME.pairs.json marked pairs of messages:
`kind` (changed, retracted, affirmed or alike), `earlier`, `later`, `query`, and `restores` of a change that brings back
an old value. One night reads all of a writer's messages.

Columns, of the pairs of a kind: *later first*, the first of ten hits that cites either message cites the later one;
*old alone*, the first five hits have the earlier message, not the later one, and nothing marks the earlier one;
*retired* and *doubted*, a claim of the earlier message is certainly or perhaps changed by one of the later message; *by
any*, by a claim of any other message.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import orjson

from bench.harness import ENCODER, SCRATCH, Figures, Row, run
from bench.recall.changes import run_night_over
from slowwave import Memory
from slowwave.recall.hits import Hit
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MERGES, MESSAGES
from slowwave.schemas.vocabulary import LEADS, LedgerKind

HITS, FIRST = 10, 5
Pair = Mapping[str, Any]


@dataclass(frozen=True)
class Links:
    """What the night found to be changed, by the transcript's own ids of the messages."""

    changed: Mapping[str, Mapping[str, bool]]
    """For each message those whose claims changed a claim of it, and whether certainly."""

    def find(self, earlier: str, later: str | None = None) -> bool | None:
        """Return True if another message (or any) certainly changed one, False if it perhaps did, else None."""
        by = self.changed.get(earlier, {})
        found = by.values() if later is None else [by[later]] if later in by else []
        return any(found) if found else None


def measure(
    folders: Sequence[Path],
    *,
    misses: bool = False,
    store: Path = SCRATCH,
    encoder: str = ENCODER,
) -> Figures:
    """Return a row for each writer and kind, then one for each kind of all writers."""
    found: dict[tuple[str, str], list[dict[str, bool]]] = defaultdict(list)
    missed = []
    for folder in folders:
        talk = folder / f"{folder.name}.jsonl"
        pairs = orjson.loads((folder / f"{folder.name}.pairs.json").read_bytes())
        settings = Settings(store=store / folder.name, encoder=encoder)
        run_night_over(talk.read_bytes().splitlines(), folder.name, settings)
        memory = Memory.open(settings.store)
        links = read_links(memory)
        for pair in pairs:
            checks = ask_pair(memory, pair, links)
            for writer in (folder.name, "all"):
                found[writer, _name_kind(pair)].append(checks)
            if misses and is_wrong(pair, checks):
                missed.append(
                    f"{folder.name} {pair['kind']}: {pair['old']} → {pair['new']} {checks}"
                )
    ordered = sorted(found, key=lambda row: row[0] == "all")
    rows = [_sum_up(*row, found[row]) for row in ordered]
    return Figures(rows, "twelve weeks, a night each", missed)


def _name_kind(pair: Pair) -> str:
    return "restored" if pair.get("restores") else pair["kind"]


def _sum_up(writer: str, kind: str, checks: Sequence[Mapping[str, bool]]) -> Row:
    return {
        "writer": writer,
        "kind": kind,
        "pairs": len(checks),
        **{name: sum(check[name] for check in checks) for name in checks[0]},
    }


def read_links(memory: Memory) -> Links:
    """Return the changes of the ledger, between the messages of their claims."""
    snapshot = memory.snapshot
    native = {
        row["message_id"]: row["native_id"]
        for row in snapshot.read(MESSAGES, ["message_id", "native_id"]).to_pylist()
    }
    said = {
        row["claim_id"]: [native[key] for key in row["message_ids"]]
        for row in snapshot.read(CLAIMS, ["claim_id", "message_ids"]).to_pylist()
    }
    changed: dict[str, dict[str, bool]] = defaultdict(dict)
    columns = ["kind", "rule", "from_id", "into_id", "undone"]
    for row in snapshot.read(MERGES, columns).to_pylist():
        surely = row["kind"] == LedgerKind.SUPERSESSION
        perhaps = row["kind"] == LedgerKind.DOUBT and row["rule"] != LEADS
        if row["undone"] or not (surely or perhaps):
            continue
        for earlier, later in product(said[row["from_id"]], said[row["into_id"]]):
            known = changed[earlier].get(later, False)
            changed[earlier][later] = surely or known
    return Links(changed)


def ask_pair(memory: Memory, pair: Pair, links: Links) -> dict[str, bool]:
    """Return the hits' and the ledger's checks of a pair by name."""
    hits = memory.recall(
        pair["query"], k=HITS, everything=True, workspace=pair.get("workspace")
    )
    told = [(hit, cited(hit)) for hit in hits]
    by_later = links.find(pair["earlier"], pair["later"])
    by_any = links.find(pair["earlier"])
    return {
        "later first": _is_later_first(pair, (ids for _, ids in told)),
        "old alone": _is_old_alone(pair, told[:FIRST]),
        "retired": by_later is True,
        "doubted": by_later is False,
        "retired by any": by_any is True,
        "doubted by any": by_any is False,
    }


def cited(hit: Hit) -> frozenset[str]:
    """Return the transcript's own ids of the messages that a hit cites."""
    return frozenset(source.message for source in hit.sources)


def _is_later_first(pair: Pair, told: Iterable[frozenset[str]]) -> bool:
    firsts = (
        pair["later"] in ids
        for ids in told
        if not ids.isdisjoint((pair["later"], pair["earlier"]))
    )
    return next(firsts, False)


def _is_old_alone(pair: Pair, told: Sequence[tuple[Hit, frozenset[str]]]) -> bool:
    earlier = [hit for hit, ids in told if pair["earlier"] in ids]
    return (
        bool(earlier)
        and not any(pair["later"] in ids for _, ids in told)
        and not any(map(is_marked, earlier))
    )


def is_marked(hit: Hit) -> bool:
    """Return True if a hit says that a later claim changed it, or perhaps did."""
    return (
        hit.status != "active"
        or hit.perhaps_superseded_by is not None
        or bool(hit.changes)
    )


def is_wrong(pair: Pair, checks: Mapping[str, bool]) -> bool:
    """Return True if a pair's figures are not those that its kind asks for."""
    if pair["kind"] in ("changed", "retracted"):
        return not checks["later first"] or checks["old alone"]
    return checks["retired"] or checks["doubted"]


if __name__ == "__main__":
    run(measure)
