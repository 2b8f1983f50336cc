"""`slowwave claims`: what the memory holds to be so, without a question."""

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.common import JsonOption, ReleaseOption, SpaceOption, StoreOption, report_errors

if TYPE_CHECKING:
    from slowwave.recall.browse import Claim


def claims(
    workspace: Annotated[str | None, typer.Option(help="Only what was said in this workspace.")] = None,
    category: Annotated[str | None, typer.Option(help="Only claims of this category, as decision.")] = None,
    topic: Annotated[str | None, typer.Option(help="Only claims of the topic of this name or id.")] = None,
    keyword: Annotated[str | None, typer.Option(help="Only claims with this keyword.")] = None,
    count_keywords: Annotated[bool, typer.Option("--keywords", help="Count the keywords of these claims.")] = False,
    min_confidence: Annotated[float | None, typer.Option(help="Only claims that are so sure, 0 to 1.")] = None,
    since: Annotated[str | None, typer.Option(help="Only what was said from this date or time on (ISO, UTC).")] = None,
    limit: Annotated[int, typer.Option(help="How many claims, at most.")] = 20,
    superseded: Annotated[bool, typer.Option("--superseded", help="Also what a later claim has changed.")] = False,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
    release: ReleaseOption = None,
) -> None:
    """List the claims that hold, newest first."""
    with report_errors():
        from slowwave.cli.context import open_memory
        from slowwave.context.handed_out import note_listed

        memory = open_memory(store, space, release)
        found = memory.claims(
            workspace=workspace,
            category=category,
            topic=topic,
            keyword=keyword,
            min_confidence=min_confidence,
            since=since,
            limit=None if count_keywords else limit,
            superseded=superseded,
        )
        if count_keywords:
            counts = Counter(word for claim in found for word in claim.keywords).most_common(limit)
            told = (f"{count:>5,}  {word}" for word, count in counts)
            typer.echo(json.dumps(dict(counts), ensure_ascii=False, indent=2) if as_json else "\n".join(told))
            return
        note_listed(memory.root / memory.space, found)
        if as_json:
            typer.echo(json.dumps([claim.as_dict() for claim in found], ensure_ascii=False, indent=2))
            return
        typer.echo("\n".join(map(_format_claim, found)) or "No claims.")


def _format_claim(claim: "Claim") -> str:
    """Return the claim in a line, and in a second what is known of it."""
    when = f"{claim.observed_at:%Y-%m-%d}" if claim.observed_at else "undated   "
    stale = f" ({claim.status})" if claim.superseded_by else ""
    said = f"{claim.sessions} sessions" if claim.sessions > 1 else f"session {claim.session}"
    facts = [claim.category, f"{claim.confidence:.0%} sure", said, claim.speaker, claim.topic, claim.workspace]
    facts += [", ".join(claim.files[:3])] if claim.files else []
    text = " ".join((claim.summary if not claim.detail else f"{claim.summary}: {claim.detail}").split())
    return f"{claim.id[:12]}  {when}{stale}  {text}\n{' ' * 14}{' · '.join(filter(None, facts))}"
