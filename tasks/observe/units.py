"""List the sentences of a session that may become claims, each with the neighbours that are needed to understand it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from slowwave.schemas.rows import MessageRow
from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.observe.worth import (
    count_feature_words,
    describe_sentence,
    extract_feature_words,
    place_turns,
)
from slowwave.text.sentences import Sentence, list_short_forms, split_sentences

MIN_WORDS = 3
TERSE = 8
"""Most words of an answer that needs its question, and of a heading."""
LONGEST_ASKED = 40
"""Most words of a question or proposal that becomes a claim's detail."""
NO_WORD = re.compile(r"^\W+")
BARE = 1
"""Most content words of an answer that names nothing: "yes", "do that"."""
MOST_TRIMMED = 40
"""Most characters that were cut off a sentence at its start or end."""
PRONOUN = re.compile(r"(?:it|they|he|she|that|this|these|those)\b", re.I)
QUESTION = re.compile(r"\?[\"'”’)*_!?]*(?:\s|$)")
ASKING = " ?？"
"""Letters that end a question."""
EMPHASIS = re.compile(
    r"(?<![\w`/*])(\*{1,3}|__)(?=\S)([^*`\n]*(?:`[^`\n]*`[^*`\n]*)*)(?<=\S)\1(?![\w`/*])"
)


class SpokenRow(MessageRow, total=False):
    """A spoken message, a person's with the text that was typed."""

    full_text: str
    """The text with what was quoted or pasted."""


@dataclass(frozen=True, slots=True)
class TurnSentences:
    """A message and its sentences."""

    row: SpokenRow
    sentences: list[Sentence]

    @property
    def text(self) -> str:
        """What was said."""
        return str(self.row["text"])

    def is_question(self, at: int) -> bool:
        """Return True if a sentence is a question. The question mark may follow the sentence's end."""
        sentence = self.sentences[at]
        return QUESTION.search(self.text[sentence.start : sentence.end + 2]) is not None

    def find_previous_sentence(self, at: int) -> Sentence | None:
        """Return the sentence directly before another one, or None."""
        before = self.sentences[at - 1] if 0 < at < len(self.sentences) else None
        return (
            before
            if before and is_adjacent(self.text, before, self.sentences[at])
            else None
        )


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """The text that a claim answers, and the id of its message."""

    message_id: str
    text: str

    @property
    def is_question(self) -> bool:
        """Return True if it ends as a question does."""
        return self.text != self.text.rstrip(ASKING)


@dataclass(frozen=True, slots=True)
class SpokenSentence:
    """A sentence of a session, with its features."""

    turn: TurnSentences
    last: TurnSentences | None
    """The turn before."""
    at: int
    text: str
    """Without emphasis."""
    news: int
    """Content words that are new to the session. The words of a question stay new for the answer."""
    numbers: tuple[float, ...]
    """`worth.NUMBERS`."""
    part_of: Sentence | None = None
    """The sentence of which it is a clause; None for a whole one."""

    @property
    def whole(self) -> str:
        """The sentence with the opening and closing words of its line that were cut off: "No, thanks. …", "… ;-)"."""
        if self.part_of is not None:
            return self.text
        message = self.turn.text
        sentences = self.turn.sentences
        here = sentences[self.at]
        first = sentences[self.at - 1].end if self.at else 0
        last = (
            sentences[self.at + 1].start
            if self.at + 1 < len(sentences)
            else len(message)
        )
        opens = message[max(first, here.start - MOST_TRIMMED) : here.start]
        closes = message[here.end : min(last, here.end + MOST_TRIMMED)]
        return _join_trimmed(opens, here.text, closes)

    @property
    def read_as(self) -> str:
        """The sentence as it is read for its meaning: an answer that names nothing with what it answers."""
        words = extract_feature_words(self.text)
        answered = _find_answered_turn(self) if len(words) <= BARE else None
        if answered is None or words & extract_feature_words(answered.text):
            return self.whole
        return f"{self.whole} ({answered.text})"

    def cut(
        self,
        start: int,
        end: int,
    ) -> "SpokenSentence":
        """Return a part of the sentence, by its place there, as a sentence."""
        here = self.turn.sentences[self.at]
        text = here.text[start:end]
        part = replace(
            here,
            start=here.start + start,
            end=here.start + end,
            text=text,
        )
        sentences = [*self.turn.sentences]
        sentences[self.at] = part
        turn = replace(self.turn, sentences=sentences)
        return replace(
            self,
            turn=turn,
            text=strip_emphasis(text),
            part_of=here,
        )

    @property
    def crowd(self) -> int:
        """Sentences in the message."""
        return len(self.turn.sentences)


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence that may become a claim, with its neighbours."""

    spoken: SpokenSentence
    before: Sentence | None
    """The sentence before it, if that may become the detail."""
    heading: Sentence | None
    """The sentence before it, if that is a heading. It becomes part of the claim."""
    leans: bool = False
    """Whether it opens with a pronoun for something in the sentence before."""
    answered: AnsweredTurn | None = None
    """The turn that it answers, if it is too short to be understood alone."""

    @property
    def row(self) -> SpokenRow:
        """Its message."""
        return self.spoken.turn.row

    @property
    def sentence(self) -> Sentence:
        """The sentence as a span of its message."""
        return self.spoken.turn.sentences[self.spoken.at]

    @property
    def whole_sentence(self) -> Sentence:
        """The sentence, or that of which it is a clause."""
        return self.spoken.part_of or self.sentence

    @property
    def text(self) -> str:
        """The sentence without emphasis."""
        return self.spoken.text

    @property
    def key(self) -> tuple[str, int]:
        """The id of its message, and the sentence's index there."""
        return self.row["message_id"], self.spoken.at

    @property
    def is_said(self) -> bool:
        """Return True if a person says it."""
        return bool(self.row["origin"] == Origin.HUMAN)

    @property
    def start(self) -> int:
        """The claim's start in the message."""
        return (self.heading or self.sentence).start

    @property
    def summary(self) -> str:
        """The claim: the sentence, under its heading."""
        return (
            f"{strip_emphasis(self.heading.text)}. {self.text}"
            if self.heading
            else self.text
        )


def _join_trimmed(
    opens: str,
    sentence: str,
    closes: str,
) -> str:
    """Return a sentence with what stands before and after it in its line, without marks before the first word."""
    before = NO_WORD.sub("", opens.rpartition("\n")[2])
    after = closes.partition("\n")[0]
    return " ".join(f"{before}{sentence}{after}".split())


def list_sentences(
    spoken: Sequence[SpokenRow], least_said: int = MIN_WORDS
) -> Iterator[SpokenSentence]:
    """Yield every sentence of MIN_WORDS or more of a session's spoken messages (rows of MESSAGES in order), and a
    person's of `least_said` or more.
    """
    names, own = collect_speakers(spoken)
    words_before: set[str] = set(own)
    last: TurnSentences | None = None
    for row, place in zip(spoken, place_turns(spoken), strict=True):
        turn = TurnSentences(row, split_sentences(row["text"], names))
        stated: set[str] = set()
        for at, sentence in enumerate(turn.sentences):
            text = strip_emphasis(sentence.text)
            words = extract_feature_words(text)
            least = least_said if row["origin"] == Origin.HUMAN else MIN_WORDS
            if count_feature_words(text) >= least:
                new = len(words - words_before)
                numbers = describe_sentence(
                    sentence,
                    text,
                    turn.text,
                    at=at,
                    count=len(turn.sentences),
                    place=place,
                    words=words,
                    new=new,
                )
                yield SpokenSentence(
                    turn=turn, last=last, at=at, text=text, news=new, numbers=numbers
                )
            # the words of a question stay new for the answer
            if not turn.is_question(at):
                stated |= words
        words_before |= stated
        last = turn


def extract_units(spoken: Sequence[SpokenRow]) -> Iterator[Unit]:
    """Yield the sentences that may become claims. Repeats, and headings of a following sentence, are left out.

    If a model takes part in the session, a person's questions and answers of one word are yielded too, since somebody
    reads what they mean, and a sentence gets the sentence that it leans on, or the turn that it answers. Among people,
    questions and pronouns are frequent, and mostly the answer is understood alone: questions are left out.
    """
    seen: set[str] = set()
    aided = is_aided(spoken)
    for candidate in list_sentences(spoken, 1 if aided else MIN_WORDS):
        is_read = aided and candidate.turn.row["origin"] == Origin.HUMAN
        if (
            (candidate.turn.is_question(candidate.at) and not is_read)
            or candidate.text.lower() in seen
            or _is_heading_of_next(candidate.turn, candidate.at)
        ):
            continue
        answered = _find_answered_turn(candidate) if aided else None
        if answered is None:  # the same yes may accept two proposals
            seen.add(candidate.text.lower())
        yield _build_unit(candidate, answered, is_aided=aided, is_read=is_read)


def _build_unit(
    candidate: SpokenSentence,
    answered: AnsweredTurn | None,
    *,
    is_aided: bool,
    is_read: bool,
) -> Unit:
    """Return a sentence with the one before it, as its heading or as what it leans on."""
    before = candidate.turn.find_previous_sentence(candidate.at)
    # a word or two go on with the sentence before: "No Prisma please. Take Drizzle."
    goes_on = is_read and count_feature_words(candidate.text) < MIN_WORDS
    headed = goes_on or _is_heading_of_next(candidate.turn, candidate.at - 1)
    return Unit(
        spoken=candidate,
        before=None if headed else before,
        heading=before if headed else None,
        leans=is_aided and PRONOUN.match(candidate.text) is not None,
        answered=answered,
    )


def is_aided(spoken: Sequence[SpokenRow]) -> bool:
    """Return True if a model takes part in a session."""
    return any(row["origin"] == Origin.MODEL for row in spoken)


def _is_heading_of_next(turn: TurnSentences, at: int) -> bool:
    """Return True if a short sentence that ends with a colon heads the next one, and that is not a list item."""
    if (
        at < 0
        or turn.find_previous_sentence(at + 1) is None
        or turn.sentences[at + 1].item
    ):
        return False
    sentence = turn.sentences[at]
    return (
        count_feature_words(sentence.text) <= TERSE
        and ":" in turn.text[sentence.end - 1 : sentence.end + 1]
    )


def as_said(answer: SpokenSentence, proposal: str) -> SpokenSentence:
    """Return a proposal as a sentence of the person who accepts it: alone, and without its question mark.

    So a reply may be read too, as if nothing had been said before.
    """
    text = proposal.rstrip(ASKING)
    whole = Sentence(0, len(text), text, item=False, position=0)
    turn = TurnSentences({**answer.turn.row, "text": text}, [whole])
    return replace(answer, turn=turn, last=None, at=0, text=text)


def _find_answered_turn(answer: SpokenSentence) -> AnsweredTurn | None:
    """Return the question or proposal that a short sentence at the start of its message answers, verbatim, or None."""
    last = answer.last
    is_terse = count_feature_words(answer.text) <= TERSE
    if last is None or not is_terse or not is_reply(answer):
        return None
    at = _find_answered_place(answer, last)
    if at and last.is_question(at) and _asks_for_before(last.sentences[at].text):
        at -= 1
    text = "" if at is None else strip_emphasis(last.sentences[at].text)
    return (
        AnsweredTurn(last.row["message_id"], text)
        if 0 < count_feature_words(text) <= LONGEST_ASKED
        else None
    )


def _find_answered_place(answer: SpokenSentence, last: TurnSentences) -> int | None:
    """Return the index of the sentence of the turn before that shares most words with an answer, or None.

    It is a question, or what a model proposed to a person behind its last question: what was stated before is not what
    is asked for. If no question shares a word, it is the last one. A figure is not a shared word, since figures of two
    matters may be equal: "The cache may take 500 GB. What is the limit of uploads?"
    """
    words = _extract_matter(answer.text)
    shared = [len(words & _extract_matter(above.text)) for above in last.sentences]
    asked = [at for at in range(len(shared)) if last.is_question(at)]
    since = asked[-1] + 1 if asked else 0
    is_said = answer.turn.row["origin"] == Origin.HUMAN
    proposed = [at for at in range(since, len(shared)) if is_said and shared[at]]
    return max(
        (*asked, *proposed),
        key=lambda at: (shared[at], at in asked, at),
        default=None,
    )


def _extract_matter(text: str) -> set[str]:
    """Return the words of a text that carry something, without figures."""
    return {word for word in extract_feature_words(text) if not word.isdecimal()}


def is_short_reply(answer: SpokenSentence) -> bool:
    """Return True if a reply has few words, or few that carry something."""
    is_terse = count_feature_words(answer.text) <= TERSE
    has_few = len(extract_feature_words(answer.text)) <= MIN_WORDS
    return (is_terse or has_few) and is_reply(answer)


def is_reply(answer: SpokenSentence) -> bool:
    """Return True if a sentence opens a message behind somebody else's turn."""
    row = answer.turn.row
    last = answer.last
    if last is None or (last.row["role"], last.row["speaker"]) == (
        row["role"],
        row["speaker"],
    ):
        return False
    return all(
        count_feature_words(above.text) < MIN_WORDS
        for above in answer.turn.sentences[: answer.at]
    )


def list_offers(answer: SpokenSentence, characters: int) -> list[AnsweredTurn]:
    """Return the sentences at the end of the turn before, in so many characters, that a reply may accept."""
    last = answer.last
    if last is None:
        return []
    since = len(last.text.rstrip()) - characters
    texts = [
        strip_emphasis(sentence.text)
        for sentence in last.sentences
        if sentence.start >= since
    ]
    return [
        AnsweredTurn(last.row["message_id"], text)
        for text in texts
        if 0 < count_feature_words(text) <= LONGEST_ASKED
    ]


def as_reply_to(answer: SpokenSentence, offer: str) -> SpokenSentence:
    """Return a reply as if the turn before had been one sentence."""
    last = answer.last
    if last is None:
        return answer
    whole = Sentence(0, len(offer), offer, item=False, position=0)
    return replace(answer, last=TurnSentences({**last.row, "text": offer}, [whole]))


def _asks_for_before(question: str) -> bool:
    """Return True if a question asks for what was proposed before it: "Shall I?", "Shall I do that?"."""
    few = len(extract_feature_words(question)) <= 1
    return count_feature_words(question) <= MIN_WORDS or (
        few and count_feature_words(question) <= TERSE
    )


def collect_speakers(
    spoken: Sequence[SpokenRow],
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the names of the speakers, and the lower-cased words in them with their short forms."""
    names = tuple(sorted({r["speaker"] for r in spoken if r["speaker"]}))
    parts = {part.lower() for n in names for part in n.split()}
    return names, list_short_forms(parts)


def is_adjacent(
    text: str,
    a: Sentence,
    b: Sentence,
) -> bool:
    """Return True if no sentence, paragraph break or masked text lies between two sentences."""
    return b.position == a.position + 1 and "\n\n" not in text[a.end : b.start]


def strip_emphasis(text: str) -> str:
    """Return a text as one line, without Markdown's emphasis."""
    return " ".join(EMPHASIS.sub(r"\2", text).split())
