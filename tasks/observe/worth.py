"""How likely a sentence is worth remembering, and as what: logistic regression on its words and its place.

`python -m bench.fit_worth` learns it from sentences of real and invented talk that were labelled by hand
(`data/labelled/worth.tsv`); docs/decisions/036 tells what it is worth. The words are those, and two in a row, that the
labelled sentences have; figures, code, paths and addresses count as one word each. No list of words is behind it.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import log1p
from typing import Any

import numpy as np
import numpy.typing as npt

from slowwave.schemas.vocabulary import Origin
from slowwave.text.sentences import Sentence

Floats = npt.NDArray[np.float64]

FILE = "worth.skops"
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


def mask_words(text: str) -> str:
    """Return a sentence in lower case, with one word for any code, address, path and figure."""
    for pattern, word in ((CODE, " qcode "), (ADDRESS, " qaddress "), (PATH, " qpath "), (FIGURE, " 0 ")):
        text = pattern.sub(word, text)
    return text.lower().replace("’", "'")


@dataclass(frozen=True)
class WorthModel:
    """Fitted parts of scikit-learn: what counts words, what scales numbers, and three classifiers over both."""

    words: Any
    """CountVectorizer."""
    numbers: Any
    """StandardScaler."""
    worth: Any
    """LogisticRegression: whether a sentence is worth remembering."""
    leans: Any
    """The same: whether one that is needs its neighbours to be understood."""
    categories: Any
    """The same: what kind of claim it is."""

    def build_matrix(self, texts: Sequence[str], numbers: Sequence[Sequence[float]]) -> Any:
        """Return sparse matrix of shape (sentences, words + numbers)."""
        from scipy.sparse import csr_matrix, hstack

        counted = self.words.transform([mask_words(text) for text in texts])
        scaled = self.numbers.transform(np.array(numbers, dtype=np.float64).reshape(len(texts), len(NUMBERS)))
        return hstack([counted, csr_matrix(scaled)], format="csr")

    def judge(self, texts: Sequence[str], numbers: Sequence[Sequence[float]]) -> list["Judgement"]:
        """Return what each sentence is; `numbers`: of each sentence its NUMBERS."""
        if not texts:
            return []
        matrix = self.build_matrix(texts, numbers)
        worth, leans = (model.predict_proba(matrix)[:, 1].tolist() for model in (self.worth, self.leans))
        names, told = self.categories.classes_.tolist(), self.categories.predict_proba(matrix).tolist()
        return [
            Judgement(w, c > 0.5, dict(zip(names, row, strict=True)))
            for w, c, row in zip(worth, leans, told, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the model says of a sentence."""

    worth: float
    """Probability that it is worth remembering, 0 to 1."""
    leans: bool
    """Whether it needs its neighbours to be understood."""
    categories: dict[str, float]
    """Category -> probability, should it be worth remembering."""

    def choose_category(self, among: Sequence[str]) -> str:
        """Return the likeliest of some categories."""
        return max(among, key=lambda name: self.categories.get(name, 0.0))


@cache
def load_worth_model() -> WorthModel:
    """Return the one that ships."""
    import skops.io  # with scikit-learn behind it: a night without news does without

    return WorthModel(**skops.io.loads(_read_bytes()))


@cache
def compute_worth_digest() -> str:
    """Return hash of the model that ships: another one distils anew."""
    return hashlib.sha256(_read_bytes()).hexdigest()[:12]


def _read_bytes() -> bytes:
    return files("slowwave.tasks.observe").joinpath(FILE).read_bytes()
