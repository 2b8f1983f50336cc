"""The word lists the guards stand on, from `words.toml` beside this file."""

import tomllib
from importlib.resources import files

from slowwave.text.dates import MONTH_NAMES, WEEKDAYS
from slowwave.text.words import split_groups

_LISTS: dict[str, str] = tomllib.loads(files("slowwave.tasks.dedupe").joinpath("words.toml").read_text("utf-8"))


def _load_words(name: str) -> frozenset[str]:
    return frozenset(_LISTS[name].split())


RESTRICTIONS = _load_words("restrictions")
FUTURE = _load_words("future")
CHANGES = _load_words("changes")
RELATIONS = _load_words("relations")
OPPOSITES = tuple(
    (pair.split()[0], pair.split()[1])
    for line in _LISTS["opposites"].splitlines()
    for pair in line.split("|")
    if pair.strip()
)
_COLOURS, *_OTHERS = split_groups(_LISTS["alternatives"])
ALTERNATIVES = (_COLOURS, frozenset(WEEKDAYS), frozenset(MONTH_NAMES), *_OTHERS)
"""In an order that stays: the reasons in ledgers give a set by its number."""

OPPOSITE_OF: dict[str, frozenset[str]] = {}
for _left, _right in OPPOSITES:
    OPPOSITE_OF[_left] = OPPOSITE_OF.get(_left, frozenset()) | {_right}
    OPPOSITE_OF[_right] = OPPOSITE_OF.get(_right, frozenset()) | {_left}
SETS_OF: dict[str, frozenset[int]] = {}
for _number, _members in enumerate(ALTERNATIVES):
    for _word in _members:
        SETS_OF[_word] = SETS_OF.get(_word, frozenset()) | {_number}
