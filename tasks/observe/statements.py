"""Decide what of a person's words to an agent is kept, by what they mean: the kind, the duration, and the reason.

A statement is kept if the likeliest of its kinds says what is so, what is meant to be or what was done, or if it likely
holds beyond its session. A question, an order of the moment, a courtesy, a joke, something imagined, refused or quoted
is kept only for what holds in it. An answer is kept with the proposal that it accepts or refuses.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, prod

from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.observe.layers import BEFORE, read_sentences
from slowwave.tasks.observe.reader import KINDS, SETTLING, Reading
from slowwave.tasks.observe.units import (
    LONGEST_ASKED,
    AnsweredTurn,
    SpokenRow,
    SpokenSentence,
    Unit,
    as_reply_to,
    as_said,
    is_adjacent,
    is_short_reply,
    list_offers,
    list_sentences,
    strip_emphasis,
)
from slowwave.tasks.observe.worth import (
    FIGURE,
    count_feature_words,
    extract_feature_words,
)
from slowwave.text.foreign import find_foreign_parts
from slowwave.text.sentences import Sentence
from slowwave.text.words import CLAUSE

LINE = re.compile(r"[^\n]+")
"""A line of a sentence."""
LIKELY = 0.5
"""Probability from which a statement holds beyond its session."""
NAMED = 0.25
"""Probability from which a statement has the category of its kind."""
PLANNED = 0.06
"""Probability from which a statement is a plan, if no other kind is likelier. A wrong plan waits for something, so that
it is seldom shown. It is that of two readings (`reader.join_readings`) of .2 each."""
LEAST_TOLD = 0.25
"""Least probability that a statement holds beyond its session for it to be kept whatever its kinds are."""
LEAST_KEPT = 0.25
"""Least share of the kinds that are kept in a statement's kinds."""
FEW = 2
"""Most content words of an answer that is not understood without its proposal."""
RETRACTION = "retraction"
REFUSED = "refused"
KEPT = (*SETTLING, "plan", "report", RETRACTION)
"""Kinds that are kept."""
STATED = tuple(kind for kind in KEPT if kind != "plan")
"""Kinds that are kept of a sentence if another kind is likelier than a plan."""
DROPPED = tuple(kind for kind in KINDS if kind not in (*KEPT, "quoted"))
"""Kinds that are not kept. A sentence that looks quoted may be a rule in a person's list: it is kept, and not shown."""
UNSAID = tuple(kind for kind in KINDS if kind not in (*SETTLING, "plan", "report"))
"""Kinds that state nothing that holds: such a sentence is less likely to be shown."""
SETTLED = ("rule", "decision", "correction", "refused")
"""Kinds that settle something, for which there may be a reason."""
REASONS = ("fact", "report", "preference")
"""Kinds of a sentence that gives the reason for the one beside it."""
CATEGORIES = {
    "coding": {
        "rule": "convention",
        "decision": "decision",
        "preference": "preference",
        "plan": "plan",
        "fact": "context",
        "correction": "context",
        "refused": "decision",
    },
    "personal": {
        "rule": "preference",
        "decision": "decision",
        "preference": "preference",
        "plan": "plan",
        "fact": "fact",
        "correction": "fact",
        "refused": "decision",
        "report": "event",
    },
}
"""Category of a kind, by pack. A correction says what is so."""
UNSURE = {"coding": "", "personal": "fact"}
"""Category of a statement whose kind is not sure, by pack."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A person's sentence that is kept, with its reading."""

    unit: Unit
    reading: Reading
    reason: Sentence | None
    """The sentence beside it that gives the reason."""
    proposed: float = 1.0
    """Probability that the accepted proposal would hold beyond the session if the person had said it."""
    alone: float = 1.0
    """Probability that a short reply would hold if nothing had been said before. From LIKELY on it says something by
    itself."""
    offered: AnsweredTurn | None = None
    """What a reply accepts that says nothing by itself, and answers no question or one that only points back to it."""

    @property
    def told(self) -> float:
        """Probability that it may be shown unasked.

        A reply of one content word without its proposal or its reason ("Yes, do that") says nothing by itself, and one
        that accepts a proposal holds no longer than that: "Shall I render it again?" is of the moment. Another reply
        that says nothing by itself ("Sounds good, go ahead") and accepts nothing that is known isn't shown either.
        """
        is_reply = self.unit.spoken.last is not None
        is_alone = self.proposal is None and self.reason is None
        if is_reply and is_alone and self._count_own_words() < FEW:
            return 0.0
        least = self.alone if is_alone and self.says_nothing else 1.0
        return min(compute_told(self.reading), self.proposed, least)

    @property
    def stated(self) -> float:
        """Share of the kinds that are kept in the sentence's kinds, what another one wrote among the rest."""
        kept = fsum(self.reading.by_head[kind] for kind in KEPT)
        return kept / fsum(self.reading.by_head[kind] for kind in KINDS)

    @property
    def says_nothing(self) -> bool:
        """Return True if it is a short reply whose own words would not hold if nothing had been said before."""
        return self.alone < LIKELY

    def _count_own_words(self) -> int:
        return len(extract_feature_words(self.unit.summary))

    @property
    def accepted(self) -> AnsweredTurn | None:
        """The proposal that it accepts without more than a word of its own, and without a figure."""
        has_figure = FIGURE.search(self.unit.summary) is not None
        is_bare = self._count_own_words() < FEW and not has_figure
        return self.proposal if is_bare and not self.is_refusal else None

    @property
    def is_refusal(self) -> bool:
        """Return True if it likelier refuses than it settles anything else."""
        return self.reading.find_likeliest(SETTLING) == REFUSED

    @property
    def proposal(self) -> AnsweredTurn | None:
        """The proposal that it decides on, if it says nothing by itself, has few words, or mostly the proposal's."""
        answered = self.offered or self.unit.answered
        if answered is not None and self.says_nothing:
            return answered
        if answered is None or self.reading.find_likeliest(KEPT) not in SETTLED:
            return None
        words = extract_feature_words(self.unit.text)
        added = words - extract_feature_words(answered.text)
        is_alone = len(words) > FEW and 2 * len(added) > len(words)
        return None if is_alone else answered

    def word_with_proposal(self, reply: str) -> str:
        """Return the words of a claim that a reply makes, with the proposal that it decides on, if there is one.

        What is accepted without more stands in the proposal's words. Any other answer stands before what it answers,
        since it may choose of two, or say no.
        """
        proposal = self.proposal
        if proposal is None:
            return reply
        answer = strip_emphasis(reply)
        is_told_as_proposed = self._accepts_without_more(answer)
        return proposal.text if is_told_as_proposed else f"{answer} ({proposal.text})"

    def _accepts_without_more(self, answer: str) -> bool:
        """Return True if an answer carries nothing, or is one word to a question that points back to what it accepts.

        Behind anything else one word may choose: "first".
        """
        if self.offered is None or self.is_refusal or FIGURE.search(answer):
            return False
        is_asked = self.unit.answered is not None
        is_yes = is_asked and count_feature_words(answer) <= 1
        return is_yes or not extract_feature_words(answer)

    def find_category(self, pack: str) -> str:
        """Return the category that the sentence names itself ("Convention: …"), or that of the likeliest kind.

        A plan is likelier one than anything else: an order of the moment or a courtesy may sound like one.
        """
        label, colon, _ = self.unit.spoken.whole.partition(":")
        label = strip_emphasis(label).strip().casefold()
        if colon and label in CATEGORIES[pack].values():
            return label
        is_plan = self.reading.find_likeliest() == "plan"
        if is_plan and self.reading.by_head["plan"] >= PLANNED:
            return CATEGORIES[pack]["plan"]
        kind = self.reading.find_likeliest(
            SETTLING if self.reading.told >= LIKELY else STATED
        )
        is_sure = self.reading.by_head[kind] >= NAMED
        return CATEGORIES[pack].get(kind, UNSURE[pack]) if is_sure else UNSURE[pack]


def compute_told(reading: Reading) -> float:
    """Return the probability that a sentence holds, and is neither asked, imagined nor quoted.

    If it likelier settles something than it is of any one kind that states nothing, these kinds count for nothing.
    """
    unsaid = max(reading.by_head[kind] for kind in UNSAID)
    settles = 1 - prod(1 - reading.by_head[kind] for kind in SETTLING)
    return reading.told if settles > unsaid else reading.told * (1 - unsaid)


def read_statements(
    units: Sequence[Unit], *, in_layers: bool
) -> dict[tuple[str, int], Statement]:
    """Return the sentences of persons to an agent that are kept, as statements by `Unit.key`.

    Args:
        units: the sentences of a session.
        in_layers: whether `layers.LayeredReader` reads them.
    """
    said = [unit for unit in units if unit.is_said]
    read = read_sentences([unit.spoken for unit in said], in_layers=in_layers)
    readings = {unit.key: reading for unit, reading in zip(said, read, strict=True)}
    statements = {
        unit.key: Statement(unit, readings[unit.key], _find_reason(unit, readings))
        for unit in said
        if is_kept(readings[unit.key])
    }
    statements |= _weigh_replies(statements, in_layers=in_layers)
    statements |= _weigh_accepted(statements, in_layers=in_layers)
    for unit in said:
        told = statements[unit.key].told if unit.key in statements else 0.0
        clause = _find_clause(unit, in_layers) if told < LIKELY else None
        if clause:
            statements[unit.key] = clause
    return statements


def _weigh_replies(
    statements: Mapping[tuple[str, int], Statement], *, in_layers: bool
) -> dict[tuple[str, int], Statement]:
    """Return the short replies that would be shown, each with its reading by itself, or else with what it accepts."""
    replies = [
        (key, one)
        for key, one in statements.items()
        if compute_told(one.reading) >= LIKELY and is_short_reply(one.unit.spoken)
    ]
    alone = [as_said(one.unit.spoken, one.unit.spoken.whole) for _, one in replies]
    read = read_sentences(alone, in_layers=in_layers)
    weighed = {
        key: replace(one, alone=compute_told(reading))
        for (key, one), reading in zip(replies, read, strict=True)
    }
    return {
        key: _find_offer(one, in_layers) if one.says_nothing else one
        for key, one in weighed.items()
    }


def _find_offer(reply: Statement, in_layers: bool) -> Statement:
    """Return a reply that says nothing by itself with what it accepts: the question that it answers, if that holds,
    else what was proposed before it. A question that does not hold points back: "Shall I set it up like that?"

    A turn ends with its proposal: the last sentence counts that holds if it is accepted, with those directly before it
    that hold too.
    """
    asked = reply.unit.answered
    is_proposal = asked is not None and not asked.is_question
    if is_proposal or reply.reason is not None or reply.is_refusal:
        return reply
    if asked is not None and _holds(reply, asked, in_layers):
        return reply
    offers = list_offers(reply.unit.spoken, BEFORE)
    if asked is not None:
        offers = [one for one in offers if not one.is_question]
    spoken = [as_reply_to(reply.unit.spoken, offer.text) for offer in offers]
    read = read_sentences(spoken, in_layers=in_layers)
    likely = [compute_told(reading) for reading in read]
    while likely and likely[-1] < LIKELY:
        likely.pop()
    if not likely:
        return reply
    accepted = offers[len(likely) - 1]
    for before in reversed(range(len(likely) - 1)):
        joined = f"{offers[before].text}. {accepted.text}"
        if likely[before] < LIKELY or count_feature_words(joined) > LONGEST_ASKED:
            break
        accepted = replace(accepted, text=joined)
    return replace(reply, offered=accepted, proposed=likely[-1])


def _holds(reply: Statement, asked: AnsweredTurn, in_layers: bool) -> bool:
    """Return True if a question holds: as if the person had said it, or as if nothing else had been said before the
    reply. A question's form may hide what it settles from one of the two.
    """
    spoken = reply.unit.spoken
    as_if = [as_said(spoken, asked.text), as_reply_to(spoken, asked.text)]
    read = read_sentences(as_if, in_layers=in_layers)
    return any(compute_told(reading) >= LIKELY for reading in read)


def _weigh_accepted(
    statements: Mapping[tuple[str, int], Statement], *, in_layers: bool
) -> dict[tuple[str, int], Statement]:
    """Return the statements that accept a proposal, each with the probability that the proposal holds.

    What is offered was weighed where it was found.
    """
    accepting = [
        (key, as_said(one.unit.spoken, accepted.text))
        for key, one in statements.items()
        if one.offered is None and (accepted := one.accepted)
    ]
    read = read_sentences([said for _, said in accepting], in_layers=in_layers)
    return {
        key: replace(statements[key], proposed=reading.told)
        for (key, _), reading in zip(accepting, read, strict=True)
    }


def _find_clause(unit: Unit, in_layers: bool) -> Statement | None:
    """Return the part of a question that says what holds, or None: "The limit is 2 GB, why does it not apply?".

    A line that holds counts before any clause: a question without marks may follow on the next line.
    """
    if not unit.spoken.turn.is_question(unit.spoken.at):
        return None
    for form in (LINE, CLAUSE):
        part = _find_part(unit, form, in_layers)
        if part is not None:
            return part
    return None


def _find_part(unit: Unit, form: re.Pattern[str], in_layers: bool) -> Statement | None:
    """Return the part of a sentence that likeliest holds, of two or more of a form, if it is LIKELY."""
    spans = [match.span() for match in form.finditer(unit.sentence.text)]
    if len(spans) == 1:
        return None
    parts = [unit.spoken.cut(*span) for span in spans]
    readings = read_sentences(parts, in_layers=in_layers)
    found = [
        Statement(replace(unit, spoken=part), reading, None)
        for part, reading in zip(parts, readings, strict=True)
    ]
    best = max(found, key=lambda one: one.told, default=None)
    return best if best and best.told >= LIKELY else None


def _find_reason(
    unit: Unit, readings: Mapping[tuple[str, int], Reading]
) -> Sentence | None:
    """Return the sentence directly before or after one that settles something, if that gives a reason.

    The items of a list give no reasons for each other, nor does what another one wrote: the claim would be quoted.
    """
    if readings[unit.key].find_likeliest() not in SETTLED:
        return None
    message, at = unit.key
    sentences = unit.spoken.turn.sentences
    for beside in (at - 1, at + 1):
        reading = readings.get((message, beside))
        if reading is None or reading.find_likeliest() not in REASONS:
            continue
        if sentences[at].item or sentences[beside].item:
            continue
        first, second = sorted((at, beside))
        text = unit.row["text"]
        is_next = is_adjacent(text, sentences[first], sentences[second])
        if is_next and not _is_foreign(text, sentences[beside]):
            return sentences[beside]
    return None


def _is_foreign(text: str, sentence: Sentence) -> bool:
    """Return True if the form of a message says that its writer did not type a sentence."""
    parts = find_foreign_parts(text)
    return any(start < sentence.end and sentence.start < end for start, end in parts)


def is_kept(reading: Reading) -> bool:
    """Return True if a sentence may hold beyond its session, or is not likely of a kind that is not kept."""
    kept = fsum(reading.by_head[kind] for kind in KEPT)
    dropped = fsum(reading.by_head[kind] for kind in DROPPED)
    is_other = dropped >= LIKELY and kept < LEAST_KEPT * (kept + dropped)
    return reading.told >= LEAST_TOLD or not is_other


def is_of_moment(text: str, *, in_layers: bool) -> bool:
    """Return True if each sentence of a text, read alone, is likely of a kind that is not kept, mostly an order.

    A text without a sentence is not.
    """
    readings = _read_alone(text, in_layers=in_layers)
    likeliest = [(reading.find_likeliest(), reading) for reading in readings]
    return bool(likeliest) and all(
        kind not in KEPT and reading.by_head[kind] >= LIKELY
        for kind, reading in likeliest
    )


def is_retraction(text: str, *, in_layers: bool) -> bool:
    """Return True if a sentence of a text, read alone, is likely a retraction."""
    readings = _read_alone(text, in_layers=in_layers)
    return any(reading.by_head[RETRACTION] >= LIKELY for reading in readings)


def list_reply(before: str, reply: str, most: int) -> list[SpokenSentence]:
    """Return the sentences that begin in the first `most` characters of a person's reply.

    Args:
        before: the model's message; empty for none.
        reply: the person's.
        most: characters of the reply.
    """
    said = [_as_message(Origin.MODEL, before)] if before else []
    said.append(_as_message(Origin.HUMAN, reply))
    return [
        one
        for one in list_sentences(said, least_said=1)
        if one.turn.row["origin"] == Origin.HUMAN
        and one.turn.sentences[one.at].start < most
    ]


def list_clauses(sentence: SpokenSentence) -> list[SpokenSentence]:
    """Return the clauses of a sentence, each to be read alone."""
    text = sentence.turn.sentences[sentence.at].text
    return [sentence.cut(*match.span()) for match in CLAUSE.finditer(text)]


def is_refusal(said: SpokenSentence, *, in_layers: bool) -> bool:
    """Return True if a person's sentence, or a clause of it, likely refuses something."""
    (reading,) = read_sentences([said], in_layers=in_layers)
    return reading.by_head[REFUSED] >= LIKELY


def _as_message(origin: Origin, text: str) -> SpokenRow:
    """Return a text as a message."""
    return {
        "message_id": "",
        "speaker": None,
        "blocks": [],
        "role": "user" if origin is Origin.HUMAN else "assistant",
        "origin": origin,
        "text": text,
    }


def _read_alone(text: str, *, in_layers: bool) -> Sequence[Reading]:
    """Return the readings of a text's sentences, as if a person had said nothing else."""
    message = _as_message(Origin.HUMAN, text)
    sentences = list(list_sentences([message], least_said=1))
    return read_sentences(sentences, in_layers=in_layers)
