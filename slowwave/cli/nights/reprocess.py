"""`slowwave reprocess STEP`: a step of the night again, or what lacks it filled in."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.common import (
    OUT,
    SpaceOption,
    StoreOption,
    build_overrides,
    end_run,
    load_settings,
    report_errors_and_progress,
)
from slowwave.cli.nights.run import EngineOption, GistsOption, LlmOption, MaxTokens, build_llm_overrides
from slowwave.schemas.errors import UsageError

if TYPE_CHECKING:
    from slowwave.flows.parts.report import RunReport
    from slowwave.flows.parts.selection import Selection
    from slowwave.flows.summarize import Summary
    from slowwave.schemas.settings import Settings

STEPS = "read, passages, gists, boilerplate, habits, observe, dedupe, supersede, relate, assign, topics or summaries."


def reprocess(
    step: Annotated[str, typer.Argument(help=STEPS)],
    missing: Annotated[
        bool, typer.Option("--missing", help="Only what lacks it (gists, summaries); nothing is made anew.")
    ] = False,
    session: Annotated[
        list[str] | None, typer.Option(help="Sessions, by the transcript's own id.", show_default=False)
    ] = None,
    workspace: Annotated[str | None, typer.Option(help="Sessions of this workspace.", show_default=False)] = None,
    since: Annotated[
        datetime | None, typer.Option(help="Sessions that ended on or after this day.", show_default=False)
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(help="Sessions that began before this day.", show_default=False)
    ] = None,
    llm: LlmOption = None,
    max_tokens: MaxTokens = None,
    engine: EngineOption = None,
    gists: GistsOption = None,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Do a step again, and what depends on it; or fill it in.

    What comes out as before costs nothing after it; without --llm what a model made stands. `topics` are made anew from
    all sessions; `assign` places the claims of some among the topics that there are.
    """
    with report_errors_and_progress():
        from slowwave.flows.parts.selection import Selection
        from slowwave.flows.reprocess import OF_THE_STEP, run_reprocess

        chosen = Selection(tuple(session or ()), workspace, since, until)
        asked = build_llm_overrides(llm, max_tokens, engine)
        given = build_overrides(store, space, gists=gists, **asked)
        settings = load_settings(**given)
        if missing:
            _fill_in(step, chosen, settings)
        else:
            usual = load_settings(**{name: value for name, value in given.items() if name not in OF_THE_STEP})
            report = run_reprocess(step, chosen, settings, usual=usual)
            report.print(OUT)
            end_run(report)


def _fill_in(step: str, chosen: "Selection", settings: "Settings") -> None:
    from slowwave.flows.parts.selection import Selection
    from slowwave.flows.reprocess import backfill_gists
    from slowwave.flows.summarize import summarize_sessions

    if step == "summaries":
        _print_summaries(*summarize_sessions(chosen, settings))
    elif step != "gists":
        raise UsageError(f"nothing called {step!r} can be filled in: gists and summaries can")
    elif chosen != Selection():
        raise UsageError("gists are filled in wherever one lacks: name no sessions")
    else:
        report = backfill_gists(settings)
        report.print(OUT)
        end_run(report)


def _print_summaries(report: "RunReport", found: Iterable["Summary"]) -> None:
    """Print what each session came to, then what became of the run."""
    some = list(found)
    for one in some:
        when = f"{one.last_at:%Y-%m-%d}  " if one.last_at else ""
        OUT.print(f"{when}{one.title or one.session}", style="bold", highlight=False, soft_wrap=True)
        OUT.print(f"{one.text}\n", highlight=False, soft_wrap=True)
    for note in report.collect_notes():
        OUT.print(f"note: {note}", highlight=False, soft_wrap=True)
    left = "No summary is there: nothing is said, or what should write it could not be asked."
    OUT.print(report.format_verdict() if some else left, highlight=False, soft_wrap=True)
    end_run(report)
