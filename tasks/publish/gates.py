"""Gates decide whether a run may release its tables. If not, the last release stays live and a person decides.

A run that retires, merges or loses a large part of the claims is more likely wrong than right: runs of other tools
turned 62 notes into 3. The same holds if a model put all claims under one topic, or wrote summaries that do not match
their sources. The main bounds are settings. A memory of few claims passes, since a share means little there.
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
    """Bounds that are not settings: how many rows a share needs before it means something, and bounds on a model's
    output (`docs/decisions/014-models-and-gates.md`).
    """

    examples: int = 3
    """Most examples in a gate's reason."""
    claims: int = 100
    """Least claims in the live release."""
    new_claims: int = 20
    """Least new claims."""
    summaries: int = 20
    """Least new summaries by a model, and least summarised sessions and topics."""
    base_topic: float = 0.5
    """Largest share of all claims in one base topic of a model."""
    coverage: float = 0.03
    """Least mean share of the members' words in a model's summaries, weighted by rarity."""
    unfounded: float = 0.6
    """Largest share of a model's summaries that say something that no member says."""
    nearest: float = 0.98
    """Least share of the nearest rows, by brute force, that an index of vectors must find."""
    likeness: float = 0.2
    """Least mean cosine of a model's summaries to their members."""


BOUNDS = Bounds()
RETIRED = ("superseded", "merged")
LOST = ("withdrawn", "gone")


class ReleaseHeld(Exception):
    """The release is outside the bounds. `reasons` has a line for each gate."""

    def __init__(self, reasons: list[str]) -> None:
        self.reasons = reasons
        super().__init__("; ".join(reasons))


@dataclass(frozen=True)
class Changes:
    """The differences between a candidate release and the live one."""

    active: int = 0
    """Number of active claims in the live release."""
    became: Sequence[tuple[str, str]] = ()
    """What became of each claim since (a kind of `slowwave.recall.views.compare`), and its text."""
    fewer: int = 0
    """How many fewer claims there are of sessions that were observed again."""
    counts: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})
    """Rows of each table in the live release and in the draft."""
    unanswered: Sequence[tuple[str, str]] = ()
    """Questions with their answers that the live release finds and the draft does not."""
    new_claims: int = 0
    """Number of new active claims."""
    rejected: Sequence[str] = ()
    """Reasons why a model's claims were not kept; most often their quote is not in a message."""
    junk: Sequence[str] = ()
    """New claims that a model judged trivial or not reusable."""
    tokens: int = 0
    """Tokens that models used since the live release."""
    base_share: float = 0.0
    """Share of all claims in the largest base topic; 0 if no model placed a claim since."""
    summaries: Sequence[Coherence] = ()
    """Coherence of the summaries that a model wrote since."""
    summarised: tuple[int, int] = (0, 0)
    """Number of sessions and topics with a summary in the live release, and of those that lost it."""


def check_gates(settings: GateSettings, changes: Changes) -> list[str]:
    """Return a line with examples for each gate that the release does not pass; an empty list if it passes all."""
    return [
        *_check_losses(settings, changes),
        *_check_made(settings, changes),
        *_check_summaries(changes.summaries),
    ]


def check_nearest(shares: Mapping[str, float]) -> list[str]:
    """Return a line for each table whose index of vectors finds too few of the nearest rows."""
    least = f"{BOUNDS.nearest:.0%} at least is right: the index is rebuilt, and the release waits for a night"
    short = sorted(
        (name, share) for name, share in shares.items() if share < BOUNDS.nearest
    )
    return [
        f"{name}: the index of vectors finds {share:.1%} of the nearest rows, {least}"
        for name, share in short
    ]


def _check_losses(settings: GateSettings, changes: Changes) -> Iterator[str]:
    """Yield a line for each loss: rows, probes, claims and summaries."""
    yield from _check_rows(changes.counts)
    for question, answer in changes.unanswered:
        yield f"a probe is no longer answered: {question!r} by {answer!r}"
    yield from _check_claims(settings, changes)
    yield from _check_summarised(settings, changes.summarised)


def _check_rows(counts: tuple[Mapping[str, int], Mapping[str, int]]) -> Iterator[str]:
    """Yield the tables of transcripts that have fewer rows. Steps never remove rows from them, so this is a loss."""
    live, candidate = counts
    for table in (MESSAGES, SESSIONS):
        before = live.get(table.name, 0)
        after = candidate.get(table.name, 0)
        if after < before:
            yield f"{table.name}: {after:,} rows, {before:,} in the live release"


def _check_claims(settings: GateSettings, changes: Changes) -> Iterator[str]:
    """Yield a line if too many claims were retired, and one if too many were lost."""
    if changes.active < BOUNDS.claims:
        return
    for kinds, fewer, name in (
        (RETIRED, 0, "max_retired"),
        (LOST, changes.fewer, "max_lost"),
    ):
        texts = [claim for kind, claim in changes.became if kind in kinds]
        share = (len(texts) + fewer) / max(1, changes.active)
        bound = getattr(settings, name)
        if share > bound:
            reasons = (
                [f"{fewer:,} fewer in the sessions that were observed again"]
                if fewer
                else []
            )
            reasons += [_show_texts(texts)] if texts else []
            what = f"{share:.0%} of {changes.active:,} claims {' or '.join(kinds)}"
            yield f"{what}, gates.{name} allows {bound:.0%}: {'; '.join(reasons)}"


def _check_summarised(
    settings: GateSettings, summarised: tuple[int, int]
) -> Iterator[str]:
    """Yield a line if too many sessions and topics lost their summaries."""
    had, lost = summarised
    if had >= BOUNDS.summaries and lost > settings.max_lost * had:
        what = f"{lost:,} of {had:,} sessions and topics lost their summaries"
        yield f"{what}, gates.max_lost allows {settings.max_lost:.0%}"


def _check_made(settings: GateSettings, changes: Changes) -> Iterator[str]:
    """Yield a line for each bound on new claims that is exceeded: the rejected and the useless ones, their tokens, and
    the share in one topic.
    """
    for bad, good, what, name in (
        (changes.rejected, changes.new_claims, "were not kept", "max_rejected"),
        (
            changes.junk,
            changes.new_claims - len(changes.junk),
            "are of no use",
            "max_junk",
        ),
    ):
        total = len(bad) + good
        bound = getattr(settings, name)
        if total >= BOUNDS.new_claims and len(bad) > bound * total:
            share = f"{len(bad) / total:.0%} of the new claims {what}"
            yield f"{share}, gates.{name} allows {bound:.0%}: {_show_texts(dict.fromkeys(bad))}"
    if settings.max_tokens and changes.tokens > settings.max_tokens:
        yield f"{changes.tokens:,} tokens since the live release, gates.max_tokens allows {settings.max_tokens:,}"
    if changes.base_share > BOUNDS.base_topic and changes.active >= BOUNDS.claims:
        yield f"{changes.base_share:.0%} of the claims in one base topic, {BOUNDS.base_topic:.0%} at most is right"


def _check_summaries(summaries: Sequence[Coherence]) -> Iterator[str]:
    """Yield a line for each bound on a model's new summaries that is exceeded, with the worst of them."""
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
        values = [
            (value, summary.text)
            for summary in summaries
            if (value := getattr(summary, name)) is not None
        ]
        if values and (mean := fmean(value for value, _ in values)) < least:
            why = f"{form.format(mean)} {what}, {form.removeprefix('a cosine of ').format(least)} at least is right"
            yield f"new summaries have {why}: {_show_texts(text for _, text in sorted(values))}"


def _show_texts(texts: Iterable[str]) -> str:
    """Return the first texts as examples for a reason."""
    return "; ".join(
        " ".join(text.split())[:100] for text in islice(texts, BOUNDS.examples)
    )
