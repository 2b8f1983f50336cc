"""What is known of the world: which things are of one kind ("V60", "AeroPress"), and which phrases tell one relation.

"Tickets are rendered with Typst" changes "We render them with WeasyPrint" since either is a way to make PDFs, which no
vector of a small model knows. Two lists beside this file, a line each (`name: member, …`): `kinds.txt`, of which
somebody mostly has one at a time, and `relations.txt`, in what words one and the same thing is told ("looks after", "is
responsible for"). They are signs among many (`slowwave.tasks.supersede.model`), so that a list may be broad; none
decides alone.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from slowwave.text.words import compute_smooth_idf, singularise, stem

WORD = re.compile(r"[^\W_][\w+#.'-]*[\w+#]|[^\W_]")
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
    def from_lines(cls, lines: Iterable[str], form: Form) -> "Lexicon":
        """From lines `name: member, member`; raises ValueError for a line without a name or without members."""
        lists: dict[Member, set[str]] = {}
        for line in lines:
            name, _, told = line.partition(":")
            members = {normalise_words(one, form) for one in told.split(",")} - {()}
            if not name or not members:
                raise ValueError(f"a line `name: member, member` is needed, not {line!r}")
            for member in members:
                lists.setdefault(member, set()).add(name)
        sizes = Counter(name for names in lists.values() for name in names)
        frozen = {member: frozenset(names) for member, names in lists.items()}
        return cls(form, frozen, sizes, max(map(len, frozen), default=0))

    def find_members(self, text: str) -> dict[Member, frozenset[str]]:
        """Return the members that a text names, with their lists.

        Where two overlap, the first, and of these the longest.
        """
        said, found, at = normalise_words(text, self.form), dict[Member, frozenset[str]](), 0
        while at < len(said):
            longest = range(min(self.longest, len(said) - at), 0, -1)
            member = next((said[at : at + n] for n in longest if said[at : at + n] in self.lists), None)
            if member is not None:
                found[member] = self.lists[member]
            at += len(member) if member is not None else 1
        return found


@cache
def load_kinds() -> Lexicon:
    """Return the things that ship; names, so that no stem makes one of another ("Withings", "with")."""
    return Lexicon.from_lines(_read_list_lines("kinds.txt"), singularise)


@cache
def load_relations() -> Lexicon:
    """Return the phrases that ship, by the stems of their words."""
    return Lexicon.from_lines(_read_list_lines("relations.txt"), stem)


def _read_list_lines(name: str) -> list[str]:
    return files("slowwave.tasks.supersede").joinpath(name).read_text("utf-8").splitlines()


def normalise_words(text: str, form: Form) -> Member:
    """Return its words without case and accents, each as it is compared."""
    plain = text.casefold()
    if not plain.isascii():
        whole = unicodedata.normalize("NFKD", plain.replace("’", "'"))
        plain = "".join(c for c in whole if not unicodedata.combining(c))
    return tuple(map(form, WORD.findall(plain)))


class KindIndex:
    """What the claims name, read once; a kind or a relation counts the more, the fewer claims have it."""

    def __init__(self, texts: Sequence[str], kinds: Lexicon, relations: Lexicon) -> None:
        self.sizes = kinds.sizes
        self.words = [frozenset(normalise_words(text, kinds.form)) for text in texts]
        self.named = [kinds.find_members(text) for text in texts]
        self.told = [_collect_lists(relations.find_members(text)) for text in texts]
        self.worth = _ListIdf(_collect_lists(named) for named in self.named)
        self.worth_told = _ListIdf(self.told)

    def compute_features(self, old: int, new: int) -> dict[str, float]:
        """Return name -> 0 or 1, a worth from 0 to 1, or a count up to MOST; of two claims by their place."""
        gone, come = self._find_unshared_kinds(old, new), self._find_unshared_kinds(new, old)
        both, told = gone & come, self.told[old] & self.told[new]
        kind, relation = self.worth.compute_max(both), self.worth_told.compute_max(told)
        return {
            "another of a kind": float(bool(both)),
            "rarest kind": kind,
            "narrowest kind": max((self.sizes[name] ** -0.5 for name in both), default=0.0),
            "of a kind kept": min(len(self.named[old].keys() & self.named[new].keys()), MOST),
            "another holder": float(not _find_holders(gone).isdisjoint(_find_holders(come))),
            "none of its kind": float(bool(gone) and not both),
            "rarest relation": relation,
            "rarest kind and relation": kind * relation,
            "a kind and a relation": float(bool(both and told)),
        }

    def _find_unshared_kinds(self, one: int, other: int) -> frozenset[str]:
        """Return the kinds of what a claim names and the other does not, in whatever order it has the words."""
        return _collect_lists({m: of for m, of in self.named[one].items() if not self.words[other].issuperset(m)})


class _ListIdf:
    """How much it says that two claims share a list: 0, where all have it, to nearly 1."""

    def __init__(self, claims: Iterable[Set[str]]) -> None:
        having = [frozenset(one) for one in claims]
        self.claims = len(having)
        self.counts = Counter(name for one in having for name in one)

    def compute_max(self, names: Set[str]) -> float:
        """Return the highest value, of the list that the fewest claims have."""
        fewest = min((self.counts[name] for name in names), default=None)
        return 0.0 if fewest is None else compute_smooth_idf(fewest, self.claims) / math.log(1 + self.claims)


def _find_holders(of: Set[str]) -> set[str]:
    return {HOLDERS[kind] for kind in of & HOLDERS.keys()}


def _collect_lists(named: Mapping[Member, frozenset[str]]) -> frozenset[str]:
    return frozenset(name for names in named.values() for name in names)
