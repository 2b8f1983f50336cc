"""Remove lost members from sealed groups: a claim that was superseded or merged, a message that was taken back.

A group that lost a member keeps its place and becomes stale, as do the groups above it; other groups do not change.
A group without members is removed. A member that comes back later joins the next group, like any late member.
"""

from collections.abc import Sequence
from dataclasses import replace

from slowwave.text.pyramid import Group, Member, Pyramid, compute_span, make_member


def mend(
    pyramid: Pyramid,
    members: Sequence[Member],
    scope: str,
    scope_id: str,
) -> int:
    """Remove the members that are no longer live from the sealed groups; return how many groups changed.

    A run that was killed after it wrote new groups and before it removed the old ones leaves two groups in one place.
    Only one of them is kept.

    Args:
        pyramid: the sealed groups; changed in place.
        members: all live members of tier 0, in order of time.
        scope: "topic" or "session".
        scope_id: the id of the topic or session.
    """
    changed = 0
    level = {member.id: member for member in members}
    new_ids = dict[str, str]()
    for tier in sorted(pyramid.tiers):
        # The place of a removed group stays empty.
        pyramid.highest[tier] = pyramid.find_next_place(tier) - 1
        kept = dict[int, Group]()
        places = dict[str, int]()
        for group in pyramid.tiers[tier]:
            shorter = _shorten(group, level, new_ids)
            changed += shorter.members != group.members
            if shorter.members:
                places[group.compute_id(scope, scope_id)] = group.seq
                kept[group.seq] = _choose(kept.get(group.seq), shorter)
        pyramid.tiers[tier] = list(kept.values())
        # A shorter group has another id, and so the groups above it change too.
        ids = {seq: group.compute_id(scope, scope_id) for seq, group in kept.items()}
        new_ids = {old: ids[seq] for old, seq in places.items()}
        level = {ids[seq]: make_member(group, ids[seq]) for seq, group in kept.items()}
    return changed


def _shorten(group: Group, level: dict[str, Member], new_ids: dict[str, str]) -> Group:
    """Return a group with its live members under their new ids; it is stale if that changes it."""
    renamed = [new_ids.get(member, member) for member in group.members]
    live = tuple(dict.fromkeys(member for member in renamed if member in level))
    if live == group.members or not live:
        return replace(group, members=live)
    first_at, last_at = compute_span([level[member] for member in live])
    return replace(
        group,
        members=live,
        first_at=first_at,
        last_at=last_at,
        stale=True,
    )


def _choose(first: Group | None, second: Group) -> Group:
    """Return the better of two groups of one place: one that is not stale, else the one with more members."""
    if first is None:
        return second
    return min(first, second, key=lambda group: (group.stale, -len(group.members)))
