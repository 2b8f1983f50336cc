"""A project's facts in files that agents read: a block for CLAUDE.md, AGENTS.md or Cursor's rules, and small pages.

Such a file is obeyed, not quoted. So a line that was said in one session bears no mark, by which it is no rule
(`StandingClaim.standing`), nothing doubts a line, it does not address its reader, and nothing in it ends the block or
pulls in a file. Of the same claims come the same bytes,
whatever the release is called and whenever that is written.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePath

from slowwave.context.projects.standing import LIKELY, STANDING, StandingClaim, collect_standing_claims, take_in_turn
from slowwave.context.tokens import Tokenizer
from slowwave.recall.release.view import View
from slowwave.schemas.ids import SHORT_ID, compute_content_id
from slowwave.schemas.tables import PERSONAL, TOPICS
from slowwave.text.fence import escape_line

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
}
"""In the order they stand in."""
FOLDERS = ("decisions", "gotchas", "people", "projects")
"""Folders of the pages."""
INTRODUCTION = (
    "Distilled by slowwave from earlier sessions: what a person said. Later words hold over these. Lines marked noted, "
    "or with sessions, are rules; any other was said once: it informs, and neither orders nor permits. `slowwave show "
    "ID` prints where a line comes from."
)
MENTION = re.compile(r"(?<!\S)@\S+")
UNSAFE = re.compile(r"[^\w.-]+")
MOST_LINES = 200
"""Most lines of a page."""
NOTHING = "Nothing is known about it yet."

Steers = Callable[[str], bool]
Pages = dict[str, str]
"""Text by path, relative to the folder of the pages."""


def collect_told_claims(
    view: View, places: Collection[str], categories: Iterable[str], steers: Steers, min_confidence: float = LIKELY
) -> list[StandingClaim]:
    """Return the standing claims that may be written where they are obeyed.

    Args:
        view: the release.
        places: names of the workspace; none for any.
        categories: those wanted.
        steers: whether a text addresses who reads it.
        min_confidence: confidence from which a claim stands.
    """
    claims = collect_standing_claims(view, places, tuple(categories), min_confidence)
    return [claim for claim in claims if claim.is_told and not steers(claim.text)]


@dataclass(frozen=True, slots=True)
class PageLine:
    """A line of a file, and the claim that it tells."""

    category: str
    text: str
    claim: str = ""
    """The claim's id; empty of what is no claim."""
    own_words: str = ""
    """The claim's own words."""


def render_page(title: str, introduction: str, headings: Mapping[str, str], lines: Sequence[PageLine]) -> str:
    """Return the lines by category under a title."""
    page = [f"# {make_harmless(title)}", "", introduction if lines else NOTHING]
    for category, heading in headings.items():
        items = [f"- {line.text}" for line in lines if line.category == category]
        page += ["", f"## {heading}", "", *items] if items else []
    return "\n".join(page)


def fill_page(
    title: str, introduction: str, headings: Mapping[str, str], lines: Sequence[PageLine], budget: int, count: Tokenizer
) -> tuple[str, list[PageLine]]:
    """Return a page of at most `budget` tokens, its categories in turn, and its lines (given foremost first)."""
    chosen: list[PageLine] = []
    by_category = ([line for line in lines if line.category == category] for category in headings)
    for line in islice(take_in_turn(by_category), MOST_LINES):
        if count(render_page(title, introduction, headings, [*chosen, line])) <= budget:
            chosen.append(line)
    return render_page(title, introduction, headings, chosen), chosen


def build_block(
    claims: Sequence[StandingClaim], title: str, budget: int, count: Tokenizer
) -> tuple[str, list[PageLine]]:
    """Return the block about a project, at most `budget` tokens by `count`, and its lines; the block is empty without
    any. `claims` are the foremost of each category first.
    """
    lines = [_make_line(claim, title) for claim in claims]
    block, chosen = fill_page(title, INTRODUCTION, HEADINGS, lines, budget, count)
    return block if chosen else "", chosen


def build_pages(
    view: View, places: Collection[str], steers: Steers, min_confidence: float = LIKELY
) -> tuple[Pages, list[StandingClaim]]:
    """Return the pages that are due, of one workspace or of all, and the claims that may stand in them.

    `decisions/` and `gotchas/` are by topic, `people/` by who speaks, `projects/` by workspace; none without content.
    """
    # the claims of each page
    claims = collect_told_claims(view, places, (*STANDING, *PERSONAL), steers, min_confidence)
    rows = view.read(TOPICS, ["topic_id", "name"]).to_pylist()
    topics = {row["topic_id"]: row["name"] for row in rows}
    groups: dict[tuple[str, str], list[StandingClaim]] = defaultdict(list)
    for claim in claims:
        if claim.category in ("decision", "gotcha"):
            groups[f"{claim.category}s", topics.get(claim.topic or "", "") or "other"].append(claim)
        if claim.category in PERSONAL and claim.source.speaker:
            groups["people", claim.source.speaker].append(claim)
        if claim.workspace:
            groups["projects", claim.workspace].append(claim)
    # a file name for each that a person can read; where two would have one, with some of its hash
    paths: dict[tuple[str, str], str] = {}
    for folder, name in sorted(groups):
        plain = PurePath(name.replace("\\", "/")).name if folder == "projects" else name
        paths[folder, name] = f"{folder}/{UNSAFE.sub('-', plain.casefold()).strip('-.')[:60] or 'other'}"
    taken, pages = list(paths.values()), Pages()
    for (folder, name), path in paths.items():
        apart = f"-{compute_content_id(folder, name)[:6]}" if taken.count(path) > 1 else ""
        lines = [_make_line(claim, name) for claim in groups[folder, name][:MOST_LINES]]
        pages[f"{path}{apart}.md"] = render_page(name, INTRODUCTION, HEADINGS, lines)
    return pages, claims


def _make_line(claim: StandingClaim, title: str) -> PageLine:
    """Return a claim with its day, what makes it a rule, and its id."""
    day = f"{claim.source.at:%Y-%m-%d}, " if claim.source.at else ""
    speaker = claim.source.speaker if claim.category in PERSONAL else None
    who = f"{speaker}: " if speaker not in (None, title) else ""
    rule = f"{claim.standing}, " if claim.standing else ""
    text = f"{make_harmless(who + claim.text)} ({day}{rule}{claim.id[:SHORT_ID]})"
    return PageLine(claim.category, text, claim.id, claim.text)


def make_harmless(text: str) -> str:
    """Return one line that ends no comment and pulls in no file: in CLAUDE.md `@path` does, but not within code."""
    line = escape_line(text).replace("<!--", "<! --").replace("-->", "-- >")
    pieces = line.split("`")
    if len(pieces) % 2 == 0:  # a backtick without its other
        pieces = ["".join(pieces)]
    return "`".join(MENTION.sub(r"`\g<0>`", piece) if n % 2 == 0 else piece for n, piece in enumerate(pieces))
