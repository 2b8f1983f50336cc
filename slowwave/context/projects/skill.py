"""A project's conventions as a skill that agents load: SKILL.md of the Agent Skills format (agentskills.io).

An agent obeys a skill and does not only quote it, so its claims are a person's, as in
`slowwave/context/projects/projection.py`. Traps that agents found in at least two sessions have a section of their own.
Commands, and files that change together, are counted in the agents' calls. A quoted part of a command may hold
anything, so such a command is shown in its plain form or left out. Each line ends with a comment that names session and
message for `slowwave show`. The same release gives the same bytes.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import PurePath

from slowwave.context.projects.projection import (
    FOLLOWED,
    OTHER,
    PageLine,
    Steers,
    collect_told_claims,
    fill_page,
    make_harmless,
)
from slowwave.context.projects.standing import (
    EARLIEST,
    SETTLED,
    StandingClaim,
    addresses_nobody,
    collect_standing_claims,
)
from slowwave.context.tokens import Tokenizer
from slowwave.recall.release.view import View
from slowwave.recall.views.habits import LOOKS, Habit, find_habits
from slowwave.schemas.ids import SHORT_ID
from slowwave.schemas.rows import ClaimRow
from slowwave.schemas.tables import CLAIMS
from slowwave.schemas.vocabulary import (
    EXTRACTIVE,
    ActionKind,
    CommandRole,
    HabitKind,
)
from slowwave.text.fence import escape_line
from slowwave.text.times.days import format_day
from slowwave.text.times.relative_days import add_days
from slowwave.text.words import extract_content_words

SECTIONS = {
    "decision": "Key Decisions",
    "convention": "Conventions",
    "pattern": "Patterns",
    "gotcha": "Gotchas",
    "preference": "Preferences",
    OTHER: "Also Settled",
    "found": "Found by Agents in More than One Session",
    HabitKind.CO_EDIT: "Files Often Changed Together",
    HabitKind.SEQUENCE: "Common Workflows",
    HabitKind.COMMAND: "Testing and Build",
}
"""Headings in their order, by category of claim or kind of habit."""
CHECKED = (
    CommandRole.TEST,
    CommandRole.BUILD,
    CommandRole.LINT,
    CommandRole.FORMAT,
    CommandRole.RUN,
)
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
"""Most characters in the format."""
NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
INTRODUCTION = (
    "Distilled by slowwave from earlier sessions: what a person said, what was done over and over, and, marked, what "
    "agents found, each with its day. Of two lines on one matter the later holds, and what is said now holds over "
    f"both. {FOLLOWED} A line ends in its session and message. If it joins several claims, each ends in its id in "
    "brackets. `slowwave show` takes all of these."
)
MOST_HABITS = 10
"""Most habits of each kind."""
WENT = 0.5
"""Least share of a command's runs that went well."""
MOST_FILES = 3
"""Most files of a claim."""


def collect_skill_lines(
    view: View,
    places: Collection[str],
    steers: Steers,
    min_confidence: float | None = None,
    days: int | None = None,
) -> list[PageLine]:
    """Return the lines for a project's skill, in order of rank within each section.

    Args:
        view: the release.
        places: names of the workspace.
        steers: whether a text addresses its reader.
        min_confidence: least confidence of a claim; see `collect_standing_claims`.
        days: include only claims and habits of so many days before the release; None for all.
    """
    since = find_first_day(view, days)
    # claims of persons, and traps that agents found in several sessions
    claims = collect_told_claims(
        view=view,
        places=places,
        categories=SETTLED,
        steers=steers,
        min_confidence=min_confidence,
    )
    for claim in collect_standing_claims(
        view=view, places=places, categories=("gotcha",), min_confidence=min_confidence
    ):
        is_told = claim.by_person or claim.code_note
        if not is_told and addresses_nobody(claim.text):
            claims.append(replace(claim, category="found"))
    claims = [claim for claim in claims if (claim.source.at or EARLIEST) >= since]
    columns = ["detail", "files", "observer", "message_ids"]
    more = view.read_by_id(CLAIMS, [claim.id for claim in claims], columns)
    lines = [_make_claim_line(claim, more[claim.id]) for claim in claims]
    habits = [
        habit
        for habit in find_habits(view)
        if habit.workspace in places and (habit.last_at or EARLIEST) >= since
    ]
    lines += [
        line for kind in HabitKind for line in _make_habit_lines(view, habits, kind)
    ]
    return [line for line in lines if not steers(line.text)]


def find_first_day(view: View, days: int | None) -> datetime:
    """Return the time so many days before the release; None is the earliest time."""
    return (
        view.release.created_at - timedelta(days=days) if days is not None else EARLIEST
    )


def _make_claim_line(claim: StandingClaim, row: ClaimRow) -> PageLine:
    """Return a claim with its reasons, the files that it does not name itself, its day, and why it is a rule."""
    # only a model's detail is a reason; that of rules is a neighbouring sentence
    detail = (
        " ".join(str(row["detail"] or "").split())
        if row["observer"] != EXTRACTIVE
        else ""
    )
    told = {*extract_content_words(claim.text)}
    says_more = not told.issuperset(extract_content_words(detail))
    is_left_out = not says_more or not addresses_nobody(detail)
    files = [
        f"`{file}`" for file in row["files"][:MOST_FILES] if file not in claim.text
    ]
    named = f" ({', '.join(files)})" if files else ""
    at = claim.source.said_at
    day = format_day(at) if at else ""
    noted = ", ".join(filter(None, (day, claim.standing)))
    reason = "" if is_left_out else f" — {add_days(detail, at)}"
    text = f"{claim.dated_text}{reason}{named}{f' ({noted})' if noted else ''}"
    session = claim.source.short or claim.source.session or ""
    cited = _cite(text, session, row["message_ids"][0])
    return PageLine(
        category=claim.category if claim.category in SECTIONS else OTHER,
        text=cited,
        claim=claim.id,
        own_words=claim.text,
        parts=claim.parts,
    )


def _cite(
    text: str,
    session: str,
    message: str,
) -> str:
    """Return a text followed by its session and message in a comment."""
    return f"{make_harmless(text)} <!-- {make_harmless(session).replace('`', '')}/{message[:SHORT_ID]} -->"


def build_skill(
    lines: Sequence[PageLine],
    title: str,
    budget: int,
    count: Tokenizer,
    empty: str,
) -> tuple[str, list[PageLine]]:
    """Return the skill's text below its front matter, at most `budget` tokens by `count`, and its lines.

    Without lines it says `empty` in place of the introduction.
    """
    introduction = INTRODUCTION if lines else empty
    return fill_page(
        title=title,
        introduction=introduction,
        headings=SECTIONS,
        lines=lines,
        budget=budget,
        count=count,
    )


def make_skill_name(name: str) -> str:
    """Return a name in the format's alphabet: a-z, 0-9 and single hyphens, at most 64 characters."""
    last = PurePath(name.replace("\\", "/").rstrip("/")).name
    return (
        NOT_IN_NAMES.sub("-", last.casefold()).strip("-")[:LONGEST_NAME].rstrip("-")
        or "project"
    )


def build_front_matter(
    name: str,
    project: str,
    lines: Sequence[PageLine],
) -> str:
    """Return a skill's front matter: its name, which must be that of its folder, and when to use it. It is YAML, with
    the text quoted as in JSON.
    """
    kinds = [
        heading.lower()
        for section, heading in SECTIONS.items()
        if section != OTHER and any(line.category == section for line in lines)
    ]
    listed = ", ".join(kinds) or "what was settled"
    shown = escape_line(project)
    text = (
        f"What earlier sessions settled about {shown}: {listed}. "
        f"Use when working on {shown}, before changing anything in it."
    )
    return f"---\nname: {name}\ndescription: {json.dumps(text[:LONGEST_DESCRIPTION])}\n---\n"


def _make_habit_lines(
    view: View,
    habits: Sequence[Habit],
    kind: HabitKind,
) -> list[PageLine]:
    """Return the most frequent habits of a kind that are useful to somebody who works on the project."""
    # of two checkouts, the habit of the one that has it more often is kept
    foremost: dict[tuple[str, ...], Habit] = {}
    for habit in _select_useful_habits(habits, kind):
        foremost.setdefault(habit.items, habit)
    lines = []
    for habit in list(foremost.values())[:MOST_HABITS]:
        source = habit.sources[0]
        session = view.session_tags.get(source.session, source.session)
        lines.append(
            PageLine(kind, _cite(_format_habit(habit, kind), session, source.id))
        )
    return lines


def _select_useful_habits(habits: Sequence[Habit], kind: HabitKind) -> list[Habit]:
    """Return the habits of a kind from which somebody new sees what to do.

    Commands have a role, are ordered by it, and mostly went well. Of sequences only those of a command after an edit
    are kept, without version control: the others show how an agent worked.
    """
    useful = [
        habit
        for habit in habits
        if habit.kind == kind and habit.sources and all(map(_is_plain, habit.items))
    ]
    if kind is HabitKind.COMMAND:
        useful = [
            habit
            for habit in useful
            if habit.role in CHECKED and (habit.share is None or habit.share >= WENT)
        ]
        useful.sort(key=lambda habit: CHECKED.index(CommandRole(str(habit.role))))
    if kind is HabitKind.SEQUENCE:
        kept = {habit.items[0] for habit in habits if habit.role == CommandRole.VCS}
        useful = [
            habit
            for habit in useful
            if habit.items[:-1] == (ActionKind.EDIT,)
            and habit.items[-1] not in {*LOOKS, *kept}
        ]
    return useful


def _format_habit(habit: Habit, kind: HabitKind) -> str:
    """Return a habit as text, with its count."""
    if kind is HabitKind.CO_EDIT:
        return f"{' and '.join(f'`{item}`' for item in habit.items)}: {habit.count}"
    if kind is HabitKind.SEQUENCE:
        return f"After an edit: `{habit.items[-1]}` ({habit.count})"
    typed = habit.line if habit.line and _is_plain(habit.line) else habit.items[0]
    return f"{str(habit.role).capitalize()}: `{typed}` ({habit.count})"


def _is_plain(item: str) -> bool:
    """Return True for a file name of one word, and for a command of words that need no quotes, possibly after `cd`."""
    word = r"[\w@%+=:,./-]+"
    is_plain = len(item.split()) == 1 or re.fullmatch(
        rf"(cd {word} && )?{word}( {word})*", item
    )
    return bool(is_plain) and "`" not in item
