"""Words that say what a sentence does: small closed lists of English, as compiled patterns.

The lists hold grammar and everyday time, family and code words, nothing of any benchmark's content. In other
languages they find little, and claims are then picked by what is new in a sentence alone.
"""

import re

from slowwave.text.dates import MONTH_NAMES, WEEKDAYS
from slowwave.text.numbers import COUNTS
from slowwave.text.words import compile_word_pattern

TOKEN = re.compile(r"[^\W_][\w'’-]*|[぀-ヿ㐀-鿿가-힯]{2}")
"""A word, or two characters of a script that has no spaces."""

PROPER_NAME = re.compile(r"(?<=[\w,;:)\"'’] )[\"'“]?[A-Z][\w&'-]*")
"""A capitalised word that does not open its sentence."""

FIRST_PERSON = compile_word_pattern(r"i|i['’](?:m|ve|d|ll)|im|ive|my|we|we['’](?:re|ve|ll|d)|our|me|us")
SECOND_PERSON = compile_word_pattern(r"you|your|yours|you['’](?:re|ve|ll|d)|u|ur|yourself")
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
TAKEN_UP = compile_word_pattern(r"(?:have|has|\w+['’](?:ve|s)) (?:just )?(?:started|begun|taken up) (?:to )?\w+")
"""A habit that began: what holds since, not what happened."""
RELATION = compile_word_pattern(rf"(?:my|our|his|her|their)\s+(?:\w+\s+)?(?:{_PEOPLE})")
ABOUT_ME = compile_word_pattern(
    r"my name is|call me|i(?:['’]m| am) (?:based in|from|an? \w+)|i live in|i work (?:at|for|as|in)|i prefer|"
    r"i (?:really )?(?:like|love|hate|dislike)|"
    r"my (?:favou?rite|birthday|timezone|time zone|email|wife|husband|partner|kids?|son|daughter)"
)
