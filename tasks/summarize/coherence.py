"""How well a model's summaries are supported by their members, without another model: for the report and its gate.
Pure.

Coverage is the share of the members' content words that come up in a summary, each by how many members say it and by
how few of all members do; a summary is supported where all its numbers, dates, names and negations come from a member
(`slowwave.tasks.llm.grounding`); likeness is the cosine of its vector to the mean of its members', and to the summary
of the tier above that holds it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from slowwave.tasks.llm.grounding import GroundingContext, explain_unfounded
from slowwave.tasks.llm.quotes import is_unspaced
from slowwave.text.pyramid import MASTER
from slowwave.text.words import compute_smooth_idf, extract_stems

Vector = Sequence[float] | npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Shown:
    """A claim, message or summary as a summary's members are measured."""

    text: str
    speaker: str | None = None
    at: datetime | None = None
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Coherence:
    """One summary beside its members."""

    tier: int
    text: str
    coverage: float | None
    """0 to 1; None where the members have no words to be told apart, as in a script without spaces."""
    unfounded: str | None
    """What it says that no member says; None where all of it comes from somewhere."""
    likeness: float | None
    """To its members; None without vectors."""
    above: float | None
    """To the summary that holds it; None where none does."""


def measure_coherence(
    rows: Sequence[Mapping[str, Any]], members: Mapping[str, Shown], before: Mapping[str, str] | None = None
) -> list[Coherence]:
    """Return how each of some summaries stands on its members.

    Args:
        rows: of SUMMARIES, written together: how rare a word is, is told by all their members.
        members: id -> what stands under some summary; one that is missing says nothing.
        before: summary_id -> what was read along with its members.
    """
    below = {row["summary_id"]: [members[m] for m in row["member_ids"] if m in members] for row in rows}
    stems = {m: extract_stems(members[m].text) for row in rows for m in row["member_ids"] if m in members}
    counts = Counter(stem for words in stems.values() for stem in words)
    holders = {m: row["vector"] for row in rows for m in row["member_ids"]}
    measured = []
    # Each summary beside its members and the summary above it.
    for row in rows:
        own_members = below[row["summary_id"]]
        times = Counter(stem for m in row["member_ids"] for stem in stems.get(m, ()))
        weights = {stem: n * compute_smooth_idf(counts[stem], len(stems)) for stem, n in times.items()}
        covered = sum(weights[stem] for stem in extract_stems(row["text"]) & weights.keys())
        everything = "\n".join(
            [(before or {}).get(row["summary_id"], ""), *(f"{m.speaker or ''}: {m.text}" for m in own_members)]
        )
        ground = GroundingContext(everything, everything, tuple(m.at for m in own_members if m.at))
        measured.append(
            Coherence(
                row["tier"],
                row["text"],
                covered / sum(weights.values()) if weights and not is_unspaced(everything) else None,
                explain_unfounded(row["text"], ground),
                _compute_likeness(row["vector"], [m.vector for m in own_members if m.vector is not None]),
                _compute_likeness(row["vector"], [v for v in (holders.get(row["summary_id"]),) if v is not None]),
            )
        )
    return measured


def _compute_likeness(vector: Vector | None, others: Sequence[Vector]) -> float | None:
    """Return the cosine of a unit vector to the mean of others; None where there is none."""
    if vector is None or not others:
        return None
    mean = np.asarray(others, dtype=np.float64).mean(axis=0)
    length = float(np.linalg.norm(mean))
    return float(np.asarray(vector, dtype=np.float64) @ mean) / length if length else None


def count_coherence(summaries: Sequence[Coherence]) -> dict[str, int]:
    """Return figures for a report, by tier: means in percent, and how many summaries say what no member says."""
    figures = {}
    for tier in sorted({summary.tier for summary in summaries}, key=lambda tier: (tier == MASTER, tier)):
        of_tier = [summary for summary in summaries if summary.tier == tier]
        name = "masters" if tier == MASTER else f"tier {tier}"
        figures[f"{name} by the model"] = len(of_tier)
        if covered := [summary.coverage for summary in of_tier if summary.coverage is not None]:
            figures[f"{name}, words of members, percent"] = round(100 * fmean(covered))
        figures[f"{name}, saying what no member says"] = sum(summary.unfounded is not None for summary in of_tier)
        for values, of in (
            ((summary.likeness for summary in of_tier), "members"),
            ((summary.above for summary in of_tier), "the tier above"),
        ):
            if likenesses := [value for value in values if value is not None]:
                figures[f"{name}, likeness to {of}, percent"] = round(100 * fmean(likenesses))
    return figures
