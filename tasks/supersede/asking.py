"""Which pairs of claims a judge is asked about, in which order and how many; and what of the past it takes back."""

from collections.abc import Mapping
from dataclasses import dataclass

from slowwave.tasks.supersede.changes import Rows
from slowwave.tasks.supersede.claims import CandidateClaims
from slowwave.tasks.supersede.surroundings import Surroundings
from slowwave.tasks.supersede.verdicts import SUPERSEDED, ClaimShown, Judge, Outcome, Pair, Verdict

BESIDE = 4
"""Claims that are shown beside each of a pair."""
DIGITS = 4
"""Of a probability in a verdict: as the ledger keeps it."""


@dataclass(frozen=True)
class Asked:
    """What a judge said, and how many pairs it is still to be asked about."""

    told: dict[Rows, Verdict]
    waiting: int


def ask_judge(
    held: CandidateClaims,
    around: Surroundings,
    guesses: Mapping[Rows, float],
    told: Mapping[Rows, Verdict],
    judge: Judge,
) -> Asked:
    """Return what the judge says of the likeliest pairs that it has not judged.

    What it frees may be changed by another claim, so it is asked until nothing is left or it has been asked enough.
    """
    fresh: dict[Rows, Verdict] = {}
    tried: set[Rows] = set()
    while True:
        likely = _find_pairs_to_ask(held, guesses, {**told, **fresh}, judge)
        open_pairs = sorted(likely.keys() - tried, key=lambda pair: (-likely[pair], pair))
        now = open_pairs[: judge.most - len(tried)]
        if not now:
            return Asked(fresh, len(open_pairs) + len(tried - fresh.keys()))
        said = judge.ask([_show_pair(held, around, pair) for pair in now])
        tried |= set(now)
        for pair, answered in zip(now, said, strict=True):
            if answered is not None:
                fresh[pair] = Verdict(answered[0], likely[pair], answered[1], judge.key)


def reopen_misjudged(held: CandidateClaims, told: Mapping[Rows, Verdict]) -> CandidateClaims:
    """Return the claims without the retirements that a verdict speaks against."""
    kept = {frozenset(pair) for pair, v in told.items() if v.outcome < Outcome.RETIRE}
    return held.reopen({row for row, by in held.retired.items() if frozenset((row, by)) in kept})


def _find_pairs_to_ask(
    held: CandidateClaims, guesses: Mapping[Rows, float], told: Mapping[Rows, Verdict], judge: Judge
) -> dict[Rows, float]:
    """Return pair -> how likely it is a change, of those that the judge has not judged and something hangs on."""
    held = reopen_misjudged(held, told)
    found = {}
    for (old, new), likely in guesses.items():
        retired = held.retired.get(old) == new or held.retired.get(new) == old
        if likely < judge.least or (old in held.retired and not retired):
            continue
        known = told.get((old, new))
        if known is None:
            found[old, new] = round(max(likely, SUPERSEDED) if retired else likely, DIGITS)
        elif known.key != judge.key:
            found[old, new] = known.likely
    return found


def _show_pair(held: CandidateClaims, around: Surroundings, pair: Rows) -> Pair:
    return _show_claim(held, around, pair[0], pair[1]), _show_claim(held, around, pair[1], pair[0])


def _show_claim(held: CandidateClaims, around: Surroundings, row: int, other: int) -> ClaimShown:
    names = ("observation_id", "summary", "detail", "speaker")
    mine = held.table.select(names).slice(row, 1).to_pylist()[0]
    beside = [mate for mate in around.find_nearest(row, BESIDE + 1) if mate != other][:BESIDE]
    return ClaimShown(
        id=mine["observation_id"],
        text=f"{mine['summary']} ({mine['detail']})" if mine["detail"] else mine["summary"],
        speaker=mine["speaker"],
        at=held.times[row],
        last=held.last[row],
        beside=tuple(held.table["summary"][mate].as_py() for mate in beside),
    )
