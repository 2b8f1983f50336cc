"""What recall returns: hits, each with the native ids of the messages it stands on."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from slowwave.recall.release.said import find_words, put_notes
from slowwave.schemas.vocabulary import Role, Trust, is_own
from slowwave.text.cells import shorten_text
from slowwave.text.foreign import is_partly_typed
from slowwave.text.times.days import get_utc_offset
from slowwave.text.words import SENTENCE_ENDS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Kind = Literal["claim", "message", "summary", "topic"]
KINDS: tuple[Kind, ...] = ("claim", "message", "summary")
"""The kinds searched if none is named. A topic repeats what its claims say."""
ChangeStatus = Literal["superseded", "perhaps superseded", "said since"]
"""How a later claim stands to a sentence; "said since" if it less likely changed it."""
GROUPS = frozenset({"summary", "topic"})
"""Kinds that tell of many messages, by any speaker."""
QUOTE_CHARS = 200
"""Length of a quote if no passage or claim gives one."""
CONFIDENT = 0.7
"""Relevance from which an answer is taken to be about the query (`docs/decisions/002-ranking-and-silence.md`)."""
LEANING_WORDS = 3
"""Content words up to which a reply is understood only beside what it answers ("no, that's horrible. undo that"). The
first clause of a longer one that objects has as few."""
NOT_SURE = "nothing surely about this; nearest:"
"""Stands above an answer that is less relevant."""
STOPPED = "stopped: the next is of another matter"
"""Stands below an answer that leaves out hits of other matters."""


def spell_time(value: Any) -> Any:
    """Return a time as text, in UTC; any other value as it is."""
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


class Shown:
    """A dataclass that converts to plain values, with times as text."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON: times in UTC, and `utc_offset`, in minutes, if `observed_at` has one."""
        plain: dict[str, Any] = asdict(cast("DataclassInstance", self))
        offset = get_utc_offset(plain.get("observed_at"))
        spelt = {name: spell_time(value) for name, value in plain.items()}
        if offset:
            spelt["utc_offset"] = offset
        return spelt


@dataclass(frozen=True, slots=True)
class Source:
    """Where something was said: the transcript's own ids, and its words."""

    session: str
    message: str
    quote: str


@dataclass(frozen=True, slots=True)
class Successor(Shown):
    """The claim that holds in place of a hit, or perhaps does."""

    text: str
    observed_at: datetime | None
    takes_back: bool = False
    """Whether it takes the hit back without a new value."""
    corrects: bool = False
    """Whether it is a correction by the person that no night has read."""
    restores: bool = False
    """Whether an old value holds again with it, which the hit had replaced."""


@dataclass(frozen=True, slots=True)
class Change(Shown):
    """A sentence of a message that a later claim changed, or perhaps did."""

    text: str
    """The sentence, in the message's words."""
    status: ChangeStatus
    by: str
    """The later claim."""
    likely: float
    """How likely it changed the sentence, 0 to 1."""
    successor: Successor
    """What it says, and when it was said."""
    note: str
    """All this in brackets, as it stands behind the sentence where the message is shown."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return Shown.as_dict(self) | {"successor": self.successor.as_dict()}


@dataclass(frozen=True, slots=True)
class Fragment:
    """A message of the exchange that a hit stands in."""

    role: str
    message: str
    """The transcript's own id, in the session that the hit's source names."""
    text: str
    changes: tuple[Change, ...] = ()
    """The other message's sentences that a later claim changed, or perhaps did, if a turn was found."""


@dataclass(frozen=True, slots=True)
class CodeCheck(Shown):
    """Something that a claim names and that its checkout does not have any more, or has otherwise."""

    name: str
    value: str | None
    result: str
    """gone or differs."""
    since: str
    """The first characters of the commit since which it is so; of a branch of the last one that it was seen at."""
    at: datetime | None
    """That commit's time."""
    path: str | None
    line: int | None
    instead: str | None
    """What stands in its place."""
    commit: str
    """HEAD when it was looked up."""
    checked_at: datetime

    note: str
    """All this in a line, in brackets."""


@dataclass(frozen=True, slots=True)
class Hit(Shown):
    """One memory that answers the query."""

    kind: Kind
    id: str
    """claim_id, message_id, summary_id or topic_id; of what is not yet distilled its session and message."""
    text: str
    """The claim, the whole message, the summary, or the topic's text."""
    score: float
    """Higher is better; comparable within one answer alone."""
    observed_at: datetime | None
    status: str
    """active, superseded (a later claim has changed what it says), or not yet distilled (`recall/live.py`)."""
    sources: tuple[Source, ...]
    """The messages that it stands on: of a message itself, and the other one of its turn unless only the person's words
    are asked for."""
    pair: tuple[Fragment, ...] = ()
    """A message's exchange in the order it was said: a question with its answer, and after an assistant's message that
    was found what the user said next, if that leans on it. Other kinds come alone."""
    relevance: float | None = None
    """0 to 1 on the release's own scale, which the floors are on; None if it can't be computed."""
    superseded_by: str | None = None
    """The claim that holds in its place, if the status is superseded."""
    perhaps_superseded_by: str | None = None
    """A later claim that may change what this one says; the night could not tell, and both stand."""
    successor: Successor | None = None
    """What the one of these two that is set says, and when it was said."""
    changes: tuple[Change, ...] = ()
    """A message's sentences that a later claim changed, or perhaps did, whatever the query asks for."""
    not_in_code: tuple[CodeCheck, ...] = ()
    """What it names and the checkout it is about had, and does not have any more."""
    claim: str | None = None
    """The claim that was made of a message, if one was found; the fields that follow are that claim's."""
    category: str | None = None
    """A claim's category; the fields below are a claim's too."""
    confidence: float | None = None
    """0 to 1: grows with the sessions that say it, falls where a later claim may have changed it."""
    detail: str | None = None
    files: tuple[str, ...] = ()
    """Those that it is about."""
    topic: str | None = None
    """Its topic's name; of a topic its own."""
    workspace: str | None = None
    """Of any kind, as below: where it was said."""
    speaker: str | None = None
    """Who said it: by name, else the role of the message; None of a summary."""
    trust: str | None = None
    """A Trust: where its words come from, the least trusted of them; None of a topic."""
    space: str | None = None
    """The space that it is from, if several spaces were searched."""

    @property
    def said_at(self) -> datetime | None:
        """The time that "yesterday" in it counts from; None for what tells of many messages."""
        return None if self.kind in GROUPS else self.observed_at

    @property
    def trust_note(self) -> str | None:
        """Whose words it has, if they are not all the person's or the own agent's: "in part" of a person's message with
        words around what is quoted or pasted.
        """
        if is_own(self.trust):
            return None
        is_by_person = any(
            fragment.role == Role.USER and fragment.text == self.text
            for fragment in self.pair
        )
        is_part = (
            self.kind == "message"
            and self.trust == Trust.OUTSIDE
            and is_by_person
            and is_partly_typed(self.text)
        )
        return f"in part {self.trust}" if is_part else self.trust

    def get_claim_in_other_words(self) -> str | None:
        """Return the claim of a message that does not have it word for word.

        If it is the message with something added in brackets, as what a correction corrects, return that alone.
        """
        if not self.claim or has_words(self.text, self.claim):
            return None
        said = self.text.strip().rstrip(".")
        added = self.claim.removeprefix(said).strip()
        return added if added.startswith("(") else self.claim

    def get_reply(self) -> str | None:
        """Return the user's words next to an assistant's message of the exchange, if they lean on it: they may take
        it back.
        """
        for fragment, next_one in pairwise(self.pair):
            if fragment.role == Role.ASSISTANT and next_one.role == Role.USER:
                return next_one.text
        return None

    def mark_changes(self, text: str) -> str:
        """Return some of a message's text with a note behind each changed sentence, if it says more than that."""
        partly = [one for one in self.changes if self.is_partly_changed_by(one.by)]
        return mark_sentences(text, partly)

    def is_partly_changed_by(self, claim: str | None) -> bool:
        """Return True if a later claim changed, or perhaps changed, a sentence of a message that says more."""
        whole = self.text.strip().rstrip(SENTENCE_ENDS)
        return any(
            change.by == claim and change.text.strip().rstrip(SENTENCE_ENDS) != whole
            for change in self.changes
        )

    def get_beside(self) -> Fragment | None:
        """Return the other message of a message's turn, if it is cited too."""
        if self.kind != "message" or len(self.sources) < 2:
            return None
        ids = {source.message for source in self.sources[1:]}
        return next((one for one in self.pair if one.message in ids), None)

    def shorten(self, chars: int) -> "Hit":
        """Return the hit without what is over so many characters of a message's text and exchange: of a long message
        the passage that was found is left, with an ellipsis where something is left out.
        """
        if self.kind != "message" or not self.sources:
            return self
        passage = self.sources[0].quote.strip()
        at = max(0, self.text.find(passage)) if len(self.text) > chars else 0
        text = ("… " if at else "") + shorten_text(
            self.text[at:], max(chars, len(passage))
        )
        texts = (
            text if fragment.text == self.text else shorten_text(fragment.text, chars)
            for fragment in self.pair
        )
        pair = tuple(
            replace(fragment, text=cut)
            for fragment, cut in zip(self.pair, texts, strict=True)
        )
        return replace(self, text=text, pair=pair)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; a text stands in it once, also where the exchange has it again."""
        plain = Shown.as_dict(self)
        for fragment, shown in zip(self.pair, plain["pair"], strict=True):
            del shown["changes"]
            if fragment.changes:
                shown["changes"] = [change.as_dict() for change in fragment.changes]
            if fragment.text == self.text:
                del shown["text"]
        successor = self.successor and self.successor.as_dict()
        return plain | {
            "successor": successor,
            "changes": [change.as_dict() for change in self.changes],
            "not_in_code": [check.as_dict() for check in self.not_in_code],
        }


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an answer."""

    kind: str
    """recall, sessions, context, automatic (a context that nobody asked for) or briefing."""
    seconds: float
    encoding: float
    """The seconds in which the encoder was loaded or run."""
    budget: int = 0
    """Tokens that a block might have; 0 of hits."""


T = TypeVar("T", bound=Shown)


class Answer(list[T]):
    """The results of one query, best first: a list that also says how sure it is, or why it is empty."""

    def __init__(
        self,
        hits: Iterable[T] = (),
        reason: str | None = None,
        relevance: float = 0.0,
        warnings: tuple[str, ...] = (),
    ) -> None:
        super().__init__(hits)
        self.reason = reason
        """Why nothing is returned; None with hits."""
        self.relevance = relevance
        """That of the most relevant hit, or of the claim found with it, on the release's scale. Without hits it is the
        nearest memory's."""
        self.warnings = warnings
        """What this answer could not use, and what was done instead; `recall_many` gives each answer those of all."""
        self.stopped: str | None = None
        """STOPPED if hits of other matters were left out; None if there are no others, or all were asked for."""
        self.cost: Cost | None = None
        """What it took; of `recall_many` all that it was asked."""
        self.trace: Mapping[str, Mapping[str, Mapping[str, float]]] = {}
        """For each hit, by id, the addition of each of the `signals` to its score, and its `places` after each stage,
        from 1. Only `recall` fills it, for rows of the release."""

    @property
    def confident(self) -> bool:
        """Whether a hit is relevant enough to be about the query. Hits are returned either way."""
        return bool(self) and self.relevance >= CONFIDENT

    @property
    def caveat(self) -> str | None:
        """The line above hits that may all be about something else; None without hits, or if it is confident."""
        return NOT_SURE if self and not self.confident else None

    def as_dict(self) -> dict[str, object]:
        """Return plain values, ready for JSON."""
        sure = {"relevance": self.relevance, "confident": self.confident}
        return {
            "hits": [hit.as_dict() for hit in self],
            "reason": self.reason,
            "stopped": self.stopped,
            **sure,
            "warnings": list(self.warnings),
        }


class Hits(Answer[Hit]):
    """The hits of one query, best first."""

    overview = False
    """Whether the query asks for many messages at once, in order or summed up. Nothing is left out then."""

    def keep(
        self,
        hits: Iterable[Hit],
        reason: str | None,
        relevance: float,
    ) -> "Hits":
        """Return other hits in place of these, with all that is known of the query and its answer."""
        kept = Hits(
            hits=hits, reason=reason, relevance=relevance, warnings=self.warnings
        )
        kept.overview = self.overview
        kept.stopped = self.stopped
        kept.trace = self.trace
        return kept

    def note_stop(self, found: int) -> None:
        """Note that hits of other matters were left out, if fewer than were found are here."""
        self.stopped = STOPPED if len(self) < found else None


def mark_sentences(text: str, changes: Iterable[Change]) -> str:
    """Return a text with the notes of some changes, each behind its sentence wherever that stands."""
    places = list[tuple[int, str]]()
    for change in changes:
        for _, at in find_words(text, change.text):
            end = at
            while text[end : end + 1] and text[end] in SENTENCE_ENDS:
                end += 1
            places.append((end, change.note))
    return put_notes(text, places)


def has_words(text: str, claim: str) -> bool:
    """Return True if a text contains a claim word for word, ignoring case and the claim's closing marks."""
    return fold_text(claim).rstrip(SENTENCE_ENDS) in fold_text(text)


def fold_text(text: str) -> str:
    """Return a text as it is compared: whatever its case and spaces."""
    return " ".join(text.split()).casefold()
