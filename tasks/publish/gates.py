"""Gates: whether a night may make live what it made, or the release before stays in force and a person decides.

A night that retires, merges or loses much of what is known is likelier wrong than right: other tools' nights turned 62
notes into 3. So is one whose model put all under one topic, or wrote summaries that do not tell what they stand on.
The main bounds are settings; a memory of few claims is not held, since there a share says nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slowwave.schemas.settings import GateSettings
from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.tasks.summarize.coherence import Coherence, compute_mean


@dataclass(frozen=True)
class Bounds:
    """What is no setting: how many rows there must be before a share says something, and bounds on what a model made
    (`docs/decisions/014-models-and-gates.md`).
    """

    examples: int = 3
    """Claims shown of each gate."""
    claims: int = 100
    """Claims in the live release."""
    new_claims: int = 20
    """New claims."""
    summaries: int = 20
    """New summaries of a model's."""
    base_topic: float = 0.5
    """Share of all claims in one base topic of a model's, at most."""
    coverage: float = 0.03
    """Mean share of their members' words, the rare ones more, in a model's summaries, at least."""
    unfounded: float = 0.6
    """Share of a model's summaries that say what none of their members says, at most."""
    nearest: float = 0.98
    """Share of the nearest rows, by brute force, that an index of vectors finds, at least."""
    likeness: float = 0.2
    """Mean cosine of a model's summaries to what they sum up, at least."""


BOUNDS = Bounds()
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
    base_share: float = 0.0,
    summaries: Sequence[Coherence] = (),
    fewer: int = 0,
    summarised: tuple[int, int] = (0, 0),
) -> list[str]:
    """Return why a release should not be made, a line a gate with examples; none where it should.

    Args:
        settings: the bounds.
        active: claims that hold in the live release.
        became: what became of claims since (a kind of `slowwave.recall.views.compare`), and the claim.
        counts: rows of each table in the live release, and in the one to be.
        unanswered: questions, and answers, that the live release knows and the one to be does not.
        base_share: of all claims, those in one base topic of the release to be, where a model placed any since.
        summaries: those of it that a model wrote since.
        fewer: how many claims less there are of the sessions that were observed anew since.
        summarised: sessions and topics that have a summary in the live release, and those of them that lost it.
    """
    return [
        *_check_rows(*counts),
        *(f"a probe is no longer answered: {question!r} by {answer!r}" for question, answer in unanswered),
        *(_check_shares(settings, active, became, fewer) if active >= BOUNDS.claims else ()),
        *(
            [f"{base_share:.0%} of the claims in one base topic, {BOUNDS.base_topic:.0%} at most is right"]
            if base_share > BOUNDS.base_topic and active >= BOUNDS.claims
            else []
        ),
        *(_check_summaries(summaries) if len(summaries) >= BOUNDS.summaries else ()),
        *_check_summarised(settings, *summarised),
    ]


def check_nearest(found: Mapping[str, float]) -> list[str]:
    """Return the tables of which the index of vectors finds too few of the nearest rows, each with the share."""
    least = f"{BOUNDS.nearest:.0%} at least is right"
    short = sorted((name, share) for name, share in found.items() if share < BOUNDS.nearest)
    return [f"{name}: the index of vectors finds {share:.1%} of the nearest rows, {least}" for name, share in short]


def _check_rows(live: Mapping[str, int], candidate: Mapping[str, int]) -> Iterator[str]:
    """Yield the tables of what was read that have fewer rows: nothing but a loss takes any from them."""
    for table in (MESSAGES, SESSIONS):
        before, after = live.get(table.name, 0), candidate.get(table.name, 0)
        if after < before:
            yield f"{table.name}: {after:,} rows, {before:,} in the live release"


def _check_shares(settings: GateSettings, active: int, became: Sequence[tuple[str, str]], fewer: int) -> Iterator[str]:
    counts = Counter(kind for kind, _ in became)
    for kinds, more, bound, name in (
        (RETIRED, 0, settings.max_retired, "max_retired"),
        (LOST, fewer, settings.max_lost, "max_lost"),
    ):
        share = (sum(counts[kind] for kind in kinds) + more) / active
        if share > bound:
            examples = _show_texts([claim for kind, claim in became if kind in kinds][: BOUNDS.examples])
            less = [f"{more:,} fewer in the sessions that were observed anew"] if more else []
            which = " or ".join(kinds)
            told = "; ".join([*less, *([examples] if examples else [])])
            yield f"{share:.0%} of {active:,} claims {which}, gates.{name} allows {bound:.0%}: {told}"


def _check_summarised(settings: GateSettings, had: int, lost: int) -> Iterator[str]:
    if had >= BOUNDS.summaries and lost > settings.max_lost * had:
        share = f"gates.max_lost allows {settings.max_lost:.0%}"
        yield f"{lost:,} of {had:,} sessions and topics lost their summaries, {share}"


def _check_summaries(summaries: Sequence[Coherence]) -> Iterator[str]:
    """Yield what is amiss with a model's new summaries, with the worst of them."""
    covered = sorted(((one.coverage, one) for one in summaries if one.coverage is not None), key=lambda pair: pair[0])
    if covered and (mean := compute_mean(share for share, _ in covered)) < BOUNDS.coverage:
        why = f"{mean:.0%} of their members' words, {BOUNDS.coverage:.0%} at least is right"
        yield _name_worst(f"new summaries have {why}", [one for _, one in covered])
    unfounded = [one for one in summaries if one.unfounded]
    if (share := len(unfounded) / len(summaries)) > BOUNDS.unfounded:
        why = f"say what no member says, {BOUNDS.unfounded:.0%} at most is right"
        yield _name_worst(f"{share:.0%} of the {len(summaries):,} new summaries {why}", unfounded)
    alike = sorted(((one.likeness, one) for one in summaries if one.likeness is not None), key=lambda pair: pair[0])
    if alike and (mean := compute_mean(likeness for likeness, _ in alike)) < BOUNDS.likeness:
        why = f"a cosine of {mean:.2f} to their members, {BOUNDS.likeness:.2f} at least is right"
        yield _name_worst(f"new summaries have {why}", [one for _, one in alike])


def _name_worst(why: str, worst: Sequence[Coherence]) -> str:
    return f"{why}: {_show_texts(one.text for one in worst[: BOUNDS.examples])}"


def _show_texts(texts: Iterable[str]) -> str:
    return "; ".join(" ".join(text.split())[:100] for text in texts)
