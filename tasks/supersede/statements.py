"""Whether a later claim says in so many words what it changes: the old value, the new one, and of what thing.

"tidepool moves from port 8080 to port 9090" is said of "the API listens on port 8080". Only this retires a claim;
whatever else speaks for a change is a doubt (`model.py`), since a wrong retirement hides what is true.
"""

import re

from slowwave.tasks.dedupe.normalise import Claim, normalise_claim
from slowwave.tasks.supersede.rules import (
    IdfTable,
    ParsedClaim,
    Verdict,
    collect_value_stems,
    collect_values,
    compute_similarity,
)
from slowwave.tasks.supersede.values import CALENDAR
from slowwave.text.cues import INTENTIONS
from slowwave.text.words import stem

TONES = {
    "adds": re.compile(r"\b(?:also|too|as well|another|besides|additionally|plus|still|again|both)\b", re.I),
    "affirms": re.compile(
        r"\b(?:still|same|stays?|remains?|un(?:changed|touched)|keeps?|kept|either way|"
        r"as (?:ever|before|always|usual|agreed|planned|they (?:are|were)|it (?:is|was))|"
        r"(?:not|n't|nothing) changed?)\b",
        re.I,
    ),
    "passing": re.compile(
        r"\b(?:this (?:week|month|time|morning|once)|today|tonight|yesterday|just (?:this )?once|for now|temporar\w+|"
        r"last (?:week|night|month|year|time|\w+day)|holiday|exception|until)\b",
        re.I,
    ),
    "hedges": INTENTIONS,
    "worked": re.compile(
        r"^\W*(?:i |we )?(?:have |had |'ve )?(?:added|fixed|renamed|wrote|written|created|updated|finished|removed|ran|"
        r"checked|tested|committed|merged|pushed|found|looked|implemented|booked|bought|ordered|sent|signed|turned)\b",
        re.I,
    ),
    "excepts": re.compile(r"\b(?:except|only|unless|but|apart from)\b", re.I),
    "past": re.compile(r"\b(?:was|were|had|used to|did)\b", re.I),
    "reasons": re.compile(r"\b(?:so|because|since|that's why|which means|therefore|means)\b", re.I),
    "heads": re.compile(r":"),
    "happened": re.compile(
        r"\b(?:went|won|took|bought|saw|met|made|got|did|came|ran|gave|found|told|said|felt|began|had|ate|wrote|spent|"
        r"\w{3,}ed)\b",
        re.I,
    ),
    "holds": re.compile(
        r"\b(?:is|are|'s|'re|uses?|using|goes?|runs?|lives?|works?|will|'ll|should|must|stays?|keeps?|needs?|has|have|"
        r"comes?|gets?|means|listens?|stores?|expires?|holds?)\b|[:=]",
        re.I,
    ),
    "feels": re.compile(
        r"\b(?:love[sd]?|grateful|thankful|proud|happy|excit\w+|amazing|great|awesome|beautiful|fun|incredible|"
        r"fe(?:el|els|lt|eling)|hopes?|dreams?|enjoy|inspir\w+|wonderful|glad|support)\b",
        re.I,
    ),
    "chats": re.compile(r"\b(?:thanks|wow|hey|yeah|haha|glad|totally|definitely|sure|cool)\b|!", re.I),
}
"""How a sentence is meant, by words that give it away."""

REPLACED_RULE = "replaced"
LEAST_COSINE = 0.25
"""Under it two claims are of two matters, whatever words they share."""


def judge_replacement(old: ParsedClaim, new: ParsedClaim, cosine: float | None, weights: IdfTable) -> Verdict | None:
    """Return the verdict that `new` changes `old`; None unless all of this holds.

    1. The later one names what it gives up and has a place for what comes instead; it asks, denies and weighs nothing.
    2. All of what it gives up stands in the earlier one, a name, a figure, a date or a name in code among it.
    3. That is what the earlier one says of something, not what it is about: it does not open with it.
    4. The later one has a value of its own.
    5. Besides the value that is given up the two share a word, and any vectors of theirs are not of two matters.
    6. The later one says nothing else, and of no day of its own: who tells of a test, a proposal, an exception or of
       another's change has more words for it.
    """
    given = new.cue.replaced
    if not given or not given <= set(old.claim.content) or not _is_statement(new):
        return None
    values, others = _collect_value_and_date_stems(old.claim), _collect_value_and_date_stems(new.claim)
    if not given & values or old.claim.content[0] in given or not collect_values(new.claim) - collect_values(old.claim):
        return None
    said, known = set(new.claim.content), set(old.claim.content)
    if not said & known - (given & values) or (cosine is not None and cosine < LEAST_COSINE):
        return None
    if said - known - others - set(normalise_claim(new.cue.phrase).content[:1]) or _has_new_date(old, new):
        return None
    why = f"gives up {' '.join(sorted(given))}: {new.cue.phrase}"
    return Verdict(REPLACED_RULE, compute_similarity(old.claim, new.claim, cosine, weights), why, instead=True)


def _has_new_date(old: ParsedClaim, new: ParsedClaim) -> bool:
    """Return whether the later one names a day, month or season, where the earlier one has none: "in December on the
    20th".
    """
    days, before = CALENDAR & set(new.claim.words), CALENDAR & set(old.claim.words)
    return bool(days) and not before and not old.claim.dates


def _is_statement(new: ParsedClaim) -> bool:
    return not (new.claim.question or new.claim.negated or TONES["hedges"].search(new.text))


def _collect_value_and_date_stems(claim: Claim) -> frozenset[str]:
    """Return stems of a claim's values, days and feasts too: "Friday" is one as 8080 is."""
    days = {f"{year or 0:04}-{month:02}-{day:02}" for year, month, day in claim.dates}
    return collect_value_stems(claim) | {stem(word) for word in CALENDAR & set(claim.words)} | days
