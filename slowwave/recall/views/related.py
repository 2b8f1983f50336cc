"""Claims related to a claim, or to what claims name: a file, a person, a project, a tool."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.hits import Shown
from slowwave.recall.query import normalise_path
from slowwave.recall.release.view import View, normalise_name
from slowwave.recall.retrieve.rows import PathVariants, build_path_variants
from slowwave.schemas.errors import NoSuchId, UsageError
from slowwave.schemas.rows import ClaimRow, RelationRow
from slowwave.schemas.tables import CLAIMS, MERGES, RELATIONS
from slowwave.schemas.vocabulary import RelationKind, Status
from slowwave.store.names import find_named_row
from slowwave.text.times.days import localise
from slowwave.text.workspaces import (
    anchor_workspace,
    find_by_last_parts,
    find_own_workspaces,
    find_project_root,
)

BY_NAME = ("names", "of_file", "said_by", "of_project")
"""How a claim stands to what was asked for by name, the closest first: it spells it out, was made over that file, was
said by that person, or in that project.
"""
TURNED: dict[str, str] = {RelationKind.CONTRADICTS: "contradicted_by"}
"""What the kind that has a direction is seen from the claim that it goes to."""
SHORTEST = 6
"""Characters of an id that name a claim."""
ID = re.compile(rf"[0-9a-f]{{{SHORTEST},32}}")
DEEPEST = 5
COLUMNS = [
    "claim_id",
    "summary",
    "detail",
    "files",
    "speaker",
    "workspace",
    "session_id",
    "observed_at",
]
COLUMNS += ["status", "quote", "utc_offset"]


@dataclass(frozen=True, slots=True)
class Related(Shown):
    """A claim, and how it was come by."""

    id: str
    summary: str
    relation: str
    """How the claim it was come by from stands to it: same_file, same_thing, contradicts, contradicted_by; one of
    `BY_NAME` to a name.
    """
    weight: float
    """0 to 1: how close the two are."""
    reason: str | None
    """The files or names that both have."""
    of: str
    """The claim it was come by from, or the name asked for."""
    steps: int
    """1 for what is related itself, 2 for what is related to that."""
    status: str
    workspace: str | None
    session: str
    """The transcript's own id."""
    observed_at: datetime | None
    quote: str


def read_relations(
    view: View,
    claims: Collection[str],
    seen: Collection[str],
) -> dict[str, tuple[str, str, RelationRow]]:
    """Return by the claims that were not seen the closest relation that leads to each from some claims: which of these,
    what it is seen from there, and its row.
    """
    ids = pa.array(sorted(claims), pa.string())
    ends = pc.field("from_id").isin(ids) | pc.field("to_id").isin(ids)
    pairs = view.read_rows(
        RELATIONS, ["kind", "from_id", "to_id", "weight", "reason"], ends
    )
    pairs.sort(
        key=lambda row: (-row["weight"], row["kind"], row["from_id"], row["to_id"])
    )
    ways: dict[str, tuple[str, str, RelationRow]] = {}
    for pair in pairs:
        kind = pair["kind"]
        later = pair["from_id"]
        earlier = pair["to_id"]
        for own, other, relation in (
            (later, earlier, kind),
            (earlier, later, TURNED.get(kind, kind)),
        ):
            if own in claims and other not in seen:
                ways.setdefault(other, (own, relation, pair))
    return ways


def find_related(
    view: View,
    subject: str,
    depth: int = 1,
    limit: int | None = None,
) -> list[Related]:
    """Return the related claims, the nearest first, of these the closest; each claim once.

    Args:
        view: the release that is asked.
        subject: a claim's id or its first characters; or a name: a path or its end, a person, a project, a word.
        depth: how many steps away; of a name the claims that speak of it are the first.
        limit: at most so many; None for all.

    Raises:
        UsageError: no claim has that id, several begin so, or none speaks of the name; a depth out of bounds.
    """
    if not 1 <= depth <= DEEPEST:
        raise UsageError(f"depth is {depth}; it is 1 to {DEEPEST}")
    if limit is not None and limit < 1:
        raise UsageError(
            f"limit is {limit}; it is the number of claims wanted, at least 1"
        )
    # the claim of that id, or the claims made of the message; else those that speak of the name
    edge = _find_claims(view, subject) if ID.fullmatch(subject) else []
    related = [] if edge else _find_named(view, subject)
    if not edge and not related:
        edge = _find_claims(view, subject)  # a transcript's own id
    if not edge and not related:
        raise NoSuchId(
            f"the memory knows nothing of {subject!r}: no claim in release {view.release.name} has that id or "
            "mentions it"
        )
    # step by step the claims that are related to the last ones
    edge = edge or [claim.id for claim in related]
    seen = set(edge)
    for step in range(2 if related else 1, depth + 1):
        ways = read_relations(view, edge, seen)
        rows = view.read_by_id(CLAIMS, list(ways), COLUMNS)
        fresh = [
            _make_related(
                view=view,
                row=rows[key],
                relation=relation,
                weight=pair["weight"],
                reason=pair["reason"],
                of=of,
                steps=step,
            )
            for key, (of, relation, pair) in ways.items()
            if key in rows
        ]
        related = [*related, *fresh]
        edge = [claim.id for claim in fresh]
        seen.update(edge)
    return related[:limit]


def _find_claims(view: View, row_id: str) -> list[str]:
    """Return the claim of an id; of a message, topic, session or merge its claims; none if the id is of nothing.

    Raises:
        UsageError: several rows have ids that begin so.
    """
    found = find_named_row(
        view, row_id, ("claim", "message", "topic", "session", "merge")
    )
    if found is None:
        return []
    if found.kind == "claim":
        return [found.id]
    if found.kind == "merge":
        (pair,) = view.read_rows(
            MERGES, ["from_id", "into_id"], pc.field("merge_id") == found.id
        )
        return [pair["from_id"], pair["into_id"]]
    column = {"topic": "topic_id", "session": "session_id"}.get(found.kind)
    where = pc.field(column) == found.id if column else None
    rows = view.read_rows(CLAIMS, ["claim_id", "message_ids"], where)
    return sorted(
        row["claim_id"] for row in rows if column or found.id in row["message_ids"]
    )


@dataclass(frozen=True)
class NamedThing:
    """A file, word, person or project that a person names."""

    paths: Sequence[PathVariants]
    word: re.Pattern[str]
    person: str
    workspaces: tuple[str, ...]

    @classmethod
    def from_name(
        cls,
        name: str,
        workspaces: Collection[str],
    ) -> "NamedThing":
        """Return the paths, word, person and workspaces that a name may stand for in a store with these workspaces."""
        said = name.strip()
        anchored = anchor_workspace(name)
        places = find_own_workspaces(anchored, workspaces)
        if anchored not in workspaces and _is_below_project(anchored):
            places = ()
        ends = chain.from_iterable(find_by_last_parts(said, workspaces))
        return cls(
            paths=build_path_variants([normalise_path(name)], workspaces),
            word=re.compile(rf"(?<!\w){re.escape(said)}(?!\w)", re.IGNORECASE),
            person=normalise_name(name),
            workspaces=(*places, *ends),
        )

    def find_relation(self, row: ClaimRow) -> int | None:
        """Return the place in `BY_NAME` of the closest way in which a claim is about it; None if it is not."""
        relations = (
            self.word.search(f"{row['summary']}\n{row['detail'] or ''}"),
            self._names_file(row),
            normalise_name(row["speaker"] or "") == self.person,
            row["workspace"] in self.workspaces,
        )
        return next((rank for rank, holds in enumerate(relations) if holds), None)

    def _names_file(self, row: ClaimRow) -> bool:
        """Return True if a claim names the file, as it is spelt in the claim's workspace."""
        ways = [way for way in self.paths if way.is_valid_in(row["workspace"])]
        return any(way.is_match(path) for way in ways for path in row["files"])


def _is_below_project(name: str) -> bool:
    """Return True if a path is of a file or folder inside a checkout, which is not the project itself."""
    try:
        path = Path(name).resolve()
        if not (Path(name).is_absolute() or path.exists()):
            return False
        return find_project_root(path) not in (None, path)
    except (OSError, ValueError):
        return False


def _find_named(view: View, name: str) -> list[Related]:
    """Return the claims that hold and speak of a file, person, project or word: the closest first, then the newest."""
    if not name.strip():
        return []
    named = NamedThing.from_name(name, view.workspaces)
    # What has no date comes last.
    newest = [("observed_at", "descending"), ("claim_id", "ascending")]
    claims = view.read(CLAIMS, COLUMNS, pc.field("status") == Status.ACTIVE)
    ranked: list[tuple[int, ClaimRow]] = []
    for row in claims.sort_by(newest).to_pylist():
        rank = named.find_relation(row)
        if rank is not None:
            ranked.append((rank, row))
    ranked.sort(key=lambda pair: pair[0])
    return [
        _make_related(
            view=view,
            row=row,
            relation=BY_NAME[rank],
            weight=1.0,
            reason=None,
            of=name,
            steps=1,
        )
        for rank, row in ranked
    ]


def _make_related(
    view: View,
    row: ClaimRow,
    relation: str,
    weight: float,
    reason: str | None,
    of: str,
    steps: int,
) -> Related:
    return Related(
        id=row["claim_id"],
        summary=row["summary"],
        relation=relation,
        weight=round(weight, 3),
        reason=reason,
        of=of,
        steps=steps,
        status=row["status"],
        workspace=row["workspace"],
        session=view.native_sessions.get(row["session_id"], row["session_id"]),
        observed_at=localise(row["observed_at"], row["utc_offset"]),
        quote=row["quote"],
    )
