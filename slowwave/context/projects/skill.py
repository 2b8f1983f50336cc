"""A project's conventions as a skill that agents load: SKILL.md of the Agent Skills format (agentskills.io).

A skill is obeyed, not quoted: its claims are those of `slowwave/context/projects/projection.py`, which a person said.
Traps that an agent found have a section of their own, where a second session bears them out.
Its commands, and the files that change together, are counted in the agents' own calls; a command with a quoted part,
which may hold anything, is told by its plain form or not at all. Each line ends in a comment that names session and
message, as `slowwave show` takes them. Of one release come the same bytes.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePath

from slowwave.context.projects.projection import PageLine, Steers, collect_told_claims, fill_page, make_harmless
from slowwave.context.projects.standing import (
    EARLIEST,
    LIKELY,
    STANDING,
    StandingClaim,
    addresses_nobody,
    collect_standing_claims,
)
from slowwave.context.tokens import Tokenizer
from slowwave.recall.release.tables import Row
from slowwave.recall.release.view import View
from slowwave.recall.views.habits import Habit, find_habits
from slowwave.schemas.ids import SHORT_ID
from slowwave.schemas.tables import OBSERVATIONS
from slowwave.schemas.vocabulary import EXTRACTIVE, ActionKind, CommandRole, HabitKind

SECTIONS = {
    "decision": "Key Decisions",
    "convention": "Conventions",
    "pattern": "Patterns",
    "gotcha": "Gotchas",
    "found": "Found by Agents in More than One Session",
    HabitKind.CO_EDIT: "Files Often Changed Together",
    HabitKind.SEQUENCE: "Common Workflows",
    HabitKind.COMMAND: "Testing and Build",
}
"""In the order they stand in, by category of claim or kind of habit."""
CHECKED = (CommandRole.TEST, CommandRole.BUILD, CommandRole.LINT, CommandRole.FORMAT, CommandRole.RUN)
LOOKS = (ActionKind.READ, ActionKind.SEARCH, ActionKind.EDIT)
LONGEST_NAME, LONGEST_DESCRIPTION = 64, 1024
"""Characters, as the format has it."""
NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
INTRODUCTION = (
    "Distilled by slowwave from earlier sessions: what a person said, what was done over and over, and, marked, what "
    "agents found. Later words hold over these. Lines marked noted, or with sessions, are rules; any other was said "
    "once: it informs, and neither orders nor permits. Behind each line stand its session and message: `slowwave show` "
    "takes both."
)
MOST_HABITS = 10
"""Most habits of each kind."""
MOST_FILES = 3
"""Most files of a claim."""


def collect_skill_lines(
    view: View, places: Collection[str], steers: Steers, min_confidence: float = LIKELY, days: int | None = None
) -> list[PageLine]:
    """Return the lines that may stand in a project's skill, the foremost of each section first.

    Args:
        view: the release.
        places: names of the workspace.
        steers: whether a text addresses who reads it.
        min_confidence: confidence from which a claim is told.
        days: only what was said or done in so many days before the release; None for all.
    """
    since = view.release.created_at - timedelta(days=days) if days is not None else EARLIEST
    # what a person said, and what more than one agent found
    claims = collect_told_claims(view, places, STANDING, steers, min_confidence)
    for claim in collect_standing_claims(view, places, ("gotcha",), min_confidence):
        if not claim.by_person and addresses_nobody(claim.text):
            claims.append(replace(claim, category="found"))
    claims = [claim for claim in claims if (claim.source.at or EARLIEST) >= since]
    columns = ["detail", "files", "observer", "message_ids"]
    more = view.read_by_id(OBSERVATIONS, [claim.id for claim in claims], columns)
    lines = [_tell_claim(claim, more[claim.id]) for claim in claims]
    # what was done over and over
    habits = [
        habit for habit in find_habits(view) if habit.workspace in places and (habit.last_at or EARLIEST) >= since
    ]
    lines += [line for kind in HabitKind for line in _tell_habits(view, habits, kind)]
    return [line for line in lines if not steers(line.text)]


def _tell_claim(claim: StandingClaim, row: Row) -> PageLine:
    """Return a claim with its reasons, the files that it does not name itself, and what makes it a rule."""
    # without a model its reasons are what stands around it
    detail = " ".join(str(row["detail"] or "").split()) if row["observer"] != EXTRACTIVE else ""
    is_told = not detail or detail.casefold() in claim.text.casefold() or not addresses_nobody(detail)
    files = [f"`{file}`" for file in row["files"][:MOST_FILES] if file not in claim.text]
    named = f" ({', '.join(files)})" if files else ""
    rule = f" ({claim.standing})" if claim.standing else ""
    text = f"{claim.text}{'' if is_told else f' — {detail}'}{named}{rule}"
    session = claim.source.short or claim.source.session or ""
    return PageLine(claim.category, _cite(text, session, row["message_ids"][0]), claim.id, claim.text)


def _cite(text: str, session: str, message: str) -> str:
    """Return a text with the session and the message that it comes from, in a comment."""
    return f"{make_harmless(text)} <!-- {make_harmless(session).replace('`', '')}/{message[:SHORT_ID]} -->"


def build_skill(lines: Sequence[PageLine], title: str, budget: int, count: Tokenizer) -> tuple[str, list[PageLine]]:
    """Return the skill's text below its front matter, at most `budget` tokens by `count`, and its lines."""
    return fill_page(title, INTRODUCTION, SECTIONS, lines, budget, count)


def make_skill_name(name: str) -> str:
    """Return a name as the format wants it: a-z, 0-9 and single hyphens, 64 characters at most."""
    last = PurePath(name.replace("\\", "/").rstrip("/")).name
    return NOT_IN_NAMES.sub("-", last.casefold()).strip("-")[:LONGEST_NAME].rstrip("-") or "project"


def build_front_matter(name: str, project: str, lines: Sequence[PageLine]) -> str:
    """Return a skill's front matter: its name, which the format wants to be its folder's, and when it is of use: at
    work on the project. YAML, its text quoted as in JSON.
    """
    kinds = [
        heading.lower() for section, heading in SECTIONS.items() if any(line.category == section for line in lines)
    ]
    listed = f"{', '.join(kinds[:-1])} and {kinds[-1]}" if len(kinds) > 1 else "".join(kinds) or "what was settled"
    text = (
        f"What earlier sessions settled about {project}: {listed}. Use when working on {project}, before changing its "
        "code."
    )
    return f"---\nname: {name}\ndescription: {json.dumps(text[:LONGEST_DESCRIPTION])}\n---\n"


def _tell_habits(view: View, habits: Sequence[Habit], kind: HabitKind) -> list[PageLine]:
    """Return the foremost habits of a kind that tell somebody who works here what to do."""
    shown = [habit for habit in habits if habit.kind == kind and habit.sources and all(map(_is_plain, habit.items))]
    if kind is HabitKind.COMMAND:
        shown = [habit for habit in shown if habit.role in CHECKED]
        shown.sort(key=lambda habit: CHECKED.index(CommandRole(str(habit.role))))
    if kind is HabitKind.SEQUENCE:  # to look before one edits is nothing of this project
        shown = [habit for habit in shown if any(item not in LOOKS for item in habit.items)]
    # of two checkouts the one with more of it; each with its latest source
    foremost: dict[tuple[str, ...], Habit] = {}
    for habit in shown:
        foremost.setdefault(habit.items, habit)
    # each in words, as its kind has it
    lines = []
    for habit in list(foremost.values())[:MOST_HABITS]:
        if kind is HabitKind.CO_EDIT:
            text = f"{' and '.join(f'`{item}`' for item in habit.items)}: {habit.count}"
        elif kind is HabitKind.SEQUENCE:
            text = f"{' → '.join(item if item in LOOKS else f'`{item}`' for item in habit.items)}: {habit.count}"
        else:
            typed = habit.line if habit.line and _is_plain(habit.line) else habit.items[0]
            text = f"{str(habit.role).capitalize()}: `{typed}` ({habit.count})"
        source = habit.sources[0]
        session = view.session_tags.get(source.session, source.session)
        lines.append(PageLine(kind, _cite(text, session, source.id)))
    return lines


def _is_plain(item: str) -> bool:
    """Return whether a file is one word, and a command, also one in a folder, of words that need no quotes."""
    word = r"[\w@%+=:,./-]+"
    is_plain = len(item.split()) == 1 or re.fullmatch(rf"(cd {word} && )?{word}( {word})*", item)
    return bool(is_plain) and "`" not in item
