"""`slowwave remember`: a note that the next night reads."""

import sys
from typing import Annotated

import typer

from slowwave.cli.common import OUT, SpaceOption, StoreOption, load_settings, report_errors


def remember(
    text: Annotated[str, typer.Argument(help="What to remember, in words that stand alone; - reads standard input.")],
    workspace: Annotated[str | None, typer.Option(help="The project that it belongs to.", show_default=False)] = None,
    of_agent: Annotated[bool, typer.Option("--agent", help="An agent's words, as all are without a terminal.")] = False,
    speaker: Annotated[str | None, typer.Option(help="Who says it.", show_default=False)] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="A word to keep with it; may be repeated.", show_default=False)
    ] = None,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Write down a note.

    The next night reads it, and from then on it is recalled like anything said. Secrets become placeholders. Where no
    terminal is at hand it is an agent's, until `slowwave include` confirms it.
    """
    with report_errors():
        from slowwave.schemas.errors import UsageError
        from slowwave.store.notes import write_note
        from slowwave.store.workspaces import anchor_workspace

        settings = load_settings(store, space)
        said = sys.stdin.read() if text == "-" else text
        place = anchor_workspace(workspace) if workspace else None
        folder = settings.store / settings.space
        of_person = not of_agent and any(one.isatty() for one in (sys.stdin, sys.stdout, sys.stderr))
        try:
            session = write_note(
                folder,
                said,
                workspace=place,
                of_person=of_person,
                speaker=speaker,
                tags=tag or (),
                redact=settings.redact,
            )
        except OSError as refused:
            raise UsageError(f"not noted: {refused}") from None
        whose = "" if of_person else ", as an agent's word"
        OUT.print(f"Noted as {session}{whose}; recall knows it after the next night.", highlight=False, soft_wrap=True)
