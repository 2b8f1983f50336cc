"""Whom and what a query names that was not named when it was talked about: its speakers, and the workspace.

"Which linter does galeforce use?" is answered by "linting is flake8", said in a session of that workspace. The encoder
knows no such name, and takes the query for being about something else.
"""

import re

from slowwave.recall.query import Query, build_query
from slowwave.recall.release.passages import Layout
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.lexical import ROWS_A_WORD, search_words
from slowwave.recall.retrieve.pools import POOLS
from slowwave.schemas.tables import PASSAGES
from slowwave.text.words import TERM, extract_content_words

SELDOM = 0.05
"""Share of a workspace's passages that name it up to which its name tells where, not what, is talked about."""


def strip_names(view: View, query: Query, *, full_text: bool) -> str:
    """Return what of a query is compared with what was said: its text without the names of speakers and workspaces.

    Args:
        full_text: whether the index of full text of the passages may be asked; else workspaces' names stay.
    """
    if not view.count(PASSAGES):
        return query.text
    layout = Layout.from_view(view)
    text = layout.strip_speakers(query.text)
    lowered = text.lower()
    for place, name in enumerate(layout.folders if full_text else ()):
        words = TERM.findall(name.lower())
        if words and words[0] in lowered and _is_rarely_named(view, layout, place, words):
            text = _remove_name(text, words)
    return text


def _is_rarely_named(view: View, layout: Layout, place: int, words: list[str]) -> bool:
    """Return whether hardly any passage of a workspace has its name."""
    here = layout.workspace == place
    anything = build_query(" ".join(words), 1, "message", None, None, None, None)
    said = [positions for positions, _ in search_words(view, POOLS["message"], anything, layout)]
    if any(len(positions) >= ROWS_A_WORD for positions in said):  # said too often for all to be looked up
        return False
    return min((int(here[positions].sum()) for positions in said), default=0) <= SELDOM * int(here.sum())


def _remove_name(text: str, words: list[str]) -> str:
    """Return a text less a name; as it was where nothing telling is left."""
    name = r"[\W_]+".join(map(re.escape, words))
    rest = " ".join(re.sub(rf"(?<!\w){name}(?!\w)(?:['’]s\b)?", " ", text, flags=re.I).split())
    return rest if extract_content_words(rest) else text
