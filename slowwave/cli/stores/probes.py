"""Commands on probes: questions that each night's release must still answer."""

from typing import Annotated

import typer

from slowwave.cli.common import OUT, JsonOption, SpaceOption, StoreOption, load_settings, open_store, report_errors

probes = typer.Typer(no_args_is_help=True, help="Questions that each night's release must still answer.")


@probes.command("add")
def add(
    question: Annotated[str, typer.Argument(help="As you would ask recall.")],
    answer: Annotated[str, typer.Argument(help="Words that must stand in one of the first five hits.")],
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Keep a question with its answer; a night that would lose it is held back."""
    with report_errors():
        from datetime import UTC, datetime

        from slowwave.recall.probes import find_answered
        from slowwave.recall.release.view import View
        from slowwave.store.journal import add_probe

        kept = open_store(store, space)
        settings = load_settings(store, space)
        probe = add_probe(kept.dir, question, answer)
        known = find_answered(View.open(settings.store, settings.space), settings, [probe], datetime.now(UTC))
        now = "the live release answers it" if known else "the live release does not answer it: it gates nothing yet"
        OUT.print(f"Probe {probe.probe_id} is kept; {now}.", highlight=False, soft_wrap=True)


@probes.command("list")
def list_probes(as_json: JsonOption = False, store: StoreOption = None, space: SpaceOption = None) -> None:
    """List the probes."""
    with report_errors():
        from slowwave.store.journal import read_probes

        kept = read_probes(open_store(store, space).dir)
        if as_json:
            OUT.print_json(data=[probe._asdict() for probe in kept])
            return
        for probe in kept:
            typer.echo(f"{probe.probe_id}  {probe.question}  →  {probe.answer}")
        if not kept:
            typer.echo('No probes: `slowwave probes add "QUESTION" "ANSWER"` keeps one.')


@probes.command("remove")
def remove(
    probe: Annotated[str, typer.Argument(metavar="ID", help="Its id, or its first characters.")],
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Remove a probe."""
    with report_errors():
        from slowwave.store.journal import remove_probe

        gone = remove_probe(open_store(store, space).dir, probe)
        OUT.print(f"Probe {gone.probe_id} is removed.", highlight=False)
