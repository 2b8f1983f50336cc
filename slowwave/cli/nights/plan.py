"""`slowwave plan`: what a night would ask the language model, before it does."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table

from slowwave.cli.common import (
    OUT,
    JsonOption,
    SpaceOption,
    StoreOption,
    build_overrides,
    load_settings,
    report_errors,
)
from slowwave.cli.nights.run import GistsOption, LlmOption, MaxTokens, Paths, build_llm_overrides

if TYPE_CHECKING:
    from slowwave.tasks.plan import Estimate


def plan(
    paths: Paths = None,
    llm: LlmOption = None,
    max_tokens: MaxTokens = None,
    gists: GistsOption = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Say what a night would cost: tokens, time and money.

    And prompts and cache hits; nothing is generated or written.
    """
    with report_errors():
        from slowwave.flows.plan import plan_night

        settings = load_settings(**build_overrides(store, space, gists=gists, **build_llm_overrides(llm, max_tokens)))
        estimate = plan_night([path.expanduser().absolute() for path in paths or []], settings)
        if as_json:
            OUT.print_json(data=asdict(estimate))
        else:
            _print_estimate(estimate)


def _print_estimate(estimate: "Estimate") -> None:
    table = Table("step", title=f"{estimate.model}", title_justify="left")
    for heading in ("units", "prompts", "from the cache", "prompt tokens", "answer tokens (expected)"):
        table.add_column(heading, justify="right")
    for line in estimate.lines:
        about = "about " if line.estimated else ""
        numbers = (line.units, line.requests, line.cached, line.prompt_tokens, line.answer_tokens)
        table.add_row(line.step, *(f"{about if n else ''}{n:,}" for n in numbers))
    said = f"{estimate.messages:,} messages in {estimate.sessions:,} sessions are pending"
    OUT.print(f"{said}, {estimate.skipped:,} of them too short." if estimate.skipped else f"{said}.", highlight=False)
    if estimate.lines:
        OUT.print(table)
        took = "unknown" if estimate.seconds is None else _format_duration(estimate.seconds)
        tokens = f"{estimate.prompt_tokens:,} prompt and {estimate.answer_tokens:,} answer tokens"
        OUT.print(f"In all {tokens}; time: {took}; money: ${estimate.usd:,.2f}", highlight=False)
    for note in estimate.notes:
        OUT.print(f"note: {note}", highlight=False, soft_wrap=True)


def _format_duration(seconds: float) -> str:
    """Return seconds as a person says them."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5_400 else f"about {seconds / 3600:.1f} h"
