"""Findings about a memory: what it says twice, what contradicts itself, what a later session changed, what nobody said.

The night's own methods, over the entries as if they were claims: `dedupe` for what is one, the classifier of changes
at the probability from which a claim is retired. What it finds from LIKELY on is shown to a person, and never put in
a patch: notes lack the talk around them, by which a change is told, so hardly any pair of notes alone gets to .9.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa

from slowwave.doctor.entries import Entry
from slowwave.engines.encoders.protocol import Encoder
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import DedupeSettings
from slowwave.schemas.tables import OBSERVATIONS
from slowwave.schemas.vocabulary import LedgerKind, Status
from slowwave.tasks.dedupe.dedupe import dedupe
from slowwave.tasks.observe.categories import find_coding_category
from slowwave.tasks.supersede.supersede import KINDS, supersede

KEY = "doctor"
LIKELY = 0.8
"""Probability of a change from which it is shown. In 950 entries of this project's own pages there is none."""


@dataclass(frozen=True)
class Finding:
    """One thing to look at."""

    kind: str
    """duplicate, contradiction, changed, unsupported."""
    entry: Entry
    why: str
    other: Entry | None = None
    """The entry it repeats or contradicts."""
    claim: dict[str, Any] | None = None
    """The store's claim that says otherwise: a row of OBSERVATIONS."""
    sure: bool = True
    """Whether it may be acted upon."""


def build_rows(entries: Sequence[Entry], workspace: str | None, encoder: Encoder | None) -> pa.Table:
    """Return the entries as rows of OBSERVATIONS; a file, and each day that it names, is a session of its own."""
    ids = [compute_content_id(str(e.path), str(e.line), str(n), e.text) for n, e in enumerate(entries)]
    vectors = encoder.encode([e.text for e in entries]).tolist() if encoder and entries else [None] * len(entries)
    state: dict[str, Any] = {"pack": "coding", "status": Status.ACTIVE, "observer": KEY, "step_key": KEY}
    empty: dict[str, Any] = {"files": [], "message_ids": [], "keywords": []}
    rows = [
        {
            **dict.fromkeys(OBSERVATIONS.schema.names),
            **state,
            **empty,
            "observation_id": oid,
            "session_id": f"{e.path} {e.at:%Y-%m-%d}" if e.at and e.dated else str(e.path),
            "workspace": workspace,
            "summary": e.text,
            "quote": e.text,
            "category": find_coding_category(e.text, human=True),
            "confidence": 1.0,
            "observed_at": e.at + timedelta(microseconds=n) if e.at else None,  # else the later stands lower
            "evidence_sessions": [str(e.path)],
            "vector": vector,
        }
        for n, (oid, e, vector) in enumerate(zip(ids, entries, vectors, strict=True))
    ]
    return pa.Table.from_pylist(rows, schema=OBSERVATIONS.schema)


def check_entries(entries: Sequence[Entry], rows: pa.Table, known: pa.Table) -> list[Finding]:
    """Return what is said twice or changed, in order of path and place.

    Args:
        entries: what the memory says.
        rows: the same from `build_rows`.
        known: rows of OBSERVATIONS of the store, of the memory's workspace, active or superseded by another claim.

    An entry that is one with a claim which a later session changed is told as changed by that; so is one that the
    classifier finds changed by a claim of a later time than its own. Entries contradict one another where it finds so
    of two; where they are not dated nobody knows which holds.
    """
    ids = rows["observation_id"].to_pylist()
    place = {oid: n for n, oid in enumerate(ids)}
    claims = {row["observation_id"]: row for row in known.to_pylist()}
    found = _find_duplicates(entries, rows, place)
    repeated = {finding.entry for finding in found}
    found += _find_taken_back(entries, rows, known, place, claims)
    told = {finding.entry for finding in found}
    for loser, winner, why, sure in _find_changes(pa.concat_tables([rows, known])):
        if loser not in place or entries[place[loser]] in told:
            continue
        entry = entries[place[loser]]
        if winner in claims and claims[winner]["status"] == Status.ACTIVE:
            found.append(Finding("changed", entry, why, claim=claims[winner], sure=sure))
        elif winner in place and entries[place[winner]] not in repeated:
            found.append(Finding("contradiction", entry, why, other=entries[place[winner]], sure=sure))
        told.add(entry)
    return sorted(found, key=lambda finding: (str(finding.entry.path), finding.entry.line, finding.kind))


def _find_duplicates(entries: Sequence[Entry], rows: pa.Table, place: dict[str, int]) -> list[Finding]:
    """Return the entries of each group but the one that stands first, which the others repeat."""
    groups: dict[str, dict[str, str]] = defaultdict(dict)
    for merge in dedupe(rows, rows.slice(0, 0), DedupeSettings(), KEY).merges.to_pylist():
        groups[merge["winner_id"]][merge["loser_id"]] = merge["reason"] or ""
    found = []
    for winner, reasons in groups.items():
        first, *rest = sorted((winner, *reasons), key=lambda oid: (entries[place[oid]].path, place[oid]))
        for oid in rest:  # of the winner, why the first is one with it
            why = reasons.get(oid) or reasons[first]
            found.append(Finding("duplicate", entries[place[oid]], why, other=entries[place[first]]))
    return found


def _find_taken_back(
    entries: Sequence[Entry], rows: pa.Table, known: pa.Table, place: dict[str, int], claims: dict[str, dict[str, Any]]
) -> list[Finding]:
    """Return the entries that say what a claim of the store said until a later session changed it."""
    merges = dedupe(rows, known, DedupeSettings(), KEY).merges.to_pylist() if known.num_rows else []
    found = []
    for merge in merges:
        old = claims.get(merge["winner_id"])
        heir = claims.get(old["superseded_by"]) if old else None
        if heir and merge["loser_id"] in place and heir["status"] == Status.ACTIVE:
            entry = entries[place[merge["loser_id"]]]
            found.append(Finding("changed", entry, f"a later session says otherwise ({merge['reason']})", claim=heir))
    return found


def _find_changes(rows: pa.Table) -> list[tuple[str, str, str, bool]]:
    """Return (earlier, later, why, whether the classifier is sure) of the pairs that are likely a change."""
    merges = supersede(rows, KEY, affirmed={}).merges.to_pylist()
    likely = [m for m in merges if m["kind"] in KINDS and dict(m["scores"])["likely"] >= LIKELY]
    return [
        (m["loser_id"], m["winner_id"], (m["reason"] or "").split(" | ")[0], m["kind"] == LedgerKind.SUPERSESSION)
        for m in likely
    ]
