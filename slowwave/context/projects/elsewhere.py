"""What was said of a project in another one's sessions, or outside of all: there it is named.

A person who sits in one project says of another "heron: the pictures go to port 8095". A claim outside of a project is
about it if it has the project's name as a word, and the name isn't an everyday word ("web", "notes"), nor also the name
of another project.
"""

import math
import re
from collections.abc import Collection

import pyarrow.compute as pc

from slowwave.recall.release.view import View
from slowwave.schemas.places import name_last_part
from slowwave.schemas.tables import CLAIMS
from slowwave.schemas.vocabulary import Status
from slowwave.text.rarity import weigh_word
from slowwave.text.words import split_words
from slowwave.text.workspaces import find_places

RARE = 6.0
"""Rarity of a name, all its words together, from which a speaker of it means the project: one conversation of 400 has
a word as rare.
"""


def list_rare_names(
    view: View,
    places: Collection[str],
) -> list[str]:
    """Return the names of a project that say which is meant, in lower case: the last parts of its folders' paths.

    A folder inside a checkout ("web") has no name of its own.
    """
    located = find_places(places)
    folders = [name for name in places if not located[name].folder]
    names = {name_last_part(name).casefold() for name in folders}
    shared = {
        name_last_part(name).casefold()
        for name, shown in view.project_names.items()
        if shown != name_last_part(name)
    }
    return sorted(filter(_is_rare, names - shared))


def _is_rare(
    name: str,
) -> bool:
    return math.fsum(map(weigh_word, split_words(name))) >= RARE


def build_pattern(
    names: Collection[str],
) -> re.Pattern[str] | None:
    """Return a pattern for one of some names as a word, outside of paths and longer names; None without names."""
    if not names:
        return None
    any_of = "|".join(map(re.escape, names))
    return re.compile(rf"(?<![\w/.@-])(?:{any_of})(?![\w/@-]|\.\w)", re.IGNORECASE)


def find_said_elsewhere(
    view: View,
    places: Collection[str],
) -> list[str]:
    """Return the ids of the active claims that name a project and were said outside of it.

    Args:
        places: names of the project.
    """
    names = list_rare_names(
        view,
        places,
    )
    pattern = build_pattern(names)
    if pattern is None:
        return []
    columns = ["claim_id", "summary", "workspace"]
    claims = view.read(CLAIMS, columns, pc.field("status") == Status.ACTIVE)
    any_of = "|".join(map(re.escape, names))
    # most claims are left out here: this is much cheaper than to make rows of them
    named = pc.match_substring_regex(
        claims["summary"],
        any_of,
        ignore_case=True,
    )
    return [
        row["claim_id"]
        for row in claims.filter(named).to_pylist()
        if row["workspace"] not in places and pattern.search(row["summary"])
    ]
