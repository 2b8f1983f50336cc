"""How likely a sentence is worth remembering: logistic regression on its words and its place.

`python -m bench.fit.worth` learns it from sentences of real and invented talk that were labelled by hand
(`data/labelled/worth.tsv`); docs/decisions/001 tells what it is worth. The words are those, and two in a row, that the
labelled sentences have; figures, code, paths and addresses count as one word each. No list of words is behind it.
Two models ship: WORTH_FILE selects claims, STANDING_FILE says how likely a claim is worth telling unasked.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import fsum, log1p
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.job import read_shipped
from slowwave.text.sentences import Sentence

Floats = npt.NDArray[np.float64]

WORTH_FILE, STANDING_FILE = "observe/worth.npz", "observe/standing.npz"
"""Worth remembering, at least with its neighbours; worth it by itself, for weeks."""
WORTH = ("keep", "context")
"""Labels of what is worth remembering: by itself, and with its neighbours."""
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
"""What is known of a sentence besides its words; shares 0 to 1, counts as log(1 + n), the rest 0 or 1."""
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
    one: Sentence, text: str, message: str, at: int, count: int, place: TurnPlace, words: set[str], new: int
) -> tuple[float, ...]:
    """Return the NUMBERS of a sentence: `text` of it without emphasis, the `at`-th of `count` of its message, with its
    content words and how many of them the session has not heard.
    """
    size, said, marks = max(len(text), 1), text.split(), message[one.end - 1 : one.end + 2]
    return (
        log1p(len(said)),
        size / max(len(said), 1) / 10,
        sum(c.isdigit() for c in text) / size,
        sum(c.isupper() for c in text) / size,
        sum(not c.isalnum() and not c.isspace() for c in text) / size,
        "`" in text,
        bool(PATH.search(text)),
        ":" in marks,
        "?" in marks,
        one.item,
        min(sum(word[:1].isupper() for word in said[1:]), 4),
        text[:1].islower(),
        not text.isascii(),
        log1p(new),
        new / max(len(words), 1),
        log1p(len(words)),
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
    """Return the words of a sentence in lower case, and each two in a row; any code, address, path or figure counts as
    one and the same word.
    """
    for pattern, word in ((CODE, " qcode "), (ADDRESS, " qaddress "), (PATH, " qpath "), (FIGURE, " 0 ")):
        text = pattern.sub(word, text)
    words = WORD.findall(text.lower().replace("’", "'"))
    return {*words, *(f"{a} {b}" for a, b in pairwise(words))}


@dataclass(frozen=True)
class WorthModel:
    """Weights of a logistic regression."""

    words: dict[str, float]
    """Of each word, and two in a row, that a sentence has."""
    numbers: Floats
    """Of the NUMBERS."""
    bias: float

    def compute_worth(self, texts: Sequence[str], numbers: Sequence[Sequence[float]]) -> list[float]:
        """Return of each sentence the log-odds that it is worth remembering; `numbers`: of each its NUMBERS.

        A line of a log never is, whoever pastes it.
        """
        dense = np.array(numbers, dtype=np.float64).reshape(len(texts), len(NUMBERS)) @ self.numbers + self.bias
        known = [fsum(self.words.get(gram, 0.0) for gram in list_grams(text)) for text in texts]
        return [NEVER if LOGGED.match(text) else float(a + b) for text, a, b in zip(texts, dense, known, strict=True)]

    def save(self, path: Path) -> None:
        """Write it, to be read by `load_worth_model`."""
        words = sorted(self.words)
        weights = np.array([self.words[word] for word in words])
        np.savez_compressed(path, words=np.array(words), weights=weights, numbers=self.numbers, bias=self.bias)


@cache
def load_worth_model(file: str = WORTH_FILE) -> WorthModel:
    """Return one that ships."""
    with np.load(io.BytesIO(read_shipped(file)), allow_pickle=False) as told:
        words = dict(zip(told["words"].tolist(), told["weights"].tolist(), strict=True))
        return WorthModel(words, told["numbers"], float(told["bias"]))
