"""Gates: whether a night may make live what it made, or the release before stays in force and a person decides.

A night that retires, merges or loses much of what is known is likelier wrong than right: other tools' nights turned 62
notes into 3. Bounds are settings; a memory of few claims is not held, since there a share says nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from slowwave.schemas.settings import GateSettings
from slowwave.schemas.tables import MESSAGES, SESSIONS

EXAMPLES = 3
"""Claims shown of each gate."""
RETIRED, LOST = ("superseded", "merged"), ("withdrawn", "gone")


class ReleaseHeld(Exception):
    """What would have been released is outside the bounds; the reasons, a line each."""

    def __init__(self, reasons: list[str]) -> None:
        self.reasons = reasons
        super().__init__("; ".join(reasons))


def check_gates(
    settings: GateSettings,
    active: int,
    became: Sequence[tuple[str, str]],
    counts: tuple[Mapping[str, int], Mapping[str, int]],
    unanswered: Iterable[tuple[str, str]] = (),
) -> list[str]:
    """Return why a release should not be made, a line a gate with examples; none where it should.

    Args:
        settings: the bounds.
        active: claims that hold in the live release.
        became: what became of claims since (a kind of `slowwave.recall.compare`), and the claim.
        counts: rows of each table in the live release, and in the one to be.
        unanswered: questions, and answers, that the live release knows and the one to be does not.
    """
    return [
        *_check_rows(*counts),
        *(f"a probe is no longer answered: {question!r} by {answer!r}" for question, answer in unanswered),
        *(_check_shares(settings, active, became) if active >= settings.min_claims else ()),
    ]


def _check_rows(live: Mapping[str, int], candidate: Mapping[str, int]) -> Iterator[str]:
    """Yield the tables of what was read that have fewer rows: nothing but a loss takes any from them."""
    for table in (MESSAGES, SESSIONS):
        before, after = live.get(table.name, 0), candidate.get(table.name, 0)
        if after < before:
            yield f"{table.name}: {after:,} rows, {before:,} in the live release"


def _check_shares(settings: GateSettings, active: int, became: Sequence[tuple[str, str]]) -> Iterator[str]:
    counts = Counter(kind for kind, _ in became)
    for kinds, bound, name in (
        (RETIRED, settings.max_retired, "max_retired"),
        (LOST, settings.max_lost, "max_lost"),
    ):
        share = sum(counts[kind] for kind in kinds) / active
        if share > bound:
            examples = [claim for kind, claim in became if kind in kinds][:EXAMPLES]
            told = "; ".join(" ".join(text.split())[:100] for text in examples)
            which = " or ".join(kinds)
            yield f"{share:.0%} of {active:,} claims {which}, gates.{name} allows {bound:.0%}: {told}"
