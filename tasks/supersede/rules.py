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

from slowwave.tasks.dedupe.normalise import Claim, normalise_claim
from slowwave.tasks.supersede.cues import COMPLAINT, Cue, Strength, find_blamed_stems, find_cue, is_complaint
from slowwave.tasks.supersede.limits import ChangeThresholds
from slowwave.tasks.supersede.values import (
    BARE,
    EXCLUSIVE,
    SELF,
    extract_slots,
    find_added_value,
    find_conflict,
    find_reversal,
    find_slot_conflict,
    is_value_change,
)
from slowwave.text.words import compute_smooth_idf, stem, stem_content_words

SELDOM = 4
"""Claims that have a word which names a matter: it is told, noted, and told anew."""
SELDOM_SHARE = 0.04
"""Of all claims they are this share at most."""


class IdfTable(dict[str, float]):
    """Stem -> weight by rarity."""

    @cached_property
    def max_idf(self) -> float:
        """The highest weight: that of a word said once."""
        return max(self.values(), default=1.0)

    def sum_idf(self, words: Iterable[str]) -> float:
        """Return weight of all the words, in an order of their own: the sum is the same to the last bit."""
        return sum(self.get(word, 1.0) for word in sorted(words))

    def count_rare(self, words: Iterable[str]) -> int:
        """Return how many of the words SELDOM claims have at most.

        None, of a handful of claims: there that is a good part.
        """
        return sum(self.get(word, 0.0) >= self._rare_idf for word in words)

    @cached_property
    def _rare_idf(self) -> float:
        """Weight of a word that just so many claims have."""
        claims = math.expm1(self.max_idf)
        return math.log1p(claims / min(SELDOM, SELDOM_SHARE * claims))


@dataclass(frozen=True, slots=True)
class ParsedClaim:
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


def parse_claim(
    text: str,
    speaker: str | None,
    category: str,
    beside: Sequence[str] = (),
    quote: str | None = None,
    *,
    everyday: bool = False,
) -> ParsedClaim:
    """Return a sentence read for whether it changes another; `beside`: those said with it, `quote`: its very words."""
    claim = normalise_claim(text, speaker)
    cue = find_cue(f"{_extract_opening(text, quote)}{text}")
    stated = cue.strength is Strength.STATED
    telling = [t for t in beside if stated or is_complaint(t) or find_cue(t).strength is Strength.STATED]
    also = frozenset(stem for t in telling for stem in normalise_claim(t).content) - set(claim.content)
    return ParsedClaim(
        claim, cue, extract_slots(text), category, quote or text, also, find_blamed_stems(text), everyday
    )


TELLING = 0.45
"""Weight, as a share of that of a word said once, from which a word names a thing: among 1,000 claims said by 40."""
NAMED_BESIDE = 0.3
"""What a name or a number of the earlier claim, told beside the later one, adds to their likeness at least."""


def _extract_opening(text: str, quote: str | None) -> str:
    """Return what a claim lacks of how its quote begins: "Actually, "."""
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


def compute_idf(claims: Iterable[Claim]) -> IdfTable:
    """Return stem -> weight by rarity among the claims (inverse document frequency)."""
    counts: Counter[str] = Counter()
    total = 0
    for claim in claims:
        counts.update(set(claim.content))
        total += 1
    return IdfTable({word: compute_smooth_idf(count, total) for word, count in counts.items()})


def judge_amendment(
    old: ParsedClaim, new: ParsedClaim, cosine: float | None, weights: IdfTable, limits: ChangeThresholds
) -> Verdict | None:
    """Return the verdict that `new` changes `old`, None where it does not.

    `cosine` is that of their vectors, None without an encoder: then words alone decide, and must share more.
    """
    scores = compute_similarity(old.claim, new.claim, cosine, weights)
    shared = scores["shared"]
    if is_about_person(old, new) or new.beside & set(old.claim.content):
        return _apply_rules(old, new, weights, scores, limits)
    if shared < limits.least_shared or scores.get("cosine", 1.0) < limits.least_cosine:
        return None
    return _apply_rules(old, new, weights, scores, limits)


def _apply_rules(
    old: ParsedClaim, new: ParsedClaim, weights: IdfTable, scores: dict[str, float], limits: ChangeThresholds
) -> Verdict | None:
    common = set(old.claim.content) & set(new.claim.content)
    alike = combine_similarity(scores)
    named = (new.cue.old & set(old.claim.content)) - old.cue.old - old.blamed  # both may give up the same
    mended = COMPLAINT.search(" ".join(new.cue.old))  # what no longer crashes is no decision
    if named and not mended and alike >= _get_named_threshold(named, old, limits) and _has_rare_word(named, weights):
        why = f"gives up {' '.join(sorted(named))}: {new.cue.phrase}"
        return Verdict("named", scores, why, find_conflict(old.claim, new.claim) is not None)
    slot = find_slot_conflict(old.slots, new.slots, old.claim)
    if slot is not None and alike >= _get_slot_threshold(slot, old, new, limits):
        return Verdict("slot", scores, slot, instead=True)
    value = find_conflict(old.claim, new.claim)
    if value is not None and alike >= _get_value_threshold(old, new, value, limits):
        return Verdict(new.cue.strength.name.lower(), scores, value, instead=True)
    value = find_added_value(old.claim, new.claim) if new.cue.strength > Strength.NONE else None
    if value is not None and alike >= limits.hinted and is_stateful(old, new):
        return Verdict(new.cue.strength.name.lower(), scores, value, instead=True)
    turned = find_reversal(old.claim, new.claim)
    if turned is not None and len(common) > 1 and alike >= limits.silent and old.category != "event":
        return Verdict("reversal", scores, turned)
    return (
        _judge_by_statement(old, new, alike, scores, limits)
        or _judge_by_hint(old, new, alike, scores, limits)
        or _judge_by_context(old, new, alike, weights, scores, limits)
    )


def _get_slot_threshold(slot: str, old: ParsedClaim, new: ParsedClaim, limits: ChangeThresholds) -> float:
    if slot.startswith(BARE):
        return limits.silent
    return limits.person if is_about_person(old, new) else limits.slot


def is_about_person(old: ParsedClaim, new: ParsedClaim) -> bool:
    """Return whether both tell where their speaker lives or works, or how they are called."""
    both = old.slots.keys() & new.slots.keys()
    own = old.claim.first_person and new.claim.first_person
    return "home" in both or any(slot.startswith(SELF) for slot in both) or (own and not both.isdisjoint(PERSON))


def _get_named_threshold(named: Iterable[str], old: ParsedClaim, limits: ChangeThresholds) -> float:
    return limits.named_value if collect_value_stems(old.claim).intersection(named) else limits.named


def collect_value_stems(claim: Claim) -> frozenset[str]:
    """Return stems of a claim's names, figures and names in code, as they stand in its content."""
    return frozenset(stem(w) for w in claim.names | claim.identifiers | claim.figures)


def _has_rare_word(words: Iterable[str], weights: IdfTable) -> bool:
    """Return whether one of the words is rare enough to name a thing."""
    return any(weights.get(word, weights.max_idf) >= TELLING * weights.max_idf for word in words)


def _judge_by_context(
    old: ParsedClaim,
    new: ParsedClaim,
    alike: float,
    weights: IdfTable,
    scores: dict[str, float],
    limits: ChangeThresholds,
) -> Verdict | None:
    """Judge by the old beside the new, as in "Prism flickers on slow phones. We highlight with syntect"."""
    named = ((new.beside | (new.blamed & collect_value_stems(old.claim))) & set(old.claim.content)) - old.cue.old
    if not named or old.category == "event" or not has_mutual_additions(old.claim, new.claim):
        return None
    everything = weights.sum_idf(set(old.claim.content))
    more = weights.sum_idf(named) / everything if everything else 0.0
    values = named & collect_value_stems(old.claim)
    if values:
        more = max(more, NAMED_BESIDE)
    enough = (
        limits.replaced
        if _is_replaced_decision(values, old, new) and _has_rare_word(values, weights)
        else limits.beside
    )
    if alike + more < enough:
        return None
    return Verdict("beside", scores | {"beside": more}, f"{' '.join(sorted(named))} beside it")


def _is_replaced_decision(values: Iterable[str], old: ParsedClaim, new: ParsedClaim) -> bool:
    """Return whether a decision ends on a name that was blamed, and the new one has another name: "It runs on
    Heroku".
    """
    stems = stem_content_words(old.claim.words)
    late = bool(set(values).intersection(stems[len(stems) // 3 :]))
    other = (new.claim.names | new.claim.identifiers) - old.claim.names - old.claim.identifiers
    return late and bool(other) and old.category in CODING


def _judge_by_hint(
    old: ParsedClaim, new: ParsedClaim, alike: float, scores: dict[str, float], limits: ChangeThresholds
) -> Verdict | None:
    """Return a present that is told where much the same was told before, of which no value is recognised."""
    by_cue = {Strength.PRESENT: limits.present_alone, Strength.HINTED: limits.hinted_alone}
    gives = bool(collect_values(new.claim) - collect_values(old.claim)) and find_conflict(old.claim, new.claim) is None
    needed = by_cue.get(new.cue.strength, limits.silent_alone if gives else math.inf)
    if alike < needed or not (is_stateful(old, new) and has_mutual_additions(old.claim, new.claim)):
        return None
    return Verdict(new.cue.strength.name.lower(), scores, new.cue.phrase or "much the same, with another value")


def compute_similarity(a: Claim, b: Claim, cosine: float | None, weights: IdfTable) -> dict[str, float]:
    """Return how much two claims are about one thing: `shared`, and `cosine` where there are vectors."""
    shared = _compute_overlap(set(a.content) & set(b.content), a, b, weights)
    return {"shared": shared} | ({} if cosine is None else {"cosine": cosine})


def combine_similarity(scores: Mapping[str, float]) -> float:
    """Return how much, in one number of 0 to 2; without a cosine the shared words count twice."""
    return scores["shared"] + scores.get("cosine", scores["shared"])


def collect_values(claim: Claim) -> frozenset[str]:
    """Return figures, dates, names in code and names: what a claim sets something to, if it does."""
    days = {f"{month:02}-{day:02}" for _, month, day in claim.dates}
    return claim.figures | claim.identifiers | claim.names | days


def _judge_by_statement(
    old: ParsedClaim, new: ParsedClaim, alike: float, scores: dict[str, float], limits: ChangeThresholds
) -> Verdict | None:
    """Return a change that is stated, of which no value is recognised."""
    if not (new.cue.subject or new.cue.strength is Strength.STATED) or old.category == "event":
        return None
    if not has_mutual_additions(old.claim, new.claim):
        return None
    subject = new.cue.subject & set(old.claim.content)
    enough = limits.subject if new.cue.strength is Strength.STATED else limits.hinted
    if 2 * len(subject) >= len(new.cue.subject) > 0 and alike >= enough:
        return Verdict("subject", scores, f"changes {' '.join(sorted(subject))}: {new.cue.phrase}")
    if new.cue.strength is Strength.STATED and not new.cue.old and alike >= limits.stated_alone:
        return Verdict("stated", scores, new.cue.phrase)
    return None


def _get_value_threshold(old: ParsedClaim, new: ParsedClaim, value: str, limits: ChangeThresholds) -> float:
    """Return likeness that another value needs to count as a change."""
    if is_report(old) and is_report(new):
        return math.inf
    if new.cue.strength is Strength.STATED:
        instead = limits.stated_opposite if value.startswith(EXCLUSIVE) else limits.stated
        return min(instead, limits.named_value) if collect_value_stems(old.claim) & set(new.claim.content) else instead
    if not is_stateful(old, new) or not is_value_change(old.claim, new.claim, value):
        return math.inf
    return limits.hinted if new.cue.strength > Strength.NONE else limits.silent


def _compute_overlap(common: set[str], old: Claim, new: Claim, weights: IdfTable) -> float:
    """Return weight of the words in common over that of the claim with less of it, 0 to 1."""
    sides = [weights.sum_idf(set(c.content)) for c in (old, new)]
    return weights.sum_idf(common) / min(sides) if min(sides) > 0 else 0.0


def has_mutual_additions(old: Claim, new: Claim) -> bool:
    """Return whether each says something the other doesn't: one that only adds changes nothing."""
    return bool(set(old.content) - set(new.content)) and bool(set(new.content) - set(old.content))


def is_stateful(old: ParsedClaim, new: ParsedClaim) -> bool:
    """Return whether the claims tell how something is, of which there is one."""
    told = new.category == "event" and new.cue.strength is Strength.NONE
    events = old.category == "event" or told or is_report(new) or is_report(old)
    return not events and MANY_VALUED.isdisjoint(old.claim.content)


def is_report(said: ParsedClaim) -> bool:
    """Return whether a claim opens with what was done, and by nobody: "Replaced in 14 forms" tells of work, not of a
    state.
    """
    words = said.claim.words
    return len(words) > 1 and words[0].endswith("ed") and (words[1] in AFTER_REPORT or words[1][:1].isdigit())
