"""The pyramid: groups of members, groups of groups, over topics and over sessions, by one algorithm.

A group is sealed as soon as it is full and takes no other members afterwards: what comes late joins the next
group. So a night's work is in proportion to what is new, and a summary once cited stays what it was.
A group that lost a member is stale, and so are those above it: they are written again in their places, those of a
topic filled up, if need be by what is left of its shortest ones; one that nobody can write as well as it was written
keeps its words until somebody can.
Sessions end in one master summary over what no higher group holds, made again whenever the session has grown.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from slowwave.schemas.ids import compute_content_id
from slowwave.text.summarise import Part, build_extractive_summary

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
    weight: int = 1
    """Its weight in the size of a group."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a pyramid's groups."""

    first: int
    """Weight of the members of a group of tier 0: how many they are, where each weighs 1."""
    above: int
    """Groups under a group of every higher tier."""
    tiers: int | None = None
    """Tiers at most; None: as many as fill."""
    window: int = 0
    """Members before a group of tier 0 that are read along with it."""
    min_groups: int = 1
    """Full groups of tier 0 that there must be before the first is made: of fewer a master tells as much."""
    master: bool = False
    small: int = 0
    """Members from which a pyramid has a summary over what there is, written when that changes; 0: none. Over groups
    it has one by `master`, or where it had one."""
    refill: bool = False
    """Whether a group that lost members is filled up again, once there are enough."""


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
    stale: bool = False
    """Whether its text was written of other members, or of other words of theirs."""

    def compute_id(self, scope: str, scope_id: str) -> str:
        """Return a sealed group's id is made of its members.

        The master's is the session's, since its members change.
        """
        return (
            compute_content_id("summary", scope, scope_id, str(self.tier), self.member_hash)
            if self.sealed
            else compute_master_id(scope_id)
        )

    @property
    def member_hash(self) -> str:
        """Hash of the members in order."""
        return compute_content_id(*self.members)


def compute_master_id(session: str) -> str:
    """Return the id of a session's master summary."""
    return compute_content_id("summary", "session", session, str(MASTER), "master")


@dataclass
class Pyramid:
    """What is already sealed over one topic or session, by tier, in order of sealing."""

    tiers: dict[int, list[Group]] = field(default_factory=dict)
    master: Group | None = None
    """A session's, as it was last written."""
    highest: dict[int, int] = field(default_factory=dict)
    """The highest place that was ever taken in a tier: no other group gets that of one that lost every member."""

    def copy(self) -> "Pyramid":
        """Return another one of the same groups: growing changes it."""
        return Pyramid({tier: list(groups) for tier, groups in self.tiers.items()}, self.master, dict(self.highest))

    def find_next_place(self, tier: int) -> int:
        """Return the `seq` of the next group of a tier."""
        places = (group.seq for group in self.tiers.get(tier, []))
        return 1 + max(self.highest.get(tier, -1), max(places, default=-1))

    def is_settled(self, topic: str, members: Iterable[str], size: int) -> bool:
        """Return whether growing a topic's groups of this size, with no summary over all, would change none.

        None lost a member, is short, stale or twice there, and in no tier what is in none fills one.
        """
        level, tier = set(members), 0
        while level or self.tiers.get(tier):
            groups, covered = self.tiers.get(tier, []), self.collect_covered_ids(tier)
            whole = all(len(g.members) >= size and not g.stale for g in groups)
            once = len({group.seq for group in groups}) == len(groups)
            if not (whole and once and covered <= level and len(level - covered) < size):
                return False
            level, tier = {group.compute_id("topic", topic) for group in groups}, tier + 1
        return not self.master

    def collect_covered_ids(self, tier: int) -> set[str]:
        """Return members that some group of this tier holds."""
        return {m for group in self.tiers.get(tier, []) for m in group.members}


def split_full_groups(members: Sequence[Member], size: int) -> Iterator[list[Member]]:
    """Yield groups of members in the order given; each is full as soon as its members weigh `size`."""
    group, weight = list[Member](), 0
    for member in members:
        group.append(member)
        weight += member.weight
        if weight >= size:
            yield group
            group, weight = [], 0


@dataclass(frozen=True)
class Draft:
    """A full group that lacks its summary."""

    scope: str
    scope_id: str
    tier: int
    seq: int
    members: tuple[Member, ...]
    context: tuple[Member, ...] = ()
    """The members before it, for understanding."""
    sealed: bool = True
    previous: Group | None = None
    """What is to be written again: it keeps its words where no text is to be had."""


@dataclass(frozen=True)
class GrowthResult:
    """The groups a pyramid was given or that were written again, lowest tier first, the master last."""

    groups: list[Group]
    complete: bool
    """False where a summary could not be had: what is left out is made when it can."""


Growth = Generator[list[Draft], Sequence[str | None], GrowthResult]
"""Yields the drafts of one tier and is sent their texts (None: not to be had now); returns what it grew."""
Writer = Callable[[list[Draft]], Sequence[str | None]]
"""A text for each draft."""


def grow(pyramid: Pyramid, members: Sequence[Member], shape: Shape, scope: str, scope_id: str) -> list[Group]:
    """Return the groups that the members complete beyond what is sealed, with extractive summaries; the master last.

    Args:
        pyramid: what is sealed already; it is extended in place.
        members: all live members of tier 0, in order of time.
        shape: the groups' sizes.
        scope: "topic" or "session".
        scope_id: its id.
    """
    growth = grow_by_tier(pyramid, members, shape, scope, scope_id)
    return grow_many([growth], lambda drafts: [summarize_draft(d, 60) for d in drafts])[0].groups


def grow_many(growths: Sequence[Growth], write: Writer) -> list[GrowthResult]:
    """Grow many pyramids in step, tier by tier, so that each call of `write` is one batch over all of them."""
    done: dict[int, GrowthResult] = {}
    waiting = _advance_growths(growths, dict.fromkeys(range(len(growths))), done)
    while waiting:
        texts = iter(write([draft for drafts in waiting.values() for draft in drafts]))
        answers = {number: [next(texts) for _ in drafts] for number, drafts in waiting.items()}
        waiting = _advance_growths(growths, answers, done)
    return [done[number] for number in range(len(growths))]


def _advance_growths(
    growths: Sequence[Growth], answers: Mapping[int, Sequence[str | None] | None], done: dict[int, GrowthResult]
) -> dict[int, list[Draft]]:
    """Return the next drafts of the growths that were answered; those at their end go to `done`."""
    waiting: dict[int, list[Draft]] = {}
    for number, texts in answers.items():
        try:
            waiting[number] = next(growths[number]) if texts is None else growths[number].send(texts)
        except StopIteration as end:
            done[number] = end.value
    return waiting


def grow_by_tier(pyramid: Pyramid, members: Sequence[Member], shape: Shape, scope: str, scope_id: str) -> Growth:
    """Yield `grow`, with the summaries written elsewhere.

    Where a new one is not to be had, nothing above it is made; a stale one stays stale then.
    """
    made: list[Group] = []
    tier, level, stale = 0, list(members), set[str]()
    renamed: dict[str, str | None] = {}
    while level and (shape.tiers is None or tier < shape.tiers):
        # groups of the tier whose members were renamed, or have become stale
        groups = pyramid.tiers.setdefault(tier, [])
        before = [group.compute_id(scope, scope_id) for group in groups]
        groups[:] = [_rename_members(group, renamed) for group in groups]
        again, new, dissolved = _draft_tier(pyramid, level, shape, scope, scope_id, tier, stale)
        # their texts, from whoever runs this: all at once, since a model answers in batches
        drafts = [*again.values(), *new]
        texts = list((yield drafts) if drafts else [])
        written = {
            place: _make_group(d, t) for (place, d), t in zip(again.items(), texts, strict=False) if t is not None
        }
        made += written.values()
        whole = len(written) == len(again)
        _replace_groups(groups, written, dissolved if whole else set())
        # what the tier above reads: this one's groups, by their new names
        now = [group.compute_id(scope, scope_id) if group.members else None for group in groups]
        groups[:] = [group for group in groups if group.members]
        renamed = {old: new for old, new in zip(before, now, strict=True) if old != new}
        had = [_make_group(d, text) for d, text in zip(new, texts[len(again) :], strict=True) if text is not None]
        if len(had) < len(new):
            return GrowthResult(made, complete=False)
        groups += had
        made += had
        pyramid.highest[tier] = pyramid.find_next_place(tier) - 1
        level = [make_member(group, group.compute_id(scope, scope_id)) for group in groups]
        stale = {group.compute_id(scope, scope_id) for group in groups if group.stale}
        tier += 1
    # one text over all that nothing stands above
    tops = _collect_top_members(pyramid, members, scope, scope_id)
    if _wants_master(pyramid, tops, shape):
        (text,) = yield [Draft(scope, scope_id, MASTER, 0, tuple(tops), sealed=False, previous=pyramid.master)]
        if text is None:
            if pyramid.master is None:
                return GrowthResult(made, complete=False)
            pyramid.master = replace(pyramid.master, stale=True)
        else:
            pyramid.master = _make_group(Draft(scope, scope_id, MASTER, 0, tuple(tops), sealed=False), text)
        made.append(pyramid.master)
    return GrowthResult(made, complete=True)


def _draft_tier(
    pyramid: Pyramid, level: Sequence[Member], shape: Shape, scope: str, scope_id: str, tier: int, below: set[str]
) -> tuple[dict[int, Draft], list[Draft], set[int]]:
    """Return a tier's groups to write again, by their places in it, its new ones, and the places of those that go once
    all of the first are written.

    Those are stale, or can be filled up. One with a member that is stale itself (ids in `below`) waits for it.
    """
    size = shape.first if tier == 0 else shape.above
    groups, by_id = pyramid.tiers[tier], {member.id: member for member in level}
    covered = pyramid.collect_covered_ids(tier)
    free = [member for member in level if member.id not in covered]
    order = {member.id: at for at, member in enumerate(level)}

    def draft(seq: int, group: Sequence[Member], previous: Group | None = None) -> Draft:
        # the members right before a group of tier 0 are read along with it
        at = order[group[0].id] if shape.window and not tier else 0
        before = tuple(level[max(0, at - shape.window) : at])
        return Draft(scope, scope_id, tier, seq, tuple(group), before, previous=previous)

    # groups that are written again: those that are stale, or get members to fill them
    again: dict[int, Draft] = {}
    ready = [position for position, group in enumerate(groups) if group.members and below.isdisjoint(group.members)]
    fills, dissolved = dict[int, list[Member]](), set[int]()
    if shape.refill:
        short = {at: [by_id[m] for m in groups[at].members] for at in ready if len(groups[at].members) < size}
        fills, dissolved, free = _share_out(short, free, size, order)
    for position in ready:
        if position not in dissolved and (groups[position].stale or position in fills):
            whole = [*(by_id[m] for m in groups[position].members), *fills.get(position, [])]
            again[position] = draft(groups[position].seq, sorted(whole, key=lambda m: order[m.id]), groups[position])
    # new ones of what is in no group yet
    full = list(split_full_groups(free, size))
    full = full if tier or groups or len(full) >= shape.min_groups else []
    return again, [draft(pyramid.find_next_place(tier) + n, group) for n, group in enumerate(full)], dissolved


def _share_out(
    short: Mapping[int, list[Member]], free: list[Member], size: int, order: Mapping[str, int]
) -> tuple[dict[int, list[Member]], set[int], list[Member]]:
    """Return the members that fill up each short group, the groups that go for it, and the members free then.

    Those that lack least are filled first, by what is free and else by the members of the shortest: at most one of a
    tier stays short.
    """
    waiting = sorted(short, key=lambda at: (-len(short[at]), at))
    fills, gone = dict[int, list[Member]](), set[int]()
    while waiting:
        lacks = size - len(short[waiting[0]])
        if lacks <= len(free):
            fills[waiting.pop(0)], free = free[:lacks], free[lacks:]
        elif len(waiting) > 1:
            gone.add(waiting[-1])
            free = sorted([*free, *short[waiting.pop()]], key=lambda m: order[m.id])
        else:
            break
    return fills, gone, free


def _replace_groups(groups: list[Group], written: Mapping[int, Group], gone: set[int]) -> None:
    """Put what was written in its places; what that took from others goes from them, what is gone has no members."""
    taken = {m for group in written.values() for m in group.members}
    for position, group in enumerate(groups):
        if position in written:
            groups[position] = written[position]
        elif position in gone or not taken.isdisjoint(group.members):
            members = () if position in gone else tuple(m for m in group.members if m not in taken)
            groups[position] = replace(group, members=members, stale=True)


def _wants_master(pyramid: Pyramid, tops: Sequence[Member], shape: Shape) -> bool:
    """Return whether a master is to be written; one that is no more is taken away."""
    if shape.master and not shape.small:
        return bool(tops)
    master, grouped = pyramid.master, any(pyramid.tiers.values())
    if not shape.small or not (master or shape.master if grouped else len(tops) >= shape.small):
        pyramid.master = None
        return False
    return master is None or master.stale or master.members != tuple(member.id for member in tops)


def _rename_members(group: Group, renamed: Mapping[str, str | None]) -> Group:
    """Return a group whose members were written again under other ids, or went: what it says of them is stale."""
    if renamed.keys().isdisjoint(group.members):
        return group
    return replace(group, members=tuple(new for m in group.members if (new := renamed.get(m, m))), stale=True)


def _collect_top_members(pyramid: Pyramid, members: Sequence[Member], scope: str, scope_id: str) -> list[Member]:
    """Return the members of a master: the highest groups, and what is in none yet."""
    tops: list[Member] = []
    for tier in sorted(pyramid.tiers, reverse=True):
        above = pyramid.collect_covered_ids(tier + 1)
        groups = [make_member(g, g.compute_id(scope, scope_id)) for g in pyramid.tiers[tier]]
        tops += [g for g in groups if g.id not in above]
    covered = pyramid.collect_covered_ids(0)
    return tops + [member for member in members if member.id not in covered]


def summarize_draft(draft: Draft, max_words: int) -> str:
    """Return a draft's summary, without a model."""
    return build_extractive_summary(_make_parts(draft.members), max_words, _make_parts(draft.context))


def _make_group(draft: Draft, text: str) -> Group:
    ids, span = tuple(m.id for m in draft.members), compute_span(draft.members)
    return Group(draft.tier, draft.seq, ids, text, *span, draft.sealed)


def _make_parts(members: Sequence[Member]) -> list[Part]:
    return [Part(m.text, m.speaker) for m in members]


def compute_span(members: Sequence[Member]) -> tuple[datetime | None, datetime | None]:
    """Return the times when the first and the last of some members were said."""
    starts = [m.at for m in members if m.at]
    ends = [end for m in members if (end := m.last_at or m.at)]
    return min(starts, default=None), max(ends, default=None)


def make_member(group: Group, group_id: str) -> Member:
    """Return a group as a member of the tier above."""
    return Member(group_id, group.text, group.first_at, group.last_at)


def build_summary_row(
    group: Group, scope: str, scope_id: str, about: Mapping[str, str | None], key: str
) -> dict[str, object]:
    """Return a row of SUMMARIES without its vector. `about` has the scope's title and workspace."""
    return {
        "summary_id": group.compute_id(scope, scope_id),
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
        "stale": group.stale,
    }
