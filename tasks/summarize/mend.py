"""Members that went: a claim that was superseded or repeats another, a message that was taken back.

A sealed group keeps its place and its other members; its summary is made again, and so are the groups above it, and
nothing else. What comes back later joins the next group, like anything late.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from slowwave.text.pyramid import Group, Member, Pyramid, Shape, as_member, before, summarised


@dataclass(frozen=True)
class Mended:
    """What mending changed."""

    made: list[Group]
    """Groups with fewer members or other members' summaries under them, lowest tier first."""
    gone: list[str]
    """Ids under which they stood before, and ids of groups that lost every member."""


def mend(pyramid: Pyramid, members: Sequence[Member], shape: Shape, scope: str, scope_id: str) -> Mended:
    """Take what is no longer there out of the sealed groups.

    Args:
        pyramid: what is sealed; changed in place.
        members: all live members of tier 0, in order of time.
        shape: the groups' sizes.
        scope: "topic" or "session".
        scope_id: its id.

    Two groups of one place, left by a run that was killed between writing the new and removing the old, become one.
    """
    made: list[Group] = []
    before_ids = {g.id(scope, scope_id) for groups in pyramid.tiers.values() for g in groups}
    level, renamed = list(members), dict[str, str]()
    for tier in sorted(pyramid.tiers):
        by_id = {member.id: member for member in level}
        places: dict[tuple[int, tuple[str, ...]], Group] = {}
        now: dict[str, str] = {}
        for group in pyramid.tiers[tier]:
            kept = tuple(dict.fromkeys(m for old in group.members if (m := renamed.get(old, old)) in by_id))
            if not kept:
                continue
            whole = places.get((group.seq, kept)) or (group if kept == group.members else None)
            if whole is None:
                whole = _again(group, [by_id[m] for m in kept], level, shape)
                made.append(whole)
            places[group.seq, kept] = whole
            now[group.id(scope, scope_id)] = whole.id(scope, scope_id)
        pyramid.tiers[tier] = list(places.values())
        level = [as_member(group, group.id(scope, scope_id)) for group in pyramid.tiers[tier]]
        renamed = now
    after = {g.id(scope, scope_id) for groups in pyramid.tiers.values() for g in groups}
    return Mended([g for g in made if g.id(scope, scope_id) in after], sorted(before_ids - after))


def _again(group: Group, kept: list[Member], level: Sequence[Member], shape: Shape) -> Group:
    """The group over the members that are left, in its own place."""
    return summarised(kept, group.tier, group.seq, before(level, kept[0], shape, group.tier), shape.max_words)
