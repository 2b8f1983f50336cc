"""How like two claims have to be for the later one to count as a change of the earlier: from plain words to none."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ChangeThresholds:
    """Likeness from which a claim counts as changed, from the plainest statement to none.

    Likeness is 0 to 2: the share of the shorter claim's words, weighed by rarity, that both have, plus the cosine of
    the vectors (without an encoder the share once more).
    """

    named: float = 0.68
    """The later claim names what it gives up, and the earlier one says that."""
    named_value: float = 0.68
    """What it names so is a name, a number or a name in code."""
    beside: float = math.inf
    """It gives no hint of a change, or little, but what the earlier one says was named beside it."""
    replaced: float = math.inf
    """The same, where the earlier ends on a name, and the later has another: "on Heroku" … "on Fly.io"."""
    subject: float = 0.7
    """It names what it changes, and the earlier one is about that."""
    slot: float = 0.5
    """Both fill a slot that takes one value: home, work, a favourite; what "my …" is."""
    person: float = 0.5
    """The slot is where the speaker lives, works, or how they are called."""
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
    silent_alone: float = math.inf
    """It only says much the same with a name, a number or a date of its own."""
    least_shared: float = 0.1
    least_cosine: float = 0.25


LATER = ChangeThresholds(replaced=0.45, person=0.3)
"""The same for any claim of a later session."""
APART = ChangeThresholds(
    named=0.5,
    named_value=0.45,
    beside=0.45,
    replaced=0.4,
    slot=0.35,
    person=0.0,
    subject=0.5,
    stated=0.5,
    stated_opposite=0.45,
    stated_alone=0.8,
    hinted=0.6,
    present_alone=0.7,
    hinted_alone=0.85,
    silent=0.75,
    silent_alone=1.15,
)
"""The same for a claim of a later session, and the one before it that is likest: two such rarely hold side by side."""
