"""What is known of the world: which things are of one kind ("V60", "AeroPress"), and which phrases tell one relation.

"Tickets are rendered with Typst" changes "We render them with WeasyPrint" since either is a way to make PDFs, which no
vector of a small model knows. Two lists beside this file, a line each (`name: member, …`): `kinds.txt`, of which
somebody mostly has one at a time, and `relations.txt`, in what words one and the same thing is told ("looks after", "is
responsible for"). They are signs among many (`tasks.amending.likely`), so that a list may be broad; none decides alone.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tasks.deduping.normalise import stem

WORD = re.compile(r"[^\W_][\w+#.'-]*[\w+#]|[^\W_]")
MOST = 3
"""Things that are counted; more say no more."""
LEAST_WORTH = 0.3
"""Of a claim's relations together, so that a common one alone makes no whole."""

Member = tuple[str, ...]
"""Stems of its words, in order."""


@dataclass(frozen=True)
class Lexicon:
    """Members of named lists, to be found in a text."""

    lists: Mapping[Member, frozenset[str]]
    """Member -> names of the lists that have it."""
    sizes: Mapping[str, int]
    longest: int
    """Words of the longest member."""

    @classmethod
    def of(cls, lines: Iterable[str]) -> "Lexicon":
        """From lines `name: member, member`; an empty one says nothing."""
        lists: dict[Member, set[str]] = {}
        for line in lines:
            name, _, told = line.partition(":")
            for member in (stems(one) for one in told.split(",")):
                if member:
                    lists.setdefault(member, set()).add(name)
        sizes = Counter(name for names in lists.values() for name in names)
        frozen = {member: frozenset(names) for member, names in lists.items()}
        return cls(frozen, sizes, max(map(len, frozen), default=0))

    def named_in(self, text: str) -> dict[Member, frozenset[str]]:
        """The members that a text names, with their lists; where two overlap, the first, and of these the longest."""
        said, found, at = stems(text), dict[Member, frozenset[str]](), 0
        while at < len(said):
            longest = range(min(self.longest, len(said) - at), 0, -1)
            member = next((said[at : at + n] for n in longest if said[at : at + n] in self.lists), None)
            if member is not None:
                found[member] = self.lists[member]
            at += len(member or " ")
        return found


@cache
def kinds() -> Lexicon:
    """The things that ship."""
    return _shipped("kinds.txt")


@cache
def relations() -> Lexicon:
    """The phrases that ship."""
    return _shipped("relations.txt")


def _shipped(name: str) -> Lexicon:
    return Lexicon.of(files("tasks.amending").joinpath(name).read_text("utf-8").splitlines())


def stems(text: str) -> Member:
    """Its words, without case and ending."""
    return tuple(stem(word) for word in WORD.findall(text.casefold().replace("’", "'")))


class KnownKinds:
    """What the claims name, read once; a kind or a relation counts the more, the fewer claims have it."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.words = [frozenset(stems(text)) for text in texts]
        self.named = [kinds().named_in(text) for text in texts]
        self.told = [_lists(relations().named_in(text)) for text in texts]
        self.worth = _Worth(_lists(named) for named in self.named)
        self.worth_told = _Worth(self.told)

    def traits(self, old: int, new: int) -> dict[str, float]:
        """Name -> 0 or 1, a share or a worth from 0 to 1, or a count up to MOST; of two claims by their place."""
        gone, come = self._without(old, new), self._without(new, old)
        ours, theirs = _lists(gone), _lists(come)
        both, kept = ours & theirs, self.named[old].keys() & self.named[new].keys()
        of_kept = {kind for member in kept for kind in self.named[old][member]}
        changed, comes = _having(gone, theirs), _having(come, ours)
        told, later = self.told[old], self.told[new]
        rarest, rarest_told = self.worth.most(both), self.worth_told.most(told & later)
        least_told = min(self.worth_told.total(told), self.worth_told.total(later))
        return {
            "another of a kind": float(bool(both)),
            "another of a kind, none kept": float(bool(both - of_kept)),
            "rarest kind": rarest,
            "narrowest kind": max((kinds().sizes[kind] ** -0.5 for kind in both), default=0.0),
            "of a kind gone": min(changed, MOST),
            "of a kind come": min(comes, MOST),
            "share of a kind gone": changed / max(1, len(gone)),
            "share of a kind come": comes / max(1, len(come)),
            "of a kind kept": min(len(kept), MOST),
            "of a kind": float(bool(gone)),
            "none of its kind": float(bool(gone) and not both),
            "one relation": float(bool(told & later)),
            "rarest relation": rarest_told,
            "relations": self.worth_told.total(told & later),
            "share of relations": self.worth_told.total(told & later) / max(LEAST_WORTH, least_told),
            "rarest kind and relation": rarest * rarest_told,
            "a kind and a relation": float(bool(both) and bool(told & later)),
        }

    def _without(self, one: int, other: int) -> dict[Member, frozenset[str]]:
        """What a claim names and the other, as far as its words go, does not."""
        return {member: of for member, of in self.named[one].items() if not self.words[other].issuperset(member)}


class _Worth:
    """How much it says that two claims share a list: 0, where all have it, to nearly 1."""

    def __init__(self, claims: Iterable[Set[str]]) -> None:
        having = [frozenset(one) for one in claims]
        self.claims = len(having)
        self.counts = Counter(name for one in having for name in one)

    def of(self, name: str) -> float:
        return math.log(1 + self.claims / self.counts[name]) / math.log(1 + self.claims)

    def most(self, names: Set[str]) -> float:
        return max(map(self.of, names), default=0.0)

    def total(self, names: Set[str]) -> float:
        """In an order of their own: the sum is the same to the last bit."""
        return sum(map(self.of, sorted(names)))


def _lists(named: Mapping[Member, frozenset[str]]) -> frozenset[str]:
    return frozenset(name for names in named.values() for name in names)


def _having(named: Mapping[Member, frozenset[str]], some: Set[str]) -> int:
    return sum(not names.isdisjoint(some) for names in named.values())
