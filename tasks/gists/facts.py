"""Key facts: what people say of themselves and how they want things done, found by rules. English only.

A fact is the clause as it was said ("my name is Ana", "I prefer tabs over spaces"). The rules are closed lists of first
person statements and standing orders; a passing "I like that idea" is none.
"""

import re

MAX_FACTS = 5
MAX_WORDS = 16

_STOP = r"[.!?;,…](?:\s|$)|\n|$"
_TURN = r"\s(?:and|but|so|because|since|which|though)\s+(?:i|we|my|it|he|she|they|that|you)\b"
_REST = rf"(?:(?!{_STOP}|{_TURN}).)+"
"""The rest of a clause: to a stop or to the next clause."""

_HOW = (
    r"(?:really|always|usually|generally|strongly|still|also|personally|definitely|mostly|do|just|much|absolutely)\s+"
)
_PASSING = (
    r"(?!(?:that|this|it|them|him|her|how|what|when|your|you|hearing|to (?:hear|see|say|know)|"
    r"the (?:idea|sound|way|look))\b)"
)
_KIN = (
    r"wife|husband|partner|spouse|girlfriend|boyfriend|fianc[eé]e?|mother|mom|mum|father|dad|sister|brother|son|daughter|"
    r"baby|kid|dog|cat|puppy|kitten|boss|manager|best friend|roommate|grandma|grandpa|grandmother|grandfather"
)
_OWN = (
    r"name|full name|first name|last name|nickname|birthday|pronouns|e-?mail(?: address)?|phone number|address|"
    r"time ?zone|hometown|job|job title|employer|major|native language|first language|mother tongue|"
    rf"favou?rite [\w ]{{2,30}}?|(?:{_KIN})(?:['’]s name)?"
)
_TRADE = r"\w{2,}(?:er|or|ist|ian|ant|ent|yst)|nurse|chef|coach|vegan|artist|pilot"
_ORDER = (
    r"use|run|write|commit|push|pull|call|put|add|ask|keep|answer|reply|respond|make|edit|touch|delete|remove|format|"
    r"test|check|include|deploy|merge|install|import|start|end|show|give|tell|explain|speak|prefer|assume|mention|"
    r"suggest|create|change|rename|send|read|return|log|quote|store|build|name|follow|stick"
)
_LIKING = (
    r"prefer|love|like|enjoy|hate|dislike|can['’]?t stand|don['’]t (?:like|eat|drink|use)|"
    r"never (?:use|eat|drink)|always (?:use|want)"
)
_STATE = r"called|named|from|based in|living in|allergic to|vegan|vegetarian|married|single|divorced|\d+ years old"

RULES = (
    rf"my (?:{_OWN})\s*(?:is|are|['’]s)\s+{_REST}",
    rf"(?:(?:you can|please|just|everyone|people|friends)\s+)?calls? me\s+(?!(?:back|when|if|at|on|later)\b){_REST}",
    rf"i(?:['’]m| am) (?:{_STATE})\b(?:{_REST})?",
    rf"i(?:['’]m| am) an? (?:\w+ ){{0,3}}(?:{_TRADE})\b(?:{_REST})?",
    rf"i (?:currently )?(?:live|work|study|grew up|was born|moved|go by|speak)\s+{_REST}",
    rf"i have (?:a|an|two|three|four|\d+) (?:{_KIN})s?\b(?:{_REST})?",
    rf"i (?:{_HOW})?(?:{_LIKING})\s+{_PASSING}{_REST}",
    rf"i['’]d (?:prefer|rather)\s+{_PASSING}{_REST}",
    rf"(?:please )?(?:always|never|don['’]t ever|from now on,?)\s+(?:{_ORDER})\b{_REST}",
    rf"we (?:always|never|usually|prefer)\s+{_REST}",
)
_BEFORE = r"(?:(?<=^)|(?<=[.!?;,:\n(—–-])|(?<=\band)|(?<=\bbut)|(?<=\bbtw)|(?<=\bhi)|(?<=\bhey)|(?<=\bthat))"
FACT = re.compile(rf"{_BEFORE}[\s*\"'“]*({'|'.join(RULES)})", re.I | re.M)
HINT = re.compile(r"\b(?:my|me|i|i['’](?:m|d)|we|always|never|ever|from now on)\b", re.I)
"""Without one of these there is no fact: most texts cost one look."""


def extract_key_facts(text: str) -> list[str]:
    """Return the clauses of `text` that state a key fact, verbatim but for white space, in order, without repeats."""
    if not HINT.search(text):
        return []
    found = (" ".join(match.group(1).split()) for match in FACT.finditer(text))
    clauses = (" ".join(clause.split()[:MAX_WORDS]).strip(" .,;:!?*\"'“”)") for clause in found)
    return list(dict.fromkeys(clause for clause in clauses if " " in clause))[:MAX_FACTS]
