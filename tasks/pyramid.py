"""The pyramid: groups of members, groups of groups, over topics and over sessions, by one algorithm.

A group is sealed as soon as it is full and never changes its members afterwards: what comes late joins the next
group. So a night's work is in proportion to what is new, and a summary once cited stays what it was.
Sessions end in one master summary over what no higher group holds, made again whenever the session has grown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from schemas.ids import content_id
from tasks.summarise import Part, extractive_summary

MASTER = -1
"""The tier of a session's master summary."""


@dataclass(frozen=True)
class Member:
    """An observation, a message or a summary of the tier below."""

    id: str
    text: str
    at: datetime | None = None
    last_at: datetime | None = None
    speaker: str | None = None


@dataclass(frozen=True)
class Shape:
    """Sizes of a pyramid's groups."""

    first: int
    """Members of a group of tier 0."""
    above: int
    """Groups under a group of every higher tier."""
    tiers: int | None = None
    """Tiers at most; None: as many as fill."""
    window: int = 0
    """Members before a group of tier 0 that are read along with it."""
    master: bool = False
    max_words: int = 60


@dataclass(frozen=True)
class Group:
    """One group and its summary."""

    tier: int
    seq: int
    members: tuple[str, ...]
    text: str
    first_at: datetime | None
    last_at: datetime | None
    sealed: bool = True

    def id(self, scope: str, scope_id: str) -> str:
        """A sealed group's id is made of its members; the master's is the session's, since its members change."""
        what = self.member_hash if self.sealed else "master"
        return content_id("summary", scope, scope_id, str(self.tier), what)

    @property
    def member_hash(self) -> str:
        """Hash of the members in order."""
        return content_id(*self.members)


@dataclass
class Pyramid:
    """What is already sealed over one topic or session, by tier, in order of sealing."""

    tiers: dict[int, list[Group]] = field(default_factory=dict)

    def covered(self, tier: int) -> set[str]:
        """Members that some group of this tier holds."""
        return {m for group in self.tiers.get(tier, []) for m in group.members}


def seal(members: Sequence[Member], covered: set[str], size: int) -> Iterator[list[Member]]:
    """Full groups of the members that no sealed group holds, in the order given."""
    free = [m for m in members if m.id not in covered]
    for start in range(0, len(free) - size + 1, size):
        yield free[start : start + size]


def grow(pyramid: Pyramid, members: Sequence[Member], shape: Shape, scope: str, scope_id: str) -> list[Group]:
    """The groups that the members complete beyond what is sealed, lowest tier first; the master last.

    Args:
        pyramid: what is sealed already; it is extended in place.
        members: all live members of tier 0, in order of time.
        shape: the groups' sizes.
        scope: "topic" or "session".
        scope_id: its id.
    """
    made: list[Group] = []
    tier, level = 0, list(members)
    while level and (shape.tiers is None or tier < shape.tiers):
        size = shape.first if tier == 0 else shape.above
        held = pyramid.tiers.setdefault(tier, [])
        for group in seal(level, pyramid.covered(tier), size):
            held.append(_summarised(group, tier, len(held), _before(level, group[0], shape, tier), shape.max_words))
            made.append(held[-1])
        level = [_as_member(group, group.id(scope, scope_id)) for group in held]
        tier += 1
    if shape.master and members:
        made.append(_master(pyramid, members, shape, scope, scope_id))
    return made


def _before(level: Sequence[Member], first: Member, shape: Shape, tier: int) -> Sequence[Member]:
    if tier or not shape.window:
        return ()
    at = next(i for i, m in enumerate(level) if m.id == first.id)
    return level[max(0, at - shape.window) : at]


def _master(pyramid: Pyramid, members: Sequence[Member], shape: Shape, scope: str, scope_id: str) -> Group:
    """One summary over the highest groups and over what is in none yet."""
    tops: list[Member] = []
    for tier in sorted(pyramid.tiers, reverse=True):
        above = pyramid.covered(tier + 1)
        groups = [_as_member(g, g.id(scope, scope_id)) for g in pyramid.tiers[tier]]
        tops += [g for g in groups if g.id not in above]
    tail = [m for m in members if m.id not in pyramid.covered(0)]
    return _summarised([*tops, *tail], MASTER, 0, (), shape.max_words, sealed=False)


def _summarised(
    group: Sequence[Member], tier: int, seq: int, context: Sequence[Member], max_words: int, *, sealed: bool = True
) -> Group:
    text = extractive_summary(_parts(group), max_words, _parts(context))
    starts = [m.at for m in group if m.at]
    ends = [end for m in group if (end := m.last_at or m.at)]
    return Group(
        tier, seq, tuple(m.id for m in group), text, min(starts, default=None), max(ends, default=None), sealed
    )


def _parts(members: Sequence[Member]) -> list[Part]:
    return [Part(m.text, m.speaker) for m in members]


def _as_member(group: Group, group_id: str) -> Member:
    return Member(group_id, group.text, group.first_at, group.last_at)


def summary_row(
    group: Group, scope: str, scope_id: str, about: Mapping[str, str | None], key: str
) -> dict[str, object]:
    """A row of SUMMARIES without its vector. `about` has the scope's title and workspace."""
    return {
        "summary_id": group.id(scope, scope_id),
        "scope": scope,
        "scope_id": scope_id,
        "tier": group.tier,
        "seq": group.seq,
        "title": about.get("title"),
        "text": group.text,
        "member_ids": list(group.members),
        "member_hash": group.member_hash,
        "sealed": group.sealed,
        "first_at": group.first_at,
        "last_at": group.last_at,
        "workspace": about.get("workspace"),
        "vector": None,
        "step_key": key,
    }
