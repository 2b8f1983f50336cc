"""How likely a sentence is worth remembering, in everyday talk by a few features, over code by what was learnt.

Everyday talk: features added up as log-odds, with round numbers near those of a logistic regression on LoCoMo's
evidence turns; only the new words are decisive: any other can be left out at a loss of under two points of coverage.
Every feature is of one session alone.

Code: `python -m bench.fit.worth` learns a logistic regression on a sentence's words and its place from sentences of
real and invented talk that were labelled by hand (`data/labelled/worth.tsv`). The words are those, and two in a row,
that the labelled sentences have; figures, code, paths and addresses count as one word each. No list of words is behind
it. Two models ship: WORTH_FILE selects claims, STANDING_FILE says how likely a claim is worth telling unasked.
`docs/decisions/001-claims.md` tells what both are worth.
"""

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from math import exp, fsum, log, log1p
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.observe import categories as lex
from slowwave.text.sentences import Sentence
from slowwave.text.words import ENGLISH_STOP


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
    # capitalised words in mid-sentence, 2 at most; not "I'm", and not the people who speak
    names = (name.strip("\"'“").lower() for name in lex.PROPER_NAME.findall(text))
    named = sum(name not in ENGLISH_STOP and not name.startswith(("i'", "i’")) and name not in own for name in names)
    return (
        -3.0  # bias: the log-odds of a sentence without any of the features
        + log1p(news)  # new words: the strongest feature by itself
        + bool(lex.TIME.search(text))  # a date or time
        + min(2, named)  # proper names
        + 0.75 * bool(lex.PEOPLE_AND_PETS.search(text))  # family, friends, pets
        + 0.5 * bool(lex.FIRST_PERSON.search(text))  # the speaker's own affairs
        + 0.5 * bool(lex.NUMBER.search(text))  # a number
        - bool(lex.SECOND_PERSON.search(text))  # about the listener
        - 0.5 * bool(lex.COURTESY.search(text))  # thanks, greetings
        - 0.5 * log(crowd)  # in a long message each single sentence counts less
        - 2 * (not human)  # a model that answers somebody repeats and applauds more than it tells
    )


def select_within_budget(candidates: Iterable[ScoredSentence], budget: int, thrift: float) -> list[ScoredSentence]:
    """Return the candidates with the most to say for their words, as many as the budget of words holds.

    Greedy for the knapsack problem by probability over words ** thrift: 0 takes the best sentences whatever they
    cost, 1 the shortest, which would win coverage and lose the answers.
    """
    left = budget
    chosen: list[ScoredSentence] = []
    for candidate in sorted(candidates, key=lambda c: -c.probability / c.words**thrift):
        if candidate.words <= left:
            chosen.append(candidate)
            left -= candidate.words
    return chosen


Floats = npt.NDArray[np.float64]

WORTH_FILE, STANDING_FILE = "observe/worth.npz", "observe/standing.npz"
"""Worth remembering, at least with its neighbours; worth it by itself, for weeks."""
NUMBERS = (
    "words",
    "characters a word",
    "digits",
    "capitals",
    "other signs",
    "code",
    "path",
    "ends with a colon",
    "ends with a question mark",
    "list item",
    "names",
    "begins small",
    "another script",
    "new words",
    "share new",
    "content words",
    "by a person",
    "calls a tool",
    "first of the message",
    "place",
    "places to the end",
    "sentences of the message",
    "words of the message",
    "turn",
    "share of the session",
    "words before",
    "words after",
    "a person before",
    "a person after",
)
"""Features of a sentence besides its words; shares 0 to 1, counts as log(1 + n), the rest 0 or 1."""
CODE = re.compile(r"`[^`]*`")
ADDRESS = re.compile(r"https?://\S+")
PATH = re.compile(r"\S*[/\\]\S+|\b[\w-]+\.[a-z]{1,5}\b")
FIGURE = re.compile(r"\d+")
LOGGED = re.compile(r"^\W*\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
"""How a line of a log begins: nobody says a time to the second before what he has to say."""
NEVER = -20.0
"""Log-odds of what a program printed, or of what is not understood alone."""
WORD = re.compile(r"[\w']+|[!?…]")


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """Where a message stands in its session's talk."""

    number: int
    turns: int
    words: int
    words_before: int
    words_after: int
    person: bool
    person_before: bool
    person_after: bool
    calls_tool: bool


def place_turns(spoken: Sequence[dict[str, Any]]) -> list[TurnPlace]:
    """Return the place of each message among the spoken ones of a session (rows of MESSAGES in order)."""
    # with what stands before and after the first and the last
    words = [0, *(len(row["text"].split()) for row in spoken), 0]
    person = [False, *(row["origin"] == Origin.HUMAN for row in spoken), False]
    return [
        TurnPlace(
            number=at,
            turns=len(spoken),
            words=words[at + 1],
            words_before=words[at],
            words_after=words[at + 2],
            person=person[at + 1],
            person_before=person[at],
            person_after=person[at + 2],
            calls_tool=any(block["type"] == "tool_call" for block in row["blocks"] or ()),
        )
        for at, row in enumerate(spoken)
    ]


def describe_sentence(
    sentence: Sentence, text: str, message: str, at: int, count: int, place: TurnPlace, words: set[str], new: int
) -> tuple[float, ...]:
    """Return the NUMBERS of a sentence: `text` of it without emphasis, the `at`-th of `count` of its message, with its
    content words and how many of them the session has not heard.
    """
    size, spoken, marks = max(len(text), 1), text.split(), message[sentence.end - 1 : sentence.end + 2]
    return (
        # its form
        log1p(len(spoken)),
        size / max(len(spoken), 1) / 10,
        sum(map(str.isdigit, text)) / size,
        sum(map(str.isupper, text)) / size,
        (len(text) - sum(map(str.isalnum, text)) - sum(map(str.isspace, text))) / size,
        "`" in text,
        bool(PATH.search(text)),
        ":" in marks,
        "?" in marks,
        sentence.item,
        min(sum(word[:1].isupper() for word in spoken[1:]), 4),
        text[:1].islower(),
        not text.isascii(),
        # its news
        log1p(new),
        new / max(len(words), 1),
        log1p(len(words)),
        # who says it, and where in the message and the session
        place.person,
        place.calls_tool,
        at == 0,
        log1p(at),
        log1p(count - 1 - at),
        log1p(count),
        log1p(place.words),
        log1p(place.number),
        place.number / place.turns,
        log1p(place.words_before),
        log1p(place.words_after),
        place.person_before,
        place.person_after,
    )


def list_grams(text: str) -> set[str]:
    """Return a sentence's words in lower case, and each two in a row; code, addresses, paths, figures as one word."""
    for pattern, word in ((CODE, " qcode "), (ADDRESS, " qaddress "), (PATH, " qpath "), (FIGURE, " 0 ")):
        text = pattern.sub(word, text)
    words = WORD.findall(text.lower().replace("’", "'"))
    return {*words, *(f"{a} {b}" for a, b in pairwise(words))}


@dataclass(frozen=True)
class WorthModel:
    """Weights of a logistic regression."""

    words: dict[str, float]
    """Weights of words, and of two in a row."""
    numbers: Floats
    """Weights of the NUMBERS."""
    bias: float

    def compute_worth(self, texts: Sequence[str], numbers: Sequence[Sequence[float]]) -> list[float]:
        """Return the log-odds of each sentence to be worth remembering; `numbers`: of each its NUMBERS.

        A line of a log never is, whoever pastes it.
        """
        dense = np.array(numbers, dtype=np.float64).reshape(len(texts), len(NUMBERS)) @ self.numbers + self.bias
        sums = [fsum(self.words.get(gram, 0.0) for gram in list_grams(text)) for text in texts]
        return [NEVER if LOGGED.match(text) else float(a + b) for text, a, b in zip(texts, dense, sums, strict=True)]

    def save(self, path: Path) -> None:
        """Write it, to be read by `load_worth_model`."""
        words = sorted(self.words)
        weights = np.array([self.words[word] for word in words])
        np.savez_compressed(path, words=np.array(words), weights=weights, numbers=self.numbers, bias=self.bias)


@cache
def load_worth_model(file: str = WORTH_FILE) -> WorthModel:
    """Return one that ships."""
    with np.load(io.BytesIO(files("slowwave.tasks").joinpath(file).read_bytes()), allow_pickle=False) as weights:
        words = dict(zip(weights["words"].tolist(), weights["weights"].tolist(), strict=True))
        return WorthModel(words, weights["numbers"], float(weights["bias"]))
