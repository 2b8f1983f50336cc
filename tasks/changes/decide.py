"""Decide what happens to the claims of each pair: no tables are read or made here, and no model is asked.

The probability that the later claim changes the earlier one, and a language model's verdict if there is one, give an
outcome (`slowwave.tasks.changes.verdicts`). A claim is retired if that is sure. If it is likely, the two are linked:
both stay active, and the ledger names the later one. A claim that was repeated since holds again: it then retires the
other, or is linked to it as the later one. The kind is the ledger's rule: it says whether the later claim has another
value, takes the earlier back, or states a value again that the earlier had replaced.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from slowwave.schemas.vocabulary import (
    AFFIRMED,
    CORRECTED,
    EXTRACTIVE,
    LEADS,
    NARROWED,
    OF_ANOTHER,
    PERHAPS_CHANGED,
    PERHAPS_RESTORED,
    PERHAPS_RETRACTED,
    RESTORED,
    RETRACTED,
    LedgerKind,
)
from slowwave.tasks.changes.again import names_both, states_again
from slowwave.tasks.changes.pairs import CandidateClaims
from slowwave.tasks.changes.verdicts import (
    LEADING,
    Outcome,
    PairVerdict,
    Rows,
    find_outcome,
)

UNCONFIRMED = 0.5
"""Probability of a correction by an agent that no person has confirmed."""
REPORTED = 0.7
"""Probability from which an agent's claim changes a person's of the same session. Seen there: .55 wrong, .83 right."""
EVEN = 0.5
"""Probability from which a change is likelier than none."""
CHANGED = "changed"
PERHAPS = "perhaps"
"""Kinds: the later claim changes the earlier; the later may change it."""
DOUBTS = frozenset((PERHAPS, PERHAPS_RETRACTED, PERHAPS_RESTORED, LEADS))
"""Kinds that leave the earlier claim active."""
REASONS = {
    CHANGED: "told anew",
    RETRACTED: "taken back",
    PERHAPS: "perhaps told anew",
    PERHAPS_RETRACTED: "perhaps taken back",
    RESTORED: "an old value again",
    PERHAPS_RESTORED: "perhaps an old value again",
    LEADS: "perhaps told anew",
}
AGREEING = {AFFIRMED: "said again in other words", NARROWED: "of a narrower case"}
RESTORING = {
    CHANGED: RESTORED,
    RETRACTED: RESTORED,
    RESTORED: RESTORED,
    PERHAPS: PERHAPS_RESTORED,
    PERHAPS_RETRACTED: PERHAPS_RESTORED,
    PERHAPS_RESTORED: PERHAPS_RESTORED,
    LEADS: LEADS,
}
"""Kind of a pair -> the kind if the earlier claim was repeated after the later one."""
AGAIN = "the earlier was said again"
IsOfKind = Callable[[str], bool]
"""Returns True if the reader of statements finds a person's sentence of a kind: of the moment, or a retraction."""


@dataclass(frozen=True)
class ChangeDecision:
    """What happens to one row: `later` retires `earlier` from a moment on, or is only linked to it."""

    earlier: int
    """The row that gives way; for a restoration the row that had replaced the old value."""
    later: int
    kind: str
    """The rule in the ledger."""
    at: datetime
    p: float
    """Probability, 0 to 1."""
    why: str
    key: str | None = None
    """The key under which a language model decided, or None if the classifier did."""

    @property
    def is_doubt(self) -> bool:
        """Whether the earlier claim stays active, and may be changed."""
        return self.kind in DOUBTS

    @property
    def ledger_kind(self) -> LedgerKind:
        """The kind of its row in the ledger."""
        if self.kind in AGREEING:
            return LedgerKind.AGREEMENT
        return LedgerKind.DOUBT if self.is_doubt else LedgerKind.SUPERSESSION


@dataclass(frozen=True)
class ChangeGuesses:
    """What the classifier finds of pairs."""

    likely: Mapping[Rows, float]
    """Probability of a change."""
    taken_back: Set[Rows]
    """Pairs whose later claim, if it changes the earlier, takes it back without a new value."""
    plain: Mapping[Rows, str] = field(default_factory=dict)
    """Pair -> AFFIRMED, NARROWED, RETRACTED or OF_ANOTHER, if that is plain; PERHAPS_RETRACTED if it is less plain."""
    likest: Set[Rows] = frozenset()
    """The pairs of two sessions whose earlier claim is among the likest of the later one."""
    retracting: Set[Rows] = frozenset()
    """Pairs whose later claim both readers find to take the earlier back."""
    restored: Set[Rows] = frozenset()
    """Pairs whose later claim, if it changes the earlier, states a value again that the earlier had replaced."""

    @cached_property
    def highest(self) -> dict[int, float]:
        """The highest probability of a change by each later claim."""
        found: dict[int, float] = {}
        for (_, new), likely in self.likely.items():
            found[new] = max(likely, found.get(new, 0.0))
        return found


@dataclass(frozen=True)
class Decisions:
    """The changes, doubts and agreements of one pass over the pairs."""

    changes: list[ChangeDecision]
    doubts: list[ChangeDecision]
    agreements: list[ChangeDecision]
    freed: Set[int]
    """Retired rows that nothing active retires any more."""


def decide(
    claims: CandidateClaims,
    guesses: ChangeGuesses,
    verdicts: Mapping[Rows, PairVerdict],
    corrections: Mapping[Rows, bool],
    undone: Set[frozenset[int]],
) -> Decisions:
    """Return the changes, doubts and agreements that follow from guesses, verdicts and corrections.

    What others say does not change what the person or the own agent said, unless a person corrects it.
    """
    repeated = _select_applicable(claims, find_repetitions(claims, undone))
    freed = claims.reopened | {decision.later for decision in repeated}
    settled = settle_retractions(claims, guesses)
    settled = settle_restorations(
        claims=claims, guesses=settled, verdicts=verdicts, undone=undone
    )
    changed = find_changes(
        claims=claims,
        guesses=settled,
        verdicts=verdicts,
        freed=freed,
    )
    found = [
        *find_corrections(claims, corrections),
        *repeated,
        *_select_applicable(claims, changed),
    ]
    changes = select_changes(found)
    left = {row: by for row, by in claims.retired.items() if row not in freed}
    retired = left | {decision.earlier: decision.later for decision in changes}
    doubts = select_doubts(found, retired)
    touched = {frozenset((one.earlier, one.later)) for one in (*changes, *doubts)}
    agreements = [
        one
        for one in find_agreements(
            claims,
            guesses,
            verdicts,
        )
        if retired.keys().isdisjoint((one.earlier, one.later))
        and frozenset((one.earlier, one.later)) not in touched
    ]
    return Decisions(changes=changes, doubts=doubts, agreements=agreements, freed=freed)


def _select_applicable(
    claims: CandidateClaims,
    decisions: Sequence[ChangeDecision],
) -> list[ChangeDecision]:
    """Return the decisions but those by which a foreign claim would change one that is not."""
    return [
        decision
        for decision in decisions
        if claims.foreign[decision.earlier] or not claims.foreign[decision.later]
    ]


def find_repetitions(
    claims: CandidateClaims,
    undone: Set[frozenset[int]],
) -> list[ChangeDecision]:
    """Return a change for each retired claim that was repeated since: it retires the claim that had replaced it."""
    successors = {row: claims.find_successor(row) for row in claims.retired}
    return [
        ChangeDecision(
            earlier=by,
            later=row,
            kind=RESTORED,
            at=claims.last[row],
            p=1.0,
            why=AGAIN,
        )
        for row, by in successors.items()
        if claims.last[row] > claims.last[by] and frozenset((row, by)) not in undone
    ]


def find_corrections(
    claims: CandidateClaims,
    corrections: Mapping[Rows, bool],
) -> list[ChangeDecision]:
    """Return the change of each correction: a retirement if it is certain, else a doubt.

    If a person repeated the corrected claim since, that claim retires the correcting one, as with any change.
    """
    found = []
    for (old, new), certain in corrections.items():
        if claims.retired.get(old) == new or old == new:
            continue
        is_restored = claims.last[old] > max(claims.last[new], claims.times[old])
        if is_restored and certain:
            found.append(
                ChangeDecision(
                    earlier=new,
                    later=old,
                    kind=RESTORED,
                    at=claims.last[old],
                    p=1.0,
                    why=AGAIN,
                )
            )
        elif certain:
            found.append(
                ChangeDecision(
                    earlier=old,
                    later=new,
                    kind=CORRECTED,
                    at=claims.last[new],
                    p=1.0,
                    why="a person corrected it",
                )
            )
        elif not is_restored:
            found.append(
                ChangeDecision(
                    earlier=old,
                    later=new,
                    kind=PERHAPS,
                    at=claims.last[new],
                    p=UNCONFIRMED,
                    why="an agent corrected it, unconfirmed",
                )
            )
    return found


def find_changes(
    claims: CandidateClaims,
    guesses: ChangeGuesses,
    verdicts: Mapping[Rows, PairVerdict],
    freed: Set[int],
) -> list[ChangeDecision]:
    """Return a change for every pair in which the later claim changes the earlier or may do so.

    Args:
        claims: the claims; those retired already are skipped.
        guesses: what the classifier finds of the pairs.
        verdicts: pair -> a model's verdict, which precedes the guess.
        freed: retired rows that nothing active retires any more.
    """
    changes = []
    judged = {pair: verdict.likely for pair, verdict in verdicts.items()}
    for pair, likely in {**guesses.likely, **judged}.items():
        verdict = verdicts.get(pair)
        outcome = verdict.outcome if verdict else find_outcome(likely)
        is_nothing = outcome is Outcome.NOTHING
        if not verdict:
            is_nothing = likely < find_least(claims, pair) or _is_apart(guesses, pair)
        if is_nothing:
            continue
        kind = _choose_kind(outcome, guesses, pair)
        change = _build_decision(
            claims=claims, pair=pair, kind=kind, p=likely, verdict=verdict
        )
        if change.earlier not in claims.retired or change.earlier in freed:
            changes.append(change)
    return changes


def _is_apart(guesses: ChangeGuesses, pair: Rows) -> bool:
    """Return True if the later claim of a pair leaves the earlier as it is, whatever the trees say.

    It is of a narrower case. Or it names another thing, and a change is less likely than not, or than that of another
    claim: "The staging database is B now" changed "The staging database is A", and nothing of production.
    """
    kind = guesses.plain.get(pair)
    if kind != OF_ANOTHER or pair in guesses.taken_back:
        return kind == NARROWED
    return guesses.likely[pair] < max(EVEN, guesses.highest[pair[1]])


def find_least(claims: CandidateClaims, pair: Rows) -> float:
    """Return the least probability, by the classifier, from which the later claim of a pair is linked to the earlier.

    What is said in one session mostly stands together. An agent mostly answers or reports what a person said: of the
    labelled pairs of a person's claim and an agent's one in eleven is a change, of two persons' claims every second.
    """
    old, new = pair
    together = claims.sessions[old] == claims.sessions[new]
    if claims.is_reported(old, new):
        return REPORTED if together else EVEN
    return PERHAPS_CHANGED if together else LEADING


def settle_retractions(
    claims: CandidateClaims,
    guesses: ChangeGuesses,
) -> ChangeGuesses:
    """Return the guesses in which what is plainly taken back within a session, or by both readers, is likely to be.

    The trees know hardly any changes within a session, and few retractions in few words ("Scrap the rule about …").
    """
    likely = dict(guesses.likely)
    taken_back = set(guesses.taken_back)
    for (old, new), p in guesses.likely.items():
        is_together = claims.sessions[old] == claims.sessions[new]
        is_plain = is_together and guesses.plain.get((old, new)) == RETRACTED
        if is_plain or (old, new) in guesses.retracting:
            likely[old, new] = max(p, EVEN)
            taken_back.add((old, new))
    return replace(
        guesses,
        likely=likely,
        taken_back=taken_back,
    )


def settle_restorations(
    claims: CandidateClaims,
    guesses: ChangeGuesses,
    verdicts: Mapping[Rows, PairVerdict],
    undone: Set[frozenset[int]],
) -> ChangeGuesses:
    """Return the guesses in which a claim that states an old value again changes what had replaced that value.

    After A and B, "back to A" is likely read as a change of A, whose sentence it mostly resembles. It says the same as
    A, so that guess is one of a change of B.
    """
    likely = dict(guesses.likely)
    restored = set[Rows]()
    for old, between, new in find_restorations(claims, guesses):
        pair = (between, new)
        if frozenset(pair) in undone:
            continue
        restored.add(pair)
        is_judged = not verdicts.keys().isdisjoint((pair, (old, new)))
        if (old, new) in likely and not is_judged:
            likely[pair] = max(likely.get(pair, 0.0), likely[old, new])
            likely[old, new] = 0.0
    return replace(guesses, likely=likely, restored=restored)


def find_restorations(
    claims: CandidateClaims,
    guesses: ChangeGuesses,
) -> list[tuple[int, int, int]]:
    """Return three rows each: a claim, one that likely replaced it, and a later one that has the first one's value.

    The third likely changes one of the two others; the second, if it names both values.
    """
    linked = {
        pair
        for pair, likely in guesses.likely.items()
        if likely >= find_least(claims, pair) and not _is_apart(guesses, pair)
    }
    later = defaultdict[int, set[int]](set)
    for old, new in (*linked, *claims.retired.items()):
        later[old].add(new)
    found = [
        (old, between, new)
        for old, replacing in later.items()
        for between in replacing
        for new in replacing | later.get(between, set())
        if claims.times[old] < claims.times[between] < claims.times[new]
        and (old, new) not in guesses.taken_back
        and _is_old_value_again(claims, guesses, (old, between, new))
    ]
    return sorted(found)


def _is_old_value_again(
    claims: CandidateClaims,
    guesses: ChangeGuesses,
    rows: tuple[int, int, int],
) -> bool:
    old, between, new = rows
    texts = [claims.get_text(row) for row in rows]
    if not states_again(*texts):
        return False
    of_between = guesses.likely.get((between, new), 0.0)
    return of_between > guesses.likely.get((old, new), 0.0) or not names_both(*texts)


def find_pairs_of_moment(
    claims: CandidateClaims,
    guesses: ChangeGuesses,
    is_of_moment: IsOfKind,
) -> set[Rows]:
    """Return the likely pairs whose later claim seems to take the earlier back, and is a person's of the moment.

    "For this commit only, don't squash" breaks a rule once, and the rule goes on: the claim likely does not hold beyond
    its session, and is an order. Nor does "Forget the rule" hold, which is a retraction and takes something back.
    """
    passing = _find_passing(claims)
    pairs = [
        pair
        for pair in guesses.taken_back
        if guesses.likely[pair] >= LEADING and pair[1] in passing
    ]
    summaries = claims.table["summary"]
    of_moment = {
        row: is_of_moment(summaries[row].as_py()) for row in {b for _, b in pairs}
    }
    return {pair for pair in pairs if of_moment[pair[1]]}


def find_retracting_pairs(
    claims: CandidateClaims,
    guesses: ChangeGuesses,
    is_retraction: IsOfKind,
) -> set[Rows]:
    """Return the pairs that both readers find to be of a claim and of what takes it back: at most one a later claim.

    The reader of pairs finds a retraction likeliest, and so does the reader of statements of the later sentence, which
    a person said and which likely states nothing that holds. Neither is sure of it alone: "Remember the rule about two
    reviewers" is taken for a retraction by the one, "Apply what I said about two reviewers" by the other. Both take
    "Never forget that I prefer tabs" for one, so a sentence that negates is left to the trees.
    """
    passing = _find_passing(claims)
    summaries = claims.table["summary"]
    best: dict[int, Rows] = {}
    for pair, kind in sorted(guesses.plain.items()):
        new = pair[1]
        is_open = kind in (RETRACTED, PERHAPS_RETRACTED) and new in passing
        if not is_open or claims.get_text(new).negated:
            continue
        if new not in best or guesses.likely[pair] > guesses.likely[best[new]]:
            best[new] = pair
    return {pair for new, pair in best.items() if is_retraction(summaries[new].as_py())}


def _find_passing(claims: CandidateClaims) -> set[int]:
    """Return the rows of a person's sentences that likely do not hold beyond their session."""
    columns = claims.table.select(["observer", "confidence"]).to_pylist()
    return {
        row
        for row, claim in enumerate(columns)
        if claims.by_model[row] is False
        and claim["observer"] == EXTRACTIVE
        and claim["confidence"] < EVEN
    }


def find_agreements(
    claims: CandidateClaims,
    guesses: ChangeGuesses,
    verdicts: Mapping[Rows, PairVerdict],
) -> list[ChangeDecision]:
    """Return a decision for every pair whose later claim plainly changes nothing, and that no model has judged."""
    return [
        ChangeDecision(
            earlier=old,
            later=new,
            kind=kind,
            at=claims.times[new],
            p=guesses.likely[old, new],
            why=AGREEING[kind],
        )
        for (old, new), kind in sorted(guesses.plain.items())
        if kind in AGREEING
        and (old, new) not in verdicts
        and (kind == NARROWED or guesses.likely[old, new] < LEADING)
    ]


def _choose_kind(outcome: Outcome, guesses: ChangeGuesses, pair: Rows) -> str:
    """Return the kind for an outcome."""
    if outcome not in (Outcome.RETIRE, Outcome.LINK):
        return LEADS
    is_sure = outcome is Outcome.RETIRE
    if pair in guesses.restored:
        return RESTORED if is_sure else PERHAPS_RESTORED
    if pair in guesses.taken_back:
        return RETRACTED if is_sure else PERHAPS_RETRACTED
    return CHANGED if is_sure else PERHAPS


def _build_decision(
    claims: CandidateClaims,
    pair: Rows,
    kind: str,
    p: float,
    verdict: PairVerdict | None,
) -> ChangeDecision:
    """Return the decision on one pair. If the earlier claim was repeated last, it changes the later one."""
    old, new = pair
    if claims.last[old] > claims.last[new]:
        earlier = new
        later = old
        kind = RESTORING[kind]
        at = claims.last[old]
        words = AGAIN
    else:
        earlier = old
        later = new
        at = claims.times[new]
        words = REASONS[kind]
    why = f"{words} {_explain_change(p, verdict)}"
    return ChangeDecision(
        earlier=earlier,
        later=later,
        kind=kind,
        at=at,
        p=p,
        why=why,
        key=verdict.key if verdict else None,
    )


def _explain_change(likely: float, verdict: PairVerdict | None) -> str:
    """Return the probability, and the model's answer and quote if it has judged the pair."""
    if verdict is None:
        return f"({likely:.0%})"
    words = f": “{verdict.quote}”" if verdict.quote else ""
    return f"({likely:.0%}; a model says {verdict.answer}{words})"


def select_changes(changes: list[ChangeDecision]) -> list[ChangeDecision]:
    """Return at most one change for each earlier claim: a correction, else the first in time, and the likeliest."""
    first: dict[int, ChangeDecision] = {}
    certain = [change for change in changes if not change.is_doubt]
    for change in sorted(
        certain, key=lambda c: (c.kind != CORRECTED, c.at, -c.p, c.later)
    ):
        first.setdefault(change.earlier, change)
    return [first[row] for row in sorted(first)]


def select_doubts(
    decisions: list[ChangeDecision],
    retired: Mapping[int, int],
) -> list[ChangeDecision]:
    """Return at most one doubt for each earlier claim: the likeliest whose two claims both hold.

    A claim says mostly what one thing has become. If it surely changed another claim, the classifier's doubts below .5
    are left out: "The staging database is B now" changed "The staging database is A", and nothing of production.

    Args:
        decisions: changes and doubts.
        retired: retired row -> the row that retired it.
    """
    best: dict[int, ChangeDecision] = {}
    spent = {*retired.values()}
    doubts = [decision for decision in decisions if decision.is_doubt]
    for doubt in sorted(doubts, key=lambda c: (-c.p, c.later)):
        is_spent = doubt.later in spent and doubt.p < EVEN and doubt.key is None
        if retired.keys().isdisjoint((doubt.earlier, doubt.later)) and not is_spent:
            best.setdefault(doubt.earlier, doubt)
    return [best[row] for row in sorted(best)]
