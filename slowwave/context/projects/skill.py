"""What a project goes by, as a skill that agents load: SKILL.md of the Agent Skills format (agentskills.io).

A skill is obeyed, not quoted: its claims are those of `slowwave/context/projects/projection.py`, which a person said.
Traps that an agent found have a section of their own, where a second session bears them out.
Its commands, and the files that change together, are counted in the agents' own calls; a command with a quoted part,
which may hold anything, is told by its plain form or not at all. Each line ends in a comment that names session and
message, as `slowwave show` takes them. Of one release come the same bytes.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice, zip_longest
from pathlib import PurePath

from slowwave.context.projects.projection import MOST_LINES, Steers, collect_told_claims, make_harmless
from slowwave.context.projects.standing import (
    LIKELY,
    STANDING,
    addresses_nobody,
    collect_standing_claims,
)
from slowwave.context.tokens import Tokenizer
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
"""Of each kind."""
MOST_FILES = 3
"""Of a claim."""


@dataclass(frozen=True, slots=True)
class SkillLine:
    """A line, and where it comes from."""

    section: str
    text: str
    session: str
    """Its tag, as blocks have it."""
    message: str
    """The first characters of its id."""
    claim: str | None = None
    """The id of the claim that it tells; None of a habit."""
    said: str = ""
    """The claim's own words."""


def collect_skill_lines(
    view: View, places: Collection[str], steers: Steers, least: float = LIKELY, days: int | None = None
) -> list[SkillLine]:
    """Return the lines that may stand in a project's skill, the foremost of each section first.

    Args:
        view: the release.
        places: names of the workspace.
        steers: whether a text addresses who reads it.
        least: confidence from which a claim is told.
        days: only what was said or done in so many days before the release; None for all.
    """
    since = view.release.created_at - timedelta(days=days) if days is not None else None
    claims = collect_told_claims(view, places, STANDING, steers, least)
    by_agents = [
        replace(item, category="found")
        for item in collect_standing_claims(view, places, ("gotcha",), least)
        if not item.by_person and addresses_nobody(item.text)
    ]
    claims += by_agents
    claims = [item for item in claims if since is None or (item.source.at is not None and item.source.at >= since)]
    habits = [item for item in find_habits(view) if item.workspace in places]
    habits = [item for item in habits if since is None or (item.last_at is not None and item.last_at >= since)]
    # with its reasons what a model wrote of a claim; without one they are what stands around it
    more = view.read_by_id(OBSERVATIONS, [claim.id for claim in claims], ["detail", "files", "observer", "message_ids"])
    # with its reason and the files that it does not name itself
    lines = []
    for claim in claims:
        row = more[claim.id]
        detail = " ".join(str(row["detail"] or "").split()) if row["observer"] != EXTRACTIVE else ""
        files = [file for file in row["files"][:MOST_FILES] if file not in claim.text]
        because = (
            f" — {detail}"
            if detail and addresses_nobody(detail) and detail.casefold() not in claim.text.casefold()
            else ""
        )
        named = f" ({', '.join(f'`{file}`' for file in files)})" if files else ""
        rule = f" ({claim.standing})" if claim.standing else ""
        text = make_harmless(f"{claim.text}{because}{named}{rule}")
        session = claim.source.short or claim.source.session or ""
        message = row["message_ids"][0][:SHORT_ID]
        lines.append(SkillLine(claim.category, text, session, message, claim.id, claim.text))
    lines += [line for kind in HabitKind for line in _tell_habits(view, habits, kind)]
    return [line for line in lines if not steers(line.text)]


def build_skill(lines: Sequence[SkillLine], title: str, budget: int, count: Tokenizer) -> tuple[str, list[SkillLine]]:
    """Return the skill's text below its front matter, each section in turn as far as the budget goes; and its lines.

    Args:
        lines: the foremost of each section first.
        title: the project's name.
        budget: tokens by `count`, at most.
        count: tokens of a text.
    """
    chosen: list[SkillLine] = []
    by_section = ([line for line in lines if line.section == section] for section in SECTIONS)
    in_turn = (line for turn in zip_longest(*by_section) for line in turn if line is not None)
    for line in islice(in_turn, MOST_LINES):
        if count(_render([*chosen, line], title)) <= budget:
            chosen.append(line)
    return _render(chosen, title), chosen


def make_skill_name(wanted: str) -> str:
    """Return a name as the format wants it: a-z, 0-9 and single hyphens, 64 characters at most."""
    last = PurePath(wanted.replace("\\", "/").rstrip("/")).name
    return NOT_IN_NAMES.sub("-", last.casefold()).strip("-")[:LONGEST_NAME].rstrip("-") or "project"


def build_front_matter(name: str, project: str, lines: Sequence[SkillLine]) -> str:
    """Return a skill's front matter: its name, which the format wants to be its folder's, and when it is of use: at
    work on the project. YAML, its text quoted as in JSON.
    """
    kinds = [heading.lower() for section, heading in SECTIONS.items() if any(line.section == section for line in lines)]
    listed = f"{', '.join(kinds[:-1])} and {kinds[-1]}" if len(kinds) > 1 else "".join(kinds) or "what was settled"
    text = (
        f"What earlier sessions settled about {project}: {listed}. Use when working on {project}, before changing its "
        "code."
    )
    return f"---\nname: {name}\ndescription: {json.dumps(text[:LONGEST_DESCRIPTION])}\n---\n"


def _tell_habits(view: View, habits: Sequence[Habit], kind: HabitKind) -> list[SkillLine]:
    """Return the foremost habits of a kind that tell somebody who works here what to do."""
    some = [each for each in habits if each.kind == kind and each.sources and all(map(_is_plain, each.items))]
    if kind is HabitKind.COMMAND:
        some = [each for each in some if each.role in CHECKED]
        some.sort(key=lambda each: CHECKED.index(CommandRole(str(each.role))))
    if kind is HabitKind.SEQUENCE:  # to look before one edits is nothing of this project
        some = [each for each in some if any(item not in LOOKS for item in each.items)]
    first = {each.items: each for each in reversed(some)}  # of two checkouts the one with more of it
    some = [each for each in some if first[each.items] is each][:MOST_HABITS]
    # what each says, with its latest source
    lines: list[SkillLine] = []
    for habit in some:
        if kind is HabitKind.CO_EDIT:
            text = f"{' and '.join(f'`{item}`' for item in habit.items)}: {habit.count}"
        elif kind is HabitKind.SEQUENCE:
            text = f"{' → '.join(item if item in LOOKS else f'`{item}`' for item in habit.items)}: {habit.count}"
        else:
            typed = habit.line if habit.line and _is_plain(habit.line) else habit.items[0]
            text = f"{str(habit.role).capitalize()}: `{typed}` ({habit.count})"
        source = habit.sources[0]
        tag = view.session_tags.get(source.session, source.session)
        lines.append(SkillLine(kind, make_harmless(text), tag, source.id[:SHORT_ID]))
    return lines


def _is_plain(item: str) -> bool:
    """Return whether a file is one word, and a command, also one in a folder, of words that need no quotes."""
    word = r"[\w@%+=:,./-]+"
    is_plain = len(item.split()) == 1 or re.fullmatch(rf"(cd {word} && )?{word}( {word})*", item)
    return bool(is_plain) and "`" not in item


def _render(lines: Sequence[SkillLine], title: str) -> str:
    text_lines = [f"# {make_harmless(title)}", "", INTRODUCTION if lines else "Nothing stands about it yet."]
    for section, heading in SECTIONS.items():
        some = [
            f"- {line.text} <!-- {make_harmless(line.session).replace('`', '')}/{line.message} -->"
            for line in lines
            if line.section == section
        ]
        text_lines += ["", f"## {heading}", "", *some] if some else []
    return "\n".join(text_lines)
