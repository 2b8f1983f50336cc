"""Key facts: what people say of themselves and how they want things done, found by rules. English only.

A fact is the clause as it was said ("my name is Ana", "I prefer tabs over spaces"). The rules are closed lists of first
person statements and standing orders; a passing "I like that idea" is none.
"""

import re

MAX_FACTS = 5
MAX_WORDS = 16

_REST = r"(?:(?![.!?;,\n…]*(?:[.!?;,…](?:\s|$)|\n|$)|\s(?:and|but|so|because|since|which|though)\s+(?:i|we|my|it|he|she|they|that|you)\b).)+.?"
_HOW = r"(?:really|always|usually|generally|strongly|still|also|personally|definitely|mostly|do|just|much|absolutely)\s+"
_PASSING = r"(?!(?:that|this|it|how|what|when|your|you|the (?:idea|sound|way|look)|hearing|to (?:hear|see|say|know))\b)"
_KIN = (
    "wife|husband|partner|spouse|girlfriend|boyfriend|fianc[eé]e?|mother|mom|mum|father|dad|sister|brother|son|daughter|"
    "baby|kid|dog|cat|puppy|kitten|boss|manager|best friend|roommate|grandma|grandpa|grandmother|grandfather"
)
_OWN = (
    rf"name|full name|first name|last name|nickname|birthday|pronouns|e-?mail(?: address)?|phone number|address|"
    rf"time ?zone|hometown|job|job title|employer|major|native language|first language|mother tongue|favou?rite [\w ]{{2,30}}?|"
    rf"(?:{_KIN})(?:['’]s name)?"
)

RULES = (
    rf"my (?:{_OWN})\s*(?:is|are|['’]s)\s+{_REST}",
    rf"(?:(?:you can|please|just|everyone|people|friends)\s+)?calls? me\s+(?!(?:back|when|if|at|on|later|tomorrow)\b){_REST}",
    rf"i(?:['’]m| am) (?:called|named|from|based in|living in|allergic to|vegan|vegetarian|married|single|divorced|\d+ years old)\b{_REST}?",
    rf"i(?:['’]m| am) an? (?:\w+ ){{0,3}}(?:\w{{2,}}(?:er|or|ist|ian|ant|ent|yst)|nurse|chef|coach|vegan|vegetarian|artist|pilot)\b{_REST}?",
    rf"i (?:currently )?(?:live|work|study|grew up|was born|moved|go by|speak|have (?:a|an|two|three|four|\d+) (?:{_KIN})s?\b)\s*{_REST}?",
    rf"i (?:{_HOW})?(?:prefer|love|like|enjoy|hate|dislike|can['’]?t stand|don['’]t (?:like|want|eat|drink|use)|never (?:use|eat|drink|want)|always (?:use|want))\s+{_PASSING}{_REST}",
    rf"i['’]d (?:prefer|rather)\s+{_PASSING}{_REST}",
    rf"(?:please )?(?:always|never|don['’]t ever|from now on,?)\s+(?!mind\b|been\b|have\b|had\b|thought\b|knew\b){_REST}",
    rf"we (?:always|never|usually|prefer)\s+{_REST}",
)
FACT = re.compile(rf"(?:(?<=^)|(?<=[.!?;,:\n(—–-])|(?<=\band)|(?<=\bbut)|(?<=\bbtw)|(?<=\bhi)|(?<=\bhey)|(?<=\bthat))[\s*\"'“]*({'|'.join(RULES)})", re.I | re.M)
HINT = re.compile(r"\b(?:my|me|i|i['’](?:m|d)|we|always|never|ever|from now on)\b", re.I)


def key_facts(text: str) -> list[str]:
    """The clauses of `text` that state a key fact, verbatim but for white space, in order, without repeats."""
    if not HINT.search(text):
        return []
    found = (" ".join(match.group(1).split()) for match in FACT.finditer(text))
    clauses = (" ".join(clause.split()[:MAX_WORDS]).strip(" .,;:!?*\"'“”)") for clause in found)
    return list(dict.fromkeys(clause for clause in clauses if " " in clause))[:MAX_FACTS]
