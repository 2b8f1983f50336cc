"""The page of one project: what holds, what is open, its last sessions, topics, and what the last night did to it."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Annotated

import pyarrow.compute as pc

from slowwave.context.projects.briefing import collect_session_lines
from slowwave.context.projects.intentions import Intention, list_intentions
from slowwave.context.projects.standing import (
    STANDING,
    StandingClaim,
    add_question,
    collect_standing_claims,
    group_by_category,
    take_in_turn,
)
from slowwave.context.rendering import Line, date_line
from slowwave.flows.run_page import describe_run
from slowwave.recall.hits import has_words
from slowwave.recall.release.view import View
from slowwave.recall.views.browse import name_sessions
from slowwave.recall.views.dead_ends import list_dead_ends
from slowwave.schemas.tables import PERSONAL, SESSIONS
from slowwave.store.notes import PREFIX
from slowwave.text.workspaces import anchor_workspace, require_workspaces
from slowwave.ui.page import Data, Explorer, Page, read_rows

MOST = 20
"""Most rows of a list, except of what is open and of the night."""
SESSION = ["session_id", "native_id", "title", "messages", "ended_at", "workspace"]


def _describe_open_end(line: Line) -> Data:
    """Describe an open end: its text, who said it, when and in which session."""
    return {
        "text": date_line(line),
        "at": line.source.at,
        "by": "person" if line.source.by == "person" else "agent",
        "session": line.source.session,
    }


def show_project(
    at: Explorer, name: Annotated[str, "A project's folder, or its last part."]
) -> Data:
    """Return a project: rules, what else holds, is open, meant or was left, its last sessions, topics and night.

    A claim that the code no longer bears out stands behind those that hold, and not among the rules. A text stands
    once: `holds` omits the intentions, and `night` lists what no other list has. What the night learnt is marked as new
    in the other lists, and counted under `above`.
    """
    view = at.view
    places = require_workspaces(anchor_workspace(name), view.workspaces)
    intended = list_intentions(view, places)[:MOST]
    meant = [one.text for one in intended]
    rules, holds = _choose_claims(view, places, meant)
    shown = [*meant, *(claim.text for claim in (*rules, *holds))]
    _, open_ends = collect_session_lines(view, places)
    night = describe_run(settings=at.settings, run_id="", live=view, places=places)
    new = {row["id"] for row in night["learnt"]}
    return {
        "name": places[0],
        "rules": [_describe_claim(claim, new) for claim in rules],
        "holds": [_describe_claim(claim, new) for claim in holds],
        "intended": [_describe_intention(one, new) for one in intended],
        "tried": [one.as_dict() for one in list_dead_ends(view, places[0])[:MOST]],
        "open": [
            _describe_open_end(line)
            for line in open_ends.lines
            if not _is_told(line.text, shown)
        ],
        "sessions": _list_sessions(at, places),
        "topics": [
            theme.as_dict() for theme in at.memory.topics() if theme.workspace in places
        ][:MOST],
        "night": _describe_night(night, shown),
    }


def _describe_intention(one: Intention, new: Collection[str]) -> Data:
    """Return an intention as a row; those whose ids are in `new` were learnt in the last night."""
    today = datetime.now().astimezone().date()
    return one.as_dict() | {
        "text": one.told,
        "open": one.is_open(today),
        "moment": one.moment,
        "new": one.id in new,
    }


def _describe_night(
    night: Data,
    shown: Collection[str],
) -> Data:
    """Describe the effect of a night on a project, and count its new claims that are among the texts `shown`."""
    learnt = night["learnt"]
    others = [row for row in learnt if not _is_told(row["summary"], shown)]
    return {
        "run": night["run"],
        "learnt": others,
        "above": len(learnt) - len(others),
        "changed": night["changed"],
    }


def _choose_claims(
    view: View,
    places: Collection[str],
    meant: Sequence[str],
) -> tuple[list[StandingClaim], list[StandingClaim]]:
    """Return a project's rules, and what else holds that is not among the texts `meant`."""
    claims = collect_standing_claims(view, places, (*STANDING, *PERSONAL))
    rules = [claim for claim in claims if claim.standing and not claim.code_note]
    rules = _drop_told(rules, ())[:MOST]
    told = [*meant, *(claim.text for claim in rules)]
    return rules, _drop_told(_order_others(claims), told)[:MOST]


def _order_others(claims: list[StandingClaim]) -> list[StandingClaim]:
    """Return the claims other than rules, of each category in turn, those last that the code does not bear out."""
    others = [claim for claim in claims if not claim.standing or claim.code_note]
    in_turn = take_in_turn(group_by_category(others))
    return sorted(in_turn, key=lambda claim: bool(claim.code_note))


def _is_told(
    text: str,
    told: Collection[str],
) -> bool:
    """Return True if one of the texts in `told` contains a text, word for word."""
    return any(has_words(one, text) for one in told)


def _drop_told(
    claims: Sequence[StandingClaim],
    told: Sequence[str],
) -> list[StandingClaim]:
    """Return the claims whose words neither `told` nor a longer claim contains, in their order."""
    texts = list(told)
    kept = []
    # the longest first: a shorter one may be a part of it
    for claim in sorted(claims, key=lambda claim: -len(claim.text)):
        if _is_told(claim.text, texts):
            continue
        kept.append(claim)
        texts.append(claim.text)
    return sorted(kept, key=claims.index)


def _describe_claim(
    claim: StandingClaim,
    new: Collection[str],
) -> Data:
    """Return a standing claim as a row; those whose ids are in `new` were learnt in the last night."""
    return {
        "claim_id": claim.id,
        "summary": add_question(claim.text, claim.answers),
        "category": claim.category,
        "observed_at": claim.source.at,
        "speaker": claim.source.speaker,
        "by": "person" if claim.by_person else "agent",
        "why": claim.standing,
        "code_note": claim.code_note,
        "new": claim.id in new,
    }


def _list_sessions(at: Explorer, places: Collection[str]) -> list[Data]:
    """Return the last sessions of a project without notes, the latest first."""
    here = pc.field("workspace").isin(sorted(places))
    rows = [
        row
        for row in read_rows(at=at, table=SESSIONS, columns=SESSION, where=here)
        if not row["native_id"].startswith(PREFIX)
    ]
    rows.sort(key=lambda row: (str(row["ended_at"] or ""), row["session_id"]))
    shown = rows[::-1][:MOST]
    names = name_sessions(at.view, [row["session_id"] for row in shown])
    return [row | {"name": names[row["session_id"]]} for row in shown]


PAGES = (Page("/project/{name:path}", show_project, "project.html"),)
