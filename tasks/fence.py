"""Transcript text on its way into a prompt: data, whatever it says.

Four things keep what somebody wrote from steering whoever reads it:
1. the text stands between two lines with a mark that is the hash of the text itself, so that no text can hold its own;
2. the marks by which chat templates tell turns apart are taken the angle brackets off: a tokenizer would obey them;
3. every line of a message but its first is indented, so that none can pass itself off as another message;
4. passages that address the memory rather than the people in the conversation are left out, and counted.

The fourth goes by patterns and can be evaded; the first three can't. A person's own "remember that I …" is no such
passage: it is addressed to the agent, and meant.
"""

import re
from collections.abc import Iterable, Sequence

from schemas.ids import content_id

LEFT_OUT = "[left out: a text that addresses the memory]"

TEMPLATE_MARK = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|<｜[^｜<>\n]{1,40}｜>|</?s>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\]|<</?SYS>>"
    r"|</?(?:start_of_turn|end_of_turn|bos|eos|pad|unk|think|tool_call|tool_response|system|assistant|user)>",
    re.IGNORECASE,
)

_ORDERS = r"(?:instructions?|prompts?|rules?|guidelines?|directives?|guardrails?|commands?|orders?)"
_EARLIER = r"(?:(?:all|any|every|your|the|these|those|my|of|other|current|original|system)\s+){0,4}"
_PAST = r"(?:(?:previous|prior|earlier|above|preceding|existing|initial|past|system)\s+){0,2}"
_DISOBEY = (
    r"(?:ignore|disregard|forget|override|bypass|discard|drop|skip|do\s+not\s+follow|don['’]t\s+follow|"
    r"stop\s+following|pay\s+no\s+(?:attention|heed)\s+to)"
)
_MACHINE = (
    r"(?:memory|memories|extract(?:or|ion)|summari[sz](?:er|ation)|summary|observer|distill(?:er|ation)|"
    r"(?:memory|knowledge)[\s-]+(?:system|base|store|bank|pipeline|engine|extractor|assistant))"
)
_READER = (
    r"(?:memory\s+(?:system|extractor|assistant|agent|model|pipeline)|extractor|summari[sz]er|observer|"
    r"language\s+model|llm|ai\s+(?:system|model|reader))"
)

OVERRIDE = re.compile(
    rf"\b{_DISOBEY}\s+{_EARLIER}{_PAST}{_ORDERS}\b"
    rf"|\b{_DISOBEY}\s+(?:everything|anything|all(?:\s+of)?(?:\s+that)?)\s+(?:above|before|you\s+were\s+told|so\s+far)\b"
    r"|\b(?:new|updated|revised|real|actual)\s+(?:system\s+)?(?:instructions|directives|prompt)\s*(?::|follow|for\s+(?:you|the))"
    r"|\bignorier\w*\s+(?:bitte\s+)?(?:(?:alle|die|deine|ihre|s[äa]mtliche[nr]?)\s+){0,2}(?:\w+en\s+)?(?:anweisung|regel|vorgabe|befehl)"
    r"|\bignore[rz]?\s+(?:toutes\s+)?(?:les|tes|vos|ces)\s+(?:instructions|consignes|r[èe]gles)"
    r"|\bignor[ae]\w*\s+(?:todas\s+|tutte\s+)?(?:las|tus|sus|le|tue)\s+(?:instrucciones|istruzioni|reglas|regole)"
    r"|^\W{0,3}(?:system|developer|administrator|root)\s*(?:message|prompt|override|note|notice)?\s*[:\]>]"
    r"|\bBEGIN\s+(?:SYSTEM|ADMIN|NEW)\b|\bsystem\s+override\b"
    r"|\byou\s+are\s+(?:now|no\s+longer)\s+(?:an?|the|in|bound|free|operating)\b"
    r"|\b(?:end|close)\s+of\s+(?:the\s+)?(?:transcript|conversation|data|context|input)\b"
    r"|\b(?:developer|debug|admin|god|dan|maintenance)\s+mode\s+(?:on|enabled|activated|is\s+(?:on|active))\b",
    re.IGNORECASE | re.MULTILINE,
)
ADDRESSED = re.compile(
    rf"\b(?:dear|hey|hi|hello|attention|note\s+(?:to|for)|message\s+(?:to|for)|instructions?\s+(?:to|for)|to)\s*,?:?\s+(?:the\s+|any\s+|all\s+|whichever\s+|every\s+)?{_READER}\b"
    rf"|\b(?:when|while|if|before|after)\s+(?:you\s+)?(?:(?:are\s+)?(?:summari[sz]|extract|distil)\w*|(?:writ|updat)\w+\s+(?:your|the|to)\s+(?:long[\s-]term\s+)?{_MACHINE})\b"
    rf"|\b(?:add|write|save|store|record|insert|put|commit|append|persist|log|inject|plant|register)\b[^.\n]{{0,60}}\b(?:in|into|to|as|on)\s+(?:your|the|its|an?|permanent|long[\s-]term)?\s*(?:(?:long[\s-]term|permanent|persistent|core)\s+)?{_MACHINE}\b"
    r"|\b(?:extract|output|emit|return|produce|report|generate|create|respond|reply|answer)\b[^.\n]{0,40}\b(?:claims?|observations?|json|(?:nothing|only)\s+(?:but|the\s+following|this|from))\b"
    r"|\b(?:do\s+not|don['’]t|never)\s+(?:extract|summari[sz]e|distil|observe)\b"
    r"|\b(?:do\s+not|don['’]t|never)\s+(?:record|remember|store|save|mention)\s+(?:any\s*thing|the\s+rest|this\s+conversation|what)\b"
    r"|\b(?:mark|set|rate|label|treat|score)\b[^.\n]{0,50}\b(?:as|to|with)\s+(?:the\s+)?(?:highest\s+|full\s+|maximal\s+)?"
    r"(?:confidence|verified|importance|canonical|trusted|priority|ground\s+truth|true\b[^.\n]{0,40}ground\s+truth)\b"
    r"|\bset\s+(?:verified|confidence|importance)\s+to\b"
    r"|\b(?:delete|erase|wipe|purge|clear|overwrite|reset|replace|retract)\s+(?:all\s+|any\s+|every\s+|of\s+|your\s+|the\s+|previous\s+|earlier\s+|other\s+|what\s+you\s+know\s+){0,5}(?:memor(?:y|ies)|observations?|claims?)\b"
    r"|\bremember\s+(?:this\s+)?(?:for\s*ever|permanently|above\s+all|in\s+all\s+future|for\s+all\s+(?:future|users))\b"
    r"|\b(?:in|for|across|into)\s+(?:all|every|any)\s+(?:your\s+)?future\s+(?:sessions?|conversations?|chats?|users?|summar(?:y|ies))\b"
    r"|\"?claims\"?\s*:\s*\[",
    re.IGNORECASE,
)
PARAGRAPH_END = re.compile(r"\n\s*\n")


def defanged(text: str) -> str:
    """The text with chat templates' own marks made harmless; as long as before, so places stay the same."""
    return TEMPLATE_MARK.sub(
        lambda m: m[0].replace("<", "‹").replace(">", "›").replace("[", "(").replace("]", ")"), text
    )


def tainted(text: str) -> list[tuple[int, int]]:
    """Where a text addresses the memory: spans (start, end), in order, apart.

    A passage reaches from the beginning of the paragraph to its end; one that sets itself above all orders, to the
    text's end.
    """
    spans: list[tuple[int, int]] = []
    for start, end in _paragraphs(text):
        if OVERRIDE.search(text, start, end) or TEMPLATE_MARK.search(text, start, end):
            return [*spans, (start, len(text))]
        if ADDRESSED.search(text, start, end):
            spans.append((start, end))
    return spans


def masked(text: str) -> str:
    """The text with what addresses the memory left out."""
    pieces, at = [], 0
    for start, end in tainted(text):
        pieces += [text[at:start], LEFT_OUT]
        at = end
    return "".join([*pieces, text[at:]])


def overlaps(span: tuple[int, int], others: Iterable[tuple[int, int]]) -> bool:
    """Whether a span shares a character with one of the others."""
    return any(span[0] < end and start < span[1] for start, end in others)


def steers(text: str) -> bool:
    """Whether a text has a passage that addresses the memory."""
    return bool(OVERRIDE.search(text) or ADDRESSED.search(text) or TEMPLATE_MARK.search(text))


def entry(label: str, text: str) -> str:
    """One message or claim: its label and text, later lines indented so that none can be taken for a label."""
    lines = [line for line in defanged(text).splitlines() if line.strip()]
    return f"{defanged(label)} " + "\n    ".join(lines)


def fenced(entries: Sequence[str]) -> dict[str, str]:
    """The values `mark` and `fenced` of a prompt: entries between two lines with a mark made of their own hash."""
    body = "\n".join(entries)
    mark = content_id("fence", body)
    return {"mark": mark, "fenced": f"<<<{mark}\n{body}\n{mark}>>>"}


def _paragraphs(text: str) -> list[tuple[int, int]]:
    """Spans of the paragraphs of a text."""
    borders = [(m.start(), m.end()) for m in PARAGRAPH_END.finditer(text)]
    starts = [0, *(end for _, end in borders)]
    ends = [*(start for start, _ in borders), len(text)]
    return list(zip(starts, ends, strict=True))
