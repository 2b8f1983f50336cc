"""The base topics, by rule: what the agent is told about itself, who the user is, what machine it all runs on."""

import re

BASE_PURPOSES = {
    "self": "What the agent is told about itself: its name, its manner, its standing instructions",
    "user": "Who the user is: name, home, work, language, and how they like to be dealt with",
    "system": "The machine and its tools: operating system, hardware, versions, accounts, services",
}
RULES = {
    "user": re.compile(
        r"\b(my name is|call me|i live in|i work (at|as|for)|i speak|i(?: a|['’])m (?:a|an) \w+(?:er|or|ist|ian|ent)\b"
        r"|i(?: a|['’])m an? (?:morning|night) person"
        r"|my (?:home|job is|birthday|email|time ?zone|pronouns|native language)"
        r"|i(?:['’]d)? prefer (?:short|brief|concise|long))",
        re.IGNORECASE,
    ),
    "self": re.compile(
        r"\b(your name is|you (?:should|must|are to) (?:always|never|act as)|i(?: a|['’])m (?:an ai|your assistant)"
        r"|always answer (?:me )?in|never answer|in your (?:answers|replies))\b",
        re.IGNORECASE,
    ),
    "system": re.compile(
        r"\b((?:this|the|my) (?:machine|laptop|desktop|server|box|workstation) (?:has|runs|is)"
        r"|(?:ubuntu|debian|fedora|macos|windows|arch linux) \d*|gb of (?:ram|memory)"
        r"|(?:is|was) installed (?:with|via|from|under))",
        re.IGNORECASE,
    ),
}


def base_of(summary: str) -> str | None:
    """The base topic a claim belongs to by what it says, or None."""
    return next((name for name, rule in RULES.items() if rule.search(summary)), None)
