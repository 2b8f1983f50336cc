"""What tells whether a later claim changes an earlier one, as numbers: `slowwave.tasks.supersede.model` weighs them.

The same things that the plain rules of `slowwave.tasks.supersede.rules` look at, none of them decisive: a model of many
weak signs reaches changes that nobody states ("Our hearing is on 17 July at 10:30").
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from slowwave.tasks.supersede.cues import Strength, is_complaint
from slowwave.tasks.supersede.frames import compute_frame_features
from slowwave.tasks.supersede.rules import (
    IdfTable,
    ParsedClaim,
    collect_value_stems,
    has_mutual_additions,
    is_about_person,
    is_report,
    is_stateful,
)
from slowwave.tasks.supersede.statements import TONES
from slowwave.tasks.supersede.values import (
    EXCLUSIVE,
    extract_unit,
    find_added_value,
    find_conflict,
    find_reversal,
    find_slot_conflict,
    is_value_change,
)
from slowwave.text.words import is_content_word, stem, stem_content_words

MOST = 8
"""Claims that are nearer; more are no further away."""
EARLIER = ("hedges", "worked", "passing", "past", "happened", "holds", "feels", "chats")
"""Those that count of the earlier claim too."""
SIGNS = (
    *("another value", "stated", "present", "names it", "beside", "value for a value", "reversed", "slot", "subject"),
    *("widened", "one word governs", "another in its place, one word before", "much alike up to a value"),
    *("opens alike", "closes alike"),
)
"""Traits without which the later claim only says much the same."""


@dataclass(frozen=True, slots=True)
class PairRank:
    """Where a pair stands among the other pairs of its two claims, by likeness (0 to 2)."""

    nearer_before: int
    """Earlier claims that are liker to the later one."""
    nearer_after: int
    """Later claims that are liker to the earlier one."""
    behind_before: float
    """Likeness that the pair is behind the likest of the earlier."""
    behind_after: float
    lead: float
    """Likeness that it is ahead of all other earlier ones; below 0 where it is behind."""


def rank_pairs(alike: Mapping[tuple[int, int], float]) -> dict[tuple[int, int], PairRank]:
    """Return (earlier row, later row) -> its company; from the likeness of every pair of two sessions."""
    before: dict[int, list[tuple[float, int]]] = defaultdict(list)
    after: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for (old, new), likeness in alike.items():
        before[new].append((likeness, old))
        after[old].append((likeness, new))
    placed_before = {new: _rank_neighbours(some) for new, some in before.items()}
    placed_after = {old: _rank_neighbours(some) for old, some in after.items()}
    found = {}
    for (old, new), likeness in alike.items():
        nearer_before, behind_before, others = placed_before[new][old]
        nearer_after, behind_after, _ = placed_after[old][new]
        found[old, new] = PairRank(
            min(nearer_before, MOST),
            min(nearer_after, MOST),
            behind_before,
            behind_after,
            likeness - others,
        )
    return found


def _rank_neighbours(some: list[tuple[float, int]]) -> dict[int, tuple[int, float, float]]:
    """Return row -> how many are liker, by how much the likest is ahead, the likeness of the likest other."""
    ranked = sorted(some, key=lambda one: (-one[0], one[1]))
    best, second = ranked[0][0], ranked[1][0] if len(ranked) > 1 else 0.0
    return {row: (place, best - alike, best if place else second) for place, (alike, row) in enumerate(ranked)}


def compute_pair_features(
    old: ParsedClaim, new: ParsedClaim, scores: Mapping[str, float], weights: IdfTable, company: PairRank
) -> dict[str, float]:
    """Return name -> value, 0 or 1 for what is or isn't, shares from 0 to 1, counts of words up to 20.

    scores: `shared` and `cosine` of the pair (`slowwave.tasks.supersede.rules.likeness`).
    """
    found = (
        _compute_overlap_features(old, new, scores, weights)
        | _compute_value_features(old, new)
        | _compute_cue_features(old, new, weights)
        | _compute_tone_features(old, new)
        | compute_frame_features(old, new, weights)
        | _compute_rank_features(company)
    )
    signed = any(found[name] > 0 for name in SIGNS)
    alike = scores["shared"] + scores["cosine"]
    given = {
        "with another value": found["another value"],
        "with a value for a value": found["value for a value"],
        "with other kinds of values": found["other kinds"],
        "and stated": found["stated"],
        "and named beside": found["beside"] > 0,
        "without a sign": not signed,
        "of what happened": found["happened"] * found["earlier happened"],
        "of feelings": max(found["feels"], found["earlier feels"]),
        "of everyday life": found["everyday"],
        "of an event": found["earlier event"],
        "of a state": found["stateful"],
    }
    found |= {f"alike {name}": alike * value for name, value in given.items()}
    return {name: float(value) for name, value in found.items()}


def _compute_overlap_features(
    old: ParsedClaim, new: ParsedClaim, scores: Mapping[str, float], weights: IdfTable
) -> dict[str, float]:
    a, b = set(old.claim.content), set(new.claim.content)
    common, first, second = weights.sum_idf(a & b), weights.sum_idf(a), weights.sum_idf(b)
    words, later = stem_content_words(old.claim.words), stem_content_words(new.claim.words)
    half, later_half = max(1, len(words) // 2), max(1, len(later) // 2)
    return {
        "cosine": scores["cosine"],
        "shared": scores["shared"],
        "cosine and shared": scores["cosine"] * scores["shared"],
        "of the earlier": common / first if first else 0.0,
        "of the later": common / second if second else 0.0,
        "of both": common / (first + second - common) if first + second > common else 0.0,
        "rarest shared": max((weights.get(w, weights.max_idf) for w in a & b), default=0.0) / weights.max_idf,
        "seldom words shared": min(weights.count_rare(a & b), 3),
        "words shared": min(len(a & b), 5),
        "words of the earlier": min(len(a), 20),
        "words of the later": min(len(b), 20),
        "gone": min(len(a - b), 10),
        "come": min(len(b - a), 10),
        "beginning shared": _compute_coverage(words[:half], b, weights),
        "end shared": _compute_coverage(words[half:], b, weights),
        "later's beginning shared": _compute_coverage(later[:later_half], a, weights),
        "begin alike": words[:1] == later[:1] != [],
    }


def _compute_value_features(old: ParsedClaim, new: ParsedClaim) -> dict[str, float]:
    a, b = set(old.claim.content), set(new.claim.content)
    had, has = collect_value_stems(old.claim), collect_value_stems(new.claim)
    kinds, later_kinds = _collect_value_kinds(old), _collect_value_kinds(new)
    counted, later_counted = _find_counted_stems(old), _find_counted_stems(new)
    value = find_conflict(old.claim, new.claim) or ""
    kind = value.split()[0] if value else ""
    return {
        "another value": bool(value),
        "another number": kind == "number",
        "another date": kind == "date",
        "another identifier": kind == "identifier",
        "alternative": kind == EXCLUSIVE,
        "another name": kind == "name",
        "settles": bool(value) and is_value_change(old.claim, new.claim, value),
        "widened": find_added_value(old.claim, new.claim) is not None,
        "reversed": find_reversal(old.claim, new.claim) is not None,
        "slot": find_slot_conflict(old.slots, new.slots, old.claim) is not None,
        "of a person": is_about_person(old, new),
        "had a value": bool(had),
        "has a value": bool(has),
        "value gone": bool(had - has - b),
        "value come": bool(has - had - a),
        "value for a value": bool(had - b) and bool(has - a),
        "value kept": bool(had & b),
        "kinds kept": len(kinds & later_kinds) / (len(kinds) or 1),
        "other kinds": bool(kinds) and bool(later_kinds) and kinds.isdisjoint(later_kinds),
        "counts the same": not counted.isdisjoint(later_counted),
        "counts another": bool(counted) and bool(later_counted) and counted.isdisjoint(later_counted),
        "both number": bool(old.claim.figures) and bool(new.claim.figures),
        "number kept": bool(old.claim.figures & new.claim.figures),
    }


def _collect_value_kinds(said: ParsedClaim) -> set[str]:
    """Return what kinds of values a claim has; numbers by their units."""
    claim = said.claim
    found = {f"number {extract_unit(figure)}" for figure in claim.figures}
    named = {"date": claim.dates, "name": claim.names, "identifier": claim.identifiers}
    return found | {kind for kind, some in named.items() if some}


def _find_counted_stems(said: ParsedClaim) -> set[str]:
    """Return stems of the words next to a claim's numbers: what they number."""
    words = [word for word in said.claim.words if is_content_word(word) or word in said.claim.figures]
    beside = {
        words[at + step]
        for at, word in enumerate(words)
        if word in said.claim.figures
        for step in (-1, 1)
        if 0 <= at + step < len(words)
    }
    return {stem(word) for word in beside - said.claim.figures}


def _compute_cue_features(old: ParsedClaim, new: ParsedClaim, weights: IdfTable) -> dict[str, float]:
    a = set(old.claim.content)
    worth = weights.sum_idf(a) or 1.0
    values = collect_value_stems(old.claim)
    named, subject = (new.cue.old & a) - old.cue.old, new.cue.subject & a
    return {
        "stated": new.cue.strength is Strength.STATED,
        "present": new.cue.strength is Strength.PRESENT,
        "hinted": new.cue.strength is Strength.HINTED,
        "earlier stated": old.cue.strength is Strength.STATED,
        "names it": bool(named),
        "names of it": weights.sum_idf(named) / worth,
        "names another": bool(new.cue.old) and not named,
        "subject": len(subject) / len(new.cue.subject) if new.cue.subject else 0.0,
        "another subject": bool(new.cue.subject) and not subject,
        "beside": weights.sum_idf(new.beside & a) / worth,
        "value beside": bool(new.beside & values),
        "has company": bool(new.beside),
        "blamed": weights.sum_idf(new.blamed & a) / worth,
        "value blamed": bool(new.blamed & values),
        "complains": is_complaint(new.text),
    }


def _compute_tone_features(old: ParsedClaim, new: ParsedClaim) -> dict[str, float]:
    found: dict[str, float] = {name: bool(tone.search(new.text)) for name, tone in TONES.items()}
    found |= {f"earlier {name}": bool(TONES[name].search(old.text)) for name in EARLIER}
    rest: dict[str, float] = {
        "event": new.category == "event",
        "earlier event": old.category == "event",
        "of one category": old.category == new.category,
        "everyday": old.everyday,
        "stateful": is_stateful(old, new),
        "reports": is_report(new),
        "earlier reports": is_report(old),
        "each new": has_mutual_additions(old.claim, new.claim),
        "both in first person": old.claim.first_person and new.claim.first_person,
        "one in first person": old.claim.first_person != new.claim.first_person,
        "says no": bool(new.claim.negated),
        "earlier says no": bool(old.claim.negated),
    }
    return found | rest


def _compute_rank_features(company: PairRank) -> dict[str, float]:
    return {
        "likest before": company.nearer_before == 0,
        "likest after": company.nearer_after == 0,
        "nearer before": company.nearer_before,
        "nearer after": company.nearer_after,
        "behind before": company.behind_before,
        "behind after": company.behind_after,
        "lead": company.lead,
    }


def _compute_coverage(words: list[str], other: set[str], weights: IdfTable) -> float:
    worth = weights.sum_idf(set(words))
    return weights.sum_idf(set(words) & other) / worth if worth else 0.0
