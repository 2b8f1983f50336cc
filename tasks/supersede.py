"""Retires claims that a later claim changes: OBSERVATIONS in, the rows that changed and MERGES rows out. No model.

Candidates (vector neighbours, shared rare words) within one workspace and one speaker's talk of themselves → is the
later one about the same thing, and does it say so (`tasks.amending.judge`) → the final word within a session, the
newer across sessions unless the older was said again since. What is retired stays so until the older is said again or
the newer is withdrawn. `unsupersede` takes one back.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.ids import content_id
from schemas.observations import MERGES, OBSERVATIONS
from schemas.settings import DedupeSettings
from tasks.amending.cues import Strength
from tasks.amending.judge import (
    APART,
    WITHIN,
    Amending,
    Said,
    Verdict,
    Weights,
    alike_by,
    amends,
    echoes,
    likeness,
    read_said,
    values_of,
    word_weights,
)
from tasks.deduping.candidates import Floats, Pairs, unique_pairs, vector_pairs, word_pairs
from tasks.deduping.pairs import Undone, unit_vectors
from tasks.deduping.rows import by_id, only_row, with_values

VERSION = "supersede/1"
NEAREST = 20
"""Nearest claims by vector that are judged: a change is put in other words more often than a repetition is."""
APART_BY = 0.15
"""Likeness by which the likest session has to lead."""
CLOSE = 0.25
"""Likeness that a claim may be behind the likest, and still be what is meant: it is said in two ways, mostly."""
MAX_RETIRED = 8
"""Claims that one may retire, the likest first: a rival that retires more is about something general."""
QUOTED = 160
"""Characters of each quote in the ledger's reason."""
JUDGED = ["observation_id", "session_id", "summary", "detail", "speaker", "category"]
ACTIVE = {"status": "active", "reason": None, "superseded_by": None, "valid_to": None}


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


ScoredPair = tuple[int, int, float | None, float]
"""Two rows, the cosine of their vectors (None without vectors), their likeness."""


@dataclass(frozen=True)
class Nearest:
    """Where a claim's matter was spoken of before: the session that has the likest claim."""

    session: str
    alike: float
    once: bool
    """Whether no other session has one about as like: what comes up all the time is no decision to be changed."""

    @classmethod
    def of(cls, sessions: Mapping[str, float]) -> "Nearest":
        """From session -> likeness of its likest claim."""
        alike, session = max((alike, session) for session, alike in sessions.items())
        return cls(session, alike, sum(other > alike - APART_BY for other in sessions.values()) == 1)


@dataclass(frozen=True)
class Held:
    """The claims that may change each other, and what is decided of them already."""

    table: pa.Table
    """In order of id: the active claims, and those that another retired."""
    times: list[datetime]
    """When each was first said."""
    last: list[datetime]
    """When each was last said, by itself or by a duplicate."""
    retired: dict[int, int]
    """Row -> the row that retired it."""
    reopened: frozenset[int]
    """Retired rows whose successor is gone."""

    def successor(self, row: int) -> int:
        """The row at the end of the chain of those that retired one another."""
        while row in self.retired:
            row = self.retired[row]
        return row


def supersede(
    observations: pa.Table,
    settings: DedupeSettings,
    step_key: str,
    *,
    affirmed: Mapping[str, datetime] | None = None,
    undone: Undone = frozenset(),
) -> Superseded:
    """Marks each active claim that a later one changes, and frees those whose change no longer stands.

    observations: rows of OBSERVATIONS; those neither active nor retired by another are left alone, and so are those
    without `observed_at`, for which no order is known. affirmed: observation_id -> when it was last said, by default
    from the duplicates among the rows (`affirmed_at`); undone: (loser_id, winner_id) taken back, never made again.
    Returns the rows that changed, with status, reason, superseded_by and valid_to set, and the other columns as they
    came. Rows of the ledger bear both quotes. Equal input in any order gives equal output, its own output nothing.
    """
    held = held_claims(observations, affirmed_at(observations) if affirmed is None else affirmed)
    if held.table.num_rows < 2 and not held.reopened:
        return Superseded(OBSERVATIONS.empty(), MERGES.empty())
    back = {frozenset(pair) for pair in undone}
    said_again = _said_again(held, back)
    freed = held.reopened | {change.winner for change in said_again}
    changes = _chosen([*said_again, *_changes(held, freed, settings, back)])
    return Superseded(_written(held.table, changes, freed), _ledger(held.table, changes, step_key))


def held_claims(observations: pa.Table, affirmed: Mapping[str, datetime]) -> Held:
    """The claims among the rows that are active, or retired by another that is still there."""
    amended = pc.and_(pc.equal(observations["status"], "superseded"), pc.is_valid(observations["superseded_by"]))
    ours = pc.or_(pc.equal(observations["status"], "active"), amended)
    table = by_id(observations.filter(pc.and_(ours, pc.is_valid(observations["observed_at"]))))
    ids, times = table["observation_id"].to_pylist(), table["observed_at"].to_pylist()
    place = {oid: row for row, oid in enumerate(ids)}
    place |= {oid: place[of] for oid, of in _duplicates(observations) if of in place and oid not in place}
    winners = [
        row["superseded_by"] if row["status"] == "superseded" else None
        for row in table.select(["superseded_by", "status"]).to_pylist()
    ]
    return Held(
        table=table,
        times=times,
        last=[max(at, affirmed.get(oid, at)) for oid, at in zip(ids, times, strict=True)],
        retired={row: place[w] for row, w in enumerate(winners) if w is not None and w in place},
        reopened=frozenset(row for row, w in enumerate(winners) if w is not None and w not in place),
    )


def affirmed_at(observations: pa.Table) -> dict[str, datetime]:
    """observation_id -> when it was last said, for claims that duplicates repeat.

    observations: rows of OBSERVATIONS with status, canonical_id and observed_at; only duplicates count.
    """
    repeats = pc.and_(pc.equal(observations["status"], "duplicate"), pc.is_valid(observations["observed_at"]))
    last = observations.filter(repeats).group_by("canonical_id").aggregate([("observed_at", "max")])
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
    return Superseded(with_values(loser, **ACTIVE), with_values(merge, undone=True))


def _duplicates(observations: pa.Table) -> Iterator[tuple[str, str]]:
    """(observation_id, canonical_id) of the duplicates."""
    rows = observations.filter(pc.equal(observations["status"], "duplicate"))
    yield from zip(rows["observation_id"].to_pylist(), rows["canonical_id"].to_pylist(), strict=True)


def _said_again(held: Held, back: set[frozenset[str]]) -> list[Change]:
    """Where a retired claim was said again since: it retires what had taken its place."""
    ids = held.table["observation_id"].to_pylist()
    found = []
    for row in held.retired:
        now = held.successor(row)
        if held.last[row] > held.last[now] and frozenset((ids[row], ids[now])) not in back:
            verdict = Verdict("reaffirmed", {"shared": 1.0}, "the earlier was said again")
            found.append(Change(now, row, held.last[row], verdict))
    return found


def _changes(held: Held, freed: Set[int], settings: DedupeSettings, back: set[frozenset[str]]) -> list[Change]:
    """Every pair of which the one last said changes the other, among the claims not retired already.

    What echoes a claim in its session goes with it: the assistant's "Noted, port 7070".
    """
    rows = held.table.select(JUDGED).to_pylist()
    said = [read_said(r["summary"], r["speaker"], r["category"], r["detail"]) for r in rows]
    weights = word_weights(s.claim for s in said)
    found: list[Change] = []
    echo: dict[int, set[int]] = defaultdict(set)
    pairs = _scored_pairs(held, said, weights, settings)
    nearest, turn = _nearest(held, rows, pairs), _turns(held, rows)
    for a, b, cosine, alike in pairs:
        one_session = rows[a]["session_id"] == rows[b]["session_id"]
        next_to = one_session and abs(turn[a] - turn[b]) == 1
        same = next_to and bool(values_of(said[a].claim) & values_of(said[b].claim))
        if same or (one_session and echoes(said[a], said[b], cosine, weights, Amending())):
            echo[a].add(b)
            echo[b].add(a)
        old, new = (a, b) if held.times[a] < held.times[b] else (b, a)
        loser, winner = (new, old) if held.last[old] > held.last[new] else (old, new)
        if held.times[old] == held.times[new] or (loser in held.retired and loser not in freed):
            continue
        if frozenset((rows[a]["observation_id"], rows[b]["observation_id"])) in back:
            continue
        once = not one_session and nearest[new].session == rows[old]["session_id"] and nearest[new].once
        limits = WITHIN if one_session else Amending()
        limits = APART if once and alike >= nearest[new].alike - CLOSE else limits
        verdict = amends(said[old], said[new], cosine, weights, limits)
        if verdict is not None:
            found.append(_change(held, loser, winner, verdict))
    return [*found, *_echoed(held, said, found, echo, back)]


def _scored_pairs(held: Held, said: list[Said], weights: Weights, settings: DedupeSettings) -> list[ScoredPair]:
    """The pairs worth judging: rows, cosine (None without vectors), likeness."""
    vectors, has = unit_vectors(held.table)
    pairs = _in_scope(_pairs(said, vectors, has, settings), held.table, said)
    both = has[pairs[:, 0]] & has[pairs[:, 1]]
    cosines = np.einsum("ij,ij->i", vectors[pairs[:, 0]], vectors[pairs[:, 1]])
    scored = []
    for (a, b), known, near in zip(pairs.tolist(), both.tolist(), cosines.tolist(), strict=True):
        cosine = near if known else None
        scored.append((a, b, cosine, alike_by(likeness(said[a].claim, said[b].claim, cosine, weights))))
    return scored


def _turns(held: Held, rows: list[dict[str, Any]]) -> list[int]:
    """Row -> its message's place among those of its session that a claim was made in."""
    times: dict[str, set[datetime]] = defaultdict(set)
    for row, at in zip(rows, held.times, strict=True):
        times[row["session_id"]].add(at)
    place = {session: {at: n for n, at in enumerate(sorted(some))} for session, some in times.items()}
    return [place[row["session_id"]][at] for row, at in zip(rows, held.times, strict=True)]


def _nearest(held: Held, rows: list[dict[str, Any]], pairs: list[ScoredPair]) -> dict[int, Nearest]:
    """Row -> the likest of the claims made before it in another session."""
    by_session: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for a, b, _, alike in pairs:
        if rows[a]["session_id"] != rows[b]["session_id"] and held.times[a] != held.times[b]:
            old, new = (a, b) if held.times[a] < held.times[b] else (b, a)
            sessions = by_session[new]
            sessions[rows[old]["session_id"]] = max(sessions[rows[old]["session_id"]], alike)
    return {row: Nearest.of(sessions) for row, sessions in by_session.items()}


def _echoed(
    held: Held, said: list[Said], changes: list[Change], echo: Mapping[int, Set[int]], back: set[frozenset[str]]
) -> Iterator[Change]:
    """Changes of what echoes a loser and was last said before the winner, where no other change retires it.

    What has none of the loser's words that the winner lacks echoes something else.
    """
    ids = held.table["observation_id"].to_pylist()
    losers = {c.loser for c in changes} | held.retired.keys()
    for change in changes:
        gone = set(said[change.loser].claim.words) - set(said[change.winner].claim.words)
        for row in sorted(echo.get(change.loser, set()) - losers - {change.winner}):
            if gone.isdisjoint(said[row].claim.words) or said[row].cue.strength is Strength.STATED:
                continue
            if held.last[row] < change.at and frozenset((ids[row], ids[change.winner])) not in back:
                verdict = Verdict("echo", change.verdict.scores, f"with what it echoes: {change.verdict.reason}")
                yield Change(row, change.winner, change.at, verdict)


def _pairs(said: list[Said], vectors: Floats, has: npt.NDArray[np.bool_], settings: DedupeSettings) -> Pairs:
    near = vector_pairs(vectors, has, max(NEAREST, settings.candidates), Amending.least_cosine)
    heard = [replace(s.claim, content=(*s.claim.content, *sorted(s.beside))) for s in said]
    return unique_pairs(np.concatenate([word_pairs(heard), near]))


def _change(held: Held, loser: int, winner: int, verdict: Verdict) -> Change:
    """The change, from when the winner was said; the earlier of the two wins where it was said again since."""
    if held.times[winner] > held.times[loser]:
        return Change(loser, winner, held.times[winner], verdict)
    why = f"the earlier was said again: {verdict.reason}"
    return Change(loser, winner, held.last[winner], Verdict("reaffirmed", verdict.scores, why))


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


def _precedence(change: Change) -> tuple[bool, datetime, bool, float, int]:
    verdict = change.verdict
    return not verdict.plain, change.at, not verdict.instead, -verdict.score, change.winner


def _chosen(changes: list[Change]) -> list[Change]:
    """One change a loser: a plain one, the first in time, one that gives another value, the likest.

    No winner retires more than MAX_RETIRED, the likest first.
    """
    first: dict[int, Change] = {}
    for change in sorted(changes, key=_precedence):
        first.setdefault(change.loser, change)
    by_winner: dict[int, list[Change]] = defaultdict(list)
    for change in first.values():
        by_winner[change.winner].append(change)
    kept = [
        c
        for group in by_winner.values()
        for c in sorted(group, key=lambda c: (-c.verdict.score, c.loser))[:MAX_RETIRED]
    ]
    return sorted(kept, key=lambda c: c.loser)


def _written(table: pa.Table, changes: list[Change], freed: Set[int]) -> pa.Table:
    """The rows that are retired, and those that are active again."""
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
    again = sorted(freed - {c.loser for c in changes})
    opened = with_values(table.take(pa.array(again, pa.int64())), **ACTIVE)
    return pa.concat_tables([*rows, opened])


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
