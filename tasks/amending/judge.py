"""Whether a later claim changes an earlier one. The pair level, without any table or model.

Both must be about one thing (shared words weighed by rarity, cosine where there are vectors), and the later must say
so: by naming what is given up, by a cue of change, or by another value in an otherwise equal sentence. What is not
said plainly must be alike all the more, since a wrong retirement costs more than a missed one.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks.amending.cues import Cue, Strength, read_cue
from tasks.amending.slots import slot_conflict, slots_of
from tasks.amending.values import conflict, reversal
from tasks.deduping.normalise import Claim, read_claim

Weights = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Said:
    """A claim with its cue, and what it is read for."""

    claim: Claim
    cue: Cue
    slots: dict[str, frozenset[str]]
    category: str


def read_said(text: str, speaker: str | None, category: str) -> Said:
    """A sentence read for whether it changes another."""
    return Said(read_claim(text, speaker), read_cue(text), slots_of(text), category)


@dataclass(frozen=True)
class Amending:
    """Likeness from which a claim counts as changed, from the plainest statement to none.

    Likeness is 0 to 2: the share of the shorter claim's words, weighed by rarity, that both have, plus the cosine of
    the vectors (without an encoder the share once more).
    """

    named: float = 0.68
    """The later claim names what it gives up, and the earlier one says that."""
    subject: float = 0.75
    """It names what it changes, and the earlier one is about that."""
    slot: float = 0.5
    """Both fill a slot that takes one value: home, work, a favourite; what "my …" is."""
    stated: float = 0.9
    """It speaks of a change, and gives another value of the same kind."""
    stated_alone: float = 1.05
    """It speaks of a change; no value of one kind is seen."""
    hinted: float = 1.0
    """It says "now", and gives another value."""
    silent: float = 1.25
    """It only gives another value in much the same sentence, or says no to it."""
    least_shared: float = 0.15
    least_cosine: float = 0.4


@dataclass(frozen=True)
class Verdict:
    """That the later claim changes the earlier: by which rule, on what scores, why."""

    rule: str
    scores: dict[str, float]
    reason: str

    @property
    def score(self) -> float:
        """By which the best of several is taken."""
        return self.scores["shared"] + self.scores.get("cosine", 0.0)


MANY_VALUED = frozenset(
    """like love enjoy know visit see watch read eat cook buy play meet hear find learn want need support add fix test
    implement include have""".split()  # noqa: SIM905
)
"""Verbs of which several may hold at once: who likes tea may like coffee."""


def word_weights(claims: Iterable[Claim]) -> dict[str, float]:
    """Stem -> weight by rarity among the claims (inverse document frequency)."""
    counts: Counter[str] = Counter()
    total = 0
    for claim in claims:
        counts.update(set(claim.content))
        total += 1
    return {word: math.log(1 + total / count) for word, count in counts.items()}


def amends(old: Said, new: Said, cosine: float | None, weights: Weights, limits: Amending) -> Verdict | None:
    """The verdict that `new` changes `old`, None where it does not.

    `cosine` is that of their vectors, None without an encoder: then words alone decide, and must share more.
    """
    common = set(old.claim.content) & set(new.claim.content)
    shared = _share(common, old.claim, new.claim, weights)
    scores = {"shared": shared} | ({} if cosine is None else {"cosine": cosine})
    if shared < limits.least_shared or scores.get("cosine", 1.0) < limits.least_cosine:
        return None
    alike = shared + scores.get("cosine", shared)
    named = new.cue.old & set(old.claim.content)
    if named and alike >= limits.named:
        return Verdict("named", scores, f"gives up {' '.join(sorted(named))}: {new.cue.phrase}")
    slot = slot_conflict(old.slots, new.slots, old.claim)
    if slot is not None and alike >= limits.slot:
        return Verdict("slot", scores, slot)
    value = conflict(old.claim, new.claim)
    if value is not None and alike >= _needed(old, new, limits):
        return Verdict(new.cue.strength.name.lower(), scores, value)
    turned = reversal(old.claim, new.claim)
    if turned is not None and len(common) > 1 and alike >= limits.silent and old.category != "event":
        return Verdict("reversal", scores, turned)
    return _by_statement(old, new, alike, scores, limits)


def _by_statement(old: Said, new: Said, alike: float, scores: dict[str, float], limits: Amending) -> Verdict | None:
    """A change that is stated, of which no value is recognised."""
    if new.cue.strength is not Strength.STATED or old.category == "event" or not _both_new(old.claim, new.claim):
        return None
    subject = new.cue.subject & set(old.claim.content)
    if 2 * len(subject) >= len(new.cue.subject) > 0 and alike >= limits.subject:
        return Verdict("subject", scores, f"changes {' '.join(sorted(subject))}: {new.cue.phrase}")
    if not new.cue.old and alike >= limits.stated_alone:
        return Verdict("stated", scores, new.cue.phrase)
    return None


def _needed(old: Said, new: Said, limits: Amending) -> float:
    """Likeness that another value needs to count as a change."""
    if new.cue.strength is Strength.STATED:
        return limits.stated
    if new.cue.strength is Strength.HINTED:
        return limits.hinted
    return limits.silent if _stateful(old, new) else math.inf


def _share(common: set[str], old: Claim, new: Claim, weights: Weights) -> float:
    """Weight of the words in common over that of the claim with less of it, 0 to 1."""
    sides = [sum(weights.get(w, 1.0) for w in set(c.content)) for c in (old, new)]
    return sum(weights.get(w, 1.0) for w in common) / min(sides) if min(sides) > 0 else 0.0


def _both_new(old: Claim, new: Claim) -> bool:
    """Whether each says something the other doesn't: one that only adds changes nothing."""
    return bool(set(old.content) - set(new.content)) and bool(set(new.content) - set(old.content))


def _stateful(old: Said, new: Said) -> bool:
    """Whether the claims tell how something is, of which there is one."""
    return old.category != "event" and new.category != "event" and MANY_VALUED.isdisjoint(old.claim.content)
