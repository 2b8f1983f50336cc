"""Tell whether a session is about code, which files a sentence names, and which proposals are rejected."""

import re
from collections.abc import Iterable
from functools import lru_cache

from slowwave.schemas.rows import MessageRow
from slowwave.text.words import compile_word_pattern

CODING_SOURCES = frozenset({"claude-code", "codex", "pi", "cursor"})
CODE_TOOLS = re.compile(
    r"bash|shell|exec|edit|write|read|grep|glob|patch|terminal", re.I
)
CODE_MARK = re.compile(
    r"`[^`\n]+`|```|\b[\w-]{1,80}/[\w./-]{1,120}\.\w+|\b\w+\.(?:py|ts|tsx|js|rs|go|java|rb|c|h|cpp|sh|sql|md|toml|"
    r"json|"
    r"ya?ml)\b|\b[a-z]\w*(?:-\w+)*-\w*\d\w*|\b\w+\(\)|\b[a-z]+_[a-z_]+\b|\b[a-z]+[A-Z]\w+|--\w[\w-]+|\bv?\d+\.\d+(?:\.\d+)?\b|#\w{6}\b"
)
PATH = re.compile(
    r"(?<![\w/.@:-])(?:~|\.{1,2}|[A-Za-z]:|[\w.@-]{1,80})?(?:[/\\][\w.@+-]{1,80}){1,20}\.\w{1,8}\b"
    r"|(?<![\w/.@-])[\w-]{1,80}(?:\.[\w-]{1,40}){0,4}\.(?:py|pyi|ipynb|tsx?|jsx?|mjs|cjs|rs|go|java|kt|rb|php|cs|c|"
    r"h|cc|cpp|hpp|"
    r"swift|sh|bash|sql|md|rst|txt|"
    r"toml|jsonl?|ya?ml|ini|cfg|conf|env|lock|html|css|scss|vue|svelte|proto|tf|xml|csv|parquet)\b(?![\w/])"
    r"|\b(?:Dockerfile|Makefile|Justfile|Procfile)\b"
)
TECHNICAL = compile_word_pattern(
    r"api|backend|services?|micro-?services?|css|html|dashboard|ui|backups?|on-?call|git|github|webhooks?|linux|"
    r"frontend|database|db|sql|postgres\w*|mysql|sqlite|redis|kafka|docker|kubernetes|k8s|deploy\w*|"
    r"server|port|config\w*|"
    r"repo\w*|branch|commit\w*|merge|pull request|pr|ci|pipeline|build|compil\w+|test suite|unit tests?|pytest|"
    r"lint\w*|typescript|python|"
    r"javascript|rust|golang|node|npm|react|django|fastapi|endpoint|schema|migration|query|queries|cache|caching|"
    r"function|class|module|"
    r"library|framework|package|dependency|dependencies|refactor\w*|bug|debug\w*|stack trace|exception|json|yaml|"
    r"http|auth|token|env|"
    r"variable|cron|queue|worker|log(?:s|ging)|timeout|retry|retries|client|sdk|cli|terminal|codebase|staging|"
    r"production"
)
GLANCE = 4000
"""Characters of a message that are read to tell what its session is about."""
QUOTED_CODE = re.compile(r"`[^`\n]+`|```")
MARKED = 6
"""Weight of marked code in a message; technical words add 3. Nobody marks code in everyday talk."""
REFUSAL = re.compile(
    r"^\W*(?:no+\b(?! (?:problem|worries|idea))|nope|nah|don['’]?t (?:do|use|want|like|add|change|touch)\b|"
    r"stop\b|wrong\b|not (?:that|like|what)|"
    r"(?:please )?(?:undo|revert)\b|i (?:undid|reverted)|"
    r"rather not|actually,? (?:no|let|use|don)|wait,? no)|\b(?:i undid|undo (?:that|it|your)|revert (?:that|it|"
    r"your)|you can undo|that['’]?s (?:wrong|not what))\b",
    re.I,
)
PROPOSAL = compile_word_pattern(
    r"i['’]?(?:ll| will|d| would| can| suggest| recommend| propose)|let['’]?s|we (?:could|can|should|['’]ll|will)|"
    r"recommend|suggest|propose|best (?:solution|option)|option \d"
)


@lru_cache(maxsize=4)  # it is called with one message's text for each of its claims
def extract_file_paths(text: str) -> tuple[str, ...]:
    """Return the distinct paths and file names in `text`, in order."""
    return tuple(dict.fromkeys(path.strip("`'\"") for path in PATH.findall(text)))


def is_coding(rows: Iterable[MessageRow]) -> bool:
    """Return True if a session is about code.

    It is if its source is a coding agent or it calls a coding tool. Else a third of its messages must have technical
    words, or a ninth marked code, or a mixture.
    """
    texts = technical = marked = 0
    for row in rows:
        names = (
            block["name"] or ""
            for block in row["blocks"] or ()
            if block["type"] == "tool_call"
        )
        if row["source"] in CODING_SOURCES or any(map(CODE_TOOLS.search, names)):
            return True
        if text := row["text"][:GLANCE]:
            texts += 1
            technical += bool(CODE_MARK.search(text) or TECHNICAL.search(text))
            marked += bool(QUOTED_CODE.search(text))
    return texts > 0 and technical * 3 + marked * MARKED >= texts
