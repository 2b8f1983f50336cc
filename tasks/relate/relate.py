"""Relations between the claims of one workspace.

`same_file` and `same_thing` depend on the names that few claims contain, weighted by their rarity (inverse document
frequency, Spärck Jones 1972), and on the claims' vectors. The cost is near-linear, except for the nearest vectors,
which `tasks/dedupe/candidates.py` finds in about n·√n.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import ClaimRow
from slowwave.schemas.tables import RELATIONS
from slowwave.schemas.vocabulary import RelationKind
from slowwave.tasks.dedupe.candidates import Floats, compute_cosines, find_vector_pairs
from slowwave.tasks.dedupe.normalise import normalise_claim
from slowwave.tasks.dedupe.pairs import stack_unit_vectors

VERSION = 2
COLUMNS = ["claim_id", "summary", "files", "message_ids", "observed_at", "vector"]
MOST = 5
"""Most relations of one kind that a claim has."""
COMMON = 30
"""A file or thing that more claims name relates none of them."""
SAME_COSINE = 0.65
"""Least cosine of two claims about the same thing."""
NAMED_COSINE = 0.5
"""The same for two claims with a rare name in common."""
FILE_COSINE = 0.35
"""The same for two claims with a common file that at least one of them names in its text. Files that were only open
when the claims were made would relate every fourth pair wrongly."""

Shared = dict[tuple[int, int], dict[str, float]]
"""Two rows, the earlier first -> the names that both contain, with their rarity, 0 to 1."""


class Relation(NamedTuple):
    """A relation between two claims, by their ids."""

    kind: RelationKind
    start: str
    """The later claim."""
    end: str
    weight: float
    reason: str | None


def find_relations(claims: pa.Table) -> list[Relation]:
    """Return the relations between the claims, each from the later claim to the earlier, the strongest first.

    claims: active rows of CLAIMS of one workspace, with `COLUMNS`.
    """
    if claims.num_rows < 2:
        return []
    times = [
        when.timestamp() if when else -math.inf
        for when in claims["observed_at"].to_pylist()
    ]
    ids = claims["claim_id"].to_pylist()
    claims = claims.take(sorted(range(len(ids)), key=lambda at: (times[at], ids[at])))
    vectors, has = stack_unit_vectors(claims)
    rows = claims.drop_columns("vector").to_pylist()
    return list(keep_best(find_common(rows, vectors, has)))


def build_rows(relations: Iterable[Relation], key: str) -> pa.Table:
    """Return rows of RELATIONS; `key` is the step's."""
    rows = [
        {
            "relation_id": compute_content_id(
                relation.kind, relation.start, relation.end
            ),
            "kind": relation.kind,
            "from_id": relation.start,
            "to_id": relation.end,
            "weight": relation.weight,
            "reason": relation.reason,
            "step_key": key,
        }
        for relation in relations
    ]
    return pa.Table.from_pylist(rows, RELATIONS.schema)


def find_common(
    rows: Sequence[ClaimRow], vectors: Floats, has: npt.NDArray[np.bool_]
) -> Iterator[Relation]:
    """Yield the pairs of claims about the same file or the same thing, except pairs from the same messages.

    Args:
        rows: the claims in order of time.
        vectors: unit vectors, shape (rows, dim).
        has: mask of the rows with one. Without vectors, two common names make a pair near.
    """
    files = share_names(resolve_paths([row["files"] for row in rows]))
    things = share_names(list(name_things(rows)))
    near: Shared = {
        (a, b): {}
        for a, b in find_vector_pairs(
            vectors=vectors, has=has, nearest=10, min_cosine=SAME_COSINE
        ).tolist()
    }
    for kind, shared in (
        (RelationKind.SAME_FILE, files),
        (RelationKind.SAME_THING, near | things),
    ):
        pairs = np.array(sorted(shared), dtype=np.int64).reshape(-1, 2)
        for (a, b), cosine in zip(
            pairs.tolist(), compute_cosines(pairs, vectors, has).tolist(), strict=True
        ):
            relation = _relate_pair(
                kind=kind,
                early=rows[a],
                late=rows[b],
                names=shared[a, b],
                cosine=cosine,
            )
            if relation:
                yield relation


def _relate_pair(
    kind: RelationKind,
    early: ClaimRow,
    late: ClaimRow,
    names: Mapping[str, float],
    cosine: float,
) -> Relation | None:
    """Return the relation of two claims with some common names, or None if they are not near enough.

    cosine: NaN if a claim has no vector.
    """
    min_cosine = NAMED_COSINE
    if kind == RelationKind.SAME_FILE:
        min_cosine = FILE_COSINE
        names = _select_written_files(names, f"{early['summary']}\n{late['summary']}")
        if not names:
            return None
    is_near = len(names) > 1 if math.isnan(cosine) else cosine >= min_cosine
    if not is_near or early["message_ids"] == late["message_ids"]:
        return None
    known_cosine = 0.0 if math.isnan(cosine) else cosine
    distance = (1 - min(1.0, sum(names.values()) / 2)) * (1 - known_cosine)
    reason = ", ".join(sorted(names, key=lambda name: (-names[name], name))[:3]) or None
    return Relation(
        kind=kind,
        start=late["claim_id"],
        end=early["claim_id"],
        weight=1 - distance,
        reason=reason,
    )


def _select_written_files(names: Mapping[str, float], text: str) -> dict[str, float]:
    """Return the files whose name occurs in the text."""
    return {
        name: rarity
        for name, rarity in names.items()
        if name.rpartition("/")[2] in text
    }


def resolve_paths(files: Sequence[Sequence[str]]) -> list[set[str]]:
    """Return each row's files; replace a partial path by the longer path that ends with it, if only one does."""
    plain = [
        {path.strip().replace("\\", "/").removeprefix("./") for path in paths}
        for paths in files
    ]
    longer = defaultdict[str, list[str]](list)
    for path in sorted(set().union(*plain), key=len):
        for cut in range(1, path.count("/") + 1):
            longer[path.split("/", cut)[-1]].append(path)
    whole = {
        part: paths[-1]
        for part, paths in longer.items()
        if all(b.endswith(f"/{a}") for a, b in pairwise(paths))
    }
    return [{whole.get(path, path) for path in paths} for paths in plain]


def name_things(rows: Iterable[ClaimRow]) -> Iterator[set[str]]:
    """Yield the names in each row that are not files: identifiers and capitalised names."""
    for row in rows:
        claim = normalise_claim(row["summary"])
        files = {name.casefold().rpartition("/")[2] for name in row["files"]}
        yield {
            name
            for name in claim.identifiers | claim.names
            if name.rpartition("/")[2] not in files
        }


def share_names(named: Sequence[set[str]]) -> Shared:
    """Return the pairs of rows with a common name, except names that more than `COMMON` rows have."""
    holders = defaultdict[str, list[int]](list)
    for at, names in enumerate(named):
        for name in names:
            holders[name].append(at)
    shared: Shared = defaultdict(dict)
    for name, rows in sorted(holders.items()):
        if 1 < len(rows) <= COMMON:
            rarity = math.log(len(named) / len(rows)) / math.log(max(2, len(named)))
            for pair in combinations(rows, 2):
                shared[pair][name] = rarity
    return shared


def keep_best(relations: Iterable[Relation]) -> Iterator[Relation]:
    """Yield the strongest relations of each kind, each pair once, at most `MOST` of a kind for each claim."""
    counts = Counter[tuple[RelationKind, str]]()
    for edge in sorted(
        set(relations),
        key=lambda edge: (-round(edge.weight, 4), edge.kind, edge.start, edge.end),
    ):
        ends = (edge.kind, edge.start), (edge.kind, edge.end)
        if all(counts[end] < MOST for end in ends):
            counts.update(ends)
            yield edge
