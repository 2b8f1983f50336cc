"""The page of what would be injected: a briefing or a block just as an agent gets it, and why each line is in it; and
the comparison of two releases' claims.
"""

from typing import Annotated

from slowwave.context.build import Context
from slowwave.context.tokens import resolve_tokenizer
from slowwave.flows.coverage import describe_backlog
from slowwave.memory import Memory
from slowwave.recall.hits import Hit, Hits
from slowwave.recall.views.compare import compare_releases, read_decisions
from slowwave.store.releases import read_releases
from slowwave.store.snapshot import Snapshot
from slowwave.store.store import Store
from slowwave.text.fence import fence_block
from slowwave.ui.page import ROWS, After, Data, Explorer, Page

MISSED = 8
"""Hits that are told of those that are not in the block."""


def show_injected(
    at: Explorer,
    q: Annotated[str, "The question; without one the briefing at the start of a conversation."] = "",
    workspace: Annotated[str, "The project, by its folder or name."] = "",
    budget: Annotated[int, "Tokens at most; by default the settings'."] = 0,
    automatic: Annotated[str, "Anything, as a hook asks: nothing under the floor is told."] = "",
    release: Annotated[str, "A release (r3) to set beside the live one."] = "",
    other_budget: Annotated[int, "Tokens of the block beside it."] = 0,
) -> Data:
    """Return what an agent would be given, and under each line why; beside it that of another release or budget."""
    at.memory.refuse_unknown_workspace(workspace)
    blocks = [_build_block(at, at.memory, q, workspace, budget, bool(automatic))]
    if release or other_budget:
        other = at.open_release(release) if release else at.memory
        blocks.append(_build_block(at, other, q, workspace, other_budget or budget, bool(automatic)))
    asked: Data = {"q": q, "workspace": workspace, "budget": budget, "automatic": automatic, "release": release}
    asked |= {"other_budget": other_budget}
    return {"asked": asked, "blocks": blocks, "workspaces": sorted(at.view.workspaces)}


def _build_block(at: Explorer, memory: Memory, q: str, workspace: str, budget: int, automatic: bool) -> Data:
    """Return the block's text and tokens, its lines with their reasons, and what just missed it."""
    place, hits = workspace or None, Hits()
    if q:
        block = memory.context(q, budget or None, automatic=automatic, workspace=place)
        hits = memory.recall(q, memory.settings.context.hits, ("message",), automatic=automatic, workspace=place)
    else:
        block = memory.briefing(budget or None, workspace=place)
    lines = _explain_lines(block, hits, memory)
    held = {(line["source"].get("session"), line["source"].get("message")) for line in lines}
    missed = [hit for hit in hits if hit.sources and (hit.sources[0].session, hit.sources[0].message) not in held]
    tokens: dict[str, int] = {}
    for line in lines:
        tokens[line["part"]] = tokens.get(line["part"], 0) + line["tokens"]
    tokens["headings and sources"] = max(0, block.tokens - sum(tokens.values()))
    backlog = "" if q else describe_backlog(at.settings)
    return {
        "release": memory.release.name,
        "text": backlog + fence_block(block.text) if block.text else "",
        "tokens": block.tokens,
        "budget": budget or (memory.settings.context.budget if q else memory.settings.context.briefing_budget),
        "parts": tokens,
        "reason": block.reason,
        "confident": block.confident,
        "lines": lines,
        "missed": [_explain(hits, hit) | {"text": hit.text, "at": hit.observed_at} for hit in missed[:MISSED]],
    }


def _explain_lines(block: Context, hits: Hits, memory: Memory) -> list[Data]:
    """Return the lines of a block, each with its source, tokens and, where recall found it, its trace."""
    count = resolve_tokenizer(None, memory.settings.context.tokenizer)
    found = {(one.session, one.message): hit for hit in reversed(hits) for one in hit.sources[:1]}
    lines = []
    for part in block.parts:
        for line in part.lines:
            source = line.source
            hit = found.get((source.session or "", source.message or ""))
            why = _explain(hits, hit)["why"] if hit else None
            told = {"text": line.text, "tokens": count(line.text), "at": source.at, "why": why}
            lines.append({"part": part.name, **told, "source": source.as_dict()})
    return lines


def _explain(hits: Hits, hit: Hit) -> Data:
    """Return why a hit is where it is."""
    return {
        "id": hit.id,
        "why": {"relevance": hit.relevance, "signals": {}, "places": {}, **hits.trace.get(hit.id, {})},
    }


def compare(
    at: Explorer,
    old: Annotated[str, "The earlier release; by default the one before."] = "",
    new: Annotated[str, "The later release; by default the live one."] = "",
    after: After = 0,
) -> Data:
    """Return the claims that came, changed or went between two releases."""
    store = Store.open(at.settings.store, at.settings.space)
    names = [one.name for one in read_releases(store)]
    later = Snapshot(at.settings.store, at.settings.space, new or None)
    before = f"r{max(1, later.release.number - 1)}"
    earlier = Snapshot(at.settings.store, at.settings.space, old or before)
    found = compare_releases(earlier, later, read_decisions(store))
    return {
        "old": earlier.release.name,
        "new": later.release.name,
        "releases": names[::-1][:ROWS],
        "count": len(found),
        "differences": [one._asdict() for one in found[after : after + ROWS]],
        "next": after + ROWS if len(found) > after + ROWS else None,
    }


PAGES = (Page("/injected", show_injected, "injected.html"), Page("/compare", compare, "compare.html"))
