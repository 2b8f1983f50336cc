"""What a sentence lacks, and the sentence beside it or the turn before it that has it.

A heading ("last one: the carrier gateways.") names what the next sentence is about; a sentence that leans ("It runs
nightly", "3 attempts, no pause") has its subject before it; a terse answer ("do that, 90 seconds") has it in the turn
that it answers. Grammar by closed lists, without a parser: whatever the lists don't know counts as complete.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slowwave.tasks.observe import lexicon as lex
from slowwave.tasks.observe.categories import STATEMENT
from slowwave.tasks.observe.coding import PROPOSAL
from slowwave.tasks.observe.scores import count_words, extract_content_words
from slowwave.text.cues import HEDGES, YES, compile_word_pattern
from slowwave.text.sentences import Sentence

LONGEST_HEADING = 9
"""Words; what is longer says something."""
TERSE = 8
"""Words up to which the opening of an answer is taken to need what it answers."""
LONGEST_ASKED = 40
"""Words of a question or proposal that are carried along."""

AUXILIARY = (
    r"am|is|are|was|were|be|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must|cannot|"
    r"\w+n['’]t"
)
FINITE = compile_word_pattern(
    rf"{AUXILIARY}|\w+['’](?:m|re|ve|ll|d|s)|i|we|you|he|she|they|it|there|"
    r"(?:no|every|some|any)(?:body|one|thing)|"
    r"gets?|goes|go|comes?|gives?|keeps?|makes?|means?|says?|thinks?|wants?|looks?|works?|likes?|loves?|knows?|eats?|"
    r"stays?|becomes?|brings?|helps?|seems?|sounds?|feels?|pays?|hopes?|wish|believe|please|use|put|add|drop|take|call|"
    r"ask|tell|remember|note|send|check|build|cache|let|gotta|wanna"
)
"""What a sentence that says something has: a verb that is bent, a subject, an order."""
THIRD_PERSON = compile_word_pattern(
    r"\w{2,}[^\Ws]s (?:me|us|you|him|them|the|a|an|my|our|your|his|her|their|its|to|th[eo]se|this|that|every|all|any|"
    r"like|really|on|in|at|as|good|great|big|bad|better|well|off|up|out|only|too)"
)
"""What may be a verb ("Greta plays the cello") and may be a plural ("calls to the server")."""
LIMIT = compile_word_pattern("never|always|only|no|not")
SETTING_OUT = re.compile(
    r"^(?!(?:no|any|some|every)thing\b|during\b|according\b|including\b|using\b|keeping\b)\w{2,}ing "
    r"(?:(?:on|off|up|out|with|from) )?(?:the|a|an|our|my|work|notes|[A-Z]\w*)\b|"
    r"^(?:set|setting) up (?:the|a|an|our|my)\b",
)
"""What somebody is about to do: "kicking off the release", "starting on the API today"."""
INTRODUCED = re.compile(
    r"^(?:(?:and|so|also|ok|now|the|one|two|three|a|few|some|just) )*"
    r"(?:(?:last|next|first|second|third|fourth|final|other|another|more|new|quick|different)\b ?)+"
    r"(?:(?:one|things?|topics?|questions?|items?|points?|matters?|changes?|news|subject|note|idea|step|today|up|"
    r"of all)\b ?)*(?:[:,–—-]|$)|"
    r"^(?:a few|few|a couple of|couple of|some|several|two|three|four) (?:more |other |quick |small )?"
    r"(?:things?|topics|questions|points|matters|changes|news|notes|updates)(?: today| first| now)?$|"
    r"^(?:about|as for|regarding|re|on to|speaking of|on) (?=\w)",
    re.I,
)
"""How a new subject is announced; what follows is its name."""
NAMED_VALUE = re.compile(r"\w[:=] ?\S|\w = \S")
QUANTITY = re.compile(r"(?<![\w.`])[£$€]?\d")
PRONOUN = re.compile(
    r"^(?:and |but |so |then )*(?:it|it['’]s|they|they['’]re|he|he['’]s|she|she['’]s|that|that['’]s|this|these|"
    r"those|both|neither|none|one|the (?:same|other|others|latter|former|rest))\b",
    re.I,
)
CONSEQUENCE = re.compile(r"^(?:so|then|hence|therefore|instead|otherwise|from (?:now|here) on|until)\b", re.I)
QUESTION = re.compile(r"\?[\s\"'”’)*_]*$|\?[!?]*(?:\s|$)")
_WHOM = r"(?:i|we|you|they|he|she|it|there|this|these|those|the|my|our|your|any\w*|some\w*|everybody|everyone)"
UNMARKED_QUESTION = re.compile(
    r"^(?:(?:and|but|so|also|ok|then|btw|oh|hm+)[, ]+)*(?:"
    rf"(?:is|are|was|were|has|should|will|would|am) {_WHOM}\b|(?:does|did) \w|(?:do|have) (?:i|we|you|they)\b|"
    rf"(?:what|how|why|who|where|when|which)(?:['’]s| (?:(?!{_WHOM}\b)\w+ ){{0,3}}?(?:{AUXILIARY}))\b(?! \w+ is\b)|"
    r"(?:what|how) about\b|who (?!i\b|we\b|you\b)\w+)"
    rf"|, (?:what|how|why|who|where|when) (?:{AUXILIARY}) \w+$",
    re.I,
)
"""A question without its mark: "does the cache survive deploys"; "what they count is …" is none."""
ASSENT = re.compile(
    rf"^(?:{YES}|no|nope|approved|please|then|"
    r"do (?:it|that|this|both|so)|let['’]?s|go (?:with|for|ahead)|take|keep|both|neither|"
    r"the (?:first|second|latter|former)|"
    r"switch to (?:it|that)|give (?:it|them|that)|make it|drop (?:it|them|that)|use (?:it|that)|one|none)\b",
    re.I,
)
IDLE = re.compile(rf"^(?:{YES}|no|happy|sorry|appreciate|same here|what an?|how)\b", re.I)
GREETING = re.compile(r"^(?:good (?:morning|afternoon|evening|night)|happy new year)(?: \w+)?$", re.I)
OFFER = compile_word_pattern("would|better|either")
ASIDE = compile_word_pattern(r"by the way|btw|other topic|another (?:thing|topic|question)")


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """What a claim answers, and the message that says it."""

    message_id: str
    text: str


def is_heading(text: str) -> bool:
    """Return whether a sentence names what comes next and says nothing of it."""
    if count_words(text) > LONGEST_HEADING or GREETING.match(text):
        return count_words(text) <= LONGEST_HEADING
    announced = INTRODUCED.match(text)
    rest = text[announced.end() :].strip() if announced else text
    if task := SETTING_OUT.search(rest):
        return not FINITE.search(rest, task.end())
    if CONSEQUENCE.match(rest) or NAMED_VALUE.search(rest) or QUANTITY.search(rest) or lex.TIME.search(rest):
        return False
    doubtful = THIRD_PERSON.search(rest) and not announced
    return not (_has_verb(rest) or LIMIT.search(rest) or doubtful)


def _has_verb(text: str) -> bool:
    """Return whether a sentence has a verb, as far as the lists know."""
    return any(p.search(text) for p in (FINITE, lex.PAST, STATEMENT, lex.PREFERENCE))


def is_generic_heading(text: str) -> bool:
    """Return whether a heading has no name of its own: "One more change", "Good morning"."""
    announced = INTRODUCED.match(text)
    rest = text[announced.end() :] if announced else text
    return (
        not extract_content_words(rest) or count_words(text) < 2 or bool(lex.COURTESY.search(text) or IDLE.match(text))
    )


def is_dependent(text: str) -> bool:
    """Return whether a sentence has its subject in the one before: a pronoun, a consequence, a bare number."""
    if PRONOUN.match(text) or CONSEQUENCE.match(text):
        return True
    return bool(re.match(r"\W*\d", text)) and not (FINITE.search(text) or STATEMENT.search(text))


def is_question(text: str) -> bool:
    """Return whether a sentence is a question, with its mark or without."""
    return bool(QUESTION.search(text) or UNMARKED_QUESTION.search(text))


def is_terse(text: str, message: str) -> bool:
    """Return whether what opens a message is no statement by itself: it is short, leans, or goes on from a yes or a
    no.
    """
    if ASIDE.search(text):
        return False
    return (
        count_words(text) <= TERSE
        or is_dependent(text)
        or bool(ASSENT.match(message) and count_words(text) <= 2 * TERSE)
    )


def find_answered_text(text: str, turn: str, found: Sequence[Sentence], *, assents: bool, human: bool) -> str | None:
    """Return the question or proposal of the turn before that `text` answers, verbatim; None where there is neither.

    The one that shares most of its words, else the last. One that shares none is meant where `text` leans on it or
    `assents`, a question also where `text` has no verb. A question that leans brings the sentence before it. A model
    (not `human`) answers questions alone: what a person says to it is an order, not a proposal.
    """
    mine, points = extract_content_words(text), assents or is_dependent(text)
    says = bool(_has_verb(text) or THIRD_PERSON.search(text)) and not points
    best: tuple[int, bool, int] | None = None
    for at, one in enumerate(found):
        said = turn[one.start : one.end + 2]
        question, shared = is_question(said), len(mine & extract_content_words(one.text))
        proposal = any(p.search(said) for p in (PROPOSAL, HEDGES, OFFER))
        meant = (shared > 1 and not says) or (proposal and (points or shared > 0))
        if (question and (shared or not says)) or (human and meant):
            best = max(best or (-1, False, 0), (shared, question, at))
    if best is None:
        return None
    at = best[2]
    start, end = found[at].start, found[at].end
    if at and (is_dependent(found[at].text) or len(extract_content_words(found[at].text)) < 2):
        start = found[at - 1].start
    return turn[start:end] if count_words(turn[start:end]) <= LONGEST_ASKED else None
