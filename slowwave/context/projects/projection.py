"""A project's facts in files that agents load: a block for CLAUDE.md, AGENTS.md or Cursor's rules, and small pages.

An agent obeys such a file and does not only quote it. So a line of one session alone has no mark that makes it a rule
(`StandingClaim.standing`), no later claim doubts a line, no line addresses its reader, and no text in a line ends the
block or includes a file. The same claims give the same bytes, whatever the release's name and time.
"""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import PurePath

import pyarrow.compute as pc

from slowwave.context.projects.standing import (
    EARLIEST,
    SETTLED,
    StandingClaim,
    addresses_nobody,
    collect_standing_claims,
    join_by_message,
    take_in_turn,
)
from slowwave.context.rendering import ToldPart, add_ids
from slowwave.context.tokens import Tokenizer
from slowwave.recall.release.view import View
from slowwave.schemas.ids import SHORT_ID, compute_content_id
from slowwave.schemas.tables import CLAIMS, PERSONAL, TOPICS
from slowwave.schemas.vocabulary import Status
from slowwave.text.fence import escape_line
from slowwave.text.times.days import format_date
from slowwave.text.words import count_noun

OTHER = "other"
"""Key of the heading of what has no heading of its own."""
HEADINGS = {
    "decision": "Decisions",
    "convention": "Conventions",
    "gotcha": "Gotchas",
    "pattern": "Patterns",
    "preference": "Preferences",
    "fact": "Facts",
    "relationship": "Relations",
    "event": "Events",
    "plan": "Plans",
    OTHER: "Also settled",
}
"""Headings in their order, by category."""
FOLDERS = ("decisions", "gotchas", "people", "projects")
"""Folders of the pages."""
FOLLOWED = (
    "Follow lines that plainly state a rule or decision (surest: noted, or in several sessions). "
    "Others inform; none permits."
)
"""Which lines a reader follows."""
INTRODUCTION = (
    "Distilled by slowwave from earlier sessions: what a person said. Later words hold over these. "
    f"{FOLLOWED} `slowwave show ID` prints where a line comes from."
)
MENTION = re.compile(r"(?<!\S)@\S+")
UNSAFE = re.compile(r"[^\w.-]+")
MOST_LINES = 200
"""Most lines of a page."""

Steers = Callable[[str], bool]
Pages = dict[str, str]
"""Text by path, relative to the folder of the pages."""


def collect_told_claims(
    view: View,
    places: Collection[str],
    categories: Iterable[str],
    steers: Steers,
    min_confidence: float | None = None,
) -> list[StandingClaim]:
    """Return the standing claims that may be written to a file that agents obey; those of one message are one.

    Args:
        view: the release.
        places: names of the workspace; empty for all.
        categories: the wanted categories.
        steers: whether a text addresses its reader.
        min_confidence: least confidence of a claim; see `collect_standing_claims`.
    """
    claims = collect_standing_claims(
        view=view,
        places=places,
        categories=tuple(categories),
        min_confidence=min_confidence,
    )

    def may_tell(text: str) -> bool:
        return addresses_nobody(text) and not steers(text)

    told = [
        claim
        for claim in claims
        if claim.may_instruct and not claim.code_note and not steers(claim.text)
    ]
    return join_by_message(view, told, may_tell)


@dataclass(frozen=True, slots=True)
class PageLine:
    """A line of a file, and its claim."""

    category: str
    text: str
    claim: str = ""
    """The claim's id. Empty if the line is not from a claim."""
    own_words: str = ""
    """The claim's own words."""
    parts: tuple[ToldPart, ...] = ()
    """What each claim says of them, if the line joins several."""

    @property
    def words_by_claim(self) -> dict[str, list[str]]:
        """The words of each claim of the line, by its id; all of them by the first."""
        words = {self.claim: [self.own_words]} if self.claim else {}
        for part, claim in self.parts:
            words.setdefault(claim, []).append(part)
        return words


def render_page(
    title: str,
    introduction: str,
    headings: Mapping[str, str],
    lines: Sequence[PageLine],
) -> str:
    """Return the lines under a title, by category."""
    page = [f"# {make_harmless(title)}", "", introduction]
    for category, heading in headings.items():
        items = [f"- {line.text}" for line in lines if line.category == category]
        page += ["", f"## {heading}", "", *items] if items else []
    return "\n".join(page)


def fill_page(
    title: str,
    introduction: str,
    headings: Mapping[str, str],
    lines: Sequence[PageLine],
    budget: int,
    count: Tokenizer,
) -> tuple[str, list[PageLine]]:
    """Return a page of at most `budget` tokens, filled from each category in turn, and its lines."""
    chosen: list[PageLine] = []
    by_category = (
        [line for line in lines if line.category == category] for category in headings
    )
    for line in islice(take_in_turn(by_category), MOST_LINES):
        if (
            count(
                render_page(
                    title=title,
                    introduction=introduction,
                    headings=headings,
                    lines=[*chosen, line],
                )
            )
            <= budget
        ):
            chosen.append(line)
    return render_page(
        title=title, introduction=introduction, headings=headings, lines=chosen
    ), chosen


def build_block(
    claims: Sequence[StandingClaim],
    title: str,
    budget: int,
    count: Tokenizer,
) -> tuple[str, list[PageLine]]:
    """Return the block about a project, at most `budget` tokens by `count`, and its lines. Without lines, it is empty.

    `claims` are in order of rank within each category.
    """
    lines = [_make_line(claim, title) for claim in claims]
    block, chosen = fill_page(
        title=title,
        introduction=INTRODUCTION,
        headings=HEADINGS,
        lines=lines,
        budget=budget,
        count=count,
    )
    return block if chosen else "", chosen


def build_pages(
    view: View,
    places: Collection[str],
    steers: Steers,
    min_confidence: float | None = None,
) -> tuple[Pages, list[StandingClaim]]:
    """Return the pages of one workspace or of all, and the claims that may be in them.

    Pages in `decisions/` and `gotchas/` are by topic, in `people/` by speaker, and in `projects/` by workspace. No page
    is empty.
    """
    categories = dict.fromkeys((*SETTLED, *PERSONAL))
    claims = collect_told_claims(
        view=view,
        places=places,
        categories=categories,
        steers=steers,
        min_confidence=min_confidence,
    )
    rows = view.read_rows(TOPICS, ["topic_id", "name"])
    groups = _group_by_page(claims, {row["topic_id"]: row["name"] for row in rows})
    pages = Pages()
    for (folder, name), path in _name_pages(groups).items():
        lines = [_make_line(claim, name) for claim in groups[folder, name][:MOST_LINES]]
        pages[path] = render_page(
            title=name, introduction=INTRODUCTION, headings=HEADINGS, lines=lines
        )
    return pages, claims


def _group_by_page(
    claims: Iterable[StandingClaim], topics: Mapping[str, str]
) -> dict[tuple[str, str], list[StandingClaim]]:
    """Return the claims of each page, by its folder and title. A claim may be in several pages."""
    groups: dict[tuple[str, str], list[StandingClaim]] = defaultdict(list)
    for claim in claims:
        if claim.category in ("decision", "gotcha"):
            groups[
                f"{claim.category}s", topics.get(claim.topic or "", "") or "other"
            ].append(claim)
        if claim.category in PERSONAL and claim.source.speaker:
            groups["people", claim.source.speaker].append(claim)
        if claim.workspace:
            groups["projects", claim.workspace].append(claim)
    return groups


def _name_pages(groups: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return a readable path for each page. If two pages would have the same path, both get a part of their hash."""
    paths: dict[tuple[str, str], str] = {}
    for folder, name in sorted(groups):
        plain = PurePath(name.replace("\\", "/")).name if folder == "projects" else name
        paths[folder, name] = (
            f"{folder}/{UNSAFE.sub('-', plain.casefold()).strip('-.')[:60] or 'other'}"
        )
    taken = Counter(paths.values())
    named: dict[tuple[str, str], str] = {}
    for (folder, name), path in paths.items():
        suffix = f"-{compute_content_id(folder, name)[:6]}" if taken[path] > 1 else ""
        named[folder, name] = f"{path}{suffix}.md"
    return named


def _make_line(claim: StandingClaim, title: str) -> PageLine:
    """Return a claim with its day, the reason why it is a rule, and its id; of several claims that of the last one.

    The others have theirs behind their words.
    """
    day = format_date(claim.source.at) if claim.source.at else ""
    speaker = claim.source.speaker if claim.category in PERSONAL else None
    who = f"{speaker}: " if speaker not in (None, title) else ""
    *others, (_, key) = claim.parts or [(claim.text, claim.id)]
    told = add_ids(claim.text, others, claim.source.said_at)
    noted = ", ".join(filter(None, (day, claim.standing, key[:SHORT_ID])))
    text = f"{make_harmless(who + told)} ({noted})"
    return PageLine(
        category=claim.category if claim.category in HEADINGS else OTHER,
        text=text,
        claim=claim.id,
        own_words=claim.text,
        parts=claim.parts,
    )


def explain_empty(
    view: View,
    places: Collection[str],
    since: datetime = EARLIEST,
) -> str:
    """Return why a projection is empty: the project has no claims since then, or none that is sure enough."""
    condition = pc.field("status") == Status.ACTIVE
    if places:
        condition = condition & pc.field("workspace").isin(sorted(places))
    claims = view.read_column(CLAIMS, "observed_at", condition)
    count = sum((at or EARLIEST) >= since for at in claims.to_pylist())
    if not count:
        return "The memory knows nothing about it yet."
    where = f" --project {shlex.quote(next(iter(places)))}" if places else ""
    return f"{count_noun(count, 'claim')}, none sure enough to be shown here: `slowwave show claims{where}`."


def make_harmless(text: str) -> str:
    """Return one line that cannot end a comment, include a file or run a command.

    In CLAUDE.md, `@path` outside code includes a file. In a skill, Claude Code runs the code behind `!`.
    """
    line = escape_line(text).replace("<!--", "<! --").replace("-->", "-- >")
    pieces = line.split("`")
    if len(pieces) % 2 == 0:  # an odd backtick
        pieces = ["".join(pieces)]
    line = "`".join(
        MENTION.sub(r"`\g<0>`", piece) if n % 2 == 0 else piece
        for n, piece in enumerate(pieces)
    )
    return re.sub("(?<=```)!", " !", re.sub("!(?=`)", "! ", line))
