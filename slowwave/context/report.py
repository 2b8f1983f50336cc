"""What a long report's block may show: sentences of the likeliest sessions, and how likely each of their words matters.

A word matters where its session does, and a sentence that holds it settles something; more so if several messages hold
it, and if it comes up late. What is settled is said again: its words come back in other messages and from the other
side; side talk and remarks about the work done don't. Beside that counts what a sentence means: where its vector lies
among the session's. What was superseded is left out, and so are figures that a person gives anew later in the session.
All signs are cheap: no text is encoded, the vectors are the night's.

Weights are log-odds, by `bench/fit/statements.py` from the sets of bug reports in `data/labelled`, and stand in
`weights.json`; what they are worth on a set that the fit did not see stands in `docs/decisions/003-blocks.md`.
"""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import groupby

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.context.direct import make_source, tell_hit
from slowwave.context.packing import show_pieces
from slowwave.context.rendering import OMITTED, Line, LineSource
from slowwave.recall.hits import Hit
from slowwave.recall.query import Query, Vector
from slowwave.recall.release.tables import limit_blas_threads
from slowwave.recall.release.view import FIGURE, View, is_superseded
from slowwave.recall.retrieve.rows import mask_allowed_passages
from slowwave.recall.sessions import is_visible_as_of, rank_sessions, read_session_ids
from slowwave.schemas.errors import READ_TROUBLE
from slowwave.schemas.tables import CHAIN, MESSAGES, OBSERVATIONS, PASSAGES, SESSIONS
from slowwave.schemas.vocabulary import SPOKEN, Status
from slowwave.text.sentences import split_sentences
from slowwave.text.words import extract_content_words, stem_words

HEARD = ["message_id", "session_id", "native_id", "seq", "role", "origin", "speaker", "text", "ts"]
CLAIMED = ["observation_id", "message_ids", "quote", "status", "session_id", "vector", *CHAIN]
LEAST = 0.02
"""Of the likeliest word's probability; a sentence without a word as likely as that is not shown."""
ABOUT = 10
"""Of recall's hits the first, whose claims are taken to be about the query's matter."""
SAME_WORDS = 2
"""Words that two sentences share which give other figures of one thing."""
FIGURE_WORDS = re.compile(r"\S*\d\w*(?:\s+\S*\d\w*)*")
MOST_SENTENCES = 1_200
"""The likeliest, among which is chosen."""

Matrix = npt.NDArray[np.float64]

SENTENCE_SIGNS = ("long", "opens", "said before", "shared", "figures", "number", "claim")
"""How long a person's message is that says it (logarithm of its words against the session's usual); whether it stands
in the first message, which tells what is the matter; shares of its words that an earlier message had, and that the
other side has too; logarithm of its words with a figure, and one; which sentence of its message it is; whether the
night made a claim of it."""
WORD_SIGNS = ("any", "held", "last")
"""Log-odds that any sentence that holds it settles something; the logarithm of how many messages hold it; how late in
the session (0 to 1) the last of them comes."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Log-odds for each sign, of a sentence to settle something and of a word to matter."""

    sentence_bias: float
    sentence: tuple[float, ...]
    """By `SENTENCE_SIGNS`."""
    word_bias: float
    word: tuple[float, ...]
    """By `WORD_SIGNS`."""
    encoder: str = ""
    """Whose dimensions `direction` has."""
    direction: tuple[float, ...] = ()
    """The direction of sentences that settle something. Empty: vectors do not count."""


WEIGHTS = Weights(**orjson.loads(files("slowwave.context").joinpath("weights.json").read_bytes()))
"""Those that ship, by `python -m bench.fit.statements`."""


@dataclass(frozen=True, slots=True, eq=False)
class PastMessage:
    """A message of a past session."""

    id: str
    source: LineSource
    text: str
    vector: Vector | None = None
    """The mean over its passages; None where they have none by the encoder of the weights."""
    claims: tuple[tuple[str, Vector | None], ...] = ()
    """Quotes that became claims, each with the claim's vector; one of several messages is the first one's."""
    superseded: tuple[str, ...] = ()
    """Quotes of claims that no longer hold."""

    @property
    def human(self) -> bool:
        """Whether a person said it."""
        return self.source.by == "person"


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """A sentence of a message."""

    at: int
    """Place of its message in the session, from 0."""
    number: int
    """Of the sentence in its message."""
    text: str
    words: frozenset[str]
    vector: Vector | None = None
    """That of the claim whose quote is likest in length, else its message's."""
    claimed: bool = False
    relevance: float = 0.0
    """The probability that it settles something."""
    worths: Mapping[str, float] = field(default_factory=dict)
    """The probability that each of its words matters."""


def rank_sentences(
    view: View, query: Query, vector: Vector | None, hits: Sequence[Hit], weights: Weights = WEIGHTS
) -> list[Line]:
    """Return messages of the likeliest sessions, cut to the sentences that may matter to a report, the likeliest
    session last; before them what recall found that no night has read yet.

    Args:
        view: the release.
        query: the report.
        vector: the query's; None without an encoder.
        hits: the messages that recall found, best first.
        weights: of the signs.
    """
    sessions = load_sessions(view, query, vector, [hit.id for hit in hits], weights.encoder)
    scored = [(messages, score_session(messages, share, weights)) for share, messages in reversed(sessions)]
    # the sentences that are likely enough
    sentences = [sentence for _, of_session in scored for sentence in of_session]
    likeliest = sorted((sentence.relevance for sentence in sentences), reverse=True)[:MOST_SENTENCES]
    least_worth = LEAST * max((max(sentence.worths.values()) for sentence in sentences), default=0.0)
    lines = [line for rank, hit in enumerate(hits) if (line := _tell_unreleased(hit, rank))][::-1]
    for messages, of_session in scored:
        likely = (s for s in of_session if s.relevance >= likeliest[-1] and max(s.worths.values()) >= least_worth)
        lines += [_make_line(messages[at], list(group)) for at, group in groupby(likely, key=lambda s: s.at)]
    return lines


def _tell_unreleased(hit: Hit, rank: int) -> Line | None:
    """Return a hit that no night has read yet, whole, its words worth the less the further down it stands."""
    if hit.status != Status.NOT_DISTILLED or not hit.sources:
        return None
    line = tell_hit(hit)
    worths = dict.fromkeys(extract_content_words(line.text), 1 / (2 + rank))
    return replace(line, relevance=1 / (2 + rank), pieces=(" ".join(line.pieces),), worths=(worths,))


def _make_line(message: PastMessage, sentences: Sequence[Sentence]) -> Line:
    """Return a message's sentences as a line, an ellipsis where one is left out."""
    pieces, worths, number = list[str](), list[Mapping[str, float]](), sentences[0].number
    for sentence in sentences:
        if sentence.number > number:
            pieces, worths = [*pieces, OMITTED], [*worths, {}]
        closed = sentence.text if sentence.text[-1:] in ".!?…:;" else f"{sentence.text}."
        pieces, worths, number = [*pieces, closed], [*worths, sentence.worths], sentence.number + 1
    line = Line("", message.source, max(sentence.relevance for sentence in sentences), worths=tuple(worths))
    return show_pieces(line, pieces)


def load_sessions(
    view: View, query: Query, vector: Vector | None, hits: Sequence[str], encoder: str, *, max_sessions: int = 5
) -> list[tuple[float, list[PastMessage]]]:
    """Return the messages of the likeliest sessions, at most `max_sessions`, likeliest first, each session with its
    probability; with vectors where they are of `encoder`.
    """
    if not hits:  # nobody asked, and nothing reaches the floor
        return []
    try:
        ranked = rank_sessions(view, query, vector, view.has_full_text(PASSAGES))
    except READ_TROUBLE:  # recall has met it before, and noted it
        ranked = rank_sessions(view, query, vector, full_text=False)
    ids = read_session_ids(view, [number for number, _ in ranked[:max_sessions]])
    probabilities = dict(zip(ids, (probability for _, probability in ranked), strict=False))
    likely = {session for session, probability in probabilities.items() if probability >= LEAST}
    messages = _load_messages(view, query, ids, likely, hits, encoder)
    return [(probability, _select_around_hits(messages[key], hits)) for key, probability in probabilities.items()]


def _load_messages(
    view: View, query: Query, sessions: Sequence[str], likely: Set[str], hits: Sequence[str], encoder: str
) -> Mapping[str, list[PastMessage]]:
    """Return each session's messages that pass the query's conditions, in order, without those taken back."""
    by_id = view.read_by_id(SESSIONS, sessions, ["session_id", "inactive"])
    withdrawn = {key for row in by_id.values() for key in row["inactive"]}
    allowed = None
    if query.since or query.is_narrowed:
        offsets = np.unique(view.passages.message[mask_allowed_passages(view, query)])
        allowed = set(view.read_keys(MESSAGES).take(offsets[offsets >= 0]).to_pylist())
    # the mean vector of each message's passages
    inside = pc.field("session_id").isin(pa.array(sessions, pa.string()))  # of none too
    parts: dict[str, list[Vector]] = defaultdict(list)
    has_vectors = view.release.encoder == encoder
    for row in view.read(PASSAGES, ["message_id", "vector"], inside).to_pylist() if has_vectors else ():
        if row["vector"] is not None:
            parts[str(row["message_id"])].append(np.array(row["vector"], np.float32))
    vectors = {key: np.mean(passage_vectors, axis=0) for key, passage_vectors in parts.items()}
    # what of each became a claim, and what of that no longer holds
    claims, superseded, about = defaultdict(list), defaultdict(list), set(hits[:ABOUT])
    for row in view.read(OBSERVATIONS, CLAIMED, inside).to_pylist():
        keys, quote = row["message_ids"], " ".join(str(row["quote"]).split())
        if keys and (row["chain_id"] or row["status"] in (Status.ACTIVE, Status.DUPLICATE)):  # else it was withdrawn
            has_vector = vectors and row["vector"] is not None
            claims[keys[0]].append((quote, np.array(row["vector"], np.float32) if has_vector else None))
        # superseded by then, where the query may be about the later claim too: it is of the same session, of a likely
        # one, or a hit, or it is gone; the night's guesses at other matters are at times wrong
        if is_superseded(row, query.as_of):
            successor = view.chains.find_successor(row, query.as_of)
            here = successor is None or successor["session_id"] in (row["session_id"], *likely)
            if here or (successor and not about.isdisjoint(successor["message_ids"])):
                for key in keys:
                    superseded[key].append(quote)
    # what was said, no later than `as_of`, where there is one
    by_session: dict[str, list[PastMessage]] = defaultdict(list)
    for row in view.read(MESSAGES, HEARD, inside).sort_by("seq").to_pylist():
        key = str(row["message_id"])
        is_said = row["origin"] in SPOKEN and row["text"] and is_visible_as_of(row["ts"], query.until)
        if is_said and key not in withdrawn and (allowed is None or key in allowed):
            made = tuple(claims[key]), tuple(superseded[key])
            source = make_source(view, row)
            by_session[str(row["session_id"])].append(
                PastMessage(key, source, str(row["text"]), vectors.get(key), *made)
            )
    return by_session


def _select_around_hits(messages: list[PastMessage], hits: Collection[str], limit: int = 400) -> list[PastMessage]:
    """Return the messages of a long session that are nearest to a hit, or the last without any, in order: scoring
    takes time with the square of their number.
    """
    if len(messages) <= limit:
        return messages
    at = [n for n, message in enumerate(messages) if message.id in hits]
    near = sorted(range(len(messages)), key=lambda n: (min((abs(n - hit) for hit in at), default=-n), n))[:limit]
    return [messages[n] for n in sorted(near)]


def score_session(messages: Sequence[PastMessage], probability: float, weights: Weights = WEIGHTS) -> list[Sentence]:
    """Return the sentences of one session's messages with what they are worth, in order, without what is superseded or
    figures given anew; `probability` is that the query is about this session.
    """
    weighed = weigh_sentences(messages, extract_sentences(messages), weights)
    words, signs = compute_word_signs(weighed, len(messages))
    logits = weights.word_bias + signs @ np.array(weights.word)
    matters = dict(zip(words, (probability * (1.0 / (1.0 + np.exp(-logits)))).tolist(), strict=True))
    return [
        replace(
            sentence,
            relevance=probability / (1.0 + math.exp(-logit)),
            worths={word: matters[word] for word in sorted(sentence.words)},
        )
        for sentence, logit in weighed
    ]


def extract_sentences(messages: Sequence[PastMessage]) -> list[Sentence]:
    """Return the messages' sentences that say something and are not superseded."""
    sentences = []
    for at, message in enumerate(messages):
        for sentence in split_sentences(message.text):
            text = " ".join(sentence.text.split())
            words = frozenset(extract_content_words(text))
            if words and not any(_is_quoted(quote, text) for quote in message.superseded):
                claims = [claim for claim in message.claims if _is_quoted(claim[0], text)]
                vectors = [(abs(len(q) - len(text)), q, vector) for q, vector in claims if vector is not None]
                likest = min(vectors, key=lambda claim: claim[:2], default=(0, "", message.vector))
                sentences.append(Sentence(at, sentence.position, text, words, likest[2], bool(claims)))
    return sentences


def _is_quoted(quote: str, sentence: str) -> bool:
    return bool(quote) and (sentence in quote or quote in sentence)


def compute_sentence_signs(messages: Sequence[PastMessage], sentences: Sequence[Sentence]) -> Matrix:
    """Return sentences by `SENTENCE_SIGNS`."""
    # who said each stem, and which message first
    stems_of = [stem_words(extract_content_words(message.text)) for message in messages]
    first: dict[str, int] = {}
    said_by: dict[bool, set[str]] = {True: set(), False: set()}
    for n, (stems, message) in enumerate(zip(stems_of, messages, strict=True)):
        said_by[message.human] |= stems
        for stem in stems:
            first.setdefault(stem, n)
    # how long a message is here
    lengths = [len(stems) for stems in stems_of if stems]
    usual = math.log(sum(lengths) / len(lengths)) if lengths else 0.0
    # the signs of each sentence
    rows = []
    for sentence in sentences:
        stems, human = stem_words(sentence.words), messages[sentence.at].human
        rows.append(
            [
                math.log(max(1, len(stems_of[sentence.at]))) - usual if human else 0.0,
                float(sentence.at == 0),
                sum(first.get(stem, sentence.at) < sentence.at for stem in stems) / max(1, len(stems)),
                len(stems & said_by[not human]) / max(1, len(stems)),
                math.log1p(sum(FIGURE.search(word) is not None for word in sentence.words)),
                float(sentence.number),
                float(sentence.claimed),
            ]
        )
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(SENTENCE_SIGNS))


def compute_meaning(messages: Sequence[PastMessage], sentences: Sequence[Sentence]) -> Matrix | None:
    """Return sentences by the encoder's dimensions: each one's vector, less the mean of the session's messages.

    0 for one without a vector. None where no message has one.
    """
    vectors = [message.vector for message in messages if message.vector is not None]
    if not vectors:
        return None
    mean = np.mean(vectors, axis=0)
    rows = [np.zeros(len(mean)) if sentence.vector is None else sentence.vector - mean for sentence in sentences]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(mean))


def weigh_sentences(
    messages: Sequence[PastMessage], sentences: Sequence[Sentence], weights: Weights
) -> list[tuple[Sentence, float]]:
    """Return sentences with their log-odds; where a person later gives other figures beside two of a sentence's words,
    its own figures are left out, and of its words only those count that the later one lacks.
    """
    # log-odds by the signs, and by what a sentence means
    logits = weights.sentence_bias + compute_sentence_signs(messages, sentences) @ np.array(weights.sentence)
    meaning = compute_meaning(messages, sentences) if weights.direction else None
    if meaning is not None:
        with limit_blas_threads():
            logits = logits + meaning @ np.array(weights.direction)
    # figures that a person gives anew later
    figures = [frozenset(FIGURE.findall(sentence.text)) for sentence in sentences]
    stems = [stem_words(word for word in sentence.words if not FIGURE.search(word)) for sentence in sentences]
    given = [n for n, sentence in enumerate(sentences) if figures[n] and messages[sentence.at].human]
    weighed = []
    for n, (sentence, logit) in enumerate(zip(sentences, logits.tolist(), strict=True)):
        later = (m for m in given if figures[n] and sentences[m].at > sentence.at)
        given_anew = (m for m in later if not figures[n] & figures[m] and len(stems[n] & stems[m]) >= SAME_WORDS)
        if (m := next(given_anew, None)) is not None:
            text = FIGURE_WORDS.sub(OMITTED, sentence.text)
            sentence = replace(sentence, text=text, words=frozenset(extract_content_words(text)) - sentences[m].words)
        weighed += [(sentence, logit)] if sentence.words else []
    return weighed


def compute_word_signs(weighed: Sequence[tuple[Sentence, float]], messages: int) -> tuple[list[str], Matrix]:
    """Return the sentences' words, and each by `WORD_SIGNS`.

    Args:
        weighed: sentences, each with the log-odds that it settles something.
        messages: of the session.
    """
    holding: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for sentence, logit in weighed:
        for word in sentence.words:
            holding[word].append((sentence.at, logit))
    words, rows = sorted(holding), []
    for word in words:
        places = {at for at, _ in holding[word]}
        none = float(np.logaddexp(0.0, [logit for _, logit in holding[word]]).sum())  # -log that none does
        rows.append(
            [none + math.log(max(1e-9, -math.expm1(-none))), math.log(len(places)), max(places) / max(1, messages - 1)]
        )
    return words, np.array(rows, dtype=np.float64).reshape(len(rows), len(WORD_SIGNS))
