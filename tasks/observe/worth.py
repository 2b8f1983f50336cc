"""Score how likely a sentence is worth remembering: everyday talk by a few features, talk about code by a trained
model.

Everyday talk between people, and what agents say there: the log-odds are a sum of features with round weights, near
those of a logistic regression on LoCoMo's evidence turns. Only the feature of new words is decisive; leaving out any
other costs less than two points of coverage. Every feature depends on one session alone.

Code: `python -m bench.fit.worth` trains a logistic regression on a sentence's words and its place, with sentences of
real and invented talk that were labelled by hand (`data/labelled/worth.tsv`). Its words are the words and word pairs of
the labelled sentences; a figure, code, a path or an address counts as one word. It uses no list of words. Two models
ship: WORTH_FILE selects claims, and STANDING_FILE gives the probability that a claim is worth showing without a query.
See `docs/decisions/001-claims.md` for the quality of both.
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

import numpy as np
import numpy.typing as npt

from slowwave.schemas.rows import MessageRow
from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.observe import categories as lex
from slowwave.text.sentences import Sentence
from slowwave.text.words import ENGLISH_STOP


@dataclass(slots=True, frozen=True)
class ScoredSentence:
    """A sentence with its log-odds, and the number of words that it would spend."""

    sentence: Sentence
    logit: float
    words: int

    @property
    def probability(self) -> float:
        """Probability from 0 to 1. It becomes the claim's confidence."""
        return 1 / (1 + exp(-self.logit))


def compute_log_odds(probability: float) -> float:
    """Return the log-odds of a probability, with the ends 0 and 1 kept apart from infinity."""
    inside = min(max(probability, 1e-6), 1 - 1e-6)
    return log(inside / (1 - inside))


def count_feature_words(text: str) -> int:
    """Return the number of words between blanks; two characters of a script without spaces count as one.

    The models of worth and of statements were fitted on this count: another way to count needs a refit.
    """
    if text.isascii():
        return len(text.split())
    spaceless = sum("぀" <= c <= "鿿" or "가" <= c <= "힯" for c in text)
    return len(text.split()) + spaceless // 2


def extract_feature_words(text: str) -> set[str]:
    """Return lower-cased words without English stop words, as the models of worth and of statements were fitted on."""
    return {
        w
        for w in map(str.lower, lex.TOKEN.findall(text))
        if w not in ENGLISH_STOP and (len(w) > 2 or not w.isascii())
    }


def score_personal(
    text: str,
    news: int,
    crowd: int,
    own: frozenset[str] = frozenset(),
    human: bool = True,
) -> float:
    """Return the log-odds of a sentence of everyday talk.

    Args:
        text: the sentence.
        news: content words that are new to the session.
        crowd: sentences in the message.
        own: lower-cased names of the speakers, which do not count as names.
        human: whether a person says it.
    """
    # capitalised words in mid-sentence, 2 at most; not "I'm", and not the people who speak
    names = (name.strip("\"'“").lower() for name in lex.PROPER_NAME.findall(text))
    named = sum(
        name not in ENGLISH_STOP
        and not name.startswith(("i'", "i’"))
        and name not in own
        for name in names
    )
    # Bias: the log-odds of a sentence without any of the features.
    # New words: the strongest feature by itself.
    # A date or time.
    # Proper names.
    # Family, friends, pets.
    # The speaker's own affairs.
    # A number.
    # About the listener.
    # Thanks, greetings.
    # In a long message each single sentence counts less.
    # A model that answers somebody repeats and applauds more than it tells.
    return (
        -3.0
        + log1p(news)
        + bool(lex.TIME.search(text))
        + min(2, named)
        + 0.75 * bool(lex.PEOPLE_AND_PETS.search(text))
        + 0.5 * bool(lex.FIRST_PERSON.search(text))
        + 0.5 * bool(lex.NUMBER.search(text))
        - bool(lex.SECOND_PERSON.search(text))
        - 0.5 * bool(lex.COURTESY.search(text))
        - 0.5 * log(crowd)
        - 2 * (not human)
    )


def select_within_budget(
    candidates: Iterable[ScoredSentence], budget: int, thrift: float
) -> list[ScoredSentence]:
    """Return the candidates with the highest probability for their length, as many as the budget of words allows.

    Greedy for the knapsack problem, by probability over words ** thrift. With thrift 0, the best sentences win at any
    length. With 1, the shortest win: coverage rises, but answers are lost.
    """
    left = budget
    chosen: list[ScoredSentence] = []
    for candidate in sorted(candidates, key=lambda c: -c.probability / c.words**thrift):
        if candidate.words <= left:
            chosen.append(candidate)
            left -= candidate.words
    return chosen


Floats = npt.NDArray[np.float64]

WORTH_FILE = "observe/worth.npz"
STANDING_FILE = "observe/standing.npz"
"""Models of: worth remembering, at least together with its neighbours; worth it alone, for weeks."""
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
"""Features of a sentence besides its words: shares from 0 to 1, counts as log(1 + n), and the rest 0 or 1."""
CODE = re.compile(r"`[^`]*`")
ADDRESS = re.compile(r"https?://\S+")
PATH = re.compile(r"(?<!\S)\S*[/\\]\S+|\b[\w-]+\.[a-z]{1,5}\b")
"""The first part begins where a run of characters does, so that a long run takes linear time."""
FIGURE = re.compile(r"\d+")
LOGGED = re.compile(r"^\W*\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
"""Start of a log line. Nobody opens a sentence with a time to the second."""
NEVER = -20.0
"""Log-odds of program output, and of a sentence that cannot be understood alone."""
WORD = re.compile(r"[\w']+|[!?…]")


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """A message's place in its session."""

    number: int
    turns: int
    words: int
    words_before: int
    words_after: int
    person: bool
    person_before: bool
    person_after: bool
    calls_tool: bool


def place_turns(spoken: Sequence[MessageRow]) -> list[TurnPlace]:
    """Return the place of each message among the spoken ones of a session (rows of MESSAGES in order)."""
    # padded with a place before the first message and one after the last
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
            calls_tool=any(
                block["type"] == "tool_call" for block in row["blocks"] or ()
            ),
        )
        for at, row in enumerate(spoken)
    ]


def describe_sentence(
    sentence: Sentence,
    text: str,
    message: str,
    *,
    at: int,
    count: int,
    place: TurnPlace,
    words: set[str],
    new: int,
) -> tuple[float, ...]:
    """Return the NUMBERS of a sentence.

    Args:
        sentence: the sentence.
        text: its text without emphasis.
        message: the text of its message.
        at: its index in the message.
        count: sentences of the message.
        place: the message's place in the session.
        words: the sentence's content words.
        new: those that are new to the session.
    """
    news = (log1p(new), new / max(len(words), 1), log1p(len(words)))
    return (
        *_describe_form(sentence, text, message),
        *news,
        *_describe_place(at, count, place),
    )


def _describe_form(sentence: Sentence, text: str, message: str) -> tuple[float, ...]:
    """Return the NUMBERS of a sentence's form."""
    size = max(len(text), 1)
    spoken = text.split()
    marks = message[sentence.end - 1 : sentence.end + 2]
    return (
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
    )


def _describe_place(at: int, count: int, place: TurnPlace) -> tuple[float, ...]:
    """Return the NUMBERS of a sentence's speaker, and of its place in the message and the session."""
    return (
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
    """Return a sentence's lower-cased words and word pairs. Code, an address, a path or a figure is one word."""
    for pattern, word in (
        (CODE, " qcode "),
        (ADDRESS, " qaddress "),
        (PATH, " qpath "),
        (FIGURE, " 0 "),
    ):
        text = pattern.sub(word, text)
    words = WORD.findall(text.lower().replace("’", "'"))
    return {*words, *(f"{a} {b}" for a, b in pairwise(words))}


@dataclass(frozen=True)
class WorthModel:
    """Weights of a logistic regression."""

    words: dict[str, float]
    """Weights of words and word pairs."""
    numbers: Floats
    """Weights of the NUMBERS."""
    bias: float

    def compute_worth(
        self, texts: Sequence[str], numbers: Sequence[Sequence[float]]
    ) -> list[float]:
        """Return the log-odds that each sentence is worth remembering; `numbers` are the NUMBERS of each.

        A log line gets NEVER, also if a person pastes it.
        """
        dense = (
            np.array(numbers, dtype=np.float64).reshape(len(texts), len(NUMBERS))
            @ self.numbers
            + self.bias
        )
        sums = [
            fsum(self.words.get(gram, 0.0) for gram in list_grams(text))
            for text in texts
        ]
        return [
            NEVER if LOGGED.match(text) else float(a + b)
            for text, a, b in zip(texts, dense, sums, strict=True)
        ]

    def save(self, path: Path) -> None:
        """Write the model to a file for `load_worth_model`."""
        words = sorted(self.words)
        weights = np.array([self.words[word] for word in words])
        np.savez_compressed(
            path,
            words=np.array(words),
            weights=weights,
            numbers=self.numbers,
            bias=self.bias,
        )


@cache
def load_worth_model(file: str = WORTH_FILE) -> WorthModel:
    """Return a shipped model."""
    with np.load(
        io.BytesIO(files("slowwave.tasks").joinpath(file).read_bytes()),
        allow_pickle=False,
    ) as weights:
        words = dict(
            zip(weights["words"].tolist(), weights["weights"].tolist(), strict=True)
        )
        return WorthModel(words, weights["numbers"], float(weights["bias"]))
