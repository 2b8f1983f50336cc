"""The word lists the guards stand on, from `words.toml` beside this file."""

import tomllib
from collections import defaultdict
from importlib.resources import files
from itertools import permutations

from slowwave.text.dates import MONTH_NAMES, WEEKDAYS
from slowwave.text.words import split_groups

_LISTS: dict[str, str] = tomllib.loads(files("slowwave.tasks.dedupe").joinpath("words.toml").read_text("utf-8"))


def _load_words(name: str) -> frozenset[str]:
    return frozenset(_LISTS[name].split())


RESTRICTIONS = _load_words("restrictions")
FUTURE = _load_words("future")
CHANGES = _load_words("changes")
RELATIONS = _load_words("relations")
_COLOURS, *_OTHERS = split_groups(_LISTS["alternatives"])
ALTERNATIVES = (_COLOURS, frozenset(WEEKDAYS), frozenset(MONTH_NAMES), *_OTHERS)
"""In an order that stays: the reasons in ledgers give a set by its number."""

OPPOSITE_OF: defaultdict[str, set[str]] = defaultdict(set)
for _pair in _LISTS["opposites"].replace("|", "\n").splitlines():
    for _left, _right in permutations(_pair.split()):
        OPPOSITE_OF[_left].add(_right)
SETS_OF: defaultdict[str, set[int]] = defaultdict(set)
for _number, _members in enumerate(ALTERNATIVES):
    for _word in _members:
        SETS_OF[_word].add(_number)
