"""Members that went: a claim that was superseded or repeats another, a message that was taken back.

A sealed group keeps its place and its other members; its summary is made again, and so are the groups above it, and
nothing else. What comes back later joins the next group, like anything late.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from slowwave.text.pyramid import Group, Member, Pyramid, Shape, make_member, select_preceding_members, summarize_group


@dataclass(frozen=True)
class MendResult:
    """What mending changed."""

    made: list[Group]
    """Groups with fewer members or other members' summaries under them, lowest tier first."""
    gone: list[str]
    """Ids under which they stood before, and ids of groups that lost every member."""


def mend(pyramid: Pyramid, members: Sequence[Member], shape: Shape, scope: str, scope_id: str) -> MendResult:
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
    before_ids = {g.compute_id(scope, scope_id) for groups in pyramid.tiers.values() for g in groups}
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
                whole = _rebuild_group(group, [by_id[m] for m in kept], level, shape)
                made.append(whole)
            places[group.seq, kept] = whole
            now[group.compute_id(scope, scope_id)] = whole.compute_id(scope, scope_id)
        pyramid.tiers[tier] = list(places.values())
        level = [make_member(group, group.compute_id(scope, scope_id)) for group in pyramid.tiers[tier]]
        renamed = now
    after = {g.compute_id(scope, scope_id) for groups in pyramid.tiers.values() for g in groups}
    return MendResult([g for g in made if g.compute_id(scope, scope_id) in after], sorted(before_ids - after))


def _rebuild_group(group: Group, kept: list[Member], level: Sequence[Member], shape: Shape) -> Group:
    """Return the group over the members that are left, in its own place."""
    return summarize_group(
        kept, group.tier, group.seq, select_preceding_members(level, kept[0], shape, group.tier), shape.max_words
    )
