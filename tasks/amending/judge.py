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
from tasks.amending.values import EXCLUSIVE, conflict, reversal
from tasks.deduping.normalise import Claim, read_claim, stem

Weights = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Said:
    """A claim with its cue, and what it is read for."""

    claim: Claim
    cue: Cue
    slots: dict[str, frozenset[str]]
    category: str
    beside: frozenset[str] = frozenset()
    """Stems of what was said beside it that it does not have itself: why something changes, mostly."""


def read_said(text: str, speaker: str | None, category: str, beside: str | None = None) -> Said:
    """A sentence read for whether it changes another; `beside`: the one said before or after it."""
    claim = read_claim(text, speaker)
    also = frozenset(read_claim(beside).content) - set(claim.content) if beside else frozenset()
    return Said(claim, read_cue(text), slots_of(text), category, also)


@dataclass(frozen=True)
class Amending:
    """Likeness from which a claim counts as changed, from the plainest statement to none.

    Likeness is 0 to 2: the share of the shorter claim's words, weighed by rarity, that both have, plus the cosine of
    the vectors (without an encoder the share once more).
    """

    named: float = 0.68
    """The later claim names what it gives up, and the earlier one says that."""
    beside: float = math.inf
    """It gives no hint of a change, or little, but what the earlier one says was named beside it."""
    subject: float = 0.7
    """It names what it changes, and the earlier one is about that."""
    slot: float = 0.5
    """Both fill a slot that takes one value: home, work, a favourite; what "my …" is."""
    stated: float = 0.9
    """It speaks of a change, and gives another value of the same kind."""
    stated_opposite: float = 0.65
    """It speaks of a change, and gives the opposite, or the alternative, of what the earlier one says."""
    stated_alone: float = 1.05
    """It speaks of a change; no value of one kind is seen."""
    hinted: float = 1.0
    """It says "now" or "must", and gives another value."""
    present_alone: float = 1.25
    """It says "now"; no value of one kind is seen."""
    hinted_alone: float = math.inf
    """It says "must", "only", "finally"; no value of one kind is seen."""
    silent: float = 1.25
    """It only gives another value in much the same sentence, or says no to it."""
    echo: float = 1.2
    """Said in one session without any difference of value: what retires the one retires the other."""
    least_shared: float = 0.1
    least_cosine: float = 0.25


TELLING = 0.45
"""Weight, as a share of that of a word said once, from which a word names a thing: among 1,000 claims said by 40."""
NAMED_BESIDE = 0.3
"""What a name or a number of the earlier claim, told beside the later one, adds to their likeness at least."""
WITHIN = Amending(named=0.9, subject=0.95, stated=1.05, stated_alone=1.25, stated_opposite=0.9, hinted=1.2, silent=1.5)
"""The same within one session, where much is said of one thing, and work in progress is no decision."""
APART = Amending(
    named=0.5,
    beside=0.45,
    slot=0.4,
    subject=0.5,
    stated=0.55,
    stated_opposite=0.5,
    stated_alone=0.9,
    hinted=0.7,
    present_alone=0.7,
    hinted_alone=1.0,
    silent=0.85,
)
"""The same for a claim of a later session, and the one before it that is likest: two such rarely hold side by side."""


@dataclass(frozen=True)
class Verdict:
    """That the later claim changes the earlier: by which rule, on what scores, why."""

    rule: str
    scores: dict[str, float]
    reason: str
    instead: bool = False
    """Whether it gives another value, rather than only giving one up."""

    @property
    def plain(self) -> bool:
        """Whether it tells what is given up or what comes instead; else only that something changes."""
        return self.instead or self.rule in ("named", "subject", "slot", "reversal", "reaffirmed")

    @property
    def score(self) -> float:
        """By which the best of several is taken."""
        return self.scores["shared"] + self.scores.get("cosine", 0.0)


MANY_VALUED = frozenset(
    """like love enjoy know visit see read eat cook buy play meet hear find learn support add fix
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
    scores = likeness(old.claim, new.claim, cosine, weights)
    shared = scores["shared"]
    if new.beside & set(old.claim.content):
        return _amends(old, new, weights, scores, limits)
    if shared < limits.least_shared or scores.get("cosine", 1.0) < limits.least_cosine:
        return None
    return _amends(old, new, weights, scores, limits)


def _amends(old: Said, new: Said, weights: Weights, scores: dict[str, float], limits: Amending) -> Verdict | None:
    common = set(old.claim.content) & set(new.claim.content)
    alike = alike_by(scores)
    named = (new.cue.old & set(old.claim.content)) - old.cue.old  # both may give up the same
    if named and alike >= limits.named and _tells(named, weights):
        why = f"gives up {' '.join(sorted(named))}: {new.cue.phrase}"
        return Verdict("named", scores, why, conflict(old.claim, new.claim) is not None)
    slot = slot_conflict(old.slots, new.slots, old.claim)
    if slot is not None and alike >= limits.slot:
        return Verdict("slot", scores, slot, instead=True)
    value = conflict(old.claim, new.claim)
    if value is not None and alike >= _needed(old, new, value, limits):
        return Verdict(new.cue.strength.name.lower(), scores, value, instead=True)
    turned = reversal(old.claim, new.claim)
    if turned is not None and len(common) > 1 and alike >= limits.silent and old.category != "event":
        return Verdict("reversal", scores, turned)
    return (
        _by_statement(old, new, alike, scores, limits)
        or _by_hint(old, new, alike, scores, limits)
        or _by_company(old, new, alike, weights, scores, limits)
    )


def _tells(words: Iterable[str], weights: Weights) -> bool:
    """Whether one of the words is rare enough to name a thing."""
    rarest = max(weights.values(), default=0.0)
    return any(weights.get(word, rarest) >= TELLING * rarest for word in words)


def _by_company(
    old: Said, new: Said, alike: float, weights: Weights, scores: dict[str, float], limits: Amending
) -> Verdict | None:
    """ "Prism flickers on slow phones. We highlight with syntect.": the old beside the new."""
    named = (new.beside & set(old.claim.content)) - old.cue.old
    if not named or old.category == "event":
        return None
    everything = sum(weights.get(w, 1.0) for w in set(old.claim.content))
    more = sum(weights.get(w, 1.0) for w in named) / everything if everything else 0.0
    if named & {stem(w) for w in old.claim.names | old.claim.identifiers | old.claim.figures}:
        more = max(more, NAMED_BESIDE)
    if alike + more < limits.beside:
        return None
    return Verdict("beside", scores | {"beside": more}, f"{' '.join(sorted(named))} beside it")


def _by_hint(old: Said, new: Said, alike: float, scores: dict[str, float], limits: Amending) -> Verdict | None:
    """A present that is told where much the same was told before, of which no value is recognised."""
    needed = {Strength.PRESENT: limits.present_alone, Strength.HINTED: limits.hinted_alone}.get(new.cue.strength)
    if needed is None or alike < needed or not (_stateful(old, new) and _both_new(old.claim, new.claim)):
        return None
    return Verdict(new.cue.strength.name.lower(), scores, new.cue.phrase)


def likeness(a: Claim, b: Claim, cosine: float | None, weights: Weights) -> dict[str, float]:
    """How much two claims are about one thing: `shared`, and `cosine` where there are vectors."""
    shared = _share(set(a.content) & set(b.content), a, b, weights)
    return {"shared": shared} | ({} if cosine is None else {"cosine": cosine})


def alike_by(scores: Mapping[str, float]) -> float:
    """How much, in one number of 0 to 2; without a cosine the shared words count twice."""
    return scores["shared"] + scores.get("cosine", scores["shared"])


def values_of(claim: Claim) -> frozenset[str]:
    """Figures, names in code and names: what a claim sets something to, if it does."""
    return claim.figures | claim.identifiers | claim.names


def echoes(a: Said, b: Said, cosine: float | None, weights: Weights, limits: Amending) -> bool:
    """Whether one of two claims of a session says again what the other says, in whatever words."""
    if Strength.STATED in (a.cue.strength, b.cue.strength) or conflict(a.claim, b.claim):
        return False
    return alike_by(likeness(a.claim, b.claim, cosine, weights)) >= limits.echo and reversal(a.claim, b.claim) is None


def _by_statement(old: Said, new: Said, alike: float, scores: dict[str, float], limits: Amending) -> Verdict | None:
    """A change that is stated, of which no value is recognised."""
    if not (new.cue.subject or new.cue.strength is Strength.STATED) or old.category == "event":
        return None
    if not _both_new(old.claim, new.claim):
        return None
    subject = new.cue.subject & set(old.claim.content)
    if 2 * len(subject) >= len(new.cue.subject) > 0 and alike >= limits.subject:
        return Verdict("subject", scores, f"changes {' '.join(sorted(subject))}: {new.cue.phrase}")
    if new.cue.strength is Strength.STATED and not new.cue.old and alike >= limits.stated_alone:
        return Verdict("stated", scores, new.cue.phrase)
    return None


def _needed(old: Said, new: Said, value: str, limits: Amending) -> float:
    """Likeness that another value needs to count as a change."""
    if new.cue.strength is Strength.STATED:
        return limits.stated_opposite if value.startswith(EXCLUSIVE) else limits.stated
    if new.cue.strength in (Strength.PRESENT, Strength.HINTED):
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
    return old.category != "event" and MANY_VALUED.isdisjoint(old.claim.content)
