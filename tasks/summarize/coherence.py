"""Measure how well a model's summaries are supported by their members, without another model; for the report and its
gate.

Coverage is the share of the members' content words that the summary contains; a word weighs more the more of its
members and the fewer of all members contain it. A summary is founded if all its numbers, dates, names and negations
come from a member (`slowwave.tasks.llm.grounding`). Likeness is the cosine of its vector to the mean of its members',
and to the summary of the tier above that contains it.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

import numpy as np
import numpy.typing as npt

from slowwave.schemas.counters import CountByKind
from slowwave.schemas.rows import SummaryRow
from slowwave.tasks.llm.grounding import GroundingContext, explain_unfounded
from slowwave.tasks.llm.quotes import is_unspaced
from slowwave.text.pyramid import MASTER
from slowwave.text.words import compute_smooth_idf, singular_words

Vector = Sequence[float] | npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class MeasuredMember:
    """A claim, message or summary that is a member of a measured summary."""

    text: str
    speaker: str | None = None
    at: datetime | None = None
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Coherence:
    """The measures of one summary against its members."""

    tier: int
    text: str
    coverage: float | None
    """0 to 1; None if the members have no separable words, as in a script without spaces."""
    unfounded: str | None
    """What the summary states without support by a member; None if all of it is supported."""
    likeness: float | None
    """Likeness to its members; None without vectors."""
    above: float | None
    """Likeness to the summary that contains it; None without one."""


def measure_coherence(
    rows: Sequence[SummaryRow],
    members: Mapping[str, MeasuredMember],
    before: Mapping[str, str] | None = None,
) -> list[Coherence]:
    """Return the measures of some summaries.

    Args:
        rows: rows of SUMMARIES that were written together; all their members determine how rare a word is.
        members: id -> a member of some summary; a missing member counts as empty.
        before: summary_id -> the text that the model read along with its members.
    """
    stems = {
        m: singular_words(members[m].text)
        for row in rows
        for m in row["member_ids"]
        if m in members
    }
    counts = Counter(stem for words in stems.values() for stem in words)
    holders = {m: row["vector"] for row in rows for m in row["member_ids"]}
    measured = []
    for row in rows:
        own_members = [members[m] for m in row["member_ids"] if m in members]
        context = (before or {}).get(row["summary_id"], "")
        everything = "\n".join(
            [context, *(f"{m.speaker or ''}: {m.text}" for m in own_members)]
        )
        ground = GroundingContext(
            everything, everything, tuple(m.at for m in own_members if m.at)
        )
        measured.append(
            Coherence(
                tier=row["tier"],
                text=row["text"],
                coverage=None
                if is_unspaced(everything)
                else _compute_coverage(row, stems, counts),
                unfounded=explain_unfounded(row["text"], ground),
                likeness=_compute_likeness(
                    row["vector"], [m.vector for m in own_members]
                ),
                above=_compute_likeness(
                    row["vector"], [holders.get(row["summary_id"])]
                ),
            )
        )
    return measured


def _compute_coverage(
    row: SummaryRow, stems: Mapping[str, Set[str]], counts: Mapping[str, int]
) -> float | None:
    """Return the weighted share of the members' stems that the summary contains, or None if they have none.

    counts: the number of members, of all summaries, with each stem.
    """
    times = Counter(stem for m in row["member_ids"] for stem in stems.get(m, ()))
    weights = {
        stem: n * compute_smooth_idf(counts[stem], len(stems))
        for stem, n in times.items()
    }
    covered = sum(
        weights[stem] for stem in singular_words(row["text"]) & weights.keys()
    )
    return covered / sum(weights.values()) if weights else None


def _compute_likeness(
    vector: Vector | None, others: Sequence[Vector | None]
) -> float | None:
    """Return the cosine of a unit vector to the mean of the others that are known, or None without either."""
    known = [other for other in others if other is not None]
    if vector is None or not known:
        return None
    mean = np.asarray(known, dtype=np.float64).mean(axis=0)
    length = float(np.linalg.norm(mean))
    return (
        float(np.asarray(vector, dtype=np.float64) @ mean) / length if length else None
    )


def count_coherence(
    summaries: Sequence[Coherence],
) -> dict[CountByKind, dict[str, int]]:
    """Return figures for a report by tier: mean percentages, and the number of summaries that are not founded."""
    figures: dict[CountByKind, dict[str, int]] = defaultdict(dict)
    for tier in sorted(
        {summary.tier for summary in summaries}, key=lambda tier: (tier == MASTER, tier)
    ):
        of_tier = [summary for summary in summaries if summary.tier == tier]
        name = "masters" if tier == MASTER else f"tier {tier}"
        figures[CountByKind.TIER_SIZE][name] = len(of_tier)
        if covered := [
            summary.coverage for summary in of_tier if summary.coverage is not None
        ]:
            figures[CountByKind.TIER_COVERAGE][name] = round(100 * fmean(covered))
        figures[CountByKind.TIER_UNFOUNDED][name] = sum(
            summary.unfounded is not None for summary in of_tier
        )
        for count, values in (
            (CountByKind.TIER_LIKE_MEMBERS, (summary.likeness for summary in of_tier)),
            (CountByKind.TIER_LIKE_ABOVE, (summary.above for summary in of_tier)),
        ):
            if likenesses := [value for value in values if value is not None]:
                figures[count][name] = round(100 * fmean(likenesses))
    return figures
