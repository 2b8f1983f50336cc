"""Signs by which a sentence of a past session is told to settle something, and a word of it to matter.

What is settled is said again: its words come back in other messages and from the other side; side talk and remarks
about the work done don't. Beside that counts who says it and where, its figures, whether a person agrees next, whether
the night made a claim of it, a few turns of speech, and what it means: where its vector lies among the session's. All
signs are cheap: no text is encoded, the vectors are the night's. Which of them count how much is fitted
(`bench/fit/statements.py`), and stands in `weights.json`.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt

from slowwave.recall.retrieve.pools import Vector
from slowwave.text.cues import ASSENTS
from slowwave.text.sentences import split_sentences
from slowwave.text.words import compute_idf, extract_content_words, stem_words

RECOUNTS = re.compile(r"\b(?:was|were|had|yesterday|last (?:night|week|month|year)|currently|at the moment)\b", re.I)
REPORTS = re.compile(
    r"\bi(?:['’]ve| have)? (?:also )?(?:left|added|pushed|merged|deployed|wrote|written|ran|run|moved|removed|fixed|"
    r"updated|renamed|put|kept|opened|created|tested|checked|measured|verified|set up)|"
    r"\b(?:pushed|merged|deployed|shipped|pass(?:es)?|tests?|staging|branch|migration|dashboard|PR|commit|CI|lint)\b",
    re.I,
)
BINDS = re.compile(
    r"\b(?:must|should|shall|only|never|always|at most|at least|until|within|no more than|per|after|before|unless|"
    r"instead|keep|use|limit)\b",
    re.I,
)
MEASURES = re.compile(r"\b(?:p9\d|roughly|about|around|approximately|currently)\b|%|\bpercent of\b", re.I)
DIGIT = re.compile(r"\d")

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PastMessage:
    """A message of a past session."""

    message_id: str
    session_id: str
    session: str
    """The transcript's own id."""
    native_id: str
    seq: int
    human: bool
    speaker: str | None
    text: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of a message."""

    message: PastMessage
    start: int
    number: int
    """Of the sentence in its message."""
    text: str
    words: frozenset[str]
    relevance: float = 0.0
    worths: Mapping[str, float] = field(default_factory=dict)
    """Its words, each with the probability that it matters."""


@dataclass(frozen=True, slots=True)
class ClaimQuotes:
    """Quotes that the night took from a message."""

    active: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NightVectors:
    """What the night encoded of some sessions; all by one encoder."""

    messages: Mapping[str, Vector]
    """message_id -> the mean over its passages."""
    claims: Mapping[str, Sequence[tuple[str, Vector]]]
    """message_id -> quotes that became claims, each with the claim's vector."""

    def find_vector(self, one: "Statement") -> Vector | None:
        """Return a sentence's: that of the claim whose quote is likest in length, else its message's.

        None without either.
        """
        key = one.message.message_id
        matches = [made for made in self.claims.get(key, ()) if _is_substring_match(made[0], one.text)]
        likest = min(matches, key=lambda made: (abs(len(made[0]) - len(one.text)), made[0]), default=None)
        return self.messages.get(key) if likest is None else likest[1]


def extract_statements(message: PastMessage, claimed: ClaimQuotes) -> Iterator[Statement]:
    """Yield a message's sentences that say something and are not superseded."""
    for one in split_sentences(message.text):
        plain = " ".join(one.text.split())
        words = frozenset(extract_content_words(plain))
        if words and not _has_matching_quote(claimed.superseded, plain):
            yield Statement(message, one.start, one.position, plain, words)


def compute_session_idf(messages: Sequence[PastMessage]) -> dict[str, float]:
    """Return inverse document frequency of each stem among the messages' sessions; above 0 even where all hold it."""
    sessions: dict[str, set[str]] = defaultdict(set)
    for message in messages:
        sessions[message.session_id] |= stem_words(extract_content_words(message.text))
    held = Counter(stem for words in sessions.values() for stem in words)
    return {stem: compute_idf(n, len(sessions)) for stem, n in held.items()}


class SessionFeatures:
    """One session's sentences, with what their signs are read from."""

    def __init__(
        self,
        messages: Sequence[PastMessage],
        claims: Mapping[str, ClaimQuotes],
        closeness: Mapping[str, float],
        rarity: Mapping[str, float],
        vectors: NightVectors | None = None,
    ) -> None:
        """Read them.

        Args:
            messages: of one session, in order.
            claims: message_id -> what the night made of it.
            closeness: message_id -> how near its vector is to the query's, standardised.
            rarity: stem -> its inverse document frequency among the sessions looked at; 1 for one that isn't there.
            vectors: what the night encoded of the session; None: meaning counts for nothing.
        """
        self.claims, self.closeness, self.rarity = claims, closeness, rarity
        self.vectors = vectors
        self.found = [
            s
            for message in messages
            for s in extract_statements(message, claims.get(message.message_id, ClaimQuotes()))
        ]
        self.stems = [stem_words(one.words) for one in self.found]
        self.turns = list(messages)
        self.place = {message.message_id: n for n, message in enumerate(messages)}
        self.held = [stem_words(extract_content_words(message.text)) for message in messages]
        self.first: dict[str, int] = {}
        self.said_by: dict[bool, set[str]] = {True: set(), False: set()}
        for n, (held, message) in enumerate(zip(self.held, messages, strict=True)):
            self.said_by[message.human] |= held
            for stem in held:
                self.first.setdefault(stem, n)
        self.holding = Counter(stem for held in self.held for stem in held)
        lengths = [len(held) for held in self.held if held]
        self.usual = math.log(sum(lengths) / len(lengths)) if lengths else 0.0

    def compute_features(self) -> Matrix:
        """Return sentences by `SENTENCE_SIGNS`."""
        rows = [[sign(self, n) for sign in SENTENCE_SIGNS.values()] for n in range(len(self.found))]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(SENTENCE_SIGNS))

    def compute_centered_vectors(self) -> Matrix | None:
        """Return sentences by the encoder's dimensions: each one's vector, less the mean of the session's messages.

        A sentence that became a claim has the claim's vector, another one its message's; without either it is 0.
        """
        if self.vectors is None or not self.vectors.messages:
            return None
        width = len(next(iter(self.vectors.messages.values())))
        heard = [self.vectors.messages[key] for key in self.place if key in self.vectors.messages]
        mean = np.mean(heard, axis=0) if heard else np.zeros(width)
        own = (self.vectors.find_vector(one) for one in self.found)
        rows = [np.zeros(width) if vector is None else vector - mean for vector in own]
        return np.array(rows, dtype=np.float64).reshape(len(rows), width)

    def get_message_position(self, n: int) -> int:
        """Return place of the n-th sentence's message in the session, from 0."""
        return self.place[self.found[n].message.message_id]

    def compute_relative_length(self, n: int) -> float:
        """Return how long a person's message is that says it: logarithm of its words against the session's usual."""
        if not self.found[n].message.human:
            return 0.0
        return math.log(max(1, len(self.held[self.get_message_position(n)]))) - self.usual

    def flag_first_message(self, n: int) -> float:
        """Return 1 where it stands in the first message, which tells what is the matter."""
        return float(self.get_message_position(n) == 0)

    def flag_agreement(self, n: int) -> float:
        """Return whether a person's next message begins by agreeing."""
        after = self.turns[self.get_message_position(n) + 1 : self.get_message_position(n) + 2]
        return float(any(message.human and ASSENTS.search(message.text) is not None for message in after))

    def compute_topicality(self, n: int) -> float:
        """Return whether its words are the session's: mean rarity, times the logarithm of the messages that hold
        one.
        """
        some = self.stems[n]
        return sum(self.rarity.get(s, 1.0) * math.log(max(1, self.holding[s])) for s in some) / max(1, len(some))

    def compute_repeated_share(self, n: int) -> float:
        """Return share of its words that an earlier message had."""
        at = self.get_message_position(n)
        return sum(self.first.get(stem, at) < at for stem in self.stems[n]) / max(1, len(self.stems[n]))

    def compute_partner_overlap(self, n: int) -> float:
        """Return share of its words that the other side has too: a person's that the model says, and the reverse."""
        return len(self.stems[n] & self.said_by[not self.found[n].message.human]) / max(1, len(self.stems[n]))

    def compute_log_figures(self, n: int) -> float:
        """Return logarithm of its words with a figure, and one."""
        return math.log1p(sum(DIGIT.search(word) is not None for word in self.found[n].words))

    def get_sentence_number(self, n: int) -> float:
        """Return which sentence of its message it is, from 0."""
        return float(self.found[n].number)

    def flag_claim(self, n: int) -> float:
        """Return whether the night made a claim of it."""
        message = self.found[n].message
        return float(_has_matching_quote(self.claims.get(message.message_id, ClaimQuotes()).active, self.found[n].text))

    def get_similarity(self, n: int) -> float:
        """Return deviations that its message is nearer to the query than others."""
        return self.closeness.get(self.found[n].message.message_id, 0.0)


def _make_pattern_feature(pattern: re.Pattern[str]) -> Callable[[SessionFeatures, int], float]:
    return lambda talk, n: float(pattern.search(talk.found[n].text) is not None)


SENTENCE_SIGNS: dict[str, Callable[[SessionFeatures, int], float]] = {
    "long": SessionFeatures.compute_relative_length,
    "opens": SessionFeatures.flag_first_message,
    "agreed": SessionFeatures.flag_agreement,
    "topical": SessionFeatures.compute_topicality,
    "said before": SessionFeatures.compute_repeated_share,
    "shared": SessionFeatures.compute_partner_overlap,
    "figures": SessionFeatures.compute_log_figures,
    "number": SessionFeatures.get_sentence_number,
    "claim": SessionFeatures.flag_claim,
    "close": SessionFeatures.get_similarity,
    "recounts": _make_pattern_feature(RECOUNTS),
    "reports": _make_pattern_feature(REPORTS),
    "measures": _make_pattern_feature(MEASURES),
    "binds": _make_pattern_feature(BINDS),
}
WORD_SIGNS = ("best", "any", "held", "last", "first", "figure")
"""Log-odds of the best sentence that holds it, and that any does; the logarithm of how many messages hold it; how late
in the session (0 to 1) the last and the first of them come; a figure in it."""


def compute_word_features(found: Sequence[Statement], logits: Sequence[float], last: int) -> tuple[list[str], Matrix]:
    """Return the sentences' words, and each by `WORD_SIGNS`.

    Args:
        found: sentences.
        logits: the log-odds that each settles something.
        last: number of the session's last message.
    """
    holding: dict[str, list[int]] = defaultdict(list)
    for n, one in enumerate(found):
        for word in one.words:
            holding[word].append(n)
    words = sorted(holding)
    rows = [
        _compute_word_row(word, [found[n] for n in holding[word]], [logits[n] for n in holding[word]], last)
        for word in words
    ]
    return words, np.array(rows, dtype=np.float64).reshape(len(rows), len(WORD_SIGNS))


def _compute_word_row(word: str, held_by: Sequence[Statement], logits: Sequence[float], last: int) -> list[float]:
    places = {one.message.seq for one in held_by}
    by_sentence = {(one.message.seq, one.number): logit for one, logit in zip(held_by, logits, strict=True)}
    none = float(np.logaddexp(0.0, list(by_sentence.values())).sum())  # minus the logarithm that none does
    return [
        max(logits),
        none + math.log(max(1e-9, -math.expm1(-none))),
        math.log(len(places)),
        max(places) / max(1, last),
        min(places) / max(1, last),
        float(DIGIT.search(word) is not None),
    ]


def _has_matching_quote(quotes: Sequence[str], sentence: str) -> bool:
    return any(_is_substring_match(quote, sentence) for quote in quotes)


def _is_substring_match(quote: str, sentence: str) -> bool:
    return bool(quote) and (sentence in quote or quote in sentence)
