"""Relations between the claims of one workspace.

`same_file` and `same_thing` go by what few claims name, weighted by how few (inverse document frequency, Spärck Jones
1972), and by their vectors. Cost: near-linear but for the vectors' neighbours, which `tasks/dedupe/candidates.py` finds
in about n·√n.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import RELATIONS
from slowwave.schemas.vocabulary import RelationKind
from slowwave.tasks.dedupe.candidates import Floats, compute_cosines, find_vector_pairs
from slowwave.tasks.dedupe.normalise import normalise_claim
from slowwave.tasks.dedupe.pairs import stack_unit_vectors

VERSION = 2
COLUMNS = ["observation_id", "summary", "files", "message_ids", "observed_at", "vector"]
MOST = 5
"""Relations of a kind that a claim has, at most."""
COMMON = 30
"""A file or thing that more claims name ties none of them together."""
SAME_COSINE = 0.65
"""From here on two claims speak of one thing, whatever their words."""
NAMED_COSINE = 0.5
"""The same of two that have a rare name in common."""
FILE_COSINE = 0.35
"""From here on what two claims say of a file belongs together, where one of them spells it out: what was merely open
while they were made ties every fourth pair wrongly."""

Shared = dict[tuple[int, int], dict[str, float]]
"""What both of two rows, the earlier first, name, and how rare it is, 0 to 1."""
Row = Mapping[str, Any]


class Relation(NamedTuple):
    """How a claim stands to another, by their ids."""

    kind: RelationKind
    start: str
    """The later of the two."""
    end: str
    weight: float
    reason: str | None


def find_relations(claims: pa.Table) -> list[Relation]:
    """Return the relations between the claims, each from the later claim to the earlier, the closest first.

    claims: active rows of OBSERVATIONS, of one workspace: `COLUMNS`.
    """
    if claims.num_rows < 2:
        return []
    times = [when.timestamp() if when else -math.inf for when in claims["observed_at"].to_pylist()]
    ids = claims["observation_id"].to_pylist()
    claims = claims.take(sorted(range(len(ids)), key=lambda at: (times[at], ids[at])))
    return list(keep_best(find_common(claims.drop_columns("vector").to_pylist(), *stack_unit_vectors(claims))))


def build_rows(relations: Iterable[Relation], key: str) -> pa.Table:
    """Return rows of RELATIONS; `key` is the step's."""
    rows = [
        (compute_content_id(kind, *ends), kind, *ends, weight, reason, key) for kind, *ends, weight, reason in relations
    ]
    return pa.Table.from_pylist([dict(zip(RELATIONS.schema.names, row, strict=True)) for row in rows], RELATIONS.schema)


def find_common(rows: Sequence[Row], vectors: Floats, has: npt.NDArray[np.bool_]) -> Iterator[Relation]:
    """Yield the pairs that speak of the same file, or of the same thing; what one message says together is no pair.

    Args:
        rows: in the order they were said.
        vectors: of unit length, shape (rows, dim).
        has: which rows have one; without, two names in common stand for nearness.
    """
    files, things = share_names(resolve_paths([row["files"] for row in rows])), share_names(list(name_things(rows)))
    near: Shared = {(a, b): {} for a, b in find_vector_pairs(vectors, has, 10, SAME_COSINE).tolist()}
    for kind, shared in ((RelationKind.SAME_FILE, files), (RelationKind.SAME_THING, near | things)):
        pairs = np.array(sorted(shared), dtype=np.int64).reshape(-1, 2)
        for (a, b), cosine in zip(pairs.tolist(), compute_cosines(pairs, vectors, has).tolist(), strict=True):
            early, late, names = rows[a], rows[b], shared[a, b]
            # files count where a claim names them
            min_cosine = NAMED_COSINE
            if kind == RelationKind.SAME_FILE:
                words, min_cosine = f"{early['summary']}\n{late['summary']}", FILE_COSINE
                names = {name: rare for name, rare in names.items() if name.rpartition("/")[2] in words}
                if not names:
                    continue
            is_near = len(names) > 1 if math.isnan(cosine) else cosine >= min_cosine
            if is_near and early["message_ids"] != late["message_ids"]:
                open_still = (1 - min(1.0, sum(names.values()) / 2)) * (1 - (0.0 if math.isnan(cosine) else cosine))
                reason = ", ".join(sorted(names, key=lambda name: (-names[name], name))[:3]) or None
                yield Relation(kind, late["observation_id"], early["observation_id"], 1 - open_still, reason)


def resolve_paths(files: Sequence[Sequence[str]]) -> list[set[str]]:
    """Return each row's files, a part of a path as the one longer path that ends so, where there is just one."""
    plain = [{path.strip().replace("\\", "/").removeprefix("./") for path in paths} for paths in files]
    longer = defaultdict[str, list[str]](list)
    for path in sorted(set().union(*plain), key=len):
        for cut in range(1, path.count("/") + 1):
            longer[path.split("/", cut)[-1]].append(path)
    whole = {part: paths[-1] for part, paths in longer.items() if all(b.endswith(f"/{a}") for a, b in pairwise(paths))}
    return [{whole.get(path, path) for path in paths} for paths in plain]


def name_things(rows: Iterable[Row]) -> Iterator[set[str]]:
    """Yield what each row names that is no file: identifiers and capitalised names."""
    for row in rows:
        claim = normalise_claim(row["summary"])
        files = {name.casefold().rpartition("/")[2] for name in row["files"]}
        yield {name for name in claim.identifiers | claim.names if name.rpartition("/")[2] not in files}


def share_names(named: Sequence[set[str]]) -> Shared:
    """Return the pairs of rows that name the same, but for what more than `COMMON` name."""
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
    """Yield the strongest of each kind, each pair once, so that no claim has more than `MOST` of a kind."""
    counts = Counter[tuple[RelationKind, str]]()
    for edge in sorted(set(relations), key=lambda edge: (-round(edge.weight, 4), edge.kind, edge.start, edge.end)):
        ends = (edge.kind, edge.start), (edge.kind, edge.end)
        if all(counts[end] < MOST for end in ends):
            counts.update(ends)
            yield edge
