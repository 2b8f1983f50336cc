"""Which words send a question to the web, and which keep it: patterns of English phrases, in the order they decide.

Other languages and a person's own subjects come in by the setting `web.interests`.
"""

from slowwave.text.cues import compile_word_pattern

ASKED = compile_word_pattern(
    r"(?:search|browse|check|look)\b[^.?!]{0,40}\b(?:the web|the internet|online|google)",
    r"web search",
    r"google (?:it|that|this|for)",
)
"""A plain request: nothing overrules it."""

OURS = compile_word_pattern(
    r"(?:did|have|had|were|was|do|are|should|shall) we",
    r"(?:did|have|had|was) i",
    r"(?:we|i) (?:decided|agreed|discussed|said|talked|chose|used|use|planned|did|were|had|went|wanted|mentioned)",
    r"(?:our|ours|my|mine)",
    r"you (?:told|said|mentioned|suggested|wrote)|(?:did|have) you (?:say|tell|mention|suggest|write)",
    r"remember",
    r"this (?:repo|repository|project|code|codebase|file|folder|function|branch|conversation|chat)",
)
"""The memory's own: what was said here, and what is this person's."""

TIMELY = compile_word_pattern(
    r"latest",
    r"newest",
    r"current(?:ly)?",
    r"today|tonight|tomorrow|nowadays|these days",
    r"right now|at the moment|as of|so far this",
    r"this (?:week|weekend|month|year|morning|evening)",
    r"recent(?:ly)?",
    r"news|headlines?",
    r"up[- ]to[- ]date",
    r"upcoming",
    r"still (?:maintained|supported|open|available)",
    r"20(?:2[5-9]|[3-9]\d)",
)
"""Words of time: neither a model's training nor a memory of other days can answer."""

INFORMATION = compile_word_pattern(
    r"search for|look up|find out",
    r"weather|forecast|temperature in",
    r"(?:stock|share) price|exchange rate|prices? (?:of|for|in)|how much (?:is|are|do|does)|what does .{1,40} cost",
    r"opening hours|when (?:do|does|is|are) .{1,40} (?:open|close|released?)",
    r"release (?:date|notes)|changelog|documentation (?:for|of)|cve-\d{4}-\d+",
    r"who (?:won|is the (?:current )?(?:president|ceo|prime minister|mayor|chancellor))",
    r"score of|schedule (?:for|of)|population of|reviews? of",
    r"where (?:can|do) i (?:buy|find|get|download)",
    r"flights? (?:to|from)|train times?",
)
"""Requests for what stands on the web."""
