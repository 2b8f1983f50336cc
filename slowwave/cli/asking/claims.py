"""`slowwave claims`: what the memory holds to be so, without a question."""

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from slowwave.cli.common import JsonOption, ReleaseOption, SpaceOption, StoreOption, report_errors
from slowwave.schemas.filters import ClaimFilters, spell_out_filters
from slowwave.schemas.vocabulary import is_shared

if TYPE_CHECKING:
    from slowwave.recall.views.browse import Claim


def make_filter_option(name: str, about: str) -> object:
    """Return a filter's annotation as an option."""
    if name == "superseded":
        return Annotated[bool, typer.Option("--superseded", help=about)]
    return Annotated[str | None, typer.Option(help=about)]


@spell_out_filters(make_filter_option)
def claims(
    count_keywords: Annotated[bool, typer.Option("--keywords", help="Count the keywords of these claims.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many claims, at most.")] = 20,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
    release: ReleaseOption = None,
    **filters: Unpack[ClaimFilters],
) -> None:
    """List the claims that hold, newest first."""
    with report_errors():
        from slowwave.cli.asking.context import open_memory
        from slowwave.context.handed_out import note_listed

        memory = open_memory(store, space, release)
        found = memory.claims(None if count_keywords else limit, **filters)
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
    facts += [f"not {gate}" for gate in claim.shut]
    facts += [claim.observer] if is_shared(claim.observer) else []
    text = " ".join((claim.summary if not claim.detail else f"{claim.summary}: {claim.detail}").split())
    return f"{claim.id[:12]}  {when}{stale}  {text}\n{' ' * 14}{' · '.join(filter(None, facts))}"
