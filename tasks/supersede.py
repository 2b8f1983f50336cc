"""Retires claims that a later claim changes: OBSERVATIONS in, the rows that changed and MERGES rows out. No model.

Candidates (vector neighbours, shared rare words) within one workspace and one speaker's talk of themselves → is the
later one about the same thing, and does it say so (`tasks.amending.judge`) → the final word within a session, the
newer across sessions unless the older was said again since. `unsupersede` takes one back.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.ids import content_id
from schemas.observations import MERGES, OBSERVATIONS
from schemas.settings import DedupeSettings
from tasks.amending.judge import Amending, Said, Verdict, amends, read_said, word_weights
from tasks.deduping.candidates import Pairs, unique_pairs, vector_pairs, word_pairs
from tasks.deduping.pairs import Undone, unit_vectors
from tasks.deduping.rows import by_id, only_row, with_values

VERSION = "supersede/1"
NEAREST = 20
"""Nearest claims by vector that are judged: a change is put in other words more often than a repetition is."""
MAX_RETIRED = 8
"""Claims that one may retire, the likest first: a rival that retires more is about something general."""
QUOTED = 160
"""Characters of each quote in the ledger's reason."""


@dataclass(frozen=True)
class Superseded:
    """What changed: rows of OBSERVATIONS to merge in, and rows of MERGES for the ledger."""

    observations: pa.Table
    merges: pa.Table


@dataclass(frozen=True)
class Change:
    """The row `loser` is retired by the row `winner`, from a moment on."""

    loser: int
    winner: int
    at: datetime
    verdict: Verdict


def supersede(
    active: pa.Table,
    settings: DedupeSettings,
    step_key: str,
    *,
    affirmed: Mapping[str, datetime] | None = None,
    undone: Undone = frozenset(),
) -> Superseded:
    """Marks each active claim that a later one changes.

    active: rows of OBSERVATIONS; those that are not active are left alone, and so are those without `observed_at`,
    for which no order is known. affirmed: observation_id -> when it was last said, from its duplicates (see
    `affirmed_at`); undone: (loser_id, winner_id) taken back, never made again.
    Returns the rows retired, with status, reason, superseded_by and valid_to set, and the other columns as they came.
    Rows of the ledger bear both quotes. Equal input in any order gives equal output.
    """
    table = by_id(active.filter(pc.and_(pc.equal(active["status"], "active"), pc.is_valid(active["observed_at"]))))
    if table.num_rows < 2:
        return Superseded(OBSERVATIONS.empty(), MERGES.empty())
    changes = _chosen(_changes(table, settings, affirmed or {}, undone))
    return Superseded(_retired(table, changes), _ledger(table, changes, step_key))


def affirmed_at(observations: pa.Table) -> dict[str, datetime]:
    """observation_id -> when it was last said, for claims that duplicates repeat.

    observations: rows of OBSERVATIONS with canonical_id and observed_at; those that repeat nothing are passed over.
    """
    rows = observations.filter(
        pc.and_(pc.is_valid(observations["canonical_id"]), pc.is_valid(observations["observed_at"]))
    )
    last = rows.group_by("canonical_id").aggregate([("observed_at", "max")])
    return dict(zip(last["canonical_id"].to_pylist(), last["observed_at_max"].to_pylist(), strict=True))


def unsupersede(observations: pa.Table, merges: pa.Table, merge_id: str) -> Superseded:
    """Takes a supersession back: the loser is active again, and its time has no end.

    observations: the loser at least. Returns it and the merge with `undone` set, no rows where it is set already;
    raises KeyError where there is no such supersession.
    """
    merge = merges.filter(pc.and_(pc.equal(merges["merge_id"], merge_id), pc.equal(merges["kind"], "supersession")))
    if not merge.num_rows:
        raise KeyError(f"no supersession {merge_id!r}: `slowwave merges` lists them")
    if merge["undone"][0].as_py():
        return Superseded(OBSERVATIONS.empty(), MERGES.empty())
    loser = only_row(observations, merge["loser_id"][0].as_py())
    loser = with_values(loser, status="active", reason=None, superseded_by=None, valid_to=None)
    return Superseded(loser, with_values(merge, undone=True))


def _changes(
    table: pa.Table, settings: DedupeSettings, affirmed: Mapping[str, datetime], undone: Undone
) -> list[Change]:
    """Every pair of which the later changes the earlier; the other way round where the earlier was said again since."""
    rows = table.select(["observation_id", "summary", "speaker", "category", "observed_at"]).to_pylist()
    said = [read_said(r["summary"], r["speaker"], r["category"]) for r in rows]
    weights = word_weights(s.claim for s in said)
    vectors, has = unit_vectors(table)
    pairs = unique_pairs(
        np.concatenate(
            [
                word_pairs([s.claim for s in said]),
                vector_pairs(vectors, has, max(NEAREST, settings.candidates), Amending.least_cosine),
            ]
        )
    )
    back = {frozenset(pair) for pair in undone}
    found = []
    for a, b in _in_scope(pairs, table, said).tolist():
        old, new = (a, b) if rows[a]["observed_at"] < rows[b]["observed_at"] else (b, a)
        if rows[old]["observed_at"] == rows[new]["observed_at"]:
            continue
        if frozenset((rows[a]["observation_id"], rows[b]["observation_id"])) in back:
            continue
        cosine = float(vectors[old] @ vectors[new]) if has[old] and has[new] else None
        verdict = amends(said[old], said[new], cosine, weights, Amending())
        if verdict is not None:
            found.append(_change(old, new, rows, affirmed, verdict))
    return found


def _change(
    old: int, new: int, rows: list[dict[str, Any]], affirmed: Mapping[str, datetime], verdict: Verdict
) -> Change:
    again = affirmed.get(rows[old]["observation_id"])
    at: datetime = rows[new]["observed_at"]
    if again is None or again <= max(at, affirmed.get(rows[new]["observation_id"], at)):
        return Change(old, new, at, verdict)
    return Change(
        new, old, again, Verdict("reaffirmed", verdict.scores, f"the earlier was said again: {verdict.reason}")
    )


def _in_scope(pairs: Pairs, table: pa.Table, said: list[Said]) -> Pairs:
    """Pairs of one workspace, not of two named people; what somebody says of themselves may cross workspaces.

    One without a name is the assistant or the only person there: its echo of a claim goes with the claim.
    """
    space, voice = _codes(table["workspace"]), _codes(table["speaker"])
    personal = np.asarray(pc.equal(table["pack"], "personal"), dtype=bool)
    own = np.array([s.claim.first_person for s in said], dtype=bool)
    a, b = pairs[:, 0], pairs[:, 1]
    one_space, one_voice = space[a] == space[b], voice[a] == voice[b]
    of_self = personal[a] & personal[b] & own[a] & own[b] & one_voice
    echo = ((voice[a] < 0) | (voice[b] < 0)) & ~(own[a] & own[b])
    work = ~(personal[a] & personal[b]) & ~(own[a] & own[b])
    kept: Pairs = pairs[of_self | (one_space & (one_voice | echo | work))]
    return kept


def _codes(column: pa.ChunkedArray) -> Any:
    """A whole number for each distinct value, -1 for none."""
    return column.combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)


def _chosen(changes: list[Change]) -> list[Change]:
    """One change a loser, the first in time; no winner retires more than MAX_RETIRED, the likest first."""
    first: dict[int, Change] = {}
    for change in changes:
        held = first.get(change.loser)
        if held is None or (change.at, -change.verdict.score, change.winner) < (
            held.at,
            -held.verdict.score,
            held.winner,
        ):
            first[change.loser] = change
    by_winner: dict[int, list[Change]] = defaultdict(list)
    for change in first.values():
        by_winner[change.winner].append(change)
    kept = [
        c
        for group in by_winner.values()
        for c in sorted(group, key=lambda c: (-c.verdict.score, c.loser))[:MAX_RETIRED]
    ]
    return sorted(kept, key=lambda c: c.loser)


def _retired(table: pa.Table, changes: list[Change]) -> pa.Table:
    ids = table["observation_id"].to_pylist()
    rows = [
        with_values(
            table.slice(c.loser, 1),
            status="superseded",
            reason=f"changed by a later claim: {c.verdict.reason}",
            superseded_by=ids[c.winner],
            valid_to=c.at,
        )
        for c in changes
    ]
    return pa.concat_tables(rows) if rows else OBSERVATIONS.empty()


def _ledger(table: pa.Table, changes: list[Change], step_key: str) -> pa.Table:
    ids, quotes = table["observation_id"].to_pylist(), table["quote"].to_pylist()
    rows = [
        {
            "merge_id": content_id(ids[c.loser], ids[c.winner], c.verdict.rule),
            "kind": "supersession",
            "loser_id": ids[c.loser],
            "winner_id": ids[c.winner],
            "rule": c.verdict.rule,
            "scores": sorted(c.verdict.scores.items()),
            "reason": f"{c.verdict.reason} | “{quotes[c.loser][:QUOTED]}” → “{quotes[c.winner][:QUOTED]}”",
            "undone": False,
            "step_key": step_key,
        }
        for c in changes
    ]
    return pa.Table.from_pylist(rows, schema=MERGES.schema)
