"""How well a model's summaries stand on what they sum up, without another model: figures for the night's report. Pure.

Coverage is the share of the members' telling words that come up in the summary; a summary is supported where all its
numbers, dates, names and negations come from a member (`slowwave.tasks.llm.grounding`); likeness is the cosine of its
vector to the mean of its members', where those have vectors: the summaries of the tier below.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slowwave.tasks.llm.grounding import GroundingContext, explain_unfounded
from slowwave.text.pyramid import Draft
from slowwave.text.words import extract_stems

Vector = Sequence[float] | npt.NDArray[np.float32]


@dataclass(frozen=True)
class Coherence:
    """One summary beside its members."""

    coverage: float
    """0 to 1."""
    unfounded: str | None
    """What it says that no member says; None where all of it comes from somewhere."""


def measure_coherence(draft: Draft, text: str) -> Coherence:
    """Return how a summary stands on its draft's members.

    A word counts by how many of the members say it.
    """
    said = Counter(s for member in draft.members for s in extract_stems(member.text))
    covered = sum(said[s] for s in extract_stems(text) & said.keys())
    everything = "\n".join(f"{m.speaker or ''}: {m.text}" for m in [*draft.context, *draft.members])
    times = tuple(m.at for m in draft.members if m.at)
    why = explain_unfounded(text, GroundingContext(everything, everything, times))
    return Coherence(covered / max(1, said.total()), why)


def measure_likeness(summaries: Mapping[str, Vector | None], members: Mapping[str, Sequence[str]]) -> list[float]:
    """Return each summary's cosine to the mean of its members that are summaries too.

    Args:
        summaries: id -> unit vector, of the tiers below also.
        members: id -> ids of its members.
    """
    found = []
    for one, below in members.items():
        mine, theirs = summaries.get(one), [v for m in below if (v := summaries.get(m)) is not None]
        mean = np.asarray(theirs, dtype=np.float64).mean(axis=0) if mine is not None and theirs else np.zeros(1)
        if mine is not None and (length := float(np.linalg.norm(mean))):
            found.append(float(np.asarray(mine, dtype=np.float64) @ mean) / length)
    return found


def count_coherence(found: Iterable[Coherence], likeness: Sequence[float]) -> dict[str, int]:
    """Return figures for a report: means in percent, and how many summaries say what no member says."""
    some = list(found)
    figures = {}
    if some:
        figures["words of members in summaries, percent"] = round(100 * sum(c.coverage for c in some) / len(some))
        figures["summaries that say what no member says"] = sum(c.unfounded is not None for c in some)
    if likeness:
        figures["likeness of summaries to those below, percent"] = round(100 * sum(likeness) / len(likeness))
    return figures
