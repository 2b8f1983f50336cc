"""Gates: whether a night may make live what it made, or the release before stays in force and a person decides.

A night that retires, merges or loses much of what is known is likelier wrong than right: other tools' nights turned 62
notes into 3. So is one whose model put all under one topic, or wrote summaries that do not tell what they stand on.
The main bounds are settings; a memory of few claims is not held, since there a share says nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean

from slowwave.schemas.settings import GateSettings
from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.tasks.summarize.coherence import Coherence


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


@dataclass(frozen=True)
class Changes:
    """The differences between a candidate release and the live one."""

    active: int = 0
    """Claims that hold in the live release."""
    became: Sequence[tuple[str, str]] = ()
    """What became of claims since (a kind of `slowwave.recall.views.compare`), and the claim."""
    fewer: int = 0
    """How many claims less there are of the sessions that were observed anew since."""
    counts: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})
    """Rows of each table in the live release, and in the one to be."""
    unanswered: Sequence[tuple[str, str]] = ()
    """Questions, and answers, that the live release knows and the one to be does not."""
    new_claims: int = 0
    """New ones that hold."""
    rejected: Sequence[str] = ()
    """Reasons of a model's claims that were not kept: most often a quote that stands in no message."""
    junk: Sequence[str] = ()
    """New claims that were found trivial or of no use later."""
    tokens: int = 0
    base_share: float = 0.0
    """Of all claims, those in one base topic, where a model placed any since."""
    summaries: Sequence[Coherence] = ()
    """Those that a model wrote since."""
    summarised: tuple[int, int] = (0, 0)
    """Sessions and topics that have a summary in the live release, and those of them that lost it."""


def check_gates(settings: GateSettings, changes: Changes) -> list[str]:
    """Return why a release should not be made, a line a gate with examples; none where it should."""
    return [*_check_losses(settings, changes), *_check_made(settings, changes), *_check_summaries(changes.summaries)]


def check_nearest(shares: Mapping[str, float]) -> list[str]:
    """Return the tables of which the index of vectors finds too few of the nearest rows, each with the share."""
    least = f"{BOUNDS.nearest:.0%} at least is right: the index is built anew, and the release waits for a night"
    short = sorted((name, share) for name, share in shares.items() if share < BOUNDS.nearest)
    return [f"{name}: the index of vectors finds {share:.1%} of the nearest rows, {least}" for name, share in short]


def _check_losses(settings: GateSettings, changes: Changes) -> Iterator[str]:
    # 1. What was read, of which nothing but a loss takes any row, and what a person wants answered.
    live, candidate = changes.counts
    for table in (MESSAGES, SESSIONS):
        if (after := candidate.get(table.name, 0)) < (before := live.get(table.name, 0)):
            yield f"{table.name}: {after:,} rows, {before:,} in the live release"
    for question, answer in changes.unanswered:
        yield f"a probe is no longer answered: {question!r} by {answer!r}"
    # 2. Claims, of which some go every night.
    for kinds, fewer, name in ((RETIRED, 0, "max_retired"), (LOST, changes.fewer, "max_lost")):
        texts = [claim for kind, claim in changes.became if kind in kinds]
        share, bound = (len(texts) + fewer) / max(1, changes.active), getattr(settings, name)
        if share > bound and changes.active >= BOUNDS.claims:
            reasons = [f"{fewer:,} fewer in the sessions that were observed anew"] if fewer else []
            reasons += [_show_texts(texts)] if texts else []
            what = f"{share:.0%} of {changes.active:,} claims {' or '.join(kinds)}"
            yield f"{what}, gates.{name} allows {bound:.0%}: {'; '.join(reasons)}"
    had, lost = changes.summarised
    if had >= BOUNDS.summaries and lost > settings.max_lost * had:
        what = f"{lost:,} of {had:,} sessions and topics lost their summaries"
        yield f"{what}, gates.max_lost allows {settings.max_lost:.0%}"


def _check_made(settings: GateSettings, changes: Changes) -> Iterator[str]:
    """Yield what is amiss with new claims: how many a model's answers were not kept, how many say nothing, where they
    were put, and what they cost.
    """
    for bad, good, what, name in (
        (changes.rejected, changes.new_claims, "were not kept", "max_rejected"),
        (changes.junk, changes.new_claims - len(changes.junk), "are of no use", "max_junk"),
    ):
        total, bound = len(bad) + good, getattr(settings, name)
        if total >= BOUNDS.new_claims and len(bad) > bound * total:
            share = f"{len(bad) / total:.0%} of the new claims {what}"
            yield f"{share}, gates.{name} allows {bound:.0%}: {_show_texts(dict.fromkeys(bad))}"
    if settings.max_tokens and changes.tokens > settings.max_tokens:
        yield f"{changes.tokens:,} tokens since the live release, gates.max_tokens allows {settings.max_tokens:,}"
    if changes.base_share > BOUNDS.base_topic and changes.active >= BOUNDS.claims:
        yield f"{changes.base_share:.0%} of the claims in one base topic, {BOUNDS.base_topic:.0%} at most is right"


def _check_summaries(summaries: Sequence[Coherence]) -> Iterator[str]:
    """Yield what is amiss with a model's new summaries, with the worst of them."""
    if (count := len(summaries)) < BOUNDS.summaries:
        return
    unfounded = [summary.text for summary in summaries if summary.unfounded]
    if (share := len(unfounded) / count) > BOUNDS.unfounded:
        why = f"say what no member says, {BOUNDS.unfounded:.0%} at most is right"
        yield f"{share:.0%} of the {count:,} new summaries {why}: {_show_texts(unfounded)}"
    for name, least, form, what in (
        ("coverage", BOUNDS.coverage, "{:.0%}", "of their members' words"),
        ("likeness", BOUNDS.likeness, "a cosine of {:.2f}", "to their members"),
    ):
        values = [(value, summary.text) for summary in summaries if (value := getattr(summary, name)) is not None]
        if values and (mean := fmean(value for value, _ in values)) < least:
            why = f"{form.format(mean)} {what}, {form.removeprefix('a cosine of ').format(least)} at least is right"
            yield f"new summaries have {why}: {_show_texts(text for _, text in sorted(values))}"


def _show_texts(texts: Iterable[str]) -> str:
    return "; ".join(" ".join(text.split())[:100] for text in islice(texts, BOUNDS.examples))
