"""The page Injected: a briefing or block as an agent gets it, with each line's reason; and a diff of two releases."""

from collections import Counter
from collections.abc import Sequence
from copy import copy
from itertools import zip_longest
from typing import Annotated

import pyarrow.compute as pc
from pydantic import ValidationError

from slowwave.context.build import Context
from slowwave.context.projects.briefing import collect_briefing, pack_briefing
from slowwave.context.prompted import INSTRUCTION, build_prompted_context
from slowwave.context.rendering import date_line
from slowwave.context.tokens import resolve_tokenizer
from slowwave.flows.status import describe_backlog
from slowwave.memory import Memory
from slowwave.recall.hits import Hits
from slowwave.recall.views.compare import (
    KINDS,
    Difference,
    compare_releases,
    read_decisions,
)
from slowwave.recall.views.voices import find_voices
from slowwave.schemas.errors import UsageError, explain_invalid
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, SESSIONS, TOPICS
from slowwave.schemas.vocabulary import HOOK_BUDGET
from slowwave.store.publishing import find_release_before, list_kept_releases
from slowwave.store.releases import Snapshot
from slowwave.store.store import Store
from slowwave.text.fence import fence_block
from slowwave.text.workspaces import anchor_workspace
from slowwave.ui.page import (
    ROWS,
    After,
    Data,
    Explorer,
    Page,
    explain_hit,
    read_rows,
)

SAID = ("observed_at", "utc_offset", "speaker", "category")
"""Columns of a claim shown in a comparison."""
EVERY = "*"
"""Stands for all projects."""
MISSED = 8
"""Number of hits listed that are not in the block."""


def show_injected(
    at: Explorer,
    q: Annotated[
        str, "The question; without one the briefing at the start of a conversation."
    ] = "",
    workspace: Annotated[
        str,
        "The project, by its folder or name; * for all. By default all, for a briefing that of the last session.",
    ] = "",
    budget: Annotated[int, "Tokens at most; by default the hook's or settings'."] = 0,
    asked: Annotated[
        str, "Anything: as an agent asks, not a hook; the nearest is always shown."
    ] = "",
    release: Annotated[str, "A release (r3) to set beside the live one."] = "",
    setting: Annotated[str, "A setting of the block beside it: context.hits=20."] = "",
) -> Data:
    """Return the block that a hook would inject, with the reason for each line; the best line first.

    If a release or setting is named, return its block too.
    """
    if not (q or workspace):
        workspace = _find_last_project(at) or EVERY
    place = "" if workspace == EVERY else workspace
    at.memory.refuse_unknown_workspace(place)
    automatic = not asked
    given_budget = budget
    blocks = [
        _build_block(
            at=at,
            memory=at.memory,
            q=q,
            workspace=place,
            budget=budget,
            automatic=automatic,
        )
    ]
    if release or setting:
        other = copy(at.open_release(release) if release else at.memory)
        other.settings = (
            _change_setting(other.settings, setting) if setting else other.settings
        )
        if "budget" in setting:
            budget = other.settings.context.budget if q else 0
        blocks.append(
            _build_block(
                at=at,
                memory=other,
                q=q,
                workspace=place,
                budget=budget,
                automatic=automatic,
            )
        )
    query: Data = {
        "q": q,
        "workspace": workspace,
        "budget": given_budget,
        "asked": asked,
        "release": release,
    }
    query |= {"setting": setting}
    return {
        "asked": query,
        "blocks": blocks,
        "workspaces": _list_projects(at, query["workspace"]),
    }


def _list_projects(
    at: Explorer,
    chosen: str,
) -> list[str]:
    """Return the projects of the release, and the chosen folder of one."""
    names = {*at.view.projects.values(), *({chosen} & at.view.workspaces)}
    return sorted(names)


def _find_last_project(at: Explorer) -> str:
    """Return the project of the last session that has one; empty if none has."""
    of_project = pc.field("workspace").is_valid()
    rows = read_rows(
        at=at, table=SESSIONS, columns=["workspace", "ended_at"], where=of_project
    )
    last = max(rows, key=lambda row: str(row["ended_at"] or ""), default=None)
    return str(last["workspace"]) if last else ""


def _change_setting(settings: Settings, given: str) -> Settings:
    """Change one setting of `context` or `recall`, given as in `context.hits=20`; return the settings.

    Raises:
        UsageError: the setting does not exist, or the value is invalid.
    """
    section, _, rest = given.partition(".")
    name, _, value = rest.partition("=")
    values = settings.model_dump(include={"context", "recall"})
    if name.strip() not in values.get(section.strip(), {}):
        raise UsageError(
            f"there is no setting {given!r:.60} of a block; one is context.hits=20"
        )
    try:
        changed = type(getattr(settings, section.strip()))(
            **values[section.strip()] | {name.strip(): value.strip()}
        )
    except ValidationError as wrong:
        raise UsageError(explain_invalid(wrong)) from None
    return settings.model_copy(update={section.strip(): changed})


def _build_block(
    at: Explorer,
    memory: Memory,
    q: str,
    workspace: str,
    budget: int,
    automatic: bool,
) -> Data:
    """Return the text and tokens of the block for `q` (of the briefing without it), its lines with their reasons, and
    the best hits that are not in it.
    """
    settings = memory.settings.context
    if q:
        room = budget or (HOOK_BUDGET if automatic else settings.budget)
        block, lines, missed = _build_answer(
            memory=memory, q=q, workspace=workspace, room=room, automatic=automatic
        )
    else:
        room = budget or settings.briefing_budget
        block, lines, missed = _build_briefing(memory, workspace, room)
    backlog = "" if q else describe_backlog(at.settings)
    return {
        "release": memory.release.name,
        "text": backlog + fence_block(block.text) if block.text else "",
        "tokens": block.tokens,
        "budget": room,
        "parts": _count_part_tokens(block, lines),
        "reason": block.reason,
        "confident": block.confident,
        "lines": lines,
        "missed": missed[:MISSED],
    }


def _count_part_tokens(block: Context, lines: list[Data]) -> dict[str, int]:
    """Return the tokens of each part of a block; the rest are headings and sources."""
    tokens: dict[str, int] = {}
    for line in lines:
        tokens[line["part"]] = tokens.get(line["part"], 0) + line["tokens"]
    tokens["headings and sources"] = max(0, block.tokens - sum(tokens.values()))
    return tokens


def _build_answer(
    memory: Memory,
    q: str,
    workspace: str,
    room: int,
    *,
    automatic: bool,
) -> tuple[Context, list[Data], list[Data]]:
    """Return the block for a question, its lines with their reasons, and the hits that are not in it."""
    project = workspace or None
    if automatic:
        block = build_prompted_context(
            memory=memory, prompt=q, budget=room, workspace=project
        )
    else:
        block = memory.context(q, room, workspace=project)
    if block.reason == INSTRUCTION:
        return block, [], []
    hits = memory.recall(
        q,
        memory.settings.context.hits,
        ("message",),
        everything=True,
        workspace=project,
    )
    lines = _explain_lines(block, hits, memory)
    shown = {
        (line["source"].get("session"), line["source"].get("message")) for line in lines
    }
    missed = [
        {
            "id": hit.id,
            "why": explain_hit(hits, hit),
            "text": hit.text,
            "at": hit.observed_at,
        }
        for hit in hits
        if hit.sources and (hit.sources[0].session, hit.sources[0].message) not in shown
    ]
    return block, lines, missed


def _build_briefing(
    memory: Memory,
    workspace: str,
    room: int,
) -> tuple[Context, list[Data], list[Data]]:
    """Return the briefing as `Memory.briefing` packs it, its lines with their ranks by kind, and the other lines."""
    collected = collect_briefing(
        memory.reading, anchor_workspace(workspace) if workspace else None
    )
    count = resolve_tokenizer(None, memory.settings.context.tokenizer)
    block = pack_briefing(
        collected,
        room,
        count,
    )
    order = {
        id(line): f"{name} {number} of {len(lines)}"
        for name, lines in zip(
            ("holds", "open", "session", "topic"), collected.kinds, strict=True
        )
        for number, line in enumerate(lines, 1)
    }
    lines = _explain_lines(block, Hits(), memory)
    chosen = [line for part in block.parts for line in part.lines]
    for row, line in zip(lines, chosen, strict=True):
        row["why"] = {
            "relevance": None,
            "signals": {},
            "places": {},
            "order": order[id(line)],
        }
    left = [
        line
        for turn in zip_longest(*collected.kinds)
        for line in turn
        if line and all(line is not row for row in chosen)
    ]
    missed = [
        {
            "id": "",
            "text": date_line(line),
            "at": line.source.at,
            "why": lines[0]["why"] | {"order": order[id(line)]},
        }
        for line in left[: MISSED if lines else 0]
    ]
    return block, lines, missed


def _explain_lines(
    block: Context,
    hits: Hits,
    memory: Memory,
) -> list[Data]:
    """Return the lines of a block, each with its source, its tokens and, if recall found it, its trace.

    The lines of a question's block come best first; those of a briefing stay in their order.
    """
    count = resolve_tokenizer(None, memory.settings.context.tokenizer)
    hit_of = {
        (cited.session, cited.message): hit
        for hit in reversed(hits)
        for cited in hit.sources[:1]
    }
    view = memory.get_view()
    rows = view.read_rows(TOPICS, ["name", "topic_id"]) if view.count(TOPICS) else []
    topics = {row["name"]: row["topic_id"] for row in rows}
    lines = []
    for part in block.parts:
        shown = part.lines
        if part.name == "memories":
            shown = tuple(
                sorted(shown, key=lambda line: (not line.rule, -line.relevance))
            )
        for line in shown:
            source = line.source
            hit = hit_of.get((source.session or "", source.message or ""))
            why = explain_hit(hits, hit) if hit else None
            facts = {
                "text": date_line(line),
                "tokens": count(date_line(line)),
                "at": source.at,
                "why": why,
            }
            facts["topic_id"] = topics.get(source.topic or "")
            lines.append({"part": part.name, **facts, "source": source.as_dict()})
    return lines


def compare(
    at: Explorer,
    old: Annotated[str, "The earlier release; by default the one before."] = "",
    new: Annotated[str, "The later release; by default the live one."] = "",
    after: After = 0,
) -> Data:
    """Return the claims that were added, changed or removed between two releases."""
    store = Store.open(at.settings.store, at.settings.space)
    kept = list_kept_releases(store)
    later = Snapshot(at.settings.store, at.settings.space, new or None)
    before = old or find_release_before(store, later.release) or later.release.name
    earlier = Snapshot(at.settings.store, at.settings.space, before)
    differences = compare_releases(earlier, later, read_decisions(store))
    return {
        "old": earlier.release.name,
        "new": later.release.name,
        "releases": [one.name for one in kept][::-1][:ROWS],
        "count": len(differences),
        "kinds": Counter(difference.kind for difference in differences),
        "differences": _describe_differences(
            at, differences[after : after + ROWS], (later, earlier)
        ),
        "next": after + ROWS if len(differences) > after + ROWS else None,
    }


def _describe_differences(
    at: Explorer,
    differences: Sequence[Difference],
    releases: Sequence[Snapshot],
) -> list[Data]:
    """Return the differences with the day and the speaker of each claim, from the first release that has it."""
    ids = [one.claim_id for one in differences]
    named = pc.field("claim_id").isin(ids)
    columns = ["claim_id", *SAID]
    claims: dict[str, Data] = {}
    for release in releases if ids else ():
        for row in release.read(CLAIMS, columns, named).to_pylist():
            claims.setdefault(row["claim_id"], row)
    voices = find_voices(at.view, ids)
    return [
        {name: claims.get(one.claim_id, {}).get(name) for name in SAID}
        | {"by_whom": voices.get(one.claim_id, ""), **one._asdict()}
        | {"place": KINDS.index(one.kind)}
        for one in differences
    ]


PAGES = (
    Page("/injected", show_injected, "injected.html"),
    Page("/compare", compare, "compare.html"),
)
