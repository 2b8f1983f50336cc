"""Whether a later claim changes an earlier one. The pair level, without any table or model.

Both must be about one thing (shared words weighed by rarity, cosine where there are vectors), and the later must say
so: by naming what is given up, by a cue of change, or by another value in an otherwise equal sentence. What is not
said plainly must be alike all the more, since a wrong retirement costs more than a missed one.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from slowwave.tasks.dedupe.normalise import Claim, carries, read_claim, stem
from slowwave.tasks.supersede.cues import COMPLAINT, Cue, Strength, blamed, complains, read_cue
from slowwave.tasks.supersede.limits import Amending
from slowwave.tasks.supersede.values import (
    BARE,
    EXCLUSIVE,
    SELF,
    conflict,
    reversal,
    settles,
    slot_conflict,
    slots_of,
    widened,
)

SELDOM = 4
"""Claims that have a word which names a matter: it is told, noted, and told anew."""
SELDOM_SHARE = 0.04
"""Of all claims they are this share at most."""


class Weights(dict[str, float]):
    """Stem -> weight by rarity."""

    @cached_property
    def rarest(self) -> float:
        """The highest weight: that of a word said once."""
        return max(self.values(), default=1.0)

    def total(self, words: Iterable[str]) -> float:
        """Weight of all the words, in an order of their own: the sum is the same to the last bit."""
        return sum(self.get(word, 1.0) for word in sorted(words))

    def seldom(self, words: Iterable[str]) -> int:
        """How many of the words SELDOM claims have at most; none, of a handful of claims: there that is a good part."""
        return sum(self.get(word, 0.0) >= self._seldom for word in words)

    @cached_property
    def _seldom(self) -> float:
        """Weight of a word that just so many claims have."""
        claims = math.expm1(self.rarest)
        return math.log1p(claims / min(SELDOM, SELDOM_SHARE * claims))


@dataclass(frozen=True, slots=True)
class Said:
    """A claim with its cue, and what it is read for."""

    claim: Claim
    cue: Cue
    slots: dict[str, frozenset[str]]
    category: str
    text: str
    """Its very words, where they are known."""
    beside: frozenset[str] = frozenset()
    """Stems of what was said beside it that it does not have itself: why something changes, mostly."""
    blamed: frozenset[str] = frozenset()
    """Stems of what it says is wrong, before it says what comes instead."""
    everyday: bool = False
    """Whether it was said in everyday talk, not at work on code."""


def read_said(
    text: str,
    speaker: str | None,
    category: str,
    beside: Sequence[str] = (),
    quote: str | None = None,
    *,
    everyday: bool = False,
) -> Said:
    """A sentence read for whether it changes another; `beside`: those said with it, `quote`: its very words."""
    claim = read_claim(text, speaker)
    cue = read_cue(f"{_opening(text, quote)}{text}")
    stated = cue.strength is Strength.STATED
    telling = [t for t in beside if stated or complains(t) or read_cue(t).strength is Strength.STATED]
    also = frozenset(stem for t in telling for stem in read_claim(t).content) - set(claim.content)
    return Said(claim, cue, slots_of(text), category, quote or text, also, blamed(text), everyday)


TELLING = 0.45
"""Weight, as a share of that of a word said once, from which a word names a thing: among 1,000 claims said by 40."""
NAMED_BESIDE = 0.3
"""What a name or a number of the earlier claim, told beside the later one, adds to their likeness at least."""


def _opening(text: str, quote: str | None) -> str:
    """What a claim lacks of how its quote begins: "Actually, "."""
    at = quote.casefold().find(text.casefold()) if quote else -1
    return quote[:at] if quote and 0 < at <= LONGEST_OPENING else ""


@dataclass(frozen=True)
class Verdict:
    """That the later claim changes the earlier: by which rule, on what scores, why."""

    rule: str
    scores: dict[str, float]
    reason: str
    instead: bool = False
    """Whether it gives another value, rather than only giving one up."""

    @property
    def score(self) -> float:
        """By which the best of several is taken."""
        return self.scores["shared"] + self.scores.get("cosine", 0.0)


PERSON = frozenset(("home", "work", "name"))
"""Slots of which somebody has one."""
LONGEST_OPENING = 30
AFTER_REPORT = frozenset("in with to for from the a an all by on it and as at this that".split())  # noqa: SIM905
CODING = frozenset(("decision", "pattern", "gotcha", "convention", "context"))
MANY_VALUED = frozenset(
    """like love enjoy know visit see read eat cook buy play meet hear find learn support add fix
    implement include have""".split()  # noqa: SIM905
)
"""Verbs of which several may hold at once: who likes tea may like coffee."""


def word_weights(claims: Iterable[Claim]) -> Weights:
    """Stem -> weight by rarity among the claims (inverse document frequency)."""
    counts: Counter[str] = Counter()
    total = 0
    for claim in claims:
        counts.update(set(claim.content))
        total += 1
    return Weights({word: math.log(1 + total / count) for word, count in counts.items()})


def amends(old: Said, new: Said, cosine: float | None, weights: Weights, limits: Amending) -> Verdict | None:
    """The verdict that `new` changes `old`, None where it does not.

    `cosine` is that of their vectors, None without an encoder: then words alone decide, and must share more.
    """
    scores = likeness(old.claim, new.claim, cosine, weights)
    shared = scores["shared"]
    if of_person(old, new) or new.beside & set(old.claim.content):
        return _amends(old, new, weights, scores, limits)
    if shared < limits.least_shared or scores.get("cosine", 1.0) < limits.least_cosine:
        return None
    return _amends(old, new, weights, scores, limits)


def _amends(old: Said, new: Said, weights: Weights, scores: dict[str, float], limits: Amending) -> Verdict | None:
    common = set(old.claim.content) & set(new.claim.content)
    alike = alike_by(scores)
    named = (new.cue.old & set(old.claim.content)) - old.cue.old - old.blamed  # both may give up the same
    mended = COMPLAINT.search(" ".join(new.cue.old))  # what no longer crashes is no decision
    if named and not mended and alike >= _named_limit(named, old, limits) and _tells(named, weights):
        why = f"gives up {' '.join(sorted(named))}: {new.cue.phrase}"
        return Verdict("named", scores, why, conflict(old.claim, new.claim) is not None)
    slot = slot_conflict(old.slots, new.slots, old.claim)
    if slot is not None and alike >= _slot_limit(slot, old, new, limits):
        return Verdict("slot", scores, slot, instead=True)
    value = conflict(old.claim, new.claim)
    if value is not None and alike >= _needed(old, new, value, limits):
        return Verdict(new.cue.strength.name.lower(), scores, value, instead=True)
    value = widened(old.claim, new.claim) if new.cue.strength > Strength.NONE else None
    if value is not None and alike >= limits.hinted and stateful(old, new):
        return Verdict(new.cue.strength.name.lower(), scores, value, instead=True)
    turned = reversal(old.claim, new.claim)
    if turned is not None and len(common) > 1 and alike >= limits.silent and old.category != "event":
        return Verdict("reversal", scores, turned)
    return (
        _by_statement(old, new, alike, scores, limits)
        or _by_hint(old, new, alike, scores, limits)
        or _by_company(old, new, alike, weights, scores, limits)
    )


def _slot_limit(slot: str, old: Said, new: Said, limits: Amending) -> float:
    if slot.startswith(BARE):
        return limits.silent
    return limits.person if of_person(old, new) else limits.slot


def of_person(old: Said, new: Said) -> bool:
    """Whether both tell where their speaker lives or works, or how they are called."""
    both = old.slots.keys() & new.slots.keys()
    own = old.claim.first_person and new.claim.first_person
    return "home" in both or any(slot.startswith(SELF) for slot in both) or (own and not both.isdisjoint(PERSON))


def _named_limit(named: Iterable[str], old: Said, limits: Amending) -> float:
    return limits.named_value if value_stems(old.claim).intersection(named) else limits.named


def value_stems(claim: Claim) -> frozenset[str]:
    """Stems of a claim's names, figures and names in code, as they stand in its content."""
    return frozenset(stem(w) for w in claim.names | claim.identifiers | claim.figures)


def _tells(words: Iterable[str], weights: Weights) -> bool:
    """Whether one of the words is rare enough to name a thing."""
    return any(weights.get(word, weights.rarest) >= TELLING * weights.rarest for word in words)


def _by_company(
    old: Said, new: Said, alike: float, weights: Weights, scores: dict[str, float], limits: Amending
) -> Verdict | None:
    """ "Prism flickers on slow phones. We highlight with syntect.": the old beside the new."""
    named = ((new.beside | (new.blamed & value_stems(old.claim))) & set(old.claim.content)) - old.cue.old
    if not named or old.category == "event" or not both_new(old.claim, new.claim):
        return None
    everything = weights.total(set(old.claim.content))
    more = weights.total(named) / everything if everything else 0.0
    values = named & value_stems(old.claim)
    if values:
        more = max(more, NAMED_BESIDE)
    enough = limits.replaced if _replaced(values, old, new) and _tells(values, weights) else limits.beside
    if alike + more < enough:
        return None
    return Verdict("beside", scores | {"beside": more}, f"{' '.join(sorted(named))} beside it")


def _replaced(values: Iterable[str], old: Said, new: Said) -> bool:
    """Whether a decision ends on a name that was blamed, and the new one has another name: "It runs on Heroku"."""
    stems = [stem(w) for w in old.claim.words if carries(w)]
    late = bool(set(values).intersection(stems[len(stems) // 3 :]))
    other = (new.claim.names | new.claim.identifiers) - old.claim.names - old.claim.identifiers
    return late and bool(other) and old.category in CODING


def _by_hint(old: Said, new: Said, alike: float, scores: dict[str, float], limits: Amending) -> Verdict | None:
    """A present that is told where much the same was told before, of which no value is recognised."""
    by_cue = {Strength.PRESENT: limits.present_alone, Strength.HINTED: limits.hinted_alone}
    gives = bool(values_of(new.claim) - values_of(old.claim)) and conflict(old.claim, new.claim) is None
    needed = by_cue.get(new.cue.strength, limits.silent_alone if gives else math.inf)
    if alike < needed or not (stateful(old, new) and both_new(old.claim, new.claim)):
        return None
    return Verdict(new.cue.strength.name.lower(), scores, new.cue.phrase or "much the same, with another value")


def likeness(a: Claim, b: Claim, cosine: float | None, weights: Weights) -> dict[str, float]:
    """How much two claims are about one thing: `shared`, and `cosine` where there are vectors."""
    shared = _share(set(a.content) & set(b.content), a, b, weights)
    return {"shared": shared} | ({} if cosine is None else {"cosine": cosine})


def alike_by(scores: Mapping[str, float]) -> float:
    """How much, in one number of 0 to 2; without a cosine the shared words count twice."""
    return scores["shared"] + scores.get("cosine", scores["shared"])


def values_of(claim: Claim) -> frozenset[str]:
    """Figures, dates, names in code and names: what a claim sets something to, if it does."""
    days = {f"{month:02}-{day:02}" for _, month, day in claim.dates}
    return claim.figures | claim.identifiers | claim.names | days


def _by_statement(old: Said, new: Said, alike: float, scores: dict[str, float], limits: Amending) -> Verdict | None:
    """A change that is stated, of which no value is recognised."""
    if not (new.cue.subject or new.cue.strength is Strength.STATED) or old.category == "event":
        return None
    if not both_new(old.claim, new.claim):
        return None
    subject = new.cue.subject & set(old.claim.content)
    enough = limits.subject if new.cue.strength is Strength.STATED else limits.hinted
    if 2 * len(subject) >= len(new.cue.subject) > 0 and alike >= enough:
        return Verdict("subject", scores, f"changes {' '.join(sorted(subject))}: {new.cue.phrase}")
    if new.cue.strength is Strength.STATED and not new.cue.old and alike >= limits.stated_alone:
        return Verdict("stated", scores, new.cue.phrase)
    return None


def _needed(old: Said, new: Said, value: str, limits: Amending) -> float:
    """Likeness that another value needs to count as a change."""
    if reports(old) and reports(new):
        return math.inf
    if new.cue.strength is Strength.STATED:
        instead = limits.stated_opposite if value.startswith(EXCLUSIVE) else limits.stated
        return min(instead, limits.named_value) if value_stems(old.claim) & set(new.claim.content) else instead
    if not stateful(old, new) or not settles(old.claim, new.claim, value):
        return math.inf
    return limits.hinted if new.cue.strength > Strength.NONE else limits.silent


def _share(common: set[str], old: Claim, new: Claim, weights: Weights) -> float:
    """Weight of the words in common over that of the claim with less of it, 0 to 1."""
    sides = [weights.total(set(c.content)) for c in (old, new)]
    return weights.total(common) / min(sides) if min(sides) > 0 else 0.0


def both_new(old: Claim, new: Claim) -> bool:
    """Whether each says something the other doesn't: one that only adds changes nothing."""
    return bool(set(old.content) - set(new.content)) and bool(set(new.content) - set(old.content))


def stateful(old: Said, new: Said) -> bool:
    """Whether the claims tell how something is, of which there is one."""
    told = new.category == "event" and new.cue.strength is Strength.NONE
    events = old.category == "event" or told or reports(new) or reports(old)
    return not events and MANY_VALUED.isdisjoint(old.claim.content)


def reports(said: Said) -> bool:
    """Whether a claim opens with what was done, and by nobody: "Replaced in 14 forms" tells of work, not of a state."""
    words = said.claim.words
    return len(words) > 1 and words[0].endswith("ed") and (words[1] in AFTER_REPORT or words[1][:1].isdigit())
