"""The pyramid: groups of members, and groups of groups, over topics and over sessions.

A group is sealed as soon as it is full. It takes no other members afterwards: a late member joins the next group.
So the work of a night is in proportion to what is new, and a summary that was cited stays the same.
A sealed group that lost a member is shorter and keeps its place. It and the groups above it are stale: their summaries
are written again. If no summary can be had, a stale group keeps its old one until the next attempt.
A group that lost all its members is removed.
A session also has a master summary over everything that no higher group holds. It is written again whenever the
session has grown.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import SummaryRow
from slowwave.text.summarise import Utterance, build_extractive_summary

MASTER = -1
"""The tier of a session's master summary."""


@dataclass(frozen=True)
class Member:
    """A claim, a message, or a summary of the tier below."""

    id: str
    text: str
    at: datetime | None = None
    last_at: datetime | None = None
    speaker: str | None = None
    weight: int = 1
    """How much it counts towards the size of a group."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a pyramid's groups."""

    first: int
    """Weight at which a group of tier 0 is full: a number of members if each weighs 1."""
    above: int
    """Number of groups in a group of each higher tier."""
    tiers: int | None = None
    """The highest number of tiers; None: no limit."""
    window: int = 0
    """Number of members before a group of tier 0 that its writer sees as context."""
    min_groups: int = 1
    """Number of full groups of tier 0 needed before the first is sealed: the master covers fewer as well."""
    master: bool = False
    """True if a summary over everything is written."""
    small: int = 0
    """For topics, the number of members from which a pyramid without groups has a master; the master is written only
    if its members changed. With groups, it is written if `master` is set or if there was one. 0: not a topic's."""


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
    """True if the text was written for other members, or for other texts of the members."""

    def compute_id(
        self,
        scope: str,
        scope_id: str,
    ) -> str:
        """Return the group's id: a hash of its members, or the session's id for its master."""
        if not self.sealed:
            return compute_master_id(scope_id)
        return compute_content_id(
            "summary", scope, scope_id, str(self.tier), self.member_hash
        )

    @property
    def member_hash(self) -> str:
        """Return a hash of the members in order."""
        return compute_content_id(*self.members)


def compute_master_id(session: str) -> str:
    """Return the id of a session's master summary."""
    return compute_content_id("summary", "session", session, str(MASTER), "master")


@dataclass
class Pyramid:
    """The sealed groups of one topic or session by tier, in order of sealing, and its master."""

    tiers: dict[int, list[Group]] = field(default_factory=dict)
    master: Group | None = None
    """The master as it was last written."""
    highest: dict[int, int] = field(default_factory=dict)
    """The highest `seq` ever used in each tier: a new group never takes the place of one that was removed."""

    def copy(self) -> "Pyramid":
        """Return an independent copy, since growing changes a pyramid in place."""
        tiers = {tier: list(groups) for tier, groups in self.tiers.items()}
        return Pyramid(tiers, self.master, dict(self.highest))

    def find_next_place(self, tier: int) -> int:
        """Return the `seq` of the next group of a tier."""
        used = max((group.seq for group in self.tiers.get(tier, [])), default=-1)
        return 1 + max(used, self.highest.get(tier, -1))

    def is_settled(
        self,
        topic: str,
        members: Iterable[str],
        size: int,
    ) -> bool:
        """Return True if mending and growing a topic's pyramid without a master would change nothing.

        Args:
            topic: the topic's id.
            members: ids of all live members of tier 0.
            size: the number of members of a full group.
        """
        if self.master:
            return False
        level = set(members)
        tier = 0
        while level or self.tiers.get(tier):
            if not self._is_tier_settled(tier, level, size):
                return False
            level = {
                group.compute_id("topic", topic) for group in self.tiers.get(tier, [])
            }
            tier += 1
        return True

    def _is_tier_settled(
        self,
        tier: int,
        level: set[str],
        size: int,
    ) -> bool:
        groups = self.tiers.get(tier, [])
        if any(group.stale for group in groups):
            return False
        if len({group.seq for group in groups}) < len(groups):
            return False
        covered = self.collect_covered_ids(tier)
        return covered <= level and len(level - covered) < size

    def collect_covered_ids(self, tier: int) -> set[str]:
        """Return the ids of the members that are in a group of this tier."""
        return {
            member for group in self.tiers.get(tier, []) for member in group.members
        }


def split_full_groups(members: Sequence[Member], size: int) -> Iterator[list[Member]]:
    """Yield full groups of consecutive members; a group is full as soon as its members weigh `size`."""
    group = list[Member]()
    weight = 0
    for member in members:
        group.append(member)
        weight += member.weight
        if weight >= size:
            yield group
            group = []
            weight = 0


@dataclass(frozen=True)
class Draft:
    """A group that needs a summary."""

    scope: str
    scope_id: str
    tier: int
    seq: int
    members: tuple[Member, ...]
    context: tuple[Member, ...] = ()
    """The members before the group, for context."""
    sealed: bool = True
    previous: Group | None = None
    """The group with its old summary, if the summary is to be written again."""


@dataclass(frozen=True)
class GrowthResult:
    """The groups that were written or written again, the lowest tier first, the master last."""

    groups: list[Group]
    complete: bool
    """False if a new group got no summary: the groups above it wait for another night."""


Growth = Generator[list[Draft], Sequence[str | None], GrowthResult]
"""Yields the drafts of one tier, receives their texts (None: not available now) and returns the result."""
Writer = Callable[[list[Draft]], Sequence[str | None]]
"""Returns a text for each draft."""


def grow(
    pyramid: Pyramid,
    members: Sequence[Member],
    shape: Shape,
    scope: str,
    scope_id: str,
) -> list[Group]:
    """Return the groups that were sealed or written again, with extractive summaries; the master is last.

    Args:
        pyramid: the sealed groups; extended in place.
        members: all live members of tier 0, in order of time.
        shape: the sizes of the groups.
        scope: "topic" or "session".
        scope_id: the id of the topic or session.
    """
    growth = grow_by_tier(
        pyramid=pyramid, members=members, shape=shape, scope=scope, scope_id=scope_id
    )
    return grow_many([growth], lambda drafts: [summarize_draft(d, 60) for d in drafts])[
        0
    ].groups


def grow_many(growths: Sequence[Growth], write: Writer) -> list[GrowthResult]:
    """Grow many pyramids in step, tier by tier, so that each call of `write` is one batch over all of them."""
    done: dict[int, GrowthResult] = {}
    waiting = _advance_growths(growths, dict.fromkeys(range(len(growths))), done)
    while waiting:
        texts = iter(write([draft for drafts in waiting.values() for draft in drafts]))
        answers = {
            number: [next(texts) for _ in drafts] for number, drafts in waiting.items()
        }
        waiting = _advance_growths(growths, answers, done)
    return [done[number] for number in range(len(growths))]


def _advance_growths(
    growths: Sequence[Growth],
    answers: Mapping[int, Sequence[str | None] | None],
    done: dict[int, GrowthResult],
) -> dict[int, list[Draft]]:
    """Send each growth its texts (None starts it); return the next drafts, and add finished growths to `done`."""
    waiting: dict[int, list[Draft]] = {}
    for number, texts in answers.items():
        try:
            waiting[number] = (
                next(growths[number]) if texts is None else growths[number].send(texts)
            )
        except StopIteration as end:
            done[number] = end.value
    return waiting


def grow_by_tier(
    pyramid: Pyramid,
    members: Sequence[Member],
    shape: Shape,
    scope: str,
    scope_id: str,
) -> Growth:
    """Grow a pyramid as `grow` does, but yield the drafts of each tier and receive their texts.

    If a new group gets no text, no new group is added to its tier and nothing is made above it.
    """
    written: list[Group] = []
    level = list(members)
    stale_ids = set[str]()
    tier = 0
    while level and (shape.tiers is None or tier < shape.tiers):
        groups = pyramid.tiers.setdefault(tier, [])
        stale = _draft_stale_groups(
            groups=groups,
            level=level,
            scope=scope,
            scope_id=scope_id,
            stale_ids=stale_ids,
        )
        new = _draft_new_groups(
            pyramid=pyramid,
            tier=tier,
            level=level,
            shape=shape,
            scope=scope,
            scope_id=scope_id,
        )
        drafts = [*stale, *new]
        if tier == 0 and shape.window:
            drafts = _add_context(drafts, level, shape.window)
        texts = (yield drafts) if drafts else []  # one batch for a model
        written += _replace_stale_groups(groups, stale, texts)
        sealed = _make_groups(new, texts[len(stale) :])
        if len(sealed) < len(new):
            return GrowthResult(written, complete=False)
        groups += sealed
        written += sealed
        pyramid.highest[tier] = pyramid.find_next_place(tier) - 1
        level = _make_members(groups, scope, scope_id)
        stale_ids = {
            group.compute_id(scope, scope_id) for group in groups if group.stale
        }
        tier += 1
    complete = yield from _grow_master(
        pyramid=pyramid,
        members=members,
        shape=shape,
        scope=scope,
        scope_id=scope_id,
        written=written,
    )
    return GrowthResult(written, complete)


def _make_groups(drafts: Sequence[Draft], texts: Sequence[str | None]) -> list[Group]:
    """Return a group of each draft; none if one of them got no text."""
    if len(texts) < len(drafts) or None in texts:
        return []
    return [
        _make_group(draft, text)
        for draft, text in zip(drafts, texts, strict=True)
        if text is not None
    ]


def _draft_stale_groups(
    groups: Sequence[Group],
    level: Sequence[Member],
    scope: str,
    scope_id: str,
    stale_ids: set[str],
) -> list[Draft]:
    """Return a draft of each stale group of a tier; one with a stale member (ids in `stale_ids`) waits for it."""
    due = [
        group for group in groups if group.stale and stale_ids.isdisjoint(group.members)
    ]
    if not due:
        return []
    by_id = {member.id: member for member in level}
    drafts: list[Draft] = []
    for group in due:
        members = tuple(by_id[member] for member in group.members)
        drafts.append(
            Draft(
                scope=scope,
                scope_id=scope_id,
                tier=group.tier,
                seq=group.seq,
                members=members,
                previous=group,
            )
        )
    return drafts


def _draft_new_groups(
    pyramid: Pyramid,
    tier: int,
    level: Sequence[Member],
    shape: Shape,
    scope: str,
    scope_id: str,
) -> list[Draft]:
    """Return a draft of each full group of the members that are in no group yet."""
    covered = pyramid.collect_covered_ids(tier)
    free = [member for member in level if member.id not in covered]
    full = list(split_full_groups(free, shape.above if tier else shape.first))
    if tier == 0 and not pyramid.tiers[tier] and len(full) < shape.min_groups:
        return []
    places = enumerate(full, pyramid.find_next_place(tier))
    return [
        Draft(
            scope=scope, scope_id=scope_id, tier=tier, seq=seq, members=tuple(members)
        )
        for seq, members in places
    ]


def _add_context(
    drafts: Sequence[Draft],
    level: Sequence[Member],
    window: int,
) -> list[Draft]:
    """Return the drafts, each with the `window` members right before it as context."""
    positions = {member.id: position for position, member in enumerate(level)}
    with_context: list[Draft] = []
    for draft in drafts:
        first = positions[draft.members[0].id]
        with_context.append(
            replace(draft, context=tuple(level[max(0, first - window) : first]))
        )
    return with_context


def _replace_stale_groups(
    groups: list[Group],
    drafts: Sequence[Draft],
    texts: Sequence[str | None],
) -> list[Group]:
    """Put the rewritten groups in their places and return them; a group without a text stays stale."""
    places = {group.seq: position for position, group in enumerate(groups)}
    written: list[Group] = []
    for draft, text in zip(drafts, texts, strict=False):
        # The texts of the new groups follow.
        if text is not None:
            group = _make_group(draft, text)
            groups[places[group.seq]] = group
            written.append(group)
    return written


def _grow_master(
    pyramid: Pyramid,
    members: Sequence[Member],
    shape: Shape,
    scope: str,
    scope_id: str,
    written: list[Group],
) -> Generator[list[Draft], Sequence[str | None], bool]:
    """Write the master if it is due and add it to `written`; return False if it is new and got no text."""
    tops = _collect_top_members(
        pyramid=pyramid, members=members, scope=scope, scope_id=scope_id
    )
    if not _has_master(pyramid, tops, shape):
        pyramid.master = None
        return True
    old = pyramid.master
    if (
        shape.small
        and old
        and not old.stale
        and old.members == tuple(member.id for member in tops)
    ):
        return True
    draft = Draft(
        scope=scope,
        scope_id=scope_id,
        tier=MASTER,
        seq=0,
        members=tuple(tops),
        sealed=False,
        previous=old,
    )
    (text,) = yield [draft]
    if text is not None:
        pyramid.master = _make_group(draft, text)
    elif old is not None:
        pyramid.master = replace(old, stale=True)
    else:
        return False
    written.append(pyramid.master)
    return True


def _has_master(
    pyramid: Pyramid,
    tops: Sequence[Member],
    shape: Shape,
) -> bool:
    """Return True if a pyramid of this shape has a summary over everything."""
    if not shape.small:
        return shape.master and bool(tops)
    if any(pyramid.tiers.values()):
        return shape.master or pyramid.master is not None
    return len(tops) >= shape.small


def _collect_top_members(
    pyramid: Pyramid,
    members: Sequence[Member],
    scope: str,
    scope_id: str,
) -> list[Member]:
    """Return the members of a master: the groups and members that no group holds, the highest tier first."""
    tops: list[Member] = []
    for tier in sorted(pyramid.tiers, reverse=True):
        above = pyramid.collect_covered_ids(tier + 1)
        tops += [
            m
            for m in _make_members(pyramid.tiers[tier], scope, scope_id)
            if m.id not in above
        ]
    covered = pyramid.collect_covered_ids(0)
    return tops + [member for member in members if member.id not in covered]


def summarize_draft(draft: Draft, max_words: int) -> str:
    """Return an extractive summary of a draft."""
    return build_extractive_summary(
        _make_parts(draft.members), max_words, _make_parts(draft.context)
    )


def _make_group(draft: Draft, text: str) -> Group:
    ids = tuple(m.id for m in draft.members)
    first_at, last_at = compute_span(draft.members)
    return Group(
        tier=draft.tier,
        seq=draft.seq,
        members=ids,
        text=text,
        first_at=first_at,
        last_at=last_at,
        sealed=draft.sealed,
    )


def _make_parts(members: Sequence[Member]) -> list[Utterance]:
    return [Utterance(m.text, m.speaker) for m in members]


def compute_span(members: Sequence[Member]) -> tuple[datetime | None, datetime | None]:
    """Return the earliest and the latest time of some members."""
    starts = [m.at for m in members if m.at]
    ends = [end for m in members if (end := m.last_at or m.at)]
    return min(starts, default=None), max(ends, default=None)


def make_member(group: Group, group_id: str) -> Member:
    """Return a group as a member of the tier above."""
    return Member(
        id=group_id, text=group.text, at=group.first_at, last_at=group.last_at
    )


def _make_members(
    groups: Iterable[Group],
    scope: str,
    scope_id: str,
) -> list[Member]:
    return [make_member(group, group.compute_id(scope, scope_id)) for group in groups]


def build_summary_row(
    group: Group,
    scope: str,
    scope_id: str,
    about: Mapping[str, str | None],
    key: str,
) -> SummaryRow:
    """Return a row of SUMMARIES without a vector; `about` has the `title` and `workspace` of the scope."""
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
