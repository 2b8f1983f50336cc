"""What is known of the world: which things are of one kind ("V60", "AeroPress"), and which phrases tell one relation.

"Tickets are rendered with Typst" changes "We render them with WeasyPrint" since either is a way to make PDFs, which no
vector of a small model knows. Two lists beside this file, a line each (`name: member, …`): `kinds.txt`, of which
somebody mostly has one at a time, and `relations.txt`, in what words one and the same thing is told ("looks after", "is
responsible for"). They are signs among many (`slowwave.tasks.supersede.model`), so that a list may be broad; none decides alone.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from slowwave.tasks.dedupe.normalise import stem

WORD = re.compile(r"[^\W_][\w+#.'-]*[\w+#]|[^\W_]")
SHORTEST = 4
"""Letters from which an "s" at the end is taken for a plural's."""
MOST = 3
"""Things that are counted; more say no more."""
HOLDERS = {
    name: holder
    for holder, names in {
        "person": ("first names female", "first names male", "people around me"),
        "place": ("rooms", "room kind", "home kinds"),
        "environment": ("environment name",),
    }.items()
    for name in names
}
"""Kinds of what has things of its own: staging another database than production, Ada another pet than Ben."""

Member = tuple[str, ...]
"""Forms of its words, in order."""
Form = Callable[[str], str]
"""A lower-case word -> what it is compared by."""


@dataclass(frozen=True)
class Lexicon:
    """Members of named lists, to be found in a text."""

    form: Form
    lists: Mapping[Member, frozenset[str]]
    """Member -> names of the lists that have it."""
    sizes: Mapping[str, int]
    longest: int
    """Words of the longest member."""

    @classmethod
    def of(cls, lines: Iterable[str], form: Form) -> "Lexicon":
        """From lines `name: member, member`; raises ValueError for a line without a name or without members."""
        lists: dict[Member, set[str]] = {}
        for line in lines:
            name, _, told = line.partition(":")
            members = {forms(one, form) for one in told.split(",")} - {()}
            if not name or not members:
                raise ValueError(f"a line `name: member, member` is needed, not {line!r}")
            for member in members:
                lists.setdefault(member, set()).add(name)
        sizes = Counter(name for names in lists.values() for name in names)
        frozen = {member: frozenset(names) for member, names in lists.items()}
        return cls(form, frozen, sizes, max(map(len, frozen), default=0))

    def named_in(self, text: str) -> dict[Member, frozenset[str]]:
        """The members that a text names, with their lists; where two overlap, the first, and of these the longest."""
        said, found, at = forms(text, self.form), dict[Member, frozenset[str]](), 0
        while at < len(said):
            longest = range(min(self.longest, len(said) - at), 0, -1)
            member = next((said[at : at + n] for n in longest if said[at : at + n] in self.lists), None)
            if member is not None:
                found[member] = self.lists[member]
            at += len(member) if member is not None else 1
        return found


@cache
def kinds() -> Lexicon:
    """The things that ship; names, so that no stem makes one of another ("Withings", "with")."""
    return Lexicon.of(_shipped("kinds.txt"), singular)


@cache
def relations() -> Lexicon:
    """The phrases that ship, by the stems of their words."""
    return Lexicon.of(_shipped("relations.txt"), stem)


def _shipped(name: str) -> list[str]:
    return files("slowwave.tasks.supersede").joinpath(name).read_text("utf-8").splitlines()


def forms(text: str, form: Form) -> Member:
    """Its words without case and accents, each as it is compared."""
    plain = text.casefold()
    if not plain.isascii():
        whole = unicodedata.normalize("NFKD", plain.replace("’", "'"))
        plain = "".join(c for c in whole if not unicodedata.combining(c))
    return tuple(map(form, WORD.findall(plain)))


def singular(word: str) -> str:
    """A lower-case name without the ending of a plural or a possessive."""
    word = word.removesuffix("'s")
    if len(word) < SHORTEST or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return f"{word[:-3]}y" if word.endswith("ies") and len(word) > SHORTEST else word[:-1]


class KnownKinds:
    """What the claims name, read once; a kind or a relation counts the more, the fewer claims have it."""

    def __init__(self, texts: Sequence[str], kinds: Lexicon, relations: Lexicon) -> None:
        self.sizes = kinds.sizes
        self.words = [frozenset(forms(text, kinds.form)) for text in texts]
        self.named = [kinds.named_in(text) for text in texts]
        self.told = [_lists(relations.named_in(text)) for text in texts]
        self.worth = _Worth(_lists(named) for named in self.named)
        self.worth_told = _Worth(self.told)

    def traits(self, old: int, new: int) -> dict[str, float]:
        """Name -> 0 or 1, a worth from 0 to 1, or a count up to MOST; of two claims by their place."""
        gone, come = self._without(old, new), self._without(new, old)
        both, told = gone & come, self.told[old] & self.told[new]
        kind, relation = self.worth.most(both), self.worth_told.most(told)
        return {
            "another of a kind": float(bool(both)),
            "rarest kind": kind,
            "narrowest kind": max((self.sizes[name] ** -0.5 for name in both), default=0.0),
            "of a kind kept": min(len(self.named[old].keys() & self.named[new].keys()), MOST),
            "another holder": float(not _holders(gone).isdisjoint(_holders(come))),
            "none of its kind": float(bool(gone) and not both),
            "rarest relation": relation,
            "rarest kind and relation": kind * relation,
            "a kind and a relation": float(bool(both and told)),
        }

    def _without(self, one: int, other: int) -> frozenset[str]:
        """The kinds of what a claim names and the other does not, in whatever order it has the words."""
        return _lists({m: of for m, of in self.named[one].items() if not self.words[other].issuperset(m)})


class _Worth:
    """How much it says that two claims share a list: 0, where all have it, to nearly 1."""

    def __init__(self, claims: Iterable[Set[str]]) -> None:
        having = [frozenset(one) for one in claims]
        self.claims = len(having)
        self.counts = Counter(name for one in having for name in one)

    def most(self, names: Set[str]) -> float:
        """Of the list that the fewest claims have."""
        fewest = min((self.counts[name] for name in names), default=None)
        return 0.0 if fewest is None else math.log(1 + self.claims / fewest) / math.log(1 + self.claims)


def _holders(of: Set[str]) -> set[str]:
    return {HOLDERS[kind] for kind in of & HOLDERS.keys()}


def _lists(named: Mapping[Member, frozenset[str]]) -> frozenset[str]:
    return frozenset(name for names in named.values() for name in names)
