"""Decide what happens to the claims of each pair: no tables are read or made here, and no model is asked.

The probability that the later claim changes the earlier one, and a language model's verdict if there is one, give an
outcome (`slowwave.tasks.changes.verdicts`). A claim is retired if that is sure. If it is likely, the two are linked:
both stay active, and the ledger names the later one. A claim that was repeated since holds again: it then retires the
other, or is linked to it as the later one. The kind is the ledger's rule: it says whether the later claim has another
value or takes the earlier back.
"""

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
    PERHAPS_RETRACTED,
    RETRACTED,
    LedgerKind,
)
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
REAFFIRMED = "reaffirmed"
PERHAPS = "perhaps"
"""Kinds: the later claim changes the earlier; the earlier was repeated; the later may change it."""
DOUBTS = frozenset((PERHAPS, PERHAPS_RETRACTED, LEADS))
"""Kinds that leave the earlier claim active."""
REASONS = {
    CHANGED: "told anew",
    RETRACTED: "taken back",
    PERHAPS: "perhaps told anew",
    PERHAPS_RETRACTED: "perhaps taken back",
    LEADS: "perhaps told anew",
}
AGREEING = {AFFIRMED: "said again in other words", NARROWED: "of a narrower case"}
RESTORING = {
    CHANGED: REAFFIRMED,
    RETRACTED: REAFFIRMED,
    PERHAPS: PERHAPS,
    PERHAPS_RETRACTED: PERHAPS,
    LEADS: LEADS,
}
"""Kind of a pair -> the kind if the earlier claim was repeated after the later one."""
AGAIN = "the earlier was said again"
IsOfMoment = Callable[[str], bool]
"""Returns True if the reader of statements finds a person's sentence of the moment (`is_of_moment`)."""


@dataclass(frozen=True)
class ChangeDecision:
    """What happens to one row: `later` retires `earlier` from a moment on, or is only linked to it."""

    earlier: int
    """The row that gives way; for a reaffirmation the row that had replaced the repeated one."""
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
    """Pair -> AFFIRMED, NARROWED, RETRACTED or OF_ANOTHER, if that is plain."""
    likest: Set[Rows] = frozenset()
    """The pairs of two sessions whose earlier claim is among the likest of the later one."""

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
    reaffirmed = _select_applicable(claims, find_reaffirmations(claims, undone))
    freed = claims.reopened | {decision.later for decision in reaffirmed}
    settled = settle_sessions(claims, guesses)
    changed = find_changes(
        claims=claims,
        guesses=settled,
        verdicts=verdicts,
        freed=freed,
    )
    found = [
        *find_corrections(claims, corrections),
        *reaffirmed,
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


def find_reaffirmations(
    claims: CandidateClaims,
    undone: Set[frozenset[int]],
) -> list[ChangeDecision]:
    """Return a change for each retired claim that was repeated since: it retires the claim that had replaced it."""
    successors = {row: claims.find_successor(row) for row in claims.retired}
    return [
        ChangeDecision(
            earlier=by,
            later=row,
            kind=REAFFIRMED,
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
                    kind=REAFFIRMED,
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
        kind = _choose_kind(outcome, taken_back=pair in guesses.taken_back)
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


def settle_sessions(
    claims: CandidateClaims,
    guesses: ChangeGuesses,
) -> ChangeGuesses:
    """Return the guesses in which what is plainly taken back within a session is likely to be.

    The trees know hardly any changes within a session.
    """
    likely = dict(guesses.likely)
    taken_back = set(guesses.taken_back)
    for (old, new), p in guesses.likely.items():
        is_together = claims.sessions[old] == claims.sessions[new]
        if is_together and guesses.plain.get((old, new)) == RETRACTED:
            likely[old, new] = max(p, EVEN)
            taken_back.add((old, new))
    return replace(
        guesses,
        likely=likely,
        taken_back=taken_back,
    )


def find_pairs_of_moment(
    claims: CandidateClaims,
    guesses: ChangeGuesses,
    is_of_moment: IsOfMoment,
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


def _choose_kind(outcome: Outcome, *, taken_back: bool) -> str:
    """Return the kind for an outcome."""
    if outcome is Outcome.RETIRE:
        return RETRACTED if taken_back else CHANGED
    if outcome is Outcome.LINK:
        return PERHAPS_RETRACTED if taken_back else PERHAPS
    return LEADS


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
        earlier, later, kind = new, old, RESTORING[kind]
        at, words = claims.last[old], AGAIN
    else:
        earlier, later, at, words = old, new, claims.times[new], REASONS[kind]
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
