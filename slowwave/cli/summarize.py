"""`slowwave summarize`: what a session, or all of a workspace's, came to."""

from typing import Annotated

import typer

from slowwave.cli.common import (
    OUT,
    JsonOption,
    SpaceOption,
    StoreOption,
    build_overrides,
    import_prefect_quietly,
    load_settings,
    report_errors_and_progress,
)
from slowwave.cli.run import LlmOption, MaxTokens, build_llm_overrides
from slowwave.schemas.errors import UsageError


def summarize(
    session: Annotated[str | None, typer.Argument(help="A session, by the transcript's own id.")] = None,
    workspace: Annotated[str | None, typer.Option(help="Every session of this workspace.", show_default=False)] = None,
    llm: LlmOption = None,
    max_tokens: MaxTokens = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Summarise a session, or every session of a workspace; only what is new is written."""
    import_prefect_quietly()
    with report_errors_and_progress():
        if bool(session) == bool(workspace):
            raise UsageError("name a session, or --workspace, and not both")
        from slowwave.flows.reprocess import Selection
        from slowwave.flows.summarize import summarize_sessions

        settings = load_settings(**build_overrides(store, space, **build_llm_overrides(llm, max_tokens)))
        selection = Selection((session,) if session else (), workspace)
        report, found = summarize_sessions(selection, settings)
        if as_json:
            OUT.print_json(data=[vars(one) for one in found], default=str)
            return
        for one in found:
            when = f"{one.last_at:%Y-%m-%d}  " if one.last_at else ""
            OUT.print(f"{when}{one.title or one.session}", style="bold", highlight=False, soft_wrap=True)
            OUT.print(f"{one.text}\n", highlight=False, soft_wrap=True)
        for note in report.notes:
            OUT.print(f"note: {note}", highlight=False, soft_wrap=True)
        left = "No summary is there: nothing is said, or what should write it could not be asked."
        OUT.print(report.format_verdict() if found else left, highlight=False, soft_wrap=True)
