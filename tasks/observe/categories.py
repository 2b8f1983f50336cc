"""Patterns that tell what a sentence does, and the category of a claim in its pack.

The patterns are short closed lists of English words about grammar, time, family and code. They contain nothing of any
benchmark's content. In other languages they match little, and claims are then chosen by the new words of a sentence
alone. Personal categories come from tense, time and people, those of a model's sentences about code from cue phrases.
"""

import re
from dataclasses import dataclass

from slowwave.text.times.dates import MONTH_NAMES, WEEKDAYS
from slowwave.text.words import COUNTS, compile_word_pattern

TOKEN = re.compile(r"[^\W_][\w'’-]*|[぀-ヿ㐀-鿿가-힯]{2}")
"""A word, or two characters of a script that has no spaces."""

PROPER_NAME = re.compile(r"(?<=[\w,;:)\"'’] )[\"'“]?[A-Z][\w&'-]*")
"""A capitalised word that does not open its sentence."""

FIRST_PERSON = compile_word_pattern(
    r"i|i['’](?:m|ve|d|ll)|im|ive|my|we|we['’](?:re|ve|ll|d)|our|me|us"
)
SECOND_PERSON = compile_word_pattern(
    r"you|your|yours|you['’](?:re|ve|ll|d)|u|ur|yourself"
)
TIME = compile_word_pattern(
    r"yesterday|today|tomorrow|tonight|last|next|ago|weekends?|weeks?|months?|years?|days?|morning|evening|since|"
    r"recently|just|soon|upcoming|first|once|spring|summer|autumn|winter|(?:19|20)\d\d",
    *(f"{day}s?" for day in WEEKDAYS),
    *(month for month in MONTH_NAMES if month != "may"),
)
"""Not "may", which more often is a verb."""
NUMBER = compile_word_pattern(r"\d[\d.,:]*\w*|one|couple|few|several", *COUNTS)
_PEOPLE = (
    r"mom|mum|mother|dad|father|parents?|sisters?|brothers?|siblings?|sons?|daughters?|kids?|child|children|baby|"
    r"husband|"
    r"wife|partner|spouse|fianc[eé]e?|boyfriend|girlfriend|family|friends?|grandma|grandpa|grandmother|grandfather|"
    r"cousins?|"
    r"aunt|uncle|niece|nephew|colleagues?|coworkers?|boss|roommate|neighbou?rs?|dogs?|cats?|pets?|puppy|kitten"
)
PEOPLE_AND_PETS = compile_word_pattern(_PEOPLE)
COURTESY = compile_word_pattern(
    r"awesome|amazing|great|cool|wow|congrats|congratulations|thanks|thank|sounds|glad|proud of you|good luck|nice|"
    r"incredible|inspiring|wonderful|fantastic|sorry to hear|keep it up|keep up|take care|bye|happy for you|"
    r"can['’]t wait|"
    r"let me know|hope you|good to know|remember that|telling me|noted|got it|welcome|hey|hi|hello|yeah|yep|sure|"
    r"definitely|absolutely|totally|exactly|perfect|excellent"
)
PLAN = compile_word_pattern(
    r"will|\w+['’]ll|going to|gonna|plan(?:s|ned|ning)?|hop(?:e|ing) to|want(?:s|ing)? to|wanna|thinking (?:of|"
    r"about)|"
    r"looking forward|next (?:week|month|year|weekend|summer|spring|fall|winter)|tomorrow|soon|upcoming|someday"
)
PAST = compile_word_pattern(
    r"(?!need|feed|seed|speed|indeed|bed|red|shed)\w{2,}ed|went|got|made|took|had|was|were|did|bought|found|won|"
    r"lost|began|met|saw|"
    r"gave|wrote|came|ran|felt|told|taught|built|left|been|done|gone|heard|spent|kept|held|became|chose|grew|drew|"
    r"ate|"
    r"drove|flew|led|read|put|saw|sold|broke|caught|fell|paid|sent"
)
DATED = compile_word_pattern(
    r"yesterday|today|tonight|ago|last (?:\w+ )?(?:night|week|weekend|month|year|spring|summer|fall|autumn|winter|"
    r"\w+day)|"
    r"(?:this|the other) (?:morning|week|weekend|month|year|day)|recently|just|in (?:19|20)\d\d|on \w+day|back in"
)
PREFERENCE = compile_word_pattern(
    r"(?<!would )(?:love|loves|loved|like|likes|liked|enjoy|enjoys|enjoyed|hate|hates|dislike|prefer|prefers|adore)|"
    r"favou?rites?|fan of|passion(?:ate)?|(?:i['’]m|am|been) (?:really |so |very )?into|can['’]t stand|rather"
)
TAKEN_UP = compile_word_pattern(
    r"(?:have|has|\w+['’](?:ve|s)) (?:just )?(?:started|begun|taken up) (?:to )?\w+"
)
"""A habit that began. It is a fact that holds since, not an event."""
RELATION = compile_word_pattern(rf"(?:my|our|his|her|their)\s+(?:\w+\s+)?(?:{_PEOPLE})")
ABOUT_ME = compile_word_pattern(
    r"my name is|call me|i(?:['’]m| am) (?:based in|from|an? \w+)|i live in|i work (?:at|for|as|in)|i prefer|"
    r"i (?:really )?(?:like|love|hate|dislike)|"
    r"my (?:favou?rite|birthday|timezone|time zone|email|wife|husband|partner|kids?|son|daughter)"
)


def classify_personal(text: str) -> str:
    """Return plan, event, preference, relationship or fact: the first category whose words occur."""
    if PLAN.search(text):
        return "plan"
    if PAST.search(text) and DATED.search(text):
        return "event"
    if PREFERENCE.search(text):
        return "preference"
    if TAKEN_UP.search(text):
        return "fact"
    if RELATION.search(text):
        return "relationship"
    if FIRST_PERSON.search(text) and PAST.search(text):
        return "event"
    return "fact"


@dataclass(slots=True, frozen=True)
class Cue:
    """A phrase that marks a category, with its weight as log-odds."""

    category: str
    weight: float
    pattern: re.Pattern[str]


STRONG = 3.0
MOST_WORDS = 200
"""Most words of a message that may hold a decision. Of 84 claims that were read, 36 of 50 called decisions are
decisions in shorter messages, and 11 of 34 in longer ones."""

CUES: tuple[Cue, ...] = (
    Cue(
        "decision",
        STRONG,
        compile_word_pattern(
            r"(?:we|i)(?:['’]ve| have)? (?:decided|chose|agreed|settled|opted)|decision|decided|settled on|"
            r"(?:agreed|decision|change of plans?)[,:]|(?:we|i) (?:dropped|adopted|moved|switched|migrated|"
            r"replaced)|let['’]?s (?:go with|use|stick with|stick to|switch|keep|drop|adopt|not)|stick with|"
            r"in favou?r of|for now we|(?:switch|migrat|mov)(?:es?|ed|ing)? (?:\S+ ){0,4}from|"
            r"we (?:move|switch|migrate|go) to|we(?:['’]re| are) (?:switching|moving|dropping|replacing)|"
            r"final(?:ly)? (?:answer|call|choice)"
        ),
    ),
    Cue(
        "gotcha",
        STRONG,
        compile_word_pattern(
            r"turns out|turned out|gotcha|caveat|beware|be careful|careful(?: (?:with|when|about)|[,:])|watch out|"
            r"workaround|work around|root cause|culprit|"
            r"the (?:real |actual |underlying )?(?:bug|issue|problem|cause|reason|trick|catch|fix) (?:is|was|"
            r"here is)|caused by|it was actually|that was the|"
            r"(?:fail|break|crash|hang|leak|deadlock|flake|corrupt|time out|times out|timed out)(?:s|"
            r"e?d)?(?: \w+){0,4} (?:because|when|if|unless|on|with|without|after|since)|"
            r"because [^.]{3,80}(?:fail|break|broke|crash|missing|wrong|stale|outdated|cached)\w*|"
            r"(?:does|do|did|wo|ca)n['’]t (?:work|handle|support|play|return|respect|escape|include)\b|"
            r"does not work|did not work|"
            r"only works?|silently|race condition|deadlocks?|memory leak|off[- ]by[- ]one|stale|under the hood|"
            r"contrary to|"
            r"(?:is|are|was|were) (?:outdated|cached|ignored|swallowed|lost)|rendering artifacts|otherwise (?:it|we|"
            r"you|the)"
        ),
    ),
)


def find_coding_category(text: str, words: int) -> str:
    """Return the category of the strongest cue in a model's sentence, or "" if no cue matches. Of equal cues, the first
    in CUES wins. What persons say is read (`reader.py`).

    Args:
        text: the sentence.
        words: words of its message. A long message reports or is pasted, so it holds no decision.
    """
    earned = [c for c in CUES if c.category != "decision" or words <= MOST_WORDS]
    strongest = max(
        (c for c in earned if c.pattern.search(text)),
        key=lambda c: c.weight,
        default=None,
    )
    return strongest.category if strongest else ""
