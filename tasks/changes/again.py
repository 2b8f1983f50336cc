"""Tell by words whether a claim states a value again that another claim had replaced.

Of three claims in order of time, "We use nose", "We switched from nose to pytest" and "Back to nose, pytest was slow",
the third has the first one's value. It may name both values, as the second may; then "nose was slow, pytest it is" has
the same words, and only what the classifier says of the pairs tells which value it has.
"""

from slowwave.tasks.changes.features import VALUES
from slowwave.tasks.dedupe.normalise import ClaimText
from slowwave.text.rarity import RESTATED, ChangedClaim, weigh_share
from slowwave.text.words import singular_words


def states_again(first: ClaimText, second: ClaimText, third: ClaimText) -> bool:
    """Return True if the third claim has the value of the first, which the second had replaced by another.

    Of a kind of values (figures, say) it has all of the first claim's, while the second has one more, and it has no
    value that neither has. Or it has the words of the first claim that the second lacks. Or it has most words of the
    first, those of both, and the second one's new value. A claim that negates more or less than the first does not
    state it again.
    """
    if bool(first.negated) != bool(third.negated):
        return False
    kinds = [
        (getattr(first, kind), getattr(second, kind), getattr(third, kind))
        for kind in VALUES
    ]
    if any(had and third_has - had - has for had, has, third_has in kinds):
        return False
    if any(had and had <= third_has and has - had for had, has, third_has in kinds):
        return True
    return _has_old_words(first, second, singular_words(third.text))


def names_both(first: ClaimText, second: ClaimText, third: ClaimText) -> bool:
    """Return True if the third claim also has the value that the second put in place of the first one's."""
    kinds = [
        (getattr(second, kind) - getattr(first, kind), getattr(third, kind))
        for kind in VALUES
    ]
    if any(new for new, _ in kinds):
        return any(new & has for new, has in kinds)
    changed = ChangedClaim.from_texts(first.text, second.text)
    return changed.has_new_value(singular_words(third.text))


def _has_old_words(first: ClaimText, second: ClaimText, words: frozenset[str]) -> bool:
    """Return True if a claim of these words has the first claim's own words, or names both values."""
    changed = ChangedClaim.from_texts(first.text, second.text)
    if changed.old_value and changed.old_value <= words:
        return True
    shared = changed.words & changed.later
    is_kept = weigh_share(changed.words, words) >= RESTATED
    return is_kept and shared <= words and changed.has_new_value(words)
