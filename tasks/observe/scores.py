"""How likely a sentence holds something a future reader asks for: a few features, added up as log-odds.

Weights are round numbers near those of a logistic regression on LoCoMo's evidence turns; only NEWS is decisive: any
other can be left out at a loss of under two points of coverage (`docs/decisions/001-claims.md`). Every
feature is of one session alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log, log1p

from slowwave.tasks.observe import lexicon as lex
from slowwave.text.sentences import Sentence
from slowwave.text.words import ENGLISH_STOP

BIAS = -3.0
NEWS = 1.0
"""A log count of content words the session has not heard yet: the strongest single feature."""
TIME = 1.0
PROPER_NAME = 1.0
PEOPLE = 0.75
FIRST_PERSON = 0.5
NUMBER = 0.5
SECOND_PERSON = -1.0
COURTESY = -0.5
MODEL = -2.0
"""A model that answers somebody repeats and applauds more than it tells."""
CROWD = -0.5
"""By the log of the sentences in the message: in a long message each single one counts less."""


@dataclass(slots=True, frozen=True)
class ScoredSentence:
    """A sentence with its log-odds and the words it costs."""

    sentence: Sentence
    logit: float
    words: int

    @property
    def probability(self) -> float:
        """0 to 1; serves as the claim's confidence."""
        return 1 / (1 + exp(-self.logit))


def count_words(text: str) -> int:
    """Return words between blanks; two characters of a script without spaces count as one word."""
    if text.isascii():
        return len(text.split())
    spaceless = sum("぀" <= c <= "鿿" or "가" <= c <= "힯" for c in text)
    return len(text.split()) + spaceless // 2


def extract_content_words(text: str) -> set[str]:
    """Return lower-cased words that carry meaning."""
    return {
        w for w in map(str.lower, lex.TOKEN.findall(text)) if w not in ENGLISH_STOP and (len(w) > 2 or not w.isascii())
    }


def score_personal(text: str, news: int, crowd: int, own: frozenset[str] = frozenset(), human: bool = True) -> float:
    """Return log-odds for everyday talk.

    `news`: content words not heard before; `crowd`: sentences in the message; `own`: lower-cased names of those who
    speak, which are no news; `human`: whether a person says it.
    """
    return (
        BIAS
        + NEWS * log1p(news)
        + TIME * bool(lex.TIME.search(text))
        + PROPER_NAME * count_proper_names(text, own)
        + PEOPLE * bool(lex.PEOPLE_AND_PETS.search(text))
        + FIRST_PERSON * bool(lex.FIRST_PERSON.search(text))
        + NUMBER * bool(lex.NUMBER.search(text))
        + SECOND_PERSON * bool(lex.SECOND_PERSON.search(text))
        + COURTESY * bool(lex.COURTESY.search(text))
        + CROWD * log(crowd)
        + MODEL * (not human)
    )


def count_proper_names(text: str, own: frozenset[str]) -> int:
    """Return capitalised words in mid-sentence, 2 at most; not "I'm", and not the people who speak."""
    names = (m.strip("\"'“").lower() for m in lex.PROPER_NAME.findall(text))
    return min(2, sum(n not in ENGLISH_STOP and not n.startswith(("i'", "i’")) and n not in own for n in names))


def select_within_budget(candidates: Iterable[ScoredSentence], budget: int, thrift: float) -> list[ScoredSentence]:
    """Return the candidates with the most to say for their words, as many as the budget of words holds.

    Greedy for the knapsack problem by probability over words ** thrift: 0 takes the best sentences whatever they
    cost, 1 the shortest, which would win coverage and lose the answers.
    """
    left = budget
    chosen: list[ScoredSentence] = []
    for one in sorted(candidates, key=lambda c: -c.probability / c.words**thrift):
        if one.words <= left:
            chosen.append(one)
            left -= one.words
    return chosen
