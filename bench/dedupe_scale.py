"""What finding duplicates costs and misses as the claims grow: made-up claims with planted duplicates.

    python -m bench.dedupe_scale [--rows 10000 100000] [--brute 10000] [--json]

Each size runs in a process of its own: 10,000 claims take half a minute, 100,000 some minutes. A claim is a sentence
from a grammar of services, values and reasons; a tenth are planted again, a third each word for word, in other
punctuation and contractions, and with the parts in another order. Vectors stand in for an encoder's: a direction of its
own for each claim, plus its words', so that paraphrases lie near and different claims of the same words less near.
Columns: pairs scored; the share of all pairs that is; seconds; peak memory; planted duplicates merged, of all planted,
and of those that comparing all pairs by the same rules merges (`--brute`: up to that many rows); wrong, rows merged
that were not planted.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import OBSERVATIONS, VECTOR_DIM
from slowwave.tasks.dedupe.candidates import deduplicate_pairs, find_vector_pairs, find_word_pairs
from slowwave.tasks.dedupe.decide import compute_token_sort_ratios, decide, is_promising, make_rules
from slowwave.tasks.dedupe.dedupe import dedupe
from slowwave.tasks.dedupe.normalise import Claim, normalise_claim
from slowwave.tasks.dedupe.pairs import find_exact_pairs, stack_unit_vectors
from slowwave.tasks.vector_columns import build_vector_array

PLANTED = 10
"""One row in so many repeats another."""
SYLLABLES = "ba ce di fo gu ha ki lo mu ne pa qui ro sa te vu wi xo ya zu".split()  # noqa: SIM905
SUBJECTS = "service worker importer gateway scheduler exporter dashboard parser indexer cache".split()  # noqa: SIM905
CHUNK = 200_000


@dataclass(frozen=True, slots=True)
class Result:
    """One size."""

    rows: int
    pairs: int
    share: float
    seconds: float
    megabytes: int
    planted: int
    recall: float
    of_brute: float | None
    wrong: int


def make_name(rng: random.Random) -> str:
    """Return a made-up name of three syllables."""
    return "".join(rng.choice(SYLLABLES) for _ in range(3)).capitalize()


def make_claims(rows: int, seed: int = 0) -> tuple[list[str], dict[int, int]]:
    """Return texts, and the planted ones: row -> the row that it repeats."""
    rng = random.Random(seed)
    texts: list[str] = []
    planted: dict[int, int] = {}
    original: list[tuple[str, str, str]] = []
    fresh: list[int] = []
    while len(texts) < rows:
        if fresh and len(texts) % PLANTED == PLANTED - 1:
            of = rng.choice(fresh)
            planted[len(texts)] = of
            texts.append(paraphrase_claim(*original[of], way=rng.randrange(3)))
        else:
            fresh.append(len(texts))
            texts.append(format_claim(*(parts := make_statement(rng))))
            original.append(parts)
            continue
        original.append(original[planted[len(texts) - 1]])
    return texts, planted


def make_statement(rng: random.Random) -> tuple[str, str, str]:
    """Make a claim of who does what, and when."""
    verb = rng.choice(["does not write", "reads", "keeps", "does not send", "compresses", "signs"])
    what = rng.choice(["reports", "snapshots", "events", "invoices", "thumbnails", "sessions"])
    who = f"the {make_name(rng)} {rng.choice(SUBJECTS)}"
    where = rng.choice(["to", "from", "for"])
    return who, f"{verb} {what} {where} the {make_name(rng)} archive", f"after the nightly run of {make_name(rng)}"


def format_claim(who: str, does: str, when: str) -> str:
    """Return the claim in its first words."""
    return f"{who[0].upper()}{who[1:]} {does} {when}."


def paraphrase_claim(who: str, does: str, when: str, *, way: int) -> str:
    """Return the same claim: word for word, with contractions and other punctuation, or in another order."""
    if way == 0:
        return format_claim(who, does, when)
    if way == 1:
        return format_claim(who, does, when).replace("does not", "doesn't").rstrip(".") + "!"
    return f"{when[0].upper()}{when[1:]}, {who} {does}"


def make_vectors(texts: list[str], planted: dict[int, int], seed: int = 0) -> npt.NDArray[np.float32]:
    """Return unit vectors, shape (rows, VECTOR_DIM): the claim's own direction, its words', and noise for each
    telling.
    """
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((len(texts), VECTOR_DIM)).astype(np.float32)
    for row, of in planted.items():
        own[row] = own[of]
    words: dict[str, int] = {}
    ids = [[words.setdefault(w, len(words)) for w in t.lower().rstrip(".!").replace(",", "").split()] for t in texts]
    directions = rng.standard_normal((len(words), VECTOR_DIM)).astype(np.float32)
    for row, some in enumerate(ids):
        own[row] += directions[some].mean(axis=0) * 2.0
        own[row] += 0.15 * rng.standard_normal(VECTOR_DIM).astype(np.float32)
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    return own


def build_observations_table(texts: list[str], matrix: npt.NDArray[np.float32]) -> pa.Table:
    """Return OBSERVATIONS rows, in order of id."""
    n = len(texts)
    constant = {
        "workspace": "/w", "category": "context", "pack": "coding", "confidence": 0.5, "observer": "made up",
        "step_key": "k", "status": "active",
    }  # fmt: skip
    given = {
        "observation_id": [f"o{row:08}" for row in range(n)],
        "session_id": [f"s{row // 20:07}" for row in range(n)],
        "summary": texts,
        "quote": texts,
        "vector": build_vector_array(matrix),
    }
    empty = pa.array([[]] * n, pa.list_(pa.string()))
    columns = []
    for field in OBSERVATIONS.schema:
        if field.name in given:
            held = given[field.name]
            columns.append(held.cast(field.type) if isinstance(held, pa.Array) else pa.array(held, field.type))
        elif field.name in constant:
            columns.append(pa.repeat(pa.scalar(constant[field.name], field.type), n))
        else:
            columns.append(
                empty.cast(field.type)
                if pa.types.is_list(field.type) and not field.nullable
                else pa.nulls(n, field.type)
            )
    return pa.Table.from_arrays(columns, schema=OBSERVATIONS.schema)


def measure_size(rows: int, brute: int) -> Result:
    """Measure one size, in this process."""
    texts, planted = make_claims(rows)
    table = build_observations_table(texts, make_vectors(texts, planted))
    settings = Settings().dedupe
    start = time.perf_counter()
    found = dedupe(table, OBSERVATIONS.make_empty_table(), settings, "k")
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    merged = {(m["loser_id"], m["winner_id"]) for m in found.merges.select(["loser_id", "winner_id"]).to_pylist()}
    root = [planted.get(row, row) for row in range(rows)]
    hit = {int(loser[1:]) for loser, winner in merged if root[int(loser[1:])] == root[int(winner[1:])]}
    right = sum(row in hit for row in planted)
    read = [normalise_claim(text) for text in texts]
    pairs = len(_find_candidate_pairs(read, table, settings.candidates))
    reachable = len(_find_reachable_rows(read, table, root, planted)) if rows <= brute else None
    return Result(
        rows=rows,
        pairs=pairs,
        share=pairs / (rows * (rows - 1) / 2),
        seconds=seconds,
        megabytes=memory,
        planted=len(planted),
        recall=right / len(planted),
        of_brute=None if reachable is None else right / max(1, reachable),
        wrong=len(merged) - len(hit),
    )


def _find_candidate_pairs(read: list[Claim], table: pa.Table, nearest: int) -> npt.NDArray[np.int64]:
    matrix, has = stack_unit_vectors(table)
    return deduplicate_pairs(
        np.concatenate([find_exact_pairs(read), find_word_pairs(read), find_vector_pairs(matrix, has, nearest)])
    )


def _find_reachable_rows(read: list[Claim], table: pa.Table, root: list[int], planted: dict[int, int]) -> set[int]:
    """Return planted rows that some pair of all pairs finds, by the same rules."""
    matrix, _ = stack_unit_vectors(table)
    rules = make_rules(Settings().dedupe)
    found: set[int] = set()
    for left, right in _iter_all_pairs(len(read)):
        ratios = compute_token_sort_ratios([read[a] for a in left], [read[b] for b in right])
        cosines = np.einsum("ij,ij->i", matrix[left], matrix[right])
        for at in np.flatnonzero((ratios >= rules.threshold) | (cosines >= rules.rephrased)):
            a, b, ratio, near = int(left[at]), int(right[at]), float(ratios[at]), float(cosines[at])
            worth = root[a] == root[b] and is_promising(read[a], read[b], ratio, near, rules)
            if worth and decide(read[a], read[b], ratio, near, rules).same:
                found.update(row for row in (a, b) if row in planted)
    return found


def _iter_all_pairs(rows: int) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    left, right = np.triu_indices(rows, 1)
    for start in range(0, len(left), CHUNK):
        yield left[start : start + CHUNK], right[start : start + CHUNK]


def render_scale_table(rows: list[Result]) -> Table:
    """For people."""
    shown = Table(title="duplicates among made-up claims")
    for column in (
        "rows",
        "pairs scored",
        "of all",
        "seconds",
        "peak MB",
        "planted",
        "merged",
        "of brute force",
        "wrong",
    ):
        shown.add_column(column, justify="right")
    for r in rows:
        brute = "–" if r.of_brute is None else f"{r.of_brute:.1%}"
        shown.add_row(
            *(f"{r.rows:,}", f"{r.pairs:,}", f"{r.share:.4%}", f"{r.seconds:.1f}", f"{r.megabytes:,}"),
            *(f"{r.planted:,}", f"{r.recall:.1%}", brute, f"{r.wrong:,}"),
        )
    return shown


def main() -> None:
    """Each size in its own process, so that peak memory is its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--brute", type=int, default=5_000, help="compare with all pairs up to so many rows")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(orjson.dumps(asdict(measure_size(args.one, args.brute))).decode())
        return
    done = []
    for rows in args.rows:
        command = [sys.executable, "-m", "bench.dedupe_scale", "--one", str(rows), "--brute", str(args.brute)]
        done.append(Result(**json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)))
    print(orjson.dumps([asdict(r) for r in done]).decode()) if args.json else Console(width=120).print(
        render_scale_table(done)
    )


if __name__ == "__main__":
    main()
