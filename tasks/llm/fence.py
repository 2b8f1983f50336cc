"""Fence transcript text for a prompt, so that the model reads it as data and does not obey it.

Four measures keep a text from steering the model that reads it:
1. The text stands between two lines with a mark. The mark is the hash of the text, so a text cannot contain its own.
2. The marks by which chat templates separate turns lose their angle brackets, since a tokenizer would obey them.
3. Every line of a message but its first is indented, so that no line can pass for another message.
4. Paragraphs that address the memory instead of the people in the conversation are left out. `count_injections` counts
   them.

The first three are in `slowwave/text/fence.py`, which recall uses too, and cannot be evaded. The fourth uses patterns
and can be evaded. A person's own "remember that I …" is kept: it addresses the agent and is meant. Talk about memories,
prompts, tags and claims is kept too, since coding is full of it: a pattern requires an order and its addressee.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

LEFT_OUT = "[left out: a text that addresses the memory]"

FORGED = re.compile(
    r"^\W{0,3}(?:<\|(?:im_start|im_end|start_header_id|end_header_id|eot_id|end_of_turn|begin_of_text|system|user|assistant)\|>"
    r"|</?(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>)"
    r"|<\|(?:im_end|eot_id|end)\|>\s*<\||<end_of_turn>\s*<start|</s>\s*(?:<s>\s*)?\[INST\]|\[/INST\][^\n]*\[INST\]"
    r"|<\|im_start\|>\s*(?:system|assistant|user)\s*\n|<start_of_turn>\s*(?:model|user)\s*\n",
    re.IGNORECASE | re.MULTILINE,
)
"""Template marks where they would begin or end a turn: at the start of a line, or a closing one before an opening one.
Elsewhere a text only mentions them."""

_START = r"(?:^|[.!?:;,(\]]\s+|[-–—*>\"'“”]\s*|\b(?:please|pls|now|and|then|must|should|just|to|you)\s+)"
"""Beginning of an order, as opposed to a sentence about somebody's actions."""
_ORDERS = r"(?:instructions?|prompts?|rules|guidelines|directives|guardrails|orders)"
_DISOBEY = (
    r"(?:ignore|disregard|forget|override|overrule|bypass|discard|drop|do\s+not\s+(?:follow|obey)|"
    r"don['’]t\s+(?:follow|obey)|stop\s+(?:following|obeying)|pay\s+no\s+(?:attention|heed)\s+to)"
)
_FILL = r"(?:(?:all|any|every|the|these|those|of|other|and|or)\s+){0,4}"
_BEFORE = r"(?:previous|prior|earlier|preceding|existing|initial|past|original|above|foregoing)"
_READER = (
    r"(?:memory\s+(?:system|extractor|assistant|agent|model|pipeline|writer|keeper)|extractor|summari[sz]er|observer|"
    r"distiller|language\s+model|llm|ai\s+(?:system|model|reader|assistant))"
)
_TALK = r"(?:conversation|chat|transcript|session|dialogue?)"
_LASTING = r"(?:long[\s-]term|permanent|persistent|core)"
_MINE = rf"(?:your\s+(?:{_LASTING}\s+)?|(?:the\s+)?{_LASTING}\s+|the\s+)"

OVERRIDE = re.compile(
    rf"{_START}{_DISOBEY}\s+{_FILL}(?:your|{_BEFORE})\s+(?:(?:{_BEFORE}|system|own|current)\s+){{0,2}}{_ORDERS}\b"
    rf"|{_START}{_DISOBEY}\s+all\s+(?:of\s+)?(?:the\s+)?{_ORDERS}\b\s*(?:[.!,;:]|$|and\b)"
    rf"|{_START}{_DISOBEY}\s+{_FILL}{_ORDERS}\s+(?:above|before|so\s+far|you\s+(?:were|have\s+been)\s+(?:given|told))\s*(?:[.!,;:)]|$|and\b)"
    rf"|{_START}{_DISOBEY}\s+(?:the\s+|your\s+)?system\s+(?:prompt|instructions|message)\b"
    r"(?!\s+(?:in|with|of|for|via|from|by|using|at|on|that|which|when|if|per|to)\b)"
    rf"|{_START}{_DISOBEY}\s+(?:everything|anything|all(?:\s+of)?(?:\s+that)?)\s+(?:that\s+)?"
    r"(?:you\s+(?:were|have\s+been|['’]ve\s+been)\s+(?:told|given|taught)|(?:above|before|so\s+far)\s*(?:[.!,;:]|$|and\b))"
    r"|(?:^|[.!?]\s+)\W{0,8}(?:here\s+are\s+)?(?:your\s+|the\s+)?(?:new|updated|revised|real|actual)\s+"
    r"(?:system\s+)?(?:instructions|directives|orders|system\s+prompt)\s*(?::|follow)"
    r"|\b(?:new|updated|revised|real|actual)\s+(?:instructions|directives|orders)\s+for\s+you\b"
    r"|\bignorier\w*\s+(?:bitte\s+)?(?:(?:alle|die|deine|ihre|s[äa]mtliche[nr]?)\s+){0,2}(?:bisherig|vorherig|vorig|fr[üu]her|obig)\w*\s+(?:\w*anweisung|\w*regel|vorgabe|befehl)"
    r"|\bignorier\w*\s+(?:bitte\s+)?(?:alle\s+)?(?:deine|ihre|s[äa]mtliche)\s+(?:\w*anweisung|regel|vorgabe|befehl)"
    r"|\bignore[rz]?\s+(?:toutes\s+)?(?:tes|vos|ces|les)\s+(?:instructions|consignes|r[èe]gles)\s*(?:pr[ée]c[ée]dentes|ci-dessus|[.!,;:]|et\b|$)"
    r"|\bignor[ae]\w*\s+(?:todas\s+|tutte\s+)?(?:las|tus|sus|le|tue)\s+(?:instrucciones|istruzioni|reglas|regole)\s*(?:anteriores|precedenti|[.!,;:]|[ye]\b|$)"
    r"|\[\s*(?:system|developer|administrator|root)\s+(?:message|prompt|override|note|notice|instruction)s?\s*\]"
    r"|(?-i:\bBEGIN\s+(?:SYSTEM|ADMIN|NEW)\s+(?:PROMPT|INSTRUCTIONS?|MESSAGE|OVERRIDE|DIRECTIVES?))|^\W*system\s+override\b"
    r"|\byou\s+are\s+now\s+(?:in\s+)?(?:an?\s+|the\s+)?(?:maintenance|developer|debug|admin|god|dan|jailbreak|unrestricted|root)\s+mode\b"
    r"|\byou\s+are\s+no\s+longer\s+(?:bound|restricted|limited|subject|required)\b|\byou\s+are\s+now\s+(?:free\s+(?:of|from)|bound|unrestricted)\b"
    r"|\byou\s+are\s+(?:now|no\s+longer)\s+(?:an?\s+|the\s+|my\s+)?(?:\w+\s+){0,2}(?:assistant|ai|language\s+model|agent|extractor|summari[sz]er|chatbot)\b"
    rf"|^\W*(?:this\s+is\s+|here\s+is\s+)?(?:the\s+)?(?:end|close)\s+of\s+(?:the\s+)?{_TALK}\b\s*(?:$|[.!\]>:=)-])",
    re.IGNORECASE | re.MULTILINE,
)
"""Text that overrides the instructions."""
ADDRESSED = re.compile(
    rf"\b(?:dear|hey|hi|hello|attention|note\s+(?:to|for)|message\s+(?:to|for))\s*,?:?\s+(?:the\s+|any\s+|all\s+|whichever\s+|every\s+)?{_READER}s?\b[^.\n,:!–—]{{0,30}}[,:!–—]"
    rf"|(?:^|[.!?]\s+)\W{{0,3}}(?:instructions?\s+(?:to|for)|to)\s+(?:the\s+|any\s+|all\s+|whichever\s+|every\s+)?{_READER}s?\b[^.\n,:!]{{0,30}}:"
    rf"|\bas\s+(?:the|an?|my)\s+(?:ai\s+)?(?:assistant|{_READER}),?\s+you\s+(?:already\s+)?(?:know|remember|must|have\s+learn)"
    rf"|\b(?:when|while|whenever|if|before|after|as|once)\s+(?:you\s+(?:are\s+|['’]re\s+)?)(?:summari[sz]|extract|distil)\w*\s+[^.\n]{{0,40}}\b(?:this|the|our)\s+{_TALK}"
    rf"|\b(?:when|while|whenever|if|before|after|once)\s+(?:summari[sz]|distil)\w*\s+(?:this|the|our)\s+{_TALK}"
    r"|\b(?:when|while|whenever|if|before|after|as|once)\s+you\s+(?:are\s+)?(?:extract|distil)\w*\s+(?:the\s+|any\s+)?(?:facts?|claims?|memories)\s+from\s+(?:this|here)\b"
    rf"|{_START}(?:add|write|save|store|record|insert|put|commit|append|persist|inject|plant|register)\b[^.\n]{{0,60}}\b(?:in|into|to)\s+{_MINE}memor(?:y|ies)\b\s*(?::|that\b|as\s+an?\s+(?:\w+\s+)?(?:fact|claim|truth|preference|memory))"
    rf"|{_START}(?:add|write|save|store|record|insert|put|commit|append|persist|inject|plant|register)\b[^.\n]{{0,60}}\b(?:in|into|to)\s+your\s+(?:(?:long[\s-]term|permanent|persistent|core)\s+)?memor(?:y|ies)\b"
    rf"|{_START}(?:extract|output|emit|return|produce|report|generate|create|write|respond\s+with|reply\s+with|answer\s+with)\b[^.\n]{{0,20}}\b(?:only|just|nothing\s+but|exactly)\s+(?:this|these|the\s+following|one)\s+(?:\w+\s+)?(?:claim|fact|observation|memor)"
    rf"|{_START}(?:do\s+not|don['’]t|never)\s+(?:extract|summari[sz]e|distil|observe|record|remember|store|save|mention)\b[^.\n]{{0,40}}\b(?:this|the|our)\s+{_TALK}"
    r"|\b(?:mark|rate|label|treat|score|set|extract|record|store)\s+(?:this|these|those|that|it|the\s+following)\b[^.\n]{0,50}\b(?:highest|full|maximal|maximum|top)\s+(?:confidence|importance|priority)\b"
    r"|\b(?:mark|rate|label|treat)\s+(?:this|these|those|that|the\s+following)\s+(?:claim|fact|statement|memor\w+|observation)s?\s+as\s+(?:\w+\s+)?(?:verified|trusted|ground\s+truth|canonical|important|true|certain)\b"
    rf"|{_START}set\s+(?:verified|confidence|importance)\s+to\s+\w+\s+(?:for|on|in)\s+(?:this|these|that|the\s+following|all)\b"
    rf"|{_START}(?:delete|erase|wipe|purge|clear|overwrite|reset|replace|retract|forget)\s+(?:(?:all|any|every|of|the|your|previous|earlier|other|prior|existing|stored)\s+){{1,5}}(?:memor(?:y|ies)|observations?|claims?)\s+(?:of|about|on|for|from|in)\s+(?:this\s+(?:workspace|user|person|project|{_TALK})|the\s+(?:workspace|user)|me)\b"
    rf"|{_START}(?:delete|erase|wipe|purge|clear|overwrite|reset|forget)\s+(?:(?:all|any|every|of)\s+){{0,3}}your\s+(?:\w+\s+)?memor(?:y|ies)\b"
    r"|(?:^|[.!?:]\s+)\W{0,3}(?:please\s+)?remember\s+(?:this|that|the\s+following)?\s*(?:for\s*ever|permanently|above\s+all|in\s+all\s+future|for\s+all\s+(?:future|users))\b[^.\n]{0,30}:"
    r"|\bremember\s+(?:\w+\s+){0,4}for\s+all\s+(?:future\s+)?users\b"
    r"|\bremember\s+(?:\w+\s+){0,3}(?:for|in|across)\s+(?:all|every|any)\s+future\s+(?:sessions?|conversations?|chats?)\s*(?::|that\b)"
    rf"|{_START}(?:add|write|save|store|record|keep|put)\b[^.\n]{{0,40}}\bas\s+an?\s+{_LASTING}\s+memory\b"
    r"|(?:^|[.!?]\s+)\W{0,3}(?:in|for|across)\s+(?:all|every|any)\s+(?:of\s+)?(?:your\s+)?future\s+(?:sessions?|conversations?|chats?|users?|summar(?:y|ies))\s*"
    r"(?::|,\s*(?:please\s+)?(?:always|never|you|recommend|say|tell|trust|treat|remember|claim|assume)\b)"
    r"|\"?claims\"?\s*:\s*\[\s*\{[^}]{0,400}?\"?(?:summary|quote|confidence|category)\"?\s*:",
    re.IGNORECASE | re.MULTILINE,
)
"""Text that addresses the reader that writes the memory."""
ROLE = re.compile(
    r"^\W{0,3}(?:system|developer|administrator|root)\s*(?:message|prompt|override|note|notice)?\s*[:\]>]"
    r"|\b(?:developer|debug|admin|god|dan|maintenance)\s+mode\s+(?:on|enabled|activated|is\s+(?:on|active))\b",
    re.IGNORECASE | re.MULTILINE,
)
"""Text that speaks as the system. It counts only together with ORDER: an order, or a statement about the reader or the
user."""
ORDER = re.compile(
    rf"{_START}(?:remember|memori[sz]e|store|save|record|note|take\s+down|obey|comply|trust|assume|ignore|disregard|forget)\s+"
    r"(?:that|this|the\s+following|all|every|any|your|in\s+mind|:)"
    r"|\byou\s+(?:must|shall|are\s+to|are\s+now|will\s+now|have\s+to)\b|\bfrom\s+now\s+on\b"
    r"|\bthe\s+(?:user|operator|assistant|owner|customer|model)(?:['’]s|\s+(?:is|has|wants|prefers|said|says|asked|was|must|should|may|approved|agreed|decided))\b",
    re.IGNORECASE | re.MULTILINE,
)
LONE = 0.6
"""Least share of a paragraph's letters at which an override is the whole paragraph. The next one then belongs to it."""
PARAGRAPH_END = re.compile(r"\n\s*\n")
LONG_SPACE = re.compile(r"([^\S\n]{64})[^\S\n]+")
"""Wider space is shortened to this width, since patterns with several gaps take time quadratic in it."""


def find_injections(text: str) -> list[tuple[int, int]]:
    """Return the passages of a text that address the memory: disjoint spans (start, end), in order.

    A passage is a paragraph. If a paragraph says only that earlier orders are void, the next one belongs to it.
    """
    spans: list[tuple[int, int]] = []
    lone = False
    borders = [border.span() for border in PARAGRAPH_END.finditer(text)]
    for (_, start), (end, _) in pairwise([(0, 0), *borders, (len(text), len(text))]):
        words = LONG_SPACE.sub(r"\1", text[start:end])
        override = OVERRIDE.search(words)
        addressed = (
            ADDRESSED.search(words)
            or FORGED.search(words)
            or (ROLE.search(words) and ORDER.search(words))
        )
        if lone or override or addressed:
            spans.append((start, end))
        lone = override is not None and _count_letters(
            override[0]
        ) >= LONE * _count_letters(words)
    return spans


def count_injections(texts: Iterable[str]) -> tuple[int, int]:
    """Return the number of texts with passages that are left out, and the number of passages."""
    counts = [len(find_injections(text)) for text in texts]
    return sum(n > 0 for n in counts), sum(counts)


def mask_injections(text: str) -> str:
    """Return the text with LEFT_OUT in place of each passage that addresses the memory."""
    pieces = []
    at = 0
    for start, end in find_injections(text):
        pieces += [text[at:start], LEFT_OUT]
        at = end
    return "".join([*pieces, text[at:]])


def has_overlap(span: tuple[int, int], others: Iterable[tuple[int, int]]) -> bool:
    """Return True if a span shares a character with one of the others."""
    return any(span[0] < end and start < span[1] for start, end in others)


def has_injection(text: str) -> bool:
    """Return True if a text has a passage that addresses the memory."""
    return bool(find_injections(text))


def _count_letters(text: str) -> int:
    """Return the number of letters and digits."""
    return sum(c.isalnum() for c in text)
