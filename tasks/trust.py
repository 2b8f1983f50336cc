"""Say of each message where its words come from: the class of the message, and the parts of it that are others' words.

The class is by structure: the origin and role of the message, the kind and format of its session. Parts of a person's
message are others' words by their form (`slowwave/text/foreign.py`), or if they stand word for word in a tool's output
that came before. A sentence of an agent rests on a tool's output, a web page or a pasted text if most of its content
words stand close together in one that came before. Numbers of words are counted in blocks of a text: the speed is some
MB a second.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from slowwave.schemas.vocabulary import (
    SAID,
    SHARED,
    Origin,
    Role,
    Trust,
    find_least_trust,
    rank_trust,
)
from slowwave.text.foreign import LEAST_QUOTED, cut_out, find_foreign_parts
from slowwave.text.sentences import split_sentences
from slowwave.text.words import WORD, extract_content_words, split_words

VERSION = "trust 4"
"""Raised when the classes change: the steps that write them have it in their keys."""
STRIDE = 24
"""Words of half a block. Blocks overlap by half, so that a sentence of that many words stands in one as a whole."""
LEAST_WORDS = 4
SHARE = 0.75
"""Content words of a sentence, and their share that one block must have, for the sentence to rest on it."""
LONGEST_OUTPUT = 1_000_000
"""Characters of one output that are looked at."""
URL = "://"
KINDS = ("subagent", "scheduled")
"""Kinds of sessions that no person leads."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MessageTrust:
    """Where a message's words come from."""

    own: Trust = Trust.AGENT
    """The class of the message."""
    parts: tuple[tuple[int, int, Trust], ...] = ()
    """Start, end and class of the parts that are less trusted, in order."""

    def find_least(
        self,
        start: int,
        end: int,
    ) -> Trust:
        """Return the least trust of the words between two places."""
        return next(self.find_least_each([(start, end)]))

    def find_least_each(self, spans: Iterable[tuple[int, int]]) -> Iterator[Trust]:
        """Yield the least trust of the words of each span; no span may start before an earlier one.

        Each part is looked at only while spans can reach it: a message of megabytes has as many parts as passages.
        """
        parts = iter(self.parts)
        reached: list[tuple[int, int, Trust]] = []
        following = next(parts, None)
        for start, end in spans:
            while following and following[0] < end:
                reached.append(following)
                following = next(parts, None)
            reached = [part for part in reached if part[1] > start]
            found = [trust for at, _, trust in reached if at < end]
            yield find_least_trust([self.own, *found])

    def find_least_of(
        self,
        quote: str,
        text: str,
    ) -> Trust:
        """Return the least trust of a quote of the message; of all of it if the quote is not there."""
        at = text.find(quote)
        if at < 0:
            return self.find_least(0, len(text))
        return self.find_least(at, at + len(quote))

    def keep_own_words(
        self,
        text: str,
    ) -> str:
        """Return the message's text with the less trusted parts blank."""
        return cut_out(text, [(start, end) for start, end, _ in self.parts])


UNKNOWN = MessageTrust()


def find_class(
    row: Row,
    kind: str | None,
) -> Trust:
    """Return the class of a message (a row of MESSAGES) of a session of a kind."""
    if row["source"] == SHARED:
        return Trust.IMPORTED
    if row["origin"] == Origin.TOOL:
        return Trust.TOOL
    by_other = row["role"] == Role.AGENT or row["origin"] == Origin.SYNTHETIC
    if row["origin"] == Origin.HUMAN:
        return Trust.OTHER if by_other or kind in KINDS else Trust.TYPED
    return Trust.OTHER if by_other or kind == KINDS[0] else Trust.AGENT


def find_session_trust(
    messages: Sequence[Row],
    kind: str | None = None,
) -> dict[str, MessageTrust]:
    """Return by id where the words of each message of a session (rows of MESSAGES in order) come from."""
    sentences = {row["message_id"]: list(_list_sentences(row)) for row in messages}
    found_words = (words for own in sentences.values() for _, _, words in own)
    given = GivenTexts(set(chain.from_iterable(found_words)))
    links = set(_list_web_calls(messages))
    refusals = dict(_list_refusals(messages))
    last = dict[str | None, datetime]()
    found = dict[str, MessageTrust]()
    for row in messages:
        _add_results(
            row=row,
            links=links,
            refusal=refusals.get(row["native_id"], ""),
            given=given,
        )
        own = find_class(row, kind)
        parts = list(_find_given_parts(row, sentences[row["message_id"]], given))
        if row["origin"] == Origin.HUMAN:
            parts += _add_pasted(row, _count_seconds(row, last), given)
        less = [part for part in parts if rank_trust(part[2]) > rank_trust(own)]
        found[row["message_id"]] = MessageTrust(own, tuple(sorted(less)))
    return found


def _add_pasted(
    row: Row,
    seconds: float | None,
    given: "GivenTexts",
) -> list[tuple[int, int, Trust]]:
    """Return the parts of a person's message that the person pasted, and add them and what a tool put beside them to
    the given texts.

    seconds: the time that the person had to write it, if known.
    """
    given.add(_find_unsaid(row), Trust.OUTSIDE)
    text = row["text"]
    spans = find_foreign_parts(text, seconds)
    for start, end in spans:
        given.add(text[start:end], Trust.OUTSIDE)
    return [(start, end, Trust.OUTSIDE) for start, end in spans]


def _list_web_calls(messages: Sequence[Row]) -> Iterator[str]:
    """Yield the ids of the calls of tools that name an address of the web."""
    for row in messages:
        for block in row["blocks"]:
            if block["type"] == "tool_call" and URL in (block["text"] or ""):
                yield block["call_id"]


def _list_refusals(messages: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield the native id of each message whose result has a person's words, with these words."""
    for row in messages:
        native = row["native_id"] or ""
        if row["origin"] == Origin.HUMAN and native.endswith(SAID):
            yield native.removesuffix(SAID), row["text"]


def _find_unsaid(row: Row) -> str:
    """Return the lines of a person's message that its reader does not count as said: what a tool put beside them."""
    said = row["text"]
    lines = [
        line
        for block in row["blocks"]
        if block["type"] == "text" and (text := block["text"] or "") != said
        for line in text[:LONGEST_OUTPUT].splitlines()
    ]
    if not lines:
        return ""
    # Most are whole lines of what was said: to search each in a text of megabytes would take minutes.
    bare_lines = {line.strip() for line in lines} - {""}
    bare_lines -= {line.strip() for line in said.splitlines()}
    head = said[:LONGEST_OUTPUT]
    unsaid = {bare for bare in bare_lines if bare not in head}
    return "\n".join(line for line in lines if line.strip() in unsaid)


def _add_results(
    row: Row,
    links: Collection[str],
    refusal: str,
    given: "GivenTexts",
) -> None:
    """Add the outputs of tools in a message to the given texts, without the words with which a person refused.

    What the web gave may have the form of a refusal: all of it is added.
    """
    for block in row["blocks"]:
        if block["type"] == "tool_result" and block["text"]:
            is_web = block["call_id"] is not None and block["call_id"] in links
            trust = Trust.OUTSIDE if is_web else Trust.TOOL
            said = "" if is_web else refusal
            output = block["text"].rstrip().removesuffix(said)
            given.add(output[:LONGEST_OUTPUT], trust)


def _count_seconds(
    row: Row,
    last: dict[str | None, datetime],
) -> float | None:
    """Return the seconds since a person's last message, and note this one's time."""
    at = row["ts"]
    before = last.get(row["speaker"])
    if at is not None:
        last[row["speaker"]] = at
    return (at - before).total_seconds() if at and before else None


Words = tuple[str, ...]


def split_plain_words(text: str) -> list[str]:
    """Return the words of a text in lower case, with plain apostrophes."""
    return split_words(text.replace("’", "'"), WORD)


def _list_sentences(row: Row) -> Iterator[tuple[int, int, Words]]:
    """Yield the bounds of each sentence of a spoken message, with its content words."""
    if row["origin"] in (Origin.TOOL, Origin.SYNTHETIC):
        return
    for sentence in split_sentences(row["text"]):
        words = extract_content_words(sentence.text)
        if len(words) >= LEAST_WORDS:
            yield sentence.start, sentence.end, tuple(words)


def _find_given_parts(
    row: Row,
    sentences: Sequence[tuple[int, int, Words]],
    given: "GivenTexts",
) -> Iterator[tuple[int, int, Trust]]:
    """Yield the sentences of a message that rest on a given text, with its class; a person's only word for word."""
    for start, end, words in sentences:
        if row["origin"] == Origin.HUMAN:
            trust = given.find_holder(row["text"][start:end], words)
        else:
            trust = given.find_support(words)
        if trust is not None:
            yield start, end, trust


@dataclass
class GivenTexts:
    """Texts that tools and other people gave in a session, indexed by the words of a vocabulary."""

    vocabulary: set[str]
    blocks: dict[str, list[npt.NDArray[np.int64]]] = field(default_factory=dict)
    """Numbers of the blocks that have a word."""
    classes: list[Trust] = field(default_factory=list)
    """By number of the text."""
    words: list[list[str]] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    """By number of the text, its first block."""
    count: int = 0
    """Number of blocks."""

    def add(
        self,
        text: str,
        trust: Trust,
    ) -> None:
        """Add a text."""
        if not (self.vocabulary and text):
            return
        words = split_plain_words(text)
        places = dict[str, list[int]]()
        for at, word in enumerate(words):
            if word in self.vocabulary:
                places.setdefault(word, []).append(at)
        for word, numbers in places.items():
            half = self.count + np.unique(np.array(numbers, dtype=np.int64) // STRIDE)
            self.blocks.setdefault(word, []).append(np.union1d(half, half + 1))
        self.classes.append(trust)
        self.words.append(words)
        self.first.append(self.count)
        self.count += len(words) // STRIDE + 2

    def find_support(
        self,
        words: Words,
    ) -> Trust | None:
        """Return the least trust of the texts that have most of these words in one block; None if none has."""
        found = list[Trust]()
        for text in self._find_texts(words, SHARE * len(words)):
            found.append(self.classes[text])
        return find_least_trust(found) if found else None

    def find_holder(
        self,
        sentence: str,
        words: Words,
    ) -> Trust | None:
        """Return the least trust of the texts that have a sentence word for word; None if none has."""
        run = split_plain_words(sentence)
        if len(run) < LEAST_QUOTED:
            return None
        joined = f" {' '.join(run)} "
        found = list[Trust]()
        for text in self._find_texts(words, min(len(words), STRIDE // 2)):
            if joined in f" {' '.join(self.words[text])} ":
                found.append(self.classes[text])
        return find_least_trust(found) if found else None

    def _find_texts(
        self,
        words: Words,
        least: float,
    ) -> list[int]:
        """Return the numbers of the texts with a block that has at least so many of these words."""
        blocks = np.flatnonzero(self._count_known_words(words) >= least)
        texts = np.searchsorted(self.first, blocks, "right") - 1
        numbers: list[int] = np.unique(texts).tolist()
        return numbers

    def _count_known_words(
        self,
        words: Words,
    ) -> npt.NDArray[np.int64]:
        """Return for each block how many of these words it has."""
        counts = np.zeros(self.count + 1, dtype=np.int64)
        for word in words:
            if len(found := self.blocks.get(word, [])) > 1:
                self.blocks[word] = found = [np.concatenate(found)]
            for blocks in found:
                counts[blocks] += 1
        return counts
