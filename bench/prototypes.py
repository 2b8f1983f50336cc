"""Prototypes as a coarse first stage of recall: what they cost in evidence, and what they save.

    python -m bench.prototypes FILE [--json] [--encoder NAME]

FILE is LoCoMo's. Claims are observed from the turns, all conversations in one pool, and gathered in prototypes. A
question is answered by cosine over all claims (flat), over the claims of the nearest prototypes alone (coarse), or by a
blend of the claim's cosine and its prototype's. Figures: the mean share of a question's evidence turns that the first
5, 10, 25 and 50 claims cite, out of those that some claim cites; vectors scored a question; microseconds a question.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from bench.locomo_data import build_message_rows, load_conversations
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import Vectors
from slowwave.schemas.settings import ObserveSettings, PrototypeSettings
from slowwave.tasks.observe.observe import observe
from slowwave.tasks.prototypes.prototypes import Prototypes, extend_prototypes

CUTS = (5, 10, 25, 50)
TAUS = (0.3, 0.4, 0.5, 0.6)
PROBES = (4, 16, 64)

Ranking = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ClaimCollection:
    """Claims with the turns they cite, and questions with theirs."""

    claims: Vectors
    cited: list[set[str]]
    questions: Vectors
    evidence: list[set[str]]


@dataclass(frozen=True)
class CoarseIndex:
    """Prototypes' vectors, and the claims of each."""

    vectors: Vectors
    members: list[Ranking]
    of_claim: Ranking


def build_collection(path: Path, name: str) -> ClaimCollection:
    """Return claims observed from every conversation, and the questions whose evidence some claim cites."""
    encoder = load_encoder(name)
    texts: list[str] = []
    cited: list[set[str]] = []
    asked: list[str] = []
    evidence: list[set[str]] = []
    for one in load_conversations(path):
        rows = observe(pa.table(build_message_rows(one)), ObserveSettings(pack="personal")).claims.to_pylist()
        texts += [row["summary"] for row in rows]
        cited += [{f"{one.id}/{turn}" for turn in row["message_ids"]} for row in rows]
        held = {turn for row in rows for turn in row["message_ids"]}
        for question in one.questions:
            turns = {f"{one.id}/{turn}" for turn in question.evidence if turn in held}
            if turns:
                asked.append(question.text)
                evidence.append(turns)
    return ClaimCollection(encoder.encode(texts), cited, encoder.encode(asked), evidence)


def build_coarse_index(claims: Vectors, tau: float) -> CoarseIndex:
    """Return the prototypes that the claims make in order."""
    vectors = {f"{n:06}": vector for n, vector in enumerate(claims)}
    state = Prototypes(PrototypeSettings(tau=tau))
    extend_prototypes(state, sorted(vectors), [], vectors)
    members = [np.array(sorted(int(c) for c in one.members), dtype=np.int64) for one in state.by_id.values()]
    of_claim = np.zeros(len(claims), dtype=np.int64)
    for place, mine in enumerate(members):
        of_claim[mine] = place
    return CoarseIndex(np.array([one.vector for one in state.by_id.values()]), members, of_claim)


def rank_flat(found: ClaimCollection, question: Vectors) -> tuple[Ranking, int]:
    """Return the best claims of all, and how many vectors were scored."""
    scores = found.claims @ question
    return np.argsort(-scores, kind="stable")[: max(CUTS)], len(scores)


def rank_coarse(found: ClaimCollection, some: CoarseIndex, probes: int, question: Vectors) -> tuple[Ranking, int]:
    """Return the best claims of the nearest prototypes."""
    nearest = np.argsort(-(some.vectors @ question), kind="stable")[:probes]
    claims = np.concatenate([some.members[place] for place in nearest])
    order = np.argsort(-(found.claims[claims] @ question), kind="stable")[: max(CUTS)]
    return claims[order], len(claims) + len(some.vectors)


def rank_blended(found: ClaimCollection, some: CoarseIndex, weight: float, question: Vectors) -> tuple[Ranking, int]:
    """Return the best claims by their own cosine and their prototype's."""
    scores = found.claims @ question + weight * (some.vectors @ question)[some.of_claim]
    return np.argsort(-scores, kind="stable")[: max(CUTS)], len(scores) + len(some.vectors)


def evaluate_ranking(found: ClaimCollection, answer: Callable[[Vectors], tuple[Ranking, int]]) -> dict[str, Any]:
    """Return evidence recall, claims scored and time of one way to answer."""
    start = time.perf_counter()
    answers = [answer(question) for question in found.questions]
    seconds = time.perf_counter() - start
    shares = []
    for (ranking, _), evidence in zip(answers, found.evidence, strict=True):
        got = [set().union(*(found.cited[i] for i in ranking[:cut])) & evidence for cut in CUTS]
        shares.append([len(some) / len(evidence) for some in got])
    return {
        "recall": [round(float(x) * 100, 1) for x in np.mean(shares, axis=0)],
        "scored": round(float(np.mean([scored for _, scored in answers]))),
        "us": round(seconds / len(answers) * 1e6),
    }


def measure(found: ClaimCollection) -> dict[str, dict[str, Any]]:
    """Return figures of every way."""
    rows = {"flat": evaluate_ranking(found, partial(rank_flat, found))}
    for tau in TAUS:
        some = build_coarse_index(found.claims, tau)
        name = (
            f"tau {tau}: {len(some.members)} prototypes, largest {max(map(len, some.members)) / len(found.claims):.0%}"
        )
        for probes in PROBES:
            rows[f"{name}, nearest {probes}"] = evaluate_ranking(found, partial(rank_coarse, found, some, probes))
        rows[f"{name}, blend .3"] = evaluate_ranking(found, partial(rank_blended, found, some, 0.3))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args()
    found = build_collection(given.file, given.encoder)
    rows = measure(found)
    if given.as_json:
        print(json.dumps({"claims": len(found.claims), "questions": len(found.evidence), "ways": rows}, indent=2))
        return
    table = Table("way", *(f"@{cut}" for cut in CUTS), "scored", "µs", title=f"{len(found.claims)} claims")
    for name, row in rows.items():
        table.add_row(name, *(f"{x:.1f}" for x in row["recall"]), f"{row['scored']:,}", f"{row['us']:,}")
    Console().print(table)


if __name__ == "__main__":
    main()
