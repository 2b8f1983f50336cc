"""Members that went: a claim that was superseded or repeats another, a message that was taken back.

A sealed group keeps its place and its other members, and is stale, as are the groups above it, and nothing else:
growing the pyramid writes them again. What comes back later joins the next group, like anything late.
"""

from collections.abc import Sequence
from dataclasses import replace

from slowwave.text.pyramid import Group, Member, Pyramid, compute_span, make_member


def mend(pyramid: Pyramid, members: Sequence[Member], scope: str, scope_id: str) -> int:
    """Take what is no longer there out of the sealed groups; return how many lost something.

    Args:
        pyramid: what is sealed; changed in place.
        members: all live members of tier 0, in order of time.
        scope: "topic" or "session".
        scope_id: its id.

    Two groups of one place, left by a run that was killed between writing the new and removing the old, become one.
    """
    lost = 0
    level, renamed = list(members), dict[str, str]()
    # Tier by tier, since a group that is shortened or gone changes the members of the one above.
    for tier in sorted(pyramid.tiers):
        by_id = {member.id: member for member in level}
        groups: list[Group] = []
        places: dict[str, int] = {}
        pyramid.highest[tier] = pyramid.find_next_place(tier) - 1
        for group in pyramid.tiers[tier]:
            left = tuple(dict.fromkeys(m for old in group.members if (m := renamed.get(old, old)) in by_id))
            lost += left != group.members
            if not left:
                continue
            whole = group
            if left != group.members:  # in its own place, with the words it had
                first, last = compute_span([by_id[m] for m in left])
                whole = replace(group, members=left, first_at=first, last_at=last, stale=True)
            seqs = [(at, set(twin.members)) for at, twin in enumerate(groups) if twin.seq == whole.seq]
            position = next((at for at, ids in seqs if not ids.isdisjoint(whole.members)), len(groups))
            if position == len(groups):
                groups.append(whole)
            elif (whole.stale, -len(left)) < (groups[position].stale, -len(groups[position].members)):
                groups[position] = whole
            places[group.compute_id(scope, scope_id)] = position
        pyramid.tiers[tier] = groups
        level = [make_member(group, group.compute_id(scope, scope_id)) for group in groups]
        renamed = {old: level[position].id for old, position in places.items()}
    return lost
